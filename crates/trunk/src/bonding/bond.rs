//! Which lane takes the next packet of a bonded class. The rule, with its symbols, is in docs/models/bonding.md.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use super::bonded_lane::BondedLane;
use crate::PathConditions;
use crate::lane::LaneSnapshot;
use crate::path::PathSet;

/// The lanes that serve one bonded edge queue, one on each path.
///
/// The rule is that of earliest completion (Lim and others 2017): a lane takes the next packet if this arrives over it no later than the
/// last of what waits would over the faster lanes alone. While little waits, only the lane over which it arrives first takes packets. While
/// more waits than that lane carries in the time by which another path is slower, the other one takes packets too; or while half as much has
/// waited for a second, without a break.
#[derive(Debug, Clone)]
pub(crate) struct Bond {
    lanes: Vec<BondedLane>,
    /// A path that is slower than the fastest one by more takes nothing.
    reorder_wait: Duration,
    now: Instant,
    standing: Standing,
}

/// What has waited all the time lately: a flow that stands behind it has a window for a longer path.
#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    /// The fewest bytes that waited in this stretch of time and in the one before, and since when this one lasts.
    fewest: [u64; 2],
    since: Option<Instant>,
}

impl Standing {
    const STRETCH: Duration = Duration::from_millis(500);

    fn update(&mut self, now: Instant, waiting_bytes: u64) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_since(since) >= Self::STRETCH {
            *self = Standing { fewest: [waiting_bytes, self.fewest[0]], since: Some(now) };
        } else {
            self.fewest[0] = self.fewest[0].min(waiting_bytes);
        }
    }

    fn bytes(&self) -> u64 {
        self.fewest[0].min(self.fewest[1])
    }
}

impl Bond {
    /// A lane goes on while anything waits, until it has taken no packet for as long as its path is slower, and this. What the faster
    /// lanes deliver waits for its last packet anyway. Each time that it begins anew, that wait begins with a gap.
    const PAUSE: Duration = Duration::from_millis(20);
    /// A lane that carries as much as the faster ones together is worth a path that is slower by so much; one that carries a tenth of
    /// it, a tenth of this.
    const WORTH: Duration = Duration::from_millis(200);
    /// A lane is worth no more than one that carries so many times what the faster ones do. One of which it is not known counts as that.
    const MAX_SHARE: f64 = 4.0;

    /// Of these lanes, by the numbers of their paths. All are usable until it is known which paths work.
    pub(crate) fn new(lanes: impl Iterator<Item = u8>, reorder_wait: Option<Duration>) -> Self {
        Bond {
            lanes: lanes.map(BondedLane::new).collect(),
            reorder_wait: reorder_wait.unwrap_or(Duration::MAX),
            now: Instant::ZERO,
            standing: Standing::default(),
        }
    }

    fn get(&self, lane: u8) -> Option<&BondedLane> {
        self.lanes.iter().find(|known| known.lane() == lane)
    }

    fn get_mut(&mut self, lane: u8) -> Option<&mut BondedLane> {
        self.lanes.iter_mut().find(|known| known.lane() == lane)
    }

    fn usable(&self) -> impl Iterator<Item = &BondedLane> {
        self.lanes.iter().filter(|lane| lane.is_usable())
    }

    /// Whether this lane is one of them.
    pub(crate) fn has(&self, lane: u8) -> bool {
        self.get(lane).is_some()
    }

    /// Those that may take packets, a bit each.
    #[inline(never)]
    pub(crate) fn usable_lanes(&self) -> u32 {
        self.usable().map(|lane| 1 << lane.lane()).sum()
    }

    /// Takes which paths may be used and what they are like, and which lanes are up, a bit each.
    pub(crate) fn handle_paths(&mut self, paths: PathSet, conditions: &[PathConditions], up: u32) {
        for (path, lane) in self.lanes.iter_mut().enumerate() {
            let is_usable = paths & 1 << path != 0 && up & 1 << lane.lane() != 0;
            lane.handle_path(is_usable, conditions.get(path).and_then(|conditions| conditions.capacity));
        }
    }

