//! `bench proportions`: whether classes that share lanes get the shares they were promised, whatever the capacity is.
//!
//! Each class is sent some bulk flows, recognised by the port they go to, while the WAN steps from one rate to another. The
//! share of a class is measured where it counts, at the receivers, in windows of a second. Promised proportions must hold in
//! every window but the first ones, in which the flows start, and the one that begins with a step.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use trunkline_testbed::clock;
use trunkline_testbed::link::{LinkSettings, Way};
use trunkline_testbed::scene::Plan;
use trunkline_testbed::traffic::{BulkSettings, SinkReport};
use trunkline_units::{Instant, Rate};

use super::report::{Bound, Measure, Measured, Report, Requirement, Row, median, rounded};
use super::run::{Bench, Cell};
use super::site::Site;
use super::variant::Variant;
use crate::failure::Failure;

/// Seconds at each rate.
pub(super) const SECONDS: u32 = 8;

/// Rates of the WAN, one after the other, Mbit/s.
const STEPS: [f64; 3] = [100.0, 40.0, 80.0];
const ROUND_TRIP: Duration = Duration::from_millis(30);
const BUFFER: Duration = Duration::from_millis(50);
const FLOWS: u32 = 4;
const CONGESTION_CONTROL: &str = "cubic";
const WINDOW: Duration = Duration::from_secs(1);
/// How long the flows go at the first rate before it counts. A promise is to a class that has something to send, and
/// until its flows have opened their windows it has not.
const LEAD: Duration = Duration::from_secs(8);
const FIRST_PORT: u16 = 5001;
/// Percentage points that a share may be off.
const TOLERANCE_POINTS: f64 = 3.0;

const MEASURES: [Measure; 4] = [
    Measure::new("worst_points", "worst off, points", 2),
    Measure::new("mean_points", "mean off, points", 2),
    Measure::new("utilisation", "goodput / capacity", 3),
    Measure::new("worst_utilisation", "worst window", 3),
];

/// Shares in percent, one for each class, and who keeps them.
struct Promise {
    shares: &'static [u32],
    held: bool,
}

const PROMISES: [&[u32]; 2] = [&[30, 70], &[10, 30, 60]];

pub(super) fn run(bench: &Bench) -> Result<String, Failure> {
    let time = bench.seconds * STEPS.len() as u32 + Duration::from_secs(1);
    let rows = bench.run(cells(), time, |cell| measure(bench, cell))?;
    let requirements = cells()
        .iter()
        .filter(|cell| cell.condition.held)
        .filter_map(|cell| {
            rows.iter().find(|row| row.group == cell.group && row.variant == cell.variant.name)
        })
        .filter_map(requirement)
        .collect();
    let about = format!(
        "{FLOWS} {CONGESTION_CONTROL} flows a class, WAN {STEPS:?} Mbit/s for {} s each, RTT {} ms, buffer {} ms at \
         {} Mbit/s; windows of 1 s after {} s of lead, not judged: those that begin with a step",
        bench.seconds.as_secs(),
        ROUND_TRIP.as_millis(),
        BUFFER.as_millis(),
        STEPS[0],
        LEAD.as_secs(),
    );
    Report { about, measures: &MEASURES, rows: &rows, requirements }.text(bench)
}

fn requirement(row: &Row) -> Option<Requirement> {
    let what = format!("points off the promise in the worst window, {}, {}", row.group, row.variant);
    Some(Requirement { what, value: row.value("worst_points")?, bound: Bound::AtMost(TOLERANCE_POINTS) })
}

fn cells() -> Vec<Cell<Promise>> {
    let mut cells = Vec::new();
    for shares in PROMISES {
        let names: Vec<String> = shares.iter().map(ToString::to_string).collect();
        let weighted = Variant::classes("weights", classes(shares, Some("shared")));
        let variants = [
            (Variant::direct(), false),
            (Variant::classes("lane-each", classes(shares, None)), false),
            (weighted.clone(), true),
            (weighted.clone().over("cubic"), false),
            (weighted.over("bbr"), false),
        ];
        for (variant, held) in variants {
            let group = names.join("/");
            cells.push(Cell { group, variant, condition: Promise { shares, held } });
        }
    }
    cells
}

