use trunkline_units::Instant;

use crate::discipline::Rules;
use crate::fifo::{Fifo, Held, Stamped};
use crate::ledger::Ledger;
use crate::parameter::{Describe, Description};
use crate::{Control, Discard, DropReason, Item, Limits, Settings};

/// First in, first out; what does not fit is dropped (lee2002 §2).
#[derive(Debug)]
pub(crate) struct TailDrop<T> {
    limits: Limits,
    pub(crate) fifo: Fifo<T>,
}

impl Describe for TailDrop<()> {
    type Settings = Limits;
    const DESCRIPTION: &'static Description = &Description {
        word: "tail-drop",
        meaning: "first in, first out; what does not fit is dropped",
        parameters: &[],
        reasons: &[DropReason::SegmentLimit, DropReason::ByteLimit],
        default: || Settings::TailDrop(Limits::default()),
    };

    fn limits_mut(settings: &mut Limits) -> &mut Limits {
        settings
    }
}

impl<T: Item> Rules<T> for TailDrop<T> {
    type Settings = Limits;

    fn new(limits: Limits, _seed: u64) -> Self {
        TailDrop { limits, fifo: Fifo::new() }
    }

    /// What already waits stays, even above the new limits.
    fn set(&mut self, limits: Limits) -> bool {
        self.limits = limits;
        true
    }

    fn held(&self) -> Held {
        self.fifo.held()
    }

    fn control(&self) -> Control {
        Control::of(self.limits)
    }

    fn enqueue<F>(&mut self, now: Instant, item: T, ledger: &mut Ledger<'_, F>) -> u32
    where
        F: Discard<T>,
    {
        let admitted = self.limits.admit(self.fifo.held(), item, ledger);
        admitted.map_or(0, |item| self.fifo.push(now, item))
    }

    fn pop(&mut self) -> Option<Stamped<T>> {
        self.fifo.pop()
    }

    fn fifo(&mut self) -> Option<&mut Fifo<T>> {
        Some(&mut self.fifo)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use crate::testing::{Packet, packet, refuse};
    use crate::{DropReason, Limits, Queue, Settings};
    use trunkline_units::{Instant, Rng};

    fn queue(segments: u32, bytes: u64) -> Queue<Packet> {
        Queue::new(Settings::TailDrop(Limits { segments, bytes }), 1)
    }

    #[test]
    fn the_arriving_packet_is_the_one_dropped() {
        let mut q = queue(2, 10_000);
        assert_eq!(q.enqueue(Instant::ZERO, packet(1), &mut refuse), 1);
        assert_eq!(q.enqueue(Instant::ZERO, packet(2), &mut refuse), 1);
        let mut dropped = Vec::new();
        assert_eq!(
            q.enqueue(Instant::ZERO, packet(3), &mut |item, reason| dropped.push((item.id, reason))),
            0
        );
        assert_eq!(dropped, [(3, DropReason::SegmentLimit)]);
        assert_eq!(q.dequeue(Instant::ZERO, &mut refuse).map(|d| d.item.id), Some(1));
        assert_eq!(q.dequeue(Instant::ZERO, &mut refuse).map(|d| d.item.id), Some(2));
        assert_eq!(q.dequeue(Instant::ZERO, &mut refuse), None);
    }

    #[test]
    fn the_byte_limit_holds_exactly() {
        let mut q = queue(1000, 250);
        for (id, bytes, waits) in [(1, 100, 1), (2, 100, 1), (3, 100, 0), (4, 50, 1)] {
            assert_eq!(
                q.enqueue(Instant::ZERO, Packet { bytes, ..packet(id) }, &mut |_, _| ()),
                waits,
                "{id}"
            );
        }
        assert_eq!(q.stats().dropped_for(DropReason::ByteLimit), 1);
        assert_eq!(q.stats().backlog_bytes, 250);
    }

    #[test]
    fn what_fits_of_a_super_packet_stays_and_the_rest_is_dropped() {
        let mut q = queue(10, 10_000);
        let long = |id, segments| Packet { segments, bytes: 100 * segments as usize, ..packet(id) };
        assert_eq!(q.enqueue(Instant::ZERO, long(1, 6), &mut refuse), 6);
        assert_eq!(q.enqueue(Instant::ZERO, long(2, 45), &mut refuse), 4);
        assert_eq!(q.stats().dropped_for(DropReason::SegmentLimit), 41);
        let mut q = queue(10, 450);
        assert_eq!(q.enqueue(Instant::ZERO, long(3, 8), &mut refuse), 4);
        assert_eq!(q.stats().dropped_for(DropReason::ByteLimit), 4);
        assert_eq!(q.enqueue(Instant::ZERO, long(4, 8), &mut |_, _| ()), 0);
    }

    #[test]
    fn sojourn_is_measured_from_enqueue_to_dequeue() {
        let mut q = queue(10, 10_000);
        q.enqueue(Instant::from_millis(5), packet(1), &mut refuse);
        let out = q.dequeue(Instant::from_millis(12), &mut refuse).expect("one packet waits");
        assert_eq!(out.sojourn, Duration::from_millis(7));
        assert_eq!(q.stats().sojourn.count(), 1);
    }

    #[test]
    fn smaller_limits_keep_what_waits_and_refuse_what_comes() {
        let mut q = queue(10, 10_000);
        for id in 0..5 {
            q.enqueue(Instant::ZERO, packet(id), &mut refuse);
        }
        q.reconfigure(Instant::ZERO, Settings::TailDrop(Limits { segments: 2, bytes: 10_000 }), &mut refuse);
        assert_eq!(q.stats().backlog_segments, 5);
        assert_eq!(q.enqueue(Instant::ZERO, packet(9), &mut |_, _| ()), 0);
    }

    /// An operation list against a plain model: same contents, same drops, never above either limit.
    #[test]
    fn random_operations_match_the_model() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed, "tail-drop-model");
            let limits = Limits { segments: rng.below(40) as u32, bytes: rng.below(6000) };
            let mut q = Queue::new(Settings::TailDrop(limits), seed);
            let mut model: VecDeque<Packet> = VecDeque::new();
            for id in 0..500 {
                let now = Instant::from_nanos(u64::from(id));
                if rng.chance(0.6) {
                    let segments = 1 + rng.below(5) as u32;
                    let item = Packet { segments, bytes: segments as usize * 90, ..packet(id) };
                    let free = limits.segments - model.iter().map(|p| p.segments).sum::<u32>();
                    let free_bytes = limits.bytes as usize - model.iter().map(|p| p.bytes).sum::<usize>();
                    let fits = segments.min(free).min((free_bytes / 90) as u32);
                    assert_eq!(q.enqueue(now, item, &mut |_, _| ()), fits);
                    if fits > 0 {
                        model.push_back(Packet { segments: fits, bytes: fits as usize * 90, ..item });
                    }
                } else {
                    assert_eq!(q.dequeue(now, &mut refuse).map(|d| d.item), model.pop_front());
                }
            }
            q.flush(Instant::ZERO, &mut |_, _| ());
            assert!(q.is_empty());
            assert_eq!(q.stats().backlog_bytes, 0);
        }
    }
}
