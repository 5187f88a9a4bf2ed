//! Two paths to a peer, on real kernels: flows on both, and what becomes of them when one fails and comes back.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Checker, class, edit, ip, peer, send, setup, wait_for};
use trunkline_link::Loss;
use trunkline_status::{ClassHandover, Uplink};
use trunkline_testbed::clock::Scheduling;
use trunkline_testbed::lateness::Lateness;
use trunkline_testbed::link::{Direction, DuplexSettings, LinkHandle};
use trunkline_testbed::namespace::{Host, Offloads, Task, veth};
use trunkline_testbed::privilege;
use trunkline_testbed::scene::{
    Encryption, Gateway, GatewaySetup, Gateways, Plan, Scene, SceneSettings, Wan,
};
use trunkline_testbed::traffic::{BulkSettings, EchoServer, PingSettings, Stop, TcpSink, bulk, ping};
use trunkline_units::{Rate, Rng};

const LIMIT: Duration = Duration::from_secs(20);
/// The far end of the second link, and the near one.
const SECOND: [&str; 2] = ["198.18.4.2", "198.18.4.1"];
/// What [`Calls`] may go without on a machine that does other things too. The faults that this is to find take eight seconds.
const GAP: Duration = Duration::from_secs(2);

/// The first gateway reaches the second by two links, bound to their interfaces. The second gateway says nothing of paths.
const PATHS: &str = "
[[peers.paths]]
name = \"first\"
interface = \"wan\"
[[peers.paths]]
name = \"second\"
interface = \"wan2\"
";

fn over(transport: &str) -> GatewaySetup {
    one_class(&format!("transport = \"{transport}\""))
}

/// A class for all, with a key more.
fn one_class(key: &str) -> GatewaySetup {
    let classes = format!("[[classes]]\nname = \"all\"\n{key}\n");
    GatewaySetup { classes: Some(classes), ..setup(Encryption::Tls) }
}

/// A link with a buffer of 50 ms.
fn emulated(mbit: f64, rtt_ms: u64) -> DuplexSettings {
    let rtt = Duration::from_millis(rtt_ms);
    DuplexSettings::wide_area(Rate::from_mbit(mbit), rtt, Duration::from_millis(50))
}

/// A second link between the gateways of a scene, by which the first reaches the second's one address too.
fn second_link(scene: &mut Scene, settings: &DuplexSettings) -> LinkHandle {
    let [far, near] = SECOND.map(|address| address.parse().expect("an address"));
    let link = scene.join_again("wan2", [near, far], settings).expect("a link");
    ip(&scene.t1, &format!("route add {} dev wan2 metric 500", Plan::IPV4.t2_wan));
    link
}

/// Gives the first gateway its paths, and waits until both gateways have all lanes on both.
fn use_both(gateways: &Gateways, paths: &str) {
    edit(gateways, Gateway::T1, |text| text + paths);
    gateways.reload(Gateway::T1).expect("a reload");
    wait_for("both paths", LIMIT, gateways, || {
        Gateway::BOTH.into_iter().all(|gateway| states(gateways, gateway) == ["up", "up"])
    });
}

fn uplinks(gateways: &Gateways, gateway: Gateway) -> Vec<Uplink> {
    peer(gateways, gateway).uplinks
}

fn costs(gateways: &Gateways, gateway: Gateway) -> Vec<u8> {
    uplinks(gateways, gateway).iter().map(|uplink| uplink.cost).collect()
}

fn states(gateways: &Gateways, gateway: Gateway) -> Vec<String> {
    uplinks(gateways, gateway).iter().map(|uplink| uplink.state.to_string()).collect()
}

/// Flows of datagrams from A to X, one datagram of each every 10 ms.
struct Calls {
    stop: Arc<AtomicBool>,
    /// How many datagrams of each flow were sent.
    sending: Task<u32>,
    receiving: Task<Vec<Arrival>>,
}

/// A datagram of a flow: which one, and when it came.
#[derive(Clone, Copy)]
struct Arrival {
    flow: usize,
    number: u32,
    at: Instant,
}

impl Calls {
    const FLOWS: usize = 8;

    fn start(scene: &Scene) -> Self {
        Self::between((&scene.a, Plan::IPV4.a), (&scene.x, Plan::IPV4.x))
    }

