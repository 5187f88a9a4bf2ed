//! Hosts, veth pairs, children and load between them.

mod common;

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::any_port;
use trunkline_testbed::clock::Scheduling;
use trunkline_testbed::lateness::{Lateness, judges_time};
use trunkline_testbed::namespace::{Host, Offloads, veth};
use trunkline_testbed::privilege;
use trunkline_testbed::traffic::{
    BulkSettings, EchoServer, FloodSettings, Load, Pace, Pacing, PingSettings, RpcServer, RpcSettings, Stop,
    TcpSink, UdpSink, bulk, flood, ping, request_response,
};

const SECOND: Duration = Duration::from_secs(1);

/// Two hosts joined by a veth pair, with addresses of both families.
fn joined() -> (Host, Host) {
    let (a, b) = (Host::new("a").expect("host"), Host::new("b").expect("host"));
    veth(&a, "eth0", &b, "eth0").expect("veth");
    a.address("eth0", "198.18.2.1/24".parse().expect("net"), None).expect("address");
    b.address("eth0", "198.18.2.2/24".parse().expect("net"), None).expect("address");
    a.address("eth0", "fd00::1/64".parse().expect("net"), None).expect("address");
    b.address("eth0", "fd00::2/64".parse().expect("net"), None).expect("address");
    (a, b)
}

#[test]
fn one_flow_over_veth_is_fast_and_every_byte_is_counted() {
    if !privilege::available("one_flow_over_veth_is_fast_and_every_byte_is_counted") {
        return;
    }
    let (a, b) = joined();
    let sink = TcpSink::start(&b, any_port(common::B), Duration::from_millis(50)).expect("sink");
    let settings = BulkSettings::new(sink.address(), "cubic", 1, 2 * SECOND);
    let sent = a.run(|| bulk(&settings, &Stop::new()));
    assert_eq!(sent.failures().count(), 0, "{sent:?}");
    let received = sink.finish();
    let rate = received.goodput(sent.begin + SECOND / 4, sent.end - SECOND / 4);
    println!("one flow over veth: {rate}");
    assert!(received.bytes() <= sent.flows[0].sent_bytes);
    assert!(rate.as_mbit() > 3000.0, "{rate}");
}

#[test]
fn transfers_complete_at_the_receiver_on_both_families() {
    if !privilege::available("transfers_complete_at_the_receiver_on_both_families") {
        return;
    }
    let (a, b) = joined();
    for address in [common::B, "fd00::2"] {
        let sink = TcpSink::start(&b, any_port(address), Duration::from_millis(10)).expect("sink");
        let load = Load::Transfers { bytes: 1_000_003, repeat: 5, limit: 5 * SECOND };
        let settings =
            BulkSettings { load, first_flow: 7, ..BulkSettings::new(sink.address(), "reno", 3, SECOND) };
        let sent = a.run(|| bulk(&settings, &Stop::new()));
        let received = sink.finish();
        assert_eq!(sent.failures().collect::<Vec<_>>(), Vec::<&str>::new());
        assert_eq!(sent.durations().len(), 15);
        assert_eq!(received.bytes(), 15 * 1_000_003);
        let flows: Vec<(u32, u32)> =
            received.flows.iter().map(|flow| (flow.flow, flow.connections)).collect();
        assert_eq!(flows, [(7, 5), (8, 5), (9, 5)]);
    }
}

#[test]
fn an_unknown_congestion_control_is_named() {
    if !privilege::available("an_unknown_congestion_control_is_named") {
        return;
    }
    let host = Host::new("a").expect("host");
    let settings = BulkSettings::new("127.0.0.1:9".parse().expect("address"), "warp", 1, SECOND);
    let report = host.run(|| bulk(&settings, &Stop::new()));
    let failure = report.failures().next().expect("a failure").to_owned();
    assert!(failure.contains("\"warp\""), "{failure}");
}

