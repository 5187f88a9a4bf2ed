//! What hosts send: every byte of it arrives, what fails says so, and nothing is left behind.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::{Impairments, LinkChange, LinkSettings, Loss};
use trunkline_sim::{Network, NodeId, SourceId, TcpTraffic, Transfer, UdpTraffic, both};
use trunkline_tcp::{Preset, Settings, Timers};
use trunkline_units::{Instant, Rate};
use trunkline_workload::{Assignment, Distribution, Pattern, Summary, Timing, TransferState};

/// Two hosts and one link, the same in both directions.
fn pair(seed: u64, link: &LinkSettings) -> (Network, [NodeId; 2]) {
    let mut network = Network::new(seed);
    let hosts = [network.host("client"), network.host("server")];
    network.connect(hosts[0], hosts[1], link, link);
    (network, hosts)
}

fn link(mbit: f64, ms: u64) -> LinkSettings {
    LinkSettings::new(Rate::from_mbit(mbit), Duration::from_millis(ms))
}

fn tcp([client, server]: [NodeId; 2], settings: Settings, pattern: Pattern) -> TcpTraffic {
    let (start, stop) = (Duration::ZERO, None);
    TcpTraffic { client, server, port: 80, dscp: 0, tcp: both(settings), start, stop, pattern }
}

fn bulk(flows: u32, bytes: Option<u64>, stagger: f64) -> Pattern {
    Pattern::Bulk { flows, bytes, stagger: Distribution::Fixed(stagger) }
}

/// Pages of three objects of 10 000 bytes.
fn web(users: u32) -> Pattern {
    Pattern::Web {
        users,
        request: 300,
        response: Distribution::Fixed(10_000.0),
        objects: Distribution::Fixed(3.0),
        gap: Distribution::Fixed(0.1),
        think: Distribution::Fixed(2.0),
    }
}

/// Gives up soon and forgets soon.
fn impatient() -> Settings {
    let linux = Preset::Linux6.settings();
    let timers = Timers {
        max_retransmissions: 3,
        max_syn_retransmissions: 3,
        time_wait: Duration::from_secs(1),
        ..linux.timers
    };
    Settings { timers, ..linux }
}

