//! `lab advise`: the settings to choose for a network, and their gain.

use trunkline_engine::{Engine, EngineError};
use trunkline_lab::advise::{self, AdviseError, MAX_TIMES, Options, Progress as Tried};

use super::jobs;
use crate::cli::laboratory::AdviseArguments;
use crate::commands::laboratory::interrupt;
use crate::commands::laboratory::progress::{Progress, about};
use crate::failure::Failure;
use crate::output::{print, print_line};

pub(super) fn advise(arguments: &AdviseArguments) -> Result<(), Failure> {
    let document = arguments
        .changes
        .read(&arguments.file, &Engine::Sim)
        .map_err(|mistakes| Failure::Input(mistakes.to_string()))?;
    let stop = interrupt::watch(&Engine::Sim)?;
    let usual = Options::default();
    let options = Options {
        runs: arguments.runs.unwrap_or(usual.runs),
        jobs: jobs(arguments.jobs, &usual.engine),
        ..usual
    };
    let mut line = Progress::new();
    let mut is_announced = false;
    let advice = advise::advise(&document, &options, stop.flag(), |progress| {
        if progress.done == 0 {
            line.print(&introduction(&progress, &options));
        }
        if let Some(left) = progress.left.filter(|_| !is_announced) {
            line.print(&format!("trunkline: advise takes {} more", about(left)));
            is_announced = true;
        }
        let left = progress.left.map_or_else(String::new, |left| format!(" ({} left)", about(left)));
        line.show(&format!("{} of {} tries: {}{left}", progress.done, progress.total, progress.variant));
    });
    drop(line);
    let advice = advice.map_err(|error| match &error {
        AdviseError::Run { error, .. } if matches!(**error, EngineError::Stopped) => Failure::Interrupted,
        AdviseError::Run { .. } => Failure::Other(error.to_string()),
        AdviseError::Mistakes(mistakes) => Failure::Input(mistakes.to_string()),
        _ => Failure::Input(format!("{}: {error}", arguments.file.display())),
    })?;
    if arguments.json {
        let text = serde_json::to_string(&advice).map_err(Failure::doing("cannot print"))?;
        print_line(&text)
    } else {
        print(&advice.to_text())
    }
}

fn introduction(progress: &Tried, options: &Options) -> String {
    format!(
        "trunkline: advise tries {} settings or more, with {} runs of each and up to {} where these do not decide; the \
         estimate of the time follows the first trunk",
        progress.total,
        options.runs,
        options.runs * MAX_TIMES
    )
}
