//! One line on the terminal that says what is going on.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

/// Writes to standard error, and only if that is a terminal. Dropping it clears the line.
pub(super) struct Progress {
    shown: bool,
    done: Duration,
    all: Duration,
}

impl Progress {
    /// Nothing done of what takes `all`.
    pub(super) fn new(all: Duration) -> Self {
        Self { shown: io::stderr().is_terminal(), done: Duration::ZERO, all }
    }

    /// `what` begins now and will take `time`.
    pub(super) fn begin(&mut self, what: &str, time: Duration) {
        let left = self.all.saturating_sub(self.done).as_secs();
        self.done += time;
        self.write(&format!("\r\x1b[2K{what} (about {left} s left)"));
    }

    fn write(&self, text: &str) {
        if self.shown {
            // Nobody to tell if standard error has gone.
            let _ = io::stderr().write_all(text.as_bytes()).and_then(|()| io::stderr().flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.write("\r\x1b[2K");
    }
}
