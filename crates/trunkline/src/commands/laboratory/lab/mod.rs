//! `lab`: experiments in a simulator and on this machine's kernel.

mod advise;
mod agree;
mod capture;
mod check;
mod demo;
mod explain;
mod export;
mod import;
mod merge;
mod papers;
mod progress;
mod report;
mod run;
mod scorecard;
mod survey;
mod verdicts;
#[cfg(feature = "web")]
mod watch;

pub(crate) use demo::demo;

use std::collections::BTreeSet;
use std::path::Path;
use std::thread::available_parallelism;

use trunkline_engine::Engine;
use trunkline_lab::campaign::Study;
use trunkline_lab::document::{Document, Mistakes};
use trunkline_lab::embedded::open;
use trunkline_lab::number::count;
use trunkline_lab::plan::Planned;
use trunkline_lab::report::ReportError;
use trunkline_lab::store::StoreError;
use trunkline_testbed::privilege;

use crate::cli::laboratory::{Changes, LabCommand};
use crate::failure::Failure;
use crate::output::{print, remark};

pub(crate) fn lab(command: &LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::Run(arguments) => run::run(arguments),
        LabCommand::Agree(arguments) => agree::agree(arguments),
        LabCommand::Papers(arguments) => papers::papers(arguments),
        LabCommand::Explain(arguments) => explain::explain(arguments),
        LabCommand::Survey(arguments) => survey::survey(arguments),
        LabCommand::Advise(arguments) => advise::advise(arguments),
        LabCommand::Scorecard(arguments) => scorecard::scorecard(arguments),
        LabCommand::Import(arguments) => import::import(arguments),
        LabCommand::Capture(arguments) => capture::capture(arguments),
        #[cfg(feature = "web")]
        LabCommand::Watch(arguments) => watch::watch(arguments),
        LabCommand::Export(arguments) => export::export(arguments),
        LabCommand::Merge(arguments) => merge::merge(arguments),
        LabCommand::Check(arguments) => check::check(arguments),
        LabCommand::Report(arguments) => report::report(arguments),
        LabCommand::Schema => print(&trunkline_lab::schema::text()),
    }
}

/// Collects the mistakes of all files, so that one message has all of them.
#[derive(Default)]
struct Errors(Vec<String>);

impl Errors {
    /// The value of a file without mistakes; otherwise collects the mistakes.
    fn check<T>(&mut self, outcome: Result<T, Mistakes>) -> Option<T> {
        outcome.map_err(|mistakes| self.0.extend(mistakes.0.iter().map(ToString::to_string))).ok()
    }

    fn add(&mut self, text: String) {
        self.0.push(text);
    }

    /// Prints all mistakes, each in a line that begins with its place. The failure ends with `consequence`.
    fn finish(self, consequence: &str) -> Result<(), Failure> {
        if self.0.is_empty() { Ok(()) } else { Err(self.failure(consequence)) }
    }

    fn failure(self, consequence: &str) -> Failure {
        for line in &self.0 {
            remark(line);
        }
        Failure::Input(format!("{}, {consequence}", count(self.0.len(), "mistake")))
    }
}

/// Runs at a time: those asked for, or as many as this machine can make with the engine.
fn jobs(given: Option<u16>, engine: &Engine) -> usize {
    let usual = || engine.jobs(available_parallelism().map_or(1, usize::from));
    given.map_or_else(usual, usize::from)
}

/// The engine with what it needs of this machine. Call it before the first thread starts.
fn ready(engine: &Engine) -> Result<Engine, Failure> {
    match engine {
        Engine::Sim => Ok(Engine::Sim),
        Engine::Testbed { attempts, .. } => {
            privilege::acquire().map_err(|missing| Failure::Lacking(format!("the testbed: {missing}")))?;
            let program = std::env::current_exe().map_err(Failure::doing("cannot find this program"))?;
            Ok(Engine::Testbed { program: Some(program), attempts: *attempts })
        }
    }
}

/// The points of one experiment. Mistakes are printed, and the failure ends with `consequence`.
fn study_of(changes: &Changes, file: &Path, engine: &Engine, consequence: &str) -> Result<Study, Failure> {
    let mut errors = Errors::default();
    let document = errors.check(changes.read(file, engine));
    let study = document.and_then(|document| errors.check(Study::new(&document)));
    match study {
        Some(study) => Ok(study),
        None => Err(errors.failure(consequence)),
    }
}

/// The place of the first point of the sweep with these values.
fn point_at(study: &Study, at: &[(String, String)]) -> Result<usize, Failure> {
    for (axis, value) in at {
        let values: BTreeSet<&str> =
            study.points.iter().filter_map(|planned| planned.point.get(axis)).map(String::as_str).collect();
        let allowed: Vec<&str> = if values.is_empty() {
            study.experiment.sweep.keys().map(String::as_str).collect()
        } else if values.contains(value.as_str()) {
            continue;
        } else {
            values.into_iter().collect()
        };
        let allowed =
            if allowed.is_empty() { "no --at: it has no sweep".to_owned() } else { allowed.join(", ") };
        return Err(Failure::Input(format!("--at {axis}={value}: not in the sweep; allowed: {allowed}")));
    }
    let has = |planned: &Planned| at.iter().all(|(axis, value)| planned.point.get(axis) == Some(value));
    study.points.iter().position(has).ok_or_else(|| {
        let wanted: Vec<_> = at.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        Failure::Input(format!("no point of the sweep is at {}", wanted.join(", ")))
    })
}

impl Changes {
    /// An experiment with these changes, as they are for an engine.
    fn apply(&self, mut document: Document, engine: &Engine) -> Result<Document, Mistakes> {
        if self.quick {
            document.quicken_for(engine)?;
        }
        for (path, value) in &self.set {
            document.set(path, value)?;
        }
        document.use_recordings(self.recordings.as_deref())?;
        Ok(document)
    }

    /// The same of a file, or of an embedded experiment by its id.
    fn read(&self, path: &Path, engine: &Engine) -> Result<Document, Mistakes> {
        let document = self.apply(open(path)?, engine)?;
        if let Some(note) = document.left_out() {
            remark(&note);
        }
        Ok(document)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        if error.is_input() { Failure::Input(error.to_string()) } else { Failure::Other(error.to_string()) }
    }
}

/// A failure of reading or writing a report.
fn failure(error: ReportError) -> Failure {
    match error {
        ReportError::Store(error) => error.into(),
        ReportError::Document(mistakes) => Failure::Input(mistakes.to_string()),
    }
}
