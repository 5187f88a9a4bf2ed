//! Running experiments: every point with every seed, over as many threads as wanted, into their directories.
//!
//! Runs are independent of each other, each a function of its scenario and seed, so that the order in which they finish changes
//! nothing of what is left in the end: results are made of runs in the sweep's order. Of several at a time the
//! longest are begun first, by [estimate](work), so that none is left alone at the end; one at a time they run in the sweep's order. A run that fails costs itself; one that panics too, since that is a
//! mistake of the engine and not of the others.

mod counter;
mod machine;
mod merge;
mod part;
mod room;
mod summary;
#[cfg(test)]
mod tests;
mod work;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::VERSION;
use crate::document::{Document, Mistakes};
use crate::experiment::Experiment;
use crate::plan::Planned;
use crate::results::{self, Outcome, Point, PointResult, Refusal, Run};
use crate::store::{self, Begin, Directory, Hold, Identity, Journal, StoreError};
use crate::threads;
use crate::verdict::{self, Judgement};

use counter::Counter;
pub use merge::{Merged, merge};
pub use part::RunPart;
use room::Room;
pub use summary::{finite, summarise};
use trunkline_engine::scenario::Scenario;
use trunkline_engine::{Control, EngineError};
pub use work::work;

/// An experiment that is ready to run.
#[derive(Debug, Clone)]
pub struct Study {
    /// What it is.
    pub experiment: Experiment,
    /// The same as TOML, with all that was set.
    pub text: String,
    /// Every point.
    pub points: Vec<Planned>,
    /// Runs at each point, where these are not the experiment's at all of them.
    pub each: Option<Vec<u32>>,
    /// Which of its runs are made here; all, if it says none.
    pub part: Option<RunPart>,
}

impl Study {
    /// Plans every point.
    pub fn new(document: &Document) -> Result<Self, Mistakes> {
        let points = document.plan()?;
        Ok(Study {
            experiment: document.experiment().clone(),
            text: document.to_toml()?,
            points,
            each: None,
            part: None,
        })
    }

    /// How many runs it has.
    pub fn runs(&self) -> usize {
        self.possible(&[])
    }

    fn runs_at(&self, point: usize) -> u32 {
        self.each.as_ref().and_then(|each| each.get(point).copied()).unwrap_or(self.experiment.runs)
    }

    fn seeds(&self, point: usize) -> impl Iterator<Item = u64> {
        let first = self.experiment.seed;
        // Where the point's first run is among all.
        let before: u64 = match &self.each {
            Some(each) => each.iter().take(point).copied().map(u64::from).sum(),
            None => point as u64 * u64::from(self.experiment.runs),
        };
        let here = move |run: &u64| self.part.is_none_or(|part| part.has(before + run));
        (0..u64::from(self.runs_at(point))).filter(here).map(move |run| first.wrapping_add(run))
    }

    /// The runs without those of points that the engine cannot be.
    fn possible(&self, refused: &[Refusal]) -> usize {
        let possible = |planned: &Planned| refused.iter().all(|refusal| refusal.point != planned.point);
        let points = self.points.iter().enumerate().filter(|(_, planned)| possible(planned));
        points.map(|(point, _)| self.seeds(point).count()).sum()
    }
}

