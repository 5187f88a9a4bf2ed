//! What packets at the edge hold in memory, and how an owner gets some of it back.
//!
//! The transmitter does not know how much memory there is: its owner has one pool for many transmitters. It says what waits for each lane
//! ([`Transmitter::held_bytes`]), and drops what the owner asks for.

use trunkline_units::Instant;

use super::{EdgeQueue, Packet, Transmitter};
use crate::LaneId;

impl<P: Packet> Transmitter<P> {
    /// Memory of the packets that wait for a lane, and of the copies of bonded ones that it has taken, bytes.
    pub fn held_bytes(&self, lane: LaneId) -> usize {
        self.lanes[lane.index()]
            .edge_queues
            .iter()
            .map(|edge_queue| &self.edge_queues[*edge_queue])
            .filter(|edge_queue| edge_queue.lane == lane.index() || edge_queue.bond.is_none())
            .map(EdgeQueue::memory_bytes)
            .sum()
    }

    /// Memory of all packets that wait and of all copies, bytes.
    pub fn all_held_bytes(&self) -> usize {
        self.edge_queues.iter().map(EdgeQueue::memory_bytes).sum()
    }

    /// Drops what has waited for a lane since before `oldest`, and gives back memory that is not needed for the rest. For a lane that
    /// is down.
    pub fn expire(&mut self, now: Instant, lane: LaneId, oldest: Instant, mut release: impl FnMut(P)) {
        for edge_queue in &self.lanes[lane.index()].edge_queues {
            self.edge_queues[*edge_queue].expire(now, oldest, &mut self.flows, &mut release);
        }
    }

    /// Drops packets that have about `bytes` of memory, of the queue that holds most among those of the lanes in `lanes`, a bit each;
    /// how much they had. Copies go first: nothing is lost with them as long as no lane fails.
    pub fn shed(&mut self, now: Instant, lanes: u32, bytes: usize, mut release: impl FnMut(P)) -> usize {
        let chosen = (0..self.edge_queues.len()).filter(|at| lanes & (1 << self.edge_queues[*at].lane) != 0);
        let Some(largest) = chosen.max_by_key(|at| self.edge_queues[*at].memory_bytes()) else { return 0 };
        let before = self.edge_queues[largest].memory_bytes();
        let left = self.edge_queues[largest].copy_bytes.saturating_sub(bytes);
        for lane in (0..self.lanes.len() as u8).map(LaneId) {
            if self.lanes[lane.index()].edge_queues.contains(&largest) {
                self.drop_copies(lane, largest, left, &mut release);
            }
        }
        let freed = before - self.edge_queues[largest].memory_bytes();
        let more = bytes.saturating_sub(freed);
        freed + self.edge_queues[largest].shed(now, more, &mut self.flows, &mut release)
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
