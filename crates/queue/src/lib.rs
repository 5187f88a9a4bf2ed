//! Queue disciplines: what to keep, what to drop, and in which order to send.
//!
//! Every discipline works on any [`Item`], takes `now` as an argument and reports each drop with its reason
//! and the item itself. None reads a clock, so the same code runs at a gateway's edge, in an emulated link
//! and on a simulated router.
//!
//! Conservation holds at all times and is asserted after every operation in debug builds:
//! segments in = segments out + dropped + queued, and the same for bytes.

mod discipline;
mod fair_tail_drop;
mod flow_map;
mod histogram;
mod scheduler;
mod settings;
mod stats;
mod tail_drop;

pub use discipline::{Discipline, Settings};
pub use fair_tail_drop::FairTailDrop;
pub use flow_map::{FlowIndex, FlowMap, Touched};
pub use histogram::Histogram;
pub use scheduler::{Scheduler, Share, Turn};
pub use settings::{
    CoDelSettings, FqCoDelSettings, FredSettings, Limits, PieSettings, RedSettings, TrunkSettings, Unit,
};
pub use stats::{DropReason, Stats};
pub use tail_drop::TailDrop;

use std::time::Duration;

/// What can stand in a queue.
///
/// A super-packet (segmentation offload) is one item of several segments. Limits count segments, because
/// that is what the network behind the queue sees.
pub trait Item {
    /// Length in bytes.
    fn bytes(&self) -> usize;

    /// Packets of wire size that this item stands for; at least 1.
    fn segments(&self) -> u32 {
        1
    }

    /// A hash of the flow it belongs to, for disciplines that tell flows apart.
    fn flow(&self) -> u64 {
        0
    }
}

/// An item that leaves the queue, with the time it spent there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dequeued<T> {
    /// What was queued.
    pub item: T,
    /// From enqueue to dequeue.
    pub sojourn: Duration,
}

/// What became of an item that was offered to a queue.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Enqueue<T> {
    /// It waits.
    Queued,
    /// It was refused, and comes back to the caller.
    Dropped(T, DropReason),
}
