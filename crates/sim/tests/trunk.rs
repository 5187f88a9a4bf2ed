//! The trunk's own core in a simulated network: what a trunk is for, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::{LinkChange, LinkSettings, Loss};
use trunkline_queue::{CoDelSettings, Limits, Settings as QueueSettings, Share, TrunkSettings as TrunkQueue};
use trunkline_sim::{AcrossTrunk, Dumbbell, LaneSocket, Network, NodeId, SourceId, TcpTraffic, TrunkId};
use trunkline_sim::{TrunkSettings, UdpTraffic, both};
use trunkline_tcp::{CongestionAlgorithm, Preset, Settings};
use trunkline_trunk::compress::Compression;
use trunkline_trunk::{
    AdmissionSettings, ClassSettings, LaneGroup, Over, Protocol, Rule, Transport, TrunkPlan,
};
use trunkline_units::{Instant, Rate};
use trunkline_workload::{Distribution, Pattern, Timing, TransferState};

fn linux(congestion_control: CongestionAlgorithm) -> Settings {
    Settings { congestion_control, ..Preset::Linux6.settings() }
}

fn packets(segments: u32) -> QueueSettings {
    QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX })
}

fn by_protocol(name: &str, protocol: u8, queue: QueueSettings) -> ClassSettings {
    let rule = Rule { protocol: Some(Protocol::Number(protocol)), ..Rule::default() };
    ClassSettings::new(name, vec![rule], queue, 0)
}

fn wan() -> LinkSettings {
    LinkSettings::new(Rate::from_mbit(20.0), Duration::from_millis(15)).queue(packets(100))
}

fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(a, b), x| (a + x, b + x * x));
    sum * sum / (shares.len() as f64 * squares)
}

/// A source's bytes in a stretch of time, in Mbit/s.
fn mbit(dumbbell: &mut Dumbbell, sources: &[SourceId], time: Duration) -> Vec<f64> {
    let bytes = |dumbbell: &Dumbbell| -> Vec<u64> { sources.iter().map(|s| dumbbell.received(*s)).collect() };
    let before = bytes(dumbbell);
    dumbbell.network.run_for(time);
    let rate = |(now, before): (&u64, &u64)| (now - before) as f64 * 8.0 / time.as_secs_f64() / 1e6;
    bytes(dumbbell).iter().zip(&before).map(rate).collect()
}

fn flood(dumbbell: &mut Dumbbell, pair: usize, rate: f64) -> SourceId {
    let (from, to) = (dumbbell.senders[pair], dumbbell.receivers[pair]);
    let timing = Timing::Constant(Rate::from_mbit(rate));
    let (start, stop) = (Duration::ZERO, None);
    dumbbell.network.udp(UdpTraffic { from, to, port: 9, dscp: 0, data: 1000, start, stop, timing })
}

#[test]
fn flows_through_a_trunk_fill_the_link_and_share_it_and_the_core_drops_next_to_nothing() {
    let mut across =
        AcrossTrunk::single(QueueSettings::Trunk(TrunkQueue::default()), linux(CongestionAlgorithm::Cubic));
    across.plan.edge_pacing = true;
    let mut dumbbell = Dumbbell::with_trunk(1, 10, &wan(), across);
    let tcp = Arc::new(linux(CongestionAlgorithm::Cubic));
    let starts = (0..10).map(|pair| Duration::from_millis(pair * 37));
    let sources: Vec<SourceId> = starts
        .enumerate()
        .map(|(pair, start)| dumbbell.bulk(pair, 1, &tcp, (start, Duration::ZERO)))
        .collect();
    dumbbell.network.run_for(Duration::from_secs(20));
    let before = dumbbell.network.link_state(dumbbell.bottleneck[0]).queue().dropped_total();
    let rates = mbit(&mut dumbbell, &sources, Duration::from_secs(40));
    let total: f64 = rates.iter().sum();
    // Of 1500 bytes on the link 1448 are the lane's, and of 1503 of those 1448 the users'.
    let max = 20.0 * (1448.0 / 1500.0) * (1448.0 / 1503.0);
    assert!((0.9..=1.0).contains(&(total / max)), "{total} of {max} Mbit/s");
    assert!(jain(&rates) > 0.9, "{rates:?}");
    let dropped = dumbbell.network.link_state(dumbbell.bottleneck[0]).queue().dropped_total() - before;
    assert!(dropped < 20, "{dropped} drops in the core");
    let (trunk, _) = dumbbell.trunk.expect("there is one");
    let report = dumbbell.network.trunk_report(trunk, 0);
    assert!(report.classes[0].queue.dropped_total() > 100, "the edge drops");
}

