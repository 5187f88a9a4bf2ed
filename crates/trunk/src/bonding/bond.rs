//! Which lane takes the next packet of a bonded class.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use crate::lane::LaneSnapshot;
use crate::path::PathSet;

/// The lanes that serve one bonded edge queue, one on each path.
///
/// The rule is that of earliest completion (Lim and others 2017): a lane takes the next packet if this arrives over it no later than the
/// last of what waits would over the faster lanes alone. While little waits, only the lane with the lowest delay takes packets. While
/// more waits than that lane carries in the time by which another path is slower, the other one takes packets too.
#[derive(Debug, Clone)]
pub(crate) struct Bond {
    lanes: Vec<BondedLane>,
    now: Instant,
}

#[derive(Debug, Clone, Copy)]
struct BondedLane {
    lane: u8,
    /// Whether its path works and the policy allows it.
    is_usable: bool,
    /// The time from one end to the other, once it has been measured.
    delay: Option<Duration>,
    /// What it carries.
    rate: Option<Rate>,
    /// Bytes that it has taken, and had at the last snapshot.
    sent: u64,
    known_sent: u64,
    /// When it took the last packet.
    sent_at: Option<Instant>,
}

impl BondedLane {
    fn handle_snapshot(&mut self, snapshot: &LaneSnapshot) {
        self.rate = snapshot.delivery_rate.or_else(|| snapshot.window_rate());
        // The smoothed round-trip time of a lane that sends nothing is that of the past, with the queue that it had then.
        let is_used = std::mem::replace(&mut self.known_sent, self.sent) != self.sent;
        let fresh = if is_used { snapshot.srtt } else { None };
        let smallest = snapshot.min_rtt.or(snapshot.srtt);
        self.delay =
            smallest.map(|smallest| fresh.unwrap_or(smallest).saturating_sub(smallest) + smallest / 2);
    }
}

impl Bond {
    /// A lane that takes packets goes on while this part of what it began with waits, since what waits falls once it takes some. Each time
    /// that a slower path begins, what the faster ones deliver waits for its first packet, and then passes on at once: a burst.
    const GOES_ON: f64 = 0.25;
    /// One that has taken none for twice the difference of the delays, and this, begins anew.
    const MIN_PAUSE: Duration = Duration::from_millis(10);

    /// Of these lanes, by the numbers of their paths. All are usable until it is known which paths work.
    pub(crate) fn new(lanes: impl Iterator<Item = u8>) -> Self {
        let lane = |lane| BondedLane {
            lane,
            is_usable: true,
            delay: None,
            rate: None,
            sent: 0,
            known_sent: 0,
            sent_at: None,
        };
        Bond { lanes: lanes.map(lane).collect(), now: Instant::ZERO }
    }

    fn get(&self, lane: u8) -> Option<&BondedLane> {
        self.lanes.iter().find(|known| known.lane == lane)
    }

    fn get_mut(&mut self, lane: u8) -> Option<&mut BondedLane> {
        self.lanes.iter_mut().find(|known| known.lane == lane)
    }

    fn usable(&self) -> impl Iterator<Item = &BondedLane> {
        self.lanes.iter().filter(|lane| lane.is_usable)
    }

    /// Whether this lane is one of them.
    pub(crate) fn has(&self, lane: u8) -> bool {
        self.get(lane).is_some()
    }

    /// Those that may take packets, a bit each.
    #[inline(never)]
    pub(crate) fn usable_lanes(&self) -> u32 {
        self.usable().map(|lane| 1 << lane.lane).sum()
    }

    /// Takes which paths may be used, and which lanes are up, a bit each.
    pub(crate) fn handle_paths(&mut self, paths: PathSet, up: u32) {
        for (path, lane) in self.lanes.iter_mut().enumerate() {
            lane.is_usable = paths & 1 << path != 0 && up & 1 << lane.lane != 0;
        }
    }

    /// Takes the state of a lane; that of all of them together.
    pub(crate) fn handle_snapshot(&mut self, lane: u8, snapshot: &LaneSnapshot) -> LaneSnapshot {
        if let Some(known) = self.get_mut(lane) {
            known.handle_snapshot(snapshot);
        }
        let rate: u64 = self.usable().filter_map(|lane| lane.rate).map(Rate::bits_per_second).sum();
        let delay = self.usable().filter_map(|lane| lane.delay).max();
        LaneSnapshot {
            delivery_rate: snapshot.delivery_rate.map(|_| Rate::from_bits_per_second(rate)),
            srtt: delay.map(|delay| delay * 2).or(snapshot.srtt),
            ..*snapshot
        }
    }

    /// Takes note that a lane has taken so many bytes.
    #[inline(never)]
    pub(crate) fn handle_sent(&mut self, now: Instant, lane: u8, bytes: usize) {
        self.now = now;
        if let Some(known) = self.get_mut(lane) {
            known.sent += bytes as u64;
            known.sent_at = Some(now);
        }
    }

