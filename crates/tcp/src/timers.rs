//! The timers of a connection: when, and why.
//!
//! Retransmission, loss probe, reordering and persist exclude each other and share a slot, as in Linux. TIME-WAIT
//! uses the same slot, because then there is nothing left to retransmit.

use std::time::Duration;

use trunkline_units::{Instant, Seq};

use crate::{DelayedAck, Timers};

/// The timer that wakes the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wakeup {
    /// RFC 6298.
    Retransmission,
    /// Tail loss probe (RFC 8985 §7).
    Probe,
    /// The reordering window of RACK ends (RFC 8985 §6.3).
    Reordering,
    /// Zero-window probe (RFC 9293 §3.8.6.1).
    Persist,
    /// RFC 9293 §3.8.6.3.
    DelayedAck,
    /// The next segment may leave.
    Pacing,
    /// The connection may be forgotten.
    TimeWait,
}

#[derive(Debug)]
pub(crate) struct Slots {
    slot: Instant,
    why: Wakeup,
    pub(crate) delayed_ack: Instant,
    pub(crate) pacing: Instant,
    /// The phase of the clock of delayed acknowledgements, µs, from the initial sequence number: connections begin at
    /// any phase of a host's clock.
    ack_phase_us: u32,
}

impl Slots {
    pub(crate) const fn new(iss: Seq) -> Self {
        let never = Instant::FAR_FUTURE;
        Slots {
            slot: never,
            why: Wakeup::Retransmission,
            delayed_ack: never,
            pacing: never,
            ack_phase_us: iss.0,
        }
    }

    /// The same with nothing to wait for.
    pub(crate) const fn cleared(&self) -> Self {
        Slots::new(Seq(self.ack_phase_us))
    }

    /// Data has come that may be acknowledged later.
    pub(crate) fn delay_ack(&mut self, now: Instant, delayed: DelayedAck) {
        if self.delayed_ack == Instant::FAR_FUTURE {
            self.delayed_ack = if delayed.ticks {
                next_tick(now, delayed.timeout, Duration::from_micros(self.ack_phase_us.into()))
            } else {
                now + delayed.timeout
            };
        }
    }

    #[inline]
    pub(crate) fn arm(&mut self, at: Instant, why: Wakeup) {
        (self.slot, self.why) = (at, why);
    }

    #[inline]
    pub(crate) fn disarm(&mut self) {
        self.slot = Instant::FAR_FUTURE;
    }

    /// What the shared slot waits for.
    #[inline]
    pub(crate) fn armed(&self) -> Option<(Instant, Wakeup)> {
        (self.slot != Instant::FAR_FUTURE).then_some((self.slot, self.why))
    }

    /// Takes what has become due from the shared slot.
    #[inline]
    pub(crate) fn expired(&mut self, now: Instant) -> Option<Wakeup> {
        (self.slot <= now).then(|| {
            self.disarm();
            self.why
        })
    }

    /// The soonest of all.
    #[inline]
    pub(crate) fn next(&self) -> Option<(Instant, Wakeup)> {
        let mut next = (self.slot, self.why);
        for other in [(self.delayed_ack, Wakeup::DelayedAck), (self.pacing, Wakeup::Pacing)] {
            if other.0 < next.0 {
                next = other;
            }
        }
        (next.0 != Instant::FAR_FUTURE).then_some(next)
    }
}

/// A setting's nanoseconds: 584 years are enough, and `as_nanos` has 128 bits.
#[inline]
pub(crate) const fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos() as u64)
}

/// The time between, ns.
#[inline]
pub(crate) const fn since(now: Instant, earlier: Instant) -> u64 {
    now.as_nanos().saturating_sub(earlier.as_nanos())
}

#[inline]
pub(crate) const fn after(now: Instant, nanos: u64) -> Instant {
    Instant::from_nanos(now.as_nanos().saturating_add(nanos))
}

