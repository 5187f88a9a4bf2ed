//! `bench meltdown`: TCP over TCP on a WAN that loses packets, or is away for a moment.
//!
//! A reliable lane repairs every loss itself, and while it does the user's TCP waits, may lose patience, and repeats what is
//! only waiting in the trunk. The filter is to keep those repeats out of the lane. Losses are random and on the way of the data
//! only; acknowledgements come back unharmed.

use std::time::Duration;

use trunkline_testbed::clock;
use trunkline_testbed::link::{LinkSettings, Way};
use trunkline_testbed::traffic::BulkSettings;
use trunkline_units::Rate;

use super::report::{Bound, Measure, Measured, Report, Requirement, Row, find};
use super::run::{Bench, Cell};
use super::site::{Site, dropped, total};
use super::variant::Variant;
use crate::failure::Failure;

/// Seconds that count.
pub(super) const SECONDS: u32 = 20;

const RATE_MBIT: f64 = 50.0;
const ROUND_TRIP: Duration = Duration::from_millis(50);
const BUFFER: Duration = Duration::from_millis(50);
const LOSSES: [f64; 3] = [0.0, 0.01, 0.03];
/// Congestion controls of the user's flow.
const USERS: [&str; 2] = ["cubic", "reno"];
const LEAD: Duration = Duration::from_secs(3);
/// Repeats that may be carried without need, in percent of the segments sent. What the edge has dropped must be repeated; beyond
/// that a reliable lane loses nothing.
const REPEATS_PERCENT: f64 = 1.0;

const MEASURES: [Measure; 8] = [
    Measure::new("goodput_mbit", "Mbit/s", 2).with_ratio(),
    Measure::new("repeats_percent", "repeats sent %", 3),
    Measure::new("carried_percent", "carried %", 3),
    Measure::new("needless_percent", "needlessly %", 3),
    Measure::new("filtered", "filtered", 0),
    Measure::new("timeouts", "timeouts", 0),
    Measure::new("spurious_timeouts", "spurious", 0),
    Measure::new("edge_drops", "edge drops", 0),
];

/// What is wrong with the WAN.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// It loses packets at random, with this probability.
    Loss(f64),
    /// It is cut for [`CUT`], every [`CUT_INTERVAL`]: the lane waits for a timer of its own, and the user's TCP with it.
    Cuts,
}

const CUT: Duration = Duration::from_millis(700);
const CUT_INTERVAL: Duration = Duration::from_secs(4);

struct Condition {
    trouble: Trouble,
    /// The congestion control of the user's flow.
    user: &'static str,
    /// Whether the requirements are for this one.
    held: bool,
}

pub(super) fn run(bench: &Bench) -> Result<String, Failure> {
    let rows =
        bench.run(cells(), LEAD + bench.seconds + Duration::from_secs(1), |cell| measure(bench, cell))?;
    let held = cells().into_iter().filter(|cell| cell.condition.held);
    let requirements = held.flat_map(|cell| requirements(&cell, &rows)).collect();
    let about = format!(
        "one user flow for {} s after {} s, WAN {RATE_MBIT} Mbit/s, RTT {} ms, buffer {} ms, losses on the way of the data",
        bench.seconds.as_secs(),
        LEAD.as_secs(),
        ROUND_TRIP.as_millis(),
        BUFFER.as_millis(),
    );
    Report { about, measures: &MEASURES, rows: &rows, requirements }.text(bench)
}

fn requirements(cell: &Cell<Condition>, rows: &[Row]) -> Vec<Requirement> {
    let Some(row) = find(rows, &cell.group, &cell.variant.name) else { return Vec::new() };
    let name = format!("{}, {}", cell.group, cell.variant.name);
    let direct = find(rows, &cell.group, super::report::REFERENCE);
    let goodput = direct.and_then(|direct| row.ratio("goodput_mbit", direct)).map(|value| Requirement {
        what: format!("goodput to that of direct routing, {name}"),
        value,
        bound: Bound::AtLeast(1.0),
    });
    let carried = row.value("needless_percent").map(|value| Requirement {
        what: format!("percent of repeats carried needlessly, {name}"),
        value,
        bound: Bound::AtMost(REPEATS_PERCENT),
    });
    goodput.into_iter().chain(carried).collect()
}

