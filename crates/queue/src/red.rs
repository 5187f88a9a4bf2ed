use trunkline_units::{Instant, Rng};

use crate::average::Average;
use crate::discipline::Rules;
use crate::fifo::{Fifo, Held, Stamped};
use crate::ledger::Ledger;
use crate::parameter::{
    Conflict, Describe, Description, Field, MAX_BYTES, MAX_PACKETS, Range, parameters, thresholds,
};
use crate::random::losses;
use crate::{Control, Discard, DropReason, Item, Limits, Settings};

/// How much of the mean length of a segment a new one replaces.
const MEAN_WEIGHT: f64 = 1.0 / 512.0;

/// What a discipline counts a queue in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unit {
    /// Segments, each the same whatever its length.
    #[default]
    Segments,
    /// Bytes; where packets are dropped at random, long ones are dropped more often.
    Bytes,
}

/// Parameters of RED (Floyd and Jacobson 1993).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RedSettings {
    /// Never more than this.
    pub limits: Limits,
    /// What thresholds and the average are in.
    pub unit: Unit,
    /// Average below which nothing is dropped, in `unit`.
    pub min: u64,
    /// Average from which everything is dropped, or, if gentle, more than `max_p` of it. In `unit`.
    pub max: u64,
    /// Probability of a drop as the average reaches `max`.
    pub max_p: f64,
    /// Weight of the newest sample in the average, `w_q`.
    pub weight: f64,
    /// From `max` to twice `max` the probability rises from `max_p` to 1, instead of at once.
    pub gentle: bool,
    /// ECN-capable packets are marked where the average asks for a drop below `max`.
    pub ecn: bool,
    /// Above `max` they are dropped as others are (RFC 3168 §7). Off: marked there too, as by Linux's `red` without `harddrop`.
    pub harddrop: bool,
}

impl Default for RedSettings {
    /// lee2002 §3: 20 KB, 520 KB, 0.02, in bytes; `w_q` 0.002 as in the 1993 paper.
    fn default() -> Self {
        RedSettings {
            limits: Limits::default(),
            unit: Unit::Bytes,
            min: 20_000,
            max: 520_000,
            max_p: 0.02,
            weight: 0.002,
            gentle: false,
            ecn: true,
            harddrop: true,
        }
    }
}

/// Random early detection (Floyd and Jacobson 1993).
///
/// Between `min` and `max` the average queue gives `p_b`, and a segment is dropped with `p_b / (1 − count · p_b)`,
/// where `count` have passed since the last drop: so the distance between drops is uniform over 1 to 1/`p_b`, rather
/// than geometric, and drops neither cluster nor stay away for long (§8 there). Of `n` segments that arrive at once
/// one is dropped with `n · p_b / (1 − count · p_b)`, which is the same distribution exactly, as the chances that
/// they all pass telescope. In bytes, a segment counts as its length over the mean length of segments.
#[derive(Debug)]
pub(crate) struct Red<T> {
    settings: RedSettings,
    pub(crate) fifo: Fifo<T>,
    average: Average,
    /// Segments, or mean lengths, since the last drop.
    count: f64,
    mean_bytes: f64,
    rng: Rng,
}

/// What the average asks for.
enum Verdict {
    Pass,
    Early(f64),
    Forced(f64),
}

