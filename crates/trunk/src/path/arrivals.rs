//! What one lane says of its path: how fast bytes arrive and how long they take.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_units::Instant;

/// What an arrival was learnt from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Acknowledgements: the delay is a round-trip time, with whatever queue there is on the way back.
    RoundTrip,
    /// An [`ArrivalReport`](crate::ArrivalReport) of the far end: the delay is that of the way there.
    OneWay,
}

/// What the far end of a lane had received at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Who observed it.
    pub signal: Signal,
    /// When, by the clock of whoever observed it: the same clock for all arrivals of a lane by one signal.
    pub at: Instant,
    /// Bytes that the lane's connection has delivered in all.
    pub bytes: u64,
    /// The delay of bytes that arrived lately, microseconds modulo 2^32, with an offset that is unknown and the same for all lanes
    /// of a path and one signal; `None` if none was measured since the arrival before.
    pub delay: Option<u32>,
    /// The part of the delay in which these bytes waited for their turn in a connection that is paced: no queue of the path.
    pub paced: Duration,
    /// How long ago these bytes were sent.
    pub age: Option<Duration>,
}

/// A delay, seconds: the whole, and all but what was waited for the pacing.
///
/// Between two looks bytes wait in the connection for their pacing, the longer the lower the rate and the more lanes share it. The whole
/// delay has that at another rate than its base; without it, it may be taken for too long. A queue is in both.
pub(super) type Delays = [f64; 2];

/// The arrivals of one lane by one signal.
#[derive(Debug, Clone, Default)]
struct SignalArrivals {
    last: Option<Arrival>,
    /// The arrival at which the present window of the rate began.
    window: Option<Arrival>,
    /// Delays of late, and when they were reported by our clock.
    delays: VecDeque<(Instant, Delays)>,
}

impl SignalArrivals {
    /// More delays than any window has.
    const MAX_DELAYS: usize = 64;

    fn update(
        &mut self,
        now: Instant,
        arrival: Arrival,
        unwrapped: impl FnOnce(u32) -> f64,
    ) -> Option<Delays> {
        if self.last.is_some_and(|last| arrival.at <= last.at || arrival.bytes < last.bytes) {
            return None;
        }
        self.last = Some(arrival);
        self.window.get_or_insert(arrival);
        let whole = unwrapped(arrival.delay?);
        let delays = [whole, whole - arrival.paced.as_secs_f64()];
        if self.delays.len() == Self::MAX_DELAYS {
            self.delays.pop_front();
        }
        self.delays.push_back((now, delays));
        Some(delays)
    }

    fn min_delays(&mut self, since: Instant) -> Option<Delays> {
        while self.delays.front().is_some_and(|(at, _)| *at <= since) {
            self.delays.pop_front();
        }
        let delays = self.delays.iter().map(|(_, delays)| *delays);
        delays
            .reduce(|[whole, rest], [other_whole, other_rest]| [whole.min(other_whole), rest.min(other_rest)])
    }

    fn window_bits(&self) -> f64 {
        match (self.window, self.last) {
            (Some(from), Some(to)) => (to.bytes - from.bytes) as f64 * 8.0,
            _ => 0.0,
        }
    }

    /// Ends the window: bit/s in it, 0 if nothing arrived.
    fn end_window(&mut self) -> f64 {
        let rate = match (self.window, self.last) {
            (Some(from), Some(to)) if to.at > from.at => {
                self.window_bits() / to.at.saturating_since(from.at).as_secs_f64()
            }
            _ => 0.0,
        };
        self.window = self.last;
        rate
    }
}

/// The arrivals of one lane. Its rate is that of the far end's reports, if it makes any: acknowledgements may be held up on the way back.
#[derive(Debug, Clone, Default)]
pub(super) struct LaneArrivals {
    signals: [SignalArrivals; 2],
    /// bit/s over about the last four windows.
    mean_rate: f64,
}

impl LaneArrivals {
    /// Takes an arrival. `unwrapped` turns its delay into seconds. An arrival that is older than the last one, or that has fewer bytes,
    /// changes nothing.
    pub(super) fn update(
        &mut self,
        now: Instant,
        arrival: Arrival,
        unwrapped: impl FnOnce(u32) -> f64,
    ) -> Option<Delays> {
        self.signals[arrival.signal as usize].update(now, arrival, unwrapped)
    }

    /// The least delays by a signal that were reported after `since`.
    pub(super) fn min_delays(&mut self, signal: Signal, since: Instant) -> Option<Delays> {
        self.signals[signal as usize].min_delays(since)
    }

