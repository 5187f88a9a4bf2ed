//! The controller of a path in a closed loop with a fluid model of the path: one bottleneck with a buffer, rivals that fill it or
//! do not, jitter, and machines that stand still.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_trunk::LaneId;
use trunkline_trunk::path::{Arrival, GroupShare, LaneDemand, PathControl, PathLane, PathMode, Signal};
use trunkline_units::{Instant, Rate, Rng};

const LANE: PathLane = lane(0);

const fn lane(number: u8) -> PathLane {
    PathLane::new(0, LaneId(number))
}

fn acknowledged(at: Instant, bytes: u64, delay: Option<u32>) -> Arrival {
    Arrival { signal: Signal::RoundTrip, at, bytes, delay, paced: Duration::ZERO, age: None }
}

/// A path, at steps of a millisecond.
struct Path {
    /// bit/s.
    capacity: f64,
    /// Seconds, there and back.
    rtt: f64,
    /// Seconds at the present capacity.
    buffer: f64,
    /// The largest delay that is added to each report's least delay, seconds.
    jitter: f64,
    /// What is added to all delays in 150 of 450 ms, as where data waits behind losses, seconds.
    late: f64,
    /// Elastic rivals: windows of additive increase and multiplicative decrease, bits.
    rivals: Vec<f64>,
    /// Traffic that does not yield, bit/s.
    inelastic: f64,
    /// What the trunk's own lanes would send without a bound, as multiples of the capacity.
    eager: f64,
    /// The trunk has a hundredth of the capacity to send.
    idle: bool,
    /// Reports are not made for so many milliseconds: a machine stands still.
    stall: u64,
    /// The far end reports what arrives, beside the acknowledgements.
    reported_there: bool,
    /// The queue on the way back, seconds.
    way_back: f64,
    /// In a millisecond, the chance that our machine stops to serve the lanes, for up to 20 ms.
    preempted: f64,
    pause: u64,

    control: PathControl,
    time: u64,
    /// Bits that wait: ours and others'.
    waiting: [f64; 2],
    arrived: f64,
    least: [f64; 2],
    reports: VecDeque<(u64, Arrival)>,
    /// Bits that had arrived at the last acknowledgement, and at the last report.
    reported: [f64; 2],
    /// Our own window where the bound is off, bits: the lane's own congestion control.
    window: f64,
    /// Segments of ours that were sent, and lost.
    sent: f64,
    lost: f64,
    rng: Rng,
    log: Log,
}

/// Sums over a stretch of time.
#[derive(Debug, Default, Clone)]
struct Log {
    steps: u64,
    queue: f64,
    queues: Vec<f64>,
    used: f64,
    ours: f64,
    competing: u64,
    lost: f64,
}

impl Log {
    fn mean_queue_ms(&self) -> f64 {
        self.queue / self.steps as f64 * 1e3
    }

    fn queue_ms(&self, percentile: f64) -> f64 {
        let mut all = self.queues.clone();
        all.sort_unstable_by(f64::total_cmp);
        all[((all.len() - 1) as f64 * percentile) as usize] * 1e3
    }

    fn utilisation(&self) -> f64 {
        self.used / self.steps as f64
    }

    fn share(&self) -> f64 {
        self.ours / self.steps as f64
    }

    fn competing(&self) -> f64 {
        self.competing as f64 / self.steps as f64
    }
}

impl Path {
    fn new(mbit: f64, rtt_ms: f64) -> Self {
        Path {
            capacity: mbit * 1e6,
            rtt: rtt_ms / 1e3,
            buffer: 0.050,
            jitter: 0.0,
            late: 0.0,
            rivals: Vec::new(),
            inelastic: 0.0,
            eager: 1.3,
            idle: false,
            stall: 0,
            reported_there: false,
            way_back: 0.0,
            preempted: 0.0,
            pause: 0,
            control: PathControl::default(),
            time: 0,
            waiting: [0.0; 2],
            arrived: 0.0,
            least: [f64::INFINITY; 2],
            reports: VecDeque::new(),
            reported: [0.0; 2],
            window: 0.0,
            sent: 0.0,
            lost: 0.0,
            rng: Rng::new(1, "path"),
            log: Log::default(),
        }
    }

