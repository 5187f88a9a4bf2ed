//! Networks that are hard to get right: paths that lose, duplicate and reorder at once, tiny packets, trunks within trunks,
//! more connections than ports, parts that are added late.

use std::time::Duration;

use trunkline_link::{Impairments, Jitter, LinkChange, LinkSettings, Loss};
use trunkline_queue::{Limits, RedSettings, Settings as QueueSettings};
use trunkline_sim::{Network, NodeId, TcpTraffic, TrunkSettings, UdpTraffic};
use trunkline_tcp::{Preset, Settings};
use trunkline_trunk::compress::Compression;
use trunkline_trunk::{ClassSettings, LaneGroup, Transport, TrunkPlan};
use trunkline_units::{Instant, Rate};
use trunkline_workload::{Distribution, Pattern, Timing, TransferState};

fn mbit(rate: f64, delay_ms: u64) -> LinkSettings {
    LinkSettings::new(Rate::from_mbit(rate), Duration::from_millis(delay_ms))
}

fn linux() -> Settings {
    Preset::Linux6.settings()
}

fn compressing(mut settings: TrunkSettings) -> TrunkSettings {
    for group in settings.plans.iter_mut().flat_map(|plan| &mut plan.groups) {
        group.compression =
            if group.transport == Transport::Tcp { Compression::On } else { Compression::Off };
    }
    settings
}

fn lane_each(filters_retransmissions: bool) -> TrunkPlan {
    let queue = QueueSettings::TailDrop(Limits { segments: 200, bytes: u64::MAX });
    let class = ClassSettings { filters_retransmissions, ..ClassSettings::new("all", Vec::new(), queue, 0) };
    TrunkPlan::one_lane_per_class(vec![class])
}

fn datagrams(from: NodeId, to: NodeId, rate: f64, stop: u64) -> UdpTraffic {
    let (start, stop) = (Duration::from_millis(500), Some(Duration::from_secs(stop)));
    let timing = Timing::Constant(Rate::from_mbit(rate));
    UdpTraffic { from, to, port: 9, dscp: 0, data: 500, start, stop, timing }
}

fn bulk(client: NodeId, server: NodeId, bytes: u64) -> TcpTraffic {
    TcpTraffic {
        client,
        server,
        port: 80,
        dscp: 0,
        tcp: trunkline_sim::both(linux()),
        start: Duration::from_millis(500),
        stop: None,
        pattern: Pattern::Bulk { flows: 2, bytes: Some(bytes), stagger: Distribution::Fixed(0.0) },
    }
}

fn over_datagrams(sites: [Vec<NodeId>; 2]) -> TrunkSettings {
    let mut plan = lane_each(false);
    plan.groups.iter_mut().for_each(|group| group.transport = Transport::Quic);
    TrunkSettings::new(sites, plan, linux())
}

#[test]
fn a_lane_of_datagrams_delivers_each_packet_once_over_a_path_that_duplicates_and_reorders() {
    let mut network = Network::new(3);
    let hosts = [network.host("a"), network.host("b")];
    let gateways = [network.gateway("left"), network.gateway("right")];
    let jitter = Jitter::Uniform { max: Duration::from_millis(3), reorders: true };
    let impairments = Impairments { loss: Loss::Uniform(0.01), corruption: 0.001, duplication: 0.05, jitter };
    let path = LinkSettings { impairments, ..mbit(10.0, 10) };
    for side in 0..2 {
        network.connect(hosts[side], gateways[side], &mbit(100.0, 0), &mbit(100.0, 0));
    }
    network.connect(gateways[0], gateways[1], &path, &path);
    let trunk = network.trunk(gateways, over_datagrams([vec![hosts[0]], vec![hosts[1]]]));
    let flow = network.udp(datagrams(hosts[0], hosts[1], 2.0, 60));
    network.run_for(Duration::from_secs(65));
    let flow = network.datagrams(flow).expect("a flow of datagrams").clone();
    let [near, far] = [0, 1].map(|side| network.trunk_report(trunk, side));
    let dropped = near.classes[0].queue.dropped_total();
    let frames = near.lanes[0].frames;
    let (near, far) = (near.lanes[0].quic.expect("one"), far.lanes[0].quic.expect("one"));
    assert_eq!((frames, flow.duplicated), (flow.sent - dropped, 0), "each is passed on once at most");
    let missing = 1.0 - flow.received as f64 / frames as f64;
    assert!((0.008..0.015).contains(&missing), "{missing} of the datagrams missing");
    let duplicated = far.doubled as f64 / far.received as f64;
    assert!((0.035..0.065).contains(&duplicated), "{duplicated} of the datagrams duplicated");
    // Those that are lost are found, and with them some that only took three milliseconds more than others, both ways.
    let truly = near.sent + far.doubled - far.received;
    assert!((1..=near.lost / 2).contains(&near.late), "{near:?}");
    assert!((near.lost - near.late).abs_diff(truly) <= 5, "{near:?}, {truly} are missing");
}

