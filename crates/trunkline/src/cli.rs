//! The definition of the command line. The man pages and shell completions are generated from it.

mod lab;

use std::convert::Infallible;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use trunkline_engine::Engine;
use trunkline_units::Rate;

pub(crate) use lab::{
    AdviseArguments, AgreeArguments, CheckArguments, Execution, LabArguments, LabCommand, PapersArguments,
    ReportArguments, RunArguments, ScorecardArguments,
};

/// TCP trunks between sites: each class of traffic in a congestion-controlled, encrypted lane of its own.
#[derive(Debug, Parser)]
#[command(name = "trunkline", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration, 3 no daemon answers, \
4 this machine lacks something that the command needs, 5 usable but with warnings (check), 6 cannot write the output, \
130 interrupted, 141 the reader of the output has gone."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a site's gateway in the foreground, until `trunkline down` or a signal ends it.
    Up(UpArguments),
    /// Check whether a gateway starts with a configuration file, and print what the file means.
    Check(FileReportArguments),
    /// Show the state of a running gateway: peers, classes, lanes, drops.
    Status(StatusArguments),
    /// Watch a running gateway: classes, lanes and the busiest flows, live.
    Top(TopArguments),
    /// Make a running gateway read its file again. It does not touch lanes whose configuration stays the same.
    Reload(InstanceArguments),
    /// End a running gateway.
    Down(InstanceArguments),
    /// Remove the routes with which an ended gateway blocks packets to peers (`tun.on_exit`).
    Unblock(UnblockArguments),
    /// Show on this machine, in about a minute, the effect of a trunk on TCP beside a UDP flood.
    Demo(DemoArguments),
    /// Measure on this machine the cost of a trunk, compared with plain routing.
    Bench(BenchArguments),
    /// Run experiments in a simulator: those of papers, and your own.
    Lab(LabArguments),
    /// Print the JSON Schema of a site's configuration file, for editors.
    Schema,
    /// Generate a private key and print it.
    Genkey,
    /// Read a private key from standard input and print its public key.
    Pubkey,
    /// Print a shell's completion script for this program.
    Completions(CompletionsArguments),
    /// Print the man page of this program, or write all pages into a directory.
    Man(ManArguments),
}

#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    /// The site's configuration file.
    pub(crate) file: PathBuf,
    /// The format of the log.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Each line is text.
    Text,
    /// Each line is a JSON object.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct FileReportArguments {
    /// The site's configuration file.
    pub(crate) file: PathBuf,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InstanceArguments {
    /// The site: its configuration file, its control socket, or its name. Optional if only one gateway runs.
    pub(crate) site: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct UnblockArguments {
    /// The site: its configuration file or its name.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) site: Option<PathBuf>,
    /// All sites of this machine.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) instance: InstanceArguments,
    /// The interval over which rates are measured, in seconds: 0.1 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(crate) interval: f64,
    /// Print one JSON object instead, at once: counters and the kernel's values, without rates.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    pub(crate) instance: InstanceArguments,
    /// The interval between updates, in seconds: 0.1 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(crate) interval: f64,
    /// Print one frame as text, with the rates of one interval, and exit.
    #[arg(long)]
    pub(crate) once: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 =
        text.parse().map_err(|_| "not a number of seconds; allowed: 0.1 to 3600".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("allowed: 0.1 to 3600".to_owned()) }
}

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Seconds under the flood, in each of three runs: 3 to 600.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(3..=600))]
    pub(crate) seconds: u32,
    /// Rate of the WAN between the sites: 2mbit to 100mbit.
    #[arg(long, value_name = "RATE", default_value = "10mbit", value_parser = demo_rate)]
    pub(crate) rate: Rate,
    /// The directory for results and the report with plots; those of an earlier demo are replaced.
    #[arg(long, value_name = "DIR", default_value = "trunkline-demo")]
    pub(crate) out: PathBuf,
    /// Print a line of JSON for each run instead.
    #[arg(long)]
    pub(crate) json: bool,
    /// The engine: testbed, on this machine's kernel, in real time; sim, in virtual time. [default: testbed, or sim if this machine does not allow the testbed]
    #[arg(long, value_name = "ENGINE", value_parser = lab::engine)]
    pub(crate) engine: Option<Engine>,
}

fn demo_rate(text: &str) -> Result<Rate, String> {
    let rate = text.parse::<Rate>().map_err(|error| error.to_string())?;
    if (2.0..=100.0).contains(&rate.as_mbit()) {
        Ok(rate)
    } else {
        Err("allowed: 2mbit to 100mbit".to_owned())
    }
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// The directory for trunkline.1, trunkline-up.1 and so on, and trunkline.toml.5; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "What a trunk does for traffic is measured by experiments: bench-latency, bench-proportions, \
bench-competing, bench-drops, bench-meltdown and bench-long-path. For example: trunkline lab run bench-latency \
--engine testbed"
)]
pub(crate) struct BenchArguments {
    /// Seconds of each throughput test.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
    /// The number of runs; the result is the median.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
    /// A scenario of an earlier version: the error says what to run.
    #[arg(value_name = "SCENARIO", hide = true, value_parser = moved)]
    _scenario: Option<Infallible>,
}

/// What to run in place of a scenario of `bench`.
fn moved(scenario: &str) -> Result<Infallible, String> {
    Err(match scenario {
        "cost" => "bench measures the cost; it needs no name".to_owned(),
        "latency" | "proportions" | "competing-flows" | "drops" | "meltdown" => {
            let name = scenario.trim_end_matches("-flows");
            format!("it is an experiment: trunkline lab run bench-{name} --engine testbed")
        }
        _ => "bench has no scenarios".to_owned(),
    })
}
