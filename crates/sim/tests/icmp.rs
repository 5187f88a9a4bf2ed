//! What routers say of packets that they cannot pass on, and what TCP makes of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_sim::{LinkId, Network, NodeId, SourceId, TcpTraffic, UdpTraffic, both};
use trunkline_tcp::{Preset, Settings};
use trunkline_testbed::clock::Scheduling;
use trunkline_testbed::network::{LinkBetween, NetworkSettings, NodeSettings};
use trunkline_testbed::privilege;
use trunkline_testbed::traffic::{BulkSettings, Stop, TcpSink, bulk};
use trunkline_units::Rate;
use trunkline_workload::{Distribution, Pattern, Timing, TransferState};

fn link(mtu: u32) -> LinkSettings {
    LinkSettings { mtu, ..LinkSettings::new(Rate::from_mbit(10.0), Duration::from_millis(5)) }
}

/// A client, a router, a link of 1000 bytes and a server.
struct Narrow {
    network: Network,
    client: NodeId,
    router: NodeId,
    server: NodeId,
    there: LinkId,
}

fn narrow() -> Narrow {
    let mut network = Network::new(1);
    let (client, router, server) = (network.host("client"), network.router("r"), network.host("server"));
    network.connect(client, router, &link(1500), &link(1500));
    let [there, _] = network.connect(router, server, &link(1000), &link(1000));
    Narrow { network, client, router, server, there }
}

fn discovers() -> Settings {
    Settings { path_mtu_discovery: true, ..Preset::Linux6.settings() }
}

fn transfer(narrow: &mut Narrow, settings: Settings, start: u64) -> SourceId {
    narrow.network.tcp(TcpTraffic {
        client: narrow.client,
        server: narrow.server,
        port: 80,
        dscp: 0,
        tcp: both(settings),
        start: Duration::from_millis(start),
        stop: None,
        pattern: Pattern::Bulk { flows: 1, bytes: Some(200_000), stagger: Distribution::Fixed(0.0) },
    })
}

#[test]
fn a_sender_learns_how_long_packets_may_be_and_later_connections_know_it() {
    let mut path = narrow();
    let first = transfer(&mut path, discovers(), 0);
    let second = transfer(&mut path, discovers(), 2000);
    path.network.run_for(Duration::from_secs(2));
    let stats = *path.network.link_state(path.there).stats();
    // The initial window is too long, and nothing after it.
    assert_eq!((stats.too_big, stats.fragmented), (10, 0));
    assert_eq!(path.network.node_stats(path.router).errors_reported, 10);
    path.network.run_for(Duration::from_secs(5));
    let stats = *path.network.link_state(path.there).stats();
    assert_eq!((stats.too_big, stats.fragmented), (10, 0), "the second knows");
    for source in [first, second] {
        let transfer = path.network.transfers(source)[0];
        assert_eq!((transfer.state, transfer.bytes), (TransferState::Completed, 200_000));
    }
    // Ten segments of 1448 bytes as 948 and 500, and no timeout.
    let retransmissions = path.network.retransmissions_by(first, 0);
    assert_eq!((retransmissions, path.network.retransmissions_by(second, 0)), (20, 0));
}

#[test]
fn without_discovery_routers_fragment() {
    let mut path = narrow();
    let source = transfer(&mut path, Preset::Linux6.settings(), 0);
    path.network.run_for(Duration::from_secs(3));
    let stats = *path.network.link_state(path.there).stats();
    assert!(stats.too_big == 0 && stats.fragmented > 100, "{stats:?}");
    assert_eq!(path.network.transfers(source)[0].state, TransferState::Completed);
    assert_eq!(path.network.node_stats(path.router).errors_reported, 0);
}

#[test]
fn a_hosts_own_link_limits_its_segments_too() {
    let mut network = Network::new(1);
    let (client, server) = (network.host("client"), network.host("server"));
    let [there, _] = network.connect(client, server, &link(576), &link(1500));
    let mut path = Narrow { network, client, router: client, server, there };
    let source = transfer(&mut path, discovers(), 0);
    path.network.run_for(Duration::from_secs(3));
    assert_eq!(path.network.transfers(source)[0].state, TransferState::Completed);
    let stats = *path.network.link_state(there).stats();
    assert!(stats.fragmented == 0 && stats.too_big <= 10, "{stats:?}");
    assert_eq!(path.network.node_stats(client).errors_reported, 0, "nothing goes over a link");
}

fn short(client: NodeId, server: NodeId, settings: Settings) -> TcpTraffic {
    TcpTraffic {
        client,
        server,
        port: 80,
        dscp: 0,
        tcp: both(settings),
        start: Duration::ZERO,
        stop: None,
        pattern: Pattern::Bulk { flows: 1, bytes: Some(1000), stagger: Distribution::Fixed(0.0) },
    }
}

