//! How much more than the path's bandwidth allows is acknowledged at a time: links and receivers send acknowledgements in groups
//! (draft-cardwell-iccrg-bbr-congestion-control-00 does not have it; Linux since 4.20, `bbr_update_ack_aggregation`).

use std::time::Duration;

use trunkline_units::Instant;

use super::{UNIT, delivered};

/// The excess of so many round trips is kept twice: the window of the largest is five to ten.
const ROUNDS: u8 = 5;
/// The window grows by no more than what the bandwidth delivers in this time.
const LONGEST: Duration = Duration::from_millis(100);

/// The largest excess of the last round trips.
#[derive(Debug, Clone, Default)]
pub(super) struct Aggregation {
    /// The epoch in which acknowledgements have come faster than the bandwidth: when it began, and its bytes.
    since: Instant,
    acked: u32,
    /// The largest excess of this half of the window and of the one before, bytes.
    largest: [u32; 2],
    rounds: u8,
}

impl Aggregation {
    /// An acknowledgement of `acked` bytes has come; no excess is larger than the window, `cwnd` bytes.
    pub(super) fn update(&mut self, now: Instant, acked: u32, round_ended: bool, bandwidth: u64, cwnd: u32) {
        if round_ended {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.largest = [0, self.largest[0]];
            }
        }
        let mut expected = delivered(bandwidth, now - self.since, UNIT);
        if self.acked <= expected {
            (self.since, self.acked, expected) = (now, 0, 0);
        }
        self.acked = self.acked.saturating_add(acked);
        self.largest[0] = self.largest[0].max((self.acked - expected).min(cwnd));
    }

    /// By how much the window is to be larger, bytes.
    pub(super) fn allowance(&self, bandwidth: u64) -> u32 {
        self.largest[0].max(self.largest[1]).min(delivered(bandwidth, LONGEST, UNIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 Mbit/s are 1000 bytes each millisecond.
    const BANDWIDTH: u64 = 8_000_000;

    #[test]
    fn even_acknowledgements_have_no_more_excess_than_one_of_them() {
        let mut aggregation = Aggregation::default();
        for ms in 1..500 {
            aggregation.update(Instant::from_millis(ms), 1000, ms % 20 == 0, BANDWIDTH, 1 << 20);
        }
        assert_eq!(aggregation.allowance(BANDWIDTH), 1000);
    }

    #[test]
    fn groups_raise_the_window_by_a_group_for_five_to_ten_round_trips() {
        let mut aggregation = Aggregation::default();
        for group in 1..50 {
            aggregation.update(Instant::from_millis(10 * group), 10_000, group % 2 == 0, BANDWIDTH, 1 << 20);
        }
        assert_eq!(aggregation.allowance(BANDWIDTH), 10_000);
        assert_eq!(aggregation.allowance(BANDWIDTH / 20), 5000, "100 ms of the bandwidth");
        for round in 1..=10 {
            let now = Instant::from_millis(1000 + round);
            aggregation.update(now, 1000, true, BANDWIDTH, 1 << 20);
            let grouped = aggregation.allowance(BANDWIDTH) >= 10_000;
            assert!(grouped || round >= 5, "{round}");
            assert!(!grouped || round < 10, "{round}");
        }
    }
}
