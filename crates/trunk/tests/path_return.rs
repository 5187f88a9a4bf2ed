//! What a path has been through says nothing of what it is. Whatever happened before, a path that is whole again carries its whole
//! rate within seconds.
//!
//! Lanes with the real control ride on a modelled path, packet by packet: TCP with slow start, congestion avoidance, repair of
//! losses and time-outs that back off, a receiver that reads or does not, and reports on the way back. Random events happen to
//! the path, the machines and the lanes.
//!
//! `TRUNKLINE_PATH_SEED=100 TRUNKLINE_PATH_RUNS=1000 cargo test -p trunkline-trunk --test all path_return::` runs others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Whole, class, udp};
use trunkline_trunk::path::SharedPaths;
use trunkline_trunk::{
    ArrivalReport, LaneAction, LaneControl, LaneGroup, LaneId, LaneSnapshot, PathStatus, Paths, Poll,
    Reporting, Rule, Transmitter, TrunkPlan,
};
use trunkline_units::{Instant, Rate, Rng};

const PACKET: u64 = 1448;
const MS: u64 = 1_000_000;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * MS)
}

/// A packet of a connection under way.
#[derive(Debug, Clone, Copy)]
struct Flight {
    lane: usize,
    connection: u32,
    start: u64,
    bytes: u64,
    sent: u64,
}

/// The sender and the receiver of a TCP connection. Places in the stream are in bytes, times in milliseconds.
#[derive(Debug, Default)]
struct Tcp {
    connection: u32,
    cwnd: f64,
    ssthresh: f64,
    written: u64,
    next: u64,
    acknowledged: u64,
    /// Sent and not acknowledged: place, length, when it was sent last, whether the receiver has it, whether it is lost.
    flight: BTreeMap<u64, (u64, u64, bool, bool)>,
    /// Bytes of these that the receiver may get yet, and how many are lost.
    in_flight: u64,
    lost: usize,
    recovery: Option<u64>,
    srtt: Option<f64>,
    min_rtt: Option<f64>,
    rto: u64,
    timer: Option<u64>,
    pacing: Option<Rate>,
    credit: f64,
    /// Packets that may leave together: Linux sends two at least (`tcp_min_tso_segs`).
    burst: u32,
    low_water: usize,
    segments: u32,
    retransmissions: u32,
    /// Of the receiver.
    held: BTreeMap<u64, u64>,
    arrived: u64,
    read: u64,
    packets: u64,
    reporting: Reporting,
}

impl Tcp {
    const RECEIVE_BUFFER: u64 = 3 << 20;

    fn new(connection: u32) -> Self {
        let cwnd = 10.0 * PACKET as f64;
        Tcp { connection, cwnd, ssthresh: f64::INFINITY, rto: 1000, low_water: 1 << 30, ..Tcp::default() }
    }

    /// The next packet that may leave.
    fn poll(&mut self, now: u64, lane: usize) -> Option<Flight> {
        if self.credit >= 0.0 {
            self.burst = 2;
        }
        if self.burst == 0 || self.in_flight as f64 + PACKET as f64 > self.cwnd.max(PACKET as f64) {
            return None;
        }
        let is_lost = |(_, (_, _, has, lost)): &(&u64, &(u64, u64, bool, bool))| *lost && !has;
        let lost = if self.lost > 0 { self.flight.iter().find(is_lost) } else { None };
        let lost = lost.map(|(start, (len, ..))| (*start, *len));
        let (start, bytes, retransmitted) = if let Some((start, len)) = lost {
            (start, len, true)
        } else {
            let window = self.read + Self::RECEIVE_BUFFER;
            let bytes = PACKET.min(self.written - self.next).min(window.saturating_sub(self.next));
            if bytes == 0 {
                return None;
            }
            self.next += bytes;
            (self.next - bytes, bytes, false)
        };
        self.flight.insert(start, (bytes, now, false, false));
        self.in_flight += bytes;
        self.lost -= usize::from(retransmitted);
        self.segments = self.segments.wrapping_add(1);
        self.retransmissions = self.retransmissions.wrapping_add(u32::from(retransmitted));
        self.credit -= bytes as f64;
        self.burst -= 1;
        self.timer.get_or_insert(now + self.rto);
        Some(Flight { lane, connection: self.connection, start, bytes, sent: now })
    }

