//! How much the measured queue varies by itself.
//!
//! Jitter delays packets as a queue does. The least delay of a window is less than that of most packets and still not that of the next
//! window. So the queue that is let stand has to be as long as these differ. What changes slowly is a queue that grows or drains, so of
//! three measurements in a row the middle one is compared with the mean of its neighbours.

use std::time::Duration;

use trunkline_units::Instant;

/// The variation of the queue between windows of the least delay.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Noise {
    /// The mean deviation, seconds.
    deviation: f64,
    measured: Instant,
    /// The last two measurements, the newest first, seconds.
    last: [f64; 2],
    /// The longest queue of late, seconds.
    longest: f64,
}

impl Noise {
    /// So many deviations: the base delay is the least one of many windows, and most windows are to be within the margin.
    const MARGIN: f64 = 5.0;
    const MAX_MARGIN: f64 = 0.015;
    /// Nor more than this part of the longest queue, which may be all that the buffer of the path holds.
    const PART: f64 = 0.5;
    /// A deviation counts as no more than four times the mean and this, seconds: a path that becomes longer deviates once.
    const MIN_STEP: f64 = 0.004;
    /// How much of the longest queue is left after a window of the rate.
    const MEMORY: f64 = 0.995;

    /// Takes the queue, seconds, which is the least one of the last `filter`.
    pub(super) fn update(&mut self, now: Instant, filter: Duration, queue: f64) {
        if now.saturating_since(self.measured) < filter {
            return;
        }
        self.measured = now;
        let [last, before] = self.last;
        self.last = [queue, last];
        let deviation = (last - queue.midpoint(before)).abs().min(self.deviation * 4.0 + Self::MIN_STEP);
        self.deviation += (deviation - self.deviation) / 16.0;
    }

    /// A window of the rate ends with this queue, seconds.
    pub(super) const fn end_window(&mut self, queue: f64) {
        self.longest = queue.max(self.longest * Self::MEMORY);
    }

    /// The mean deviation, seconds.
    pub(super) const fn deviation(&self) -> f64 {
        self.deviation
    }

    /// The queue below which a measurement may be noise, seconds; at least `least`.
    pub(super) const fn margin(&self, least: f64) -> f64 {
        let most = Self::MAX_MARGIN.min(self.longest * Self::PART).max(least);
        (self.deviation * Self::MARGIN).clamp(least, most)
    }
}

#[cfg(test)]
mod tests {
    use trunkline_units::Rng;

    use super::*;

    const FILTER: Duration = Duration::from_millis(40);

    /// The margin after so many windows with these queues, microseconds.
    fn margin(windows: u64, queue: impl Fn(u64) -> f64) -> u64 {
        let mut noise = Noise::default();
        for window in 0..windows {
            noise.update(Instant::from_millis(window * 40), FILTER, queue(window));
            noise.end_window(queue(window));
        }
        (noise.margin(0.002) * 1e6).round() as u64
    }

    #[test]
    fn jitter_makes_the_margin_longer_and_a_queue_that_grows_does_not() {
        assert_eq!(margin(1000, |_| 0.050), 2000);
        assert_eq!(margin(1000, |window| (window % 100) as f64 / 1000.0), 2000);
        let jitter = |window: u64| Rng::new(window, "jitter").uniform() * 0.004;
        // The mean deviation of the middle one of three is a third of the range.
        let margin = margin(1000, |window| 0.010 + jitter(window));
        assert!((5000..8000).contains(&margin), "{margin}");
    }

    #[test]
    fn the_margin_is_never_more_than_half_of_what_the_buffer_has_held() {
        let full = |window: u64| if window.is_multiple_of(3) { 0.006 } else { 0.001 };
        assert_eq!(margin(1000, full), 3000);
        let long = |window: u64| if window.is_multiple_of(3) { 0.200 } else { 0.001 };
        assert_eq!(margin(1000, long), 15_000);
    }

    #[test]
    fn measurements_of_the_same_window_are_one() {
        let mut noise = Noise::default();
        for ms in 0..10_000 {
            noise.update(Instant::from_millis(ms), FILTER, if ms % 2 == 0 { 0.010 } else { 0.0 });
        }
        assert!(noise.deviation() < 0.001, "{}", noise.deviation());
    }
}
