//! The progress of the tests, and an estimate of the time left.

use std::time::Duration;

use crate::commands::laboratory::progress::{Progress as Line, about};

/// The part that is done of a total time.
pub(super) struct Progress {
    line: Line,
    done: Duration,
    total: Duration,
}

impl Progress {
    /// Starts with nothing done, and prints `total` at once.
    pub(super) fn new(total: Duration) -> Self {
        let mut line = Line::new();
        line.print(&format!("trunkline: bench takes {}", about(total)));
        Self { line, done: Duration::ZERO, total }
    }

    /// Shows that `step`, which will take `time`, begins now.
    pub(super) fn begin(&mut self, step: &str, time: Duration) {
        let left = self.total.saturating_sub(self.done);
        self.done += time;
        self.line.show(&format!("{step} ({} left)", about(left)));
    }
}
