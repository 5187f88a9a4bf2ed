//! Paths that nobody chose: variants of an experiment compared over settings of its unknowns.
//!
//! ```text
//!  [unknown] ──▶ samples ──▶ a run of each variant ──▶ ratios to the baseline ──▶ distribution, bounds, worst samples
//! ```
//!
//! A sample is a [setting](crate::plan) of the unknowns; sample *n* depends on the file, the seed and *n* alone. Each variant is run at it
//! once, with the same arrivals. What is reported is the distribution of *regret*: by how much a variant is worse than the baseline, as a
//! ratio. A sample whose ratio is bad is an experiment of its own, which can be written as a file.

mod regret;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use thiserror::Error;
use trunkline_engine::scenario::Scenario;
use trunkline_engine::{Control, Engine};

use crate::campaign::{self, Campaign, Failure, Options as Campaigning, Progress, Study};
use crate::document::{Document, Mistakes};
use crate::experiment::SAMPLE_AXIS;
use crate::plan::{MAX_SETTINGS, Planned, Setting};
use crate::results::{Point, Run};
use crate::store::{self, Begin, Directory, StoreError};

pub use regret::{BoundOutcome, Comparison, Group, Property, Sample, Survey, Thresholds};

/// The directory of the worst samples' files, in that of the results.
pub const WORST: &str = "worst";
/// What came of it, in the directory of the results.
const SUMMARY: &str = "survey.json";

/// How it is done.
#[derive(Debug, Clone)]
pub struct Options {
    /// What carries out the runs.
    pub engine: Engine,
    /// Samples.
    pub samples: u32,
    /// The seed of the samples and of their runs.
    pub seed: u32,
    /// The worst samples of each measure that are written as files.
    pub worst: usize,
    /// Runs at a time.
    pub jobs: usize,
    /// Results are in a directory of the experiment's id in here.
    pub out: PathBuf,
    /// What is done with results that are there already.
    pub begin: Begin,
}

/// Why there is no survey.
#[derive(Debug, Error)]
pub enum SurveyError {
    /// The experiment cannot be what its unknowns say.
    #[error("{0}")]
    Mistakes(#[from] Mistakes),
    /// Nothing is compared.
    #[error("{0} has no [survey]: it does not say which variants are compared, and by what")]
    NotAsked(String),
    /// There is nothing to sample.
    #[error("{0} has no [unknown]: there is nothing to sample")]
    NothingUnknown(String),
    /// More than the sequence has.
    #[error("{0} samples are too many; allowed: 1 to {MAX_SETTINGS}")]
    Samples(u32),
    /// The results cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What was run.
#[derive(Debug, Clone)]
pub struct Surveyed {
    /// What came of it.
    pub survey: Survey,
    /// Where its results are.
    pub directory: Directory,
    /// Runs that failed.
    pub failures: Vec<Failure>,
    /// Samples that the engine cannot be, and why.
    pub refused: BTreeMap<String, usize>,
    /// It was told to stop.
    pub interrupted: bool,
}

/// Runs samples of an experiment. What has finished when `stop` is set is kept, and reported.
///
/// # Errors
/// Nothing was run if it is about the document; else results could not be read or written.
pub fn run(
    document: &Document,
    options: &Options,
    stop: &AtomicBool,
    progress: impl FnMut(Progress<'_>),
) -> Result<Surveyed, SurveyError> {
    if !(1..=MAX_SETTINGS).contains(&options.samples) {
        return Err(SurveyError::Samples(options.samples));
    }
    document.plan()?;
    let id = document.experiment().id.clone();
    let Some(spec) = document.experiment().survey.clone() else { return Err(SurveyError::NotAsked(id)) };
    let space = document.space();
    if space.is_empty() {
        return Err(SurveyError::NothingUnknown(id));
    }
    let mut document = document.clone();
    document.survey_by(options.seed)?;
    let settings: Vec<_> =
        (1..=options.samples).map(|number| space.setting(number, options.seed.into())).collect();
    let mut points = Vec::new();
    for setting in &settings {
        let number = setting.number.to_string();
        points.extend(document.plan_at(setting)?.into_iter().map(|planned| at(&number, planned)));
    }
    let study = Study {
        experiment: document.experiment().clone(),
        text: document.to_toml()?,
        points,
        each: None,
        part: None,
    };
    let engine = |scenario: &Scenario, seed| {
        let mut outcome =
            trunkline_engine::run_watched(&options.engine, scenario, seed, Control::unwatched(stop))?;
        // Nothing is asked of them.
        outcome.distributions.clear();
        outcome.series = None;
        Ok(outcome)
    };
    let how = Campaigning {
        engine: options.engine.clone(),
        jobs: options.jobs,
        out: options.out.clone(),
        begin: options.begin,
    };
    let Campaign { complete, failures, interrupted } =
        campaign::run_with(&engine, &[study], &how, stop, progress)?;
    let mut refused = BTreeMap::new();
    for refusal in complete.into_iter().flat_map(|complete| complete.refused) {
        *refused.entry(refusal.why).or_default() += 1;
    }
    let directory = Directory::open(&options.out.join(&id))?;
    let runs = by_sample(directory.runs()?);
    let survey = regret::survey(&document, &spec, &settings, &runs, options);
    let json = serde_json::to_vec_pretty(&survey).unwrap_or_default();
    directory.write(SUMMARY, &json)?;
    write_worst(&document, &survey, &settings, &directory)?;
    Ok(Surveyed { survey, directory, failures, refused, interrupted })
}

/// A point of a sample, along an axis of their own.
fn at(number: &str, planned: Planned) -> Planned {
    let mut point = Point::from([(SAMPLE_AXIS.to_owned(), number.to_owned())]);
    point.extend(planned.point);
    let mut scenario = planned.scenario;
    scenario.series = None;
    Planned { point, scenario }
}

/// By sample and variant.
type Runs = BTreeMap<u32, BTreeMap<String, Run>>;

fn by_sample(runs: Vec<Run>) -> Runs {
    let mut all = Runs::new();
    for mut run in runs {
        let number = run.point.shift_remove(SAMPLE_AXIS).and_then(|number| number.parse().ok());
        let variant = run.point.values().next().cloned();
        if let (Some(number), Some(variant)) = (number, variant) {
            all.entry(number).or_default().insert(variant, run);
        }
    }
    all
}

/// Writes each of the worst samples as an experiment of its own.
fn write_worst(
    document: &Document,
    survey: &Survey,
    settings: &[Setting],
    directory: &Directory,
) -> Result<(), SurveyError> {
    let path = directory.path().join(WORST);
    clear(directory.path())?;
    fs::create_dir_all(&path).map_err(|error| StoreError::io("make", &path, error))?;
    for number in survey.worst() {
        let Some(setting) = settings.get(number as usize - 1) else { continue };
        let id = format!("{}-s{}-{number}", survey.experiment, survey.seed);
        let id = &id[id.len().saturating_sub(64)..];
        let title = format!("{}: sample {number} of seed {}", survey.title, survey.seed);
        let text = document.to_toml_at(setting, id, &title)?;
        let about: Vec<String> = survey.about(number).iter().map(|line| format!("# {line}\n")).collect();
        let about = about.concat();
        store::replace(&path.join(survey.file(number)), format!("{about}{text}").as_bytes())?;
    }
    Ok(())
}

/// Removes the files of an earlier survey's worst samples.
fn clear(path: &Path) -> Result<(), StoreError> {
    let path = path.join(WORST);
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", &path, error)),
        _ => Ok(()),
    }
}
