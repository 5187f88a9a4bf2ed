//! Experiments as objects.

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use trunkline_engine::Engine;
use trunkline_lab::campaign;
use trunkline_lab::document::Document;
use trunkline_lab::embedded;
use trunkline_lab::results::Point;

use crate::error::mistaken;
use crate::explanation::{self, Answer, Extent};
use crate::results::Results;
use crate::run::{Wanted, run};
use crate::value;

/// An experiment: a network, what is sent over it, what varies, and what is asked (docs/experiments.md). It does not change: what sets
/// something gives another one.
#[pyclass(frozen, module = "trunkline")]
#[derive(Clone)]
pub(crate) struct Experiment(pub(crate) Document);

impl Experiment {
    /// Who is told how far a run is: True is a bar, False nobody.
    fn listener<'py>(
        &self,
        py: Python<'py>,
        progress: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match progress {
            Some(switch) if switch.is_instance_of::<PyBool>() => {
                let bar = || py.import("trunkline._progress")?.getattr("Bar")?.call1((self.id(),));
                switch.is_truthy()?.then(bar).transpose()
            }
            other => Ok(other),
        }
    }

    fn changed(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut Document) -> Result<(), trunkline_lab::document::Mistakes>,
    ) -> PyResult<Experiment> {
        let mut document = self.0.clone();
        change(&mut document).map_err(|mistakes| mistaken(py, &mistakes))?;
        Ok(Experiment(document))
    }
}

fn runs_at_a_time(jobs: Option<Bound<'_, PyAny>>) -> PyResult<Option<usize>> {
    let jobs = jobs.map(|jobs| value::number("jobs", &jobs, 1..=1024)).transpose()?;
    Ok(jobs.map(|jobs| jobs as usize))
}

