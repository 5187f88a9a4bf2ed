//! Queues and links against what theory says of them. No TCP here.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::{Impairments, Jitter, LinkChange, LinkSettings, Loss};
use trunkline_queue::{CoDelSettings, DropReason, Limits, RedSettings, Settings, Unit};
use trunkline_sim::{LinkId, Network, NodeId, SourceId, UdpTraffic};
use trunkline_units::{Instant, Rate, Rng, random};
use trunkline_workload::{Distribution, Timing};

const ENDLESS: Settings = Settings::TailDrop(Limits { segments: u32::MAX, bytes: u64::MAX });

/// Two hosts and a link that is measured between two routers; the links beside it are fast and short.
fn line(seed: u64, link: &LinkSettings) -> (Network, NodeId, NodeId, LinkId) {
    let mut network = Network::new(seed);
    let (a, b) = (network.host("a"), network.host("b"));
    let (left, right) = (network.router("left"), network.router("right"));
    let fast = LinkSettings { mtu: 65_535, ..LinkSettings::new(Rate::from_mbit(100_000.0), Duration::ZERO) }
        .queue(ENDLESS);
    network.connect(a, left, &fast, &fast);
    network.connect(right, b, &fast, &fast);
    let [there, _] = network.connect(left, right, link, link);
    (network, a, b, there)
}

fn udp(from: NodeId, to: NodeId, data: u32, timing: Timing) -> UdpTraffic {
    UdpTraffic { from, to, port: 9, dscp: 0, data, start: Duration::ZERO, stop: None, timing }
}

