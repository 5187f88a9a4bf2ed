//! The commands of the laboratory.

mod lab;

use std::convert::Infallible;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use trunkline_engine::Engine;
use trunkline_units::Rate;

#[cfg(feature = "web")]
pub(crate) use lab::WatchArguments;
pub(crate) use lab::{
    AdviseArguments, AgreeArguments, CaptureArguments, Changes, CheckArguments, Execution, ExplainArguments,
    ExportArguments, ImportArguments, LabArguments, LabCommand, MergeArguments, PapersArguments,
    ReportArguments, RunArguments, ScorecardArguments, SurveyArguments,
};

#[derive(Debug, Subcommand)]
pub(crate) enum LaboratoryCommand {
    /// Show on this machine, in about a minute, the effect of a trunk on TCP beside a UDP flood.
    Demo(DemoArguments),
    /// Measure on this machine the cost of a trunk, compared with plain routing.
    Bench(BenchArguments),
    /// Run experiments in a simulator: those of papers, and your own.
    Lab(LabArguments),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_the_laboratory_knows_the_names_of_its_commands() {
        let all = LaboratoryCommand::augment_subcommands(clap::Command::new("trunkline"));
        let names: Vec<&str> = all.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(names, crate::cli::LABORATORY);
    }
}
