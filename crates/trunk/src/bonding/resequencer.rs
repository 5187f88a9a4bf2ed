//! The far end of bonded paths: packets in the order in which they left.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use trunkline_queue::Histogram;
use trunkline_units::Instant;

use super::Order;

/// What becomes of a packet with a place in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// It is the next one, or comes after its turn: pass it on, and then what [`Resequencer::poll`] gives.
    Now,
    /// Others come before it: give it to [`Resequencer::hold`].
    Early,
    /// It has come before: drop it.
    Again,
}

/// Counts of a [`Resequencer`], packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResequencerStats {
    /// How long those waited that waited for others.
    pub waits: Histogram,
    /// Those that came after their turn, and were passed on out of order.
    pub late: u64,
    /// Times at which the wait for missing ones was given up.
    pub given_up: u64,
    /// Those that had come before: of lanes that were taken for lost, and were not.
    pub duplicates: u64,
}

/// Puts packets into the order in which their sender numbered them.
///
/// A peer may send any numbers. What waits is bounded in bytes and in time, and an order that is broken delays nothing but itself.
#[derive(Debug)]
pub struct Resequencer<P> {
    /// The senders of the peer, one for each of its shards, the one that came up last at the end.
    spaces: Vec<Space<P>>,
    /// When the wait for a missing packet ends, by space and bucket.
    deadlines: BTreeSet<(Instant, u32, u16)>,
    /// Packets whose turn it is.
    ready: VecDeque<P>,
    wait: Wait,
    missing: Missing,
    held_bytes: usize,
    stats: ResequencerStats,
}

#[derive(Debug)]
struct Space<P> {
    id: u32,
    /// By bucket, the count of the packet whose turn it is; 0 before the first. As many as have been used.
    next: Vec<u64>,
    waiting: BTreeMap<u16, Waiting<P>>,
}

/// What waits in one bucket.
#[derive(Debug)]
struct Waiting<P> {
    /// By count; not empty.
    held: BTreeMap<u64, Held<P>>,
    /// When the wait for the packet whose turn it is ends.
    deadline: Instant,
}

#[derive(Debug)]
struct Held<P> {
    packet: P,
    bytes: usize,
    since: Instant,
}

/// How long packets wait for those before them. Lanes repair losses, so that a packet which does not come was on a lane that has ended or
/// stands still. One that comes after its time shows that a lane needs longer, as a path with a long round trip does to repair a loss.
#[derive(Debug, Default)]
struct Wait {
    /// The longest that packets have needed beyond [`Wait::LEAST`], and when that was.
    needed: Option<(Duration, Instant)>,
}

impl Wait {
    const LEAST: Duration = Duration::from_millis(400);
    const MOST: Duration = Duration::from_millis(600);
    /// What a packet needed, and this part of it more, is waited for, for so long.
    const MARGIN: f64 = 0.25;
    const MEMORY: Duration = Duration::from_secs(60);

    fn now(&self, now: Instant) -> Duration {
        let needed = self.needed.filter(|(_, at)| now.saturating_since(*at) < Self::MEMORY);
        needed.map_or(Self::LEAST, |(needed, _)| needed)
    }

    /// A packet has come after its turn, and others had waited for it since then.
    fn handle_late(&mut self, now: Instant, since: Instant) {
        let needed = now.saturating_since(since).mul_f64(1.0 + Self::MARGIN);
        if needed <= Self::MOST {
            self.needed = Some((needed.max(self.now(now)), now));
        }
    }
}

/// Packets for which nobody waits any longer: they come late, if they come. What comes after its turn and is none of them has come before.
#[derive(Debug, Default)]
struct Missing {
    /// By space, bucket and count of the first of several: the count behind the last one, and since when others had waited for them.
    ranges: BTreeMap<(u32, u16, u64), (u64, Instant)>,
    /// Where ranges began, the last one at the end. Some are gone.
    begun: VecDeque<(u32, u16, u64)>,
}

impl Missing {
    /// Ranges that are remembered: of 8 MiB of long packets each second one.
    const MAX_RANGES: usize = 4096;

