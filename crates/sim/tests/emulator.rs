//! The simulator and the emulator run the same link: one seed and one list of packets give the same fates and the same times with
//! both, however late the emulator's thread is.

use std::sync::Arc;
use std::time::Duration;

use crate::shared::Shared;
use trunkline_link::mobile::{BlockErrors, Mobile, Rlp};
use trunkline_link::{Impairments, Jitter, LinkChange, LinkSettings, LinkStats, Loss};
use trunkline_packet::build::{self, Ip};
use trunkline_packet::pcap;
use trunkline_queue::{Limits, Settings, Stats};
use trunkline_sim::{CapturePoint, Network, UdpTraffic};
use trunkline_testbed::link::model::{Packet, Wire};
use trunkline_units::{Instant, Rate, Rng};
use trunkline_workload::Timing;

const SEED: u64 = 7;
const PACKETS: u32 = 4000;
/// The identification of the first packet that a node of the simulator sends.
const FIRST: u16 = 2;

/// Everything at once, as a bad link has it.
fn settings(reorders: bool, mobile: bool) -> LinkSettings {
    let impairments = Impairments {
        loss: Loss::Bursts { to_bad: 0.02, to_good: 0.2, good: 0.01, bad: 0.7 },
        corruption: 0.03,
        duplication: 0.04,
        jitter: Jitter::Exponential { mean: Duration::from_millis(3), reorders },
    };
    let worse = Impairments { loss: Loss::Uniform(0.2), ..impairments };
    let rlp = Rlp {
        block: 250,
        interval: Duration::from_micros(500),
        feedback: 4,
        errors: BlockErrors::Fading { to_bad: 0.02, to_good: 0.2, good: 0.02, bad: 0.8 },
    };
    let millis = Duration::from_millis;
    LinkSettings {
        impairments,
        mobile: mobile.then_some(Mobile::Rlp(rlp)),
        changes: vec![
            (millis(300), LinkChange::Rate(Rate::from_mbit(1.0))),
            (millis(400), LinkChange::Impairments(worse)),
            (millis(450), LinkChange::Rate(Rate::ZERO)),
            (millis(500), LinkChange::Rate(Rate::from_mbit(4.0))),
            (millis(550), LinkChange::Delay(millis(2))),
            (millis(700), LinkChange::Impairments(impairments)),
            (millis(750), LinkChange::Delay(millis(15))),
        ],
        repeat: Some(millis(800)),
        ..LinkSettings::new(Rate::from_mbit(4.0), millis(15))
            .queue(Settings::TailDrop(Limits { segments: 15, bytes: u64::MAX }))
    }
}

/// What came of it: when each packet arrived, nanoseconds, and its number, without the second copies; and all counters.
type Outcome = (Vec<(u64, u16)>, LinkStats, Stats);

/// When packets are sent, and bytes of their data.
fn packets() -> Arc<[(Duration, u32)]> {
    let mut rng = Rng::new(SEED, "packets");
    let mut at = 0;
    (0..PACKETS)
        .map(|_| {
            at += 1 + rng.below(2_000_000);
            (Duration::from_nanos(at), 100 + rng.below(900) as u32)
        })
        .collect()
}

fn simulated(settings: &LinkSettings) -> Outcome {
    let mut network = Network::new(SEED);
    let (from, to) = (network.host("a"), network.host("b"));
    let link = network.link(from, to, settings);
    let file = Shared::default();
    network.capture(link, CapturePoint::Received, Box::new(file.clone())).expect("memory");
    let timing = Timing::Trace { datagrams: packets(), repeat: None };
    let start = Duration::ZERO;
    network.udp(UdpTraffic { from, to, port: 9, dscp: 0, data: 0, start, stop: None, timing });
    network.run_until(Instant::from_millis(60_000));
    network.finish_captures().expect("memory");
    let bytes = file.bytes();
    let records = pcap::Reader::new(&bytes).expect("a capture").map(|record| record.expect("a record"));
    let arrivals =
        records.map(|one| (one.time_nanos, u16::from_be_bytes([one.bytes[4], one.bytes[5]]))).collect();
    let state = network.link_state(link);
    (arrivals, *state.stats(), state.queue().clone())
}

/// The same by the emulator's model, polled up to 20 ms late.
fn emulated(settings: &LinkSettings, late: u64) -> Outcome {
    // The seed that the network gives to its first link.
    let mut wire = Wire::new(settings, Rng::new(SEED, "link 0").next_u64(), Instant::ZERO);
    let mut late = Rng::new(late, "late");
    let mut arrivals = Vec::new();
    let mut take = |wire: &mut Wire, now: Instant| {
        while let Some(delivery) = wire.poll(now) {
            let id = u16::from_be_bytes([delivery.packet.data()[4], delivery.packet.data()[5]]);
            arrivals.push((delivery.due.as_nanos(), id));
        }
    };
    for (number, (at, data)) in packets().iter().enumerate() {
        let now = Instant::ZERO + *at;
        while let Some(wake) = wire.next_wakeup().filter(|wake| *wake < now) {
            take(&mut wire, (wake + Duration::from_nanos(late.below(20_000_000))).min(now));
        }
        take(&mut wire, now);
        let ip = Ip { id: FIRST + number as u16, ..Ip::v4() };
        wire.offer(now, Packet::new(build::udp(&ip, (9, 9), &vec![0; *data as usize]), 0));
    }
    take(&mut wire, Instant::from_millis(60_000));
    let reading = wire.reading(Instant::from_millis(60_000));
    (arrivals, reading.link, reading.queue)
}

#[test]
fn the_emulator_gives_packets_the_fates_and_times_that_the_simulator_gives_them() {
    for (reorders, mobile) in [(false, false), (true, false), (false, true), (true, true)] {
        let settings = settings(reorders, mobile);
        assert_eq!(settings.check(), Ok(()));
        let simulated = simulated(&settings);
        let (arrivals, stats, queue) = &simulated;
        assert_eq!(arrivals.is_sorted_by_key(|(_, number)| number.cast_signed()), !reorders);
        for count in [stats.delivered, stats.lost, stats.corrupted, stats.duplicated, queue.dropped_total()] {
            assert!(count > 50, "{stats:?} {queue:?}");
        }
        for late in 0..3 {
            let emulated = emulated(&settings, late);
            // The emulator inverts a bit of a packet that is corrupted, which may be one of its number.
            let same = |((at, number), (other_at, other)): &(&(u64, u16), &(u64, u16))| {
                at == other_at && (number ^ other).count_ones() <= 1
            };
            let first = arrivals.iter().zip(&emulated.0).find(|pair| !same(pair));
            assert_eq!(first, None, "the first difference; reorders {reorders}, mobile {mobile}");
            let inverted = arrivals.iter().zip(&emulated.0).filter(|(one, other)| one != other).count();
            assert!(inverted as u64 <= stats.corrupted, "{inverted}");
            assert_eq!((arrivals.len(), stats, queue), (emulated.0.len(), &emulated.1, &emulated.2));
        }
    }
}
