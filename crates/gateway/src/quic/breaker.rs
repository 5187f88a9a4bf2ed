//! The circuit breaker of a lane without congestion control (RFC 8084; RFC 8085 §3.1.11).
//!
//! What such a lane carries is controlled by its senders, so it passes on their losses and leaves the rest to them. It cannot
//! know that it is so. Controlled traffic does not keep up a loss of a tenth for several round trips: TCP gets about two
//! segments a round trip then. So where a tenth is lost in three intervals in a row, or nothing at all is acknowledged for as
//! long, the lane gets a congestion window as all others have. RFC 8084 §4 asks for a measurement over several round trips,
//! for a trigger that no single one of them pulls, and for a reset that does not follow at once.

use std::time::{Duration, Instant as StdInstant};

/// An interval of the measurement has so much time and so many round trips at least.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_ROUND_TRIPS: u32 = 4;
/// And so many bytes: less says nothing of a share.
const MIN_BYTES: u64 = 30_000;
/// Lost bytes out of so many.
const LOST_OUT_OF: u64 = 10;
/// Intervals in a row that open the circuit.
const INTERVALS: u32 = 3;
/// How long it is open at first; twice as long each time that it opens again within the same time.
const MIN_OPEN: Duration = Duration::from_secs(60);
const MAX_OPEN: Duration = Duration::from_secs(16 * 60);

/// Whether the lane goes without a congestion window.
#[derive(Debug, Clone)]
pub(super) struct Breaker {
    /// When the present interval began, and bytes acknowledged and lost in it.
    since: StdInstant,
    acked: u64,
    lost: u64,
    /// Intervals in a row that lost too much.
    bad: u32,
    /// Since when nothing is acknowledged of what was sent.
    unanswered: Option<StdInstant>,
    /// Until when it is open; in the past, once it has closed again.
    open_until: Option<StdInstant>,
    open_for: Duration,
    trips: u32,
}

impl Breaker {
    pub(super) const fn new(now: StdInstant) -> Self {
        Breaker {
            since: now,
            acked: 0,
            lost: 0,
            bad: 0,
            unanswered: None,
            open_until: None,
            open_for: MIN_OPEN,
            trips: 0,
        }
    }

    /// Whether the lane has a congestion window now.
    pub(super) fn is_open(&self, now: StdInstant) -> bool {
        self.open_until.is_some_and(|until| now < until)
    }

    /// How often it has opened.
    pub(super) const fn trips(&self) -> u32 {
        self.trips
    }

    /// Something was sent that is to be acknowledged. Whether the circuit opens.
    pub(super) fn handle_sent(&mut self, now: StdInstant, srtt: Duration) -> bool {
        let since = *self.unanswered.get_or_insert(now);
        let silent = now.saturating_duration_since(since) >= interval(srtt) * INTERVALS;
        if silent {
            self.unanswered = Some(now);
            self.open(now);
        }
        silent
    }

    /// So many bytes were acknowledged, and so many found lost. Whether the circuit opens.
    pub(super) fn handle_feedback(
        &mut self,
        now: StdInstant,
        (acked, lost): (u64, u64),
        srtt: Duration,
    ) -> bool {
        if acked > 0 {
            self.unanswered = None;
        }
        self.acked += acked;
        self.lost += lost;
        let all = self.acked + self.lost;
        if now.saturating_duration_since(self.since) < interval(srtt) || all < MIN_BYTES {
            return false;
        }
        self.bad = if self.lost * LOST_OUT_OF > all { self.bad + 1 } else { 0 };
        (self.since, self.acked, self.lost) = (now, 0, 0);
        let opens = self.bad >= INTERVALS && !self.is_open(now);
        if opens {
            self.open(now);
        }
        opens
    }