/// What the lane lost keeps the user waiting, and its retransmission lets all of it go at once. Unspaced, the user's answer to
/// that overruns a short buffer again.
#[test]
fn a_lane_on_a_long_path_does_not_burst_into_its_short_buffer() {
    let path = LinkSettings::new(Rate::from_mbit(10.0), Duration::from_millis(200)).queue(packets(50));
    let tcp = Arc::new(linux(CongestionAlgorithm::Cubic));
    let measure = |edge_pacing| {
        let mut across = AcrossTrunk::single(packets(400), linux(CongestionAlgorithm::Cubic));
        across.plan.edge_pacing = edge_pacing;
        let mut dumbbell = Dumbbell::with_trunk(1, 1, &path, across);
        let source = dumbbell.bulk(0, 1, &tcp, (Duration::ZERO, Duration::ZERO));
        dumbbell.network.run_for(Duration::from_secs(20));
        let dropped =
            |dumbbell: &Dumbbell| dumbbell.network.link_state(dumbbell.bottleneck[0]).queue().dropped_total();
        let before = dropped(&dumbbell);
        let rate = mbit(&mut dumbbell, &[source], Duration::from_secs(100))[0];
        (rate, dropped(&dumbbell) - before)
    };
    let ((spaced, lost), (unspaced, lost_unspaced)) = (measure(true), measure(false));
    assert!(spaced > 8.0, "{spaced} Mbit/s of 9.3");
    assert!(spaced > 1.15 * unspaced, "{spaced} and {unspaced} Mbit/s");
    assert!(lost * 10 < lost_unspaced, "{lost} and {lost_unspaced} drops");
}

#[test]
fn a_class_of_its_own_keeps_tcp_alive_beside_a_flood() {
    let shares = |with_trunk: bool| {
        let mut dumbbell = if with_trunk {
            let classes = vec![by_protocol("udp", 17, packets(1000)), by_protocol("tcp", 6, packets(1000))];
            let plan = TrunkPlan::one_lane_per_class(classes);
            let across = AcrossTrunk { plan, tcp: linux(CongestionAlgorithm::Reno) };
            Dumbbell::with_trunk(3, 2, &wan(), across)
        } else {
            Dumbbell::new(3, 2, &wan())
        };
        flood(&mut dumbbell, 0, 30.0);
        let tcp = Arc::new(linux(CongestionAlgorithm::Reno));
        let source = dumbbell.bulk(1, 4, &tcp, (Duration::from_secs(1), Duration::from_millis(50)));
        dumbbell.network.run_for(Duration::from_secs(10));
        mbit(&mut dumbbell, &[source], Duration::from_secs(30))[0]
    };
    let (without, with) = (shares(false), shares(true));
    assert!(without < 1.0, "{without} Mbit/s beside a flood that takes all");
    assert!((6.0..=12.0).contains(&with), "{with} Mbit/s, of which half is the flood's");
}

