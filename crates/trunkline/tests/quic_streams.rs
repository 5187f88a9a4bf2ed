//! Lanes over QUIC that deliver everything, on real kernels: nothing is lost or out of order within a flow over a path that
//! loses packets, a loss delays its own flow only, and many flows share the streams.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{self, check_stream, edit, lane, lanes_up, plans, setup, sites, wait_for};
use trunkline_link::Loss;
use trunkline_testbed::link::DuplexSettings;
use trunkline_testbed::namespace::Host;
use trunkline_testbed::scene::{Encryption, Gateway, GatewaySetup, Plan, Scene, Wan};
use trunkline_testbed::statistics::percentile;
use trunkline_testbed::traffic::{
    BulkSettings, Pacing, RpcServer, RpcSettings, Stop, TcpSink, bulk, request_response,
};
use trunkline_units::Rate;

const LIMIT: Duration = Duration::from_secs(20);
/// Flows whose packets are told apart, and the packets of all of them.
const FLOWS: u8 = 10;
const PACKETS: u32 = 2000;
/// Flows far beyond the number of streams.
const MANY: u16 = 10_000;

fn reliable() -> GatewaySetup {
    // A queue that drops nothing on a busy machine.
    let queue = "queue = { discipline = \"tail-drop\" }";
    let classes =
        format!("[[classes]]\nname = \"rest\"\ntransport = \"quic\"\ndelivery = \"reliable\"\n{queue}\n");
    GatewaySetup { classes: Some(classes), ..setup(Encryption::Tls) }
}

/// 50 Mbit/s and 40 ms, with packets lost in both directions.
fn lossy(percent: f64) -> Wan {
    let way = DuplexSettings::wide_area(
        Rate::from_mbit(50.0),
        Duration::from_millis(40),
        Duration::from_millis(100),
    );
    let loss = Loss::Uniform(percent / 100.0);
    Wan::Emulated(DuplexSettings {
        forward: way.forward.loss(loss),
        backward: way.backward.loss(loss),
        ..way
    })
}

/// A packet of a flow: which flow, its number in it, and when it was sent.
#[derive(Debug, Clone, Copy)]
struct Packet {
    flow: u8,
    number: u32,
    sent: Duration,
}

/// Sends the packets of so many flows in turn, one each two milliseconds. Those that arrive, in order.
fn flows(from: &Host, to: &Host, flows: u8, packets: u32) -> Vec<Packet> {
    let sink = to.run(|| UdpSocket::bind((Plan::IPV4.x, 0))).expect("a socket");
    sink.set_read_timeout(Some(Duration::from_secs(3))).expect("a time-out");
    let address = sink.local_addr().expect("its address");
    let sources: Vec<UdpSocket> =
        (0..flows).map(|_| from.run(|| UdpSocket::bind((Plan::IPV4.a, 0))).expect("a socket")).collect();
    let start = Instant::now();
    let receiver = thread::spawn(move || {
        let (mut got, mut bytes) = (Vec::new(), [0; 300]);
        while got.len() < packets as usize
            && let Ok(length) = sink.recv(&mut bytes)
        {
            assert_eq!(length, 100);
            let number = u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
            let sent = bytes[5..].first_chunk().map_or(0, |sent| u64::from_be_bytes(*sent));
            got.push(Packet { flow: bytes[0], number, sent: Duration::from_nanos(sent) });
        }
        got
    });
    for n in 0..packets {
        let flow = (n % u32::from(flows)) as u8;
        let mut packet = [0; 100];
        packet[0] = flow;
        packet[1..5].copy_from_slice(&(n / u32::from(flows)).to_be_bytes());
        packet[5..13].copy_from_slice(&(start.elapsed().as_nanos() as u64).to_be_bytes());
        sources[usize::from(flow)].send_to(&packet, address).expect("sent");
        thread::sleep((Duration::from_millis(2) * (n + 1)).saturating_sub(start.elapsed()));
    }
    receiver.join().expect("the receiver ends")
}

