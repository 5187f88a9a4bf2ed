//! `demo`: what a trunk is for, shown on this machine within about a minute.
//!
//! The demo runs the embedded experiment `bench-demo` once at each of its points: no trunk, a trunk as in the papers, and a
//! trunk as shipped. It runs on the testbed or, where the machine does not allow that, in the simulator.

use std::fs;
use std::iter;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use trunkline_engine::catalogue::{self, Unit};
use trunkline_engine::{Control, Engine, Sample};
use trunkline_lab::campaign::{self, Campaign, Complete, Event, Options, Study};
use trunkline_lab::document::{Document, Mistakes};
use trunkline_lab::number::show;
use trunkline_lab::report::{self as reports, MARK, PAGE, Survivors, survivors_note};
use trunkline_lab::results::{Point, PointResult, Run};
use trunkline_lab::store::Begin;
use trunkline_units::Rate;

use super::{ready, run, verdicts};
use crate::cli::laboratory::DemoArguments;
use crate::commands::laboratory::interrupt;
use crate::commands::laboratory::progress::{Progress, about};
use crate::failure::Failure;
use crate::output::{print, remark};
use trunkline_lab::embedded;

const ID: &str = "bench-demo";
/// The time before the flood, for which the experiment counts nothing.
const LEAD: u32 = 3;
/// The time that a full queue takes to drain at the WAN's rate.
const QUEUE_TIME: Duration = Duration::from_millis(100);
/// Shorter queues would not take the bursts of one connection.
const MIN_QUEUE_PACKETS: u64 = 16;
const PACKET_BYTES: u64 = 1500;
/// The time that the whole WAN takes for a file: at every rate about as many files are transferred, and slow start has the same
/// part in each.
const FILE_TIME: Duration = Duration::from_micros(409_600);

/// The part of the CPU time that may be missing before the demo says so.
const STOLEN: f64 = 0.05;

pub(crate) fn demo(arguments: &DemoArguments) -> Result<(), Failure> {
    let mistaken = |mistakes: Mistakes| Failure::Other(format!("the demo's experiment: {mistakes}"));
    let study = document(arguments).and_then(|document| Study::new(&document)).map_err(mistaken)?;
    let engine = engine(arguments)?;
    let stop = interrupt::watch(&engine)?;
    let live = Mutex::new(Live::new(&study, arguments, &engine));
    let with_live = |act: &dyn Fn(&mut Live)| act(&mut live.lock().unwrap_or_else(PoisonError::into_inner));
    let watch = |sample: &Sample<'_>| with_live(&|live| live.show(sample));
    let control = Control { stop: stop.flag(), watch: &watch };
    let options = Options { engine, jobs: 1, out: arguments.out.clone(), begin: Begin::Force };
    let campaign = campaign::run_watched(std::slice::from_ref(&study), &options, control, |progress| {
        match progress.event {
            Event::Finished(run) => with_live(&|live| live.finish(run)),
            Event::Failed(_) => with_live(&|live| live.over += 1),
            Event::Begun | Event::Complete(_) => {}
        }
    })?;
    drop(live);
    finish(&campaign, arguments)
}

/// The experiment with the rate and the time that were asked for.
fn document(arguments: &DemoArguments) -> Result<Document, Mistakes> {
    let rate = arguments.rate;
    let mut document = embedded::find(ID).expect("build.rs embeds it");
    let packets = rate.bytes_in(QUEUE_TIME).div_ceil(PACKET_BYTES).max(MIN_QUEUE_PACKETS).to_string();
    let bits = |rate: Rate, times: u64| format!("{} bit/s", rate.bits_per_second() * times);
    for (path, value) in [
        ("runs", "1".to_owned()),
        ("duration", format!("{} s", LEAD + arguments.seconds)),
        ("links.wan.rate", bits(rate, 1)),
        ("links.wan.queue.packets", packets.clone()),
        ("trunks.site.classes.*.queue.packets", packets),
        ("traffic.flood.rate", bits(rate, 2)),
        ("traffic.transfers.response", format!("{} B", rate.bytes_in(FILE_TIME))),
    ] {
        document.set(path, &value)?;
    }
    Ok(document)
}

