//! What is done, and how long the rest will take.
//!
//! An [estimate of work](super::work) is good for comparing points of one experiment, less so for comparing experiments: how fast work is done
//! is taken from the experiment's own runs as soon as it has any, and from all runs before that.

use std::time::Duration;

use super::{Event, Job, Progress};

pub(super) struct Counter {
    done: usize,
    total: usize,
    at_a_time: f64,
    studies: Vec<Pace>,
}

/// Of an experiment's runs, or of all: work that is left, work that was done, and how long that took one thread.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    left: f64,
    done: f64,
    seconds: f64,
}

impl Counter {
    /// Of all runs of these experiments but those that no engine carries out, these jobs are to be made, so many at a time.
    pub(super) fn new(studies: usize, total: usize, jobs: &[Job], at_a_time: f64) -> Self {
        let mut paces = vec![Pace::default(); studies];
        for job in jobs {
            paces[job.study].left += job.work;
        }
        Counter { done: total - jobs.len(), total, at_a_time: at_a_time.max(1.0), studies: paces }
    }

    /// A run is over.
    pub(super) fn count(&mut self, job: &Job, took: Duration) {
        self.done += 1;
        let pace = &mut self.studies[job.study];
        pace.left -= job.work;
        pace.done += job.work;
        pace.seconds += took.as_secs_f64();
    }

    pub(super) fn progress<'a>(&self, event: Event<'a>) -> Progress<'a> {
        Progress { event, done: self.done, total: self.total, left: self.left() }
    }

    fn left(&self) -> Option<Duration> {
        let done: f64 = self.studies.iter().map(|pace| pace.done).sum();
        let seconds: f64 = self.studies.iter().map(|pace| pace.seconds).sum();
        let each = self.studies.iter().map(|pace| {
            let speed = if pace.done > 0.0 { pace.seconds / pace.done } else { seconds / done };
            pace.left.max(0.0) * speed
        });
        Duration::try_from_secs_f64(each.sum::<f64>() / self.at_a_time).ok()
    }
}
