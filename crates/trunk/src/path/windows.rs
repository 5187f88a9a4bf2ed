//! Measurements of a path in windows of time.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_units::Instant;

/// What was measured in one window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Of all arrivals, bit/s.
    pub(super) rate: f64,
    /// Whether packets waited at the edge: the path could have carried more if it had had room.
    pub(super) waited: bool,
    pub(super) queue: f64,
}

/// The window under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct CurrentWindow {
    pub(super) since: Instant,
    pub(super) latest: Instant,
    /// The longest time between two arrivals.
    pub(super) gap: Duration,
    /// Whether a lane was busy at each arrival.
    pub(super) busy: bool,
}

impl CurrentWindow {
    pub(super) const fn new(now: Instant) -> Self {
        CurrentWindow { since: now, latest: now, gap: Duration::ZERO, busy: true }
    }
}

/// The last windows.
#[derive(Debug, Clone)]
pub(super) struct Windows(VecDeque<Window>);

impl Default for Windows {
    fn default() -> Self {
        Windows(VecDeque::with_capacity(Self::COUNT))
    }
}

impl Windows {
    /// As many are kept.
    pub(super) const COUNT: usize = 5;
    /// A queue stands if it is longer than the target in so many windows in a row.
    const STANDING: usize = 3;

    pub(super) fn push(&mut self, window: Window) {
        if self.0.len() == Self::COUNT {
            self.0.pop_front();
        }
        self.0.push_back(window);
    }

    /// The highest rate of the last `count`, bit/s.
    pub(super) fn max_rate(&self, count: usize) -> f64 {
        self.0.iter().rev().take(count).map(|window| window.rate).fold(0.0, f64::max)
    }

    /// The median rate of the last `count`, bit/s.
    pub(super) fn median_rate(&self, count: usize) -> f64 {
        let mut rates = [0.0; Self::COUNT];
        let count = count.min(self.0.len());
        let rates = &mut rates[..count];
        for (rate, window) in rates.iter_mut().zip(self.0.iter().rev()) {
            *rate = window.rate;
        }
        rates.sort_unstable_by(f64::total_cmp);
        rates.get(count / 2).copied().unwrap_or(0.0)
    }

    /// The second highest rate, bit/s: the highest may be that of a burst after a pause.
    pub(super) fn high_rate(&self) -> f64 {
        let mut high = [0.0_f64; 2];
        for window in &self.0 {
            high = [high[0].max(window.rate), high[1].max(high[0].min(window.rate))];
        }
        high[1]
    }

    /// The rate at which the bottleneck served the trunk, if there was a queue in all of the last windows, bit/s.
    pub(super) fn rate_behind_queue(&self, target: f64) -> Option<f64> {
        let mut latest = self.0.iter().rev().take(Self::STANDING);
        let stands =
            self.0.len() >= Self::STANDING && latest.all(|window| window.waited && window.queue > target);
        stands.then(|| self.max_rate(Self::STANDING))
    }
}

/// What the lanes were allowed to send at the end of each window of late.
#[derive(Debug, Clone)]
pub(super) struct Allowed(VecDeque<(Instant, f64)>);

impl Default for Allowed {
    fn default() -> Self {
        Allowed(VecDeque::with_capacity(Self::COUNT))
    }
}

impl Allowed {
    /// As many are kept: two seconds of the shortest windows.
    const COUNT: usize = 50;

    pub(super) fn push(&mut self, now: Instant, rate: f64) {
        if self.0.len() == Self::COUNT {
            self.0.pop_front();
        }
        self.0.push_back((now, rate));
    }

    /// bit/s at this time; `None` if it is longer ago than what is kept.
    pub(super) fn at(&self, time: Instant) -> Option<f64> {
        self.0.iter().rev().find(|(at, _)| *at <= time).map(|(_, rate)| *rate)
    }
}