    fn between(from: (&Host, IpAddr), to: (&Host, IpAddr)) -> Self {
        let (host, far) = (from.0, to.0);
        let sink = far.run(|| UdpSocket::bind((to.1, 0))).expect("a socket");
        sink.set_read_timeout(Some(Duration::from_millis(50))).expect("a time-out");
        let to = sink.local_addr().expect("its address");
        let source = |_| host.run(|| UdpSocket::bind((from.1, 0))).expect("a socket");
        let sources: Vec<UdpSocket> = (0..Self::FLOWS).map(source).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let [ended, stopped] = [(); 2].map(|()| Arc::clone(&stop));
        let sending = host.spawn("calls", move || {
            let mut number = 0_u32;
            while !ended.load(Ordering::Relaxed) {
                for (flow, source) in sources.iter().enumerate() {
                    let mut datagram = [flow as u8; 160];
                    datagram[1..5].copy_from_slice(&number.to_be_bytes());
                    let _ = source.send_to(&datagram, to);
                }
                number += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            number
        });
        let receiving = far.spawn("calls", move || {
            let (mut arrivals, mut buffer) = (Vec::new(), [0; 200]);
            loop {
                match sink.recv(&mut buffer) {
                    Ok(_) => arrivals.push(Arrival {
                        flow: usize::from(buffer[0]),
                        number: u32::from_be_bytes([buffer[1], buffer[2], buffer[3], buffer[4]]),
                        at: Instant::now(),
                    }),
                    Err(_) if stopped.load(Ordering::Relaxed) => return arrivals,
                    Err(_) => {}
                }
            }
        });
        Calls { stop, sending, receiving }
    }

    /// How many datagrams of each flow were sent, and those that came.
    fn finish(self) -> (u32, Vec<Arrival>) {
        self.stop.store(true, Ordering::Relaxed);
        (self.sending.join(), self.receiving.join())
    }

    /// The longest time that each flow went without a datagram.
    fn gaps(self) -> Vec<Duration> {
        Self::gaps_of(&self.finish().1)
    }

    fn gaps_of(arrivals: &[Arrival]) -> Vec<Duration> {
        let gap = |flow| {
            let of: Vec<Instant> =
                arrivals.iter().filter(|arrival| arrival.flow == flow).map(|arrival| arrival.at).collect();
            assert!(of.len() > 50, "{} datagrams of flow {flow} arrived", of.len());
            of.windows(2).map(|pair| pair[1] - pair[0]).max().expect("several")
        };
        (0..Self::FLOWS).map(gap).collect()
    }
}

/// Transfers from A to X that are checked byte for byte.
struct Transfers(Vec<(Checker, Task<Result<Duration, String>>)>);

impl Transfers {
    const BYTES: u64 = 1_500_000;

    fn start(from: &Host, to: &Host) -> Self {
        let transfer = |_| {
            let checker = Checker::start(to, Plan::IPV4.x);
            let address = checker.address;
            (checker, send(from, address, Self::BYTES, None))
        };
        Transfers((0..4).map(transfer).collect())
    }

