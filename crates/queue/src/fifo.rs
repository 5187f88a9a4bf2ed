use std::collections::VecDeque;

use trunkline_units::{Instant, Region};

use crate::ledger::Ledger;
use crate::{Discard, DropReason, Item, Limits};

/// Of a queue whose items do not stay in the caches, the item behind so many others is loaded at each dequeue.
const SOON: usize = 8;

/// How much waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Held {
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
}

impl Held {
    pub(crate) fn add<T: Item>(&mut self, item: &T) {
        self.segments += u64::from(item.segments());
        self.bytes += item.bytes() as u64;
    }

    pub(crate) fn remove<T: Item>(&mut self, item: &T) {
        self.segments -= u64::from(item.segments());
        self.bytes -= item.bytes() as u64;
    }
}

/// An item with the time it came.
#[derive(Debug)]
pub(crate) struct Stamped<T> {
    pub(crate) since: Instant,
    pub(crate) item: T,
}

/// First in, first out, and what it holds.
#[derive(Debug)]
pub(crate) struct Fifo<T> {
    items: VecDeque<Stamped<T>>,
    held: Held,
}

impl<T: Item> Fifo<T> {
    pub(crate) const fn new() -> Self {
        Fifo { items: VecDeque::new(), held: Held { segments: 0, bytes: 0 } }
    }

    pub(crate) const fn held(&self) -> Held {
        self.held
    }

    pub(crate) fn front(&self) -> Option<&Stamped<T>> {
        self.items.front()
    }

    /// Queues an item, and returns how many segments it has.
    pub(crate) fn push(&mut self, since: Instant, item: T) -> u32 {
        let segments = item.segments();
        self.held.add(&item);
        self.items.push_back(Stamped { since, item });
        segments
    }

    pub(crate) fn pop(&mut self) -> Option<Stamped<T>> {
        let stamped = self.items.pop_front()?;
        self.prefetch();
        self.held.remove(&stamped.item);
        Some(stamped)
    }

    /// Begins to load an item that leaves soon, and the place of a later one.
    #[inline]
    fn prefetch(&self) {
        if let Some(place) = Region::later(&self.items) {
            T::prefetch_place(place);
            self.items[SOON].item.prefetch();
        }
    }

    /// Gives back memory, if there is much more than what waits needs.
    pub(crate) fn give_back(&mut self) {
        if is_too_large(self.items.capacity(), self.items.len()) {
            self.items.shrink_to(2 * self.items.len());
        }
    }
}

/// Whether storage for so many items is worth giving back where so many are left.
pub(crate) const fn is_too_large(capacity: usize, items: usize) -> bool {
    const WORTH_KEEPING: usize = 32;
    capacity > WORTH_KEEPING && capacity / 4 > items
}

impl Limits {
    /// What of the item fits behind what is `held`; the rest is dropped, in whole segments from its end, first by
    /// one limit and then by the other.
    #[inline]
    pub(crate) fn admit<T, F>(self, held: Held, item: T, ledger: &mut Ledger<'_, F>) -> Option<T>
    where
        T: Item,
        F: Discard<T>,
    {
        let free_segments = u64::from(self.segments).saturating_sub(held.segments);
        let free_bytes = self.bytes.saturating_sub(held.bytes);
        if u64::from(item.segments()) <= free_segments && item.bytes() as u64 <= free_bytes {
            return Some(item);
        }
        cut(item, free_segments as u32, free_bytes, ledger)
    }
}

#[cold]
fn cut<T, F>(item: T, free_segments: u32, free_bytes: u64, ledger: &mut Ledger<'_, F>) -> Option<T>
where
    T: Item,
    F: Discard<T>,
{
    let mut item = ledger.fit(item, free_segments, DropReason::SegmentLimit)?;
    let (segments, bytes) = (u64::from(item.segments()), item.bytes() as u64);
    if bytes > free_bytes {
        item = ledger.fit(item, (free_bytes * segments / bytes) as u32, DropReason::ByteLimit)?;
    }
    // The headers, and a last segment that was shorter than the others, made the mean too small.
    while item.bytes() as u64 > free_bytes {
        let keep = item.segments() - 1;
        item = ledger.fit(item, keep, DropReason::ByteLimit)?;
    }
    Some(item)
}
