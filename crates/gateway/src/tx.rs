//! The sending half of a worker: reads the device, lets the transmitter queue what it read, and keeps the lanes busy.
//!
//! It owns one queue of the device, its own transmitter for each peer, and the sending half of its lanes, so no packet
//! ever meets a lock. The shards share what they know of the paths to a peer, behind a lock that is taken for reports only. The device is drained whether or not a lane has room: what cannot be sent waits in the edge
//! queues, which are bounded and drop, and never in the device's own queue, which nobody manages.

mod memory;
mod places;
mod report;
mod sending;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use trunkline_packet::{Headers, Offload};
use trunkline_trunk::path::PathWatch;
use trunkline_trunk::{
    ArrivalReport, LaneEdge, LaneId, Offered, Packet as _, Paths, PeerId, RouteTable, Served, Stalling,
    Transmitter, TrunkPlan,
};
use trunkline_units::Instant;

use crate::keys::PublicKey;
use crate::lane::LaneError;
use crate::line_limit::LineLimit;
use crate::pool::{PacketBuf, Pool};
use crate::refusals::Refusals;
use crate::tun::{ReadDrop, TunQueue, TunRead, TunReader};
use memory::{AbsentPackets, Presence};

pub(crate) use places::NoVacancy;
pub(crate) use report::{DeviceReadStats, LaneTxReport, PeerTxReport, TxReport};
pub(crate) use sending::Sending;
pub(crate) use watch::WatchedPath;

/// How often lanes that hold data are looked at though nothing happens.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Packets, and bytes, read from the device before the lanes are served.
const READ_PACKETS: usize = 64;
const READ_BYTES: usize = 256 << 10;
struct Peer {
    key: PublicKey,
    name: Arc<str>,
    transmitter: Transmitter<PacketBuf>,
    paths: Paths,
    /// By the transmitter's lane ids.
    lanes: Vec<Option<LaneSlot>>,
    /// Lanes that have something to send and are not known to be full, a bit each.
    dirty: u32,
    presence: Presence,
    /// Where there are several paths.
    watch: PathWatch,
    lines: LineLimit,
}

impl Peer {
    /// Passes on to the lanes what their paths grant them, if that has changed.
    fn grant(&mut self, pool: &mut Pool, requests: &mut Vec<LaneRequest>) {
        if !self.paths.take_changed() {
            return;
        }
        while let Some((id, change)) = self.paths.poll_change() {
            let path = self.path_name(id.path).map_or_else(String::new, |name| format!(" {name}"));
            let line = format!("path{path} to {}, DSCP {}: {change}", self.name, id.dscp);
            self.lines.info(crate::clock::now(), &line);
        }
        for (id, slot) in (0..).map(LaneId).zip(&mut self.lanes) {
            if let Some(slot) = slot
                && let Err(error) = slot.lane.handle_grant(self.paths.grant(id), pool)
            {
                requests.push(LaneRequest::End { serial: slot.lane.serial(), reason: error.to_string() });
            }
        }
    }
}

struct LaneSlot {
    lane: Sending,
    full: bool,
    /// Whether it is among the [`Sender::watched`].
    watched: bool,
    /// Whether it is among the [`Sender::checks`].
    checked: bool,
}

impl LaneSlot {
    fn new(lane: Sending) -> Self {
        LaneSlot { lane, full: false, watched: false, checked: false }
    }
}

const _: () = assert!(TrunkPlan::MAX_LANES <= u32::BITS as usize);

