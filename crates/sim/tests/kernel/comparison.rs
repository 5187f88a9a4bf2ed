//! What a kernel did against what the simulator makes of it.

use std::fmt;

use super::outcome::{Measured, Outcome};
use super::simulated;

/// A point of both: means over the runs, of retransmissions the median.
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    name: String,
    seconds: f64,
    kernel: Mean,
    model: Mean,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    bytes: f64,
    retransmissions: f64,
    timeouts: f64,
    marks: f64,
    srtt_ms: f64,
    cwnd: f64,
}

impl Mean {
    fn of(runs: &[Outcome]) -> Self {
        let mean =
            |value: fn(&Outcome) -> f64| runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64;
        Mean {
            bytes: mean(|run| run.bytes as f64),
            retransmissions: median(runs.iter().map(|run| run.retransmissions as f64)),
            timeouts: mean(|run| run.timeouts as f64),
            marks: mean(|run| run.marks as f64),
            srtt_ms: mean(|run| run.srtt_ms),
            cwnd: mean(|run| run.cwnd),
        }
    }
}

/// Of a few: one run in which the machine looked away at the end of slow start has five times the retransmissions of the others.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.is_empty() {
        0.0
    } else if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

/// Runs what was measured in the simulator, `runs` times with a seed each.
pub(crate) fn of(measured: &Measured<Outcome>, runs: u64) -> Comparison {
    let runs: Vec<Outcome> =
        (1..=runs).map(|seed| simulated::run(&measured.point, seed, |_, _, _| ())).collect();
    Comparison {
        name: measured.point.name(),
        seconds: measured.point.lead_in_s + measured.point.window_s,
        kernel: Mean::of(&measured.runs),
        model: Mean::of(&runs),
    }
}

impl Comparison {
    /// Goodput from the start, the model's less the kernel's, as a share of the kernel's.
    pub(crate) fn goodput_error(&self) -> f64 {
        self.model.bytes / self.kernel.bytes - 1.0
    }

    /// Retransmissions, the larger over the smaller.
    pub(crate) fn retransmission_factor(&self) -> f64 {
        factor(self.kernel.retransmissions, self.model.retransmissions)
    }

    /// The same of marks.
    pub(crate) fn mark_factor(&self) -> f64 {
        factor(self.kernel.marks, self.model.marks)
    }
}

fn factor(kernel: f64, model: f64) -> f64 {
    kernel.max(model) / kernel.min(model).max(1.0)
}

/// Above the lines of comparisons.
pub(crate) const HEADER: &str = "\
                                               goodput Mbit/s            retransmissions        timeouts      srtt ms          cwnd           marks
point                                        kernel  model  error     kernel  model  factor  kernel model  kernel  model  kernel model   kernel  model";

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kernel, model) = (&self.kernel, &self.model);
        let mbit = |bytes: f64| bytes * 8.0 / 1e6 / self.seconds;
        write!(
            f,
            "{:44} {:6.3} {:6.3} {:+5.1} %   {:7.1} {:6.1} {:7.2} {:7.1} {:5.1}  {:6.1} {:6.1}  {:6.1} {:5.1}   {:6.1} {:6.1}",
            self.name,
            mbit(kernel.bytes),
            mbit(model.bytes),
            self.goodput_error() * 100.0,
            kernel.retransmissions,
            model.retransmissions,
            self.retransmission_factor(),
            kernel.timeouts,
            model.timeouts,
            kernel.srtt_ms,
            model.srtt_ms,
            kernel.cwnd,
            model.cwnd,
            kernel.marks,
            model.marks,
        )
    }
}

/// Of all points.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    /// Errors of goodput, as shares.
    pub(crate) median_error: f64,
    /// The worst.
    pub(crate) worst_error: f64,
    /// Of retransmissions.
    pub(crate) median_factor: f64,
    /// The worst.
    pub(crate) worst_factor: f64,
    /// The worst of marks.
    pub(crate) worst_mark_factor: f64,
}

impl Summary {
    /// Of at least one comparison.
    pub(crate) fn of(comparisons: &[Comparison]) -> Self {
        let sorted = |value: &dyn Fn(&Comparison) -> f64| {
            let mut values: Vec<f64> = comparisons.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let errors = sorted(&|comparison| comparison.goodput_error().abs());
        let factors = sorted(&Comparison::retransmission_factor);
        let marks = sorted(&Comparison::mark_factor);
        let last = errors.len() - 1;
        Summary {
            median_error: errors[errors.len() / 2],
            worst_error: errors[last],
            median_factor: factors[factors.len() / 2],
            worst_factor: factors[last],
            worst_mark_factor: marks[last],
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "goodput: error {:.1} % at the median, {:.1} % at the worst; retransmissions: factor {:.2} and {:.2}; \
             marks: {:.2} at the worst",
            self.median_error * 100.0,
            self.worst_error * 100.0,
            self.median_factor,
            self.worst_factor,
            self.worst_mark_factor
        )
    }
}
