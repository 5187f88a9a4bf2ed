use std::time::Duration;

use trunkline_units::{Instant, Rng};

use crate::codel::segment_bytes;
use crate::discipline::Rules;
use crate::fifo::{Fifo, Held, Stamped};
use crate::ledger::Ledger;
use crate::parameter::{CONTROL_TIME, Describe, Description, Field, MAX_TIME, Range, parameters};
use crate::random::{SIGNAL, losses};
use crate::{Control, Discard, DropReason, Item, Limits, Settings};

/// `alpha` and `beta` of RFC 8033 §4.2, per second.
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// What is left of the probability after each update of an idle queue (§4.2).
const DECAY: f64 = 0.98;
/// From `SIGNAL` on the probability rises by no more than this at once (§5.5).
const MAX_STEP: f64 = 0.02;
/// Below this probability, and below half the target, nothing is dropped (§4.1).
const SAFE_PROBABILITY: f64 = 0.2;
/// Updates made up for after a time without calls: by then an idle queue has forgotten all it knew.
const MAX_UPDATES: u64 = 1024;

/// Parameters of PIE (RFC 8033).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PieSettings {
    /// Never more than this.
    pub limits: Limits,
    /// `QDELAY_REF`.
    pub target: Duration,
    /// `T_UPDATE`.
    pub update: Duration,
    /// `MAX_BURST`.
    pub burst: Duration,
    /// ECN-capable packets are marked while the probability is below 10 %.
    pub ecn: bool,
}

impl Default for PieSettings {
    /// RFC 8033 §4.
    fn default() -> Self {
        PieSettings {
            limits: Limits::default(),
            target: Duration::from_millis(15),
            update: Duration::from_millis(15),
            burst: Duration::from_millis(150),
            ecn: true,
        }
    }
}

/// PIE (RFC 8033): a drop probability that a proportional-integral controller moves, so that the delay stays at a
/// target.
///
/// The RFC has a timer. Here the updates that have become due are made up for by the next call, each with the delay
/// that the queue had at that time: there was no call in between, so what waited is what waits now.
///
/// Deviation: the delay is the age of the packet at the head, where the RFC takes the rate of departures or the
/// sojourn time of the last packet that left. It is the same while packets leave, and when they stop it grows at once.
#[derive(Debug)]
pub(crate) struct Pie<T> {
    settings: PieSettings,
    pub(crate) fifo: Fifo<T>,
    probability: f64,
    delay: Duration,
    old_delay: Duration,
    burst: Duration,
    next_update: Option<Instant>,
    /// The longest segment seen, for `MEAN_PKTSIZE`.
    longest: u64,
    rng: Rng,
}

impl Describe for Pie<()> {
    type Settings = PieSettings;
    const DESCRIPTION: &'static Description = &Description {
        word: "pie",
        meaning: "proportional integral controller enhanced, RFC 8033",
        parameters: parameters! { Pie:
            "target", CONTROL_TIME, |pie| Field::Time(&mut pie.target), "acceptable standing sojourn time";
            "update", Range::Time(Duration::from_millis(1), MAX_TIME), |pie| Field::Time(&mut pie.update), "time between two updates of the probability";
            "burst", Range::Time(Duration::ZERO, MAX_TIME), |pie| Field::Time(&mut pie.burst), "bursts of this length pass without a drop";
            "ecn", Range::Switch, |pie| Field::Switch(&mut pie.ecn), "ECN-capable packets are marked while the probability is below 10 %";
        },
        reasons: &[DropReason::SegmentLimit, DropReason::ByteLimit, DropReason::Early],
        default: || Settings::Pie(PieSettings::default()),
    };

    fn limits_mut(settings: &mut PieSettings) -> &mut Limits {
        &mut settings.limits
    }
}

impl<T: Item> Rules<T> for Pie<T> {
    type Settings = PieSettings;

    fn new(settings: PieSettings, seed: u64) -> Self {
        Pie {
            settings,
            fifo: Fifo::new(),
            probability: 0.0,
            delay: Duration::ZERO,
            old_delay: Duration::ZERO,
            burst: settings.burst,
            next_update: None,
            longest: 0,
            rng: Rng::new(seed, "pie"),
        }
    }

    fn set(&mut self, settings: PieSettings) -> bool {
        self.settings = settings;
        true
    }