pub(crate) struct Sender {
    shard: u16,
    reader: TunReader,
    pool: Pool,
    peers: Vec<Peer>,
    routes: Arc<RouteTable<PeerId>>,
    /// Peers with several paths.
    on_several_paths: Vec<usize>,
    /// Peers with a dirty class, each once.
    dirty_peers: Vec<usize>,
    /// Where the lane of this serial is.
    lanes: HashMap<u64, (usize, LaneId)>,
    /// Lanes that hold data which the retransmission filter covers, each once.
    watched: Vec<(usize, LaneId)>,
    /// Lanes that may take packets again only at this time: ceilings hold these back, or the lane has stalled.
    held: Vec<(Instant, usize, LaneId)>,
    /// Lanes that hold data, and when to look at them though nothing happens.
    checks: BTreeSet<(Instant, usize, LaneId)>,
    refusals: Refusals,
    absent: AbsentPackets,
    stats: DeviceReadStats,
}

/// A request of the sender to its owner about a lane.
#[derive(Debug)]
pub(crate) enum LaneRequest {
    /// Say when the lane takes more.
    Writable { serial: u64 },
    /// Take the lane away: it failed.
    End { serial: u64, reason: String },
    /// Tell the control thread of the lane.
    Report(LaneReport, u64),
}

/// What the control thread is told of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneReport {
    /// It delivers nothing of what it has sent.
    Stalled,
    /// It does again.
    Recovered,
}

impl Sender {
    /// The sender of the shard with this number.
    pub(crate) fn new(shard: u16, queue: TunQueue) -> Self {
        Sender::with_memory(shard, queue, memory::POOL_BYTES)
    }

    fn with_memory(shard: u16, queue: TunQueue, bytes: usize) -> Self {
        let mut pool = Pool::new(bytes);
        Sender {
            shard,
            refusals: Refusals::new(queue.clone()),
            reader: TunReader::new(queue, &mut pool),
            pool,
            peers: Vec::new(),
            on_several_paths: Vec::new(),
            routes: Arc::default(),
            dirty_peers: Vec::new(),
            lanes: HashMap::new(),
            watched: Vec::new(),
            held: Vec::new(),
            checks: BTreeSet::new(),
            absent: AbsentPackets::within(bytes),
            stats: DeviceReadStats::default(),
        }
    }

    /// Reads from another queue from now on: the device was made anew.
    pub(crate) fn set_device(&mut self, queue: TunQueue) {
        self.refusals.set_device(queue.clone());
        self.reader.set_queue(queue);
    }

    /// Reads a batch from the device. Whether there may be more.
    pub(crate) fn read_device(&mut self, now: Instant) -> io::Result<bool> {
        self.ask_watched(now);
        let mut bytes = 0;
        for _ in 0..READ_PACKETS {
            match self.reader.read(&mut self.pool) {
                Ok(TunRead::Packet(packet)) => {
                    self.stats.packets += 1;
                    self.stats.bytes += packet.len as u64;
                    bytes += packet.len;
                    self.handle_packet(now, packet);
                }
                Ok(TunRead::Dropped(reason)) => match reason {
                    ReadDrop::BadOffload => self.stats.malformed += 1,
                    ReadDrop::TooLong => self.stats.too_long += 1,
                    ReadDrop::NoMemory => self.stats.no_memory += 1,
                },
                Ok(TunRead::Empty) => return Ok(false),
                // The device is down: it will be reported again once it is up.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(false),
                Err(error) => return Err(error),
            }
            if bytes >= READ_BYTES {
                break;
            }
        }
        Ok(true)
    }

    #[inline]
    fn handle_packet(&mut self, now: Instant, mut packet: PacketBuf) {
        let prefix = packet.prefix();
        let Ok(headers) = Headers::parse(prefix, packet.len) else {
            self.stats.malformed += 1;
            return self.pool.release(packet);
        };
        let offload = match packet.offload.normalise(prefix, &headers) {
            Ok(offload) => offload,
            // An open checksum where the receiver takes none, as inside VXLAN: closed here, it is an ordinary packet.
            Err(_) if packet.close_checksum() => Offload::None,
            Err(_) => {
                self.stats.malformed += 1;
                return self.pool.release(packet);
            }
        };
        packet.set_offload(offload);
        let Some(index) = self.routes.lookup(headers.destination).map(|peer| peer.index()) else {
            let counter = if headers.destination.is_multicast() {
                &mut self.stats.multicast
            } else {
                &mut self.stats.no_route
            };
            *counter += 1;
            return self.pool.release(packet);
        };
        let peer = &mut self.peers[index];
        let pool = &mut self.pool;
        match peer.transmitter.handle_packet(now, &headers, packet, &mut *pool) {
            Offered::Queued(lane) => self.handle_queued(now, index, 1 << lane.0),
            Offered::QueuedFor(lanes) => self.handle_queued(now, index, lanes),
            Offered::Dropped => {}
            Offered::Refused(packet) => {
                self.refusals.answer(now, packet.prefix(), &headers);
                pool.release(packet);
            }
        }
    }