    fn add(&mut self, space: u32, bucket: u16, counts: Range<u64>, since: Instant) {
        if counts.is_empty() {
            return;
        }
        let key = (space, bucket, counts.start);
        self.ranges.insert(key, (counts.end, since));
        self.begun.push_back(key);
        if self.begun.len() > Self::MAX_RANGES
            && let Some(oldest) = self.begun.pop_front()
        {
            self.ranges.remove(&oldest);
        }
    }

    /// Takes out a packet that has come. Since when others had waited for it, if it is one of them.
    fn take(&mut self, space: u32, bucket: u16, count: u64) -> Option<Instant> {
        let (key, range) = self.ranges.range_mut(..=(space, bucket, count)).next_back()?;
        let (key, (end, since)) = (*key, *range);
        if (key.0, key.1) != (space, bucket) || count >= end {
            return None;
        }
        if key.2 == count {
            self.ranges.remove(&key);
        } else {
            range.0 = count;
        }
        self.add(space, bucket, count + 1..end, since);
        Some(since)
    }
}

impl<P> Default for Resequencer<P> {
    fn default() -> Self {
        Resequencer {
            spaces: Vec::new(),
            deadlines: BTreeSet::new(),
            ready: VecDeque::new(),
            wait: Wait::default(),
            missing: Missing::default(),
            held_bytes: 0,
            stats: ResequencerStats::default(),
        }
    }
}

impl<P> Resequencer<P> {
    /// What waits of one peer has at most so many bytes: those of 160 Mbit/s in 400 ms.
    pub const MAX_BYTES: usize = 8 << 20;
    /// What a packet costs beside its bytes, about.
    const OVERHEAD: usize = 128;
    /// A peer has as many shards at most; the one that came up first is forgotten.
    const SPACES: usize = 64;
    /// An order whose first known number is below this began at 0. Another one was there before this end was.
    const FRESH: u32 = 4096;

    /// What has come so far.
    pub const fn stats(&self) -> &ResequencerStats {
        &self.stats
    }

    /// Bytes of packets that wait.
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Takes the place of a packet that has come.
    pub fn handle(&mut self, now: Instant, order: Order) -> Turn {
        let (space, count) = self.find(now, order);
        let Space { next, waiting, .. } = &mut self.spaces[space];
        let next = &mut next[usize::from(order.bucket)];
        let has_come = match count.cmp(next) {
            Ordering::Equal => {
                *next += 1;
                self.release(now, space, order.bucket);
                false
            }
            Ordering::Greater => {
                if waiting.get(&order.bucket).is_none_or(|waiting| !waiting.held.contains_key(&count)) {
                    return Turn::Early;
                }
                true
            }
            Ordering::Less => {
                let awaited = self.missing.take(order.space, order.bucket, count);
                if let Some(since) = awaited {
                    self.stats.late += 1;
                    self.wait.handle_late(now, since);
                }
                awaited.is_none()
            }
        };
        self.stats.duplicates += u64::from(has_come);
        if has_come { Turn::Again } else { Turn::Now }
    }

    /// Has a packet wait that came [early](Turn::Early).
    pub fn hold(&mut self, now: Instant, order: Order, packet: P, bytes: usize) {
        let (space, count) = self.find(now, order);
        let bytes = bytes + Self::OVERHEAD;
        self.held_bytes += bytes;
        let wait = self.wait.now(now);
        let waiting = self.spaces[space].waiting.entry(order.bucket).or_insert_with(|| {
            let deadline = now + wait;
            self.deadlines.insert((deadline, order.space, order.bucket));
            Waiting { held: BTreeMap::new(), deadline }
        });
        if let Some(same) = waiting.held.insert(count, Held { packet, bytes, since: now }) {
            self.held_bytes -= same.bytes;
        }
        self.set_deadline(now, space, order.bucket);
        while self.held_bytes > Self::MAX_BYTES && self.give_up(now, space, order.bucket) {}
    }

