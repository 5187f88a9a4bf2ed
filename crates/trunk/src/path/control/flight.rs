//! What may be in flight on a path whose rate varies.
//!
//! The rate of a radio link changes within milliseconds, and the link stops for a while. Nobody can know of it earlier than a round trip
//! later, so no rate is right for long. What waits in the core when the link has become slow is what was in flight. So that is bounded: by
//! what has arrived of late, as a rate, in a round trip and a little more. docs/models/path-control.md has the law and its sources.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_units::Instant;

/// What has arrived of late, by what was acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Flight {
    /// Modulo 2^64: a far end may say anything.
    total: u64,
    /// The total at times in order. The first one is no later than [`WINDOW`](Self::WINDOW) ago, once there is one.
    arrived: VecDeque<(Instant, u64)>,
}

impl Flight {
    /// The rate is that of this time.
    const WINDOW: Duration = Duration::from_millis(100);
    /// What waits in the core is arrivals of so many seconds. Less, and the link stands idle when it becomes faster.
    pub(super) const MARGIN: f64 = 0.030;
    /// Four packets are in flight at any rate: after a break of the link they find out that it has ended.
    pub(super) const LEAST: f64 = 4.0 * 1500.0;
    /// A limit of a lane that would change by no more than one in so many bytes stays.
    pub(super) const COARSE: u64 = 32;
    /// A lane may have two packets in flight.
    pub(super) const LEAST_OF_LANE: f64 = 2.0 * 1500.0;

    /// From now on, after arrivals of this rate, bit/s.
    pub(super) fn new(now: Instant, rate: f64) -> Self {
        let bytes = (rate / 8.0 * Self::WINDOW.as_secs_f64()) as u64;
        Flight { total: bytes, arrived: [(now - Self::WINDOW, 0), (now, bytes)].into() }
    }

    /// So many bytes more have arrived.
    pub(super) fn update(&mut self, now: Instant, more: u64) {
        self.total = self.total.wrapping_add(more);
        match self.arrived.back_mut() {
            Some((at, total)) if *at == now => *total = self.total,
            _ => self.arrived.push_back((now, self.total)),
        }
        let since = now - Self::WINDOW;
        while self.arrived.get(1).is_some_and(|(at, _)| *at <= since) {
            self.arrived.pop_front();
        }
    }

    /// The rate at which bytes have arrived of late, bit/s.
    pub(super) fn rate(&self) -> f64 {
        let Some(((from, before), (to, after))) = self.arrived.front().zip(self.arrived.back()) else {
            return 0.0;
        };
        let time = to.saturating_since(*from).max(Self::WINDOW).as_secs_f64();
        after.wrapping_sub(*before) as f64 * 8.0 / time
    }

    /// Bytes that may be in flight at this rate, bit/s, where a round trip takes so many seconds.
    pub(super) fn limit(rate: f64, round_trip: f64) -> f64 {
        (rate / 8.0 * (round_trip + Self::MARGIN)).max(Self::LEAST)
    }
}

/// How much the rate at which a path delivers varies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Variation {
    last: Option<(Instant, f64)>,
    /// The part by which the rates of two windows in a row differ, the queue, and that of the way back, seconds, each of late.
    rate: f64,
    queue: f64,
    back: f64,
    /// The shortest queue since some time.
    shortest: f64,
    since: Instant,
}

impl Variation {
    /// What counts is the last windows of about this time.
    const MEMORY: f64 = 3.0;
    /// Rates of radio links differ by 0.19 to 0.5 from window to window; with jitter of 10 ms by 0.05, beside others by 0.1, where losses
    /// are repaired by up to 0.19, but without a queue.
    const VARIES: f64 = 0.17;
    const STEADY: f64 = 0.1;
    const QUEUE: f64 = 0.010;
    /// Acknowledgements that wait in a queue of their own say too late what has arrived.
    pub(super) const BACK: f64 = 0.050;
    /// With a bound on what is in flight a queue of ours is shorter than this and four packets at some time in two seconds.
    const FLOOR: f64 = 0.02;
    const FLOOR_TIME: Duration = Duration::from_secs(2);

    /// Takes the rate of a window in which the path had as much to carry as it could, and its queue.
    pub(super) fn update(&mut self, now: Instant, rate: f64, repairs: bool, [queue, back]: [f64; 2]) {
        self.shortest = self.shortest.min(queue);
        let Some((at, before)) = self.last.replace((now, rate)) else { return };
        let part = (now.saturating_since(at).as_secs_f64() / Self::MEMORY).min(1.0);
        // While losses are repaired the rate is that of the lanes.
        let differs = if repairs { 0.0 } else { (rate - before).abs() / rate.max(before).max(1.0) };
        self.rate += (differs - self.rate) * part;
        self.queue += (queue - self.queue) * part;
        self.back += (back - self.back) * part;
    }

