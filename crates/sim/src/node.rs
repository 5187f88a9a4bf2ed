//! The nodes that links join: hosts, routers, gateways and proxies.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use trunkline_packet::Version;

use crate::reassembly::Reassembly;

/// A node of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// The largest number of nodes of a network.
    pub const MAX: u32 = 1 << 16;

    /// The node of a network that is added so many after the first.
    ///
    /// # Panics
    /// If there are no more than [`NodeId::MAX`].
    pub const fn nth(place: usize) -> NodeId {
        assert!(place < NodeId::MAX as usize, "more nodes than a network may have");
        NodeId(place as u32)
    }

    /// The first half of all IPv6 addresses: `fd00::/64`.
    pub(crate) const PREFIX: u64 = 0xfd00 << 48;

    /// Its IPv4 address, in 10.0.0.0/8: each node has 256 of them, of which it uses the first.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::from(self.ipv4())
    }

    /// Its address of a version of IP. The last four bytes of its IPv6 address, in `fd00::/96`, are its IPv4 address.
    pub fn ip(self, version: Version) -> IpAddr {
        match version {
            Version::V4 => IpAddr::V4(self.address()),
            Version::V6 => IpAddr::V6(self.ipv6().into()),
        }
    }

    /// The node whose IPv4 address this is, or the end of whose IPv6 address.
    pub(crate) fn of(address: u32) -> NodeId {
        NodeId(address >> 8 & (Self::MAX - 1))
    }

    #[inline]
    pub(crate) const fn ipv4(self) -> u32 {
        0x0a00_0001 | self.0 << 8
    }

    #[inline]
    pub(crate) const fn ipv6(self) -> u128 {
        (Self::PREFIX as u128) << 64 | self.ipv4() as u128
    }

    /// Its number, from 0 in the order in which nodes were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Some of a network's nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeSet(Vec<bool>);

impl NodeSet {
    #[inline]
    pub(crate) fn contains(&self, node: NodeId) -> bool {
        self.0.get(node.index()).copied().unwrap_or(false)
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = Vec::new();
        for node in nodes {
            set.resize(set.len().max(node.index() + 1), false);
            set[node.index()] = true;
        }
        NodeSet(set)
    }
}

/// How a node treats packets for other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// Drops them.
    Host,
    /// Forwards them.
    Router,
    /// Takes packets for its peers' sites into trunks, and forwards the others.
    Gateway(u32),
    /// Inspects or splits some connections, and forwards the other packets.
    Proxy(u32),
}

/// Packets that a node neither forwarded nor delivered, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// No route to their destination.
    pub unreachable: u64,
    /// TTL or hop limit expired.
    pub ttl_expired: u64,
    /// Corrupted data.
    pub corrupted: u64,
    /// No listener: nobody at this node receives their flow.
    pub no_listener: u64,
    /// Errors that it reported to senders (ICMP).
    pub errors_reported: u64,
    /// Malformed headers.
    pub malformed: u64,
    /// Packets that could not be reassembled, because fragments were missing.
    pub reassembly_failures: u64,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    pub(crate) stats: NodeStats,
    /// IPv4 identification of the next packet.
    pub(crate) next_id: u16,
    pub(crate) next_port: u16,
    /// The longest packet that a path takes, by its destination and version of IP, where a router has said so.
    pub(crate) path_mtus: BTreeMap<(NodeId, Version), u32>,
    pub(crate) reassembly: Option<Box<Reassembly>>,
    /// The link to each destination, by its number.
    pub(crate) routes: Vec<u32>,
}

/// In [`Node::routes`]: there is no route.
pub(crate) const NO_ROUTE: u32 = u32::MAX;

impl Node {
    pub(crate) fn new(name: &str, kind: NodeKind) -> Self {
        Node {
            name: name.to_owned(),
            kind,
            stats: NodeStats::default(),
            next_id: 1,
            next_port: 10_000,
            path_mtus: BTreeMap::new(),
            reassembly: None,
            routes: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn take_id(&mut self) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }
}
