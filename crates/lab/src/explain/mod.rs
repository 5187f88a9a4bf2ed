//! What a paper does not say: whether its values and claims follow from any plausible setting of its unknowns.
//!
//! ```text
//!  [unknown] ──▶ settings ──▶ runs of all points ──▶ a judgement of each setting ──▶ Explanation ──▶ page
//! ```
//!
//! Each [setting](crate::plan) is judged as an experiment of its own, by the conditions and factors of the file. Most settings are
//! run once at each point; those that an answer rests on are then run as often as the file says, and an answer is *for some set-up* only
//! if one of these bears it out. Nothing is tuned: what the file chooses stays setting 0.

mod answer;
mod influence;
mod judged;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use thiserror::Error;
use trunkline_engine::scenario::Scenario;
use trunkline_engine::{Control, Engine};

use crate::campaign::{self, Campaign, Failure, Options as Campaigning, Progress, Study};
use crate::document::{Document, Mistakes};
use crate::plan::{MAX_SETTINGS, Planned, Setting, Space};
use crate::report::ReportError;
use crate::results::Point;
use crate::store::{Begin, Directory, StoreError};

pub use answer::{
    ClaimAnswer, Explanation, Near, Robustness, Sample, SetUp, Share, Together, UnknownAnswer, ValueAnswer,
};
pub use influence::Influence;

/// The axis of results along which settings lie.
pub const AXIS: &str = "setting";
/// How often settings are run as often as the file says, in search of one that bears an answer out.
const ROUNDS: usize = 3;
/// Settings of the first batch where there is a budget.
const FIRST_BATCH: u32 = 8;
/// About how many settings answers rest on.
const CONFIRMED: u32 = 6;

/// How much is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Settings of each experiment.
    pub settings: u32,
    /// Runs of a setting at each point, at first.
    pub runs: u32,
    /// The seed of the settings.
    pub seed: u64,
    /// How long all of it may take, about: the settings that can be run in it are then fewer, but never fewer than a first batch.
    pub budget: Option<Duration>,
    /// Runs at a time.
    pub jobs: usize,
    /// Results are in a directory of the experiment's id in here.
    pub out: PathBuf,
    /// What is done with results that are there already.
    pub begin: Begin,
}

