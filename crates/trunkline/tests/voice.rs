//! Ten calls beside bulk transfers: what their packets wait for over a path that loses some, over each kind of lane at the same
//! time, and how long none comes when an address changes.

use std::net::{SocketAddr, UdpSocket};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::{ip, lane, setup, sites};
use trunkline_link::Loss;
use trunkline_status::LaneState;
use trunkline_testbed::lateness::Lateness;
use trunkline_testbed::link::DuplexSettings;
use trunkline_testbed::scene::{Encryption, Gateway, GatewaySetup, Plan, Scene, Wan};
use trunkline_testbed::statistics::percentile;
use trunkline_testbed::traffic::{BulkSettings, Stop, TcpSink, bulk};
use trunkline_units::Rate;

const ONE_WAY: Duration = Duration::from_millis(25);
const TIME: Duration = Duration::from_secs(12);
/// Of ten calls, each of which sends one each 20 ms.
const INTERVAL: Duration = Duration::from_millis(2);

/// Calls over three kinds of lanes, told apart by their ports, and the rest over TCP.
const LANES: [(&str, u16, &str); 3] = [
    ("quic-none", 7001, "transport = \"quic\"\ncongestion_control = \"none\""),
    ("quic-cubic", 7002, "transport = \"quic\""),
    ("tcp", 7003, ""),
];

/// A packet that came: when, and how long it took.
struct Arrival {
    at: Duration,
    delay: Duration,
}

/// The packets of the calls: how many are sent, and those that come.
struct Calls {
    sender: JoinHandle<u64>,
    receiver: JoinHandle<Vec<Arrival>>,
}

impl Calls {
    fn start(scene: &Scene, port: u16) -> Self {
        let sink = scene.x.run(|| UdpSocket::bind((Plan::IPV4.x, port))).expect("a socket");
        let source = scene.a.run(|| UdpSocket::bind((Plan::IPV4.a, 0))).expect("a socket");
        sink.set_read_timeout(Some(Duration::from_secs(2))).expect("a time-out");
        let (to, start) = (SocketAddr::new(Plan::IPV4.x, port), Instant::now());
        let sender = thread::spawn(move || {
            let mut sent = 0;
            while start.elapsed() < TIME {
                let mut packet = [0; 200];
                packet[..8].copy_from_slice(&(start.elapsed().as_nanos() as u64).to_be_bytes());
                sent += u64::from(source.send_to(&packet, to).is_ok());
                thread::sleep((INTERVAL * sent as u32).saturating_sub(start.elapsed()));
            }
            sent
        });
        let receiver = thread::spawn(move || {
            let (mut arrivals, mut packet) = (Vec::new(), [0; 300]);
            while let Ok(length) = sink.recv(&mut packet) {
                let sent = packet[..length].first_chunk().map_or(0, |at| u64::from_be_bytes(*at));
                let at = start.elapsed();
                arrivals.push(Arrival { at, delay: at.saturating_sub(Duration::from_nanos(sent)) });
            }
            arrivals
        });
        Calls { sender, receiver }
    }

    fn finish(self) -> (u64, Vec<Arrival>) {
        (self.sender.join().expect("the sender ends"), self.receiver.join().expect("the receiver ends"))
    }
}

/// What became of the calls over one kind of lane: shares of the packets.
struct Outcome {
    lost: f64,
    /// Twice as long on their way as the path takes, and longer.
    late: f64,
}

