use std::collections::VecDeque;
use std::time::Duration;

use trunkline_units::{Instant, Rate};

use super::arrivals::{Arrival, BaseDelay, LaneArrivals, PathDelay, Signal};
use super::division::{Demand, divide};

/// The bound on what a trunk sends over a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathMode {
    /// None: the core has had no queue so far.
    #[default]
    Free,
    /// A rate near the capacity, at which the queue in the core is a few milliseconds.
    Held,
    /// None: others keep a queue in the core, and the lanes compete with them by their own congestion control.
    Competing,
}

/// A change of what the controller takes the path for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PathChange {
    /// The core has got a queue: the trunk is held from now on.
    Queue {
        /// Its delay.
        queue: Duration,
        /// The estimated capacity.
        capacity: Rate,
    },
    /// The queue does not drain though the rate was lowered: the lanes compete from now on.
    Rivals {
        /// Its delay.
        queue: Duration,
        /// When the next probe comes, at the latest.
        probe_after: Duration,
    },
    /// A probe found no rivals: the trunk is held again.
    Alone {
        /// The estimated capacity.
        capacity: Rate,
    },
    /// The delay has risen by so much, and it is no queue.
    Longer {
        /// By how much.
        delay: Duration,
    },
    /// The path carries so much more than when it was last full that nothing is known of it: no bound until it has a queue again.
    Wider {
        /// What it carries at least.
        capacity: Rate,
    },
}

/// The number of a lane on its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathLane(pub u32);

/// What a lane's owner knows of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaneDemand {
    /// Whether packets wait for it at the edge.
    pub waiting: bool,
    /// Whether it has so much in flight that a queue in the core may be its own, though no packet waits at the edge.
    pub busy: bool,
    /// The smallest round-trip time of its connection.
    pub min_rtt: Option<Duration>,
    /// The rate that its congestion window allows.
    pub window_rate: Option<Rate>,
    /// Data segments sent, retransmissions included, modulo 2^32.
    pub segments_sent: u32,
    /// Segments retransmitted, modulo 2^32.
    pub retransmissions: u32,
}

/// The state of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathStatus {
    /// The bound in force.
    pub mode: PathMode,
    /// What the trunk may send, while it is held.
    pub rate: Option<Rate>,
    /// The estimated capacity for the trunk, once the core has had a queue.
    pub capacity: Option<Rate>,
    /// The standing queue in the core, once its delay has been measured.
    pub queue: Option<Duration>,
    /// The queue that the controller lets stand.
    pub target: Duration,
    /// What the queue is measured by.
    pub signal: Signal,
}

#[derive(Debug, Clone)]
struct Lane {
    arrivals: LaneArrivals,
    weight: f64,
    demand: LaneDemand,
    /// Whether packets waited for it at any time in the present window.
    waited: bool,
    grant: f64,
}

/// What was measured in one window.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// Of all arrivals, bit/s.
    rate: f64,
    /// Whether packets waited at the edge: the path could have carried more if it had had room.
    waited: bool,
    queue: f64,
}

/// The window under way.
#[derive(Debug, Clone, Copy)]
struct CurrentWindow {
    since: Instant,
    latest: Instant,
    /// The longest time between two arrivals.
    gap: Duration,
    /// Whether a lane was busy at each arrival.
    busy: bool,
}

impl CurrentWindow {
    const fn new(now: Instant) -> Self {
        CurrentWindow { since: now, latest: now, gap: Duration::ZERO, busy: true }
    }
}

/// A time in which the queue is longer than the target.
#[derive(Debug, Clone, Copy)]
struct Excess {
    /// The capacity when it began, bit/s.
    capacity: f64,
    peak: f64,
    /// Since when it has not fallen, and the shortest and the longest one since then.
    still_since: Instant,
    still: (f64, f64),
    /// How much shorter the queue should have become by now, seconds.
    drained: f64,
    losses: Losses,
}

impl Excess {
    fn new(now: Instant, capacity: f64, queue: f64) -> Self {
        Excess {
            capacity,
            peak: queue,
            still_since: now,
            still: (f64::INFINITY, 0.0),
            drained: 0.0,
            losses: Losses::default(),
        }
    }
}

/// A time since which others have kept a queue, probes that found them included.
#[derive(Debug, Clone, Copy)]
struct Competition {
    since: Instant,
    /// The shortest and the longest queue, seconds.
    queues: (f64, f64),
    losses: Losses,
    /// What the trunk carried before the last probe, bit/s.
    rate: f64,
}

