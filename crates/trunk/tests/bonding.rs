//! Bonded paths, both ends: whatever paths do, packets of a flow come out in order and once.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::common::{Whole, class, offer, segment, transmitter};
use trunkline_trunk::bonding::{Order, Resequencer, Turn};
use trunkline_trunk::{
    ClassOnPaths, ClassSettings, Label, LaneGroup, LaneId, LaneSnapshot, Offered, PacketStore,
    PathConditions, PathPolicy, PathSettings, Poll, Transmitter, TrunkPlan,
};
use trunkline_units::{Instant, Rate, Rng};

const PATHS: usize = 3;
const FLOWS: u16 = 5;

/// A bonded class of so many lanes on each of three paths.
fn plan(lanes: u8) -> TrunkPlan {
    let mut all = class("all", vec![], 1_000_000);
    all.paths = PathPolicy::Bonded;
    let path = |name: &str| PathSettings { name: name.into(), cost: 0 };
    TrunkPlan::new(vec![all], vec![LaneGroup::new("all", lanes)])
        .on_paths(["dsl", "lte", "sat"].map(path).to_vec())
}

fn at(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

/// A packet in a lane: when it comes out of it, its place, its flow and which packet of the flow it is.
type InLane = (u64, Order, u16, u32);

/// The lane of a path.
#[derive(Default)]
struct Lane {
    packets: VecDeque<InLane>,
    /// Those that it took and that came out of it: places in its stream.
    taken: u64,
    delivered: u64,
}

struct Model {
    random: Rng,
    transmitter: Transmitter<Whole>,
    resequencer: Resequencer<(u16, u32)>,
    now_us: u64,
    /// By path; `None` of one that is down.
    lanes: [Option<Lane>; PATHS],
    /// Paths of which nothing is heard, though what their lanes hold comes later.
    silent: [bool; PATHS],
    /// One way, µs.
    delays: [u64; PATHS],
    offered: BTreeMap<u16, u32>,
    passed_on: BTreeMap<u16, Vec<u32>>,
    fails: bool,
}

/// Copies what is kept.
struct Store;

impl PacketStore<Whole> for Store {
    fn copy(&mut self, packet: &Whole) -> Option<Whole> {
        Some(packet.clone())
    }

    fn release(&mut self, _: Whole) {}
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut random = Rng::new(seed, "bonding");
        let mut transmitter = transmitter(plan(1));
        let delays = [0; PATHS].map(|_| 1000 + random.below(60_000));
        for (lane, delay) in (0..).map(LaneId).zip(delays) {
            let snapshot = LaneSnapshot {
                srtt: Some(Duration::from_micros(2 * delay)),
                delivery_rate: Some(Rate::from_mbit(1.0 + random.below(50) as f64)),
                ..LaneSnapshot::default()
            };
            transmitter.handle_lane(at(0), lane, &snapshot, 0);
        }
        Model {
            random,
            transmitter,
            resequencer: Resequencer::default(),
            now_us: 0,
            lanes: [(); PATHS].map(|()| Some(Lane::default())),
            silent: [false; PATHS],
            delays,
            offered: BTreeMap::new(),
            passed_on: BTreeMap::new(),
            fails: false,
        }
    }

    /// Some packets of a flow, which wait for lanes that are up.
    fn offer(&mut self) {
        let port = self.random.below(FLOWS.into()) as u16;
        let up = self.up();
        for _ in 0..=self.random.below(40) {
            let number = self.offered.entry(port).or_default();
            match offer(&mut self.transmitter, at(self.now_us), segment(port, 1 + *number * 1000, 1000)) {
                Offered::QueuedFor(lanes) => assert!(up == 0 || lanes & !up == 0, "{lanes:b} of {up:b}"),
                other => panic!("{other:?}"),
            }
            *number += 1;
        }
    }

    fn up(&self) -> u32 {
        (0..PATHS)
            .filter(|path| self.lanes[*path].is_some() && !self.silent[*path])
            .map(|path| 1 << path)
            .sum()
    }

    /// A lane takes some of what waits.
    fn serve(&mut self, path: usize) {
        let Some(lane) = self.lanes[path].as_mut().filter(|_| !self.silent[path]) else { return };
        let id = LaneId(path as u8);
        let mut room = 1 + self.random.below(30_000) as usize;
        let has_backlog = self.transmitter.has_backlog(id);
        let mut takes_some = false;
        loop {
            match self.transmitter.poll_transmit(at(self.now_us), id, &mut room, Store) {
                Poll::Labelled(Label::Order(order), packet) => {
                    let (port, _) = packet.headers().ports.expect("TCP");
                    let seq = packet.bytes[24..28].iter().fold(0, |seq, byte| seq << 8 | u32::from(*byte));
                    // A repair delays all behind it.
                    let repair = if self.random.chance(0.02) { 30_000 } else { 0 };
                    let earliest = lane.packets.back().map_or(0, |(arrival, ..)| *arrival);
                    let arrival = (self.now_us + self.delays[path] + repair).max(earliest);
                    lane.packets.push_back((arrival, order, port, (seq - 1) / 1000));
                    lane.taken += 1;
                    takes_some = true;
                }
                Poll::Nothing => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(takes_some, has_backlog, "a lane with a backlog takes of it, and no other");
        self.transmitter.handle_transmitted(id, lane.taken);
    }

    /// The lane goes down with what it holds, or another one comes up in its place.
    fn change(&mut self, path: usize) {
        self.lanes[path] = match self.lanes[path].take() {
            Some(_) => {
                self.fails = true;
                self.transmitter.handle_lane_lost(LaneId(path as u8));
                None
            }
            None => Some(Lane::default()),
        };
        self.silent[path] = false;
        self.update_paths();
    }

    /// Nothing is heard on the path any more, or something again. What its lane holds comes when it does.
    fn fall_silent(&mut self, path: usize) {
        self.silent[path] = !self.silent[path] && self.lanes[path].is_some();
        if self.silent[path] {
            self.fails = true;
            self.transmitter.handle_path_silent(path as u8);
        }
        self.update_paths();
    }

    fn update_paths(&mut self) {
        let up = (0..PATHS).filter(|path| self.lanes[*path].is_some()).map(|path| 1 << path).sum();
        let paths = self.silent.map(|is_silent| PathConditions { is_silent, ..PathConditions::default() });
        let own = |_: &ClassSettings, _: ClassOnPaths| None;
        let moved = self.transmitter.handle_paths(at(self.now_us), up, &paths, own, drop);
        let heard = self.up();
        assert!(heard == 0 || moved & !heard == 0, "{moved:b} of {heard:b}");
    }

    /// Time passes; what comes out of the lanes meanwhile.
    fn advance(&mut self, us: u64) {
        for _ in 0..us / 100 {
            self.now_us += 100;
            let now = at(self.now_us);
            for (path, lane) in self.lanes.iter_mut().enumerate() {
                let Some(lane) = lane.as_mut().filter(|_| !self.silent[path]) else { continue };
                while let Some((arrival, order, port, number)) = lane.packets.front().copied()
                    && arrival <= self.now_us
                {
                    lane.packets.pop_front();
                    lane.delivered += 1;
                    self.transmitter.handle_delivered(LaneId(path as u8), lane.delivered);
                    match self.resequencer.handle(now, order) {
                        Turn::Now => self.passed_on.entry(port).or_default().push(number),
                        Turn::Early => self.resequencer.hold(now, order, (port, number), 1000),
                        Turn::Again => {}
                    }
                    while let Some((port, number)) = self.resequencer.poll() {
                        self.passed_on.entry(port).or_default().push(number);
                    }
                }
            }
            self.resequencer.handle_timeout(now);
            while let Some((port, number)) = self.resequencer.poll() {
                self.passed_on.entry(port).or_default().push(number);
            }
        }
    }

    fn waits(&self) -> bool {
        (0..PATHS as u8).any(|lane| self.transmitter.has_backlog(LaneId(lane)))
    }
}

fn run(seed: u64, paths_fail: bool) {
    let mut model = Model::new(seed);
    for _ in 0..400 {
        let path = model.random.below(PATHS as u64) as usize;
        match model.random.below(20) {
            0..8 => model.offer(),
            8..16 => model.serve(path),
            16 if paths_fail => model.change(path),
            17 if paths_fail => model.fall_silent(path),
            _ => {
                let us = model.random.below(20_000);
                model.advance(us);
            }
        }
    }
    for path in 0..PATHS {
        if model.lanes[path].is_none() {
            model.change(path);
        }
        if model.silent[path] {
            model.fall_silent(path);
        }
    }
    for _ in 0..10_000 {
        (0..PATHS).for_each(|path| model.serve(path));
        model.advance(1000);
        if !model.waits() {
            break;
        }
    }
    model.advance(1_000_000);
    while model.transmitter.poll_spent().is_some() {}
    assert_eq!(model.transmitter.all_held_bytes(), 0, "seed {seed}: no copy is left");
    assert!(!model.waits() && model.resequencer.held_bytes() == 0, "seed {seed}");
    let stats = model.resequencer.stats().clone();
    let offered: u32 = model.offered.values().sum();
    let passed_on: usize = model.passed_on.values().map(Vec::len).sum();
    assert_eq!(passed_on, offered as usize, "seed {seed}: all");
    let mut out_of_order = 0;
    for numbers in model.passed_on.values() {
        out_of_order += numbers.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), numbers.len(), "seed {seed}: none comes twice");
    }
    assert!(out_of_order <= stats.late, "seed {seed}: {out_of_order} out of order, {stats:?}");
    if !model.fails {
        let counts = (stats.late, stats.given_up, stats.duplicates);
        assert_eq!(counts, (0, 0, 0), "seed {seed}: nothing was missing for long");
    }
}

