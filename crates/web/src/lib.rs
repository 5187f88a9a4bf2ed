//! The simulator for a browser: an experiment's text and a seed in, a run in steps, numbers out.
//!
//! `run.rs` has the run as a value with methods; `abi.rs` has it as functions of WebAssembly, with one run for each instance of the module.
//! `web/simulation.js` is the other side of these.

mod abi;
mod run;

pub use run::{Described, Run};
