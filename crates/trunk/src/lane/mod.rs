//! Lanes: what their owner reports of them, and how they are served.

mod connection;
mod control;
mod opening;
mod pacer;
mod path_loss;
mod progress;
mod pump;
mod receive_window;
mod reporting;
mod restart;
mod stall;

use std::time::Duration;

use trunkline_units::Rate;

pub use connection::{HandedOver, LaneConnection};
pub use control::{CongestionControlCause, LaneAction, LaneControl, LaneWindow};
pub(crate) use opening::Opening;
pub use pump::{LaneEdge, LanePump, Served};
pub use receive_window::ReceiveWindow;
pub use reporting::{ArrivalReport, Reporting};
pub use stall::Stalling;

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

    /// The same, of a connection whose acknowledgements name packets and not bytes of a stream: `unsent` bytes are in no packet
    /// yet, and packets of `in_flight` bytes are neither acknowledged nor lost. One that delivers all that it takes has taken
    /// `undelivered` bytes more than the far end has in order; of another it is `None`.
    #[must_use]
    pub fn of_packets(self, unsent: usize, in_flight: usize, undelivered: Option<usize>) -> Self {
        let held = undelivered.unwrap_or(unsent + in_flight);
        let unsent_of_held = unsent.min(held);
        LaneSnapshot {
            unsent: unsent_of_held,
            unacknowledged: held - unsent_of_held,
            out_of_order: held.saturating_sub(unsent + in_flight),
            ..self
        }
    }

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
    fn what_the_far_end_has_behind_a_gap_is_neither_unsent_nor_in_flight() {
        let holds = |unsent, in_flight, undelivered| {
            let lane = lane(20_000, 40).of_packets(unsent, in_flight, undelivered);
            (lane.unsent, lane.unacknowledged, lane.out_of_order, lane.window)
        };
        assert_eq!(holds(2000, 9000, None), (2000, 9000, 0, 20_000));
        assert_eq!(holds(2000, 9000, Some(15_000)), (2000, 13_000, 4000, 20_000));
        // Heads of packets are in flight, and no bytes of streams.
        assert_eq!(holds(2000, 9000, Some(10_500)), (2000, 8500, 0, 20_000));
        assert_eq!(holds(2000, 0, Some(500)), (500, 0, 0, 20_000));
    }

    #[test]
    fn depth_stays_within_its_bounds() {
        let visit = Duration::from_millis(2);
        assert_eq!(lane(15_000, 300).depth(visit, None), 6_000);
        assert_eq!(lane(100_000_000, 1).depth(visit, None), 1_048_576);
        assert_eq!(LaneSnapshot::default().depth(visit, None), 6_000);
    }
}
