//! Running an experiment while Python does other things.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use trunkline_engine::Engine;
use trunkline_lab::campaign::{self, Options, Progress, RunPart, Study};
use trunkline_lab::document::Document;
use trunkline_lab::store::Begin;

use crate::error::{RunError, mistaken, stored};
use crate::results::Results;

/// How long a Ctrl-C waits at most.
const LOOK: Duration = Duration::from_millis(100);

/// A directory that goes with this.
pub(crate) struct Temporary(PathBuf);

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

impl Wanted {
    /// Where the results are, and what removes them if nobody asked for a place.
    pub(crate) fn place(&self) -> PyResult<(PathBuf, Option<Temporary>)> {
        match &self.out {
            Some(out) => Ok((out.clone(), None)),
            None => match Temporary::new() {
                Ok(made) => Ok((made.0.clone(), Some(made))),
                Err(error) => {
                    Err(PyOSError::new_err(format!("cannot make a directory for results: {error}")))
                }
            },
        }
    }

    /// Runs at a time.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
    }
}

pub(crate) fn stopped(place: &Path) -> PyErr {
    RunError::new_err(format!(
        "stopped; finished runs are kept in {}: begin=\"resume\" goes on",
        place.display()
    ))
}

pub(crate) fn run(
    py: Python<'_>,
    experiment: &Document,
    wanted: &Wanted,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Results> {
    let study = Study::new(experiment).map_err(|mistakes| mistaken(py, &mistakes))?;
    let study = Study { part: wanted.part, ..study };
    let (place, temporary) = wanted.place()?;
    let options =
        Options { engine: Engine::Sim, jobs: wanted.jobs(), out: place.clone(), begin: wanted.begin };
    let stop = AtomicBool::new(false);
    let campaign = on_other_threads(py, &stop, progress, |tell| {
        campaign::run(std::slice::from_ref(&study), &options, &stop, |progress| tell(&progress))
    })?
    .map_err(|error| stored(&error))?;
    if campaign.interrupted {
        return Err(stopped(&place));
    }
    let failures: Vec<String> = campaign.failures.iter().map(ToString::to_string).collect();
    if campaign.complete.is_empty() || (!failures.is_empty() && failures.len() == study.runs()) {
        let first = failures.first().map_or("no run", String::as_str);
        return Err(RunError::new_err(format!("all runs failed, the first: {first}")));
    }
    let results = Results::read(py, &place.join(&study.experiment.id), failures)?;
    Ok(if temporary.is_some() { results.without_directory() } else { results })
}

/// Runs something on other threads. This one looks after signals, and calls back with how far it is. What either raises sets `stop`.
pub(crate) fn on_other_threads<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    progress: Option<&Bound<'_, PyAny>>,
    run: impl FnOnce(&dyn Fn(&Progress<'_>)) -> T + Send,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::channel::<Told>();
    let receiver = std::sync::Mutex::new(receiver);
    thread::scope(|scope| {
        let runner = scope.spawn(move || {
            run(&|progress| {
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
        let ran = py.detach(|| runner.join());
        match (raised, ran) {
            (Some(error), _) => Err(error),
            (None, Ok(ran)) => Ok(ran),
            (None, Err(_)) => Err(RunError::new_err("the run's thread panicked (please report it)")),
        }
    })
}