    /// What has arrived in all, by a signal.
    pub(super) fn bytes(&self, signal: Signal) -> u64 {
        self.signals[signal as usize].last.map_or(0, |last| last.bytes)
    }

    /// What has arrived in the present window, bits.
    pub(super) fn window_bits(&self) -> f64 {
        let [round_trip, one_way] = self.signals.each_ref().map(SignalArrivals::window_bits);
        if one_way > 0.0 { one_way } else { round_trip }
    }

    /// Ends the window of the rate: bit/s in it, 0 if nothing arrived. While losses are repaired, what is behind a loss arrives late at
    /// the far end and all at once, and the acknowledgements say what has come.
    pub(super) fn end_window(&mut self, repairs: bool) -> f64 {
        let [round_trip, one_way] = self.signals.each_mut().map(SignalArrivals::end_window);
        let rate = if one_way > 0.0 && !(repairs && round_trip > 0.0) { one_way } else { round_trip };
        self.mean_rate += (rate - self.mean_rate) / 4.0;
        rate
    }

    /// Of a lane that has delivered so many bit/s of late.
    #[cfg(test)]
    pub(super) fn of_rate(mean_rate: f64) -> Self {
        LaneArrivals { mean_rate, ..LaneArrivals::default() }
    }

    /// bit/s over the last windows.
    pub(super) const fn mean_rate(&self) -> f64 {
        self.mean_rate
    }
}

/// The delay of a path by one signal.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PathDelay {
    unwrap: Unwrap,
    /// Of each of the [`Delays`].
    pub(super) bases: [Option<BaseDelay>; 2],
    /// When it was measured last.
    pub(super) measured: Option<Instant>,
}

impl PathDelay {
    /// A longer delay than this, in seconds, is no queue: a clock was set.
    const MAX_QUEUE: f64 = 60.0;

    /// Takes an arrival of a lane by this signal. Its base delays rise by `rise` seconds with an epoch at most.
    pub(super) fn update(&mut self, now: Instant, lane: &mut LaneArrivals, arrival: Arrival, rise: f64) {
        if let Some(delays) = lane.update(now, arrival, |micros| self.unwrap.seconds(micros)) {
            for (base, delay) in self.bases.iter_mut().zip(delays) {
                let base = base.get_or_insert_with(|| BaseDelay::new(now));
                if delay - base.get() > Self::MAX_QUEUE {
                    *base = BaseDelay::new(now);
                }
                base.update(now, delay, rise);
            }
            self.measured = Some(now);
        }
    }
}

/// Delays with a clock that wraps, as numbers that do not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unwrap {
    last: Option<(u32, i64)>,
}

impl Unwrap {
    /// Seconds, relative to the first delay. Two delays in a row may be half an hour apart.
    pub(super) fn seconds(&mut self, micros: u32) -> f64 {
        let unwrapped = match self.last {
            Some((raw, whole)) => whole + i64::from(micros.wrapping_sub(raw).cast_signed()),
            None => 0,
        };
        self.last = Some((micros, unwrapped));
        unwrapped as f64 / 1e6
    }
}

/// The delay of an idle path: the smallest one of late.
///
/// It falls at once. It rises only after an epoch in which the path was certainly empty for a while, since a standing queue would otherwise
/// become part of it (RFC 6817 §4.2 knows the same as the latecomer's advantage).
#[derive(Debug, Clone, Copy)]
pub(super) struct BaseDelay {
    current: f64,
    previous: f64,
    /// The smallest of all.
    lowest: f64,
    since: Instant,
    drained: bool,
}

impl BaseDelay {
    /// The length of an epoch. Clocks of crystals differ by up to 100 ppm, so by half a millisecond.
    pub(super) const EPOCH: Duration = Duration::from_secs(5);
    /// By how many seconds it rises with an epoch at most, where a queue may never be seen to drain.
    pub(super) const DRIFT: f64 = 0.0001;

    pub(super) const fn new(now: Instant) -> Self {
        let none = f64::INFINITY;
        BaseDelay { current: none, previous: none, lowest: none, since: now, drained: false }
    }

    /// Seconds; infinite before the first delay.
    pub(super) const fn get(&self) -> f64 {
        self.current.min(self.previous)
    }

    /// By how many seconds the path is longer than at its shortest.
    pub(super) fn above_lowest(&self) -> f64 {
        (self.get() - self.lowest).max(0.0)
    }

    pub(super) fn update(&mut self, now: Instant, delay: f64, rise: f64) {
        self.current = self.current.min(delay);
        self.lowest = self.lowest.min(delay);
        if self.drained && now.saturating_since(self.since) >= Self::EPOCH {
            let most = self.get() + rise;
            (self.previous, self.current) = (self.current.min(most), delay);
            (self.since, self.drained) = (now, false);
        }
    }

