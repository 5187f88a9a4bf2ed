//! What a class has counted in queues that are no longer there.

use trunkline_queue::Stats;

use super::Packet;
use super::edge_queue::{EdgeQueue, EdgeQueueStats};

/// The counts of edge queues that a new plan took away, so that a class's counters never go back.
#[derive(Default)]
pub(super) struct RetiredStats {
    pub(super) queue: Stats,
    pub(super) stats: EdgeQueueStats,
}

impl RetiredStats {
    /// Takes over the counts of an edge queue whose queue is empty.
    pub(super) fn add<P: Packet>(&mut self, edge_queue: &EdgeQueue<P>) {
        self.queue.merge(edge_queue.queue.stats());
        self.stats.add(&edge_queue.stats);
    }
}
