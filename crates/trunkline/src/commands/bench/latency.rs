//! `bench latency`: the response time of small requests beside bulk flows.
//!
//! Connections send requests at fixed times, first alone, then beside bulk flows in the same direction through a WAN with
//! a tail-drop buffer. The result is the delay that the bulk flows add: in the edge queue, in the lane, and in the WAN's
//! buffer if the lane's congestion control fills it.

use std::time::Duration;

use trunkline_testbed::clock;
use trunkline_testbed::link::DuplexSettings;
use trunkline_testbed::scene::Plan;
use trunkline_testbed::statistics::percentile;
use trunkline_testbed::traffic::{BulkSettings, Pacing, RpcReport, RpcServer, RpcSettings, request_response};
use trunkline_units::{Instant, Rate};

use super::report::{Bound, Measure, Measured, Report, Requirement, Row, find};
use super::run::{Bench, Cell};
use super::site::{Site, drain_ms, dropped, traffic};
use super::variant::Variant;
use crate::failure::Failure;

/// Seconds beside the bulk flows.
pub(super) const SECONDS: u32 = 15;

const RATE_MBIT: f64 = 50.0;
const ROUND_TRIP: Duration = Duration::from_millis(30);
const BUFFER: Duration = Duration::from_millis(50);
const BULK_FLOWS: u32 = 8;
const CONGESTION_CONTROL: &str = "cubic";
/// Connections that send requests in turn, and the interval between requests of a connection. The interval is longer than
/// a request takes even through a tail-drop queue of a thousand packets: a request that waited for its predecessor would
/// not measure the path.
const CONNECTIONS: u32 = 40;
const INTERVAL: Duration = Duration::from_millis(400);
/// Time before each measurement, for the first round trips of the connections and the slow start of the bulk flows.
const IDLE_LEAD: Duration = Duration::from_secs(1);
const LOAD_LEAD: Duration = Duration::from_secs(3);
/// Time for which bulk flows and requests continue after the measurement, so that the last requests get a response.
const TAIL: Duration = Duration::from_secs(1);
/// A port that no rule of the default classes names.
const PORT: u16 = 7000;

const MEASURES: [Measure; 8] = [
    Measure::new("idle_p50_ms", "idle p50 ms", 1),
    Measure::new("idle_p99_ms", "p99", 1),
    Measure::new("added_p50_ms", "added p50 ms", 1),
    Measure::new("added_p99_ms", "p99", 1),
    Measure::new("bulk_mbit", "bulk Mbit/s", 1).with_ratio(),
    Measure::new("wan_queue_ms", "WAN queue ms", 1),
    Measure::new("wan_drops", "WAN drops", 0),
    Measure::new("edge_drops", "edge drops", 0),
];

/// The maximum that bulk flows may add to the 99th percentile, if there is a requirement.
type Limit = Option<f64>;
const INTERACTIVE_MS: Limit = Some(10.0);
const SHARED_MS: Limit = Some(30.0);

pub(super) fn run(bench: &Bench) -> Result<String, Failure> {
    let time = idle_time(bench) + LOAD_LEAD + bench.seconds + TAIL + Duration::from_secs(1);
    let rows = bench.run(cells(), time, |cell| measure(bench, cell))?;
    let requirements = cells().iter().filter_map(|cell| requirement(cell, &rows)).collect();
    let about = format!(
        "{CONNECTIONS} connections with a request of 64 bytes every {} ms beside {BULK_FLOWS} {CONGESTION_CONTROL} flows, \
         {} s, WAN {RATE_MBIT} Mbit/s, RTT {} ms, buffer {} ms",
        INTERVAL.as_millis(),
        bench.seconds.as_secs(),
        ROUND_TRIP.as_millis(),
        BUFFER.as_millis(),
    );
    Report { about, measures: &MEASURES, rows: &rows, requirements }.text(bench)
}

fn requirement(cell: &Cell<Limit>, rows: &[Row]) -> Option<Requirement> {
    let row = find(rows, &cell.group, &cell.variant.name)?;
    let figure = format!("added p99 ms, {}", row.variant);
    Some(Requirement { figure, value: row.value("added_p99_ms")?, bound: Bound::Max(cell.condition?) })
}

fn cells() -> Vec<Cell<Limit>> {
    let mut variants = vec![
        (Variant::direct(), None),
        (Variant::defaults(), INTERACTIVE_MS),
        (Variant::classes("by-port", by_port()), INTERACTIVE_MS),
        (one_class("tail-drop", "packets = 1000"), None),
        (one_class("trunk", ""), SHARED_MS),
        (one_class("fq-codel", ""), SHARED_MS),
    ];
    for congestion_control in ["cubic", "bbr"] {
        variants.push((Variant::defaults().over(congestion_control), None));
        variants.push((one_class("tail-drop", "packets = 1000").over(congestion_control), None));
        variants.push((one_class("trunk", "").over(congestion_control), None));
        variants.push((one_class("fq-codel", "").over(congestion_control), None));
    }
    variants
        .into_iter()
        .map(|(variant, condition)| Cell { group: String::new(), variant, condition })
        .collect()
}

