//! What can be said on the command line. The man pages and shell completions are made from this.

mod lab;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use trunkline_units::Rate;

pub(crate) use lab::{
    AdviseArguments, CheckArguments, Execution, LabArguments, LabCommand, PapersArguments, ReportArguments,
    RunArguments, ScorecardArguments,
};

/// TCP trunks between sites: every class of traffic in a congestion-controlled, encrypted lane of its own.
#[derive(Debug, Parser)]
#[command(name = "trunkline", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration, 3 no daemon answers, \
4 this machine lacks something that is needed, 5 usable but with warnings (check), 6 the output cannot be written, \
130 interrupted, 141 whoever read the output has gone."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a site's gateway in the foreground until it is told to stop.
    Up(UpArguments),
    /// Say whether a gateway would start with a configuration file, and what the file means.
    Check(FileReportArguments),
    /// Show the state of a running gateway: peers, classes, lanes, drops.
    Status(StatusArguments),
    /// Watch a running gateway: classes, lanes and the busiest flows, live.
    Top(TopArguments),
    /// Have a running gateway read its file again; lanes that stay the same are not touched.
    Reload(InstanceArguments),
    /// End a running gateway.
    Down(InstanceArguments),
    /// Let packets to peers pass again that a gateway which has ended holds back (`tun.on_exit`).
    Unblock(UnblockArguments),
    /// Show on this machine, in about a minute, what a trunk does for TCP under a UDP flood.
    Demo(DemoArguments),
    /// Measure on this machine what a trunk costs, or what it does for its users, next to plain routing.
    Bench(BenchArguments),
    /// Run experiments in a simulator: those of papers, and your own.
    Lab(LabArguments),
    /// Print the JSON Schema of a site's configuration file, for editors.
    Schema,
    /// Make a private key and print it.
    Genkey,
    /// Read a private key from standard input and print its public key.
    Pubkey,
    /// Print what makes a shell complete the commands and options of this program.
    Completions(CompletionsArguments),
    /// Print the man page of this program, or write all pages into a directory.
    Man(ManArguments),
}

#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    /// The site's configuration file.
    pub(crate) file: PathBuf,
    /// How a line of the log is written.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text.
    Text,
    /// A JSON object.
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
    /// The site: its configuration file, its control socket, or its name. May be left out where only one runs.
    pub(crate) site: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct UnblockArguments {
    /// The site: its configuration file or its name.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) site: Option<PathBuf>,
    /// Every site of this machine.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) instance: InstanceArguments,
    /// Seconds that rates are of: 0.1 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(crate) interval: f64,
    /// Print one JSON object instead, at once: counters and what the kernel says, and no rates.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    pub(crate) instance: InstanceArguments,
    /// Seconds from one look to the next: 0.1 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(crate) interval: f64,
    /// Print one frame as text, of what happens in one interval, and end.
    #[arg(long)]
    pub(crate) once: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is needed".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("allowed: 0.1 to 3600".to_owned()) }
}

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Seconds to measure without trunks, and again with them: 3 to 600.
    #[arg(long, value_name = "N", default_value_t = 25)]
    pub(crate) seconds: u32,
    /// Rate of the WAN between the sites: 2mbit to 100mbit.
    #[arg(long, value_name = "RATE", default_value = "10mbit")]
    pub(crate) rate: Rate,
    /// Where to write the page with the plots. [default: trunkline-demo.html; with --json, none]
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print one JSON object instead, and progress on standard error.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// The directory for trunkline.1, trunkline-up.1 and so on, and trunkline.toml.5; it is made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// What to measure.
    #[arg(value_enum, default_value_t = Scenario::Cost)]
    pub(crate) scenario: Scenario,
    /// Seconds of each measurement; in proportions, of each rate. [default: 5 to 30, by scenario]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: Option<u32>,
    /// How often everything is measured; the result is the median.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,
    /// Measure only this variant, or only this GROUP or GROUP:VARIANT, as the table names them; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Vec<String>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Throughput, round trips, CPU and memory, in clear and encrypted.
    Cost,
    /// The shares of classes with weights while the capacity changes.
    Proportions,
    /// Small requests beside bulk flows.
    Latency,
    /// A trunk beside connections that pass it by.
    Rivals,
    /// Timeouts and fairness of many TCP flows in one trunk.
    Drops,
    /// One TCP flow in a trunk over a WAN that loses packets, is cut, or is long.
    Meltdown,
}
