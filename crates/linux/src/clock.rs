//! The clock of daemons.

use rustix::time::{ClockId, clock_gettime};
use trunkline_units::Instant;

/// The monotonic clock.
#[inline]
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}