    /// An acknowledgement of all before `acknowledged`, for a packet that the receiver has.
    fn handle_ack(&mut self, now: u64, acknowledged: u64, packet: Flight) {
        let rtt = (now - packet.sent) as f64;
        self.srtt = Some(self.srtt.map_or(rtt, |srtt| srtt + (rtt - srtt) / 8.0));
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        if let Some((len, _, has, lost)) = self.flight.get_mut(&packet.start) {
            self.in_flight -= if *has || *lost { 0 } else { *len };
            self.lost -= usize::from(*lost);
            (*has, *lost) = (true, false);
        }
        let newly = acknowledged.saturating_sub(self.acknowledged);
        if newly > 0 {
            let bounded = self.in_flight as f64 + newly as f64 + 2.0 * PACKET as f64 >= self.cwnd;
            self.acknowledged = acknowledged;
            let rest = self.flight.split_off(&acknowledged);
            for (len, _, has, lost) in std::mem::replace(&mut self.flight, rest).values() {
                self.in_flight -= if *has || *lost { 0 } else { *len };
                self.lost -= usize::from(*lost);
            }
            if bounded && self.recovery.is_none_or(|until| acknowledged >= until || self.cwnd < self.ssthresh)
            {
                let more = newly as f64;
                self.cwnd += if self.cwnd < self.ssthresh {
                    more
                } else {
                    more * (2.0 * PACKET as f64 / self.cwnd).max(0.1)
                };
            }
            if self.recovery.is_some_and(|until| acknowledged >= until) {
                self.recovery = None;
            }
            self.rto = 200 + 2 * self.srtt.unwrap_or(0.0) as u64;
            self.timer = (!self.flight.is_empty() || self.written > self.next).then_some(now + self.rto);
        }
        // RACK: what was sent a good while before a packet that has arrived is lost.
        let sent = packet.sent;
        let mut found = false;
        for (len, at, has, lost) in self.flight.values_mut() {
            if !*has && !*lost && *at + 4 < sent {
                *lost = true;
                self.in_flight -= *len;
                self.lost += 1;
                found = true;
            }
        }
        if found && self.recovery.is_none() {
            self.ssthresh = (self.cwnd * 0.7).max(2.0 * PACKET as f64);
            self.cwnd = self.ssthresh;
            self.recovery = Some(self.next);
        }
    }

    fn run_out(&mut self, now: u64) {
        let Some(timer) = self.timer.filter(|timer| *timer <= now) else { return };
        if self.flight.is_empty() {
            // A probe of a closed window.
            self.timer = Some(timer + self.rto);
            return;
        }
        self.rto = (self.rto * 2).min(120_000);
        self.timer = Some(now + self.rto);
        if self.cwnd > 1.5 * PACKET as f64 {
            self.ssthresh = (self.cwnd * 0.7).max(2.0 * PACKET as f64);
        }
        self.cwnd = PACKET as f64;
        self.recovery = Some(self.next);
        self.in_flight = 0;
        for (_, _, has, lost) in self.flight.values_mut() {
            self.lost += usize::from(!*has && !*lost);
            *lost |= !*has;
        }
    }

    /// A packet reaches the receiving machine. What it acknowledges then.
    fn receive(&mut self, packet: Flight) -> u64 {
        self.held.insert(packet.start, packet.bytes);
        while let Some(bytes) = self.held.remove(&self.arrived) {
            self.arrived += bytes;
        }
        self.held = self.held.split_off(&self.arrived);
        self.arrived
    }
}

#[derive(Debug)]
struct Lane {
    control: LaneControl,
    tcp: Tcp,
    up: bool,
    /// It takes no more, and is not looked at before the connection is writable, a report comes or it is time.
    full: bool,
    woken: bool,
    held_until: Option<Instant>,
}

enum Back {
    Ack(Flight, u64),
    Report(usize, u32, ArrivalReport),
}