    /// A millisecond.
    fn step(&mut self) {
        const MS: f64 = 0.001;
        let now = Instant::from_millis(self.time);
        let delay = self.waiting.iter().sum::<f64>() / self.capacity;
        let round = self.rtt + delay;
        // Without a bound the lane's own congestion control sends: a window as its rivals have.
        let own = if self.rivals.is_empty() {
            self.capacity * self.eager
        } else {
            self.window.max(12_000.0) / round
        };
        let rate = self
            .control
            .grant(LANE)
            .rate
            .map_or(own, |rate| (rate.bits_per_second() as f64).min(self.capacity * 3.0));
        let rate = if self.idle { self.capacity * 0.01 } else { rate };
        if self.control.mode() == PathMode::Held {
            self.window = rate * round;
        }
        if self.pause == 0 && self.rng.chance(self.preempted) {
            self.pause = 1 + self.rng.below(20);
        }
        // Nothing is sent meanwhile, and nothing is made up for.
        let rate = if self.pause > 0 { 0.0 } else { rate };
        self.pause = self.pause.saturating_sub(1);
        let others: f64 = self.rivals.iter().map(|window| window / round).sum::<f64>() + self.inelastic;
        self.waiting[0] += rate * MS;
        self.sent += rate * MS / 12_000.0;
        self.waiting[1] += others * MS;
        let total: f64 = self.waiting.iter().sum();
        let served = total.min(self.capacity * MS);
        let part = if total > 0.0 { self.waiting[0] / total } else { 0.0 };
        self.waiting[0] -= served * part;
        self.waiting[1] -= served * (1.0 - part);
        self.arrived += served * part;
        let left: f64 = self.waiting.iter().sum();
        let room = self.capacity * self.buffer;
        if left > room {
            let keep = room / left;
            self.log.lost += left - room;
            self.lost += (left - room) * part / 12_000.0;
            self.waiting.iter_mut().for_each(|bits| *bits *= keep);
            // About one in three of the windows meets a loss.
            for window in &mut self.rivals {
                if self.rng.chance(0.02) {
                    *window *= 0.7;
                }
            }
            if self.rng.chance(0.02) {
                self.window *= 0.7;
            }
        }
        // A segment each round trip.
        for window in self.rivals.iter_mut().chain([&mut self.window]) {
            *window += 8.0 * 12_000.0 * MS / round;
        }
        let queue = self.waiting.iter().sum::<f64>() / self.capacity;
        let late = if (self.time / 150).is_multiple_of(3) { self.late } else { 0.0 };
        let way_there = self.rtt / 2.0 + queue + self.rng.uniform() * self.jitter + late;
        let delays = [way_there + self.rtt / 2.0 + self.way_back, way_there];
        if self.stall > 0 {
            self.stall -= 1;
        }
        for (signal, delay) in [Signal::RoundTrip, Signal::OneWay].into_iter().zip(delays) {
            let of = signal as usize;
            self.least[of] = self.least[of].min(delay);
            // A gateway looks at a lane when it can send: two segments at a time, if the rate is low.
            let (interval, bits) = if of == 0 { (20, 2.0 * 12_000.0) } else { (10, 72_000.0) };
            let due = self.time.is_multiple_of(interval) && self.arrived - self.reported[of] >= bits;
            if !due || self.stall > 0 || (signal == Signal::OneWay && !self.reported_there) {
                continue;
            }
            self.reported[of] = self.arrived;
            let arrives = self.time + ((self.rtt / 2.0 + self.way_back) * 1e3) as u64;
            let arrival = Arrival {
                signal,
                // The clock of acknowledgements is our own.
                at: if of == 0 { Instant::from_millis(arrives) } else { now },
                bytes: (self.arrived / 8.0) as u64,
                // The clocks of the two sites differ, and wrap.
                delay: Some((((self.least[of] * 1e6) as i64) - 5_000) as u32),
                paced: Duration::ZERO,
                age: Some(Duration::from_secs_f64(delays[0])),
            };
            self.least[of] = f64::INFINITY;
            self.reports.push_back((arrives, arrival));
        }
        while self.reports.front().is_some_and(|(at, _)| *at <= self.time) {
            let Some((_, arrival)) = self.reports.pop_front() else { break };
            let min_rtt = Some(Duration::from_secs_f64(self.rtt));
            self.control.handle_demand(
                now,
                LANE,
                GroupShare::weighted(0, 1.0),
                LaneDemand {
                    waiting: !self.idle,
                    busy: !self.idle,
                    segment: 1448.0,
                    min_rtt,
                    window_rate: None,
                    segments_sent: self.sent as u32,
                    retransmissions: self.lost as u32,
                },
            );
            let _ = self.control.handle_arrival(now, LANE, arrival);
        }
        self.time += 1;
        self.log.steps += 1;
        self.log.queue += queue;
        self.log.queues.push(queue);
        self.log.used += served / (self.capacity * MS);
        self.log.ours += served * part / (self.capacity * MS);
        self.log.competing += u64::from(self.control.mode() == PathMode::Competing);
    }

