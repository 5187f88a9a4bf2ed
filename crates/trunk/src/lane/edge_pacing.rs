//! Keeps the queue at the edge: a ceiling on a lane's pacing rate, just under the capacity of its path.
//!
//! A loss-based congestion control fills the buffer in front of the path's bottleneck. The queue then stands in the
//! core, where no discipline of the edge can manage it. A ceiling just under the path's capacity keeps the queue at
//! the edge. The capacity is unknown and changes, so the controller goes by the lane's own round-trip time: the part
//! of it above the minimum is queue in the core.
//!
//! - *Free*: no ceiling, until the queue in the core is twice the target while packets wait at the edge.
//! - *Held*: while the core has a queue, the delivery rate is the path's capacity, provided that the lane sends more
//!   than that. The controller sets the ceiling so far below it that the queue drains within about a tenth of a
//!   second. Without a queue the ceiling rises: at once to just below the capacity, then by a hundredth each round
//!   trip, and by steps that double once it has passed the capacity that was last seen.
//! - *Competing*: the queue does not drain although the lane sends less than arrives. Then the queue belongs to
//!   others, or the path has become longer. A sender that yields to such a queue yields for ever, as Vegas does (Ahn
//!   et al. 1995). So the controller removes the ceiling, the congestion control competes as it would without, and
//!   the controller probes the queue again after a while. The time between probes doubles with each probe that
//!   fails. The two modes are Copa's (Arun and Balakrishnan 2018).
//!
//! Paths on which no queue of milliseconds forms never get a ceiling.
//!
//! The kernel paces the lane's segments over its round trip, with a ceiling and without one. When a lane
//! retransmits, the packets that waited behind the loss reach their users at once, and the users answer at once. The
//! lane has been idle meanwhile, with its window open. Without pacing it would send all of that into the path's
//! buffer in one burst, and lose most of it.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use crate::LaneSnapshot;

/// The bound on a lane's pacing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PacingMode {
    /// None: the core has no queue.
    #[default]
    Free,
    /// A ceiling just under the capacity.
    Held,
    /// None: others keep a queue in the core.
    Competing,
}

/// The controller of one lane's ceiling.
#[derive(Debug, Clone, Default)]
pub(crate) struct EdgePacing {
    mode: PacingMode,
    /// bit/s; used while held.
    ceiling: f64,
    /// The ceiling before it, bit/s, and when it was replaced: arrivals of now were sent under that one.
    former: (f64, Instant),
    /// The path's capacity when it was last full, bit/s.
    capacity: f64,
    step: f64,
    /// When the ceiling was last cut, and the queue at that time.
    cut: (Instant, Duration),
    /// Cuts since the queue was last short.
    cuts: u32,
    /// Whether packets waited at the last update.
    waiting: bool,
    /// Consecutive updates without a ceiling that saw a queue.
    queue_samples: u32,
    updated: Option<Instant>,
    /// Whether segments are paced on this path. Once set it stays: Linux does not turn pacing off again.
    paced: bool,
    /// When the queue in the core was last short.
    short_at: Instant,
    compete_until: Instant,
    /// How long it competes before the next probe.
    probe_backoff: Duration,
}

impl EdgePacing {
    /// The shortest time between two updates; a longer round-trip time prevails.
    const MIN_INTERVAL: Duration = Duration::from_millis(20);
    /// The target queue in the core on a path of no length.
    const TARGET: Duration = Duration::from_millis(3);
    /// A delivery rate of this part of the ceiling or more is limited by the ceiling.
    const CEILING_LIMITED: f64 = 0.97;
    /// The time in which a cut drains the queue, seconds.
    const DRAIN_TIME: f64 = 0.1;
    /// Consecutive updates with a queue before there is a ceiling.
    const MIN_QUEUE_SAMPLES: u32 = 3;
    /// A queue that has not drained after this time counts as others'.
    const DRAIN_TIMEOUT: Duration = Duration::from_millis(1500);
    /// The first time and the longest time between two probes of a queue of others.
    const PROBE_BACKOFF: Duration = Duration::from_secs(8);
    const MAX_PROBE_BACKOFF: Duration = Duration::from_secs(60);
    /// Cuts before a queue counts as others': a path that has become much slower needs several.
    const MIN_CUTS: u32 = 4;
    /// A lane with so many bytes in flight is busy though no packet waits for it.
    const BUSY_BYTES: usize = 16 * 1448;
    /// The lowest ceiling, bit/s.
    const MIN_CEILING: f64 = 64_000.0;
    /// The shortest round-trip time of a path that is paced. On a shorter one a window is small and timers cost much.
    const MIN_PACED_RTT: Duration = Duration::from_millis(1);

