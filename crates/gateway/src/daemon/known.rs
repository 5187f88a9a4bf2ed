//! The known addresses of peers: their endpoints, and the addresses of their lanes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use super::half_open::{Caller, source};
use crate::keys::PublicKey;

/// The maximum number of addresses that are remembered of a peer that dials.
const PER_PEER: usize = 4;

#[derive(Debug, Default)]
pub(super) struct KnownAddresses {
    endpoints: BTreeSet<IpAddr>,
    /// The last addresses of each peer's lanes, the latest first.
    callers: BTreeMap<PublicKey, VecDeque<IpAddr>>,
}

impl KnownAddresses {
    /// Replaces the endpoints.
    pub(super) fn set_endpoints(&mut self, addresses: impl Iterator<Item = IpAddr>) {
        self.endpoints = addresses.map(source).collect();
    }

    /// Removes peers that no longer exist.
    pub(super) fn retain(&mut self, is_peer: impl Fn(&PublicKey) -> bool) {
        self.callers.retain(|peer, _| is_peer(peer));
    }

    /// A lane of the peer is up, with this remote address.
    pub(super) fn handle_lane(&mut self, peer: PublicKey, address: IpAddr) {
        let address = source(address);
        let addresses = self.callers.entry(peer).or_default();
        addresses.retain(|known| *known != address);
        addresses.push_front(address);
        addresses.truncate(PER_PEER);
    }

    /// Whether the caller at an address is known.
    pub(super) fn caller(&self, address: IpAddr) -> Caller {
        let address = source(address);
        let called = || self.callers.values().any(|addresses| addresses.contains(&address));
        if self.endpoints.contains(&address) || called() { Caller::Known } else { Caller::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_and_the_last_addresses_of_lanes_are_known() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let (b, c) = (PublicKey::from_bytes([1; 32]), PublicKey::from_bytes([2; 32]));
        let mut known = KnownAddresses::default();
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