    /// A packet for the peer at `index` waits for these lanes, a bit each.
    #[inline]
    fn handle_queued(&mut self, now: Instant, index: usize, lanes: u32) {
        for lane in LaneId::of_set(lanes) {
            let peer = &mut self.peers[index];
            match &peer.lanes[lane.index()] {
                Some(slot) if !slot.full => mark(&mut self.dirty_peers, peer, index, lane),
                Some(_) => {}
                None => self.queued_for_absent(now, index, lane),
            }
        }
        if self.pool.shortage_bytes() > 0 {
            self.make_room(now);
        }
    }

    /// A packet from the peer at `index` goes to the device: what it acknowledges has left the trunk.
    #[inline]
    pub(crate) fn handle_returning(&mut self, now: Instant, index: usize, headers: &Headers, prefix: &[u8]) {
        if let Some(peer) = self.peers.get_mut(index) {
            peer.transmitter.handle_returning(now, headers, prefix);
        }
    }

    /// Tells the transmitters how far the lanes have delivered, before packets come that could be retransmissions.
    fn ask_watched(&mut self, now: Instant) {
        let (peers, pool) = (&mut self.peers, &mut self.pool);
        self.watched.retain(|(index, lane)| {
            let Some(Peer { transmitter, lanes, .. }) = peers.get_mut(*index) else { return false };
            let Some(Some(slot)) = lanes.get_mut(lane.index()) else { return false };
            slot.lane.report_delivered(now, *lane, transmitter, pool);
            slot.watched = transmitter.has_data_in_transit(*lane);
            slot.watched
        });
    }