/// One trunk from its edge to the far site.
struct World {
    rng: Rng,
    now: u64,
    transmitter: Transmitter<Whole>,
    paths: Paths,
    lanes: Vec<Lane>,
    connections: u32,
    /// bit/s; 0 while the path is cut.
    capacity: f64,
    cut: bool,
    one_way: u64,
    buffer: f64,
    queue: VecDeque<Flight>,
    /// Bytes in it.
    queued: u64,
    served: f64,
    there: VecDeque<(u64, Flight)>,
    back: VecDeque<(u64, Back)>,
    /// Reports that the near gateway has not read.
    reports: Vec<(usize, u32, ArrivalReport)>,
    loss: f64,
    /// Until when the near and the far gateway stand still.
    stopped: [u64; 2],
    /// By how much the far clock differs, ms.
    clock: u64,
    /// Whether packets of each class come.
    busy: Vec<bool>,
    /// Bytes read at the far site.
    delivered: u64,
    story: Vec<String>,
}

fn plan(lanes: usize) -> TrunkPlan {
    let name = |number: usize| format!("class{number}");
    let classes = (0..lanes).map(|number| {
        let port = 1000 + number as u16;
        let rule = Rule { destination_ports: vec![port..=port], ..Rule::default() };
        let mut class = class(&name(number), vec![rule], 400);
        class.group = number;
        class
    });
    let groups = (0..lanes).map(|number| LaneGroup::new(&name(number), 1)).collect();
    TrunkPlan { edge_pacing: true, ..TrunkPlan::new(classes.collect(), groups) }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, "path return");
        let count = 1 + rng.below(3) as usize;
        let plan = plan(count);
        let mut paths = Paths::new(Arc::new(SharedPaths::default()), 0);
        paths.configure(&plan);
        // A lane that is served once in a millisecond gets three packets: 33 Mbit/s.
        let capacity = [5e6, 20e6, 28e6][rng.below(3) as usize];
        let one_way = [1, 10, 25, 60][rng.below(4) as usize];
        let transmitter = Transmitter::new(plan, 64, seed);
        let clock = 1_000_000 + rng.below(100_000);
        let mut world = World {
            rng,
            now: 0,
            transmitter,
            paths,
            lanes: Vec::new(),
            connections: 0,
            capacity,
            cut: false,
            one_way,
            buffer: 0.05,
            queue: VecDeque::new(),
            queued: 0,
            served: 0.0,
            there: VecDeque::new(),
            back: VecDeque::new(),
            reports: Vec::new(),
            loss: 0.0,
            stopped: [0; 2],
            clock,
            busy: vec![true; count],
            delivered: 0,
            story: Vec::new(),
        };
        for number in 0..count {
            let lane = world.connect(number);
            world.lanes.push(lane);
        }
        world
    }

    fn connect(&mut self, number: usize) -> Lane {
        self.connections += 1;
        let mut control = LaneControl::default();
        control.expect_reports();
        control.configure(self.transmitter.plan(), LaneId(number as u8));
        let mut lane = Lane {
            control,
            tcp: Tcp::new(self.connections),
            up: true,
            full: false,
            woken: false,
            held_until: None,
        };
        apply(&mut lane);
        lane
    }

    /// A lane's connection ends; another takes its place later.
    fn disconnect(&mut self, number: usize) {
        let lane = LaneId(number as u8);
        self.lanes[number].up = false;
        self.transmitter.handle_lane_lost(lane);
        self.paths.remove_lane(lane);
    }

    fn stopped(&self, end: usize) -> bool {
        self.now < self.stopped[end]
    }

    fn snapshot(tcp: &Tcp) -> LaneSnapshot {
        let ms = |ms: f64| Duration::from_secs_f64(ms.max(0.05) / 1e3);
        LaneSnapshot {
            unsent: (tcp.written - tcp.next) as usize,
            unacknowledged: (tcp.next - tcp.acknowledged) as usize,
            srtt: tcp.srtt.map(ms),
            min_rtt: tcp.min_rtt.map(ms),
            window: tcp.cwnd as usize,
            delivery_rate: tcp
                .srtt
                .map(|srtt| Rate::from_bits_per_second((tcp.in_flight as f64 * 8e3 / srtt.max(0.05)) as u64)),
            app_limited: false,
            segments_sent: tcp.segments,
            retransmissions: tcp.retransmissions,
            ..LaneSnapshot::default()
        }
    }

    fn step(&mut self) {
        self.serve_path();
        self.arrive();
        self.read();
        self.come_back();
        if !self.stopped(0) {
            self.offer();
            for number in 0..self.lanes.len() {
                self.serve(number);
            }
            if self.paths.take_changed() {
                let _ = self.paths.poll_change();
                for (number, lane) in self.lanes.iter_mut().enumerate() {
                    lane.control.handle_grant(self.paths.grant(LaneId(number as u8)));
                    apply(lane);
                }
            }
        }
        self.leave();
        self.now += 1;
    }

    fn offer(&mut self) {
        for number in 0..self.lanes.len() {
            let waits = self.transmitter.has_backlog(LaneId(number as u8));
            if !self.busy[number] && (waits || !self.rng.chance(0.01)) {
                continue;
            }
            let wanted = if self.busy[number] { 8 } else { 1 };
            for _ in 0..wanted {
                let packet = udp(7, 1000 + number as u16, 1372);
                let headers = packet.headers();
                let _ = self.transmitter.handle_packet(at(self.now), &headers, packet, drop);
            }
        }
    }

    fn serve(&mut self, number: usize) {
        let (now, id) = (at(self.now), LaneId(number as u8));
        let lane = &mut self.lanes[number];
        if !lane.up {
            return;
        }
        let unsent = (lane.tcp.written - lane.tcp.next) as usize;
        let stalled = std::mem::take(&mut lane.held_until).is_some_and(|until| until <= now);
        if std::mem::replace(&mut lane.full, false)
            && !stalled
            && !lane.woken
            && unsent * 2 >= lane.tcp.low_water
        {
            lane.full = true;
            return;
        }
        lane.woken = false;
        if lane.control.snapshot_due(now) {
            let snapshot = Self::snapshot(&lane.tcp);
            lane.control.handle_snapshot(now, id, (&mut self.transmitter, &mut self.paths), snapshot);
            apply(lane);
        }
        lane.held_until = lane.control.stalled_until(now);
        if lane.held_until.is_some() {
            lane.control.handle_full();
            return;
        }
        while let Some(mut room) = lane.control.room(now, (lane.tcp.written - lane.tcp.next) as usize) {
            let Poll::Packet(packet) = self.transmitter.poll_transmit(now, id, &mut room, drop) else {
                break;
            };
            let bytes = packet.bytes.len() as u64;
            lane.tcp.written += bytes;
            lane.control.handle_written(now, bytes);
            self.transmitter.handle_transmitted(id, lane.control.written());
        }
        lane.full = lane.control.room(now, (lane.tcp.written - lane.tcp.next) as usize).is_none();
    }

    /// What the connections of our machine send: the kernel goes on while the gateway stands still.
    fn leave(&mut self) {
        let count = self.lanes.len();
        for lane in self.lanes.iter_mut().filter(|lane| lane.up) {
            lane.tcp.run_out(self.now);
            let rate = lane.tcp.pacing.map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64);
            let more = rate / 8e3;
            lane.tcp.credit = (lane.tcp.credit + more).min(more.max(PACKET as f64));
        }
        for turn in 0..1000 {
            let first = (self.now as usize + turn) % count;
            let mut some = false;
            for number in (0..count).map(|more| (first + more) % count) {
                if !self.lanes[number].up {
                    continue;
                }
                let Some(flight) = self.lanes[number].tcp.poll(self.now, number) else { continue };
                some = true;
                let full = self.queued as f64 * 8.0 > self.capacity * self.buffer + 24_000.0;
                if !self.cut && !full && !self.rng.chance(self.loss) {
                    self.queued += flight.bytes;
                    self.queue.push_back(flight);
                }
            }
            if !some {
                break;
            }
        }
    }

    fn serve_path(&mut self) {
        if self.cut {
            self.queue.clear();
            self.queued = 0;
            return;
        }
        self.served = (self.served + self.capacity / 8e3).min(self.capacity / 8e3 + PACKET as f64);
        while let Some(flight) =
            self.queue.front().copied().filter(|flight| flight.bytes as f64 <= self.served)
        {
            self.queue.pop_front();
            self.queued -= flight.bytes;
            self.served -= flight.bytes as f64;
            let due = self.now + self.one_way;
            // A path that has become shorter does not reorder.
            let due = self.there.back().map_or(due, |(last, _)| due.max(*last));
            self.there.push_back((due, flight));
        }
        if self.queue.is_empty() {
            self.served = self.served.min(PACKET as f64);
        }
    }

    fn send_back(&mut self, what: Back) {
        if self.cut {
            return;
        }
        let due = self.now + self.one_way;
        let due = self.back.back().map_or(due, |(last, _)| due.max(*last));
        self.back.push_back((due, what));
    }

    fn arrive(&mut self) {
        while self.there.front().is_some_and(|(due, _)| *due <= self.now) {
            let Some((_, flight)) = self.there.pop_front() else { break };
            let tcp = &mut self.lanes[flight.lane].tcp;
            if self.cut || tcp.connection != flight.connection {
                continue;
            }
            let acknowledged = tcp.receive(flight);
            self.send_back(Back::Ack(flight, acknowledged));
        }
    }

    /// The far gateway reads, and reports.
    fn read(&mut self) {
        if self.stopped(1) {
            return;
        }
        for number in 0..self.lanes.len() {
            let now = at(self.now + self.clock);
            let Lane { tcp, up, .. } = &mut self.lanes[number];
            if !*up || tcp.read == tcp.arrived {
                continue;
            }
            self.delivered += tcp.arrived - tcp.read;
            tcp.packets += (tcp.arrived - tcp.read).div_ceil(PACKET);
            tcp.read = tcp.arrived;
            let (connection, report) =
                (tcp.connection, tcp.reporting.handle_received(now, tcp.read, tcp.packets));
            if let Some(report) = report {
                self.send_back(Back::Report(number, connection, report));
            }
        }
    }

    fn come_back(&mut self) {
        while self.back.front().is_some_and(|(due, _)| *due <= self.now) {
            let Some((_, what)) = self.back.pop_front() else { break };
            match what {
                _ if self.cut => {}
                Back::Ack(flight, acknowledged) => {
                    let tcp = &mut self.lanes[flight.lane].tcp;
                    if tcp.connection == flight.connection {
                        tcp.handle_ack(self.now, acknowledged, flight);
                    }
                }
                Back::Report(number, connection, report) => self.reports.push((number, connection, report)),
            }
        }
        // The kernel takes acknowledgements at any time; the gateway reads reports when it runs.
        if self.stopped(0) {
            return;
        }
        for (number, connection, report) in std::mem::take(&mut self.reports) {
            let lane = &mut self.lanes[number];
            if lane.tcp.connection == connection && lane.up {
                lane.control.handle_report(at(self.now), LaneId(number as u8), &mut self.paths, report);
                lane.woken = true;
            }
        }
    }

    fn run(&mut self, ms: u64) -> f64 {
        let before = self.delivered;
        (0..ms).for_each(|_| self.step());
        (self.delivered - before) as f64 * 8e3 / ms as f64
    }

    fn tell(&mut self, what: &str) {
        self.story.push(format!("{:.1} s: {what}", self.now as f64 / 1e3));
    }

    /// Something happens, and is over again.
    fn event(&mut self) {
        let longest = [900, 6000, 15_000][self.rng.below(3) as usize];
        let long = 100 + self.rng.below(longest);
        match self.rng.below(11) {
            0 | 1 => {
                self.tell(&format!("a cut of {long} ms"));
                self.cut = true;
                self.run(long);
                self.cut = false;
            }
            2 => {
                self.tell(&format!("the far gateway stands still for {long} ms"));
                self.stopped[1] = self.now + long;
                self.run(long);
            }
            3 => {
                self.tell(&format!("the near gateway stands still for {long} ms"));
                self.stopped[0] = self.now + long;
                self.run(long);
            }
            4 => {
                self.capacity = [5e6, 20e6, 28e6][self.rng.below(3) as usize];
                self.tell(&format!("{} Mbit/s", self.capacity / 1e6));
            }
            5 => {
                self.one_way = [1, 10, 25, 60][self.rng.below(4) as usize];
                self.tell(&format!("{} ms there and as long back", self.one_way));
            }
            6 => {
                // A new address, or a peer that started again: all lanes end, at once or one after the other.
                let (one_by_one, restarts) = (self.rng.chance(0.5), self.rng.chance(0.5));
                self.tell(&format!(
                    "all lanes end after {long} ms of silence, restart {restarts}, in turn {one_by_one}"
                ));
                self.cut = true;
                self.run(long);
                self.cut = false;
                if restarts {
                    self.clock = 1_000_000 + self.rng.below(200_000);
                }
                for number in 0..self.lanes.len() {
                    self.disconnect(number);
                    if one_by_one {
                        self.run(300);
                        self.lanes[number] = self.connect(number);
                    }
                }
                if !one_by_one {
                    self.run(500);
                    for number in 0..self.lanes.len() {
                        self.lanes[number] = self.connect(number);
                    }
                }
            }
            7 => {
                let number = self.rng.below(self.lanes.len() as u64) as usize;
                self.tell(&format!("lane {number} ends"));
                self.disconnect(number);
                self.run(long / 10);
                self.lanes[number] = self.connect(number);
            }
            8 => {
                self.loss = [0.001, 0.02, 0.2][self.rng.below(3) as usize];
                self.tell(&format!("loss of {} for {long} ms", self.loss));
                self.run(long);
                self.loss = 0.0;
            }
            9 => {
                self.tell(&format!("little to send for {long} ms"));
                self.busy.fill(false);
                self.run(long);
                self.busy.fill(true);
            }
            _ => {
                self.tell(&format!("nothing for {long} ms"));
                self.run(long);
            }
        }
    }
}

