//! BIC: binary increase (Xu, Harfoush and Rhee, INFOCOM 2004).
//!
//! The window searches for the window at which the last loss came: half of the way each round trip, no faster than
//! `S_MAX`, and in small steps once it is near. Beyond that window it grows slowly at first and then faster, to
//! find a new maximum.
//!
//! Deviation, as in the Linux kernel: a step goes a quarter of the way and not half; the last step takes five round
//! trips for a segment instead of the paper's `S_min`; before the first loss the window grows by at least 5 % a
//! round trip. BIC counts acknowledged bytes, where Linux corrects for delayed acknowledgements with an estimate of
//! them.

use std::time::Duration;

use trunkline_units::Instant;

use crate::CongestionSignal;
use crate::window::{Window, scaled};

/// Up to this many segments BIC is Reno.
const LOW_WINDOW: u32 = 14;
/// The largest increase in a round trip, segments.
const S_MAX: u32 = 16;
/// A step is the distance divided by this.
const B: u32 = 4;
/// Round trips that the last step takes, and the first beyond the maximum, times `B`.
const SMOOTH: u32 = 20;
/// 0.8.
const BETA: u32 = 819;
/// How long an update holds while the window is the same.
const UPDATE_INTERVAL: Duration = Duration::from_micros(31_250);

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
#[derive(Debug, Clone, Default)]
pub(crate) struct Bic {
    search: Search,
    /// Before the last reduction.
    saved: Search,
}

impl Bic {
    pub(crate) fn on_congestion_avoidance(&mut self, window: &mut Window, now: Instant, acked: u32) {
        let cwnd = window.segments();
        let search = &mut self.search;
        if search.count == 0 || search.last_cwnd != cwnd || now - search.last_time > UPDATE_INTERVAL {
            search.last_cwnd = cwnd;
            search.last_time = now;
            search.count = count(cwnd, search.w_max);
        }
        window.grow_one_in(search.count, acked);
    }

    /// Fast convergence: if the maximum is below the last one, it moves half of the way to the reduced window.
    pub(crate) fn reduce(&mut self, window: &Window, signal: CongestionSignal) -> u32 {
        self.saved = self.search;
        let cwnd = window.segments();
        self.search.count = 0;
        self.search.w_max =
            if cwnd < self.search.w_max { scaled(cwnd, u32::midpoint(1024, BETA)) } else { cwnd };
        if signal == CongestionSignal::Timeout {
            self.search = Search::default();
        }
        if cwnd <= LOW_WINDOW { window.cwnd / 2 } else { scaled(window.cwnd, BETA) }
    }

    pub(crate) fn undo(&mut self) {
        self.search = self.saved;
    }
}

fn count(cwnd: u32, w_max: u32) -> u32 {
    if cwnd <= LOW_WINDOW {
        return cwnd;
    }
    let slow = cwnd.saturating_mul(SMOOTH) / B;
    let count = if cwnd < w_max {
        match (w_max - cwnd) / B {
            0 | 1 => slow,
            step => cwnd / step.min(S_MAX),
        }
    } else {
        match cwnd - w_max {
            0..B => slow,
            beyond if beyond < S_MAX * (B - 1) => cwnd.saturating_mul(B - 1) / beyond,
            _ => cwnd / S_MAX,
        }
    };
    if w_max == 0 { count.min(20) } else { count }.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments that a round trip adds to a window of `cwnd`.
    fn a_round(cwnd: u32, w_max: u32) -> f64 {
        f64::from(cwnd) / f64::from(count(cwnd, w_max))
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
        let mut bic = Bic::default();
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
        let mut bic = Bic::default();
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
}