    fn held(&self) -> Held {
        self.fifo.held()
    }

    fn control(&self) -> Control {
        Control {
            drop_probability: Some(self.probability),
            delay: Some(self.delay),
            ..Control::of(self.settings.limits)
        }
    }

    fn enqueue<F>(&mut self, now: Instant, item: T, ledger: &mut Ledger<'_, F>) -> u32
    where
        F: Discard<T>,
    {
        self.advance(now);
        self.longest = self.longest.max(segment_bytes(&item));
        let lost = if self.is_safe() { 0 } else { losses(&mut self.rng, self.probability, item.segments()) };
        let passed = if lost > 0 {
            let ecn = self.settings.ecn && self.probability < SIGNAL;
            ledger.signal(item, lost, DropReason::Early, ecn)
        } else {
            Some(item)
        };
        let admitted = passed.and_then(|item| self.settings.limits.admit(self.fifo.held(), item, ledger));
        admitted.map_or(0, |item| self.fifo.push(now, item))
    }

    fn dequeue<F: Discard<T>>(&mut self, now: Instant, _: &mut Ledger<'_, F>) -> Option<Stamped<T>> {
        self.advance(now);
        self.fifo.pop()
    }

    fn pop(&mut self) -> Option<Stamped<T>> {
        self.fifo.pop()
    }

    fn fifo(&mut self) -> Option<&mut Fifo<T>> {
        Some(&mut self.fifo)
    }
}

impl<T: Item> Pie<T> {
    /// Makes up for the updates that are due.
    #[inline]
    fn advance(&mut self, now: Instant) {
        if self.next_update.is_none_or(|next| now >= next) {
            self.make_up(now);
        }
    }

    #[cold]
    fn make_up(&mut self, now: Instant) {
        let period = self.settings.update.max(Duration::from_micros(1));
        let mut next = self.next_update.unwrap_or(now + period);
        let due = now.saturating_since(next).as_nanos() / period.as_nanos();
        if due > u128::from(MAX_UPDATES) {
            next = now - period * MAX_UPDATES as u32;
        }
        while next <= now {
            self.update(next);
            next += period;
        }
        self.next_update = Some(next);
    }