/// A time in which the rate is lowered to see the path empty.
#[derive(Debug, Clone, Copy)]
struct Drain {
    until: Instant,
    /// When its effect must have been seen.
    seen: Instant,
    /// The shortest queue since it began, seconds.
    shortest: f64,
}

/// Segments that the lanes sent, and those that they had to retransmit.
#[derive(Debug, Clone, Copy, Default)]
struct Losses {
    sent: u32,
    lost: u32,
}

impl Losses {
    fn add(&mut self, more: Losses) {
        self.sent = self.sent.saturating_add(more.sent);
        self.lost = self.lost.saturating_add(more.lost);
    }
}

/// The controller of what one trunk sends over one path.
///
/// The owner reports what each lane has delivered ([`handle_arrival`](Self::handle_arrival)) and whether packets wait for it
/// ([`handle_demand`](Self::handle_demand)). [`grant`](Self::grant) says at what rate the lane may send.
#[derive(Debug, Clone)]
pub struct PathControl {
    lanes: Vec<Option<Lane>>,
    /// By [`Signal`].
    delays: [PathDelay; 2],
    /// How long after bytes were sent their arrival is known, without the queue on the way there, seconds.
    age: f64,
    /// When a lane was last seen to repair a loss.
    repaired: Option<Instant>,
    mode: PathMode,
    /// bit/s; used while held.
    rate: f64,
    /// Of the path for this trunk, bit/s; 0 before the first estimate.
    capacity: f64,
    /// The capacity when the queue was last near its target: that of a path without rivals.
    settled: f64,
    /// The capacity when the path was last full.
    full: f64,
    queue: Option<f64>,
    /// The mean change of the queue between two measurements, seconds.
    noise: f64,
    updated: Option<Instant>,
    current: Option<CurrentWindow>,
    /// The mean time between two arrivals.
    spacing: Duration,
    windows: VecDeque<Window>,
    /// By how much the rate exceeds the capacity while there is no queue.
    growth: f64,
    /// Consecutive windows with a queue, while free.
    queued: u32,
    excess: Option<Excess>,
    /// Of the present window.
    losses: Losses,
    /// The part that is lost while the queue is near its target.
    usual_loss: f64,
    draining: Option<Drain>,
    /// When the last drain ended, and the capacity when the path was last seen empty, bit/s.
    drained: (Instant, f64),
    competition: Option<Competition>,
    /// When the rate was last bounded.
    held_at: Instant,
    /// When to probe whether others still keep a queue, and how long to wait after a probe that finds one.
    probe_at: Instant,
    probe_backoff: Duration,
    probing: bool,
    /// Consecutive windows in which others seemed to have gone.
    alone: u32,
    change: Option<PathChange>,
    demands: Vec<Demand>,
    shares: Vec<f64>,
}

impl Default for PathControl {
    fn default() -> Self {
        PathControl {
            lanes: Vec::new(),
            delays: [PathDelay::default(); 2],
            age: 0.0,
            repaired: None,
            mode: PathMode::Free,
            rate: 0.0,
            capacity: 0.0,
            settled: 0.0,
            full: 0.0,
            queue: None,
            noise: 0.0,
            updated: None,
            current: None,
            spacing: Duration::ZERO,
            windows: VecDeque::with_capacity(Self::WINDOWS),
            growth: Self::MIN_GROWTH,
            queued: 0,
            excess: None,
            losses: Losses::default(),
            usual_loss: 0.0,
            draining: None,
            drained: (Instant::ZERO, 0.0),
            competition: None,
            held_at: Instant::ZERO,
            probe_at: Instant::ZERO,
            probe_backoff: Self::PROBE_BACKOFF / 2,
            probing: false,
            alone: 0,
            change: None,
            demands: Vec::new(),
            shares: Vec::new(),
        }
    }
}

