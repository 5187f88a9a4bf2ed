//! Engines: what carries out a [`Scenario`] and says what came of it.
//!
//! An engine is given a scenario and a seed and knows nothing of files, sweeps or papers. It measures what docs/metrics.md lists,
//! under the names that [`catalogue`](crate::catalogue) has.

mod measure;
mod sim;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use thiserror::Error;
use trunkline_sim::SettingsError;

use crate::results::Outcome;
use crate::scenario::Scenario;

/// What carries out a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineKind {
    /// The simulator, in virtual time.
    #[default]
    Sim,
}

impl EngineKind {
    /// All there are.
    pub const ALL: [EngineKind; 1] = [EngineKind::Sim];

    /// Its name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Sim => "sim",
        }
    }
}

impl FromStr for EngineKind {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        let known = EngineKind::ALL.into_iter().find(|kind| kind.name() == text);
        known.ok_or_else(|| EngineError::Unknown(text.to_owned()))
    }
}

/// Why there is no outcome.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EngineError {
    /// There is no such engine.
    #[error("no engine is named {0:?}; allowed: sim")]
    Unknown(String),
    /// A part of the scenario makes no sense.
    #[error("{part}: {error}")]
    Settings {
        /// Which.
        part: String,
        /// What is wrong with it.
        error: SettingsError,
    },
    /// A part of the scenario does not fit the others.
    #[error("{part} {problem}")]
    Misfit {
        /// Which.
        part: String,
        /// Why it does not, and what is allowed.
        problem: String,
    },
    /// It was told to stop.
    #[error("stopped")]
    Stopped,
    /// It panicked: that is a mistake in it.
    #[error("the engine panicked: {0} (please report it)")]
    Panicked(String),
}

/// Lets a panic of a run cost that run alone. What it was given is only read, and an outcome that was begun is dropped.
pub(crate) fn guarded(run: impl FnOnce() -> Result<Outcome, EngineError>) -> Result<Outcome, EngineError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(EngineError::Panicked(text.unwrap_or_else(|| "a panic".to_owned())))
    })
}

/// Carries out a scenario. The same scenario and seed give the same outcome, if the engine is the simulator.
///
/// The engine checks `stop` a thousand times or more during a run; once it is set there is no outcome.
pub fn run(
    engine: EngineKind,
    scenario: &Scenario,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Outcome, EngineError> {
    match engine {
        EngineKind::Sim => sim::run(scenario, seed, stop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_its_run() {
        let panicked = |text: &str| Err(EngineError::Panicked(text.to_owned()));
        assert_eq!(guarded(|| panic!("as if by mistake")), panicked("as if by mistake"));
        assert_eq!(guarded(|| panic!("{}", 7)), panicked("7"));
        assert_eq!(guarded(|| Err(EngineError::Stopped)), Err(EngineError::Stopped));
        assert_eq!(guarded(|| Ok(Outcome::default())), Ok(Outcome::default()));
    }
}
