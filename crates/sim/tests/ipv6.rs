//! IPv6: lengths of packets, path MTU discovery, errors, marks, trunks, proxies, captures.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_packet::{Headers, checksum, pcap, protocol};
use trunkline_queue::{CoDelSettings, FqCoDelSettings, Limits, RedSettings, Settings as QueueSettings};
use trunkline_sim::{
    CapturePoint, Dumbbell, LinkId, Network, NodeId, ProxyMode, ProxySettings, SourceId, TcpTraffic,
    TrunkSettings, UdpTraffic, Version, both,
};
use trunkline_tcp::{Preset, Settings};
use trunkline_trunk::compress::Compression;
use trunkline_trunk::{ClassSettings, Delivery, LaneGroup, Transport, TrunkPlan};
use trunkline_units::{Instant, Rate};
use trunkline_workload::{Distribution, Pattern, Timing, TransferState};

use crate::shared::Shared;

const VERSIONS: [Version; 2] = [Version::V4, Version::V6];

fn link(mtu: u32) -> LinkSettings {
    LinkSettings { mtu, ..LinkSettings::new(Rate::from_mbit(10.0), Duration::from_millis(5)) }
}

fn linux() -> Settings {
    Preset::Linux6.settings()
}

fn bulk([client, server]: [NodeId; 2], tcp: Settings, bytes: u64) -> TcpTraffic {
    TcpTraffic {
        client,
        server,
        port: 80,
        dscp: 0,
        tcp: both(tcp),
        start: Duration::ZERO,
        stop: None,
        pattern: Pattern::Bulk { flows: 1, bytes: Some(bytes), stagger: Distribution::Fixed(0.0) },
    }
}

fn datagrams([from, to]: [NodeId; 2], data: u32) -> UdpTraffic {
    let timing = Timing::Constant(Rate::from_mbit(1.0));
    UdpTraffic { from, to, port: 9, dscp: 0, data, timing, start: Duration::ZERO, stop: None }
}

/// A client, a router, a narrower link, a router and a server behind a wide link.
struct Narrow {
    network: Network,
    ends: [NodeId; 2],
    router: NodeId,
    there: LinkId,
}

fn narrow(mtu: u32) -> Narrow {
    let mut network = Network::new(1);
    let client = network.host("client");
    let routers = [network.router("r1"), network.router("r2")];
    let server = network.host("server");
    network.connect(client, routers[0], &link(1500), &link(1500));
    let [there, _] = network.connect(routers[0], routers[1], &link(mtu), &link(mtu));
    network.connect(routers[1], server, &link(1500), &link(1500));
    network.set_version(Version::V6);
    Narrow { network, ends: [client, server], router: routers[0], there }
}

fn completed(network: &Network, source: SourceId) -> bool {
    network.transfers(source).iter().all(|transfer| transfer.state == TransferState::Completed)
}

/// 1500 bytes hold 1448 of data over IPv4 and 1428 over IPv6.
#[test]
fn packets_are_as_long_as_over_ipv4_and_carry_20_bytes_less() {
    let [ipv4, ipv6] = VERSIONS.map(|version| {
        let mut dumbbell = Dumbbell::new(1, 1, &link(1500));
        dumbbell.network.set_version(version);
        let source = dumbbell.bulk(0, 1, &Arc::new(linux()), Default::default());
        dumbbell.network.run_until(Instant::from_millis(2000));
        let before = dumbbell.received(source);
        dumbbell.network.run_until(Instant::from_millis(12_000));
        (dumbbell.received(source) - before) as f64 * 8.0 / 10.0
    });
    for (goodput, data) in [(ipv4, 1448.0), (ipv6, 1428.0)] {
        let expected = 10e6 * data / 1500.0;
        assert!((goodput / expected - 1.0).abs() < 1e-3, "{goodput} instead of {expected}");
    }
}

