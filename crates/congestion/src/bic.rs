//! BIC: binary increase (Xu, Harfoush and Rhee, INFOCOM 2004), in three versions ([`BicVersion`]).
//!
//! The window searches for the window at which the last loss came: half of the way each round trip, no faster than
//! `S_max`, and in small steps once it is near. Beyond that window it grows slowly at first and then faster, to
//! find a new maximum.
//!
//! Deviation, as in the Linux kernel: a step goes a quarter of the way and not half; the last step takes several round
//! trips for a segment instead of the paper's `S_min`; before the first loss today's version grows by at least 5 % a
//! round trip. BIC counts what the settings count ([`crate::Counting`]), where Linux since 2.6.13 corrects for delayed
//! acknowledgements with an estimate of them.

use std::time::Duration;

use trunkline_units::Instant;

use crate::window::{Window, scaled};
use crate::{BicVersion, CongestionSignal};

/// Up to this many segments BIC is Reno.
const LOW_WINDOW: u32 = 14;
/// A step is the distance divided by this.
const B: u32 = 4;
/// How long an update holds while the window is the same.
const UPDATE_INTERVAL: Duration = Duration::from_micros(31_250);

/// In which the versions differ. Fractions are of 1024.
#[derive(Debug)]
struct Constants {
    /// The largest increase in a round trip, segments.
    s_max: u32,
    /// Round trips that the last step takes, and the first beyond the maximum, times `B`.
    smooth: u32,
    /// What a loss leaves of the window.
    beta: u32,
    /// The maximum that a flow aims at after a loss below the last maximum, of its window (fast convergence).
    converged: u32,
    /// Round trips in which the window grows by its own size, at most, before the first loss.
    first_growth: Option<u32>,
    /// A timeout forgets the maximum.
    forgets: bool,
}

/// Linux 2.6.15 and later.
const LINUX: Constants = Constants {
    s_max: 16,
    smooth: 20,
    beta: 819,
    converged: u32::midpoint(1024, 819),
    first_growth: Some(20),
    forgets: true,
};
/// The authors' patch: the window falls by an eighth, and fast convergence moves the maximum half of that way.
const ORIGINAL: Constants = Constants {
    s_max: 32,
    smooth: 11,
    beta: 1024 - 1024 / 8,
    converged: 1024 - 1024 / 16,
    first_growth: None,
    forgets: false,
};
/// A factor of 15/4 where 15/16 was meant: a flow that should yield aims at nearly four times its window.
const LINUX_2_6_6: Constants = Constants { converged: 1024 * 15 / 4, ..ORIGINAL };

