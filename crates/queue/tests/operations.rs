//! Every discipline under random operations: what holds for a queue whatever it drops.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_queue::{
    CoDelSettings, Conditions, DropReason, FqCoDelSettings, FredSettings, Item, Limits, PieSettings, Queue,
    RedSettings, Settings, TrunkSettings, Unit,
};
use trunkline_units::{Instant, Rate, Rng};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packet {
    id: u32,
    flow: u64,
    segments: u32,
    segment_bytes: usize,
    ecn: bool,
    marked: bool,
}

impl Item for Packet {
    fn bytes(&self) -> usize {
        40 + self.segments as usize * self.segment_bytes
    }
    fn segments(&self) -> u32 {
        self.segments
    }
    fn flow(&self) -> u64 {
        self.flow
    }
    fn is_ecn_capable(&self) -> bool {
        self.ecn
    }
    fn mark(&mut self) {
        assert!(self.ecn, "only what can be marked is marked");
        self.marked = true;
    }
    fn trim(&mut self, keep: u32) {
        assert!((1..self.segments).contains(&keep));
        self.segments = keep;
    }
}

/// Small and eager, so that every rule comes into play.
fn disciplines() -> [Settings; 9] {
    let limits = Limits { segments: 60, bytes: 18_000 };
    let red =
        RedSettings { limits, min: 5_000, max: 12_000, max_p: 0.2, weight: 0.05, ..RedSettings::default() };
    let codel = CoDelSettings {
        limits,
        target: Duration::from_micros(500),
        interval: Duration::from_millis(3),
        ..CoDelSettings::default()
    };
    [
        Settings::TailDrop(limits),
        Settings::FairTailDrop(limits),
        Settings::Red(red),
        Settings::Red(RedSettings { unit: Unit::Segments, min: 10, max: 30, gentle: true, ..red }),
        Settings::Fred(FredSettings {
            limits,
            min: 8,
            max: 24,
            weight: 0.05,
            max_p: 0.2,
            ..FredSettings::default()
        }),
        Settings::CoDel(codel),
        Settings::FqCoDel(FqCoDelSettings { codel, queues: 8, quantum: 300 }),
        Settings::Pie(PieSettings {
            limits,
            target: Duration::from_millis(1),
            update: Duration::from_millis(1),
            burst: Duration::from_millis(5),
            ..PieSettings::default()
        }),
        Settings::Trunk(TrunkSettings { limits, threshold: 0.3, max_p: 0.3, ..TrunkSettings::default() }),
    ]
}

fn keeps_order_of_all(settings: Settings) -> bool {
    !matches!(settings, Settings::FqCoDel(_))
}

fn random_packet(rng: &mut Rng, id: u32) -> Packet {
    let segments = if rng.chance(0.3) { 1 + rng.below(20) as u32 } else { 1 };
    let segment_bytes = 50 + rng.below(500) as usize;
    Packet { id, flow: rng.below(12), segments, segment_bytes, ecn: rng.chance(0.3), marked: false }
}

/// One line for whatever happens.
#[derive(Debug, Clone, PartialEq)]
enum Event {
    Queued(u32, u32),
    Sent(Packet),
    Dropped(Packet, DropReason),
}

struct Run {
    queue: Queue<Packet>,
    rng: Rng,
    now: u64,
    /// Flow, segments and arrival of each packet that waits, as far as this side knows: fewer segments may wait, but not more.
    waiting: BTreeMap<u32, (u64, u32, Instant)>,
    log: Vec<Event>,
}

