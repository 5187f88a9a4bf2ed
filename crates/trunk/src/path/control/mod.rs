//! The controller of one path: what it carries for the trunk, and so what the trunk may send.
//!
//! docs/models/path-control.md has its law. *R* there is `rate`, *C* `capacity`, *q* `queue`, *T* `target()`, *N* [`Noise::deviation`],
//! *A* the rate of [`Windows`], *L* `lag()`, *g* `growth`. Whose a queue is, is decided in `rivals`; what losses mean, in `losses`.

mod flight;
mod losses;
mod noise;
mod reserved;
mod rivals;

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use super::arrivals::{Arrival, BaseDelay, Delays, LaneArrivals, PathDelay, Signal};
use super::division::{Division, GroupShare, LaneRequest};
use super::status::{GroupStatus, PathChange, PathEvidence, PathMode, PathStatus};
use super::windows::{Allowed, CurrentWindow, Window, Windows};
use crate::LaneId;
use flight::{Flight, Variation};
use losses::{LossWatch, Losses};
use noise::Noise;
use reserved::Reserved;
use rivals::{Competition, Drain, Excess, Probe};

/// A lane on its path: its shard, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathLane {
    shard: u16,
    number: LaneId,
}

impl PathLane {
    /// The lane of this number in a shard.
    pub const fn new(shard: u16, number: LaneId) -> Self {
        PathLane { shard, number }
    }

    pub(super) const fn shard(self) -> u16 {
        self.shard
    }
}

/// What a lane's owner knows of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaneDemand {
    /// Whether packets wait for it at the edge.
    pub waiting: bool,
    /// Whether it has so much in flight that a queue in the core may be its own, though no packet waits at the edge.
    pub busy: bool,
    /// The mean size of its segments of late, bytes.
    pub segment: f64,
    /// The smallest round-trip time of its connection.
    pub min_rtt: Option<Duration>,
    /// The rate that its congestion window allows.
    pub window_rate: Option<Rate>,
    /// Data segments sent, retransmissions included, modulo 2^32.
    pub segments_sent: u32,
    /// Segments retransmitted, modulo 2^32.
    pub retransmissions: u32,
}

/// What a path grants a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grant {
    /// The rate at which it may send; `None` without a bound.
    pub rate: Option<Rate>,
    /// Bytes that its connection may hold, sent and unsent; `None` without a bound.
    pub flight: Option<u64>,
}

impl From<Option<Rate>> for Grant {
    fn from(rate: Option<Rate>) -> Self {
        Grant { rate, flight: None }
    }
}

#[derive(Debug, Clone)]
struct Lane {
    id: PathLane,
    share: GroupShare,
    arrivals: LaneArrivals,
    demand: LaneDemand,
    /// Whether packets waited for it at any time in the present window.
    waited: bool,
    grant: f64,
    /// Bytes.
    flight: Option<u64>,
}

impl Lane {
    /// A lane that uses this part of what it may send, while packets wait for it, is bounded by it.
    const USED: f64 = 0.85;

    /// Behind a queue in the core what arrives says nothing of what the lane could send.
    fn is_bounded(&self, queue: bool) -> bool {
        let used = self.arrivals.mean_rate() >= self.grant * Self::USED;
        self.demand.waiting && (used || queue || !self.grant.is_finite())
    }

    /// What it may have at once of `rate`, bit/s, when packets come.
    fn waking(&self, rate: f64) -> f64 {
        self.arrivals.mean_rate() * PathControl::MAX_RISE + rate * PathControl::WAKING
    }

    /// What a lane for which packets wait can use of `rate`, bit/s: its own congestion control may hold it below that.
    fn wanted(&self, rate: f64) -> f64 {
        let window = self.demand.window_rate.map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64);
        let rise = self.arrivals.mean_rate() * PathControl::MAX_RISE + rate * PathControl::MIN_RISE;
        (window * PathControl::HEADROOM).min(rise)
    }
}

/// The controller of what one trunk sends over one path.
///
/// The owner reports what each lane has delivered ([`handle_arrival`](Self::handle_arrival)) and whether packets wait for it
/// ([`handle_demand`](Self::handle_demand)). [`grant`](Self::grant) says at what rate the lane may send.
#[derive(Debug, Clone)]
pub struct PathControl {
    /// By group, and by their ids in each.
    lanes: Vec<Lane>,
    /// By [`Signal`].
    delays: [PathDelay; 2],
    /// How long after bytes were sent their arrival is known, without the queue on the way there, seconds.
    age: f64,
    /// When a lane was last seen to repair a loss.
    repaired: Option<Instant>,
    /// When a lane last said that its losses are noise.
    lossy: Option<Instant>,
    mode: PathMode,
    /// bit/s; used while held.
    rate: f64,
    /// None where nobody reserves anything.
    reserved: Option<Reserved>,
    /// Of the path for this trunk, bit/s; 0 before the first estimate.
    capacity: f64,
    /// The capacity when the queue was last near its target: that of a path without rivals.
    settled: f64,
    /// The capacity when the path was last full.
    full: f64,
    queue: Option<f64>,
    /// When it was last longer than twice the target.
    queue_at: Option<Instant>,
    noise: Noise,
    /// What has arrived of late, while there is a bound.
    flight: Option<Flight>,
    variation: Variation,
    updated: Option<Instant>,
    current: Option<CurrentWindow>,
    /// The mean time between two arrivals.
    spacing: Duration,
    windows: Windows,
    allowed: Allowed,
    /// By how much the rate exceeds the capacity while there is no queue.
    growth: f64,
    grew_at: Instant,
    /// Consecutive windows with a queue, while free.
    queued: u32,
    excess: Option<Excess>,
    /// What arrived when the queue, which is near its target, was measured so first, and when: bit/s, seconds.
    standing: Option<(f64, f64, Instant)>,
    /// The size of packets on the lane that has the largest, bits.
    packet: f64,
    /// Of the present window.
    losses: Losses,
    loss_watch: LossWatch,
    draining: Option<Drain>,
    /// When the last drain ended, and the capacity when the path was last seen empty, bit/s.
    drained: (Instant, f64),
    /// The longest queue since then, seconds.
    longest: f64,
    competition: Option<Competition>,
    /// When the rate was last bounded.
    held_at: Instant,
    /// When to probe whether others still keep a queue, and how long to wait after a probe that finds one.
    probe_at: Instant,
    probe_backoff: Duration,
    probe: Option<Probe>,
    /// Consecutive windows in which others seemed to have gone.
    alone: u32,
    change: Option<PathChange>,
    /// The last one that was.
    last_change: Option<PathChange>,
    /// The sum of the breaks in which nothing arrived though the lanes were busy: a machine or the network stood still.
    left_out: Duration,
    division: Division,
    requests: Vec<LaneRequest>,
    shares: Vec<f64>,
    /// Bytes.
    flights: Vec<f64>,
}