    /// When a held lane is to be served, or the next sweep of the packets for absent peers is due.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let watches =
            self.on_several_paths.iter().filter_map(|index| self.peers[*index].watch.poll_timeout());
        let checks = self.checks.first().map(|(at, ..)| *at);
        let held = self.held.iter().map(|(at, ..)| *at);
        held.chain(checks).chain(self.absent.next_sweep()).chain(watches).min()
    }

    /// Has the lanes served whose time has come.
    fn release_held(&mut self, now: Instant) {
        if self.held.is_empty() {
            return;
        }
        let (dirty_peers, peers) = (&mut self.dirty_peers, &mut self.peers);
        self.held.retain(|(at, index, lane)| {
            if *at <= now {
                mark(dirty_peers, &mut peers[*index], *index, *lane);
            }
            *at > now
        });
    }

    /// Has the lanes served that hold data since their last look.
    fn check_lanes(&mut self, now: Instant) {
        while let Some((_, index, lane)) = self.checks.first().copied().filter(|(at, ..)| *at <= now) {
            self.checks.pop_first();
            let Some(peer) = self.peers.get_mut(index) else { continue };
            if let Some(Some(slot)) = peer.lanes.get_mut(lane.index()) {
                slot.checked = false;
                mark(&mut self.dirty_peers, peer, index, lane);
            }
        }
    }

    /// A lane takes more.
    pub(crate) fn lane_writable(&mut self, serial: u64) {
        let Some(&(index, lane)) = self.lanes.get(&serial) else { return };
        if let Some(slot) = &mut self.peers[index].lanes[lane.index()] {
            slot.full = false;
            mark(&mut self.dirty_peers, &mut self.peers[index], index, lane);
        }
    }

    /// The far end of a lane reports what arrived: its path may change what its lanes may send.
    pub(crate) fn handle_report(&mut self, now: Instant, serial: u64, report: ArrivalReport) {
        self.with_lane(serial, |lane, id, paths| lane.handle_report(now, id, paths, report));
    }

    /// The far end of a lane is to be told what arrived from it.
    pub(crate) fn report_arrival(&mut self, serial: u64, report: ArrivalReport) {
        self.with_lane(serial, |lane, _, _| lane.report(report));
    }

    /// Does something with a lane, and has it served.
    fn with_lane(&mut self, serial: u64, act: impl FnOnce(&mut Sending, LaneId, &mut Paths)) {
        let Some(&(index, lane)) = self.lanes.get(&serial) else { return };
        let peer = &mut self.peers[index];
        if let Some(slot) = &mut peer.lanes[lane.index()] {
            act(&mut slot.lane, lane, &mut peer.paths);
            mark(&mut self.dirty_peers, peer, index, lane);
        }
    }

    /// Gives every lane that has something to send what it has room for.
    #[inline]
    pub(crate) fn serve_lanes(&mut self, now: Instant, requests: &mut Vec<LaneRequest>) {
        self.release_held(now);
        self.check_lanes(now);
        self.sweep_absent(now);
        self.watch_paths(now);
        while let Some(index) = self.dirty_peers.pop() {
            let mut dirty = std::mem::take(&mut self.peers[index].dirty);
            while dirty != 0 {
                let lane = LaneId(dirty.trailing_zeros() as u8);
                dirty &= dirty - 1;
                let Peer { transmitter, paths, lanes, .. } = &mut self.peers[index];
                let Some(slot) = &mut lanes[lane.index()] else { continue };
                let serial = slot.lane.serial();
                let edge = LaneEdge { lane, transmitter: &mut *transmitter, paths };
                match slot.lane.serve(now, edge, &mut self.pool) {
                    Ok(Served::Idle) => {}
                    Ok(Served::Full) => {
                        slot.full = true;
                        requests.push(LaneRequest::Writable { serial });
                    }
                    Ok(Served::Held(at)) => {
                        self.held.retain(|(_, other, held)| (*other, *held) != (index, lane));
                        self.held.push((at, index, lane));
                    }
                    Err(error) => requests.push(LaneRequest::End { serial, reason: error.to_string() }),
                }
                match slot.lane.poll_stall(now) {
                    Some(Stalling::Report) => requests.push(LaneRequest::Report(LaneReport::Stalled, serial)),
                    Some(Stalling::Recovered) => {
                        requests.push(LaneRequest::Report(LaneReport::Recovered, serial));
                    }
                    Some(Stalling::Dead) => {
                        requests.push(LaneRequest::End { serial, reason: LaneError::Lifeless.to_string() });
                    }
                    None => {}
                }
                if !slot.checked && slot.lane.holds_data() {
                    slot.checked = true;
                    self.checks.insert((now + CHECK_INTERVAL, index, lane));
                }
                if !slot.watched && transmitter.has_data_in_transit(lane) {
                    slot.watched = true;
                    self.watched.push((index, lane));
                }
            }
            self.peers[index].grant(&mut self.pool, requests);
            self.peers[index].watch.handle_served(now);
        }
    }

    /// Every lane there is.
    pub(crate) fn serials(&self) -> Vec<u64> {
        self.peers
            .iter()
            .flat_map(|peer| peer.lanes.iter().flatten())
            .map(|slot| slot.lane.serial())
            .collect()
    }
}

fn mark(dirty_peers: &mut Vec<usize>, peer: &mut Peer, index: usize, lane: LaneId) {
    if peer.dirty == 0 {
        dirty_peers.push(index);
    }
    peer.dirty |= 1 << lane.0;
}
