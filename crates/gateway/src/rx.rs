//! The receiving half of a worker: takes frames from the lanes and writes their packets to the device.
//!
//! It owns the receiving half of its lanes and a `trunk::Receiver` for each peer. Bytes are read into a lane's
//! ring, opened there in place, and written to the device from there: the kernel's two copies are the only ones.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use trunkline_packet::Headers;
use trunkline_trunk::bonding::ResequencerStats;
use trunkline_trunk::{Delivery, PeerId, Receiver, ReceiverStats};
use trunkline_units::Instant;

use crate::keys::PublicKey;
use crate::lane_rx::{DeviceWriteStats, LaneRx, LaneRxStats, Ordered, Reports, RxError, Sink};
use crate::plan::Plan;
use crate::quic::{Arrived, QuicRx};
use crate::tun::{TunQueue, TunWriter};

/// A receiving half's state at one instant.
#[derive(Debug)]
pub(crate) struct RxReport {
    pub(crate) device: DeviceWriteStats,
    pub(crate) peers: Vec<RxPeerReport>,
    pub(crate) lanes: Vec<(u64, LaneRxStats)>,
}

/// What has come from a peer.
#[derive(Debug)]
pub(crate) struct RxPeerReport {
    pub(crate) key: PublicKey,
    pub(crate) received: ReceiverStats,
    pub(crate) ordered: ResequencerStats,
}

struct RxPeer {
    key: PublicKey,
    receiver: Receiver,
    /// Its packets that came over bonded paths.
    ordered: Ordered,
}

impl RxPeer {
    fn report(&self) -> RxPeerReport {
        RxPeerReport {
            key: self.key,
            received: *self.receiver.stats(),
            ordered: self.ordered.stats().clone(),
        }
    }
}

pub(crate) struct Receivers {
    writer: TunWriter,
    stats: DeviceWriteStats,
    peers: Vec<RxPeer>,
    lanes: HashMap<u64, (usize, LaneRx)>,
    /// Lanes over QUIC.
    quic: HashMap<u64, (usize, QuicRx)>,
    /// When the first wait for a missing packet ends.
    next_release: Option<Instant>,
}

impl Receivers {
    pub(crate) fn new(queue: TunQueue) -> Self {
        Receivers {
            writer: TunWriter::new(queue),
            stats: DeviceWriteStats::default(),
            peers: Vec::new(),
            lanes: HashMap::new(),
            quic: HashMap::new(),
            next_release: None,
        }
    }

    /// Writes to another queue from now on: the device was made anew.
    pub(crate) fn set_device(&mut self, queue: TunQueue) {
        self.writer.set_queue(queue);
    }

