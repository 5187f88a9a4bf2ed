//! The known addresses of peers: their endpoints, and the addresses of their lanes. A caller at one of them has places of its
//! own in the bounds on handshakes, over TCP and over QUIC, so that a flood from elsewhere takes nothing from peers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use trunkline_units::source;

use crate::keys::PublicKey;

/// The maximum number of addresses that are remembered of a peer that dials.
const PER_PEER: usize = 4;

/// Whether a caller has the address of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Caller {
    /// The address is a peer's endpoint, or a lane came from it before.
    Known,
    /// Any other address.
    Unknown,
}

/// The known addresses. The control thread changes them; workers, which have copies that share them, look callers up.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownAddresses(Arc<RwLock<Addresses>>);

#[derive(Debug, Default)]
struct Addresses {
    endpoints: BTreeSet<IpAddr>,
    /// The last addresses of each peer's lanes, the latest first.
    callers: BTreeMap<PublicKey, VecDeque<IpAddr>>,
}

impl KnownAddresses {
    /// Replaces the endpoints.
    pub(crate) fn set_endpoints(&self, addresses: impl Iterator<Item = IpAddr>) {
        self.write().endpoints = addresses.map(source).collect();
    }

    /// Removes peers that no longer exist.
    pub(crate) fn retain(&self, is_peer: impl Fn(&PublicKey) -> bool) {
        self.write().callers.retain(|peer, _| is_peer(peer));
    }

    /// A lane of the peer is up, with this remote address.
    pub(crate) fn handle_lane(&self, peer: PublicKey, address: IpAddr) {
        let address = source(address);
        let mut inner = self.write();
        let addresses = inner.callers.entry(peer).or_default();
        addresses.retain(|known| *known != address);
        addresses.push_front(address);
        addresses.truncate(PER_PEER);
    }

    /// Whether the caller at an address is known.
    pub(crate) fn caller(&self, address: IpAddr) -> Caller {
        let (address, inner) = (source(address), self.read());
        let called = || inner.callers.values().any(|addresses| addresses.contains(&address));
        if inner.endpoints.contains(&address) || called() { Caller::Known } else { Caller::Unknown }
    }

    fn read(&self) -> RwLockReadGuard<'_, Addresses> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Addresses> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_and_the_last_addresses_of_lanes_are_known() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let (b, c) = (PublicKey::from_bytes([1; 32]), PublicKey::from_bytes([2; 32]));
        let known = KnownAddresses::default();
        known.set_endpoints([address("192.0.2.1")].into_iter());
        known.handle_lane(b, address("2001:db8::7"));
        known.handle_lane(c, address("203.0.113.9"));
        assert_eq!(known.caller(address("::ffff:192.0.2.1")), Caller::Known);
        assert_eq!(known.caller(address("2001:db8::8")), Caller::Known, "the same network");
        assert_eq!(known.caller(address("192.0.2.2")), Caller::Unknown);
        for last in 0..PER_PEER as u8 {
            known.handle_lane(b, IpAddr::from([198, 51, 100, last]));
        }
        assert_eq!(known.caller(address("2001:db8::8")), Caller::Unknown, "four newer ones displaced it");
        known.retain(|peer| *peer == b);
        assert_eq!(known.caller(address("203.0.113.9")), Caller::Unknown, "no longer a peer");
        known.set_endpoints(std::iter::empty());
        assert_eq!(known.caller(address("192.0.2.1")), Caller::Unknown);
    }
}