/// A class for each share, and one for what comes back. With `lane`, all but that one share lanes by weight.
fn classes(shares: &[u32], lane: Option<&str>) -> String {
    let mut text = String::new();
    for (index, share) in shares.iter().enumerate() {
        let port = FIRST_PORT + index as u16;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[classes]]\nname = \"share{share}\"\n\
             match = [{{ protocol = \"tcp\", destination_port = {port} }}]\n",
        );
        if let Some(lane) = lane {
            let _ = writeln!(text, "lane = \"{lane}\"\nweight = {share}");
        }
    }
    text + "[[classes]]\nname = \"rest\"\n"
}

fn measure(bench: &Bench, cell: &Cell<Promise>) -> Result<Measured, Failure> {
    let shares = cell.condition.shares;
    let link = LinkSettings::wide_area(Rate::from_mbit(STEPS[0]), ROUND_TRIP, BUFFER);
    let site = Site::build(bench, &cell.variant, link)?;
    let time = LEAD + bench.seconds * STEPS.len() as u32;
    let mut sinks = Vec::new();
    for index in 0..shares.len() {
        sinks.push(site.sink(FIRST_PORT + index as u16)?);
    }
    let begin = clock::now();
    let flows: Vec<_> = sinks
        .iter()
        .map(|sink| site.bulk(BulkSettings::new(sink.address(), CONGESTION_CONTROL, FLOWS, time)))
        .collect();
    debug_assert!(sinks.iter().all(|sink| sink.address().ip() == Plan::IPV4.x));
    for (index, rate) in STEPS.iter().enumerate().skip(1) {
        site.sleep_until(begin + LEAD + bench.seconds * index as u32)?;
        site.link.set_rate(Way::Forward, Some(Rate::from_mbit(*rate)));
    }
    for flows in flows {
        site.sent(flows)?;
    }
    let reports: Vec<SinkReport> =
        sinks.into_iter().map(trunkline_testbed::traffic::TcpSink::finish).collect();
    Ok(judge(shares, &reports, begin + LEAD, bench.seconds.as_secs() as usize))
}

/// What the receivers got, window by window, next to the promise.
fn judge(shares: &[u32], reports: &[SinkReport], begin: Instant, step_windows: usize) -> Measured {
    let promised: f64 = shares.iter().map(|share| f64::from(*share)).sum();
    let mut windows = Vec::new();
    let (mut off, mut used) = (vec![Vec::new(); shares.len()], Vec::new());
    for index in 0..step_windows * STEPS.len() {
        let from = begin + WINDOW * index as u32;
        let got: Vec<f64> =
            reports.iter().map(|report| report.goodput(from, from + WINDOW).as_mbit()).collect();
        let all: f64 = got.iter().sum();
        let judged = index < step_windows || index % step_windows != 0;
        let points: Vec<f64> = shares
            .iter()
            .zip(&got)
            .map(|(share, got)| if all > 0.0 { got / all * 100.0 } else { 0.0 } - f64::from(*share) * 100.0 / promised)
            .collect();
        if judged {
            for (off, points) in off.iter_mut().zip(&points) {
                off.push(points.abs());
            }
            used.push(all / STEPS[index / step_windows]);
        }
        windows.push(json!({
            "second": index,
            "judged": judged,
            "mbit": got.iter().map(|got| rounded(*got)).collect::<Vec<_>>(),
            "points_off": points.iter().map(|points| rounded(*points)).collect::<Vec<_>>(),
        }));
    }
    let worst = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let all: Vec<f64> = off.iter().flatten().copied().collect();
    let mut measured = Measured::default();
    measured.figures.insert("worst_points", worst(&all));
    measured.figures.insert("mean_points", mean(&all));
    measured.figures.insert("utilisation", mean(&used));
    measured.figures.insert("worst_utilisation", used.iter().copied().fold(f64::INFINITY, f64::min));
    let classes = shares.iter().zip(&off).map(|(share, off)| {
        json!({ "promised": share, "worst_points": rounded(worst(off)), "median_points": rounded(median(off.clone())) })
    });
    measured.details.insert("classes".to_owned(), Value::Array(classes.collect()));
    measured.details.insert("windows".to_owned(), Value::Array(windows));
    measured
}