impl Default for PathControl {
    fn default() -> Self {
        PathControl {
            lanes: Vec::new(),
            delays: [PathDelay::default(); 2],
            age: 0.0,
            repaired: None,
            lossy: None,
            mode: PathMode::Free,
            rate: 0.0,
            reserved: None,
            capacity: 0.0,
            settled: 0.0,
            full: 0.0,
            queue: None,
            queue_at: None,
            noise: Noise::default(),
            flight: None,
            variation: Variation::default(),
            updated: None,
            current: None,
            spacing: Duration::ZERO,
            windows: Windows::default(),
            allowed: Allowed::default(),
            growth: Self::MIN_GROWTH,
            grew_at: Instant::ZERO,
            queued: 0,
            excess: None,
            standing: None,
            packet: Self::MAX_PACKET,
            losses: Losses::default(),
            loss_watch: LossWatch::default(),
            draining: None,
            drained: (Instant::ZERO, 0.0),
            longest: 0.0,
            competition: None,
            held_at: Instant::ZERO,
            probe_at: Instant::ZERO,
            probe_backoff: Self::PROBE_BACKOFF / 2,
            probe: None,
            alone: 0,
            change: None,
            last_change: None,
            left_out: Duration::ZERO,
            division: Division::default(),
            requests: Vec::new(),
            shares: Vec::new(),
            flights: Vec::new(),
        }
    }
}

impl PathControl {
    /// The lowest rate, bit/s.
    const MIN_RATE: f64 = 64_000.0;
    /// The queue that is let stand: this, and the time of two packets.
    const MIN_TARGET: f64 = 0.002;
    const TARGET_PACKETS: f64 = 2.0;
    /// The largest packet, and the headers of TCP and IP in it, bits.
    const MAX_PACKET: f64 = 12_000.0;
    const HEADERS: f64 = 52.0 * 8.0;
    /// The largest part by which the rate is below the capacity.
    const MAX_CUT: f64 = 0.3;
    /// The smallest and the largest part by which it is above the capacity while there is no queue.
    const MIN_GROWTH: f64 = 0.02;
    const MAX_GROWTH: f64 = 1.0;
    /// It grows while the queue is below this part of the target: on a slow path two packets of the lanes' own are half of it.
    const SHORT: f64 = 0.75;
    /// Windows with a queue before there is a bound.
    const MIN_QUEUED: u32 = 2;
    /// The bounds of the time over which the least delay is taken, and of a window.
    const FILTER: (Duration, Duration) = (Duration::from_millis(40), Duration::from_millis(120));
    const WINDOW: (Duration, Duration) = (Duration::from_millis(40), Duration::from_millis(250));
    /// A window lasts until so much has arrived, at most for so long.
    const WINDOW_BITS: f64 = 8.0 * 12_000.0;
    const MAX_WINDOW: Duration = Duration::from_secs(3);
    /// The path is no longer the one that was measured when it carries so many times what it did.
    const WIDER: f64 = 3.0;
    /// Reports that have not come for so long no longer count.
    const MAX_SILENCE: Duration = Duration::from_secs(1);
    /// The longest time, in seconds, for which an effect of the rate is waited for.
    const MAX_AGE: f64 = 2.0;
    /// How old an arrival may be when the owner reports it, beside the round trip.
    const REPORT_AGE: Duration = Duration::from_millis(20);
    /// The path carries what the trunk sends if this part of it arrives.
    const CARRIED: f64 = 0.9;
    /// A path on which a loss was repaired within this time is one that loses packets.
    const LOSS_MEMORY: Duration = Duration::from_secs(30);
    /// A lane that finds losses to be noise says so at each look. Others go by that for so long.
    const LOSSY_MEMORY: Duration = Duration::from_secs(2);
    /// A queue that varies by no more than this, in seconds, while so many times as much arrives is none.
    const STILL: f64 = 0.0005;
    const MORE: f64 = 1.08;
    /// If it has stayed so for so many times as long as an effect of the rate takes.
    const SEEN: u32 = 4;
    /// A window in which nothing arrives for this time, and for so many times as long as between two arrivals, is left out.
    const MIN_GAP: Duration = Duration::from_millis(25);
    const GAP_FACTOR: u32 = 4;
    /// With a bound on what is in flight the rate is so many times that of the fastest window of late.
    const LOOSE: f64 = 2.0;
    /// A lane asks for this many times what it delivers, or what its window allows.
    const HEADROOM: f64 = 1.25;
    /// A lane for which packets wait asks for so many times what it delivers, and this part of the rate.
    const MAX_RISE: f64 = 1.5;
    const MIN_RISE: f64 = 0.05;
    /// One for which none waits need not wait for the next division when some come: it has so many times what it delivers, and this part.
    const WAKING: f64 = 0.25;
    /// What lanes that rise may have beyond their shares, all together: this part of the rate. More overflows a short buffer.
    const RISING: f64 = 0.1;
    /// A grant that would change by no more than this part stays: each change costs a system call.
    const MIN_CHANGE: f64 = 0.002;
    /// A lane that carries less than this part of the arrivals says nothing of the queue.
    const MIN_PART: f64 = 0.1;

