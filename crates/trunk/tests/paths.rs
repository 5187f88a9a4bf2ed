//! Several paths to a peer: what the transmitter does with flows and with what waits.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{Whole, class, next, offer, segment, transmitter};
use trunkline_trunk::{
    ClassId, ClassOnPaths, ClassSettings, Label, LaneGroup, LaneId, Offered, PacketStore, PathConditions,
    PathPolicy, PathSettings, Poll, Transmitter, TrunkPlan,
};
use trunkline_units::{Instant, Rate};

/// A group of so many lanes on each of two paths, the second of 20 Mbit/s and the first of 50.
fn plan(lanes: u8, policy: PathPolicy) -> TrunkPlan {
    let mut all = class("all", vec![], 1000);
    all.paths = policy;
    TrunkPlan::new(vec![all], vec![LaneGroup::new("all", lanes)]).on_paths(two())
}

fn two() -> Vec<PathSettings> {
    ["dsl", "lte"].map(|name| PathSettings { name: name.into(), cost: 0 }).to_vec()
}

fn conditions(silent: [bool; 2]) -> [PathConditions; 2] {
    [0, 1].map(|path| PathConditions {
        is_silent: silent[path],
        capacity: Some(Rate::from_mbit([50.0, 20.0][path])),
        delay: Some(Duration::from_millis([30, 20][path])),
    })
}

