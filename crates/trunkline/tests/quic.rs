//! Lanes over QUIC on real kernels: they carry packets of every length, live through restarts, reloads and changes of the
//! address, and refuse strangers.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::common::{
    Checker, check_stream, edit, ip, lane, lanes_up, peer, plans, send, setup, sites, wait_for,
};
use trunkline_link::LinkSettings;
use trunkline_status::{EdgePacing, LaneState};
use trunkline_testbed::link::{Direction, DuplexSettings};
use trunkline_testbed::scene::{Encryption, Gateway, GatewaySetup, Plan, Wan};
use trunkline_units::Rate;

const LIMIT: Duration = Duration::from_secs(20);

/// One class over TCP, for TCP, and one over QUIC for the rest.
const CLASSES: &str = "
[[classes]]
name = \"tcp\"
match = [{ protocol = \"tcp\" }]

[[classes]]
name = \"rest\"
transport = \"quic\"
";
/// Everything over QUIC.
const ALL: &str = "
[[classes]]
name = \"rest\"
transport = \"quic\"
";

/// Idle lanes speak so often that the end of a peer is found out soon.
fn quic(classes: &str) -> GatewaySetup {
    let lanes = Some("keepalive = \"1 s\"".to_owned());
    GatewaySetup { lanes, classes: Some(classes.to_owned()), ..setup(Encryption::Tls) }
}

/// Datagrams of every length arrive once and unchanged, those that are longer than a datagram of the lane too.
fn exchange(from: &trunkline_testbed::namespace::Host, to: &trunkline_testbed::namespace::Host, plan: Plan) {
    let sink = to.run(|| UdpSocket::bind((plan.x, 0))).expect("a socket");
    sink.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out");
    let address = sink.local_addr().expect("its address");
    let source = from.run(|| UdpSocket::bind((plan.a, 0))).expect("a socket");
    let mut buffer = vec![0; 70_000];
    for (number, len) in (4..1472).step_by(7).chain([1473, 3000, 20_000, 60_000]).enumerate() {
        let mut bytes = vec![number as u8; len];
        bytes[..4].copy_from_slice(&(number as u32).to_be_bytes());
        source.send_to(&bytes, address).expect("sent");
        let (read, _) = sink.recv_from(&mut buffer).unwrap_or_else(|error| panic!("{len} bytes: {error}"));
        assert_eq!(buffer[..read], bytes, "{len} bytes");
    }
    sink.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out");
    assert!(sink.recv_from(&mut buffer).is_err(), "nothing arrives twice");
}

#[test]
fn a_lane_over_quic_carries_packets_of_every_length_beside_one_over_tcp() {
    let test = "a_lane_over_quic_carries_packets_of_every_length_beside_one_over_tcp";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &quic(CLASSES)) else { return };
    for plan in plans(&scene) {
        exchange(&scene.a, &scene.x, plan);
        check_stream(&scene.a, &scene.x, plan.x, 1_000_000);
    }
    for gateway in Gateway::BOTH {
        let (tcp, rest) = (lane(&gateways, gateway, "tcp"), lane(&gateways, gateway, "rest"));
        assert_eq!((tcp.transport.as_str(), rest.transport.as_str()), ("tcp", "quic"));
        assert!(rest.rtt_us > Some(0) && rest.mss > 1200, "{rest:?}");
    }
    let rest = lane(&gateways, Gateway::T1, "rest");
    assert!(rest.frames_sent > 200 && rest.bytes_sent > 200_000, "{rest:?}");
    let received = peer(&gateways, Gateway::T2).received;
    assert_eq!(received.refused(), 0, "{received:?}");
}

/// TCP with all its offloads: super-packets are segmented on their way in, and what the lane loses TCP repairs.
#[test]
fn tcp_is_carried_intact_by_datagrams() {
    let test = "tcp_is_carried_intact_by_datagrams";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &quic(ALL)) else { return };
    for plan in plans(&scene) {
        check_stream(&scene.a, &scene.x, plan.x, 20_000_000);
        check_stream(&scene.x, &scene.a, plan.a, 20_000_000);
    }
    assert!(lane(&gateways, Gateway::T1, "rest").frames_sent > 10_000);
    for gateway in Gateway::BOTH {
        let tun = gateways.status(gateway).expect("a status").tun.clone();
        let (merged, offloads) = (tun.coalesced, tun.offloads.concat());
        println!("{gateway:?}: {merged} segments were merged for writing");
        assert!(merged > 5_000 || !offloads.contains("tcp"), "{tun:?}");
    }
}

