use trunkline_units::{Instant, Rng};

use crate::average::Average;
use crate::discipline::Rules;
use crate::fifo::{Fifo, Held, Stamped};
use crate::ledger::Ledger;
use crate::parameter::{Conflict, Describe, Description, Field, MAX_PACKETS, Range, parameters, thresholds};
use crate::{Control, Discard, DropReason, Item, Limits, Settings};

/// Flows that are told apart for each segment that may wait.
const BUCKETS_PER_SEGMENT: usize = 4;
const MAX_BUCKETS: usize = 1 << 16;
/// `maxq` while the average is above `max`: the two packets of the "many flows" mode.
const TWO_PACKETS: u32 = 2;

/// Parameters of FRED (Lin and Morris 1997), in segments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FredSettings {
    /// Never more than this.
    pub limits: Limits,
    /// `min_th`.
    pub min: u32,
    /// `max_th`.
    pub max: u32,
    /// `max_p`.
    pub max_p: f64,
    /// `w_q`.
    pub weight: f64,
    /// `min_q`: segments any flow may hold without being dropped at random.
    pub min_flow: u32,
    /// ECN-capable packets are marked where a drop would have been at random.
    pub ecn: bool,
}

impl Default for FredSettings {
    fn default() -> Self {
        FredSettings {
            limits: Limits::default(),
            min: 25,
            max: 100,
            max_p: 0.02,
            weight: 0.002,
            min_flow: 4,
            ecn: true,
        }
    }
}

/// Flow random early drop (Lin and Morris 1997): RED that knows what each flow with a packet in the queue holds.
///
/// Where RED drops at random, FRED drops nothing of flows that hold less than `min_flow` or the mean of all flows (the fragile
/// ones). A flow may hold `min` at most; one that tries to hold more, or more than twice the mean while the queue is
/// too long, gets a strike and loses what arrives; one with more than one strike may hold no more than the mean.
/// While the average is above `max` each flow may hold two packets, so that many flows get through in turn where RED
/// would drop everything.
///
/// The state of a flow lasts as long as it has a packet in the queue, as in the paper. Flows are told apart by a hash
/// into four buckets for each segment the queue may hold; two that meet are one. So state is bounded, and nothing is
/// searched or forgotten.
#[derive(Debug)]
pub(crate) struct Fred<T> {
    settings: FredSettings,
    pub(crate) fifo: Fifo<T>,
    average: Average,
    flows: Box<[Flow]>,
    active: u32,
    count: f64,
    rng: Rng,
}

#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    segments: u32,
    strikes: u32,
}

impl Describe for Fred<()> {
    type Settings = FredSettings;
    const DESCRIPTION: &'static Description = &Description {
        word: "fred",
        meaning: "flow random early drop",
        parameters: parameters! { Fred:
            "min", Range::Count(1, MAX_PACKETS), |fred| Field::Count(&mut fred.min), "average below which nothing is dropped, packets";
            "max", Range::Count(1, MAX_PACKETS), |fred| Field::Count(&mut fred.max), "average from which everything is dropped, packets";
            "max_p", Range::Probability, |fred| Field::Number(&mut fred.max_p), "probability of a drop just below max";
            "weight", Range::Probability, |fred| Field::Number(&mut fred.weight), "weight of the newest sample in the average";
            "min_flow", Range::Count(1, MAX_PACKETS), |fred| Field::Count(&mut fred.min_flow), "packets that any flow may have";
            "ecn", Range::Switch, |fred| Field::Switch(&mut fred.ecn), "ECN-capable packets are marked instead of dropped";
        },
        reasons: &[DropReason::SegmentLimit, DropReason::ByteLimit, DropReason::Early, DropReason::Forced],
        default: || Settings::Fred(FredSettings::default()),
    };

    fn limits_mut(settings: &mut FredSettings) -> &mut Limits {
        &mut settings.limits
    }

    fn conflict(settings: &FredSettings) -> Option<Conflict> {
        thresholds(settings.min.into(), settings.max.into(), settings.limits.segments.into())
    }
}

impl<T: Item> Rules<T> for Fred<T> {
    type Settings = FredSettings;

    fn new(settings: FredSettings, seed: u64) -> Self {
        let buckets = (settings.limits.segments as usize)
            .saturating_mul(BUCKETS_PER_SEGMENT)
            .clamp(64, MAX_BUCKETS)
            .next_power_of_two();
        Fred {
            settings,
            fifo: Fifo::new(),
            average: Average::new(settings.weight),
            flows: vec![Flow::default(); buckets].into_boxed_slice(),
            active: 0,
            count: 0.0,
            rng: Rng::new(seed, "fred"),
        }
    }

    fn set(&mut self, settings: FredSettings) -> bool {
        self.settings = settings;
        self.average.set_weight(settings.weight);
        true
    }

