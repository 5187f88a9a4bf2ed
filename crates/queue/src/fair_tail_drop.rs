use trunkline_units::Instant;

use crate::discipline::Rules;
use crate::fifo::{Fifo, Held, Stamped};
use crate::ledger::Ledger;
use crate::parameter::{Describe, Description};
use crate::{Control, Discard, DropReason, Item, Limits, Settings};

/// Free space times this is what one flow may hold.
const SHARE: u64 = 4;
/// Flows that are told apart.
const BUCKETS: usize = 1024;

/// First in, first out, with a bound on each flow that follows the free space.
///
/// Plain tail drop is unfair to flows that are clocked by what leaves the queue: packets of one flow leave
/// together, its acknowledgements come back together, and so its next packets find the room that has just been
/// made, while another flow always finds the queue full (Floyd and Jacobson's phase effects, 1992). Here a flow
/// may hold at most [`SHARE`] times the free space (the dynamic thresholds of Choudhury and
/// Hahne, 1998). With N busy flows each gets a share of 4/(4N + 1) of the queue, and the room that is left over
/// is there for whoever sends little. A flow that holds nothing is bound by the limits alone.
///
/// Flows are told apart by a hash into [`BUCKETS`]: two flows that meet in one share its
/// bound. State and cost do not grow with the number of flows.
#[derive(Debug)]
pub(crate) struct FairTailDrop<T> {
    limits: Limits,
    pub(crate) fifo: Fifo<T>,
    held: Box<[u32]>,
}

const fn bucket(flow: u64) -> usize {
    (flow % BUCKETS as u64) as usize
}

impl Describe for FairTailDrop<()> {
    type Settings = Limits;
    const DESCRIPTION: &'static Description = &Description {
        word: "fair-tail-drop",
        meaning: "tail drop with a bound on each flow",
        parameters: &[],
        reasons: &[DropReason::SegmentLimit, DropReason::ByteLimit, DropReason::DynamicThreshold],
        default: || Settings::FairTailDrop(Limits::default()),
    };

    fn limits_mut(settings: &mut Limits) -> &mut Limits {
        settings
    }
}

impl<T: Item> Rules<T> for FairTailDrop<T> {
    type Settings = Limits;

