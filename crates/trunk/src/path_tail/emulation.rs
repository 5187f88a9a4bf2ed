//! One emulated link: a bounded queue that is served first in, first out, at the operator's rate.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_units::{Instant, Rate, Seq};

use super::FlowId;

/// What the operator says of the mobile network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Throughput.
    pub rate: Rate,
    /// Time that each segment takes beside its length: mean latency of the link's recovery, if the rate leaves it out.
    pub recovery: Duration,
}

impl Estimate {
    fn serialization(self, bytes: u32, carry: &mut u64) -> Duration {
        self.rate.time_for(u64::from(bytes), carry).saturating_add(self.recovery)
    }
}

/// The maximum that the emulated link holds, the segment that is being sent included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Segments.
    pub segments: u32,
    /// Bytes.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) flow: FlowId,
    pub(super) ack: Seq,
    pub(super) at: Instant,
    pub(super) bytes: u32,
    /// At `since`, `left` of it was still to be sent, in parts of `WHOLE`.
    since: Instant,
    left: u64,
}

const WHOLE: u64 = 1 << 32;

#[derive(Debug)]
pub(super) struct Emulation {
    estimate: Estimate,
    limit: Limit,
    queue: VecDeque<Waiting>,
    /// Bytes in it.
    bytes: u64,
    /// Rounded off so far in the busy period.
    carry: u64,
    /// It drops nothing, since windows are to bound what comes.
    pub(super) bounds_windows: bool,
    /// Flows for which something waits.
    pub(super) active: u32,
}

impl Emulation {
    pub(super) fn new(estimate: Estimate, limit: Limit) -> Self {
        Emulation {
            estimate,
            limit,
            queue: VecDeque::new(),
            bytes: 0,
            carry: 0,
            bounds_windows: false,
            active: 0,
        }
    }

    /// Whether a segment of so many bytes fits.
    pub(super) fn has_room(&self, now: Instant, bytes: u32) -> bool {
        let due = self.due(now);
        let gone: u64 = self.queue.iter().take(due).map(|waiting| u64::from(waiting.bytes)).sum();
        self.queue.len() - due < self.limit.segments as usize
            && self.bytes - gone + u64::from(bytes) <= self.limit.bytes
    }

    pub(super) const fn limit(&self) -> Limit {
        self.limit
    }

    /// Appends a segment.
    pub(super) fn push(&mut self, now: Instant, flow: FlowId, ack: Seq, bytes: u32) {
        let since = self.queue.back().map_or(now, |last| last.at.max(now));
        if since == now {
            self.carry = 0;
        }
        let at = since + self.estimate.serialization(bytes, &mut self.carry);
        self.bytes += u64::from(bytes);
        self.queue.push_back(Waiting { flow, ack, at, bytes, since, left: WHOLE });
    }

    pub(super) fn head(&self) -> Option<Instant> {
        self.queue.front().map(|waiting| waiting.at)
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.queue.pop_front()?;
        self.bytes -= u64::from(waiting.bytes);
        Some(waiting)
    }

