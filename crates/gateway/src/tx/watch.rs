//! The watch over the paths to a peer that has several ([`PathWatch`](trunkline_trunk::path::PathWatch)), and what the log says of it.

use std::sync::Arc;

use trunkline_trunk::path::{LaneSign, PathNews, PathSet};
use trunkline_trunk::{Handover, LaneId};
use trunkline_units::Instant;

use super::{Peer, Sender, mark};

/// A path to a peer, as one worker has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchedPath {
    pub(crate) is_silent: bool,
    /// How often it has become silent.
    pub(crate) silences: u64,
    /// Flows that sent something lately, of all classes.
    pub(crate) flows: u32,
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
        let paths = self.watch.silences().zip(flows);
        paths.map(|((is_silent, silences), flows)| WatchedPath { is_silent, silences, flows }).collect()
    }

    /// Looks at the lanes on one path.
    fn look(&mut self, now: Instant, path: usize) {
        let signs: Vec<LaneSign> = (0..)
            .map(LaneId)
            .zip(&mut self.lanes)
            .filter(|(id, _)| usize::from(self.transmitter.plan().path_of(*id).0) == path)
            .filter_map(|(_, slot)| slot.as_mut()?.lane.sign(now))
            .collect();
        let Some(news) = self.watch.look(now, path, &signs, self.paths.capacity(path as u8)) else { return };
        let name = self.path_name(path as u8).unwrap_or_default();
        match news {
            PathNews::Silent => {
                self.transmitter.handle_path_silent(path as u8);
                let line =
                    format!("path {name} to {}: nothing is heard, so its flows take other paths", self.name);
                self.lines.warn(now, &line);
            }
            PathNews::Heard => {
                self.lines.info(now, &format!("path {name} to {}: works again", self.name));
            }
        }
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
            if !peer.watch.begin(now) {
                continue;
            }
            for path in 0..peer.watch.len() {
                peer.look(now, path);
            }
            let (up, pool) = (peer.lanes_up(), &mut self.pool);
            let Peer { watch, transmitter, paths, .. } = &mut *peer;
            let moved = watch.update(now, up, transmitter, paths, |packet| pool.release(packet));
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
