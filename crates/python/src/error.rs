//! What goes wrong, as exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use trunkline_engine::EngineError;
use trunkline_lab::document::Mistakes;
use trunkline_lab::report::ReportError;
use trunkline_lab::store::StoreError;

create_exception!(
    trunkline,
    ExperimentError,
    PyValueError,
    "An experiment that is wrong. The text says what, where and what is allowed; `mistakes` has each as a dict."
);
create_exception!(
    trunkline,
    RunError,
    PyRuntimeError,
    "Runs that failed, or results that cannot be read or written."
);

/// All that is wrong with an experiment.
pub(crate) fn mistaken(py: Python<'_>, mistakes: &Mistakes) -> PyErr {
    let error = ExperimentError::new_err(mistakes.to_string());
    let attach = || -> PyResult<()> {
        let one = |mistake: &trunkline_lab::document::Mistake| -> PyResult<Py<PyDict>> {
            let dict = PyDict::new(py);
            dict.set_item("file", &mistake.file)?;
            dict.set_item("line", mistake.place.map(|(line, _)| line))?;
            dict.set_item("column", mistake.place.map(|(_, column)| column))?;
            dict.set_item("key", &mistake.key)?;
            dict.set_item("problem", &mistake.problem)?;
            dict.set_item("allowed", &mistake.allowed)?;
            dict.set_item("origin", &mistake.origin)?;
            Ok(dict.unbind())
        };
        let all = mistakes.0.iter().map(one).collect::<PyResult<Vec<_>>>()?;
        error.value(py).setattr("mistakes", all)
    };
    match attach() {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// The command line's text, but for what it says of its own arguments.
pub(crate) fn stored(error: &StoreError) -> PyErr {
    let said = match error {
        StoreError::Taken(path) => format!(
            "{}: there are results here already; allowed: begin=\"resume\" to go on with them, begin=\"force\" to begin anew, another out",
            path.display()
        ),
        StoreError::Other { path, what } => format!(
            "{}: cannot go on with these results: {what}; allowed: the same as before, begin=\"force\" to begin anew, another out",
            path.display()
        ),
        other => other.to_string(),
    };
    RunError::new_err(said)
}

pub(crate) fn reported(py: Python<'_>, error: &ReportError) -> PyErr {
    match error {
        ReportError::Store(error) => stored(error),
        ReportError::Document(mistakes) => mistaken(py, mistakes),
    }
}

pub(crate) fn failed(error: &EngineError) -> PyErr {
    match error {
        EngineError::Settings { .. } | EngineError::Misfit { .. } => {
            ExperimentError::new_err(error.to_string())
        }
        _ => RunError::new_err(error.to_string()),
    }
}
