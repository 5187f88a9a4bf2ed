use trunkline_units::Instant;

use crate::{Dequeued, DropReason, Enqueue, Item, Limits, Stats, TailDrop};

/// First in, first out, with a bound on each flow that follows the free space.
///
/// Plain tail drop is unfair to flows that are clocked by what leaves the queue: packets of one flow leave
/// together, its acknowledgements come back together, and so its next packets find the room that has just been
/// made, while another flow always finds the queue full (Floyd and Jacobson's phase effects, 1992). Here a flow
/// may hold at most [`SHARE`](FairTailDrop::SHARE) times the free space (the dynamic thresholds of Choudhury and
/// Hahne, 1998). With N busy flows each gets a share of 4/(4N + 1) of the queue, and the room that is left over
/// is there for whoever sends little. A flow that holds nothing is bound by the limits alone.
///
/// Flows are told apart by a hash into [`BUCKETS`](FairTailDrop::BUCKETS): two flows that meet in one share its
/// bound. State and cost do not grow with the number of flows.
#[derive(Debug)]
pub struct FairTailDrop<T> {
    fifo: TailDrop<T>,
    held: Box<[u32]>,
}

impl<T: Item> FairTailDrop<T> {
    /// Free space times this is what one flow may hold.
    pub const SHARE: u64 = 4;
    /// Flows that are told apart.
    pub const BUCKETS: usize = 1024;

    /// An empty queue.
    pub fn new(limits: Limits) -> Self {
        FairTailDrop { fifo: TailDrop::new(limits), held: vec![0; Self::BUCKETS].into_boxed_slice() }
    }

    /// The queue without the bound on flows, for what is the same.
    pub(crate) const fn fifo(&self) -> &TailDrop<T> {
        &self.fifo
    }

    pub(crate) fn fifo_mut(&mut self) -> &mut TailDrop<T> {
        &mut self.fifo
    }

    fn bucket(flow: u64) -> usize {
        (flow % Self::BUCKETS as u64) as usize
    }

    /// As [`TailDrop::room`], for packets of `flow`.
    pub fn room(&self, flow: u64, segments: u32, segment_bytes: usize) -> (u32, DropReason) {
        let (room, reason) = self.fifo.room(segments, segment_bytes);
        let held = u64::from(self.held[Self::bucket(flow)]);
        let backlog = self.fifo.stats().backlog_segments;
        let free = u64::from(self.fifo.limits().segments).saturating_sub(backlog);
        // Taking n segments makes the free space smaller by n as well: held + n ≤ SHARE × (free − n).
        let share = (Self::SHARE * free).saturating_sub(held) / (Self::SHARE + 1);
        let share = if held == 0 { share.max(1) } else { share };
        if share < u64::from(room) { (share as u32, DropReason::FlowShare) } else { (room, reason) }
    }

    /// Offers an item to the back of the queue.
    pub fn enqueue(&mut self, now: Instant, item: T) -> Enqueue<T> {
        let (bucket, segments) = (Self::bucket(item.flow()), item.segments());
        let (room, reason) =
            self.room(item.flow(), segments, item.bytes().div_ceil(segments.max(1) as usize));
        if room < segments && reason == DropReason::FlowShare {
            self.fifo.refuse(segments, item.bytes(), reason);
            return Enqueue::Dropped(item, reason);
        }
        let outcome = self.fifo.enqueue(now, item);
        if matches!(outcome, Enqueue::Queued) {
            self.held[bucket] += segments;
        }
        outcome
    }

    /// Takes the item at the front.
    pub fn dequeue(&mut self, now: Instant) -> Option<Dequeued<T>> {
        let out = self.fifo.dequeue(now)?;
        self.held[Self::bucket(out.item.flow())] -= out.item.segments();
        Some(out)
    }

    /// Drops what waits, from the front.
    pub fn flush(&mut self) -> Option<T> {
        let item = self.fifo.flush()?;
        self.held[Self::bucket(item.flow())] -= item.segments();
        Some(item)
    }

    /// What the queue has seen.
    pub const fn stats(&self) -> &Stats {
        self.fifo.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_units::Rng;

    #[derive(Debug, PartialEq, Eq, Clone, Copy)]
    struct Packet {
        flow: u64,
        segments: u32,
    }

    impl Item for Packet {
        fn bytes(&self) -> usize {
            self.segments as usize * 100
        }
        fn segments(&self) -> u32 {
            self.segments
        }
        fn flow(&self) -> u64 {
            self.flow
        }
    }

    fn queue(segments: u32) -> FairTailDrop<Packet> {
        FairTailDrop::new(Limits { segments, bytes: u64::MAX })
    }

    fn fill(q: &mut FairTailDrop<Packet>, flow: u64) -> u32 {
        let mut taken = 0;
        while let Enqueue::Queued = q.enqueue(Instant::ZERO, Packet { flow, segments: 1 }) {
            taken += 1;
        }
        taken
    }

    #[test]
    fn one_flow_gets_four_fifths_and_a_second_still_finds_room() {
        let mut q = queue(1000);
        assert_eq!(fill(&mut q, 1), 800);
        assert_eq!(fill(&mut q, 2), 160);
        assert_eq!(q.stats().dropped[DropReason::FlowShare as usize], 2);
    }

    #[test]
    fn greedy_flows_that_arrive_in_turn_end_up_with_equal_shares() {
        let mut q = queue(1000);
        let mut held = [0_u32; 10];
        for _ in 0..2000 {
            for flow in 0..10 {
                if let Enqueue::Queued = q.enqueue(Instant::ZERO, Packet { flow, segments: 1 }) {
                    held[flow as usize] += 1;
                }
            }
        }
        // 4/(4 × 10 + 1) of 1000 is 97.
        assert!(held.iter().all(|n| (96..=98).contains(n)), "{held:?}");
    }

    #[test]
    fn room_never_promises_more_than_enqueue_takes() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed, "fair");
            let mut q = queue(50);
            for _ in 0..1000 {
                let item = Packet { flow: rng.below(5), segments: 1 + rng.below(9) as u32 };
                let (room, _) = q.room(item.flow, item.segments, 100);
                assert!(room <= item.segments);
                if room > 0 && rng.chance(0.7) {
                    let cut = Packet { segments: room, ..item };
                    assert_eq!(q.enqueue(Instant::ZERO, cut), Enqueue::Queued, "seed {seed}");
                } else {
                    let _ = q.dequeue(Instant::ZERO);
                }
                let held: u64 = q.held.iter().map(|n| u64::from(*n)).sum();
                assert_eq!(held, q.stats().backlog_segments);
                assert!(held <= 50);
            }
        }
    }

    #[test]
    fn a_flow_that_holds_nothing_may_use_the_last_place() {
        let mut q = queue(10);
        for flow in 0..9 {
            assert_eq!(q.enqueue(Instant::ZERO, Packet { flow, segments: 1 }), Enqueue::Queued);
        }
        assert_eq!(q.enqueue(Instant::ZERO, Packet { flow: 99, segments: 1 }), Enqueue::Queued);
        let full = q.enqueue(Instant::ZERO, Packet { flow: 100, segments: 1 });
        assert!(matches!(full, Enqueue::Dropped(_, DropReason::SegmentLimit)), "{full:?}");
    }
}