impl Describe for Red<()> {
    type Settings = RedSettings;
    const DESCRIPTION: &'static Description = &Description {
        word: "red",
        meaning: "random early detection",
        parameters: parameters! { Red:
            "min", Range::Amount(MAX_PACKETS as u64, MAX_BYTES), |red| Field::Amount(&mut red.min, &mut red.unit),
                "average below which nothing is dropped: a size, or, as a bare number, packets";
            "max", Range::Amount(MAX_PACKETS as u64, MAX_BYTES), |red| Field::Amount(&mut red.max, &mut red.unit),
                "average from which everything is dropped: a size, or, as a bare number, packets";
            "max_p", Range::Probability, |red| Field::Number(&mut red.max_p), "probability of a drop just below max";
            "weight", Range::Probability, |red| Field::Number(&mut red.weight), "weight of the newest sample in the average";
            "gentle", Range::Switch, |red| Field::Switch(&mut red.gentle),
                "from max to twice max the probability rises to 1, instead of at once";
            "ecn", Range::Switch, |red| Field::Switch(&mut red.ecn), "ECN-capable packets are marked instead of dropped";
            "harddrop", Range::Switch, |red| Field::Switch(&mut red.harddrop),
                "above max ECN-capable packets are dropped as others are; off: marked";
        },
        reasons: &[DropReason::SegmentLimit, DropReason::ByteLimit, DropReason::Early, DropReason::Forced],
        default: || Settings::Red(RedSettings::default()),
    };

    fn limits_mut(settings: &mut RedSettings) -> &mut Limits {
        &mut settings.limits
    }

    fn conflict(settings: &RedSettings) -> Option<Conflict> {
        let holds = match settings.unit {
            Unit::Bytes => settings.limits.bytes,
            Unit::Segments => settings.limits.segments.into(),
        };
        thresholds(settings.min, settings.max, holds)
    }
}

impl<T: Item> Rules<T> for Red<T> {
    type Settings = RedSettings;

    fn new(settings: RedSettings, seed: u64) -> Self {
        Red {
            settings,
            fifo: Fifo::new(),
            average: Average::new(settings.weight),
            count: 0.0,
            mean_bytes: 0.0,
            rng: Rng::new(seed, "red"),
        }
    }

    fn set(&mut self, settings: RedSettings) -> bool {
        self.settings = settings;
        self.average.set_weight(settings.weight);
        true
    }

    fn held(&self) -> Held {
        self.fifo.held()
    }

    fn control(&self) -> Control {
        let probability = match self.verdict() {
            Verdict::Pass => 0.0,
            Verdict::Early(p) | Verdict::Forced(p) => p,
        };
        Control {
            drop_probability: Some(probability),
            average: Some(self.average.value()),
            ..Control::of(self.settings.limits)
        }
    }

    fn enqueue<F>(&mut self, now: Instant, item: T, ledger: &mut Ledger<'_, F>) -> u32
    where
        F: Discard<T>,
    {
        self.average.arrive(now, self.queue(), item.segments());
        let draws = self.draws(&item);
        let passed = match self.verdict() {
            Verdict::Pass => {
                self.count = 0.0;
                Some(item)
            }
            Verdict::Early(p) => {
                let chance = draws * p / (1.0 - self.count * p).max(f64::MIN_POSITIVE);
                if self.rng.chance(chance) {
                    self.count = 0.0;
                    ledger.signal(item, 1, DropReason::Early, self.settings.ecn)
                } else {
                    self.count += draws;
                    Some(item)
                }
            }
            Verdict::Forced(p) => {
                self.count = 0.0;
                let lost = losses(&mut self.rng, p, item.segments());
                let ecn = self.settings.ecn && !self.settings.harddrop;
                if lost > 0 { ledger.signal(item, lost, DropReason::Forced, ecn) } else { Some(item) }
            }
        };
        let admitted = passed.and_then(|item| self.settings.limits.admit(self.fifo.held(), item, ledger));
        admitted.map_or(0, |item| self.fifo.push(now, item))
    }

    fn dequeue<F: Discard<T>>(&mut self, now: Instant, _: &mut Ledger<'_, F>) -> Option<Stamped<T>> {
        let stamped = self.fifo.pop()?;
        self.average.depart(now, self.queue(), stamped.item.segments());
        Some(stamped)
    }

    fn pop(&mut self) -> Option<Stamped<T>> {
        self.fifo.pop()
    }

    fn fifo(&mut self) -> Option<&mut Fifo<T>> {
        Some(&mut self.fifo)
    }
}

impl<T: Item> Red<T> {
    fn verdict(&self) -> Verdict {
        let RedSettings { max_p, gentle, .. } = self.settings;
        let (min, max) = (self.settings.min as f64, self.settings.max as f64);
        let average = self.average.value();
        if average < min {
            Verdict::Pass
        } else if average < max {
            Verdict::Early(max_p * (average - min) / (max - min))
        } else if gentle && average < 2.0 * max {
            Verdict::Forced(max_p + (1.0 - max_p) * (average - max) / max)
        } else {
            Verdict::Forced(1.0)
        }
    }

