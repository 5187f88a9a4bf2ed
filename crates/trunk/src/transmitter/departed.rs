//! What lanes of bonded classes have taken, in case that one of them loses it: it leaves again over another.

use trunkline_units::Instant;

use super::{Label, LaneId, Packet, PacketStore, Poll, Transmitter};
use crate::bonding::Order;

/// A packet that a lane has taken.
#[derive(Debug)]
pub(super) struct Departed<P> {
    pub(super) packet: P,
    /// Its place in its flow, which it keeps.
    pub(super) order: Order,
    /// Where it waited.
    pub(super) edge_queue: usize,
    /// The lane that took it, and when.
    pub(super) lane: LaneId,
    pub(super) at: Instant,
}

impl<P: Packet> Transmitter<P> {
    /// The copies of what an edge queue gave have no more memory than so much, which is what waits at the far end at most. Beyond that a
    /// lane has none of the packets that it took first.
    const MAX_COPY_BYTES: usize = 8 << 20;

    /// A packet leaves over a lane; a copy stays until the lane has delivered it.
    #[inline(never)]
    pub(super) fn depart(&mut self, departed: Departed<P>, store: &mut impl PacketStore<P>) -> Poll<P> {
        let Departed { packet, order, edge_queue, lane, at } = departed;
        let own = &mut self.edge_queues[edge_queue];
        if let Some(bond) = &mut own.bond {
            bond.handle_sent(at, lane.0, packet.bytes());
        }
        if let Some(copy) = store.copy(&packet) {
            own.copy_bytes += copy.memory_bytes();
            self.lanes[lane.index()].copies.push(Departed { packet: copy, order, edge_queue, lane, at });
            self.drop_copies(lane, edge_queue, Self::MAX_COPY_BYTES, &mut |packet| store.release(packet));
        }
        Poll::Labelled(Label::Order(order), packet)
    }

    /// Drops the oldest copies that a lane has, until those of this edge queue have so much memory or none is left.
    pub(super) fn drop_copies(
        &mut self,
        lane: LaneId,
        edge_queue: usize,
        bytes: usize,
        release: &mut impl FnMut(P),
    ) {
        while self.edge_queues[edge_queue].copy_bytes > bytes
            && let Some(copy) = self.lanes[lane.index()].copies.pop()
        {
            self.edge_queues[copy.edge_queue].copy_bytes -= copy.packet.memory_bytes();
            release(copy.packet);
        }
    }

    /// What a lane took and may have lost leaves again.
    pub(super) fn take_back(&mut self, lane: LaneId) {
        for copy in self.lanes[lane.index()].copies.take_all() {
            self.edge_queues[copy.edge_queue].lost.push_back(copy);
        }
    }

    /// The far end has all that a lane took before `position` of its stream.
    #[cold]
    pub(super) fn spend_copies(&mut self, lane: LaneId, position: u64) {
        let Transmitter { lanes, edge_queues, spent, .. } = self;
        lanes[lane.index()].copies.take_delivered(position, |copy| {
            edge_queues[copy.edge_queue].copy_bytes -= copy.packet.memory_bytes();
            spent.push(copy.packet);
        });
    }

    /// The next packet whose memory nobody needs any more: for the owner, after [`handle_lane`](Transmitter::handle_lane) and
    /// [`handle_delivered`](Transmitter::handle_delivered).
    #[inline]
    pub fn poll_spent(&mut self) -> Option<P> {
        self.spent.pop()
    }

    /// Drops all copies, and what was to leave again.
    pub(super) fn discard_departed(&mut self, release: &mut impl FnMut(P)) {
        self.spent.drain(..).for_each(&mut *release);
        for lane in &mut self.lanes {
            lane.copies.take_all().for_each(|copy| release(copy.packet));
        }
        for edge_queue in &mut self.edge_queues {
            edge_queue.lost.drain(..).for_each(|lost| release(lost.packet));
            edge_queue.copy_bytes = 0;
        }
    }
}
