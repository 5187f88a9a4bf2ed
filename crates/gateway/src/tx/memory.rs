//! What packets that wait may hold in memory, and who pays when it is short.
//!
//! A worker has one pool of packet memory for all its peers. Edge queues have limits of their own, but the sum of these grows with the
//! peers, and a queue whose lane is down is not emptied by anybody. So that nobody's traffic costs another peer its own:
//!
//! - What waits for lanes that are down holds at most a quarter of the pool, all peers together. Beyond that the peer that holds most
//!   drops some, of its largest queue.
//! - What has waited for a lane that is down for [`MAX_WAIT`] is dropped, and storage that is not needed any more goes back.
//! - When the pool is nearly used up, the peer that holds most drops some, of its largest queue. Packets that arrive find room
//!   for as long as anything waits. A peer that holds no more than its share, the pool over the number of peers, never pays.
//! - A peer without lanes has a small flow table: with the full one a thousand peers that are away would fill gigabytes.

use std::time::Duration;

use trunkline_trunk::{LaneId, Transmitter};
use trunkline_units::Instant;

use super::{Peer, Sender};
use crate::pool::PacketBuf;

/// Packet memory of one worker.
pub(super) const POOL_BYTES: usize = 256 << 20;
/// A packet waits for a lane that is down no longer than this. A user's TCP doubles its time-out with every retransmission, so after
/// an outage of up to twice as long there is one in the queue and the connection goes on at once; and nobody waits longer
/// for the rest of a datagram (`net.ipv4.ipfrag_time`).
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How often queues without a lane are looked through.
const SWEEP: Duration = Duration::from_secs(1);
/// Flows remembered towards a peer that has no lane.
pub(super) const ABSENT_FLOWS: usize = 1 << 10;
/// Flows remembered towards all peers together, and to each of many at least. A flow takes about 100 bytes.
const ALL_FLOWS: usize = 1 << 21;
const MIN_FLOWS: usize = 1 << 12;
/// What a peer drops at once, at least: the search for the one that holds most is a look at every peer.
const MIN_SHED: usize = 4 << 10;
/// How much more than it must a search gives back to the pool, so that the next packets need none.
const AHEAD: usize = 256 << 10;

/// Of a peer: what waits for lanes that are down.
#[derive(Debug, Default)]
pub(super) struct Presence {
    absent_bytes: usize,
    /// Those of each lane; none of a lane that is up.
    lane_bytes: Vec<usize>,
    /// Sweeps in a row that found it without any lane.
    sweeps: u32,
}

/// What waits for lanes that are down, of all peers.
#[derive(Debug)]
pub(super) struct AbsentPackets {
    held_bytes: usize,
    limit_bytes: usize,
    next_sweep: Option<Instant>,
}

impl AbsentPackets {
    /// With a pool of so many bytes.
    pub(super) const fn within(pool_bytes: usize) -> Self {
        AbsentPackets { held_bytes: 0, limit_bytes: pool_bytes / 4, next_sweep: None }
    }

    /// When a sweep is due; `None` while nothing waits.
    pub(super) const fn next_sweep(&self) -> Option<Instant> {
        self.next_sweep
    }
}

impl Peer {
    /// The lanes that are down, a bit each.
    fn absent_lanes(&self) -> u32 {
        let bits = self.lanes.iter().enumerate().filter(|(_, slot)| slot.is_none()).map(|(at, _)| 1 << at);
        bits.sum()
    }

    fn has_lane(&self) -> bool {
        self.lanes.iter().any(Option::is_some)
    }
}

impl Sender {
    /// A packet was queued for a lane of the peer at `index` that is down.
    #[cold]
    pub(super) fn queued_for_absent(&mut self, now: Instant, index: usize, lane: LaneId) {
        self.recount_lane(index, lane);
        self.absent.next_sweep.get_or_insert(now + SWEEP);
        if self.absent.held_bytes <= self.absent.limit_bytes {
            return;
        }
        // Some more than it must, so that not every packet costs a search.
        let target = self.absent.limit_bytes - self.absent.limit_bytes / 64;
        while self.absent.held_bytes > target {
            let Some(largest) = largest_holder(&self.peers, |peer| peer.presence.absent_bytes) else { break };
            let excess = self.absent.held_bytes - target;
            let peer = &mut self.peers[largest];
            let (lanes, held) = (peer.absent_lanes(), peer.presence.absent_bytes);
            let pool = &mut self.pool;
            let freed = peer.transmitter.shed(now, lanes, part(held, excess), |packet| pool.release(packet));
            self.recount(largest);
            if freed == 0 {
                break;
            }
        }
    }

