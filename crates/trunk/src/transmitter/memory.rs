//! What packets at the edge hold in memory, and how an owner gets some of it back.
//!
//! The transmitter does not know how much memory there is: its owner has one pool for many transmitters. It says what waits for each lane
//! ([`Transmitter::held_bytes`]), and drops what the owner asks for.

use trunkline_units::Instant;

use super::{Packet, Transmitter};
use crate::LaneId;

impl<P: Packet> Transmitter<P> {
    /// Memory of the packets that wait for a lane, bytes.
    pub fn held_bytes(&self, lane: LaneId) -> usize {
        self.lanes[lane.index()]
            .edge_queues
            .iter()
            .map(|edge_queue| &self.edge_queues[*edge_queue])
            .filter(|edge_queue| edge_queue.lane == lane.index() || edge_queue.bond.is_none())
            .map(|edge_queue| edge_queue.held_bytes)
            .sum()
    }

    /// Memory of all packets that wait, bytes.
    pub fn all_held_bytes(&self) -> usize {
        self.edge_queues.iter().map(|edge_queue| edge_queue.held_bytes).sum()
    }

    /// Drops what has waited for a lane since before `oldest`, and gives back memory that is not needed for the rest. For a lane that
    /// is down.
    pub fn expire(&mut self, now: Instant, lane: LaneId, oldest: Instant, mut release: impl FnMut(P)) {
        for edge_queue in &self.lanes[lane.index()].edge_queues {
            self.edge_queues[*edge_queue].expire(now, oldest, &mut self.flows, &mut release);
        }
    }

    /// Drops packets that have about `bytes` of memory, of the queue that holds most among those of the lanes in `lanes`, a bit each;
    /// how much they had.
    pub fn shed(&mut self, now: Instant, lanes: u32, bytes: usize, mut release: impl FnMut(P)) -> usize {
        let chosen = |edge_queue: &&mut super::EdgeQueue<P>| lanes & (1 << edge_queue.lane) != 0;
        let largest =
            self.edge_queues.iter_mut().filter(chosen).max_by_key(|edge_queue| edge_queue.held_bytes);
        largest.map_or(0, |edge_queue| edge_queue.shed(now, bytes, &mut self.flows, &mut release))
    }

    /// Remembers up to `limit` flows from now on; those it has places for now stay.
    pub fn set_flow_limit(&mut self, limit: usize) {
        self.flows.raise_limit(limit);
    }

    /// Forgets all flows, and remembers up to `limit` from now on. What waits stays.
    pub fn forget_flows(&mut self, limit: usize) {
        self.forgotten += self.flows.len() as u64;
        self.flows.reset(limit);
        self.lanes.iter_mut().for_each(|lane| lane.undelivered.lost(&mut self.flows));
    }
}
