//! `bench meltdown`: TCP over TCP on a WAN that loses packets, is away for a moment, or is long.
//!
//! A reliable lane repairs every loss itself, and while it does the user's TCP waits, may lose patience, and repeats what is
//! only waiting in the trunk. The filter is to keep those repeats out of the lane. Losses are random and on the way of the data
//! only; acknowledgements come back unharmed. On a long WAN it is the buffer that loses them: what waited behind a repeat of the
//! lane's comes to the user at once, and so does what the user sends for it.

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

const PLAIN: Path = Path {
    rate_mbit: 50.0,
    round_trip: Duration::from_millis(50),
    buffer: Duration::from_millis(50),
    lead: Duration::from_secs(3),
};
/// As over a satellite, and with a buffer of a sixth of what is under way.
const LONG: Path = Path {
    rate_mbit: 10.0,
    round_trip: Duration::from_millis(400),
    buffer: Duration::from_millis(60),
    lead: Duration::from_secs(12),
};
const LOSSES: [f64; 3] = [0.0, 0.01, 0.03];
/// Congestion controls of the user's flow.
const USERS: [&str; 2] = ["cubic", "reno"];
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

/// A WAN.
#[derive(Debug, Clone, Copy)]
struct Path {
    rate_mbit: f64,
    round_trip: Duration,
    buffer: Duration,
    /// Until a flow has found its rate.
    lead: Duration,
}

impl Path {
    fn told(self) -> String {
        let (round_trip, buffer) = (self.round_trip.as_millis(), self.buffer.as_millis());
        format!("WAN {} Mbit/s, RTT {round_trip} ms, buffer {buffer} ms", self.rate_mbit)
    }
}

/// What is wrong with the WAN.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// It loses packets at random, with this probability.
    Loss(f64),
    /// It is cut for [`CUT`], every [`CUT_INTERVAL`]: the lane waits for a timer of its own, and the user's TCP with it.
    Cuts,
    /// It is [`LONG`].
    Length,
}

impl Trouble {
    const fn path(self) -> Path {
        match self {
            Trouble::Loss(_) | Trouble::Cuts => PLAIN,
            Trouble::Length => LONG,
        }
    }
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
    let time = PLAIN.lead + bench.seconds + Duration::from_secs(1);
    let rows = bench.run(cells(), time, |cell| measure(bench, cell))?;
    let held = cells().into_iter().filter(|cell| cell.condition.held);
    let requirements = held.flat_map(|cell| requirements(&cell, &rows)).collect();
    let about = format!(
        "one user flow for {} s after {} s, {}, losses on the way of the data; length: after {} s, {}",
        bench.seconds.as_secs(),
        PLAIN.lead.as_secs(),
        PLAIN.told(),
        LONG.lead.as_secs(),
        LONG.told(),
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
        for trouble in LOSSES.map(Trouble::Loss).into_iter().chain([Trouble::Cuts, Trouble::Length]) {
            let mut add = |variant, held| {
                let group = match trouble {
                    Trouble::Loss(loss) => format!("{user}, loss {} %", loss * 100.0),
                    Trouble::Cuts => format!("{user}, cuts"),
                    Trouble::Length => format!("{user}, length"),
                };
                cells.push(Cell { group, variant, condition: Condition { trouble, user, held } });
            };
            add(Variant::direct(), false);
            if matches!(trouble, Trouble::Length) {
                add(filter("filter", "true"), false);
                add(filter("filter", "true").unpaced(), false);
                continue;
            }
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
    let path = cell.condition.trouble.path();
    let wan = LinkSettings::wide_area(Rate::from_mbit(path.rate_mbit), path.round_trip, path.buffer);
    let site = Site::build(bench, &cell.variant, wan)?;
    if let Trouble::Loss(loss) = cell.condition.trouble {
        site.link.set_loss(Way::Forward, loss);
    }
    let sink = site.sink(0)?;
    let from = clock::now() + path.lead;
    let to = from + bench.seconds;
    let settings = BulkSettings::new(sink.address(), cell.condition.user, 1, path.lead + bench.seconds);
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