    fn finish(self) {
        for (checker, sending) in self.0 {
            sending.join().expect("all is sent");
            assert_eq!(checker.finish(), Self::BYTES);
        }
    }
}

/// Cuts the first of two links, of 50 and 20 Mbit/s, under load, without a word to either gateway.
fn cut_under_load(test: &str, setup: &GatewaySetup) {
    if !privilege::available(test) {
        return;
    }
    let mut scene = Scene::new(Wan::Emulated(emulated(50.0, 20))).expect("a scene");
    let _second = second_link(&mut scene, &emulated(20.0, 20));
    let gateways = scene.start_gateways(setup).expect("gateways");
    use_both(&gateways, PATHS);
    let names: Vec<String> =
        uplinks(&gateways, Gateway::T2).iter().map(|uplink| uplink.name.clone()).collect();
    assert_eq!(names, ["1", "2"], "the second gateway has learnt of them");
    let lateness = Lateness::watch();
    let (calls, transfers) = (Calls::start(&scene), Transfers::start(&scene.a, &scene.x));
    wait_for("flows on both paths", LIMIT, &gateways, || {
        uplinks(&gateways, Gateway::T1).iter().all(|uplink| uplink.flows >= 2)
    });
    std::thread::sleep(Duration::from_millis(500));
    let made =
        || -> Vec<u64> { peer(&gateways, Gateway::T1).lanes.iter().map(|lane| lane.established).collect() };
    let before = made();
    let link = scene.link().expect("an emulated link");
    link.cut();
    wait_for("silence", LIMIT, &gateways, || states(&gateways, Gateway::T1) == ["silent", "up"]);
    std::thread::sleep(Duration::from_millis(500));
    link.restore();
    wait_for("both paths again", LIMIT, &gateways, || states(&gateways, Gateway::T1) == ["up", "up"]);
    transfers.finish();
    let gaps = calls.gaps();
    println!("longest time without a datagram of each flow: {gaps:.0?}");
    let longest = gaps.iter().max().expect("flows");
    lateness.assert_within("without a datagram", *longest, GAP);
    assert_eq!(made(), before, "the lanes have survived");
    let silences = uplinks(&gateways, Gateway::T1)[0].silences;
    assert!(silences >= 1, "{silences}");
}

#[test]
fn flows_over_tcp_move_when_their_path_falls_silent_and_the_path_is_used_again() {
    cut_under_load(
        "flows_over_tcp_move_when_their_path_falls_silent_and_the_path_is_used_again",
        &over("tcp"),
    );
}

#[test]
fn flows_over_quic_move_when_their_path_falls_silent_and_the_path_is_used_again() {
    cut_under_load(
        "flows_over_quic_move_when_their_path_falls_silent_and_the_path_is_used_again",
        &over("quic"),
    );
}

#[test]
fn flows_over_bonded_paths_go_on_over_the_other_when_one_falls_silent() {
    cut_under_load(
        "flows_over_bonded_paths_go_on_over_the_other_when_one_falls_silent",
        &one_class("paths = \"bonded\""),
    );
}

/// Each packet takes two paths, of which one is cut: nobody waits until that is noticed.
#[test]
fn duplicated_packets_arrive_while_one_of_the_paths_is_cut() {
    let test = "duplicated_packets_arrive_while_one_of_the_paths_is_cut";
    call_while_each_path_is_cut(test, "duplicate", Duration::from_millis(60), |gateways| {
        assert!(peer(gateways, Gateway::T2).received.duplicates > 100);
    });
}

/// A copy of each packet stays with the sender. What the lane held comes too, when its path works again.
#[test]
fn what_a_bonded_path_held_when_it_was_cut_arrives_over_the_other_and_once() {
    let test = "what_a_bonded_path_held_when_it_was_cut_arrives_over_the_other_and_once";
    call_while_each_path_is_cut(test, "bonded", GAP, |gateways| {
        let resent: u64 = peer(gateways, Gateway::T1).classes.iter().map(|class| class.resent).sum();
        let duplicates = peer(gateways, Gateway::T2).received.duplicates;
        println!("{resent} packets left again, {duplicates} came twice");
        assert!(resent > 0 && duplicates <= resent, "{resent} packets left again, {duplicates} came twice");
    });
}

/// Calls over two paths with equal delays, of which first one is cut and then the other. Each datagram comes once.
fn call_while_each_path_is_cut(test: &str, policy: &str, limit: Duration, judge: impl FnOnce(&Gateways)) {
    if !privilege::available(test) {
        return;
    }
    let mut scene = Scene::new(Wan::Emulated(emulated(20.0, 20))).expect("a scene");
    let second = second_link(&mut scene, &emulated(20.0, 20));
    let links = [scene.link().expect("an emulated link"), second];
    let gateways = scene.start_gateways(&one_class(&format!("paths = \"{policy}\""))).expect("gateways");
    use_both(&gateways, PATHS);
    let (lateness, calls) = (Lateness::watch(), Calls::start(&scene));
    for link in &links {
        std::thread::sleep(Duration::from_millis(500));
        link.cut();
        std::thread::sleep(Duration::from_millis(700));
        link.restore();
        wait_for("both paths again", LIMIT, &gateways, || states(&gateways, Gateway::T1) == ["up", "up"]);
    }
    std::thread::sleep(Duration::from_secs(1));
    let (sent, mut arrivals) = calls.finish();
    let gaps = Calls::gaps_of(&arrivals);
    println!("longest time without a datagram of each flow: {gaps:.0?}");
    judge(&gateways);
    arrivals.sort_by_key(|arrival| (arrival.flow, arrival.number));
    let came: Vec<(usize, u32)> = arrivals.iter().map(|arrival| (arrival.flow, arrival.number)).collect();
    let all = (0..Calls::FLOWS).flat_map(|flow| (0..sent).map(move |number| (flow, number)));
    assert!(
        came.iter().copied().eq(all),
        "each of {sent} datagrams of each flow once, and not {}",
        came.len()
    );
    lateness.assert_within("without a datagram", *gaps.iter().max().expect("flows"), limit);
}

/// One flow of numbered datagrams that no path carries alone, over paths of 20 and of 60 ms.
#[test]
fn one_flow_over_bonded_paths_has_the_rate_of_both_and_keeps_its_order() {
    const BYTES: usize = 1200;
    if !privilege::available("one_flow_over_bonded_paths_has_the_rate_of_both_and_keeps_its_order") {
        return;
    }
    let mut scene = Scene::new(Wan::Emulated(emulated(8.0, 20))).expect("a scene");
    let second = second_link(&mut scene, &emulated(8.0, 60));
    let links = [scene.link().expect("an emulated link"), second];
    let gateways = scene.start_gateways(&one_class("paths = \"bonded\"")).expect("gateways");
    use_both(&gateways, PATHS);
    let carried = || links.each_ref().map(|link| link.counters(Direction::Forward).bytes_out);
    let before = carried();
    let sink = scene.x.run(|| UdpSocket::bind((Plan::IPV4.x, 0))).expect("a socket");
    sink.set_read_timeout(Some(Duration::from_secs(1))).expect("a time-out");
    let to = sink.local_addr().expect("its address");
    let receiving = scene.x.spawn("numbers", move || {
        let (mut numbers, mut buffer) = (Vec::new(), [0; BYTES]);
        while let Ok(length) = sink.recv(&mut buffer) {
            assert_eq!(length, BYTES);
            numbers.push(u32::from_be_bytes(*buffer.first_chunk().expect("a number")));
        }
        numbers
    });
    // 12 Mbit/s for five seconds.
    let source = scene.a.run(|| UdpSocket::bind((Plan::IPV4.a, 0))).expect("a socket");
    let (start, mut buffer) = (Instant::now(), [0; BYTES]);
    for number in 0..6000_u32 {
        let due = start + Duration::from_micros(u64::from(number) * 800);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        buffer[..4].copy_from_slice(&number.to_be_bytes());
        scene.a.run(|| source.send_to(&buffer, to)).expect("a datagram");
    }
    let numbers = receiving.join();
    let late = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
    let received = peer(&gateways, Gateway::T2).received;
    let after = carried();
    let by_thousand: Vec<usize> =
        (0..6).map(|k| numbers.iter().filter(|number| **number / 1000 == k).count()).collect();
    println!("of each thousand: {by_thousand:?}; {:?}", class(&gateways, Gateway::T1, "all").drops);
    let shares = [0, 1].map(|link| (after[link] - before[link]) as f64 / (numbers.len() * BYTES) as f64);
    println!(
        "{} of 6000 arrived, {late} out of order; {shares:.2?} of it on the links; {received:?}",
        numbers.len()
    );
    assert!(received.resequencing.count > 0, "some came before others: {received:?}");
    assert!(late <= received.late, "{late} out of order: {received:?}");
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), numbers.len(), "none comes twice");
    assert!(shares.iter().all(|share| *share > 0.1), "both carry the flow: {shares:.2?}");
}

