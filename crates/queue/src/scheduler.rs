//! Sharing one lane among classes: strict priority, guaranteed rates, then weights.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

/// What a class is promised of the lane it shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its part of what guarantees leave over, in proportion to the other weights; at least 1.
    pub weight: u32,
    /// A rate it gets before weights are looked at.
    pub guarantee: Option<Rate>,
    /// A rate it never exceeds.
    pub ceiling: Option<Rate>,
    /// It goes before every class without. For little traffic: nothing but its ceiling holds it back.
    pub priority: bool,
}

impl Default for Share {
    fn default() -> Self {
        Share { weight: 1, guarantee: None, ceiling: None, priority: false }
    }
}

/// Who sends next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// This member.
    Member(usize),
    /// Members have something to send but are at their ceilings; one may send then.
    At(Instant),
    /// Nobody has anything to send.
    Nobody,
}

/// Deficit round robin with weights (Shreedhar and Varghese 1995), with guarantees and ceilings around it.
///
/// Work is counted in bytes after it is done, so a super-packet of 64 KB is a debt of 64 KB and not one turn, and
/// the owner need not know what a queue will give before it asks. In the long run the members that always have
/// something to send get bytes in the proportion of their weights, whatever the lane's rate is and however it
/// changes, because the only clock is the bytes themselves. Over any stretch of time two such members are apart
/// from their proportion by at most one quantum and one largest packet each.
///
/// Order of service: members with priority; members below their guaranteed rate; the rest by weight. A guarantee
/// is a floor: what a member gets by its weight counts towards it. Guarantees that together exceed the lane are
/// served in turn, and weights get nothing then: whoever promises must have admitted.
///
/// A member that has nothing to send loses what it had saved but keeps its debt.
#[derive(Debug, Clone)]
pub struct Scheduler {
    members: Vec<Member>,
    cursor: usize,
}

#[derive(Debug, Clone)]
struct Member {
    share: Share,
    /// Bytes a round gives it.
    quantum: i64,
    deficit: i64,
    guarantee: Option<Bucket>,
    ceiling: Option<Bucket>,
    /// By which rule it was chosen last.
    by_weight: bool,
}

/// Bytes that a round gives the member of the smallest weight: one Ethernet frame.
const QUANTUM: u64 = 1514;
/// No member gets more of a round than so many times that, so that a round stays short.
const MAX_RATIO: u64 = 64;

impl Scheduler {
    /// A scheduler for members with these shares, known by their place.
    pub fn new(shares: &[Share]) -> Self {
        let min = shares.iter().map(|share| share.weight.max(1)).min().unwrap_or(1);
        let max = shares.iter().map(|share| share.weight.max(1)).max().unwrap_or(1);
        // Beyond MAX_RATIO the smallest quantum shrinks instead, and its member waits several rounds for a packet.
        let scale = |weight: u32| {
            if u64::from(max) <= u64::from(min) * MAX_RATIO {
                QUANTUM * u64::from(weight) / u64::from(min)
            } else {
                (QUANTUM * MAX_RATIO * u64::from(weight) / u64::from(max)).max(1)
            }
        };
        let members = shares
            .iter()
            .map(|share| Member {
                share: *share,
                quantum: scale(share.weight.max(1)).cast_signed(),
                deficit: 0,
                guarantee: share.guarantee.map(Bucket::new),
                ceiling: share.ceiling.map(Bucket::new),
                by_weight: false,
            })
            .collect();
        Scheduler { members, cursor: 0 }
    }

    /// Whose turn it is among those for which `backlogged` holds. Follow it with [`Scheduler::charge`] if it sent.
    #[inline]
    pub fn turn(&mut self, now: Instant, backlogged: impl Fn(usize) -> bool) -> Turn {
        if let [only] = &mut self.members[..] {
            return match &mut only.ceiling {
                _ if !backlogged(0) => Turn::Nobody,
                Some(ceiling) => ceiling.ready(now).map_or(Turn::Member(0), Turn::At),
                None => Turn::Member(0),
            };
        }
        self.turn_among(now, backlogged)
    }

    fn turn_among(&mut self, now: Instant, backlogged: impl Fn(usize) -> bool) -> Turn {
        let count = self.members.len();
        let mut wake: Option<Instant> = None;
        let mut guaranteed = None;
        let mut rounds: Option<i64> = None;
        let mut next = None;
        for step in 0..count {
            let index = (self.cursor + step) % count;
            let member = &mut self.members[index];
            if !backlogged(index) {
                member.deficit = member.deficit.min(0);
                continue;
            }
            if let Some(at) = member.ceiling.as_mut().and_then(|ceiling| ceiling.ready(now)) {
                wake = Some(wake.map_or(at, |other| other.min(at)));
                continue;
            }
            if member.share.priority {
                member.by_weight = false;
                return Turn::Member(index);
            }
            if member.guarantee.as_mut().is_some_and(|bucket| bucket.ready(now).is_none()) {
                guaranteed.get_or_insert(index);
            }
            // The first of those that need the fewest rounds until they may send.
            let needs = if member.deficit > 0 { 0 } else { -member.deficit / member.quantum + 1 };
            if rounds.is_none_or(|min| needs < min) {
                rounds = Some(needs);
                next = Some(index);
            }
        }
        // A priority member may stand behind the cursor: it was looked at above all the same.
        if let Some(index) = guaranteed {
            self.members[index].by_weight = false;
            self.cursor = (index + 1) % count;
            return Turn::Member(index);
        }
        let (Some(index), Some(rounds)) = (next, rounds) else {
            return wake.map_or(Turn::Nobody, Turn::At);
        };
        if rounds > 0 {
            for (other, member) in self.members.iter_mut().enumerate() {
                let held = member.ceiling.as_mut().is_some_and(|ceiling| ceiling.ready(now).is_some());
                if backlogged(other) && !held && !member.share.priority {
                    member.deficit += rounds * member.quantum;
                }
            }
        }
        self.members[index].by_weight = true;
        self.cursor = index;
        Turn::Member(index)
    }