#[test]
fn a_loss_delays_its_own_flow_only_and_nothing_is_lost_or_overtaken_within_a_flow() {
    let test = "a_loss_delays_its_own_flow_only_and_nothing_is_lost_or_overtaken_within_a_flow";
    let Some((scene, gateways)) = sites(test, lossy(3.0), &reliable()) else { return };
    let got = flows(&scene.a, &scene.x, FLOWS, PACKETS);
    let sender = lane(&gateways, Gateway::T1, "rest");
    let receiver = lane(&gateways, Gateway::T2, "rest");
    assert_eq!(sender.frames_sent, receiver.frames_received, "the lane delivers all that it takes");
    assert_eq!(got.len(), PACKETS as usize, "nothing is lost");
    let mut next = [0; FLOWS as usize];
    for packet in &got {
        let expected = &mut next[usize::from(packet.flow)];
        assert_eq!(packet.number, *expected, "{packet:?} is in its place");
        *expected += 1;
    }
    // A packet that came although others had been sent 10 ms before it, of other flows, that came later.
    let mut earliest = Duration::MAX;
    let mut overtook = 0;
    for packet in got.iter().rev() {
        overtook += u32::from(packet.sent > earliest.saturating_add(Duration::from_millis(10)));
        earliest = earliest.min(packet.sent);
    }
    let lost = sender.retransmits;
    println!("{lost} packets were lost on the path, {overtook} of {PACKETS} overtook a repair");
    assert!(lost >= 5 && overtook > 10, "{lost} lost, {overtook} went on");
    assert_eq!(lanes_up(&gateways, Gateway::T1), 1);
}

/// With all offloads: super-packets travel whole.
#[test]
fn tcp_is_carried_intact_by_streams() {
    let test = "tcp_is_carried_intact_by_streams";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &reliable()) else { return };
    for plan in plans(&scene) {
        check_stream(&scene.a, &scene.x, plan.x, 20_000_000);
        check_stream(&scene.x, &scene.a, plan.a, 20_000_000);
    }
    let status = gateways.status(Gateway::T1).expect("a status");
    let lane = lane(&gateways, Gateway::T1, "rest");
    // 40 MB in frames of 1500 bytes were 27 000.
    let offloads = status.tun.offloads.concat();
    assert!(lane.frames_sent < 40_000 || !offloads.contains("tcp"), "{lane:?}");
    assert_eq!(lane.delivery.as_deref(), Some("reliable"));
    // What is counted as in transit is not more than what is: a lane that seems to hold something for long would stall.
    wait_for("nothing is held", LIMIT, &gateways, || {
        Gateway::BOTH.into_iter().all(|gateway| {
            let lane = common::lane(&gateways, gateway, "rest");
            (lane.unsent_bytes, lane.unacked_bytes) == (0, 0)
        })
    });
}

#[test]
fn tcp_is_carried_intact_over_a_path_that_loses() {
    let test = "tcp_is_carried_intact_over_a_path_that_loses";
    let Some((scene, gateways)) = sites(test, lossy(1.0), &reliable()) else { return };
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 3_000_000);
    assert_eq!(lanes_up(&gateways, Gateway::T1), 1);
}

/// Flows far beyond the number of streams: nobody is left out, and the lane holds.
#[test]
fn ten_thousand_flows_share_the_streams_of_a_lane() {
    let test = "ten_thousand_flows_share_the_streams_of_a_lane";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &reliable()) else { return };
    // A socket that hears of the closed ports does not send for once each time.
    let source = scene.a.run(|| UdpSocket::bind((Plan::IPV4.a, 0))).expect("a socket");
    let before = lane(&gateways, Gateway::T1, "rest").frames_sent;
    for port in 0..MANY {
        let to = SocketAddr::new(Plan::IPV4.x, 20_000 + port);
        while source.send_to(&[7; 100], to).is_err() {}
        if port % 20 == 0 {
            thread::sleep(Duration::from_millis(2));
        }
    }
    wait_for("all of them at the other site", LIMIT, &gateways, || {
        let sent = lane(&gateways, Gateway::T1, "rest").frames_sent;
        let received = lane(&gateways, Gateway::T2, "rest").frames_received;
        // What the device or the edge queue of a busy machine drops is no concern of the lane's.
        sent >= before + u64::from(MANY) / 2 && received == sent
    });
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 200_000);
}

