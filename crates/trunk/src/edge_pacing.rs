//! Keeping the queue at the edge: a ceiling on a lane's pacing rate, just under what its path carries.
//!
//! A congestion control that goes by losses fills the buffer in front of the path's bottleneck, and there stands the
//! queue that every discipline at the edge was meant to manage. A ceiling just under the path's capacity leaves it
//! where it can be managed. The capacity is not known and changes; the lane's own round-trip time tells: what it has
//! above its minimum is queue in the core.
//!
//! - *Free*: no ceiling, until the queue in the core is twice the target while packets wait here.
//! - *Held*: while there is a queue in the core, the rate at which bytes arrive is the path's capacity, if the lane sends
//!   more than that; the ceiling
//!   lies so far below that the queue drains within about a tenth of a second. Without a queue it rises: to just
//!   below the capacity at once, from there by a hundredth each round trip, and by steps that double once it has
//!   passed what the path could carry when it was last full.
//! - *Competing*: a queue that does not drain although the lane sends less than arrives is somebody else's, or the
//!   path has become longer. A sender that gives way to that gives way for ever, as Vegas does (Ahn et al. 1995). So
//!   the ceiling goes, the congestion control competes as it would without, and the queue is looked at again after a
//!   while, twice as long each time in vain. The two modes are Copa's (Arun and Balakrishnan 2018).
//!
//! Paths on which no queue of milliseconds forms never see a ceiling.
//!
//! Below a ceiling and without one, what a lane sends is spaced over its round trip. Users whose packets waited for
//! a repeat of the lane's get them at once and answer at once; unspaced, the lane, which has stood idle meanwhile with its
//! window open, would send all of it into the path's buffer in one burst, and lose most of that.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use crate::LaneSnapshot;

/// What a lane's pacing is bounded by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PacingMode {
    /// By nothing: no queue in the core.
    #[default]
    Free,
    /// By a ceiling just under the capacity.
    Held,
    /// By nothing: others keep a queue in the core.
    Competing,
}

/// The controller of one lane's ceiling.
#[derive(Debug, Clone, Default)]
pub struct EdgePacing {
    mode: PacingMode,
    /// bit/s; of [`PacingMode::Held`] only.
    ceiling: f64,
    /// The one before it, and since when it no longer holds: what arrives now was sent under that one.
    former: (f64, Instant),
    /// What the path carried when it was last full, bit/s.
    capacity: f64,
    step: f64,
    /// When the ceiling was last put below a queue, and how long that was.
    cut: (Instant, Duration),
    /// How often that was done to the queue that stands now.
    cuts: u32,
    /// Whether packets waited at the last update.
    waiting: bool,
    /// Updates in a row, without a ceiling, that saw a queue.
    seen: u32,
    updated: Option<Instant>,
    /// Whether the path is one on which segments are spaced. That does not end: no kernel takes it back.
    spaced: bool,
    /// When the queue in the core was last short.
    short_at: Instant,
    compete_until: Instant,
    /// How long it competes the next time.
    patience: Duration,
}

impl EdgePacing {
    /// Between two updates, beside a round trip.
    const LEAST_INTERVAL: Duration = Duration::from_millis(20);
    /// The queue in the core that is aimed at, on a path of no length.
    const TARGET: Duration = Duration::from_millis(3);
    /// Bytes that arrive at this part of the ceiling are all that the ceiling lets through.
    const THROTTLED: f64 = 0.97;
    /// A queue is drained in about this time.
    const DRAIN: f64 = 0.1;
    /// Updates that must see a queue before there is a ceiling.
    const CERTAIN: u32 = 3;
    /// How long a queue may refuse to drain before it counts as others'.
    const STUBBORN: Duration = Duration::from_millis(1500);
    const PATIENCE: Duration = Duration::from_secs(8);
    const MOST_PATIENCE: Duration = Duration::from_secs(60);
    /// And how often the ceiling must have been lowered meanwhile: a path that has become much slower needs several.
    const ENOUGH: u32 = 4;
    /// Bytes under way that make a lane busy though nothing waits for it.
    const BUSY: usize = 16 * 1448;
    /// Below this no path is held, bit/s.
    const FLOOR: f64 = 64_000.0;
    /// Segments are spaced on paths no shorter than this. On shorter ones a window is little, and timers cost much.
    const SPACED: Duration = Duration::from_millis(1);