    /// The next packet whose turn it is.
    pub fn poll(&mut self) -> Option<P> {
        self.ready.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, ..)| *at)
    }

    /// Gives up the wait for packets that have been missing for too long; [`poll`](Self::poll) then has those behind them.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, id, bucket)) = self.deadlines.first().copied()
            && at <= now
        {
            match self.spaces.iter().position(|space| space.id == id) {
                Some(space) => self.give_up(now, space, bucket),
                None => self.deadlines.remove(&(at, id, bucket)),
            };
        }
    }

    /// The place of an order's space, and the count of its packet: the number without the wrap at 2^32.
    fn find(&mut self, now: Instant, Order { space, bucket, number }: Order) -> (usize, u64) {
        // Far from 0, so that packets before the first one that came have a count too.
        const BASE: u64 = 1 << 33;
        let at = self.spaces.iter().position(|known| known.id == space).unwrap_or_else(|| {
            if self.spaces.len() == Self::SPACES {
                self.forget_oldest();
            }
            self.spaces.push(Space { id: space, next: Vec::new(), waiting: BTreeMap::new() });
            self.spaces.len() - 1
        });
        let (buckets, place) = (&mut self.spaces[at].next, usize::from(bucket));
        if buckets.len() <= place {
            buckets.resize(place + 1, 0);
        }
        let next = &mut buckets[place];
        if *next == 0 {
            *next = BASE + if number < Self::FRESH { 0 } else { u64::from(number) };
            // What left before it may be on its way, over another lane.
            self.missing.add(space, bucket, *next - u64::from(Self::FRESH)..*next, now);
        }
        let ahead = number.wrapping_sub(*next as u32).cast_signed();
        (at, next.saturating_add_signed(ahead.into()))
    }

    /// Forgets the space that came up first. What waits in it is passed on.
    fn forget_oldest(&mut self) {
        let gone = self.spaces.remove(0);
        for (bucket, Waiting { held, deadline }) in gone.waiting {
            self.deadlines.remove(&(deadline, gone.id, bucket));
            for Held { packet, bytes, .. } in held.into_values() {
                self.held_bytes -= bytes;
                self.ready.push_back(packet);
            }
        }
    }

    /// Waits no longer for what is missing before the first packet that waits in a bucket. Whether one did.
    fn give_up(&mut self, now: Instant, space: usize, bucket: u16) -> bool {
        let Space { id, next, waiting } = &mut self.spaces[space];
        let Some((first, held)) = waiting.get(&bucket).and_then(|waiting| waiting.held.first_key_value())
        else {
            return false;
        };
        let next = &mut next[usize::from(bucket)];
        self.missing.add(*id, bucket, *next..*first, held.since);
        *next = *first;
        self.stats.given_up += 1;
        self.release(now, space, bucket);
        true
    }

    /// Moves the packets of a bucket whose turn it is to those that are ready.
    fn release(&mut self, now: Instant, space: usize, bucket: u16) {
        let Space { next, waiting, .. } = &mut self.spaces[space];
        let Some(waiting) = waiting.get_mut(&bucket) else { return };
        let next = &mut next[usize::from(bucket)];
        while let Some(Held { packet, bytes, since }) = waiting.held.remove(next) {
            *next += 1;
            self.held_bytes -= bytes;
            self.stats.waits.record(now.saturating_since(since), 1);
            self.ready.push_back(packet);
        }
        self.set_deadline(now, space, bucket);
    }

    /// Has the wait in a bucket end in time for the first packet that waits.
    fn set_deadline(&mut self, now: Instant, space: usize, bucket: u16) {
        let wait = self.wait.now(now);
        let Space { id, waiting, .. } = &mut self.spaces[space];
        let Some(Waiting { held, deadline }) = waiting.get_mut(&bucket) else { return };
        let wanted = held.first_key_value().map(|(_, first)| first.since + wait);
        if wanted == Some(*deadline) {
            return;
        }
        self.deadlines.remove(&(*deadline, *id, bucket));
        if let Some(wanted) = wanted {
            *deadline = wanted;
            self.deadlines.insert((wanted, *id, bucket));
        } else {
            waiting.remove(&bucket);
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_units::Rng;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn order(bucket: u16, number: u32) -> Order {
        Order { space: 1, bucket, number }
    }

    /// Gives a packet of this size to it; what it passes on.
    fn arrive(resequencer: &mut Resequencer<u32>, now: Instant, order: Order, bytes: usize) -> Vec<u32> {
        let mut out = Vec::new();
        match resequencer.handle(now, order) {
            Turn::Now => out.push(order.number),
            Turn::Early => resequencer.hold(now, order, order.number, bytes),
            Turn::Again => {}
        }
        out.extend(std::iter::from_fn(|| resequencer.poll()));
        out
    }

    #[test]
    fn packets_wait_for_those_before_them_and_for_no_other_flow() {
        let mut it = Resequencer::default();
        assert_eq!(arrive(&mut it, at(0), order(7, 1), 100), [0; 0], "the first one is under way");
        assert_eq!(arrive(&mut it, at(1), order(7, 2), 100), [0; 0]);
        assert_eq!(arrive(&mut it, at(2), order(8, 0), 100), [0]);
        assert_eq!(arrive(&mut it, at(3), order(7, 0), 100), [0, 1, 2]);
        assert_eq!((it.held_bytes(), it.poll_timeout()), (0, None));
        let waits = &it.stats().waits;
        assert_eq!((waits.count(), waits.sum()), (2, Duration::from_millis(5)));
    }

    #[test]
    fn a_packet_that_does_not_come_is_waited_for_so_long_and_passed_on_when_it_comes() {
        let mut it = Resequencer::default();
        assert_eq!(arrive(&mut it, at(0), order(7, 0), 100), [0]);
        assert_eq!(arrive(&mut it, at(10), order(7, 2), 100), [0; 0]);
        assert_eq!(arrive(&mut it, at(50), order(7, 4), 100), [0; 0]);
        assert_eq!(it.poll_timeout(), Some(at(410)));
        it.handle_timeout(at(409));
        assert_eq!(it.poll(), None);
        it.handle_timeout(at(410));
        assert_eq!((it.poll(), it.poll()), (Some(2), None));
        assert_eq!(it.poll_timeout(), Some(at(450)), "3 is missing too, and noticed later");
        assert_eq!(arrive(&mut it, at(420), order(7, 1), 100), [1], "late");
        assert_eq!(arrive(&mut it, at(430), order(7, 3), 100), [3, 4]);
        assert_eq!((it.stats().late, it.stats().given_up), (1, 1));
    }

    #[test]
    fn a_packet_that_came_too_late_has_the_next_ones_waited_for_longer_for_a_minute() {
        let mut it = Resequencer::default();
        let mut gap = |from: u64, number: u32, comes_after: Option<u64>| {
            assert_eq!(arrive(&mut it, at(from), order(7, number + 1), 100), [0; 0]);
            let waited = it.poll_timeout().map(|end| end.saturating_since(at(from)).as_millis());
            it.handle_timeout(at(from + 1000));
            assert_eq!(it.poll(), Some(number + 1));
            if let Some(ms) = comes_after {
                assert_eq!(arrive(&mut it, at(from + ms), order(7, number), 100), [number]);
            }
            waited
        };
        assert_eq!(gap(0, 0, None), Some(400), "it never comes");
        assert_eq!(gap(2_000, 2, Some(440)), Some(400));
        assert_eq!(gap(4_000, 4, Some(5_000)), Some(550), "a quarter more");
        assert_eq!(gap(10_000, 6, None), Some(550), "one that is later by seconds was on a path that failed");
        assert_eq!(gap(63_000, 8, None), Some(400));
    }

    #[test]
    fn a_packet_that_comes_again_is_passed_on_once() {
        let mut it = Resequencer::default();
        let mut all = Vec::new();
        let mut arrive = |ms: u64, number: u32| {
            it.handle_timeout(at(ms));
            all.extend(std::iter::from_fn(|| it.poll()));
            all.extend(arrive(&mut it, at(ms), order(7, number), 100));
        };
        // 1 to 4 are missing for too long; then they come, each twice and in any order, and so do others.
        for (ms, number) in
            [(0, 0), (0, 0), (10, 5), (20, 5), (30, 6), (500, 3), (501, 3), (502, 1), (503, 4)]
        {
            arrive(ms, number);
        }
        for (ms, number) in [(504, 1), (505, 2), (506, 4), (507, 5), (508, 6), (509, 7), (510, 2), (511, 7)] {
            arrive(ms, number);
        }
        assert_eq!(all, [0, 5, 6, 3, 1, 4, 2, 7]);
        assert_eq!((it.stats().late, it.stats().duplicates), (4, 9));
    }

    #[test]
    fn an_end_that_comes_up_later_begins_with_what_comes_first() {
        let mut it = Resequencer::default();
        assert_eq!(arrive(&mut it, at(0), order(7, 5000), 100), [5000]);
        assert_eq!(arrive(&mut it, at(0), order(7, 4999), 100), [4999]);
        assert_eq!(arrive(&mut it, at(0), order(7, 5001), 100), [5001]);
        assert_eq!(arrive(&mut it, at(0), order(9, u32::MAX), 100), [u32::MAX]);
        assert_eq!(arrive(&mut it, at(0), order(9, 1), 100), [0; 0]);
        assert_eq!(arrive(&mut it, at(0), order(9, 0), 100), [0, 1]);
    }

    #[test]
    fn what_waits_is_bounded_whatever_a_peer_sends() {
        let mut random = Rng::new(3, "resequencer");
        let mut it = Resequencer::default();
        let (mut sent, mut out) = (0_u64, 0_u64);
        for step in 0..60_000_u64 {
            let now = at(step / 100);
            let order = Order {
                space: random.below(200) as u32,
                bucket: random.below(3) as u16,
                number: random.next_u64() as u32,
            };
            sent += 1;
            out += arrive(&mut it, now, order, 60_000).len() as u64;
            assert!(it.held_bytes() <= Resequencer::<u32>::MAX_BYTES);
            it.handle_timeout(now);
            out += std::iter::from_fn(|| it.poll()).count() as u64;
            assert!(it.poll_timeout().is_none_or(|deadline| deadline > now));
        }
        it.handle_timeout(at(10_000));
        out += std::iter::from_fn(|| it.poll()).count() as u64;
        assert_eq!((it.held_bytes(), it.spaces.len()), (0, 64));
        assert_eq!(out + it.stats().duplicates, sent, "nothing is lost");
        assert!(it.missing.ranges.len() <= it.missing.begun.len());
        assert!(it.missing.begun.len() <= Missing::MAX_RANGES);
    }

    /// Three paths, each in order, with delays that vary: what arrives is what was sent, in order in each flow.
    #[test]
    fn order_holds_over_paths_that_overtake_each_other() {
        const MAX_DELAY_MS: u64 = 100;
        for seed in 0..200 {
            let mut random = Rng::new(seed, "resequencer");
            let mut arrivals: Vec<(u64, Order)> = Vec::new();
            let (mut numbers, mut earliest) = ([0; 3], [0; 3]);
            for ms in 0..300 {
                let [flow, path] = [(); 2].map(|()| random.below(3) as usize);
                earliest[path] = (ms + random.below(MAX_DELAY_MS)).max(earliest[path]);
                arrivals.push((earliest[path], order(flow as u16, numbers[flow])));
                numbers[flow] += 1;
            }
            arrivals.sort_by_key(|(at, _)| *at);
            let mut it = Resequencer::default();
            let mut got: [Vec<u32>; 3] = Default::default();
            for (ms, order) in arrivals {
                it.handle_timeout(at(ms));
                assert_eq!(it.poll(), None, "no packet was missing for so long");
                got[usize::from(order.bucket)].extend(arrive(&mut it, at(ms), order, 1000));
            }
            for (got, sent) in got.iter().zip(numbers) {
                assert!(got.iter().copied().eq(0..sent), "seed {seed}: {got:?}");
            }
            assert_eq!((it.held_bytes(), it.stats().late, it.stats().given_up), (0, 0, 0));
        }
    }

    #[test]
    fn numbers_go_on_behind_the_largest() {
        let mut it = Resequencer::default();
        assert_eq!(arrive(&mut it, at(0), order(7, u32::MAX - 1), 100), [u32::MAX - 1]);
        assert_eq!(arrive(&mut it, at(0), order(7, 1), 100), [0; 0]);
        assert_eq!(arrive(&mut it, at(0), order(7, 0), 100), [0; 0]);
        assert_eq!(arrive(&mut it, at(0), order(7, u32::MAX), 100), [u32::MAX, 0, 1]);
    }
}