#[test]
fn a_host_offers_segments_that_fit_its_own_link() {
    for (mtu, mss) in [(1500, 1440), (1280, 1220), (9000, 1460)] {
        let mut network = Network::new(1);
        let ends = [network.host("a"), network.host("b")];
        let [there, _] = network.connect(ends[0], ends[1], &link(mtu), &link(mtu));
        network.set_version(Version::V6);
        let source = network.tcp(bulk(ends, linux(), 100_000));
        network.run_for(Duration::from_millis(100));
        let sender = network.sender(source, 0).expect("it goes on");
        assert_eq!(sender.mss() + 12, mss);
        assert_eq!(network.link_state(there).stats().too_big, 0);
    }
}

#[test]
fn routers_do_not_fragment_and_the_sender_heeds_what_they_say() {
    let mut path = narrow(1300);
    // Of a TCP that does not discover the MTU over IPv4.
    let first = path.network.tcp(bulk(path.ends, linux(), 200_000));
    path.network.run_for(Duration::from_secs(3));
    let stats = *path.network.link_state(path.there).stats();
    assert_eq!((stats.too_big, stats.fragmented), (10, 0), "the initial window, and nothing after it");
    assert_eq!(path.network.node_stats(path.router).errors_reported, 10);
    assert!(completed(&path.network, first));
    // Ten segments of 1428 bytes as 1228 and 200, and no timeout.
    assert_eq!(path.network.retransmissions_by(first, 0), 20);
    let second = path.network.tcp(bulk(path.ends, linux(), 200_000));
    path.network.run_for(Duration::from_secs(3));
    let stats = *path.network.link_state(path.there).stats();
    assert!(completed(&path.network, second));
    assert_eq!((stats.too_big, stats.fragmented), (10, 0), "the next connection knows");
    assert_eq!(path.network.retransmissions_by(second, 0), 0);
}

#[test]
fn what_is_known_of_an_ipv6_path_is_not_said_of_the_ipv4_path() {
    let mut path = narrow(1300);
    let ipv6 = path.network.tcp(bulk(path.ends, linux(), 50_000));
    path.network.run_for(Duration::from_secs(2));
    assert!(completed(&path.network, ipv6));
    path.network.set_version(Version::V4);
    let discovers = Settings { path_mtu_discovery: true, ..linux() };
    let ipv4 = path.network.tcp(bulk(path.ends, discovers, 50_000));
    path.network.run_for(Duration::from_secs(2));
    assert!(completed(&path.network, ipv4));
    assert_eq!(path.network.retransmissions_by(ipv4, 0), 20, "it finds out by itself");
}

#[test]
fn a_datagram_that_is_too_long_is_lost_and_reported() {
    let mut path = narrow(1300);
    let source = path.network.udp(datagrams(path.ends, 1400));
    path.network.run_for(Duration::from_secs(1));
    let stats = *path.network.link_state(path.there).stats();
    assert!(stats.too_big > 80 && stats.fragmented == 0, "{stats:?}");
    assert_eq!(path.network.node_stats(path.router).errors_reported, stats.too_big);
    assert_eq!(path.network.datagrams(source).map(|flow| flow.received), Some(0));
}

#[test]
fn datagrams_have_40_bytes_of_ip_in_their_rate() {
    let mut path = narrow(1500);
    let source = path.network.udp(datagrams(path.ends, 1202));
    path.network.run_for(Duration::from_secs(10));
    let flow = path.network.datagrams(source).expect("datagrams");
    assert_eq!((flow.sent, flow.sent_bytes), (1001, 1_251_250), "1 Mbit/s of 1250 bytes");
    assert_eq!(flow.received_data(), flow.received * 1202);
}

#[test]
fn too_many_hops_and_no_route_are_reported_as_over_ipv4() {
    let mut network = Network::new(1);
    let ends = [network.host("client"), network.host("server")];
    let mut last = ends[0];
    for number in 0..70 {
        let router = network.router(&format!("r{number}"));
        network.connect(last, router, &link(1500), &link(1500));
        last = router;
    }
    network.connect(last, ends[1], &link(1500), &link(1500));
    network.set_version(Version::V6);
    let far = network.tcp(bulk(ends, linux(), 1000));
    network.run_for(Duration::from_secs(5));
    assert_eq!(network.transfers(far)[0].state, TransferState::Failed);

    let mut network = Network::new(1);
    let (client, router, server) = (network.host("client"), network.router("r"), network.host("server"));
    let [up, _] = network.connect(client, router, &link(1500), &link(1500));
    network.set_version(Version::V6);
    let lost = network.tcp(bulk([client, server], linux(), 1000));
    network.route(server, up);
    network.run_for(Duration::from_secs(1));
    assert_eq!(network.transfers(lost)[0].state, TransferState::Failed);
    let stats = network.node_stats(router);
    assert_eq!((stats.unreachable, stats.errors_reported), (1, 1));
}

