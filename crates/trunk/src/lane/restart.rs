//! When a congestion control with a model of the path begins anew.
//!
//! BBR bounds what is in flight by the rate that it has measured and the smallest round-trip time. Where round trips vary by as much as
//! their smallest value (Wi-Fi, LTE), that bound is below what the path holds, so the lane delivers less, so the rate that it measures
//! falls, and so on. A path whose rate has doubled it follows by a quarter every eight round trips. In its startup it has neither
//! fault: its window does not fall, and the grant of the path bounds its rate. So a lane that delivers less than it is granted, though
//! packets wait and the path has no queue, lets it begin anew.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

/// Watches whether a lane delivers what it is granted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Restarts {
    /// At the last look: when, and the bytes that had arrived.
    last: Option<(Instant, u64)>,
    /// bit/s, over the last looks.
    rate: f64,
    /// When the congestion control began last.
    began: Instant,
    /// Since when the lane has delivered much less than it is granted.
    slow_since: Option<Instant>,
}

impl Restarts {
    /// A lane that delivers this part of its grant obeys it.
    const USED: f64 = 0.93;
    /// The shortest time between two beginnings: startup lasts three round trips, and what it has measured needs one more.
    const ROUND_TRIPS: u32 = 4;
    /// One that delivers less than this part for so many round trips, and for this time, is held back by its congestion control.
    const SLOW: f64 = 0.7;
    const SLOW_ROUND_TRIPS: u32 = 4;
    const MIN_SLOW: Duration = Duration::from_millis(500);
    const MIN_INTERVAL: Duration = Duration::from_millis(100);

    /// Takes the bytes that have arrived so far.
    pub(super) fn update(&mut self, now: Instant, arrived: u64) {
        if let Some((at, before)) = self.last {
            let elapsed = now.saturating_since(at).as_secs_f64();
            if elapsed <= 0.0 {
                return;
            }
            let rate = arrived.saturating_sub(before) as f64 * 8.0 / elapsed;
            self.rate += (rate - self.rate) / 4.0;
        }
        self.last = Some((now, arrived));
    }

    /// A congestion control begins.
    pub(super) const fn handle_begun(&mut self, now: Instant) {
        self.began = now;
    }

    /// Takes whether packets wait for the lane on a path without a queue, and what it is granted; without a grant it may send what it
    /// can. Whether its congestion control has held it back for long: one that has lost nothing doubles its rate in each round trip.
    pub(super) fn is_held_back(
        &mut self,
        now: Instant,
        waiting: bool,
        grant: Option<Rate>,
        srtt: Duration,
    ) -> bool {
        let is_slow =
            waiting && grant.is_none_or(|grant| self.rate < grant.bits_per_second() as f64 * Self::SLOW);
        if !is_slow {
            self.slow_since = None;
            return false;
        }
        let since = *self.slow_since.get_or_insert(now);
        now.saturating_since(since) > (srtt * Self::SLOW_ROUND_TRIPS).max(Self::MIN_SLOW)
    }

    /// Whether it is to begin anew, of a lane for which packets wait on a path without a queue.
    pub(super) fn is_due(&self, now: Instant, grant: Rate, srtt: Duration) -> bool {
        let interval = (srtt * Self::ROUND_TRIPS).max(Self::MIN_INTERVAL);
        self.rate < grant.bits_per_second() as f64 * Self::USED && now.saturating_since(self.began) > interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_delivers_much_less_than_it_may_for_some_round_trips_is_held_back() {
        let (granted, srtt) = (Some(Rate::from_mbit(8.0)), Duration::from_millis(100));
        let held_back = |bytes_in_look: u64, grant, waits: fn(u64) -> bool| {
            let mut restarts = Restarts::default();
            (0..200).position(|look| {
                let now = Instant::from_millis(look * 20);
                restarts.update(now, look * bytes_in_look);
                restarts.is_held_back(now, waits(look), grant, srtt)
            })
        };
        assert!(held_back(10_000, granted, |_| true).is_some_and(|look| (25..30).contains(&look)));
        assert_eq!(held_back(16_000, granted, |_| true), None, "four fifths of the grant");
        assert_eq!(held_back(10_000, granted, |look| look % 25 > 0), None, "at times nothing waits");
        assert!(held_back(16_000, None, |_| true).is_some_and(|look| (25..30).contains(&look)));
    }

    #[test]
    fn a_lane_begins_anew_once_in_four_round_trips_while_it_delivers_less_than_it_may() {
        let mut restarts = Restarts::default();
        let (grant, srtt) = (Rate::from_mbit(8.0), Duration::from_millis(50));
        let mut run = |millis: std::ops::Range<u64>, bytes_in_look: u64| {
            let mut begun = Vec::new();
            for ms in millis.step_by(20) {
                let now = Instant::from_millis(ms);
                let arrived = restarts.last.map_or(0, |(_, bytes)| bytes) + bytes_in_look;
                restarts.update(now, arrived);
                if restarts.is_due(now, grant, srtt) {
                    restarts.handle_begun(now);
                    begun.push(ms);
                }
            }
            begun
        };
        // 20 000 bytes in 20 ms are 8 Mbit/s.
        let slow = run(0..1000, 15_000);
        assert!((4..=5).contains(&slow.len()), "{slow:?}");
        assert!(
            run(1000..3000, 20_000).iter().all(|ms| *ms < 1300),
            "what it has delivered before counts for a while"
        );
    }
}
