//! `bench competing-flows`: the share of a WAN that a trunk gets beside flows outside it.
//!
//! The trunk carries bulk flows between the sites. 1 or 4 *competing flows*, CUBIC connections, run from gateway to gateway beside
//! it, through the same tail-drop buffer. A mechanism that keeps a lane from filling that buffer may also keep it from its
//! share: a lane is one connection, so its fair share is 1/(1 + competing flows).

use std::time::Duration;

use trunkline_testbed::clock;
use trunkline_testbed::link::DuplexSettings;
use trunkline_testbed::scene::Plan;
use trunkline_testbed::traffic::BulkSettings;
use trunkline_units::Rate;

use super::report::{Measure, Measured, Report};
use super::run::{Bench, Cell};
use super::site::{Site, drain_ms, sink_in};
use super::variant::Variant;
use crate::failure::Failure;

/// Seconds of the measurement.
pub(super) const SECONDS: u32 = 30;

const RATE_MBIT: f64 = 50.0;
const ROUND_TRIP: Duration = Duration::from_millis(30);
const BUFFER: Duration = Duration::from_millis(50);
const FLOWS: u32 = 8;
const COMPETING: [u32; 2] = [1, 4];
const CONGESTION_CONTROL: &str = "cubic";
/// Time before the measurement, for slow start and the convergence of shares.
const LEAD: Duration = Duration::from_secs(5);

const MEASURES: [Measure; 5] = [
    Measure::new("carried_mbit", "carried Mbit/s", 1).with_ratio(),
    Measure::new("competing_mbit", "competing Mbit/s", 1).with_ratio(),
    Measure::new("share", "trunk's share", 3),
    Measure::new("fair_share_ratio", "share / fair share", 2),
    Measure::new("wan_queue_ms", "WAN queue ms", 1),
];

pub(super) fn run(bench: &Bench) -> Result<String, Failure> {
    let rows =
        bench.run(cells(), LEAD + bench.seconds + Duration::from_secs(1), |cell| measure(bench, cell))?;
    let about = format!(
        "{FLOWS} {CONGESTION_CONTROL} flows carried beside {CONGESTION_CONTROL} flows from gateway to gateway, {} s after \
         {} s, WAN {RATE_MBIT} Mbit/s, RTT {} ms, buffer {} ms",
        bench.seconds.as_secs(),
        LEAD.as_secs(),
        ROUND_TRIP.as_millis(),
        BUFFER.as_millis(),
    );
    Report { about, measures: &MEASURES, rows: &rows, requirements: Vec::new() }.text(bench)
}

fn cells() -> Vec<Cell<u32>> {
    let one_class = || Variant::one_class("one-class", "");
    let variants = [
        Variant::direct(),
        one_class(),
        one_class().over("cubic"),
        one_class().over("bbr"),
        one_class().over("reno"),
    ];
    let mut cells = Vec::new();
    for competing in COMPETING {
        for variant in variants.clone() {
            let group = if competing == 1 {
                "1 competing flow".to_owned()
            } else {
                format!("{competing} competing flows")
            };
            cells.push(Cell { group, variant, condition: competing });
        }
    }
    cells
}

fn measure(bench: &Bench, cell: &Cell<u32>) -> Result<Measured, Failure> {
    let competing = cell.condition;
    let rate = Rate::from_mbit(RATE_MBIT);
    let site = Site::build(bench, &cell.variant, DuplexSettings::wide_area(rate, ROUND_TRIP, BUFFER))?;
    let carried = site.sink(0)?;
    let beside = sink_in(&site.scene.t2, Plan::IPV4.t2_wan, 0)?;
    let from = clock::now() + LEAD;
    let to = from + bench.seconds;
    let time = LEAD + bench.seconds;
    let flows = [
        site.bulk(BulkSettings::new(carried.address(), CONGESTION_CONTROL, FLOWS, time)),
        site.bulk_from(
            &site.scene.t1,
            BulkSettings::new(beside.address(), CONGESTION_CONTROL, competing, time),
        ),
    ];
    site.sleep_until(from)?;
    let backlog = site.mean_backlog_until(to)?;
    for flows in flows {
        site.sent(flows)?;
    }
    let [carried, beside] = [carried, beside].map(|sink| sink.finish().goodput(from, to).as_mbit());
    let share = if carried + beside > 0.0 { carried / (carried + beside) } else { 0.0 };
    let mut measured = Measured::default();
    measured.figures.extend([
        ("carried_mbit", carried),
        ("competing_mbit", beside),
        ("share", share),
        ("fair_share_ratio", share * f64::from(1 + competing)),
        ("wan_queue_ms", drain_ms(backlog, rate)),
    ]);
    Ok(measured)
}
