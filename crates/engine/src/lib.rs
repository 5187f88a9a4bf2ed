//! Engines: what carries out a [`Scenario`] and says what came of it.
//!
//! An engine is given a scenario and a seed and knows nothing of files, sweeps or papers. It measures what docs/metrics.md lists,
//! under the names that [`catalogue`] has.

pub mod catalogue;
mod measure;
pub mod outcome;
pub mod scenario;
mod sim;
pub mod site;
#[cfg(feature = "testbed")]
mod testbed;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use sim::session::{OnItsWay, Session};
use thiserror::Error;
pub use trunkline_schema::MAX_WEIGHT;
use trunkline_sim::SettingsError;

use crate::outcome::Outcome;
use crate::scenario::Scenario;

/// What carries out a scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Engine {
    /// The simulator, in virtual time.
    #[default]
    Sim,
    /// This machine's kernel: hosts are network namespaces, links are emulated, time is real.
    Testbed {
        /// The program of gateways, `trunkline`; a scenario with trunks needs it.
        program: Option<PathBuf>,
        /// How often a run is made, at most, while the machine disturbs it; at least once.
        attempts: u32,
    },
}

impl Engine {
    /// The testbed without a program for gateways.
    pub const TESTBED: Engine = Engine::Testbed { program: None, attempts: Engine::ATTEMPTS };
    /// How often a run is made, at most, unless somebody says otherwise.
    pub const ATTEMPTS: u32 = 3;

    /// Its name on the command line and in results.
    pub const fn name(&self) -> &'static str {
        match self {
            Engine::Sim => "sim",
            Engine::Testbed { .. } => "testbed",
        }
    }

    /// Runs that it can make at a time without one disturbing another, of a machine that has so many CPUs.
    pub const fn jobs(&self, cpus: usize) -> usize {
        match self {
            Engine::Sim => cpus,
            // A run needs a CPU for its links and one for its hosts.
            Engine::Testbed { .. } => {
                if cpus >= 4 {
                    cpus / 2
                } else {
                    1
                }
            }
        }
    }
}

/// Packets over links that a CPU is given to carry in a second: at 16 µs each, three quarters of its time.
const PACKETS_PER_CPU: f64 = 46_000.0;

impl Engine {
    /// Runs at a time where many are slow: as many as what they cost leaves [room](Engine::capacity) for.
    pub const fn many(&self, cpus: usize) -> usize {
        match self {
            Engine::Sim => cpus,
            Engine::Testbed { .. } => 24 * cpus,
        }
    }

    /// Packets over links a second that all runs at a time may carry together, of a machine that has so many CPUs; `None` if what one run
    /// does is nothing to another.
    pub fn capacity(&self, cpus: usize) -> Option<f64> {
        match self {
            Engine::Sim => None,
            Engine::Testbed { .. } => Some(cpus as f64 * PACKETS_PER_CPU),
        }
    }
}

impl FromStr for Engine {
    type Err = EngineError;

    /// The testbed has no program for gateways then.
    fn from_str(text: &str) -> Result<Self, EngineError> {
        match text {
            "sim" => Ok(Engine::Sim),
            "testbed" => Ok(Engine::TESTBED),
            other => Err(EngineError::Unknown(other.to_owned())),
        }
    }
}

/// Why there is no outcome.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EngineError {
    /// There is no such engine.
    #[error("no engine is named {0:?}; allowed: sim, testbed")]
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
    /// This machine cannot carry it out, or something of it failed.
    #[error("{0}")]
    Machine(String),
    /// It was told to stop.
    #[error("stopped")]
    Stopped,
    /// It panicked: that is a mistake in it.
    #[error("the engine panicked: {0} (please report it)")]
    Panicked(String),
}

impl EngineError {
    #[cfg(not(feature = "testbed"))]
    fn no_testbed() -> Self {
        EngineError::Machine("this build has no testbed; allowed: the engine sim".to_owned())
    }
}

