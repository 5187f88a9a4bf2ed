//! What a paper does not say: whether its values and claims follow from any plausible setting of its unknowns.
//!
//! ```text
//!  [unknown] ──▶ settings ──▶ runs of points ──▶ a judgement of each setting ──▶ Explanation ──▶ page
//! ```
//!
//! Each [setting](crate::plan) is judged as an experiment of its own, by the conditions and factors of the file. It is run at the points
//! that a value or a claim is about. Most settings are run once at each of these; those that an answer rests on are then run as often as
//! the file says, and an answer is *for some set-up* only if one of these bears it out. Nothing is tuned: what the file chooses stays
//! setting 0.
//!
//! An experiment of which each value and each claim has a setting that bears it out gets the least number of settings, the others up to
//! the most: more settings decide something there, and only sharpen shares elsewhere. How a budget of time is divided
//! (`division`) decides how many settings there are; what they say (`replay`) depends on the file, the seed and their number alone.

mod answer;
mod confirm;
mod division;
pub(crate) mod influence;
mod joint;
mod judged;
mod replay;
mod rounds;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use thiserror::Error;

use crate::campaign::{Failure, Progress};
use crate::document::{Document, Mistakes};
use crate::plan::MAX_SETTINGS;
use crate::report::ReportError;
use crate::results::SETTING_AXIS;
use crate::store::{Begin, Directory, StoreError};
use crate::verdict;

use replay::{Extent, Settings};
use rounds::{Course, Rounds};

pub use answer::{ClaimAnswer, Explanation, Near, Robustness, Sample, SetUp, Share, Together, ValueAnswer};
pub use influence::Influence;
pub use joint::{Given, Joint, JointSetUp, joint};

/// How much is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Settings of each experiment, at most.
    pub settings: u32,
    /// Settings of an experiment of which each value and claim has one that bears it out.
    pub least: u32,
    /// Runs of a setting at each point, at first.
    pub runs: u32,
    /// The seed of the settings.
    pub seed: u64,
    /// How long all of it may take, about: there are then fewer settings if need be, but never fewer than a first batch.
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

/// Runs experiments at settings of their unknowns. `done` gets what came of each as soon as it is there.
///
/// # Errors
/// Nothing was run if it is about a document; else results could not be read or written.
pub fn run(
    documents: &[Document],
    options: &Options,
    stop: &AtomicBool,
    progress: impl FnMut(Progress<'_>),
    done: impl FnMut(Explained),
) -> Result<(), ExplainError> {
    if options.settings >= MAX_SETTINGS {
        return Err(ExplainError::Settings(options.settings));
    }
    let courses = documents.iter().map(|document| Course::prepare(document, options));
    let courses = courses.collect::<Result<Vec<_>, _>>()?;
    Rounds { courses, options, stop, progress, done }.run()
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
    if runs.iter().all(|run| !run.point.contains_key(SETTING_AXIS)) {
        return Ok(None);
    }
    let planned = document.points().map_err(ReportError::Document)?;
    let version = runs.first().map(|run| run.version.clone()).unwrap_or_default();
    let read = verdict::read(document.experiment(), &planned);
    let settings = Settings::of(document.experiment(), &planned, &read, runs);
    let judged = settings.replay(Extent::All).judged;
    let answer = answer::answer(&document, &document.space(), explained.seed, &judged, version);
    Ok(Some((document, answer)))
}