    /// Runs for so long; what was seen in it.
    fn run(&mut self, millis: u64) -> Log {
        self.log = Log::default();
        (0..millis).for_each(|_| self.step());
        std::mem::take(&mut self.log)
    }
}

/// Once the controller has found its place.
fn settled(mbit: f64, rtt_ms: f64) -> Path {
    settled_with(mbit, rtt_ms, false)
}

fn settled_with(mbit: f64, rtt_ms: f64, reported_there: bool) -> Path {
    let mut path = Path { reported_there, ..Path::new(mbit, rtt_ms) };
    let _ = path.run(5000);
    path
}

#[test]
fn the_queue_moves_to_the_edge_and_the_path_stays_full() {
    for (mbit, rtt, mean, p99) in [
        (5.0, 30.0, 9.0, 12.0),
        (50.0, 2.0, 4.0, 5.0),
        (50.0, 30.0, 4.0, 6.0),
        (50.0, 200.0, 5.0, 10.0),
        (1000.0, 0.2, 3.0, 5.0),
        (1000.0, 30.0, 3.0, 5.0),
        (20.0, 600.0, 10.0, 25.0),
    ] {
        for reports in [false, true] {
            let mut path = settled_with(mbit, rtt, reports);
            let log = path.run(30_000);
            let (queue, late, used) = (log.mean_queue_ms(), log.queue_ms(0.99), log.utilisation());
            let what = format!(
                "{mbit} Mbit/s, {rtt} ms, reports {reports}: mean {queue:.2} ms, p99 {late:.2} ms, use {used:.3}"
            );
            assert!(queue <= mean && late <= p99 && used >= 0.98, "{what}");
            assert_eq!(path.control.mode(), PathMode::Held, "{what}");
        }
    }
}

/// The way back belongs to others: a queue there, whatever it does, is none of ours.
#[test]
fn a_queue_on_the_way_back_costs_nothing_where_the_far_end_reports() {
    for (low, high, period) in [(0.0, 0.2, 1000), (0.05, 0.1, 300), (0.1, 0.1, 1)] {
        let mut path = settled_with(50.0, 30.0, true);
        let mut log = Log::default();
        for ms in 0..30_000_u64 {
            path.way_back = low + (high - low) * (ms % period) as f64 / period as f64;
            path.step();
            if ms == 4000 {
                path.log = Log::default();
            }
        }
        std::mem::swap(&mut log, &mut path.log);
        let what = format!("{low} to {high}: use {}, queue {} ms", log.utilisation(), log.queue_ms(0.99));
        assert!(log.utilisation() >= 0.99 && log.queue_ms(0.99) <= 15.0 && log.competing() == 0.0, "{what}");
    }
}

