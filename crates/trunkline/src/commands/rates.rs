//! Rates between two states of one daemon, for `status` and `top`.
//!
//! The kernel's own rates are not suitable. `tcpi_delivery_rate` is the maximum over the last flights and keeps its value
//! while a lane is idle. The smoothed round-trip time of a lane that rarely sends includes its peer's delayed
//! acknowledgements. So a rate here is a difference of byte counters over a time, and only lanes that have sent enough
//! have a queue in the core.

use trunkline_status::{Lane, Status};

/// Full segments that a lane must send between two states before its round-trip time indicates a queue: with fewer, the
/// receiver may have delayed its acknowledgements.
const MIN_SEGMENTS: u64 = 10;

/// The time between two states, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Between(f64);

impl Between {
    /// `None` unless both are of one daemon, in this order.
    pub(super) fn states(before: &Status, now: &Status) -> Option<Self> {
        Between::readings((before.pid, before.uptime_s), (now.pid, now.uptime_s))
    }

    /// The same of proxies.
    pub(super) fn proxies(
        before: &trunkline_status::ProxiesStatus,
        now: &trunkline_status::ProxiesStatus,
    ) -> Option<Self> {
        Between::readings((before.pid, before.uptime_s), (now.pid, now.uptime_s))
    }

    /// From the process and its age at each of them, seconds.
    fn readings(before: (u32, f64), now: (u32, f64)) -> Option<Self> {
        let seconds = now.1 - before.1;
        (before.0 == now.0 && seconds > 0.0).then_some(Between(seconds))
    }

    pub(super) const fn seconds(self) -> f64 {
        self.0
    }

    /// The growth of a counter per second.
    pub(super) fn rate(self, before: u64, now: u64) -> f64 {
        growth(before, now) as f64 / self.0
    }
}

/// The growth of a counter. A counter that fell has started from zero again.
pub(super) fn growth(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

/// The rates of one lane between two states.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct LaneRates {
    /// Bit/s, framing and TLS included; `None` if it sent nothing.
    pub(super) sent: Option<f64>,
    /// Bit/s; `None` if it received nothing.
    pub(super) received: Option<f64>,
    /// Segments/s.
    pub(super) retransmits: Option<f64>,
    /// The queueing delay between the sites, µs; `None` if the lane sent too little to tell.
    pub(super) core_queue_us: Option<u32>,
}

impl LaneRates {
    /// The rates of `now`, given an earlier state of the same connection.
    pub(super) fn new(last: Option<(&Lane, Between)>, now: &Lane) -> Self {
        let Some((before, between)) = last else { return LaneRates::default() };
        let bits = |count: fn(&Lane) -> u64| {
            let rate = 8.0 * between.rate(count(before), count(now));
            (rate > 0.0).then_some(rate)
        };
        let full = u64::from(now.mss.max(1)) * MIN_SEGMENTS;
        let busy = growth(before.bytes_sent, now.bytes_sent) >= full;
        LaneRates {
            sent: bits(|lane| lane.bytes_sent),
            received: bits(|lane| lane.bytes_received),
            retransmits: Some(between.rate(before.retransmits, now.retransmits)),
            core_queue_us: now.queue_in_core_us.filter(|_| busy),
        }
    }
}

/// The same connection in an earlier state.
pub(super) fn earlier<'s>(lanes: &'s [Lane], now: &Lane) -> Option<&'s Lane> {
    let place = |lane: &Lane| (lane.shard, lane.index);
    let same =
        |old: &&Lane| old.lane_group == now.lane_group && old.path == now.path && place(old) == place(now);
    // The counters are those of one connection.
    lanes.iter().find(same).filter(|old| old.established == now.established)
}

#[cfg(test)]
mod tests {
    use trunkline_status::LaneState;

    use super::*;

    /// A lane with values from the kernel.
    fn lane(bytes_sent: u64) -> Lane {
        Lane {
            state: LaneState::Up,
            established: 1,
            mss: 1448,
            bytes_sent,
            // The value of the last flight, which may be long ago.
            delivery_rate: 36_709_000_000,
            rtt_us: Some(12_020),
            min_rtt_us: Some(20),
            queue_in_core_us: Some(12_000),
            ..Lane::default()
        }
    }

    fn rates(before: u64, now: u64) -> LaneRates {
        LaneRates::new(Some((&lane(before), Between(2.0))), &lane(now))
    }

    #[test]
    fn a_rate_is_the_growth_of_the_byte_counter_and_not_the_kernels_delivery_rate() {
        assert_eq!(rates(1_000_000, 751_000_000).sent, Some(3e9));
        assert_eq!(rates(0, 750_000_000).core_queue_us, Some(12_000));
    }

    #[test]
    fn an_idle_lane_has_neither_a_rate_nor_a_queue() {
        let idle = rates(5_000_000, 5_000_000);
        assert_eq!((idle.sent, idle.received, idle.core_queue_us), (None, None, None));
    }

    #[test]
    fn a_lane_that_rarely_sends_has_a_rate_and_no_queue() {
        let few = rates(0, 9 * 1448);
        assert!(few.sent.is_some());
        assert_eq!(few.core_queue_us, None);
        assert_eq!(rates(0, 10 * 1448).core_queue_us, Some(12_000));
    }

    #[test]
    fn another_connection_in_its_place_has_no_rates() {
        let (old, new) = (lane(1), Lane { established: 2, ..lane(5) });
        assert!(earlier(std::slice::from_ref(&old), &new).is_none());
        assert!(earlier(std::slice::from_ref(&old), &lane(5)).is_some());
        assert_eq!(LaneRates::new(None, &new), LaneRates::default());
    }
}
