use trunkline_units::{Instant, Rng};

use crate::discipline::Rules;
use crate::fifo::{Fifo, Held, Stamped, is_too_large};
use crate::flow_map::FlowMap;
use crate::ledger::Ledger;
use crate::parameter::{Describe, Description, Field, Range, parameters};
use crate::random::losses;
use crate::{Conditions, Control, Discard, DropReason, Item, Limits, Settings};

/// P1 leaves room for so many segments of each active flow: with fewer, fast retransmit does not work (kung1998 §4
/// asks for windows of five).
const FLOW_SEGMENTS: u64 = 5;
/// P1 never leaves room for fewer segments than this: one burst of one flow.
const MIN_SEGMENTS: u64 = 16;
/// Of the way down to a smaller capacity an observation goes this part.
const SHRINK: u64 = 8;
/// K is at least that of a window of five segments.
const MIN_HOLDOFF: u32 = 5;
/// K is at most that of a window of 74 segments. Above, a flow of today does not need w/2 round trips to regain its
/// window, and one that is never dropped again grows past its share.
const MAX_HOLDOFF: u32 = 1024;
/// Flows that can be in the holdoff at once. Beyond, one whose last drop is long ago leaves it.
const MAX_FLOWS: usize = 1 << 14;

/// Parameters of the trunk's own discipline (kung1998 §4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrunkSettings {
    /// Never more than this, whatever P1 says.
    pub limits: Limits,
    /// P1: the capacity follows `RTT_up` × bandwidth. Off: it is `limits`.
    pub auto_size: bool,
    /// P2: packets are dropped at random before the queue is full.
    pub early_drop: bool,
    /// P3: a flow that lost a packet loses no other to P2 for K packets.
    pub drop_holdoff: bool,
    /// P2 begins at this share of the capacity.
    pub threshold: f64,
    /// P2's probability as the queue fills.
    pub max_p: f64,
    /// P3's K as a part of X, the packets that a flow sends until it is back at its old rate.
    pub holdoff: f64,
    /// ECN-capable packets are marked where P2 would drop.
    pub ecn: bool,
}

impl Default for TrunkSettings {
    fn default() -> Self {
        TrunkSettings {
            limits: Limits::default(),
            auto_size: true,
            early_drop: true,
            drop_holdoff: true,
            threshold: 0.5,
            max_p: 0.1,
            holdoff: 0.5,
            ecn: true,
        }
    }
}

/// The buffer of a trunk (kung1998 §4): P1, P2 and P3, each of which can be switched off.
///
/// **P1**: all flows share a buffer of `RTT_up` × bandwidth. When the trunk halves its rate, half of what the flows
/// have in flight comes to wait here before they learn of it, so with less they would lose several packets each and
/// with more they would only wait. Bandwidth and `RTT_up` are measured; what is missing at the low end, where a
/// bandwidth-delay product is a handful of packets, is made up for by floors.
///
/// **P2**: above a threshold the probability of a drop rises with what waits, so that flows are told one at a time
/// and before the buffer is full, when all would be told at once.
///
/// **P3**: a flow that has lost a packet loses no other until K more of its segments have passed. One loss makes it
/// halve its rate, as the trunk has halved its own; a second one would cost it a timeout. K is a part, half, of the
/// (3/8)·w² segments that a flow of window w sends until it is back at its old rate, w being W/N. Only a full buffer
/// drops packets of a flow in its holdoff.
#[derive(Debug)]
pub(crate) struct Trunk<T> {
    settings: TrunkSettings,
    pub(crate) fifo: Fifo<T>,
    /// P1's, once there was an observation to go by.
    capacity_bytes: Option<u64>,
    ramp: Ramp,
    holdoff_segments: u32,
    /// Flows in the holdoff, and for how many more segments.
    held_off: FlowMap<u64, u32>,
    rng: Rng,
}