    /// What it does now.
    pub const fn mode(&self) -> PacingMode {
        self.mode
    }

    /// The ceiling in force.
    pub fn ceiling(&self) -> Option<Rate> {
        (self.mode == PacingMode::Held).then(|| Rate::from_bits_per_second(self.ceiling as u64))
    }

    /// The most that segments are to be spaced by, with [`Rate::MAX`] as the window and the round trip have it; `None` where
    /// they need not be spaced.
    pub fn spacing(&self) -> Option<Rate> {
        self.ceiling().or(self.spaced.then_some(Rate::MAX))
    }

    /// What the path was found to carry for this lane, bit/s, if it is held and packets wait for it.
    pub fn claim(&self) -> Option<f64> {
        (self.mode == PacingMode::Held && self.waiting).then_some(self.capacity)
    }

    /// The mean of what held lanes to one peer [claim](Self::claim), if there are several: what is fair to each, bit/s.
    pub fn fair_share(claims: impl Iterator<Item = f64>) -> Option<f64> {
        let (sum, count) = claims.fold((0.0, 0_u32), |(sum, count), claim| (sum + claim, count + 1));
        (count > 1).then(|| sum / f64::from(count))
    }

    /// Moves the ceiling a part of the way to a `fair` share of what lanes on the same path carry, bit/s. Lanes that
    /// go by one queue do not find equal shares by themselves, as those do that go by losses.
    pub fn share(&mut self, fair: f64) {
        if self.claim().is_some() && self.capacity > 0.0 {
            let moved = self.capacity + (fair - self.capacity) / 4.0;
            self.ceiling = (self.ceiling * moved / self.capacity).max(Self::FLOOR);
            self.capacity = moved;
        }
    }

    /// Whether this lane's path has a queue that is more than the wobble of a round trip.
    pub fn has_queue(lane: &LaneSnapshot) -> bool {
        let (Some(srtt), Some(min_rtt)) = (lane.srtt, lane.min_rtt) else { return false };
        srtt.saturating_sub(min_rtt) > Self::target(min_rtt) * 2
    }

    /// The queue in the core that is aimed at.
    fn target(min_rtt: Duration) -> Duration {
        Self::TARGET + min_rtt / 32
    }

    /// Takes note of how the lane does; `waiting` if packets wait for it. Whether [`EdgePacing::spacing`] may have changed.
    pub fn update(&mut self, now: Instant, lane: &LaneSnapshot, waiting: bool) -> bool {
        let before = self.spaced;
        self.spaced |= lane.min_rtt.is_some_and(|rtt| rtt >= Self::SPACED);
        self.update_ceiling(now, lane, waiting) || before != self.spaced
    }

    /// The same of the ceiling alone.
    fn update_ceiling(&mut self, now: Instant, lane: &LaneSnapshot, waiting: bool) -> bool {
        let (Some(srtt), Some(min_rtt), Some(rate)) = (lane.srtt, lane.min_rtt, lane.delivery_rate) else {
            return false;
        };
        let since = *self.updated.get_or_insert(now);
        if now.saturating_since(since) < srtt.max(Self::LEAST_INTERVAL) {
            return false;
        }
        self.updated = Some(now);
        self.waiting = waiting;
        let before = self.mode;
        let queue = srtt.saturating_sub(min_rtt);
        let target = Self::target(min_rtt);
        if queue <= target * 3 / 2 {
            self.short_at = now;
            self.cuts = 0;
        }
        // A lane with next to nothing under way has no queue of its own: its last round trips may be those of
        // acknowledgements that were put off.
        let busy = waiting || lane.unacknowledged >= Self::BUSY;
        match self.mode {
            PacingMode::Free => {
                self.short_at = now;
                self.seen = if busy && queue > target * 2 { self.seen + 1 } else { 0 };
                if self.seen >= Self::CERTAIN {
                    self.seen = 0;
                    self.hold(now, (srtt, rate), (queue, target));
                }
            }
            PacingMode::Held => self.steer(now, (srtt, rate), (queue, target)),
            PacingMode::Competing => {
                if queue <= target {
                    // They have gone.
                    self.patience = Self::PATIENCE;
                    (self.mode, self.short_at) = (PacingMode::Free, now);
                } else if now >= self.compete_until {
                    self.short_at = now;
                    self.hold(now, (srtt, rate), (queue, target));
                }
            }
        }
        self.mode == PacingMode::Held || before == PacingMode::Held
    }