    /// Takes what a lane's group is promised, and what the owner knows of the lane. It is on the path from then on.
    pub fn handle_demand(&mut self, now: Instant, lane: PathLane, share: GroupShare, demand: LaneDemand) {
        let place = |known: &Lane| (known.share.group, known.id).cmp(&(share.group, lane));
        let at = self.lanes.binary_search_by(place).unwrap_or_else(|at| {
            let arrivals = LaneArrivals::default();
            let (grant, flight) = (f64::INFINITY, None);
            let new = Lane { id: lane, share, arrivals, demand, waited: false, grant, flight };
            self.lanes.insert(at, new);
            at
        });
        let state = &mut self.lanes[at];
        state.share = share;
        let before = std::mem::replace(&mut state.demand, demand);
        let sent = demand.segments_sent.wrapping_sub(before.segments_sent);
        let lost = demand.retransmissions.wrapping_sub(before.retransmissions);
        // The counters of another connection begin anew.
        if sent <= u32::MAX / 2 && lost <= sent {
            self.losses.add(Losses { sent, lost });
            if lost > 0 {
                self.repaired = Some(now);
            }
        }
        state.waited |= demand.waiting;
    }

    /// What the network has reserved for the trunk on this path.
    pub(super) fn set_reserved(&mut self, rate: Option<Rate>) {
        self.reserved = rate.map(Reserved::new);
    }

    /// The lanes of a shard are no longer on the path, or have other numbers from now on.
    pub fn remove_shard(&mut self, shard: u16) {
        self.lanes.retain(|lane| lane.id.shard != shard);
    }

    /// The lane's connection has ended.
    pub fn remove_lane(&mut self, lane: PathLane) {
        self.lanes.retain(|other| other.id != lane);
        if self.lanes.is_empty() {
            // The far end may have started again, with another clock.
            self.delays[Signal::OneWay as usize] = PathDelay::default();
        }
    }

    /// Takes an arrival of a lane. Whether grants may have changed.
    pub fn handle_arrival(&mut self, now: Instant, lane: PathLane, arrival: Arrival) -> bool {
        let Some(state) = self.lanes.iter_mut().find(|state| state.id == lane) else { return false };
        let before = state.arrivals.bytes(arrival.signal);
        // Where others insist on what is reserved for them, a queue may stand for long, and is not path for that.
        let rise = if self.reserved.is_some() { BaseDelay::DRIFT } else { f64::INFINITY };
        self.delays[arrival.signal as usize].update(now, &mut state.arrivals, arrival, rise);
        if let Some(flight) = &mut self.flight
            && arrival.signal == Signal::RoundTrip
        {
            flight.update(now, state.arrivals.bytes(arrival.signal).saturating_sub(before));
        }
        if let Some(age) = arrival.age.filter(|_| arrival.signal == self.signal(now)) {
            let path = age.as_secs_f64() - self.queue.unwrap_or(0.0).max(0.0);
            self.age += (path.clamp(0.0, Self::MAX_AGE) - self.age) / 8.0;
        }
        self.measure_queue(now);
        self.update_window(now);
        self.update_rate(now);
        self.divide(now)
    }

    /// What a lane may send.
    pub fn grant(&self, lane: PathLane) -> Grant {
        let state = self.lanes.iter().find(|state| state.id == lane).filter(|_| self.is_bounded());
        state.map_or(Grant::default(), |state| {
            let rate = state.grant.max(Self::MIN_RATE);
            Grant { rate: rate.is_finite().then(|| Self::rate(rate)), flight: state.flight }
        })
    }

    /// Whether there is a bound.
    const fn is_bounded(&self) -> bool {
        matches!(self.mode, PathMode::Held | PathMode::Varying)
    }

    /// Whether its lanes have had losses to repair of late.
    pub(crate) fn loses(&self, now: Instant) -> bool {
        self.repaired.is_some_and(|at| now.saturating_since(at) <= Self::LOSS_MEMORY)
    }

    /// A lane has found that the path loses packets without being full.
    pub(crate) const fn handle_lossy(&mut self, now: Instant) {
        self.lossy = Some(now);
    }

    /// Whether a lane has found so of late.
    pub(crate) fn is_lossy(&self) -> bool {
        self.lossy.is_some_and(|at| self.age(at) <= Self::LOSSY_MEMORY)
    }

    /// The bound in force.
    pub const fn mode(&self) -> PathMode {
        self.mode
    }

    /// Whether the core has had a queue of late, so that a loss may be one of it.
    pub fn has_queue(&self) -> bool {
        self.queue_at.is_some_and(|at| self.age(at) <= self.min_rtt() * 2 + self.filter())
    }

    /// What its lanes need to know to tell noise from congestion.
    pub(super) fn evidence(&self) -> PathEvidence {
        match self.reserved {
            None => PathEvidence {
                congested: self.has_queue(),
                lossy: self.is_lossy(),
                free: self.mode == PathMode::Free,
            },
            // Who has less than is reserved goes on, whatever is lost. Who has that much takes each loss for congestion: it may be of what others
            // have reserved.
            Some(reserved) => {
                let lacks = reserved.is_lacking(self.windows.median_rate(Windows::COUNT));
                PathEvidence { congested: !lacks, lossy: lacks && self.is_lossy(), free: false }
            }
        }
    }

