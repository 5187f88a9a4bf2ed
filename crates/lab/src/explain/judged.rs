//! Each setting as an experiment of its own.

use std::collections::BTreeMap;

use super::AXIS;
use crate::campaign::settle;
use crate::experiment::Experiment;
use crate::plan::Planned;
use crate::results::{Run, Verdict};
use crate::verdict::Judgement;

/// A setting with all of its points.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    pub(super) number: u32,
    /// Runs at each point, where there are fewest.
    pub(super) runs: u32,
    pub(super) judgement: Judgement,
}

impl Judged {
    /// How many published values hold.
    pub(super) fn values_holding(&self) -> usize {
        self.judgement.cells().count(Verdict::Holds)
    }

    /// How far ours is from a published value, by ratio: 0 if they are the same.
    pub(super) fn distance(&self, value: usize) -> f64 {
        let ratio = self.judgement.comparisons[value].ratio.filter(|ratio| *ratio > 0.0);
        ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs())
    }

    /// The same of all values: that of one that is not there or has another sign is as much as that of a factor of 100.
    pub(super) fn distance_of_all(&self) -> f64 {
        (0..self.judgement.comparisons.len()).map(|value| self.distance(value).min(100_f64.ln())).sum()
    }
}

/// The settings that have a run at each point, in their order.
pub(super) fn settings(experiment: &Experiment, planned: &[Planned], runs: Vec<Run>) -> Vec<Judged> {
    let mut by_number: BTreeMap<u32, Vec<Run>> = BTreeMap::new();
    for mut run in runs {
        let number = run.point.shift_remove(AXIS).and_then(|number| number.parse().ok());
        if let Some(number) = number {
            by_number.entry(number).or_default().push(run);
        }
    }
    let judged = |(number, mut runs): (u32, Vec<Run>)| {
        let (results, judgement) = settle(experiment, planned, &mut runs, &[]);
        let runs = results.iter().map(|result| result.runs).min().unwrap_or(0);
        (results.len() == planned.len()).then_some(Judged { number, runs, judgement })
    };
    by_number.into_iter().filter_map(judged).collect()
}
