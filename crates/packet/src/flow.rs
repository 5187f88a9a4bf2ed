//! The key of a flow.

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
