//! Runs of variants, with the same seeds for all.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use trunkline_units::Rng;

use super::aim::worth;
use super::variant::Variant;
use super::{AdviseError, Evidence, GroupAim, Options, Progress};
use crate::catalogue::unit;
use crate::document::Document;
use crate::engine::{self, EngineError};
use crate::experiment::Experiment;
use crate::results::{Estimate, Outcome};
use crate::scenario::Scenario;
use crate::statistics::estimate;

/// A variant's outcomes, by seed.
#[derive(Debug, Clone)]
pub(super) struct Runs(Vec<Outcome>);

pub(super) struct Race<'a, F> {
    options: &'a Options,
    aims: &'a [GroupAim],
    stop: &'a AtomicBool,
    progress: F,
    done: usize,
    total: usize,
    made: usize,
}

impl<'a, F: FnMut(Progress)> Race<'a, F> {
    pub(super) fn new(options: &'a Options, aims: &'a [GroupAim], stop: &'a AtomicBool, progress: F) -> Self {
        // Two to begin with, and two at the end.
        Race { options, aims, stop, progress, done: 0, total: 4, made: 0 }
    }

    /// So many more are to be tried.
    pub(super) fn expect(&mut self, variants: usize) {
        self.total += variants;
    }

    pub(super) const fn made(&self) -> usize {
        self.made
    }

    /// Runs a variant with so many seeds.
    pub(super) fn run(&mut self, variant: &Variant, seed: u64, runs: u32) -> Result<Runs, AdviseError> {
        let runs = runs.max(2) as usize;
        let progress = Progress { variant: variant.name.clone(), done: self.done, total: self.total };
        (self.progress)(progress);
        let scenario = scenario(&variant.name, &variant.experiment)?;
        let (engine, stop) = (self.options.engine, self.stop);
        let next = AtomicUsize::new(0);
        let outcomes: Mutex<Vec<Option<Result<Outcome, EngineError>>>> = Mutex::new(vec![None; runs]);
        thread::scope(|scope| {
            for _ in 0..self.options.jobs.clamp(1, runs) {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= runs {
                            break;
                        }
                        let seed = seed.wrapping_add(number as u64);
                        let outcome = engine::run(engine, &shifted(&scenario, seed), seed, stop);
                        if let Ok(mut outcomes) = outcomes.lock() {
                            outcomes[number] = Some(outcome);
                        }
                    }
                });
            }
        });
        self.done += 1;
        self.made += runs;
        let outcomes = outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let outcomes = outcomes.into_iter().map(|outcome| outcome.unwrap_or(Err(EngineError::Stopped)));
        let outcomes: Result<Vec<Outcome>, EngineError> = outcomes.collect();
        outcomes
            .map(Runs)
            .map_err(|error| AdviseError::Run { variant: variant.name.clone(), error: Box::new(error) })
    }

    /// What the second has over the first, run by run.
    pub(super) fn gain(&self, from: &Runs, to: &Runs) -> Estimate {
        let worth = |outcome| worth(self.aims, outcome);
        let differences: Vec<f64> =
            from.0.iter().zip(&to.0).map(|(from, to)| worth(to) - worth(from)).collect();
        estimate(&differences)
    }

    /// The metrics that count, side by side.
    pub(super) fn evidence(&self, without: &Runs, with: &Runs) -> Vec<Evidence> {
        let names = self.aims.iter().flat_map(|one| {
            one.aim.metrics().iter().map(move |quantity| format!("{}.{quantity}", one.group))
        });
        let names = names.chain(["all.fairness.groups".to_owned()]);
        names.filter_map(|metric| compare(metric, without, with)).collect()
    }
}

/// What an experiment without a sweep runs.
pub(super) fn scenario(name: &str, experiment: &Experiment) -> Result<Scenario, AdviseError> {
    let text = toml::to_string(experiment).unwrap_or_default();
    Ok(Document::parse(name, &text)?.plan()?.swap_remove(0).scenario)
}

/// The same with sources that begin up to a second later, each by itself: a network in which nothing is random would come out the
/// same with every seed, and a difference that the phases of packets make would look certain.
fn shifted(scenario: &Scenario, seed: u64) -> Scenario {
    let mut shifted = scenario.clone();
    for (number, traffic) in shifted.traffic.iter_mut().enumerate() {
        let late = Duration::from_secs_f64(Rng::new(seed, &format!("start {number}")).uniform());
        traffic.start += late;
        traffic.stop = traffic.stop.map(|stop| stop + late);
    }
    shifted
}

/// Of goodput, answers and fairness more is better; of waiting and loss, less.
fn wants_more(metric: &str) -> bool {
    ["goodput", "transfers.completed", "fairness.groups"].iter().any(|end| metric.ends_with(end))
}

/// A metric that all runs of both have.
fn compare(metric: String, without: &Runs, with: &Runs) -> Option<Evidence> {
    let values = |runs: &Runs| -> Option<Vec<f64>> {
        runs.0.iter().map(|outcome| outcome.metrics.get(&metric).copied()).collect()
    };
    let (before, after) = (values(without)?, values(with)?);
    let differences: Vec<f64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    let difference = estimate(&differences);
    let certain = difference.ci95.is_some_and(|half| difference.mean.abs() > half);
    let better = (difference.mean > 0.0) == wants_more(&metric);
    let (without, with) = (estimate(&before), estimate(&after));
    let unit = unit(&metric).unwrap_or("1").to_owned();
    Some(Evidence { metric, unit, without, with, difference, certain, better })
}
