use trunkline_units::Instant;

use crate::{Dequeued, DropReason, Enqueue, Item, Limits, Stats, TailDrop};

/// Which discipline a queue follows, and its parameters: plain values, as a file gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settings {
    /// [`TailDrop`] with these limits.
    TailDrop(Limits),
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
}

impl<T: Item> Discipline<T> {
    /// An empty queue with these settings.
    pub fn new(settings: Settings) -> Self {
        match settings {
            Settings::TailDrop(limits) => Discipline::TailDrop(TailDrop::new(limits)),
        }
    }

    /// What the queue has seen.
    pub const fn stats(&self) -> &Stats {
        match self {
            Discipline::TailDrop(q) => q.stats(),
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        match self {
            Discipline::TailDrop(q) => q.is_empty(),
        }
    }

    /// The item that [`Discipline::dequeue`] would give.
    pub fn front(&self) -> Option<&T> {
        match self {
            Discipline::TailDrop(q) => q.front(),
        }
    }

    /// Takes new settings and keeps what waits.
    pub fn reconfigure(&mut self, settings: Settings) {
        match (self, settings) {
            (Discipline::TailDrop(q), Settings::TailDrop(limits)) => q.set_limits(limits),
        }
    }

    /// How many of `segments` segments of `segment_bytes` bytes each fit now, and which limit stops the rest.
    pub fn room(&self, segments: u32, segment_bytes: usize) -> (u32, DropReason) {
        match self {
            Discipline::TailDrop(q) => q.room(segments, segment_bytes),
        }
    }

    /// Counts segments that the owner cut off an item before offering the rest.
    pub fn refuse(&mut self, segments: u32, bytes: usize, reason: DropReason) {
        match self {
            Discipline::TailDrop(q) => q.refuse(segments, bytes, reason),
        }
    }

    /// Offers an item.
    pub fn enqueue(&mut self, now: Instant, item: T) -> Enqueue<T> {
        match self {
            Discipline::TailDrop(q) => q.enqueue(now, item),
        }
    }

    /// Takes the next item to send.
    pub fn dequeue(&mut self, now: Instant) -> Option<Dequeued<T>> {
        match self {
            Discipline::TailDrop(q) => q.dequeue(now),
        }
    }

    /// Drops what waits, one item a call; `None` once it is empty.
    pub fn flush(&mut self) -> Option<T> {
        match self {
            Discipline::TailDrop(q) => q.flush(),
        }
    }
}
