//! Whether a lane still opens its window.
//!
//! At first a lane carries as much as its window lets through, which doubles in each round trip, as do those of the users whose packets
//! it carries. What it has delivered says nothing yet of what it can. An edge queue that is sized by that drops packets of users in the
//! midst of their slow start, and they take long to come back. The path is taken for full once three round trips have brought no quarter
//! more, as BBR has it (Cardwell and others 2016).

use std::time::Duration;

use trunkline_units::Instant;

use super::LaneSnapshot;

/// Watches the rate that a lane delivers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Opening {
    /// The rate that had grown last, bit/s.
    rate: f64,
    /// Round trips since then in which packets waited.
    rounds: u32,
    round_ends: Instant,
    segments_sent: u32,
}

impl Opening {
    const GROWTH: f64 = 1.25;
    const ROUNDS: u32 = 3;
    /// A round trip is no shorter than two snapshots.
    const MIN_ROUND: Duration = Duration::from_millis(40);

    /// Takes a snapshot. Whether the lane still opens its window.
    pub(crate) fn update(&mut self, now: Instant, lane: &LaneSnapshot) -> bool {
        if lane.segments_sent < self.segments_sent {
            // Another connection.
            *self = Opening::default();
        }
        self.segments_sent = lane.segments_sent;
        let rate = lane.delivery_rate.map_or(0.0, |rate| rate.bits_per_second() as f64);
        if rate >= self.rate * Self::GROWTH {
            (self.rate, self.rounds) = (rate, 0);
        }
        if now >= self.round_ends {
            self.round_ends = now + lane.srtt.unwrap_or_default().max(Self::MIN_ROUND);
            // One that had little to send could have carried more.
            self.rounds += u32::from(!lane.app_limited && lane.unsent > 0);
        }
        self.rounds <= Self::ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use trunkline_units::Rate;

    use super::*;

    fn snapshot(mbit: f64, app_limited: bool) -> LaneSnapshot {
        LaneSnapshot {
            delivery_rate: Some(Rate::from_mbit(mbit)),
            srtt: Some(Duration::from_millis(100)),
            unsent: if app_limited { 0 } else { 10_000 },
            segments_sent: 1000,
            app_limited,
            ..LaneSnapshot::default()
        }
    }

    /// Snapshots 20 ms apart, and whether the lane opens its window at the last one.
    fn run(opening: &mut Opening, from: u64, rates: impl IntoIterator<Item = (f64, bool)>) -> bool {
        let updates = (from..).zip(rates);
        let opens = updates.map(|(n, (mbit, app_limited))| {
            opening.update(Instant::from_millis(n * 20), &snapshot(mbit, app_limited))
        });
        opens.last().unwrap_or_default()
    }

    #[test]
    fn a_window_is_open_three_round_trips_after_the_rate_grew_last() {
        let mut opening = Opening::default();
        assert!(run(&mut opening, 0, (0..30).map(|n| (1.5_f64.powi(n / 5), false))));
        assert!(run(&mut opening, 30, [(12.0, false); 10]));
        assert!(!run(&mut opening, 40, [(12.0, false); 15]));
        assert!(!run(&mut opening, 55, [(13.0, false); 15]), "a little more is no growth");
        assert!(run(&mut opening, 70, [(20.0, false)]));
    }

    #[test]
    fn a_lane_with_little_to_send_may_have_more_to_open_and_so_has_another_connection() {
        let mut opening = Opening::default();
        assert!(run(&mut opening, 0, [(1.0, true); 500]));
        assert!(!run(&mut opening, 500, [(1.0, false); 50]));
        let new = LaneSnapshot { segments_sent: 3, ..snapshot(1.0, false) };
        assert!(opening.update(Instant::from_millis(11_000), &new));
    }
}
