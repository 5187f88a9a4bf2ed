//! When datagrams leave, and how long they are.
//!
//! Each time follows from the one before and not from when the owner asked: an owner that is late once sends what is due and is
//! on time again, and its rate stays.

use trunkline_units::random::exponential;
use trunkline_units::{Instant, Rng};

use crate::{Timing, seconds};

/// A datagram that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// When it was to leave.
    pub at: Instant,
    /// Its bytes of data.
    pub data: u32,
}

/// The datagrams of one source.
#[derive(Debug, Clone)]
pub struct Schedule {
    timing: Timing,
    /// Bytes of data in a datagram, of which a trace has its own, and of its headers.
    sizes: (u32, u32),
    stop: Option<Instant>,
    rng: Rng,
    next: Option<Instant>,
    carry: u64,
    /// Of on and off.
    on_until: Instant,
    /// Of a trace: the next datagram and the start of its round.
    place: (usize, Instant),
}

impl Schedule {
    /// Datagrams of so many bytes of data and of headers, from `start` on, and none from `stop` on.
    pub fn new(
        timing: Timing,
        sizes: (u32, u32),
        (start, stop): (Instant, Option<Instant>),
        mut rng: Rng,
    ) -> Self {
        let (mut next, mut on_until) = (Some(start), start);
        match &timing {
            Timing::OnOff { on, .. } => on_until += seconds(on.draw(&mut rng)),
            Timing::Trace { datagrams, .. } => next = datagrams.first().map(|(after, _)| start + *after),
            Timing::Constant(_) | Timing::Poisson(_) => {}
        }
        Schedule { timing, sizes, stop, rng, next, carry: 0, on_until, place: (0, start) }
    }

    /// Delays a datagram that was due before to `now`, for an owner that begins after the start.
    pub fn begin(&mut self, now: Instant) {
        self.next = self.next.map(|next| next.max(now));
    }

    /// When the next datagram is due. At or after the stop there is none: the schedule ends then.
    pub const fn poll_time(&self) -> Option<Instant> {
        self.next
    }

    /// The next datagram that is due by now.
    pub fn poll_datagram(&mut self, now: Instant) -> Option<Datagram> {
        let at = self.next.filter(|next| *next <= now)?;
        if self.stop.is_some_and(|stop| at >= stop) {
            self.next = None;
            return None;
        }
        let data = match &self.timing {
            Timing::Trace { datagrams, .. } => datagrams[self.place.0].1,
            _ => self.sizes.0,
        };
        self.next = self.after(at);
        Some(Datagram { at, data })
    }

    fn after(&mut self, at: Instant) -> Option<Instant> {
        let bytes = u64::from(self.sizes.0 + self.sizes.1);
        Some(match &self.timing {
            Timing::Constant(rate) => at + rate.time_for(bytes, &mut self.carry),
            Timing::Poisson(rate) => {
                let mean = bytes as f64 * 8.0 / rate.bits_per_second() as f64;
                at + seconds(exponential(&mut self.rng, mean))
            }
            Timing::OnOff { rate, on, off } => {
                let mut next = at + rate.time_for(bytes, &mut self.carry);
                if next >= self.on_until {
                    next = self.on_until + seconds(off.draw(&mut self.rng));
                    self.on_until = next + seconds(on.draw(&mut self.rng));
                }
                next.max(at)
            }
            Timing::Trace { datagrams, repeat } => {
                self.place.0 += 1;
                if self.place.0 == datagrams.len() {
                    let repeat = (*repeat).filter(|repeat| !repeat.is_zero())?;
                    self.place = (0, self.place.1 + repeat);
                }
                (self.place.1 + datagrams[self.place.0].0).max(at)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trunkline_units::Rate;

    use super::*;
    use crate::{Distribution, stream};

    fn times(timing: &Timing, stop: Instant, late: Duration) -> Vec<(Instant, u32)> {
        let times = (Instant::ZERO, Some(stop));
        let mut schedule = Schedule::new(timing.clone(), (1222, 28), times, stream(1, 0));
        let mut all = Vec::new();
        while let Some(next) = schedule.poll_time() {
            let now = next + late;
            all.extend(std::iter::from_fn(|| schedule.poll_datagram(now)).map(|one| (one.at, one.data)));
        }
        all
    }

    #[test]
    fn a_late_owner_does_not_change_the_times() {
        let trace = [(Duration::from_millis(3), 10), (Duration::from_millis(5), 20)];
        let rate = Rate::from_mbit(1.0);
        for timing in [
            Timing::Constant(rate),
            Timing::Poisson(rate),
            Timing::OnOff { rate, on: Distribution::Fixed(0.1), off: Distribution::Fixed(0.1) },
            Timing::Trace { datagrams: trace.into(), repeat: Some(Duration::from_millis(20)) },
        ] {
            let stop = Instant::from_millis(1000);
            let on_time = times(&timing, stop, Duration::ZERO);
            assert!(on_time.len() > 40, "{timing:?}: {}", on_time.len());
            assert!(on_time.iter().all(|(at, _)| *at < stop));
            assert_eq!(on_time, times(&timing, stop, Duration::from_millis(70)), "{timing:?}");
        }
    }

    #[test]
    fn a_constant_rate_counts_headers() {
        // 1250 bytes at 1 Mbit/s are 10 ms.
        let all = times(&Timing::Constant(Rate::from_mbit(1.0)), Instant::from_millis(30), Duration::ZERO);
        assert_eq!(all, [0, 10, 20].map(|ms| (Instant::from_millis(ms), 1222)));
    }

    #[test]
    fn a_trace_is_repeated_or_ends() {
        let datagrams = [(Duration::from_millis(3), 10), (Duration::from_millis(5), 20)];
        let trace = |repeat| Timing::Trace { datagrams: datagrams.into(), repeat };
        let stop = Instant::from_millis(30);
        let expected = |all: &[(u64, u32)]| -> Vec<_> {
            all.iter().map(|(ms, data)| (Instant::from_millis(*ms), *data)).collect()
        };
        assert_eq!(times(&trace(None), stop, Duration::ZERO), expected(&[(3, 10), (5, 20)]));
        assert_eq!(
            times(&trace(Some(Duration::from_millis(20))), stop, Duration::ZERO),
            expected(&[(3, 10), (5, 20), (23, 10), (25, 20)])
        );
    }
}