/// A mark that a reload changes is that of lanes that are up: here its packets go nowhere.
#[test]
fn a_mark_reaches_lanes_that_are_up() {
    let test = "a_mark_reaches_lanes_that_are_up";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &quic(ALL)) else { return };
    ip(&scene.t1, "rule add pref 40 fwmark 7 prohibit");
    exchange(&scene.a, &scene.x, Plan::IPV4);
    edit(&gateways, Gateway::T1, |text| text.replace("[lanes]", "[lanes]\nfwmark = 7"));
    gateways.reload(Gateway::T1).expect("a reload");
    wait_for("T2 hears nothing more", LIMIT, &gateways, || lanes_up(&gateways, Gateway::T2) == 0);
    edit(&gateways, Gateway::T1, |text| text.replace("fwmark = 7", "fwmark = 8"));
    gateways.reload(Gateway::T1).expect("a reload");
    wait_for("another mark", LIMIT, &gateways, || lanes_up(&gateways, Gateway::T2) == 1);
    exchange(&scene.a, &scene.x, Plan::IPV4);
}

/// Each shard has a lane of its own, which the first packet reaches, at a site with two workers as at one with three.
#[test]
fn lanes_of_several_shards_reach_their_workers() {
    let test = "lanes_of_several_shards_reach_their_workers";
    let setup = GatewaySetup { tun: Some("queues = 3".to_owned()), ..quic(ALL) };
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup) else { return };
    assert_eq!((lanes_up(&gateways, Gateway::T1), lanes_up(&gateways, Gateway::T2)), (3, 3));
    for plan in plans(&scene) {
        exchange(&scene.a, &scene.x, plan);
    }
}

#[test]
fn a_lane_comes_back_after_its_peer_was_killed() {
    let test = "a_lane_comes_back_after_its_peer_was_killed";
    let Some((scene, mut gateways)) = sites(test, Wan::Veth, &quic(ALL)) else { return };
    gateways.kill9(Gateway::T2);
    gateways.restart(Gateway::T2).expect("T2 starts again");
    gateways.wait_until_up(LIMIT).expect("lanes");
    exchange(&scene.a, &scene.x, Plan::IPV4);
    gateways.kill9(Gateway::T1);
    gateways.restart(Gateway::T1).expect("T1 starts again");
    gateways.wait_until_up(LIMIT).expect("lanes");
    exchange(&scene.a, &scene.x, Plan::IPV4);
}

#[test]
fn a_reload_changes_the_transport_of_a_class() {
    let test = "a_reload_changes_the_transport_of_a_class";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &quic(ALL)) else { return };
    let change = |from: &str, to: &str| {
        for gateway in Gateway::BOTH {
            edit(&gateways, gateway, |text| text.replace(from, to));
            gateways.reload(gateway).expect("a reload");
        }
        let is = |gateway| {
            let lane = lane(&gateways, gateway, "rest");
            lane.state == LaneState::Up && to.contains(lane.transport.as_str())
        };
        wait_for(to, LIMIT, &gateways, || Gateway::BOTH.into_iter().all(is));
        exchange(&scene.a, &scene.x, Plan::IPV4);
    };
    change("transport = \"quic\"", "transport = \"tcp\"");
    change("transport = \"tcp\"", "transport = \"quic\"");
}

