use std::time::Duration;

use trunkline_units::Region;

/// What can stand in a queue.
///
/// A super-packet (segmentation offload) is one item of several segments. Limits count segments, because
/// that is what the network behind the queue sees, and where a packet is to be dropped one segment is cut off.
pub trait Item {
    /// Length in bytes.
    fn bytes(&self) -> usize;

    /// Packets of wire size that this item stands for; at least 1.
    fn segments(&self) -> u32 {
        1
    }

    /// A hash of the flow it belongs to, for disciplines that tell flows apart. All 64 bits are used.
    fn flow(&self) -> u64 {
        0
    }

    /// Whether it can be marked (RFC 3168): ECT(0), ECT(1), or CE already.
    fn is_ecn_capable(&self) -> bool {
        false
    }

    /// Sets CE. Only called if it can be marked.
    fn mark(&mut self) {}

    /// Begins to load what it refers to into the processor's caches, since it leaves the queue soon.
    #[inline]
    fn prefetch(&self) {}

    /// Begins to load the place of an item in a queue, if the owner of the queue can do that.
    #[inline]
    fn prefetch_place(_place: Region) {}

    /// Keeps the first `keep` segments: at least one, fewer than [`Item::segments`]. Only called for items of more
    /// than one segment.
    fn trim(&mut self, keep: u32) {
        debug_assert!(false, "an item of one segment was to be trimmed to {keep}");
    }
}

/// An item that leaves the queue, with the time it spent there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dequeued<T> {
    /// What was queued, less what was cut off, marked if it was to be.
    pub item: T,
    /// From enqueue to dequeue.
    pub sojourn: Duration,
}
