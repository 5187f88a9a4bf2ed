//! Lanes: what their owner reports of them, and how they are served.

mod control;
mod pacer;
mod path_loss;
mod progress;
mod receive_window;
mod reporting;

use std::time::Duration;

use trunkline_units::Rate;

pub use control::{CongestionControlCause, LaneAction, LaneControl};
pub use receive_window::ReceiveWindow;
pub use reporting::{ArrivalReport, Reporting};

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
    /// Segments retransmitted, modulo 2^32; lost, where none is retransmitted.
    pub retransmissions: u32,
    /// Bytes of the unacknowledged ones that the far end has, behind others that it lacks; 0 where that is not known.
    pub out_of_order: usize,
    /// Bytes that were lost and are not retransmitted, in all; 0 of a connection that delivers all that it takes.
    pub lost_bytes: u64,
}

impl LaneSnapshot {
    /// The bounds of [`LaneSnapshot::depth`], bytes.
    pub const DEPTH: std::ops::RangeInclusive<usize> = 6_000..=1_048_576;

    /// Bytes that the connection holds: written and not yet acknowledged.
    pub const fn held(&self) -> usize {
        self.unsent + self.unacknowledged
    }

    /// The rate that the window allows; `None` before the first round-trip time.
    pub fn window_rate(&self) -> Option<Rate> {
        let nanos = self.srtt?.as_nanos().max(1);
        let bits = self.window as u128 * 8 * 1_000_000_000 / nanos;
        Some(Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX)))
    }

    /// How many unsent bytes the lane should hold at most, so that it neither runs dry between two visits
    /// of its owner, at most `visit` apart, nor becomes a queue that nobody manages.
    ///
    /// That is the number of bytes that it sends in one visit, by its window and round-trip time or at the `grant` of its path
    /// if that is less, and at least four segments.
    pub fn depth(&self, visit: Duration, grant: Option<Rate>) -> usize {
        let per_visit = match self.srtt {
            Some(srtt) if !srtt.is_zero() => {
                let bytes = self.window as u128 * visit.as_nanos() / srtt.as_nanos();
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }
            _ => 0,
        };
        let granted =
            grant.map_or(usize::MAX, |rate| usize::try_from(rate.bytes_in(visit)).unwrap_or(usize::MAX));
        per_visit.min(granted).clamp(*Self::DEPTH.start(), *Self::DEPTH.end())
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
        assert_eq!(lane(450_000, 36).depth(visit, None), 25_000);
        // A path that grants it 50 Mbit/s lets it send half of that.
        assert_eq!(lane(450_000, 36).depth(visit, Some(Rate::from_mbit(50.0))), 12_500);
    }

    #[test]
    fn depth_stays_within_its_bounds() {
        let visit = Duration::from_millis(2);
        assert_eq!(lane(15_000, 300).depth(visit, None), 6_000);
        assert_eq!(lane(100_000_000, 1).depth(visit, None), 1_048_576);
        assert_eq!(LaneSnapshot::default().depth(visit, None), 6_000);
    }
}