#[test]
fn paths_that_work_deliver_everything_in_order() {
    (0..150).for_each(|seed| run(seed, false));
}

#[test]
fn paths_that_fail_and_lanes_that_end_lose_nothing() {
    (1000..1150).for_each(|seed| run(seed, true));
}

#[test]
fn with_several_lanes_on_each_path_a_flow_keeps_to_the_same_of_each() {
    let mut transmitter = transmitter(plan(2));
    for port in 0..20 {
        let Offered::QueuedFor(lanes) = offer(&mut transmitter, at(0), segment(port, 1, 100)) else {
            panic!("bonded");
        };
        assert!([0b01_0101, 0b10_1010].contains(&lanes), "{lanes:b}");
        let Offered::QueuedFor(again) = offer(&mut transmitter, at(0), segment(port, 101, 100)) else {
            panic!("bonded");
        };
        assert_eq!(again, lanes);
    }
}

#[test]
fn a_dearer_path_takes_packets_only_while_no_other_works() {
    let mut plan = plan(1);
    plan.paths[2].cost = 1;
    let mut transmitter = transmitter(plan);
    let mut usable = |up: u32, silent: bool| {
        let own = |_: &ClassSettings, _: ClassOnPaths| None;
        let path = PathConditions { is_silent: silent, ..PathConditions::default() };
        let paths = [path, PathConditions::default(), PathConditions::default()];
        transmitter.handle_paths(at(0), up, &paths, own, drop);
        let Offered::QueuedFor(lanes) = offer(&mut transmitter, at(0), segment(1, 1, 0)) else {
            panic!("bonded");
        };
        lanes
    };
    assert_eq!(usable(0b111, false), 0b011);
    assert_eq!(usable(0b111, true), 0b010, "one is silent");
    assert_eq!(usable(0b110, false), 0b010);
    assert_eq!(usable(0b100, false), 0b100);
}

#[test]
fn what_waits_for_several_lanes_counts_once() {
    let mut transmitter = transmitter(plan(1));
    for number in 0..10 {
        let _ = offer(&mut transmitter, at(0), segment(1, 1 + number * 1000, 1000));
    }
    let held: usize = (0..PATHS as u8).map(|lane| transmitter.held_bytes(LaneId(lane))).sum();
    assert_eq!(held, transmitter.all_held_bytes());
}