    /// Puts the ceiling below `rate`, at which bytes arrive.
    ///
    /// That rate is the path's capacity while the path has a queue, unless the lane sends no more than that: then it is only
    /// what the lane's own ceiling, or what there is to send, lets through, and tells nothing of what the path could carry.
    fn hold(&mut self, now: Instant, (srtt, rate): (Duration, Rate), (queue, target): (Duration, Duration)) {
        self.cut = (now, queue);
        self.cuts += 1;
        let arrives = rate.bits_per_second() as f64;
        let of_the_lane = self.mode == PacingMode::Held
            && (!self.waiting || arrives >= self.ceiling_of_arrivals(now, srtt) * Self::THROTTLED);
        self.capacity = if of_the_lane { self.capacity.max(arrives) } else { arrives };
        let excess = queue.saturating_sub(target / 2).as_secs_f64();
        let cut = (excess / Self::DRAIN).clamp(0.02, 0.3);
        self.set_ceiling(now, (arrives * (1.0 - cut)).max(Self::FLOOR));
        self.step = 0.0;
        self.mode = PacingMode::Held;
    }

    fn set_ceiling(&mut self, now: Instant, ceiling: f64) {
        self.former = (self.ceiling, now);
        self.ceiling = ceiling;
    }

    /// The ceiling under which that was sent which arrives now: a change shows after a round trip and some.
    fn ceiling_of_arrivals(&self, now: Instant, srtt: Duration) -> f64 {
        let (former, changed) = self.former;
        if now.saturating_since(changed) < srtt * 5 / 2 { former } else { self.ceiling }
    }