    /// How long before the last arrival it was.
    fn age(&self, at: Instant) -> Duration {
        self.updated.map_or(Duration::ZERO, |now| now.saturating_since(at))
    }

    /// The estimated capacity for the trunk, once the core has had a queue.
    pub fn capacity(&self) -> Option<Rate> {
        Self::known(self.capacity)
    }

    /// What it can carry: the capacity, or before that is known what arrives behind a queue.
    pub(super) fn known_capacity(&self) -> Option<Rate> {
        let arrives = || Self::known(self.windows.max_rate(Windows::COUNT)).filter(|_| self.has_queue());
        self.capacity().or_else(arrives)
    }

    /// Its state.
    pub fn status(&self) -> PathStatus {
        PathStatus {
            mode: self.mode,
            rate: Self::known(self.rate).filter(|_| self.mode == PathMode::Held),
            capacity: self.capacity(),
            queue: self.queue.map(|queue| Duration::from_secs_f64(queue.max(0.0))),
            target: Duration::from_secs_f64(self.target()),
            signal: self.updated.map_or(Signal::RoundTrip, |at| self.signal(at)),
            loss: self.loss_watch.known_noise(),
            change: self.last_change,
            left_out: self.left_out,
            groups: self.groups(),
        }
    }

    fn groups(&self) -> Vec<GroupStatus> {
        let mut groups: Vec<GroupStatus> = Vec::new();
        for lanes in self.lanes.chunk_by(|a, b| a.share.group == b.share.group) {
            let waiting = lanes.iter().filter(|lane| lane.demand.waiting && lane.grant.is_finite());
            let granted: f64 = waiting.map(|lane| lane.grant).sum();
            let delivered: f64 = lanes.iter().map(|lane| lane.arrivals.mean_rate()).sum();
            groups.push(GroupStatus {
                group: lanes[0].share.group,
                granted: Self::known(granted).filter(|_| self.mode == PathMode::Held),
                delivered: Self::rate(delivered),
            });
        }
        groups
    }

    const fn set_change(&mut self, change: PathChange) {
        self.change = Some(change);
        self.last_change = Some(change);
    }

    /// What the controller has found out since this was asked last: the newest, if it was more than one thing.
    pub const fn take_change(&mut self) -> Option<PathChange> {
        self.change.take()
    }

    const fn rate(bits: f64) -> Rate {
        Rate::from_bits_per_second(bits as u64)
    }

    /// None before the first estimate.
    fn known(bits: f64) -> Option<Rate> {
        (bits > 0.0).then(|| Self::rate(bits))
    }

    fn min_rtt(&self) -> Duration {
        let known = self.lanes.iter().filter_map(|lane| lane.demand.min_rtt);
        known.min().unwrap_or(Self::WINDOW.0)
    }

    /// The length of a window of the rate.
    fn window(&self) -> Duration {
        self.min_rtt().clamp(Self::WINDOW.0, Self::WINDOW.1)
    }

    /// The time over which the least delay is taken.
    fn filter(&self) -> Duration {
        self.min_rtt().clamp(Self::FILTER.0, Self::FILTER.1)
    }

    /// The time from a change of the rate to its first effect on the measured queue.
    fn lag(&self) -> Duration {
        self.min_rtt().max(Duration::from_secs_f64(self.age)) + self.filter() + Self::REPORT_AGE
    }

    /// What the queue is measured by: reports of the far end, while they come.
    fn signal(&self, now: Instant) -> Signal {
        let come = |at| now.saturating_since(at) <= Self::MAX_SILENCE;
        let reported = self.delays[Signal::OneWay as usize].measured.is_some_and(come);
        if reported { Signal::OneWay } else { Signal::RoundTrip }
    }

    /// The time constant with which a queue drains: three times the lag leaves a phase margin of 71 degrees.
    fn drain_time(&self) -> f64 {
        3.0 * self.lag().as_secs_f64()
    }

    fn present_rate(&self) -> f64 {
        if self.mode == PathMode::Held { self.rate } else { self.windows.median_rate(3) }
    }

    /// The queue that is let stand, seconds.
    fn target(&self) -> f64 {
        let (least, part) =
            if self.reserved.is_some() { (Reserved::LINK, Reserved::TARGET) } else { (0.0, 1.0) };
        let rate = self.present_rate().max(least);
        let packets = if rate > 0.0 { Self::TARGET_PACKETS * self.packet / rate } else { 0.0 };
        self.noise.margin(Self::MIN_TARGET + packets) * part
    }

    /// The queue by one signal, seconds; `None` if nothing was measured of late.
    fn queue_by(&mut self, now: Instant, signal: Signal) -> Option<f64> {
        let [whole_base, unpaced_base] = self.delays[signal as usize].bases;
        let (whole_base, unpaced_base) = whole_base.zip(unpaced_base)?;
        let since = now - self.filter();
        let least = self.least_rate();
        let heard = self.lanes.iter_mut().filter(|lane| lane.arrivals.mean_rate() >= least);
        let delays = heard.filter_map(|lane| lane.arrivals.min_delays(signal, since));
        let longest = |[a, b]: Delays, [c, d]: Delays| [a.max(c), b.max(d)];
        // Seconds by each of the two, of the lane that has most.
        let [whole, unpaced] = delays.reduce(longest)?;
        Some((whole - whole_base.get()).min(unpaced - unpaced_base.get()).max(0.0))
    }