    /// The part of the segment that is being sent, and all behind it, goes on at another rate.
    pub(super) fn set_estimate(&mut self, now: Instant, estimate: Estimate) {
        let due = self.due(now);
        let mut end = now;
        self.carry = 0;
        for waiting in self.queue.iter_mut().skip(due) {
            let before = self.estimate.serialization(waiting.bytes, &mut 0).as_nanos();
            let sent = (now - waiting.since).as_nanos() * u128::from(WHOLE) / before.max(1);
            waiting.left = waiting.left.saturating_sub(u64::try_from(sent).unwrap_or(WHOLE));
            waiting.since = end;
            let whole = estimate.serialization(waiting.bytes, &mut self.carry);
            let time = whole.as_nanos().saturating_mul(u128::from(waiting.left)) / u128::from(WHOLE);
            end += Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX));
            waiting.at = end;
        }
        self.estimate = estimate;
    }

    pub(super) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    pub(super) fn is_busy(&self, now: Instant) -> bool {
        self.queue.back().is_some_and(|last| last.at > now)
    }

    /// Segments at the front that have been sent and not been asked for.
    fn due(&self, now: Instant) -> usize {
        self.queue.partition_point(|waiting| waiting.at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(kbit: u64) -> Estimate {
        Estimate { rate: Rate::from_bits_per_second(kbit * 1000), recovery: Duration::ZERO }
    }

    fn releases(emulation: &mut Emulation) -> Vec<f64> {
        std::iter::from_fn(|| emulation.pop()).map(|waiting| waiting.at.as_secs_f64()).collect()
    }

    const ROOMY: Limit = Limit { segments: 1000, bytes: 1 << 30 };

    #[test]
    fn each_leaves_its_serialization_after_the_one_before() {
        let mut emulation = Emulation::new(estimate(1000), ROOMY);
        for bytes in [1250, 125, 1250] {
            emulation.push(Instant::ZERO, FlowId(0), Seq(0), bytes);
        }
        emulation.push(Instant::from_millis(100), FlowId(0), Seq(0), 1250);
        assert_eq!(releases(&mut emulation), [0.010, 0.011, 0.021, 0.110]);
    }

    #[test]
    fn recovery_is_added_to_each() {
        let recovery = Duration::from_millis(500);
        let mut emulation = Emulation::new(Estimate { recovery, ..estimate(1000) }, ROOMY);
        for _ in 0..2 {
            emulation.push(Instant::ZERO, FlowId(0), Seq(0), 1250);
        }
        assert_eq!(releases(&mut emulation), [0.510, 1.020]);
    }

    #[test]
    fn roundings_do_not_add_up() {
        let mut emulation = Emulation::new(estimate(7), ROOMY);
        for _ in 0..700 {
            emulation.push(Instant::ZERO, FlowId(0), Seq(0), 1);
        }
        assert_eq!(releases(&mut emulation).pop(), Some(0.8));
    }

    #[test]
    fn it_holds_its_limits_and_what_has_left_does_not_count() {
        for (limit, fits) in [
            (Limit { segments: 3, ..ROOMY }, 3),
            (Limit { bytes: 2500, ..ROOMY }, 2),
            (Limit { bytes: 2499, ..ROOMY }, 1),
        ] {
            let mut emulation = Emulation::new(estimate(1000), limit);
            let mut held = 0;
            while emulation.has_room(Instant::ZERO, 1250) {
                emulation.push(Instant::ZERO, FlowId(0), Seq(0), 1250);
                held += 1;
            }
            assert_eq!(held, fits, "{limit:?}");
            assert!(!emulation.has_room(Instant::from_nanos(9_999_999), 1250));
            assert!(emulation.has_room(Instant::from_millis(10), 1250));
        }
    }

    #[test]
    fn a_new_rate_holds_for_the_rest_of_the_segment_and_what_follows() {
        let mut emulation = Emulation::new(estimate(1000), ROOMY);
        for _ in 0..3 {
            emulation.push(Instant::ZERO, FlowId(0), Seq(0), 1250);
        }
        // The second is half sent; half the rate makes 10 ms of its other half, and 20 of the third.
        emulation.set_estimate(Instant::from_millis(15), estimate(500));
        assert_eq!(releases(&mut emulation), [0.010, 0.025, 0.045]);
    }

    #[test]
    fn the_rate_may_change_within_a_segment_often_and_stand_still() {
        let mut emulation = Emulation::new(estimate(1000), ROOMY);
        for _ in 0..2 {
            emulation.push(Instant::ZERO, FlowId(0), Seq(0), 1250);
        }
        // A half at 1000, a quarter at 500, nothing, the last quarter at 2000.
        emulation.set_estimate(Instant::from_millis(5), estimate(500));
        emulation.set_estimate(Instant::from_millis(10), estimate(0));
        assert_eq!(emulation.head(), Some(Instant::FAR_FUTURE));
        emulation.set_estimate(Instant::from_millis(500), estimate(0));
        emulation.set_estimate(Instant::from_millis(1000), estimate(2000));
        let releases = releases(&mut emulation);
        assert!(
            (releases[0] - 1.001_25).abs() < 1e-8 && (releases[1] - 1.006_25).abs() < 1e-8,
            "{releases:?}"
        );
    }
}