/// The way there fails, and the way back does not: what comes from the other end shows nothing of the way to it.
fn fails_in_one_direction(test: &str, transport: &str) {
    if !privilege::available(test) {
        return;
    }
    let mut scene = Scene::new(Wan::Emulated(emulated(50.0, 20))).expect("a scene");
    let _second = second_link(&mut scene, &emulated(20.0, 20));
    let gateways = scene.start_gateways(&over(transport)).expect("gateways");
    use_both(&gateways, PATHS);
    let there = Calls::start(&scene);
    let back = Calls::between((&scene.x, Plan::IPV4.x), (&scene.a, Plan::IPV4.a));
    for gateway in Gateway::BOTH {
        wait_for("flows on both paths", LIMIT, &gateways, || {
            uplinks(&gateways, gateway).iter().all(|uplink| uplink.flows >= 2)
        });
    }
    let link = scene.link().expect("an emulated link");
    let loses = |loss: Loss| {
        link.change(Direction::Forward, |settings| settings.impairments.loss = loss).expect("the settings");
    };
    loses(Loss::Uniform(1.0));
    wait_for("silence", LIMIT, &gateways, || states(&gateways, Gateway::T1) == ["silent", "up"]);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        assert_eq!(states(&gateways, Gateway::T1), ["silent", "up"], "after {:.1?}", start.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(uplinks(&gateways, Gateway::T1)[0].silences, 1);
    loses(Loss::None);
    wait_for("both paths again", LIMIT, &gateways, || states(&gateways, Gateway::T1) == ["up", "up"]);
    println!(
        "{transport}: longest time without a datagram: {:.0?} there, {:.0?} back",
        there.gaps(),
        back.gaps()
    );
}

#[test]
fn a_path_over_tcp_that_fails_in_one_direction_is_left_once() {
    fails_in_one_direction("a_path_over_tcp_that_fails_in_one_direction_is_left_once", "tcp");
}

#[test]
fn a_path_over_quic_that_fails_in_one_direction_is_left_once() {
    fails_in_one_direction("a_path_over_quic_that_fails_in_one_direction_is_left_once", "quic");
}

/// The second path costs more. The interface of the first goes down and comes up again.
#[test]
fn a_dearer_path_serves_while_the_interface_of_the_first_is_down() {
    if !privilege::available("a_dearer_path_serves_while_the_interface_of_the_first_is_down") {
        return;
    }
    let scene = two_fast_links();
    let gateways = scene.start_gateways(&over("tcp")).expect("gateways");
    use_both(&gateways, &format!("{PATHS}cost = 3\n"));
    assert_eq!(costs(&gateways, Gateway::T2), [0, 3], "the second gateway knows");
    let (calls, lateness) = (Calls::start(&scene), Lateness::watch());
    let flows = |gateways: &Gateways| {
        uplinks(gateways, Gateway::T1).iter().map(|uplink| uplink.flows).collect::<Vec<_>>()
    };
    let all = Calls::FLOWS as u32;
    wait_for("flows on the first path", LIMIT, &gateways, || flows(&gateways) == [all, 0]);
    ip(&scene.t1, "link set wan down");
    wait_for("flows on the second path", LIMIT, &gateways, || flows(&gateways) == [0, all]);
    assert_eq!(states(&gateways, Gateway::T1), ["down", "up"]);
    let told = peer(&gateways, Gateway::T1).lanes[0].last_error.clone().unwrap_or_default();
    assert!(told.contains("wan is down") || told.contains("cannot connect"), "{told}");
    ip(&scene.t1, "link set wan up");
    wait_for("flows back on the first path", LIMIT, &gateways, || flows(&gateways) == [all, 0]);
    let gaps = calls.gaps();
    println!("longest time without a datagram of each flow: {gaps:.0?}");
    let longest = gaps.iter().max().expect("flows");
    lateness.assert_within("without a datagram", *longest, GAP);
}

/// A scene with a second link beside the first, both as fast as the machine.
fn two_fast_links() -> Scene {
    let scene = Scene::new(Wan::Veth).expect("a scene");
    veth(&scene.t1, "wan2", &scene.t2, "wan2").expect("a second link");
    for (gateway, address) in [(&scene.t1, SECOND[1]), (&scene.t2, SECOND[0])] {
        ip(gateway, &format!("address add {address}/24 dev wan2"));
    }
    ip(&scene.t1, &format!("route add {} via {} dev wan2 metric 500", Plan::IPV4.t2_wan, SECOND[0]));
    scene
}

/// Of the default classes one has four lanes to a peer with one path, and one on each of several.
#[test]
fn the_default_classes_have_the_same_lanes_at_both_sites_on_two_paths() {
    if !privilege::available("the_default_classes_have_the_same_lanes_at_both_sites_on_two_paths") {
        return;
    }
    let scene = two_fast_links();
    let gateways = scene.start_gateways(&setup(Encryption::Tls)).expect("gateways");
    use_both(&gateways, PATHS);
    let all_up = || {
        let both = Gateway::BOTH.map(|gateway| uplinks(&gateways, gateway));
        both.iter().flatten().all(|uplink| uplink.lanes == uplink.lanes_up)
            && both[0][1].lanes == both[1][1].lanes
    };
    wait_for("all lanes", LIMIT, &gateways, all_up);
    std::thread::sleep(Duration::from_secs(3));
    assert!(all_up());
    let lanes = peer(&gateways, Gateway::T1).lanes;
    assert!(lanes.iter().all(|lane| lane.established <= 2), "they stay: {lanes:?}");
}

/// The second path is the cheaper one, and may carry 6 MB a day.
#[test]
fn a_path_carries_its_quota_and_the_count_outlives_a_process_that_is_killed() {
    if !privilege::available("a_path_carries_its_quota_and_the_count_outlives_a_process_that_is_killed") {
        return;
    }
    let scene = two_fast_links();
    let mut gateways = scene.start_gateways(&over("tcp")).expect("gateways");
    let state = gateways.configuration_file(Gateway::T1).with_file_name("state");
    let quota = |bytes: &str, then: &str| {
        let quota = format!("quota = {{ bytes = \"{bytes}\", each = \"day\", then = \"{then}\" }}\n");
        PATHS.replace("\"wan\"\n", "\"wan\"\ncost = 2\n") + &quota
    };
    let spent = |gateways: &Gateways| uplinks(gateways, Gateway::T1)[1].quota.clone().expect("a quota");
    let first = quota("6 MB", "last-resort");
    edit(&gateways, Gateway::T1, |text| format!("state_directory = \"{}\"\n{text}{first}", state.display()));
    gateways.kill9(Gateway::T1);
    gateways.restart(Gateway::T1).expect("a restart");
    gateways.wait_until_up(LIMIT).expect("lanes");
    let up = |gateways: &Gateways| {
        Gateway::BOTH.into_iter().all(|gateway| states(gateways, gateway) == ["up", "up"])
    };
    wait_for("both paths", LIMIT, &gateways, || up(&gateways));
    assert_eq!(Gateway::BOTH.map(|gateway| costs(&gateways, gateway)), [[2, 0], [2, 0]]);
    let bytes = Transfers::BYTES;
    let transfer = |gateways: &Gateways| {
        let checker = Checker::start(&scene.x, Plan::IPV4.x);
        send(&scene.a, checker.address, bytes, None).join().expect("all is sent");
        assert_eq!(checker.finish(), bytes);
        std::thread::sleep(Duration::from_millis(1_100));
        spent(gateways).used
    };
    let used = transfer(&gateways);
    // Headers, acknowledgements and handshakes are a twentieth of what full segments carry, and some kilobytes.
    assert!((bytes..bytes + bytes / 10 + 200_000).contains(&used), "{used} of {bytes}");
    let file = state.join("t1.usage.json");
    wait_for("the count on disk", LIMIT, &gateways, || {
        std::fs::read_to_string(&file)
            .is_ok_and(|text| text.contains(&format!("\"bytes\": {}", spent(&gateways).used)))
    });
    gateways.kill9(Gateway::T1);
    gateways.restart(Gateway::T1).expect("a restart");
    gateways.wait_until_up(LIMIT).expect("lanes");
    wait_for("both paths again", LIMIT, &gateways, || up(&gateways));
    assert!(spent(&gateways).used >= used, "{:?} after {used}", spent(&gateways));
    for _ in 0..5 {
        transfer(&gateways);
    }
    wait_for("a quota that is spent", LIMIT, &gateways, || {
        Gateway::BOTH.map(|gateway| costs(&gateways, gateway)) == [[2, 7], [2, 7]] && up(&gateways)
    });
    let told = spent(&gateways);
    assert!(told.is_spent && (6_000_000..9_500_000).contains(&told.used), "{told:?}");
    let after = transfer(&gateways) - told.used;
    assert!(after < bytes / 2, "it carried {after} beside the other path");
    // More may be had, and less, and nothing at all.
    let set = |text: &str| {
        let given = text.to_owned();
        edit(&gateways, Gateway::T1, |file| {
            let at = file.find("\n[[peers.paths]]").expect("paths");
            file[..at].to_owned() + &given
        });
        gateways.reload(Gateway::T1).expect("a reload");
    };
    set(&quota("1 GB", "last-resort"));
    wait_for("more quota", LIMIT, &gateways, || {
        Gateway::BOTH.map(|gateway| costs(&gateways, gateway)) == [[2, 0], [2, 0]] && up(&gateways)
    });
    set(&quota("6 MB", "off"));
    wait_for("a path without lanes", LIMIT, &gateways, || {
        Gateway::BOTH.into_iter().all(|gateway| states(&gateways, gateway) == ["up", "down"])
    });
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(states(&gateways, Gateway::T1), ["up", "down"], "nobody dials it");
    let log = gateways.log(Gateway::T1);
    assert!(log.contains("peer t2 on path second: its quota is spent: it has no lanes, until "), "{log}");
}

/// What docs/lanes.md has of the bytes that idle lanes of the default classes send and receive on a path that costs nothing, and on one
/// that does.
#[test]
#[ignore = "a measurement of four minutes"]
fn idle_paths_measured() {
    let scene = two_fast_links();
    let mut gateways = scene.start_gateways(&setup(Encryption::Tls)).expect("gateways");
    let state = gateways.configuration_file(Gateway::T1).with_file_name("state");
    let quota = "quota = { bytes = \"1 GB\" }\n";
    let paths = PATHS.replace("\"wan\"\n", &format!("\"wan\"\n{quota}")) + quota + "cost = 1\n";
    edit(&gateways, Gateway::T1, |text| format!("state_directory = \"{}\"\n{text}{paths}", state.display()));
    gateways.kill9(Gateway::T1);
    gateways.restart(Gateway::T1).expect("a restart");
    gateways.wait_until_up(LIMIT).expect("lanes");
    let read = || {
        uplinks(&gateways, Gateway::T1)
            .iter()
            .map(|uplink| (uplink.lanes_up, uplink.quota.as_ref().map_or(0, |quota| quota.used)))
            .collect::<Vec<_>>()
    };
    std::thread::sleep(Duration::from_secs(10));
    let (before, time) = (read(), Duration::from_secs(240));
    std::thread::sleep(time);
    for (name, (before, after)) in ["cost 0", "cost 1"].iter().zip(before.iter().zip(read())) {
        let month = (after.1 - before.1) as f64 / time.as_secs_f64() * 86_400.0 * 30.0 / 1e6;
        println!("{name}: {} lanes, {month:.1} MB in 30 days", after.0);
    }
}

/// The first path is too slow for the guarantee of the class.
#[test]
fn a_class_whose_path_does_not_hold_its_guarantee_is_handed_to_the_other() {
    if !privilege::available("a_class_whose_path_does_not_hold_its_guarantee_is_handed_to_the_other") {
        return;
    }
    let mut scene = Scene::new(Wan::Emulated(emulated(2.0, 20))).expect("a scene");
    let _second = second_link(&mut scene, &emulated(40.0, 20));
    let classes =
        "[[classes]]\nname = \"all\"\nguarantee = \"4mbit\"\npaths = \"most-capacity\"\n".to_owned();
    let sites = GatewaySetup { classes: Some(classes), ..setup(Encryption::Tls) };
    let gateways = scene.start_gateways(&sites).expect("gateways");
    use_both(&gateways, PATHS);
    let handover = || class(&gateways, Gateway::T1, "all").handover.expect("a guarantee");
    assert_eq!(handover(), ClassHandover::default());
    let (start, transfers) = (Instant::now(), Transfers::start(&scene.a, &scene.x));
    wait_for("the other path", LIMIT, &gateways, || handover().path.as_deref() == Some("second"));
    println!("handed over after {:.1?}", start.elapsed());
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    transfers.finish();
    assert_eq!(handover(), ClassHandover { missed: false, path: Some("second".to_owned()), count: 1 });
    let log = gateways.log(Gateway::T1);
    assert!(log.contains("class all to t2: handed from path first to second: for 3 s "), "{log}");
}

/// What docs/benchmarks.md has of two uplinks of 50 and 20 Mbit/s: the use of their sum by 40 flows, and the longest time without a
/// datagram of flows whose path is cut under load.
#[test]
#[ignore = "a measurement for a quiet machine"]
fn two_uplinks_measured() {
    for transport in ["tcp", "quic"] {
        let mut scene = Scene::new(Wan::Emulated(emulated(50.0, 20))).expect("a scene");
        let second = second_link(&mut scene, &emulated(20.0, 20));
        let links = [scene.link().expect("an emulated link"), second];
        let gateways = scene.start_gateways(&over(transport)).expect("gateways");
        use_both(&gateways, PATHS);
        let stop = Stop::new();
        let load = |flows: u32, seconds: u64| {
            let sink = TcpSink::start(&scene.x, (Plan::IPV4.x, 0).into(), Duration::from_millis(100));
            let sink = sink.expect("a sink");
            let settings = BulkSettings::new(sink.address(), "cubic", flows, Duration::from_secs(seconds));
            let stop = stop.clone();
            (sink, scene.a.spawn("bulk", move || bulk(&settings, &stop)))
        };
        let (sink, sending) = load(40, 20);
        let carried = || links.each_ref().map(|link| link.counters(Direction::Forward).bytes_out);
        std::thread::sleep(Duration::from_secs(8));
        let (from, before) = (trunkline_testbed::clock::now(), carried());
        std::thread::sleep(Duration::from_secs(10));
        let (to, after) = (trunkline_testbed::clock::now(), carried());
        sending.join();
        let goodput = sink.finish().goodput(from, to).as_mbit();
        let seconds = to.saturating_since(from).as_secs_f64();
        let use_of: Vec<f64> =
            (0..2).map(|link| (after[link] - before[link]) as f64 * 8e-6 / seconds).collect();
        println!(
            "{transport}: 40 flows: {goodput:.1} Mbit/s of goodput; on the links {:.1} and {:.1} Mbit/s, {:.3} of the sum",
            use_of[0],
            use_of[1],
            (use_of[0] + use_of[1]) / 70.0
        );
        for round in 0..6 {
            let (sink, sending) = load(8, 8);
            let calls = Calls::start(&scene);
            std::thread::sleep(Duration::from_secs(3));
            let link = &links[round % 2];
            link.cut();
            std::thread::sleep(Duration::from_millis(1500));
            link.restore();
            sending.join();
            sink.finish();
            let mut gaps = calls.gaps();
            gaps.sort();
            println!("{transport}: path {} cut: without a datagram for {gaps:.0?}", round % 2 + 1);
        }
    }
}

/// What one flow gets between the sites after so many seconds, Mbit/s over the next ten, and what it costs both gateways, seconds of
/// processor time for a gigabyte.
fn one_flow(scene: &Scene, gateways: &Gateways, after_s: u64) -> (f64, f64) {
    let sink = TcpSink::start(&scene.x, (Plan::IPV4.x, 0).into(), Duration::from_millis(100));
    let sink = sink.expect("a sink");
    let settings = BulkSettings::new(sink.address(), "cubic", 1, Duration::from_secs(after_s + 11));
    let stop = Stop::new();
    let sending = scene.a.spawn("bulk", move || bulk(&settings, &stop));
    std::thread::sleep(Duration::from_secs(after_s));
    let cost = || gateways.cpu_time().expect("their time").total();
    let (from, before) = (trunkline_testbed::clock::now(), cost());
    std::thread::sleep(Duration::from_secs(10));
    let (to, after) = (trunkline_testbed::clock::now(), cost());
    sending.join();
    let goodput = sink.finish().goodput(from, to).as_mbit();
    let gigabytes = goodput * (to - from).as_secs_f64() / 8000.0;
    (goodput, after.saturating_sub(before).as_secs_f64() / gigabytes)
}

/// Pings beside two bulk flows over two paths of 100 and 40 Mbit/s and of 20 and 40 ms, all classes bonded: what docs/models/bonding.md
/// has of the delay that bonding adds.
#[test]
#[ignore = "a measurement for a quiet machine"]
fn pings_beside_bulk_on_bonded_paths_measured() {
    for policy in ["spread", "bonded"] {
        let wan = Wan::Emulated(emulated(100.0, 20));
        let settings = SceneSettings { site_offloads: Offloads::On, ..SceneSettings::new(wan) };
        let mut scene = Scene::build(&settings).expect("a scene");
        second_link(&mut scene, &emulated(40.0, 40));
        let gateways = scene.start_gateways(&setup(Encryption::Tls)).expect("gateways");
        let lanes = format!("[lanes]\npaths = \"{policy}\"\n");
        edit(&gateways, Gateway::T1, |text| text.replacen("[[peers]]", &format!("{lanes}[[peers]]"), 1));
        edit(&gateways, Gateway::T2, |text| text.replacen("[[peers]]", &format!("{lanes}[[peers]]"), 1));
        gateways.reload(Gateway::T2).expect("a reload");
        use_both(&gateways, PATHS);
        let echo =
            EchoServer::start(&scene.x, (Plan::IPV4.x, 0).into(), Scheduling::RealTime).expect("a server");
        let (stop, interval) = (Stop::new(), Duration::from_millis(20));
        let round_trips = |count| {
            let settings = PingSettings {
                scheduling: Scheduling::RealTime,
                ..PingSettings::new(echo.address(), interval, count)
            };
            let report = scene.a.run(|| ping(&settings, &stop)).expect("pings");
            let mut ms: Vec<f64> =
                report.round_trips.iter().map(|round_trip| round_trip.as_secs_f64() * 1e3).collect();
            ms.sort_by(f64::total_cmp);
            let at = |part: f64| ms[((ms.len() - 1) as f64 * part) as usize];
            (at(0.5), at(0.99), report.loss())
        };
        let idle = round_trips(250);
        let sink = TcpSink::start(&scene.x, (Plan::IPV4.x, 0).into(), Duration::from_millis(100));
        let sink = sink.expect("a sink");
        let settings = BulkSettings::new(sink.address(), "cubic", 2, Duration::from_secs(30));
        let ended = stop.clone();
        let sending = scene.a.spawn("bulk", move || bulk(&settings, &ended));
        std::thread::sleep(Duration::from_secs(10));
        let from = trunkline_testbed::clock::now();
        let busy = round_trips(750);
        let to = trunkline_testbed::clock::now();
        sending.join();
        let goodput = sink.finish().goodput(from, to).as_mbit();
        echo.finish();
        println!(
            "{policy}: idle {:.1} ms (p99 {:.1}); beside {goodput:.1} Mbit/s {:.1} ms (p99 {:.1}, loss {:.4})",
            idle.0, idle.1, busy.0, busy.1, busy.2
        );
    }
}

/// What one flow gets between sites that two links of such rates (Mbit/s) and round-trip times (ms) join: over the first alone, or with a
/// policy over both.
fn one_flow_over([first, second]: [(f64, u64); 2], policy: Option<&str>, after_s: u64) -> (f64, f64) {
    let wan = Wan::Emulated(emulated(first.0, first.1));
    let settings = SceneSettings { site_offloads: Offloads::On, ..SceneSettings::new(wan) };
    let mut scene = Scene::build(&settings).expect("a scene");
    second_link(&mut scene, &emulated(second.0, second.1));
    let paths = policy.map_or(String::new(), |policy| format!("paths = \"{policy}\""));
    let gateways = scene.start_gateways(&one_class(&paths)).expect("gateways");
    if policy.is_some() {
        use_both(&gateways, PATHS);
    }
    one_flow(&scene, &gateways, after_s)
}

/// A socket of Multipath TCP with CUBIC on its subflows.
fn mptcp_socket() -> OwnedFd {
    use rustix::net::{AddressFamily, Protocol, SocketType, socket};
    let protocol = Protocol::from_raw(std::num::NonZero::new(262).expect("IPPROTO_MPTCP"));
    let socket = socket(AddressFamily::INET, SocketType::STREAM, Some(protocol)).expect("Multipath TCP");
    trunkline_linux::set_congestion_control(socket.as_fd(), "cubic").expect("cubic");
    trunkline_linux::set_nodelay(socket.as_fd()).expect("a flag");
    socket
}

/// What one transfer gets over two links by the kernel's Multipath TCP between the gateways' hosts, Mbit/s, and the median and the 99th
/// percentile of round trips over another such connection beside it, ms. A proxy at each end would only add to it.
fn mptcp_over([first, second]: [(f64, u64); 2]) -> (f64, f64, f64) {
    let mut scene = Scene::new(Wan::Emulated(emulated(first.0, first.1))).expect("a scene");
    let second = second_link(&mut scene, &emulated(second.0, second.1));
    for host in [&scene.t1, &scene.t2] {
        ip(host, "mptcp limits set subflow 2 add_addr_accepted 2");
    }
    ip(&scene.t1, &format!("mptcp endpoint add {} dev wan2 subflow", SECOND[1]));
    let address = SocketAddrV4::new(Plan::IPV4.t2_wan.to_string().parse().expect("IPv4"), 5001);
    let listener = scene.t2.run(|| {
        let socket = mptcp_socket();
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, 8).map(|()| TcpListener::from(socket))
    });
    let listener = listener.expect("a listener");
    let received = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&received);
    let sink = scene.t2.spawn("sink", move || {
        let (mut bulk, _) = listener.accept().expect("the transfer");
        let (mut pings, _) = listener.accept().expect("the pings");
        let echo = std::thread::spawn(move || {
            let mut request = [0; 64];
            while pings.read_exact(&mut request).is_ok() && pings.write_all(&request).is_ok() {}
        });
        let mut buffer = vec![0; 1 << 18];
        while let Ok(bytes @ 1..) = bulk.read(&mut buffer) {
            counted.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        echo.join().expect("an echo");
    });
    let connect = || {
        scene.t1.run(|| {
            let socket = mptcp_socket();
            rustix::net::connect(&socket, &address).map(|()| TcpStream::from(socket))
        })
    };
    let (mut bulk, mut pings) = (connect().expect("a connection"), connect().expect("another"));
    let (start, end) = (Instant::now(), Duration::from_secs(26));
    let sending = scene.t1.spawn("bulk", move || {
        let data = vec![0; 1 << 18];
        while start.elapsed() < end && bulk.write_all(&data).is_ok() {}
    });
    std::thread::sleep(Duration::from_secs(15));
    let (from, before, carried) =
        (Instant::now(), received.load(Ordering::Relaxed), second.counters(Direction::Forward));
    let mut ms: Vec<f64> = Vec::new();
    while from.elapsed() < Duration::from_secs(10) {
        let sent = Instant::now();
        let mut answer = [0; 64];
        pings.write_all(&[7; 64]).and_then(|()| pings.read_exact(&mut answer)).expect("an answer");
        ms.push(sent.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(20).saturating_sub(sent.elapsed()));
    }
    let bytes = received.load(Ordering::Relaxed) - before;
    let goodput = bytes as f64 * 8e-6 / from.elapsed().as_secs_f64();
    let over_second = second.counters(Direction::Forward).bytes_out - carried.bytes_out;
    assert!(over_second > 0, "the second subflow carries something");
    drop(pings);
    sending.join();
    sink.join();
    ms.sort_by(f64::total_cmp);
    (goodput, ms[ms.len() / 2], ms[ms.len() * 99 / 100])
}

