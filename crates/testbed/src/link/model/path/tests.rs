use super::*;
use trunkline_queue::Limits;

fn limits(segments: u32) -> QueueSettings {
    QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX })
}

fn path(settings: DirectionSettings) -> Path {
    Path::new(settings, 1500, Rng::new(1, "path"))
}

fn packet(at: Instant, id: u16, bytes: usize) -> Packet {
    let mut data = vec![0; bytes];
    data[..2].copy_from_slice(&id.to_be_bytes());
    Packet::new(data, 0, at)
}

fn id(packet: &Packet) -> u16 {
    u16::from_be_bytes([packet.data()[0], packet.data()[1]])
}

/// Delivers everything as its time comes: (time in ns, id).
fn drain(path: &mut Path, until: Instant) -> Vec<(u64, u16)> {
    let mut out = Vec::new();
    while let Some(wake) = path.next_wake().filter(|wake| *wake <= until) {
        path.advance(wake);
        while let Some(packet) = path.deliver(wake) {
            out.push((wake.as_nanos(), id(&packet)));
        }
    }
    path.advance(until);
    out
}

/// 8 Mbit/s: a byte takes a microsecond.
fn slow() -> DirectionSettings {
    DirectionSettings { rate: Some(Rate::from_bits_per_second(8_000_000)), ..DirectionSettings::default() }
}

#[test]
fn a_packet_arrives_after_its_transmission_and_the_delay() {
    let mut path = path(DirectionSettings { delay: Duration::from_millis(20), ..slow() });
    path.arrive(packet(Instant::from_millis(1), 1, 1000));
    path.arrive(packet(Instant::from_millis(1), 2, 500));
    let out = drain(&mut path, Instant::from_millis(100));
    assert_eq!(out, [(22_000_000, 1), (22_500_000, 2)]);
}