    fn queue(&self) -> u64 {
        match self.settings.unit {
            Unit::Segments => self.fifo.held().segments,
            Unit::Bytes => self.fifo.held().bytes,
        }
    }

    /// How many draws an item is, and takes its length into the mean.
    fn draws(&mut self, item: &T) -> f64 {
        let segments = f64::from(item.segments());
        if self.settings.unit == Unit::Segments {
            return segments;
        }
        let bytes = item.bytes() as f64;
        if self.mean_bytes == 0.0 {
            self.mean_bytes = bytes / segments;
        }
        self.mean_bytes += (bytes / segments - self.mean_bytes) * (segments * MEAN_WEIGHT).min(1.0);
        bytes / self.mean_bytes
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Packet, packet, refuse};
    use crate::{DropReason, Limits, Queue, RedSettings, Settings, Unit};
    use trunkline_units::Instant;

    fn settings() -> RedSettings {
        let limits = Limits { segments: 1_000_000, bytes: u64::MAX };
        RedSettings { limits, unit: Unit::Segments, min: 50, max: 150, max_p: 0.1, ..RedSettings::default() }
    }

    /// Holds `waiting` in the queue while `offered` arrive, and gives the ids of those dropped.
    fn offer(settings: RedSettings, waiting: u32, offered: u32, item: Packet) -> (Queue<Packet>, Vec<u32>) {
        let mut q = Queue::new(Settings::Red(settings), 7);
        let mut dropped = Vec::new();
        for id in 0..offered {
            if q.stats().backlog_segments >= u64::from(waiting) {
                q.dequeue(Instant::ZERO, &mut refuse);
            }
            q.enqueue(Instant::ZERO, Packet { id, ..item }, &mut |lost: Packet, _| dropped.push(lost.id));
        }
        (q, dropped)
    }

    #[test]
    fn nothing_is_dropped_while_the_average_is_below_min() {
        let (q, dropped) = offer(settings(), 50, 20_000, packet(0));
        assert!(dropped.is_empty());
        assert!(q.control().average.is_some_and(|average| average < 50.0));
    }

    #[test]
    fn drops_are_as_many_as_the_formula_says() {
        for waiting in [75, 100, 125] {
            let (q, dropped) = offer(settings(), waiting, 60_000, packet(0));
            let p = q.control().drop_probability.unwrap();
            // An arrival finds one less than `waiting`. The gap is uniform over 1 to 1/p: its mean is (1/p + 1)/2.
            let expected_p = 0.1 * f64::from(waiting - 1 - 50) / 100.0;
            assert!((p - expected_p).abs() < 0.02 * expected_p, "{p} for {expected_p}");
            let settled = dropped.iter().filter(|id| **id >= 5_000).count() as f64;
            let expected = 55_000.0 * 2.0 * p / (1.0 + p);
            assert!((settled / expected - 1.0).abs() < 0.05, "{settled} dropped, {expected} expected");
            let furthest = dropped.windows(2).filter(|w| w[0] >= 5_000).map(|w| w[1] - w[0]).max().unwrap();
            assert!(f64::from(furthest) <= 1.0 / p + 1.0, "{furthest} between drops with p {p}");
        }
    }