impl PathControl {
    /// The lowest rate, bit/s.
    const MIN_RATE: f64 = 64_000.0;
    /// The queue that is let stand: this, and the time of two packets.
    const MIN_TARGET: f64 = 0.002;
    const TARGET_BITS: f64 = 2.0 * 12_000.0;
    /// And this many times the noise of the measurement, up to the maximum.
    const NOISE_MARGIN: f64 = 3.0;
    const MAX_TARGET: f64 = 0.015;
    /// The largest part by which the rate is below the capacity.
    const MAX_CUT: f64 = 0.3;
    /// The smallest and the largest part by which it is above the capacity while there is no queue.
    const MIN_GROWTH: f64 = 0.02;
    const MAX_GROWTH: f64 = 0.25;
    /// Windows whose median is the capacity.
    const WINDOWS: usize = 5;
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
    /// A queue stands if it is longer than the target in so many windows in a row.
    const STANDING: usize = 3;
    /// The path carries what the trunk sends if this part of it arrives.
    const CARRIED: f64 = 0.9;
    /// A window in which nothing arrives for this time, and for so many times as long as between two arrivals, is left out.
    const MIN_GAP: Duration = Duration::from_millis(25);
    const GAP_FACTOR: u32 = 4;
    /// By how much the rate is lowered to see the path empty.
    const DRAIN_CUT: f64 = 0.2;
    /// A capacity that has become less than this part of what it was behind a short queue asks for a look at the empty path.
    const LESS: f64 = 0.9;
    /// The shortest time after which a queue that does not drain counts as others', or the path as longer.
    const MIN_EXCESS: Duration = Duration::from_millis(500);
    /// The first and the longest time between two probes of a queue of others.
    const PROBE_BACKOFF: Duration = Duration::from_secs(5);
    const MAX_PROBE_BACKOFF: Duration = Duration::from_secs(20);
    /// Rivals that come back earlier than this are the same ones.
    const REST: Duration = Duration::from_secs(10);
    /// For so long others must seem to have gone before a probe comes early.
    const ALONE: Duration = Duration::from_millis(800);
    /// They do if the trunk carries so many times what it did among them: a window that grows after a loss does not.
    const GAIN: f64 = 1.5;
    /// A queue that was taken for that of others is a longer path if its delay has stayed the same for so long: the window of a rival
    /// moves within that time.
    const LONGER: Duration = Duration::from_secs(30);
    /// A lane asks for this many times what it delivers, or what its window allows.
    const HEADROOM: f64 = 1.25;
    /// A lane for which packets wait asks for so many times what it delivers, and this part of the rate.
    const MAX_RISE: f64 = 1.5;
    const MIN_RISE: f64 = 0.05;
    /// A grant that would change by no more than this part stays: each change costs a system call.
    const MIN_CHANGE: f64 = 0.002;
    /// A lane that carries less than this part of the arrivals says nothing of the queue.
    const MIN_PART: f64 = 0.1;