    /// Whether lanes have repaired losses of late.
    fn repairs(&self, now: Instant) -> bool {
        self.repaired.is_some_and(|at| now.saturating_since(at) <= self.filter() + self.min_rtt())
    }

    fn measure_queue(&mut self, now: Instant) {
        let signal = self.signal(now);
        let mut queue = self.queue_by(now, signal);
        // Data behind a loss waits at the far end for the repair, and is reported late; acknowledgements are not.
        // Clocks that drift apart add to it as well, where its base may hardly rise.
        if signal == Signal::OneWay && (self.reserved.is_some() || self.repairs(now)) {
            let by_round_trips = self.queue_by(now, Signal::RoundTrip);
            let other = if self.repairs(now) { by_round_trips.or(self.queue) } else { by_round_trips };
            queue = queue.into_iter().chain(other).reduce(f64::min);
        }
        let Some(queue) = queue else { return };
        self.noise.update(now, self.filter(), queue);
        self.queue = Some(queue);
        if queue > 2.0 * self.target() {
            self.queue_at = Some(now);
        }
        if let Some(drain) = &mut self.draining {
            drain.shortest = drain.shortest.min(queue);
        }
    }

    /// The base delays, by all signals.
    fn bases(&mut self) -> impl Iterator<Item = &mut BaseDelay> {
        self.delays.iter_mut().flat_map(|delay| &mut delay.bases).flatten()
    }

    /// Ends the window of the rate if it is long enough.
    fn update_window(&mut self, now: Instant) {
        let busy = self.lanes.iter().any(|lane| lane.demand.waiting || lane.demand.busy);
        let window = self.current.get_or_insert(CurrentWindow::new(now));
        let gap = now.saturating_since(window.latest);
        window.gap = window.gap.max(gap);
        window.latest = now;
        self.spacing = (self.spacing * 15 + gap.min(Self::MAX_WINDOW)) / 16;
        window.busy &= busy;
        let CurrentWindow { since, gap, busy, .. } = *window;
        let (elapsed, shortest) = (now.saturating_since(since), self.window());
        if elapsed < shortest {
            return;
        }
        let arrived: f64 = self.lanes.iter().map(|lane| lane.arrivals.window_bits()).sum();
        // Of each lane that delivers, a packet more or less is counted.
        let delivers = |lane: &&Lane| lane.arrivals.window_bits() > arrived * Self::MIN_PART;
        let lanes = self.lanes.iter().filter(delivers).count().max(1);
        let enough = Self::WINDOW_BITS * (lanes as f64).sqrt();
        if arrived < enough && elapsed < Self::MAX_WINDOW {
            return;
        }
        self.current = Some(CurrentWindow::new(now));
        // A time without arrivals is no window: the lanes were idle, or one of the machines stood still.
        let usual = Self::MIN_GAP.max(self.spacing * Self::GAP_FACTOR);
        let whole = arrived >= Self::WINDOW_BITS / 2.0 && gap <= usual;
        if busy && gap > usual {
            self.left_out += gap;
        }
        self.end_window(now, whole, busy);
    }

    fn end_window(&mut self, now: Instant, whole: bool, busy: bool) {
        let mut rate = 0.0;
        let mut waited = false;
        let repairs = self.repairs(now);
        for lane in &mut self.lanes {
            rate += lane.arrivals.end_window(repairs);
            waited |= std::mem::replace(&mut lane.waited, lane.demand.waiting);
        }
        let losses = std::mem::take(&mut self.losses);
        self.measure_packet();
        let Some(queue) = self.queue.filter(|_| whole) else {
            self.queued = 0;
            return;
        };
        self.noise.end_window(queue);
        self.windows.push(Window { rate, waited: waited || busy, queue });
        self.allowed.push(now, self.rate);
        if waited || busy {
            if let Some(reserved) = &mut self.reserved {
                reserved.handle_window(rate);
            }
            let back = self.way_back(now);
            self.variation.update(now, rate, repairs, [queue, back]);
            if self.varies() {
                self.begin_to_vary(now);
                return;
            }
        }
        match self.mode {
            PathMode::Free => self.watch(now, queue, busy, losses),
            PathMode::Held => self.estimate(now, waited, queue, losses),
            PathMode::Varying => self.vary(now, queue),
            PathMode::Competing => self.compete(now, rate, queue, losses),
        }
    }

    /// What a lane must deliver to say something of the path, bit/s.
    fn least_rate(&self) -> f64 {
        self.lanes.iter().map(|lane| lane.arrivals.mean_rate()).sum::<f64>() * Self::MIN_PART
    }

    /// How large packets are: those of the lane that has the largest, of those that deliver.
    fn measure_packet(&mut self) {
        let least = self.least_rate();
        let delivers = |lane: &&Lane| lane.arrivals.mean_rate() > least;
        let sizes = self.lanes.iter().filter(delivers).map(|lane| lane.demand.segment * 8.0 + Self::HEADERS);
        self.packet = sizes.reduce(f64::max).unwrap_or(Self::MAX_PACKET).min(Self::MAX_PACKET);
    }

    /// Without a bound: whether the core gets a queue, or loses more than usual.
    fn watch(&mut self, now: Instant, queue: f64, busy: bool, losses: Losses) {
        let short = queue <= 2.0 * self.target();
        if short {
            self.loss_watch.handle_quiet(losses);
        }
        // A trial begins only with a bound.
        if short && busy && self.loss_watch.update(now, losses) {
            // When it loses, the lanes have slowed down.
            self.hold(now, self.windows.max_rate(Windows::COUNT));
            self.set_change(PathChange::Losses { capacity: Self::rate(self.capacity) });
            return;
        }
        self.bases().for_each(BaseDelay::handle_drained);
        self.queued = if busy && queue > 2.0 * self.target() { self.queued + 1 } else { 0 };
        if self.queued >= Self::MIN_QUEUED {
            // Either of them may have seen a machine stand still; what the path carries is not less.
            self.hold(now, self.windows.max_rate(Self::MIN_QUEUED as usize));
            self.set_change(PathChange::Queue {
                queue: Duration::from_secs_f64(queue.max(0.0)),
                capacity: Self::rate(self.capacity),
            });
        }
    }