fn seconds(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

fn counted(transfers: &[Transfer], state: TransferState) -> usize {
    transfers.iter().filter(|transfer| transfer.state == state).count()
}

/// The transfers of one user, in order.
fn of_user(network: &Network, source: SourceId, user: u32) -> Vec<Transfer> {
    network.transfers(source).into_iter().filter(|transfer| transfer.user == user).collect()
}

#[test]
fn bulk_transfers_end_with_every_byte_and_with_the_figures_of_tcptrace() {
    let (mut network, hosts) = pair(1, &link(10.0, 20).loss(Loss::Uniform(0.02)));
    let source = network.tcp(tcp(hosts, Preset::Linux6.settings(), bulk(8, Some(300_000), 0.5)));
    network.run_until(seconds(120));
    let transfers = network.transfers(source);
    assert_eq!(counted(&transfers, TransferState::Completed), 8);
    for (number, transfer) in transfers.iter().enumerate() {
        assert_eq!((transfer.user as usize, transfer.bytes), (number, 300_000));
        assert_eq!(transfer.started, Instant::from_millis(500 * number as u64));
        let connected = transfer.connected.expect("it was open");
        // Two ways of 20 ms and two segments of 60 bytes at least; SYN may have been lost.
        assert!(connected - transfer.started >= Duration::from_micros(40_096));
        let (sender, receiver) = (transfer.sender, transfer.receiver);
        assert_eq!(sender.bytes_sent - sender.retransmitted_bytes, 300_000);
        assert!((206..400).contains(&sender.data_segments_sent), "{sender:?}");
        assert!(sender.data_segments_sent >= receiver.data_segments_received);
        assert_eq!(transfer.segments(), sender.segments_sent + receiver.segments_sent);
        assert!((100..400).contains(&receiver.acks_sent), "{receiver:?}");
        assert_eq!(
            transfer.needed_retransmissions() + transfer.spurious_retransmissions(),
            sender.retransmitted_segments
        );
        let rtt = transfer.mean_rtt().expect("round trips were measured");
        assert!(sender.rtt.samples > 50 && rtt >= Duration::from_nanos(sender.rtt.min_ns));
        assert!(sender.rtt.min_ns >= 40_000_000 && rtt <= Duration::from_nanos(sender.rtt.max_ns));
        let wanted = 2_400_000.0 / transfer.duration(network.now()).as_secs_f64();
        assert!((transfer.throughput(network.now()) / wanted - 1.0).abs() < 1e-9 && wanted < 10e6);
    }
    let delays = Summary::of(transfers.iter().map(|transfer| transfer.duration(network.now()).as_secs_f64()));
    assert!(delays.count == 8 && delays.min > 0.24 && delays.max < 20.0, "{delays:?}");
    assert!(delays.deviation > 0.0 && delays.min <= delays.mean && delays.mean <= delays.max);
    let retransmissions: u64 = transfers.iter().map(Transfer::needed_retransmissions).sum();
    let sent: u64 = transfers.iter().map(|transfer| transfer.sender.data_segments_sent).sum();
    assert!((0.01..0.035).contains(&(retransmissions as f64 / sent as f64)), "{retransmissions} of {sent}");
}

#[test]
fn retransmissions_are_spurious_where_nothing_was_lost_and_only_there() {
    // The delay grows beyond any timeout: everything is retransmitted, nothing was lost.
    let later = vec![(Duration::from_secs(2), LinkChange::Delay(Duration::from_secs(3)))];
    let (mut network, hosts) = pair(1, &LinkSettings { changes: later, ..link(2.0, 20) });
    let plain = Preset::Linux22.settings();
    let source = network.tcp(tcp(hosts, plain.clone(), bulk(1, Some(1_000_000), 0.0)));
    network.run_until(seconds(300));
    let transfer = network.transfers(source)[0];
    assert_eq!((transfer.state, transfer.bytes), (TransferState::Completed, 1_000_000));
    assert!(transfer.spurious_retransmissions() >= 10, "{:?}", transfer.sender);
    assert_eq!(transfer.needed_retransmissions(), 0, "{:?}", transfer.sender);
    // One way loses packets: nothing comes twice but after a timeout.
    let mut network = Network::new(2);
    let hosts = [network.host("client"), network.host("server")];
    network.connect(hosts[0], hosts[1], &link(2.0, 20).loss(Loss::Uniform(0.01)), &link(2.0, 20));
    let source = network.tcp(tcp(hosts, plain, bulk(1, Some(5_000_000), 0.0)));
    network.run_until(seconds(300));
    let transfer = network.transfers(source)[0];
    let lost = transfer.sender.data_segments_sent - transfer.receiver.data_segments_received;
    assert!(lost > 20 && transfer.needed_retransmissions() >= lost, "{lost} {:?}", transfer.sender);
    assert!(transfer.needed_retransmissions() <= lost + lost / 10, "{lost} {:?}", transfer.sender);
}

#[test]
fn a_stop_ends_what_has_no_end_and_begins_nothing_new() {
    let (mut network, hosts) = pair(1, &link(10.0, 20));
    let stopping =
        |pattern| TcpTraffic { stop: Some(Duration::from_millis(3500)), ..tcp(hosts, impatient(), pattern) };
    let endless = network.tcp(stopping(bulk(9, None, 1.0)));
    let long = network.tcp(stopping(bulk(1, Some(6_000_000), 1.0)));
    let users = network.tcp(stopping(web(4)));
    let probes = Pattern::RequestResponse {
        connections: 2,
        request: 100,
        response: 2000,
        interval: Distribution::Fixed(0.3),
    };
    let probes = network.tcp(stopping(probes));
    network.run_until(seconds(60));
    let transfers = network.transfers(endless);
    assert_eq!(transfers.len(), 4, "those that begin at 0, 1, 2 and 3 s");
    assert_eq!(counted(&transfers, TransferState::Completed), 4);
    assert!(transfers.iter().all(|transfer| transfer.bytes > 50_000));
    let end = transfers.iter().filter_map(|transfer| transfer.ended).max().expect("all ended");
    // What was in their send buffers by then, 4 MB each, still goes out.
    assert!(end > Instant::from_millis(3500) && end < seconds(25), "{end:?}");
    assert_eq!(network.transfers(long)[0].bytes, 6_000_000, "it has an end of its own");
    for source in [users, probes] {
        let transfers = network.transfers(source);
        assert_eq!(counted(&transfers, TransferState::Completed), transfers.len());
        assert!(transfers.len() > 4 && transfers.iter().all(|transfer| transfer.started < seconds(4)));
    }
    assert_eq!(network.live_endpoints(), 0, "every connection has been closed and forgotten");
}

#[test]
fn web_users_fetch_one_object_after_another_over_a_connection_each() {
    let (mut network, hosts) = pair(3, &link(10.0, 10));
    let source = network.tcp(tcp(hosts, Preset::Linux6.settings(), web(3)));
    network.run_until(seconds(100));
    for user in 0..3 {
        let objects = of_user(&network, source, user);
        // A page takes 2.2 s and three times 40 ms and what it is long; a user begins within 2 s.
        assert!((120..=132).contains(&objects.len()), "{}", objects.len());
        for (number, two) in objects.windows(2).enumerate() {
            let (one, next) = (two[0], two[1]);
            assert_eq!((one.state, one.bytes), (TransferState::Completed, 10_000));
            let pause = next.started - one.ended.expect("it is over");
            assert_eq!(pause, Duration::from_millis(if number % 3 == 2 { 2000 } else { 100 }));
            // SYN and answer, request and answer; ten segments are the initial window.
            let took = one.duration(network.now());
            assert!(took >= Duration::from_millis(40) && took < Duration::from_millis(100), "{took:?}");
            assert_eq!(one.sender.bytes_sent, 10_000);
            assert_eq!(one.receiver.bytes_sent, 300);
            assert_eq!(one.sender.segments_sent, 1 + 7, "SYN and data");
        }
    }
}

#[test]
fn surge_users_ask_for_files_and_think_as_its_distributions_say() {
    let (mut network, hosts) = pair(4, &link(1000.0, 1));
    let source = network.tcp(tcp(hosts, Preset::Linux6.settings(), Pattern::surge(60)));
    network.run_until(seconds(600));
    let transfers = network.transfers(source);
    let mut sizes: Vec<u64> = transfers.iter().map(|transfer| transfer.bytes).collect();
    sizes.sort_unstable();
    assert!(sizes.len() > 5000, "{}", sizes.len());
    // Where the log-normal body (mean 9.357) reaches 0.5 / 0.93 of itself: 0.093 deviations above its middle.
    let (median, wanted) = (sizes[sizes.len() / 2] as f64, 11_580.0 * 1.131);
    assert!((median / wanted - 1.0).abs() < 0.07, "{median}");
    // A Pareto tail from 133 000 on with a share of 0.07, and what the body has there.
    let tail = sizes.iter().filter(|size| **size >= 133_000).count() as f64 / sizes.len() as f64;
    assert!((0.07..0.12).contains(&tail), "{tail}");
    let pauses: Vec<f64> = (0..60)
        .flat_map(|user| {
            let objects = of_user(&network, source, user);
            let pause = |two: &[Transfer]| (two[1].started - two[0].ended.expect("over")).as_secs_f64();
            objects.windows(2).map(pause).collect::<Vec<_>>()
        })
        .collect();
    // Thinking takes a second at least, and most gaps are shorter: Weibull's median is 0.56 s.
    let long = pauses.iter().filter(|pause| **pause >= 1.0).count() as f64 / pauses.len() as f64;
    assert!((0.5..0.9).contains(&long), "{long}");
}

#[test]
fn requests_on_a_connection_that_stays_are_answered_in_turn_while_others_load_the_link() {
    let delay = |loaded: bool| {
        let (mut network, hosts) = pair(5, &link(10.0, 20));
        let pattern = Pattern::RequestResponse {
            connections: 2,
            request: 100,
            response: 1000,
            interval: Distribution::Exponential { mean: 0.5 },
        };
        let source = network.tcp(tcp(hosts, Preset::Linux6.settings(), pattern));
        if loaded {
            let [client, server] = hosts;
            network.tcp(tcp([server, client], Preset::Linux6.settings(), bulk(4, None, 0.1)));
        }
        network.run_until(seconds(100));
        for user in 0..2 {
            let requests = of_user(&network, source, user);
            assert!(requests.len() > if loaded { 60 } else { 150 }, "{}", requests.len());
            for two in requests.windows(2) {
                assert_eq!((two[0].state, two[0].bytes), (TransferState::Completed, 1000));
                assert!(two[1].started >= two[0].ended.expect("it was answered"));
            }
        }
        assert_eq!(network.live_endpoints(), if loaded { 12 } else { 4 }, "connections that stay");
        Summary::of(
            network.transfers(source)[2..].iter().map(|one| one.duration(network.now()).as_secs_f64()),
        )
    };
    let (idle, loaded) = (delay(false), delay(true));
    assert!(idle.min >= 0.040 && idle.max < 0.045, "{idle:?}");
    assert!(loaded.mean > 2.0 * idle.mean && loaded.max < 10.0, "{loaded:?}");
}

#[test]
fn failures_are_told_and_users_go_on() {
    let lossy = |p| LinkChange::Impairments(Impairments { loss: Loss::Uniform(p), ..Impairments::default() });
    let changes = vec![(Duration::from_secs(20), lossy(1.0)), (Duration::from_secs(200), lossy(0.0))];
    let (mut network, hosts) = pair(6, &LinkSettings { changes, ..link(10.0, 20) });
    let flows = network.tcp(tcp(hosts, impatient(), bulk(3, None, 0.1)));
    let users = network.tcp(tcp(hosts, impatient(), web(5)));
    let interval = Distribution::Fixed(1.0);
    let probes = Pattern::RequestResponse { connections: 2, request: 100, response: 1000, interval };
    let probes = network.tcp(tcp(hosts, impatient(), probes));
    let (response, interval) = (Distribution::Fixed(1000.0), Distribution::Fixed(1.0));
    let assignment = Assignment::LongestIdle;
    let arrivals = Pattern::Arrivals { connections: 2, assignment, request: 100, response, interval };
    let arrivals = network.tcp(tcp(hosts, impatient(), arrivals));
    network.run_until(seconds(300));
    let flows = network.transfers(flows);
    assert_eq!(counted(&flows, TransferState::Failed), 3);
    for source in [users, probes, arrivals] {
        let transfers = network.transfers(source);
        for user in 0..network.users(source) {
            let own = of_user(&network, source, user);
            let ended_in = |from, to| {
                own.iter().filter(|one| one.ended.is_some_and(|at| at > from && at <= to)).collect::<Vec<_>>()
            };
            let before = ended_in(seconds(0), seconds(20));
            assert!(before.len() > 3 && before.iter().all(|one| one.state == TransferState::Completed));
            let during = ended_in(seconds(21), seconds(200));
            assert!(during.len() > 3 && during.iter().all(|one| one.state == TransferState::Failed));
            let after = ended_in(seconds(230), seconds(300));
            assert!(after.len() > 20 && after.iter().all(|one| one.state == TransferState::Completed));
        }
        assert!(counted(&transfers, TransferState::Running) <= network.users(source) as usize);
    }
}

#[test]
fn thousands_of_connections_leave_nothing_behind() {
    // With this loss some connections are given up in each of their states.
    let (mut network, hosts) = pair(7, &link(100.0, 5).loss(Loss::Uniform(0.3)));
    let stop = Some(Duration::from_secs(1500));
    let source = network.tcp(TcpTraffic { stop, ..tcp(hosts, impatient(), web(30)) });
    let mut max = 0;
    for second in 1..=1500 {
        network.run_until(seconds(second));
        max = max.max(network.live_endpoints());
    }
    let transfers = network.transfers(source);
    assert!(transfers.len() > 5000, "{}", transfers.len());
    let failed = counted(&transfers, TransferState::Failed);
    assert!(failed > 100, "{failed} of {}", transfers.len());
    // Those of 30 users, and those that are closing or remember it for a second.
    assert!(max <= 250, "{max}");
    network.run_until(seconds(1700));
    assert_eq!(network.live_endpoints(), 0);
}

#[test]
fn datagrams_come_at_their_times_beside_transfers_on_the_same_port() {
    let (mut network, [client, server]) = pair(8, &link(10.0, 20));
    let udp = |timing| UdpTraffic {
        from: client,
        to: server,
        port: 80,
        dscp: 0,
        data: 972,
        start: Duration::from_secs(1),
        stop: Some(Duration::from_secs(11)),
        timing,
    };
    let constant = network.udp(udp(Timing::Constant(Rate::from_mbit(1.0))));
    let datagrams: Arc<[_]> = Arc::new([(Duration::ZERO, 100), (Duration::from_millis(300), 200)]);
    let trace = network.udp(udp(Timing::Trace { datagrams, repeat: Some(Duration::from_secs(1)) }));
    let source = network.tcp(tcp([client, server], Preset::Linux6.settings(), bulk(20, Some(50_000), 0.1)));
    network.run_until(seconds(20));
    let constant = network.datagrams(constant).expect("datagrams");
    assert_eq!((constant.sent, constant.received), (1250, 1250), "each 8 ms for ten seconds");
    let trace = network.datagrams(trace).expect("datagrams");
    assert_eq!((trace.sent, trace.received_bytes), (20, 10 * (128 + 228)));
    let transfers = network.transfers(source);
    assert!(transfers.iter().all(|transfer| transfer.bytes == 50_000));
    assert_eq!(network.node_stats(server).no_listener + network.node_stats(server).malformed, 0);
}

#[test]
fn a_run_stops_as_the_last_of_the_awaited_sources_is_over() {
    let build = || {
        let (mut network, hosts) = pair(1, &link(10.0, 20));
        let slow = network.tcp(tcp(hosts, Preset::Linux6.settings(), bulk(4, Some(300_000), 0.5)));
        let late = TcpTraffic {
            start: Duration::from_secs(3),
            ..tcp(hosts, impatient(), bulk(1, Some(50_000), 0.0))
        };
        let late = network.tcp(late);
        network.tcp(tcp(hosts, Preset::Linux6.settings(), web(3)));
        (network, [slow, late])
    };
    let (mut network, sources) = build();
    assert!(!network.run_until_over(&sources, seconds(2)));
    assert_eq!(network.now(), seconds(2));
    assert!(network.run_until_over(&sources, seconds(600)));
    let ends = sources.map(|source| network.transfers(source).iter().map(|transfer| transfer.ended).max());
    assert_eq!(ends.into_iter().max().flatten(), Some(Some(network.now())), "{ends:?}");
    assert!((seconds(3)..seconds(5)).contains(&network.now()), "{:?}", network.now());
    assert!(network.run_until_over(&sources, seconds(600)), "they stay over");

    let (mut plain, _) = build();
    plain.run_until(network.now());
    network.run_until(network.now());
    assert_eq!(plain.digest(), network.digest(), "to stop changes nothing");
}

#[test]
fn a_transfer_that_fails_is_over_too() {
    let (mut network, hosts) = pair(1, &link(10.0, 20).loss(Loss::Uniform(1.0)));
    let source = network.tcp(tcp(hosts, impatient(), bulk(2, Some(1000), 1.0)));
    assert!(network.run_until_over(&[source], seconds(600)));
    assert_eq!(counted(&network.transfers(source), TransferState::Failed), 2);
}