#[test]
fn weights_hold_while_the_capacity_changes() {
    let class = |name: &str, port: u16, weight: u32| ClassSettings {
        share: Share { weight, ..Share::default() },
        ..ClassSettings::new(
            name,
            vec![Rule { destination_ports: vec![port..=port], ..Rule::default() }],
            packets(200),
            0,
        )
    };
    let classes = vec![class("a", 5001, 30), class("b", 5002, 70)];
    let plan = TrunkPlan { edge_pacing: true, ..TrunkPlan::new(classes, vec![LaneGroup::new("all", 1)]) };
    let changes = [20.0, 8.0, 14.0]
        .iter()
        .zip([0, 40, 60])
        .map(|(rate, second)| (Duration::from_secs(second), LinkChange::Rate(Rate::from_mbit(*rate))))
        .collect();
    let link = LinkSettings { changes, ..wan() };
    let across = AcrossTrunk { plan, tcp: linux(CongestionAlgorithm::Cubic) };
    let mut dumbbell = Dumbbell::with_trunk(4, 2, &link, across);
    let tcp = Arc::new(linux(CongestionAlgorithm::Cubic));
    let a = dumbbell.bulk(0, 6, &tcp, (Duration::ZERO, Duration::from_millis(50)));
    let (client, server) = (dumbbell.senders[1], dumbbell.receivers[1]);
    let b = dumbbell.network.tcp(TcpTraffic {
        port: 5002,
        pattern: Pattern::Bulk { flows: 6, bytes: None, stagger: Distribution::Fixed(0.05) },
        ..bulk(client, server, &tcp)
    });
    for (until, what) in
        [(10, ""), (40, "20 Mbit/s"), (45, ""), (60, "8 Mbit/s"), (65, ""), (85, "14 Mbit/s")]
    {
        let time = Instant::from_millis(until * 1000) - dumbbell.network.now();
        let rates = mbit(&mut dumbbell, &[a, b], time);
        let share = rates[0] / (rates[0] + rates[1]) * 100.0;
        assert!(what.is_empty() || (share - 30.0).abs() < 3.0, "{share} % at {what}: {rates:?}");
    }
}

fn bulk(client: NodeId, server: NodeId, tcp: &Arc<Settings>) -> TcpTraffic {
    TcpTraffic {
        client,
        server,
        port: 5001,
        dscp: 0,
        tcp: [tcp.clone(), tcp.clone()],
        start: Duration::ZERO,
        stop: None,
        pattern: Pattern::Bulk { flows: 1, bytes: None, stagger: Distribution::Fixed(0.0) },
    }
}

/// Two sites with a host each, and a trunk between their gateways.
struct Sites {
    network: Network,
    hosts: [NodeId; 2],
    trunk: TrunkId,
}

fn sites(seed: u64, link: &LinkSettings, shape: impl FnOnce(&mut TrunkSettings)) -> Sites {
    let mut network = Network::new(seed);
    let hosts = [network.host("a"), network.host("b")];
    let gateways = [network.gateway("left"), network.gateway("right")];
    let lan = LinkSettings::new(Rate::from_mbit(1000.0), Duration::from_micros(50)).queue(packets(10_000));
    for side in 0..2 {
        network.connect(hosts[side], gateways[side], &lan, &lan);
    }
    network.connect(gateways[0], gateways[1], link, link);
    let class = ClassSettings::new("all", Vec::new(), packets(200), 0);
    let plan = TrunkPlan::one_lane_per_class(vec![class]);
    let mut settings =
        TrunkSettings::new([vec![hosts[0]], vec![hosts[1]]], plan, linux(CongestionAlgorithm::Cubic));
    shape(&mut settings);
    let trunk = network.trunk(gateways, settings);
    Sites { network, hosts, trunk }
}

#[test]
fn compressed_headers_come_out_as_they_went_in_and_take_less() {
    let bytes = |compression| {
        let mut sites = sites(1, &wan(), |settings| {
            settings.plans.iter_mut().for_each(|plan| plan.groups[0].compression = compression);
        });
        let tcp = Arc::new(linux(CongestionAlgorithm::Cubic));
        let pattern = Pattern::Bulk { flows: 3, bytes: Some(2_000_000), stagger: Distribution::Fixed(0.1) };
        let [a, b] = sites.hosts;
        let source = sites.network.tcp(TcpTraffic { pattern, ..bulk(a, b, &tcp) });
        sites.network.run_for(Duration::from_secs(30));
        let transfers = sites.network.transfers(source);
        assert!(transfers.iter().all(|t| t.state == TransferState::Completed && t.bytes == 2_000_000));
        let [there, back] = [0, 1].map(|side| sites.network.trunk_report(sites.trunk, side));
        assert_eq!(there.receiver.malformed + back.receiver.malformed, 0);
        // Both sides took out what the others put in.
        assert_eq!(there.lanes[0].frames, back.receiver.frames);
        assert_eq!(back.lanes[0].frames, there.receiver.frames);
        (back.lanes[0].bytes as f64 / back.lanes[0].frames as f64, there.lanes[0].compression.compressed)
    };
    let (plain, _) = bytes(Compression::Off);
    let (small, compressed) = bytes(Compression::On);
    // Acknowledgements with timestamps: 52 bytes and a frame's head of 3.
    assert!((55.0..=60.0).contains(&plain), "{plain} bytes an acknowledgement");
    assert!((6.0..=14.0).contains(&small), "{small} bytes an acknowledgement");
    assert!(compressed > 4000, "{compressed} packets of data");
}

