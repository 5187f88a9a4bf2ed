use std::time::Duration;

use trunkline_link::{Impairments, Loss};
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_units::{Rate, Rng};

use super::*;

/// 8 Mbit/s: a byte takes a microsecond.
fn slow() -> LinkSettings {
    LinkSettings::new(Rate::from_mbit(8.0), Duration::ZERO)
}

fn wire(settings: &LinkSettings) -> Wire {
    Wire::new(settings, 1, Instant::ZERO)
}

fn packet(id: u16, bytes: usize) -> Packet {
    let mut data = vec![0; bytes];
    data[..2].copy_from_slice(&id.to_be_bytes());
    Packet::new(data, 0)
}

/// Delivers everything as its time comes: (time in µs, id).
fn drain(wire: &mut Wire, until: Instant) -> Vec<(u64, u16)> {
    let mut out = Vec::new();
    while let Some(delivery) = wire.poll(until) {
        let data = delivery.packet.data();
        out.push((delivery.due.as_nanos() / 1000, u16::from_be_bytes([data[0], data[1]])));
    }
    out
}

#[test]
fn lateness_of_the_owner_is_counted_by_packet() {
    let mut wire = wire(&slow());
    for id in 0..100 {
        wire.offer(Instant::ZERO, packet(id, 1000));
    }
    assert_eq!(drain(&mut wire, Instant::from_millis(95)).len(), 95);
    // The first was due at 1 ms, the last just then: 94 + 93 + … + 0.
    let counters = wire.counters();
    assert_eq!(counters.late_peak, Duration::from_millis(94));
    assert_eq!(counters.late_total, Duration::from_millis(94 * 95 / 2));
    // Not those of 0 and of 1 ms.
    assert_eq!(counters.late_packets, 93);
}

#[test]
fn the_overhead_takes_time_and_counts_in_the_queue() {
    let mut wire = wire(&slow());
    wire.offer(Instant::ZERO, Packet::new(vec![0; 1000], 14));
    wire.offer(Instant::ZERO, Packet::new(vec![0; 1000], 14));
    assert_eq!(wire.counters().backlog_bytes, 1014);
    let out = drain(&mut wire, Instant::from_millis(10));
    assert_eq!(out.last().map(|(at, _)| *at), Some(2028));
}

#[test]
fn a_packet_longer_than_the_mtu_is_dropped_and_counted() {
    let mut wire = wire(&slow());
    wire.offer(Instant::ZERO, packet(1, 1501));
    wire.offer(Instant::ZERO, packet(2, 1500));
    assert_eq!(wire.counters().dropped.too_big, 1);
    assert_eq!(drain(&mut wire, Instant::from_millis(9)), [(1500, 2)]);
}

#[test]
fn a_cut_loses_what_waits_what_is_in_flight_and_what_comes() {
    let mut wire = wire(&LinkSettings { delay: Duration::from_millis(5), ..slow() });
    for id in 0..4 {
        wire.offer(Instant::ZERO, packet(id, 1000));
    }
    let cut = Instant::from_nanos(1_500_000);
    assert!(drain(&mut wire, cut).is_empty());
    wire.set_up(cut, false);
    assert!(drain(&mut wire, Instant::from_millis(2)).is_empty());
    wire.offer(Instant::from_millis(2), packet(9, 1000));
    let counters = wire.counters();
    assert_eq!((counters.dropped.down, counters.in_flight, counters.backlog_packets), (5, 0, 0));
    assert_eq!((counters.dropped.queue, wire.in_flight_bytes()), (0, 0));
    assert!(drain(&mut wire, Instant::from_millis(10)).is_empty());
    wire.set_up(Instant::from_millis(10), true);
    wire.offer(Instant::from_millis(10), packet(7, 1000));
    assert_eq!(drain(&mut wire, Instant::from_millis(30)), [(16_000, 7)]);
}

#[test]
fn more_than_the_bound_is_never_in_flight() {
    let settings = LinkSettings { rate: Rate::MAX, delay: Duration::from_secs(1), mtu: 65_535, ..slow() };
    let mut wire = wire(&settings);
    let fit = IN_FLIGHT_LIMIT_BYTES / 60_000 + 1;
    // The overhead counts as bytes, and costs no memory here.
    for _ in 0..fit + 10 {
        wire.offer(Instant::ZERO, Packet::new(vec![0; 10], 59_990));
    }
    assert_eq!((wire.counters().in_flight, wire.counters().dropped.wire_full), (fit, 10));
    assert_eq!(drain(&mut wire, Instant::from_millis(1000)).len() as u64, fit);
    wire.offer(Instant::from_millis(1000), packet(1, 100));
    assert_eq!(wire.counters().in_flight, 1);
}

#[test]
fn a_reading_is_that_of_the_link_and_of_its_queue() {
    let mut wire = wire(&slow());
    for id in 0..3 {
        wire.offer(Instant::ZERO, packet(id, 1000));
    }
    let now = Instant::from_nanos(1_500_000);
    assert_eq!(drain(&mut wire, now).len(), 1);
    let reading = wire.reading(now);
    assert_eq!((reading.at, reading.busy), (now, Duration::from_micros(1500)));
    assert_eq!(
        (reading.link.delivered, reading.queue.segments_out, reading.queue.backlog_segments),
        (1, 2, 1)
    );
    // Two packets for a millisecond and one for half of one.
    assert_eq!(reading.queue.occupancy(now).segment_nanos, 2_500_000);
    assert_eq!(reading.counters, wire.counters());
}

/// Random operations: nothing is lost from the books, and nothing overtakes.
#[test]
fn random_operations_conserve_packets_and_keep_their_order() {
    for seed in 0..100 {
        let mut random = Rng::new(seed, "operations");
        let limits = Limits { segments: 1 + random.below(20) as u32, bytes: u64::MAX };
        let settings = LinkSettings {
            delay: Duration::from_micros(random.below(5000)),
            impairments: Impairments { loss: Loss::Uniform(0.1), ..Impairments::default() },
            ..slow().queue(QueueSettings::TailDrop(limits))
        };
        let mut wire = Wire::new(&settings, seed, Instant::ZERO);
        let (mut now, mut log) = (Instant::ZERO, Vec::new());
        for id in 0..400 {
            now += Duration::from_nanos(random.below(1_500_000));
            log.extend(drain(&mut wire, now));
            match random.below(20) {
                0 => wire.set_up(now, random.chance(0.7)),
                1 => {
                    let delay = Duration::from_micros(random.below(5000));
                    wire.reconfigure(now, &LinkSettings { delay, ..settings.clone() });
                }
                _ => wire.offer(now, packet(id, 20 + random.below(1480) as usize)),
            }
        }
        log.extend(drain(&mut wire, now + Duration::from_secs(60)));
        let end = wire.counters();
        assert_eq!(end.packets_in, end.packets_out + end.dropped.total());
        assert!(log.is_sorted_by_key(|(_, id)| *id) && log.is_sorted_by_key(|(at, _)| *at));
    }
}
