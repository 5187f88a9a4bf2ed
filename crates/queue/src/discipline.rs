use trunkline_units::Instant;

use crate::{Dequeued, DropReason, Enqueue, FairTailDrop, Item, Limits, Stats, TailDrop};

/// Which discipline a queue follows, and its parameters: plain values, as a file gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settings {
    /// [`TailDrop`] with these limits.
    TailDrop(Limits),
    /// [`FairTailDrop`] with these limits.
    FairTailDrop(Limits),
}

impl Default for Settings {
    fn default() -> Self {
        Settings::TailDrop(Limits::default())
    }
}

/// A queue of any discipline. A closed set with static dispatch: one `match` per operation.
#[derive(Debug)]
pub enum Discipline<T> {
    /// First in, first out; what does not fit is dropped.
    TailDrop(TailDrop<T>),
    /// The same, with a bound on each flow.
    FairTailDrop(FairTailDrop<T>),
}

impl<T: Item> Discipline<T> {
    /// An empty queue with these settings.
    pub fn new(settings: Settings) -> Self {
        match settings {
            Settings::TailDrop(limits) => Discipline::TailDrop(TailDrop::new(limits)),
            Settings::FairTailDrop(limits) => Discipline::FairTailDrop(FairTailDrop::new(limits)),
        }
    }

    /// What the queue has seen.
    pub const fn stats(&self) -> &Stats {
        match self {
            Discipline::TailDrop(q) => q.stats(),
            Discipline::FairTailDrop(q) => q.stats(),
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        match self {
            Discipline::TailDrop(q) => q.is_empty(),
            Discipline::FairTailDrop(q) => q.fifo().is_empty(),
        }
    }

    /// The item that [`Discipline::dequeue`] would give.
    pub fn front(&self) -> Option<&T> {
        match self {
            Discipline::TailDrop(q) => q.front(),
            Discipline::FairTailDrop(q) => q.fifo().front(),
        }
    }

    /// Takes new settings and keeps what waits and the counts, unless the discipline is another one: then what
    /// waits is handed to `discard`, and counted as dropped in the old queue, whose counts end with it.
    pub fn reconfigure(&mut self, settings: Settings, mut discard: impl FnMut(T)) {
        match (&mut *self, settings) {
            (Discipline::TailDrop(q), Settings::TailDrop(limits)) => q.set_limits(limits),
            (Discipline::FairTailDrop(q), Settings::FairTailDrop(limits)) => q.fifo_mut().set_limits(limits),
            _ => {
                while let Some(item) = self.flush() {
                    discard(item);
                }
                *self = Discipline::new(settings);
            }
        }
    }

    /// How many of `segments` segments of `segment_bytes` bytes each, of `flow`, fit now, and what stops the rest.
    pub fn room(&self, flow: u64, segments: u32, segment_bytes: usize) -> (u32, DropReason) {
        match self {
            Discipline::TailDrop(q) => q.room(segments, segment_bytes),
            Discipline::FairTailDrop(q) => q.room(flow, segments, segment_bytes),
        }
    }

    /// Counts segments that the owner cut off an item before offering the rest.
    pub fn refuse(&mut self, segments: u32, bytes: usize, reason: DropReason) {
        match self {
            Discipline::TailDrop(q) => q.refuse(segments, bytes, reason),
            Discipline::FairTailDrop(q) => q.fifo_mut().refuse(segments, bytes, reason),
        }
    }

    /// Offers an item.
    pub fn enqueue(&mut self, now: Instant, item: T) -> Enqueue<T> {
        match self {
            Discipline::TailDrop(q) => q.enqueue(now, item),
            Discipline::FairTailDrop(q) => q.enqueue(now, item),
        }
    }

    /// Takes the next item to send.
    pub fn dequeue(&mut self, now: Instant) -> Option<Dequeued<T>> {
        match self {
            Discipline::TailDrop(q) => q.dequeue(now),
            Discipline::FairTailDrop(q) => q.dequeue(now),
        }
    }

    /// Drops what waits, one item a call; `None` once it is empty.
    pub fn flush(&mut self) -> Option<T> {
        match self {
            Discipline::TailDrop(q) => q.flush(),
            Discipline::FairTailDrop(q) => q.flush(),
        }
    }
}