#[test]
fn a_linux_gives_up_opening_a_connection_over_too_many_hops_and_others_try_again() {
    let state = |settings: Settings, routers: usize| {
        let mut network = Network::new(1);
        let (client, server) = (network.host("client"), network.host("server"));
        let mut last = client;
        for number in 0..routers {
            let router = network.router(&format!("r{number}"));
            network.connect(last, router, &link(1500), &link(1500));
            last = router;
        }
        network.connect(last, server, &link(1500), &link(1500));
        let source = network.tcp(short(client, server, settings));
        network.run_for(Duration::from_secs(5));
        network.transfers(source)[0].state
    };
    assert_eq!(state(Preset::Linux6.settings(), 70), TransferState::Failed);
    assert_eq!(state(Preset::Bsd44.settings(), 70), TransferState::Running);
    assert_eq!(state(Preset::Linux6.settings(), 60), TransferState::Completed, "60 hops are not too many");
}

#[test]
fn a_router_without_a_route_says_so() {
    let mut network = Network::new(1);
    let (client, router, server) = (network.host("client"), network.router("r"), network.host("server"));
    let [up, _] = network.connect(client, router, &link(1500), &link(1500));
    let source = network.tcp(short(client, server, Preset::Linux6.settings()));
    network.route(server, up);
    network.run_for(Duration::from_secs(1));
    assert_eq!(network.transfers(source)[0].state, TransferState::Failed);
    let stats = network.node_stats(router);
    assert_eq!((stats.unreachable, stats.errors_reported), (1, 1));
}

#[test]
fn a_datagram_that_is_too_long_is_fragmented_and_causes_no_error() {
    let mut path = narrow();
    path.network.udp(UdpTraffic {
        from: path.client,
        to: path.server,
        port: 9,
        dscp: 0,
        data: 1400,
        timing: Timing::Constant(Rate::from_mbit(1.0)),
        start: Duration::ZERO,
        stop: None,
    });
    path.network.run_for(Duration::from_secs(1));
    let stats = *path.network.link_state(path.there).stats();
    assert!(stats.fragmented > 50 && stats.too_big == 0, "{stats:?}");
    assert_eq!(path.network.node_stats(path.router).errors_reported, 0);
}

/// The same path on this machine's kernel, whose router is the kernel too: segments retransmitted, timeouts and the length of segments,
/// of one transfer after the other.
fn of_kernel(address: impl Fn(u8) -> IpAddr, mtu: u32) -> [(u64, u64, u32); 2] {
    let node = |name: &str, last, forwards| NodeSettings {
        name: name.to_owned(),
        addresses: vec![address(last)],
        forwards,
        sysctls: Vec::new(),
        without_route_to: [].into(),
        super_packets: false,
    };
    let between = |ends, mtu| LinkBetween { ends, ways: [link(mtu), link(mtu)], kernel_queues: [None, None] };
    let network = trunkline_testbed::network::Network::new(&NetworkSettings {
        // Behind the narrow link a wide one, or the server's own MSS would say it.
        nodes: vec![
            node("client", 1, false),
            node("r1", 2, true),
            node("r2", 4, true),
            node("server", 3, false),
        ],
        links: vec![between([0, 1], 1500), between([1, 2], mtu), between([2, 3], 1500)],
        detours: Vec::new(),
        tcp: Vec::new(),
        seed: 1,
    })
    .expect("a network");
    let server = SocketAddr::new(address(3), 0);
    let sink = TcpSink::scheduled(&network.hosts()[3], server, Duration::from_millis(10), Scheduling::Shared)
        .expect("a sink");
    let outcomes = [(); 2].map(|()| {
        let settings = BulkSettings {
            watch: Some(Duration::from_millis(5)),
            ..BulkSettings::new(sink.address(), "cubic", 1, Duration::from_secs(1))
        };
        let report = network.hosts()[0].run(|| bulk(&settings, &Stop::new()));
        let last = *report.flows[0].samples.last().expect("samples");
        (last.retransmissions.into(), last.timeouts.into(), last.mss)
    });
    println!("{outcomes:?}");
    outcomes
}

#[test]
fn a_kernel_learns_it_the_same_way() {
    if !privilege::available("a_kernel_learns_it_the_same_way") {
        return;
    }
    let outcomes = of_kernel(|last| IpAddr::V4(Ipv4Addr::new(198, 18, 7, last)), 1000);
    assert_eq!(outcomes, [(20, 0, 948), (0, 0, 948)], "as in the simulator");
}

/// What `tests/ipv6.rs` counts in the simulator.
#[test]
fn a_kernel_learns_it_the_same_way_over_ipv6() {
    let name = "a_kernel_learns_it_the_same_way_over_ipv6";
    if !privilege::available(name) {
        return;
    }
    if !trunkline_testbed::network::has_ipv6() {
        println!("SKIPPED {name}: this kernel has no IPv6");
        return;
    }
    let address = |last: u8| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 7, last.into()));
    let outcomes = of_kernel(address, 1300);
    assert_eq!(outcomes, [(20, 0, 1228), (0, 0, 1228)], "as in the simulator");
}
