//! What makes packets belong to one flow.

use std::net::IpAddr;

/// Addresses, protocol and ports of a flow, in one direction.
///
/// The ports are 0 for protocols without any and for every fragment, the first one too, so that the fragments
/// of a datagram stay together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// Sender's address.
    pub source: IpAddr,
    /// Receiver's address.
    pub destination: IpAddr,
    /// Upper-layer protocol.
    pub protocol: u8,
    /// Source and destination port.
    pub ports: (u16, u16),
}

impl FlowKey {
    /// A hash, the same on every machine and in every run; not for keys that an attacker chooses freely.
    #[inline]
    pub fn hash64(self) -> u64 {
        let fold = |address: IpAddr| match address {
            IpAddr::V4(address) => u64::from(u32::from(address)),
            IpAddr::V6(address) => {
                let bits = u128::from(address);
                (bits >> 64) as u64 ^ (bits as u64).rotate_left(29)
            }
        };
        let mix = |a: u64, b: u64| {
            let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xbf58_476d_1ce4_e5b9);
            (product >> 64) as u64 ^ product as u64
        };
        let ports = u64::from(self.ports.0) << 32 | u64::from(self.ports.1) << 16 | u64::from(self.protocol);
        mix(mix(fold(self.source), fold(self.destination)), ports)
    }

    /// The key of the packets that go the other way.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            ports: (self.ports.1, self.ports.0),
            ..self
        }
    }
}
