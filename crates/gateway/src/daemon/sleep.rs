//! Sleep of this machine (suspend to memory or disk).
//!
//! Meanwhile peers have ended connections and NATs have forgotten them, and nothing of that reached this site. The timers of
//! connections count no sleep, so they would find out seconds to minutes after the machine woke up. `CLOCK_BOOTTIME` counts it and
//! `CLOCK_MONOTONIC` does not. A timer of the former, which is due at once when a machine wakes up, has the control thread look.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use trunkline_units::Instant;

use super::Daemon;
use crate::clock::{now, since_boot};
use crate::life::Serial;

/// How often the timer is due while the machine does not sleep.
const INTERVAL_S: i64 = 4;
/// Less does no harm to connections.
const MIN_SLEEP: Duration = Duration::from_secs(2);
/// A peer has ended a lane over TCP of which it heard nothing for so long.
const PEERS_PATIENCE: Duration = Duration::from_secs(12);

/// Finds out that the machine has slept.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    /// How much of the time since the start the monotonic clock lacks, as far as is known.
    slept: Option<Duration>,
}

impl Sleep {
    /// Takes both clocks, `since_boot` read first: what passes between the readings makes the difference smaller. How long the machine has slept
    /// since this was called last, if it has.
    pub(super) fn update(&mut self, since_boot: Instant, monotonic: Instant) -> Option<Duration> {
        let total = since_boot.saturating_since(monotonic);
        let before = *self.slept.get_or_insert(total);
        let more = total.saturating_sub(before);
        self.slept = Some(before.max(total));
        (more >= MIN_SLEEP).then_some(more)
    }
}

/// A descriptor that is readable every few seconds, and at once when the machine wakes up after more than that.
pub(super) fn wake_timer() -> io::Result<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let interval = Timespec { tv_sec: INTERVAL_S, tv_nsec: 0 };
    let times = Itimerspec { it_interval: interval, it_value: interval };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
    Ok(timer)
}

impl Daemon {
    /// Looks whether the machine has slept.
    pub(super) fn look_for_sleep(&mut self) {
        let since_boot = since_boot();
        if let Some(slept) = self.sleep.update(since_boot, now()) {
            self.handle_woken(slept);
        }
    }

    /// Lanes that cannot have survived are dialled anew, others have little time to show that they have.
    fn handle_woken(&mut self, slept: Duration) {
        tracing::info!(
            "this machine has slept for {:.0} s: lanes are proved or dialled anew",
            slept.as_secs_f64()
        );
        if slept >= PEERS_PATIENCE {
            let over_tcp: Vec<Serial> = self
                .lane_sockets
                .iter()
                .filter(|(_, socket)| socket.fd.is_some())
                .map(|(serial, _)| *serial)
                .collect();
            for serial in over_tcp {
                self.end_lane(serial, "this machine has slept");
            }
        }
        self.network_changed();
        self.prove_quic(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn sleep_is_what_the_monotonic_clock_does_not_count() {
        let mut sleep = Sleep::default();
        // A machine that slept for an hour before.
        assert_eq!(sleep.update(at(3_700_000), at(100_000)), None);
        assert_eq!(sleep.update(at(3_800_000), at(200_000)), None);
        assert_eq!(sleep.update(at(3_910_000), at(210_000)), Some(Duration::from_secs(100)));
        assert_eq!(sleep.update(at(3_911_000), at(211_000)), None, "once");
        assert_eq!(sleep.update(at(3_913_000), at(212_000)), None, "a second");
    }

    #[test]
    fn a_thread_that_stood_still_between_the_readings_has_not_slept() {
        let mut sleep = Sleep::default();
        assert_eq!(sleep.update(at(1_000), at(1_000)), None);
        assert_eq!(sleep.update(at(2_000), at(9_000)), None, "the second was read late");
        assert_eq!(sleep.update(at(10_000), at(10_000)), None);
        assert_eq!(sleep.update(at(20_000), at(11_000)), Some(Duration::from_secs(9)));
    }

    #[test]
    fn the_clocks_of_this_machine_can_be_compared_and_the_timer_made() {
        let mut sleep = Sleep::default();
        for _ in 0..100 {
            let since_boot = since_boot();
            assert_eq!(sleep.update(since_boot, now()), None);
        }
        let timer = wake_timer().expect("a timer");
        let mut count = [0; 8];
        let read = rustix::io::read(&timer, &mut count);
        assert_eq!(read.err(), Some(rustix::io::Errno::AGAIN), "it is not due yet");
    }
}
