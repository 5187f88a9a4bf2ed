//! `bench meltdown`: TCP over TCP on a WAN that loses packets, is interrupted, or is long.
//!
//! A reliable lane retransmits every loss itself. Meanwhile the user's TCP waits, its retransmission timeout may expire,
//! and it retransmits data that is still in transit in the trunk. The retransmission filter keeps these retransmissions out
//! of the lane. Losses are random and in the direction of the data only; no acknowledgement is lost. On a long WAN the
//! losses are overflows of the buffer: after a retransmission of the lane, all data behind it reaches the user at once, and
//! the user responds with a burst.

use std::time::Duration;

use trunkline_link::Loss;
use trunkline_testbed::clock;
use trunkline_testbed::link::{Direction, DuplexSettings};
use trunkline_testbed::traffic::BulkSettings;
use trunkline_units::Rate;

use super::report::{Bound, Measure, Measured, Report, Requirement, Row, find};
use super::run::{Bench, Cell};
use super::site::{Site, dropped, total};
use super::variant::Variant;
use crate::failure::Failure;

/// Seconds of the measurement.
pub(super) const SECONDS: u32 = 20;

const PLAIN: Path = Path {
    rate_mbit: 50.0,
    round_trip: Duration::from_millis(50),
    buffer: Duration::from_millis(50),
    lead: Duration::from_secs(3),
};
/// A path as over a satellite, with a buffer of a sixth of its bandwidth-delay product.
const LONG: Path = Path {
    rate_mbit: 10.0,
    round_trip: Duration::from_millis(400),
    buffer: Duration::from_millis(60),
    lead: Duration::from_secs(12),
};
const LOSSES: [f64; 3] = [0.0, 0.01, 0.03];
/// Congestion controls of the user's flow.
const USERS: [&str; 2] = ["cubic", "reno"];
/// Spurious retransmissions that the lane may carry, in percent of the segments sent. A retransmission of a packet that the
/// edge has dropped is needed; a reliable lane loses nothing else.
const MAX_SPURIOUS_PERCENT: f64 = 1.0;

const MEASURES: [Measure; 8] = [
    Measure::new("goodput_mbit", "Mbit/s", 2).with_ratio(),
    Measure::new("retransmissions_percent", "retransmissions %", 3),
    Measure::new("carried_percent", "retransmissions carried %", 3),
    Measure::new("spurious_percent", "spurious %", 3),
    Measure::new("filtered", "filtered", 0),
    Measure::new("timeouts", "timeouts", 0),
    Measure::new("spurious_timeouts", "spurious timeouts", 0),
    Measure::new("edge_drops", "edge drops", 0),
];

/// A WAN.
#[derive(Debug, Clone, Copy)]
struct Path {
    rate_mbit: f64,
    round_trip: Duration,
    buffer: Duration,
    /// Time before the measurement, until a flow has found its rate.
    lead: Duration,
}

impl Path {
    fn describe(self) -> String {
        let (round_trip, buffer) = (self.round_trip.as_millis(), self.buffer.as_millis());
        format!("WAN {} Mbit/s, RTT {round_trip} ms, buffer {buffer} ms", self.rate_mbit)
    }
}

/// The impairment of the WAN.
#[derive(Debug, Clone, Copy)]
enum Impairment {
    /// Random loss with this probability.
    Loss(f64),
    /// An interruption of [`CUT`], every [`CUT_INTERVAL`]: the lane waits for its own retransmission timeout, and the user's
    /// TCP with it.
    Cuts,
    /// The path is [`LONG`].
    Length,
}

impl Impairment {
    const fn path(self) -> Path {
        match self {
            Impairment::Loss(_) | Impairment::Cuts => PLAIN,
            Impairment::Length => LONG,
        }
    }
}

const CUT: Duration = Duration::from_millis(700);
const CUT_INTERVAL: Duration = Duration::from_secs(4);

struct Condition {
    impairment: Impairment,
    /// The congestion control of the user's flow.
    user: &'static str,
    /// Whether the requirements apply.
    required: bool,
}