/// The first tick at or after `now + delay` of the clock that timers run out by.
#[inline]
pub(crate) fn expiry(now: Instant, delay: u64, timers: &Timers) -> Instant {
    let at = after(now, delay);
    let tick = nanos(timers.granularity);
    if tick <= 1000 {
        return at;
    }
    let phase = nanos(timers.phase);
    let ticks = at.as_nanos().saturating_sub(phase).div_ceil(tick);
    Instant::from_nanos(ticks.saturating_mul(tick).saturating_add(phase))
}

/// The first tick after `now` of a clock of this period, which ticked at `phase`.
fn next_tick(now: Instant, period: Duration, phase: Duration) -> Instant {
    let tick = nanos(period).max(1);
    let phase = nanos(phase) % tick;
    let ticks = (now.as_nanos() + tick - phase) / tick;
    Instant::from_nanos(ticks * tick + phase)
}

/// In nanoseconds.
pub(crate) const MILLISECOND: u64 = 1_000_000;

/// A clock that ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    tick: u64,
    phase: u64,
}

impl Clock {
    #[inline]
    pub(crate) fn of(timers: &Timers) -> Self {
        Clock { tick: nanos(timers.granularity), phase: nanos(timers.phase) }
    }

    /// Time stamps are milliseconds, or ticks of a coarser clock; never 0.
    #[inline]
    pub(crate) fn timestamp(self, now: Instant) -> u32 {
        let passed = if self.tick <= MILLISECOND {
            now.as_nanos() / MILLISECOND
        } else {
            ticks(now.as_nanos(), self.tick, self.phase)
        };
        (passed as u32).wrapping_add(1)
    }

    /// The time of so many units of time stamps, ns.
    #[inline]
    pub(crate) fn nanos(self, units: u32) -> u64 {
        u64::from(units) * self.tick.max(MILLISECOND)
    }
}

/// How often a clock of this `tick` has ticked; not at the very start.
#[inline]
pub(crate) fn ticks(at: u64, tick: u64, phase: u64) -> u64 {
    let first = if phase == 0 { tick } else { phase.min(tick) };
    (at + tick - first) / tick
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticks_wait_is_until_the_hosts_clock_ticks_and_never_none() {
        let tick = |now, phase| {
            let at = next_tick(
                Instant::from_millis(now),
                Duration::from_millis(200),
                Duration::from_millis(phase),
            );
            at.as_nanos() / 1_000_000
        };
        assert_eq!(
            [0, 29, 30, 31, 229, 230, 1000].map(|now| tick(now, 30)),
            [30, 30, 230, 230, 230, 430, 1030]
        );
        assert_eq!(tick(1000, 430), 1030, "a phase beyond a period");
        assert_eq!(tick(0, 0), 200);
    }

    #[test]
    fn a_timer_runs_out_with_a_tick_and_never_early() {
        let at = |phase, now, delay: u64| {
            let phase = Duration::from_millis(phase);
            let timers = Timers { phase, ..crate::Preset::Bsd44.settings().timers };
            expiry(Instant::from_millis(now), delay * 1_000_000, &timers)
        };
        assert_eq!(at(0, 0, 1000), Instant::from_millis(1000));
        assert_eq!(at(0, 1, 1000), Instant::from_millis(1500));
        assert_eq!(at(200, 1, 1000), Instant::from_millis(1200));
        assert_eq!(at(200, 201, 1000), Instant::from_millis(1700));
        assert_eq!([0, 199, 200, 699, 700].map(|at| ticks(at, 500, 200)), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn the_soonest_wakes_first_and_says_why() {
        let mut slots = Slots::new(Seq(0));
        assert_eq!(slots.next(), None);
        slots.arm(Instant::from_millis(5), Wakeup::Probe);
        slots.delayed_ack = Instant::from_millis(3);
        assert_eq!(slots.next(), Some((Instant::from_millis(3), Wakeup::DelayedAck)));
        assert_eq!(slots.expired(Instant::from_millis(4)), None);
        assert_eq!(slots.expired(Instant::from_millis(5)), Some(Wakeup::Probe));
        assert_eq!(slots.armed(), None);
    }
}
