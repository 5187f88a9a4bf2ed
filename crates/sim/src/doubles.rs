//! Packets of which a link made two, and which of them came first to the end they are for.
//!
//! A receiver cannot tell a double from what its sender repeated. Who counts has to: only the first of them is something that was sent.

use crate::Packet;

#[derive(Debug, Default)]
pub(crate) struct Doubles {
    /// For each packet that was doubled, whether one of its copies has come.
    come: Vec<bool>,
}

impl Doubles {
    /// Marks a packet that is about to be doubled, once more or for the first time.
    #[cold]
    pub(crate) fn mark(&mut self, packet: &mut Packet) {
        if packet.doubling() == 0 {
            self.come.push(false);
            packet.set_doubling(self.come.len() as u32);
        }
    }

    /// A packet has come to its receiver: whether no copy of it had before.
    #[inline]
    pub(crate) fn is_first(&mut self, packet: &Packet) -> bool {
        packet.doubling() == 0 || self.take(packet.doubling())
    }

    #[cold]
    fn take(&mut self, doubling: u32) -> bool {
        !std::mem::replace(&mut self.come[doubling as usize - 1], true)
    }
}
