//! Settings that make no sense are refused before anything runs, with what is wrong, where, and what is allowed.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::{
    Network, NodeId, ProxyMode, ProxySettings, SettingsError, TcpTraffic, TrunkSettings, UdpTraffic, both,
};
use trunkline_tcp::{Preset, Settings};
use trunkline_trunk::compress::Compression;
use trunkline_trunk::{ClassSettings, CongestionControl, Delivery, Transport, TrunkPlan};
use trunkline_units::Rate;
use trunkline_workload::{Assignment, Distribution, Pattern, Timing};

const SECOND: Duration = Duration::from_secs(1);

fn nodes() -> (Network, [NodeId; 3]) {
    let mut network = Network::new(1);
    let nodes = [network.host("a"), network.host("b"), network.host("c")];
    (network, nodes)
}

fn refused(checked: Result<(), SettingsError>, by: &str) {
    let error = checked.expect_err(by).to_string();
    assert!(error.starts_with(by) && error.contains("allowed: "), "{error:?}, not {by:?}");
}

fn tcp([client, server]: [NodeId; 2], pattern: Pattern) -> TcpTraffic {
    let tcp = both(Preset::Linux6.settings());
    TcpTraffic { client, server, port: 80, dscp: 0, tcp, start: SECOND, stop: None, pattern }
}

#[test]
fn tcp_traffic_is_checked() {
    let (_, [a, b, _]) = nodes();
    let good = tcp([a, b], Pattern::surge(10));
    assert_eq!(good.check(), Ok(()));
    refused(tcp([a, a], Pattern::surge(10)).check(), ": node 0 (10.0.0.1) sends to itself");
    refused(TcpTraffic { port: 0, ..good.clone() }.check(), "port is 0");
    refused(TcpTraffic { dscp: 64, ..good.clone() }.check(), "dscp is 64; allowed: 0 to 63");
    refused(TcpTraffic { stop: Some(SECOND), ..good.clone() }.check(), "stop is 1s");
    refused(tcp([a, b], Pattern::surge(50_001)).check(), "pattern.users is 50001");
    let bad = both(Settings { mss: 0, ..Preset::Linux6.settings() });
    refused(TcpTraffic { tcp: bad, ..good }.check(), "tcp[0].mss is 0; allowed: 64 to 65495 bytes");
    let still = Distribution::Fixed(0.0);
    let none = Pattern::Bulk { flows: 1, bytes: Some(0), stagger: still.clone() };
    refused(tcp([a, b], none).check(), "pattern.bytes is 0");
    let nothing = Pattern::RequestResponse { connections: 1, request: 1, response: 0, interval: still };
    refused(tcp([a, b], nothing).check(), "pattern.response is 0");
    let arrivals = |connections, interval| Pattern::Arrivals {
        connections,
        assignment: Assignment::Random,
        request: 1,
        response: Distribution::Fixed(1.0),
        interval: Distribution::Fixed(interval),
    };
    assert_eq!(tcp([a, b], arrivals(1, 0.1)).check(), Ok(()));
    refused(tcp([a, b], arrivals(1, 0.0)).check(), "pattern.interval is Fixed(0.0); allowed: a mean of");
    refused(tcp([a, b], arrivals(0, 0.1)).check(), "pattern.connections is 0");
    refused(tcp([a, b], arrivals(50_001, 0.1)).check(), "pattern.connections is 50001");
    let odd = Pattern::Bulk { flows: 1, bytes: None, stagger: Distribution::Fixed(f64::NAN) };
    refused(tcp([a, b], odd).check(), "pattern.stagger is NaN");
}

#[test]
fn datagrams_are_checked() {
    let (_, [from, to, _]) = nodes();
    let timing = Timing::Constant(Rate::from_mbit(1.0));
    let good =
        UdpTraffic { from, to, port: 9, dscp: 0, data: 65_507, start: Duration::ZERO, stop: None, timing };
    assert_eq!(good.check(), Ok(()));
    refused(UdpTraffic { data: 65_508, ..good.clone() }.check(), "data is 65508; allowed: up to 65507 bytes");
    let timed = |timing| UdpTraffic { timing, ..good.clone() }.check();
    let none = Rate::ZERO;
    refused(timed(Timing::Constant(none)), "timing.rate is Rate(0)");
    refused(timed(Timing::Poisson(none)), "timing.rate is Rate(0)");
    let (on, off) = (Distribution::Fixed(0.0), Distribution::Fixed(0.0));
    refused(timed(Timing::OnOff { rate: Rate::from_mbit(1.0), on, off }), "timing.on is");
    let trace = |datagrams: &[(Duration, u32)], repeat| {
        timed(Timing::Trace { datagrams: Arc::from(datagrams), repeat })
    };
    refused(trace(&[], None), "timing.datagrams is []");
    refused(trace(&[(SECOND, 1), (SECOND / 2, 1)], None), "timing.datagrams[1] is at 500ms");
    refused(trace(&[(SECOND, 70_000)], None), "timing.datagrams[0] is 70000");
    refused(trace(&[(SECOND, 1)], Some(Duration::ZERO)), "timing.repeat is 0ns");
    refused(trace(&[(SECOND, 1)], Some(SECOND / 2)), "timing.repeat is 500ms");
}

