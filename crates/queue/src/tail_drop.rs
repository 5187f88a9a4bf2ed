use std::collections::VecDeque;

use trunkline_units::Instant;

use crate::{Dequeued, DropReason, Enqueue, Item, Limits, Stats};

/// First in, first out; what does not fit is dropped (lee2002 §2).
///
/// A super-packet may fit in part. [`TailDrop::room`] says how much of it; the owner cuts it there, since only
/// the owner knows its headers, and reports the cut-off tail with [`TailDrop::refuse`].
#[derive(Debug)]
pub struct TailDrop<T> {
    limits: Limits,
    items: VecDeque<(Instant, T)>,
    stats: Stats,
}

impl<T: Item> TailDrop<T> {
    /// An empty queue.
    pub fn new(limits: Limits) -> Self {
        TailDrop { limits, items: VecDeque::new(), stats: Stats::default() }
    }

    /// What the queue has seen.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The limits in force.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item at the front.
    pub fn front(&self) -> Option<&T> {
        self.items.front().map(|(_, item)| item)
    }

    /// Sets new limits. What already waits stays, even above them.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Of an item of `segments` segments, `segment_bytes` bytes each on average: how many segments fit now, and
    /// which limit stops the rest.
    pub fn room(&self, segments: u32, segment_bytes: usize) -> (u32, DropReason) {
        let by_segments = u64::from(self.limits.segments).saturating_sub(self.stats.backlog_segments);
        let free_bytes = self.limits.bytes.saturating_sub(self.stats.backlog_bytes);
        let by_bytes = free_bytes / (segment_bytes.max(1) as u64);
        let reason = if by_segments <= by_bytes { DropReason::SegmentLimit } else { DropReason::ByteLimit };
        (by_segments.min(by_bytes).min(u64::from(segments)) as u32, reason)
    }

    /// Counts segments that the owner cut off an item before offering the rest.
    pub fn refuse(&mut self, segments: u32, bytes: usize, reason: DropReason) {
        self.stats.segments_in += u64::from(segments);
        self.stats.bytes_in += bytes as u64;
        self.stats.drop_counted(reason, segments, bytes);
        self.stats.assert_conserved();
    }

    /// Offers an item to the back of the queue.
    pub fn enqueue(&mut self, now: Instant, item: T) -> Enqueue<T> {
        self.stats.offered(&item);
        let (segments, bytes) = (item.segments(), item.bytes());
        let over = |backlog: u64, adds: u64, limit: u64| backlog.saturating_add(adds) > limit;
        let reason = if over(self.stats.backlog_segments, segments.into(), self.limits.segments.into()) {
            Some(DropReason::SegmentLimit)
        } else if over(self.stats.backlog_bytes, bytes as u64, self.limits.bytes) {
            Some(DropReason::ByteLimit)
        } else {
            None
        };
        let outcome = if let Some(reason) = reason {
            self.stats.drop_counted(reason, segments, bytes);
            Enqueue::Dropped(item, reason)
        } else {
            self.stats.queued(&item);
            self.items.push_back((now, item));
            Enqueue::Queued
        };
        self.stats.assert_conserved();
        outcome
    }

    /// Takes the item at the front.
    pub fn dequeue(&mut self, now: Instant) -> Option<Dequeued<T>> {
        let (since, item) = self.items.pop_front()?;
        let sojourn = now.saturating_since(since);
        self.stats.unqueued(&item);
        self.stats.left(&item);
        self.stats.sojourn.record(sojourn, item.segments().into());
        self.stats.assert_conserved();
        Some(Dequeued { item, sojourn })
    }

