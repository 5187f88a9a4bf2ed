//! The emulated link's queue, impairments and changes, on real packets.

mod common;

use std::time::Duration;

use common::{any_port, pair};
use trunkline_link::{Impairments, LinkSettings, Loss};
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_testbed::clock::{self, Scheduling};
use trunkline_testbed::lateness::{Lateness, judges_time};
use trunkline_testbed::link::{Direction, DuplexSettings};
use trunkline_testbed::privilege;
use trunkline_testbed::statistics::percentile;
use trunkline_testbed::traffic::{
    BulkSettings, EchoServer, FloodSettings, Pace, Pacing, PingSettings, RpcServer, RpcSettings, Stop,
    TcpSink, UdpSink, bulk, flood, ping, request_response,
};
use trunkline_units::Rate;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn losses_and_bit_errors_are_as_asked() {
    if !privilege::available("losses_and_bit_errors_are_as_asked") {
        return;
    }
    let clean = LinkSettings::new(Rate::MAX, Duration::ZERO);
    let impairments = Impairments { loss: Loss::Uniform(0.05), corruption: 0.03, ..Impairments::default() };
    let direction = LinkSettings { impairments, ..clean.clone() };
    let settings = DuplexSettings { forward: direction, ..DuplexSettings::symmetric(clean) };
    let pair = pair(&settings);
    let sink = UdpSink::start(&pair.b, any_port(common::B), Duration::from_millis(10)).expect("sink");
    let load = FloodSettings {
        target: sink.address(),
        payload_bytes: 472,
        pace: Pace::Rate(Rate::from_mbit(40.0)),
        batch: 1,
        time: 2 * SECOND,
        scheduling: Scheduling::Shared,
    };
    let sent = pair.a.run(|| flood(&load, &Stop::new())).expect("flood");
    std::thread::sleep(Duration::from_millis(50));
    let counters = pair.link.counters(Direction::Forward);
    let received = sink.finish();
    println!("{sent:?}; received {}; {counters:?}", received.received);
    let share = |count: u64| count as f64 / sent.sent as f64;
    // 20,000 packets: five standard deviations are 0.0077 and 0.006.
    assert!((share(counters.dropped.loss) - 0.05).abs() < 0.0077, "{}", share(counters.dropped.loss));
    assert!((share(counters.corrupted) - 0.03 * 0.95).abs() < 0.006, "{}", share(counters.corrupted));
    // A checksum finds every single bit error, so what arrives is what was neither lost nor hit.
    let missing = sent.sent - received.received;
    let explained = counters.dropped.loss + counters.corrupted;
    assert!(missing <= explained && explained - missing <= 5, "{missing} missing, {explained} explained");
    assert_eq!(counters.packets_in, counters.packets_out + counters.dropped.total());
}

#[test]
fn the_queue_holds_what_it_may_and_delays_by_it() {
    if !privilege::available("the_queue_holds_what_it_may_and_delays_by_it") {
        return;
    }
    // 10 Mbit/s with 50 ms of queue, and 20 ms there and back.
    let settings = DuplexSettings::wide_area(
        Rate::from_mbit(10.0),
        Duration::from_millis(20),
        Duration::from_millis(50),
    );
    let pair = pair(&settings);
    let sink = TcpSink::start(&pair.b, any_port(common::B), Duration::from_millis(20)).expect("sink");
    let echo = EchoServer::start(&pair.b, any_port(common::B), Scheduling::Shared).expect("echo");
    let pings = PingSettings::new(echo.address(), Duration::from_millis(10), 200);
    let lateness = Lateness::watch();
    let load = BulkSettings::new(sink.address(), "cubic", 1, 4 * SECOND);
    let (sent, pinged) = std::thread::scope(|scope| {
        let bulk = scope.spawn(|| pair.a.run(|| bulk(&load, &Stop::new())));
        std::thread::sleep(2 * SECOND);
        let pinged = pair.a.run(|| ping(&pings, &Stop::new())).expect("ping");
        (bulk.join().expect("bulk"), pinged)
    });
    let counters = pair.link.counters(Direction::Forward);
    let goodput = sink.finish().goodput(sent.begin + SECOND, sent.end).as_mbit();
    let p50 = percentile(&pinged.round_trips, 0.5).expect("answers");
    println!("10 Mbit/s: goodput {goodput:.3} Mbit/s, round trip under load p50 {p50:?}, {counters:?}");
    // 1448 of 1500 bytes are goodput. Of what arrives in three seconds, some may have been read late, which came before.
    let late = lateness.tolerance(4);
    let most = 9.66 * (1.0 + late.as_secs_f64() / 3.0);
    assert!(goodput <= most, "{goodput}, up to {most}");
    let longest = Duration::from_millis(70) + late;
    assert!(p50 >= Duration::from_millis(20) && p50 < longest, "{p50:?}, up to {longest:?}");
    assert!(counters.backlog_peak_bytes <= 62_500 && counters.backlog_peak_bytes > 31_250, "{counters:?}");
    // A sender that waits for a processor does not fill the link.
    let (rate, wait) = if judges_time() { (9.2, 28) } else { (5.0, 20) };
    assert!(goodput >= rate && p50 >= Duration::from_millis(wait), "{goodput} Mbit/s, {p50:?}");
    assert!(counters.dropped.queue > 0);
    // Packets that reach the link are of wire size, or the queue would not be what it says.
    assert!(counters.bytes_in / counters.packets_in <= 1500);
}

