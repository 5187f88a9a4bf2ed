//! Whose queue it is: ours, that of others, or none at all.

use std::time::Duration;

use trunkline_units::Instant;

use super::super::arrivals::BaseDelay;
use super::super::status::{PathChange, PathMode};
use super::PathControl;
use super::losses::Losses;

/// A time in which the queue is longer than the target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Excess {
    /// The capacity when it began, bit/s.
    pub(super) capacity: f64,
    pub(super) peak: f64,
    /// Since when it has not fallen, and the shortest and the longest one since then.
    pub(super) still_since: Instant,
    pub(super) still: (f64, f64),
    /// How much shorter the queue should have become by now, seconds.
    pub(super) drained: f64,
    pub(super) losses: Losses,
    /// What the lanes were allowed to send when the queue fell last, bit/s.
    pub(super) allowed: f64,
    /// Consecutive windows in which as much arrived as they were allowed.
    pub(super) followed: u32,
}

impl Excess {
    pub(super) fn new(now: Instant, capacity: f64, queue: f64, allowed: f64) -> Self {
        Excess {
            allowed,
            followed: 0,
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
        let Some(excess) = &mut self.excess else {
            self.excess = Some(Excess::new(now, self.capacity, queue, self.rate));
            return;
        };
        if queue <= excess.peak / 2.0 {
            // It drains, or it was that of a moment: what is left is judged anew.
            *excess = Excess::new(now, self.capacity, queue, self.rate);
            return;
        }
        // What arrives now was sent before it waited in the queue.
        let sent_at = now - Duration::from_secs_f64(self.age + queue);
        let then = self.allowed.at(sent_at).unwrap_or(f64::INFINITY);
        let follows = self.windows.max_rate(1) >= then * Self::CARRIED;
        let falls = self.windows.first().is_some_and(|first| first.queue - queue > Self::MIN_TARGET);
        if falls {
            (excess.still_since, excess.still) = (now, (f64::INFINITY, 0.0));
            (excess.allowed, excess.followed) = (self.rate, 0);
        } else {
            excess.still = (excess.still.0.min(queue), excess.still.1.max(queue));
            excess.followed = if follows { excess.followed + 1 } else { 0 };
        }
        excess.losses.add(losses);
        excess.peak = excess.peak.max(queue);
        let Excess { still_since, still: (low, high), capacity, peak, drained, losses, allowed, followed } =
            *excess;
        let due = match self.probe {
            Some(probe) => now >= probe.until,
            None => {
                now.saturating_since(still_since) >= Self::MIN_EXCESS.max(self.lag() * 4) && drained >= peak
            }
        };
        // Behind a queue of ours the path carries what it carries, however fast we send. If what arrives follows what we send all the way
        // down, others take the rest.
        let shared = self.probe.is_none() && followed >= Self::FOLLOWED && then <= allowed * Self::SHARED;
        if !due && !shared {
            return;
        }
        let lossless = |losses: Losses| losses.are_usual(self.loss_watch.usual());
        let unmoved = Self::UNMOVED.max(3.0 * self.noise.deviation());
        // The path may have become longer.
        let steady = lossless(losses) && high - low <= unmoved;
        if !due && steady {
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
            self.bases().for_each(|base| base.raise(now, queue));
            self.queue = Some(0.0);
            self.capacity = capacity;
            (self.competition, self.probe) = (None, None);
            self.set_change(PathChange::Longer { delay: Duration::from_secs_f64(queue) });
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
