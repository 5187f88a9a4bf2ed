//! The laboratory as a module of Python. What users import is `python/trunkline`; it adds to this what is easier to say in Python.

#![allow(clippy::needless_pass_by_value, reason = "arguments that Python gives are values")]

mod custom;
mod error;
mod experiment;
mod explanation;
mod results;
mod run;
mod simulation;
mod table;
mod value;

#[pyo3::pymodule]
mod _trunkline {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::custom::{Ack, Packet, Window};
    #[pymodule_export]
    use super::error::{ExperimentError, RunError};
    #[pymodule_export]
    use super::experiment::Experiment;
    #[pymodule_export]
    use super::explanation::{Answer, agree};
    #[pymodule_export]
    use super::results::{Claim, Results};
    #[pymodule_export]
    use super::simulation::Simulation;
    #[pymodule_export]
    use super::table::Table;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("VERSION", trunkline_lab::VERSION)
    }
}
