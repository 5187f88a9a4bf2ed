//! `bench`: the cost of a trunk on this machine, compared with plain routing in the same minute.
//!
//! There are copies of the same two sites, one for each carrier. Each test runs over all of them before the next test
//! begins. So other load on the machine affects all alike, and the ratios vary less than the figures.
//!
//! What a trunk does for traffic is a matter of experiments: `experiments/bench/`.

mod figure;
mod measure;
mod progress;
mod table;

use std::time::Duration;

use serde_json::{Value, json};
use trunkline_engine::Engine;
use trunkline_testbed::traffic::Stop;
use trunkline_testbed::{kernel, privilege};

use crate::cli::laboratory::BenchArguments;
use crate::commands::laboratory::interrupt;
use crate::failure::Failure;
use crate::output::print_line;

use figure::{Carrier, Results, Run};
use measure::{CONGESTION_CONTROL, Site, Test};
use progress::Progress;
use table::Table;

pub(crate) fn bench(arguments: &BenchArguments) -> Result<(), Failure> {
    // Before the first thread starts.
    privilege::acquire().map_err(|missing| Failure::Lacking(format!("bench: {missing}")))?;
    let stop = interrupt::watch(&Engine::TESTBED)?;
    let results = run(arguments, &stop)?;
    if !arguments.json {
        return print_line(&format!("{}\n\n{}", heading(arguments), Table(&results)));
    }
    let mut result = results.to_json();
    result.insert("system".to_owned(), system(arguments));
    let text = serde_json::to_string_pretty(&Value::Object(result));
    print_line(&text.map_err(Failure::doing("cannot print"))?)
}

fn run(arguments: &BenchArguments, stop: &Stop) -> Result<Results, Failure> {
    // The gateways are processes of this program.
    let binary = std::env::current_exe().map_err(Failure::doing("cannot find this program"))?;
    let (seconds, runs) = (Duration::from_secs(arguments.seconds.into()), arguments.runs);
    let round: Duration = Test::ALL.into_iter().map(|test| test.time(seconds)).sum();
    let mut progress = Progress::new(round * Carrier::ALL.len() as u32 * runs);
    let mut results = Results::default();
    for number in 1..=runs {
        let mut run = Run::new();
        let what =
            |carrier: Carrier, doing: &str| format!("run {number} of {runs}, {}: {doing}", carrier.name());
        let mut sites = Vec::new();
        for carrier in Carrier::ALL {
            progress.begin(&what(carrier, "setting up"), Duration::ZERO);
            let site = Site::build(carrier, &binary, seconds, stop)?;
            site.record_idle_memory(&mut run)?;
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

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn system(arguments: &BenchArguments) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "kernel": kernel::release(),
        "cpus": cpus(),
        "seconds": arguments.seconds,
        "runs": arguments.runs,
        "congestion_control": CONGESTION_CONTROL,
    })
}

fn heading(arguments: &BenchArguments) -> String {
    let debug = if cfg!(debug_assertions) { ", a DEBUG BUILD" } else { "" };
    let over = match arguments.runs {
        1 => "one run".to_owned(),
        runs => format!("medians of {runs} runs"),
    };
    format!(
        "trunkline {}{debug}, Linux {}, {} CPUs; {CONGESTION_CONTROL} flows, {} s a test, {over}; ratios to direct routing \
         in parentheses",
        env!("CARGO_PKG_VERSION"),
        kernel::release(),
        cpus(),
        arguments.seconds,
    )
}
