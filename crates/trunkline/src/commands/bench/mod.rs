//! `bench`: measures the cost of a trunk ([`cost`]) and its effect on users, on real kernels in namespaces.
//!
//! Each scenario but [`cost`] runs the same traffic over the same emulated WAN with one *variant* after the other. A
//! variant is plain routing, or gateways with one configuration of classes, queues and lanes. The output gives ratios to
//! the reference variant of the same run, and says which figures meet their requirements.

mod competing_flows;
mod cost;
mod drops;
mod latency;
mod meltdown;
mod progress;
mod proportions;
mod report;
mod run;
mod site;
mod variant;

use serde_json::{Value, json};
use trunkline_testbed::{interrupt, privilege};

use crate::cli::{BenchArguments, Scenario};
use crate::failure::Failure;
use crate::output::print_line;

use run::Bench;

pub(crate) fn bench(arguments: &BenchArguments) -> Result<(), Failure> {
    // Before the first thread starts.
    privilege::acquire().map_err(|missing| Failure::Lacking(format!("bench: {missing}")))?;
    let stop = interrupt::watch().map_err(Failure::doing("cannot watch for interrupts"))?;
    let bench = |seconds| Bench::new(arguments, seconds, stop);
    let text = match arguments.scenario {
        Scenario::Cost => cost::run(&bench(cost::SECONDS)?),
        Scenario::Proportions => proportions::run(&bench(proportions::SECONDS)?),
        Scenario::Latency => latency::run(&bench(latency::SECONDS)?),
        Scenario::CompetingFlows => competing_flows::run(&bench(competing_flows::SECONDS)?),
        Scenario::Drops => drops::run(&bench(drops::SECONDS)?),
        Scenario::Meltdown => meltdown::run(&bench(meltdown::SECONDS)?),
    }?;
    print_line(&text)
}

fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn system(bench: &Bench) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "kernel": kernel(),
        "cpus": cpus(),
        "seconds": bench.seconds.as_secs(),
        "runs": bench.runs,
    })
}

fn heading(bench: &Bench, about: &str) -> String {
    let debug = if cfg!(debug_assertions) { ", a DEBUG BUILD" } else { "" };
    let over = if bench.runs == 1 { "one run".to_owned() } else { format!("medians of {} runs", bench.runs) };
    format!(
        "trunkline {}{debug}, Linux {}, {} CPUs; {about}, {over}; ratios to direct routing in parentheses",
        env!("CARGO_PKG_VERSION"),
        kernel(),
        cpus(),
    )
}