#[test]
fn what_is_added_late_begins_at_once_and_time_does_not_run_back() {
    let mut network = Network::new(1);
    let (a, b) = (network.host("a"), network.host("b"));
    network.connect(a, b, &mbit(10.0, 1), &mbit(10.0, 1));
    network.run_until(Instant::from_millis(2000));
    let flow = network.udp(datagrams(a, b, 1.0, 3));
    let c = network.host("c");
    let changes = vec![(Duration::from_secs(1), LinkChange::Rate(Rate::from_mbit(1.0)))];
    let changing = LinkSettings { changes, repeat: Some(Duration::from_secs(3)), ..mbit(10.0, 1) };
    let [there, _] = network.connect(a, c, &changing, &mbit(10.0, 1));
    network.run_until(Instant::from_millis(5000));
    let sent = network.datagrams(flow).expect("a flow of datagrams").sent;
    // One second at 528 bytes each.
    assert!((236..=238).contains(&sent), "{sent}");
    assert_eq!(network.link_state(there).rate(), Rate::from_mbit(1.0));
}

#[test]
fn a_link_is_never_busier_than_time_has_passed() {
    let mut network = Network::new(1);
    let (a, b) = (network.host("a"), network.host("b"));
    let slow = LinkSettings::new(Rate::from_bits_per_second(1000), Duration::from_secs(10));
    let [there, _] = network.connect(a, b, &slow, &slow);
    let flow = network.udp(datagrams(a, b, 0.01, 100));
    network.run_until(Instant::from_millis(30_000));
    // 4.224 s a packet, from 0.5 s on.
    assert_eq!(network.link_state(there).busy_time(network.now()), Duration::from_millis(29_500));
    assert_eq!(network.datagrams(flow).expect("a flow of datagrams").received, 4);
}

#[test]
fn only_packets_from_one_site_to_the_other_go_into_the_trunk() {
    let mut network = Network::new(1);
    let hosts = [network.host("a"), network.host("b")];
    let stranger = network.host("c");
    let gateways = [network.gateway("left"), network.gateway("right")];
    for (host, gateway) in [(hosts[0], 0), (stranger, 0), (hosts[1], 1)] {
        network.connect(host, gateways[gateway], &mbit(100.0, 0), &mbit(100.0, 0));
    }
    network.connect(gateways[0], gateways[1], &mbit(10.0, 10), &mbit(10.0, 10));
    let settings = TrunkSettings::new([vec![hosts[0]], vec![hosts[1]]], lane_each(true), linux());
    let trunk = network.trunk(gateways, settings);
    let inside = network.udp(datagrams(hosts[0], hosts[1], 1.0, 10));
    let beside = network.udp(UdpTraffic { port: 10, ..datagrams(stranger, hosts[1], 1.0, 10) });
    let out = network.udp(UdpTraffic { port: 11, ..datagrams(hosts[1], stranger, 1.0, 10) });
    network.run_for(Duration::from_secs(12));
    for flow in [inside, beside, out] {
        let flow = network.datagrams(flow).expect("a flow of datagrams");
        assert_eq!(flow.received, flow.sent);
    }
    let inside = network.datagrams(inside).expect("a flow of datagrams").sent;
    assert_eq!(network.trunk_report(trunk, 0).lanes[0].frames, inside);
    assert_eq!(network.trunk_report(trunk, 1).lanes[0].frames, 0);
}