fn apply(lane: &mut Lane) {
    while let Some(action) = lane.control.poll_action() {
        match action {
            LaneAction::SetMaxPacingRate(rate) => lane.tcp.pacing = rate,
            LaneAction::SetLowWaterMark(bytes) => lane.tcp.low_water = bytes,
            LaneAction::SetCongestionControl { .. } => {}
        }
    }
}

fn state(status: &PathStatus) -> String {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let rate = |rate: Option<Rate>| rate.map_or(0.0, Rate::as_mbit);
    let PathStatus { mode, rate: held, capacity, queue, target, .. } = status;
    let (queue, target) = (queue.map_or(0.0, ms), ms(*target));
    format!("{mode:?} R {:.2} C {:.2} q {queue:.1} T {target:.1}", rate(*held), rate(*capacity))
}

/// Runs the events of a seed. The part of the path's rate that is carried at the end, and what happened.
fn part(seed: u64) -> (f64, String) {
    let mut world = World::new(seed);
    world.run(4000);
    for _ in 0..=world.rng.below(6) {
        world.event();
        if world.rng.chance(0.5) {
            let quiet = world.rng.below(3000);
            world.run(quiet);
        }
    }
    world.tell("all is well");
    // Time-outs that have backed off run out within as long as the last cut again.
    for _ in 0..25 {
        let rate = world.run(1000);
        let state: Vec<String> = world.paths.status().iter().map(|(_, status)| state(status)).collect();
        world.tell(&format!("{:.2} Mbit/s {}", rate / 1e6, state.join(" ")));
    }
    let rate = world.run(5000);
    let status: Vec<String> = world.paths.status().iter().map(|(_, status)| format!("{status:?}")).collect();
    let lanes = world.lanes.iter().map(|lane| {
        let tcp = &lane.tcp;
        format!(
            "cwnd {:.0} ssthresh {:.0} srtt {:?} pacing {:?} rto {} flight {}",
            tcp.cwnd,
            tcp.ssthresh,
            tcp.srtt,
            tcp.pacing.map(Rate::as_mbit),
            tcp.rto,
            tcp.in_flight
        )
    });
    let lanes: Vec<String> = lanes.collect();
    let text = format!("{}\n{}\n{}", world.story.join("\n"), status.join("\n"), lanes.join("\n"));
    (rate / world.capacity, text)
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the long form of a test is asked for by its environment")]
fn a_path_that_is_whole_again_carries_its_whole_rate_whatever_happened_before() {
    let number =
        |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().expect("a number"));
    let first: u64 = number("TRUNKLINE_PATH_SEED", 0);
    let mut bad = Vec::new();
    let runs = number("TRUNKLINE_PATH_RUNS", 12);
    for seed in first..first + runs {
        let (part, story) = part(seed);
        if part < 0.85 {
            bad.push(format!("seed {seed}: {part:.3}\n{story}"));
        }
    }
    assert!(bad.is_empty(), "{} of {runs}\n{}", bad.len(), bad.join("\n\n"));
}
