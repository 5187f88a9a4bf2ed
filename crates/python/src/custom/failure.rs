//! What a method in Python raised in the middle of a run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

/// The first exception of a run's methods. It ends the run: none of them is called again.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    stop: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

impl Failure {
    /// What the run looks at to know whether it is to stop.
    pub(crate) const fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Calls a method, unless one has failed. `None` if it fails, or one has.
    pub(crate) fn call<R>(&self, method: impl FnOnce(Python<'_>) -> PyResult<R>) -> Option<R> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let result = Python::attach(method);
        result
            .inspect_err(|_| self.stop.store(true, Ordering::Relaxed))
            .map_err(|error| self.keep(error))
            .ok()
    }

    fn keep(&self, error: PyErr) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// What is raised to the caller of the run: the exception the first time, and afterwards that there was one.
    pub(crate) fn check(&self) -> PyResult<()> {
        if !self.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        Err(error.unwrap_or_else(|| crate::error::RunError::new_err("this run was ended by an exception")))
    }
}
