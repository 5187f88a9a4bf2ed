//! The cost of a trunk on this machine, compared with plain routing in the same minute.
//!
//! There are three copies of the same two sites, one for each carrier. Each test runs over all three before the next test
//! begins. So other load on the machine affects all three alike, and the ratios vary less than the figures.

mod figure;
mod measure;
mod table;

use std::time::Duration;

use serde_json::Value;

use super::progress::Progress;
use super::run::Bench;
use super::{heading, system};
use crate::failure::Failure;

use figure::{Carrier, Results, Run};
use measure::{CONGESTION_CONTROL, Site, Test};
use table::Table;

/// Seconds of each throughput test.
pub(super) const SECONDS: u32 = 5;

/// Runs the tests; the text to print.
pub(super) fn run(bench: &Bench) -> Result<String, Failure> {
    bench.no_variants()?;
    let results = run_all(bench)?;
    if !bench.json {
        let about = format!("{CONGESTION_CONTROL} flows, {} s a test", bench.seconds.as_secs());
        return Ok(format!("{}\n\n{}", heading(bench, &about), Table(&results)));
    }
    let mut result = results.to_json();
    let mut system = system(bench);
    system["congestion_control"] = CONGESTION_CONTROL.into();
    result.insert("system".to_owned(), system);
    serde_json::to_string_pretty(&Value::Object(result)).map_err(Failure::doing("cannot print"))
}

fn run_all(bench: &Bench) -> Result<Results, Failure> {
    let seconds = bench.seconds;
    let round: Duration = Test::ALL.into_iter().map(|test| test.time(seconds)).sum();
    let mut progress = Progress::new(round * Carrier::ALL.len() as u32 * bench.runs);
    let mut results = Results::default();
    for number in 1..=bench.runs {
        let mut run = Run::new();
        let what = |carrier: Carrier, doing: &str| {
            format!("run {number} of {}, {}: {doing}", bench.runs, carrier.name())
        };
        let mut sites = Vec::new();
        for carrier in Carrier::ALL {
            progress.begin(&what(carrier, "setting up"), Duration::ZERO);
            let site = Site::build(carrier, &bench.binary, seconds, &bench.stop)?;
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