    fn hold(&mut self, now: Instant, capacity: f64) {
        self.mode = PathMode::Held;
        self.loss_watch.handle_bound();
        self.queued = 0;
        self.growth = Self::MIN_GROWTH;
        self.capacity = capacity.max(Self::MIN_RATE);
        self.full = self.capacity;
        self.held_at = now;
        self.excess = None;
        self.draining = None;
        self.drained = (now, self.capacity);
        self.flight.get_or_insert_with(|| Flight::new(now, capacity));
    }

    /// With a bound: what the capacity is, and whose the queue.
    fn estimate(&mut self, now: Instant, waited: bool, queue: f64, losses: Losses) {
        let target = self.target();
        let recent = self.windows.median_rate(3);
        // What arrives is never more than the capacity, and behind a standing queue it is the capacity. A machine that serves the lanes
        // late lowers the one and adds to the delay, but not in all windows.
        if let Some(rate) = self.windows.rate_behind_queue(target) {
            self.capacity = (self.capacity + (rate - self.capacity) / 2.0).max(Self::MIN_RATE);
            self.full = self.capacity;
        } else {
            self.capacity = self.capacity.max(recent);
        }
        if self.capacity > self.full * Self::WIDER && self.probe.is_none() {
            self.mode = PathMode::Free;
            self.set_change(PathChange::Wider { capacity: Self::rate(self.capacity) });
            return;
        }
        // Those that others cause are theirs, and a trial is for a full path that shows no queue.
        if self.competition.is_none() && !self.has_queue() && self.loss_watch.update(now, losses) {
            self.capacity = self
                .windows
                .max_rate(Windows::COUNT)
                .clamp(Self::MIN_RATE, self.capacity.max(Self::MIN_RATE));
        }
        let carried = self.windows.high_rate() >= self.rate.min(self.capacity) * Self::CARRIED;
        if queue > target || !waited || !carried || self.draining.is_some() || self.loss_watch.holds_back(now)
        {
            self.growth = Self::MIN_GROWTH;
        } else if queue < target * Self::SHORT && now.saturating_since(self.grew_at) >= self.lag() {
            // Only once the last growth has had its effect.
            self.growth = (self.growth * 4.0).min(Self::MAX_GROWTH);
            self.grew_at = now;
        }
        if queue <= target {
            self.loss_watch.handle_quiet(losses);
        }
        let queue = self.look_at_standing(now, queue, recent);
        if queue <= target * 1.5 {
            self.settled = self.capacity;
            self.excess = None;
            if self.probe.take().is_some() {
                self.competition = None;
                self.set_change(PathChange::Alone { capacity: Self::rate(self.capacity) });
            }
        } else {
            self.judge(now, queue, losses);
        }
        self.drain(now, queue);
    }

    /// Behind a queue of ours no more arrives than before. If more and more does while the delay stays as it is, that is no queue. Returns
    /// what is.
    fn look_at_standing(&mut self, now: Instant, queue: f64, arrives: f64) -> f64 {
        let target = self.target();
        let unmoved = Self::STILL.max(self.noise.deviation());
        let near = (target / 2.0..=target * 1.5).contains(&queue);
        let known = self.standing.filter(|(_, first, _)| near && (queue - first).abs() <= unmoved);
        let (rate, first, since) = known.unwrap_or((arrives, queue, now));
        self.standing = near.then_some((rate.min(arrives), first, since));
        // A queue of others moves a little later.
        let is_seen = now.saturating_since(since) >= self.lag() * Self::SEEN;
        if !near || arrives < rate * Self::MORE || !is_seen || self.reserved.is_some() {
            return queue;
        }
        self.handle_longer(now, queue, queue);
        self.standing = None;
        0.0
    }

    /// The path has become longer by `more` seconds of the queue that was measured.
    fn handle_longer(&mut self, now: Instant, queue: f64, more: f64) {
        self.bases().for_each(|base| base.raise(now, more));
        self.queue = Some(queue - more);
    }

    /// Whether no rate is right for the path for long. One that takes longer than a round trip for four packets has too few in flight
    /// for a bound on them.
    fn varies(&self) -> bool {
        let packets = self.packets();
        self.mode != PathMode::Varying
            && self.reserved.is_none()
            && self.capacity > 0.0
            && packets <= self.min_rtt().as_secs_f64() + Flight::MARGIN
            && self.variation.varies(packets)
    }

    /// From now on what is in flight is bounded, and not the rate.
    fn begin_to_vary(&mut self, now: Instant) {
        self.mode = PathMode::Varying;
        self.variation.handle_bound(now);
        self.flight.get_or_insert_with(|| Flight::new(now, self.windows.median_rate(3)));
        (self.excess, self.draining, self.probe, self.competition) = (None, None, None, None);
        self.set_change(PathChange::Varies {
            capacity: Self::rate(self.windows.median_rate(Windows::COUNT)),
        });
    }

    /// How many seconds what is in flight at any rate takes.
    fn packets(&self) -> f64 {
        Flight::LEAST * 8.0 / self.windows.median_rate(Windows::COUNT).max(Self::MIN_RATE)
    }