    /// The bound in force.
    pub(crate) const fn mode(&self) -> PacingMode {
        self.mode
    }

    /// The ceiling in force.
    pub(crate) fn ceiling(&self) -> Option<Rate> {
        (self.mode == PacingMode::Held).then(|| Rate::from_bits_per_second(self.ceiling as u64))
    }

    /// The maximum pacing rate to set; [`Rate::MAX`] to pace by window and round-trip time alone; `None` not to pace.
    pub(crate) fn pacing_rate(&self) -> Option<Rate> {
        self.ceiling().or(self.paced.then_some(Rate::MAX))
    }

    /// The estimated capacity of the path for this lane, bit/s, if the lane is held and packets wait for it.
    pub(crate) fn capacity_estimate(&self) -> Option<f64> {
        (self.mode == PacingMode::Held && self.waiting).then_some(self.capacity)
    }

    /// The mean [capacity estimate](Self::capacity_estimate) of the held lanes to one peer, if there are several: the
    /// fair share of each, bit/s.
    pub(crate) fn fair_share(estimates: impl Iterator<Item = f64>) -> Option<f64> {
        let (sum, count) = estimates.fold((0.0, 0_u32), |(sum, count), estimate| (sum + estimate, count + 1));
        (count > 1).then(|| sum / f64::from(count))
    }

    /// Moves the ceiling a quarter of the way towards the `fair` share of the lanes on the same path, bit/s. Delay-based
    /// lanes behind one queue do not converge to equal shares by themselves, as loss-based ones do.
    pub(crate) fn approach(&mut self, fair: f64) {
        if self.capacity_estimate().is_some() && self.capacity > 0.0 {
            let moved = self.capacity + (fair - self.capacity) / 4.0;
            self.ceiling = (self.ceiling * moved / self.capacity).max(Self::MIN_CEILING);
            self.capacity = moved;
        }
    }

    /// Whether this lane's path has a queue beyond the usual variation of its round-trip time.
    pub(crate) fn has_queue(lane: &LaneSnapshot) -> bool {
        let (Some(srtt), Some(min_rtt)) = (lane.srtt, lane.min_rtt) else { return false };
        srtt.saturating_sub(min_rtt) > Self::target(min_rtt) * 2
    }

    /// The target queue in the core.
    fn target(min_rtt: Duration) -> Duration {
        Self::TARGET + min_rtt / 32
    }

    /// Takes a snapshot of the lane; `waiting` if packets wait for it. Whether [`EdgePacing::pacing_rate`] may have changed.
    pub(crate) fn update(&mut self, now: Instant, lane: &LaneSnapshot, waiting: bool) -> bool {
        let before = self.paced;
        self.paced |= lane.min_rtt.is_some_and(|rtt| rtt >= Self::MIN_PACED_RTT);
        self.update_ceiling(now, lane, waiting) || before != self.paced
    }