    fn open(&mut self, now: StdInstant) {
        let again = self.open_until.is_some_and(|until| now < until + self.open_for);
        self.open_for = if again { (self.open_for * 2).min(MAX_OPEN) } else { MIN_OPEN };
        self.open_until = Some(now + self.open_for);
        self.bad = 0;
        self.trips += 1;
    }
}

fn interval(srtt: Duration) -> Duration {
    MIN_INTERVAL.max(srtt * INTERVAL_ROUND_TRIPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    struct Lane {
        breaker: Breaker,
        start: StdInstant,
        now: StdInstant,
    }

    impl Lane {
        fn new() -> Self {
            let now = StdInstant::now();
            Lane { breaker: Breaker::new(now), start: now, now }
        }

        /// Ten packets each 50 ms for so long, of which so many percent are lost. When it opened first, in seconds.
        fn run(&mut self, time: Duration, percent: u64) -> Option<f64> {
            let end = self.now + time;
            let mut opened = None;
            while self.now < end {
                self.now += Duration::from_millis(50);
                self.breaker.handle_sent(self.now, RTT);
                let (acked, lost) = (120 * (100 - percent), 120 * percent);
                if self.breaker.handle_feedback(self.now, (acked, lost), RTT) {
                    opened.get_or_insert((self.now - self.start).as_secs_f64());
                }
            }
            opened
        }
    }

    #[test]
    fn a_tenth_lost_in_three_intervals_opens_it_and_less_or_shorter_does_not() {
        assert_eq!(Lane::new().run(Duration::from_secs(100), 10), None);
        let mut lane = Lane::new();
        let opened = lane.run(Duration::from_secs(10), 12).expect("it opens");
        assert!((3.0..3.3).contains(&opened), "{opened}");
        assert_eq!(lane.breaker.trips(), 1);
        let mut bursts = Lane::new();
        for _ in 0..20 {
            assert_eq!(bursts.run(Duration::from_millis(1900), 60), None);
            assert_eq!(bursts.run(Duration::from_millis(2100), 0), None);
        }
    }

    #[test]
    fn it_closes_after_a_minute_and_stays_open_longer_each_time() {
        let mut lane = Lane::new();
        lane.run(Duration::from_millis(3200), 50).expect("it opens");
        lane.run(Duration::from_secs(59), 0);
        assert!(lane.breaker.is_open(lane.now));
        lane.run(Duration::from_secs(2), 0);
        assert!(!lane.breaker.is_open(lane.now));
        lane.run(Duration::from_secs(4), 50).expect("it opens again");
        lane.run(Duration::from_secs(115), 0);
        assert!(lane.breaker.is_open(lane.now), "two minutes now");
        lane.run(Duration::from_secs(10), 0);
        assert!(!lane.breaker.is_open(lane.now));
        // A long time later it is as new.
        lane.run(Duration::from_secs(300), 0);
        lane.run(Duration::from_secs(4), 50).expect("it opens");
        lane.run(Duration::from_secs(62), 0);
        assert!(!lane.breaker.is_open(lane.now));
        assert_eq!(lane.breaker.trips(), 3);
    }

    #[test]
    fn a_peer_that_acknowledges_nothing_opens_it_and_an_idle_lane_does_not() {
        let mut lane = Lane::new();
        lane.run(Duration::from_secs(2), 0);
        // Nothing is sent for a minute.
        lane.now += Duration::from_secs(60);
        assert!(!lane.breaker.handle_sent(lane.now, RTT));
        let opens = (0..100).find(|_| {
            lane.now += Duration::from_millis(50);
            lane.breaker.handle_sent(lane.now, RTT)
        });
        assert_eq!(opens, Some(59), "three seconds");
        assert!(lane.breaker.is_open(lane.now));
    }

    #[test]
    fn a_few_packets_say_nothing() {
        let mut lane = Lane::new();
        for _ in 0..15 {
            lane.now += Duration::from_secs(1);
            assert!(!lane.breaker.handle_feedback(lane.now, (0, 160), RTT));
        }
    }
}
