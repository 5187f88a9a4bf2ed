//! `up`.

mod journal;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use trunkline_gateway::config::Config;
use trunkline_gateway::daemon::{Daemon, DaemonError};
use trunkline_gateway::log::Log;

use crate::cli::{LogFormat, UpArguments};
use crate::failure::Failure;

/// The time for which a gateway that ends waits until its log is written.
const LOG_GRACE: Duration = Duration::from_secs(1);

/// What a site's file means.
pub(super) fn load(file: &Path) -> Result<Config, Failure> {
    Config::load(file).map_err(|mistakes| Failure::Input(mistakes.to_string()))
}

pub(crate) fn up(arguments: &UpArguments) -> Result<(), Failure> {
    let config = load(&arguments.file)?;
    let log = open_log(arguments.log_format);
    let run = || Daemon::start(config, log.clone())?.run();
    let outcome = run().map_err(|error: DaemonError| match &error {
        DaemonError::Refused(_) => Failure::Input(error.to_string()),
        DaemonError::Device(_) => Failure::Lacking(error.to_string()),
        DaemonError::Listen { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Failure::Lacking(error.to_string())
        }
        _ => Failure::Other(error.to_string()),
    });
    finish_log(&log, arguments.log_format, outcome)
}

/// The log of a daemon, to which all events go from now on: on standard error, or in the journal if that reads it.
pub(super) fn open_log(format: LogFormat) -> Log {
    let in_journal = format == LogFormat::Text && journal::is_reader();
    let log = if in_journal { journal::log() } else { Log::stderr() };
    send_log_to(&log, format, in_journal);
    log
}

/// Writes why a daemon has failed, and waits until the log is written.
pub(super) fn finish_log<T>(log: &Log, format: LogFormat, outcome: Result<T, Failure>) -> Result<T, Failure> {
    if let Err(failure) = &outcome {
        // Through the queue too: a reader that does not read must not keep the process from ending.
        match format {
            LogFormat::Text if !journal::is_reader() => {
                log.line(format!("trunkline: {failure}\n").as_bytes());
            }
            LogFormat::Text | LogFormat::Json => tracing::error!("{failure}"),
        }
    }
    log.finish(LOG_GRACE);
    outcome.map_err(|failure| Failure::Reported(Box::new(failure)))
}

/// Sends the gateway's log through the queue of `log`. In the journal a text line has neither time nor level, since the journal has
/// both; a JSON line always has them, for programs that process the lines further.
fn send_log_to(log: &Log, format: LogFormat, in_journal: bool) {
    let filter = std::env::var("TRUNKLINE_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let writer = log.clone();
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(move || writer.writer())
        // The library would write its own errors to standard error, and block on its reader.
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal());
    let lines = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Json => lines.with(layer.json().flatten_event(true).with_ansi(false)).init(),
        LogFormat::Text if in_journal => {
            lines
                .with(layer.without_time().with_level(false).with_writer(journal::Lines(log.clone())))
                .init();
        }
        LogFormat::Text => lines.with(layer).init(),
    }
    // A panic is a line of the log like any other: the standard hook would write to standard error, and block on its reader.
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let trace = Backtrace::capture();
        let trace = match trace.status() {
            BacktraceStatus::Captured => format!("\n{trace}"),
            _ => String::new(),
        };
        tracing::error!("thread {name}: {panic}{trace}");
    }));
}
