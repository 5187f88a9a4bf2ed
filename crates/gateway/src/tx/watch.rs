//! The watch over the paths to a peer that has several: which of them work, and what moves when one does not.
//!
//! The kernel retransmits for seconds before it gives a connection up, and tells nobody. So while lanes hold data, the worker asks how
//! long ago each was acknowledged, and [`Silence`] decides. The transmitter then moves flows, and what waits, to the other paths.

use std::sync::Arc;
use std::time::Duration;

use trunkline_trunk::path::{LaneSign, PathSet, Silence};
use trunkline_trunk::{ClassSettings, Handover, LaneId, PathConditions};
use trunkline_units::{Instant, Rate};

use super::{Peer, Sender, mark};

/// How often paths are looked at while no lane holds data: their round-trip times and capacities change.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// What a worker knows of the paths to one peer.
#[derive(Debug, Default)]
pub(super) struct Watch {
    paths: Vec<Watched>,
    /// When to look again; `None` where there is one path.
    next: Option<Instant>,
}

/// One path.
#[derive(Debug, Clone, Copy, Default)]
struct Watched {
    silence: Silence,
    silences: u64,
    capacity: Option<Rate>,
    delay: Option<Duration>,
}

/// A path to a peer, as one worker has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchedPath {
    pub(crate) is_silent: bool,
    /// How often it has become silent.
    pub(crate) silences: u64,
    /// Flows that sent something lately, of all classes.
    pub(crate) flows: u32,
}

impl Watch {
    /// Over so many paths.
    pub(super) fn new(paths: usize) -> Self {
        if paths < 2 {
            return Watch::default();
        }
        Watch { paths: vec![Watched::default(); paths], next: Some(Instant::ZERO) }
    }

    /// When to look again.
    pub(super) const fn next(&self) -> Option<Instant> {
        self.next
    }

    /// A lane came or went: looks at once.
    pub(super) fn lanes_changed(&mut self) {
        if let Some(next) = &mut self.next {
            *next = Instant::ZERO;
        }
    }

    /// Lanes may have taken data.
    pub(super) fn handle_served(&mut self, now: Instant) {
        if let Some(next) = &mut self.next {
            *next = (*next).min(now + Silence::INTERVAL);
        }
    }
}

impl Peer {
    /// The name of a path, if there are several.
    pub(super) fn path_name(&self, path: u8) -> Option<Arc<str>> {
        let plan = self.transmitter.plan();
        plan.paths.get(usize::from(path)).filter(|_| plan.path_count() > 1).map(|path| Arc::clone(&path.name))
    }

    /// The paths, where there are several.
    pub(super) fn watched_paths(&mut self, now: Instant) -> Vec<WatchedPath> {
        let flows = self.transmitter.path_flows(now);
        let path = |(path, flows): (&Watched, u32)| WatchedPath {
            is_silent: path.silence.is_silent(),
            silences: path.silences,
            flows,
        };
        self.watch.paths.iter().zip(flows).map(path).collect()
    }

    /// Looks at the lanes on one path. Whether any of them holds data that is not acknowledged.
    fn look(&mut self, now: Instant, path: usize) -> bool {
        let signs: Vec<LaneSign> = (0..)
            .map(LaneId)
            .zip(&mut self.lanes)
            .filter(|(id, _)| usize::from(self.transmitter.plan().path_of(*id).0) == path)
            .filter_map(|(_, slot)| slot.as_mut()?.lane.sign(now))
            .collect();
        let watched = &mut self.watch.paths[path];
        watched.delay = signs.iter().filter_map(|sign| sign.srtt).min().or(watched.delay);
        watched.capacity = self.paths.capacity(path as u8).or(watched.capacity);
        let is_busy = signs.iter().any(|sign| sign.outstanding);
        if watched.silence.update(now, &signs) {
            let name = self.path_name(path as u8).unwrap_or_default();
            if self.watch.paths[path].silence.is_silent() {
                self.watch.paths[path].silences += 1;
                self.transmitter.handle_path_silent(path as u8);
                let line =
                    format!("path {name} to {}: nothing is heard, so its flows take other paths", self.name);
                self.lines.warn(now, &line);
            } else if !signs.is_empty() {
                self.lines.info(now, &format!("path {name} to {}: works again", self.name));
            }
        }
        is_busy
    }

    /// Says which classes were handed to another path, and why.
    fn log_handovers(&mut self, now: Instant) {
        while let Some(Handover { class, from, to, missed }) = self.paths.poll_handover() {
            let names: Vec<Arc<str>> = (0..PathSet::BITS as u8)
                .filter(|path| from & 1 << path != 0)
                .filter_map(|path| self.path_name(path))
                .collect();
            let from = names.join(" and ");
            let (to, name) = (to.and_then(|path| self.path_name(path)), &self.name);
            if let (Some(to), Some(missed)) = (to, missed) {
                let line = format!("class {class} to {name}: handed from path {from} to {to}: {missed}");
                self.lines.warn(now, &line);
            } else {
                let line = format!("class {class} to {name}: back from path {from} to those that it prefers");
                self.lines.info(now, &line);
            }
        }
    }

    /// The lanes that are up, a bit each.
    fn lanes_up(&self) -> u32 {
        self.lanes.iter().enumerate().filter(|(_, slot)| slot.is_some()).map(|(at, _)| 1 << at).sum()
    }
}

impl Sender {
    /// Looks at the paths to peers that have several, where that is due.
    pub(super) fn watch_paths(&mut self, now: Instant) {
        for place in 0..self.on_several_paths.len() {
            let index = self.on_several_paths[place];
            let peer = &mut self.peers[index];
            if peer.watch.next.is_none_or(|at| now < at) {
                continue;
            }
            let mut is_busy = false;
            for path in 0..peer.watch.paths.len() {
                is_busy |= peer.look(now, path);
            }
            peer.watch.next = Some(now + if is_busy { Silence::INTERVAL } else { IDLE_INTERVAL });
            let conditions: Vec<PathConditions> = peer
                .watch
                .paths
                .iter()
                .map(|path| PathConditions {
                    is_silent: path.silence.is_silent(),
                    capacity: path.capacity,
                    delay: path.delay,
                })
                .collect();
            let (up, pool) = (peer.lanes_up(), &mut self.pool);
            let Peer { transmitter, paths, .. } = &mut *peer;
            let hand_over = |class: &ClassSettings, on| paths.handle_class(now, class, on);
            let release = |packet| pool.release(packet);
            let moved = transmitter.handle_paths(now, up, &conditions, hand_over, release);
            peer.log_handovers(now);
            if moved == 0 {
                continue;
            }
            for lane in LaneId::of_set(moved) {
                if peer.lanes[lane.index()].as_ref().is_some_and(|slot| !slot.full) {
                    mark(&mut self.dirty_peers, peer, index, lane);
                }
            }
            self.recount(index);
        }
    }
}
