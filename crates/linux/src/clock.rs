//! The clocks of daemons.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use trunkline_units::Instant;

/// The monotonic clock. It stands still while the machine sleeps.
#[inline]
pub fn now() -> Instant {
    read(ClockId::Monotonic)
}

/// The time since the machine was started, sleep included.
pub fn since_boot() -> Instant {
    read(ClockId::Boottime)
}

/// The processor time that this thread has taken. What the machine does meanwhile for others is no part of it.
pub fn thread_time() -> Duration {
    read(ClockId::ThreadCPUTime).saturating_since(Instant::ZERO)
}

#[inline]
fn read(clock: ClockId) -> Instant {
    let time = clock_gettime(clock);
    Instant::from_nanos(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}