    /// With a bound on what is in flight: whether the rate of the path still varies, and whether it has become longer.
    fn vary(&mut self, now: Instant, queue: f64) {
        if queue <= self.target() {
            self.bases().for_each(BaseDelay::handle_drained);
        }
        self.capacity = self.windows.median_rate(Windows::COUNT).max(Self::MIN_RATE);
        if let Some(floor) = self.variation.poll_floor(now, self.packets()) {
            // Either it is path, or others keep a queue; if neither, a shorter delay comes soon, and counts at once.
            self.handle_longer(now, queue, floor);
        }
        if self.variation.is_steady() {
            self.hold(now, self.windows.max_rate(Windows::COUNT));
            self.set_change(PathChange::Queue {
                queue: Duration::from_secs_f64(queue),
                capacity: Self::rate(self.capacity),
            });
        }
    }

    /// The queue of the way back, in which acknowledgements wait, seconds; none where that cannot be told.
    fn way_back(&mut self, now: Instant) -> f64 {
        match (self.signal(now), self.queue, self.queue_by(now, Signal::RoundTrip)) {
            (Signal::OneWay, Some(there), Some(both)) => (both - there).max(0.0),
            _ => 0.0,
        }
    }

    /// Bytes that all lanes may have in flight together, if that is bounded.
    fn flight_limit(&mut self, now: Instant) -> Option<f64> {
        self.flight.as_ref()?;
        // Where rates are reserved, others may have a queue for long, and what arrives is not the bound on what may be sent.
        if self.reserved.is_some() {
            return None;
        }
        let varies = self.mode == PathMode::Varying;
        // A queue that has just come may be that of a path that has become slower. Later it is judged by what a rate does to it.
        if !varies && !self.excess.as_ref().is_some_and(Excess::is_new) {
            return None;
        }
        let back = self.way_back(now);
        if !varies && back > Variation::BACK {
            return None;
        }
        let arrives = self.flight.as_ref()?.rate();
        let (rate, stands) =
            if varies { (arrives, 0.0) } else { (arrives.min(self.capacity), self.target()) };
        let longer = self.delays[Signal::RoundTrip as usize].bases[0].map_or(0.0, |base| base.above_lowest());
        let round_trip = self.min_rtt().as_secs_f64() + longer + back;
        Some(Flight::limit(rate, round_trip + stands))
    }

    /// Whether the rate is below the capacity to see whether the queue drains.
    fn drains(&self, now: Instant) -> bool {
        self.draining.is_some_and(|drain| now < drain.until)
            || self.excess.is_some_and(|excess| excess.settled.is_some())
    }