#[test]
fn a_bandwidth_delay_product_beyond_the_buffer_still_fills_the_link() {
    if !privilege::available("a_bandwidth_delay_product_beyond_the_buffer_still_fills_the_link") {
        return;
    }
    // 20 Mbit/s × 200 ms are 333 packets on the wire; the queue takes 20.
    let queue = QueueSettings::TailDrop(Limits { segments: 20, bytes: u64::MAX });
    let direction = LinkSettings::new(Rate::from_mbit(20.0), Duration::from_millis(200)).queue(queue);
    let pair = pair(&DuplexSettings::symmetric(direction));
    let sink = UdpSink::start(&pair.b, any_port(common::B), Duration::from_millis(10)).expect("sink");
    let load = FloodSettings {
        target: sink.address(),
        payload_bytes: 1472,
        pace: Pace::Rate(Rate::from_mbit(24.0)),
        batch: 1,
        time: 2 * SECOND,
        scheduling: Scheduling::Shared,
    };
    let sent = pair.a.run(|| flood(&load, &Stop::new())).expect("flood");
    let in_flight = pair.link.counters(Direction::Forward).in_flight;
    let received = sink.finish();
    let packets = received.datagrams_per_second(sent.begin + SECOND / 2, sent.end, 1472);
    println!("{packets:.0} packets/s with {in_flight} in_flight");
    let share = packets / (20e6 / 12_000.0);
    assert!(share < 1.02 && in_flight <= 345, "{share} of the rate, {in_flight} in flight");
    // A flood that waits for a processor is less than the link takes. If the wire counted as buffer, 20 packets were in flight.
    let (low, few) = if judges_time() { (0.98, 320) } else { (0.5, 100) };
    assert!(share > low && in_flight >= few, "{share} of the rate, {in_flight} in flight");
}

#[test]
fn a_cut_is_total_and_mended_at_once_and_a_connection_survives_it() {
    if !privilege::available("a_cut_is_total_and_mended_at_once_and_a_connection_survives_it") {
        return;
    }
    let direction = LinkSettings::new(Rate::MAX, Duration::from_millis(5));
    let pair = pair(&DuplexSettings::symmetric(direction));
    let handle = pair.link.handle();
    let lateness = Lateness::watch();
    let server = RpcServer::start(&pair.b, any_port(common::B), "cubic").expect("server");
    let settings = RpcSettings {
        pacing: Pacing::Interval(Duration::from_millis(20)),
        ..RpcSettings::new(server.address(), "cubic", 4 * SECOND)
    };
    let (report, cut_at, mended_at) = std::thread::scope(|scope| {
        let client = scope.spawn(|| pair.a.run(|| request_response(&settings, &Stop::new())));
        std::thread::sleep(SECOND);
        handle.cut();
        let cut_at = clock::now();
        std::thread::sleep(SECOND);
        assert_eq!(handle.counters(Direction::Forward).packets_out, {
            std::thread::sleep(SECOND / 10);
            handle.counters(Direction::Forward).packets_out
        });
        let mended_at = clock::now();
        handle.restore();
        (client.join().expect("client"), cut_at, mended_at)
    });
    assert_eq!((report.connections, report.failed), (1, 0), "{report:?}");
    let worst = *report.latencies.iter().max().expect("answers");
    println!(
        "cut for {:?}: worst latency {worst:?}, {:?}",
        mended_at - cut_at,
        handle.counters(Direction::Forward)
    );
    assert!(worst >= SECOND, "{worst:?}");
    // The kernel's timer doubles: after a cut of 1.1 s the next try comes within about as much again.
    lateness.assert_within("an answer after the cut", worst, Duration::from_millis(2600));
    assert!(handle.counters(Direction::Forward).dropped.down > 0);
}

#[test]
fn parameters_change_under_way() {
    if !privilege::available("parameters_change_under_way") {
        return;
    }
    let direction = LinkSettings::new(Rate::from_mbit(50.0), Duration::from_millis(2));
    let pair = pair(&DuplexSettings::symmetric(direction));
    let handle = pair.link.handle();
    let echo = EchoServer::start(&pair.b, any_port("fd00::2"), Scheduling::Shared).expect("echo");
    let median = |interval| {
        let settings = PingSettings::new(echo.address(), interval, 60);
        let report = pair.a.run(|| ping(&settings, &Stop::new())).expect("ping");
        let counters = Direction::BOTH.map(|way| handle.counters(way));
        // An echo that waits for a processor may come after the end.
        assert!(report.round_trips.len() >= 30, "{} {counters:?}", report.round_trips.len());
        percentile(&report.round_trips, 0.5).expect("answers")
    };
    let lateness = Lateness::watch();
    // A round trip waits for the link's thread twice, for the echo and for the receiver.
    let near = |value: Duration, millis: f64| {
        let (exact, tolerance) = (Duration::from_secs_f64(millis / 1e3), lateness.tolerance(4));
        assert!(
            value >= exact && value < exact + tolerance,
            "{value:?} instead of {exact:?}, {tolerance:?} late"
        );
    };
    near(median(Duration::from_millis(5)), 4.0);
    handle.set_delay(Direction::Forward, Duration::from_millis(30)).expect("a delay");
    near(median(Duration::from_millis(5)), 32.0);
    handle.set_delay(Direction::Forward, Duration::from_millis(2)).expect("a delay");
    // 112-byte packets at 100 kbit/s take 9 ms each way they are slow.
    handle.set_rate(Direction::Backward, Some(Rate::from_bits_per_second(100_000))).expect("a rate");
    near(median(Duration::from_millis(20)), 4.0 + 8.96);
}