#[test]
fn settings_and_devices_are_the_hosts_own() {
    if !privilege::available("settings_and_devices_are_the_hosts_own") {
        return;
    }
    let (a, b) = joined();
    let forwards =
        |host: &Host| host.run(|| std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").expect("read"));
    let before = std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").expect("read");
    a.forwarding().expect("forwarding");
    a.congestion_control("reno").expect("congestion control");
    assert_eq!(forwards(&a).trim(), "1");
    assert_eq!(forwards(&b).trim(), "0");
    assert_eq!(std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").expect("read"), before);
    let error = a.sysctl("net.ipv4.no_such_thing", "1").expect_err("no such setting").to_string();
    assert!(error.contains("host a") && error.contains("net.ipv4.no_such_thing"), "{error}");

    a.offloads("eth0", Offloads::Off).expect("offloads");
    assert!(a.offloads("eth7", Offloads::Off).is_err());
    // With offloads off no packet is longer than the MTU, so packets and bytes must agree.
    let sink = TcpSink::start(&b, any_port(common::B), Duration::from_millis(50)).expect("sink");
    let load = Load::Transfers { bytes: 3_000_000, repeat: 1, limit: 5 * SECOND };
    let settings = BulkSettings { load, ..BulkSettings::new(sink.address(), "cubic", 1, SECOND) };
    let before = stats(&b);
    assert_eq!(a.run(|| bulk(&settings, &Stop::new())).durations().len(), 1);
    let after = stats(&b);
    let mean = (after.0 - before.0) / (after.1 - before.1);
    println!("mean packet with offloads off: {mean} bytes");
    assert!((1000..=1514).contains(&mean), "{mean}");
}

fn stats(host: &Host) -> (u64, u64) {
    let stats = host
        .netlink(|handle| handle.link_index("eth0").and_then(|index| handle.link_stats(index)))
        .expect("counters");
    (stats.rx_bytes, stats.rx_packets)
}

#[test]
fn a_flood_is_counted_without_duplicates() {
    if !privilege::available("a_flood_is_counted_without_duplicates") {
        return;
    }
    let (a, b) = joined();
    let sink = UdpSink::start(&b, any_port(common::B), Duration::from_millis(10)).expect("sink");
    let rate = trunkline_units::Rate::from_mbit(50.0);
    let settings = FloodSettings {
        target: sink.address(),
        payload_bytes: 972,
        pace: Pace::Rate(rate),
        batch: 1,
        time: SECOND,
        scheduling: Scheduling::Shared,
    };
    let sent = a.run(|| flood(&settings, &Stop::new())).expect("flood");
    std::thread::sleep(Duration::from_millis(20));
    let received = sink.finish();
    assert_eq!((received.received, received.duplicates), (sent.sent, 0));
    // 50 Mbit/s of 1000-byte packets for a second are 6250.
    let least = if judges_time() { 6100 } else { 100 };
    assert!((least..=6251).contains(&sent.sent), "{sent:?}");

    let sink = UdpSink::start(&b, any_port(common::B), Duration::from_millis(10)).expect("sink");
    let settings = FloodSettings {
        target: sink.address(),
        payload_bytes: 64,
        pace: Pace::Unpaced,
        batch: 64,
        ..settings
    };
    let sent = a.run(|| flood(&settings, &Stop::new())).expect("flood");
    let received = sink.finish();
    println!("unpaced: {} sent, {} received in a second", sent.sent, received.received);
    let least = if judges_time() { 50_000 } else { 1000 };
    assert!(received.received > least && received.received <= sent.sent);
}

#[test]
fn round_trips_over_veth_take_microseconds() {
    if !privilege::available("round_trips_over_veth_take_microseconds") {
        return;
    }
    let (a, b) = joined();
    let echo = EchoServer::start(&b, any_port(common::B), Scheduling::Shared).expect("echo");
    let settings = PingSettings::new(echo.address(), Duration::from_millis(2), 200);
    let lateness = Lateness::watch();
    let report = a.run(|| ping(&settings, &Stop::new())).expect("ping");
    let p50 = trunkline_testbed::statistics::percentile(&report.round_trips, 0.5).expect("answers");
    println!("veth round trip p50 {p50:?}, loss {}", report.loss());
    assert_eq!((report.sent, report.round_trips.len()), (200, 200));
    // The echo's thread and the receiver's.
    let longest = lateness.tolerance(2);
    assert!(p50 < longest, "{p50:?}, up to {longest:?}");
}

#[test]
fn requests_are_answered_and_the_pace_is_kept() {
    if !privilege::available("requests_are_answered_and_the_pace_is_kept") {
        return;
    }
    let (a, b) = joined();
    let server = RpcServer::start(&b, any_port(common::B), "cubic").expect("server");
    let settings = RpcSettings {
        response_bytes: 100_000,
        pacing: Pacing::Interval(Duration::from_millis(10)),
        ..RpcSettings::new(server.address(), "cubic", SECOND)
    };
    let report = a.run(|| request_response(&settings, &Stop::new()));
    assert_eq!((report.failed, report.connections, report.outstanding), (0, 1, None));
    let least = if judges_time() { 90 } else { 10 };
    assert!((least..=100).contains(&report.latencies.len()), "{}", report.latencies.len());
    assert_eq!(server.finish(), report.latencies.len() as u64);
}

#[test]
fn a_stop_ends_a_call_early() {
    if !privilege::available("a_stop_ends_a_call_early") {
        return;
    }
    let (a, b) = joined();
    let sink = TcpSink::start(&b, any_port(common::B), Duration::from_millis(50)).expect("sink");
    let stop = Stop::new();
    let (settings, seen) = (BulkSettings::new(sink.address(), "cubic", 2, 600 * SECOND), stop.clone());
    let (begin, lateness) = (Instant::now(), Lateness::watch());
    let task = a.spawn("bulk", move || bulk(&settings, &seen));
    std::thread::sleep(Duration::from_millis(100));
    stop.stop();
    task.join();
    // Less than the bulk was told to take, also on a busy machine.
    lateness.assert_within("a stop", begin.elapsed(), SECOND);
}

#[test]
fn a_child_is_in_the_namespace_and_ends_with_its_handle() {
    if !privilege::available("a_child_is_in_the_namespace_and_ends_with_its_handle") {
        return;
    }
    let host = Host::new("a").expect("host");
    let link = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/net")).expect("namespace");
    let mut command = Command::new("cat");
    command.arg("/proc/net/dev").stdout(Stdio::piped());
    let mut child = host.command(command).expect("start");
    let mut text = String::new();
    child.stdout().expect("piped").read_to_string(&mut text).expect("read");
    assert!(child.wait(SECOND).expect("wait").expect("ended").success());
    assert_eq!(text.lines().filter(|line| line.contains(':')).count(), 1, "only lo: {text}");

    let mut command = Command::new("sleep");
    command.arg("60");
    let mut child = host.command(command).expect("start");
    assert_ne!(link(&child.pid().to_string()), link("self"));
    assert_eq!(link(&child.pid().to_string()), host.run(|| link("thread-self")));
    assert!(child.wait(Duration::from_millis(20)).expect("wait").is_none());
    let status = child.terminate(SECOND).expect("terminate");
    assert!(!status.success());

    let mut command = Command::new("sleep");
    command.arg("60");
    let child = host.command(command).expect("start");
    let pid = child.pid();
    drop(child);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());

    let error = host.command(Command::new("/no/such/program")).expect_err("no such program").to_string();
    assert!(error.contains("host a") && error.contains("/no/such/program"), "{error}");
}
