//! What waits at the edge: the memory it holds, how an owner gets it back, and counts that never go back.

use std::time::Duration;

use crate::common::{
    Whole, class, next, offer, protocol, segment, super_packet, tail_drop, transmitter, udp,
};
use trunkline_packet::{Headers, build};
use trunkline_queue::{CoDelSettings, DropReason, FqCoDelSettings, Item, Limits, Settings, TrunkSettings};
use trunkline_trunk::{
    ClassId, ClassSettings, LaneGroup, LaneId, Offered, Packet, Poll, Protocol, Rule, Transmitter, TrunkPlan,
};
use trunkline_units::{Instant, Rng};

const LANE: LaneId = LaneId(0);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn single(queue: Settings) -> TrunkPlan {
    TrunkPlan::one_lane_per_class(vec![ClassSettings::new("all", vec![], queue, 0)])
}

/// Segments from `from` on of the super-packet that `super_packet` builds, one packet.
fn tail_of(whole: &Whole, from: usize) -> Whole {
    let tcp = build::Tcp {
        seq: build::Tcp::default().seq + from as u32 * 1000,
        flags: trunkline_packet::TcpFlags::ACK,
        ..build::Tcp::default()
    };
    Whole::new(build::tcp(&build::Ip::v4(), &tcp, &whole.bytes[40 + from * 1000..40 + (from + 1) * 1000]))
}

/// Nobody has what a discipline cut off: the user's retransmission of it must pass, although the rest still waits.
#[test]
fn what_a_discipline_cut_off_is_not_filtered() {
    let codel = CoDelSettings { limits: Limits { segments: 15, bytes: 1 << 24 }, ..CoDelSettings::default() };
    let mut transmitter =
        transmitter(single(Settings::FqCoDel(FqCoDelSettings { codel, ..FqCoDelSettings::default() })));
    let whole = super_packet(12);
    assert_eq!(offer(&mut transmitter, at(0), whole.clone()), Offered::Queued(LANE));
    let again = tail_of(&whole, 11);
    assert_eq!(offer(&mut transmitter, at(1), again.clone()), Offered::Dropped, "all of it waits");
    // Another flow overfills the queue, and the fattest one loses from its head.
    for id in 0..8 {
        let _ = offer(&mut transmitter, at(2), segment(9000 + id, 1, 100));
    }
    let overflown = transmitter.report(at(2))[0].queue.dropped_for(DropReason::SegmentLimit);
    assert!((1..12).contains(&overflown), "a part of it went: {overflown}");
    assert_eq!(offer(&mut transmitter, at(3), again), Offered::Queued(LANE));
}

#[test]
fn what_was_cut_off_as_it_came_takes_nothing_out_of_transit() {
    let mut transmitter = transmitter(single(tail_drop(11)));
    let first = segment(5000, 1, 1000);
    assert_eq!(offer(&mut transmitter, at(0), first.clone()), Offered::Queued(LANE));
    let tcp = build::Tcp {
        ports: (5000, 80),
        seq: 1001,
        ack: 1,
        flags: trunkline_packet::TcpFlags::ACK,
        ..build::Tcp::default()
    };
    let (bytes, offload) = build::tcp_offloaded(&build::Ip::v4(), &tcp, &[7; 12_000], 1000);
    assert_eq!(offer(&mut transmitter, at(0), Whole { bytes, offload }), Offered::Queued(LANE));
    assert_eq!(transmitter.report(at(0))[0].queue.dropped_for(DropReason::SegmentLimit), 2);
    assert_eq!(offer(&mut transmitter, at(1), first), Offered::Dropped, "it waits still");
}

/// A packet in blocks of 2 KiB.
#[derive(Debug, Clone)]
struct Blocks(Whole);

impl Item for Blocks {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    fn segments(&self) -> u32 {
        self.0.segments()
    }
    fn trim(&mut self, keep: u32) {
        self.0.trim(keep);
    }
}

impl Packet for Blocks {
    fn prefix(&self) -> &[u8] {
        self.0.prefix()
    }
    /// Three blocks, which it keeps when it is cut.
    fn memory_bytes(&self) -> usize {
        6144
    }
}

