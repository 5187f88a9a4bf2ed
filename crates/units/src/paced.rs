//! An action that runs on request, and not too often.

use std::time::Duration;

use crate::Instant;

/// When an action runs: once for a burst of requests, and at most once per interval.
#[derive(Debug, Clone, Copy, Default)]
pub struct Paced {
    due: Option<Instant>,
    last: Option<Instant>,
}

impl Paced {
    /// Requests the action, after `delay` at the earliest.
    pub fn request(&mut self, now: Instant, delay: Duration, interval: Duration) {
        let earliest = self.last.map_or(now, |last| last + interval);
        let due = earliest.max(now + delay);
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Whether the action is due; if so, it counts as done.
    pub fn take_due(&mut self, now: Instant) -> bool {
        let due = self.due.is_some_and(|due| due <= now);
        if due {
            *self = Paced { due: None, last: Some(now) };
        }
        due
    }

    /// When it is due.
    pub const fn next_timeout(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_that_is_requested_often_runs_once_per_interval() {
        let start = Instant::ZERO + Duration::from_secs(100);
        let interval = Duration::from_secs(1);
        let mut paced = Paced::default();
        assert!(!paced.take_due(start), "no request");
        let mut done = 0;
        for step in 0..1000 {
            let now = start + Duration::from_millis(10 * step);
            paced.request(now, Duration::ZERO, interval);
            assert!(paced.next_timeout().is_some_and(|at| at <= now + interval));
            done += u32::from(paced.take_due(now));
        }
        assert_eq!(done, 10, "ten seconds");
        let later = start + Duration::from_secs(60);
        paced.take_due(later);
        paced.request(later, Duration::ZERO, interval);
        assert_eq!(paced.next_timeout(), Some(later + interval), "the last was a moment ago");
        assert!(paced.take_due(later + interval) && paced.next_timeout().is_none());
    }

    #[test]
    fn an_earlier_request_comes_before_a_later_one() {
        let mut paced = Paced::default();
        let second = Duration::from_secs(1);
        paced.request(Instant::ZERO, 5 * second, second);
        paced.request(Instant::ZERO, Duration::ZERO, second);
        assert!(paced.take_due(Instant::ZERO));
    }
}
