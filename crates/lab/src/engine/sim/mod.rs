//! The simulator as an engine.
//!
//! A run goes in steps: to the end of the warm-up, where every counter is read; from sample to sample of queue lengths and series;
//! to the end, where every counter is read again. What is measured is the difference of the two readings. Steps change nothing
//! of what happens in the network.

mod build;
mod edges;
mod groups;
mod queues;
mod reading;
mod samples;
mod series;
mod sheet;
mod transfers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trunkline_sim::{Pattern, SourceId};
use trunkline_units::Instant;

use super::EngineError;
use crate::results::Outcome;
use crate::scenario::{End, Load, Scenario};
use build::{Built, build};
use reading::Reading;
use samples::Samples;
use series::Series;
use sheet::Sheet;

pub(crate) use edges::way;
pub(crate) use queues::reasons;

/// A run that goes on.
struct Progress<'a> {
    built: Built,
    series: Option<Series>,
    /// Sources whose end is the run's.
    awaited: Vec<SourceId>,
    /// The longest time for which it does not look whether it is to stop.
    patience: Duration,
    stop: &'a AtomicBool,
}

pub(super) fn run(scenario: &Scenario, seed: u64, stop: &AtomicBool) -> Result<Outcome, EngineError> {
    let built = build(scenario, seed)?;
    let ends = |load: &Load| matches!(load, Load::Tcp { pattern: Pattern::Bulk { bytes: Some(_), .. }, .. });
    let awaited = scenario.traffic.iter().zip(&built.sources);
    let awaited: Vec<SourceId> = awaited
        .filter(|(traffic, _)| scenario.end == End::Transfers && ends(&traffic.load))
        .map(|(_, source)| *source)
        .collect();
    let series = Series::new(scenario, &built);
    let patience = (scenario.duration / Samples::COUNT).max(Duration::from_nanos(1));
    let mut run = Progress { built, series, awaited, patience, stop };

    let end = Instant::ZERO + scenario.duration;
    let warm = Instant::ZERO + scenario.warm_up.min(scenario.duration);
    let mut over = run.until(warm)?;
    run.built.network.forget_peaks();
    let from = Reading::take(&mut run.built);
    let classes: Vec<usize> = scenario.trunks.iter().map(|trunk| trunk.plan.classes.len()).collect();
    let fixed = run.awaited.is_empty();
    let mut samples = Samples::new(&run.built, &classes, (from.at, end.saturating_since(from.at)), fixed);
    while !over && run.built.network.now() < end {
        over = run.until(samples.next().min(end))?;
        if run.built.network.now() == samples.next() {
            samples.take(&run.built);
        }
    }
    let to = Reading::take(&mut run.built);
    Ok(run.outcome(scenario, (&from, &to), &samples))
}

impl Progress<'_> {
    /// Goes on to `end`, or to where all that is awaited is over. Whether that is so.
    fn until(&mut self, end: Instant) -> Result<bool, EngineError> {
        while self.built.network.now() < end {
            if self.stop.load(Ordering::Relaxed) {
                return Err(EngineError::Stopped);
            }
            let next = self.series.as_ref().map_or(end, Series::next);
            let next = next.min(end).min(self.built.network.now() + self.patience);
            if self.awaited.is_empty() {
                self.built.network.run_until(next);
            } else if self.built.network.run_until_over(&self.awaited, next) {
                return Ok(true);
            }
            if let Some(series) = self.series.as_mut().filter(|series| series.next() == next) {
                series.take(&mut self.built);
            }
        }
        Ok(false)
    }

    fn outcome(self, scenario: &Scenario, readings: (&Reading, &Reading), samples: &Samples) -> Outcome {
        let mut sheet = Sheet::default();
        let mut outcome = Outcome::default();
        groups::write(scenario, &self.built, readings, (&mut sheet, &mut outcome));
        edges::write(scenario, readings, samples, &mut sheet);
        sheet.page("run").put("time", readings.1.at.as_secs_f64());
        outcome.metrics = sheet.metrics;
        outcome.series = self.series.map(Series::finish);
        outcome.digest = self.built.network.digest().to_string();
        outcome
    }
}