    fn update_rate(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.updated.replace(now).unwrap_or(now));
        if self.mode == PathMode::Varying {
            // What is in flight is the bound; the rate only divides it among the lanes, and spreads what a lane sends at once.
            self.rate = (self.windows.max_rate(Windows::COUNT) * Self::LOOSE).max(Self::MIN_RATE);
            return;
        }
        if self.mode != PathMode::Held {
            return;
        }
        let (queue, target) = (self.queue.unwrap_or(0.0), self.target());
        let cut = ((queue - target) / self.drain_time()).min(Self::MAX_CUT);
        let mut factor =
            if cut > 0.0 { 1.0 - cut } else { 1.0 + self.growth * (1.0 - queue.max(0.0) / target) };
        if self.loss_watch.holds_back(now) {
            factor = factor.min(1.0 - LossWatch::CUT);
        }
        if self.drains(now) {
            factor = factor.min(1.0 - Self::DRAIN_CUT);
        }
        let rate = self.probe.map_or(self.capacity * factor, |probe| probe.rate);
        let least = self.reserved.as_ref().map_or(0.0, Reserved::least);
        self.rate = rate.max(Self::MIN_RATE).max(least);
        let arrives = self.windows.median_rate(3);
        if let Some(excess) = &mut self.excess
            && self.rate < arrives
        {
            excess.drained += (1.0 - self.rate / arrives) * elapsed.as_secs_f64();
        }
    }

    /// Divides what may be in flight among the lanes, by what they had of late. One for which packets wait may have more of it at once: behind
    /// an outage it has delivered next to nothing.
    fn divide_flight(&mut self, limit: f64) {
        let arrives = self.flight.as_ref().map_or(0.0, Flight::rate).max(Self::MIN_RATE);
        self.requests.clear();
        self.requests.extend(self.lanes.iter().map(|lane| {
            let delivered = lane.arrivals.mean_rate() * Self::HEADROOM;
            let rate = if lane.demand.waiting { lane.waking(arrives) } else { delivered };
            LaneRequest { share: lane.share, rate }
        }));
        // As rates, which is what guarantees are.
        self.division.divide(arrives, &self.requests, &mut self.flights);
        self.flights.iter_mut().for_each(|flight| *flight *= limit / arrives);
    }

    /// Divides the rate among the lanes. Whether a grant has changed.
    fn divide(&mut self, now: Instant) -> bool {
        if !self.is_bounded() {
            let mut changed = false;
            for lane in &mut self.lanes {
                changed |= lane.grant.is_finite();
                (lane.grant, lane.flight) = (f64::INFINITY, None);
            }
            self.flight = None;
            return changed;
        }
        let flight = self.flight_limit(now);
        let queue = self.queue.is_some_and(|queue| queue > self.target());
        self.requests.clear();
        self.requests.extend(self.lanes.iter().map(|lane| {
            // A lane that does not use what it may send needs no more than that, though packets wait for it at times.
            let delivered = lane.arrivals.mean_rate();
            let rate =
                if lane.is_bounded(queue) { lane.wanted(self.rate) } else { delivered * Self::HEADROOM };
            LaneRequest { share: lane.share, rate }
        }));
        self.division.divide(self.rate, &self.requests, &mut self.shares);
        let left = (self.rate - self.shares.iter().sum::<f64>()).max(0.0);
        // Lanes that are granted more than the rate together may drain no queue.
        let drains = self.drains(now);
        let active =
            |lane: &Lane| if drains { lane.demand.waiting || lane.demand.busy } else { lane.demand.waiting };
        let lanes = self.lanes.iter().zip(&self.shares);
        let active_share: f64 = lanes.filter(|(lane, _)| active(lane)).map(|(_, share)| share).sum();
        if let Some(limit) = flight {
            self.divide_flight(limit);
        }
        let (rate, mut changed) = (self.rate, false);
        let due = |share: f64| share + if active_share > 0.0 { left * share / active_share } else { 0.0 };
        // One that has more to send than before need not wait for the next division.
        let more = |lane: &Lane, share: f64| {
            let rises = active(lane) && !drains && !lane.is_bounded(queue);
            if rises { (lane.wanted(rate).min(rate) - due(share)).max(0.0) } else { 0.0 }
        };
        let asked: f64 = self.lanes.iter().zip(&self.shares).map(|(lane, share)| more(lane, *share)).sum();
        let risen = (rate * Self::RISING / asked.max(1.0)).min(1.0);
        for (number, (lane, share)) in self.lanes.iter_mut().zip(&self.shares).enumerate() {
            let grant = if active(lane) {
                due(*share) + more(lane, *share) * risen
            } else {
                // Nor need one for which packets come again.
                lane.waking(rate).min(rate)
            };
            if !lane.grant.is_finite() || (grant - lane.grant).abs() > lane.grant * Self::MIN_CHANGE {
                lane.grant = grant;
                changed = true;
            }
            let part = |limit: f64| {
                let own = if lane.demand.waiting { self.flights[number] } else { limit * grant / rate };
                own.max(Flight::LEAST_OF_LANE) as u64
            };
            let flight = flight.map(part);
            let is_same = |(a, b): (u64, u64)| a.abs_diff(b) <= a / Flight::COARSE;
            if !flight.zip(lane.flight).is_some_and(is_same) {
                changed |= flight != lane.flight;
                lane.flight = flight;
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_rise_have_a_tenth_of_the_rate_beyond_their_shares_together() {
        let now = Instant::from_millis(1000);
        let mut control = PathControl { mode: PathMode::Held, rate: 30e6, ..PathControl::default() };
        for number in 0..3 {
            let share = GroupShare::weighted(number.into(), 1.0);
            control.handle_demand(now, PathLane::new(0, LaneId(number)), share, waiting());
        }
        // One uses what it has. The others have just lost something.
        for (lane, delivered) in control.lanes.iter_mut().zip([10e6, 6e6, 6e6]) {
            (lane.arrivals, lane.grant) = (LaneArrivals::of_rate(delivered), 10e6);
        }
        assert!(control.divide(now));
        let grants: Vec<f64> = control.lanes.iter().map(|lane| (lane.grant / 1e5).round() / 10.0).collect();
        // 15, 7.5 and 7.5 are asked for and granted; the two would have 10.5 each.
        assert_eq!(grants, [15.0, 9.0, 9.0]);
    }

    #[test]
    fn before_the_capacity_is_known_a_path_with_a_queue_carries_what_arrives() {
        let now = Instant::from_millis(1000);
        let mut control = PathControl { updated: Some(now), ..PathControl::default() };
        control.windows.push(Window { rate: 2e5, waited: false, queue: 0.1 });
        assert_eq!(control.known_capacity(), None);
        control.queue_at = Some(now);
        assert_eq!(control.known_capacity(), Some(Rate::from_mbit(0.2)));
        control.capacity = 5e6;
        assert_eq!(control.known_capacity(), Some(Rate::from_mbit(5.0)));
    }

    fn waiting() -> LaneDemand {
        LaneDemand {
            waiting: true,
            busy: true,
            segment: 1448.0,
            min_rtt: None,
            window_rate: None,
            segments_sent: 0,
            retransmissions: 0,
        }
    }

    #[test]
    fn a_lane_with_little_to_send_gets_its_part_of_what_may_be_in_flight_though_it_had_next_to_nothing() {
        let (now, limit) = (Instant::from_millis(1000), 60_000.0);
        let demand = |waits| LaneDemand { waiting: waits, ..waiting() };
        let mut control = PathControl { flight: Some(Flight::new(now, 8e6)), ..PathControl::default() };
        let lanes = [0, 1].map(|number| PathLane::new(0, LaneId(number)));
        let mut flights = |waiting: [bool; 2]| {
            for ((lane, waiting), rate) in lanes.into_iter().zip(waiting).zip([0.16e6, 7.84e6]) {
                let share = GroupShare::weighted(lane.number.0.into(), 1.0);
                control.handle_demand(now, lane, share, demand(waiting));
                control.lanes[usize::from(lane.number.0)].arrivals = LaneArrivals::of_rate(rate);
            }
            control.divide_flight(limit);
            control.flights.iter().map(|bytes| bytes.round() as u64).collect::<Vec<_>>()
        };
        assert_eq!(flights([true, true]), [16_800, 43_200]);
        assert_eq!(flights([false, true]), [1500, 58_500]);
        // A guarantee is a rate: a tenth of what arrives is a tenth of what may be in flight.
        let guaranteed =
            GroupShare { guarantee: Some(Rate::from_mbit(0.8)), ..GroupShare::weighted(0, 1e-9) };
        control.handle_demand(now, lanes[0], guaranteed, demand(true));
        control.divide_flight(limit);
        assert_eq!(control.flights[0].round() as u64, 6000);
    }
}
