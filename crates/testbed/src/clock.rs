//! `CLOCK_MONOTONIC`, the same in all namespaces and processes of a machine, so that a time stamp taken in one
//! host can be compared with one taken in another.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};
use trunkline_units::Instant;

/// Now.
pub fn now() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos((now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64))
}

/// Sleeps until `then`; returns at once if it is past. Asleep to the nanosecond only where the thread's timer
/// slack has been set to that ([`minimise_timer_slack`]).
pub fn sleep_until(then: Instant) {
    while let Some(left) = then.as_nanos().checked_sub(now().as_nanos()).filter(|left| *left > 0) {
        std::thread::sleep(Duration::from_nanos(left));
    }
}

/// Asks the kernel not to delay this thread's timers for the sake of batching (50 µs by default).
pub fn minimise_timer_slack() {
    // A kernel that refuses leaves the 50 µs, which the measurement then shows.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// How a thread competes for a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// Like any other thread.
    #[default]
    Shared,
    /// Before all others (`SCHED_FIFO`), where the kernel allows it. Punctual on a busy machine, at the expense of
    /// whatever else runs there; not for threads without a pause, which would take a CPU for themselves.
    RealTime,
}

impl Scheduling {
    /// Schedules the calling thread so, and without timer slack.
    pub fn apply(self) {
        minimise_timer_slack();
        if self == Self::RealTime {
            // Refused without the right to; the thread is then as punctual as the machine is idle.
            let _ = crate::sys::schedule_real_time();
        }
    }
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs().cast_signed(), tv_nsec: i64::from(duration.subsec_nanos()) }
}
