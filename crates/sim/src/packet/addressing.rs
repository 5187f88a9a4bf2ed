//! The flow of a packet: its ends, and the hash by which queues know it.

use trunkline_packet::Version;

use crate::NodeId;

/// What tells the packets of one flow from others, worked out once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addressing {
    /// Sender.
    pub source: NodeId,
    /// Receiver.
    pub destination: NodeId,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Version of IP.
    pub version: Version,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Whether routers may not fragment, which they never may in IPv6.
    pub dont_fragment: bool,
    pub(super) hash: u64,
}

impl Addressing {
    /// Of packets of a protocol from one node and port to another.
    pub fn new(
        (version, protocol): (Version, u8),
        source: (NodeId, u16),
        destination: (NodeId, u16),
        dscp: u8,
    ) -> Self {
        let ports = (source.1, destination.1);
        let hash = flow_hash((version, protocol), (source.0, destination.0), ports);
        let (source, destination) = (source.0, destination.0);
        Addressing { source, destination, ports, version, dscp, dont_fragment: version == Version::V6, hash }
    }
}

/// By which the queues of links tell flows apart.
pub(super) fn flow_hash(
    (version, protocol): (Version, u8),
    (source, destination): (NodeId, NodeId),
    ports: (u16, u16),
) -> u64 {
    let prefix = match version {
        Version::V4 => 0,
        Version::V6 => NodeId::PREFIX,
    };
    let ends = u64::from(ports.0) << 32 | u64::from(ports.1) << 16 | u64::from(protocol);
    mix(mix(prefix ^ u64::from(source.ipv4()), destination.ipv4().into()), ends)
}

/// Mixes two numbers into one. It needs no key: nobody in a simulation chooses its ports to meet somebody else.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xbf58_476d_1ce4_e5b9);
    (product >> 64) as u64 ^ product as u64
}
