//! `bench`: what a trunk costs on this machine, next to plain routing in the same minute.
//!
//! Three copies of the same two sites are built, one for each carrier, and each test goes round all of them before the
//! next begins: what else the machine does, and how fast it is just now, then meets all three alike, and the ratios
//! are steadier than the figures.

mod figure;
mod measure;
mod progress;
mod table;

use std::io::{self, Write as _};
use std::time::Duration;

use serde_json::{Value, json};
use trunkline_testbed::traffic::Stop;
use trunkline_testbed::{interrupt, privilege};

use crate::cli::BenchArguments;
use crate::failure::Failure;

use figure::{Carrier, Results, Run};
use measure::{CONGESTION_CONTROL, Site, Test};
use progress::Progress;
use table::Table;

pub(crate) fn bench(arguments: &BenchArguments) -> Result<(), Failure> {
    // Before the first thread starts.
    privilege::acquire().map_err(|missing| Failure::Lacking(format!("bench: {missing}")))?;
    let stop = interrupt::watch().map_err(Failure::doing("cannot watch for interrupts"))?;
    let results = run_all(arguments, &stop)?;
    let text = if arguments.json {
        let mut result = results.to_json();
        result.insert("system".to_owned(), system(arguments));
        serde_json::to_string_pretty(&result).map_err(Failure::doing("cannot print"))?
    } else {
        format!("{}\n\n{}", heading(arguments, results.runs()), Table(&results))
    };
    writeln!(io::stdout(), "{text}").map_err(Failure::doing("cannot write to standard output"))
}

fn run_all(arguments: &BenchArguments, stop: &Stop) -> Result<Results, Failure> {
    let binary = std::env::current_exe().map_err(Failure::doing("cannot find this program"))?;
    let seconds = Duration::from_secs(arguments.seconds.into());
    let round: Duration = Test::ALL.into_iter().map(|test| test.time(seconds)).sum();
    let mut progress = Progress::new(round * Carrier::ALL.len() as u32 * arguments.runs);
    let mut results = Results::default();
    for number in 1..=arguments.runs {
        let mut run = Run::new();
        let what = |carrier: Carrier, doing: &str| {
            format!("run {number} of {}, {}: {doing}", arguments.runs, carrier.name())
        };
        let mut sites = Vec::new();
        for carrier in Carrier::ALL {
            progress.begin(&what(carrier, "setting up"), Duration::ZERO);
            let site = Site::build(carrier, &binary, seconds, stop)?;
            site.note_idle_memory(&mut run)?;
            sites.push(site);
        }
        for test in Test::ALL {
            for site in &sites {
                progress.begin(&what(site.carrier, test.title()), test.time(seconds));
                site.measure(test, &mut run)?;
            }
        }
        results.add(run);
    }
    Ok(results)
}

fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn system(arguments: &BenchArguments) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "kernel": kernel(),
        "cpus": cpus(),
        "congestion_control": CONGESTION_CONTROL,
        "seconds": arguments.seconds,
        "runs": arguments.runs,
    })
}

fn heading(arguments: &BenchArguments, runs: usize) -> String {
    let debug = if cfg!(debug_assertions) { ", a DEBUG BUILD" } else { "" };
    let over = if runs == 1 { "one run".to_owned() } else { format!("medians of {runs} runs") };
    format!(
        "trunkline {}{debug}, Linux {}, {} CPUs; {CONGESTION_CONTROL} flows, {} s a test, {over}; ratios to direct \
         routing in parentheses",
        env!("CARGO_PKG_VERSION"),
        kernel(),
        cpus(),
        arguments.seconds,
    )
}
