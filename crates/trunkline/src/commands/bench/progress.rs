//! How far a scenario is, and how long it will take.

use std::time::Duration;

use crate::commands::progress::{Progress as Line, about};

/// What is done of what takes a known time.
pub(super) struct Progress {
    line: Line,
    done: Duration,
    all: Duration,
}

impl Progress {
    /// Nothing done of what takes `all`, which is said at once.
    pub(super) fn new(all: Duration) -> Self {
        let mut line = Line::new();
        line.say(&format!("trunkline: bench takes {}", about(all)));
        Self { line, done: Duration::ZERO, all }
    }

    /// `what` begins now and will take `time`.
    pub(super) fn begin(&mut self, what: &str, time: Duration) {
        let left = self.all.saturating_sub(self.done);
        self.done += time;
        self.line.show(&format!("{what} ({} left)", about(left)));
    }
}