const fn constants(version: BicVersion) -> &'static Constants {
    match version {
        BicVersion::Original => &ORIGINAL,
        BicVersion::Linux266 => &LINUX_2_6_6,
        BicVersion::Linux => &LINUX,
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Search {
    /// Segments: where the last loss came; zero before it.
    w_max: u32,
    /// Acknowledged segments for one segment of growth; zero: not yet computed.
    count: u32,
    last_cwnd: u32,
    last_time: Instant,
}

/// BIC's state.
#[derive(Debug, Clone)]
pub(crate) struct Bic {
    constants: &'static Constants,
    search: Search,
    /// Before the last reduction.
    saved: Search,
}

impl Bic {
    pub(crate) fn new(version: BicVersion) -> Self {
        Bic { constants: constants(version), search: Search::default(), saved: Search::default() }
    }

    pub(crate) fn on_congestion_avoidance(&mut self, window: &mut Window, now: Instant, acked: u32) {
        let cwnd = window.segments();
        let search = &mut self.search;
        if search.count == 0 || search.last_cwnd != cwnd || now - search.last_time > UPDATE_INTERVAL {
            search.last_cwnd = cwnd;
            search.last_time = now;
            search.count = self.constants.count(cwnd, search.w_max);
        }
        window.grow_one_in(search.count, acked);
    }

    /// Fast convergence: if the maximum is below the last one, it moves half of the way to the reduced window.
    pub(crate) fn reduce(&mut self, window: &Window, signal: CongestionSignal) -> u32 {
        let Constants { beta, converged, forgets, .. } = *self.constants;
        self.saved = self.search;
        let cwnd = window.segments();
        self.search.count = 0;
        self.search.w_max = if cwnd < self.search.w_max { scaled(cwnd, converged) } else { cwnd };
        if forgets && signal == CongestionSignal::Timeout {
            self.search = Search::default();
        }
        if cwnd <= LOW_WINDOW { window.cwnd / 2 } else { scaled(window.cwnd, beta) }
    }

    pub(crate) fn undo(&mut self) {
        self.search = self.saved;
    }
}

impl Constants {
    /// Acknowledged segments for one segment of growth.
    fn count(&self, cwnd: u32, w_max: u32) -> u32 {
        if cwnd <= LOW_WINDOW {
            return cwnd;
        }
        let slow = cwnd.saturating_mul(self.smooth) / B;
        let count = if cwnd < w_max {
            match (w_max - cwnd) / B {
                0 | 1 => slow,
                step => cwnd / step.min(self.s_max),
            }
        } else {
            match cwnd - w_max {
                0..B => slow,
                beyond if beyond < self.s_max * (B - 1) => cwnd.saturating_mul(B - 1) / beyond,
                _ => cwnd / self.s_max,
            }
        };
        let bound = self.first_growth.filter(|_| w_max == 0).unwrap_or(u32::MAX);
        count.min(bound).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments that a round trip adds to a window of `cwnd`.
    fn a_round(cwnd: u32, w_max: u32) -> f64 {
        f64::from(cwnd) / f64::from(LINUX.count(cwnd, w_max))
    }

    #[test]
    fn far_below_the_maximum_the_increase_is_s_max() {
        let step = a_round(1000, 2000);
        assert!((15.9..16.2).contains(&step), "{step}");
    }

    #[test]
    fn nearer_it_a_quarter_of_the_distance() {
        for (distance, expected) in [(60, 15.0), (40, 10.0), (20, 5.0), (8, 2.0)] {
            let step = a_round(2000 - distance, 2000);
            assert!((step - expected).abs() < 0.1 * expected, "{distance}: {step}");
        }
    }

    #[test]
    fn about_it_a_fifth_of_a_segment() {
        for cwnd in [1993, 1996, 1999, 2000, 2003] {
            assert!((a_round(cwnd, 2000) - 0.2).abs() < 1e-9, "{cwnd}");
        }
    }

    #[test]
    fn beyond_it_ever_faster_until_s_max() {
        let steps: Vec<f64> = [2004, 2012, 2024, 2040, 2060].map(|cwnd| a_round(cwnd, 2000)).into();
        assert!(steps.is_sorted(), "{steps:?}");
        assert!((1.3..1.4).contains(&steps[0]) && (15.9..16.2).contains(&steps[4]), "{steps:?}");
    }

    #[test]
    fn a_small_window_is_renos() {
        assert!((a_round(14, 500) - 1.0).abs() < 1e-9);
        let mut bic = Bic::new(BicVersion::Linux);
        assert_eq!(bic.reduce(&Window::new(14_000, 2000, 1000), CongestionSignal::Loss), 7000);
        assert_eq!(bic.reduce(&Window::new(100_000, 2000, 1000), CongestionSignal::Loss), 79_980);
    }

    #[test]
    fn before_the_first_loss_the_window_grows_by_a_twentieth() {
        assert!((a_round(200, 0) - 16.67).abs() < 0.1, "S_max is more");
        assert!((a_round(1000, 0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_flow_that_shrinks_gives_more_and_a_timeout_forgets() {
        let mut bic = Bic::new(BicVersion::Linux);
        let window = |segments: u32| Window::new(segments * 1000, 2000, 1000);
        bic.reduce(&window(100), CongestionSignal::Loss);
        assert_eq!(bic.search.w_max, 100);
        bic.reduce(&window(90), CongestionSignal::Loss);
        assert_eq!(bic.search.w_max, 80, "0.9 of 90");
        bic.reduce(&window(95), CongestionSignal::Loss);
        assert_eq!(bic.search.w_max, 95);
        bic.undo();
        assert_eq!(bic.search.w_max, 80);
        bic.reduce(&window(95), CongestionSignal::Timeout);
        assert_eq!(bic.search.w_max, 0);
    }

    /// What the second of two losses, at 100 and at 90 segments, leaves of the window and as the maximum.
    fn second_loss(version: BicVersion) -> (u32, u32) {
        let mut bic = Bic::new(version);
        let window = |segments: u32| Window::new(segments * 1000, 2000, 1000);
        bic.reduce(&window(100), CongestionSignal::Loss);
        let left = bic.reduce(&window(90), CongestionSignal::Loss);
        (left, bic.search.w_max)
    }

    #[test]
    fn the_original_gives_up_an_eighth_and_yields_half_of_that() {
        assert_eq!(second_loss(BicVersion::Original), (78_750, 84));
        assert_eq!(second_loss(BicVersion::Linux), (71_982, 80));
    }

    #[test]
    fn from_2_6_6_to_2_6_10_a_flow_that_should_yield_aims_at_four_times_its_window() {
        assert_eq!(second_loss(BicVersion::Linux266), (78_750, 337));
        // So it grows by S_max where the original is about its maximum and adds 4/11 of a segment.
        let growth = |version: BicVersion| {
            let (left, w_max) = second_loss(version);
            let cwnd = left / 1000;
            f64::from(cwnd) / f64::from(constants(version).count(cwnd, w_max))
        };
        assert!((38.0..40.0).contains(&growth(BicVersion::Linux266)), "{}", growth(BicVersion::Linux266));
        assert!((0.36..0.37).contains(&growth(BicVersion::Original)), "{}", growth(BicVersion::Original));
    }

    #[test]
    fn the_original_grows_by_32_segments_a_round_trip_and_has_no_other_bound_at_first() {
        let step = |cwnd: u32, w_max| f64::from(cwnd) / f64::from(ORIGINAL.count(cwnd, w_max));
        assert!((31.9..32.5).contains(&step(1000, 2000)), "{}", step(1000, 2000));
        assert!((31.9..32.5).contains(&step(1000, 0)), "{}", step(1000, 0));
    }

    #[test]
    fn a_timeout_leaves_the_originals_maximum() {
        for (version, maximum) in [(BicVersion::Original, 100), (BicVersion::Linux, 0)] {
            let mut bic = Bic::new(version);
            bic.reduce(&Window::new(100_000, 2000, 1000), CongestionSignal::Timeout);
            assert_eq!(bic.search.w_max, maximum, "{version:?}");
        }
    }
}