/// Why there is no explanation.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// An experiment cannot be what its unknowns say.
    #[error("{0}")]
    Mistakes(#[from] Mistakes),
    /// There is nothing to explain.
    #[error("{0} has no [unknown]: there is nothing that its paper leaves open")]
    NothingUnknown(String),
    /// More than the sequence has.
    #[error("{0} settings are too many; allowed: up to {MAX_SETTINGS}")]
    Settings(u32),
    /// The results cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What was run of an experiment.
#[derive(Debug, Clone)]
pub struct Explained {
    /// Its results.
    pub directory: Directory,
    /// Runs that failed.
    pub failures: Vec<Failure>,
    /// It was told to stop.
    pub interrupted: bool,
}

/// An experiment that is ready.
struct Ready {
    document: Document,
    text: String,
    space: Space,
    planned: Vec<Planned>,
}

/// Runs experiments at settings of their unknowns. `done` gets what came of each as soon as it is there.
///
/// # Errors
/// Nothing was run if it is about a document; else results could not be read or written.
pub fn run(
    documents: &[Document],
    options: &Options,
    stop: &AtomicBool,
    mut progress: impl FnMut(&str, Progress<'_>),
    mut done: impl FnMut(Explained),
) -> Result<(), ExplainError> {
    if options.settings >= MAX_SETTINGS {
        return Err(ExplainError::Settings(options.settings));
    }
    let ready: Vec<Ready> =
        documents.iter().map(|document| prepare(document, options.seed)).collect::<Result<_, _>>()?;
    let end = options.budget.map(|budget| Instant::now() + budget);
    for (number, ready) in ready.iter().enumerate() {
        let share = end.map(|end| {
            let left = end.saturating_duration_since(Instant::now());
            left / u32::try_from(documents.len() - number).unwrap_or(u32::MAX)
        });
        let explained = one(ready, options, share, stop, &mut progress)?;
        let interrupted = explained.interrupted;
        done(explained);
        if interrupted {
            break;
        }
    }
    Ok(())
}

/// Plans what the file chooses, and settings with each choice and both ends of each range.
fn prepare(document: &Document, seed: u64) -> Result<Ready, ExplainError> {
    let mut document = document.clone();
    let planned = document.plan()?;
    let space = document.space();
    if space.is_empty() {
        return Err(ExplainError::NothingUnknown(document.experiment().id.clone()));
    }
    document.sample_by(seed)?;
    for corner in space.corners() {
        document.plan_at(&corner)?;
    }
    Ok(Ready { text: document.to_toml()?, document, space, planned })
}

fn one(
    ready: &Ready,
    options: &Options,
    budget: Option<Duration>,
    stop: &AtomicBool,
    progress: &mut impl FnMut(&str, Progress<'_>),
) -> Result<Explained, ExplainError> {
    let mut rounds =
        Rounds { ready, options, stop, begin: options.begin, failures: Vec::new(), directory: None };
    let full = ready.document.experiment().runs;
    let began = Instant::now();
    let mut known = 0;
    while known < options.settings {
        let wanted = options.settings - known;
        let batch = match budget {
            None => wanted,
            Some(_) if known == 0 => wanted.min(FIRST_BATCH),
            Some(budget) => {
                let pace = began.elapsed().as_secs_f64() / f64::from(known);
                // The rest is for the settings that are run as often as the file says.
                let more = f64::from(CONFIRMED) * f64::from(full) / f64::from(options.runs.min(full));
                let left = budget.as_secs_f64() - began.elapsed().as_secs_f64() - more * pace;
                wanted.min(known).min((left / pace).max(0.0) as u32)
            }
        };
        if batch == 0 {
            break;
        }
        let numbers: Vec<u32> = (u32::from(known > 0) * (known + 1)..=known + batch).collect();
        if rounds.run(&numbers, options.runs.min(full), progress)? {
            return rounds.finish(true);
        }
        known += batch;
    }
    for _ in 0..ROUNDS {
        let judged = rounds.judged()?;
        let wanted = answer::to_confirm(ready.document.experiment(), &judged);
        if wanted.is_empty() {
            break;
        }
        if rounds.run(&wanted, full, progress)? {
            return rounds.finish(true);
        }
    }
    rounds.finish(false)
}

/// Campaigns of the same experiment, each at more settings or with more runs.
struct Rounds<'a> {
    ready: &'a Ready,
    options: &'a Options,
    stop: &'a AtomicBool,
    begin: Begin,
    failures: Vec<Failure>,
    directory: Option<Directory>,
}

impl Rounds<'_> {
    /// Runs some settings; whether it was told to stop.
    fn run(
        &mut self,
        numbers: &[u32],
        runs: u32,
        progress: &mut impl FnMut(&str, Progress<'_>),
    ) -> Result<bool, ExplainError> {
        let mut experiment = self.ready.document.experiment().clone();
        experiment.runs = runs;
        let mut points = Vec::new();
        for number in numbers {
            let setting = self.ready.space.setting(*number, self.options.seed);
            points.extend(at(&setting, self.ready.document.plan_at(&setting)?));
        }
        let study = Study { experiment, text: self.ready.text.clone(), points };
        let engine = |scenario: &Scenario, seed| {
            let mut outcome =
                trunkline_engine::run_watched(&Engine::Sim, scenario, seed, Control::unwatched(self.stop))?;
            // No answer needs them.
            outcome.distributions.clear();
            outcome.series = None;
            Ok(outcome)
        };
        let how = Campaigning {
            engine: Engine::Sim,
            jobs: self.options.jobs,
            out: self.options.out.clone(),
            begin: std::mem::replace(&mut self.begin, Begin::Resume),
        };
        let id = &self.ready.document.experiment().id;
        let campaign = campaign::run_with(&engine, &[study], &how, self.stop, |one| progress(id, one))?;
        let Campaign { complete, failures, interrupted } = campaign;
        self.failures.extend(failures);
        self.directory =
            complete.into_iter().next().map(|complete| complete.directory).or(self.directory.take());
        Ok(interrupted)
    }

    fn judged(&self) -> Result<Vec<judged::Judged>, ExplainError> {
        let runs = self.directory.as_ref().map(Directory::runs).transpose()?.unwrap_or_default();
        Ok(judged::settings(self.ready.document.experiment(), &self.ready.planned, runs))
    }

    fn finish(self, interrupted: bool) -> Result<Explained, ExplainError> {
        let path = self.options.out.join(&self.ready.document.experiment().id);
        let directory = self.directory.map_or_else(|| Directory::open(&path), Ok)?;
        Ok(Explained { directory, failures: self.failures, interrupted })
    }
}

/// The points of a setting, along an axis of their own.
fn at(setting: &Setting, planned: Vec<Planned>) -> impl Iterator<Item = Planned> {
    let number = setting.number.to_string();
    planned.into_iter().map(move |planned| {
        let mut point = Point::from([(AXIS.to_owned(), number.clone())]);
        point.extend(planned.point);
        let mut scenario = planned.scenario;
        scenario.series = None;
        Planned { point, scenario }
    })
}

/// What came of an experiment's settings, by its directory alone; none if it has none.
///
/// # Errors
/// The results cannot be read, or the experiment beside them is none.
pub(crate) fn explanation(directory: &Directory) -> Result<Option<(Document, Explanation)>, ReportError> {
    let text = directory.text()?;
    let name = directory.path().display().to_string();
    let document = Document::parse(&name, &text).map_err(ReportError::Document)?;
    let Some(explained) = document.experiment().explained.clone() else { return Ok(None) };
    let runs = directory.runs()?;
    if runs.iter().all(|run| !run.point.contains_key(AXIS)) {
        return Ok(None);
    }
    let planned = document.points().map_err(ReportError::Document)?;
    let version = runs.first().map(|run| run.version.clone()).unwrap_or_default();
    let judged = judged::settings(document.experiment(), &planned, runs);
    let answer = answer::answer(&document, &document.space(), explained.seed, &judged, version);
    Ok(Some((document, answer)))
}