fn cells() -> Vec<Cell<Condition>> {
    let mut cells = Vec::new();
    let filter = |name, keys: &str| Variant::one_class(name, &format!("repeat_filter = {keys}"));
    for user in USERS {
        for trouble in LOSSES.map(Trouble::Loss).into_iter().chain([Trouble::Cuts]) {
            let mut add = |variant, held| {
                let group = match trouble {
                    Trouble::Loss(loss) => format!("{user}, loss {} %", loss * 100.0),
                    Trouble::Cuts => format!("{user}, cuts"),
                };
                cells.push(Cell { group, variant, condition: Condition { trouble, user, held } });
            };
            add(Variant::direct(), false);
            add(filter("filter", "true"), true);
            add(filter("no-filter", "false"), false);
            for lane in ["cubic", "bbr"] {
                add(filter("filter", "true").over(lane), true);
                add(filter("no-filter", "false").over(lane), false);
            }
        }
    }
    cells
}

fn measure(bench: &Bench, cell: &Cell<Condition>) -> Result<Measured, Failure> {
    let rate = Rate::from_mbit(RATE_MBIT);
    let site = Site::build(bench, &cell.variant, LinkSettings::wide_area(rate, ROUND_TRIP, BUFFER))?;
    if let Trouble::Loss(loss) = cell.condition.trouble {
        site.link.set_loss(Way::Forward, loss);
    }
    let sink = site.sink(0)?;
    let from = clock::now() + LEAD;
    let to = from + bench.seconds;
    let settings = BulkSettings::new(sink.address(), cell.condition.user, 1, LEAD + bench.seconds);
    let flow = site.bulk(settings);
    let state = || -> Result<_, Failure> {
        let tcp = site.scene.a.tcp_counters().map_err(Failure::doing("cannot read the kernel's counters"))?;
        Ok((tcp, site.classes()?))
    };
    site.sleep_until(from)?;
    let (tcp, edge) = state()?;
    if matches!(cell.condition.trouble, Trouble::Cuts) {
        let mut cut = from;
        while cut + CUT_INTERVAL <= to {
            site.sleep_until(cut)?;
            site.link.cut();
            site.sleep_until(cut + CUT)?;
            site.link.restore();
            cut += CUT_INTERVAL;
        }
    }
    site.sleep_until(to)?;
    let (tcp_end, edge_end) = state()?;
    site.sent(flow)?;

    let tcp = tcp_end.since(tcp);
    let segments = (tcp.sent + tcp.repeated).max(1) as f64;
    let filtered = total(&edge_end, "filtered") - total(&edge, "filtered");
    let mut measured = Measured::default();
    measured.figures.extend([
        ("goodput_mbit", sink.finish().goodput(from, to).as_mbit()),
        ("repeats_percent", tcp.repeated as f64 * 100.0 / segments),
        ("timeouts", tcp.timeouts as f64),
        ("spurious_timeouts", tcp.spurious_timeouts as f64),
    ]);
    if !edge_end.is_empty() {
        let carried = (tcp.repeated as f64 - filtered).max(0.0);
        let drops = dropped(&edge_end) - dropped(&edge);
        measured.figures.extend([
            ("filtered", filtered),
            ("carried_percent", carried * 100.0 / segments),
            ("needless_percent", (carried - drops).max(0.0) * 100.0 / segments),
            ("edge_drops", drops),
        ]);
    }
    measured.details.insert("segments".to_owned(), (tcp.sent + tcp.repeated).into());
    measured.details.insert("duplicates_reported".to_owned(), tcp.duplicates.into());
    Ok(measured)
}