    /// RFC 8033 §4.2, with the steps of its auto-tuning.
    fn update(&mut self, at: Instant) {
        let target = self.settings.target;
        self.delay = self.fifo.front().map_or(Duration::ZERO, |head| at.saturating_since(head.since));
        let seconds = |delay: Duration| delay.as_nanos() as f64 / 1e9;
        let mut step = ALPHA * (seconds(self.delay) - seconds(target))
            + BETA * (seconds(self.delay) - seconds(self.old_delay));
        step /= tuning(self.probability);
        if self.probability >= SIGNAL {
            step = step.min(MAX_STEP);
        }
        self.probability += step;
        if self.delay.is_zero() && self.old_delay.is_zero() {
            self.probability *= DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        let calm = self.delay < target / 2 && self.old_delay < target / 2;
        self.burst = if self.probability == 0.0 && calm {
            self.settings.burst
        } else {
            self.burst.saturating_sub(self.settings.update)
        };
        self.old_delay = self.delay;
    }

    /// Whether nothing is to be dropped, whatever the probability (§4.1, §4.4).
    fn is_safe(&self) -> bool {
        !self.burst.is_zero()
            || (self.old_delay < self.settings.target / 2 && self.probability < SAFE_PROBABILITY)
            || self.fifo.held().bytes <= 2 * self.longest
    }
}

/// What a step is divided by at a probability (§4.2): the smaller it is, the smaller its steps.
fn tuning(probability: f64) -> f64 {
    match probability {
        p if p < 0.000_001 => 2048.0,
        p if p < 0.000_01 => 512.0,
        p if p < 0.000_1 => 128.0,
        p if p < 0.001 => 32.0,
        p if p < 0.01 => 8.0,
        p if p < 0.1 => 2.0,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loop::ClosedLoop;
    use crate::testing::{Packet, packet, refuse};
    use crate::{Limits, Queue, Settings};

    fn settings() -> PieSettings {
        PieSettings { limits: Limits { segments: 100_000, bytes: u64::MAX }, ..PieSettings::default() }
    }

    fn pie() -> Pie<Packet> {
        Pie::new(settings(), 1)
    }

    #[test]
    fn an_update_moves_the_probability_by_the_rfcs_formula() {
        let mut q = pie();
        q.fifo.push(Instant::ZERO, packet(0));
        q.probability = 0.05;
        q.update(Instant::from_millis(30));
        // (0.125 × 15 ms + 1.25 × 30 ms) / 2.
        assert!((q.probability - (0.05 + 0.001_875 * 0.5 + 0.0375 * 0.5)).abs() < 1e-12, "{}", q.probability);
        q.probability = 0.3;
        q.update(Instant::from_millis(530));
        assert!((q.probability - 0.32).abs() < 1e-12, "the step is capped: {}", q.probability);
    }

    #[test]
    fn nothing_is_dropped_within_the_burst_allowance() {
        let mut q = Queue::new(Settings::Pie(settings()), 1);
        // A queue that builds up at once: 150 ms are forgiven, less the update in which it started.
        let mut first = None;
        for ms in 0..400_u64 {
            for id in 0..4 {
                q.enqueue(Instant::from_millis(ms), packet(id), &mut |_, _| first = first.or(Some(ms)));
            }
            q.dequeue(Instant::from_millis(ms), &mut refuse);
        }
        let first = first.expect("in the end it drops");
        assert!((150..250).contains(&first), "{first} ms");
    }

    #[test]
    fn an_idle_queue_forgets() {
        let mut q = pie();
        q.probability = 0.5;
        q.next_update = Some(Instant::ZERO);
        q.advance(Instant::from_millis(1500));
        let after = q.probability;
        assert!((0.01..0.2).contains(&after), "0.98 and less of it, a hundred times: {after}");
        q.advance(Instant::from_millis(1_000_000_000));
        assert!(q.probability == 0.0 && q.burst == q.settings.burst);
    }

    #[test]
    fn the_delay_of_reno_flows_stays_at_the_target() {
        for flows in [5, 20, 60] {
            let outcome = ClosedLoop { flows, ..ClosedLoop::default() }.run(Settings::Pie(settings()));
            let mean = outcome.mean_sojourn_ms;
            assert!((9.0..21.0).contains(&mean), "{flows} flows: {mean} ms");
            assert!(outcome.utilisation > 0.9, "{flows} flows: {}", outcome.utilisation);
        }
    }

    #[test]
    fn a_flood_of_super_packets_is_held_at_the_target_too() {
        let mut q = Queue::new(Settings::Pie(settings()), 1);
        let mut late = Vec::new();
        // 20 segments arrive and 10 leave, each millisecond, for 20 s.
        let mut may_leave = 0;
        for ms in 0..20_000_u64 {
            let now = Instant::from_millis(ms);
            let item = Packet { segments: 20, bytes: 20_000, ..packet(0) };
            q.enqueue(now, item, &mut |_, _| ());
            may_leave += 10;
            while may_leave > 0 {
                let Some(gone) = q.dequeue(now, &mut refuse) else { break };
                may_leave -= gone.item.segments.cast_signed();
                if ms > 10_000 {
                    late.push(gone.sojourn.as_secs_f64() * 1e3);
                }
            }
        }
        let mean = late.iter().sum::<f64>() / late.len() as f64;
        assert!(mean < 40.0, "{mean} ms");
        assert!(q.control().drop_probability.is_some_and(|p| (0.3..0.7).contains(&p)), "{:?}", q.control());
    }

    #[test]
    fn packets_are_marked_below_ten_per_cent_and_dropped_above() {
        let run = |p: f64| {
            let mut q = pie();
            let mut stats = crate::Stats::default();
            q.burst = Duration::ZERO;
            q.old_delay = settings().target;
            q.next_update = Some(Instant::FAR_FUTURE);
            q.probability = p;
            for id in 0..10_000 {
                let mut ledger =
                    Ledger { stats: &mut stats, on_drop: &mut crate::ledger::Call(&mut |_, _| ()) };
                q.enqueue(Instant::ZERO, Packet { ecn: true, ..packet(id) }, &mut ledger);
            }
            (stats.marked_total(), stats.dropped_total())
        };
        let (marked, dropped) = run(0.05);
        assert!((430..570).contains(&marked) && dropped == 0, "{marked} {dropped}");
        let (marked, dropped) = run(0.15);
        assert!(marked == 0 && (1350..1650).contains(&dropped), "{marked} {dropped}");
    }
}
