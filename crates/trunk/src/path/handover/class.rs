//! One class, over the last seconds.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use trunkline_units::Instant;

use super::{ClassOnPaths, PATHS};
use crate::path::placement::{PathSet, bit};

/// A guarantee is missed when it is missed over this time.
pub(super) const MISSED_FOR: Duration = Duration::from_secs(3);
/// The time is divided into so many windows.
const WINDOWS: usize = 6;
const WINDOW: Duration = Duration::from_millis(500);
/// Packets of a class that misses its guarantee waited for this part of the time.
const WAITED: f64 = 0.75;
/// And less than this part of the guarantee left.
const ACHIEVED: f64 = 0.95;
/// A class that gets so many times as much in the second half of the time as in the first one still gets faster.
const GROWTH: f64 = 1.25;
/// For how long a path is barred to a class that has left it: doubled each time that it fails soon after.
const FIRST_BAR: Duration = Duration::from_secs(60);
const MAX_BAR: Duration = Duration::from_secs(30 * 60);
/// A path that has held for so long after it was barred starts anew.
const BAR_RESET: Duration = Duration::from_secs(10 * 60);
/// What a shard reported this long ago says nothing of now.
const MAX_AGE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Class {
    pub(super) name: Arc<str>,
    /// bit/s.
    pub(super) guarantee: Option<f64>,
    pub(super) priority: bool,
    /// By shard: when it reported, and what.
    shards: Vec<(u16, Instant, ClassOnPaths)>,
    looked: Instant,
    window: Window,
    /// Those that are over, the oldest first.
    windows: VecDeque<Window>,
    pub(super) target: PathSet,
    pub(super) assigned: Option<u8>,
    judged_from: Instant,
    bars: [Option<Bar>; PATHS],
    pub(super) handovers: u64,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    since: Instant,
    time: Duration,
    /// Bytes.
    sent: [u64; PATHS],
    waited: [Duration; PATHS],
    /// For any path.
    waited_any: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Bar {
    until: Instant,
    wait: Duration,
}

impl Window {
    const fn new(since: Instant) -> Self {
        let none = Duration::ZERO;
        Window { since, time: none, sent: [0; PATHS], waited: [none; PATHS], waited_any: none }
    }

    /// bit/s.
    fn rate(&self, bytes: u64) -> f64 {
        if self.time.is_zero() { 0.0 } else { bytes as f64 * 8.0 / self.time.as_secs_f64() }
    }

    /// Over all paths, bit/s.
    fn total_rate(&self) -> f64 {
        self.rate(self.sent.iter().sum())
    }

    fn add(&mut self, other: &Window) {
        self.time += other.time;
        self.waited_any += other.waited_any;
        for path in 0..PATHS {
            self.sent[path] += other.sent[path];
            self.waited[path] += other.waited[path];
        }
    }

    /// Whether packets waited for most of the time.
    fn is_most(&self, waited: Duration) -> bool {
        !waited.is_zero() && waited.as_secs_f64() >= self.time.as_secs_f64() * WAITED
    }
}

impl Class {
    pub(super) fn new(name: &Arc<str>, now: Instant) -> Self {
        Class {
            name: Arc::clone(name),
            guarantee: None,
            priority: false,
            shards: Vec::new(),
            looked: now,
            window: Window::new(now),
            windows: VecDeque::with_capacity(WINDOWS),
            target: 0,
            assigned: None,
            judged_from: now,
            bars: [None; PATHS],
            handovers: 0,
        }
    }

    /// Takes what a shard reports. Whether a window is over in which the class can be judged.
    pub(super) fn record(&mut self, now: Instant, shard: u16, on: &ClassOnPaths) -> bool {
        let elapsed = now.saturating_since(self.looked);
        let waiting = self.waiting(now);
        self.looked = self.looked.max(now);
        self.window.time += elapsed;
        for path in (0..PATHS).filter(|path| waiting & bit(*path) != 0) {
            self.window.waited[path] += elapsed;
        }
        if waiting != 0 {
            self.window.waited_any += elapsed;
        }
        match self.shards.iter_mut().find(|(known, ..)| *known == shard) {
            Some((_, at, before)) => {
                for path in 0..PATHS {
                    self.window.sent[path] += on.sent[path].saturating_sub(before.sent[path]);
                }
                (*at, *before) = (now, *on);
            }
            None => self.shards.push((shard, now, *on)),
        }
        self.target = on.target;
        if now.saturating_since(self.window.since) < WINDOW {
            return false;
        }
        let over = std::mem::replace(&mut self.window, Window::new(now));
        if over.since < self.judged_from {
            return false;
        }
        if self.windows.len() == WINDOWS {
            self.windows.pop_front();
        }
        self.windows.push_back(over);
        true
    }

    /// The last reports of all shards.
    pub(super) fn reports(&self, now: Instant) -> impl Iterator<Item = &ClassOnPaths> {
        let recent = self.shards.iter().filter(move |(_, at, _)| now.saturating_since(*at) <= MAX_AGE);
        recent.map(|(_, _, on)| on)
    }

    /// The paths for which packets wait in any shard.
    fn waiting(&self, now: Instant) -> PathSet {
        self.reports(now).fold(0, |all, on| all | on.waiting)
    }

    /// The sum of these windows; `None` before the last seconds are over.
    fn sum(&self, windows: Range<usize>) -> Option<Window> {
        if self.windows.len() < WINDOWS {
            return None;
        }
        let mut sum = Window::new(self.windows.front()?.since);
        self.windows.range(windows).for_each(|window| sum.add(window));
        Some(sum)
    }

    /// The last window.
    fn recent(&self) -> Window {
        self.windows.back().copied().unwrap_or(self.window)
    }

    /// What left in the last seconds, bit/s, if that misses the guarantee; and the paths for which packets waited.
    pub(super) fn missed(&self) -> Option<(f64, PathSet)> {
        let last = self.sum(0..WINDOWS)?;
        let rate = last.total_rate();
        let (first, second) = (self.sum(0..WINDOWS / 2)?, self.sum(WINDOWS / 2..WINDOWS)?);
        let grows = second.total_rate() > first.total_rate() * GROWTH;
        let is_missed = last.is_most(last.waited_any) && rate < self.guarantee? * ACHIEVED && !grows;
        let waited = (0..PATHS).filter(|path| last.waited[*path] * 2 >= last.waited_any);
        let waited = waited.fold(0, |all, path| all | bit(path));
        (is_missed && waited != 0).then_some((rate, waited))
    }

    /// The paths for which packets waited lately.
    pub(super) fn waited_lately(&self) -> PathSet {
        let last = self.recent();
        (0..PATHS).filter(|path| last.is_most(last.waited[*path])).fold(0, |all, path| all | bit(path))
    }

    /// What a path must keep for it, bit/s.
    pub(super) fn reserved(&self, path: usize) -> f64 {
        let guarantee = self.guarantee.filter(|_| self.target & bit(path) != 0).unwrap_or(0.0);
        let part = guarantee / f64::from(self.target.count_ones().max(1));
        let recent = self.recent();
        if self.priority { part.max(recent.rate(recent.sent[path])) } else { part }
    }

    pub(super) fn is_barred(&self, now: Instant, path: usize) -> bool {
        self.bars[path].is_some_and(|bar| bar.until > now)
    }

    pub(super) fn bar(&mut self, now: Instant, path: usize) {
        let wait = match self.bars[path] {
            Some(bar) if now < bar.until + BAR_RESET => (bar.wait * 2).min(MAX_BAR),
            _ => FIRST_BAR,
        };
        self.bars[path] = Some(Bar { until: now + wait, wait });
    }

    /// What was up to this time says nothing of what comes.
    pub(super) fn judge_from(&mut self, at: Instant) {
        self.windows.clear();
        self.judged_from = self.judged_from.max(at);
    }

    /// A shard's counts begin anew, or it is gone.
    pub(super) fn remove_shard(&mut self, shard: u16) {
        self.shards.retain(|(known, ..)| *known != shard);
    }
}
