//! `trunkline lab`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use trunkline_engine::Engine;
use trunkline_lab::CongestionAlgorithm;
use trunkline_lab::campaign::RunPart;
use trunkline_lab::quantity::Time;
use trunkline_units::Rate;

#[cfg(feature = "web")]
use crate::cli::ServingArguments;

#[derive(Debug, Args)]
pub(crate) struct LabArguments {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Run experiments and write their reports.
    Run(RunArguments),
    /// Run experiments by both engines, and report how far these agree.
    Agree(AgreeArguments),
    /// Run the measurements of eight papers with today's code, and check the papers' claims.
    Papers(PapersArguments),
    /// Sample what papers leave open, and tell which of their values and claims follow from any plausible set-up.
    Explain(ExplainArguments),
    /// Compare variants of an experiment over random samples of its unknowns, and tell where one is worse.
    Survey(SurveyArguments),
    /// Try other settings of a network's trunks, and print which to choose and what they gain.
    Advise(AdviseArguments),
    /// Evaluate congestion controls by the nine guidelines of RFC 5033, now RFC 9743.
    Scorecard(ScorecardArguments),
    /// Make an experiment out of a recording of a link, and print it.
    Import(ImportArguments),
    /// Run one point of an experiment in the simulator, and write the packets of its links to a file.
    Capture(CaptureArguments),
    /// Show one point of an experiment on a page for browsers, until a signal ends it: simulated there, or measured on this machine's kernel.
    #[cfg(feature = "web")]
    Watch(WatchArguments),
    /// Write the tables of results for other programs: CSV or Arrow.
    Export(ExportArguments),
    /// Put the results of parts of a run together.
    Merge(MergeArguments),
    /// Check experiments and print what they mean.
    Check(CheckArguments),
    /// Write the reports of existing results again.
    Report(ReportArguments),
    /// Print the JSON Schema of experiments, for editors.
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Experiments: files, or the ids of experiments that come with the program.
    #[arg(required = true, value_name = "FILE|ID")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) on: EngineArguments,
    #[command(flatten)]
    pub(crate) execution: Execution,
}

#[derive(Debug, Args)]
pub(crate) struct AgreeArguments {
    /// Experiments: files, or the ids of experiments that come with the program.
    #[arg(required = true, value_name = "FILE|ID")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) attempts: Attempts,
    #[command(flatten)]
    pub(crate) execution: Execution,
}

#[derive(Debug, Args)]
pub(crate) struct PapersArguments {
    /// Experiments, by id, or papers. [default: all]
    #[arg(value_name = "ID|PAPER")]
    pub(crate) names: Vec<String>,
    /// List the experiments, and run nothing.
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) on: EngineArguments,
    #[command(flatten)]
    pub(crate) execution: Execution,
}

/// The choice of an engine.
#[derive(Debug, Args)]
pub(crate) struct EngineArguments {
    /// The engine that runs them: sim, in virtual time; testbed, on this machine's kernel, in real time.
    #[arg(long, value_name = "ENGINE", default_value = "sim", value_parser = engine)]
    engine: Engine,
    #[command(flatten)]
    attempts: Attempts,
}

impl EngineArguments {
    /// The engine, with the attempts it may make.
    pub(crate) fn engine(&self) -> Engine {
        self.attempts.of(&self.engine)
    }
}

/// How often a disturbed run is made.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Attempts {
    /// On the testbed, make a run that the machine disturbs again, up to N times in all; 1 keeps every run as it is.
    #[arg(long, value_name = "N", default_value_t = Engine::ATTEMPTS, value_parser = clap::value_parser!(u32).range(1..=20))]
    attempts: u32,
}

impl Attempts {
    pub(crate) fn of(self, engine: &Engine) -> Engine {
        match engine {
            Engine::Testbed { program, .. } => {
                Engine::Testbed { program: program.clone(), attempts: self.attempts }
            }
            Engine::Sim => Engine::Sim,
        }
    }
}

/// What changes experiments before anything is made of them.
#[derive(Debug, Clone, Args)]
pub(crate) struct Changes {
    /// Set a value of the files, such as links.core.rate="5 Mbit/s"; may occur several times.
    #[arg(long, value_name = "PATH=VALUE", value_parser = setting)]
    pub(crate) set: Vec<(String, String)>,
    /// Use the files' settings for a quick run, which are fewer on the testbed.
    #[arg(long)]
    pub(crate) quick: bool,
    /// The directory of the recordings of links that experiments name, such as `traces` of mahimahi.
    #[arg(long, value_name = "DIR")]
    pub(crate) recordings: Option<PathBuf>,
}

