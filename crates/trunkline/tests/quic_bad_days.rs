//! Lanes over QUIC on paths that treat UDP badly, on real kernels: NATs that forget a flow or give it another port, paths that
//! reorder by a round trip, and a flood of handshakes.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{check_stream, lane, setup, sites};
use trunkline_link::Jitter;
use trunkline_netlink::{Condition, FilterChain, FilterRule, FilterTable, Hook, Owner, PacketFilter};
use trunkline_status::{Lane, LaneState};
use trunkline_testbed::link::DuplexSettings;
use trunkline_testbed::machine;
use trunkline_testbed::namespace::Host;
use trunkline_testbed::privilege;
use trunkline_testbed::scene::{Encryption, Gateway, GatewaySetup, Gateways, Plan, Scene, Wan};
use trunkline_units::Rate;

const LIMIT: Duration = Duration::from_secs(20);
const UDP: u8 = 17;
/// `srcnat` of nft(8).
const SOURCE_NAT: i32 = 100;

const DATAGRAMS: &str = "[[classes]]\nname = \"rest\"\ntransport = \"quic\"\n";
const STREAMS: &str = "[[classes]]\nname = \"rest\"\ntransport = \"quic\"\ndelivery = \"reliable\"\n";

fn over_quic(classes: &str, lanes: &str) -> GatewaySetup {
    let lanes = (!lanes.is_empty()).then(|| lanes.to_owned());
    GatewaySetup { lanes, classes: Some(classes.to_owned()), ..setup(Encryption::Tls) }
}

fn rest(gateways: &Gateways, gateway: Gateway) -> Lane {
    lane(gateways, gateway, "rest")
}

fn assert_never_down(gateways: &Gateways) {
    for gateway in Gateway::BOTH {
        let lane = rest(gateways, gateway);
        assert_eq!((lane.state, lane.established), (LaneState::Up, 1), "{lane:?}");
    }
}

/// A NAT between the dialler and the WAN: what the gateway sends over UDP leaves from a port at random, which stays the same for as
/// long as the kernel remembers the flow. Removed with the value.
struct Nat {
    host: Arc<Host>,
    _filter: PacketFilter,
}

impl Nat {
    /// `None`, and says so, where the kernel has no NAT.
    fn new(test: &str, host: &Arc<Host>) -> Option<Self> {
        let masquerade = FilterRule {
            conditions: vec![
                Condition::Source(ipnet::IpNet::from(Plan::IPV4.t1_wan)),
                Condition::Protocol(UDP),
            ],
            masquerade: true,
            ..FilterRule::default()
        };
        let chain = FilterChain {
            name: "postrouting".to_owned(),
            hook: Hook::Postrouting,
            priority: SOURCE_NAT,
            rules: vec![masquerade],
        };
        let table = FilterTable { name: "nat".to_owned(), owner: Owner::Socket, chains: vec![chain] };
        let filter = host.run(|| {
            let mut filter = PacketFilter::open().expect("a socket");
            filter.replace(&table).map(|()| filter)
        });
        match filter {
            Ok(filter) => Some(Self { host: Arc::clone(host), _filter: filter }),
            Err(error) => {
                println!("SKIPPED {test}: lacks NAT: {error}");
                None
            }
        }
    }

    /// Flows that are quiet for so long are forgotten.
    fn forget_after(&self, time: Duration) {
        for key in ["nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"] {
            let key = format!("net.netfilter.{key}");
            self.host.sysctl(&key, &time.as_secs().to_string()).expect("the namespace's own");
        }
    }
}

/// Two sites, the first of which dials from behind a NAT that forgets flows after this time.
fn behind_nat(test: &str, forgets_after: Duration, setup: &GatewaySetup) -> Option<(Scene, Nat, Gateways)> {
    if !privilege::available(test) {
        return None;
    }
    let scene = Scene::new(Wan::Veth).expect("a scene");
    let nat = Nat::new(test, &scene.t1)?;
    nat.forget_after(forgets_after);
    let gateways = scene.start_gateways(setup).expect("gateways");
    Some((scene, nat, gateways))
}

/// How long a datagram of `from` takes to `to`; `None` if it does not come within `limit`.
fn one_datagram(from: (&Host, IpAddr), to: (&Host, IpAddr), limit: Duration) -> Option<Duration> {
    let sink = to.0.run(|| UdpSocket::bind((to.1, 0))).expect("a socket");
    sink.set_read_timeout(Some(limit)).expect("a time-out");
    let source = from.0.run(|| UdpSocket::bind((from.1, 0))).expect("a socket");
    let start = Instant::now();
    source.send_to(&[7; 160], sink.local_addr().expect("its address")).expect("sent");
    sink.recv(&mut [0; 200]).ok().map(|_| start.elapsed())
}

