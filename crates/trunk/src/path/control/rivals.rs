//! Whose queue it is: ours, that of others, or none at all.

use std::time::Duration;

use trunkline_units::Instant;

use super::super::arrivals::BaseDelay;
use super::super::status::{PathChange, PathMode};
use super::PathControl;
use super::losses::Losses;

/// A time in which the queue is longer than the target.
///
/// Jitter, and data that waits behind a loss, add to the delay and never take anything from it. So the queue is judged by its floor, the
/// shortest one of the last windows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Excess {
    /// The capacity when it began, bit/s.
    pub(super) capacity: f64,
    since: Instant,
    /// When the first phase ended, in which the queue got the floor from which it is to fall.
    pub(super) settled: Option<Instant>,
    /// The shortest queue of the first half of this phase, of its second half, and since then; seconds.
    early: f64,
    first: f64,
    low: f64,
    /// How much shorter the queue should have become since then, seconds.
    pub(super) drained: f64,
    losses: Losses,
    /// What the lanes were allowed to send when it began, bit/s.
    allowed: f64,
    /// Consecutive windows in which as much arrived as they were allowed.
    followed: u32,
}

impl Excess {
    /// A queue that becomes shorter than this part of it within a lag needs no more than the usual law.
    const FALLS: f64 = 0.92;
    /// A queue drains if it has become shorter by this part of what it should have.
    const DRAINS: f64 = 0.3;

    fn new(now: Instant, capacity: f64, allowed: f64) -> Self {
        Excess {
            capacity,
            since: now,
            settled: None,
            early: f64::INFINITY,
            first: f64::INFINITY,
            low: f64::INFINITY,
            drained: 0.0,
            losses: Losses::default(),
            allowed,
            followed: 0,
        }
    }

    /// Takes the queue of a window; a phase is a lag. Whether it becomes shorter as one of ours does: then what is left is judged anew.
    fn falls(&mut self, now: Instant, phase: Duration, queue: f64) -> bool {
        let age = now.saturating_since(self.since);
        match self.settled {
            None if age < phase => self.early = self.early.min(queue),
            None => {
                self.first = self.first.min(queue);
                if age >= phase * 2 {
                    if self.first <= self.early * Self::FALLS {
                        return true;
                    }
                    (self.settled, self.drained) = (Some(now), 0.0);
                }
            }
            Some(_) => self.low = self.low.min(queue),
        }
        self.drained >= self.first / 2.0 && self.first - self.low >= self.drained * Self::DRAINS
    }

    /// Whether the queue has not got its floor yet.
    pub(super) const fn is_new(&self) -> bool {
        self.settled.is_none()
    }

    /// Whether the rate was low for long enough to show.
    fn is_judged(&self, now: Instant, phase: Duration) -> bool {
        self.settled.is_some_and(|at| now.saturating_since(at) >= phase * 2)
    }
}

/// A time since which others have kept a queue, probes that found them included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Competition {
    pub(super) since: Instant,
    /// The shortest and the longest queue, seconds.
    pub(super) queues: (f64, f64),
    pub(super) losses: Losses,
    /// What the trunk carried before the last probe, bit/s.
    pub(super) rate: f64,
}

/// A time in which the trunk sends less than it carried among others. If they have gone, the queue drains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// bit/s.
    pub(super) rate: f64,
    /// When the queue must have drained.
    pub(super) until: Instant,
}

/// A time in which the rate is lowered to see the path empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drain {
    pub(super) until: Instant,
    /// When its effect must have been seen.
    pub(super) seen: Instant,
    /// The shortest queue since it began, seconds.
    pub(super) shortest: f64,
}

impl PathControl {
    /// By how much the rate is lowered to see the path empty.
    pub(super) const DRAIN_CUT: f64 = 0.2;
    /// A capacity that has become less than this part of what it was behind a short queue asks for a look at the empty path.
    const LESS: f64 = 0.9;
    /// The shortest time after which a queue that does not drain counts as others', or the path as longer.
    pub(super) const MIN_EXCESS: Duration = Duration::from_millis(500);
    /// Others share a queue that has not fallen when the rate is down to this part of what it was, and for so many windows as much arrives
    /// as is sent.
    const SHARED: f64 = 0.35;
    const FOLLOWED: u32 = 3;
    /// A delay that changes by no more than this, in seconds, or three times the noise, has not changed.
    const UNMOVED: f64 = 0.002;
    /// By how much a probe lowers the rate. A queue of ours drains by so many seconds in a second.
    const PROBE_CUT: f64 = 0.3;
    /// The first and the longest time between two probes of a queue of others.
    pub(super) const PROBE_BACKOFF: Duration = Duration::from_secs(5);
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