/// The engine that was asked for; otherwise the testbed, or the simulator where this machine lacks what the testbed needs. Call it
/// before the first thread starts.
fn engine(arguments: &DemoArguments) -> Result<Engine, Failure> {
    // Somebody waits for it: a run that the machine disturbs is shown as it is.
    let once = Engine::Testbed { program: None, attempts: 1 };
    match &arguments.engine {
        Some(Engine::Sim) => return ready(&Engine::Sim),
        Some(Engine::Testbed { .. }) => return ready(&once),
        None => {}
    }
    match ready(&once) {
        Err(Failure::Lacking(why)) => {
            remark(&format_args!(
                "trunkline: {why}; so this demo is a simulation, not this machine's kernel"
            ));
            Ok(Engine::Sim)
        }
        ready => ready,
    }
}

/// Writes the report and prints the result. What an interrupted demo leaves is removed.
fn finish(campaign: &Campaign, arguments: &DemoArguments) -> Result<(), Failure> {
    if campaign.interrupted {
        // The next demo would replace it anyway.
        let _ = fs::remove_dir_all(arguments.out.join(ID));
        let _ = fs::remove_dir(&arguments.out);
        return Err(Failure::Interrupted);
    }
    if let Some(failure) = campaign.failures.first() {
        return Err(Failure::Other(format!("{}: {}", name(&failure.point), failure.why)));
    }
    for complete in &campaign.complete {
        let entry = reports::write(&complete.directory).map_err(super::failure)?;
        reports::write_index(&arguments.out, &[entry], &[], &[]).map_err(super::failure)?;
        if !arguments.json {
            let page = complete.directory.path().join(PAGE);
            print(&format!("{}\n{}", table(complete), verdicts::of_experiment(complete, &page)))?;
        }
        print_disturbed(complete);
    }
    if arguments.json { print(&run::json(campaign)?) } else { Ok(()) }
}

/// Says if the machine had so little time for the runs that they may show the machine rather than the trunk.
fn print_disturbed(complete: &Complete) {
    let stolen = complete.results.iter().filter_map(|result| result.metrics.get("run.stolen"));
    let most = stolen.map(|value| value.mean).fold(0.0, f64::max);
    if most > STOLEN {
        remark(&format_args!(
            "trunkline: the machine's host took up to {:.0} % of the CPU time away: on a quieter machine delays are shorter",
            100.0 * most
        ));
    }
}

/// The experiment has one axis.
fn name(point: &Point) -> &str {
    point.values().next().map_or("", String::as_str)
}

/// What is shown while it runs.
struct Live<'a> {
    study: &'a Study,
    rate: Rate,
    line: Progress,
    /// Runs that have been reported.
    over: usize,
}

impl<'a> Live<'a> {
    fn new(study: &'a Study, arguments: &DemoArguments, engine: &Engine) -> Self {
        let mut line = Progress::new();
        let each = Duration::from_secs((LEAD + arguments.seconds + 1).into());
        let takes = match engine {
            Engine::Sim => "in a simulator".to_owned(),
            Engine::Testbed { .. } => format!("on this kernel, {}", about(each * study.points.len() as u32)),
        };
        line.print(&format!(
            "trunkline: a WAN of {}, requests and files over TCP, after {LEAD} s a UDP flood of twice its rate; {takes}",
            arguments.rate
        ));
        Self { study, rate: arguments.rate, line, over: 0 }
    }

    fn show(&mut self, sample: &Sample<'_>) {
        let points = &self.study.points;
        let Some(number) = points.iter().position(|planned| planned.scenario == *sample.scenario) else {
            return;
        };
        // The next run begins while the result of the one before it is written, and waits for its turn.
        if number != self.over {
            return;
        }
        let mbit = |series: &str| {
            let value =
                sample.values.iter().find(|(known, _)| *known == series).and_then(|(_, value)| *value);
            value.unwrap_or(0.0) / 1e6
        };
        let [transfers, flood] = ["transfers.goodput", "flood.goodput"].map(mbit);
        let bar = |mbit: f64| bar(mbit / self.rate.as_mbit());
        self.line.show(&format!(
            "{}/{} {:<16} {:>3.0} s  files {} {transfers:>5.2}  flood {} {flood:>5.2} Mbit/s",
            number + 1,
            points.len(),
            name(&points[number].point),
            sample.at.as_secs_f64(),
            bar(transfers),
            bar(flood),
        ));
    }