impl Describe for Trunk<()> {
    type Settings = TrunkSettings;
    const DESCRIPTION: &'static Description = &Description {
        word: "trunk",
        meaning: "P1, P2 and P3 of Kung and Wang, for TCP flows at the edge of a trunk",
        parameters: parameters! { Trunk:
            "auto_size", Range::Switch, |trunk| Field::Switch(&mut trunk.auto_size), "P1: the capacity follows RTT_up × bandwidth";
            "early_drop", Range::Switch, |trunk| Field::Switch(&mut trunk.early_drop), "P2: packets are dropped at random before the queue is full";
            "drop_holdoff", Range::Switch, |trunk| Field::Switch(&mut trunk.drop_holdoff),
                "P3: a flow that lost a packet loses no other for the next K packets";
            "threshold", Range::Fraction, |trunk| Field::Number(&mut trunk.threshold), "share of the capacity at which P2 begins";
            "max_p", Range::Probability, |trunk| Field::Number(&mut trunk.max_p), "P2's probability as the queue fills";
            "holdoff", Range::Factor(0.0, 8.0), |trunk| Field::Number(&mut trunk.holdoff),
                "P3's K as a part of the packets that a flow sends until it is back at its old rate";
            "ecn", Range::Switch, |trunk| Field::Switch(&mut trunk.ecn), "ECN-capable packets are marked where P2 would drop";
        },
        reasons: &[DropReason::SegmentLimit, DropReason::ByteLimit, DropReason::Early],
        default: || Settings::Trunk(TrunkSettings::default()),
    };

    fn limits_mut(settings: &mut TrunkSettings) -> &mut Limits {
        &mut settings.limits
    }
}

impl<T: Item> Rules<T> for Trunk<T> {
    type Settings = TrunkSettings;

    fn new(settings: TrunkSettings, seed: u64) -> Self {
        Trunk {
            settings,
            fifo: Fifo::new(),
            capacity_bytes: None,
            ramp: Ramp::new(&settings, settings.limits),
            holdoff_segments: MIN_HOLDOFF,
            held_off: FlowMap::new(MAX_FLOWS),
            rng: Rng::new(seed, "trunk"),
        }
    }

    fn set(&mut self, settings: TrunkSettings) -> bool {
        self.settings = settings;
        if !settings.drop_holdoff {
            self.held_off = FlowMap::new(MAX_FLOWS);
        }
        self.ramp = Ramp::new(&self.settings, self.limits());
        true
    }

    fn held(&self) -> Held {
        self.fifo.held()
    }

    fn control(&self) -> Control {
        Control {
            drop_probability: Some(self.ramp.probability(self.fifo.held())),
            flows: self.settings.drop_holdoff.then_some(self.held_off.len() as u32),
            holdoff_segments: self.settings.drop_holdoff.then_some(self.holdoff_segments),
            ..Control::of(self.ramp.limits)
        }
    }