fn disciplines() -> [Settings; 4] {
    let limits = Limits { segments: 60, bytes: 1 << 24 };
    let codel = CoDelSettings { limits, ..CoDelSettings::default() };
    [
        Settings::TailDrop(limits),
        Settings::CoDel(codel),
        Settings::FqCoDel(FqCoDelSettings { codel, ..FqCoDelSettings::default() }),
        Settings::Trunk(TrunkSettings { limits, ..TrunkSettings::default() }),
    ]
}

/// Whatever happens to packets, the transmitter's account of their memory is that of those it has.
#[test]
fn memory_is_counted_to_the_packet() {
    for (seed, queue) in (0..40).zip(disciplines().into_iter().cycle()) {
        let mut rng = Rng::new(seed, "memory");
        let rule = |number| Rule { protocol: Some(Protocol::Number(number)), ..Rule::default() };
        let two = || {
            let classes = [("tcp", vec![rule(6)]), ("rest", vec![])];
            TrunkPlan::one_lane_per_class(
                classes.map(|(name, rules)| ClassSettings::new(name, rules, queue, 0)).to_vec(),
            )
        };
        let mut transmitter: Transmitter<Blocks> = Transmitter::new(two(), 256, seed);
        let (mut came, mut gone) = (0_usize, 0_usize);
        for step in 0..3000 {
            let now = at(step);
            let lane = LaneId(rng.below(2) as u8);
            let mut count = |_| gone += 1;
            match rng.below(20) {
                0..12 => {
                    let packet = match rng.below(3) {
                        0 => udp(1 + rng.below(5) as u16, 2, rng.below(1200) as usize),
                        1 => segment(9, rng.below(20_000) as u32, 1 + rng.below(1000) as usize),
                        _ => super_packet(1 + rng.below(12) as usize),
                    };
                    came += 1;
                    let headers: Headers = packet.headers();
                    let _ = transmitter.handle_packet(now, &headers, Blocks(packet), count);
                }
                12..16 => {
                    let mut room = rng.below(5000) as usize;
                    while let Poll::Packet(packet) =
                        transmitter.poll_transmit(now, lane, &mut room, &mut count)
                    {
                        count(packet);
                    }
                }
                16 => transmitter.expire(now, lane, at(step.saturating_sub(rng.below(50))), count),
                17 => {
                    let (before, wanted) = (transmitter.all_held_bytes(), 1 + rng.below(40_000) as usize);
                    let freed = transmitter.shed(now, 1 << lane.0, wanted, count);
                    assert_eq!(before - transmitter.all_held_bytes(), freed);
                    assert!(freed < wanted + 6144, "{freed} for {wanted}");
                }
                18 => transmitter.forget_flows(64 << rng.below(3)),
                _ => transmitter.reconfigure(now, two(), count),
            }
            assert_eq!(transmitter.all_held_bytes(), (came - gone) * 6144, "seed {seed}, step {step}");
            assert_eq!(
                transmitter.held_bytes(LaneId(0)) + transmitter.held_bytes(LaneId(1)),
                transmitter.all_held_bytes()
            );
        }
        transmitter.flush(at(3000), |_| gone += 1);
        assert!(came == gone && transmitter.all_held_bytes() == 0);
    }
}

#[test]
fn what_waits_for_a_lane_that_stays_down_expires_and_says_so() {
    let mut transmitter = transmitter(single(tail_drop(100)));
    for step in 0..10 {
        assert_eq!(offer(&mut transmitter, at(step * 1000), udp(1, step as u16, 100)), Offered::Queued(LANE));
    }
    transmitter.expire(at(9_500), LANE, at(7_000), drop);
    let report = &transmitter.report(at(9_500))[0].queue;
    assert_eq!((report.dropped_for(DropReason::Expired), report.backlog_segments), (7, 3));
    let first = next(&mut transmitter, at(9_500), LANE).expect("those that came later");
    assert_eq!(first, udp(1, 7, 100));
}

