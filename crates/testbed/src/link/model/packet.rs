//! A packet on the link.

use trunkline_queue::Item;
use trunkline_units::Instant;

/// An IP packet, with the length it has on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    bytes: Vec<u8>,
    overhead_bytes: u32,
    arrival: Instant,
}

impl Packet {
    /// A packet that reached the link at `arrival`, and occupies `overhead_bytes` more on the wire.
    pub fn new(bytes: Vec<u8>, overhead_bytes: u32, arrival: Instant) -> Self {
        Self { bytes, overhead_bytes, arrival }
    }

    /// From the first byte of its IP header.
    pub fn data(&self) -> &[u8] {
        &self.bytes
    }

    /// When it reached the link.
    pub fn arrival(&self) -> Instant {
        self.arrival
    }

    /// Inverts one bit; `position` counts from the first bit of the first byte and must be inside the packet.
    pub(super) fn flip(&mut self, position: u64) {
        self.bytes[(position / 8) as usize] ^= 0x80 >> (position % 8);
    }
}

impl Item for Packet {
    /// Bytes on the wire: the packet and the overhead.
    fn bytes(&self) -> usize {
        self.bytes.len() + self.overhead_bytes as usize
    }
}