fn one_class(discipline: &str, more: &str) -> Variant {
    let separator = if more.is_empty() { "" } else { ", " };
    let queue = format!("queue = {{ discipline = \"{discipline}\"{separator}{more} }}");
    Variant::one_class(discipline, &queue)
}

/// Classes with a rule that puts the requests into a class of their own.
fn by_port() -> String {
    format!(
        "[[classes]]\nname = \"interactive\"\nmatch = [{{ protocol = \"tcp\", port = {PORT} }}]\n\
         [[classes]]\nname = \"rest\"\n"
    )
}

fn idle_time(bench: &Bench) -> Duration {
    IDLE_LEAD + bench.seconds / 3
}

fn measure(bench: &Bench, cell: &Cell<Limit>) -> Result<Measured, Failure> {
    let rate = Rate::from_mbit(RATE_MBIT);
    let site = Site::build(bench, &cell.variant, DuplexSettings::wide_area(rate, ROUND_TRIP, BUFFER))?;
    let server =
        RpcServer::start(&site.scene.x, (Plan::IPV4.x, PORT).into(), CONGESTION_CONTROL).map_err(traffic)?;
    let sink = site.sink(0)?;

    let begin = clock::now();
    let load = begin + idle_time(bench);
    let (from, to) = (load + LOAD_LEAD, load + LOAD_LEAD + bench.seconds);
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            // Staggered, so that the requests of all connections are evenly spaced.
            let first = begin + INTERVAL * number / CONNECTIONS;
            let settings = RpcSettings {
                pacing: Pacing::Interval(INTERVAL),
                ..RpcSettings::new(server.address(), CONGESTION_CONTROL, to + TAIL - first)
            };
            let stop = site.stop();
            site.scene.a.spawn("requests", move || {
                clock::sleep_until(first);
                request_response(&settings, &stop)
            })
        })
        .collect();
    site.sleep_until(load)?;
    let bulk = site.bulk(BulkSettings::new(sink.address(), CONGESTION_CONTROL, BULK_FLOWS, to + TAIL - load));
    site.sleep_until(from)?;
    let (wan, edge) = (site.wan(), site.classes()?);
    let backlog = site.mean_backlog_until(to)?;
    let (wan_end, edge_end) = (site.wan(), site.classes()?);
    site.sent(bulk)?;
    let reports: Vec<RpcReport> = clients.into_iter().map(trunkline_testbed::namespace::Task::join).collect();

    let mut measured = Measured::default();
    let idle = [0.5, 0.99].map(|p| quantile(&reports, begin + IDLE_LEAD, load, p));
    let loaded = [0.5, 0.99].map(|p| quantile(&reports, from, to, p));
    let [Some(idle_p50), Some(idle_p99)] = idle else {
        return Err(Failure::Other("no request got a response before the load".to_owned()));
    };
    let [Some(p50), Some(p99)] = loaded else {
        return Err(Failure::Other("no request got a response beside the load".to_owned()));
    };
    measured.figures.extend([
        ("idle_p50_ms", idle_p50),
        ("idle_p99_ms", idle_p99),
        ("added_p50_ms", p50 - idle_p50),
        ("added_p99_ms", p99 - idle_p99),
        ("bulk_mbit", sink.finish().goodput(from, to).as_mbit()),
        ("wan_queue_ms", drain_ms(backlog, rate)),
        ("wan_drops", (wan_end.dropped.queue - wan.dropped.queue) as f64),
    ]);
    if !edge_end.is_empty() {
        measured.figures.insert("edge_drops", dropped(&edge_end) - dropped(&edge));
    }
    let failed: u32 = reports.iter().map(|report| report.failed).sum();
    measured.details.insert("requests_failed".to_owned(), failed.into());
    measured.details.insert("load_p50_ms".to_owned(), p50.into());
    measured.details.insert("load_p99_ms".to_owned(), p99.into());
    Ok(measured)
}

/// A quantile of the response times of requests that were due in `from..to`, in milliseconds. A request that has no
/// response [`TAIL`] after `to` counts with the time for which it has waited.
fn quantile(reports: &[RpcReport], from: Instant, to: Instant, p: f64) -> Option<f64> {
    let mut took: Vec<Duration> = Vec::new();
    for report in reports {
        let answered = report.begins.iter().zip(&report.latencies);
        took.extend(answered.filter(|(begin, _)| (from..to).contains(*begin)).map(|(_, latency)| *latency));
        took.extend(report.outstanding.filter(|waited| *waited > TAIL));
    }
    percentile(&took, p).map(|took| took.as_secs_f64() * 1e3)
}
