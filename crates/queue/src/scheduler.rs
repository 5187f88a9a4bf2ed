//! Sharing one lane among classes: strict priority, guaranteed rates, then weights.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

/// The share of a class in a lane that several classes use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its proportion of the capacity that priorities and guarantees leave; at least 1.
    pub weight: u32,
    /// The rate that it gets before all weights.
    pub guarantee: Option<Rate>,
    /// The rate that it never exceeds.
    pub ceiling: Option<Rate>,
    /// It is served before all classes without priority. For little traffic, since only its ceiling limits it.
    pub priority: bool,
}

impl Default for Share {
    fn default() -> Self {
        Share { weight: 1, guarantee: None, ceiling: None, priority: false }
    }
}

/// Which class sends next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// The class with this index.
    Class(usize),
    /// Classes have a backlog, but all are at their ceilings. The first of them may send at this instant.
    WaitUntil(Instant),
    /// No class has a backlog.
    Nothing,
}

/// Deficit round robin with weights (Shreedhar and Varghese 1995), with guarantees and ceilings around it.
///
/// The scheduler counts bytes after they are sent. So a super-packet of 64 KB is a debt of 64 KB and not one turn, and the
/// owner need not know the size of a queue's next packet. In the long run, classes that are always backlogged get bytes
/// in proportion to their weights at every rate of the lane, because no weight depends on time. In any interval, the shares
/// of two such classes differ from the proportion by at most one quantum and one largest packet each.
///
/// Order of service: classes with priority; classes below their guaranteed rate; the others by weight. A guarantee is a
/// minimum: bytes that a class gets by its weight count towards it. If the guarantees together exceed the lane's rate,
/// their classes are served round-robin and the others get nothing, so the operator must keep the sum below the rate.
///
/// A class without a backlog loses its positive deficit and keeps its debt.
#[derive(Debug, Clone)]
pub struct Scheduler {
    classes: Vec<Class>,
    cursor: usize,
}

#[derive(Debug, Clone)]
struct Class {
    share: Share,
    /// Bytes that a round adds to its deficit.
    quantum: i64,
    deficit: i64,
    guarantee: Option<Bucket>,
    ceiling: Option<Bucket>,
    /// Whether it was selected by its weight the last time.
    by_weight: bool,
}

/// The quantum of the smallest weight: one Ethernet frame.
const QUANTUM: u64 = 1514;
/// The largest ratio of two quanta in full size, so that a round stays short.
const MAX_RATIO: u64 = 64;

impl Scheduler {
    /// A scheduler for classes with these shares, by index.
    pub fn new(shares: &[Share]) -> Self {
        let min = shares.iter().map(|share| share.weight.max(1)).min().unwrap_or(1);
        let max = shares.iter().map(|share| share.weight.max(1)).max().unwrap_or(1);
        // Beyond MAX_RATIO the smallest quantum shrinks instead, and its class waits several rounds for a packet.
        let scale = |weight: u32| {
            if u64::from(max) <= u64::from(min) * MAX_RATIO {
                QUANTUM * u64::from(weight) / u64::from(min)
            } else {
                (QUANTUM * MAX_RATIO * u64::from(weight) / u64::from(max)).max(1)
            }
        };
        let classes = shares
            .iter()
            .map(|share| Class {
                share: *share,
                quantum: scale(share.weight.max(1)).cast_signed(),
                deficit: 0,
                guarantee: share.guarantee.map(Bucket::new),
                ceiling: share.ceiling.map(Bucket::new),
                by_weight: false,
            })
            .collect();
        Scheduler { classes, cursor: 0 }
    }

    /// Changes the guarantee and the ceiling of a class that has them already; what it has earned or owes by them stays.
    pub fn set_rates(&mut self, now: Instant, class: usize, share: &Share) {
        let class = &mut self.classes[class];
        let buckets = [(&mut class.guarantee, share.guarantee), (&mut class.ceiling, share.ceiling)];
        for (bucket, rate) in buckets {
            if let (Some(bucket), Some(rate)) = (bucket, rate)
                && bucket.rate != rate
            {
                bucket.set_rate(now, rate);
            }
        }
    }

    /// Selects one of the classes for which `backlogged` holds. If it sends, call [`Scheduler::charge`] with the bytes.
    #[inline]
    pub fn select(&mut self, now: Instant, backlogged: impl Fn(usize) -> bool) -> Selection {
        if let [only] = &mut self.classes[..] {
            return match &mut only.ceiling {
                _ if !backlogged(0) => Selection::Nothing,
                Some(ceiling) => ceiling.ready(now).map_or(Selection::Class(0), Selection::WaitUntil),
                None => Selection::Class(0),
            };
        }
        self.select_among(now, backlogged)
    }