    fn steer(&mut self, now: Instant, (srtt, rate): (Duration, Rate), (queue, target): (Duration, Duration)) {
        if queue > target {
            if now.saturating_since(self.short_at) > Self::STUBBORN && self.cuts >= Self::ENOUGH {
                self.patience = (self.patience * 2).clamp(Self::PATIENCE, Self::MOST_PATIENCE);
                self.compete_until = now + self.patience;
                self.cuts = 0;
                self.mode = PacingMode::Competing;
                return;
            }
            // What was cut shows after a round trip and some. A queue that drains meanwhile is on its way out, and what
            // arrives may be no more than what is sent already.
            let (since, was) = self.cut;
            let due = now.saturating_since(since) >= srtt * 5 / 2;
            if queue > was || (due && queue > was * 7 / 10) {
                let floor = self.ceiling * 0.6;
                self.hold(now, (srtt, rate), (queue, target));
                self.ceiling = self.ceiling.max(floor);
            } else if due {
                self.cut = (now, queue);
            }
            return;
        }
        // The next queue is another one.
        self.cut = (now, Duration::ZERO);
        if !self.waiting {
            return;
        }
        let settled = self.capacity * 0.97;
        if self.ceiling < settled {
            self.set_ceiling(now, settled);
            return;
        }
        let gentle = self.ceiling / 100.0;
        let beyond = self.ceiling > self.capacity * 1.06;
        self.step = if beyond { (self.step * 2.0).clamp(gentle, self.ceiling / 24.0) } else { gentle };
        self.set_ceiling(now, self.ceiling + self.step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fluid model of one bottleneck with a buffer of 50 ms, on a path of 30 ms.
    struct Path {
        queue_bits: f64,
        srtt: f64,
        delivered: f64,
        /// Added to the round trip by something that takes no capacity away, seconds.
        detour: f64,
        time: u64,
    }

    const MIN_RTT: f64 = 0.030;

    impl Path {
        fn new() -> Self {
            Path { queue_bits: 0.0, srtt: MIN_RTT, delivered: 0.0, detour: 0.0, time: 0 }
        }

        /// A millisecond in which the lane sends at `rate` and others fill the buffer up to `others_queue` seconds.
        fn run(&mut self, rate: f64, capacity: f64, others_queue: f64) {
            let offered = self.queue_bits + rate * 0.001;
            let served = offered.min(capacity * 0.001);
            self.queue_bits = (offered - served).min(capacity * 0.050);
            let delay = (self.queue_bits / capacity).max(others_queue);
            self.srtt += (MIN_RTT + delay + self.detour - self.srtt) / 20.0;
            // Others in the queue take half of what is served.
            let ours = if others_queue > 0.0 { served.min(capacity * 0.0005) } else { served };
            self.delivered += (ours * 1000.0 - self.delivered) / 20.0;
            self.time += 1;
        }

        fn snapshot(&self) -> LaneSnapshot {
            LaneSnapshot {
                srtt: Some(Duration::from_secs_f64(self.srtt)),
                min_rtt: Some(Duration::from_secs_f64(MIN_RTT)),
                delivery_rate: Some(Rate::from_bits_per_second(self.delivered as u64)),
                ..LaneSnapshot::default()
            }
        }
    }

    /// Runs `millis` and gives the mean queue in ms and the utilisation of the last half of it.
    fn run(pacing: &mut EdgePacing, path: &mut Path, millis: u64, capacity: f64, others: f64) -> (f64, f64) {
        let (mut queue, mut used) = (0.0, 0.0);
        for step in 0..millis {
            let rate = pacing.ceiling().map_or(capacity * 1.2, |rate| rate.bits_per_second() as f64);
            path.run(rate, capacity, others);
            let _ = pacing.update(Instant::from_millis(path.time), &path.snapshot(), true);
            if step >= millis / 2 {
                queue += path.queue_bits / capacity * 1000.0;
                used += rate.min(capacity) / capacity;
            }
        }
        let counted = (millis - millis / 2) as f64;
        (queue / counted, used / counted)
    }

    #[test]
    fn the_queue_moves_out_of_the_core_and_the_path_stays_full() {
        let (mut pacing, mut path) = (EdgePacing::default(), Path::new());
        let (queue, used) = run(&mut pacing, &mut path, 10_000, 50e6, 0.0);
        assert_eq!(pacing.mode(), PacingMode::Held);
        assert!(queue < 5.0, "{queue} ms");
        assert!(used > 0.96, "{used}");
    }

    #[test]
    fn the_ceiling_follows_the_path_down_and_up() {
        let (mut pacing, mut path) = (EdgePacing::default(), Path::new());
        let _ = run(&mut pacing, &mut path, 5000, 100e6, 0.0);
        let (queue, used) = run(&mut pacing, &mut path, 4000, 40e6, 0.0);
        assert!(queue < 6.0 && used > 0.95, "down: {queue} ms, {used}");
        let (queue, used) = run(&mut pacing, &mut path, 4000, 80e6, 0.0);
        assert!(queue < 6.0 && used > 0.95, "up: {queue} ms, {used}");
    }

    #[test]
    fn what_a_ceiling_lets_through_is_not_taken_for_the_capacity() {
        let (mut pacing, mut path) = (EdgePacing::default(), Path::new());
        let _ = run(&mut pacing, &mut path, 5000, 50e6, 0.0);
        // A round trip that is longer for a second looks like a queue: the ceiling is lowered again and again, and
        // what arrives is each time what it let through.
        path.detour = 0.012;
        let _ = run(&mut pacing, &mut path, 1200, 50e6, 0.0);
        assert_eq!(pacing.mode(), PacingMode::Held);
        let lowered = pacing.ceiling().expect("held").bits_per_second();
        assert!(lowered < 40_000_000, "{lowered}");
        let claim = pacing.claim().expect("held");
        assert!((45e6..55e6).contains(&claim), "{claim}");
        path.detour = 0.0;
        let (_, used) = run(&mut pacing, &mut path, 1000, 50e6, 0.0);
        assert!(used > 0.95, "{used}");
    }

    #[test]
    fn what_a_lane_with_little_to_send_delivers_is_not_taken_for_the_capacity() {
        let (mut pacing, mut path) = (EdgePacing::default(), Path::new());
        let _ = run(&mut pacing, &mut path, 5000, 50e6, 0.0);
        path.detour = 0.012;
        for _ in 0..1000 {
            path.run(5e6, 50e6, 0.0);
            let _ = pacing.update(Instant::from_millis(path.time), &path.snapshot(), false);
        }
        path.detour = 0.0;
        let (_, used) = run(&mut pacing, &mut path, 1000, 50e6, 0.0);
        assert!(used > 0.95, "{used}");
    }

    #[test]
    fn a_queue_of_others_ends_the_ceiling_and_their_end_brings_it_back() {
        let (mut pacing, mut path) = (EdgePacing::default(), Path::new());
        let _ = run(&mut pacing, &mut path, 5000, 50e6, 0.0);
        let _ = run(&mut pacing, &mut path, 3000, 50e6, 0.040);
        assert_eq!(pacing.mode(), PacingMode::Competing);
        assert_eq!(pacing.ceiling(), None);
        // It looks again now and then, for a second and a half.
        let mut held = 0;
        for _ in 0..60_000 {
            path.run(45e6, 50e6, 0.040);
            let _ = pacing.update(Instant::from_millis(path.time), &path.snapshot(), true);
            held += u64::from(pacing.mode() == PacingMode::Held);
        }
        assert!((1000..8000).contains(&held), "{held} of 60000 ms held");
        let (queue, used) = run(&mut pacing, &mut path, 140_000, 50e6, 0.0);
        assert_eq!(pacing.mode(), PacingMode::Held);
        assert!(queue < 5.0 && used > 0.96, "{queue} ms, {used}");
    }

    #[test]
    fn held_lanes_come_to_equal_shares_and_keep_the_sum() {
        let held = |capacity: f64| EdgePacing {
            mode: PacingMode::Held,
            waiting: true,
            capacity,
            ceiling: capacity * 0.97,
            ..EdgePacing::default()
        };
        let mut lanes = [held(7e6), held(2e6)];
        for turn in 0..40 {
            let mean = lanes.iter().filter_map(EdgePacing::claim).sum::<f64>() / 2.0;
            lanes[turn % 2].share(mean);
        }
        let claims = lanes.each_ref().map(|lane| lane.claim().expect("held"));
        assert!((claims[0] - claims[1]).abs() < 0.2e6, "{claims:?}");
        assert!((8e6..10e6).contains(&(claims[0] + claims[1])), "{claims:?}");
        let mut quiet = EdgePacing { waiting: false, ..held(7e6) };
        quiet.share(1e6);
        assert_eq!((quiet.claim(), quiet.capacity), (None, 7e6), "who has little to send is left alone");
    }

    #[test]
    fn segments_are_spaced_from_the_first_look_at_a_path_of_milliseconds() {
        let mut pacing = EdgePacing::default();
        assert_eq!(pacing.spacing(), None);
        let lane = LaneSnapshot { min_rtt: Some(Duration::from_millis(30)), ..LaneSnapshot::default() };
        assert!(pacing.update(Instant::ZERO, &lane, false));
        assert_eq!(
            (pacing.mode(), pacing.ceiling(), pacing.spacing()),
            (PacingMode::Free, None, Some(Rate::MAX))
        );
        assert!(!pacing.update(Instant::from_millis(1), &lane, false), "nothing new");
        let mut path = Path::new();
        let _ = run(&mut pacing, &mut path, 5000, 50e6, 0.0);
        assert_eq!(pacing.mode(), PacingMode::Held);
        assert_eq!(pacing.spacing(), pacing.ceiling());
    }

    #[test]
    fn a_path_without_a_queue_of_milliseconds_is_left_alone() {
        let mut pacing = EdgePacing::default();
        let lane = LaneSnapshot {
            srtt: Some(Duration::from_micros(900)),
            min_rtt: Some(Duration::from_micros(30)),
            delivery_rate: Some(Rate::from_mbit(12_000.0)),
            ..LaneSnapshot::default()
        };
        assert!((0..10_000).all(|n| !pacing.update(Instant::from_millis(n), &lane, true)));
        assert_eq!(pacing.spacing(), None);
    }

    #[test]
    fn a_lane_with_little_to_send_is_not_held() {
        let mut pacing = EdgePacing::default();
        let lane = LaneSnapshot {
            srtt: Some(Duration::from_millis(90)),
            min_rtt: Some(Duration::from_millis(30)),
            delivery_rate: Some(Rate::from_mbit(0.1)),
            ..LaneSnapshot::default()
        };
        let _ = pacing.update(Instant::ZERO, &lane, false);
        assert!((1..1000).all(|n| !pacing.update(Instant::from_millis(n * 10), &lane, false)));
        assert_eq!(pacing.ceiling(), None);
    }
}
