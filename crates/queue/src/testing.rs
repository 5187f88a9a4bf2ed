//! What the tests of the disciplines share.

use crate::{DropReason, Item};

/// A packet or super-packet whose segments are equally long.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) id: u32,
    pub(crate) flow: u64,
    pub(crate) bytes: usize,
    pub(crate) segments: u32,
    pub(crate) ecn: bool,
    pub(crate) marked: bool,
}

/// A packet of 100 bytes, of flow 0, that cannot be marked.
pub(crate) fn packet(id: u32) -> Packet {
    Packet { id, flow: 0, bytes: 100, segments: 1, ecn: false, marked: false }
}

impl Item for Packet {
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn segments(&self) -> u32 {
        self.segments
    }
    fn flow(&self) -> u64 {
        self.flow
    }
    fn is_ecn_capable(&self) -> bool {
        self.ecn
    }
    fn mark(&mut self) {
        self.marked = true;
    }
    fn trim(&mut self, keep: u32) {
        assert!((1..self.segments).contains(&keep), "{self:?} cannot be trimmed to {keep}");
        self.bytes = self.bytes / self.segments as usize * keep as usize;
        self.segments = keep;
    }
}

/// For `on_drop` where nothing may be dropped.
pub(crate) fn refuse(item: Packet, reason: DropReason) {
    panic!("{item:?} was dropped: {reason:?}");
}
