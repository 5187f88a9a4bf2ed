//! Runs of variants, with the same seeds for all.

use std::convert::Infallible;
use std::slice;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use trunkline_engine::EngineError;
use trunkline_engine::catalogue::{Unit, unit};
use trunkline_engine::scenario::Scenario;
use trunkline_units::Rng;

use super::aim::worth;
use super::pace::Pace;
use super::variant::Variant;
use super::{AdviseError, Evidence, GroupAim, MAX_TIMES, Options, Progress, Trial, TrialOutcome};
use crate::document::Document;
use crate::experiment::Experiment;
use crate::results::Outcome;
use crate::statistics::estimate;
use crate::threads;

/// Seeds that settings are found by, that they are confirmed by, and that what was chosen is shown by: three ranges, far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Finding,
    Confirming,
    Showing,
}

/// From the first seed of one range to that of the next.
const RANGE: u64 = 1_000;

/// A variant with its outcomes so far, by purpose and seed.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    pub(super) variant: Variant,
    outcomes: [Vec<Outcome>; 3],
}

impl Contender {
    pub(super) fn new(variant: Variant) -> Self {
        Contender { variant, outcomes: [Vec::new(), Vec::new(), Vec::new()] }
    }

    fn of(&self, purpose: Purpose) -> &[Outcome] {
        &self.outcomes[purpose as usize]
    }
}

pub(super) struct Race<'a, F> {
    options: &'a Options,
    aims: &'a [GroupAim],
    stop: &'a AtomicBool,
    progress: F,
    seed: u64,
    pace: Pace,
    done: usize,
    total: usize,
}

impl<'a, F: FnMut(Progress)> Race<'a, F> {
    pub(super) fn new(
        options: &'a Options,
        aims: &'a [GroupAim],
        stop: &'a AtomicBool,
        progress: F,
        seed: u64,
    ) -> Self {
        let pace = Pace::new(options.runs.max(2) as usize);
        // Two are run at the end, whatever comes before.
        Race { options, aims, stop, progress, seed, pace, done: 0, total: 2 }
    }

    pub(super) const fn made(&self) -> usize {
        self.pace.made()
    }

    /// So many variants are to be run from now on, as far as is known.
    pub(super) fn expect(&mut self, variants: usize) {
        self.total = self.total.max(self.done + variants);
        self.pace.expect(variants);
    }

    /// What all of them have over the best so far.
    pub(super) fn find(
        &mut self,
        best: &mut Contender,
        others: &mut [Contender],
    ) -> Result<Vec<Trial>, AdviseError> {
        self.compare(best, others, Purpose::Finding)
    }

    /// Runs all, and those of which the runs do not tell again and again until they do or are as many as may be.
    fn compare(
        &mut self,
        best: &mut Contender,
        others: &mut [Contender],
        purpose: Purpose,
    ) -> Result<Vec<Trial>, AdviseError> {
        let mut runs = self.runs();
        self.extend(best, purpose, runs)?;
        for other in &mut *others {
            self.extend(other, purpose, runs)?;
        }
        while runs < self.most() {
            runs = (runs * 2).min(self.most());
            let unclear: Vec<usize> = (0..others.len())
                .filter(|number| self.trial(best, &others[*number], purpose).outcome == TrialOutcome::Unclear)
                .collect();
            if unclear.is_empty() {
                break;
            }
            self.extend(best, purpose, runs)?;
            for number in unclear {
                self.extend(&mut others[number], purpose, runs)?;
            }
        }
        Ok(others.iter().map(|other| self.trial(best, other, purpose)).collect())
    }

    /// Whether the second is better than the first by other seeds too.
    pub(super) fn confirms(
        &mut self,
        best: &mut Contender,
        other: &mut Contender,
    ) -> Result<bool, AdviseError> {
        let trials = self.compare(best, slice::from_mut(other), Purpose::Confirming)?;
        Ok(trials.iter().all(|trial| trial.outcome == TrialOutcome::Better))
    }