    fn select_among(&mut self, now: Instant, backlogged: impl Fn(usize) -> bool) -> Selection {
        let count = self.classes.len();
        let mut wake: Option<Instant> = None;
        let mut guaranteed = None;
        let mut rounds: Option<i64> = None;
        let mut next = None;
        for step in 0..count {
            let index = (self.cursor + step) % count;
            let class = &mut self.classes[index];
            if !backlogged(index) {
                class.deficit = class.deficit.min(0);
                continue;
            }
            if let Some(at) = class.ceiling.as_mut().and_then(|ceiling| ceiling.ready(now)) {
                wake = Some(wake.map_or(at, |other| other.min(at)));
                continue;
            }
            if class.share.priority {
                class.by_weight = false;
                return Selection::Class(index);
            }
            if class.guarantee.as_mut().is_some_and(|bucket| bucket.ready(now).is_none()) {
                guaranteed.get_or_insert(index);
            }
            // The first of those that need the fewest rounds until they may send.
            let needs = if class.deficit > 0 { 0 } else { -class.deficit / class.quantum + 1 };
            if rounds.is_none_or(|min| needs < min) {
                rounds = Some(needs);
                next = Some(index);
            }
        }
        // Only now, because a class with priority may come later in the round.
        if let Some(index) = guaranteed {
            self.classes[index].by_weight = false;
            self.cursor = (index + 1) % count;
            return Selection::Class(index);
        }
        let (Some(index), Some(rounds)) = (next, rounds) else {
            return wake.map_or(Selection::Nothing, Selection::WaitUntil);
        };
        if rounds > 0 {
            for (other, class) in self.classes.iter_mut().enumerate() {
                let held = class.ceiling.as_mut().is_some_and(|ceiling| ceiling.ready(now).is_some());
                if backlogged(other) && !held && !class.share.priority {
                    class.deficit += rounds * class.quantum;
                }
            }
        }
        self.classes[index].by_weight = true;
        self.cursor = index;
        Selection::Class(index)
    }

    /// Charges `bytes` to the class that was selected and sent them.
    #[inline]
    pub fn charge(&mut self, now: Instant, class: usize, bytes: u64) {
        let several = self.classes.len() > 1;
        let class = &mut self.classes[class];
        if let Some(ceiling) = &mut class.ceiling {
            ceiling.take(now, bytes);
        }
        if let Some(guarantee) = &mut class.guarantee {
            guarantee.take(now, bytes);
            // More than the guarantee now is no reason for less than the guarantee later.
            guarantee.tokens = guarantee.tokens.max(-guarantee.depth);
        }
        if class.by_weight && several {
            class.deficit -= bytes.cast_signed();
        }
    }
}

/// A token bucket that may have a debt, because the number of bytes is known only after sending.
#[derive(Debug, Clone)]
struct Bucket {
    rate: Rate,
    /// Maximum number of tokens, bytes.
    depth: i64,
    tokens: i64,
    since: Option<Instant>,
}

impl Bucket {
    /// The time in which an empty bucket fills.
    const BURST: Duration = Duration::from_millis(5);
    /// The minimum depth: two full packets, bytes.
    const MIN_DEPTH: u64 = 3028;

    fn new(rate: Rate) -> Self {
        let depth = rate.bytes_in(Self::BURST).max(Self::MIN_DEPTH).cast_signed();
        Bucket { rate, depth, tokens: depth, since: None }
    }

    fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.fill(now);
        let Bucket { depth, .. } = Bucket::new(rate);
        (self.rate, self.depth, self.tokens) = (rate, depth, self.tokens.min(depth));
    }

    fn fill(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let earned = self.rate.bytes_in(now.saturating_since(since));
        if earned > 0 {
            // The time of a part of a byte counts later.
            self.since = Some(since + self.rate.time_for(earned, &mut 0));
            self.tokens = self.tokens.saturating_add(earned.cast_signed());
            if self.tokens >= self.depth {
                self.tokens = self.depth;
                self.since = Some(now);
            }
        }
    }

    /// `None` if the class may send now, else the instant at which it may.
    fn ready(&mut self, now: Instant) -> Option<Instant> {
        self.fill(now);
        if self.tokens > 0 {
            return None;
        }
        let missing = 1 + self.tokens.unsigned_abs();
        Some(self.since.unwrap_or(now) + self.rate.time_for(missing, &mut 0) + Duration::from_nanos(1))
    }

    fn take(&mut self, now: Instant, bytes: u64) {
        self.fill(now);
        self.tokens -= bytes.cast_signed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_units::Rng;

    const PACKET: u64 = 1500;

    fn share(weight: u32) -> Share {
        Share { weight, ..Share::default() }
    }

    /// Sends for `millis` through a lane of `rate`; every class that `backlogged` says has packets of `bytes(m)`.
    fn run(
        scheduler: &mut Scheduler,
        rate: Rate,
        millis: u64,
        backlogged: impl Fn(Instant, usize) -> bool,
        bytes: impl Fn(usize) -> u64,
    ) -> Vec<u64> {
        let mut sent = vec![0; scheduler.classes.len()];
        let (mut now, mut carry) = (Instant::ZERO, 0);
        while now < Instant::from_millis(millis) {
            match scheduler.select(now, |class| backlogged(now, class)) {
                Selection::Class(class) => {
                    scheduler.charge(now, class, bytes(class));
                    sent[class] += bytes(class);
                    now += rate.time_for(bytes(class), &mut carry);
                }
                Selection::WaitUntil(at) => {
                    assert!(at > now, "a wake-up lies ahead: {at:?} is not after {now:?}");
                    now = at;
                }
                Selection::Nothing => now += Duration::from_millis(1),
            }
        }
        sent
    }

    fn percent(sent: &[u64]) -> Vec<f64> {
        let sum: u64 = sent.iter().sum();
        sent.iter().map(|bytes| *bytes as f64 * 100.0 / sum as f64).collect()
    }

    #[test]
    fn weights_hold_whatever_the_size_of_packets() {
        let mut scheduler = Scheduler::new(&[share(10), share(30), share(60)]);
        // Small packets, full packets, super-packets.
        let sizes = [100, 1500, 64_000];
        let sent = run(&mut scheduler, Rate::from_mbit(100.0), 5000, |_, _| true, |m| sizes[m]);
        for (have, want) in percent(&sent).iter().zip([10.0, 30.0, 60.0]) {
            assert!((have - want).abs() < 0.3, "{sent:?}");
        }
    }

    #[test]
    fn a_ceiling_that_changes_holds_from_then_on() {
        let ceiling = |mbit| Share { ceiling: Some(Rate::from_mbit(mbit)), ..Share::default() };
        let mut scheduler = Scheduler::new(&[ceiling(80.0)]);
        let sent = |scheduler: &mut Scheduler, from: u64| {
            let (mut now, mut bytes) = (Instant::from_millis(from), 0);
            while now < Instant::from_millis(from + 1000) {
                match scheduler.select(now, |_| true) {
                    Selection::Class(_) => {
                        scheduler.charge(now, 0, PACKET);
                        bytes += PACKET;
                    }
                    Selection::WaitUntil(at) => now = at,
                    Selection::Nothing => unreachable!("there is a backlog"),
                }
            }
            bytes as f64 * 8.0 / 1e6
        };
        for (from, mbit) in [(0, 80.0), (1000, 20.0), (2000, 40.0)] {
            scheduler.set_rates(Instant::from_millis(from), 0, &ceiling(mbit));
            let sent = sent(&mut scheduler, from);
            // The bucket holds what is sent in 5 ms.
            assert!((mbit - 0.1..mbit * 1.006 + 0.1).contains(&sent), "{sent} of {mbit}");
        }
        scheduler.set_rates(Instant::from_millis(3000), 0, &Share::default());
        assert!(
            scheduler.select(Instant::from_millis(3000), |_| true) != Selection::Nothing,
            "it keeps what it has"
        );
    }

    #[test]
    fn weights_far_apart_hold_too() {
        let mut scheduler = Scheduler::new(&[share(1), share(1000)]);
        let sent = run(&mut scheduler, Rate::from_mbit(100.0), 20_000, |_, _| true, |_| PACKET);
        let share = percent(&sent)[0];
        assert!((0.09..0.11).contains(&share), "{share}");
    }

    #[test]
    fn between_any_two_moments_proportions_are_off_by_a_quantum_and_a_packet_at_most() {
        let mut scheduler = Scheduler::new(&[share(3), share(7)]);
        let mut sent = [0_i64; 2];
        for _ in 0..10_000 {
            let Selection::Class(class) = scheduler.select(Instant::ZERO, |_| true) else {
                panic!("all have packets")
            };
            scheduler.charge(Instant::ZERO, class, PACKET);
            sent[class] += PACKET.cast_signed();
            let apart = sent[0] * 7 - sent[1] * 3;
            let bound = 10 * (1514 * 7 / 3 + 2 * PACKET.cast_signed());
            assert!(apart.abs() <= bound, "{sent:?}");
        }
    }

    #[test]
    fn what_one_leaves_the_others_take_and_nothing_is_saved_up() {
        let mut scheduler = Scheduler::new(&[share(50), share(50)]);
        // Member 0 is silent for the first second.
        let late = |now: Instant, class| class == 1 || now >= Instant::from_millis(1000);
        let first = run(&mut scheduler, Rate::from_mbit(10.0), 1000, late, |_| PACKET);
        assert!(first[0] == 0 && first[1] >= 1_248_000, "{first:?}");
        let second = run(&mut scheduler, Rate::from_mbit(10.0), 1000, |_, _| true, |_| PACKET);
        assert!((percent(&second)[0] - 50.0).abs() < 0.5, "{second:?}");
    }

    #[test]
    fn a_guarantee_comes_before_weights_and_a_ceiling_is_never_passed() {
        let guaranteed = Share { guarantee: Some(Rate::from_mbit(4.0)), ..share(1) };
        let capped = Share { ceiling: Some(Rate::from_mbit(1.0)), ..share(100) };
        let mut scheduler = Scheduler::new(&[guaranteed, capped, share(9)]);
        let sent = run(&mut scheduler, Rate::from_mbit(10.0), 10_000, |_, _| true, |_| PACKET);
        let mbit: Vec<f64> = sent.iter().map(|bytes| *bytes as f64 * 8.0 / 10.0 / 1e6).collect();
        // A tenth of the 9 that the ceiling leaves over would be less than the guarantee.
        for (have, want) in mbit.iter().zip([4.0, 1.0, 5.0]) {
            assert!((have - want).abs() < 0.1, "{mbit:?}");
        }
    }

    #[test]
    fn a_guarantee_below_what_weights_give_changes_nothing_and_is_there_when_the_lane_shrinks() {
        let guaranteed = Share { guarantee: Some(Rate::from_mbit(4.0)), ..share(1) };
        let mut scheduler = Scheduler::new(&[guaranteed, share(1)]);
        let wide = run(&mut scheduler, Rate::from_mbit(10.0), 10_000, |_, _| true, |_| PACKET);
        assert!((percent(&wide)[0] - 50.0).abs() < 1.0, "{wide:?}");
        let mut scheduler = scheduler.clone();
        scheduler.classes.iter_mut().for_each(|m| m.guarantee.iter_mut().for_each(|g| g.since = None));
        let narrow = run(&mut scheduler, Rate::from_mbit(5.0), 2000, |_, _| true, |_| PACKET);
        assert!((percent(&narrow)[0] - 80.0).abs() < 2.0, "{narrow:?}");
    }

    #[test]
    fn a_ceiling_holds_where_nobody_shares() {
        let mut scheduler = Scheduler::new(&[Share { ceiling: Some(Rate::from_mbit(2.0)), ..share(1) }]);
        let sent = run(&mut scheduler, Rate::from_mbit(100.0), 4000, |_, _| true, |_| 64_000);
        let mbit = sent[0] as f64 * 8.0 / 4.0 / 1e6;
        assert!((1.9..2.2).contains(&mbit), "{mbit}");
    }

    #[test]
    fn priority_goes_first_wherever_the_round_stands() {
        let mut scheduler = Scheduler::new(&[share(1), share(1), Share { priority: true, ..share(1) }]);
        for step in 0..100 {
            let urgent = step % 3 == 0;
            let turn = scheduler.select(Instant::ZERO, |class| class < 2 || urgent);
            let Selection::Class(class) = turn else { panic!("someone has packets") };
            assert_eq!(class == 2, urgent);
            scheduler.charge(Instant::ZERO, class, PACKET);
        }
    }

    #[test]
    fn nobody_sends_when_nobody_has_anything() {
        let mut scheduler = Scheduler::new(&[share(1), share(2)]);
        assert_eq!(scheduler.select(Instant::ZERO, |_| false), Selection::Nothing);
    }

    /// Members come and go at random: whoever was always there among equals never gets less than its weight.
    #[test]
    fn random_neighbours_never_cost_a_member_its_share() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed, "scheduler");
            let mut scheduler = Scheduler::new(&[share(2), share(3), share(5)]);
            let mut present = [true; 3];
            let mut sent = [0_u64; 3];
            for _ in 0..20_000 {
                if rng.chance(0.02) {
                    present[1 + rng.below(2) as usize] ^= true;
                }
                let Selection::Class(class) = scheduler.select(Instant::ZERO, |m| present[m]) else {
                    continue;
                };
                assert!(present[class]);
                let bytes = 40 + rng.below(1460);
                scheduler.charge(Instant::ZERO, class, bytes);
                sent[class] += bytes;
            }
            let total: u64 = sent.iter().sum();
            assert!(sent[0] * 10 >= total * 2 - 50_000, "{sent:?}");
        }
    }
}
