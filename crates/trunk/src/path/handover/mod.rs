//! Hands a class to another path when its path does not hold its guarantee (lee2002 §5: a trunk that is mapped to an uncongested
//! path).
//!
//! A class *misses* its guarantee when packets of it waited for most of [`MISSED_FOR`] and less left than was guaranteed. A class that
//! has nothing waiting misses nothing: it does not want more. Nor does one that still gets faster: its lanes may have begun lately. A
//! class that misses its guarantee is handed to a path that can hold the guarantee: one with that
//! much capacity beyond what is promised to the others there, or one whose capacity is unknown and for which nothing waits.
//!
//! Two rules keep it from moving to and fro. A path that the class has left is *barred* to it for a minute, and twice as long each time
//! that it fails again soon. And the other classes of that path get their time anew: they have more room now.
//!
//! The rates are of all shards together, as guarantees are, so one shard decides for all.

mod class;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_units::{Instant, Rate};

use super::placement::{PathSet, bit};
use crate::{ClassSettings, TrunkPlan};
use class::{Class, MISSED_FOR};

/// A path holds a guarantee if it has so many times as much to spare.
const MARGIN: f64 = 1.1;
/// The time that a class has on a new path before it is judged there.
const SETTLING: Duration = Duration::from_secs(2);
/// Changes that nobody has asked for.
const MAX_CHANGES: usize = 16;

const PATHS: usize = TrunkPlan::MAX_PATHS;

/// What a class does on the paths to a peer, in one shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassOnPaths {
    /// Bytes that have left its edge queues on each path, in all.
    pub sent: [u64; PATHS],
    /// The paths for which packets of it wait.
    pub waiting: PathSet,
    /// The paths that its new flows take.
    pub target: PathSet,
    /// Those that they would take by its policy alone.
    pub preferred: PathSet,
    /// Those that its policy allows and that work.
    pub allowed: PathSet,
    /// The path that it is handed to, as far as the shard knows.
    pub assigned: Option<u8>,
}

/// A class has been handed to another path, or back.
#[derive(Debug, Clone, PartialEq)]
pub struct Handover {
    /// The class.
    pub class: Arc<str>,
    /// The paths that it took.
    pub from: PathSet,
    /// And the one that it takes now; `None`: those of its policy.
    pub to: Option<u8>,
    /// What it missed; `None` if it goes back to the paths of its policy.
    pub missed: Option<Missed>,
}

/// A guarantee that was missed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Missed {
    /// The guarantee.
    pub guarantee: Rate,
    /// What left instead, over the last seconds.
    pub achieved: Rate,
    /// What the new path has to spare; `None` if that is unknown.
    pub spare: Option<Rate>,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, achieved, guarantee) =
            (MISSED_FOR.as_secs(), self.achieved.as_mbit(), self.guarantee.as_mbit());
        write!(
            f,
            "for {seconds} s {achieved:.2} of its guaranteed {guarantee:.2} Mbit/s left while packets waited; "
        )?;
        match self.spare {
            Some(spare) => write!(f, "the new path has {:.2} Mbit/s to spare", spare.as_mbit()),
            None => write!(f, "the new path is idle, its capacity unknown"),
        }
    }
}

/// The paths of a class with a guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassPathStatus {
    /// The class.
    pub class: Arc<str>,
    /// The path that it is handed to.
    pub assigned: Option<u8>,
    /// Whether it misses its guarantee.
    pub misses: bool,
    /// How often it was handed to another path because it did.
    pub handovers: u64,
}

/// The classes with a guarantee or priority to one peer that has several paths.
#[derive(Debug, Default)]
pub(super) struct Handovers {
    classes: Vec<Class>,
    changes: VecDeque<Handover>,
}

/// How well a path could hold a class.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Room {
    /// Its capacity is unknown, and nothing waits for it.
    Idle,
    /// bit/s to spare.
    Spare(f64),
}

impl Handovers {
    /// Takes what a class does in a shard. The path that it is handed to, of all shards; `None`: its policy's.
    ///
    /// `capacity` gives that of a path for the class, once it has been measured.
    pub(super) fn handle_class(
        &mut self,
        now: Instant,
        shard: u16,
        class: &ClassSettings,
        on: ClassOnPaths,
        capacity: impl Fn(u8) -> Option<Rate>,
    ) -> Option<u8> {
        let known = self.classes.iter().position(|known| known.name == class.name);
        let at = known.unwrap_or_else(|| {
            self.classes.push(Class::new(&class.name, now));
            self.classes.len() - 1
        });
        let state = &mut self.classes[at];
        state.guarantee = class.share.guarantee.map(|rate| rate.bits_per_second() as f64);
        state.priority = class.share.priority;
        let is_over = state.record(now, shard, &on);
        let fails = |path: u8| !state.reports(now).any(|on| on.allowed & bit(path.into()) != 0);
        if state.assigned.is_some_and(fails) {
            // Its policy takes another path.
            state.assigned = None;
            state.judge_from(now + SETTLING);
        }
        state.assigned = state.assigned.filter(|_| state.guarantee.is_some());
        if is_over {
            match state.missed() {
                Some(missed) => {
                    if !self.hand_over(now, at, &on, missed, &capacity) {
                        self.hand_back(now, at, &on, &capacity);
                    }
                }
                None => self.hand_back(now, at, &on, &capacity),
            }
        }
        self.classes[at].assigned
    }

