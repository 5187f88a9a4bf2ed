//! How long a lane may hold data of which nothing is acknowledged.
//!
//! Its path may have failed, and the lane goes on when it returns. Or the path drops long packets only, since its MTU has become
//! smaller (RFC 2923 §2.1): then TCP retransmits the same long segments until it gives up. So the owner of a lane over TCP dials it
//! anew beside the old connection: on a path that has failed nobody answers, and on the other one shorter segments are found.
//! The end that was dialled cannot do that. It ends the lane. What a lane of streams holds is not lost as long as its connection is
//! up, so that one ends too if its peer stays silent about the data.

use std::time::Duration;

use trunkline_units::Instant;

/// A lane is [stalled](super::LaneControl::stalled_until) after a second or four round trips, and reported after this time beside
/// that; again and again while it lasts, since the dial may come to nothing.
const REPORT: Duration = Duration::from_millis(1500);
const REPEAT: Duration = Duration::from_secs(2);
/// A lane over TCP ends after this time, before the kernel gives the connection up without a word.
const LIMIT_OF_TCP: Duration = Duration::from_secs(6);
/// A lane of streams ends after this time, though its peer may send and keep the connection alive.
const LIMIT_OF_STREAMS: Duration = Duration::from_secs(8);

/// What its owner does about a lane that has stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stalling {
    /// It reports that the lane delivers nothing.
    Report,
    /// It reports that the lane delivers again.
    Recovered,
    /// It ends the lane.
    Dead,
}

#[derive(Debug)]
pub(super) struct Stall {
    limit: Duration,
    since: Option<Instant>,
    reported: Option<Instant>,
}

impl Stall {
    pub(super) const fn of_tcp() -> Self {
        Stall { limit: LIMIT_OF_TCP, since: None, reported: None }
    }

    pub(super) const fn of_streams() -> Self {
        Stall { limit: LIMIT_OF_STREAMS, since: None, reported: None }
    }

    /// Whether its end, if the lane has stalled, has not been seen yet.
    #[inline]
    pub(super) const fn lasts(&self) -> bool {
        self.since.is_some()
    }

    /// Takes whether the lane is stalled with data unacknowledged. What is to be done.
    pub(super) fn update(&mut self, now: Instant, is_stalled: bool) -> Option<Stalling> {
        if !is_stalled {
            self.since = None;
            return self.reported.take().map(|_| Stalling::Recovered);
        }
        let since = *self.since.get_or_insert(now);
        if now.saturating_since(since) >= self.limit {
            return Some(Stalling::Dead);
        }
        let due = self.reported.map_or(since + REPORT, |at| at + REPEAT);
        (due <= now).then(|| {
            self.reported = Some(now);
            Stalling::Report
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stall: &mut Stall, ms: std::ops::Range<u64>, is_stalled: bool) -> Vec<(u64, Stalling)> {
        let times = ms.step_by(100);
        times.filter_map(|ms| Some((ms, stall.update(Instant::from_millis(ms), is_stalled)?))).collect()
    }

    #[test]
    fn a_stalled_lane_is_reported_again_and_again_and_ends() {
        let mut stall = Stall::of_tcp();
        assert_eq!(run(&mut stall, 0..10_000, false), []);
        let told = run(&mut stall, 10_000..16_100, true);
        let report = |ms| (ms, Stalling::Report);
        assert_eq!(told, [report(11_500), report(13_500), report(15_500), (16_000, Stalling::Dead)]);
        let told = run(&mut Stall::of_streams(), 10_000..18_100, true);
        assert_eq!(told.last(), Some(&(18_000, Stalling::Dead)));
    }

    #[test]
    fn one_that_delivers_again_is_told_once_and_only_if_it_was_reported() {
        let mut stall = Stall::of_tcp();
        run(&mut stall, 0..1_400, true);
        assert_eq!(run(&mut stall, 1_400..3_000, false), []);
        run(&mut stall, 3_000..5_000, true);
        assert_eq!(run(&mut stall, 5_000..9_000, false), [(5_000, Stalling::Recovered)]);
        assert_eq!(run(&mut stall, 9_000..10_400, true), [], "the time begins anew");
    }
}
