//! Monitors whether all workers respond, for the service manager's watchdog.
//!
//! The control thread sends each worker a request for a beat, once per interval. It notifies the watchdog when all workers
//! have answered, so that a worker that hangs or has ended stops the notifications. One request is outstanding at a time, so
//! the mailbox of a worker that hangs does not grow.

use std::time::Duration;

use trunkline_units::Instant;

/// The interval if there is no watchdog.
const INTERVAL: Duration = Duration::from_secs(2);
/// The number of intervals after which a round without all answers is reported.
const LATE_INTERVALS: u32 = 2;

/// An action that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Send each worker a request for a beat with this number.
    Ask(u64),
    /// Notify the watchdog: all workers have answered. `after` is the time that they took, if the round was reported as late.
    Alive { after: Option<Duration> },
    /// Report the workers that have not answered for this time. Once per round.
    Late(Duration),
}

#[derive(Debug)]
pub(super) struct Heartbeat {
    interval: Duration,
    number: u64,
    asked_at: Instant,
    answered: bool,
    reported: bool,
}

impl Heartbeat {
    /// `watchdog` is the service manager's limit, if it has set one.
    pub(super) fn new(watchdog: Option<Duration>, now: Instant) -> Self {
        // Four rounds within the limit: a notification may be an interval late, and one round may be slow.
        let interval = watchdog.map_or(INTERVAL, |limit| (limit / 4).max(Duration::from_millis(1)));
        Heartbeat { interval, number: 0, asked_at: now, answered: true, reported: false }
    }

    /// The number of the current beat.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the current round was reported as late.
    pub(super) fn is_late(&self) -> bool {
        self.reported
    }

    /// The next action that is due, given whether all workers have answered with [`Self::number`]. Call it until it returns
    /// `None`.
    pub(super) fn poll(&mut self, now: Instant, all_answered: bool) -> Option<Action> {
        let age = now.saturating_since(self.asked_at);
        if !self.answered {
            if all_answered {
                self.answered = true;
                let after = std::mem::take(&mut self.reported).then_some(age);
                return Some(Action::Alive { after });
            }
            if !self.reported && age > self.interval * LATE_INTERVALS {
                self.reported = true;
                return Some(Action::Late(age));
            }
            return None;
        }
        (age >= self.interval).then(|| {
            self.number += 1;
            self.asked_at = now;
            self.answered = false;
            Action::Ask(self.number)
        })
    }

    /// The time of the next poll.
    pub(super) fn next_wake(&self, now: Instant) -> Instant {
        let due = self.asked_at + self.interval;
        // An answer does not wake the control thread, so it polls again an interval later.
        if due > now { due } else { now + self.interval }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(8);

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    /// The actions in a loop that polls every second; `answers` says whether all workers have answered by then.
    fn run(
        seconds: std::ops::Range<u64>,
        heartbeat: &mut Heartbeat,
        answers: impl Fn(u64) -> bool,
    ) -> Vec<(u64, Action)> {
        let mut due = Vec::new();
        for second in seconds {
            while let Some(beat) = heartbeat.poll(at(second), answers(second)) {
                due.push((second, beat));
            }
        }
        due
    }

    #[test]
    fn the_watchdog_is_fed_several_times_within_its_limit_while_all_answer() {
        let mut heartbeat = Heartbeat::new(Some(LIMIT), at(0));
        let due = run(0..100, &mut heartbeat, |_| true);
        let fed: Vec<u64> =
            due.iter().filter(|(_, beat)| matches!(beat, Action::Alive { .. })).map(|(at, _)| *at).collect();
        assert!(fed.len() >= 45, "{fed:?}");
        assert!(fed.windows(2).all(|pair| pair[1] - pair[0] <= LIMIT.as_secs() / 2), "{fed:?}");
    }

    #[test]
    fn a_worker_that_hangs_stops_the_watchdog_within_its_limit_and_is_reported_once() {
        let mut heartbeat = Heartbeat::new(Some(LIMIT), at(0));
        run(0..20, &mut heartbeat, |_| true);
        let due = run(20..200, &mut heartbeat, |_| false);
        let (asked, late): (Vec<_>, Vec<_>) =
            due.iter().partition(|(_, beat)| matches!(beat, Action::Ask(_)));
        assert_eq!(asked.len(), 1, "one question is out at a time: {due:?}");
        assert_eq!(late.len(), 1, "neither fed nor reported again: {due:?}");
        assert!(matches!(late[0], (at, Action::Late(_)) if *at < 20 + LIMIT.as_secs()), "{due:?}");
        assert!(heartbeat.is_late());
    }

    #[test]
    fn a_worker_that_comes_back_feeds_it_again() {
        let mut heartbeat = Heartbeat::new(Some(LIMIT), at(0));
        run(0..50, &mut heartbeat, |_| false);
        let due = run(50..60, &mut heartbeat, |_| true);
        assert!(matches!(due[0].1, Action::Alive { after: Some(after) } if after > LIMIT), "{due:?}");
        assert!(!heartbeat.is_late());
        assert!(matches!(due[1].1, Action::Ask(_)), "{due:?}");
    }

    #[test]
    fn the_next_wake_is_in_the_future_and_within_an_interval() {
        let mut heartbeat = Heartbeat::new(Some(LIMIT), at(0));
        for second in 0..50 {
            while heartbeat.poll(at(second), second % 7 == 0).is_some() {}
            let wake = heartbeat.next_wake(at(second));
            assert!(wake > at(second) && wake <= at(second) + LIMIT / 4, "{wake:?} at {second}");
        }
    }
}
