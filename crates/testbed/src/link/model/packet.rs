//! A packet on the link.

use trunkline_link::Payload;
use trunkline_packet::{FlowHasher, Headers, Version, mark_ce};
use trunkline_queue::Item;
use trunkline_units::Rng;

/// Nobody in an experiment chooses its ports to meet somebody else, so the key is no secret.
const FLOWS: FlowHasher = FlowHasher::new([0x7472_756e, 0x6b6c_696e]);

/// An IP packet, with the length it has on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    bytes: Vec<u8>,
    overhead_bytes: u32,
    flow: u64,
    /// `None` of what is no IP packet.
    version: Option<Version>,
    ecn_capable: bool,
}

impl Packet {
    /// A packet that occupies `overhead_bytes` more on the wire.
    pub fn new(bytes: Vec<u8>, overhead_bytes: u32) -> Self {
        let headers = Headers::parse(&bytes, bytes.len()).ok();
        Self {
            overhead_bytes,
            flow: headers.as_ref().map_or(0, |headers| FLOWS.hash(&headers.flow())),
            ecn_capable: headers.as_ref().is_some_and(|headers| headers.ecn() != 0),
            version: headers.map(|headers| headers.version),
            bytes,
        }
    }

    /// From the first byte of its IP header.
    pub fn data(&self) -> &[u8] {
        &self.bytes
    }
}

impl Item for Packet {
    /// Bytes on the wire: the packet and the overhead.
    fn bytes(&self) -> usize {
        self.bytes.len() + self.overhead_bytes as usize
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn is_ecn_capable(&self) -> bool {
        self.ecn_capable
    }

    fn mark(&mut self) {
        if let Some(version) = self.version {
            mark_ce(&mut self.bytes, version);
        }
    }
}

impl Payload for Packet {
    /// Inverts one bit: every checksum of the Internet finds it.
    fn corrupt(&mut self, random: &mut Rng) {
        let position = random.below(self.bytes.len() as u64 * 8);
        if let Some(byte) = self.bytes.get_mut((position / 8) as usize) {
            *byte ^= 0x80 >> (position % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_inside_the_packet_is_inverted() {
        let mut random = Rng::new(1, "test");
        for length in [1, 20, 100] {
            for _ in 0..1000 {
                let mut packet = Packet::new(vec![0; length], 14);
                packet.corrupt(&mut random);
                assert_eq!(packet.data().iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
            }
        }
        Packet::new(Vec::new(), 0).corrupt(&mut random);
    }
}
