//! `lab advise`: what to choose for a network, and what it gains.

use std::io::{self, IsTerminal as _};

use trunkline_lab::advise::{self, AdviseError, Options};
use trunkline_lab::engine::EngineError;
use trunkline_testbed::interrupt;

use super::{jobs, print, read};
use crate::cli::AdviseArguments;
use crate::failure::Failure;

pub(super) fn advise(arguments: &AdviseArguments) -> Result<(), Failure> {
    let document = read(&arguments.file, arguments.quick, &arguments.set)
        .map_err(|mistakes| Failure::Input(mistakes.to_string()))?;
    let stop = interrupt::watch().map_err(Failure::doing("cannot wait for interrupts"))?;
    let usual = Options::default();
    let options = Options { runs: arguments.runs.unwrap_or(usual.runs), jobs: jobs(arguments.jobs), ..usual };
    let terminal = io::stderr().is_terminal();
    let advice = advise::advise(&document, &options, stop.flag(), |progress| {
        if terminal {
            eprint!("\r\x1b[K{} of {} tries: {}", progress.done, progress.total, progress.variant);
        }
    });
    if terminal {
        eprint!("\r\x1b[K");
    }
    let advice = advice.map_err(|error| match &error {
        AdviseError::Run { error, .. } if matches!(**error, EngineError::Stopped) => Failure::Interrupted,
        AdviseError::Run { .. } => Failure::Other(error.to_string()),
        AdviseError::Mistakes(mistakes) => Failure::Input(mistakes.to_string()),
        _ => Failure::Input(format!("{}: {error}", arguments.file.display())),
    })?;
    if arguments.json {
        let text = serde_json::to_string(&advice).map_err(Failure::doing("cannot print"))?;
        print(&(text + "\n"))
    } else {
        print(&advice.to_text())
    }
}