    /// A queue beyond the target: does it drain as it should?
    pub(super) fn judge(&mut self, now: Instant, queue: f64, losses: Losses) {
        let phase = self.lag().max(Self::MIN_EXCESS / 4);
        let Some(excess) = &mut self.excess else {
            self.excess = Some(Excess::new(now, self.capacity, self.rate));
            return;
        };
        let is_probed = self.probe.is_some();
        if excess.falls(now, phase, queue) && !is_probed {
            *excess = Excess::new(now, self.capacity, self.rate);
            return;
        }
        // What arrives now was sent before it waited in the queue.
        let sent_at = now - Duration::from_secs_f64(self.age + queue);
        let then = self.allowed.at(sent_at).unwrap_or(f64::INFINITY);
        let arrives = self.windows.max_rate(1);
        // More than was sent then is what comes out of a queue of ours.
        let follows = (then * Self::CARRIED..=then / Self::CARRIED).contains(&arrives);
        excess.followed = if follows { excess.followed + 1 } else { 0 };
        excess.losses.add(losses);
        let is_judged = excess.is_judged(now, phase);
        let Excess { capacity, early, first, low, drained, losses, allowed, followed, .. } = *excess;
        let due = match self.probe {
            Some(probe) => now >= probe.until,
            None => is_judged && drained >= first + self.target(),
        };
        // Behind a queue of ours the path carries what it carries, however fast we send. If what arrives follows what we send all the way
        // down, others take the rest.
        let shared = !is_probed && is_judged && followed >= Self::FOLLOWED && then <= allowed * Self::SHARED;
        if !due && !shared {
            return;
        }
        let lossless = |losses: Losses| losses.are_usual(self.loss_watch.noise());
        let unmoved = Self::UNMOVED.max(3.0 * self.noise.deviation());
        if !is_probed && first - low > unmoved {
            // It drains, though others take a part of what we leave.
            self.excess = Some(Excess::new(now, self.capacity, self.rate));
            return;
        }
        // The path may have become longer.
        let (first, low) = (first.min(early), low.min(queue));
        let stays = |floor: f64| (floor - first).abs() <= unmoved;
        let steady = lossless(losses) && stays(low) && stays(early);
        if !due && steady {
            return;
        }
        if self.reserved.is_some() {
            // Whoever shares the queue, the network has room for what is reserved; no more than that is insisted on.
            self.excess = Some(Excess::new(now, self.capacity, self.rate));
            return;
        }
        self.excess = None;
        // What was there when a probe began is rarely path.
        let longer = self.competition.is_none_or(|competition| {
            let (low, high) = competition.queues;
            now.saturating_since(competition.since) >= Self::LONGER
                && high - low <= unmoved
                && lossless(competition.losses)
        });
        if longer && steady {
            // The rate fell and the delay did not change at all: no queue does that.
            self.handle_longer(now, queue, low);
            self.capacity = capacity;
            (self.competition, self.probe) = (None, None);
            self.set_change(PathChange::Longer { delay: Duration::from_secs_f64(low) });
            return;
        }
        self.mode = PathMode::Competing;
        let rested = self.probe.is_none() && now.saturating_since(self.held_at) >= Self::REST;
        self.probe_backoff =
            if rested { Self::PROBE_BACKOFF } else { (self.probe_backoff * 2).min(Self::MAX_PROBE_BACKOFF) };
        if self.probe.take().is_none() {
            let (queue, probe_after) = (Duration::from_secs_f64(queue), self.probe_backoff);
            self.set_change(PathChange::Rivals { queue, probe_after });
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
    pub(super) fn compete(&mut self, now: Instant, rate: f64, queue: f64, losses: Losses) {
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
            self.hold(now, self.windows.median_rate(3));
            let drained = Duration::from_secs_f64(queue.max(0.0) / Self::PROBE_CUT);
            self.probe = Some(Probe {
                rate: self.capacity * (1.0 - Self::PROBE_CUT),
                until: now + self.lag() * 2 + drained + drained / 2,
            });
        }
    }

    /// Lowers the rate for a moment where the path has not been seen empty for long, or where the capacity seems to have become less
    /// behind a queue that stays short. What is left of the queue then is no queue.
    pub(super) fn drain(&mut self, now: Instant, queue: f64) {
        let (target, lag) = (self.target(), self.lag());
        let (ended, capacity) = self.drained;
        self.longest = self.longest.max(queue);
        match self.draining {
            Some(drain) if now >= drain.seen => {
                let left = drain.shortest;
                if (target / 2.0..=2.0 * target).contains(&left) && self.reserved.is_none() {
                    self.handle_longer(now, queue, left);
                    if self.longest <= 2.0 * target {
                        self.capacity = self.capacity.max(capacity);
                    }
                    self.excess = None;
                }
                self.bases().for_each(BaseDelay::handle_drained);
                self.draining = None;
                (self.drained, self.longest) = ((now, self.capacity), 0.0);
            }
            Some(_) => {}
            None if queue <= target / 2.0 => (self.drained.1, self.longest) = (self.capacity, 0.0),
            None => {
                let less = self.capacity < capacity * Self::LESS;
                let due = now.saturating_since(ended) >= Self::MIN_EXCESS;
                let [base, _] = self.delays[self.signal(now) as usize].bases;
                let wanted = base.is_some_and(|base| base.wants_drain(now));
                if queue <= 2.0 * target && (wanted || (less && due)) {
                    let until =
                        now + Duration::from_secs_f64(2.0 * target / Self::DRAIN_CUT) + Self::FILTER.0;
                    self.draining = Some(Drain { until, seen: until + lag, shortest: f64::INFINITY });
                }
            }
        }
    }
}