    fn new(limits: Limits, _seed: u64) -> Self {
        FairTailDrop { limits, fifo: Fifo::new(), held: vec![0; BUCKETS].into_boxed_slice() }
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

    fn enqueue<F>(&mut self, now: Instant, mut item: T, ledger: &mut Ledger<'_, F>) -> u32
    where
        F: Discard<T>,
    {
        let bucket = bucket(item.flow());
        let share = self.share(self.held[bucket]);
        let free = u64::from(self.limits.segments).saturating_sub(self.fifo.held().segments);
        if share < free {
            let room = share.min(u64::from(u32::MAX)) as u32;
            let Some(rest) = ledger.fit(item, room, DropReason::DynamicThreshold) else { return 0 };
            item = rest;
        }
        let Some(item) = self.limits.admit(self.fifo.held(), item, ledger) else { return 0 };
        let segments = self.fifo.push(now, item);
        self.held[bucket] += segments;
        segments
    }

    fn pop(&mut self) -> Option<Stamped<T>> {
        let stamped = self.fifo.pop()?;
        self.held[bucket(stamped.item.flow())] -= stamped.item.segments();
        Some(stamped)
    }

    fn fifo(&mut self) -> Option<&mut Fifo<T>> {
        Some(&mut self.fifo)
    }
}

impl<T: Item> FairTailDrop<T> {
    /// Segments that a flow which holds `held` may add.
    fn share(&self, held: u32) -> u64 {
        let free = u64::from(self.limits.segments).saturating_sub(self.fifo.held().segments);
        // Taking n segments makes the free space smaller by n as well: held + n ≤ SHARE × (free − n).
        let share = (SHARE * free).saturating_sub(u64::from(held)) / (SHARE + 1);
        if held == 0 { share.max(free.min(1)) } else { share.min(free) }
    }
}

#[cfg(test)]
mod tests {
    use super::{FairTailDrop, Rules};
    use crate::ledger::Ledger;
    use crate::testing::{Packet, packet};
    use crate::{DropReason, Limits, Queue, Settings, Stats};
    use trunkline_units::{Instant, Rng};

    fn limits(segments: u32) -> Limits {
        Limits { segments, bytes: u64::MAX }
    }

    fn queue(segments: u32) -> Queue<Packet> {
        Queue::new(Settings::FairTailDrop(limits(segments)), 1)
    }

    fn offer(q: &mut Queue<Packet>, flow: u64) -> u32 {
        q.enqueue(Instant::ZERO, Packet { flow, ..packet(0) }, &mut |_, _| ())
    }

    fn fill(q: &mut Queue<Packet>, flow: u64) -> u32 {
        (0..10_000).take_while(|_| offer(q, flow) == 1).count() as u32
    }

    #[test]
    fn one_flow_gets_four_fifths_and_a_second_still_finds_room() {
        let mut q = queue(1000);
        assert_eq!(fill(&mut q, 1), 800);
        assert_eq!(fill(&mut q, 2), 160);
        assert_eq!(q.stats().dropped_for(DropReason::DynamicThreshold), 2);
    }

    #[test]
    fn greedy_flows_that_arrive_in_turn_end_up_with_equal_shares() {
        let mut q = queue(1000);
        let mut held = [0_u32; 10];
        for _ in 0..2000 {
            for flow in 0..10 {
                held[flow as usize] += offer(&mut q, flow);
            }
        }
        // 4/(4 × 10 + 1) of 1000 is 97.
        assert!(held.iter().all(|n| (96..=98).contains(n)), "{held:?}");
    }

    #[test]
    fn a_super_packet_is_cut_to_its_flows_share() {
        let mut q = queue(1000);
        let long = |flow| Packet { flow, segments: 900, bytes: 90_000, ..packet(0) };
        assert_eq!(q.enqueue(Instant::ZERO, long(1), &mut |_, _| ()), 800);
        assert_eq!(q.enqueue(Instant::ZERO, long(2), &mut |_, _| ()), 160);
        assert_eq!(q.stats().dropped_for(DropReason::DynamicThreshold), 100 + 740);
    }

    #[test]
    fn what_flows_hold_is_what_the_queue_holds() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed, "fair");
            let mut q = FairTailDrop::new(limits(50), 0);
            let mut stats = Stats::default();
            for _ in 0..1000 {
                let segments = 1 + rng.below(9) as u32;
                let item =
                    Packet { flow: rng.below(5), segments, bytes: 100 * segments as usize, ..packet(0) };
                if rng.chance(0.7) {
                    let mut ledger =
                        Ledger { stats: &mut stats, on_drop: &mut crate::ledger::Call(&mut |_, _| ()) };
                    assert!(q.enqueue(Instant::ZERO, item, &mut ledger) <= segments);
                } else {
                    let _ = q.pop();
                }
                let held: u64 = q.held.iter().map(|n| u64::from(*n)).sum();
                assert_eq!(held, q.held().segments);
                assert!(held <= 50);
            }
        }
    }

    #[test]
    fn a_flow_that_holds_nothing_may_use_the_last_place() {
        let mut q = queue(10);
        for flow in 0..9 {
            assert_eq!(offer(&mut q, flow), 1);
        }
        assert_eq!(offer(&mut q, 99), 1);
        let mut reasons = Vec::new();
        let late = Packet { flow: 100, ..packet(0) };
        assert_eq!(q.enqueue(Instant::ZERO, late, &mut |_, reason| reasons.push(reason)), 0);
        assert_eq!(reasons, [DropReason::SegmentLimit]);
    }
}
