//! `bench drops`: timeouts, fairness and utilisation when many TCP flows share a slow trunk.
//!
//! Kung and Wang claim (kung1998 §4): with P1 to P3 a flow recovers from a loss by fast retransmit and seldom waits for
//! its retransmission timeout, the flows get equal shares, and the trunk stays full. Timeouts and segments sent are the
//! kernel's own counters in the senders' namespace.

use std::time::Duration;

use serde_json::Value;
use trunkline_testbed::clock;
use trunkline_testbed::link::DuplexSettings;
use trunkline_testbed::procfs::TcpCounters;
use trunkline_testbed::traffic::BulkSettings;
use trunkline_units::Rate;

use super::report::{Bound, Measure, Measured, Report, Requirement, Row, find};
use super::run::{Bench, Cell};
use super::site::{Site, drain_ms, dropped, total};
use super::variant::Variant;
use crate::failure::Failure;

/// Seconds of the measurement.
pub(super) const SECONDS: u32 = 30;

const RATE_MBIT: f64 = 20.0;
const ROUND_TRIP: Duration = Duration::from_millis(50);
const BUFFER: Duration = Duration::from_millis(50);
const FLOWS: u32 = 50;
/// The TCP of the flows: today's with two congestion controls, and one as of 1998. Without SACK, tail loss probes and
/// RACK, a second loss in a window causes a timeout.
const STACKS: [Stack; 3] = [
    Stack { name: "cubic", congestion_control: "cubic", era: Era::Today },
    Stack { name: "reno", congestion_control: "reno", era: Era::Today },
    Stack { name: "reno without SACK", congestion_control: "reno", era: Era::From1998 },
];
/// Settings that turn off the kernel's loss recovery from after 1998.
const SYSCTLS_OFF_IN_1998: [&str; 5] = [
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_dsack",
    "net.ipv4.tcp_early_retrans",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_frto",
];
/// Time before the measurement. The flows start one after the other in its first half, so that their slow starts do not
/// coincide.
const LEAD: Duration = Duration::from_secs(6);

const TAIL_DROP: &str = "tail-drop";
/// Tail drop with the capacity that the trunk discipline chose for itself.
const TAIL_DROP_SIZED: &str = "tail-drop-sized";
const TRUNK: &str = "trunk";
/// Timeouts relative to those of tail drop.
const MAX_TIMEOUT_RATIO: f64 = 0.2;
const MIN_JAIN: f64 = 0.9;
const MIN_UTILISATION: f64 = 0.95;

const FULL_PACKET_BYTES: f64 = 1500.0;

const MEASURES: [Measure; 10] = [
    Measure::new("timeouts", "timeouts", 0),
    Measure::new("timeouts_start", "at the start", 0),
    Measure::new("retransmissions", "retransmissions", 0),
    Measure::new("jain", "Jain's index", 3),
    Measure::new("utilisation", "WAN utilisation", 3),
    Measure::new("goodput_mbit", "Mbit/s", 2).with_ratio(),
    Measure::new("edge_ms", "edge queue ms", 0),
    Measure::new("edge_drops", "edge drops", 0),
    Measure::new("wan_drops", "WAN drops", 0),
    Measure::new("capacity_packets", "capacity, packets", 0),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Today,
    From1998,
}

/// The TCP of the flows' hosts.
#[derive(Debug, Clone, Copy)]
struct Stack {
    name: &'static str,
    congestion_control: &'static str,
    era: Era,
}

struct Condition {
    stack: Stack,
    /// Whether the queue gets the capacity that the trunk discipline chose.
    trunk_capacity: bool,
}

pub(super) fn run(bench: &Bench) -> Result<String, Failure> {
    // The capacity that the trunk discipline chose in the current group; its row comes before the one that needs it.
    let mut capacity_bytes = None;
    let rows = bench.run(cells(), LEAD + bench.seconds + Duration::from_secs(2), |cell| {
        let measured = measure(bench, cell, capacity_bytes)?;
        if cell.variant.name == TRUNK {
            capacity_bytes = measured.details.get("capacity_bytes").and_then(Value::as_f64);
        }
        Ok(measured)
    })?;
    let requirements = STACKS.iter().flat_map(|stack| requirements(&rows, stack.name)).collect();
    let about = format!(
        "{FLOWS} flows in one class for {} s after {} s, WAN {RATE_MBIT} Mbit/s, RTT {} ms, buffer {} ms",
        bench.seconds.as_secs(),
        LEAD.as_secs(),
        ROUND_TRIP.as_millis(),
        BUFFER.as_millis(),
    );
    Report { about, measures: &MEASURES, rows: &rows, requirements }.text(bench)
}

fn requirements(rows: &[Row], group: &str) -> Vec<Requirement> {
    let Some(trunk) = find(rows, group, TRUNK) else { return Vec::new() };
    let mut requirements = Vec::new();
    let mut require = |figure: &str, value: Option<f64>, bound| {
        let figure = format!("{figure}, {group}, {TRUNK}");
        requirements.extend(value.map(|value| Requirement { figure, value, bound }));
    };
    for reference in [TAIL_DROP, TAIL_DROP_SIZED] {
        if let Some(timeouts) = find(rows, group, reference).and_then(|row| row.value("timeouts")) {
            let figure = format!("timeouts ({reference}: {timeouts})");
            require(&figure, trunk.value("timeouts"), Bound::Max(timeouts * MAX_TIMEOUT_RATIO));
        }
    }
    require("Jain's index", trunk.value("jain"), Bound::Min(MIN_JAIN));
    require("WAN utilisation", trunk.value("utilisation"), Bound::Min(MIN_UTILISATION));
    requirements
}

