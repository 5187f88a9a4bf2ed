//! The same calls with the same seed go through the same events: twice, on several threads, in steps, and in a build with
//! other optimisations.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::{Impairments, Jitter, LinkSettings, Loss};
use trunkline_queue::{
    CoDelSettings, FqCoDelSettings, Settings as QueueSettings, TrunkSettings as TrunkQueue,
};
use trunkline_sim::{AcrossTrunk, Dumbbell, TcpTraffic, UdpTraffic};
use trunkline_tcp::{CongestionAlgorithm, Preset, Settings};
use trunkline_units::{Instant, Rate};
use trunkline_workload::{Distribution, Pattern, Timing};

/// A bit of everything: two congestion controls, web users, datagrams, loss, jitter, a trunk.
fn everything(seed: u64) -> Dumbbell {
    let impairments = Impairments {
        loss: Loss::Bursts { to_bad: 0.001, to_good: 0.3, good: 0.0002, bad: 0.3 },
        corruption: 0.0001,
        duplication: 0.0005,
        jitter: Jitter::Exponential { mean: Duration::from_micros(300), reorders: true },
    };
    let link = LinkSettings {
        impairments,
        ..LinkSettings::new(Rate::from_mbit(20.0), Duration::from_millis(15))
            .queue(QueueSettings::FqCoDel(FqCoDelSettings::default()))
    };
    let tcp = |growth| Arc::new(Settings { congestion_control: growth, ..Preset::Linux6.settings() });
    let mut across =
        AcrossTrunk::single(QueueSettings::Trunk(TrunkQueue::default()), Preset::Linux6.settings());
    across.plan.edge_pacing = true;
    let mut dumbbell = Dumbbell::with_trunk(seed, 3, &link, across);
    dumbbell.bulk(0, 2, &tcp(CongestionAlgorithm::Cubic), (Duration::ZERO, Duration::from_millis(700)));
    dumbbell.bulk(
        1,
        2,
        &tcp(CongestionAlgorithm::Reno),
        (Duration::from_millis(100), Duration::from_millis(300)),
    );
    let (from, to) = (dumbbell.senders[2], dumbbell.receivers[2]);
    dumbbell.network.tcp(TcpTraffic {
        client: to,
        server: from,
        port: 80,
        dscp: 0,
        tcp: [tcp(CongestionAlgorithm::Cubic), tcp(CongestionAlgorithm::Cubic)],
        start: Duration::ZERO,
        stop: None,
        pattern: Pattern::surge(10),
    });
    dumbbell.network.udp(UdpTraffic {
        from,
        to,
        port: 9,
        dscp: 46,
        data: 172,
        start: Duration::from_millis(50),
        stop: None,
        timing: Timing::OnOff {
            rate: Rate::from_mbit(2.0),
            on: Distribution::Exponential { mean: 0.5 },
            off: Distribution::Exponential { mean: 0.5 },
        },
    });
    dumbbell
}

/// What [`everything`] comes to after three seconds, in text: digest, packet-hops, bytes on the bottleneck.
fn fingerprint(seed: u64) -> String {
    let mut dumbbell = everything(seed);
    dumbbell.network.run_until(Instant::from_millis(3000));
    let link = dumbbell.network.link_state(dumbbell.bottleneck[0]);
    let delivered = link.stats().delivered_bytes;
    format!("{} {} {delivered}", dumbbell.network.digest(), dumbbell.network.packet_hops())
}

#[test]
fn two_runs_with_one_seed_are_the_same_and_with_another_are_not() {
    assert_eq!(fingerprint(1), fingerprint(1));
    assert_ne!(fingerprint(1), fingerprint(2));
}

#[test]
fn runs_beside_each_other_are_the_same_as_one_after_the_other() {
    let alone: Vec<String> = (1..=4).map(fingerprint).collect();
    let together: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4).map(|seed| scope.spawn(move || fingerprint(seed))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    assert_eq!(alone, together);
}

#[test]
fn a_run_in_steps_is_the_run_in_one_go() {
    let mut dumbbell = everything(1);
    let mut at = Instant::ZERO;
    while at < Instant::from_millis(3000) {
        at += Duration::from_nanos(7_777_777);
        dumbbell.network.run_until(at.min(Instant::from_millis(3000)));
    }
    assert!(fingerprint(1).starts_with(&dumbbell.network.digest().to_string()));
}

/// The figure is the same in a debug build, in a release build and on other processors; it moves when what is
/// simulated changes, and only then.
#[test]
fn the_events_are_those_of_every_other_build_and_machine() {
    let known = include_str!("data/everything.txt").trim();
    assert_eq!(
        fingerprint(1),
        known,
        "if the change is meant, write the left side to tests/data/everything.txt"
    );
}

#[test]
fn another_queue_is_another_run() {
    let run = |queue| {
        let link = LinkSettings::new(Rate::from_mbit(5.0), Duration::from_millis(10)).queue(queue);
        let mut dumbbell = Dumbbell::new(1, 1, &link);
        let tcp = Arc::new(Preset::Linux6.settings());
        dumbbell.bulk(0, 2, &tcp, (Duration::ZERO, Duration::ZERO));
        dumbbell.network.run_until(Instant::from_millis(3000));
        dumbbell.network.digest()
    };
    let codel = QueueSettings::CoDel(CoDelSettings::default());
    assert_ne!(run(codel), run(QueueSettings::TailDrop(trunkline_queue::Limits::default())));
}