/// How experiments are run.
#[derive(Debug, Clone)]
pub struct Options {
    /// What carries them out.
    pub engine: trunkline_engine::Engine,
    /// Runs at a time; at least 1. Of an engine in real time fewer, if the machine would not keep up with them.
    pub jobs: usize,
    /// Each experiment's results are in a directory of its id in here.
    pub out: PathBuf,
    /// What is done with results that are there already.
    pub begin: Begin,
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// What happened.
    pub event: Event<'a>,
    /// Runs that are done, and those that were before.
    pub done: usize,
    /// All runs.
    pub total: usize,
    /// How long the rest will take, by what was done so far; none before anything was.
    pub left: Option<Duration>,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// It begins.
    Begun,
    /// A run finished.
    Finished(&'a Run),
    /// A run failed.
    Failed(&'a Failure),
    /// All runs of an experiment are done.
    Complete(&'a Complete),
}

/// A run without an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The experiment's id.
    pub experiment: String,
    /// Where in the sweep.
    pub point: Point,
    /// The seed.
    pub seed: u64,
    /// Why.
    pub why: String,
    /// The engine panicked: that is a mistake in it.
    pub panicked: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.panicked { " (the engine panicked: please report it)" } else { "" };
        write!(f, "{}{}, seed {}: {}{whose}", self.experiment, results::at(&self.point), self.seed, self.why)
    }
}

/// What came of an experiment.
#[derive(Debug, Clone)]
pub struct Complete {
    /// What it is.
    pub experiment: Experiment,
    /// Where its results are.
    pub directory: Directory,
    /// A result for each point that has a run.
    pub results: Vec<PointResult>,
    /// How its claims and published values came out.
    pub judgement: Judgement,
    /// What the engine did otherwise than the experiment says.
    pub substitutions: Vec<String>,
    /// Points that are not on this engine.
    pub refused: Vec<Refusal>,
}

/// What came of a campaign.
#[derive(Debug, Clone, Default)]
pub struct Campaign {
    /// Experiments that are done, in the order in which they were given.
    pub complete: Vec<Complete>,
    /// Runs that failed.
    pub failures: Vec<Failure>,
    /// It was told to stop, with experiments that are not done.
    pub interrupted: bool,
}

/// Runs all experiments. What has finished is in their directories whatever happens; `stop` ends it early; it is set
/// if results cannot be written.
pub fn run(
    studies: &[Study],
    options: &Options,
    stop: &AtomicBool,
    progress: impl FnMut(Progress<'_>),
) -> Result<Campaign, StoreError> {
    run_watched(studies, options, Control::unwatched(stop), progress)
}

/// The same, while somebody watches the runs.
pub fn run_watched(
    studies: &[Study],
    options: &Options,
    control: Control<'_>,
    progress: impl FnMut(Progress<'_>),
) -> Result<Campaign, StoreError> {
    let engine =
        |scenario: &Scenario, seed| trunkline_engine::run_watched(&options.engine, scenario, seed, control);
    run_with(&engine, studies, options, control.stop, progress)
}

/// What makes an outcome of a scenario and a seed.
pub(crate) type Runner<'a> = dyn Fn(&Scenario, u64) -> Result<Outcome, EngineError> + Sync + 'a;

/// A run that is to be made.
#[derive(Debug, Clone, Copy)]
struct Job {
    study: usize,
    point: usize,
    seed: u64,
    work: f64,
    /// Packets over links a second.
    load: f64,
}

/// An experiment while it runs.
struct Open {
    journal: Journal,
    runs: Vec<Run>,
    refused: Vec<Refusal>,
    /// Runs that have neither finished nor failed.
    left: usize,
}

/// Runs all experiments by what makes their outcomes.
pub(crate) fn run_with(
    engine: &Runner<'_>,
    studies: &[Study],
    options: &Options,
    stop: &AtomicBool,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<Campaign, StoreError> {
    let (mut open, mut jobs) = begin(studies, options)?;
    let room = Room::of(&options.engine);
    let at_a_time = room.at_a_time(jobs.iter().map(|job| (job.work, job.load))).min(options.jobs as f64);
    let refused = |open: &Option<Open>| open.as_ref().map_or(Vec::new(), |open| open.refused.clone());
    let total = studies.iter().zip(&open).map(|(study, open)| study.possible(&refused(open))).sum();
    let mut counter = Counter::new(studies.len(), total, &jobs, at_a_time);
    let mut campaign = Campaign::default();
    let mut complete: Vec<(usize, Complete)> = Vec::new();
    progress(counter.progress(Event::Begun));
    for study in 0..studies.len() {
        if let Some(over) = open[study].take_if(|open| open.left == 0) {
            let done = close(&studies[study], over.journal, over.runs, over.refused)?;
            progress(counter.progress(Event::Complete(&done)));
            complete.push((study, done));
        }
    }
    // Taken from the end. In real time the largest loads go first, since the others have room beside them.
    // One at a time they take as long in any order, and whoever watches expects the sweep's.
    let size = |job: &Job| match options.jobs {
        0 | 1 => 0.0,
        _ if room.is_bounded() => job.work * job.load,
        _ => job.work,
    };
    jobs.sort_by(|a, b| {
        size(a).total_cmp(&size(b)).then_with(|| (b.study, b.point, b.seed).cmp(&(a.study, a.point, a.seed)))
    });
    let work = |job: Job| {
        let _taken = room.take(job.load);
        if stop.load(Ordering::Relaxed) {
            return (Duration::ZERO, Err(EngineError::Stopped));
        }
        let begin = Instant::now();
        let scenario = &studies[job.study].points[job.point].scenario;
        let outcome = trunkline_engine::guarded(|| engine(scenario, job.seed));
        (begin.elapsed(), outcome)
    };
    threads::each(options.jobs, jobs, stop, work, |job, (took, outcome)| {
        let study = &studies[job.study];
        let Some(here) = &mut open[job.study] else { return Ok(()) };
        if outcome != Err(EngineError::Stopped) {
            counter.count(&job, took);
        }
        match outcome {
            Ok(outcome) => {
                let run = Run {
                    experiment: study.experiment.id.clone(),
                    engine: options.engine.name().to_owned(),
                    point: study.points[job.point].point.clone(),
                    seed: job.seed,
                    outcome: finite(outcome),
                    version: VERSION.to_owned(),
                };
                here.journal.append(&run)?;
                here.journal.took(&run, took)?;
                progress(counter.progress(Event::Finished(&run)));
                here.runs.push(run);
            }
            Err(EngineError::Stopped) => return Ok(()),
            Err(error) => {
                let panicked = matches!(error, EngineError::Panicked(_));
                let failure = Failure {
                    experiment: study.experiment.id.clone(),
                    point: study.points[job.point].point.clone(),
                    seed: job.seed,
                    why: match error {
                        EngineError::Panicked(why) => why,
                        other => other.to_string(),
                    },
                    panicked,
                };
                progress(counter.progress(Event::Failed(&failure)));
                campaign.failures.push(failure);
            }
        }
        here.left -= 1;
        if let Some(over) = open[job.study].take_if(|open| open.left == 0) {
            let done = close(study, over.journal, over.runs, over.refused)?;
            progress(counter.progress(Event::Complete(&done)));
            complete.push((job.study, done));
        }
        Ok(())
    })?;
    complete.sort_by_key(|(study, _)| *study);
    campaign.complete = complete.into_iter().map(|(_, complete)| complete).collect();
    campaign.interrupted = open.iter().any(Option::is_some);
    campaign.failures.sort_by(|a, b| {
        let [one, other] = [a, b].map(|failure| (&failure.experiment, failure.seed));
        one.cmp(&other).then_with(|| a.point.iter().cmp(&b.point))
    });
    Ok(campaign)
}

/// Takes every directory, before anything is run, and says what is to be run.
fn begin(studies: &[Study], options: &Options) -> Result<(Vec<Option<Open>>, Vec<Job>), StoreError> {
    let path = |study: &Study| options.out.join(&study.experiment.id);
    // Before any of them is made.
    if options.begin == Begin::Fresh
        && let Some(taken) = studies.iter().map(path).find(|path| store::is_taken(path))
    {
        return Err(StoreError::Taken(taken));
    }
    // All of them, before what is in any is removed.
    let holds = studies.iter().map(|study| Hold::take(&path(study))).collect::<Result<Vec<_>, _>>()?;
    let (mut open, mut jobs) = (Vec::new(), Vec::new());
    for ((number, study), hold) in studies.iter().enumerate().zip(holds) {
        let identity = Identity { document: &study.text, engine: options.engine.name(), version: VERSION };
        let (journal, runs) = Journal::begin(hold, &identity, options.begin)?;
        let refused = refused(study, &options.engine);
        if let Some(machine) = machine::this(&options.engine, &refused) {
            journal.machine(&machine)?;
        }
        let mut there: HashMap<Vec<(&String, &String)>, BTreeSet<u64>> = HashMap::new();
        for run in &runs {
            there.entry(run.point.iter().collect()).or_default().insert(run.seed);
        }
        let mut left = 0;
        for (point, planned) in study.points.iter().enumerate() {
            if refused.iter().any(|refusal| refusal.point == planned.point) {
                continue;
            }
            let made = there.get(&planned.point.iter().collect::<Vec<_>>());
            let work = work(&planned.scenario, &options.engine);
            let load = room::load(&planned.scenario);
            let missing = study
                .seeds(point)
                .filter(|seed| made.is_none_or(|made| !made.contains(seed)))
                .map(|seed| Job { study: number, point, seed, work, load });
            let before = jobs.len();
            jobs.extend(missing);
            left += jobs.len() - before;
        }
        drop(there);
        open.push(Some(Open { journal, runs, refused, left }));
    }
    Ok((open, jobs))
}

/// The points that the engine cannot be, in the sweep's order.
fn refused(study: &Study, engine: &trunkline_engine::Engine) -> Vec<Refusal> {
    let refusal = |planned: &Planned| match trunkline_engine::check(engine, &planned.scenario) {
        Err(EngineError::Misfit { part, problem }) => {
            Some(Refusal { point: planned.point.clone(), why: format!("{part} {problem}") })
        }
        // What the machine lacks is said by each run.
        _ => None,
    };
    study.points.iter().filter_map(refusal).collect()
}

/// Writes what an experiment's runs give. What failed is missing, and is run again when the results are gone on with.
fn close(
    study: &Study,
    journal: Journal,
    mut runs: Vec<Run>,
    refused: Vec<Refusal>,
) -> Result<Complete, StoreError> {
    let (results, judgement) = settle(&study.experiment, &study.points, &mut runs, &refused);
    let directory = journal.finish(&runs, &results)?;
    let substitutions: BTreeSet<&String> = runs.iter().flat_map(|run| &run.outcome.substitutions).collect();
    let substitutions = substitutions.into_iter().cloned().collect();
    Ok(Complete {
        experiment: study.experiment.clone(),
        directory,
        results,
        judgement,
        substitutions,
        refused,
    })
}

/// Puts runs in the sweep's order, and says what they give: of those that are there, be they all or not.
pub(crate) fn settle(
    experiment: &Experiment,
    points: &[Planned],
    runs: &mut [Run],
    refused: &[Refusal],
) -> (Vec<PointResult>, Judgement) {
    let places: HashMap<Vec<(&String, &String)>, usize> =
        points.iter().enumerate().map(|(place, planned)| (planned.point.iter().collect(), place)).collect();
    runs.sort_by_cached_key(|run| (places.get(&run.point.iter().collect::<Vec<_>>()).copied(), run.seed));
    let mut results = summarise(runs);
    let judgement =
        verdict::judge(experiment, points.iter().map(|planned| &planned.point), &results, refused);
    verdict::annotate(&mut results, &judgement);
    (results, judgement)
}