#[test]
fn links_that_ipv6_may_not_have_are_refused() {
    let mut path = narrow(1279);
    path.network.tcp(bulk(path.ends, linux(), 1000));
    let error = path.network.check().expect_err("too narrow");
    assert_eq!(
        error.to_string(),
        "link 2.mtu is 1279; allowed: 1280 or more bytes where something sends IPv6 (RFC 8200 §5)"
    );
}

/// Both flows' packets are marked, and none is dropped, by disciplines that see ECN and flows.
#[test]
fn queues_mark_packets_of_ipv6_and_keep_flows_apart() {
    let limits = Limits { segments: 1000, bytes: u64::MAX };
    let red = RedSettings { ecn: true, limits, ..RedSettings::default() };
    let codel = CoDelSettings { ecn: true, limits, ..CoDelSettings::default() };
    let fair = FqCoDelSettings { codel, ..FqCoDelSettings::default() };
    for queue in [QueueSettings::Red(red), QueueSettings::FqCoDel(fair)] {
        let mut dumbbell = Dumbbell::new(1, 2, &link(1500).queue(queue));
        dumbbell.network.set_version(Version::V6);
        let tcp = Arc::new(Settings { ecn: true, ..linux() });
        let sources = [0, 1].map(|pair| dumbbell.bulk(pair, 1, &tcp, Default::default()));
        dumbbell.network.run_for(Duration::from_secs(20));
        let queue = dumbbell.network.link_state(dumbbell.bottleneck[0]).queue();
        assert!(queue.marked.iter().sum::<u64>() > 10, "{queue:?}");
        assert_eq!(queue.dropped.iter().sum::<u64>(), 0, "{queue:?}");
        let retransmissions = sources.map(|source| dumbbell.network.retransmissions_by(source, 0));
        assert_eq!(retransmissions, [0, 0]);
    }
}

/// The same transfers through a trunk whose lanes are over one version, with packets of the other and of the same.
#[test]
fn a_trunk_over_either_version_carries_packets_of_both() {
    for (lanes, transport, compression) in [
        (Version::V4, Transport::Tcp, Compression::On),
        (Version::V6, Transport::Tcp, Compression::On),
        (Version::V6, Transport::Quic, Compression::Off),
    ] {
        let mut network = Network::new(3);
        let hosts = [network.host("a"), network.host("b")];
        let gateways = [network.gateway("left"), network.gateway("right")];
        network.connect(hosts[0], gateways[0], &link(1500), &link(1500));
        let [core, back] = network.connect(gateways[0], gateways[1], &link(1500), &link(1500));
        network.connect(gateways[1], hosts[1], &link(1500), &link(1500));
        let file = Shared::default();
        network.capture(core, CapturePoint::Sent, Box::new(file.clone())).expect("memory");
        let queue = QueueSettings::TailDrop(Limits { segments: 200, bytes: u64::MAX });
        let delivery = if transport == Transport::Quic { Delivery::Datagram } else { Delivery::Reliable };
        let filters_retransmissions = delivery == Delivery::Reliable;
        let class =
            ClassSettings { filters_retransmissions, ..ClassSettings::new("all", Vec::new(), queue, 0) };
        let mut plan = TrunkPlan::one_lane_per_class(vec![class]);
        plan.groups = vec![LaneGroup { transport, delivery, compression, ..plan.groups[0].clone() }];
        network.set_version(lanes);
        let trunk =
            network.trunk(gateways, TrunkSettings::new([vec![hosts[0]], vec![hosts[1]]], plan, linux()));
        let transfers = VERSIONS.map(|version| {
            network.set_version(version);
            network.tcp(bulk(hosts, Settings { ecn: true, ..linux() }, 1_000_000))
        });
        let voice = VERSIONS.map(|version| {
            network.set_version(version);
            network.udp(datagrams([hosts[1], hosts[0]], 160))
        });
        network.run_for(Duration::from_secs(10));
        let all = transfers.iter().all(|source| completed(&network, *source));
        assert!(all, "{lanes:?} {transport:?} {:?}", transfers.map(|source| network.transfers(source)));
        for flow in voice.map(|source| network.datagrams(source).expect("datagrams").clone()) {
            assert!(flow.received + 100 > flow.sent && flow.received <= flow.sent, "{flow:?}");
        }
        let report = network.trunk_report(trunk, 1);
        let refused = [report.receiver.malformed, report.receiver.forged_source];
        assert_eq!(refused, [0, 0], "{report:?}");
        assert_eq!(network.link_state(core).stats().too_big, 0);
        assert_eq!(network.link_state(back).stats().fragmented, 0);
        if compression == Compression::On {
            let compressed = network.trunk_report(trunk, 0).lanes[0].compression;
            assert!(compressed.compressed > compressed.whole.iter().sum::<u64>() * 10, "{compressed:?}");
        }
        network.finish_captures().expect("memory");
        let bytes = file.bytes();
        let versions = pcap::Reader::new(&bytes).expect("a capture").map(|record| {
            let record = record.expect("whole");
            Headers::parse(record.bytes, record.packet_len as usize).expect("headers").version
        });
        assert!(versions.into_iter().all(|version| version == lanes), "only lanes are on the core");
    }
}