/// A machine whose processors others take for a third of the time sends less than it may. That is not the capacity.
#[test]
fn a_machine_that_is_busy_with_other_things_gets_what_it_has_time_for() {
    for (preempted, jitter) in [(0.03, 0.004), (0.06, 0.010)] {
        for reports in [false, true] {
            let mut path = settled_with(50.0, 30.0, reports);
            (path.preempted, path.jitter) = (preempted, jitter);
            let _ = path.run(5000);
            let log = path.run(60_000);
            // The mean pause is 10.5 ms.
            let awake = 1.0 / (1.0 + preempted * 10.5);
            let (used, mode) = (log.utilisation(), path.control.mode());
            let capacity = path.control.status().capacity.map_or(0.0, Rate::as_mbit);
            let what =
                format!("{preempted}, {reports}: use {used:.3} of {awake:.3}, C {capacity:.1}, {mode:?}");
            assert!(used >= 0.85 * awake && capacity >= 40.0 && log.competing() == 0.0, "{what}");
        }
    }
}

/// A far end that stops to report, as one that is older does, leaves the acknowledgements to go by.
#[test]
fn without_reports_the_path_goes_by_acknowledgements() {
    let mut path = settled_with(50.0, 30.0, true);
    assert_eq!(path.control.status().signal, Signal::OneWay);
    for reported_there in [false, true] {
        path.reported_there = reported_there;
        let _ = path.run(2000);
        let log = path.run(10_000);
        assert_eq!(path.control.status().signal == Signal::OneWay, reported_there);
        let what = format!("use {}, queue {} ms", log.utilisation(), log.queue_ms(0.99));
        assert!(log.utilisation() >= 0.98 && log.queue_ms(0.99) <= 12.0, "{reported_there}: {what}");
    }
}

/// An idle time before, or after, does not hide a queue.
#[test]
fn a_queue_after_an_idle_time_is_seen_within_a_second() {
    let mut path = Path::new(50.0, 30.0);
    path.idle = true;
    let _ = path.run(4000);
    path.idle = false;
    let _ = path.run(1000);
    assert_eq!(path.control.mode(), PathMode::Held);
}

#[test]
fn jitter_costs_a_little_queue_and_no_capacity() {
    for jitter in [0.002, 0.005, 0.020] {
        let mut path = Path::new(50.0, 30.0);
        path.jitter = jitter;
        let _ = path.run(5000);
        let log = path.run(30_000);
        let (queue, used) = (log.queue_ms(0.99), log.utilisation());
        assert!(queue <= 10.0 && used >= 0.98 && log.competing() == 0.0, "{jitter}: {queue} ms, {used}");
    }
}

#[test]
fn it_follows_the_capacity_down_and_up() {
    let mut path = settled(100.0, 30.0);
    for (mbit, first) in [(40.0, 0.98), (80.0, 0.7), (10.0, 0.98), (100.0, 0.25)] {
        path.capacity = mbit * 1e6;
        let step = path.run(1500);
        let log = path.run(3500);
        let what = format!("{mbit} Mbit/s: {} in the first 1.5 s", step.utilisation());
        assert!(step.utilisation() >= first, "{what}");
        assert!(log.utilisation() >= 0.97 && log.queue_ms(0.9) <= 12.0, "{what}, then {}", log.utilisation());
    }
    assert_eq!(path.control.mode(), PathMode::Held);
}

