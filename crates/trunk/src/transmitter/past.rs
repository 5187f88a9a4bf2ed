//! What a class has counted in queues that are no longer there.

use trunkline_queue::Stats;

use super::Packet;
use super::member::{Member, MemberStats};

/// The counts of members that a new plan took away, so that a class's counters never go back.
#[derive(Default)]
pub(super) struct Past {
    pub(super) queue: Stats,
    pub(super) stats: MemberStats,
}

impl Past {
    /// Takes over the counts of a member whose queue is empty.
    pub(super) fn add<P: Packet>(&mut self, member: &Member<P>) {
        self.queue.merge(member.queue.stats());
        self.stats.add(&member.stats);
    }
}