    #[test]
    fn above_max_every_arrival_is_dropped_unless_gentle() {
        let mut q = Queue::new(Settings::Red(RedSettings { weight: 1.0, ..settings() }), 1);
        for id in 0..1000 {
            q.enqueue(Instant::ZERO, packet(id), &mut |_, _| ());
        }
        // With no memory in the average the queue stops at max.
        assert_eq!(q.stats().backlog_segments, 150);
        assert!(q.stats().dropped_for(DropReason::Forced) > 700);
        let gentle = RedSettings { weight: 1.0, gentle: true, ..settings() };
        let mut q = Queue::new(Settings::Red(gentle), 1);
        for id in 0..100_000 {
            q.enqueue(Instant::ZERO, packet(id), &mut |_, _| ());
        }
        assert!((290..=300).contains(&q.stats().backlog_segments), "{}", q.stats().backlog_segments);
    }

    #[test]
    fn in_bytes_long_packets_are_dropped_in_proportion() {
        let bytes = RedSettings { unit: Unit::Bytes, min: 50_000, max: 150_000, ..settings() };
        let mut q = Queue::new(Settings::Red(bytes), 3);
        let mut lost = [0_u32; 2];
        for id in 0..200_000_u32 {
            if q.stats().backlog_bytes >= 100_000 {
                q.dequeue(Instant::ZERO, &mut refuse);
            }
            let long = (id % 2) as usize;
            let item = Packet { bytes: [100, 1500][long], flow: long as u64, ..packet(id) };
            q.enqueue(Instant::ZERO, item, &mut |gone: Packet, _| lost[gone.flow as usize] += 1);
        }
        let ratio = f64::from(lost[1]) / f64::from(lost[0]);
        assert!((12.5..18.0).contains(&ratio), "{lost:?}");
        // On the whole as many as there would be if all were of the mean length, p being 0.05.
        let share = f64::from(lost[0] + lost[1]) / 200_000.0;
        assert!((0.085..0.105).contains(&share), "{share}");
    }

    #[test]
    fn super_packets_lose_one_segment_at_the_rate_of_their_segments() {
        let long = Packet { segments: 10, bytes: 1000, ..packet(0) };
        let (q, dropped) = offer(RedSettings { max_p: 0.02, ..settings() }, 100, 60_000, long);
        assert!(dropped.is_empty(), "each has segments left");
        let p = q.control().drop_probability.unwrap();
        let rate = q.stats().dropped_for(DropReason::Early) as f64 / q.stats().segments_in as f64;
        assert!((rate / (2.0 * p / (1.0 + p)) - 1.0).abs() < 0.1, "{rate} with p {p}");
    }

    #[test]
    fn what_can_be_marked_is_marked_up_to_max_and_dropped_above() {
        let able = Packet { ecn: true, ..packet(0) };
        let (q, dropped) = offer(settings(), 100, 10_000, able);
        assert!(dropped.is_empty());
        assert!(q.stats().marked[DropReason::Early as usize] > 300);
        let (q, _) = offer(RedSettings { weight: 0.5, ..settings() }, 1000, 10_000, able);
        assert!(q.stats().dropped_for(DropReason::Forced) > 1000);
        let (q, dropped) = offer(RedSettings { ecn: false, ..settings() }, 100, 10_000, able);
        assert!(q.stats().marked_total() == 0 && dropped.len() > 300);
    }

    #[test]
    fn without_harddrop_what_can_be_marked_is_marked_above_max_too() {
        let soft = RedSettings { weight: 1.0, harddrop: false, ..settings() };
        let able = Packet { ecn: true, ..packet(0) };
        let (q, dropped) = offer(soft, 1000, 2000, able);
        assert!(dropped.is_empty());
        // All but those that found fewer than `max`, of which few were marked.
        assert!((1850..1900).contains(&q.stats().marked[DropReason::Forced as usize]), "{:?}", q.stats());
        let (q, dropped) = offer(soft, 1000, 2000, packet(0));
        assert!(q.stats().marked_total() == 0 && dropped.len() > 1500, "others are dropped");
        let (q, dropped) = offer(RedSettings { gentle: true, ..soft }, 225, 10_000, able);
        let marked = q.stats().marked[DropReason::Forced as usize];
        // The average is 224: 0.1 + 0.9 · 74 / 150.
        assert!(dropped.is_empty() && (5_000..5_700).contains(&marked), "{marked}");
    }
}