/// hosts - inner gateways - outer gateways - a link in the middle, of this MTU.
fn nested(inner_datagrams: bool, mtu: u32) {
    let mut network = Network::new(5);
    let hosts = [network.host("a"), network.host("b")];
    let inner = [network.gateway("inner left"), network.gateway("inner right")];
    let outer = [network.gateway("outer left"), network.gateway("outer right")];
    for side in 0..2 {
        network.connect(hosts[side], inner[side], &mbit(100.0, 0), &mbit(100.0, 0));
        network.connect(inner[side], outer[side], &mbit(100.0, 0), &mbit(100.0, 0));
    }
    let middle = LinkSettings { mtu, ..mbit(10.0, 10) };
    let link = network.connect(outer[0], outer[1], &middle, &middle)[0];
    let sites = [vec![hosts[0]], vec![hosts[1]]];
    let within = if inner_datagrams {
        over_datagrams(sites)
    } else {
        TrunkSettings::new(sites, lane_each(true), linux())
    };
    let within = network.trunk(inner, compressing(within));
    let around = TrunkSettings {
        sealed: true,
        ..TrunkSettings::new([vec![inner[0]], vec![inner[1]]], lane_each(true), linux())
    };
    let around = network.trunk(outer, compressing(around));
    let (there, back) =
        (network.tcp(bulk(hosts[0], hosts[1], 200_000)), network.tcp(bulk(hosts[1], hosts[0], 200_000)));
    let flow = network.udp(datagrams(hosts[0], hosts[1], 0.1, 20));
    network.run_for(Duration::from_secs(60));
    for transfer in network.transfers(there).iter().chain(&network.transfers(back)) {
        assert_eq!((transfer.state, transfer.bytes), (TransferState::Completed, 200_000));
    }
    let flow = network.datagrams(flow).expect("a flow of datagrams");
    assert!(flow.received * 100 >= flow.sent * 95 && flow.received <= flow.sent, "{flow:?}");
    for side in 0..2 {
        assert_eq!(network.trunk_report(within, side).receiver.malformed, 0);
        assert_eq!(network.trunk_report(around, side).receiver.malformed, 0);
        assert!(network.trunk_report(around, side).lanes[0].frames > 200);
    }
    let fragmented = network.link_state(link).stats().fragmented;
    assert_eq!(fragmented > 0, mtu < 1500, "{fragmented} packets cut");
}

#[test]
fn a_trunk_goes_through_a_trunk() {
    nested(false, 1500);
    nested(true, 1500);
}

#[test]
fn a_trunk_goes_over_a_link_with_the_smallest_mtu() {
    nested(false, 68);
    nested(true, 68);
}

#[test]
fn a_trunk_of_32_lanes_carries_traffic_both_ways_and_two_trunks_share_a_gateway() {
    let mut network = Network::new(7);
    let hub = network.gateway("hub");
    let home = network.host("home");
    network.connect(home, hub, &mbit(1000.0, 0), &mbit(1000.0, 0));
    let mut sources = Vec::new();
    for site in 0..2 {
        let (gateway, host) = (network.gateway("spoke"), network.host("host"));
        network.connect(hub, gateway, &mbit(20.0, 5), &mbit(20.0, 5));
        network.connect(gateway, host, &mbit(1000.0, 0), &mbit(1000.0, 0));
        let mut plan = lane_each(true);
        plan.groups = vec![LaneGroup::new("all", if site == 0 { 32 } else { 1 })];
        network.trunk([hub, gateway], TrunkSettings::new([vec![home], vec![host]], plan, linux()));
        let flows = Pattern::Bulk { flows: 40, bytes: Some(100_000), stagger: Distribution::Fixed(0.01) };
        sources.push(network.tcp(TcpTraffic { pattern: flows.clone(), ..bulk(home, host, 0) }));
        sources.push(network.tcp(TcpTraffic { pattern: flows, ..bulk(host, home, 0) }));
    }
    network.run_for(Duration::from_secs(30));
    for source in sources {
        let transfers = network.transfers(source);
        assert!(transfers.iter().all(|t| t.state == TransferState::Completed && t.bytes == 100_000));
    }
}

fn web(client: NodeId, server: NodeId, users: u32, pause: f64) -> TcpTraffic {
    let pattern = Pattern::Web {
        users,
        request: 100,
        response: Distribution::Fixed(500.0),
        objects: Distribution::Fixed(1.0),
        gap: Distribution::Fixed(pause),
        think: Distribution::Uniform(0.0, 2.0 * pause),
    };
    TcpTraffic { pattern, ..bulk(client, server, 0) }
}

/// 1200 connections a second, each remembered for a minute: more than there are ports.
#[test]
fn ports_of_connections_that_are_only_remembered_are_used_again() {
    let mut network = Network::new(1);
    let (a, b) = (network.host("a"), network.host("b"));
    network.connect(a, b, &mbit(1000.0, 1), &mbit(1000.0, 1));
    let source = network.tcp(web(a, b, 1200, 1.0));
    network.run_for(Duration::from_secs(70));
    let transfers = network.transfers(source);
    assert!(transfers.len() > 65_000, "{}", transfers.len());
    assert!(transfers.iter().all(|transfer| transfer.state != TransferState::Failed));
}

#[test]
fn nothing_gathers_where_every_packet_is_lost_or_a_third_is() {
    for (all, loss, max, min) in [(true, 1.0, 2 * 300, 900), (false, 0.3, 8 * 300, 3000)] {
        let mut network = Network::new(1);
        let (a, b) = (network.host("a"), network.host("b"));
        let link = mbit(10.0, 20).loss(Loss::Uniform(loss));
        network.connect(a, b, &link, &link);
        let source = network.tcp(web(a, b, 300, 20.0));
        let mut worst = 0;
        for _ in 0..60 {
            network.run_for(Duration::from_secs(60));
            worst = worst.max(network.live_endpoints());
        }
        assert!(worst <= max, "{worst} ends at {loss}");
        let transfers = network.transfers(source);
        let failed = transfers.iter().filter(|t| t.state == TransferState::Failed).count();
        assert!(if all { failed + 300 >= transfers.len() } else { failed < transfers.len() / 2 });
        assert!(transfers.len() >= min, "{}", transfers.len());
    }
}

