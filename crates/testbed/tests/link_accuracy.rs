//! The emulated link against a stop watch: real packets, rates within 1 % and delays within 0.3 ms. Only on a machine that is
//! not busy: the ordinary tests have the model in virtual time (`crates/link`, `crates/sim/tests/emulator.rs`).

mod common;

use std::time::Duration;

use common::{any_port, pair, within_attempts, within_three_attempts};
use trunkline_link::LinkSettings;
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_testbed::link::{DuplexSettings, Scheduling};
use trunkline_testbed::privilege;
use trunkline_testbed::statistics::percentile;
use trunkline_testbed::traffic::{EchoServer, FloodSettings, Pace, PingSettings, Stop, UdpSink, flood, ping};
use trunkline_units::Rate;

/// UDP payload of a 1500-byte IPv4 packet.
const PAYLOAD_BYTES: usize = 1472;
const DELAY: Duration = Duration::from_millis(10);
const TOLERANCE: Duration = Duration::from_micros(300);

fn settings(mbit: f64) -> DuplexSettings {
    let queue = QueueSettings::TailDrop(Limits { segments: 500, bytes: u64::MAX });
    let direction = LinkSettings::new(Rate::from_mbit(mbit), DELAY).queue(queue);
    DuplexSettings { scheduling: Scheduling::RealTime, ..DuplexSettings::symmetric(direction) }
}

#[test]
#[ignore = "judges time"]
fn the_rate_is_within_one_percent() {
    if !privilege::available("the_rate_is_within_one_percent") {
        return;
    }
    for (mbit, seconds) in [(1.0, 3), (10.0, 2), (100.0, 2), (200.0, 2)] {
        within_three_attempts("rate", || {
            let pair = pair(&settings(mbit));
            let sink = UdpSink::start(&pair.b, any_port(common::B), Duration::from_millis(4)).expect("sink");
            let load = FloodSettings {
                target: sink.address(),
                payload_bytes: PAYLOAD_BYTES,
                pace: Pace::Rate(Rate::from_mbit(mbit * 1.4)),
                batch: 1,
                time: Duration::from_secs(seconds) + Duration::from_millis(300),
                scheduling: Scheduling::RealTime,
            };
            let sent = pair.a.run(|| flood(&load, &Stop::new())).expect("flood");
            let received = sink.finish();
            let from = sent.begin + Duration::from_millis(300);
            let packets = received.datagrams_per_second(from, sent.end, PAYLOAD_BYTES);
            let measured = packets * 1500.0 * 8.0 / 1e6;
            let error = measured / mbit - 1.0;
            println!("rate {mbit:>5} Mbit/s: measured {measured:>8.3}, error {:>6.3} %", error * 100.0);
            if error.abs() <= 0.01 { Ok(()) } else { Err(format!("{measured} instead of {mbit} Mbit/s")) }
        });
    }
}

#[test]
#[ignore = "judges time"]
fn the_delay_is_within_three_tenths_of_a_millisecond() {
    if !privilege::available("the_delay_is_within_three_tenths_of_a_millisecond") {
        return;
    }
    for (mbit, load) in [(1.0, 0.0), (10.0, 0.0), (100.0, 0.0), (200.0, 0.0), (100.0, 0.5), (200.0, 0.5)] {
        within_attempts(6, "delay", || round_trip(mbit, load));
    }
}

/// How late this machine wakes a thread that sleeps: the median and the 99th percentile.
fn lateness() -> (Duration, Duration) {
    let nap = Duration::from_millis(1);
    let late: Vec<Duration> = (0..1000)
        .map(|_| {
            let before = std::time::Instant::now();
            std::thread::sleep(nap);
            before.elapsed().saturating_sub(nap)
        })
        .collect();
    (percentile(&late, 0.5).expect("samples"), percentile(&late, 0.99).expect("samples"))
}

/// Waits some seconds at most for a machine that is shared to wake threads in time again.
fn await_calm() {
    for _ in 0..5 {
        if lateness().1 < Duration::from_millis(1) {
            return;
        }
    }
}

/// Measures round trips at a rate, under `load` times that rate of full-size packets one way.
fn round_trip(mbit: f64, load: f64) -> Result<(), String> {
    await_calm();
    let pair = pair(&settings(mbit));
    let echo = EchoServer::start(&pair.b, any_port(common::B), Scheduling::RealTime).expect("echo");
    let pings = PingSettings {
        scheduling: Scheduling::RealTime,
        ..PingSettings::new(echo.address(), Duration::from_micros(3_100), 400)
    };
    let sink = UdpSink::start(&pair.b, any_port(common::B), Duration::from_millis(4)).expect("sink");
    let stop = Stop::new();
    let background = (load > 0.0).then(|| {
        let settings = FloodSettings {
            target: sink.address(),
            payload_bytes: PAYLOAD_BYTES,
            pace: Pace::Rate(Rate::from_mbit(mbit * load)),
            batch: 1,
            time: Duration::from_secs(5),
            scheduling: Scheduling::RealTime,
        };
        let stop = stop.clone();
        pair.a.spawn("flood", move || flood(&settings, &stop))
    });
    // At the same time, for a machine that is shared is late for some seconds and then is not.
    let lateness = std::thread::spawn(lateness);
    let report = pair.a.run(|| ping(&pings, &Stop::new())).expect("ping");
    let (late50, late99) = lateness.join().expect("naps");
    stop.stop();
    drop(background);
    if report.round_trips.len() < 396 {
        return Err(format!("{} of 400 answers", report.round_trips.len()));
    }
    // 92 bytes each way; under load behind at most one packet, and nothing waits on the way back.
    let transmission = Duration::from_nanos((92.0 * 8.0 * 1e3 / mbit) as u64);
    let behind =
        if load > 0.0 { Duration::from_nanos((1500.0 * 8.0 * 1e3 / mbit) as u64) } else { Duration::ZERO };
    let exact = 2 * (DELAY + transmission);
    let at = |samples: &[Duration], p| percentile(samples, p).expect("samples");
    let (p50, p99) = (at(&report.round_trips, 0.5), at(&report.round_trips, 0.99));
    let (one50, one99) = (at(&report.forward, 0.5), at(&report.forward, 0.99));
    let over = |value: Duration, exact: Duration| (value.as_secs_f64() - exact.as_secs_f64()) * 1e3;
    println!(
        "delay at {mbit:>5} Mbit/s, load {load:>3}: round trip p50 {:+.3} ms p99 {:+.3} ms, one way p50 {:+.3} ms \
         p99 {:+.3} ms over the exact value",
        over(p50, exact),
        over(p99, exact),
        over(one50, exact / 2),
        over(one99, exact / 2)
    );
    let least = *report.round_trips.iter().min().expect("samples");
    if least < exact {
        return Err(format!("a round trip of {least:?} is shorter than the link's {exact:?}"));
    }
    // Where the machine itself wakes late, so does the link: four times on a round trip.
    let (late50, late99) = (4 * late50, 4 * late99);
    if one50 > exact / 2 + behind + TOLERANCE + late50 || p50 > exact + behind + 2 * TOLERANCE + late50 {
        return Err(format!("p50 {p50:?} (one way {one50:?}) instead of {exact:?}"));
    }
    // One in a hundred may meet a pause of the machine itself, in one of the four wake-ups on its way.
    if p99 > exact + behind + Duration::from_millis(2) + late99 {
        return Err(format!("p99 {p99:?} instead of {exact:?}"));
    }
    Ok(())
}
