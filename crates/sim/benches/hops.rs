//! How many packet-hops a second, on one thread: a packet-hop is one packet through one link, queue, serialiser,
//! propagation and delivery. `cargo bench -p trunkline-sim --bench hops [NAME]`.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use trunkline_link::LinkSettings;
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::{AcrossTrunk, Dumbbell, SourceId};
use trunkline_tcp::{BicVersion, CongestionAlgorithm, Preset, Settings};
use trunkline_units::{Instant, Rate};

struct Case {
    name: &'static str,
    about: &'static str,
    seconds: u64,
    build: fn() -> (Dumbbell, Vec<SourceId>),
}

fn linux(congestion_control: CongestionAlgorithm) -> Arc<Settings> {
    Arc::new(Settings { congestion_control, ..Preset::Linux6.settings() })
}

fn packets(segments: u32) -> QueueSettings {
    QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX })
}

/// 100 Mbit/s, 20 ms, a buffer of the product of both.
fn saturated() -> (Dumbbell, Vec<SourceId>) {
    let link = LinkSettings::new(Rate::from_mbit(100.0), Duration::from_millis(10)).queue(packets(167));
    let mut dumbbell = Dumbbell::new(1, 10, &link);
    let tcp = linux(CongestionAlgorithm::Cubic);
    let sources =
        (0..10).map(|pair| dumbbell.bulk(pair, 1, &tcp, (Duration::ZERO, Duration::ZERO))).collect();
    (dumbbell, sources)
}

fn trunk() -> (Dumbbell, Vec<SourceId>) {
    let link = LinkSettings::new(Rate::from_mbit(100.0), Duration::from_millis(10)).queue(packets(167));
    let tcp = linux(CongestionAlgorithm::Cubic);
    let across = AcrossTrunk::single(packets(1000), (*tcp).clone());
    let mut dumbbell = Dumbbell::with_trunk(1, 10, &link, across);
    let sources =
        (0..10).map(|pair| dumbbell.bulk(pair, 1, &tcp, (Duration::ZERO, Duration::ZERO))).collect();
    (dumbbell, sources)
}

/// 5 Gbit/s and 100 ms, so that each of ten thousand flows has a window to speak of: eight packets.
fn wide(flows: u32) -> (Dumbbell, Vec<SourceId>) {
    let link = LinkSettings::new(Rate::from_mbit(5000.0), Duration::from_millis(50)).queue(packets(41_667));
    let mut dumbbell = Dumbbell::new(1, 10, &link);
    let tcp = linux(CongestionAlgorithm::Cubic);
    let stagger = Duration::from_micros(200);
    let sources =
        (0..10).map(|pair| dumbbell.bulk(pair, flows / 10, &tcp, (Duration::ZERO, stagger))).collect();
    (dumbbell, sources)
}

/// The dumbbell that ns-3 3.37 goes through at 2.2 simulated seconds a second.
fn yardstick() -> (Dumbbell, Vec<SourceId>) {
    let link = LinkSettings::new(Rate::from_mbit(100.0), Duration::from_millis(50)).queue(packets(833));
    let mut dumbbell = Dumbbell::new(1, 10, &link);
    let growths = [CongestionAlgorithm::Bic(BicVersion::Linux), CongestionAlgorithm::Reno].map(linux);
    let sources = (0..10)
        .map(|pair| dumbbell.bulk(pair, 1, &growths[pair % 2], (Duration::ZERO, Duration::ZERO)))
        .collect();
    (dumbbell, sources)
}

const CASES: [Case; 5] = [
    Case { name: "saturated", about: "10 CUBIC flows, 100 Mbit/s, 20 ms", seconds: 60, build: saturated },
    Case { name: "trunk", about: "the same through a trunk of one lane", seconds: 60, build: trunk },
    Case { name: "few", about: "10 CUBIC flows, 5 Gbit/s, 100 ms", seconds: 10, build: || wide(10) },
    Case { name: "many", about: "10 000 CUBIC flows on the same link", seconds: 10, build: || wide(10_000) },
    Case {
        name: "yardstick",
        about: "5 BIC and 5 Reno flows, 100 Mbit/s, 100 ms",
        seconds: 100,
        build: yardstick,
    },
];

/// The time that this thread has run, which other work on the machine prolongs less than the time that passes. Where the system
/// does not give it, the time since `start`.
fn processor_time(start: Clock) -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = statistics.split(' ').next().and_then(|nanos| nanos.parse().ok());
    nanos.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

fn main() {
    let start = Clock::now();
    let wanted: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    println!("{:10} {:>9} {:>11} {:>8} {:>10}  what", "", "Mhops/s", "ns a hop", "sim s/s", "use");
    for case in CASES.iter().filter(|case| wanted.is_empty() || wanted.iter().any(|name| name == case.name)) {
        let mut best = f64::INFINITY;
        let (mut hops, mut used) = (0, 0.0);
        for _ in 0..3 {
            let (mut dumbbell, sources) = (case.build)();
            let end = Instant::ZERO + Duration::from_secs(case.seconds);
            let begun = processor_time(start);
            dumbbell.network.run_until(end);
            best = best.min(processor_time(start).saturating_sub(begun).as_secs_f64());
            hops = dumbbell.network.packet_hops();
            let link = dumbbell.network.link_state(dumbbell.bottleneck[0]);
            used = link.busy().as_secs_f64() / case.seconds as f64;
            assert!(sources.iter().all(|source| dumbbell.received(*source) > 0), "every flow gets something");
        }
        println!(
            "{:10} {:9.2} {:11.0} {:8.1} {:9.1}%  {}",
            case.name,
            hops as f64 / best / 1e6,
            best * 1e9 / hops as f64,
            case.seconds as f64 / best,
            used * 100.0,
            case.about
        );
    }
}
