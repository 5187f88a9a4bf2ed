//! The progress of a campaign: a bar on a terminal, elsewhere a line at intervals.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use trunkline_lab::campaign::{Event, Progress};

use crate::commands::laboratory::progress::{LINE_INTERVAL, about};
use crate::output::remark;

/// Writes to standard error. Dropping it clears the bar.
pub(super) enum Bar {
    Drawn(ProgressBar),
    Lines(Instant),
}

impl Bar {
    pub(super) fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Bar::Lines(Instant::now());
        }
        let bar = ProgressBar::new(0);
        // The template is a constant: if it is wrong, the default style does.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} runs  {msg}") {
            bar.set_style(style);
        }
        Bar::Drawn(bar)
    }

    pub(super) fn show(&mut self, progress: &Progress<'_>) {
        let left = progress.left.map(left).unwrap_or_default();
        match self {
            Bar::Drawn(bar) => {
                bar.set_length(progress.total as u64);
                bar.set_position(progress.done as u64);
                let what = match progress.event {
                    Event::Begun => String::new(),
                    Event::Finished(run) => run.experiment.clone(),
                    Event::Failed(failure) => format!("{}: {}", failure.experiment, failure.why),
                    Event::Complete(complete) => complete.experiment.id.clone(),
                };
                bar.set_message(format!("{left}{what}"));
            }
            Bar::Lines(last) => {
                if last.elapsed() >= LINE_INTERVAL {
                    *last = Instant::now();
                    remark(&format_args!("{} of {} runs  {left}", progress.done, progress.total));
                }
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Bar::Drawn(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn left(left: Duration) -> String {
    format!("{} left  ", about(left))
}
