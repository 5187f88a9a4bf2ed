//! Whether a lane still delivers.
//!
//! A path that fails does not end a lane at once: the lane's TCP retransmits for seconds until it gives up, and the
//! bytes that the lane holds are lost then. So a stalled lane gets nothing more: at the edge packets survive it. The
//! lane goes on as soon as it delivers something.

use std::time::Duration;

use trunkline_units::Instant;

/// A lane that holds bytes and has delivered none for this time, and for four round-trip times, has stalled.
const STALL: Duration = Duration::from_secs(1);

/// How much a lane has delivered, and since when no more.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    delivered: u64,
    held: usize,
    since: Option<Instant>,
    stalled: bool,
}

impl Progress {
    /// Takes the number of bytes that the lane has delivered and that it holds. Whether it has stalled just now.
    pub(crate) fn update(
        &mut self,
        now: Instant,
        delivered: u64,
        held: usize,
        srtt: Option<Duration>,
    ) -> bool {
        // Time with nothing to deliver does not count.
        let delivers = held == 0 || self.held == 0 || delivered > self.delivered;
        let Some(since) = self.since.filter(|_| !delivers) else {
            *self = Progress { delivered, held, since: Some(now), stalled: false };
            return false;
        };
        self.held = held;
        let limit = STALL.max(srtt.unwrap_or_default() * 4);
        let stalls = !self.stalled && now.saturating_since(since) >= limit;
        self.stalled |= stalls;
        stalls
    }

    /// Whether it holds bytes and has delivered none for long.
    pub(crate) const fn is_stalled(&self) -> bool {
        self.stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_lane_that_delivers_nothing_for_a_second_stalls_once_and_goes_on_when_it_delivers() {
        let mut progress = Progress::default();
        let told: Vec<u64> =
            (0..3000).step_by(100).filter(|ms| progress.update(at(*ms), 500, 100, None)).collect();
        assert_eq!(told, [1000]);
        assert!(progress.is_stalled());
        assert!(!progress.update(at(3000), 501, 99, None));
        assert!(!progress.is_stalled());
    }

    #[test]
    fn an_idle_lane_never_stalls_and_its_next_bytes_have_a_second_of_their_own() {
        let mut progress = Progress::default();
        assert!((0..9000).step_by(100).all(|ms| !progress.update(at(ms), 500, 0, None)));
        assert!(!progress.update(at(9900), 500, 100, None));
        assert!(!progress.update(at(10_800), 500, 100, None));
        assert!(progress.update(at(10_900), 500, 100, None));
    }

    #[test]
    fn a_long_path_has_longer() {
        let mut progress = Progress::default();
        let srtt = Some(Duration::from_millis(700));
        let told: Vec<u64> =
            (0..5000).step_by(100).filter(|ms| progress.update(at(*ms), 500, 100, srtt)).collect();
        assert_eq!(told, [2800]);
    }
}