/// The calls over each kind of lane, beside a transfer, while the path loses so many percent. `None` if the machine lacks what
/// the test needs, or stood still: a lane over TCP loses nothing on the path, so what is missing there was dropped because a
/// gateway or the link got no processor.
fn calls(test: &str, percent: f64) -> Option<[Outcome; 3]> {
    let way = DuplexSettings::wide_area(Rate::from_mbit(50.0), 2 * ONE_WAY, Duration::from_millis(50));
    let way = DuplexSettings { forward: way.forward.loss(Loss::Uniform(percent / 100.0)), ..way };
    let class = |(name, port, more): &(&str, u16, &str)| {
        format!(
            "[[classes]]\nname = \"{name}\"\nmatch = [{{ protocol = \"udp\", port = {port} }}]\npriority = true\n{more}\n"
        )
    };
    let classes: String =
        LANES.iter().map(class).chain(["[[classes]]\nname = \"rest\"\n".to_owned()]).collect();
    let setup = GatewaySetup { classes: Some(classes), ..setup(Encryption::Tls) };
    let (scene, gateways) = sites(test, Wan::Emulated(way), &setup)?;
    let address = SocketAddr::new(Plan::IPV4.x, 0);
    let sink = TcpSink::start(&scene.x, address, Duration::from_millis(10)).expect("a sink");
    let settings = BulkSettings::new(sink.address(), "cubic", 4, TIME);
    let transfer = scene.a.spawn("bulk", move || bulk(&settings, &Stop::new()));
    let calls = LANES.map(|(_, port, _)| Calls::start(&scene, port));
    let outcomes = calls.map(|calls| {
        let (sent, arrivals) = calls.finish();
        let delays: Vec<Duration> = arrivals.iter().map(|arrival| arrival.delay).collect();
        let share = |count: usize| count as f64 / sent as f64;
        let outcome = Outcome {
            lost: 1.0 - share(delays.len()),
            late: share(delays.iter().filter(|delay| **delay >= ONE_WAY * 2).count()),
        };
        (outcome, delays)
    });
    for ((name, ..), (outcome, delays)) in LANES.iter().zip(&outcomes) {
        let added = |p| percentile(delays, p).map(|delay| delay.saturating_sub(ONE_WAY));
        println!(
            "{percent} % lost on the path, {name}: {:.1?} and {:.1?} added at p50 and p99, {:.2} % lost",
            added(0.5).unwrap_or_default(),
            added(0.99).unwrap_or_default(),
            outcome.lost * 100.0
        );
    }
    let _ = transfer.join();
    let lane = lane(&gateways, Gateway::T1, "quic-none");
    let outcomes = outcomes.map(|(outcome, _)| outcome);
    let disturbed = outcomes[2].lost > 0.03 || lane.circuit_trips != 0;
    disturbed.then(|| println!("{test}: the machine stood still: {lane:?}"));
    (!disturbed).then_some(outcomes)
}

/// A lane over TCP delays what follows a loss by a round trip and more. A lane over QUIC delays nothing, as long as its window
/// does not: that of a flow of small packets is small.
#[test]
#[ignore = "judges time"]
fn calls_over_quic_without_a_window_wait_for_no_repair() {
    let test = "calls_over_quic_without_a_window_wait_for_no_repair";
    let outcomes: Vec<_> =
        [0.5, 2.0].into_iter().filter_map(|percent| (0..3).find_map(|_| calls(test, percent))).collect();
    let late = |lane: usize| outcomes.iter().map(|lanes| lanes[lane].late).sum::<f64>();
    // What a machine that stands still delays is late on all lanes; the repairs of TCP are some 30 % of its packets.
    let (none, tcp) = (late(0), late(2));
    assert!(outcomes.is_empty() || none < tcp, "late: {none:.3}, and over TCP {tcp:.3}");
    for [none, ..] in &outcomes {
        assert!(none.lost < 0.06, "{:.1} % are missing, and the path loses 2 % at most", none.lost * 100.0);
    }
}

/// The dialer's machine gets another address while it is in use. The other end hears of it with the next packet.
#[test]
fn an_address_that_changes_under_load_costs_a_moment() {
    let test = "an_address_that_changes_under_load_costs_a_moment";
    let classes = "[[classes]]\nname = \"all\"\ntransport = \"quic\"\n".to_owned();
    let setup = GatewaySetup { classes: Some(classes), ..setup(Encryption::Tls) };
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup) else { return };
    // The new address stays when the first of the network goes.
    let promote = "/proc/sys/net/ipv4/conf/all/promote_secondaries";
    scene.t1.run(|| std::fs::write(promote, "1")).expect("the namespace's own setting");
    let (calls, lateness) = (Calls::start(&scene, 7001), Lateness::watch());
    thread::sleep(TIME / 3);
    let old = Plan::IPV4.t1_wan.to_string();
    let (network, _) = old.rsplit_once('.').expect("an IPv4 address");
    ip(&scene.t1, &format!("address add {network}.77/24 dev wan"));
    ip(&scene.t1, &format!("address del {old}/24 dev wan"));
    let (sent, arrivals) = calls.finish();
    let gap = arrivals.windows(2).map(|pair| pair[1].at.saturating_sub(pair[0].at)).max().expect("several");
    println!("{gap:.1?} without a packet, {} of {sent} arrived", arrivals.len());
    // A lane that does not follow ends after 8 s, and is dialled again.
    lateness.assert_within("without a packet", gap, Duration::from_secs(5));
    assert!(arrivals.last().is_some_and(|arrival| arrival.at > TIME * 3 / 4), "none comes any more");
    let lane = lane(&gateways, Gateway::T2, "all");
    assert_eq!((lane.state, lane.established), (LaneState::Up, 1), "{lane:?}");
}
