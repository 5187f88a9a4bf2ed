//! What is recorded of a run: the right figures, and nothing else than without a recorder.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::{Jitter, LinkSettings};
use trunkline_queue::{Limits, Settings as QueueSettings, TrunkSettings as TrunkQueue};
use trunkline_sim::{AcrossTrunk, Dumbbell, Recorder, UdpTraffic};
use trunkline_tcp::Preset;
use trunkline_trunk::ClassId;
use trunkline_units::{Instant, Rate};
use trunkline_workload::Timing;

fn seconds(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Two flows over 10 Mbit/s and 20 ms into a short queue, and datagrams of 1 Mbit/s.
fn loaded(trunk: bool) -> (Dumbbell, Recorder) {
    let limits = Limits { segments: 40, bytes: u64::MAX };
    let link = LinkSettings::new(Rate::from_mbit(10.0), Duration::from_millis(20))
        .queue(QueueSettings::TailDrop(limits));
    let mut dumbbell = if trunk {
        let across =
            AcrossTrunk::single(QueueSettings::Trunk(TrunkQueue::default()), Preset::Linux6.settings());
        Dumbbell::with_trunk(3, 2, &link, across)
    } else {
        Dumbbell::new(3, 2, &link)
    };
    let tcp = Arc::new(Preset::Linux6.settings());
    let flows = dumbbell.bulk(0, 2, &tcp, (Duration::ZERO, Duration::ZERO));
    let (from, to) = (dumbbell.senders[1], dumbbell.receivers[1]);
    let timing = Timing::Constant(Rate::from_mbit(1.0));
    let (start, stop) = (Duration::ZERO, None);
    let udp = UdpTraffic { from, to, port: 9, dscp: 0, data: 972, start, stop, timing };
    let datagrams = dumbbell.network.udp(udp);
    let mut recorder = Recorder::new(Duration::from_millis(100));
    recorder.user(flows, 0).user(flows, 1).queue(dumbbell.bottleneck[0]).link(dumbbell.bottleneck[0]);
    recorder.datagrams(datagrams);
    if let Some((trunk, _)) = dumbbell.trunk {
        for side in 0..2 {
            recorder.trunk(&mut dumbbell.network, trunk, side);
        }
    }
    (dumbbell, recorder)
}

#[test]
fn looking_changes_nothing() {
    for trunk in [false, true] {
        let (mut plain, _) = loaded(trunk);
        plain.network.run_until(seconds(20));
        let (mut looked_at, mut recorder) = loaded(trunk);
        recorder.run_until(&mut looked_at.network, seconds(20));
        assert_eq!(plain.network.digest(), looked_at.network.digest(), "trunk {trunk}");
        assert_eq!(recorder.times().len(), 200);
        assert!(recorder.columns().iter().all(|column| column.values.len() == 200));
    }
}

#[test]
fn columns_add_up_to_what_the_network_says_at_the_end() {
    let (mut dumbbell, mut recorder) = loaded(false);
    recorder.run_until(&mut dumbbell.network, seconds(60));
    let column = |name: &str| &recorder.column(name).unwrap_or_else(|| panic!("{name}")).values;
    let network = &dumbbell.network;
    let link = network.link_state(dumbbell.bottleneck[0]);
    let sum = |name: &str| column(name).iter().sum::<f64>();
    let near = |value: f64, wanted: f64| (value - wanted).abs() <= 1e-6 * wanted.max(1.0);
    let drops = link.queue().dropped_total();
    assert!(drops > 20 && near(sum("queue0.dropped_segment_limit"), drops as f64), "{drops}");
    assert!(near(sum("queue0.marked_early"), 0.0));
    assert!(near(sum("link0.delivered") / 80.0, link.stats().delivered_bytes as f64));
    let nanos = link.queue().occupancy(network.now()).segment_nanos as f64;
    assert!(near(mean(column("queue0.mean_segments")), nanos / 60e9));
    let source = network.transfers(dumbbell_source());
    for (user, transfer) in source.iter().enumerate() {
        assert!(near(sum(&format!("flow0.{user}.goodput")) / 80.0, transfer.bytes as f64));
        let retransmissions = transfer.sender.retransmitted_segments as f64;
        assert!(
            retransmissions > 0.0 && near(sum(&format!("flow0.{user}.retransmissions")), retransmissions)
        );
        let windows = column(&format!("flow0.{user}.cwnd"));
        assert!(windows.iter().all(|cwnd| (1460.0..400_000.0).contains(cwnd)));
        let [first, rest @ ..] = column(&format!("flow0.{user}.srtt")).as_slice() else { panic!("empty") };
        assert!(first.is_nan() || *first > 0.04);
        assert!(rest.iter().all(|srtt| *srtt > 0.04 && *srtt < 0.12), "{rest:?}");
    }
    let utilisation = column("link0.utilisation");
    assert!(utilisation.iter().all(|share| *share <= 1.0 + 1e-9));
    assert!((0.9..=1.0).contains(&mean(utilisation)), "{}", mean(utilisation));
    // A packet waits for no more than 40 of 1.2 ms each.
    let longest = column("queue0.sojourn_p95").iter().copied().fold(0.0, f64::max);
    assert!((0.03..0.1).contains(&longest), "{longest}");
    let delays = column("datagrams1.delay");
    assert!(delays.iter().all(|delay| (0.0209..0.080).contains(delay)), "{delays:?}");
    let units = ["bit/s", "B", "s", "1"];
    assert!(recorder.columns().iter().all(|column| units.contains(&column.unit)));
}

/// Flows are the first source there.
fn dumbbell_source() -> trunkline_sim::SourceId {
    let mut dumbbell = Dumbbell::new(1, 1, &LinkSettings::new(Rate::from_mbit(1.0), Duration::ZERO));
    let tcp = Arc::new(Preset::Linux6.settings());
    dumbbell.bulk(0, 1, &tcp, (Duration::ZERO, Duration::ZERO))
}

#[test]
fn a_trunks_side_is_recorded_lane_by_lane_and_class_by_class() {
    let (mut dumbbell, mut recorder) = loaded(true);
    recorder.run_until(&mut dumbbell.network, seconds(20));
    let later = |name: &str| recorder.column(name).unwrap_or_else(|| panic!("{name}")).values[50..].to_vec();
    assert!(mean(&later("trunk0.0.lane0.window")) > 14_600.0);
    assert!(later("trunk0.0.lane0.srtt").iter().all(|srtt| *srtt >= 0.04));
    assert!(mean(&later("trunk0.0.lane0.delivery_rate")) > 5e6);
    assert!(mean(&later("trunk0.0.all.segments")) > 5.0, "the edge queue is where packets wait");
    assert!(mean(&later("trunk0.1.all.segments")) < 1.0, "acknowledgements do not");
    let drops: f64 = recorder
        .columns()
        .iter()
        .filter(|column| column.name.starts_with("trunk0.0.all.dropped_"))
        .flat_map(|column| &column.values)
        .sum();
    let trunk = dumbbell.trunk.expect("a trunk").0;
    let report = dumbbell.network.trunk_report(trunk, 0);
    assert!((drops - report.classes[0].queue.dropped_total() as f64).abs() < 0.5 && drops > 0.0, "{drops}");
}

#[test]
fn peaks_are_counted_from_where_they_were_forgotten() {
    let (mut plain, _) = loaded(true);
    let (mut asked, _) = loaded(true);
    plain.network.run_until(seconds(20));
    asked.network.run_until(seconds(10));
    let (trunk, _) = asked.trunk.expect("a trunk");
    let link = asked.bottleneck[0];
    let peak = |dumbbell: &Dumbbell| dumbbell.network.link_state(link).queue().peak_segments;
    assert_eq!(peak(&asked), 40, "slow start fills the queue");
    asked.network.reset_peaks();
    assert_eq!(peak(&asked), asked.network.link_state(link).queue().backlog_segments);
    let waiting = asked.network.class_backlog(trunk, 0, ClassId(0));
    let class = &asked.network.trunk_report(trunk, 0).classes[0].queue;
    assert_eq!(waiting, (class.backlog_segments, class.backlog_bytes));
    assert_eq!((class.peak_segments, class.peak_bytes), waiting);
    asked.network.run_until(seconds(20));
    assert_eq!(plain.network.digest(), asked.network.digest());
}

#[test]
fn the_delays_of_datagrams_differ_by_no_more_than_the_least_and_the_most_do() {
    let mut links = LinkSettings::new(Rate::from_mbit(10.0), Duration::from_millis(20));
    links.impairments.jitter = Jitter::Uniform { max: Duration::from_millis(6), reorders: true };
    let mut dumbbell = Dumbbell::new(5, 1, &links);
    let (from, to) = (dumbbell.senders[0], dumbbell.receivers[0]);
    let timing = Timing::Constant(Rate::from_mbit(1.0));
    let (start, stop) = (Duration::ZERO, None);
    let source =
        dumbbell.network.udp(UdpTraffic { from, to, port: 9, dscp: 0, data: 972, start, stop, timing });
    dumbbell.network.run_until(seconds(40));
    let flow = dumbbell.network.datagrams(source).expect("a source of datagrams").clone();
    let mean = flow.variation_sum.as_secs_f64() / flow.received as f64;
    // Of two numbers that are evenly distributed over 6 ms, the difference is 2 ms on average.
    assert!((0.0019..0.0021).contains(&mean), "{mean} s over {} datagrams", flow.received);
    dumbbell.network.reset_peaks();
    let flow = dumbbell.network.datagrams(source).expect("a source of datagrams").clone();
    assert_eq!((flow.delay_min, flow.delay_max), (None, Duration::ZERO));
}