impl Run {
    fn new(settings: Settings, seed: u64) -> Self {
        let queue = Queue::new(settings, seed);
        Run { queue, rng: Rng::new(seed, "operations"), now: 0, waiting: BTreeMap::new(), log: Vec::new() }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn enqueue(&mut self, packet: Packet) {
        let mut dropped = Vec::new();
        let waits = self.queue.enqueue(self.now(), packet, &mut |item, reason| dropped.push((item, reason)));
        assert!(waits <= packet.segments);
        let lost_itself = dropped.iter().any(|(item, _)| item.id == packet.id);
        assert_eq!(waits == 0, lost_itself, "a packet waits or comes back");
        self.log.push(Event::Queued(packet.id, waits));
        self.waiting.insert(packet.id, (packet.flow, packet.segments, self.now()));
        self.gone(dropped);
        let (stats, limits) = (self.queue.stats(), self.queue.settings().limits());
        assert!(stats.backlog_segments <= u64::from(limits.segments), "{stats:?}");
        assert!(stats.backlog_bytes <= limits.bytes, "{stats:?}");
    }

    fn dequeue(&mut self) {
        let mut dropped = Vec::new();
        let next = self.queue.dequeue(self.now(), &mut |item, reason| dropped.push((item, reason)));
        self.gone(dropped);
        let Some(next) = next else {
            assert!(
                self.queue.is_empty() && self.waiting.is_empty(),
                "a queue that is not empty gives something"
            );
            return;
        };
        let (flow, segments, _) =
            self.waiting.remove(&next.item.id).expect("what leaves was there, and only once");
        assert!(next.item.segments <= segments && next.item.flow == flow);
        let overtaken = self.waiting.iter().find(|(id, (other, ..))| {
            **id < next.item.id && (*other == flow || keeps_order_of_all(self.queue.settings()))
        });
        assert_eq!(overtaken, None, "{:?} came before", next.item);
        self.log.push(Event::Sent(next.item));
    }

    fn gone(&mut self, dropped: Vec<(Packet, DropReason)>) {
        for (item, reason) in dropped {
            assert!(self.waiting.remove(&item.id).is_some(), "what is dropped was there, and only once");
            self.log.push(Event::Dropped(item, reason));
        }
    }

    fn expire(&mut self) {
        let oldest = Instant::from_nanos(self.now.saturating_sub(1_500_000));
        let mut dropped = Vec::new();
        self.queue.expire(self.now(), oldest, &mut |item: Packet, reason| dropped.push((item, reason)));
        for (item, reason) in &dropped {
            assert!(*reason == DropReason::Expired && self.waiting[&item.id].2 < oldest, "{item:?}");
        }
        self.gone(dropped);
        assert!(self.waiting.values().all(|(_, _, came)| *came >= oldest), "{:?}", self.waiting);
    }

    fn shed(&mut self) {
        let mut dropped = Vec::new();
        let before = self.queue.stats().backlog_segments;
        let some = self.queue.shed(self.now(), &mut |item: Packet, reason| dropped.push((item, reason)));
        assert_eq!((some, dropped.len()), (before > 0, usize::from(before > 0)));
        assert!(dropped.iter().all(|(_, reason)| *reason == DropReason::Memory));
        self.gone(dropped);
    }

    fn step(&mut self, id: u32) {
        self.now += self.rng.below(400_000);
        match self.rng.below(100) {
            0..52 => {
                let packet = random_packet(&mut self.rng, id);
                self.enqueue(packet);
            }
            52..95 => self.dequeue(),
            95 => self.expire(),
            96 => self.shed(),
            97 => {
                let bandwidth = Rate::from_mbit(1.0 + self.rng.below(40) as f64);
                self.queue.observe(&Conditions {
                    rtt_up: Duration::from_millis(5),
                    measured_rtt: self.rng.chance(0.5).then(|| Duration::from_millis(self.rng.below(2000))),
                    bandwidth,
                    window_bytes: self.rng.below(100_000),
                    segment_bytes: 300,
                    flows: self.rng.below(12) as u32,
                });
            }
            98 => self.now += 20_000_000,
            _ => {
                let mut dropped = Vec::new();
                let settings = self.queue.settings();
                self.queue
                    .reconfigure(self.now(), settings, &mut |item, reason| dropped.push((item, reason)));
                assert!(dropped.is_empty(), "the same settings change nothing");
            }
        }
    }

    fn finish(mut self) -> (Vec<Event>, Queue<Packet>) {
        let mut dropped = Vec::new();
        self.queue.flush(self.now(), &mut |item, reason| dropped.push((item, reason)));
        assert!(dropped.iter().all(|(_, reason)| *reason == DropReason::Flushed));
        self.gone(dropped);
        assert!(self.queue.is_empty() && self.waiting.is_empty());
        (self.log, self.queue)
    }
}

fn run(settings: Settings, seed: u64) -> (Vec<Event>, Queue<Packet>) {
    let mut run = Run::new(settings, seed);
    for id in 0..3000 {
        run.step(id);
    }
    run.finish()
}

#[test]
fn every_packet_leaves_once_in_the_order_of_its_flow_and_within_the_limits() {
    for settings in disciplines() {
        for seed in 0..20 {
            let (log, queue) = run(settings, seed);
            let stats = queue.stats();
            assert_eq!(stats.segments_in, stats.segments_out + stats.dropped_total());
            assert_eq!(stats.bytes_in, stats.bytes_out + stats.bytes_dropped);
            assert!(log.len() > 2000);
        }
    }
}

#[test]
fn the_same_seed_drops_the_same_packets_and_another_does_not() {
    for settings in disciplines() {
        let once = run(settings, 5).0;
        assert_eq!(once, run(settings, 5).0);
    }
    // The same operations under another seed of the queue alone: only what draws differs.
    for settings in disciplines() {
        let transcript = |seed| {
            let mut run = Run::new(settings, 5);
            run.queue = Queue::new(settings, seed);
            (0..3000).for_each(|id| run.step(id));
            run.finish().0
        };
        let draws =
            matches!(settings, Settings::Red(_) | Settings::Fred(_) | Settings::Pie(_) | Settings::Trunk(_));
        assert_eq!(transcript(1) != transcript(2), draws, "{settings:?}");
    }
}

#[test]
fn every_rule_of_every_discipline_came_into_play() {
    let reasons: [&[DropReason]; 9] = [
        &[DropReason::SegmentLimit, DropReason::ByteLimit],
        &[DropReason::SegmentLimit, DropReason::ByteLimit, DropReason::DynamicThreshold],
        &[DropReason::Early, DropReason::Forced],
        &[DropReason::Early, DropReason::Forced],
        &[DropReason::Early, DropReason::Forced],
        &[DropReason::Sojourn, DropReason::ByteLimit],
        &[DropReason::Sojourn, DropReason::ByteLimit],
        &[DropReason::Early, DropReason::ByteLimit],
        &[DropReason::Early, DropReason::ByteLimit],
    ];
    for (settings, expected) in disciplines().into_iter().zip(reasons) {
        let mut dropped = [0; DropReason::ALL.len()];
        let (mut marked, mut held_off) = (0, 0);
        for seed in 0..20 {
            let (_, queue) = run(settings, seed);
            for (sum, count) in dropped.iter_mut().zip(queue.stats().dropped) {
                *sum += count;
            }
            marked += queue.stats().marked_total();
            held_off += queue.stats().held_off;
        }
        for reason in expected {
            assert!(dropped[*reason as usize] > 0, "{settings:?}: no {reason:?} in {dropped:?}");
        }
        let signals = !matches!(settings, Settings::TailDrop(_) | Settings::FairTailDrop(_));
        assert_eq!(marked > 0, signals, "{settings:?}");
        assert_eq!(held_off > 0, matches!(settings, Settings::Trunk(_)), "{settings:?}");
    }
}

#[test]
fn marks_are_switched_off_by_their_setting() {
    let off = |settings| match settings {
        Settings::Red(red) => Settings::Red(RedSettings { ecn: false, ..red }),
        Settings::Fred(fred) => Settings::Fred(FredSettings { ecn: false, ..fred }),
        Settings::CoDel(codel) => Settings::CoDel(CoDelSettings { ecn: false, ..codel }),
        Settings::FqCoDel(fq) => {
            Settings::FqCoDel(FqCoDelSettings { codel: CoDelSettings { ecn: false, ..fq.codel }, ..fq })
        }
        Settings::Pie(pie) => Settings::Pie(PieSettings { ecn: false, ..pie }),
        Settings::Trunk(trunk) => Settings::Trunk(TrunkSettings { ecn: false, ..trunk }),
        other => other,
    };
    for settings in disciplines() {
        assert_eq!(run(off(settings), 3).1.stats().marked_total(), 0, "{settings:?}");
    }
}

#[test]
fn the_occupancy_is_the_integral_of_what_waits() {
    let mut queue = Queue::new(Settings::default(), 1);
    let at = Instant::from_millis;
    let packet = |id| Packet { id, flow: 0, segments: 2, segment_bytes: 480, ecn: false, marked: false };
    let mut lost = |item: Packet, _| panic!("{item:?}");
    queue.enqueue(at(10), packet(1), &mut lost);
    let start = queue.stats().occupancy(at(10));
    queue.enqueue(at(20), packet(2), &mut lost);
    queue.dequeue(at(50), &mut lost);
    // 2 segments for 10 ms, 4 for 30, 2 for 10; a packet is 1000 bytes.
    let (segments, bytes) = queue.stats().occupancy(at(60)).mean_since(start, Duration::from_millis(50));
    assert!((segments - 3.2).abs() < 1e-9 && (bytes - 1600.0).abs() < 1e-6, "{segments} {bytes}");
}

#[test]
fn another_discipline_drops_what_waits_and_the_counts_go_on() {
    for (from, to) in disciplines().into_iter().zip(disciplines().into_iter().skip(4)) {
        let mut run = Run::new(from, 1);
        for id in 0..10 {
            let packet = random_packet(&mut run.rng, id);
            run.enqueue(packet);
        }
        let (before, waiting) = (run.queue.stats().segments_in, run.queue.stats().backlog_segments);
        run.now += 1_000_000_000;
        let occupancy = run.queue.stats().occupancy(run.now());
        assert!(occupancy.segment_nanos >= u128::from(waiting) * 1_000_000_000);
        let mut flushed = 0;
        run.queue.reconfigure(run.now(), to, &mut |item, reason| {
            assert_eq!(reason, DropReason::Flushed);
            flushed += u64::from(item.segments);
        });
        assert_eq!((flushed, run.queue.stats().segments_in), (waiting, before));
        assert_eq!(run.queue.stats().occupancy(run.now()), occupancy, "nor does what was summed go back");
        assert!(run.queue.is_empty() && run.queue.settings() == to);
    }
}

/// An owner that is short of memory takes from the flow that fills the queue, where flows are kept apart.
#[test]
fn shedding_takes_from_the_fattest_flow() {
    let mut queue = Queue::new(Settings::FqCoDel(FqCoDelSettings::default()), 1);
    let packet =
        |id: u32, flow| Packet { id, flow, segments: 1, segment_bytes: 100, ecn: false, marked: false };
    let mut lost = |item: Packet, _| panic!("{item:?}");
    queue.enqueue(Instant::ZERO, packet(1, 1), &mut lost);
    for id in 2..50 {
        queue.enqueue(Instant::ZERO, packet(id, 2), &mut lost);
    }
    let mut shed = Vec::new();
    for _ in 0..47 {
        assert!(queue.shed(Instant::ZERO, &mut |item: Packet, _| shed.push(item.id)));
    }
    assert_eq!(shed, (2..49).collect::<Vec<_>>(), "from its head");
    assert_eq!(queue.stats().dropped_for(DropReason::Memory), 47);
}

/// Storage that a burst made is given back with the packets, and packets that stay are not touched.
#[test]
fn what_stays_when_old_packets_expire_leaves_in_order() {
    for settings in disciplines() {
        let mut run = Run::new(settings, 5);
        for id in 0..60 {
            run.now += 40_000;
            let packet = Packet { segments: 1, ..random_packet(&mut run.rng, id) };
            run.enqueue(packet);
        }
        run.expire();
        while !run.queue.is_empty() {
            run.dequeue();
        }
        run.now += 10_000_000;
        run.expire();
        run.finish();
    }
}

/// Whatever the discipline would send, what has waited for longer than allowed is dropped when it is its turn, and nothing else is for
/// that reason.
#[test]
fn what_has_waited_too_long_is_dropped_when_it_is_its_turn() {
    let max = Duration::from_millis(3);
    for settings in disciplines() {
        let mut run = Run::new(settings, 7);
        run.queue.set_max_wait(Some(max));
        for id in 0..2000 {
            run.now += run.rng.below(100_000);
            let packet = random_packet(&mut run.rng, id);
            run.enqueue(packet);
            if !run.rng.chance(0.2) {
                continue;
            }
            let came: BTreeMap<u32, Instant> =
                run.waiting.iter().map(|(id, (.., came))| (*id, *came)).collect();
            let before = run.log.len();
            run.dequeue();
            for event in &run.log[before..] {
                let (packet, is_late) = match event {
                    Event::Sent(packet) => (packet, false),
                    Event::Dropped(packet, DropReason::Expired) => (packet, true),
                    Event::Dropped(..) | Event::Queued(..) => continue,
                };
                let waited = run.now().saturating_since(came[&packet.id]);
                assert_eq!(waited > max, is_late, "{waited:?} {settings:?}");
            }
        }
        let expired = run.queue.stats().dropped_for(DropReason::Expired);
        // CoDel's and PIE's own drops may keep all delays short.
        let short = matches!(settings, Settings::CoDel(_) | Settings::FqCoDel(_) | Settings::Pie(_));
        assert!(expired > 0 || short, "{settings:?}");
        run.finish();
    }
}

#[test]
fn what_is_withdrawn_was_never_offered_and_comes_out_in_the_order_of_its_flow() {
    for settings in disciplines() {
        let mut run = Run::new(settings, 1);
        for id in 0..40 {
            let packet = random_packet(&mut run.rng, id);
            run.enqueue(packet);
        }
        run.dequeue();
        let before = run.queue.stats().clone();
        let mut last: BTreeMap<u64, u32> = BTreeMap::new();
        let (mut segments, mut bytes) = (0, 0);
        while let Some(item) = run.queue.withdraw(run.now()) {
            assert!(run.waiting.remove(&item.id).is_some());
            assert!(last.insert(item.flow, item.id).is_none_or(|earlier| earlier < item.id), "{settings:?}");
            segments += u64::from(item.segments);
            bytes += item.bytes() as u64;
        }
        assert_eq!((segments, bytes), (before.backlog_segments, before.backlog_bytes));
        let after = run.queue.stats();
        assert_eq!(before.segments_in - after.segments_in, segments);
        assert_eq!(before.bytes_in - after.bytes_in, bytes);
        assert_eq!((after.segments_out, after.dropped), (before.segments_out, before.dropped));
        assert!(run.queue.is_empty() && run.waiting.is_empty());
    }
}