/// What docs/models/bonding.md has of the kernel's Multipath TCP over the pairs of paths of `one_flow_over_two_paths_measured`: median and
/// lowest of `RUNS`.
#[test]
#[ignore = "a measurement for a quiet machine"]
fn mptcp_over_two_paths_measured() {
    let runs = std::env::var("RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let pairs = [
        [(100.0, 20), (100.0, 20)],
        [(300.0, 10), (80.0, 30)],
        [(50.0, 20), (5.0, 200)],
        [(100.0, 20), (40.0, 40)],
    ];
    for pair in pairs {
        let mut runs: Vec<(f64, f64, f64)> = (0..runs).map(|_| mptcp_over(pair)).collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ((median, p50, p99), lowest) = (runs[runs.len() / 2], runs[0].0);
        println!(
            "{pair:?}: {median:.1} Mbit/s, lowest {lowest:.1}; pings beside it {p50:.1} ms, 99th percentile {p99:.1} ms"
        );
    }
}

/// One flow over pairs of paths that nobody chose: `SEED` and the number of `PAIRS` are variables of the environment.
#[test]
#[ignore = "a measurement for a quiet machine"]
fn one_flow_over_random_pairs_of_paths_measured() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let mut random = Rng::new(number("SEED", 1), "pairs");
    for pair in 0..number("PAIRS", 10) {
        let mut path = || {
            let mbit = 4.0 * 25_f64.powf(random.uniform());
            ((mbit * 10.0).round() / 10.0, (5.0 * 24_f64.powf(random.uniform())) as u64)
        };
        let (one, other) = (path(), path());
        let pair_of_paths = if one.0 >= other.0 { [one, other] } else { [other, one] };
        let [alone, bonded] = [None, Some("bonded")].map(|policy| one_flow_over(pair_of_paths, policy, 10).0);
        let [sum, ratio] = [pair_of_paths[0].0 + pair_of_paths[1].0, bonded / alone];
        println!(
            "{pair}: {pair_of_paths:?}: {alone:.1} alone, {bonded:.1} bonded: {ratio:.2} of it, {:.2} of the sum",
            bonded / sum
        );
    }
}

