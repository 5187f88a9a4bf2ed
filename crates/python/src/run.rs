//! Running an experiment while Python does other things.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use trunkline_engine::Engine;
use trunkline_lab::campaign::{self, Campaign, Options, RunPart, Study};
use trunkline_lab::document::Document;
use trunkline_lab::store::Begin;

use crate::error::{RunError, mistaken, stored};
use crate::results::Results;

/// How long a Ctrl-C waits at most.
const LOOK: Duration = Duration::from_millis(100);

/// A directory that goes with this.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> std::io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("trunkline-{}-{number}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Temporary(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What cannot be removed is in nobody's way.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How far it is: runs that are done, all runs, and seconds that are left, if that can be told.
type Told = (usize, usize, Option<f64>);

/// How an experiment is to be run.
pub(crate) struct Wanted {
    pub(crate) jobs: Option<usize>,
    pub(crate) out: Option<PathBuf>,
    pub(crate) begin: Begin,
    pub(crate) part: Option<RunPart>,
}

pub(crate) fn run(
    py: Python<'_>,
    experiment: &Document,
    wanted: &Wanted,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Results> {
    let study = Study::new(experiment).map_err(|mistakes| mistaken(py, &mistakes))?;
    let study = Study { part: wanted.part, ..study };
    let temporary =
        match &wanted.out {
            Some(_) => None,
            None => Some(Temporary::new().map_err(|error| {
                PyOSError::new_err(format!("cannot make a directory for results: {error}"))
            })?),
        };
    let made = temporary.as_ref().map(|made| made.0.clone());
    let place = wanted.out.clone().or(made).unwrap_or_default();
    let jobs = wanted.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let options = Options { engine: Engine::Sim, jobs, out: place.clone(), begin: wanted.begin };
    let campaign = campaign(py, &study, &options, progress)?;
    if campaign.interrupted {
        return Err(RunError::new_err(format!(
            "stopped; finished runs are kept in {}: begin=\"resume\" goes on",
            place.display()
        )));
    }
    let failures: Vec<String> = campaign.failures.iter().map(ToString::to_string).collect();
    if campaign.complete.is_empty() || (!failures.is_empty() && failures.len() == study.runs()) {
        let first = failures.first().map_or("no run", String::as_str);
        return Err(RunError::new_err(format!("all runs failed, the first: {first}")));
    }
    let results = Results::read(py, &place.join(&study.experiment.id), failures)?;
    Ok(if temporary.is_some() { results.without_directory() } else { results })
}

/// Runs it on other threads. This one looks after signals, and calls back. What either raises ends the run.
fn campaign(
    py: Python<'_>,
    study: &Study,
    options: &Options,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Campaign> {
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel::<Told>();
    let receiver = std::sync::Mutex::new(receiver);
    thread::scope(|scope| {
        let stop = &stop;
        let runner = scope.spawn(move || {
            campaign::run(std::slice::from_ref(study), options, stop, |progress| {
                let left = progress.left.map(|left| left.as_secs_f64());
                // Whoever listened may have raised something.
                let _ = sender.send((progress.done, progress.total, left));
            })
        });
        let mut raised = None;
        loop {
            let next = py.detach(|| receiver.lock().ok().map(|receiver| receiver.recv_timeout(LOOK)));
            let told = match next {
                Some(Ok(told)) => Some(told),
                Some(Err(RecvTimeoutError::Timeout)) => None,
                Some(Err(RecvTimeoutError::Disconnected)) | None => break,
            };
            let outcome = py.check_signals().and_then(|()| match (told, progress) {
                (Some(told), Some(progress)) if raised.is_none() => progress.call1(told).map(|_| ()),
                _ => Ok(()),
            });
            if let Err(error) = outcome {
                stop.store(true, Ordering::Relaxed);
                raised.get_or_insert(error);
            }
        }
        let campaign = py.detach(|| runner.join());
        if let Some(error) = raised {
            return Err(error);
        }
        match campaign {
            Ok(campaign) => campaign.map_err(|error| stored(&error)),
            Err(_) => Err(RunError::new_err("the run's thread panicked (please report it)")),
        }
    })
}