    /// Drops what waits until there is memory again for what is read and sent.
    #[cold]
    pub(super) fn make_room(&mut self, now: Instant) {
        let mut excess = self.pool.shortage_bytes() + AHEAD;
        while excess > 0 {
            let Some(largest) = largest_holder(&self.peers, |peer| peer.transmitter.all_held_bytes()) else {
                break;
            };
            let peer = &mut self.peers[largest];
            let held = peer.transmitter.all_held_bytes();
            let pool = &mut self.pool;
            let freed =
                peer.transmitter.shed(now, u32::MAX, part(held, excess), |packet| pool.release(packet));
            self.recount(largest);
            if freed == 0 {
                break;
            }
            excess = excess.saturating_sub(freed);
        }
    }

    /// Drops what has waited too long for lanes that are down.
    pub(super) fn sweep_absent(&mut self, now: Instant) {
        if self.absent.next_sweep.is_none_or(|at| now < at) {
            return;
        }
        let oldest = now - MAX_WAIT;
        for index in 0..self.peers.len() {
            let (peer, pool) = (&mut self.peers[index], &mut self.pool);
            peer.presence.sweeps = if peer.has_lane() { 0 } else { peer.presence.sweeps.saturating_add(1) };
            if peer.presence.absent_bytes == 0 {
                continue;
            }
            let lanes = peer.absent_lanes();
            for lane in LaneId::of_set(lanes) {
                peer.transmitter.expire(now, lane, oldest, |packet| pool.release(packet));
            }
            let gone_for_long = SWEEP * peer.presence.sweeps >= MAX_WAIT;
            if gone_for_long && peer.transmitter.flow_table().1 > ABSENT_FLOWS {
                peer.transmitter.forget_flows(ABSENT_FLOWS);
            }
            self.recount(index);
        }
        self.absent.next_sweep = (self.absent.held_bytes > 0).then(|| now + SWEEP);
    }

    /// A lane of the peer at `index` went down.
    pub(super) fn lane_absent(&mut self, index: usize) {
        self.recount(index);
        if self.absent.held_bytes > 0 {
            self.absent.next_sweep.get_or_insert(Instant::ZERO);
        }
    }

    /// A lane of the peer at `index` came up.
    pub(super) fn lane_present(&mut self, index: usize) {
        self.recount(index);
        let limit = flow_limit(self.peers.len());
        let peer = &mut self.peers[index];
        peer.presence.sweeps = 0;
        peer.transmitter.set_flow_limit(limit);
    }

    /// The peers are others.
    pub(super) fn count_absent(&mut self) {
        self.absent.held_bytes = 0;
        let limit = flow_limit(self.peers.len());
        for index in 0..self.peers.len() {
            let peer = &mut self.peers[index];
            peer.presence = Presence::default();
            if peer.has_lane() {
                peer.transmitter.set_flow_limit(limit);
            }
            self.lane_absent(index);
        }
    }

    pub(super) fn recount(&mut self, index: usize) {
        for lane in (0..self.peers[index].lanes.len() as u8).map(LaneId) {
            self.recount_lane(index, lane);
        }
    }

    /// Counts what waits for one lane: all that a packet for that lane can have changed.
    fn recount_lane(&mut self, index: usize, lane: LaneId) {
        let Peer { transmitter, lanes, presence, .. } = &mut self.peers[index];
        let held = if lanes[lane.index()].is_none() { transmitter.held_bytes(lane) } else { 0 };
        presence.lane_bytes.resize(lanes.len(), 0);
        let before = std::mem::replace(&mut presence.lane_bytes[lane.index()], held);
        presence.absent_bytes = presence.absent_bytes - before + held;
        self.absent.held_bytes = self.absent.held_bytes - before + held;
    }
}

/// The peer that holds most, if any holds something.
fn largest_holder(peers: &[Peer], held: impl Fn(&Peer) -> usize) -> Option<usize> {
    let holding = peers.iter().map(held).enumerate().filter(|(_, held)| *held > 0);
    holding.max_by_key(|(_, held)| *held).map(|(index, _)| index)
}

/// What one that holds so much drops of an excess, so that others may hold most before all of it has gone.
fn part(held: usize, excess: usize) -> usize {
    excess.min((held / 4).max(MIN_SHED))
}

/// Flows remembered towards each of so many peers.
fn flow_limit(peers: usize) -> usize {
    (ALL_FLOWS / peers.max(1)).clamp(MIN_FLOWS, Transmitter::<PacketBuf>::FLOWS)
}

#[cfg(test)]
mod tests;