#[test]
fn what_the_sender_of_a_transfer_that_failed_did_is_kept() {
    let mut network = Network::new(1);
    let (a, b) = (network.host("a"), network.host("b"));
    let dead = Impairments { loss: Loss::Uniform(1.0), ..Impairments::default() };
    let changes = vec![(Duration::from_secs(2), LinkChange::Impairments(dead))];
    let link = LinkSettings { changes, ..mbit(1.0, 10) };
    network.connect(a, b, &link, &link);
    let mut tcp = linux();
    tcp.timers.max_retransmissions = 4;
    let source = network.tcp(TcpTraffic { tcp: trunkline_sim::both(tcp), ..bulk(a, b, 1_000_000_000) });
    network.run_for(Duration::from_secs(60));
    for transfer in network.transfers(source) {
        assert_eq!(transfer.state, TransferState::Failed);
        assert!((4..=6).contains(&transfer.sender.timeouts), "{transfer:?}");
        assert!(transfer.sender.segments_sent > transfer.receiver.segments_received);
    }
}

/// Two hosts and two gateways in a row; the path between the gateways has 10 Mbit/s.
fn row(network: &mut Network) -> ([NodeId; 2], [NodeId; 2]) {
    let hosts = [network.host("a"), network.host("b")];
    let gateways = [network.gateway("left"), network.gateway("right")];
    for side in 0..2 {
        network.connect(hosts[side], gateways[side], &mbit(100.0, 0), &mbit(100.0, 0));
    }
    network.connect(gateways[0], gateways[1], &mbit(10.0, 10), &mbit(10.0, 10));
    (hosts, gateways)
}

#[test]
fn a_trunk_draws_its_own_numbers_wherever_it_is_added() {
    let limits = Limits { segments: 500, bytes: u64::MAX };
    let red = RedSettings { limits, min: 10_000, max: 100_000, ..RedSettings::default() };
    let class = ClassSettings::new("all", Vec::new(), QueueSettings::Red(red), 0);
    let plan = TrunkPlan::one_lane_per_class(vec![class]);
    // Of each of two trunks that have the same to carry, what arrived; the sources draw nothing.
    let run = |skipped: bool, more: bool| {
        let mut network = Network::new(1);
        let rows = [row(&mut network), row(&mut network)];
        let flows = rows.map(|(hosts, _)| network.udp(datagrams(hosts[0], hosts[1], 14.0, 20)));
        if more {
            let [(hosts, _), _] = rows;
            let late = UdpTraffic {
                port: 10,
                start: Duration::from_secs(50),
                ..datagrams(hosts[0], hosts[1], 1.0, 60)
            };
            network.udp(late);
        }
        for (number, (hosts, gateways)) in rows.into_iter().enumerate() {
            if number == 0 && skipped {
                network.skip_trunk();
                continue;
            }
            let sites = hosts.map(|host| vec![host]);
            network.trunk(gateways, TrunkSettings::new(sites, plan.clone(), linux()));
        }
        network.run_for(Duration::from_secs(25));
        flows.map(|flow| network.datagrams(flow).expect("a flow of datagrams").clone())
    };
    let [first, second] = run(false, false);
    assert!(first.received < first.sent * 9 / 10 && first.received > first.sent / 2, "{first:?}");
    assert_ne!((first.received, first.delay_sum), (second.received, second.delay_sum));
    let [_, alone] = run(true, false);
    assert_eq!(alone, second, "whether there is a trunk before it");
    assert_eq!(run(false, true), [first, second], "and another source");
}

#[test]
fn a_source_draws_the_same_numbers_whether_the_one_before_it_is_there_or_not() {
    let run = |first: bool, skipped: bool| {
        let mut network = Network::new(1);
        let rows = [row(&mut network), row(&mut network)];
        let flows = rows.map(|(hosts, _)| UdpTraffic {
            timing: Timing::Poisson(Rate::from_mbit(5.0)),
            ..datagrams(hosts[0], hosts[1], 5.0, 5)
        });
        let [one, other] = flows;
        if first {
            network.udp(one);
        } else if skipped {
            network.skip_source();
        }
        let flow = network.udp(other);
        network.run_for(Duration::from_secs(6));
        network.datagrams(flow).expect("a flow of datagrams").clone()
    };
    assert_eq!(run(true, false), run(false, true));
    assert_ne!(run(true, false), run(false, false), "each has its own");
}