    /// What was chosen beside what there is without.
    pub(super) fn judge(
        &mut self,
        none: &mut Contender,
        chosen: &mut Contender,
    ) -> Result<(Trial, Vec<Evidence>), AdviseError> {
        let trial = self.compare(none, slice::from_mut(chosen), Purpose::Showing)?.swap_remove(0);
        let names = self.aims.iter().flat_map(|one| {
            one.aim.metrics().iter().map(move |quantity| format!("{}.{quantity}", one.group))
        });
        let names = names.chain(["all.fairness.groups".to_owned()]);
        let [none, chosen] = [none, chosen].map(|one| one.of(Purpose::Showing));
        Ok((trial, names.filter_map(|metric| compare(metric, none, chosen)).collect()))
    }

    fn runs(&self) -> usize {
        self.options.runs.max(2) as usize
    }

    fn most(&self) -> usize {
        self.runs() * MAX_TIMES as usize
    }

    /// What the second has over the first, run by run, as far as both were run.
    fn trial(&self, from: &Contender, to: &Contender, purpose: Purpose) -> Trial {
        let worth = |outcome| worth(self.aims, outcome);
        let pairs = from.of(purpose).iter().zip(to.of(purpose));
        let differences: Vec<f64> = pairs.map(|(from, to)| worth(to) - worth(from)).collect();
        Trial::new(&to.variant.name, estimate(&differences))
    }

    /// Runs a variant until there are so many outcomes.
    fn extend(&mut self, contender: &mut Contender, purpose: Purpose, to: usize) -> Result<(), AdviseError> {
        let outcomes = &mut contender.outcomes[purpose as usize];
        let first = outcomes.len();
        if first == 0 && purpose != Purpose::Confirming {
            self.pace.begin();
        }
        if first < to {
            let seed = self.seed.wrapping_add(purpose as u64 * RANGE + first as u64);
            outcomes.extend(self.run(&contender.variant, seed, to - first)?);
        }
        Ok(())
    }

    fn run(&mut self, variant: &Variant, seed: u64, runs: usize) -> Result<Vec<Outcome>, AdviseError> {
        self.total = self.total.max(self.done + 1);
        let left = self.pace.left();
        (self.progress)(Progress { variant: variant.name.clone(), done: self.done, total: self.total, left });
        let began = Instant::now();
        let scenario = scenario(&variant.name, &variant.experiment)?;
        let (engine, stop) = (&self.options.engine, self.stop);
        let mut outcomes: Vec<Option<Result<Outcome, EngineError>>> = vec![None; runs];
        let work = |number: usize| {
            let seed = seed.wrapping_add(number as u64);
            trunkline_engine::guarded(|| trunkline_engine::run(engine, &shifted(&scenario, seed), seed, stop))
        };
        let done = |number: usize, outcome| {
            outcomes[number] = Some(outcome);
            Ok::<_, Infallible>(())
        };
        let Ok(()) = threads::each(self.options.jobs.min(runs), (0..runs).rev().collect(), stop, work, done);
        self.done += 1;
        self.pace.count(runs, began.elapsed());
        let outcomes = outcomes.into_iter().map(|outcome| outcome.unwrap_or(Err(EngineError::Stopped)));
        let outcomes: Result<Vec<Outcome>, EngineError> = outcomes.collect();
        outcomes.map_err(|error| AdviseError::Run { variant: variant.name.clone(), error: Box::new(error) })
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
fn compare(metric: String, without: &[Outcome], with: &[Outcome]) -> Option<Evidence> {
    let values = |runs: &[Outcome]| -> Option<Vec<f64>> {
        runs.iter().map(|outcome| outcome.metrics.get(&metric).copied()).collect()
    };
    let (before, after) = (values(without)?, values(with)?);
    let differences: Vec<f64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    let difference = estimate(&differences);
    let certain = difference.ci95.is_some_and(|half| difference.mean.abs() > half);
    let better = (difference.mean > 0.0) == wants_more(&metric);
    let (without, with) = (estimate(&before), estimate(&after));
    let unit = unit(&metric).map_or("1", Unit::name).to_owned();
    Some(Evidence { metric, unit, without, with, difference, certain, better })
}
