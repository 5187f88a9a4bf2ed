//! Whether a path loses packets without being full.
//!
//! CUBIC and Reno take every loss for congestion. At a loss of one in a thousand a single lane with such a congestion control carries a
//! fraction of what sixteen flows carry without a trunk, and its path stands idle. A loss without a queue in the core is noise, so a
//! lane whose path shows some of them gets a congestion control that goes by what arrives. What one lane has found out holds for all
//! lanes of its path.

use std::time::Duration;

use trunkline_units::Instant;

use crate::LaneSnapshot;
use crate::path::PathEvidence;

/// Watches one lane's losses, and hears of those of others on its path.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathLoss {
    lossy: bool,
    /// Whether the lane's own losses say so.
    found: bool,
    /// When losses without a queue were seen last, the newest first.
    seen: [Option<Instant>; Self::LOSSES.1],
    /// The counter of retransmissions at the last look, which has 32 bits and wraps.
    retransmissions: Option<u32>,
    /// Until when a congestion control that goes by losses stands in the lane's way.
    held_back_until: Instant,
}

impl PathLoss {
    /// So many losses make a path lossy: of a connection of the kernel, and of one in user space, which learns more slowly that packets
    /// overtake each other and were not lost. Those closer together than this are one, of a burst or a slow start.
    const LOSSES: (usize, usize) = (2, 5);
    const APART: Duration = Duration::from_millis(500);
    /// A loss counts for so long. A path without any for this time is clean.
    const MEMORY: Duration = Duration::from_secs(20);
    /// The queue on a path of no length.
    const QUEUE: Duration = Duration::from_millis(6);

    /// Whether the path loses packets without being full.
    pub(crate) const fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// Whether the lane's own losses say so. Only these are told to others: no two lanes keep each other's word alive.
    pub(super) const fn has_found(&self) -> bool {
        self.found
    }

    /// Whether the path of a lane has a queue beyond the usual variation of its round-trip time.
    pub(crate) fn has_queue(lane: &LaneSnapshot) -> bool {
        let (Some(srtt), Some(min_rtt)) = (lane.srtt, lane.min_rtt) else { return false };
        srtt.saturating_sub(min_rtt) > Self::QUEUE + min_rtt / 16
    }

    /// A congestion control that goes by losses has held the lane back: whatever it has taken for congestion was none.
    pub(super) fn handle_held_back(&mut self, now: Instant) {
        self.held_back_until = now + Self::MEMORY;
    }

    /// Takes the lane's counter of retransmissions, modulo 2^32, and what is known of its path. Whether the path has become lossy, or
    /// clean.
    pub(crate) fn update(
        &mut self,
        now: Instant,
        retransmissions: u32,
        path: PathEvidence,
        kernel: bool,
    ) -> bool {
        let before = self.retransmissions.replace(retransmissions).unwrap_or(retransmissions);
        // A counter that goes back is that of another connection.
        let lost = retransmissions.wrapping_sub(before);
        let apart = self.seen[0].is_none_or(|at| now.saturating_since(at) >= Self::APART);
        if (1..=u32::MAX / 2).contains(&lost) && !path.congested && apart {
            self.seen.rotate_right(1);
            self.seen[0] = Some(now);
        }
        let many = if kernel { Self::LOSSES.0 } else { Self::LOSSES.1 };
        let needed = if self.found { 1 } else { many };
        self.found = self.seen[needed - 1].is_some_and(|at| now.saturating_since(at) < Self::MEMORY);
        let lossy = self.found || path.lossy || now < self.held_back_until;
        std::mem::replace(&mut self.lossy, lossy) != lossy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn evidence(congested: bool) -> PathEvidence {
        PathEvidence { congested, lossy: false, free: false }
    }

    /// Looks at a lane fifty times a second, for so many seconds from `at` on, while it loses so many packets a second.
    fn run(path: &mut PathLoss, at: u64, seconds: u64, losses: u64, congested: bool) {
        let start = path.retransmissions.unwrap_or(u32::MAX - 2);
        for look in 0..=seconds * 50 {
            let lost = start.wrapping_add((look * losses / 50) as u32);
            let _ = path.update(Instant::from_millis(at * 1000 + look * 20), lost, evidence(congested), true);
        }
    }

    #[test]
    fn losses_without_a_queue_make_a_path_lossy_and_their_end_makes_it_clean() {
        let mut path = PathLoss::default();
        run(&mut path, 0, 1, 1, false);
        assert!(!path.is_lossy(), "one may be chance");
        run(&mut path, 2, 2, 1, false);
        assert!(path.is_lossy());
        run(&mut path, 4, 15, 0, false);
        assert!(path.is_lossy(), "fifteen seconds are not enough");
        run(&mut path, 19, 10, 0, false);
        assert!(!path.is_lossy());
    }

    #[test]
    fn losses_of_a_full_path_and_rare_ones_are_no_verdict() {
        let mut full = PathLoss::default();
        run(&mut full, 0, 60, 20, true);
        assert!(!full.is_lossy());
        let mut rare = PathLoss::default();
        for n in 0..60 {
            run(&mut rare, n * 25, 1, 1, false);
            assert!(!rare.is_lossy());
        }
    }

    #[test]
    fn a_lane_that_is_held_back_does_not_go_by_losses_for_a_while() {
        let mut path = PathLoss::default();
        path.handle_held_back(Instant::from_millis(1000));
        run(&mut path, 1, 15, 0, true);
        assert!(path.is_lossy());
        run(&mut path, 16, 10, 0, true);
        assert!(!path.is_lossy());
    }

    #[test]
    fn a_lane_goes_by_what_others_on_its_path_have_found_and_does_not_pass_it_on() {
        let mut path = PathLoss::default();
        let others = |lossy| PathEvidence { congested: false, lossy, free: false };
        assert!(path.update(Instant::from_millis(20), 0, others(true), true));
        assert!(path.is_lossy() && !path.has_found());
        assert!(path.update(Instant::from_millis(40), 0, others(false), true));
        assert!(!path.is_lossy());
        run(&mut path, 1, 3, 1, false);
        assert!(path.is_lossy() && path.has_found(), "its own losses");
    }

    #[test]
    fn losses_are_counted_on_when_the_counter_wraps() {
        let mut path = PathLoss { retransmissions: Some(u32::MAX), ..PathLoss::default() };
        run(&mut path, 0, 3, 1, false);
        assert!(path.is_lossy());
    }

    #[test]
    fn another_connection_that_counts_anew_has_lost_nothing() {
        let mut path = PathLoss::default();
        for n in 0..20 {
            let counter = if n % 2 == 0 { 1000 } else { 7 };
            assert!(!path.update(Instant::from_millis(n * 20), counter, evidence(n % 2 == 0), true));
        }
        assert!(!path.is_lossy());
    }
}
