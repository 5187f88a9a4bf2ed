//! Lanes: what their owner reports of them, and how they are served.

mod control;
mod edge_pacing;
mod path_loss;
mod progress;
mod receive_window;

use std::time::Duration;

use trunkline_units::Rate;

pub use control::{CongestionControlCause, LaneAction, LaneControl};
pub use edge_pacing::PacingMode;
pub use receive_window::ReceiveWindow;

/// The state of a lane's connection, as its owner reports it.
///
/// The gateway fills it from the kernel (`TCP_INFO`, `SIOCOUTQ`, `SIOCOUTQNSD`), a simulator from its TCP
/// model. The model may publish nothing that Linux does not, and nothing fresher.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneSnapshot {
    /// Bytes written and not yet sent.
    pub unsent: usize,
    /// Bytes sent and not yet acknowledged.
    pub unacknowledged: usize,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Smallest round-trip time seen.
    pub min_rtt: Option<Duration>,
    /// Congestion window, bytes.
    pub window: usize,
    /// Rate at which bytes were lately delivered.
    pub delivery_rate: Option<Rate>,
    /// Whether a lack of data limited that rate.
    pub app_limited: bool,
    /// Data segments sent, retransmissions included, modulo 2^32.
    pub segments_sent: u32,
    /// Segments retransmitted, modulo 2^32.
    pub retransmissions: u32,
}

impl LaneSnapshot {
    /// The bounds of [`LaneSnapshot::depth`], bytes.
    pub const DEPTH: std::ops::RangeInclusive<usize> = 6_000..=1_048_576;

    /// Bytes that the connection holds: written and not yet acknowledged.
    pub const fn held(&self) -> usize {
        self.unsent + self.unacknowledged
    }

    /// How many unsent bytes the lane should hold at most, so that it neither runs dry between two visits
    /// of its owner, at most `visit` apart, nor becomes a queue that nobody manages.
    ///
    /// That is the number of bytes that it sends in one visit, by its window and round-trip time, and at least four
    /// segments.
    pub fn depth(&self, visit: Duration) -> usize {
        let per_visit = match self.srtt {
            Some(srtt) if !srtt.is_zero() => {
                let bytes = self.window as u128 * visit.as_nanos() / srtt.as_nanos();
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }
            _ => 0,
        };
        per_visit.clamp(*Self::DEPTH.start(), *Self::DEPTH.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(window: usize, srtt_ms: u64) -> LaneSnapshot {
        LaneSnapshot { window, srtt: Some(Duration::from_millis(srtt_ms)), ..LaneSnapshot::default() }
    }

    #[test]
    fn depth_is_what_the_lane_sends_between_two_visits() {
        let visit = Duration::from_millis(2);
        // 100 Mbit/s: a window of 450 kB over 36 ms sends 25 kB in 2 ms.
        assert_eq!(lane(450_000, 36).depth(visit), 25_000);
    }

    #[test]
    fn depth_stays_within_its_bounds() {
        let visit = Duration::from_millis(2);
        assert_eq!(lane(15_000, 300).depth(visit), 6_000);
        assert_eq!(lane(100_000_000, 1).depth(visit), 1_048_576);
        assert_eq!(LaneSnapshot::default().depth(visit), 6_000);
    }
}