    /// Whether no rate is right for long, on a path that sends so many packets in `packets` seconds as are in flight at least.
    pub(super) fn varies(&self, packets: f64) -> bool {
        self.rate >= Self::VARIES && self.queue >= Self::QUEUE + packets && self.back <= Self::BACK
    }

    /// Whether one is.
    pub(super) fn is_steady(&self) -> bool {
        self.rate < Self::STEADY
    }

    /// A bound on what is in flight begins.
    pub(super) const fn handle_bound(&mut self, now: Instant) {
        (self.since, self.shortest) = (now, f64::INFINITY);
    }

    /// The shortest queue of the last time, seconds, if that is over and all of them were longer than ours are.
    pub(super) fn poll_floor(&mut self, now: Instant, packets: f64) -> Option<f64> {
        if now.saturating_since(self.since) < Self::FLOOR_TIME {
            return None;
        }
        self.since = now;
        let shortest = std::mem::replace(&mut self.shortest, f64::INFINITY);
        Some(shortest).filter(|shortest| (Self::FLOOR + packets..f64::INFINITY).contains(shortest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn what_may_be_in_flight_follows_what_arrived_in_the_last_100_ms() {
        let mut flight = Flight::new(at(0), 8e6);
        let rate = |flight: &Flight| flight.rate().round() as u64;
        assert_eq!(rate(&flight), 8_000_000, "that of before");
        // A byte a microsecond, then a tenth of it.
        (1..=20).for_each(|n| flight.update(at(n * 10), 10_000));
        assert_eq!(rate(&flight), 8_000_000);
        (21..=25).for_each(|n| flight.update(at(n * 10), 1000));
        assert_eq!(rate(&flight), 4_400_000);
        (26..=40).for_each(|n| flight.update(at(n * 10), 1000));
        assert_eq!(rate(&flight), 800_000);
        // 70 ms of it are seven packets; four are in flight at any rate.
        let limits =
            [(8e6, 0.040), (0.8e6, 0.010)].map(|(rate, time)| Flight::limit(rate, time).round() as u64);
        assert_eq!(limits, [70_000, 6000]);
    }

    /// Windows of 50 ms for ten seconds, of rates and queues by their number.
    fn run(rate: impl Fn(u64) -> f64, queue: f64, back: f64, repairs: bool) -> Variation {
        let mut variation = Variation::default();
        (0..200).for_each(|n| variation.update(at(n * 50), rate(n), repairs, [queue, back]));
        variation
    }

    #[test]
    fn a_rate_that_differs_from_window_to_window_varies_and_one_that_steps_or_is_repaired_does_not() {
        let radio = |n: u64| [8e6, 5e6, 9e6, 3e6][n as usize % 4];
        assert!(run(radio, 0.030, 0.0, false).varies(0.005));
        assert!(!run(radio, 0.005, 0.0, false).varies(0.005), "its queue is short");
        assert!(!run(radio, 0.030, 0.2, false).varies(0.005), "acknowledgements come late");
        assert!(!run(radio, 0.030, 0.0, true).varies(0.005), "the lanes repair losses");
        let steps = run(|n| [40e6, 5e6][n as usize / 20 % 2], 0.030, 0.0, false);
        assert!(!steps.varies(0.005) && steps.is_steady());
    }

    #[test]
    fn a_queue_that_is_never_short_in_two_seconds_is_none_of_ours() {
        let mut variation = run(|_| 8e6, 0.050, 0.0, false);
        variation.handle_bound(at(10_000));
        let mut floors = Vec::new();
        for n in 0..100 {
            variation.update(at(10_000 + n * 50), 8e6, false, [0.040 + n as f64 * 1e-4, 0.0]);
            floors.extend(variation.poll_floor(at(10_000 + n * 50), 0.005));
        }
        assert_eq!(floors, [0.040, 0.0441]);
        variation.handle_bound(at(20_000));
        variation.update(at(20_500), 8e6, false, [0.001, 0.0]);
        variation.update(at(22_500), 8e6, false, [0.080, 0.0]);
        assert_eq!(variation.poll_floor(at(22_500), 0.005), None);
    }
}