    /// Takes the state of a lane; that of all of them together.
    pub(crate) fn handle_snapshot(
        &mut self,
        now: Instant,
        lane: u8,
        snapshot: &LaneSnapshot,
        waiting_bytes: u64,
    ) -> LaneSnapshot {
        self.now = now;
        self.standing.update(now, waiting_bytes);
        if let Some(known) = self.get_mut(lane) {
            known.handle_snapshot(now, snapshot);
        }
        let rate: u64 = self.usable().filter_map(BondedLane::rate).map(Rate::bits_per_second).sum();
        LaneSnapshot {
            delivery_rate: snapshot.delivery_rate.map(|_| Rate::from_bits_per_second(rate)),
            srtt: self.usable().filter_map(BondedLane::round_trip).max().or(snapshot.srtt),
            ..*snapshot
        }
    }

    /// Takes note that a lane has taken so many bytes.
    #[inline(never)]
    pub(crate) fn handle_sent(&mut self, now: Instant, lane: u8, bytes: usize) {
        self.now = now;
        if let Some(known) = self.get_mut(lane) {
            known.handle_sent(now, bytes as u64);
        }
    }

    /// Bytes that a lane has taken.
    pub(crate) fn sent(&self, lane: u8) -> u64 {
        self.get(lane).map_or(0, BondedLane::sent)
    }

    /// Whether a lane takes a packet that another one may have lost, while so many bytes wait behind it.
    pub(crate) fn takes_again(&self, lane: u8, lost_by: u8, waiting_bytes: u64) -> bool {
        let is_usable = |lane: u8| self.usable().any(|usable| usable.lane() == lane);
        if !is_usable(lane) || self.usable().all(|usable| usable.lane() == lost_by) {
            return is_usable(lane);
        }
        lane != lost_by && (is_usable(lost_by) || self.takes(lane, waiting_bytes))
    }