    /// Bytes that a lane has taken.
    pub(crate) fn sent(&self, lane: u8) -> u64 {
        self.get(lane).map_or(0, |lane| lane.sent)
    }

    /// Whether a lane takes the next packet while so many bytes wait. Of few classes: not in the way of the others' packets.
    #[inline(never)]
    pub(crate) fn takes(&self, lane: u8, waiting_bytes: u64) -> bool {
        let Some(own) = self.get(lane).filter(|own| own.is_usable) else { return false };
        let Some(delay) = own.delay else { return true };
        let faster = || self.usable().filter(|other| other.delay.is_some_and(|other| other < delay));
        let Some(lowest) = faster().filter_map(|lane| lane.delay).min() else { return true };
        let rate: u64 = faster().filter_map(|lane| lane.rate).map(Rate::bits_per_second).sum();
        if rate == 0 {
            return true;
        }
        let nanos = u128::from(waiting_bytes) * 8_000_000_000 / u128::from(rate);
        let difference = delay.saturating_sub(lowest);
        let pause = difference * 2 + Self::MIN_PAUSE;
        let goes_on = own.sent_at.is_some_and(|at| self.now.saturating_since(at) < pause);
        let wanted = if goes_on { difference.mul_f64(Self::GOES_ON) } else { difference };
        wanted.as_nanos() <= nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes 0 to 2 with these round-trip times and rates.
    fn bond(lanes: [(u64, f64); 3]) -> Bond {
        let mut bond = Bond::new(0..3);
        for (lane, (rtt_ms, mbit)) in (0..).zip(lanes) {
            let _ = bond.handle_snapshot(lane, &snapshot(rtt_ms, mbit));
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

    #[test]
    fn a_slower_path_takes_packets_once_more_waits_than_the_faster_ones_carry_meanwhile() {
        // One way 10, 15 and 110 ms; 10 Mbit/s carry 1250 bytes in a millisecond.
        let bond = bond([(20, 10.0), (30, 10.0), (220, 5.0)]);
        assert_eq!(taking(&bond, 1000), [0]);
        assert_eq!(taking(&bond, 6200), [0]);
        assert_eq!(taking(&bond, 6300), [0, 1]);
        assert_eq!(taking(&bond, 249_000), [0, 1]);
        assert_eq!(taking(&bond, 251_000), [0, 1, 2]);
    }

    #[test]
    fn a_slower_path_that_takes_packets_goes_on_with_fewer_for_a_while() {
        let mut bond = bond([(20, 10.0), (30, 10.0), (220, 5.0)]);
        let sent = |bond: &mut Bond, ms| bond.handle_sent(Instant::from_millis(ms), 0, 100);
        bond.handle_sent(Instant::from_millis(5), 1, 1500);
        for (ms, taking_now) in [(6, vec![0, 1]), (24, vec![0, 1]), (25, vec![0]), (1000, vec![0])] {
            sent(&mut bond, ms);
            assert_eq!(taking(&bond, 1600), taking_now, "after {ms} ms");
        }
        bond.handle_sent(Instant::from_millis(1000), 1, 1500);
        assert_eq!(taking(&bond, 1500), [0], "too few for it");
    }

    #[test]
    fn a_lane_that_sends_nothing_has_no_queue() {
        let mut bond = bond([(20, 10.0); 3]);
        let slow = LaneSnapshot { min_rtt: Some(Duration::from_millis(20)), ..snapshot(60, 10.0) };
        bond.handle_sent(Instant::from_millis(1), 1, 1500);
        let _ = bond.handle_snapshot(1, &slow);
        assert_eq!(taking(&bond, 1500), [0, 2], "its packets wait on the path");
        let _ = bond.handle_snapshot(1, &slow);
        assert_eq!(taking(&bond, 1500), [0, 1, 2], "they did, and it has sent none since");
    }

    #[test]
    fn equal_paths_all_take_packets() {
        assert_eq!(taking(&bond([(20, 10.0); 3]), 1), [0, 1, 2]);
    }

    #[test]
    fn a_path_that_does_not_work_takes_none_and_the_others_do_not_wait_for_it() {
        let mut bond = bond([(20, 10.0), (30, 10.0), (220, 5.0)]);
        bond.handle_paths(0b110, 0b111);
        assert_eq!(taking(&bond, 1), [1]);
        assert_eq!(bond.usable_lanes(), 0b110);
        bond.handle_paths(0b111, 0b100);
        assert_eq!(taking(&bond, 1), [2]);
    }

    #[test]
    fn the_class_sees_the_sum_of_rates_and_the_longest_round_trip() {
        let mut bond = bond([(20, 10.0), (30, 10.0), (220, 5.0)]);
        let all = bond.handle_snapshot(0, &snapshot(20, 12.0));
        assert_eq!(all.delivery_rate, Some(Rate::from_mbit(27.0)));
        assert_eq!(all.srtt, Some(Duration::from_millis(220)));
    }
}