/// Leaves every class on the paths of its policy.
fn own(_: &ClassSettings, _: ClassOnPaths) -> Option<u8> {
    None
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn queued(transmitter: &mut Transmitter<Whole>, now: Instant, port: u16, seq: u32) -> LaneId {
    match offer(transmitter, now, segment(port, seq, 1000)) {
        Offered::Queued(lane) => lane,
        other => panic!("{other:?}"),
    }
}

fn seqs(transmitter: &mut Transmitter<Whole>, lane: LaneId) -> BTreeMap<u16, Vec<u32>> {
    let mut seqs: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    while let Some(packet) = next(transmitter, at(0), lane) {
        let headers = packet.headers();
        let (port, _) = headers.ports.expect("TCP");
        let seq = packet.bytes[24..28].iter().fold(0, |seq, byte| seq << 8 | u32::from(*byte));
        seqs.entry(port).or_default().push(seq);
    }
    seqs
}

#[test]
fn the_lanes_of_a_group_are_those_of_the_first_path_then_those_of_the_second() {
    let plan = plan(3, PathPolicy::Spread);
    assert_eq!(plan.lane_count(), 6);
    let places: Vec<(u8, u8)> = (0..6).map(|lane| plan.path_of(LaneId(lane))).collect();
    assert_eq!(places, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    assert_eq!(plan.lane("all", 1, 2), Some(LaneId(5)));
    for none in [("all", 2, 0), ("all", 0, 3), ("other", 0, 0)] {
        assert_eq!(plan.lane(none.0, none.1, none.2), None, "{none:?}");
    }
    let one = TrunkPlan::new(vec![class("all", vec![], 10)], vec![LaneGroup::new("all", 9)]);
    assert!(one.fits_paths(3) && !one.fits_paths(4), "36 lanes");
}

#[test]
fn flows_are_spread_by_capacity_and_stay() {
    let mut transmitter = transmitter(plan(2, PathPolicy::Spread));
    assert_eq!(transmitter.handle_paths(at(0), 0b1111, &conditions([false; 2]), own, drop), 0);
    let lanes: Vec<LaneId> = (0..70).map(|port| queued(&mut transmitter, at(0), port, 1)).collect();
    let on_second = lanes.iter().filter(|lane| lane.0 >= 2).count();
    assert!((19..=21).contains(&on_second), "{on_second} of 70");
    for lane in 0..4 {
        let flows = lanes.iter().filter(|known| known.0 == lane).count();
        assert!((9..=26).contains(&flows), "{flows} on lane {lane}");
    }
    transmitter.handle_paths(at(50), 0b1111, &conditions([false; 2]), own, drop);
    for (port, lane) in (0..).zip(&lanes) {
        assert_eq!(queued(&mut transmitter, at(100), port, 1001), *lane);
    }
}

#[test]
fn what_waits_for_a_path_that_fails_moves_in_order_and_is_counted_once() {
    for (up, silent) in [(0b10, [false, false]), (0b11, [true, false])] {
        let mut transmitter = transmitter(plan(1, PathPolicy::Spread));
        transmitter.handle_paths(at(0), 0b11, &conditions([false; 2]), own, drop);
        let mut on_first = 0;
        for seq in 0..5 {
            for port in 0..7 {
                let lane = queued(&mut transmitter, at(1), port, 1 + seq * 1000);
                on_first += u32::from(lane == LaneId(0));
            }
        }
        assert!(on_first >= 20, "{on_first}");
        let moved =
            transmitter.handle_paths(at(10), up, &conditions(silent), own, |packet| panic!("{packet:?}"));
        assert_eq!(moved, 0b10);
        assert!(!transmitter.has_backlog(LaneId(0)) && transmitter.has_backlog(LaneId(1)));
        let report = &transmitter.report(at(10))[0];
        assert_eq!((report.queue.segments_in, report.queue.backlog_segments), (35, 35));
        let seqs = seqs(&mut transmitter, LaneId(1));
        assert_eq!(seqs.len(), 7);
        for (port, seqs) in &seqs {
            assert_eq!(*seqs, [1, 1001, 2001, 3001, 4001], "port {port}");
        }
        assert_eq!(queued(&mut transmitter, at(20), 0, 5001), LaneId(1), "and its next packets follow");
        // Nothing moves back when the path works again.
        assert_eq!(transmitter.handle_paths(at(30), 0b11, &conditions([false; 2]), own, drop), 0);
        assert_eq!(queued(&mut transmitter, at(40), 0, 6001), LaneId(1));
    }
}

#[test]
fn a_class_with_a_guarantee_is_asked_for_and_moves_in_order_when_it_is_handed_over() {
    let mut plan = plan(1, PathPolicy::Named(vec!["dsl".into(), "lte".into()]));
    let mut asked = Vec::new();
    transmitter(plan.clone()).handle_paths(
        at(0),
        0b11,
        &conditions([false; 2]),
        |_, on| {
            asked.push(on);
            None
        },
        drop,
    );
    assert_eq!(asked, [], "it has no guarantee");
    plan.classes[0].share.guarantee = Some(Rate::from_mbit(4.0));
    let mut transmitter = transmitter(plan);
    for seq in [1, 1001] {
        assert_eq!(queued(&mut transmitter, at(0), 5, seq), LaneId(0));
    }
    assert!(next(&mut transmitter, at(0), LaneId(0)).is_some());
    let mut hand_over = |class: &ClassSettings, on: ClassOnPaths| {
        assert_eq!(&*class.name, "all");
        asked.push(on);
        Some(1)
    };
    let moved = transmitter.handle_paths(at(10), 0b11, &conditions([false; 2]), &mut hand_over, drop);
    assert_eq!(moved, 0b10);
    assert_eq!(queued(&mut transmitter, at(20), 5, 2001), LaneId(1));
    assert_eq!(seqs(&mut transmitter, LaneId(1))[&5], [1001, 2001]);
    transmitter.handle_paths(at(30), 0b11, &conditions([false; 2]), &mut hand_over, drop);
    let sent = asked[0].sent[0];
    assert!(sent >= 1000, "{sent}");
    let before = ClassOnPaths {
        sent: [sent, 0, 0, 0],
        waiting: 0b01,
        target: 0b01,
        preferred: 0b01,
        allowed: 0b11,
        assigned: None,
    };
    let after =
        ClassOnPaths { sent: [sent, 2 * sent, 0, 0], waiting: 0, target: 0b10, assigned: Some(1), ..before };
    assert_eq!(asked, [before, after]);
}

#[test]
fn a_silent_path_lets_retransmissions_pass_and_another_path_carries_them() {
    let mut transmitter = transmitter(plan(1, PathPolicy::Named(vec!["dsl".into(), "lte".into()])));
    transmitter.handle_paths(at(0), 0b11, &conditions([false; 2]), own, drop);
    assert_eq!(queued(&mut transmitter, at(0), 5, 1), LaneId(0));
    assert!(next(&mut transmitter, at(0), LaneId(0)).is_some());
    transmitter.handle_transmitted(LaneId(0), 1040);
    assert_eq!(offer(&mut transmitter, at(200), segment(5, 1, 1000)), Offered::Dropped, "it is in transit");
    transmitter.handle_path_silent(0);
    transmitter.handle_paths(at(210), 0b11, &conditions([true, false]), own, drop);
    assert_eq!(queued(&mut transmitter, at(220), 5, 1), LaneId(1));
}

#[test]
fn a_path_that_is_learnt_later_leaves_the_first_as_it_is() {
    let one = TrunkPlan::new(vec![class("all", vec![], 1000)], vec![LaneGroup::new("all", 2)]);
    let mut transmitter = transmitter(one.clone());
    let lanes: Vec<LaneId> = (0..10).map(|port| queued(&mut transmitter, at(0), port, 1)).collect();
    transmitter.reconfigure(at(10), one.on_paths(two()), |packet| panic!("{packet:?}"));
    transmitter.handle_paths(at(10), 0b0011, &conditions([false; 2]), own, drop);
    for (port, lane) in (0..).zip(&lanes) {
        assert_eq!(queued(&mut transmitter, at(20), port, 1001), *lane);
    }
    // And one that is forgotten.
    transmitter.handle_paths(at(30), 0b1111, &conditions([false; 2]), own, drop);
    transmitter.reconfigure(at(40), one, |packet| panic!("{packet:?}"));
    assert_eq!(transmitter.backlog(ClassId(0)).0, 20);
}

/// The numbers of what waits for a lane; `None` of a packet that goes once.
fn numbers(transmitter: &mut Transmitter<Whole>, lane: u8) -> Vec<Option<u32>> {
    let mut numbers = Vec::new();
    loop {
        match transmitter.poll_transmit(at(0), LaneId(lane), &mut (1 << 20), drop) {
            Poll::Labelled(Label::Number(number), _) => numbers.push(Some(number.number)),
            Poll::Packet(_) => numbers.push(None),
            _ => return numbers,
        }
    }
}

struct Copies;

impl PacketStore<Whole> for Copies {
    fn copy(&mut self, packet: &Whole) -> Option<Whole> {
        Some(packet.clone())
    }

    fn release(&mut self, _: Whole) {}
}

#[test]
fn duplicated_packets_take_the_fastest_path_and_another_that_works() {
    let mut transmitter = transmitter(plan(1, PathPolicy::Duplicate));
    let offer = |transmitter: &mut Transmitter<Whole>, silent, seq| {
        transmitter.handle_paths(at(0), 0b11, &conditions(silent), own, drop);
        let packet = segment(1, seq, 1000);
        transmitter.handle_packet(at(0), &packet.headers(), packet, Copies)
    };
    for seq in [1, 1001] {
        assert_eq!(offer(&mut transmitter, [false; 2], seq), Offered::QueuedFor(0b11));
    }
    let both = [0, 1].map(|lane| numbers(&mut transmitter, lane));
    assert!(both[0] == both[1] && both[0].len() == 2 && both[0].iter().all(Option::is_some), "{both:?}");
    assert_eq!(offer(&mut transmitter, [true, false], 2001), Offered::Queued(LaneId(1)));
    assert_eq!(offer(&mut transmitter, [false, true], 3001), Offered::Queued(LaneId(0)));
}