pub(super) fn run(bench: &Bench) -> Result<String, Failure> {
    let time = PLAIN.lead + bench.seconds + Duration::from_secs(1);
    let rows = bench.run(cells(), time, |cell| measure(bench, cell))?;
    let required = cells().into_iter().filter(|cell| cell.condition.required);
    let requirements = required.flat_map(|cell| requirements(&cell, &rows)).collect();
    let about = format!(
        "one user flow for {} s after {} s, {}, losses in the direction of the data; length: after {} s, {}",
        bench.seconds.as_secs(),
        PLAIN.lead.as_secs(),
        PLAIN.describe(),
        LONG.lead.as_secs(),
        LONG.describe(),
    );
    Report { about, measures: &MEASURES, rows: &rows, requirements }.text(bench)
}

fn requirements(cell: &Cell<Condition>, rows: &[Row]) -> Vec<Requirement> {
    let Some(row) = find(rows, &cell.group, &cell.variant.name) else { return Vec::new() };
    let name = format!("{}, {}", cell.group, cell.variant.name);
    let direct = find(rows, &cell.group, super::report::REFERENCE);
    let goodput = direct.and_then(|direct| row.ratio("goodput_mbit", direct)).map(|value| Requirement {
        figure: format!("goodput, ratio to direct routing, {name}"),
        value,
        bound: Bound::Min(1.0),
    });
    let spurious = row.value("spurious_percent").map(|value| Requirement {
        figure: format!("spurious retransmissions carried %, {name}"),
        value,
        bound: Bound::Max(MAX_SPURIOUS_PERCENT),
    });
    goodput.into_iter().chain(spurious).collect()
}

fn cells() -> Vec<Cell<Condition>> {
    let mut cells = Vec::new();
    let filter = |name, keys: &str| Variant::one_class(name, &format!("retransmission_filter = {keys}"));
    for user in USERS {
        for impairment in
            LOSSES.map(Impairment::Loss).into_iter().chain([Impairment::Cuts, Impairment::Length])
        {
            let mut add = |variant, required| {
                let group = match impairment {
                    Impairment::Loss(loss) => format!("{user}, loss {} %", loss * 100.0),
                    Impairment::Cuts => format!("{user}, cuts"),
                    Impairment::Length => format!("{user}, length"),
                };
                cells.push(Cell { group, variant, condition: Condition { impairment, user, required } });
            };
            add(Variant::direct(), false);
            if matches!(impairment, Impairment::Length) {
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
    let path = cell.condition.impairment.path();
    let wan = DuplexSettings::wide_area(Rate::from_mbit(path.rate_mbit), path.round_trip, path.buffer);
    let site = Site::build(bench, &cell.variant, wan)?;
    if let Impairment::Loss(loss) = cell.condition.impairment {
        site.link
            .set_loss(Direction::Forward, Loss::Uniform(loss))
            .map_err(Failure::doing("cannot change the link"))?;
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
    if matches!(cell.condition.impairment, Impairment::Cuts) {
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
    let segments = (tcp.sent + tcp.retransmitted).max(1) as f64;
    let filtered = total(&edge_end, "filtered") - total(&edge, "filtered");
    let mut measured = Measured::default();
    measured.figures.extend([
        ("goodput_mbit", sink.finish().goodput(from, to).as_mbit()),
        ("retransmissions_percent", tcp.retransmitted as f64 * 100.0 / segments),
        ("timeouts", tcp.timeouts as f64),
        ("spurious_timeouts", tcp.spurious_timeouts as f64),
    ]);
    if !edge_end.is_empty() {
        let carried = (tcp.retransmitted as f64 - filtered).max(0.0);
        let drops = dropped(&edge_end) - dropped(&edge);
        measured.figures.extend([
            ("filtered", filtered),
            ("carried_percent", carried * 100.0 / segments),
            ("spurious_percent", (carried - drops).max(0.0) * 100.0 / segments),
            ("edge_drops", drops),
        ]);
    }
    measured.details.insert("segments".to_owned(), (tcp.sent + tcp.retransmitted).into());
    measured.details.insert("duplicates_reported".to_owned(), tcp.duplicates.into());
    Ok(measured)
}
