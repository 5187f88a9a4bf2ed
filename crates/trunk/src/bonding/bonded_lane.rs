//! What is known of a lane that serves a bonded class, and when a packet that it takes would arrive.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use crate::lane::{LaneControl, LaneSnapshot};

/// One lane of a [`Bond`](super::Bond), by the snapshots of its connection and the packets that it has taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct BondedLane {
    lane: u8,
    /// Whether its path works and the policy allows it.
    is_usable: bool,
    /// The smallest round-trip time, once it has been measured.
    min_rtt: Option<Duration>,
    /// How much longer the last ones were, of a lane in use.
    longer: Duration,
    /// The largest rate at which it has delivered lately.
    rate: Option<Rate>,
    /// The rate that its window allows on an empty path.
    window_rate: Option<Rate>,
    /// The capacity of its path, once it has been measured.
    capacity: Option<Rate>,
    /// Whether its packets have waited for the path while its window allowed more: its rate is that of the path.
    is_path_limited: bool,
    /// The part of late snapshots of a lane in use at which it was repairing a loss: what came behind it waited.
    repairing: f64,
    /// How much longer than a round trip it has taken lately until all up to a packet had arrived, seconds.
    lateness: f64,
    /// A place in its stream that has not arrived, and since when it is under way.
    mark: Option<(u64, Instant)>,
    /// Bytes that it had taken and the far end did not have at the last snapshot, those that it has taken since, and when that was.
    held: u64,
    taken: u64,
    snapshot_at: Instant,
    /// Bytes that it has taken, and had at the last snapshot.
    sent: u64,
    known_sent: u64,
    /// When it took the last packet.
    sent_at: Option<Instant>,
    /// Since when it has taken some without a pause.
    used_since: Instant,
    /// How long its rate is known when it has taken nothing.
    holds: Duration,
}

impl BondedLane {
    /// Bytes of a packet of full size.
    const PACKET: u64 = 1500;
    /// What a lane in use keeps of its largest rate from one snapshot to the next.
    const MEMORY: f64 = 0.97;
    /// Of each snapshot, or arrival of a mark, in what is known of repairs and lateness.
    const REPAIR_GAIN: f64 = 1.0 / 16.0;
    const LATENESS_GAIN: f64 = 1.0 / 8.0;
    /// A lane that has taken fewer bytes has not shown what its path carries.
    const FEW: u64 = 60_000;
    /// Below this part of what its window allows, and with a round trip that is longer by this part, it is limited by its path.
    const BELOW_WINDOW: f64 = 0.7;
    const QUEUE: f64 = 0.25;
    /// A rate is not known any more when the lane has taken nothing for so long, nor its repairs and lateness when it has for so long: the
    /// path may have changed. While it is tried again and again in vain, twice as long each time.
    const RATE_HOLDS: Duration = Duration::from_secs(5);
    const MAX_RATE_HOLDS: Duration = Duration::from_secs(80);
    const LATENESS_HOLDS: Duration = Duration::from_secs(30);
    /// It is not tried, but used, when it has taken packets for so long without such a pause.
    const USED: Duration = Duration::from_secs(5);
    const PAUSE: Duration = Duration::from_secs(1);

    pub(super) const fn new(lane: u8) -> Self {
        BondedLane {
            lane,
            is_usable: true,
            min_rtt: None,
            longer: Duration::ZERO,
            rate: None,
            window_rate: None,
            capacity: None,
            is_path_limited: false,
            repairing: 0.0,
            lateness: 0.0,
            mark: None,
            held: 0,
            taken: 0,
            snapshot_at: Instant::ZERO,
            sent: 0,
            known_sent: 0,
            sent_at: None,
            used_since: Instant::ZERO,
            holds: Self::RATE_HOLDS,
        }
    }

    pub(super) const fn lane(&self) -> u8 {
        self.lane
    }

    pub(super) const fn is_usable(&self) -> bool {
        self.is_usable
    }