/// Options for running experiments.
#[derive(Debug, Clone, Args)]
pub(crate) struct Execution {
    /// Run each point N times, each with another seed. [default: from the file]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: Option<u32>,
    /// The first run's seed. [default: from the file]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// The directory for results and reports: one subdirectory for each experiment, and an index.
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub(crate) out: PathBuf,
    /// Print a line of JSON for each point instead, and progress on standard error.
    #[arg(long)]
    pub(crate) json: bool,
    /// Runs at a time; on the testbed fewer, if the machine would not keep up. [default: one for each CPU; on the testbed one for each two, or with `papers` as many as it keeps up with]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Make only this part of the runs, such as 3/16: for machines that share the work, each into a directory of its own, which `lab merge` puts together.
    #[arg(long, value_name = "N/M")]
    pub(crate) part: Option<RunPart>,
    /// Continue an interrupted run.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Remove existing results of these experiments first.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is 0 if all was run, whatever the answers; 1 if a run failed; 2 if what was asked makes no \
sense; 130 if it was interrupted, and --resume goes on."
)]
pub(crate) struct ExplainArguments {
    /// Experiments with a table `unknown`: files, or the ids of experiments that come with the program; or a paper, for all of its experiments that have unknowns.
    #[arg(required = true, value_name = "FILE|ID|PAPER")]
    pub(crate) files: Vec<PathBuf>,
    /// Settings of the unknowns to run beside the file's own, at most: 4 to 65535.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(4..=65_535))]
    pub(crate) settings: u32,
    /// Settings after which an experiment gets no more, if each value and each claim of its paper holds at one of them.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(4..=65_535))]
    pub(crate) at_least: u32,
    /// Runs of each setting at each point. Settings that an answer rests on are run as often as the file says.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: u32,
    /// The seed of the settings.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u32,
    /// About the longest that all of it may take, such as "30 min": if need be, fewer settings are run, but 8 or more of each experiment.
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub(crate) budget: Option<Duration>,
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// The directory for results and pages: one subdirectory for each experiment.
    #[arg(long, value_name = "DIR", default_value = "explained")]
    pub(crate) out: PathBuf,
    /// Print a line of JSON for each experiment instead, and progress on standard error.
    #[arg(long)]
    pub(crate) json: bool,
    /// Runs at a time. [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Continue: run what is missing of these settings.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Remove existing results of these experiments first.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is 0 if all was run and the bounds hold; 1 if a run failed; 2 if what was asked makes no sense; 7 if a \
bound of the file does not hold; 130 if it was interrupted, and --resume goes on."
)]
pub(crate) struct SurveyArguments {
    /// The experiment, with tables `unknown` and `survey`: a file, or the id of one that comes with the program.
    #[arg(value_name = "FILE|ID")]
    pub(crate) file: PathBuf,
    /// Samples of the unknowns: 1 to 65536. Sample n is the same whatever their number.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) samples: u32,
    /// The seed of the samples and of their runs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u32,
    /// The worst samples of each measure that are written as files, for `lab run` and `lab capture`.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) worst: u16,
    #[command(flatten)]
    pub(crate) on: EngineArguments,
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// The directory for results and files: one subdirectory for each experiment.
    #[arg(long, value_name = "DIR", default_value = "surveyed")]
    pub(crate) out: PathBuf,
    /// Print a line of JSON for each sample and one for the summary instead, and progress on standard error.
    #[arg(long)]
    pub(crate) json: bool,
    /// Runs at a time; on the testbed fewer, if the machine would not keep up. [default: one for each CPU; on the testbed one for each two]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Continue: run what is missing of these samples.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Remove existing results of this experiment first.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "What is in the file decides how it is read. A trace of mahimahi has a line for each packet of 1504 bytes that the link could \
carry: a time in milliseconds. A log is what iperf3 prints, with or without --json. A table has a time (seconds, or ISO 8601) and any of \
a rate with its unit (rate_mbps, \"throughput (kbit/s)\", ...), delay_ms and loss; separated by commas, semicolons, tabs or spaces. Without a \
header it has two columns: seconds and Mbit/s."
)]
pub(crate) struct ImportArguments {
    /// The recording of the link there: a table, a trace of mahimahi, or a log of iperf3.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The recording of the way back. [default: that of the way there]
    #[arg(long, value_name = "FILE")]
    pub(crate) back: Option<PathBuf>,
    /// The delay of each way, where the recording has none.
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = some_time)]
    pub(crate) delay: Duration,
    /// The link's rate, where the recording has none.
    #[arg(long, value_name = "RATE", default_value = "10mbit")]
    pub(crate) rate: Rate,
    /// How long the link's queue is, at its mean rate.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = some_time)]
    pub(crate) queue: Duration,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The file is pcapng, which Wireshark and tshark read. Each link has an interface for what it sends in \
