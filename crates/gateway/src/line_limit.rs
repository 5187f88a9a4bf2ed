//! A bound on lines of the log that a peer may cause from a worker: a token bucket.

use std::cell::RefCell;
use std::time::Duration;

use trunkline_units::Instant;

/// Lines at once.
const BURST: u32 = 20;
/// The time in which one line more is allowed.
const INTERVAL: Duration = Duration::from_secs(10);

/// Admits lines at a limited rate. Those beyond it are logged at debug level.
#[derive(Debug)]
pub(crate) struct LineLimit {
    tokens: u32,
    since: Instant,
    left_out: u64,
}

impl Default for LineLimit {
    fn default() -> Self {
        LineLimit { tokens: BURST, since: Instant::ZERO, left_out: 0 }
    }
}

impl LineLimit {
    /// Whether a line may be logged now; if so, how many were left out before it.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let earned = now.saturating_since(self.since).as_nanos() / INTERVAL.as_nanos();
        if earned > 0 {
            self.tokens = BURST.min(self.tokens.saturating_add(u32::try_from(earned).unwrap_or(u32::MAX)));
            self.since = now;
        }
        if self.tokens == 0 {
            self.left_out += 1;
            return None;
        }
        self.tokens -= 1;
        Some(std::mem::take(&mut self.left_out))
    }

    pub(crate) fn info(&mut self, now: Instant, line: &str) {
        if let Some(left_out) = self.take(now) {
            tracing::info!("{line}{}", before(left_out));
        } else {
            tracing::debug!("{line}");
        }
    }

    pub(crate) fn warn(&mut self, now: Instant, line: &str) {
        if let Some(left_out) = self.take(now) {
            tracing::warn!("{line}{}", before(left_out));
        } else {
            tracing::debug!("{line}");
        }
    }
}

/// Logs a warning of the calling thread, which has one limit for all that have no peer's.
pub(crate) fn warn(line: &str) {
    thread_local!(static LINES: RefCell<LineLimit> = RefCell::default());
    LINES.with_borrow_mut(|lines| lines.warn(crate::clock::now(), line));
}

fn before(left_out: u64) -> String {
    if left_out == 0 { String::new() } else { format!(" (before it {left_out} such lines were left out)") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_at_once_up_to_a_burst_and_then_at_a_rate() {
        let mut limit = LineLimit::default();
        let start = 1000 * INTERVAL.as_millis() as u64;
        let mut told = Vec::new();
        for step in 0..100_000 {
            told.extend(limit.take(Instant::from_millis(start + step)));
        }
        assert_eq!(told.len(), BURST as usize + 9, "100 s");
        assert_eq!(told[..BURST as usize], [0; BURST as usize]);
        assert!(told[BURST as usize..].iter().all(|left_out| (9000..=10_000).contains(left_out)), "{told:?}");
    }
}
