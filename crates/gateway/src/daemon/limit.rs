//! A rate limit for log lines: one per interval.

use std::time::Duration;

use trunkline_units::Instant;

/// Allows one event per interval.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RateLimit {
    last: Option<Instant>,
}

impl RateLimit {
    /// Whether the event is allowed now: `interval` has passed since the last one.
    pub(super) fn allows(&mut self, now: Instant, interval: Duration) -> bool {
        let allowed = self.last.is_none_or(|at| now.saturating_since(at) >= interval);
        if allowed {
            self.last = Some(now);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_allowed_once_an_interval() {
        let (mut every, second) = (RateLimit::default(), Duration::from_secs(1));
        let allowed = (0..40).filter(|n| every.allows(Instant::from_millis(n * 100), second)).count();
        assert_eq!(allowed, 4);
    }
}