/// Late packets of a class with `max_wait` make room for fresh ones as soon as the lane has room, and another class keeps its own.
#[test]
fn late_packets_of_a_class_are_dropped_in_place_of_being_sent() {
    let plan = |max_wait| {
        let calls = ClassSettings { max_wait, ..class("calls", vec![protocol(17)], 50) };
        TrunkPlan::one_lane_per_class(vec![calls, class("rest", vec![], 50)])
    };
    let mut transmitter: Transmitter<Whole> =
        Transmitter::new(plan(Some(Duration::from_millis(100))), 1024, 1);
    let rest = LaneId(1);
    for step in 0..10 {
        assert_eq!(offer(&mut transmitter, at(step * 20), udp(1, step as u16, 100)), Offered::Queued(LANE));
        assert_eq!(
            offer(&mut transmitter, at(step * 20), segment(1, 1 + step as u32 * 100, 100)),
            Offered::Queued(rest)
        );
    }
    assert_eq!(next(&mut transmitter, at(201), LANE), Some(udp(1, 6, 100)), "it came at 120 ms");
    let report = &transmitter.report(at(201))[0].queue;
    assert_eq!((report.dropped_for(DropReason::Expired), report.backlog_segments), (6, 3));
    assert_eq!(
        next(&mut transmitter, at(10_000), rest),
        Some(segment(1, 1, 100)),
        "it may wait for as long as it takes"
    );
    // A reload takes the bound away.
    transmitter.reconfigure(at(10_000), plan(None), drop);
    assert_eq!(next(&mut transmitter, at(10_000), LANE), Some(udp(1, 7, 100)));
}

/// Lanes and disciplines of a class may change: what it has counted stays counted.
#[test]
fn a_class_counts_on_whatever_a_reload_makes_of_it() {
    let plan = |lanes: u8, queue: Settings, classes: &[&str]| {
        let classes = classes.iter().map(|name| ClassSettings { queue, ..class(name, vec![], 50) });
        TrunkPlan::new(classes.collect(), vec![LaneGroup::new("g", lanes)])
    };
    let mut transmitter: Transmitter<Whole> = Transmitter::new(plan(4, tail_drop(50), &["all"]), 1024, 1);
    let mut before = transmitter.report(at(0))[0].clone();
    let steps = [
        plan(1, tail_drop(50), &["all"]),
        plan(1, Settings::CoDel(CoDelSettings::default()), &["all"]),
        plan(3, Settings::FqCoDel(FqCoDelSettings::default()), &["all"]),
        plan(2, Settings::Trunk(TrunkSettings::default()), &["first", "all"]),
        plan(1, tail_drop(5), &["all"]),
    ];
    for (round, step) in (1_u64..).zip(steps) {
        let now = at(round * 1000);
        for flow in 0..200 {
            let _ = offer(&mut transmitter, now, udp(flow, 1, 100));
        }
        for lane in 0..transmitter.plan().lane_count() as u8 {
            for _ in 0..3 {
                let _ = next(&mut transmitter, now, LaneId(lane));
            }
        }
        let now = at(round * 1000 + 500);
        transmitter.reconfigure(now, step, drop);
        let number =
            transmitter.plan().classes.iter().position(|class| &*class.name == "all").expect("it stays");
        let after = transmitter.report(now).swap_remove(number);
        let counts = |report: &trunkline_trunk::ClassReport| {
            let queue = &report.queue;
            let mut counts = vec![queue.segments_in, queue.bytes_in, queue.segments_out, queue.bytes_out];
            counts.extend(queue.dropped);
            counts.push(u64::try_from(queue.occupancy(now).segment_nanos / 1000).expect("microseconds"));
            counts.extend(queue.sojourn.counts());
            counts
        };
        let (was, is) = (counts(&before), counts(&after));
        assert!(was.iter().zip(&is).all(|(was, is)| was <= is), "round {round}: {was:?}\n{is:?}");
        let queue = &after.queue;
        assert_eq!(queue.segments_in, queue.segments_out + queue.dropped_total() + queue.backlog_segments);
        if transmitter.plan().classes.len() == 1 {
            assert_eq!(queue.segments_in, round * 200 - if round > 4 { 200 } else { 0 });
        }
        before = after;
    }
    assert_eq!(transmitter.backlog(ClassId(0)).0, before.queue.backlog_segments);
}
