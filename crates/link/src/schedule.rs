//! Changes of a link at given times, once or in cycles.

use std::time::Duration;

use trunkline_units::Instant;

use crate::LinkChange;

/// The changes to come.
#[derive(Debug)]
pub(crate) struct Schedule {
    changes: Vec<(Duration, LinkChange)>,
    repeat: Option<Duration>,
    /// The number of the next change, and the start of its round.
    next: (usize, Instant),
}

impl Schedule {
    /// Changes whose times count from `start`.
    pub(crate) fn new(
        changes: Vec<(Duration, LinkChange)>,
        repeat: Option<Duration>,
        start: Instant,
    ) -> Self {
        Schedule { changes, repeat, next: (0, start) }
    }

    /// Takes the next change.
    pub(crate) fn take(&mut self) -> Option<LinkChange> {
        let change = self.changes.get(self.next.0).map(|(_, change)| *change);
        self.next.0 += 1;
        change
    }

    /// When the next change is due; it may be past.
    pub(crate) fn due(&mut self) -> Option<Instant> {
        if let (Some(repeat), true) = (self.repeat, self.next.0 >= self.changes.len()) {
            if repeat.is_zero() || self.changes.is_empty() {
                return None;
            }
            self.next = (0, self.next.1 + repeat);
        }
        self.changes.get(self.next.0).map(|(after, _)| self.next.1 + *after)
    }
}