    /// The room that a path has for a class, if it can hold its guarantee.
    fn room(&self, class: usize, path: usize, capacity: Option<Rate>) -> Option<Room> {
        let others =
            || self.classes.iter().enumerate().filter(|(at, _)| *at != class).map(|(_, other)| other);
        let Some(capacity) = capacity else {
            let is_idle = others().all(|other| other.waited_lately() & bit(path) == 0);
            return is_idle.then_some(Room::Idle);
        };
        let reserved: f64 = others().map(|other| other.reserved(path)).sum();
        let spare = capacity.bits_per_second() as f64 - reserved;
        (spare >= self.classes[class].guarantee? * MARGIN).then_some(Room::Spare(spare))
    }

    /// Hands a class to the best path that can hold its guarantee; `false` if there is none.
    fn hand_over(
        &mut self,
        now: Instant,
        at: usize,
        on: &ClassOnPaths,
        (achieved, waited): (f64, PathSet),
        capacity: &impl Fn(u8) -> Option<Rate>,
    ) -> bool {
        let class = &self.classes[at];
        let allowed = class.reports(now).fold(on.allowed, |all, on| all & on.allowed);
        let rooms = (0..PATHS)
            .filter(|path| allowed & !waited & bit(*path) != 0 && !class.is_barred(now, *path))
            .filter_map(|path| Some((path, self.room(at, path, capacity(path as u8))?)));
        let best = rooms.max_by(|(_, a), (_, b)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        let Some((path, room)) = best else { return false };
        let class = &mut self.classes[at];
        for left in (0..PATHS).filter(|left| waited & bit(*left) != 0) {
            class.bar(now, left);
        }
        let bits = |bits: f64| Rate::from_bits_per_second(bits as u64);
        let spare = match room {
            Room::Idle => None,
            Room::Spare(spare) => Some(bits(spare)),
        };
        let guarantee = bits(class.guarantee.unwrap_or(0.0));
        let missed = Some(Missed { guarantee, achieved: bits(achieved), spare });
        let (name, from, to) = (Arc::clone(&class.name), on.target, Some(path as u8));
        (class.assigned, class.target) = (to, bit(path));
        class.handovers += 1;
        class.judge_from(now + SETTLING);
        for other in self.classes.iter_mut().filter(|other| other.target & waited != 0) {
            other.judge_from(now);
        }
        self.note(Handover { class: name, from, to, missed });
        true
    }

    /// Hands a class back to the paths that its policy prefers, once none of them is barred and each may hold it. What is known of
    /// the capacity of a path that nothing waits for may be old, so a class that misses its guarantee elsewhere too tries it again.
    fn hand_back(
        &mut self,
        now: Instant,
        at: usize,
        on: &ClassOnPaths,
        capacity: &impl Fn(u8) -> Option<Rate>,
    ) {
        let class = &self.classes[at];
        let Some(assigned) = class.assigned else { return };
        let mut preferred = (0..PATHS).filter(|path| on.preferred & bit(*path) != 0);
        if (0..PATHS).any(|path| class.is_barred(now, path)) {
            return;
        }
        let others = self.classes.iter().enumerate().filter(|(other, _)| *other != at);
        let busy = others.fold(0, |all, (_, other)| all | other.waited_lately());
        // What is known of the capacity of a path that nothing waits for may be old: it is tried again.
        let may_hold = |path: usize| {
            path == usize::from(assigned)
                || busy & bit(path) == 0
                || self.room(at, path, capacity(path as u8)).is_some()
        };
        if !preferred.all(may_hold) {
            return;
        }
        let class = &mut self.classes[at];
        let name = Arc::clone(&class.name);
        if class.missed().is_some() {
            class.bar(now, usize::from(assigned));
        }
        class.assigned = None;
        class.judge_from(now + SETTLING);
        if on.preferred != bit(assigned.into()) {
            self.note(Handover { class: name, from: bit(assigned.into()), to: None, missed: None });
        }
    }

    fn note(&mut self, change: Handover) {
        if self.changes.len() == MAX_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
    }

    /// A change that nobody has been told of.
    pub(super) fn poll(&mut self) -> Option<Handover> {
        self.changes.pop_front()
    }

    /// A shard's counts begin anew, or it is gone.
    pub(super) fn remove_shard(&mut self, shard: u16) {
        self.classes.iter_mut().for_each(|class| class.remove_shard(shard));
    }

    /// Forgets the classes that a plan does not have, or not with a guarantee or priority, and all of them if it has other paths.
    pub(super) fn configure(&mut self, plan: &TrunkPlan, same_paths: bool) {
        self.classes.retain(|class| {
            let mut planned = plan.classes.iter().filter(|planned| planned.name == class.name);
            same_paths && planned.any(|planned| planned.share.guarantee.is_some() || planned.share.priority)
        });
    }

    /// The classes with a guarantee.
    pub(super) fn status(&self) -> Vec<ClassPathStatus> {
        let with_guarantee = self.classes.iter().filter(|class| class.guarantee.is_some());
        with_guarantee
            .map(|class| ClassPathStatus {
                class: Arc::clone(&class.name),
                assigned: class.assigned,
                misses: class.missed().is_some(),
                handovers: class.handovers,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