/// A NAT forgets flows after 6 s, and the lane may be silent for 8 s. The acceptor finds that out and speaks more often, so a packet from
/// its site arrives at any time afterwards.
#[test]
fn a_site_behind_a_nat_that_forgets_can_be_reached_once_that_is_learnt() {
    machine::share();
    let test = "a_site_behind_a_nat_that_forgets_can_be_reached_once_that_is_learnt";
    let setup = over_quic(DATAGRAMS, "keepalive = \"8 s\"");
    let Some((scene, _nat, gateways)) = behind_nat(test, Duration::from_secs(6), &setup) else { return };
    // The first silence of the acceptor, the dialler's own, and a silence by what was learnt.
    std::thread::sleep(Duration::from_secs(8 + 10 + 5));
    for _ in 0..3 {
        let took = one_datagram((&scene.x, Plan::IPV4.x), (&scene.a, Plan::IPV4.a), Duration::from_secs(5));
        assert!(
            took.is_some(),
            "no packet arrives at the site behind the NAT: {:?}",
            rest(&gateways, Gateway::T2)
        );
        std::thread::sleep(Duration::from_secs(7));
    }
    assert_never_down(&gateways);
}

/// For a moment a NAT forgets everything at once, so that each packet comes from another port.
#[test]
fn a_lane_goes_on_while_a_nat_gives_each_packet_another_port() {
    machine::share();
    let test = "a_lane_goes_on_while_a_nat_gives_each_packet_another_port";
    for classes in [DATAGRAMS, STREAMS] {
        let memory = Duration::from_secs(30);
        let Some((scene, nat, gateways)) = behind_nat(test, memory, &over_quic(classes, "")) else { return };
        check_stream(&scene.a, &scene.x, Plan::IPV4.x, 4_000_000);
        nat.forget_after(Duration::ZERO);
        for _ in 0..50 {
            let _ =
                one_datagram((&scene.a, Plan::IPV4.a), (&scene.x, Plan::IPV4.x), Duration::from_millis(10));
        }
        nat.forget_after(memory);
        let to_x = one_datagram((&scene.a, Plan::IPV4.a), (&scene.x, Plan::IPV4.x), LIMIT);
        let to_a = one_datagram((&scene.x, Plan::IPV4.x), (&scene.a, Plan::IPV4.a), LIMIT);
        assert!(to_x.is_some() && to_a.is_some(), "{to_x:?} {to_a:?} {:?}", rest(&gateways, Gateway::T2));
        check_stream(&scene.a, &scene.x, Plan::IPV4.x, 4_000_000);
        assert_never_down(&gateways);
    }
}

/// A path of 30 ms on which each packet takes up to 25 ms more. What is overtaken comes within two round trips, and is no loss.
#[test]
fn a_lane_of_datagrams_takes_packets_that_others_overtake_for_no_loss() {
    machine::share();
    let test = "a_lane_of_datagrams_takes_packets_that_others_overtake_for_no_loss";
    let mut way = DuplexSettings::wide_area(
        Rate::from_mbit(20.0),
        Duration::from_millis(30),
        Duration::from_millis(100),
    );
    way.forward.impairments.jitter = Jitter::Uniform { max: Duration::from_millis(25), reorders: true };
    let Some((scene, gateways)) = sites(test, Wan::Emulated(way), &over_quic(DATAGRAMS, "")) else { return };
    let start = Instant::now();
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 4_000_000);
    println!("{:.1} Mbit/s over a path that reorders", 32.0 / start.elapsed().as_secs_f64());
    let lane = rest(&gateways, Gateway::T1);
    let (lost, sent) = (lane.retransmits, lane.segments_sent);
    println!("{lost} of {sent} packets count as lost");
    assert!(sent > 2_000 && lost * 20 < sent, "{lost} of {sent}");
    assert_never_down(&gateways);
}

/// A path of 20 ms that delays each packet by up to 50 ms more, so that most are overtaken, and many by a round trip. The lane takes
/// those for lost and is slow, but it delivers everything once and in order.
#[test]
fn a_lane_of_streams_carries_tcp_over_a_path_that_reorders_by_fifty_milliseconds() {
    machine::share();
    let test = "a_lane_of_streams_carries_tcp_over_a_path_that_reorders_by_fifty_milliseconds";
    let mut way = DuplexSettings::wide_area(
        Rate::from_mbit(50.0),
        Duration::from_millis(20),
        Duration::from_millis(100),
    );
    way.forward.impairments.jitter = Jitter::Uniform { max: Duration::from_millis(50), reorders: true };
    let Some((scene, gateways)) = sites(test, Wan::Emulated(way), &over_quic(STREAMS, "")) else { return };
    let start = Instant::now();
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 500_000);
    let rate = 4.0 / start.elapsed().as_secs_f64();
    println!("{rate:.1} Mbit/s over a path that reorders");
    assert_never_down(&gateways);
}