/// A packet of a user and its frame are longer than a segment of the lane. A gateway that hands packets over as they fit sends the rest
/// in a segment of its own; a program that leaves that to Nagle's algorithm and a deep socket sends full ones.
#[test]
fn a_socket_with_nagle_and_data_behind_the_queue_fills_its_segments() {
    let lane = |socket| {
        let link = LinkSettings::new(Rate::from_mbit(5.0), Duration::from_millis(10)).queue(packets(100));
        let era = || Settings { receive_buffer: 32_000, ..Preset::Bsd44.settings() };
        let mut sites = sites(1, &link, |settings| {
            settings.tcp = both(era());
            settings.socket = socket;
        });
        let tcp = Arc::new(era());
        let [a, b] = sites.hosts;
        sites.network.tcp(bulk(a, b, &tcp));
        sites.network.run_for(Duration::from_secs(20));
        let lane = &sites.network.trunk_report(sites.trunk, 0).lanes[0];
        let tcp = lane.tcp.expect("a lane over TCP");
        (tcp.bytes_sent as f64 / tcp.data_segments_sent as f64, lane.bytes)
    };
    let ((gateway, _), (program, written)) =
        (lane(LaneSocket::default()), lane(LaneSocket { nagle: true, unsent: Some(16_000) }));
    assert!(gateway < 1000.0 && program > 1400.0, "{gateway} and {program} bytes a segment");
    // Acknowledgements wait for Nagle, too, and senders for them.
    assert!(written > 5_000_000, "{written} bytes in 20 s of 5 Mbit/s");
}

#[test]
fn a_reliable_lane_hides_losses_from_its_users() {
    let link = wan().loss(Loss::Uniform(0.01));
    // A long queue would make users time out whenever the lane halves its window.
    let mut sites = sites(2, &link, |settings| {
        for plan in &mut settings.plans {
            plan.classes[0].queue = QueueSettings::CoDel(CoDelSettings::default());
        }
    });
    let tcp = Arc::new(linux(CongestionAlgorithm::Cubic));
    let [a, b] = sites.hosts;
    let source = sites.network.tcp(bulk(a, b, &tcp));
    sites.network.run_for(Duration::from_secs(60));
    let flow = sites.network.transfers(source)[0];
    let report = sites.network.trunk_report(sites.trunk, 0);
    let lane = report.lanes[0].tcp.expect("a lane over TCP");
    assert!(lane.retransmitted_segments > 50, "{lane:?}");
    let dropped = report.classes[0].queue.dropped_total();
    // What the edge did not drop has come, or is under way.
    let (sent, came) = (flow.sender.data_segments_sent, flow.receiver.data_segments_received);
    let missing = sent - came - dropped;
    assert!(missing < 100, "{sent} sent, {dropped} dropped at the edge, {came} came");
    assert!(lane.timeouts == 0, "{lane:?}");
}

#[test]
fn a_lane_of_datagrams_retransmits_nothing_and_keeps_the_users_round_trip_short() {
    let measure = |datagrams: bool| {
        let link = wan().loss(Loss::Uniform(0.005));
        let mut sites = sites(6, &link, |settings| {
            if datagrams {
                for plan in &mut settings.plans {
                    plan.groups[0].transport = Transport::Quic;
                    plan.classes[0].filters_retransmissions = false;
                }
            }
        });
        let [a, b] = sites.hosts;
        let timing = Timing::Constant(Rate::from_mbit(0.4));
        let source = sites.network.udp(UdpTraffic {
            from: a,
            to: b,
            port: 9,
            dscp: 0,
            data: 200,
            start: Duration::from_secs(1),
            stop: None,
            timing,
        });
        sites.network.run_for(Duration::from_secs(60));
        sites.network.datagrams(source).expect("a source of datagrams").clone()
    };
    let (reliable, controlled) = (measure(false), measure(true));
    let worst = |flow: &trunkline_workload::Datagrams| flow.delay_max.as_millis();
    // 15 ms there; a repair takes a round trip of 30 ms more, and holds back what comes behind it.
    assert!(worst(&reliable) >= 45, "{reliable:?}");
    assert!(worst(&controlled) <= 60, "{controlled:?}");
    let lost = |flow: &trunkline_workload::Datagrams| 1.0 - flow.received as f64 / flow.sent as f64;
    assert!(lost(&reliable) < 0.001, "{reliable:?}");
    assert!((0.003..=0.007).contains(&lost(&controlled)), "{controlled:?}");
}