    /// As [`EdgePacing::update`], for the ceiling alone.
    fn update_ceiling(&mut self, now: Instant, lane: &LaneSnapshot, waiting: bool) -> bool {
        let (Some(srtt), Some(min_rtt), Some(rate)) = (lane.srtt, lane.min_rtt, lane.delivery_rate) else {
            return false;
        };
        let since = *self.updated.get_or_insert(now);
        if now.saturating_since(since) < srtt.max(Self::MIN_INTERVAL) {
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
        // A lane with little in flight has no queue of its own: delayed acknowledgements may have made its last round
        // trips longer.
        let busy = waiting || lane.unacknowledged >= Self::BUSY_BYTES;
        match self.mode {
            PacingMode::Free => {
                self.short_at = now;
                self.queue_samples = if busy && queue > target * 2 { self.queue_samples + 1 } else { 0 };
                if self.queue_samples >= Self::MIN_QUEUE_SAMPLES {
                    self.queue_samples = 0;
                    self.hold(now, (srtt, rate), (queue, target));
                }
            }
            PacingMode::Held => self.adjust(now, (srtt, rate), (queue, target)),
            PacingMode::Competing => {
                if queue <= target {
                    // They have gone.
                    self.probe_backoff = Self::PROBE_BACKOFF;
                    (self.mode, self.short_at) = (PacingMode::Free, now);
                } else if now >= self.compete_until {
                    self.short_at = now;
                    self.hold(now, (srtt, rate), (queue, target));
                }
            }
        }
        self.mode == PacingMode::Held || before == PacingMode::Held
    }

    /// Puts the ceiling below the delivery `rate`.
    ///
    /// While the path has a queue, that rate is its capacity, unless the lane sends no more than that. Then the lane's own
    /// ceiling or its lack of data limits the rate, which tells nothing about the capacity.
    fn hold(&mut self, now: Instant, (srtt, rate): (Duration, Rate), (queue, target): (Duration, Duration)) {
        self.cut = (now, queue);
        self.cuts += 1;
        let arrives = rate.bits_per_second() as f64;
        let of_the_lane = self.mode == PacingMode::Held
            && (!self.waiting || arrives >= self.ceiling_of_arrivals(now, srtt) * Self::CEILING_LIMITED);
        self.capacity = if of_the_lane { self.capacity.max(arrives) } else { arrives };
        let excess = queue.saturating_sub(target / 2).as_secs_f64();
        let cut = (excess / Self::DRAIN_TIME).clamp(0.02, 0.3);
        self.set_ceiling(now, (arrives * (1.0 - cut)).max(Self::MIN_CEILING));
        self.step = 0.0;
        self.mode = PacingMode::Held;
    }

    fn set_ceiling(&mut self, now: Instant, ceiling: f64) {
        self.former = (self.ceiling, now);
        self.ceiling = ceiling;
    }

    /// The ceiling under which the bytes were sent that arrive now: a change takes effect after a round trip and some.
    fn ceiling_of_arrivals(&self, now: Instant, srtt: Duration) -> f64 {
        let (former, changed) = self.former;
        if now.saturating_since(changed) < srtt * 5 / 2 { former } else { self.ceiling }
    }

    fn adjust(
        &mut self,
        now: Instant,
        (srtt, rate): (Duration, Rate),
        (queue, target): (Duration, Duration),
    ) {
        if queue > target {
            if now.saturating_since(self.short_at) > Self::DRAIN_TIMEOUT && self.cuts >= Self::MIN_CUTS {
                self.probe_backoff =
                    (self.probe_backoff * 2).clamp(Self::PROBE_BACKOFF, Self::MAX_PROBE_BACKOFF);
                self.compete_until = now + self.probe_backoff;
                self.cuts = 0;
                self.mode = PacingMode::Competing;
                return;
            }
            // A cut takes effect after a round trip and some. A queue that shrinks meanwhile drains already, and the
            // delivery rate may be no more than the sending rate.
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
        let estimate = pacing.capacity_estimate().expect("held");
        assert!((45e6..55e6).contains(&estimate), "{estimate}");
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
            let mean = lanes.iter().filter_map(EdgePacing::capacity_estimate).sum::<f64>() / 2.0;
            lanes[turn % 2].approach(mean);
        }
        let estimates = lanes.each_ref().map(|lane| lane.capacity_estimate().expect("held"));
        assert!((estimates[0] - estimates[1]).abs() < 0.2e6, "{estimates:?}");
        assert!((8e6..10e6).contains(&(estimates[0] + estimates[1])), "{estimates:?}");
        let mut quiet = EdgePacing { waiting: false, ..held(7e6) };
        quiet.approach(1e6);
        assert_eq!(
            (quiet.capacity_estimate(), quiet.capacity),
            (None, 7e6),
            "who has little to send is left alone"
        );
    }

    #[test]
    fn segments_are_paced_from_the_first_update_on_a_path_of_milliseconds() {
        let mut pacing = EdgePacing::default();
        assert_eq!(pacing.pacing_rate(), None);
        let lane = LaneSnapshot { min_rtt: Some(Duration::from_millis(30)), ..LaneSnapshot::default() };
        assert!(pacing.update(Instant::ZERO, &lane, false));
        assert_eq!(
            (pacing.mode(), pacing.ceiling(), pacing.pacing_rate()),
            (PacingMode::Free, None, Some(Rate::MAX))
        );
        assert!(!pacing.update(Instant::from_millis(1), &lane, false), "nothing new");
        let mut path = Path::new();
        let _ = run(&mut pacing, &mut path, 5000, 50e6, 0.0);
        assert_eq!(pacing.mode(), PacingMode::Held);
        assert_eq!(pacing.pacing_rate(), pacing.ceiling());
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
        assert_eq!(pacing.pacing_rate(), None);
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