/// A modem that becomes a fibre: nothing of what was measured holds any longer, and the first windows have eight packets.
#[test]
fn a_path_that_was_very_slow_is_not_kept_slow() {
    for (slow, fast) in [(0.1, 10.0), (0.5, 50.0), (2.0, 1000.0)] {
        let mut path = Path::new(slow, 30.0);
        path.buffer = 1.0;
        let _ = path.run(20_000);
        assert_eq!(path.control.mode(), PathMode::Held, "{slow} Mbit/s");
        path.buffer = 0.050;
        path.capacity = fast * 1e6;
        let step = path.run(15_000);
        let log = path.run(3000);
        let what = format!("{slow} to {fast} Mbit/s: {} at first", step.utilisation());
        assert!(log.utilisation() >= 0.98 && log.queue_ms(0.9) <= 12.0, "{what}, then {}", log.utilisation());
    }
}

/// A little traffic over a path on which the delay is longer for other reasons is not the capacity.
#[test]
fn a_few_packets_that_take_long_bound_nothing() {
    let mut path = Path::new(100.0, 2.0);
    let _ = path.run(1000);
    path.control = PathControl::default();
    path.idle = true;
    let _ = path.run(2000);
    path.rtt = 0.020;
    for busy in [0, 40, 20, 60] {
        path.idle = false;
        path.eager = 0.02;
        let _ = path.run(busy);
        path.idle = true;
        let _ = path.run(500);
        assert_eq!(path.control.mode(), PathMode::Free, "{busy} ms");
    }
}

#[test]
fn a_path_that_becomes_longer_is_no_queue() {
    let mut path = settled(50.0, 30.0);
    for rtt in [0.050, 0.080, 0.010, 0.030] {
        path.rtt = rtt;
        let change = path.run(2000);
        let log = path.run(4000);
        let what = format!("{rtt} s: {}, then {}", change.utilisation(), log.utilisation());
        assert!(change.utilisation() >= 0.9 && log.utilisation() >= 0.98, "{what}");
        assert!(log.mean_queue_ms() <= 4.0 && change.competing() + log.competing() == 0.0, "{what}");
    }
}

/// A handover of a satellite: a moment without any packet, whose queue drains, and then a longer path.
#[test]
fn a_longer_path_is_seen_behind_a_burst() {
    for reports in [false, true] {
        let mut path = settled_with(50.0, 30.0, reports);
        path.rtt = 0.050;
        path.waiting[1] = path.capacity * 0.050;
        let _ = path.run(3000);
        let log = path.run(4000);
        let what = format!("reports {reports}: use {}, queue {} ms", log.utilisation(), log.mean_queue_ms());
        assert!(log.utilisation() >= 0.98 && log.mean_queue_ms() <= 4.0 && log.competing() == 0.0, "{what}");
    }
}

/// Delays that vary are no sign that a queue drains, and what stays of them is none.
#[test]
fn a_longer_path_is_seen_through_delays_that_vary() {
    for (jitter, late, longer) in
        [(0.003, 0.0, 0.060), (0.010, 0.0, 0.090), (0.002, 0.080, 0.100), (0.0, 0.060, 0.080)]
    {
        let mut path = Path::new(50.0, 30.0);
        path.jitter = jitter;
        let _ = path.run(8000);
        (path.rtt, path.late) = (longer, late);
        let change = path.run(4000);
        let log = path.run(8000);
        let what =
            format!("{jitter}, {late}, {longer}: {}, then {}", change.utilisation(), log.utilisation());
        assert!(change.utilisation() >= 0.5 && log.utilisation() >= 0.8, "{what}");
    }
}

/// A radio link that adapts: more capacity and a few milliseconds more, below the queue that would be judged.
#[test]
fn a_path_that_becomes_faster_and_a_little_longer_is_filled() {
    for added in [0.0015, 0.003, 0.0045] {
        let mut path = settled_with(10.0, 10.0, true);
        path.capacity = 25e6;
        path.rtt += 2.0 * added;
        // One just above the target is seen once in the epoch of the base delay.
        let change = path.run(if added < 0.004 { 3000 } else { 8000 });
        let log = path.run(4000);
        let what = format!("{added}: {}, then {}", change.utilisation(), log.utilisation());
        assert!(log.utilisation() >= 0.95 && log.queue_ms(0.9) <= 12.0, "{what}");
    }
}