#[test]
fn trunks_are_checked() {
    let (_, [a, b, c]) = nodes();
    let plan = || {
        TrunkPlan::one_lane_per_class(vec![ClassSettings::new(
            "all",
            Vec::new(),
            QueueSettings::default(),
            0,
        )])
    };
    let trunk = |change: &dyn Fn(&mut TrunkSettings)| {
        let mut settings = TrunkSettings::new([vec![a], vec![b]], plan(), Preset::Linux6.settings());
        assert_eq!(settings.check(), Ok(()));
        change(&mut settings);
        settings.check()
    };
    refused(trunk(&|t| t.sites[1].clear()), "sites[1] is []");
    refused(trunk(&|t| t.sites = [vec![a, c], vec![b, c]]), "sites[0]: node 2 (10.0.2.1) is on both sides");
    refused(trunk(&|t| t.flows = 0), "flows is 0");
    refused(trunk(&|t| t.plans[1].groups[0].dscp = 255), "plans[1].groups[0].dscp is 255");
    let hybla = CongestionControl::Named("hybla".into());
    refused(
        trunk(&|t| t.plans[0].groups[0].congestion_control = hybla.clone()),
        "plans[0].groups[0].congestion_control is \"hybla\"; allowed: reno, bic, bic-1.0",
    );
    refused(trunk(&|t| t.plans[1].groups[0].lanes = 2), "plans is [1, 2]");
    refused(trunk(&|t| t.plans.iter_mut().for_each(|p| p.groups[0].lanes = 33)), "plans[0].groups is 33");
    refused(trunk(&|t| t.plans[0].classes[0].group = 1), "plans[0].classes[0].group is 1");
    refused(trunk(&|t| t.plans[1].classes[0].share.weight = 0), "plans[1].classes[0].share.weight is 0");
    let none = QueueSettings::TailDrop(Limits { segments: 1, bytes: 0 });
    refused(trunk(&|t| t.plans[0].classes[0].queue = none), "plans[0].classes[0].queue.limits.bytes is 0");
    let quic = |t: &mut TrunkSettings| {
        t.plans.iter_mut().for_each(|plan| plan.groups[0].transport = Transport::Quic);
    };
    refused(trunk(&quic), "plans[0].classes[0].filters_retransmissions is true");
    refused(
        trunk(&|t| {
            quic(t);
            t.plans.iter_mut().for_each(|plan| plan.classes[0].filters_retransmissions = false);
            t.plans[1].groups[0].delivery = Delivery::Reliable;
        }),
        "plans is [[(1, Quic, Datagram)], [(1, Quic, Reliable)]]",
    );
    refused(
        trunk(&|t| {
            quic(t);
            t.plans.iter_mut().for_each(|plan| plan.groups[0].delivery = Delivery::Reliable);
            t.plans.iter_mut().for_each(|plan| plan.groups[0].compression = Compression::On);
        }),
        "plans[0].classes[0].group is 0",
    );
}

#[test]
fn proxies_are_checked() {
    let (_, [a, ..]) = nodes();
    let proxy = |behind: &[NodeId], mode| ProxySettings { behind: behind.to_vec(), mode }.check();
    refused(proxy(&[], ProxyMode::ClampWindow(1)), "behind is []");
    refused(proxy(&[a], ProxyMode::ClampWindow(0)), "mode.window is 0");
    refused(proxy(&[a], ProxyMode::Freeze { after: Duration::ZERO }), "mode.after is 0ns");
    refused(proxy(&[a], ProxyMode::RegulateAcks { room: 0 }), "mode.room is 0");
    let ends = both(Preset::Linux6.settings());
    refused(proxy(&[a], ProxyMode::PathTail(ends, Vec::new())), "mode.cells is 0");
}

#[test]
#[should_panic(expected = "link between b and a: mtu is 67; allowed: 68 to 65535 bytes")]
fn a_builder_panics_with_what_is_wrong() {
    let (mut network, [a, b, _]) = nodes();
    let good = LinkSettings::new(Rate::from_mbit(10.0), Duration::from_millis(10));
    network.connect(a, b, &good, &LinkSettings { mtu: 67, ..good.clone() });
}

#[test]
#[should_panic(expected = "60000 connections between a and b, to port 80; allowed: up to 50000")]
fn there_are_not_more_connections_than_ports() {
    let (mut network, [a, b, _]) = nodes();
    network.tcp(tcp([a, b], Pattern::surge(30_000)));
    network.tcp(TcpTraffic { port: 81, ..tcp([a, b], Pattern::surge(30_000)) });
    network.tcp(tcp([a, b], Pattern::surge(30_000)));
}

#[test]
fn what_has_no_way_is_found_before_the_run() {
    let (mut network, [a, b, c]) = nodes();
    let link = LinkSettings::new(Rate::from_mbit(10.0), Duration::from_millis(10));
    network.link(a, b, &link);
    network.udp(UdpTraffic {
        from: a,
        to: b,
        port: 9,
        dscp: 0,
        data: 100,
        start: Duration::ZERO,
        stop: None,
        timing: Timing::Constant(Rate::from_mbit(1.0)),
    });
    assert_eq!(network.check(), Ok(()));
    network.tcp(tcp([a, b], Pattern::surge(1)));
    refused(network.check(), "source 1: node 1 (10.0.1.1) has no way to where it sends");
    network.link(b, a, &link);
    assert_eq!(network.check(), Ok(()));
    network.tcp(tcp([a, c], Pattern::surge(1)));
    refused(network.check(), "source 2: node 0 (10.0.0.1) has no way");
}