    /// Reads a lane once; what it leaves in the socket is reported again. Every TCP packet that is passed on is
    /// shown to `observe`, with the place of its peer in the plan and the packet's start.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        now: Instant,
        serial: u64,
        mut observe: impl FnMut(usize, &Headers, &[u8]),
    ) -> Result<Reports, RxError> {
        let Some((peer, lane)) = self.lanes.get_mut(&serial) else { return Ok(Reports::default()) };
        let peer = *peer;
        let mut observe = |headers: &Headers, prefix: &[u8]| observe(peer, headers, prefix);
        let RxPeer { receiver, ordered, .. } = &mut self.peers[peer];
        let mut sink =
            Sink { writer: &mut self.writer, device: &mut self.stats, ordered, observe: &mut observe };
        let result = lane.receive(now, receiver, &mut sink);
        self.next_release = self.next_release.into_iter().chain(ordered.poll_timeout()).min();
        result
    }

    /// When [`release`](Self::release) is due.
    pub(crate) const fn next_wake(&self) -> Option<Instant> {
        self.next_release
    }

    /// Writes the packets that have waited for others for too long; shows them to `observe` as [`serve`](Self::serve) does.
    pub(crate) fn release(&mut self, now: Instant, mut observe: impl FnMut(usize, &Headers, &[u8])) {
        if self.next_release.is_none_or(|at| now < at) {
            return;
        }
        for (place, RxPeer { ordered, .. }) in self.peers.iter_mut().enumerate() {
            ordered.handle_timeout(now);
            let mut observe = |headers: &Headers, prefix: &[u8]| observe(place, headers, prefix);
            Sink { writer: &mut self.writer, device: &mut self.stats, ordered, observe: &mut observe }
                .write_ordered();
        }
        self.next_release = self.peers.iter().filter_map(|peer| peer.ordered.poll_timeout()).min();
    }

    /// Takes what has arrived in a lane over QUIC, as [`serve`](Self::serve) reads one over TCP. `round_trip` is that of its
    /// connection.
    #[inline]
    pub(crate) fn handle_arrived(
        &mut self,
        now: Instant,
        serial: u64,
        (arrived, round_trip): (Arrived<'_>, Duration),
        mut observe: impl FnMut(usize, &Headers, &[u8]),
    ) -> Result<(), RxError> {
        let Some((peer, lane)) = self.quic.get_mut(&serial) else { return Ok(()) };
        let peer = *peer;
        let mut observe = |headers: &Headers, prefix: &[u8]| observe(peer, headers, prefix);
        let RxPeer { receiver, ordered, .. } = &mut self.peers[peer];
        let mut sink =
            Sink { writer: &mut self.writer, device: &mut self.stats, ordered, observe: &mut observe };
        lane.receive(now, (arrived, round_trip), receiver, &mut sink)
    }

    /// Puts a lane over QUIC in its place. Whether its peer is there.
    pub(crate) fn quic_lane_up(&mut self, peer: &PublicKey, serial: u64, delivery: Delivery) -> bool {
        let Some(index) = self.peers.iter().position(|p| p.key == *peer) else { return false };
        self.quic.insert(serial, (index, QuicRx::new(delivery)));
        true
    }

    /// Puts a lane in its place. Whether its peer is there.
    pub(crate) fn lane_up(&mut self, peer: &PublicKey, lane: LaneRx) -> bool {
        let Some(index) = self.peers.iter().position(|p| p.key == *peer) else { return false };
        self.lanes.insert(lane.serial, (index, lane));
        true
    }

    /// The descriptor of a lane.
    pub(crate) fn fd(&self, serial: u64) -> Option<BorrowedFd<'_>> {
        self.lanes.get(&serial).map(|(_, lane)| lane.fd())
    }

    /// Takes a lane away.
    pub(crate) fn take_lane(&mut self, serial: u64) -> Option<LaneRx> {
        self.quic.remove(&serial);
        self.lanes.remove(&serial).map(|(_, lane)| lane)
    }

    /// Applies a new plan. The lanes of peers that are gone must have been taken away before.
    pub(crate) fn reconfigure(&mut self, plan: &Plan) {
        let mut old = std::mem::take(&mut self.peers);
        let old_keys: Vec<PublicKey> = old.iter().map(|peer| peer.key).collect();
        for (place, planned) in (0..).map(PeerId).zip(&plan.peers) {
            let owners = Arc::clone(&plan.owners);
            let peer = match old.iter().position(|peer| peer.key == planned.key) {
                Some(at) => {
                    let mut peer = old.swap_remove(at);
                    peer.receiver.set_owners(place, owners);
                    peer
                }
                None => RxPeer {
                    key: planned.key,
                    receiver: Receiver::new(place, owners),
                    ordered: Ordered::default(),
                },
            };
            self.peers.push(peer);
        }
        let peers = &self.peers;
        let follow = |index: &mut usize| {
            let key = old_keys[*index];
            let found = peers.iter().position(|peer| peer.key == key);
            *index = found.unwrap_or(*index);
            found.is_some()
        };
        self.lanes.retain(|_, (index, _)| follow(index));
        self.quic.retain(|_, (index, _)| follow(index));
    }

    pub(crate) fn report(&self) -> RxReport {
        let mut lanes: Vec<_> = self.lanes.values().map(|(_, lane)| (lane.serial, lane.stats())).collect();
        lanes.extend(self.quic.iter().map(|(serial, (_, lane))| (*serial, lane.stats())));
        lanes.sort_unstable_by_key(|(serial, _)| *serial);
        RxReport { device: self.stats, peers: self.peers.iter().map(RxPeer::report).collect(), lanes }
    }
}