/// A delay that is added for good, shorter than any queue that would be judged: delayed acknowledgements, or longer packets.
#[test]
fn a_delay_of_a_few_milliseconds_that_stays_costs_no_capacity() {
    for (added, mbit) in [(0.0025, 50.0), (0.0035, 50.0), (0.0045, 50.0), (0.0045, 5.0), (0.003, 1000.0)] {
        let mut path = settled(mbit, 30.0);
        path.rtt += 2.0 * added;
        let first = path.run(5000);
        let log = path.run(10_000);
        let what = format!("{added} s at {mbit} Mbit/s: {}, then {}", first.utilisation(), log.utilisation());
        assert!(first.utilisation() >= 0.9 && log.utilisation() >= 0.97, "{what}");
    }
}

#[test]
fn beside_rivals_that_fill_the_buffer_it_gets_its_share_and_their_end_is_seen() {
    for (rivals, low, high) in [(1, 0.35, 0.65), (4, 0.12, 0.30)] {
        let mut path = settled(50.0, 30.0);
        path.rivals = vec![100_000.0; rivals];
        let begin = path.run(2500);
        assert_eq!(path.control.mode(), PathMode::Competing, "{rivals}: found out within 2.5 s");
        assert!(begin.share() > low, "{rivals}: {}", begin.share());
        let log = path.run(60_000);
        assert!((low..high).contains(&log.share()), "{rivals}: {}", log.share());
        assert!(log.competing() > 0.85, "{rivals}: probes are rare: {}", log.competing());
        path.rivals.clear();
        let _ = path.run(2500);
        let log = path.run(5000);
        assert_eq!(path.control.mode(), PathMode::Held, "{rivals}: gone");
        assert!(log.queue_ms(0.99) <= 6.0 && log.utilisation() >= 0.98, "{rivals}: {}", log.queue_ms(0.99));
    }
}

#[test]
fn traffic_that_does_not_yield_takes_what_it_needs_and_no_buffer() {
    for part in [0.3, 0.6] {
        let mut path = Path::new(50.0, 30.0);
        path.inelastic = 50e6 * part;
        let _ = path.run(5000);
        let log = path.run(20_000);
        let what = format!("{part}: share {}, {} ms", log.share(), log.mean_queue_ms());
        assert!((log.share() - (1.0 - part)).abs() < 0.02 && log.mean_queue_ms() <= 8.0, "{what}");
        assert!(log.competing() <= 0.05, "{what}");
    }
}

#[test]
fn a_machine_that_stands_still_looks_neither_like_a_queue_nor_like_a_rival() {
    let mut path = settled(50.0, 30.0);
    for round in 0..30 {
        path.stall = [20, 50, 200, 500, 2000][round % 5];
        let log = path.run(3000);
        // Two of three seconds may fall into the moment in which it lets the path drain, at 0.8 of the rate.
        assert!(log.utilisation() >= 0.85 && log.competing() == 0.0, "round {round}: {}", log.utilisation());
        assert!(log.mean_queue_ms() <= 6.0, "round {round}: {}", log.mean_queue_ms());
    }
}

#[test]
fn what_a_lane_with_little_to_send_delivers_is_not_taken_for_the_capacity() {
    let mut path = settled(50.0, 30.0);
    path.idle = true;
    let _ = path.run(20_000);
    path.idle = false;
    let log = path.run(1000);
    assert!(log.utilisation() >= 0.9, "{}", log.utilisation());
}

