//! Results as objects.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::{PyAny, PyCapsule};
use trunkline_lab::campaign;
use trunkline_lab::report::{self, Answers};
use trunkline_lab::results::Verdict;
use trunkline_lab::store::{Directory, Tables};

use crate::error::{RunError, reported, stored};
use crate::table::Table;
use crate::value;

/// A claim of an experiment and how it came out.
#[pyclass(frozen, get_all, module = "trunkline")]
#[derive(Clone)]
pub(crate) struct Claim {
    /// What is said.
    text: String,
    /// `holds`, `differs`, `fails` or `undecided`.
    verdict: &'static str,
    /// The condition with its numbers.
    why: String,
}

#[pymethods]
impl Claim {
    fn __repr__(&self) -> String {
        format!("<trunkline.Claim {}: {}>", self.verdict, self.text)
    }
}

/// What came of an experiment.
#[pyclass(frozen, module = "trunkline")]
pub(crate) struct Results {
    answers: Answers,
    tables: Tables,
    /// Where they are, if somebody asked for a place.
    directory: Option<PathBuf>,
    failures: Vec<String>,
}

impl Results {
    pub(crate) fn read(py: Python<'_>, path: &Path, failures: Vec<String>) -> PyResult<Results> {
        let read = || {
            let answers = report::read(&Directory::open(path)?)?;
            Ok((Tables::of(&answers.runs), answers))
        };
        let (tables, answers) = py.detach(read).map_err(|error| reported(py, &error))?;
        let tables = tables.map_err(|error| RunError::new_err(error.to_string()))?;
        Ok(Results { answers, tables, directory: Some(path.to_owned()), failures })
    }

    pub(crate) const fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Their directory is one that nobody asked for, and goes.
    pub(crate) fn without_directory(self) -> Results {
        Results { directory: None, ..self }
    }
}

/// A page within that of a notebook.
pub(crate) fn framed(page: &str) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<iframe srcdoc=\"{page}\" sandbox=\"allow-scripts\" style=\"width:100%;height:40em;border:0\"></iframe>"
    )
}

#[pymethods]
impl Results {
    /// Reads results that were written into a directory, by Python or by `trunkline lab run`.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Results> {
        let mut all = Directory::all_in(&path).map_err(|error| stored(&error))?;
        match (all.pop(), all.len()) {
            (Some(one), 0) => Results::read(py, one.path(), Vec::new()),
            (_, others) => Err(RunError::new_err(format!(
                "{} has results of {} experiments; allowed: a directory of one",
                path.display(),
                others + 1
            ))),
        }
    }

    /// Puts the results of parts of an experiment's runs together, as if one process had made them, into a directory `ID` in `out`. Raises
    /// `RunError` if runs are missing, or if they do not belong together.
    #[staticmethod]
    #[pyo3(signature = (directories, out, *, begin = "fresh"))]
    fn merge(py: Python<'_>, directories: Vec<PathBuf>, out: PathBuf, begin: &str) -> PyResult<Results> {
        let begin = value::begin(begin)?;
        let merge = || {
            let parts =
                directories.iter().map(|path| Directory::all_in(path)).collect::<Result<Vec<_>, _>>()?;
            campaign::merge(&parts.concat(), &out, begin)
        };
        let merged = py.detach(merge).map_err(|error| reported(py, &error))?;
        match merged.as_slice() {
            [one] if one.complete.is_some() => Results::read(py, &out.join(&one.id), Vec::new()),
            [one] => Err(RunError::new_err(format!(
                "{} of {} runs of {}: the others are missing",
                one.runs, one.of, one.id
            ))),
            all => Err(RunError::new_err(format!("parts of {} experiments; allowed: one", all.len()))),
        }
    }

    /// A row for each run, a column for each metric.
    #[getter]
    fn runs(&self) -> Table {
        Table(self.tables.runs.clone())
    }

    /// The same in long form: a row for each metric of a run.
    #[getter]
    fn metrics(&self) -> Table {
        Table(self.tables.metrics.clone())
    }

    /// A row for each value that was recorded over time; None if nothing was.
    #[getter]
    fn series(&self) -> Option<Table> {
        self.tables.series.clone().map(Table)
    }

    /// The experiment's claims, and how they came out.
    #[getter]
    fn claims(&self) -> Vec<Claim> {
        let claims = self.answers.judgement.claims.iter();
        let claim = |claim: &trunkline_lab::results::ClaimOutcome| Claim {
            text: claim.text.clone(),
            verdict: match claim.verdict {
                Verdict::Holds => "holds",
                Verdict::Differs => "differs",
                Verdict::Fails => "fails",
                Verdict::Undecided => "undecided",
            },
            why: claim.why.clone(),
        };
        claims.map(claim).collect()
    }

    /// Runs that failed, and why: they are missing in the tables.
    #[getter]
    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }

    /// The directory with the results, if the run was given one.
    #[getter]
    fn directory(&self) -> Option<PathBuf> {
        self.directory.clone()
    }

    /// The report of the experiment: a page of HTML that loads nothing.
    fn report(&self) -> &str {
        &self.answers.page
    }

    /// The report, in a notebook.
    fn _repr_html_(&self) -> String {
        framed(&self.answers.page)
    }

    /// A dict for each point, as a line of `results.jsonl`: `point`, `runs`, and by metric its `mean`, `median`, `ci95`, `min`, `max`.
    #[getter]
    fn points<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.answers.results)
            .map_err(|error| RunError::new_err(error.to_string()))?;
        py.import("json")?.getattr("loads")?.call1((text,))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.runs().__arrow_c_stream__(py, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.runs().__arrow_c_schema__(py)
    }

    fn __len__(&self) -> usize {
        self.answers.runs.len()
    }

    fn __repr__(&self) -> String {
        let Answers { experiment, results, runs, .. } = &self.answers;
        format!("<trunkline.Results of {}: {} runs at {} points>", experiment.id, runs.len(), results.len())
    }
}
