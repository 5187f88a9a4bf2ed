//! Lanes that ride on either transport (`transport = "auto"`), on real kernels: beside a firewall that drops UDP, and to peers
//! that have one transport alone.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::common::{Checker, check_stream, edit, ip, lane, send, setup, sites, wait_for};
use trunkline_status::LaneState;
use trunkline_testbed::lateness::Lateness;
use trunkline_testbed::machine;
use trunkline_testbed::privilege;
use trunkline_testbed::scene::{Encryption, Gateway, GatewaySetup, Gateways, Plan, Scene, Wan};

const LIMIT: Duration = Duration::from_secs(20);
/// What is required of the way back, and of the way to TCP on a machine that does nothing else.
const BACK: Duration = Duration::from_secs(60);
const TO_TCP: Duration = Duration::from_secs(1);

const AUTO: &str = "
[[classes]]
name = \"rest\"
transport = \"auto\"
";

fn auto() -> GatewaySetup {
    GatewaySetup { classes: Some(AUTO.to_owned()), ..setup(Encryption::Tls) }
}

/// A firewall before a gateway: UDP that comes from the WAN is dropped without a word.
fn drop_udp(scene: &Scene, dropped: bool) {
    let change = if dropped { "add" } else { "del" };
    for gateway in [&scene.t1, &scene.t2] {
        ip(gateway, &format!("rule {change} pref 50 iif wan ipproto udp blackhole"));
    }
}

/// A scene in which UDP can be dropped: rules before that of the machine's own addresses.
fn scene(test: &str) -> Option<Scene> {
    if !privilege::available(test) {
        return None;
    }
    let scene = Scene::new(Wan::Veth).expect("a scene");
    for gateway in [&scene.t1, &scene.t2] {
        ip(gateway, "rule add pref 100 lookup local");
        ip(gateway, "rule del pref 0");
    }
    Some(scene)
}

fn is_over(gateways: &Gateways, transport: &str) -> bool {
    Gateway::BOTH.into_iter().all(|gateway| {
        let lane = lane(gateways, gateway, "rest");
        lane.state == LaneState::Up && lane.transport == transport
    })
}

/// A datagram each 10 ms from A to X, in threads of their own: when each arrived.
struct Voice {
    stop: std::sync::mpsc::Sender<()>,
    arrivals: std::sync::mpsc::Receiver<Instant>,
}

impl Voice {
    fn start(scene: &Scene) -> Self {
        let sink = scene.x.run(|| UdpSocket::bind((Plan::IPV4.x, 0))).expect("a socket");
        sink.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out");
        let to = sink.local_addr().expect("its address");
        let source = scene.a.run(|| UdpSocket::bind((Plan::IPV4.a, 0))).expect("a socket");
        let (stop, stopped) = std::sync::mpsc::channel();
        let (arrived, arrivals) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            while stopped
                .recv_timeout(Duration::from_millis(10))
                .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                let _ = source.send_to(&[7; 160], to);
            }
        });
        std::thread::spawn(move || {
            let mut quiet = 0;
            while quiet < 50 {
                match sink.recv(&mut [0; 200]) {
                    Ok(_) if arrived.send(Instant::now()).is_err() => return,
                    Ok(_) => quiet = 0,
                    Err(_) => quiet += 1,
                }
            }
        });
        Voice { stop, arrivals }
    }

    /// The longest time without a datagram, until now.
    fn longest_gap(self) -> Duration {
        drop(self.stop);
        let arrivals: Vec<Instant> = self.arrivals.try_iter().collect();
        // A busy machine sends fewer than one each 10 ms.
        assert!(arrivals.len() > 10, "{} datagrams arrived", arrivals.len());
        arrivals.windows(2).map(|pair| pair[1] - pair[0]).max().expect("several")
    }
}

#[test]
fn where_udp_is_dropped_a_lane_rides_on_tcp_and_comes_back_to_quic() {
    machine::share();
    let Some(scene) = scene("where_udp_is_dropped_a_lane_rides_on_tcp_and_comes_back_to_quic") else {
        return;
    };
    drop_udp(&scene, true);
    let gateways = scene.start_gateways(&auto()).expect("gateways");
    assert!(is_over(&gateways, "tcp"), "{:?}", lane(&gateways, Gateway::T1, "rest"));
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 1_000_000);
    drop_udp(&scene, false);
    let start = Instant::now();
    wait_for("back to QUIC", BACK, &gateways, || is_over(&gateways, "quic"));
    println!("back over QUIC after {:.1?}", start.elapsed());
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 1_000_000);
    // The lane was never down.
    let lane = lane(&gateways, Gateway::T1, "rest");
    assert_eq!(lane.last_error, None, "{lane:?}");
}