    fn enqueue<F>(&mut self, now: Instant, item: T, ledger: &mut Ledger<'_, F>) -> u32
    where
        F: Discard<T>,
    {
        let (flow, offered) = (item.flow(), item.segments());
        let known = if self.held_off.is_empty() { None } else { self.held_off.find(flow, &flow) };
        let probability = self.ramp.probability(self.fifo.held());
        let lost = losses(&mut self.rng, probability, offered);
        let mut told = false;
        let passed = if lost == 0 {
            Some(item)
        } else if known.is_some() {
            ledger.stats.held_off += u64::from(lost);
            Some(item)
        } else {
            told = true;
            ledger.signal(item, lost, DropReason::Early, self.settings.ecn)
        };
        // P1 bounds what waits: a packet that finds nobody waiting is taken, however small the product was measured.
        let limits = if self.fifo.held().segments == 0 { self.settings.limits } else { self.ramp.limits };
        let segments = passed.map_or(0, |item| {
            let arrived = item.segments();
            let admitted = limits.admit(self.fifo.held(), item, ledger);
            let segments = admitted.map_or(0, |item| self.fifo.push(now, item));
            told |= segments < arrived;
            segments
        });
        if told && self.settings.drop_holdoff {
            let (index, _) = self.held_off.touch(flow, &flow, now, || 0);
            if let Some(left) = self.held_off.get_mut(index) {
                *left = self.holdoff_segments;
            }
        } else if let Some(index) = known {
            let left = self.held_off.get_mut(index).map_or(0, |left| {
                *left = left.saturating_sub(segments);
                *left
            });
            if left == 0 {
                self.held_off.remove(index);
            }
        }
        segments
    }

    fn pop(&mut self) -> Option<Stamped<T>> {
        self.fifo.pop()
    }

    fn fifo(&mut self) -> Option<&mut Fifo<T>> {
        Some(&mut self.fifo)
    }

    fn observe(&mut self, conditions: &Conditions) {
        let segment_bytes = u64::from(conditions.segment_bytes.max(1));
        let flows = u64::from(conditions.flows.max(1));
        let window = conditions.window_bytes as f64 / segment_bytes as f64 / flows as f64;
        self.holdoff_segments = holdoff(self.settings.holdoff, window);
        let product = conditions.bandwidth.bytes_in(conditions.rtt_up);
        if product == 0 {
            return;
        }
        let floor = segment_bytes.saturating_mul((FLOW_SEGMENTS * flows).max(MIN_SEGMENTS));
        let target = product.max(floor).min(self.settings.limits.bytes);
        let now = self.capacity_bytes.unwrap_or(target);
        self.capacity_bytes = Some(if target < now { now - (now - target).div_ceil(SHRINK) } else { target });
        self.ramp = Ramp::new(&self.settings, self.limits());
    }

    /// Forgets which flows are in the holdoff, if these are many.
    fn forget_flows(&mut self) {
        if is_too_large(self.held_off.capacity(), 0) {
            self.held_off = FlowMap::new(MAX_FLOWS);
        }
    }
}

impl<T: Item> Trunk<T> {
    /// What may wait now, from settings and observation.
    fn limits(&self) -> Limits {
        let limits = self.settings.limits;
        match self.capacity_bytes {
            Some(capacity) if self.settings.auto_size => {
                Limits { bytes: capacity.min(limits.bytes), ..limits }
            }
            _ => limits,
        }
    }
}

/// P1 and P2 as one: what may wait, and the probability on the way there. Worked out when the capacity changes, so that
/// a packet costs no division.
#[derive(Debug)]
struct Ramp {
    limits: Limits,
    bytes: Slope,
    segments: Slope,
    max_p: f64,
}

/// Above `from`, so much for each.
#[derive(Debug)]
struct Slope {
    from: f64,
    each: f64,
}

impl Slope {
    fn new(limit: f64, settings: &TrunkSettings) -> Self {
        let from = limit * settings.threshold.clamp(0.0, 1.0);
        Slope { from, each: settings.max_p / (limit - from).max(1.0) }
    }

    fn at(&self, held: u64) -> f64 {
        (held as f64 - self.from) * self.each
    }
}

impl Ramp {
    fn new(settings: &TrunkSettings, limits: Limits) -> Self {
        Ramp {
            limits,
            bytes: Slope::new(limits.bytes as f64, settings),
            segments: Slope::new(limits.segments.into(), settings),
            max_p: if settings.early_drop { settings.max_p } else { 0.0 },
        }
    }

