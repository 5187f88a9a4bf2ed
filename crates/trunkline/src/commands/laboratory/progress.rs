//! The progress of a command on standard error: on a terminal one line that is redrawn, elsewhere a line at intervals.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use crate::output::{remark, remark_as_is};

/// The interval between lines without a terminal.
pub(super) const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// The sequence that clears a terminal's line.
const CLEAR: &str = "\r\x1b[2K";

/// The kind of output.
enum Form {
    Terminal,
    /// With the time of the last line.
    Lines(Option<Instant>),
}

/// Dropping it clears the line on a terminal.
pub(super) struct Progress(Form);

impl Progress {
    pub(super) fn new() -> Self {
        Progress(if io::stderr().is_terminal() { Form::Terminal } else { Form::Lines(None) })
    }

    /// Prints a line that stays.
    pub(super) fn print(&mut self, line: &str) {
        if matches!(self.0, Form::Terminal) {
            remark_as_is(CLEAR);
        }
        remark(&line);
    }

    /// Shows the current step. Without a terminal, prints it once in [`LINE_INTERVAL`].
    pub(super) fn show(&mut self, line: &str) {
        match &mut self.0 {
            Form::Terminal => remark_as_is(&format!("{CLEAR}{line}")),
            Form::Lines(last) => {
                if last.is_none_or(|last| last.elapsed() >= LINE_INTERVAL) {
                    *last = Some(Instant::now());
                    remark(&line);
                }
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if matches!(self.0, Form::Terminal) {
            remark_as_is(CLEAR);
        }
    }
}

/// An estimate as text: `about 3 min`, `about 40 s`.
pub(super) fn about(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds >= 120 => format!("about {} min", seconds.div_ceil(60)),
        seconds => format!("about {} s", seconds.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_in_seconds_up_to_two_minutes() {
        let about = |millis| about(Duration::from_millis(millis));
        assert_eq!((about(200), about(40_999)), ("about 1 s".to_owned(), "about 40 s".to_owned()));
        assert_eq!((about(119_000), about(121_000)), ("about 119 s".to_owned(), "about 3 min".to_owned()));
    }

    #[test]
    fn without_a_terminal_a_line_is_written_at_once_and_then_after_an_interval() {
        let mut progress = Progress(Form::Lines(None));
        progress.show("one");
        let Form::Lines(Some(first)) = progress.0 else { panic!("a line was written") };
        progress.show("two");
        assert!(matches!(progress.0, Form::Lines(Some(last)) if last == first), "too soon");
        let before = first.checked_sub(LINE_INTERVAL).expect("the clock is older than that");
        progress.0 = Form::Lines(Some(before));
        progress.show("three");
        assert!(matches!(progress.0, Form::Lines(Some(last)) if last >= first), "time for a line");
    }
}
