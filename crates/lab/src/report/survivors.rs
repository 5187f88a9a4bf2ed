//! Statistics of those transfers alone that completed, where many did not: what is missing would have taken longest, so such a value looks too
//! good beside one of all transfers.

use indexmap::IndexSet;

use super::{axes, number};
use crate::experiment::Experiment;
use crate::results::PointResult;

/// From this share of completed transfers on, those that are missing do not matter.
const ENOUGH: f64 = 0.95;
/// Points that a note names.
const MAX_NAMED: usize = 6;

/// What stands behind such a value.
pub const MARK: &str = "†";

/// How many of a group's transfers completed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Survivors<'a> {
    /// The group of traffic.
    pub group: &'a str,
    /// Those that completed, mean of the runs.
    pub completed: f64,
    /// All that began.
    pub total: f64,
}

impl<'a> Survivors<'a> {
    /// Of what a metric counts, if that is completed transfers.
    pub fn of(metric: &'a str, result: &PointResult) -> Option<Self> {
        let (group, quantity) = metric.split_once('.')?;
        let first = quantity.split('.').next()?;
        if !["delay", "slowdown"].contains(&first) && quantity != "transfer.delay" {
            return None;
        }
        let count = |of: &str| Some(result.metrics.get(&format!("{group}.transfers.{of}"))?.mean);
        Some(Self { group, completed: count("completed")?, total: count("total")? })
    }

    /// The same, if too few completed for a comparison.
    pub fn too_few(metric: &'a str, result: &PointResult) -> Option<Self> {
        Self::of(metric, result).filter(|all| all.completed < ENOUGH * all.total)
    }

    /// `4 of 9`.
    pub fn counted(&self) -> String {
        format!("{} of {}", number::digits(self.completed), number::digits(self.total))
    }
}

/// What is said below a table or a plot of such values.
pub fn note<'a>(
    experiment: &Experiment,
    metrics: impl Iterator<Item = &'a str>,
    results: &[&PointResult],
) -> Option<String> {
    let metrics: Vec<&str> = metrics.collect();
    let mut named = IndexSet::new();
    for result in results {
        for few in metrics.iter().filter_map(|metric| Survivors::too_few(metric, result)) {
            let at = axes::point_label(experiment, &result.point);
            named.insert(format!("{} of {} ({at})", few.counted(), few.group));
        }
    }
    let more = named.len().saturating_sub(MAX_NAMED);
    let mut parts: Vec<String> = named.into_iter().take(MAX_NAMED).collect();
    if parts.is_empty() {
        return None;
    }
    if more > 0 {
        parts.push(format!("and at {}", number::count(more, "other point")));
    }
    let text = parts.join("; ");
    Some(format!("{MARK} Of completed transfers alone: {text}. Those that are missing took longest."))
}