#[test]
fn sites_with_different_deliveries_say_so_and_a_reload_changes_it() {
    let test = "sites_with_different_deliveries_say_so_and_a_reload_changes_it";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &reliable()) else { return };
    let change = |gateway, from: &str, to: &str| {
        edit(&gateways, gateway, |text| text.replace(from, to));
        gateways.reload(gateway).expect("a reload");
    };
    let (streams, datagrams) = ("delivery = \"reliable\"", "delivery = \"datagram\"");
    change(Gateway::T1, streams, datagrams);
    wait_for("the refusal", LIMIT, &gateways, || {
        let error = lane(&gateways, Gateway::T1, "rest").last_error.unwrap_or_default();
        error.contains("transport mismatch") && error.contains("reliable here, and datagram there")
    });
    change(Gateway::T2, streams, datagrams);
    wait_for("a lane of datagrams", LIMIT, &gateways, || {
        lanes_up(&gateways, Gateway::T1) == 1
            && lane(&gateways, Gateway::T2, "rest").delivery.as_deref() == Some("datagram")
    });
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 100_000);
}

/// What a hundred TCP flows get over a path that loses 1 % and has a round trip of 50 ms, and how long requests beside them take:
/// directly, over a lane of each kind. `TRUNKLINE_MBIT` is the rate of the link, 100 without it.
#[test]
#[ignore = "a measurement of minutes: docs/benchmarks.md"]
fn a_hundred_tcp_flows_and_requests_beside_them() {
    const LEAD: Duration = Duration::from_secs(5);
    const REST: Duration = Duration::from_secs(15);
    let mbit = std::env::var("TRUNKLINE_MBIT").ok().and_then(|mbit| mbit.parse().ok()).unwrap_or(100.0);
    let rate = Rate::from_mbit(mbit);
    let way = || {
        let way = DuplexSettings::wide_area(rate, Duration::from_millis(50), Duration::from_millis(50));
        Wan::Emulated(DuplexSettings { forward: way.forward.loss(Loss::Uniform(0.01)), ..way })
    };
    let classes = |lines: &str| format!("[[classes]]\nname = \"rest\"\n{lines}");
    let streams = "transport = \"quic\"\ndelivery = \"reliable\"\n";
    for (name, lanes) in [
        ("direct", None),
        ("tcp", Some(String::new())),
        ("datagrams", Some("transport = \"quic\"\n".to_owned())),
        ("streams", Some(streams.to_owned())),
        ("streams, bbr", Some(format!("{streams}congestion_control = \"bbr\"\n"))),
    ] {
        let scene = Scene::new(way()).expect("a scene");
        let start = |lines: &String| {
            let setup = GatewaySetup { classes: Some(classes(lines)), ..setup(Encryption::Tls) };
            scene.start_gateways(&setup).expect("gateways")
        };
        let gateways = lanes.as_ref().map(start);
        if gateways.is_none() {
            scene.route_directly().expect("routes");
        }
        let address = SocketAddr::new(Plan::IPV4.x, 0);
        let sink = TcpSink::start(&scene.x, address, Duration::from_millis(100)).expect("a sink");
        let server = RpcServer::start(&scene.x, address, "cubic").expect("a server");
        let settings = BulkSettings::new(sink.address(), "cubic", 100, LEAD + REST);
        let bulk = scene.a.spawn("bulk", move || bulk(&settings, &Stop::new()));
        let settings = RpcSettings {
            pacing: Pacing::ClosedLoop(Duration::from_millis(20)),
            ..RpcSettings::new(server.address(), "cubic", REST)
        };
        let begun = trunkline_testbed::clock::now();
        thread::sleep(LEAD);
        let requests = scene.a.spawn("requests", move || request_response(&settings, &Stop::new()));
        let report = requests.join();
        let _ = bulk.join();
        let goodput = sink.finish().goodput(begun + LEAD, begun + LEAD + REST);
        let at = |p| percentile(&report.latencies, p).unwrap_or_default();
        println!(
            "{name}: {goodput} goodput from 5 s on; requests {:.0?} and {:.0?} at p50 and p99, {} of {} failed",
            at(0.5),
            at(0.99),
            report.failed,
            report.latencies.len()
        );
        if let Some(gateways) = gateways {
            let lane = lane(&gateways, Gateway::T1, "rest");
            let class = common::class(&gateways, Gateway::T1, "rest");
            println!("  {lane:?}\n  filtered {}, drops {:?}", class.filtered, class.drops);
        }
    }
}