each direction, and one for what it drops or loses there. Comments say how long a packet waited, or why it was lost."
)]
pub(crate) struct CaptureArguments {
    /// The experiment: a file, or the id of one that comes with the program.
    #[arg(value_name = "FILE|ID")]
    pub(crate) file: PathBuf,
    /// The value of an axis; may occur several times. The first point of the sweep that has all of them is run.
    #[arg(long, value_name = "AXIS=VALUE", value_parser = axis_value)]
    pub(crate) at: Vec<(String, String)>,
    /// The seed. [default: the file's first]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// A link to capture, in both directions; may occur several times. [default: all]
    #[arg(long = "link", value_name = "NAME")]
    pub(crate) links: Vec<String>,
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// The file to write.
    #[arg(long, value_name = "FILE", default_value = "capture.pcapng")]
    pub(crate) out: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    pub(crate) force: bool,
    /// Print a line of JSON instead.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(feature = "web")]
#[derive(Debug, Args)]
pub(crate) struct WatchArguments {
    /// The experiment: a file, or the id of one that comes with the program.
    #[arg(value_name = "FILE|ID")]
    pub(crate) file: PathBuf,
    /// The value of an axis; may occur several times. The first point of the sweep that has all of them is shown.
    #[arg(long, value_name = "AXIS=VALUE", value_parser = axis_value)]
    pub(crate) at: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) on: EngineArguments,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[command(flatten)]
    pub(crate) serving: ServingArguments,
    /// The page, which `web/make` makes. [default: the one that is installed]
    #[arg(long, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,
}

fn axis_value(text: &str) -> Result<(String, String), String> {
    let (axis, value) = text.split_once('=').ok_or("allowed: AXIS=VALUE")?;
    Ok((axis.trim().to_owned(), value.trim().to_owned()))
}

#[derive(Debug, Args)]
#[command(
    after_help = "Writes runs, metrics and, where the experiment records any, series: the tables that are there as Parquet. Numbers \
are in base units (s, B, bit/s, 1). An Arrow file has them in its metadata, and beside the CSV files columns.csv lists them."
)]
pub(crate) struct ExportArguments {
    /// Directories of results, or directories that have such.
    #[arg(required = true, value_name = "DIR")]
    pub(crate) directories: Vec<PathBuf>,
    /// The format of the tables.
    #[arg(long, value_name = "FORMAT", default_value = "csv", value_parser = ["csv", "arrow"])]
    pub(crate) format: String,
    /// The directory for the tables: one subdirectory for each experiment. [default: beside the results]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print a line of JSON for each file instead.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is 0 if all runs are there, 1 if some are missing: `lab run` with --resume makes them. Parts of different \
experiments, of different versions, or that differ about a run are refused. Results of the testbed are of one machine, and are refused too."
)]
pub(crate) struct MergeArguments {
    /// Directories of results, or directories that have such.
    #[arg(required = true, value_name = "DIR")]
    pub(crate) directories: Vec<PathBuf>,
    /// The directory for results and reports: one subdirectory for each experiment, and an index.
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub(crate) out: PathBuf,
    /// Add to existing results of these experiments.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Remove existing results of these experiments first.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) force: bool,
}

fn some_time(text: &str) -> Result<Duration, String> {
    let time: Time = text.parse().map_err(|_| "allowed: a time with its unit, such as 100ms".to_owned())?;
    if time.0.is_zero() { Err("allowed: more than 0".to_owned()) } else { Ok(time.0) }
}

fn budget(text: &str) -> Result<Duration, String> {
    let time: Time = text.parse().map_err(|_| "allowed: a time with its unit, such as 30 min".to_owned())?;
    if time.0 < Duration::from_secs(1) { Err("allowed: 1 s or more".to_owned()) } else { Ok(time.0) }
}

#[derive(Debug, Args)]
pub(crate) struct AdviseArguments {
    /// The network: an experiment with at least one trunk, by its file or the id of one that comes with the program.
    #[arg(value_name = "FILE|ID")]
    pub(crate) file: PathBuf,
    /// Initial runs of each setting, each with another seed: 2 to 100; up to four times as many where these do not decide. [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(crate) runs: Option<u32>,
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
    /// Runs at a time. [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct ScorecardArguments {
    /// Congestion controls.
    #[arg(required = true, value_name = "CC", value_parser = congestion_control())]
    pub(crate) names: Vec<CongestionAlgorithm>,
    #[command(flatten)]
    pub(crate) on: EngineArguments,
    #[command(flatten)]
    pub(crate) execution: Execution,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// Experiments: files, or the ids of experiments that come with the program.
    #[arg(required = true, value_name = "FILE|ID")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) changes: Changes,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Results of an experiment, or a directory of such results.
    #[arg(required = true, value_name = "DIR")]
    pub(crate) directories: Vec<PathBuf>,
    /// Show the verdicts of these results, by another engine, in a column of the index.
    #[arg(long, value_name = "DIR")]
    pub(crate) beside: Option<PathBuf>,
    /// Show in the index what `lab explain` found out, from its results.
    #[arg(long, value_name = "DIR")]
    pub(crate) explained: Option<PathBuf>,
}

pub(super) fn engine(text: &str) -> Result<Engine, String> {
    text.parse().map_err(|error: trunkline_engine::EngineError| error.to_string())
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (path, value) = text.split_once('=').ok_or("allowed: PATH=VALUE")?;
    Ok((path.trim().to_owned(), value.trim().to_owned()))
}

fn congestion_control() -> impl TypedValueParser<Value = CongestionAlgorithm> {
    PossibleValuesParser::new(CongestionAlgorithm::ALL.map(CongestionAlgorithm::name))
        .try_map(|name| name.parse::<CongestionAlgorithm>())
}