#[test]
fn sites_with_different_transports_say_so() {
    let test = "sites_with_different_transports_say_so";
    let Some((_scene, gateways)) = sites(test, Wan::Veth, &quic(ALL)) else { return };
    edit(&gateways, Gateway::T1, |text| text.replace("transport = \"quic\"", "transport = \"tcp\""));
    gateways.reload(Gateway::T1).expect("a reload");
    wait_for("the refusal", LIMIT, &gateways, || {
        let error = lane(&gateways, Gateway::T1, "rest").last_error.unwrap_or_default();
        error.contains("transport mismatch") && error.contains("quic here, and tcp there")
    });
    wait_for("T2 has no lane either", LIMIT, &gateways, || lanes_up(&gateways, Gateway::T2) == 0);
}

#[test]
fn a_stranger_is_refused_and_counted() {
    let test = "a_stranger_is_refused_and_counted";
    let Some((_scene, mut gateways)) = sites(test, Wan::Veth, &quic(ALL)) else { return };
    // T1 comes back with a key that T2 does not know.
    gateways.kill9(Gateway::T1);
    let key = gateways.configuration_file(Gateway::T1).with_file_name("t1.key");
    let other = std::process::Command::new(env!("CARGO_BIN_EXE_trunkline")).arg("genkey").output();
    std::fs::write(key, other.expect("genkey runs").stdout).expect("its key");
    gateways.restart(Gateway::T1).expect("T1 starts again");
    wait_for("T1 answers", LIMIT, &gateways, || gateways.status(Gateway::T1).is_ok());
    wait_for("T1 is told", LIMIT, &gateways, || {
        let error = lane(&gateways, Gateway::T1, "rest").last_error.unwrap_or_default();
        error.contains("does not know our public key")
    });
    let callers = gateways.status(Gateway::T2).expect("a status").callers.clone();
    assert!(callers.unknown_key >= 1, "{callers:?}");
    wait_for("T2 gives the dead connection up", LIMIT, &gateways, || lanes_up(&gateways, Gateway::T2) == 0);
}

/// What a lane over QUIC sends is held near the rate of its path, as of lanes over TCP.
#[test]
fn a_lane_over_quic_takes_part_in_path_control() {
    let test = "a_lane_over_quic_takes_part_in_path_control";
    let rate = Rate::from_mbit(20.0);
    let wan = DuplexSettings::wide_area(rate, Duration::from_millis(20), Duration::from_millis(400));
    let Some((scene, gateways)) = sites(test, Wan::Emulated(wan), &quic(ALL)) else { return };
    let checker = Checker::start(&scene.x, Plan::IPV4.x);
    let sending = send(&scene.a, checker.address, 40_000_000, None);
    let mut granted = 0;
    wait_for("the path is held", LIMIT, &gateways, || {
        let lane = lane(&gateways, Gateway::T1, "rest");
        granted = lane.pacing_rate.filter(|_| lane.edge_pacing == EdgePacing::Held).unwrap_or(0);
        granted > 0
    });
    // A machine that stands still makes it slower, and nothing makes it faster.
    assert!(granted < 30_000_000, "{granted}");
    sending.join().expect("the stream is sent");
    assert_eq!(checker.finish(), 40_000_000);
}