    /// Takes the weight of a lane among those for which packets wait, and what the owner knows of it. It is on the path from then on.
    pub fn handle_demand(&mut self, now: Instant, lane: PathLane, weight: f64, demand: LaneDemand) {
        let at = lane.0 as usize;
        if self.lanes.len() <= at {
            self.lanes.resize_with(at + 1, || None);
        }
        let state = self.lanes[at].get_or_insert_with(|| Lane {
            arrivals: LaneArrivals::default(),
            weight,
            demand,
            waited: false,
            grant: f64::INFINITY,
        });
        state.weight = weight;
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

    /// All lanes' connections have ended.
    pub fn remove_lanes(&mut self) {
        self.lanes.clear();
    }

    /// The lane's connection has ended.
    pub fn remove_lane(&mut self, lane: PathLane) {
        if let Some(state) = self.lanes.get_mut(lane.0 as usize) {
            *state = None;
        }
        if self.lanes.iter().flatten().next().is_none() {
            // The far end may have started again, with another clock.
            self.delays[Signal::OneWay as usize] = PathDelay::default();
        }
    }

    /// Takes an arrival of a lane. Whether grants may have changed.
    pub fn handle_arrival(&mut self, now: Instant, lane: PathLane, arrival: Arrival) -> bool {
        let Some(Some(state)) = self.lanes.get_mut(lane.0 as usize) else { return false };
        self.delays[arrival.signal as usize].update(now, &mut state.arrivals, arrival);
        if let Some(age) = arrival.age.filter(|_| arrival.signal == self.signal(now)) {
            let path = age.as_secs_f64() - self.queue.unwrap_or(0.0).max(0.0);
            self.age += (path.clamp(0.0, Self::MAX_AGE) - self.age) / 8.0;
        }
        self.measure_queue(now);
        self.update_window(now);
        self.update_rate(now);
        self.divide()
    }

    /// The rate at which a lane may send; `None` without a bound.
    pub fn grant(&self, lane: PathLane) -> Option<Rate> {
        let state = self.lanes.get(lane.0 as usize)?.as_ref()?;
        let rate = state.grant.max(Self::MIN_RATE);
        (self.mode == PathMode::Held && rate.is_finite()).then(|| Self::rate(rate))
    }

    /// The bound in force.
    pub const fn mode(&self) -> PathMode {
        self.mode
    }

    /// Its state.
    pub fn status(&self) -> PathStatus {
        let rate = |bits: f64| (bits > 0.0).then(|| Self::rate(bits));
        PathStatus {
            mode: self.mode,
            rate: rate(self.rate).filter(|_| self.mode == PathMode::Held),
            capacity: rate(self.capacity),
            queue: self.queue.map(|queue| Duration::from_secs_f64(queue.max(0.0))),
            target: Duration::from_secs_f64(self.target()),
            signal: self.updated.map_or(Signal::RoundTrip, |at| self.signal(at)),
        }
    }

    /// What the controller has found out since this was asked last: the newest, if it was more than one thing.
    pub const fn take_change(&mut self) -> Option<PathChange> {
        self.change.take()
    }

    const fn rate(bits: f64) -> Rate {
        Rate::from_bits_per_second(bits as u64)
    }

    fn min_rtt(&self) -> Duration {
        let known = self.lanes.iter().flatten().filter_map(|lane| lane.demand.min_rtt);
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

    /// The queue that is let stand, seconds.
    fn target(&self) -> f64 {
        let rate = if self.mode == PathMode::Held { self.rate } else { self.median_rate(3) };
        let packets = if rate > 0.0 { Self::TARGET_BITS / rate } else { 0.0 };
        (Self::MIN_TARGET + packets).max(self.noise * Self::NOISE_MARGIN).min(Self::MAX_TARGET.max(packets))
    }

    /// The queue by one signal, seconds; `None` if nothing was measured of late.
    fn queue_by(&mut self, now: Instant, signal: Signal) -> Option<f64> {
        let base = self.delays[signal as usize].base.map(|base| base.get())?;
        let since = Instant::from_nanos(now.as_nanos().saturating_sub(self.filter().as_nanos() as u64));
        let total: f64 = self.lanes.iter().flatten().map(|lane| lane.arrivals.mean_rate()).sum();
        let lanes = self.lanes.iter_mut().flatten();
        let heard = lanes.filter(|lane| lane.arrivals.mean_rate() >= total * Self::MIN_PART);
        let delays = heard.filter_map(|lane| lane.arrivals.min_delay(signal, since));
        delays.map(|delay| (delay - base).max(0.0)).reduce(f64::max)
    }

    fn measure_queue(&mut self, now: Instant) {
        let signal = self.signal(now);
        let mut queue = self.queue_by(now, signal);
        // Data behind a loss waits at the far end for the repair, and is reported late; acknowledgements are not.
        let repairs =
            self.repaired.is_some_and(|at| now.saturating_since(at) <= self.filter() + self.min_rtt());
        if signal == Signal::OneWay && repairs {
            let other = self.queue_by(now, Signal::RoundTrip).or(self.queue);
            queue = queue.into_iter().chain(other).reduce(f64::min);
        }
        let Some(queue) = queue else { return };
        if let Some(before) = self.queue {
            self.noise += ((queue - before).abs() - self.noise) / 32.0;
        }
        self.queue = Some(queue);
        if let Some(drain) = &mut self.draining {
            drain.shortest = drain.shortest.min(queue);
        }
    }

    /// The base delays, by all signals.
    fn bases(&mut self) -> impl Iterator<Item = &mut BaseDelay> {
        self.delays.iter_mut().filter_map(|delay| delay.base.as_mut())
    }

    /// Ends the window of the rate if it is long enough.
    fn update_window(&mut self, now: Instant) {
        let busy = self.lanes.iter().flatten().any(|lane| lane.demand.waiting || lane.demand.busy);
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
        let arrived: f64 = self.lanes.iter().flatten().map(|lane| lane.arrivals.window_bits()).sum();
        if arrived < Self::WINDOW_BITS && elapsed < Self::MAX_WINDOW {
            return;
        }
        self.current = Some(CurrentWindow::new(now));
        // A time without arrivals is no window: the lanes were idle, or one of the machines stood still.
        let usual = Self::MIN_GAP.max(self.spacing * Self::GAP_FACTOR);
        let whole = arrived >= Self::WINDOW_BITS / 2.0 && gap <= usual;
        self.end_window(now, whole, busy);
    }

    fn end_window(&mut self, now: Instant, whole: bool, busy: bool) {
        let mut rate = 0.0;
        let mut waited = false;
        for lane in self.lanes.iter_mut().flatten() {
            rate += lane.arrivals.end_window();
            waited |= std::mem::replace(&mut lane.waited, lane.demand.waiting);
        }
        let losses = std::mem::take(&mut self.losses);
        let Some(queue) = self.queue.filter(|_| whole) else {
            self.queued = 0;
            return;
        };
        if self.windows.len() == Self::WINDOWS {
            self.windows.pop_front();
        }
        self.windows.push_back(Window { rate, waited, queue });
        match self.mode {
            PathMode::Free => self.watch(now, queue, busy),
            PathMode::Held => self.estimate(now, waited, queue, losses),
            PathMode::Competing => self.compete(now, rate, queue, losses),
        }
    }

    /// The median rate of the last windows, at most so many.
    fn median_rate(&self, windows: usize) -> f64 {
        let mut rates = [0.0; Self::WINDOWS];
        let count = windows.min(self.windows.len());
        let rates = &mut rates[..count];
        for (rate, window) in rates.iter_mut().zip(self.windows.iter().rev()) {
            *rate = window.rate;
        }
        rates.sort_unstable_by(f64::total_cmp);
        rates.get(count / 2).copied().unwrap_or(0.0)
    }

    /// Without a bound: whether the core gets a queue.
    fn watch(&mut self, now: Instant, queue: f64, busy: bool) {
        self.bases().for_each(BaseDelay::handle_drained);
        self.queued = if busy && queue > 2.0 * self.target() { self.queued + 1 } else { 0 };
        if self.queued >= Self::MIN_QUEUED {
            // Either of them may have seen a machine stand still; what the path carries is not less.
            let latest = self.windows.iter().rev().take(Self::MIN_QUEUED as usize);
            self.hold(now, latest.map(|window| window.rate).fold(0.0, f64::max));
            self.change = Some(PathChange::Queue {
                queue: Duration::from_secs_f64(queue.max(0.0)),
                capacity: Self::rate(self.capacity),
            });
        }
    }

    fn hold(&mut self, now: Instant, capacity: f64) {
        self.mode = PathMode::Held;
        self.queued = 0;
        self.growth = Self::MIN_GROWTH;
        self.capacity = capacity.max(Self::MIN_RATE);
        self.full = self.capacity;
        self.held_at = now;
        self.excess = None;
        self.draining = None;
        self.drained = (now, self.capacity);
    }

    /// With a bound: what the capacity is, and whose the queue.
    fn estimate(&mut self, now: Instant, waited: bool, queue: f64, losses: Losses) {
        let target = self.target();
        let recent = self.median_rate(3);
        // What arrives is never more than the capacity, and behind a standing queue it is the capacity. A machine that serves the lanes
        // late lowers the one and adds to the delay, but not in all windows.
        if let Some(rate) = self.rate_behind_queue(target) {
            self.capacity = (self.capacity + (rate - self.capacity) / 2.0).max(Self::MIN_RATE);
            self.full = self.capacity;
        } else {
            self.capacity = self.capacity.max(recent);
        }
        if self.capacity > self.full * Self::WIDER && !self.probing {
            self.mode = PathMode::Free;
            self.change = Some(PathChange::Wider { capacity: Self::rate(self.capacity) });
            return;
        }
        let carried = self.high_rate() >= self.rate.min(self.capacity) * Self::CARRIED;
        if queue > target || !waited || !carried || self.draining.is_some() {
            self.growth = Self::MIN_GROWTH;
        } else if queue < target / 2.0 {
            self.growth = (self.growth * 2.0).min(Self::MAX_GROWTH);
        }
        if queue <= target * 1.5 {
            self.settled = self.capacity;
            self.excess = None;
            if losses.sent > 0 {
                self.usual_loss += (f64::from(losses.lost) / f64::from(losses.sent) - self.usual_loss) / 32.0;
            }
            if std::mem::take(&mut self.probing) {
                self.competition = None;
                self.change = Some(PathChange::Alone { capacity: Self::rate(self.capacity) });
            }
        } else {
            self.judge(now, queue, losses);
        }
        self.drain(now, queue);
    }

    /// The rate at which the bottleneck served the trunk, if there was a queue in all of the last windows, bit/s.
    fn rate_behind_queue(&self, target: f64) -> Option<f64> {
        let latest = self.windows.iter().rev().take(Self::STANDING);
        let stands = self.windows.len() >= Self::STANDING
            && latest.clone().all(|window| window.waited && window.queue > target);
        stands.then(|| latest.map(|window| window.rate).fold(0.0, f64::max))
    }

    /// The second highest rate of the last windows: the highest may be that of a burst after a pause.
    fn high_rate(&self) -> f64 {
        let mut high = [0.0_f64; 2];
        for window in &self.windows {
            high = [high[0].max(window.rate), high[1].max(high[0].min(window.rate))];
        }
        high[1]
    }

    /// A queue beyond the target: does it drain as it should?
    fn judge(&mut self, now: Instant, queue: f64, losses: Losses) {
        let Some(excess) = &mut self.excess else {
            self.excess = Some(Excess::new(now, self.capacity, queue));
            return;
        };
        if queue <= excess.peak / 2.0 {
            // It drains, or it was that of a moment: what is left is judged anew.
            *excess = Excess::new(now, self.capacity, queue);
            return;
        }
        let falls = self.windows.front().is_some_and(|first| first.queue - queue > Self::MIN_TARGET);
        if falls {
            (excess.still_since, excess.still) = (now, (f64::INFINITY, 0.0));
        } else {
            excess.still = (excess.still.0.min(queue), excess.still.1.max(queue));
        }
        excess.losses.add(losses);
        excess.peak = excess.peak.max(queue);
        let Excess { still_since, still: (low, high), capacity, peak, drained, losses, .. } = *excess;
        let due =
            now.saturating_since(still_since) >= Self::MIN_EXCESS.max(self.lag() * 4) && drained >= peak;
        if !due {
            return;
        }
        self.excess = None;
        let lossless =
            |losses: Losses| f64::from(losses.lost) <= f64::from(losses.sent) * 2.0 * self.usual_loss + 1.0;
        let unmoved = self.target() + (3.0 * self.noise).max(0.0015);
        // What was there when a probe began is rarely path.
        let longer = self.competition.is_none_or(|competition| {
            let (low, high) = competition.queues;
            now.saturating_since(competition.since) >= Self::LONGER
                && high - low <= unmoved
                && lossless(competition.losses)
        });
        if longer && lossless(losses) && high - low <= unmoved {
            // The rate fell and the delay did not change at all: no queue does that.
            self.bases().for_each(|base| base.raise(now, queue));
            self.queue = Some(0.0);
            self.capacity = capacity;
            self.competition = None;
            self.probing = false;
            self.change = Some(PathChange::Longer { delay: Duration::from_secs_f64(queue) });
            return;
        }
        self.mode = PathMode::Competing;
        let rested = !self.probing && now.saturating_since(self.held_at) >= Self::REST;
        self.probe_backoff =
            if rested { Self::PROBE_BACKOFF } else { (self.probe_backoff * 2).min(Self::MAX_PROBE_BACKOFF) };
        if !std::mem::take(&mut self.probing) {
            let (queue, probe_after) = (Duration::from_secs_f64(queue), self.probe_backoff);
            self.change = Some(PathChange::Rivals { queue, probe_after });
        }
        let competition = self.competition.get_or_insert(Competition {
            since: now,
            queues: (f64::INFINITY, 0.0),
            losses: Losses::default(),
            rate: 0.0,
        });
        competition.rate = capacity;
        self.probe_at = now + self.probe_backoff;
        self.alone = 0;
    }

    /// Others keep a queue: are they still there?
    fn compete(&mut self, now: Instant, rate: f64, queue: f64, losses: Losses) {
        let mut gained = false;
        if let Some(competition) = &mut self.competition {
            let (low, high) = competition.queues;
            competition.queues = (low.min(queue), high.max(queue));
            competition.losses.add(losses);
            gained = rate >= competition.rate * Self::GAIN;
        }
        let whole = self.settled > 0.0 && rate >= 0.9 * self.settled;
        self.alone = if queue <= self.target() || whole || gained { self.alone + 1 } else { 0 };
        if self.window() * self.alone >= Self::ALONE || now >= self.probe_at {
            self.hold(now, self.median_rate(3));
            self.probing = true;
        }
    }

    /// Lowers the rate for a moment where the path has not been seen empty for long, or where the capacity seems to have become less
    /// behind a queue that stays short. What is left of the queue then is no queue.
    fn drain(&mut self, now: Instant, queue: f64) {
        let (target, lag) = (self.target(), self.lag());
        let (ended, capacity) = self.drained;
        match self.draining {
            Some(drain) if now >= drain.seen => {
                let left = drain.shortest;
                if (target / 2.0..=2.0 * target).contains(&left) {
                    self.bases().for_each(|base| base.raise(now, left));
                    self.queue = Some(queue - left);
                    self.capacity = self.capacity.max(capacity);
                    self.excess = None;
                }
                self.bases().for_each(BaseDelay::handle_drained);
                self.draining = None;
                self.drained = (now, self.capacity);
            }
            Some(_) => {}
            None if queue <= target / 2.0 => self.drained.1 = self.capacity,
            None => {
                let less = self.capacity < capacity * Self::LESS;
                let due = now.saturating_since(ended) >= Self::MIN_EXCESS;
                let base = self.delays[self.signal(now) as usize].base;
                let wanted = base.is_some_and(|base| base.wants_drain(now));
                if queue <= 2.0 * target && (wanted || (less && due)) {
                    let until =
                        now + Duration::from_secs_f64(2.0 * target / Self::DRAIN_CUT) + Self::FILTER.0;
                    self.draining = Some(Drain { until, seen: until + lag, shortest: f64::INFINITY });
                }
            }
        }
    }

    fn update_rate(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.updated.replace(now).unwrap_or(now));
        if self.mode != PathMode::Held {
            return;
        }
        let (queue, target) = (self.queue.unwrap_or(0.0), self.target());
        let cut = ((queue - target) / self.drain_time()).min(Self::MAX_CUT);
        let mut factor =
            if cut > 0.0 { 1.0 - cut } else { 1.0 + self.growth * (1.0 - queue.max(0.0) / target) };
        if self.draining.is_some_and(|drain| now < drain.until) {
            factor = factor.min(1.0 - Self::DRAIN_CUT);
        }
        self.rate = (self.capacity * factor).max(Self::MIN_RATE);
        let arrives = self.median_rate(3);
        if let Some(excess) = &mut self.excess
            && self.rate < arrives
        {
            excess.drained += (1.0 - self.rate / arrives) * elapsed.as_secs_f64();
        }
    }

    /// Divides the rate among the lanes. Whether a grant has changed.
    fn divide(&mut self) -> bool {
        if self.mode != PathMode::Held {
            let mut changed = false;
            for lane in self.lanes.iter_mut().flatten() {
                changed |= lane.grant.is_finite();
                lane.grant = f64::INFINITY;
            }
            return changed;
        }
        self.demands.clear();
        self.demands.extend(self.lanes.iter().flatten().map(|lane| {
            let delivered = lane.arrivals.mean_rate();
            let rate = if lane.demand.waiting {
                // A lane whose own congestion control holds it below its share does not need all of it, nor does one for which packets
                // wait only at times.
                let window =
                    lane.demand.window_rate.map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64);
                (window * Self::HEADROOM).min(delivered * Self::MAX_RISE + self.rate * Self::MIN_RISE)
            } else {
                delivered * Self::HEADROOM
            };
            Demand { weight: lane.weight, rate }
        }));
        divide(self.rate, &self.demands, &mut self.shares);
        let left = (self.rate - self.shares.iter().sum::<f64>()).max(0.0);
        let lanes = self.lanes.iter().flatten().zip(&self.shares);
        let waiting: f64 = lanes.filter(|(lane, _)| lane.demand.waiting).map(|(_, share)| share).sum();
        let mut changed = false;
        for (lane, share) in self.lanes.iter_mut().flatten().zip(&self.shares) {
            // A lane that wakes up need not wait for the next division.
            let grant = if lane.demand.waiting { share + left * share / waiting } else { self.rate };
            if !lane.grant.is_finite() || (grant - lane.grant).abs() > lane.grant * Self::MIN_CHANGE {
                lane.grant = grant;
                changed = true;
            }
        }
        changed
    }
}