#[pymethods]
impl Experiment {
    /// Reads a file, or an experiment that comes with Trunkline by its id, such as `lee2002-table2`.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Experiment> {
        embedded::open(&path).map(Experiment).map_err(|mistakes| mistaken(py, &mistakes))
    }

    /// Reads a text in TOML. The name is for messages.
    #[staticmethod]
    #[pyo3(signature = (text, name = "experiment.toml"))]
    fn parse(py: Python<'_>, text: &str, name: &str) -> PyResult<Experiment> {
        Document::parse(name, text).map(Experiment).map_err(|mistakes| mistaken(py, &mistakes))
    }

    /// The same of a dict with the keys of a file.
    #[staticmethod]
    fn from_dict(py: Python<'_>, experiment: &Bound<'_, PyDict>) -> PyResult<Experiment> {
        Experiment::parse(py, &value::file(experiment)?, "dict")
    }

    /// The ids of the experiments that come with Trunkline.
    #[staticmethod]
    fn included() -> Vec<String> {
        embedded::all().flatten().map(|document| document.experiment().id.clone()).collect()
    }

    /// Another experiment, with this value at a path: `exp.set("links.wan.rate", "20 Mbit/s")`. `*` in the path is every name there is.
    fn set(&self, py: Python<'_>, path: &str, value: &Bound<'_, PyAny>) -> PyResult<Experiment> {
        let value = value::value(path, value)?;
        let origin = format!("set({path:?}, {value})");
        self.changed(py, |document| document.put(path, &value, &origin))
    }

    /// Another one, as its `[quick]` says: fewer and shorter runs.
    fn quick(&self, py: Python<'_>) -> PyResult<Experiment> {
        self.changed(py, Document::quicken)
    }

    /// Another one, which takes the recordings of links that it names from a directory.
    fn recordings(&self, py: Python<'_>, directory: PathBuf) -> PyResult<Experiment> {
        self.changed(py, |document| document.use_recordings(Some(Path::new(&directory))))
    }

    /// Name of its results.
    #[getter]
    fn id(&self) -> &str {
        &self.0.experiment().id
    }

    /// One line.
    #[getter]
    fn title(&self) -> &str {
        &self.0.experiment().title
    }

    /// How long a run takes at the most, in seconds of its own time.
    #[getter]
    fn duration(&self) -> f64 {
        self.0.experiment().duration.0.as_secs_f64()
    }

    /// Runs at each point, each with another seed.
    #[getter]
    fn runs(&self) -> u32 {
        self.0.experiment().runs
    }

    /// The first seed.
    #[getter]
    fn seed(&self) -> u64 {
        self.0.experiment().seed
    }

    /// Every point of its sweep, in order: for each axis, the name of its value there. Without a sweep there is one, which is empty.
    fn points(&self, py: Python<'_>) -> PyResult<Vec<Point>> {
        let planned = self.0.plan().map_err(|mistakes| mistaken(py, &mistakes))?;
        Ok(planned.into_iter().map(|planned| planned.point).collect())
    }

    /// An estimate of all of its runs: packets over links. A CPU simulates about a million of them in a second.
    fn work(&self, py: Python<'_>) -> PyResult<f64> {
        let planned = self.0.plan().map_err(|mistakes| mistaken(py, &mistakes))?;
        let each: f64 = planned.iter().map(|planned| campaign::work(&planned.scenario, &Engine::Sim)).sum();
        Ok(each * f64::from(self.runs()))
    }

    /// Checks everything that a run would. Raises `ExperimentError` with all that is wrong.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.0.plan().map(|_| ()).map_err(|mistakes| mistaken(py, &mistakes))
    }

    /// Runs all of its points with all of their seeds, in this process, while the interpreter is free.
    ///
    /// `jobs`: runs at a time (one for each CPU). `out`: a directory for the results, beside those of other experiments; without it they are
    /// in memory alone. `begin`: what is done with results that are there already: `fresh` refuses, `resume` goes on with them, `force`
    /// replaces them. `progress`: True shows it, in a terminal or a notebook; a callable gets runs that are done, all runs, and seconds that
    /// are left or None. What it raises, and Ctrl-C, ends the run within 0.1 s; what has finished is kept in `out`.
    ///
    /// `part`: makes only this part of the runs, such as `3/16`, for processes that share the work; `Results.merge` puts parts together.
    ///
    /// `executor`: a `concurrent.futures.Executor` that makes them, such as that of Dask's client, in the place of this process; `out` is then a
    /// directory that all workers see, or an address of a store (`trunkline.cluster.run`, which has more arguments).
    ///
    /// Raises `ExperimentError` with all that is wrong with the experiment, `RunError` if all runs failed or results cannot be written.
    #[expect(clippy::too_many_arguments, reason = "in Python they have names")]
    #[pyo3(signature = (*, jobs = None, out = None, begin = "fresh", part = None, progress = None, executor = None))]
    fn run(
        &self,
        py: Python<'_>,
        jobs: Option<Bound<'_, PyAny>>,
        out: Option<Bound<'_, PyAny>>,
        begin: &str,
        part: Option<&str>,
        progress: Option<Bound<'_, PyAny>>,
        executor: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<Results>> {
        let progress = self.listener(py, progress)?;
        if let Some(executor) = executor {
            let (Some(out), None, None, "fresh") = (out, jobs, part, begin) else {
                return Err(PyValueError::new_err(
                    "with an executor out is needed, and jobs, part and begin are not allowed: workers have a CPU each, and the same call \
                     goes on with what an interrupted one has left",
                ));
            };
            let arguments = (self.clone(), executor, out, progress);
            let results = py.import("trunkline.cluster")?.call_method1("run_by", arguments)?;
            return Ok(results.cast_into::<Results>()?.unbind());
        }
        let part = part.map(str::parse).transpose().map_err(PyValueError::new_err::<String>)?;
        let out = out.map(|out| out.extract()).transpose()?;
        let wanted = Wanted { jobs: runs_at_a_time(jobs)?, out, begin: value::begin(begin)?, part };
        Py::new(py, run(py, &self.0, &wanted, progress.as_ref())?)
    }

    /// Runs it at settings of its `[unknown]`, what its paper leaves open, and says which values and claims of the paper follow from any of
    /// them (`lab explain`). `settings`: at most so many; `least`: of an experiment of which all holds at one. `runs`: of each setting at each
    /// point, at first. `seed`: of the settings. The others are those of `run`.
    #[expect(clippy::too_many_arguments, reason = "in Python they have names")]
    #[pyo3(signature = (*, settings = None, least = None, runs = None, seed = None, jobs = None, out = None, begin = "fresh", progress = None))]
    fn explain(
        &self,
        py: Python<'_>,
        settings: Option<Bound<'_, PyAny>>,
        least: Option<Bound<'_, PyAny>>,
        runs: Option<Bound<'_, PyAny>>,
        seed: Option<Bound<'_, PyAny>>,
        jobs: Option<Bound<'_, PyAny>>,
        out: Option<PathBuf>,
        begin: &str,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Answer> {
        let number = |what, given: Option<Bound<'_, PyAny>>, allowed, default| {
            given.map_or(Ok(default), |given| value::number(what, &given, allowed))
        };
        let settings = number("settings", settings, 4..=65_535, 64)? as u32;
        let extent = Extent {
            settings,
            least: number("least", least, 4..=65_535, 32)?.min(settings.into()) as u32,
            runs: number("runs", runs, 1..=10_000, 1)? as u32,
            seed: number("seed", seed, 0..=u64::from(u32::MAX), 1)?,
        };
        let wanted = Wanted { jobs: runs_at_a_time(jobs)?, out, begin: value::begin(begin)?, part: None };
        explanation::explain(py, &self.0, &extent, &wanted, self.listener(py, progress)?.as_ref())
    }

    /// The experiment as a file, with all that was set.
    fn to_toml(&self, py: Python<'_>) -> PyResult<String> {
        self.0.to_toml().map_err(|mistakes| mistaken(py, &mistakes))
    }

    fn __repr__(&self) -> String {
        format!("<trunkline.Experiment {}: {}>", self.id(), self.title())
    }
}
