//! An experiment out of a recording of a link: what it carried, moment by moment.
//!
//! ```text
//!  bytes ──▶ text ──▶ trace of mahimahi │ log of iperf │ table ──▶ Recording ──▶ experiment
//! ```
//!
//! What is in a file decides its format: JSON and lines of iperf are logs, lines of one whole number are a trace of mahimahi, all else is a
//! table. People publish tables in many forms, so a table's separator, its header, the meaning and the units of its columns are found out.
//! What a table says in other columns is not read, and a note says so.

mod experiment;
mod iperf;
mod mahimahi;
mod named;
mod table;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;
use std::time::Duration;

use trunkline_link::Deliveries;
use trunkline_units::Rate;

pub use experiment::{Surroundings, experiment};
pub(crate) use named::deliveries_of;

/// Longer recordings are no links but logs: their experiments could not be read any more.
const MAX_STEPS: usize = 100_000;
/// No link is faster.
const MAX_BITS_PER_SECOND: f64 = 1e12;

/// What is wrong with a recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ImportError {
    /// Of the file, from 1; none if no line is to blame.
    pub line: Option<u64>,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

fn error(line: u64, problem: impl Into<String>) -> ImportError {
    ImportError { line: Some(line), problem: problem.into() }
}

fn of_all(problem: impl Into<String>) -> ImportError {
    ImportError { line: None, problem: problem.into() }
}

/// From one moment on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    at: Duration,
    rate: Option<Rate>,
    delay: Option<Duration>,
    /// A part of packets.
    loss: Option<f64>,
}

/// A recording of one direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// In the order of their times; the first is at 0. None with deliveries.
    steps: Vec<Step>,
    /// When it carried a packet, in place of rates.
    deliveries: Option<Deliveries>,
    length: Duration,
}

impl Recording {
    const fn of_steps(steps: Vec<Step>, length: Duration) -> Self {
        Recording { steps, deliveries: None, length }
    }

    fn of_deliveries(deliveries: Deliveries) -> Self {
        Recording { steps: Vec::new(), length: deliveries.length(), deliveries: Some(deliveries) }
    }

    /// Reads a recording, with notes on what was assumed and what was not read.
    ///
    /// # Errors
    /// With the line that cannot be read, or has no place where it is, and what to do about it.
    pub fn read(bytes: &[u8]) -> Result<(Self, Vec<String>), ImportError> {
        let text = text::decode(bytes)?;
        let Some(first) = text.lines().find(|line| !is_blank(line)) else {
            return Err(of_all("the file is empty; allowed: a recording of a link"));
        };
        if first.trim_start().starts_with(['{', '[']) && !iperf::is_log(&text) {
            iperf::json(&text)
        } else if iperf::is_log(&text) {
            iperf::log(&text)
        } else if mahimahi::is_moment(first) {
            Ok((mahimahi::read(&text)?, Vec::new()))
        } else {
            table::read(&text)
        }
    }

    /// How long it is. After that it begins anew.
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// The mean rate, if it has rates.
    pub fn mean_rate(&self) -> Option<Rate> {
        if let Some(deliveries) = &self.deliveries {
            return Some(deliveries.mean_rate());
        }
        let ends = self.steps.iter().skip(1).map(|step| step.at).chain([self.length]);
        let mut bits = 0.0;
        let mut rate = 0.0;
        let mut is_known = false;
        for (step, end) in self.steps.iter().zip(ends) {
            if let Some(known) = step.rate {
                (rate, is_known) = (known.bits_per_second() as f64, true);
            }
            bits += rate * end.saturating_sub(step.at).as_secs_f64();
        }
        is_known.then(|| Rate::from_bits_per_second((bits / self.length.as_secs_f64()) as u64))
    }
}

/// Whether a line says nothing.
fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

fn rate_of(bits_per_second: f64) -> Rate {
    Rate::from_bits_per_second(bits_per_second.round() as u64)
}

fn micros(seconds: f64) -> Duration {
    Duration::from_micros((seconds * 1e6).round() as u64)
}