/// A little traffic over a path that loses packets: it waits for none of them, and each packet arrives once.
#[test]
fn packets_over_two_lanes_wait_only_for_what_both_of_them_lose() {
    let measure = |replicates: bool| {
        let link = wan().loss(Loss::Uniform(0.005));
        let mut sites = sites(7, &link, |settings| {
            for plan in &mut settings.plans {
                plan.edge_pacing = true;
                (plan.groups[0].lanes, plan.groups[0].adaptive) = (2, true);
                plan.classes[0].replicates = replicates;
            }
        });
        let [a, b] = sites.hosts;
        let mut send = |start| {
            let timing = Timing::Constant(Rate::from_mbit(0.06));
            let start = Duration::from_secs(start);
            sites.network.udp(UdpTraffic {
                from: a,
                to: b,
                port: 9,
                dscp: 0,
                data: 200,
                start,
                stop: None,
                timing,
            })
        };
        // The first ones find out that the path loses packets.
        let _ = send(1);
        let source = send(60);
        sites.network.run_for(Duration::from_secs(200));
        let datagrams = sites.network.datagrams(source).expect("a source of datagrams").clone();
        let [there, back] = [0, 1].map(|side| sites.network.trunk_report(sites.trunk, side));
        (datagrams, there.classes[0].stats.copies, back.receiver.duplicates)
    };
    let ((alone, no_copies, none), (replicated, copies, duplicates)) = (measure(false), measure(true));
    assert_eq!((no_copies, none), (0, 0));
    let waited = |flow: &trunkline_workload::Datagrams| {
        (flow.delay_sum / flow.received as u32).saturating_sub(flow.delay_min.unwrap_or_default())
    };
    let (alone_waited, waited) = (waited(&alone), waited(&replicated));
    assert!(alone_waited > waited * 8, "{alone_waited:?} a packet alone, {waited:?} over two lanes");
    assert!(
        replicated.received <= replicated.sent && replicated.sent - replicated.received < 5,
        "{replicated:?}"
    );
    assert!(copies > 5000 && copies - duplicates < 20, "{copies} copies, {duplicates} of them left out");
}

/// Bytes of a lane of datagrams, and of a TCP beside it that begins so much later.
fn beside_each_other(later: Duration) -> (f64, f64) {
    let mut network = Network::new(9);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| network.host(name));
    let gateways = [network.gateway("left"), network.gateway("right")];
    let routers = [network.router("left router"), network.router("right router")];
    let lan = LinkSettings::new(Rate::from_mbit(1000.0), Duration::from_micros(50)).queue(packets(10_000));
    for (from, to) in [
        (a, gateways[0]),
        (gateways[0], routers[0]),
        (c, routers[0]),
        (routers[1], gateways[1]),
        (gateways[1], b),
        (routers[1], d),
    ] {
        network.connect(from, to, &lan, &lan);
    }
    network.connect(routers[0], routers[1], &wan(), &wan());
    let class = ClassSettings {
        filters_retransmissions: false,
        ..ClassSettings::new("all", Vec::new(), packets(200), 0)
    };
    let reno = Arc::new(linux(CongestionAlgorithm::Reno));
    let mut plan = TrunkPlan::one_lane_per_class(vec![class]);
    plan.groups[0].transport = Transport::Quic;
    let settings = TrunkSettings::new([vec![a], vec![b]], plan, (*reno).clone());
    network.trunk(gateways, settings);
    let timing = Timing::Constant(Rate::from_mbit(40.0));
    let flood = network.udp(UdpTraffic {
        from: a,
        to: b,
        port: 9,
        dscp: 0,
        data: 1400,
        start: Duration::ZERO,
        stop: None,
        timing,
    });
    let beside = network.tcp(TcpTraffic { start: later, ..bulk(c, d, &reno) });
    network.run_for(Duration::from_secs(120));
    let lane = network.datagrams(flood).expect("a source of datagrams").received_bytes as f64;
    (lane, network.transfers(beside)[0].bytes as f64)
}