    fn held(&self) -> Held {
        self.fifo.held()
    }

    fn control(&self) -> Control {
        Control {
            drop_probability: Some(self.probability()),
            average: Some(self.average.value()),
            flows: Some(self.active),
            ..Control::of(self.settings.limits)
        }
    }

    fn enqueue<F>(&mut self, now: Instant, item: T, ledger: &mut Ledger<'_, F>) -> u32
    where
        F: Discard<T>,
    {
        self.average.arrive(now, self.fifo.held().segments, item.segments());
        let bucket = self.bucket(item.flow());
        let flow = self.flows[bucket];
        let allowed = self.allowance(flow);
        if allowed.is_none_or(|allowed| allowed < item.segments()) {
            self.flows[bucket].strikes = flow.strikes.saturating_add(1);
        }
        let Some(item) = ledger.fit(item, allowed.unwrap_or(0), DropReason::Forced) else {
            self.end_of_state(bucket);
            return 0;
        };
        let admitted = self
            .early(flow, item, ledger)
            .and_then(|item| self.settings.limits.admit(self.fifo.held(), item, ledger));
        let segments = admitted.map_or(0, |item| self.fifo.push(now, item));
        if flow.segments == 0 && segments > 0 {
            self.active += 1;
        }
        self.flows[bucket].segments += segments;
        self.end_of_state(bucket);
        segments
    }

    fn dequeue<F: Discard<T>>(&mut self, now: Instant, _: &mut Ledger<'_, F>) -> Option<Stamped<T>> {
        let stamped = self.pop()?;
        let (queue, segments) = (self.fifo.held().segments, stamped.item.segments());
        if queue > 0 {
            self.average.sample(queue, segments);
        }
        self.average.depart(now, queue, segments);
        Some(stamped)
    }

    fn pop(&mut self) -> Option<Stamped<T>> {
        let stamped = self.fifo.pop()?;
        let bucket = self.bucket(stamped.item.flow());
        self.flows[bucket].segments -= stamped.item.segments();
        if self.flows[bucket].segments == 0 {
            self.active -= 1;
        }
        self.end_of_state(bucket);
        Some(stamped)
    }

    fn fifo(&mut self) -> Option<&mut Fifo<T>> {
        Some(&mut self.fifo)
    }
}

impl<T: Item> Fred<T> {
    fn bucket(&self, flow: u64) -> usize {
        flow as usize & (self.flows.len() - 1)
    }

    /// `p_b`, for flows that are not exempt.
    fn probability(&self) -> f64 {
        let (min, max) = (f64::from(self.settings.min), f64::from(self.settings.max));
        let average = self.average.value();
        if average < min || average >= max {
            return 0.0;
        }
        self.settings.max_p * (average - min) / (max - min)
    }

    /// `avgcq`: what a flow holds on average, at least one.
    fn mean_of_flows(&self) -> f64 {
        (self.average.value() / f64::from(self.active.max(1))).max(1.0)
    }

    /// What a flow may hold, or nothing if it is to be struck.
    fn allowance(&self, flow: Flow) -> Option<u32> {
        let crowded = self.average.value() >= f64::from(self.settings.max);
        let max = if crowded { TWO_PACKETS } else { self.settings.min };
        let (held, mean) = (f64::from(flow.segments), self.mean_of_flows());
        let greedy = crowded && held > 2.0 * mean;
        let deaf = flow.strikes > 1 && held >= mean;
        (flow.segments < max && !greedy && !deaf).then(|| max - flow.segments)
    }

