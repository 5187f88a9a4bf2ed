//! The table that maps the addresses and ports of a packet to its receiver at a node.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::connection::ConnectionId;
use crate::node::NodeId;

/// A hasher of keys that are numbers. It needs no secret: nobody in a simulation chooses a port to collide.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value ^ 0xf39c_c060_5ced_c835) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// The receiver of a packet at the node that it is addressed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Socket {
    Connection(ConnectionId),
    /// A flow of datagrams.
    Datagrams(u32),
    /// A gateway's lane over QUIC.
    Lane {
        gateway: u32,
        lane: u32,
    },
}

/// Sockets by [`socket_key`].
pub(crate) type SocketTable = HashMap<u64, Socket, BuildHasherDefault<IdHasher>>;

/// The key of packets from node `from` to node `at` with these ports. A node number has 16 bits.
#[inline]
pub(crate) fn socket_key(at: NodeId, from: NodeId, (source, destination): (u16, u16)) -> u64 {
    u64::from(at.0) << 48 | u64::from(from.0) << 32 | u64::from(source) << 16 | u64::from(destination)
}