    /// Bytes that it has taken.
    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    /// What it carries, as far as it has shown; before that, what its window allows.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.rate.or(self.window_rate)
    }

    /// Its round-trip time, with the queue on its path.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        Some(self.min_rtt? + self.longer)
    }

    /// Takes whether its path may be used, and the capacity of that.
    pub(super) fn handle_path(&mut self, is_usable: bool, capacity: Option<Rate>) {
        if is_usable && !self.is_usable {
            // How it failed says nothing of how it is now.
            (self.repairing, self.lateness, self.mark) = (0.0, 0.0, None);
            (self.sent_at, self.holds) = (None, Self::RATE_HOLDS);
        }
        (self.is_usable, self.capacity) = (is_usable, capacity);
    }

    pub(super) fn handle_sent(&mut self, now: Instant, bytes: u64) {
        self.sent += bytes;
        self.taken += bytes;
        if bytes > 0 {
            if !self.has_sent_within(now, Self::PAUSE) {
                self.used_since = now;
            }
            if self.sent_at.is_some() && !self.has_sent_within(now, self.holds) {
                self.holds = (self.holds * 2).min(Self::MAX_RATE_HOLDS);
            }
            self.sent_at = Some(now);
        }
    }

    pub(super) fn handle_snapshot(&mut self, now: Instant, snapshot: &LaneSnapshot) {
        let is_used = std::mem::replace(&mut self.known_sent, self.sent) != self.sent;
        self.min_rtt = snapshot.min_rtt.or(snapshot.srtt);
        let min_rtt = self.min_rtt.unwrap_or_default();
        // The smoothed round-trip time of a lane that sends nothing is that of the past, with the queue that it had then.
        self.longer =
            snapshot.srtt.filter(|_| is_used).map_or(Duration::ZERO, |srtt| srtt.saturating_sub(min_rtt));
        self.measure_rate(is_used, snapshot);
        if !self.has_sent_within(now, self.holds) {
            self.is_path_limited = false;
        }
        if self.has_sent_within(now, Self::PAUSE) && now.saturating_since(self.used_since) >= Self::USED {
            self.holds = Self::RATE_HOLDS;
        }
        if is_used {
            let is_repairing = f64::from(u8::from(snapshot.out_of_order > 0));
            self.repairing += (is_repairing - self.repairing) * Self::REPAIR_GAIN;
        }
        self.measure_lateness(now, is_used, snapshot.held() as u64);
        self.held = snapshot.held().saturating_sub(snapshot.out_of_order) as u64;
        (self.taken, self.snapshot_at) = (0, now);
    }

    fn measure_rate(&mut self, is_used: bool, snapshot: &LaneSnapshot) {
        let bits = |rate: Rate| rate.bits_per_second() as f64;
        self.window_rate = LaneSnapshot { srtt: self.min_rtt, ..*snapshot }.window_rate();
        let sample = snapshot.delivery_rate.filter(|rate| *rate > Rate::ZERO);
        if is_used || self.rate.is_none() {
            let kept = self.rate.map(|rate| Rate::from_bits_per_second((bits(rate) * Self::MEMORY) as u64));
            self.rate = sample.max(kept);
        }
        let has_queue = self.longer > self.min_rtt.unwrap_or_default().mul_f64(Self::QUEUE);
        let may_more = self
            .rate
            .zip(self.window_rate)
            .is_some_and(|(rate, window)| bits(rate) < bits(window) * Self::BELOW_WINDOW);
        self.is_path_limited |= self.sent > Self::FEW && has_queue && may_more;
    }

    fn measure_lateness(&mut self, now: Instant, is_used: bool, held: u64) {
        if let Some((place, since)) = self.mark {
            let has_arrived = self.sent.saturating_sub(held) >= place;
            // It is looked at no more often.
            let expected = LaneControl::SNAPSHOT_INTERVAL + self.min_rtt.unwrap_or_default();
            let late = now.saturating_since(since).saturating_sub(expected).as_secs_f64();
            if has_arrived || late > self.lateness {
                self.lateness += (late - self.lateness) * Self::LATENESS_GAIN;
            }
            if has_arrived {
                self.mark = None;
            }
        }
        if self.mark.is_none() && is_used {
            self.mark = Some((self.sent, now));
        }
    }

    /// Whether it has taken a packet within this time.
    pub(super) fn has_sent_within(&self, now: Instant, time: Duration) -> bool {
        self.sent_at.is_some_and(|at| now.saturating_since(at) < time)
    }

    /// What its path carries, if the lane has shown that lately.
    pub(super) fn known_rate(&self, now: Instant) -> Option<Rate> {
        let is_known = self.is_path_limited || self.capacity.is_some();
        if is_known && self.has_sent_within(now, self.holds) { self.capacity.or(self.rate) } else { None }
    }

    /// How long a packet of full size that it takes now is on its way, behind what the lane holds and has not brought under way.
    pub(super) fn delay(&self, now: Instant) -> Option<Duration> {
        let min_rtt = self.min_rtt?;
        // As long as it has not shown what its path carries, its window may say more.
        let rate = if self.known_rate(now).is_some() { self.rate } else { self.rate.max(self.window_rate) };
        let queue = rate.filter(|rate| *rate > Rate::ZERO).map_or(Duration::ZERO, |rate| {
            let carried = rate.bytes_in(min_rtt + now.saturating_since(self.snapshot_at));
            let before = (self.held + self.taken).saturating_sub(carried) + Self::PACKET;
            let nanos = u128::from(before) * 8_000_000_000 / u128::from(rate.bits_per_second());
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        });
        let (repairing, lateness) = if self.has_sent_within(now, Self::LATENESS_HOLDS) {
            (self.repairing, self.lateness)
        } else {
            (0.0, 0.0)
        };
        let longer = queue.max(self.longer).max(Duration::from_secs_f64(lateness));
        Some(min_rtt / 2 + min_rtt.mul_f64(repairing) + longer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A round-trip time of 20 ms, 10 Mbit/s, and so many bytes that have not arrived.
    fn snapshot(held: usize) -> LaneSnapshot {
        LaneSnapshot {
            srtt: Some(Duration::from_millis(20)),
            delivery_rate: Some(Rate::from_mbit(10.0)),
            unacknowledged: held,
            ..LaneSnapshot::default()
        }
    }

    fn delay_ms(lane: &BondedLane, now: Instant) -> u128 {
        lane.delay(now).map_or(0, |delay| delay.as_millis())
    }

    #[test]
    fn what_has_not_arrived_for_long_makes_the_next_packets_late_for_a_while() {
        let mut lane = BondedLane::new(0);
        lane.handle_snapshot(at(0), &snapshot(0));
        assert_eq!(delay_ms(&lane, at(0)), 11, "half a round trip, and 1.2 ms for the packet");
        for ms in (0..400).step_by(20) {
            lane.handle_sent(at(ms), 1500);
            let sent = lane.sent() as usize;
            lane.handle_snapshot(at(ms), &snapshot(sent));
        }
        assert!((100..300).contains(&delay_ms(&lane, at(400))), "{}", delay_ms(&lane, at(400)));
        for ms in (400..2000).step_by(20) {
            lane.handle_sent(at(ms), 1500);
            lane.handle_snapshot(at(ms), &snapshot(0));
        }
        assert!(delay_ms(&lane, at(2000)) <= 15, "{}", delay_ms(&lane, at(2000)));
    }

    #[test]
    fn a_lane_that_is_tried_in_vain_is_tried_more_and_more_rarely_until_it_is_used() {
        let mut lane = BondedLane::new(0);
        lane.handle_path(true, Some(Rate::from_mbit(1.0)));
        let mut now = 0;
        // Takes packets for so long; then how long its rate is known, in looks of 20 ms.
        let mut forgotten_after = |lane: &mut BondedLane, used_ms: u64| {
            let end = now + used_ms;
            while now <= end {
                lane.handle_sent(at(now), 1500);
                lane.handle_snapshot(at(now), &snapshot(0));
                now += 20;
            }
            let from = now;
            while lane.known_rate(at(now)).is_some() {
                lane.handle_snapshot(at(now), &snapshot(0));
                now += 20;
            }
            lane.handle_snapshot(at(now), &snapshot(0));
            for _ in 0..50 {
                now += 20;
                lane.handle_snapshot(at(now), &snapshot(0));
                assert_eq!(lane.known_rate(at(now)), None, "until it is tried");
            }
            (now - from - 1000).div_ceil(1000)
        };
        let times: Vec<u64> = (0..6).map(|_| forgotten_after(&mut lane, 400)).collect();
        assert_eq!(times, [5, 10, 20, 40, 80, 80]);
        assert_eq!(forgotten_after(&mut lane, 6000), 5, "it was used");
        assert_eq!(forgotten_after(&mut lane, 400), 10);
        lane.handle_path(false, None);
        lane.handle_path(true, Some(Rate::from_mbit(1.0)));
        assert_eq!(forgotten_after(&mut lane, 400), 5, "its path has failed since");
    }

    #[test]
    fn a_rate_is_that_of_the_path_when_packets_wait_though_the_window_allows_more() {
        let with = |window: usize, srtt_ms: u64| LaneSnapshot {
            srtt: Some(Duration::from_millis(srtt_ms)),
            min_rtt: Some(Duration::from_millis(20)),
            window,
            ..snapshot(0)
        };
        // 10 Mbit/s carry 25 kB in a round trip of 20 ms.
        for (window, srtt_ms, is_known) in [(20_000, 40, false), (100_000, 22, false), (100_000, 40, true)] {
            let mut lane = BondedLane::new(0);
            lane.handle_sent(at(0), 100_000);
            lane.handle_snapshot(at(0), &with(window, srtt_ms));
            assert_eq!(lane.known_rate(at(0)).is_some(), is_known, "{window} bytes, {srtt_ms} ms");
            assert_eq!(lane.known_rate(at(5000)), None, "it may have changed");
        }
    }
}