    /// Drops what waits, from the front; each item comes back to the caller. `None` once it is empty.
    pub fn flush(&mut self) -> Option<T> {
        let (_, item) = self.items.pop_front()?;
        self.stats.unqueued(&item);
        self.stats.drop_counted(DropReason::Flushed, item.segments(), item.bytes());
        self.stats.assert_conserved();
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use trunkline_units::Rng;

    #[derive(Debug, PartialEq, Eq, Clone, Copy)]
    struct Packet {
        id: u32,
        bytes: usize,
        segments: u32,
    }

    impl Item for Packet {
        fn bytes(&self) -> usize {
            self.bytes
        }
        fn segments(&self) -> u32 {
            self.segments
        }
    }

    fn packet(id: u32) -> Packet {
        Packet { id, bytes: 100, segments: 1 }
    }

    fn queue(segments: u32, bytes: u64) -> TailDrop<Packet> {
        TailDrop::new(Limits { segments, bytes })
    }

    #[test]
    fn the_arriving_packet_is_the_one_dropped() {
        let mut q = queue(2, 10_000);
        assert_eq!(q.enqueue(Instant::ZERO, packet(1)), Enqueue::Queued);
        assert_eq!(q.enqueue(Instant::ZERO, packet(2)), Enqueue::Queued);
        assert_eq!(
            q.enqueue(Instant::ZERO, packet(3)),
            Enqueue::Dropped(packet(3), DropReason::SegmentLimit)
        );
        assert_eq!(q.dequeue(Instant::ZERO).map(|d| d.item.id), Some(1));
        assert_eq!(q.dequeue(Instant::ZERO).map(|d| d.item.id), Some(2));
        assert_eq!(q.dequeue(Instant::ZERO), None);
    }

    #[test]
    fn the_byte_limit_holds_exactly() {
        let mut q = queue(1000, 250);
        assert_eq!(q.enqueue(Instant::ZERO, packet(1)), Enqueue::Queued);
        assert_eq!(q.enqueue(Instant::ZERO, packet(2)), Enqueue::Queued);
        let third = q.enqueue(Instant::ZERO, packet(3));
        assert_eq!(third, Enqueue::Dropped(packet(3), DropReason::ByteLimit));
        let fits = Packet { id: 4, bytes: 50, segments: 1 };
        assert_eq!(q.enqueue(Instant::ZERO, fits), Enqueue::Queued);
        assert_eq!(q.stats().backlog_bytes, 250);
    }

    #[test]
    fn room_is_what_still_fits_of_a_super_packet() {
        let mut q = queue(10, 10_000);
        let long = Packet { id: 1, bytes: 600, segments: 6 };
        assert_eq!(q.enqueue(Instant::ZERO, long), Enqueue::Queued);
        assert_eq!(q.room(45, 100), (4, DropReason::SegmentLimit));
        assert_eq!(q.room(45, 4700), (2, DropReason::ByteLimit));
        assert_eq!(q.room(3, 100).0, 3);
    }

    #[test]
    fn sojourn_is_measured_from_enqueue_to_dequeue() {
        let mut q = queue(10, 10_000);
        assert_eq!(q.enqueue(Instant::from_millis(5), packet(1)), Enqueue::Queued);
        let out = q.dequeue(Instant::from_millis(12)).expect("one packet waits");
        assert_eq!(out.sojourn, Duration::from_millis(7));
        assert_eq!(q.stats().sojourn.count(), 1);
    }

    #[test]
    fn smaller_limits_keep_what_waits_and_refuse_what_comes() {
        let mut q = queue(10, 10_000);
        for id in 0..5 {
            assert_eq!(q.enqueue(Instant::ZERO, packet(id)), Enqueue::Queued);
        }
        q.set_limits(Limits { segments: 2, bytes: 10_000 });
        assert_eq!(q.stats().backlog_segments, 5);
        assert_eq!(q.room(1, 100).0, 0);
        assert!(matches!(q.enqueue(Instant::ZERO, packet(9)), Enqueue::Dropped(..)));
    }

    /// An operation list against a plain model: same contents, same drops, never above either limit.
    #[test]
    fn random_operations_match_the_model() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed, "tail-drop-model");
            let limits = Limits { segments: rng.below(40) as u32, bytes: rng.below(6000) };
            let mut q = TailDrop::new(limits);
            let mut model: VecDeque<Packet> = VecDeque::new();
            for id in 0..500 {
                let now = Instant::from_nanos(u64::from(id));
                if rng.chance(0.6) {
                    let segments = 1 + rng.below(5) as u32;
                    let item = Packet { id, bytes: segments as usize * 90, segments };
                    let fits = model.iter().map(|p| p.segments).sum::<u32>() + segments <= limits.segments
                        && (model.iter().map(|p| p.bytes).sum::<usize>() + item.bytes) as u64 <= limits.bytes;
                    assert_eq!(matches!(q.enqueue(now, item), Enqueue::Queued), fits);
                    if fits {
                        model.push_back(item);
                    }
                } else {
                    assert_eq!(q.dequeue(now).map(|d| d.item), model.pop_front());
                }
                assert!(q.stats().backlog_segments <= u64::from(limits.segments));
                assert!(q.stats().backlog_bytes <= limits.bytes);
            }
            while q.flush().is_some() {}
            assert!(q.is_empty());
            assert_eq!(q.stats().backlog_bytes, 0);
        }
    }
}