#[test]
fn a_lane_in_use_goes_over_to_tcp_when_udp_is_dropped_and_back_without_a_gap() {
    let test = "a_lane_in_use_goes_over_to_tcp_when_udp_is_dropped_and_back_without_a_gap";
    let Some(scene) = scene(test) else { return };
    let gateways = scene.start_gateways(&auto()).expect("gateways");
    wait_for("QUIC", LIMIT, &gateways, || is_over(&gateways, "quic"));
    // Longer than the time in which a peer may have dialled both.
    std::thread::sleep(Duration::from_secs(4));
    let (voice, lateness) = (Voice::start(&scene), Lateness::watch());
    std::thread::sleep(Duration::from_secs(1));
    drop_udp(&scene, true);
    wait_for("TCP", LIMIT, &gateways, || is_over(&gateways, "tcp"));
    std::thread::sleep(Duration::from_secs(1));
    let gap = voice.longest_gap();
    println!("without a datagram for {gap:.0?} when UDP is dropped");
    assert!(gap >= Duration::from_millis(200), "it was dropped");
    lateness.assert_within("without a datagram on the way to TCP", gap, 2 * TO_TCP);
    let voice = Voice::start(&scene);
    drop_udp(&scene, false);
    let start = Instant::now();
    wait_for("back to QUIC", BACK, &gateways, || is_over(&gateways, "quic"));
    println!("back over QUIC after {:.1?}", start.elapsed());
    std::thread::sleep(Duration::from_secs(1));
    let gap = voice.longest_gap();
    println!("without a datagram for {gap:.0?} on the way back");
    lateness.assert_within("without a datagram on the way back", gap, Duration::from_millis(500));
}

/// QUIC requires a path to carry 1200 bytes. Where it carries less, short packets are answered and nothing of the data passes,
/// whichever site sends it.
#[test]
fn a_lane_goes_over_to_tcp_where_the_path_carries_less_than_quic_requires() {
    machine::share();
    let test = "a_lane_goes_over_to_tcp_where_the_path_carries_less_than_quic_requires";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &auto()) else { return };
    let mtu = |bytes: u32| {
        for gateway in [&scene.t1, &scene.t2] {
            ip(gateway, &format!("link set wan mtu {bytes}"));
        }
    };
    let hosts = [(&scene.a, Plan::IPV4.a), (&scene.x, Plan::IPV4.x)];
    for [(from, _), (to, address)] in [hosts, [hosts[1], hosts[0]]] {
        wait_for("QUIC", BACK, &gateways, || is_over(&gateways, "quic"));
        mtu(576);
        let start = Instant::now();
        let checker = Checker::start(to, address);
        let sending = send(from, checker.address, 1_000_000, None);
        wait_for("TCP", BACK, &gateways, || is_over(&gateways, "tcp"));
        println!("over TCP after {:.1?}", start.elapsed());
        sending.join().expect("the stream is sent");
        assert_eq!(checker.finish(), 1_000_000);
        mtu(1500);
    }
}

/// The other site has one transport alone: the lane rides on that.
#[test]
fn a_lane_rides_on_what_the_other_site_has() {
    machine::share();
    let test = "a_lane_rides_on_what_the_other_site_has";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &auto()) else { return };
    wait_for("QUIC", LIMIT, &gateways, || is_over(&gateways, "quic"));
    for transport in ["tcp", "quic"] {
        edit(&gateways, Gateway::T2, |text| {
            let (before, after) = text.split_once("transport = \"").expect("a transport");
            let (_, after) = after.split_once('"').expect("its end");
            format!("{before}transport = \"{transport}\"{after}")
        });
        gateways.reload(Gateway::T2).expect("a reload");
        wait_for(transport, BACK, &gateways, || is_over(&gateways, transport));
        check_stream(&scene.a, &scene.x, Plan::IPV4.x, 1_000_000);
    }
}