#[test]
fn a_full_queue_drops_the_arriving_packet_and_not_the_one_being_sent() {
    let mut path = path(DirectionSettings { queue: limits(2), ..slow() });
    for id in 1..=4 {
        path.arrive(packet(Instant::ZERO, id, 1000));
    }
    assert_eq!(path.counters().dropped.queue, 1);
    assert_eq!(path.counters().backlog_packets, 2);
    let out: Vec<u16> = drain(&mut path, Instant::from_millis(10)).iter().map(|(_, id)| *id).collect();
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn a_bandwidth_delay_product_beyond_the_buffer_still_fills_the_link() {
    // 8 Mbit/s × 500 ms = 500 packets of 1000 bytes on the wire, with a queue of five.
    let delay = Duration::from_millis(500);
    let mut path = path(DirectionSettings { delay, queue: limits(5), ..slow() });
    let mut delivered = 0;
    for millisecond in 0..2000 {
        path.arrive(packet(Instant::from_millis(millisecond), 1, 1000));
        delivered += drain(&mut path, Instant::from_millis(millisecond)).len();
    }
    assert_eq!(path.counters().dropped.total(), 0);
    assert!(path.counters().in_flight >= 499, "{:?}", path.counters());
    // Sent at 0, 1, … ms, each 1 ms in transmission and 500 ms on the way: those sent by 1498 ms are there.
    assert_eq!(delivered, 1499);
}

#[test]
fn lateness_of_the_caller_is_no_error_of_the_rate() {
    let mut path = path(DirectionSettings { queue: limits(1000), ..slow() });
    for id in 0..100 {
        path.arrive(packet(Instant::ZERO, id, 1000));
    }
    // Nobody looks for 95 ms; then the 5 that are left come exactly when they should.
    let late = Instant::from_millis(95);
    path.advance(late);
    let mut count = 0;
    while path.deliver(late).is_some() {
        count += 1;
    }
    assert_eq!(count, 95);
    // The first was due at 1 ms, the last just then: 94 + 93 + … + 0.
    let counters = path.counters();
    assert_eq!(counters.late_peak, Duration::from_millis(94));
    assert_eq!(counters.late_total, Duration::from_millis(94 * 95 / 2));
    let out = drain(&mut path, Instant::from_millis(200));
    assert_eq!(out.first().map(|(at, _)| *at), Some(96_000_000));
    assert_eq!(out.last().map(|(at, _)| *at), Some(100_000_000));
}

#[test]
fn the_overhead_takes_time_and_counts_in_the_queue() {
    let mut path = path(slow());
    path.arrive(Packet::new(vec![0; 1000], 14, Instant::ZERO));
    path.arrive(Packet::new(vec![0; 1000], 14, Instant::ZERO));
    assert_eq!(path.counters().backlog_bytes, 1014);
    let out = drain(&mut path, Instant::from_millis(10));
    assert_eq!(out.last().map(|(at, _)| *at), Some(2_028_000));
}

#[test]
fn a_packet_longer_than_the_mtu_is_dropped_and_counted() {
    let mut path = path(slow());
    path.arrive(packet(Instant::ZERO, 1, 1501));
    path.arrive(packet(Instant::ZERO, 2, 1500));
    assert_eq!(path.counters().dropped.too_big, 1);
    assert_eq!(drain(&mut path, Instant::from_millis(9)), [(1_500_000, 2)]);
}

#[test]
fn a_cut_loses_what_waits_what_flies_and_what_comes() {
    let mut path = path(DirectionSettings { delay: Duration::from_millis(5), ..slow() });
    for id in 0..4 {
        path.arrive(packet(Instant::ZERO, id, 1000));
    }
    let cut = Instant::from_nanos(1_500_000);
    path.set_up(cut, false);
    path.arrive(packet(Instant::from_millis(2), 9, 1000));
    let counters = path.counters();
    assert_eq!((counters.dropped.down, counters.in_flight, counters.backlog_packets), (5, 0, 0));
    path.set_up(Instant::from_millis(10), true);
    path.arrive(packet(Instant::from_millis(10), 7, 1000));
    assert_eq!(drain(&mut path, Instant::from_millis(30)), [(16_000_000, 7)]);
}

#[test]
fn a_new_rate_holds_for_the_packets_that_have_not_started() {
    let mut path = path(slow());
    for id in 0..3 {
        path.arrive(packet(Instant::ZERO, id, 1000));
    }
    let faster = DirectionSettings { rate: Some(Rate::from_bits_per_second(80_000_000)), ..slow() };
    path.reconfigure(Instant::from_nanos(500_000), faster);
    let out: Vec<u64> = drain(&mut path, Instant::from_millis(9)).iter().map(|(at, _)| *at).collect();
    assert_eq!(out, [1_000_000, 1_100_000, 1_200_000]);
}

#[test]
fn a_rate_of_zero_holds_packets_until_there_is_one() {
    let mut path = path(DirectionSettings { rate: Some(Rate::from_bits_per_second(0)), ..slow() });
    path.arrive(packet(Instant::ZERO, 1, 1000));
    assert_eq!(path.next_wake(), None);
    path.reconfigure(Instant::from_millis(1), slow());
    assert_eq!(drain(&mut path, Instant::from_millis(9)), [(2_000_000, 1)]);
}

/// Random operations: nothing is lost from the books, nothing overtakes, and the same seed does the same.
#[test]
fn random_operations_conserve_packets_and_keep_their_order() {
    let run = |seed: u64| {
        let mut random = Rng::new(seed, "operations");
        let settings = DirectionSettings {
            delay: Duration::from_micros(random.below(5000)),
            queue: limits(1 + random.below(20) as u32),
            loss: 0.1,
            ..slow()
        };
        let mut path = Path::new(settings, 1500, Rng::new(seed, "path"));
        let (mut now, mut log) = (0, Vec::new());
        for id in 0..400 {
            now += random.below(1_500_000);
            match random.below(20) {
                0 => path.set_up(Instant::from_nanos(now), random.chance(0.7)),
                1 => path.reconfigure(
                    Instant::from_nanos(now),
                    DirectionSettings { delay: Duration::from_micros(random.below(5000)), ..settings },
                ),
                _ => path.arrive(packet(Instant::from_nanos(now), id, 20 + random.below(1490) as usize)),
            }
            log.extend(drain(&mut path, Instant::from_nanos(now)));
        }
        log.extend(drain(&mut path, Instant::FAR_FUTURE));
        let end = path.counters();
        assert_eq!(end.packets_in, end.packets_out + end.dropped.total());
        assert!(log.is_sorted_by_key(|(_, id)| *id) && log.is_sorted_by_key(|(at, _)| *at));
        log
    };
    for seed in 0..100 {
        assert_eq!(run(seed), run(seed));
    }
}