/// Without congestion control a lane passes on what it gets, and losses with it; where that goes on, it gets a window.
#[test]
fn the_circuit_breaker_of_a_lane_without_congestion_control_opens() {
    let test = "the_circuit_breaker_of_a_lane_without_congestion_control_opens";
    let wan =
        DuplexSettings::wide_area(Rate::from_mbit(4.0), Duration::from_millis(10), Duration::from_millis(50));
    let classes = format!("{ALL}congestion_control = \"none\"\n");
    let setup = GatewaySetup { lanes: Some("edge_pacing = false".to_owned()), ..quic(&classes) };
    let Some((scene, gateways)) = sites(test, Wan::Emulated(wan), &setup) else { return };
    let before = lane(&gateways, Gateway::T1, "rest");
    assert_eq!((before.congestion_control.as_str(), before.circuit_open), ("none", Some(false)));
    let sink = scene.x.run(|| UdpSocket::bind((Plan::IPV4.x, 0))).expect("a socket");
    let to = sink.local_addr().expect("its address");
    let source = scene.a.run(|| UdpSocket::bind((Plan::IPV4.a, 0))).expect("a socket");
    // Tens of Mbit/s, of which most is lost.
    wait_for("the circuit opens", LIMIT, &gateways, || {
        let end = Instant::now() + Duration::from_millis(500);
        while Instant::now() < end {
            for _ in 0..16 {
                let _ = source.send_to(&[7; 1200], to);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        lane(&gateways, Gateway::T1, "rest").circuit_open == Some(true)
    });
    assert_eq!(lane(&gateways, Gateway::T1, "rest").circuit_trips, 1);
    assert_eq!(lane(&gateways, Gateway::T2, "rest").circuit_open, Some(false), "the other way loses nothing");
}

/// The machine's address changes under a flow: the lane goes on, on the same connection.
#[test]
fn a_lane_goes_on_from_another_address() {
    let test = "a_lane_goes_on_from_another_address";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &quic(ALL)) else { return };
    exchange(&scene.a, &scene.x, Plan::IPV4);
    let old = Plan::IPV4.t1_wan.to_string();
    let (network, _) = old.rsplit_once('.').expect("an IPv4 address");
    // With the first address of a network the kernel removes all others of it.
    ip(&scene.t1, &format!("address del {old}/24 dev wan"));
    ip(&scene.t1, &format!("address add {network}.77/24 dev wan"));
    exchange(&scene.a, &scene.x, Plan::IPV4);
    for gateway in Gateway::BOTH {
        let lane = lane(&gateways, gateway, "rest");
        assert_eq!((lane.state, lane.established), (LaneState::Up, 1), "{lane:?}");
    }
    let shown = || lane(&gateways, Gateway::T2, "rest").remote.clone();
    wait_for("the new address in status", LIMIT, &gateways, || {
        shown().is_some_and(|remote| remote.starts_with(&format!("{network}.77:")))
    });
}

/// Packets are as long as the path takes, and shorter once it takes no more than that: it says nothing, so losses tell. Traffic goes on
/// within seconds.
#[test]
fn packets_follow_the_mtu_of_the_path_under_load() {
    let test = "packets_follow_the_mtu_of_the_path_under_load";
    for (reliable, classes) in [(false, ALL.to_owned()), (true, format!("{ALL}delivery = \"reliable\"\n"))] {
        let wan = DuplexSettings::wide_area(
            Rate::from_mbit(50.0),
            Duration::from_millis(10),
            Duration::from_millis(100),
        );
        let long = |way: LinkSettings| LinkSettings { mtu: 9000, ..way };
        let wan = DuplexSettings { forward: long(wan.forward), backward: long(wan.backward), ..wan };
        let Some((scene, gateways)) = sites(test, Wan::Emulated(wan), &quic(&classes)) else { return };
        let mss = || lane(&gateways, Gateway::T1, "rest").mss;
        wait_for("packets fill the path", LIMIT, &gateways, || mss() == 9000 - 28);
        let checker = Checker::start(&scene.x, Plan::IPV4.x);
        let sending = send(&scene.a, checker.address, 30_000_000, None);
        let frames = || lane(&gateways, Gateway::T2, "rest").frames_received;
        let wait_for_more = |what: &str| {
            let before = frames();
            wait_for(what, LIMIT, &gateways, || frames() > before + 300);
        };
        wait_for_more("the stream is under way");
        let link = scene.link().expect("an emulated link");
        for way in [Direction::Forward, Direction::Backward] {
            link.change(way, |settings| settings.mtu = 1500).expect("sound settings");
        }
        let start = Instant::now();
        // What was under way before may still come.
        std::thread::sleep(Duration::from_millis(200));
        wait_for_more("the stream goes on");
        let silence = start.elapsed();
        println!("reliable {reliable}: {silence:.0?} until the stream went on, packets of {} bytes", mss());
        assert!(silence < Duration::from_secs(5), "{silence:?}");
        assert!(mss() <= 1472);
        wait_for("packets grow to what the path takes now", LIMIT * 2, &gateways, || mss() > 1400);
        sending.join().expect("the stream is sent");
        assert_eq!(checker.finish(), 30_000_000);
        assert_eq!(lane(&gateways, Gateway::T1, "rest").established, 1, "the lane is the same");
    }
}
