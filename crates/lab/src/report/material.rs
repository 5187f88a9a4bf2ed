//! What a report is made of.

use std::time::Duration;

use super::TcpInUse;
use crate::VERSION;
use crate::experiment::Experiment;
use crate::results::{Estimate, Machine, Point, PointResult, Refusal, Run};
use crate::verdict::{Comparison, Judgement};

/// An experiment and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Material<'a> {
    /// The experiment as it ran.
    pub experiment: &'a Experiment,
    /// Its file as it ran: every value that was set on the command line is in it.
    pub document: &'a str,
    /// A result for each point.
    pub results: &'a [PointResult],
    /// The runs that they are of.
    pub runs: &'a [Run],
    /// How many there are to be.
    pub planned: usize,
    /// How what is said of them came out.
    pub judgement: &'a Judgement,
    /// Every TCP in use, with all of its settings.
    pub tcps: &'a [TcpInUse],
    /// Names of files that lie beside the report, in the order in which to show them.
    pub files: &'a [String],
    /// The machine, if the engine is one whose results are not the same on every machine.
    pub machine: Option<&'a Machine>,
    /// How long the runs took, if that is known.
    pub took: Option<Duration>,
}

impl Material<'_> {
    /// Of all published values, counted or not.
    pub(super) fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.judgement.comparisons.iter().chain(&self.judgement.calibrated)
    }

    pub(super) fn comparison(&self, metric: &str, point: &Point) -> Option<&Comparison> {
        self.comparisons().find(|cell| cell.metric == metric && cell.point == *point)
    }

    /// What a metric was published in, if that is not its own unit.
    pub(super) fn published_unit(&self, metric: &str) -> Option<&str> {
        self.comparisons().find(|cell| cell.metric == metric)?.unit.as_deref()
    }

    /// The most runs that a point has.
    pub(super) fn max_runs(&self) -> u32 {
        self.results.iter().map(|result| result.runs).max().unwrap_or(0)
    }

    /// Whether the runs of some point are all the same.
    pub(super) fn has_identical_runs(&self) -> bool {
        self.results.iter().any(|result| {
            let alike = |estimate: &Estimate| estimate.ci95.is_none() && estimate.runs.is_none();
            result.runs > 1 && !result.metrics.is_empty() && result.metrics.values().all(alike)
        })
    }

    /// Minimum and maximum seed.
    pub(super) fn seeds(&self) -> Option<(u64, u64)> {
        let seeds = || self.runs.iter().map(|run| run.seed);
        Some((seeds().min()?, seeds().max()?))
    }

    pub(super) fn engine(&self) -> &str {
        let known = self.results.first().map(|result| &result.engine);
        known.or(self.machine.map(|machine| &machine.engine)).map_or("sim", String::as_str)
    }

    /// Points that are not on this engine.
    pub(super) fn refused(&self) -> &[Refusal] {
        self.machine.map_or(&[], |machine| &machine.refused)
    }

    pub(super) fn version(&self) -> &str {
        self.results.first().map_or(VERSION, |result| result.version.as_str())
    }
}