    /// Takes note that `member`, whose turn it was, sent `bytes`.
    #[inline]
    pub fn charge(&mut self, now: Instant, member: usize, bytes: u64) {
        let several = self.members.len() > 1;
        let member = &mut self.members[member];
        if let Some(ceiling) = &mut member.ceiling {
            ceiling.take(now, bytes);
        }
        if let Some(guarantee) = &mut member.guarantee {
            guarantee.take(now, bytes);
            // Having had more than was promised is no reason to get less of it later.
            guarantee.tokens = guarantee.tokens.max(-guarantee.depth);
        }
        if member.by_weight && several {
            member.deficit -= bytes.cast_signed();
        }
    }
}

/// A token bucket that may run into debt: what was sent is known only afterwards.
#[derive(Debug, Clone)]
struct Bucket {
    rate: Rate,
    /// Bytes it holds at most.
    depth: i64,
    tokens: i64,
    since: Option<Instant>,
}

impl Bucket {
    /// How long a bucket saves up.
    const SAVES: Duration = Duration::from_millis(5);
    /// The least it holds: two full packets.
    const MIN_DEPTH: u64 = 3028;

    fn new(rate: Rate) -> Self {
        let depth = rate.bytes_in(Self::SAVES).max(Self::MIN_DEPTH).cast_signed();
        Bucket { rate, depth, tokens: depth, since: None }
    }

    fn fill(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let earned = self.rate.bytes_in(now.saturating_since(since));
        if earned > 0 {
            // Only the time that made whole bytes is used up.
            self.since = Some(since + self.rate.time_for(earned, &mut 0));
            self.tokens = self.tokens.saturating_add(earned.cast_signed());
            if self.tokens >= self.depth {
                self.tokens = self.depth;
                self.since = Some(now);
            }
        }
    }

    /// `None` if something may be sent now, else when.
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

    /// Sends for `millis` through a lane of `rate`; every member that `backlogged` says has packets of `bytes(m)`.
    fn run(
        scheduler: &mut Scheduler,
        rate: Rate,
        millis: u64,
        backlogged: impl Fn(Instant, usize) -> bool,
        bytes: impl Fn(usize) -> u64,
    ) -> Vec<u64> {
        let mut sent = vec![0; scheduler.members.len()];
        let (mut now, mut carry) = (Instant::ZERO, 0);
        while now < Instant::from_millis(millis) {
            match scheduler.turn(now, |member| backlogged(now, member)) {
                Turn::Member(member) => {
                    scheduler.charge(now, member, bytes(member));
                    sent[member] += bytes(member);
                    now += rate.time_for(bytes(member), &mut carry);
                }
                Turn::At(at) => {
                    assert!(at > now, "a wake-up lies ahead: {at:?} is not after {now:?}");
                    now = at;
                }
                Turn::Nobody => now += Duration::from_millis(1),
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
            let Turn::Member(member) = scheduler.turn(Instant::ZERO, |_| true) else {
                panic!("all have packets")
            };
            scheduler.charge(Instant::ZERO, member, PACKET);
            sent[member] += PACKET.cast_signed();
            let apart = sent[0] * 7 - sent[1] * 3;
            let bound = 10 * (1514 * 7 / 3 + 2 * PACKET.cast_signed());
            assert!(apart.abs() <= bound, "{sent:?}");
        }
    }

    #[test]
    fn what_one_leaves_the_others_take_and_nothing_is_saved_up() {
        let mut scheduler = Scheduler::new(&[share(50), share(50)]);
        // Member 0 is silent for the first second.
        let late = |now: Instant, member| member == 1 || now >= Instant::from_millis(1000);
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
        scheduler.members.iter_mut().for_each(|m| m.guarantee.iter_mut().for_each(|g| g.since = None));
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
            let turn = scheduler.turn(Instant::ZERO, |member| member < 2 || urgent);
            let Turn::Member(member) = turn else { panic!("someone has packets") };
            assert_eq!(member == 2, urgent);
            scheduler.charge(Instant::ZERO, member, PACKET);
        }
    }

    #[test]
    fn nobody_sends_when_nobody_has_anything() {
        let mut scheduler = Scheduler::new(&[share(1), share(2)]);
        assert_eq!(scheduler.turn(Instant::ZERO, |_| false), Turn::Nobody);
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
                let Turn::Member(member) = scheduler.turn(Instant::ZERO, |m| present[m]) else { continue };
                assert!(present[member]);
                let bytes = 40 + rng.below(1460);
                scheduler.charge(Instant::ZERO, member, bytes);
                sent[member] += bytes;
            }
            let total: u64 = sent.iter().sum();
            assert!(sent[0] * 10 >= total * 2 - 50_000, "{sent:?}");
        }
    }
}
