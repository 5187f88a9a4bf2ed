//! Lanes of streams: everything arrives, in the order of its flow, and a loss delays its own flow only.

#![allow(clippy::cast_precision_loss, reason = "counts in a test")]

use std::time::Duration;

use trunkline_link::{Impairments, Jitter, LinkChange, LinkSettings, Loss};
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::{Network, NodeId, SourceId, TcpTraffic, TrunkId, TrunkSettings, UdpTraffic, both};
use trunkline_tcp::{CongestionAlgorithm, Preset, Settings};
use trunkline_trunk::{ClassSettings, CongestionControl, Delivery, Transport, TrunkPlan};
use trunkline_units::Rate;
use trunkline_workload::{Datagrams, Distribution, Pattern, Timing, TransferState};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn linux() -> Settings {
    Preset::Linux6.settings().with_congestion_control(CongestionAlgorithm::Cubic)
}

fn packets(segments: u32) -> QueueSettings {
    QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX })
}

/// 20 Mbit/s and a round trip of 30 ms.
fn path() -> LinkSettings {
    LinkSettings::new(Rate::from_mbit(20.0), MS * 15).queue(packets(100))
}

struct Scene {
    network: Network,
    hosts: [NodeId; 2],
    trunk: TrunkId,
}

/// Two sites with a trunk over this path.
fn scene(path: &LinkSettings, transport: Transport, edge_pacing: bool) -> Scene {
    let mut network = Network::new(2);
    let hosts = [network.host("a"), network.host("b")];
    let gateways = [network.gateway("left"), network.gateway("right")];
    let lan = LinkSettings::new(Rate::from_mbit(1000.0), Duration::from_micros(50)).queue(packets(1000));
    for side in 0..2 {
        network.connect(hosts[side], gateways[side], &lan, &lan);
    }
    network.connect(gateways[0], gateways[1], path, path);
    let mut plan =
        TrunkPlan::one_lane_per_class(vec![ClassSettings::new("all", Vec::new(), packets(400), 0)]);
    (plan.groups[0].transport, plan.groups[0].delivery) = (transport, Delivery::Reliable);
    // Which losses do not slow down.
    plan.groups[0].congestion_control = CongestionControl::Named("bbr".into());
    plan.edge_pacing = edge_pacing;
    let trunk = network.trunk(gateways, TrunkSettings::new(hosts.map(|host| vec![host]), plan, linux()));
    Scene { network, hosts, trunk }
}

impl Scene {
    fn voice(&mut self, port: u16, stop: Duration) -> SourceId {
        let [from, to] = self.hosts;
        let timing = Timing::Constant(Rate::from_mbit(0.1));
        let start = SECOND + MS * u32::from(port);
        self.network.udp(UdpTraffic { from, to, port, dscp: 0, data: 200, start, stop: Some(stop), timing })
    }

    fn bulk(&mut self, flows: u32, bytes: Option<u64>) -> SourceId {
        let [client, server] = self.hosts;
        let tcp = both(linux());
        let pattern = Pattern::Bulk { flows, bytes, stagger: Distribution::Fixed(0.01) };
        let start = MS * 500;
        self.network.tcp(TcpTraffic { client, server, port: 80, dscp: 0, tcp, start, stop: None, pattern })
    }
}

/// Means over ten calls: what they wait beyond the path's delay (s), and the part that was lost.
fn calls(transport: Transport) -> (f64, f64) {
    let mut scene = scene(&path().loss(Loss::Uniform(0.01)), transport, false);
    let flows: Vec<SourceId> = (1..=10).map(|port| scene.voice(port, SECOND * 60)).collect();
    scene.network.run_for(SECOND * 62);
    let flows = flows.iter().filter_map(|flow| scene.network.datagrams(*flow));
    let all: Vec<&Datagrams> = flows.collect();
    let sum = |each: fn(&Datagrams) -> f64| all.iter().map(|flow| each(flow)).sum::<f64>();
    let (sent, received) = (sum(|flow| flow.sent as f64), sum(|flow| flow.received as f64));
    (sum(|flow| flow.delay_sum.as_secs_f64()) / received - 0.0151, 1.0 - received / sent)
}

#[test]
fn a_loss_delays_its_own_flow_only() {
    let (behind_tcp, lost) = calls(Transport::Tcp);
    assert!(lost < 0.0005, "{lost}");
    let (behind_streams, lost) = calls(Transport::Quic);
    assert!(lost < 0.0005, "{lost}");
    // One in a hundred waits for a repair, and behind a lost one no more than a tenth of what follows.
    assert!(behind_tcp > 0.003 && behind_streams < 0.4 * behind_tcp, "{behind_tcp} s and {behind_streams} s");
}