fn seconds(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

fn assert_near(value: f64, wanted: f64, tolerance: f64, what: &str) {
    assert!((value / wanted - 1.0).abs() <= tolerance, "{what}: {value}, not {wanted}");
}

/// Mean sojourn time in the queue, without the service itself, seconds.
fn mean_wait(network: &Network, link: LinkId) -> f64 {
    let queue = network.link_state(link).queue();
    // Little's law.
    queue.occupancy(network.now()).segment_nanos as f64 / queue.segments_out as f64 / 1e9
}

#[test]
fn poisson_arrivals_of_equal_packets_wait_as_in_an_m_d_1_queue() {
    let rate = Rate::from_mbit(8.0);
    let service = 1000.0 * 8.0 / 8e6;
    for load in [0.3, 0.6, 0.8] {
        let link = LinkSettings::new(rate, Duration::ZERO).queue(ENDLESS);
        let (mut network, a, b, there) = line(7, &link);
        network.udp(udp(a, b, 972, Timing::Poisson(Rate::from_mbit(8.0 * load))));
        network.run_until(seconds(600));
        // Pollaczek and Khinchine.
        let wait = service * load / (2.0 * (1.0 - load));
        assert_near(mean_wait(&network, there), wait, 0.04, &format!("wait at load {load}"));
        let used = network.link_state(there).busy().as_secs_f64() / 600.0;
        assert_near(used, load, 0.02, "utilisation");
    }
}

#[test]
fn poisson_arrivals_of_exponential_packets_wait_as_in_an_m_m_1_queue() {
    let (mean, load) = (4000.0, 0.7);
    let mut rng = Rng::new(3, "trace");
    let mut at = 0.0;
    let mut datagrams = Vec::new();
    while at < 900.0 {
        let bytes = random::exponential(&mut rng, mean).clamp(28.0, 60_000.0) as u32;
        datagrams.push((Duration::from_secs_f64(at), bytes.max(28) - 28));
        at += random::exponential(&mut rng, mean * 8.0 / (8e6 * load));
    }
    let timing = Timing::Trace { datagrams: Arc::from(datagrams), repeat: None };
    let link = LinkSettings { mtu: 65_535, ..LinkSettings::new(Rate::from_mbit(8.0), Duration::ZERO) }
        .queue(ENDLESS);
    let (mut network, a, b, there) = line(1, &link);
    network.udp(udp(a, b, 0, timing));
    network.run_until(seconds(900));
    let service = mean * 8.0 / 8e6;
    assert_near(mean_wait(&network, there), service * load / (1.0 - load), 0.06, "wait");
}

#[test]
fn red_holds_the_average_queue_where_its_curve_sheds_the_overload() {
    let red = RedSettings {
        unit: Unit::Segments,
        min: 20,
        max: 200,
        max_p: 0.1,
        weight: 0.002,
        limits: Limits { segments: 1000, bytes: 4 << 20 },
        ..RedSettings::default()
    };
    let link = LinkSettings::new(Rate::from_mbit(8.0), Duration::from_millis(10)).queue(Settings::Red(red));
    let (mut network, a, b, there) = line(11, &link);
    let offered = 8.0 / 0.93;
    network.udp(udp(a, b, 972, Timing::Poisson(Rate::from_mbit(offered))));
    network.run_until(seconds(300));
    let queue = network.link_state(there).queue();
    let drops = queue.dropped[DropReason::Early as usize] as f64 / queue.segments_in as f64;
    assert_near(drops, 0.07, 0.1, "what is dropped is the overload");
    // Gaps between drops are uniform up to 1/p_b (Floyd and Jacobson 1993, §8), so drops are 2 p_b / (1 + p_b).
    let p = drops / (2.0 - drops);
    let average = 20.0 + 180.0 * p / 0.1;
    let mean = queue.occupancy(network.now()).segment_nanos as f64 / 300e9;
    assert_near(mean, average, 0.12, "average queue");
}

#[test]
fn codel_drops_ever_more_often_as_its_control_law_has_it() {
    let codel =
        CoDelSettings { limits: Limits { segments: u32::MAX, bytes: u64::MAX }, ..CoDelSettings::default() };
    let link = LinkSettings::new(Rate::from_mbit(80.0), Duration::ZERO).queue(Settings::CoDel(codel));
    let (mut network, a, b, there) = line(1, &link);
    network.udp(udp(a, b, 972, Timing::Constant(Rate::from_mbit(100.0))));
    network.run_until(seconds(6));
    // The nth drop comes interval / sqrt(n) after the one before: after a time t there are (t / (2 interval))^2.
    let drops = network.link_state(there).queue().dropped_total() as f64;
    assert_near(drops, (5.9_f64 / 0.2).powi(2), 0.05, "drops in six seconds");
}

#[test]
fn what_goes_into_a_link_comes_out_is_lost_or_is_under_way() {
    let impairments = Impairments {
        loss: Loss::Uniform(0.05),
        corruption: 0.02,
        duplication: 0.01,
        jitter: Jitter::Uniform { max: Duration::from_millis(30), reorders: true },
    };
    let link =
        LinkSettings { impairments, ..LinkSettings::new(Rate::from_mbit(10.0), Duration::from_millis(20)) };
    let (mut network, a, b, there) = line(5, &link);
    let source = network.udp(udp(a, b, 972, Timing::Poisson(Rate::from_mbit(12.0))));
    network.run_until(seconds(30));
    let (state, stats) = (network.link_state(there), *network.link_state(there).stats());
    let queue = state.queue();
    let passed = queue.segments_out;
    assert_eq!(passed, stats.delivered + stats.lost + state.in_flight() as u64);
    let flow = network.datagrams(source).expect("a source of datagrams");
    let host = network.node_stats(b);
    let arrived = flow.received + flow.duplicated + host.corrupted;
    assert_eq!(arrived, stats.delivered + stats.duplicated);
    assert_near(flow.duplicated as f64 / flow.received as f64, 0.01, 0.15, "doubles");
    assert!(flow.received <= stats.delivered);
    assert_near(stats.lost as f64 / passed as f64, 0.05, 0.1, "loss");
    assert_near(host.corrupted as f64 / arrived as f64, 0.02, 0.15, "damage");
}

#[test]
fn a_packet_takes_its_serialisation_and_the_delay_of_each_link() {
    let link = LinkSettings::new(Rate::from_mbit(1.0), Duration::from_millis(40));
    let (mut network, a, b, _) = line(1, &link);
    let source = network.udp(udp(a, b, 972, Timing::Constant(Rate::from_bits_per_second(8000))));
    network.run_until(seconds(10));
    let flow = network.datagrams(source).expect("a source of datagrams");
    // 8 ms at 1 Mbit/s, and 80 ns at each of two links of 100 Gbit/s.
    assert_eq!(flow.delay_min, Some(Duration::from_nanos(48_000_160)));
    assert_eq!(flow.delay_max, Duration::from_nanos(48_000_160));
    assert_eq!(flow.jitter, Duration::ZERO);
}

#[test]
fn rate_and_delay_change_when_they_are_to_and_nothing_is_overtaken() {
    let changes = vec![
        (Duration::from_secs(1), LinkChange::Rate(Rate::from_mbit(2.0))),
        (Duration::from_secs(2), LinkChange::Delay(Duration::from_millis(1))),
        (Duration::from_secs(3), LinkChange::Rate(Rate::ZERO)),
        (Duration::from_secs(4), LinkChange::Rate(Rate::from_mbit(8.0))),
    ];
    let link = LinkSettings {
        changes,
        ..LinkSettings::new(Rate::from_mbit(8.0), Duration::from_millis(200)).queue(ENDLESS)
    };
    let (mut network, a, b, there) = line(1, &link);
    network.udp(udp(a, b, 972, Timing::Constant(Rate::from_mbit(9.0))));
    let mut bits = Vec::new();
    for second in 1..=5 {
        let before = network.link_state(there).queue().bytes_out;
        network.run_until(seconds(second));
        bits.push((network.link_state(there).queue().bytes_out - before) as f64 * 8.0 / 1e6);
    }
    for (got, wanted) in bits.iter().zip([8.0, 2.0, 2.0, 0.0, 8.0]) {
        assert!((got - wanted).abs() < 0.02, "{bits:?}");
    }
}

#[test]
fn a_schedule_that_repeats_goes_on_for_ever() {
    let changes = vec![
        (Duration::ZERO, LinkChange::Rate(Rate::from_mbit(6.0))),
        (Duration::from_millis(500), LinkChange::Rate(Rate::from_mbit(2.0))),
    ];
    let repeat = Some(Duration::from_secs(1));
    let link = LinkSettings { changes, repeat, ..LinkSettings::new(Rate::from_mbit(1.0), Duration::ZERO) };
    let (mut network, a, b, there) = line(1, &link);
    network.udp(udp(a, b, 972, Timing::Constant(Rate::from_mbit(20.0))));
    network.run_until(seconds(100));
    let mean = network.link_state(there).stats().delivered_bytes as f64 * 8.0 / 100.0 / 1e6;
    assert_near(mean, 4.0, 0.01, "mean rate");
}

#[test]
fn long_packets_cross_a_short_mtu_in_fragments_and_are_whole_where_they_arrive() {
    let link =
        LinkSettings { mtu: 576, ..LinkSettings::new(Rate::from_mbit(10.0), Duration::from_millis(1)) };
    let (mut network, a, b, there) = line(1, &link);
    let source = network.udp(udp(a, b, 1472, Timing::Constant(Rate::from_mbit(5.0))));
    network.run_until(seconds(10));
    let flow = network.datagrams(source).expect("a source of datagrams").clone();
    let (sent, received) = (flow.sent, flow.received);
    assert!(received >= sent - 2 && sent > 4000, "{sent} sent, {received} received");
    assert_eq!(flow.received_bytes, received * 1500);
    let stats = network.link_state(there).stats();
    assert!(stats.delivered >= received * 3 && stats.fragmented == sent, "{stats:?}");
}

#[test]
fn one_lost_fragment_loses_the_packet() {
    let link =
        LinkSettings { mtu: 576, ..LinkSettings::new(Rate::from_mbit(10.0), Duration::from_millis(1)) };
    let (mut network, a, b, _) = line(1, &link.loss(Loss::Uniform(0.05)));
    let source = network.udp(udp(a, b, 1472, Timing::Constant(Rate::from_mbit(5.0))));
    network.run_until(seconds(60));
    let flow = network.datagrams(source).expect("a source of datagrams");
    assert_near(flow.received as f64 / flow.sent as f64, 0.95_f64.powi(3), 0.02, "whole packets");
    assert!(network.node_stats(b).reassembly_failures > 1000);
}

#[test]
fn packets_that_go_round_in_circles_end() {
    let mut network = Network::new(1);
    let (a, b) = (network.host("a"), network.host("b"));
    let (left, right) = (network.router("left"), network.router("right"));
    let fast = LinkSettings::new(Rate::from_mbit(1000.0), Duration::from_millis(1));
    network.connect(a, left, &fast, &fast);
    network.connect(right, b, &fast, &fast);
    let [_, back] = network.connect(left, right, &fast, &fast);
    network.route(b, back);
    network.udp(udp(a, b, 100, Timing::Constant(Rate::from_mbit(1.0))));
    network.run_until(seconds(2));
    let exceeded = network.node_stats(left).ttl_expired + network.node_stats(right).ttl_expired;
    assert!(exceeded > 1000, "{exceeded}");
}

#[test]
fn on_and_off_times_make_the_mean_rate() {
    let link = LinkSettings::new(Rate::from_mbit(100.0), Duration::ZERO);
    let (mut network, a, b, _) = line(2, &link);
    let timing = Timing::OnOff {
        rate: Rate::from_mbit(10.0),
        on: Distribution::Exponential { mean: 0.3 },
        off: Distribution::Exponential { mean: 0.7 },
    };
    let source: SourceId = network.udp(udp(a, b, 972, timing));
    network.run_until(seconds(2000));
    let flow = network.datagrams(source).expect("a source of datagrams");
    assert_near(flow.sent_bytes as f64 * 8.0 / 2000.0 / 1e6, 3.0, 0.05, "Mbit/s");
}
