//! TCP in the simulator against what theory says of it.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::{LinkSettings, Loss};
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::Dumbbell;
use trunkline_tcp::{CongestionAlgorithm, Preset, Recovery, Settings, SlowStart};
use trunkline_units::{Instant, Rate};

fn packets(segments: u32) -> QueueSettings {
    QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX })
}

fn reno(recovery: Recovery) -> Settings {
    Settings {
        congestion_control: CongestionAlgorithm::Reno,
        recovery,
        slow_start: SlowStart::Classic,
        ..Preset::Linux6.settings()
    }
}

/// Goodput of one flow, bit/s, from `lead` on.
fn goodput(
    dumbbell: &mut Dumbbell,
    tcp: Settings,
    lead: Duration,
    time: Duration,
) -> (f64, trunkline_tcp::Stats) {
    let source = dumbbell.bulk(0, 1, &Arc::new(tcp), (Duration::ZERO, Duration::ZERO));
    dumbbell.network.run_for(lead);
    let before = dumbbell.received(source);
    dumbbell.network.run_for(time);
    let bits = (dumbbell.received(source) - before) as f64 * 8.0;
    (bits / time.as_secs_f64(), dumbbell.network.transfers(source)[0].sender)
}

/// The window grows by what is acknowledged (RFC 3465), so `b` is 1 though acknowledgements are delayed.
///
/// Padhye, Firoiu, Towsley and Kurose (1998), equation 30, packets a second: `b` packets are acknowledged at once, `t0` is
/// the first timeout.
fn pftk(p: f64, rtt: f64, b: f64, t0: f64) -> f64 {
    let root = (2.0 * b * p / 3.0).sqrt();
    let timeout = t0 * (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    1.0 / (rtt * root + timeout)
}

/// Mathis, Semke, Mahdavi and Ott (1997): bytes a second over the square root of the loss; they give C = 0.93 to 1.31 for delayed
/// and other acknowledgements with random loss.
fn mathis(p: f64, rtt: f64, mss: f64, c: f64) -> f64 {
    mss / rtt * c / p.sqrt()
}

#[test]
fn reno_with_random_loss_goes_as_fast_as_mathis_and_padhye_say() {
    let rtt = 0.1;
    for p in [0.0001, 0.001, 0.003, 0.01, 0.03] {
        let link = LinkSettings::new(Rate::from_mbit(1000.0), Duration::from_millis(50))
            .queue(packets(1_000_000))
            .loss(Loss::Uniform(p));
        let mut total = 0.0;
        let runs = 3;
        // Long enough for a thousand losses, where they are not very rare.
        let seconds = (1200.0 / p / pftk(p, rtt, 1.0, 0.3)).clamp(100.0, 2000.0);
        for seed in 0..runs {
            let mut dumbbell = Dumbbell::new(seed, 1, &link);
            let time = Duration::from_secs_f64(seconds);
            let tcp = Settings { send_buffer: 1 << 24, receive_buffer: 1 << 24, ..reno(Recovery::Sack) };
            total += goodput(&mut dumbbell, tcp, Duration::from_secs(60), time).0;
        }
        let measured = total / runs as f64;
        // Losses go both ways; those of acknowledgements hardly matter.
        let padhye = pftk(p, rtt, 1.0, 0.3) * 1448.0 * 8.0;
        let ratio = measured / padhye;
        println!("p {p}: {measured:.0} bit/s, {ratio:.2} of PFTK");
        assert!((0.9..=1.1).contains(&ratio), "p {p}: {measured} bit/s, PFTK {padhye}");
        if p <= 0.003 {
            let [low, high] = [1.0, 1.45].map(|c| mathis(p, rtt, 1448.0, c) * 8.0);
            assert!((low..=high).contains(&measured), "p {p}: {measured} bit/s, Mathis {low} to {high}");
        }
    }
}

#[test]
fn one_flow_fills_a_link_whose_buffer_is_a_bandwidth_delay_product() {
    for recovery in [Recovery::NewReno, Recovery::Sack, Recovery::RackTlp] {
        let link = LinkSettings::new(Rate::from_mbit(20.0), Duration::from_millis(25)).queue(packets(84));
        let mut dumbbell = Dumbbell::new(1, 1, &link);
        let (bits, stats) =
            goodput(&mut dumbbell, reno(recovery), Duration::from_secs(30), Duration::from_secs(60));
        // Of each 1500 bytes 1448 are data.
        let max = 20e6 * 1448.0 / 1500.0;
        assert!((0.97..=1.0001).contains(&(bits / max)), "{recovery:?}: {bits} of {max} {stats:?}");
    }
}

#[test]
fn a_buffer_smaller_than_the_product_leaves_three_quarters_and_more() {
    // The product is 250 packets, the buffer 10: the window goes from half to all of what the path holds.
    let link = LinkSettings::new(Rate::from_mbit(30.0), Duration::from_millis(50)).queue(packets(10));
    let mut dumbbell = Dumbbell::new(1, 1, &link);
    let (bits, _) =
        goodput(&mut dumbbell, reno(Recovery::Sack), Duration::from_secs(60), Duration::from_secs(300));
    let share = bits / (30e6 * 1448.0 / 1500.0);
    assert!((0.72..=0.85).contains(&share), "{share}");
}

#[test]
fn packets_under_way_do_not_count_against_a_buffer() {
    // A product of 2000 packets, a buffer of 200, and a window that fits both.
    let link = LinkSettings::new(Rate::from_mbit(120.0), Duration::from_millis(100)).queue(packets(200));
    let mut dumbbell = Dumbbell::new(1, 1, &link);
    let window = 2100 * 1448;
    let slow_start = SlowStart::Limited { max_ssthresh: 100 };
    let tcp = Settings { receive_buffer: window, send_buffer: 1 << 24, slow_start, ..reno(Recovery::Sack) };
    let (bits, stats) = goodput(&mut dumbbell, tcp, Duration::from_secs(60), Duration::from_secs(30));
    let share = bits / (120e6 * 1448.0 / 1500.0);
    assert!(share > 0.97, "{share} {stats:?}");
}

#[test]
fn a_receive_window_bounds_the_rate_to_a_window_each_round_trip() {
    let link = LinkSettings::new(Rate::from_mbit(100.0), Duration::from_millis(50)).queue(packets(1000));
    let mut dumbbell = Dumbbell::new(1, 1, &link);
    let tcp = Settings { window_scaling: false, receive_buffer: 1 << 20, ..reno(Recovery::Sack) };
    let (bits, stats) = goodput(&mut dumbbell, tcp, Duration::from_secs(10), Duration::from_secs(30));
    let max = 65_535.0 * 8.0 / 0.1;
    assert!((0.93..=1.001).contains(&(bits / max)), "{bits} of {max}");
    assert_eq!(stats.retransmitted_segments, 0);
}

#[test]
fn of_two_reno_flows_the_one_with_the_longer_path_gets_less_by_more_than_the_ratio() {
    // Lakshman and Madhow (1997): with one bottleneck, as the round-trip times to a power between 1 and 2 where losses
    // come together.
    let link = LinkSettings::new(Rate::from_mbit(20.0), Duration::from_millis(5)).queue(packets(40));
    let mut dumbbell = Dumbbell::new(3, 2, &link);
    let far = LinkSettings::new(Rate::from_mbit(200.0), Duration::from_millis(35));
    let (sender, left) = (dumbbell.senders[1], dumbbell.routers[0]);
    // A longer way to the second sender.
    let [there, back] = dumbbell.network.connect(sender, left, &far, &far);
    dumbbell.network.route(dumbbell.receivers[1], there);
    dumbbell.network.route(sender, back);
    let tcp = Arc::new(reno(Recovery::Sack));
    let near = dumbbell.bulk(0, 1, &tcp, (Duration::ZERO, Duration::ZERO));
    let long = dumbbell.bulk(1, 1, &tcp, (Duration::ZERO, Duration::ZERO));
    dumbbell.network.run_until(Instant::from_millis(600_000));
    let ratio = dumbbell.received(near) as f64 / dumbbell.received(long) as f64;
    // Round-trip times of 10 and 80 ms, and up to 24 ms of queue.
    assert!((2.0..=30.0).contains(&ratio), "{ratio}");
}

#[test]
fn equal_flows_get_equal_shares_in_the_long_run() {
    for growth in [CongestionAlgorithm::Reno, CongestionAlgorithm::Cubic] {
        let link = LinkSettings::new(Rate::from_mbit(50.0), Duration::from_millis(20)).queue(packets(167));
        let mut dumbbell = Dumbbell::new(5, 5, &link);
        let tcp = Arc::new(Settings { congestion_control: growth, ..Preset::Linux6.settings() });
        let sources: Vec<_> = (0..5)
            .map(|pair| {
                dumbbell.bulk(pair, 1, &tcp, (Duration::from_millis(pair as u64 * 130), Duration::ZERO))
            })
            .collect();
        dumbbell.network.run_until(Instant::from_millis(300_000));
        let shares: Vec<f64> = sources.iter().map(|source| dumbbell.received(*source) as f64).collect();
        let (sum, squares) = shares.iter().fold((0.0, 0.0), |(a, b), x| (a + x, b + x * x));
        let jain = sum * sum / (5.0 * squares);
        assert!(jain > 0.95, "{growth:?}: {jain} {shares:?}");
        let used = sum * 8.0 / 300.0 / (50e6 * 1448.0 / 1500.0);
        assert!((0.95..=1.0).contains(&used), "{growth:?}: {used}");
    }
}