    /// Whether the path has not been empty for a whole epoch.
    pub(super) fn wants_drain(&self, now: Instant) -> bool {
        !self.drained && now.saturating_since(self.since) >= Self::EPOCH
    }

    /// The path has no queue of ours now.
    pub(super) const fn handle_drained(&mut self) {
        self.drained = true;
    }

    /// The path has become longer by `more` seconds.
    pub(super) const fn raise(&mut self, now: Instant, more: f64) {
        let delay = self.get() + more;
        *self = BaseDelay { current: delay, previous: delay, since: now, drained: false, ..*self };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn delays_are_counted_on_when_a_clock_wraps() {
        let mut unwrap = Unwrap::default();
        let start = u32::MAX - 1000;
        let seconds: Vec<f64> =
            [0, 500, 1500, 3000, 1500, 0].map(|more| unwrap.seconds(start.wrapping_add(more))).to_vec();
        assert_eq!(seconds, [0.0, 0.0005, 0.0015, 0.003, 0.0015, 0.0]);
    }

    #[test]
    fn a_rate_is_taken_by_the_clock_of_the_far_end_and_old_arrivals_change_nothing() {
        let mut lane = LaneArrivals::default();
        let arrival = |there, bytes, delay| Arrival {
            signal: Signal::OneWay,
            at: at(there),
            bytes,
            delay,
            paced: Duration::ZERO,
            age: None,
        };
        let mut arrive = |now, there, bytes, delay| {
            let delays = lane.update(at(now), arrival(there, bytes, delay), |micros| f64::from(micros) / 1e6);
            delays.map(|[whole, _]| whole)
        };
        assert_eq!(arrive(1000, 5000, 0, Some(100)), Some(0.0001));
        // What was said later by our clock counts by the far end's.
        assert_eq!(arrive(1090, 5050, 50_000, None), None);
        assert_eq!(arrive(1091, 5040, 60_000, Some(1)), None, "older than the last one");
        assert_eq!(arrive(1092, 5060, 40_000, Some(1)), None, "bytes do not become fewer");
        assert_eq!(lane.end_window(false) as u64, 8_000_000);
        assert_eq!(lane.end_window(false) as u64, 0, "nothing arrived since");
        let mut since = |ms| lane.min_delays(Signal::OneWay, at(ms)).map(|[whole, _]| whole);
        assert_eq!((since(999), since(1000)), (Some(0.0001), None));
    }

    #[test]
    fn the_rate_of_reports_counts_before_that_of_acknowledgements() {
        let mut lane = LaneArrivals::default();
        let mut arrive = |signal, ms, bytes| {
            let arrival =
                Arrival { signal, at: at(ms), bytes, delay: None, paced: Duration::ZERO, age: None };
            lane.update(at(ms), arrival, |_| 0.0)
        };
        for (signal, more) in [(Signal::RoundTrip, 1000), (Signal::OneWay, 5000)] {
            arrive(signal, 0, 0);
            arrive(signal, 80, more);
        }
        arrive(Signal::RoundTrip, 160, 3000);
        assert_eq!((lane.window_bits(), lane.end_window(false)), (40_000.0, 500_000.0));
        let later = Arrival {
            signal: Signal::RoundTrip,
            at: at(240),
            bytes: 4000,
            delay: None,
            paced: Duration::ZERO,
            age: None,
        };
        lane.update(at(240), later, |_| 0.0);
        assert_eq!((lane.window_bits(), lane.end_window(false)), (8000.0, 100_000.0));
    }

    #[test]
    fn the_base_falls_at_once_and_rises_only_after_the_path_was_empty() {
        let mut base = BaseDelay::new(at(0));
        let until = |base: &mut BaseDelay, from: u64, to: u64, delay| {
            (from..to).step_by(20).for_each(|ms| base.update(at(ms), delay, f64::INFINITY));
            (base.get() * 1e6).round() as u64
        };
        assert_eq!(until(&mut base, 0, 1000, 0.030), 30_000);
        assert_eq!(until(&mut base, 1000, 1020, 0.028), 28_000);
        assert_eq!(until(&mut base, 1020, 60_000, 0.034), 28_000, "a queue that stands is no longer path");
        assert!(base.wants_drain(at(60_000)));
        base.handle_drained();
        assert_eq!(until(&mut base, 60_000, 60_040, 0.034), 28_000, "the epoch before still counts");
        assert!(!base.wants_drain(at(60_040)));
        base.handle_drained();
        assert_eq!(until(&mut base, 60_040, 66_000, 0.034), 34_000);
    }
}