    fn finish(&mut self, run: &Run) {
        self.over += 1;
        self.line.print(&finished(run));
    }
}

/// What came of a run, in a line.
fn finished(run: &Run) -> String {
    let value = |metric: &str, unit| run.outcome.metrics.get(metric).map(|value| show(*value, unit));
    let shown = |metric: &str, unit| value(metric, unit).unwrap_or_default();
    let request = value("requests.delay.p50", "s").unwrap_or_else(|| "no answer".to_owned());
    format!(
        "{:<16}  a request: {request} ({} of {} completed), files {}, flood {}",
        name(&run.point),
        shown("requests.transfers.completed", "1"),
        shown("requests.transfers.total", "1"),
        shown("transfers.goodput", "bit/s"),
        shown("flood.goodput", "bit/s"),
    )
}

/// A share as a bar of eight cells.
fn bar(share: f64) -> String {
    const BAR: usize = 8;
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    "█".repeat(full) + &"░".repeat(BAR - full)
}

/// The experiment's table, a column for each point.
fn table(complete: &Complete) -> String {
    let heads = complete.results.iter().map(|result| format!("{} ", name(&result.point)));
    let mut lines: Vec<Vec<String>> = vec![iter::once(String::new()).chain(heads).collect()];
    for row in complete.experiment.tables.iter().flat_map(|table| &table.metrics) {
        let unit = match catalogue::unit(&row.metric) {
            Some(Unit::Ratio) => "%",
            unit => unit.unwrap_or(Unit::Count).name(),
        };
        let cell = |result: &PointResult| {
            // The mark stands in a column of its own, so that numbers stay below each other.
            let mark = if Survivors::too_few(&row.metric, result).is_some() { MARK } else { " " };
            let value = result.metrics.get(&row.metric);
            value.map_or_else(|| "–".to_owned(), |value| show(value.mean, unit)) + mark
        };
        let label = row.label.as_ref().unwrap_or(&row.metric).clone();
        lines.push(iter::once(label).chain(complete.results.iter().map(cell)).collect());
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=complete.results.len()).map(width).collect();
    let shown = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).skip(1).map(|(cell, width)| format!("  {cell:>width$}"));
        let cells: String = cells.collect();
        format!("{:<width$}{}\n", line[0], cells.trim_end(), width = widths[0])
    };
    let metrics = complete.experiment.tables.iter().flat_map(|table| &table.metrics);
    let results: Vec<&PointResult> = complete.results.iter().collect();
    let note = survivors_note(&complete.experiment, metrics.map(|row| row.metric.as_str()), &results);
    lines.iter().map(shown).collect::<String>() + &note.map(|note| note + "\n").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(seconds: u32, mbit: f64) -> DemoArguments {
        let rate = Rate::from_mbit(mbit);
        DemoArguments { seconds, rate, out: "out".into(), json: false, engine: None }
    }

    #[test]
    fn without_arguments_it_is_the_experiment_as_its_file_has_it() {
        let planned = |document: Document| document.plan().unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let own = planned(document(&arguments(15, 10.0)).unwrap_or_else(|mistakes| panic!("{mistakes}")));
        let file = planned(embedded::find(ID).expect("embedded"));
        assert_eq!(own.len(), 3);
        for (own, file) in own.iter().zip(&file) {
            assert_eq!(own.scenario, file.scenario, "{}", name(&own.point));
        }
    }

    #[test]
    fn queues_flood_and_files_follow_the_rate() {
        let document = document(&arguments(15, 100.0)).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let text = document.to_toml().unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(text.matches("packets = 834").count(), 3, "{text}");
        assert!(text.contains("200000000 bit/s") && text.contains("5120000 B"), "{text}");
    }

    #[test]
    fn a_bar_has_the_same_width_however_full() {
        for (share, full) in [(-1.0, 0), (0.0, 0), (0.5, 4), (1.0, 8), (7.0, 8)] {
            let bar = bar(share);
            assert_eq!((bar.chars().count(), bar.matches('█').count()), (8, full), "{share}");
        }
    }
}
