//! Packets that a link duplicated, and which copy arrived first at the receiver.
//!
//! A receiver cannot tell a copy that a link made from a retransmission. The statistics must: only the first copy is
//! something that the sender sent.

use crate::Packet;

#[derive(Debug, Default)]
pub(crate) struct DuplicateTracker {
    /// For each duplicated packet, whether one of its copies has arrived.
    arrived: Vec<bool>,
}

impl DuplicateTracker {
    /// Marks a packet that a link is about to duplicate. A packet may be duplicated more than once.
    #[cold]
    pub(crate) fn mark(&mut self, packet: &mut Packet) {
        if packet.duplication() == 0 {
            self.arrived.push(false);
            packet.set_duplication(self.arrived.len() as u32);
        }
    }

    /// Whether a packet that arrived at its receiver is the first of its copies.
    #[inline]
    pub(crate) fn is_first(&mut self, packet: &Packet) -> bool {
        packet.duplication() == 0 || self.take(packet.duplication())
    }

    #[cold]
    fn take(&mut self, duplication: u32) -> bool {
        !std::mem::replace(&mut self.arrived[duplication as usize - 1], true)
    }
}
