//! `bench proportions`: whether classes that share lanes get shares by their weights, whatever the capacity is.
//!
//! Each class gets bulk flows to a port of its own, while the WAN steps from one rate to another. The receivers measure the
//! share of each class in windows of a second. The shares must be right in every window except the first ones, in which the
//! flows start, and those that begin with a step.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use trunkline_testbed::clock;
use trunkline_testbed::link::{Direction, DuplexSettings};
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
/// Time before the measurement, at the first rate. A class has a right to its share only while it has something to send,
/// and until its flows have opened their windows it has not.
const LEAD: Duration = Duration::from_secs(8);
const FIRST_PORT: u16 = 5001;
/// The maximum deviation of a share, in percentage points.
const MAX_DEVIATION_POINTS: f64 = 3.0;

const MEASURES: [Measure; 4] = [
    Measure::new("max_deviation_points", "largest deviation, points", 2),
    Measure::new("mean_deviation_points", "mean deviation", 2),
    Measure::new("utilisation", "goodput / capacity", 3),
    Measure::new("min_utilisation", "minimum", 3),
];

struct Condition {
    /// Weights of the classes; they add up to 100.
    weights: &'static [u32],
    /// Whether the requirement applies.
    required: bool,
}

const WEIGHTS: [&[u32]; 2] = [&[30, 70], &[10, 30, 60]];

pub(super) fn run(bench: &Bench) -> Result<String, Failure> {
    let time = bench.seconds * STEPS.len() as u32 + Duration::from_secs(1);
    let rows = bench.run(cells(), time, |cell| measure(bench, cell))?;
    let requirements = cells()
        .iter()
        .filter(|cell| cell.condition.required)
        .filter_map(|cell| {
            rows.iter().find(|row| row.group == cell.group && row.variant == cell.variant.name)
        })
        .filter_map(requirement)
        .collect();
    let about = format!(
        "{FLOWS} {CONGESTION_CONTROL} flows a class, WAN {STEPS:?} Mbit/s for {} s each, RTT {} ms, buffer {} ms at \
         {} Mbit/s; windows of 1 s, the first after {} s; windows that begin with a step do not count",
        bench.seconds.as_secs(),
        ROUND_TRIP.as_millis(),
        BUFFER.as_millis(),
        STEPS[0],
        LEAD.as_secs(),
    );
    Report { about, measures: &MEASURES, rows: &rows, requirements }.text(bench)
}

fn requirement(row: &Row) -> Option<Requirement> {
    let figure = format!("largest deviation, points, {}, {}", row.group, row.variant);
    let value = row.value("max_deviation_points")?;
    Some(Requirement { figure, value, bound: Bound::Max(MAX_DEVIATION_POINTS) })
}

fn cells() -> Vec<Cell<Condition>> {
    let mut cells = Vec::new();
    for weights in WEIGHTS {
        let names: Vec<String> = weights.iter().map(ToString::to_string).collect();
        let weighted = Variant::classes("weights", classes(weights, Some("shared")));
        let variants = [
            (Variant::direct(), false),
            (Variant::classes("lane-each", classes(weights, None)), false),
            (weighted.clone(), true),
            (weighted.clone().over("cubic"), false),
            (weighted.over("bbr"), false),
        ];
        for (variant, required) in variants {
            let group = names.join("/");
            cells.push(Cell { group, variant, condition: Condition { weights, required } });
        }
    }
    cells
}

/// A class for each weight, and one for the acknowledgements. With `lane`, all but the last share lanes by weight.
fn classes(weights: &[u32], lane: Option<&str>) -> String {
    let mut text = String::new();
    for (index, weight) in weights.iter().enumerate() {
        let port = FIRST_PORT + index as u16;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[classes]]\nname = \"share{weight}\"\n\
             match = [{{ protocol = \"tcp\", destination_port = {port} }}]\n",
        );
        if let Some(lane) = lane {
            let _ = writeln!(text, "lane_group = \"{lane}\"\nweight = {weight}");
        }
    }
    text + "[[classes]]\nname = \"rest\"\n"
}

fn measure(bench: &Bench, cell: &Cell<Condition>) -> Result<Measured, Failure> {
    let weights = cell.condition.weights;
    let link = DuplexSettings::wide_area(Rate::from_mbit(STEPS[0]), ROUND_TRIP, BUFFER);
    let site = Site::build(bench, &cell.variant, link)?;
    let time = LEAD + bench.seconds * STEPS.len() as u32;
    let mut sinks = Vec::new();
    for index in 0..weights.len() {
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
        site.link
            .set_rate(Direction::Forward, Some(Rate::from_mbit(*rate)))
            .map_err(Failure::doing("cannot change the link"))?;
    }
    for flows in flows {
        site.sent(flows)?;
    }
    let reports: Vec<SinkReport> =
        sinks.into_iter().map(trunkline_testbed::traffic::TcpSink::finish).collect();
    Ok(deviations(weights, &reports, begin + LEAD, bench.seconds.as_secs() as usize))
}

/// The deviation of the shares at the receivers from the weights, window by window.
fn deviations(weights: &[u32], reports: &[SinkReport], begin: Instant, step_windows: usize) -> Measured {
    let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
    let mut windows = Vec::new();
    let (mut deviations, mut used) = (vec![Vec::new(); weights.len()], Vec::new());
    for index in 0..step_windows * STEPS.len() {
        let from = begin + WINDOW * index as u32;
        let got: Vec<f64> =
            reports.iter().map(|report| report.goodput(from, from + WINDOW).as_mbit()).collect();
        let all: f64 = got.iter().sum();
        let counts = index < step_windows || index % step_windows != 0;
        let points: Vec<f64> = weights
            .iter()
            .zip(&got)
            .map(|(weight, got)| if all > 0.0 { got / all * 100.0 } else { 0.0 } - f64::from(*weight) * 100.0 / sum)
            .collect();
        if counts {
            for (deviations, points) in deviations.iter_mut().zip(&points) {
                deviations.push(points.abs());
            }
            used.push(all / STEPS[index / step_windows]);
        }
        windows.push(json!({
            "second": index,
            "counts": counts,
            "mbit": got.iter().map(|got| rounded(*got)).collect::<Vec<_>>(),
            "deviation_points": points.iter().map(|points| rounded(*points)).collect::<Vec<_>>(),
        }));
    }
    let max = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let all: Vec<f64> = deviations.iter().flatten().copied().collect();
    let mut measured = Measured::default();
    measured.figures.insert("max_deviation_points", max(&all));
    measured.figures.insert("mean_deviation_points", mean(&all));
    measured.figures.insert("utilisation", mean(&used));
    measured.figures.insert("min_utilisation", used.iter().copied().fold(f64::INFINITY, f64::min));
    let classes = weights.iter().zip(&deviations).map(|(weight, points)| {
        json!({
            "weight": weight,
            "max_deviation_points": rounded(max(points)),
            "median_deviation_points": rounded(median(points.clone())),
        })
    });
    measured.details.insert("classes".to_owned(), Value::Array(classes.collect()));
    measured.details.insert("windows".to_owned(), Value::Array(windows));
    measured
}