    /// Whether a lane takes the next packet while so many bytes wait. Of few classes: not in the way of the others' packets.
    #[inline(never)]
    pub(crate) fn takes(&self, lane: u8, waiting_bytes: u64) -> bool {
        let now = self.now;
        let Some(own) = self.get(lane).filter(|own| own.is_usable()) else { return false };
        let Some(delay) = own.delay(now) else { return true };
        let (mut lowest, mut faster) = (delay, 0);
        for other in self.usable().filter(|other| other.lane() != lane) {
            let Some(its) = other.delay(now).filter(|its| *its < delay) else { continue };
            lowest = lowest.min(its);
            faster += other.rate().map_or(0, Rate::bits_per_second);
        }
        if faster == 0 {
            return true;
        }
        let difference = delay.saturating_sub(lowest);
        let share = own
            .known_rate(now)
            .map_or(Self::MAX_SHARE, |rate| rate.bits_per_second() as f64 / faster as f64)
            .min(Self::MAX_SHARE);
        if difference > Self::WORTH.mul_f64(share).min(self.reorder_wait) {
            return false;
        }
        if own.has_sent_within(now, difference + Self::PAUSE) {
            return true;
        }
        let lasts = |bytes: u64| u128::from(bytes) * 8_000_000_000 / u128::from(faster);
        difference.as_nanos() <= lasts(waiting_bytes).max(lasts(self.standing.bytes()) * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes 0 to 2 with these round-trip times and rates, at 1 s.
    fn bond(lanes: [(u64, f64); 3]) -> Bond {
        let mut bond = Bond::new(0..3, None);
        for (lane, (rtt_ms, mbit)) in (0..).zip(lanes) {
            let _ = bond.handle_snapshot(Instant::from_millis(1000), lane, &snapshot(rtt_ms, mbit), 0);
        }
        bond
    }

    fn snapshot(rtt_ms: u64, mbit: f64) -> LaneSnapshot {
        LaneSnapshot {
            srtt: Some(Duration::from_millis(rtt_ms)),
            delivery_rate: Some(Rate::from_mbit(mbit)),
            ..LaneSnapshot::default()
        }
    }

    fn taking(bond: &Bond, waiting_bytes: u64) -> Vec<u8> {
        (0..3).filter(|lane| bond.takes(*lane, waiting_bytes)).collect()
    }

    fn capacities(mbit: [f64; 3]) -> [PathConditions; 3] {
        mbit.map(|mbit| PathConditions { capacity: Some(Rate::from_mbit(mbit)), ..PathConditions::default() })
    }

    #[test]
    fn a_slower_path_takes_packets_once_more_waits_than_the_faster_ones_carry_meanwhile() {
        // One way 10, 15 and 110 ms, and 1.2, 1.2 and 2.4 ms for a packet; 10 Mbit/s carry 1250 bytes in a millisecond.
        let bond = bond([(20, 10.0), (30, 10.0), (220, 5.0)]);
        assert_eq!(taking(&bond, 1000), [0]);
        assert_eq!(taking(&bond, 6200), [0]);
        assert_eq!(taking(&bond, 6300), [0, 1]);
        assert_eq!(taking(&bond, 252_000), [0, 1]);
        assert_eq!(taking(&bond, 254_000), [0, 1, 2]);
    }

    #[test]
    fn a_slower_path_that_takes_packets_goes_on_while_any_wait() {
        let mut bond = bond([(20, 10.0), (30, 10.0), (220, 5.0)]);
        bond.handle_sent(Instant::from_millis(1005), 1, 1500);
        // For 5 ms by which it is slower, and 20 ms; 1.2 ms by its last packet, as long as that is not under way.
        for (ms, taking_now) in [(1006, vec![0, 1]), (1029, vec![0, 1]), (1031, vec![0]), (2000, vec![0])] {
            bond.handle_sent(Instant::from_millis(ms), 0, 0);
            assert_eq!(taking(&bond, 1), taking_now, "after {ms} ms");
        }
    }

    #[test]
    fn packets_that_a_lane_holds_arrive_before_the_next_one() {
        let mut bond = bond([(20, 10.0), (30, 10.0), (220, 5.0)]);
        // 25 000 bytes are under way for a round trip; the next ones wait for them.
        bond.handle_sent(Instant::from_millis(1000), 0, 25_000);
        assert_eq!(taking(&bond, 1500), [0]);
        bond.handle_sent(Instant::from_millis(1000), 0, 7_500);
        assert_eq!(taking(&bond, 1500), [0, 1], "6 ms more, and the second path is slower by 5");
        bond.handle_sent(Instant::from_millis(1006), 0, 0);
        assert_eq!(taking(&bond, 1500), [0]);
    }

    #[test]
    fn a_path_that_carries_little_is_not_worth_a_long_wait() {
        let mut bond = bond([(20, 100.0), (60, 5.0), (40, 5.0)]);
        assert_eq!(taking(&bond, 1 << 30), [0, 1, 2], "what it carries is not known before it has");
        for lane in [1, 2] {
            bond.handle_sent(Instant::from_millis(1000), lane, 1500);
        }
        bond.handle_paths(0b111, &capacities([100.0, 5.0, 20.0]), 0b111);
        bond.handle_sent(Instant::from_millis(1100), 0, 0);
        assert_eq!(taking(&bond, 1 << 30), [0, 2], "20 ms for a twentieth; 10 ms for a fifth");
        bond.handle_sent(Instant::from_millis(7000), 0, 0);
        assert_eq!(taking(&bond, 1 << 30), [0, 1, 2], "it may have changed");
    }

    #[test]
    fn a_path_that_is_slower_by_more_than_reorder_wait_takes_nothing() {
        let mut bond = bond([(20, 10.0), (30, 10.0), (220, 100.0)]);
        assert_eq!(taking(&bond, 1 << 30), [0, 1, 2]);
        // By 5 and by 99 ms.
        for (ms, taken) in [(4, &[0][..]), (6, &[0, 1]), (98, &[0, 1]), (99, &[0, 1, 2])] {
            bond.reorder_wait = Duration::from_millis(ms);
            assert_eq!(taking(&bond, 1 << 30), taken, "{ms} ms");
        }
    }

    #[test]
    fn a_lane_that_sends_nothing_has_no_queue() {
        let mut bond = bond([(20, 10.0); 3]);
        let slow = LaneSnapshot { min_rtt: Some(Duration::from_millis(20)), ..snapshot(60, 10.0) };
        let now = Instant::from_millis(1100);
        bond.handle_sent(Instant::from_millis(1001), 1, 1500);
        bond.handle_sent(now, 0, 0);
        let _ = bond.handle_snapshot(now, 1, &slow, 0);
        assert_eq!(taking(&bond, 1500), [0, 2], "its packets wait on the path");
        let _ = bond.handle_snapshot(now, 1, &slow, 0);
        assert_eq!(taking(&bond, 1500), [0, 1, 2], "they did, and it has sent none since");
    }

    #[test]
    fn equal_paths_all_take_packets() {
        assert_eq!(taking(&bond([(20, 10.0); 3]), 1), [0, 1, 2]);
    }

    #[test]
    fn a_path_that_does_not_work_takes_none_and_the_others_do_not_wait_for_it() {
        let mut bond = bond([(20, 10.0), (30, 10.0), (220, 5.0)]);
        bond.handle_paths(0b110, &[], 0b111);
        assert_eq!(taking(&bond, 1), [1]);
        assert_eq!(bond.usable_lanes(), 0b110);
        bond.handle_paths(0b111, &[], 0b100);
        assert_eq!(taking(&bond, 1), [2]);
    }

    #[test]
    fn half_the_backlog_is_enough_for_a_slower_path_once_it_has_stood_for_a_second() {
        let mut bond = bond([(20, 10.0), (20, 10.0), (220, 5.0)]);
        // 100 ms of 20 Mbit/s are 250 kB.
        let mut wait = |ms: std::ops::Range<u64>, waiting_bytes: u64| {
            for ms in ms.step_by(20) {
                let _ = bond.handle_snapshot(Instant::from_millis(ms), 0, &snapshot(20, 10.0), waiting_bytes);
            }
            taking(&bond, 150_000)
        };
        assert_eq!(wait(1000..1900, 150_000), [0, 1], "not for long");
        assert_eq!(wait(1900..2600, 150_000), [0, 1, 2]);
        assert_eq!(wait(2600..2620, 0), [0, 1], "nothing waited for a moment");
        assert_eq!(wait(2620..4000, 150_000), [0, 1, 2]);
    }

    #[test]
    fn a_path_that_works_again_is_as_good_as_before_it_failed() {
        let mut bond = bond([(20, 10.0), (20, 10.0), (220, 5.0)]);
        let repairing = LaneSnapshot { unacknowledged: 9000, out_of_order: 6000, ..snapshot(20, 10.0) };
        for step in 0..40 {
            let now = Instant::from_millis(1000 + step * 20);
            bond.handle_sent(now, 0, 1500);
            let _ = bond.handle_snapshot(now, 0, &repairing, 0);
        }
        let later = Instant::from_millis(2000);
        bond.handle_sent(later, 1, 0);
        assert_eq!(taking(&bond, 1500), [1], "the first path does not deliver");
        bond.handle_paths(0b110, &[], 0b111);
        bond.handle_paths(0b111, &[], 0b111);
        assert_eq!(taking(&bond, 1500), [0, 1]);
    }

    #[test]
    fn the_class_sees_the_sum_of_rates_and_the_longest_round_trip() {
        let mut bond = bond([(20, 10.0), (30, 10.0), (220, 5.0)]);
        // It has sent something, so that its rate is measured anew.
        bond.handle_sent(Instant::from_millis(1001), 0, 1500);
        let all = bond.handle_snapshot(Instant::from_millis(1020), 0, &snapshot(20, 12.0), 0);
        assert_eq!(all.delivery_rate, Some(Rate::from_mbit(27.0)));
        assert_eq!(all.srtt, Some(Duration::from_millis(220)));
    }
}
