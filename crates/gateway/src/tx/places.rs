//! The places of lanes: which there are by the plan, and which lane has each.

use std::sync::Arc;

use trunkline_trunk::path::PathWatch;
use trunkline_trunk::{LaneId, Paths, Transmitter};
use trunkline_units::Instant;

use super::memory::{ABSENT_FLOWS, Presence};
use super::{LaneSlot, Peer, Sender, Sending, mark};
use crate::line_limit::LineLimit;
use crate::plan::Plan;
use crate::pool::Pool;
use crate::worker::Place;

/// A lane's place that no lane has: the only way to put one there, so that none is replaced without being ended.
pub(crate) struct Vacancy<'a> {
    sender: &'a mut Sender,
    index: usize,
    id: LaneId,
}

impl Vacancy<'_> {
    pub(crate) fn fill(self, mut lane: Sending) {
        let Vacancy { sender, index, id } = self;
        sender.lanes.insert(lane.serial(), (index, id));
        lane.configure(sender.peers[index].transmitter.plan(), id, &mut sender.pool);
        sender.peers[index].lanes[id.index()] = Some(LaneSlot::new(lane));
        mark(&mut sender.dirty_peers, &mut sender.peers[index], index, id);
        sender.lane_present(index);
        sender.peers[index].watch.handle_lanes_changed();
    }
}

/// Why there is no place for a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoVacancy {
    /// A reload took the peer or the group away while the handshake ran.
    #[error("no longer configured")]
    NotConfigured,
    /// Another lane was not ended before.
    #[error("connection {serial} still has its place")]
    Taken { serial: u64 },
}

impl Sender {
    /// Takes a lane away. With a goodbye, if the connection may still be good for one.
    pub(crate) fn take_lane(&mut self, serial: u64, goodbye: bool) {
        let Some((index, lane)) = self.lanes.remove(&serial) else { return };
        if let Some(slot) = self.peers[index].lanes[lane.index()].take() {
            self.peers[index].transmitter.handle_lane_lost(lane);
            self.peers[index].paths.remove_lane(lane);
            if goodbye {
                slot.lane.close(&mut self.pool);
            } else {
                slot.lane.release(&mut self.pool);
            }
            self.lane_absent(index);
            self.peers[index].watch.handle_lanes_changed();
        }
    }

    /// A place, if it is free.
    pub(crate) fn vacancy(&mut self, place: &Place) -> Result<Vacancy<'_>, NoVacancy> {
        let index = self.peers.iter().position(|p| p.key == place.peer).ok_or(NoVacancy::NotConfigured)?;
        let plan = self.peers[index].transmitter.plan();
        let id = plan.lane(&place.group, place.path, place.index).ok_or(NoVacancy::NotConfigured)?;
        match &self.peers[index].lanes[id.index()] {
            Some(slot) => Err(NoVacancy::Taken { serial: slot.lane.serial() }),
            None => Ok(Vacancy { sender: self, index, id }),
        }
    }

    /// Closes a lane that could not be put in its place.
    pub(crate) fn discard(&mut self, lane: Sending) {
        lane.close(&mut self.pool);
    }

    /// Applies a new plan. Peers and classes that stay keep their lanes and what waits for them; the lanes of those
    /// that go are closed, and their serials given back.
    pub(crate) fn reconfigure(&mut self, now: Instant, plan: &Plan) -> Vec<u64> {
        let mut closed = Vec::new();
        let mut old = std::mem::take(&mut self.peers);
        self.dirty_peers.clear();
        self.lanes.clear();
        self.watched.clear();
        self.held.clear();
        self.checks.clear();
        let pool = &mut self.pool;
        for planned in &plan.peers {
            let trunk = &planned.trunk;
            let mut lanes: Vec<Option<LaneSlot>> = (0..trunk.lane_count()).map(|_| None).collect();
            let mut paths = None;
            let transmitter = match old.iter().position(|peer| peer.key == planned.key) {
                Some(at) => {
                    let Peer { mut transmitter, paths: old_paths, lanes: old_slots, .. } =
                        old.swap_remove(at);
                    paths = Some(old_paths);
                    let old_plan = transmitter.plan().clone();
                    transmitter.reconfigure(now, trunk.clone(), |packet| pool.release(packet));
                    for (id, slot) in (0..).map(LaneId).zip(old_slots) {
                        let Some(mut slot) = slot else { continue };
                        let (path, place) = old_plan.path_of(id);
                        match trunk.lane(&old_plan.group_of(id).0.name, path, place) {
                            Some(lane) => {
                                slot.lane.configure(transmitter.plan(), lane, pool);
                                lanes[lane.index()] = Some(LaneSlot::new(slot.lane));
                            }
                            None => retire(slot, pool, &mut closed),
                        }
                    }
                    transmitter
                }
                None => Transmitter::new(trunk.clone(), ABSENT_FLOWS, plan.seed),
            };
            let mut paths = paths.unwrap_or_else(|| Paths::new(Arc::clone(&planned.paths), self.shard));
            paths.configure(trunk);
            self.peers.push(Peer {
                key: planned.key,
                name: Arc::clone(&planned.name),
                transmitter,
                paths,
                lanes,
                dirty: 0,
                presence: Presence::default(),
                watch: PathWatch::new(trunk.path_count()),
                lines: LineLimit::default(),
            });
        }
        for mut gone in old {
            gone.transmitter.flush(now, |packet| pool.release(packet));
            gone.lanes.into_iter().flatten().for_each(|slot| retire(slot, pool, &mut closed));
        }
        for (index, peer) in self.peers.iter_mut().enumerate() {
            for id in (0..peer.lanes.len() as u8).map(LaneId) {
                if let Some(slot) = &mut peer.lanes[id.index()] {
                    self.lanes.insert(slot.lane.serial(), (index, id));
                    mark(&mut self.dirty_peers, peer, index, id);
                }
            }
        }
        self.routes = Arc::clone(&plan.owners);
        let watched = self.peers.iter().enumerate().filter(|(_, peer)| !peer.watch.is_empty());
        self.on_several_paths = watched.map(|(index, _)| index).collect();
        self.count_absent();
        closed
    }
}

fn retire(slot: LaneSlot, pool: &mut Pool, closed: &mut Vec<u64>) {
    closed.push(slot.lane.serial());
    slot.lane.close(pool);
}
