use std::time::Duration;

use trunkline_units::Instant;

use crate::random::power;

/// How much of what is known of the pace a segment replaces.
const PACE_WEIGHT: f64 = 1.0 / 1024.0;

/// The average queue of RED (Floyd and Jacobson 1993 §4): an exponential average with a sample for each segment that
/// arrives and, for the time that the queue stood empty, one of zero for each segment that could have left.
#[derive(Debug)]
pub(crate) struct Average {
    weight: f64,
    value: f64,
    empty_since: Instant,
    pace: Pace,
}

impl Average {
    pub(crate) const fn new(weight: f64) -> Self {
        Average { weight, value: 0.0, empty_since: Instant::ZERO, pace: Pace::new() }
    }

    pub(crate) const fn set_weight(&mut self, weight: f64) {
        self.weight = weight;
    }

    pub(crate) const fn value(&self) -> f64 {
        self.value
    }

    /// `segments` arrive and find `queue` waiting.
    pub(crate) fn arrive(&mut self, now: Instant, queue: u64, segments: u32) {
        if queue == 0 {
            let missed = self.pace.segments_in(now.saturating_since(self.empty_since));
            self.value *= power(1.0 - self.weight, missed);
            self.empty_since = now;
        } else {
            self.sample(queue, segments);
        }
    }

    /// Takes `queue` as the length that `segments` segments saw.
    pub(crate) fn sample(&mut self, queue: u64, segments: u32) {
        let queue = queue as f64;
        let rest = if segments == 1 { 1.0 - self.weight } else { power(1.0 - self.weight, segments) };
        self.value = queue + (self.value - queue) * rest;
    }

    /// `segments` leave, and `queue` waits behind them.
    pub(crate) fn depart(&mut self, now: Instant, queue: u64, segments: u32) {
        self.pace.depart(now, segments, queue > 0);
        if queue == 0 {
            self.empty_since = now;
        }
    }
}

/// How fast segments leave while any wait: the typical transmission time, measured. Departures that come in a burst
/// and a pause average out, since times and segments are summed apart.
#[derive(Debug)]
struct Pace {
    nanos: f64,
    segments: f64,
    last: Option<(Instant, u32)>,
}

impl Pace {
    const fn new() -> Self {
        Pace { nanos: 0.0, segments: 0.0, last: None }
    }

    fn depart(&mut self, now: Instant, segments: u32, more_wait: bool) {
        if let Some((then, sent)) = self.last {
            self.nanos += now.saturating_since(then).as_nanos() as f64 - self.nanos * PACE_WEIGHT;
            self.segments += f64::from(sent) - self.segments * PACE_WEIGHT;
        }
        self.last = more_wait.then_some((now, segments));
    }

    /// Segments that could have left in `time`; none before there is anything to go by.
    fn segments_in(&self, time: Duration) -> u32 {
        if self.nanos > 0.0 { (time.as_nanos() as f64 * self.segments / self.nanos) as u32 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_the_queue_with_its_weight() {
        let mut average = Average::new(0.002);
        for _ in 0..500 {
            average.arrive(Instant::ZERO, 100, 1);
        }
        // 100 × (1 − 0.998^500) is 63.25.
        assert!((average.value() - 63.25).abs() < 0.01, "{}", average.value());
        let mut at_once = Average::new(0.002);
        at_once.arrive(Instant::ZERO, 100, 500);
        assert!((at_once.value() - average.value()).abs() < 1e-9);
    }

    #[test]
    fn an_empty_queue_counts_for_as_many_segments_as_could_have_left() {
        let mut average = Average::new(0.002);
        average.arrive(Instant::ZERO, 100, 100_000);
        // A segment a millisecond while any wait, then 500 ms of nothing.
        for at in 0..=100 {
            average.depart(Instant::from_millis(at), 100 - at, 1);
        }
        average.arrive(Instant::from_millis(600), 0, 1);
        // 100 × 0.998^500 is 36.75.
        assert!((average.value() - 36.75).abs() < 0.01, "{}", average.value());
    }
}