/// What docs/models/bonding.md has of one flow over two paths of such rates (Mbit/s) and round-trip times (ms), beside the first of them
/// alone: the median of as many `RUNS` as the variable says, and the lowest rate. `PAIRS`, if set, names those to measure by their numbers.
#[test]
#[ignore = "a measurement for a quiet machine"]
fn one_flow_over_two_paths_measured() {
    let pairs = [
        [(100.0, 20), (100.0, 20)],
        [(300.0, 10), (80.0, 30)],
        [(50.0, 20), (5.0, 200)],
        [(25.0, 20), (25.0, 20)],
        [(60.0, 10), (16.0, 30)],
        [(200.0, 20), (100.0, 20)],
    ];
    let wanted = std::env::var("PAIRS").unwrap_or_else(|_| "012".to_owned());
    let runs = std::env::var("RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for (number, pair) in pairs.into_iter().enumerate() {
        if !wanted.contains(&number.to_string()) {
            continue;
        }
        for policy in [None, Some("bonded")] {
            let mut runs: Vec<(f64, f64)> = (0..runs).map(|_| one_flow_over(pair, policy, 15)).collect();
            runs.sort_by(|a, b| a.0.total_cmp(&b.0));
            let ((median, cost), lowest) = (runs[runs.len() / 2], runs[0].0);
            let over = policy.map_or("the first alone", |_| "both bonded");
            println!("{pair:?} over {over}: {median:.1} Mbit/s, lowest {lowest:.1}, {cost:.2} s of CPU a GB");
        }
    }
}