/// The release of this machine's kernel; empty where there is no testbed.
pub fn kernel_release() -> String {
    #[cfg(feature = "testbed")]
    return trunkline_testbed::kernel::release();
    #[cfg(not(feature = "testbed"))]
    String::new()
}

/// Other programs whose tunnels can stand in the place of a trunk, on the testbed.
pub fn tunnel_programs() -> Vec<&'static str> {
    #[cfg(feature = "testbed")]
    return trunkline_testbed::tunnel::Adapter::names().collect();
    #[cfg(not(feature = "testbed"))]
    Vec::new()
}

/// Lets a panic of a run cost that run alone. What it was given is only read, and an outcome that was begun is dropped.
pub fn guarded(run: impl FnOnce() -> Result<Outcome, EngineError>) -> Result<Outcome, EngineError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(EngineError::Panicked(text.unwrap_or_else(|| "a panic".to_owned())))
    })
}

/// Whether an engine can carry out a scenario: [`EngineError::Misfit`] names the part that it cannot be.
pub fn check(engine: &Engine, scenario: &Scenario) -> Result<(), EngineError> {
    match engine {
        Engine::Sim => sim::check(scenario),
        #[cfg(feature = "testbed")]
        Engine::Testbed { .. } => testbed::check(scenario),
        #[cfg(not(feature = "testbed"))]
        Engine::Testbed { .. } => Err(EngineError::no_testbed()),
    }
}

/// What a run's series recorded at an instant.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// The scenario of the run.
    pub scenario: &'a Scenario,
    /// Time since the start of the run.
    pub at: Duration,
    /// By name, the value of the interval that ended then.
    pub values: &'a [(&'a str, Option<f64>)],
}

/// What a run has to do with others while it goes on.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// The engine checks it often; once it is set there is no outcome.
    pub stop: &'a AtomicBool,
    /// Called with each sample of the scenario's series. It must not block: in real time the run would be late.
    pub watch: &'a (dyn Fn(&Sample<'_>) + Sync),
}

impl<'a> Control<'a> {
    /// Of a run that nobody watches.
    pub fn unwatched(stop: &'a AtomicBool) -> Self {
        fn ignore(_: &Sample<'_>) {}
        Control { stop, watch: &ignore }
    }
}

/// Carries out a scenario. The same scenario and seed give the same outcome, if the engine is the simulator.
///
/// The engine checks `stop` often during a run; once it is set there is no outcome.
pub fn run(
    engine: &Engine,
    scenario: &Scenario,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Outcome, EngineError> {
    run_watched(engine, scenario, seed, Control::unwatched(stop))
}

/// The same, while somebody watches.
pub fn run_watched(
    engine: &Engine,
    scenario: &Scenario,
    seed: u64,
    control: Control<'_>,
) -> Result<Outcome, EngineError> {
    match engine {
        Engine::Sim => sim::run(scenario, seed, control),
        #[cfg(not(feature = "testbed"))]
        Engine::Testbed { .. } => Err(EngineError::no_testbed()),
        #[cfg(feature = "testbed")]
        Engine::Testbed { program, attempts } => {
            testbed::run(scenario, seed, (program.as_deref(), *attempts), control)
        }
    }
}

/// Which packets of a run are written to a file.
pub struct Captured<'a> {
    /// Names of links, captured in both directions; all, if it is empty.
    pub links: &'a [String],
    /// The program that makes the capture.
    pub program: &'a str,
    /// What the capture says of itself.
    pub comments: &'a [String],
    /// The file.
    pub out: Box<dyn Write + Send>,
}

/// Carries out a scenario in the simulator, as [`run`] does, and writes the packets of its links as a pcapng file with comments.
///
/// # Errors
/// As [`run`]; [`EngineError::Misfit`] if there is no link of a name, [`EngineError::Machine`] if the file cannot be written.
pub fn capture(
    scenario: &Scenario,
    seed: u64,
    captured: Captured<'_>,
    stop: &AtomicBool,
) -> Result<Outcome, EngineError> {
    sim::capture(scenario, seed, captured, stop)
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