fn cells() -> Vec<Cell<Condition>> {
    let trunk = |without: &str| format!("{{ discipline = \"trunk\"{without} }}");
    let queues = [
        (TRUNK, trunk("")),
        (TAIL_DROP, "{ discipline = \"tail-drop\", packets = 1000 }".to_owned()),
        (TAIL_DROP_SIZED, String::new()),
        ("trunk-no-p1", trunk(", auto_size = false")),
        ("trunk-no-p2", trunk(", early_drop = false")),
        ("trunk-no-p3", trunk(", drop_holdoff = false")),
        ("fq-codel", "{ discipline = \"fq-codel\" }".to_owned()),
        ("red", "{ discipline = \"red\" }".to_owned()),
    ];
    let mut cells = Vec::new();
    for stack in STACKS {
        let mut add = |variant, trunk_capacity| {
            let condition = Condition { stack, trunk_capacity };
            cells.push(Cell { group: stack.name.to_owned(), variant, condition });
        };
        add(Variant::direct(), false);
        for (name, queue) in &queues {
            add(one_class(name, queue), *name == TAIL_DROP_SIZED);
        }
    }
    cells
}

fn one_class(name: &str, queue: &str) -> Variant {
    Variant::one_class(name, &format!("queue = {queue}"))
}

fn measure(bench: &Bench, cell: &Cell<Condition>, capacity_bytes: Option<f64>) -> Result<Measured, Failure> {
    let mut variant = cell.variant.clone();
    if cell.condition.trunk_capacity {
        let bytes = capacity_bytes.ok_or_else(|| {
            Failure::Input(format!("bench: {TAIL_DROP_SIZED} takes its capacity from {TRUNK}: select both"))
        })?;
        let queue = format!("{{ discipline = \"tail-drop\", bytes = \"{} B\" }}", bytes as u64);
        variant = one_class(TAIL_DROP_SIZED, &queue);
    }
    let rate = Rate::from_mbit(RATE_MBIT);
    let site = Site::build(bench, &variant, DuplexSettings::wide_area(rate, ROUND_TRIP, BUFFER))?;
    let stack = cell.condition.stack;
    if stack.era == Era::From1998 {
        for host in [&site.scene.a, &site.scene.x] {
            for setting in SYSCTLS_OFF_IN_1998 {
                host.sysctl(setting, "0").map_err(Failure::doing("cannot turn off loss recovery of TCP"))?;
            }
        }
    }
    let sink = site.sink(0)?;
    let begin = clock::now();
    let (from, to) = (begin + LEAD, begin + LEAD + bench.seconds);
    let at_begin = counters(&site)?;
    let flows: Vec<_> = (0..FLOWS)
        .map(|flow| {
            let start = begin + LEAD / 2 * flow / FLOWS;
            let mut settings = BulkSettings::new(sink.address(), stack.congestion_control, 1, to - start);
            settings.first_flow = flow;
            site.bulk_at(start, settings)
        })
        .collect();
    site.sleep_until(from)?;
    let (tcp, wan, edge) = (counters(&site)?, site.wan(), site.classes()?);
    site.sleep_until(to)?;
    let (tcp_end, wan_end, edge_end) = (counters(&site)?, site.wan(), site.classes()?);
    for flow in flows {
        site.sent(flow)?;
    }
    let received = sink.finish();

    let mut measured = Measured::default();
    let during = tcp_end.since(tcp);
    let bits = (wan_end.bytes_out - wan.bytes_out) as f64 * 8.0;
    measured.figures.extend([
        ("timeouts", during.timeouts as f64),
        ("timeouts_start", tcp.since(at_begin).timeouts as f64),
        ("retransmissions", during.retransmitted as f64),
        ("jain", received.jain(from, to).unwrap_or(0.0)),
        ("utilisation", bits / (rate.bits_per_second() as f64 * bench.seconds.as_secs_f64())),
        ("goodput_mbit", received.goodput(from, to).as_mbit()),
        ("wan_drops", (wan_end.dropped.queue - wan.dropped.queue) as f64),
    ]);
    if !edge_end.is_empty() {
        measured.figures.insert("edge_ms", drain_ms(total(&edge_end, "backlog_bytes"), rate));
        measured.figures.insert("edge_drops", dropped(&edge_end) - dropped(&edge));
    }
    if cell.variant.name.starts_with(TRUNK) {
        let capacity = total(&edge_end, "capacity_bytes");
        measured.figures.insert("capacity_packets", capacity / FULL_PACKET_BYTES);
        measured.details.insert("capacity_bytes".to_owned(), capacity.into());
    }
    measured.details.insert("spurious_timeouts".to_owned(), during.spurious_timeouts.into());
    measured.details.insert("segments_sent".to_owned(), during.sent.into());
    Ok(measured)
}

fn counters(site: &Site) -> Result<TcpCounters, Failure> {
    site.scene.a.tcp_counters().map_err(Failure::doing("cannot read the kernel's counters"))
}