#[test]
fn proxies_treat_connections_over_ipv6_as_they_treat_others() {
    let all = both(linux());
    for mode in [
        ProxyMode::Split(all.clone()),
        ProxyMode::ClampWindow(10_000),
        ProxyMode::Freeze { after: Duration::from_millis(500) },
        ProxyMode::RegulateAcks { room: 20 },
    ] {
        let [ipv4, ipv6] = VERSIONS.map(|version| {
            let mut network = Network::new(2);
            let (sender, mobile) = (network.host("sender"), network.host("mobile"));
            let settings = ProxySettings { behind: vec![mobile], mode: mode.clone() };
            let (node, proxy) = network.proxy("proxy", settings);
            network.connect(sender, node, &link(1500), &link(1500));
            let narrow = LinkSettings::new(Rate::from_mbit(1.0), Duration::from_millis(40));
            network.connect(node, mobile, &LinkSettings { mtu: 1400, ..narrow.clone() }, &narrow);
            network.set_version(version);
            let source = network.tcp(bulk([sender, mobile], linux(), 300_000));
            network.run_for(Duration::from_secs(30));
            assert!(completed(&network, source), "{mode:?} {version:?}");
            *network.proxy_stats(proxy)
        });
        assert_eq!((ipv4.flows, ipv6.flows), (1, 1));
        assert_eq!(ipv4.clamped > 0, ipv6.clamped > 0, "{mode:?}");
        assert_eq!(ipv4.held > 0, ipv6.held > 0, "{mode:?}");
    }
}

#[test]
fn a_capture_has_the_checksums_of_ipv6() {
    let mut path = narrow(1300);
    let file = Shared::default();
    path.network.capture(path.there, CapturePoint::Received, Box::new(file.clone())).expect("memory");
    path.network.tcp(bulk(path.ends, linux(), 100_000));
    path.network.udp(datagrams(path.ends, 300));
    path.network.run_for(Duration::from_secs(2));
    path.network.finish_captures().expect("memory");
    let bytes = file.bytes();
    let mut kinds = [0; 2];
    for record in pcap::Reader::new(&bytes).expect("a capture") {
        let record = record.expect("whole");
        let headers = Headers::parse(record.bytes, record.packet_len as usize).expect("headers");
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (headers.source, headers.destination) else {
            panic!("{headers:?}")
        };
        let length = record.packet_len - 40;
        let pseudo_header =
            checksum::pseudo_header(source.into(), destination.into(), headers.protocol, length);
        assert_eq!(checksum::fold(pseudo_header + checksum::sum(&record.bytes[40..])), 0xffff);
        kinds[usize::from(headers.protocol == protocol::UDP)] += 1;
    }
    assert!(kinds.iter().all(|count| *count > 80), "{kinds:?}");
}
