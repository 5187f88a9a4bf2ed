//! What a paper does not say, and how far two engines agree: answers as dicts, and as pages in a notebook.

use std::sync::atomic::AtomicBool;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use trunkline_lab::agree::{agreement, document};
use trunkline_lab::document::Document;
use trunkline_lab::explain::{self, ExplainError, Explained, Options};
use trunkline_lab::report::{self, Answered};

use crate::error::{ExperimentError, RunError, reported, stored};
use crate::results::Results;
use crate::run::{Wanted, on_other_threads, stopped};

/// An answer with its page: `values` is what `--json` prints.
#[pyclass(frozen, module = "trunkline")]
pub(crate) struct Answer {
    title: String,
    values: Py<PyDict>,
    page: String,
}

impl Answer {
    fn new(py: Python<'_>, title: String, values: &impl Serialize, page: String) -> PyResult<Self> {
        let text = serde_json::to_string(values).map_err(|error| RunError::new_err(error.to_string()))?;
        let values = py.import("json")?.call_method1("loads", (text,))?.cast_into::<PyDict>()?.unbind();
        Ok(Answer { title, values, page })
    }
}

#[pymethods]
impl Answer {
    /// The answer as a dict: that of `lab explain --json`, or an element of that of `lab agree --json`.
    #[getter]
    fn values(&self, py: Python<'_>) -> Py<PyDict> {
        self.values.clone_ref(py)
    }

    /// Its page as HTML.
    fn report(&self) -> &str {
        &self.page
    }

    fn _repr_html_(&self) -> String {
        crate::results::framed(&self.page)
    }

    fn __repr__(&self) -> String {
        format!("<trunkline.Answer: {}>", self.title)
    }
}

/// How much is run of the settings.
pub(crate) struct Extent {
    pub(crate) settings: u32,
    pub(crate) least: u32,
    pub(crate) runs: u32,
    pub(crate) seed: u64,
}

/// Runs an experiment at settings of its unknowns.
pub(crate) fn explain(
    py: Python<'_>,
    experiment: &Document,
    extent: &Extent,
    wanted: &Wanted,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Answer> {
    let (place, _temporary) = wanted.place()?;
    let options = Options {
        settings: extent.settings,
        least: extent.least,
        runs: extent.runs,
        seed: extent.seed,
        budget: None,
        jobs: wanted.jobs(),
        out: place.clone(),
        begin: wanted.begin,
    };
    let mut explained: Option<Explained> = None;
    let documents = std::slice::from_ref(experiment);
    let stop = AtomicBool::new(false);
    on_other_threads(py, &stop, progress, |tell| {
        explain::run(documents, &options, &stop, |progress| tell(&progress), |one| explained = Some(one))
    })?
    .map_err(|error| match error {
        ExplainError::Mistakes(mistakes) => crate::error::mistaken(py, &mistakes),
        ExplainError::Store(error) => stored(&error),
        other => ExperimentError::new_err(other.to_string()),
    })?;
    let Some(explained) = explained.filter(|explained| !explained.interrupted) else {
        return Err(stopped(&place));
    };
    if let Some(first) = explained.failures.first() {
        return Err(RunError::new_err(format!(
            "{} runs failed, the first: {first}",
            explained.failures.len()
        )));
    }
    report::write_explanation(&explained.directory).map_err(|error| reported(py, &error))?;
    let answered = report::answered(&explained.directory).map_err(|error| reported(py, &error))?;
    let Some(Answered { experiment, answer }) = answered else {
        return Err(RunError::new_err("no setting was run"));
    };
    let page = report::explanation(&experiment, &answer).page_html();
    Answer::new(py, answer.title.clone(), &answer, page)
}

/// How far two engines agree on an experiment: its results by the one and by the other.
#[pyfunction]
pub(crate) fn agree(py: Python<'_>, one: &Results, other: &Results) -> PyResult<Answer> {
    let [first, second] = [one.answers(), other.answers()];
    let ids = [&first.experiment.id, &second.experiment.id];
    if ids[0] != ids[1] {
        return Err(ExperimentError::new_err(format!(
            "results of {} and of {}; allowed: two of one experiment",
            ids[0], ids[1]
        )));
    }
    let agreement = agreement(first, second);
    let page = document(std::slice::from_ref(&agreement)).page_html();
    Answer::new(py, agreement.title.clone(), &agreement, page)
}