    /// Linear from 0 at the threshold to `max_p` where the buffer is full, by whichever limit is nearer.
    fn probability(&self, held: Held) -> f64 {
        self.bytes.at(held.bytes).max(self.segments.at(held.segments)).clamp(0.0, self.max_p)
    }
}

/// K for flows whose window is `window` segments.
fn holdoff(part: f64, window: f64) -> u32 {
    let k = part * (3.0 / 8.0) * window * window;
    (k as u32).clamp(MIN_HOLDOFF, MAX_HOLDOFF)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::closed_loop::ClosedLoop;
    use crate::testing::{Packet, packet, refuse};
    use crate::{Queue, Settings};
    use trunkline_units::Rate;

    fn settings() -> TrunkSettings {
        TrunkSettings { limits: Limits { segments: 1000, bytes: 1_000_000 }, ..TrunkSettings::default() }
    }

    fn conditions() -> Conditions {
        Conditions {
            rtt_up: Duration::from_millis(100),
            measured_rtt: None,
            bandwidth: Rate::from_mbit(20.0),
            window_bytes: 100_000,
            segment_bytes: 1000,
            flows: 10,
        }
    }

    fn observed(settings: TrunkSettings, conditions: &Conditions) -> Queue<Packet> {
        let mut q = Queue::new(Settings::Trunk(settings), 1);
        q.observe(conditions);
        q
    }

    #[test]
    fn k_is_half_of_what_a_flow_sends_until_it_is_back_with_a_floor_and_a_cap() {
        let cases =
            [(0.5, 5), (5.0, 5), (6.0, 6), (10.0, 18), (20.0, 75), (73.0, 999), (74.0, 1024), (1e6, 1024)];
        for (window, k) in cases {
            assert_eq!(holdoff(0.5, window), k, "w = {window}");
        }
        assert_eq!(holdoff(1.0, 10.0), 37, "all of X");
        let q = observed(settings(), &conditions());
        assert_eq!(q.control().holdoff_segments, Some(18), "W = 100, N = 10");
    }

    #[test]
    fn p1_makes_the_capacity_the_bandwidth_delay_product() {
        let q = observed(settings(), &conditions());
        assert_eq!(q.control().capacity_bytes, 250_000);
        let off = observed(TrunkSettings { auto_size: false, ..settings() }, &conditions());
        assert_eq!(off.control().capacity_bytes, 1_000_000);
        let unobserved: Queue<Packet> = Queue::new(Settings::Trunk(settings()), 1);
        assert_eq!(unobserved.control().capacity_bytes, 1_000_000);
    }

    #[test]
    fn p1_has_floors_for_small_products_and_the_limits_above() {
        let slow = Conditions { bandwidth: Rate::from_mbit(0.1), ..conditions() };
        assert_eq!(observed(settings(), &slow).control().capacity_bytes, 50_000, "five for each flow");
        let lonely = Conditions { flows: 1, ..slow };
        assert_eq!(observed(settings(), &lonely).control().capacity_bytes, 16_000, "sixteen in all");
        let fast = Conditions { bandwidth: Rate::from_mbit(10_000.0), ..conditions() };
        assert_eq!(observed(settings(), &fast).control().capacity_bytes, 1_000_000);
        let unknown = Conditions { bandwidth: Rate::ZERO, ..conditions() };
        assert_eq!(observed(settings(), &unknown).control().capacity_bytes, 1_000_000);
    }

    #[test]
    fn p1_grows_at_once_and_shrinks_by_an_eighth_of_the_way() {
        let mut q = observed(settings(), &conditions());
        q.observe(&Conditions { bandwidth: Rate::from_mbit(40.0), ..conditions() });
        assert_eq!(q.control().capacity_bytes, 500_000);
        q.observe(&conditions());
        assert_eq!(q.control().capacity_bytes, 500_000 - 31_250);
        for _ in 0..100 {
            q.observe(&conditions());
        }
        assert_eq!(q.control().capacity_bytes, 250_000);
    }

    #[test]
    fn what_finds_nobody_waiting_is_taken_however_small_the_product() {
        let narrow =
            Conditions { bandwidth: Rate::from_mbit(0.001), segment_bytes: 10, flows: 1, ..conditions() };
        let mut q = observed(settings(), &narrow);
        assert!(q.control().capacity_bytes < 1000, "{:?}", q.control());
        q.enqueue(Instant::ZERO, Packet { bytes: 1000, ..packet(0) }, &mut refuse);
        let mut lost = 0;
        q.enqueue(Instant::ZERO, Packet { bytes: 1000, ..packet(1) }, &mut |_, _| lost += 1);
        assert_eq!((q.stats().backlog_segments, lost), (1, 1));
    }

    /// Holds `waiting` segments while `offered` arrive, `flows` in turn: the share that P2 drops.
    fn early_share(settings: TrunkSettings, waiting: u64, offered: u32, flows: u64) -> f64 {
        let mut q = observed(settings, &conditions());
        for id in 0..offered {
            if q.stats().backlog_segments >= waiting {
                q.dequeue(Instant::ZERO, &mut refuse);
            }
            let item = Packet { flow: u64::from(id) % flows, bytes: 1000, ..packet(id) };
            q.enqueue(Instant::ZERO, item, &mut |_, reason| assert_eq!(reason, DropReason::Early));
        }
        q.stats().dropped_for(DropReason::Early) as f64 / f64::from(offered)
    }

    #[test]
    fn p2_rises_linearly_from_the_threshold_to_max_p() {
        let alone = TrunkSettings { drop_holdoff: false, ..settings() };
        // The capacity is 250 segments of 1000 bytes, and an arrival finds one less than `waiting`.
        assert!(early_share(alone, 126, 20_000, 10) == 0.0);
        for (waiting, p) in [(151, 0.02), (188, 0.05), (250, 0.1)] {
            let share = early_share(alone, waiting, 100_000, 10);
            assert!((share / p - 1.0).abs() < 0.07, "{share} for {p}");
        }
        assert!(early_share(TrunkSettings { early_drop: false, ..alone }, 250, 20_000, 10) == 0.0);
    }

    #[test]
    fn p3_lets_k_segments_pass_between_two_drops_of_a_flow() {
        let gaps = |settings| {
            let mut q = observed(settings, &conditions());
            // Before its first drop a flow is in no holdoff.
            let mut passed = [1000_u32; 10];
            let mut shortest = u32::MAX;
            for id in 0..100_000 {
                if q.stats().backlog_segments >= 240 {
                    q.dequeue(Instant::ZERO, &mut refuse);
                }
                let flow = u64::from(id) % 10;
                let item = Packet { flow, bytes: 1000, ..packet(id) };
                if q.enqueue(Instant::ZERO, item, &mut |_, _| ()) == 1 {
                    passed[flow as usize] += 1;
                } else {
                    shortest = shortest.min(std::mem::take(&mut passed[flow as usize]));
                }
            }
            (shortest, q.stats().held_off)
        };
        let (shortest, held_off) = gaps(settings());
        assert!(shortest >= 18 && held_off > 1000, "{shortest} {held_off}");
        let (shortest, held_off) = gaps(TrunkSettings { drop_holdoff: false, ..settings() });
        assert!(shortest < 3 && held_off == 0, "{shortest} {held_off}");
    }

    #[test]
    fn a_full_buffer_drops_packets_of_flows_in_the_holdoff_too() {
        let mut q = observed(settings(), &conditions());
        let mut taken = 0;
        for id in 0..1000 {
            taken += q.enqueue(Instant::ZERO, Packet { bytes: 1000, ..packet(id) }, &mut |_, _| ());
        }
        assert_eq!(taken, 250);
        assert!(q.stats().dropped_for(DropReason::ByteLimit) >= 745);
        assert!(q.stats().dropped_for(DropReason::Early) <= 5);
    }

    #[test]
    fn a_mark_starts_the_holdoff_as_a_drop_does() {
        let mut q = observed(settings(), &conditions());
        for id in 0..50_000 {
            if q.stats().backlog_segments >= 240 {
                q.dequeue(Instant::ZERO, &mut refuse);
            }
            let item = Packet { ecn: true, bytes: 1000, flow: 7, ..packet(id) };
            q.enqueue(Instant::ZERO, item, &mut refuse);
        }
        let marked = q.stats().marked_total();
        // One in 1/p + K, p being 0.092 and K 18.
        assert!((1600..1850).contains(&marked), "{marked}");
        assert_eq!(q.control().flows, Some(1));
    }

    #[test]
    fn more_flows_than_the_holdoff_has_places_leave_the_map_within_its_bound() {
        let limits = Limits { segments: 10, bytes: 1_000_000 };
        let mut q = Queue::new(Settings::Trunk(TrunkSettings { limits, ..settings() }), 1);
        for id in 0..100_000_u32 {
            let flow = u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            q.enqueue(
                Instant::from_nanos(u64::from(id) * 1000),
                Packet { flow, ..packet(id) },
                &mut |_, _| (),
            );
        }
        let held_off = q.control().flows.unwrap() as usize;
        assert!((MAX_FLOWS / 2..=MAX_FLOWS).contains(&held_off), "{held_off}");
    }

    #[test]
    fn greedy_flows_share_fairly_and_p3_keeps_them_from_second_losses() {
        let path = ClosedLoop { flows: 20, ..ClosedLoop::default() };
        let product = path.rate.bytes_in(path.rtt);
        let conditions = Conditions {
            rtt_up: path.rtt,
            measured_rtt: Some(path.rtt),
            bandwidth: path.rate,
            window_bytes: product,
            segment_bytes: ClosedLoop::PACKET_BYTES as u32,
            flows: path.flows,
        };
        let load = ClosedLoop { conditions: Some(conditions), ..path };
        let with = load.run(Settings::Trunk(settings()));
        let without = load.run(Settings::Trunk(TrunkSettings { drop_holdoff: false, ..settings() }));
        assert!(with.jain > 0.95, "{}", with.jain);
        assert!(with.utilisation > 0.95, "{}", with.utilisation);
        assert!(
            with.repeated_losses * 5 <= without.repeated_losses,
            "{} repeated losses with P3, {} without",
            with.repeated_losses,
            without.repeated_losses
        );
    }
}