/// Two packets of the size that the lanes send: on a slow way back, which carries acknowledgements, two full ones would be all that its
/// buffer holds.
#[test]
fn the_queue_that_is_let_stand_is_two_packets_of_the_size_that_lanes_send() {
    let target = |size: u64| {
        let mut control = PathControl::default();
        for tick in 0..500_u64 {
            let now = Instant::from_millis(tick * 20);
            let bytes = tick * 500;
            let demand = LaneDemand {
                waiting: false,
                busy: true,
                segment: size as f64,
                min_rtt: Some(Duration::from_millis(30)),
                window_rate: None,
                segments_sent: 0,
                retransmissions: 0,
            };
            control.handle_demand(now, lane(0), GroupShare::weighted(0, 1.0), demand);
            let _ = control.handle_arrival(now, lane(0), acknowledged(now, bytes, Some(0)));
        }
        control.status().target.as_secs_f64() * 1000.0
    };
    // At 200 kbit/s, with headers of 52 bytes.
    for (size, expected) in [(1448, 122.0), (100, 14.2), (20, 7.8)] {
        assert!((target(size) - expected).abs() < expected * 0.04, "{size} bytes: {}", target(size));
    }
}

#[test]
fn lanes_share_by_weight_and_one_with_little_to_send_leaves_the_rest() {
    let mut control = PathControl::default();
    let demand = |waiting| LaneDemand {
        waiting,
        busy: waiting,
        segment: 1448.0,
        min_rtt: Some(Duration::from_millis(30)),
        window_rate: None,
        segments_sent: 0,
        retransmissions: 0,
    };
    let mut sent = [0.0_f64; 3];
    // 30, 70 and a lane that sends 5 Mbit/s whatever it is granted, on a path of 100 Mbit/s whose queue is 40 ms at first.
    let mut queue = 0.040_f64;
    for tick in 0..1000_u64 {
        let now = Instant::from_millis(tick * 20);
        for (number, weight) in (0..).zip([30.0, 70.0, 10.0]) {
            let lane = lane(number);
            let share = GroupShare::weighted(number.into(), weight);
            control.handle_demand(now, lane, share, demand(number < 2));
            let granted = control.grant(lane).rate.map_or(50e6, |rate| rate.bits_per_second() as f64);
            sent[usize::from(number)] += 0.020 * if number == 2 { 5e6 } else { granted };
            let delay = Some((queue * 1e6) as u32);
            let arrival = acknowledged(now, (sent[usize::from(number)] / 8.0) as u64, delay);
            let _ = control.handle_arrival(now, lane, arrival);
        }
        let rate =
            |number| control.grant(lane(number)).rate.map_or(50e6, |rate| rate.bits_per_second() as f64);
        queue = (queue + (rate(0) + rate(1) + 5e6 - 100e6) * 0.020 / 100e6).clamp(0.0, 0.050);
        // The first delays are those of an empty path.
        queue = if tick < 3 { 0.0 } else { queue };
    }
    let grants =
        [0, 1].map(|number| control.grant(lane(number)).rate.expect("held").bits_per_second() as f64);
    assert!((grants[0] / (grants[0] + grants[1]) - 0.3).abs() < 0.005, "{grants:?}");
    assert!((90e6..100e6).contains(&(grants[0] + grants[1])), "{grants:?}");
}

