//! Rounds of runs: of several experiments at a time, so that no thread waits for the last run of one.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use trunkline_engine::scenario::Scenario;
use trunkline_engine::{Control, Engine};

use super::division::{self, Bounds, State};
use super::judged::is_decided;
use super::replay::{Extent, Replay, Settings};
use super::{ExplainError, Explained, Options};
use crate::campaign::{self, Campaign, Failure, Options as Campaigning, Progress, Study};
use crate::document::Document;
use crate::plan::{Planned, Setting, Space};
use crate::results::{Point, SETTING_AXIS};
use crate::store::{Begin, Directory};
use crate::verdict;

/// An experiment on its way to an answer.
pub(super) struct Course {
    document: Document,
    text: String,
    space: Space,
    planned: Vec<Planned>,
    /// The points that values and claims are about.
    read: Vec<Point>,
    begin: Begin,
    /// Settings that were drawn and run.
    settings: u32,
    decided: bool,
    finished: bool,
    failures: Vec<Failure>,
    directory: Option<Directory>,
}

/// By setting, the runs of it.
type Wanted = BTreeMap<u32, u32>;

impl Course {
    /// Plans what the file chooses, and settings with each choice and both ends of each range.
    pub(super) fn prepare(document: &Document, options: &Options) -> Result<Self, ExplainError> {
        let mut document = document.clone();
        let planned = document.plan()?;
        let space = document.space();
        if space.is_empty() {
            return Err(ExplainError::NothingUnknown(document.experiment().id.clone()));
        }
        document.sample_by(options.seed)?;
        for corner in space.corners() {
            document.plan_at(&corner)?;
        }
        let read = verdict::read(document.experiment(), &planned).into_iter().cloned().collect();
        Ok(Course {
            text: document.to_toml()?,
            document,
            space,
            planned,
            read,
            begin: options.begin,
            settings: 0,
            decided: false,
            finished: false,
            failures: Vec::new(),
            directory: None,
        })
    }

    fn id(&self) -> &str {
        &self.document.experiment().id
    }

    /// Setting 0 at all points, the others at those that are read.
    fn study(&self, wanted: &Wanted, seed: u64) -> Result<Study, ExplainError> {
        let (mut points, mut each) = (Vec::new(), Vec::new());
        for (number, runs) in wanted {
            let setting = self.space.setting(*number, seed);
            let planned = self.document.plan_at(&setting)?;
            let is_read = |planned: &Planned| *number == 0 || self.read.contains(&planned.point);
            points.extend(planned.into_iter().filter(is_read).map(|planned| at(&setting, planned)));
            each.resize(points.len(), *runs);
        }
        let experiment = self.document.experiment().clone();
        Ok(Study { experiment, text: self.text.clone(), points, each: Some(each), part: None })
    }

    fn replay(&self, extent: Extent) -> Result<Replay, ExplainError> {
        let runs = self.directory.as_ref().map(Directory::runs).transpose()?.unwrap_or_default();
        let read: Vec<&Point> = self.read.iter().collect();
        Ok(Settings::of(self.document.experiment(), &self.planned, &read, runs).replay(extent))
    }

    /// Seconds of a thread for a setting, and for confirming it, by the runs there are.
    fn state(&self, options: &Options) -> Result<State, ExplainError> {
        let pace = self.directory.as_ref().map(Directory::pace).transpose()?.flatten();
        let full = self.document.experiment().runs;
        let few = options.runs.min(full);
        let points = self.read.len() as f64 * pace.map_or(0.0, |pace| pace.as_secs_f64());
        Ok(State {
            settings: self.settings,
            decided: self.decided,
            seconds: points * f64::from(few),
            confirming: points * f64::from(full - few),
        })
    }
}

/// The experiments, and who is told.
pub(super) struct Rounds<'a, P, D> {
    pub(super) courses: Vec<Course>,
    pub(super) options: &'a Options,
    pub(super) stop: &'a AtomicBool,
    pub(super) progress: P,
    pub(super) done: D,
}

/// It was told to stop.
struct Stopped;

