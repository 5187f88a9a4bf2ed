//! Tells a lossy path from a full one.
//!
//! A loss-based congestion control takes every loss for a full path. On a path that loses a packet in a hundred, its
//! rate is a few segments a round trip (Mathis et al. 1997), whatever the capacity. Losses while packets wait for the
//! lane and the core has no queue are not those of a full path. Two seconds of them in a row, or as many more as a
//! hundred segments take, make a path lossy; ten seconds without them make it clean again.

use std::time::Duration;

use trunkline_units::Instant;

use crate::LaneSnapshot;

/// Watches one lane's losses.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathLoss {
    lossy: bool,
    since: Option<Instant>,
    /// The counters at `since`, which have 32 bits and wrap.
    segments: u32,
    retransmissions: u32,
    /// Whether the core had a queue in this interval.
    queued: bool,
    intervals: u32,
}

impl PathLoss {
    /// The minimum length of an interval that is judged, in time and in segments.
    const INTERVAL: Duration = Duration::from_secs(1);
    const MIN_SEGMENTS: u32 = 100;
    /// The queue on a path of no length.
    const QUEUE: Duration = Duration::from_millis(6);
    /// Consecutive intervals that make a path lossy, or clean again.
    const LOSSY_AFTER: u32 = 2;
    const CLEAN_AFTER: u32 = 10;

    /// Whether the path loses packets without being full.
    pub(crate) const fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// Whether the path of a lane has a queue beyond the usual variation of its round-trip time.
    pub(crate) fn has_queue(lane: &LaneSnapshot) -> bool {
        let (Some(srtt), Some(min_rtt)) = (lane.srtt, lane.min_rtt) else { return false };
        srtt.saturating_sub(min_rtt) > Self::QUEUE + min_rtt / 16
    }

    /// Takes the lane's counters of data segments sent, retransmissions included, and of retransmissions, both modulo
    /// 2^32, and whether its path has a queue now. Call it while packets wait for the lane. Whether the path has become
    /// lossy, or clean.
    pub(crate) fn update(&mut self, now: Instant, segments: u32, retransmissions: u32, queue: bool) -> bool {
        self.queued |= queue;
        let Some(since) = self.since else {
            (self.since, self.segments, self.retransmissions) = (Some(now), segments, retransmissions);
            return false;
        };
        let sent = segments.wrapping_sub(self.segments);
        if now.saturating_since(since) < Self::INTERVAL || sent < Self::MIN_SEGMENTS {
            return false;
        }
        let lost = retransmissions.wrapping_sub(self.retransmissions);
        let queued = std::mem::take(&mut self.queued);
        (self.since, self.segments, self.retransmissions) = (Some(now), segments, retransmissions);
        let [sent, lost] = [sent, lost].map(u64::from);
        let (agrees, needed) = if self.lossy {
            // One in two thousand.
            (lost * 2000 < sent, Self::CLEAN_AFTER)
        } else {
            // Three in a thousand.
            (!queued && lost * 1000 >= sent * 3, Self::LOSSY_AFTER)
        };
        self.intervals = if agrees { self.intervals + 1 } else { 0 };
        if self.intervals < needed {
            return false;
        }
        self.intervals = 0;
        self.lossy = !self.lossy;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand segments a second, so many of them lost, for so many seconds.
    fn run(path: &mut PathLoss, seconds: u32, lost_in_1000: u32, queue: bool) {
        run_from(path, (0, 0), seconds, lost_in_1000, queue);
    }

    /// The same with counters that stand somewhere.
    fn run_from(path: &mut PathLoss, from: (u32, u32), seconds: u32, lost_in_1000: u32, queue: bool) {
        for at in 0..=seconds * 50 {
            let (sent, lost) = (from.0.wrapping_add(at * 20), from.1.wrapping_add(at * lost_in_1000 / 50));
            let _ = path.update(Instant::from_millis(u64::from(at) * 20), sent, lost, queue);
        }
    }

    #[test]
    fn counters_that_wrap_are_counted_on() {
        for from in [(u32::MAX - 1500, 0), (0, u32::MAX - 15), (u32::MAX - 2500, u32::MAX - 25)] {
            let mut path = PathLoss::default();
            run_from(&mut path, from, 4, 10, false);
            assert!(path.is_lossy(), "from {from:?}");
            let mut clean = PathLoss::default();
            run_from(&mut clean, from, 60, 0, false);
            assert!(!clean.is_lossy(), "from {from:?}");
        }
    }

    #[test]
    fn a_verdict_comes_after_a_wrap_too() {
        let mut path = PathLoss::default();
        // The counter of segments wraps after 30 seconds without a loss, and stands at 10 000 when losses come.
        for at in 0..40 * 50_u32 {
            let sent = (u32::MAX - 30_000).wrapping_add(at * 20);
            assert!(!path.update(Instant::from_millis(u64::from(at) * 20), sent, 0, false));
        }
        for at in 40 * 50..44 * 50_u32 {
            let (sent, lost) = ((u32::MAX - 30_000).wrapping_add(at * 20), (at - 40 * 50) / 5);
            let _ = path.update(Instant::from_millis(u64::from(at) * 20), sent, lost, false);
        }
        assert!(path.is_lossy());
    }

    #[test]
    fn losses_without_a_queue_make_a_path_lossy_and_their_end_makes_it_clean() {
        let mut path = PathLoss::default();
        run(&mut path, 4, 10, false);
        assert!(path.is_lossy());
        let lost = 4 * 10;
        for n in 0..=8 * 50_u32 {
            let _ = path.update(Instant::from_millis(4000 + u64::from(n) * 20), 4000 + n * 20, lost, false);
        }
        assert!(path.is_lossy(), "eight seconds are not enough");
        for n in 8 * 50..=14 * 50_u32 {
            let _ = path.update(Instant::from_millis(4000 + u64::from(n) * 20), 4000 + n * 20, lost, false);
        }
        assert!(!path.is_lossy());
    }

    #[test]
    fn losses_of_a_full_path_and_rare_ones_are_no_verdict() {
        let mut full = PathLoss::default();
        run(&mut full, 60, 20, true);
        assert!(!full.is_lossy());
        let mut rare = PathLoss::default();
        run(&mut rare, 60, 2, false);
        assert!(!rare.is_lossy());
    }

    #[test]
    fn a_few_segments_are_not_judged() {
        let mut path = PathLoss::default();
        for second in 0..50_u32 {
            let now = Instant::from_millis(u64::from(second) * 1000);
            assert!(!path.update(now, second * 2, second, false));
        }
    }
}