/// A lane that was slow a moment ago has its share as soon as packets wait for it and its window allows more.
#[test]
fn a_lane_that_was_slow_is_not_kept_slow() {
    let mut control = PathControl::default();
    let mut sent = [0.0_f64; 2];
    let mut queue = 0.0_f64;
    let rate = |control: &PathControl, number| {
        control.grant(lane(number)).rate.map_or(12e6, |rate| rate.bits_per_second() as f64)
    };
    for tick in 0..500_u64 {
        let now = Instant::from_millis(tick * 20);
        for number in 0..2 {
            // For five seconds the second lane's window is so small that it gets a twentieth.
            let small = number == 1 && tick < 250;
            let demand = LaneDemand {
                waiting: true,
                busy: true,
                segment: 1448.0,
                min_rtt: Some(Duration::from_millis(20)),
                window_rate: Some(Rate::from_mbit(if small { 0.5 } else { 40.0 })),
                segments_sent: 0,
                retransmissions: 0,
            };
            control.handle_demand(now, lane(number), GroupShare::weighted(number.into(), 1.0), demand);
            let sends = if small { rate(&control, number).min(0.5e6) } else { rate(&control, number) };
            sent[usize::from(number)] += 0.020 * sends;
            queue = if tick < 3 { 0.0 } else { (queue + (sends - 5e6) * 0.020 / 10e6).clamp(0.0, 0.084) };
            let bytes = (sent[usize::from(number)] / 8.0) as u64;
            let _ = control.handle_arrival(
                now,
                lane(number),
                acknowledged(now, bytes, Some((queue * 1e6) as u32)),
            );
        }
        let shares = [0, 1].map(|number| rate(&control, number));
        match tick {
            200..250 => assert!(shares[0] > 9.0 * shares[1], "the rest is the first one's: {shares:?}"),
            300.. => assert!((shares[0] - shares[1]).abs() < 1e6, "{tick}: {shares:?}"),
            _ => {}
        }
    }
}

/// Nothing that a peer or a kernel may say makes it panic, and a rate is never below the minimum.
#[test]
fn any_reports_are_survived() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed, "reports");
        let (mut control, mut now) = (PathControl::default(), 0);
        for _ in 0..3000 {
            let most = if rng.chance(0.01) { 10_000_000 } else { 30_000 };
            now += rng.below(most);
            let number = rng.below(4) as u8;
            let lane = PathLane::new(rng.below(2) as u16, LaneId(number));
            let now_at = Instant::from_nanos(now * 1000);
            match rng.below(10) {
                0 => control.remove_lane(lane),
                1..=3 => control.handle_demand(
                    now_at,
                    lane,
                    GroupShare {
                        group: u32::from(number) / 2,
                        weight: 1.0 + rng.uniform() * 100.0,
                        guarantee: rng.chance(0.2).then(|| Rate::from_bits_per_second(rng.next_u64() >> 30)),
                        priority: rng.chance(0.2),
                    },
                    LaneDemand {
                        waiting: rng.chance(0.7),
                        busy: rng.chance(0.5),
                        segment: 1448.0,
                        min_rtt: rng.chance(0.8).then(|| Duration::from_micros(rng.below(2_000_000))),
                        window_rate: rng
                            .chance(0.5)
                            .then(|| Rate::from_bits_per_second(rng.next_u64() >> 30)),
                        segments_sent: rng.next_u64() as u32,
                        retransmissions: rng.next_u64() as u32,
                    },
                ),
                _ => {
                    let wild = rng.chance(0.2);
                    let arrival = Arrival {
                        signal: if rng.chance(0.5) { Signal::OneWay } else { Signal::RoundTrip },
                        paced: Duration::from_micros(now % 20_000),
                        age: rng.chance(0.8).then(|| Duration::from_micros(rng.next_u64() >> 30)),
                        at: Instant::from_nanos(if wild { rng.next_u64() / 2 } else { now * 1000 }),
                        bytes: if wild { rng.next_u64() } else { now / 10 },
                        delay: rng
                            .chance(0.8)
                            .then(|| if wild { rng.next_u64() as u32 } else { rng.below(90_000) as u32 }),
                    };
                    let _ = control.handle_arrival(now_at, lane, arrival);
                }
            }
            for number in 0..5 {
                let grant = control.grant(PathLane::new(rng.below(2) as u16, LaneId(number)));
                assert!(
                    grant.rate.is_none_or(|rate| rate.bits_per_second() >= 64_000),
                    "seed {seed}: {grant:?}"
                );
                assert!(grant.flight.is_none_or(|bytes| bytes >= 3000), "seed {seed}: {grant:?}");
            }
            assert!(control.status().queue.is_none_or(|queue| queue >= Duration::ZERO));
        }
    }
}