impl<P: FnMut(Progress<'_>), D: FnMut(Explained)> Rounds<'_, P, D> {
    pub(super) fn run(mut self) -> Result<(), ExplainError> {
        let end = self.options.budget.map(|budget| Instant::now() + budget);
        let bounds = Bounds { least: self.options.least, most: self.options.settings };
        loop {
            let states: Vec<State> =
                self.courses.iter().map(|course| course.state(self.options)).collect::<Result<_, _>>()?;
            let left = end.map(|end| {
                end.saturating_duration_since(Instant::now()).as_secs_f64() * self.options.jobs as f64
            });
            let next = division::next(&states, bounds, left);
            if next.iter().all(Option::is_none) {
                break;
            }
            if self.draw(&next)?.is_err() {
                return self.leave();
            }
            let due: Vec<usize> =
                (0..next.len()).filter(|place| self.is_due(*place, next[*place], bounds)).collect();
            if self.confirm(&due, Extent::Answers)?.is_err() {
                return self.leave();
            }
            let states: Vec<State> =
                self.courses.iter().map(|course| course.state(self.options)).collect::<Result<_, _>>()?;
            let complete: Vec<usize> = (0..states.len())
                .filter(|place| !self.courses[*place].finished && bounds.is_complete(&states[*place]))
                .collect();
            if self.finish(&complete)?.is_err() {
                return self.leave();
            }
        }
        let rest: Vec<usize> =
            (0..self.courses.len()).filter(|place| !self.courses[*place].finished).collect();
        if self.finish(&rest)?.is_err() { self.leave() } else { Ok(()) }
    }

    /// Whether an experiment has just come to where one looks at what it says.
    fn is_due(&self, place: usize, target: Option<u32>, bounds: Bounds) -> bool {
        target.is_some_and(|target| target >= bounds.least.min(bounds.most)) && !self.courses[place].finished
    }

    /// Draws settings up to these numbers, and runs what is missing of them.
    fn draw(&mut self, next: &[Option<u32>]) -> Result<Result<(), Stopped>, ExplainError> {
        let mut wanted = Vec::new();
        for (course, target) in self.courses.iter().zip(next) {
            let full = course.document.experiment().runs;
            let numbers = target.map(|target| course.settings + 1..=target).into_iter().flatten();
            let mut runs: Wanted = numbers.map(|number| (number, self.options.runs.min(full))).collect();
            if course.settings == 0 && target.is_some() {
                runs.insert(0, full);
            }
            wanted.push(runs);
        }
        let went = self.campaign(&wanted)?;
        if went.is_ok() {
            for (course, target) in self.courses.iter_mut().zip(next) {
                course.settings = target.unwrap_or(course.settings);
            }
        }
        Ok(went)
    }

    /// Runs settings of these experiments as often as their files say, until what they say rests on such.
    fn confirm(&mut self, places: &[usize], extent: Extent) -> Result<Result<(), Stopped>, ExplainError> {
        let mut open = places.to_vec();
        let mut failed = self.courses.iter().map(|course| course.failures.len()).collect::<Vec<_>>();
        while !open.is_empty() {
            let mut wanted = vec![Wanted::new(); self.courses.len()];
            let mut still = Vec::new();
            for place in open {
                let course = &mut self.courses[place];
                let full = course.document.experiment().runs;
                let Replay { judged, missing } = course.replay(extent)?;
                course.decided = is_decided(course.document.experiment(), &judged);
                // A run that failed fails again.
                let fails = course.failures.len() > failed[place];
                failed[place] = course.failures.len();
                if !missing.is_empty() && !fails {
                    wanted[place] = missing.into_iter().map(|number| (number, full)).collect();
                    still.push(place);
                }
            }
            open = still;
            if self.campaign(&wanted)?.is_err() {
                return Ok(Err(Stopped));
            }
        }
        Ok(Ok(()))
    }

    /// Completes these experiments.
    fn finish(&mut self, places: &[usize]) -> Result<Result<(), Stopped>, ExplainError> {
        if self.confirm(places, Extent::All)?.is_err() {
            return Ok(Err(Stopped));
        }
        for place in places {
            self.tell(*place, false)?;
        }
        Ok(Ok(()))
    }

    /// Tells what there is of all that are not complete.
    fn leave(mut self) -> Result<(), ExplainError> {
        for place in 0..self.courses.len() {
            if !self.courses[place].finished {
                self.tell(place, true)?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, place: usize, interrupted: bool) -> Result<(), ExplainError> {
        let course = &mut self.courses[place];
        course.finished = true;
        let path = self.options.out.join(course.id());
        let directory = course.directory.take().map_or_else(|| Directory::open(&path), Ok)?;
        (self.done)(Explained { directory, failures: std::mem::take(&mut course.failures), interrupted });
        Ok(())
    }

    /// Runs what is wanted of each experiment and is not there.
    fn campaign(&mut self, wanted: &[Wanted]) -> Result<Result<(), Stopped>, ExplainError> {
        let mut places = Vec::new();
        let mut studies = Vec::new();
        for (place, wanted) in wanted.iter().enumerate().filter(|(_, wanted)| !wanted.is_empty()) {
            studies.push(self.courses[place].study(wanted, self.options.seed)?);
            places.push(place);
        }
        let engine = |scenario: &Scenario, seed| {
            let mut outcome =
                trunkline_engine::run_watched(&Engine::Sim, scenario, seed, Control::unwatched(self.stop))?;
            // No answer needs them.
            outcome.distributions.clear();
            outcome.series = None;
            Ok(outcome)
        };
        // All that are in a round begin in the same way: only the first round begins anything.
        let begin = places.first().map_or(Begin::Resume, |place| self.courses[*place].begin);
        let how = Campaigning {
            engine: Engine::Sim,
            jobs: self.options.jobs,
            out: self.options.out.clone(),
            begin,
        };
        let Campaign { complete, failures, interrupted } =
            campaign::run_with(&engine, &studies, &how, self.stop, &mut self.progress)?;
        for place in &places {
            self.courses[*place].begin = Begin::Resume;
        }
        for one in complete {
            let course = self.courses.iter_mut().find(|course| course.id() == one.experiment.id);
            if let Some(course) = course {
                course.directory = Some(one.directory);
            }
        }
        for failure in failures {
            let course = self.courses.iter_mut().find(|course| course.id() == failure.experiment);
            if let Some(course) = course {
                course.failures.push(failure);
            }
        }
        Ok(if interrupted { Err(Stopped) } else { Ok(()) })
    }
}

/// A point of a setting, along an axis of their own.
fn at(setting: &Setting, planned: Planned) -> Planned {
    let mut point = Point::from([(SETTING_AXIS.to_owned(), setting.number.to_string())]);
    point.extend(planned.point);
    let mut scenario = planned.scenario;
    scenario.series = None;
    Planned { point, scenario }
}