    /// RED's drop, for flows that hold their part.
    fn early<F>(&mut self, flow: Flow, item: T, ledger: &mut Ledger<'_, F>) -> Option<T>
    where
        F: Discard<T>,
    {
        let p = self.probability();
        if p == 0.0 {
            self.count = 0.0;
            return Some(item);
        }
        let segments = f64::from(item.segments());
        if f64::from(flow.segments) >= f64::from(self.settings.min_flow).max(self.mean_of_flows()) {
            let chance = segments * p / (1.0 - self.count * p).max(f64::MIN_POSITIVE);
            if self.rng.chance(chance) {
                self.count = 0.0;
                return ledger.signal(item, 1, DropReason::Early, self.settings.ecn);
            }
        }
        self.count += segments;
        Some(item)
    }

    /// A flow without a packet in the queue has no state.
    fn end_of_state(&mut self, bucket: usize) {
        if self.flows[bucket].segments == 0 {
            self.flows[bucket] = Flow::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Packet, packet, refuse};
    use crate::{Limits, Queue, Settings, Stats};

    fn settings() -> FredSettings {
        FredSettings { limits: Limits { segments: 1000, bytes: u64::MAX }, ..FredSettings::default() }
    }

    fn flow(flow: u64) -> Packet {
        Packet { flow, ..packet(0) }
    }

    #[test]
    fn a_flow_holds_at_most_min_of_an_uncrowded_queue() {
        let mut q = Queue::new(Settings::Fred(settings()), 1);
        for _ in 0..200 {
            q.enqueue(Instant::ZERO, flow(1), &mut |_, _| ());
        }
        assert_eq!(q.stats().backlog_segments, 25);
        assert_eq!(q.stats().dropped_for(DropReason::Forced), 175);
    }

    #[test]
    fn fragile_flows_lose_nothing_beside_greedy_ones() {
        let mut q = Queue::new(Settings::Fred(FredSettings { max_p: 0.1, ..settings() }), 1);
        let mut lost = [0_u64; 6];
        // Five greedy flows fill whatever they may; a fragile one sends one packet in twenty.
        for round in 0..20_000_u64 {
            for greedy in 1..=5 {
                q.enqueue(Instant::ZERO, flow(greedy), &mut |gone: Packet, _| lost[gone.flow as usize] += 1);
            }
            if round % 4 == 0 {
                q.enqueue(Instant::ZERO, flow(0), &mut |gone: Packet, _| lost[gone.flow as usize] += 1);
            }
            for _ in 0..4 {
                q.dequeue(Instant::ZERO, &mut refuse);
            }
        }
        assert_eq!(lost[0], 0, "{lost:?}");
        assert!(lost[1..].iter().all(|greedy| *greedy > 500), "{lost:?}");
        assert!(q.stats().dropped_for(DropReason::Early) > 100);
    }

    #[test]
    fn a_flow_that_does_not_give_way_is_held_to_the_mean() {
        let mut q = Queue::new(Settings::Fred(settings()), 1);
        let mut out = [0_u64; 5];
        // Four flows keep six packets each in the queue, the fifth sends as much as all of them.
        let mut held = [0_u64; 5];
        for _ in 0..20_000 {
            for adaptive in 0..4 {
                if held[adaptive as usize] < 6 {
                    held[adaptive as usize] +=
                        u64::from(q.enqueue(Instant::ZERO, flow(adaptive), &mut |_, _| ()));
                }
            }
            for _ in 0..4 {
                held[4] += u64::from(q.enqueue(Instant::ZERO, flow(4), &mut |_, _| ()));
            }
            for _ in 0..4 {
                if let Some(gone) = q.dequeue(Instant::ZERO, &mut refuse) {
                    held[gone.item.flow as usize] -= 1;
                    out[gone.item.flow as usize] += 1;
                }
            }
        }
        let fair = out.iter().sum::<u64>() / 5;
        assert!(out[4] < 2 * fair, "{out:?}");
        assert!(out[..4].iter().all(|n| *n * 10 > fair * 7), "{out:?}");
    }

    #[test]
    fn many_flows_may_hold_two_packets_each_above_max() {
        let mut q = Queue::new(Settings::Fred(FredSettings { weight: 1.0, ..settings() }), 1);
        for id in 0..200 {
            assert_eq!(q.enqueue(Instant::ZERO, flow(id), &mut refuse), 1, "flow {id}");
        }
        assert!(q.control().average.is_some_and(|average| average > 100.0));
        assert_eq!(q.enqueue(Instant::ZERO, flow(0), &mut refuse), 1);
        assert_eq!(q.enqueue(Instant::ZERO, flow(0), &mut |_, _| ()), 0);
        assert_eq!(q.stats().dropped_for(DropReason::Forced), 1);
    }

    #[test]
    fn what_flows_hold_is_what_the_queue_holds() {
        let mut rng = Rng::new(9, "fred-model");
        let mut q = Fred::new(settings(), 9);
        let mut stats = Stats::default();
        for step in 0..20_000 {
            let now = Instant::from_nanos(step * 1000);
            if rng.chance(0.6) {
                let segments = 1 + rng.below(9) as u32;
                let item = Packet { segments, bytes: 100 * segments as usize, ..flow(rng.below(300)) };
                q.enqueue(
                    now,
                    item,
                    &mut Ledger { stats: &mut stats, on_drop: &mut crate::ledger::Call(&mut |_, _| ()) },
                );
            } else {
                q.dequeue(
                    now,
                    &mut Ledger { stats: &mut stats, on_drop: &mut crate::ledger::Call(&mut |_, _| ()) },
                );
            }
            let held: u64 = q.flows.iter().map(|flow| u64::from(flow.segments)).sum();
            assert_eq!(held, q.held().segments);
            assert_eq!(q.active as usize, q.flows.iter().filter(|flow| flow.segments > 0).count());
            assert!(q.flows.iter().all(|flow| flow.segments > 0 || flow.strikes == 0));
        }
        assert!(stats.dropped_total() > 1000);
    }
}