/// Two flows through a full tail-drop queue keep time with each other, so one beginning tells little.
#[test]
fn a_lane_of_datagrams_shares_a_link_with_tcp() {
    let runs = (0..16).map(|run| beside_each_other(Duration::from_millis(run * 7)));
    let shares: Vec<(f64, f64)> = runs.collect();
    let (lane, tcp) = shares.iter().fold((0.0, 0.0), |sum, share| (sum.0 + share.0, sum.1 + share.1));
    // A lane over TCP gets 0.92 here: the users' packets have heads.
    assert!((0.8..=1.1).contains(&(lane / tcp)), "lane {lane}, TCP {tcp}: {shares:?}");
    let used = (lane + tcp) * 8.0 / 120.0 / 20e6 / shares.len() as f64;
    assert!((0.85..=1.0).contains(&used), "{used}");
}

#[test]
fn a_lane_that_breaks_is_opened_again() {
    let outage = |second, loss| {
        let impairments = trunkline_link::Impairments { loss, ..trunkline_link::Impairments::default() };
        (Duration::from_secs(second), LinkChange::Impairments(impairments))
    };
    let link = LinkSettings { changes: vec![outage(5, Loss::Uniform(1.0)), outage(60, Loss::None)], ..wan() };
    let mut impatient = linux(CongestionAlgorithm::Cubic);
    impatient.timers.max_retransmissions = 5;
    let tcp = [Arc::new(impatient.clone()), Arc::new(impatient)];
    let mut sites = sites(2, &link, |settings| settings.tcp = tcp);
    let tcp = Arc::new(linux(CongestionAlgorithm::Cubic));
    let [a, b] = sites.hosts;
    let source = sites.network.tcp(bulk(a, b, &tcp));
    let lane = |sites: &mut Sites| sites.network.trunk_report(sites.trunk, 0).lanes[0].clone();
    sites.network.run_until(Instant::from_millis(4_900));
    let whole = lane(&mut sites);
    sites.network.run_until(Instant::from_millis(60_000));
    let before = sites.network.transfers(source)[0].bytes;
    let broken = lane(&mut sites);
    assert!(broken.broken >= 1);
    // What the lane did before it broke, and the five timeouts by which it did.
    let [early, late] = [&whole, &broken].map(|lane| lane.tcp.expect("a lane of TCP"));
    assert!(late.timeouts >= early.timeouts + 5, "{} timeouts", late.timeouts);
    assert!(late.data_segments_sent >= early.data_segments_sent && early.data_segments_sent > 5_000);
    assert!(late.rtt.samples >= early.rtt.samples && late.rtt.min_ns == early.rtt.min_ns);
    assert!(broken.bytes >= whole.bytes && broken.frames >= whole.frames, "{broken:?}");
    sites.network.run_until(Instant::from_millis(240_000));
    let after = sites.network.transfers(source)[0].bytes;
    assert!(after > before + 50_000_000, "{before} bytes before the cut, {after} long after it");
    assert!(lane(&mut sites).bytes > after, "all of it went over the lane");
}

#[test]
fn flows_beyond_the_limit_of_a_class_are_refused_at_once() {
    let mut sites = sites(1, &wan(), |settings| {
        for plan in &mut settings.plans {
            plan.classes[0].admission = Some(AdmissionSettings { limit: 3, over: Over::Refuse });
        }
    });
    let tcp = Arc::new(linux(CongestionAlgorithm::Cubic));
    let [a, b] = sites.hosts;
    let pattern = Pattern::Bulk { flows: 8, bytes: None, stagger: Distribution::Fixed(0.2) };
    let source = sites.network.tcp(TcpTraffic { pattern, ..bulk(a, b, &tcp) });
    sites.network.run_for(Duration::from_secs(10));
    let transfers = sites.network.transfers(source);
    let failed = transfers.iter().filter(|transfer| transfer.state == TransferState::Failed).count();
    assert_eq!((transfers.len(), failed), (8, 5), "{transfers:?}");
    assert!(transfers.iter().filter(|t| t.state == TransferState::Running).all(|t| t.bytes > 1_000_000));
    assert_eq!(sites.network.trunk_report(sites.trunk, 0).refused, 5);
}