#[test]
fn transfers_are_whole_over_a_path_that_loses_reorders_and_duplicates() {
    let jitter = Jitter::Uniform { max: MS * 3, reorders: true };
    let loss = Loss::Uniform(0.01);
    let impairments = Impairments { loss, corruption: 0.001, duplication: 0.02, jitter };
    let mut scene = scene(&LinkSettings { impairments, ..path() }, Transport::Quic, false);
    let source = scene.bulk(300, Some(100_000));
    scene.network.run_for(SECOND * 120);
    let transfers = scene.network.transfers(source);
    assert_eq!(transfers.len(), 300);
    assert!(transfers.iter().all(|it| (it.state, it.bytes) == (TransferState::Completed, 100_000)));
    let report = scene.network.trunk_report(scene.trunk, 0);
    let (lane, receiver) = (&report.lanes[0], scene.network.trunk_report(scene.trunk, 1).receiver);
    assert_eq!(receiver.frames, lane.frames, "each packet that the lane took has come, once");
    assert_eq!(receiver.malformed + receiver.forged_source, 0);
    let quic = lane.quic.expect("it is one over QUIC");
    assert!(quic.lost > 100 && quic.late < quic.lost / 4, "{quic:?}");
}

#[test]
fn what_a_lane_holds_when_its_path_fails_arrives_once_it_works_again() {
    let down = |loss| LinkChange::Impairments(Impairments { loss, ..Impairments::default() });
    let changes = vec![(SECOND * 3, down(Loss::Uniform(1.0))), (SECOND * 11, down(Loss::None))];
    let mut scene = scene(&LinkSettings { changes, ..path() }, Transport::Quic, false);
    let calls: Vec<SourceId> = (1..=3).map(|port| scene.voice(port, SECOND * 20)).collect();
    let source = scene.bulk(4, None);
    let received = |scene: &Scene| (0..4).map(|user| scene.network.received_by(source, user)).sum::<u64>();
    scene.network.run_for(SECOND * 9);
    let (before, frames) = (received(&scene), scene.network.trunk_report(scene.trunk, 0).lanes[0].frames);
    scene.network.run_for(SECOND * 21);
    let report = scene.network.trunk_report(scene.trunk, 0);
    assert!(report.lanes[0].frames > frames + 10_000 && received(&scene) > before + 15_000_000);
    assert!(report.lanes[0].quic.is_some_and(|quic| (2..12).contains(&quic.timeouts)), "{report:?}");
    for call in calls {
        let call = scene.network.datagrams(call).expect("a flow of datagrams");
        let waited = call.delay_max.as_secs_f64();
        assert!((7.5..16.0).contains(&waited), "{call:?}");
    }
}

#[test]
fn path_control_keeps_the_queue_of_the_lane_at_the_edge() {
    let measure = |edge_pacing| {
        let mut scene = scene(&path(), Transport::Quic, edge_pacing);
        let source = scene.bulk(8, None);
        scene.network.run_for(SECOND * 60);
        let bytes: u64 = (0..8).map(|user| scene.network.received_by(source, user)).sum();
        let report = scene.network.trunk_report(scene.trunk, 0);
        let rtt = report.lanes[0].snapshot.srtt.expect("a sample");
        (bytes as f64 * 8.0 / 60e6, rtt)
    };
    let (free, long) = measure(false);
    let (paced, short) = measure(true);
    assert!(free > 17.0 && paced > 16.0, "{free} and {paced} Mbit/s of 20");
    assert!(long > MS * 45 && short < MS * 40, "{long:?} and {short:?}");
}

/// Packets that leave the edge one by one need two of the connection's each.
#[test]
fn a_lane_that_its_path_holds_fills_its_packets() {
    let path = LinkSettings::new(Rate::from_mbit(100.0), MS * 15).queue(packets(500));
    let mut scene = scene(&path, Transport::Quic, true);
    scene.bulk(8, None);
    let mut at = |seconds: u32| {
        scene.network.run_for(SECOND * seconds);
        let lane = scene.network.trunk_report(scene.trunk, 0).lanes.remove(0);
        assert!(lane.pacing.is_some_and(|(_, grant)| grant.is_some()), "{:?}", lane.pacing);
        (lane.frames as f64, lane.quic.expect("it is one over QUIC").sent as f64)
    };
    let (before, after) = (at(10), at(5));
    let packets = (after.1 - before.1) / (after.0 - before.0);
    assert!((1.0..1.25).contains(&packets), "{packets} packets for each frame");
}
