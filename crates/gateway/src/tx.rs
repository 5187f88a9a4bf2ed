//! The sending half of a worker: reads the device, lets the core queue what it read, and keeps the lanes busy.
//!
//! It owns one queue of the device, its own core for each peer, and the sending half of its lanes, so no packet
//! ever meets a lock. The device is drained whether or not a lane has room: what cannot be sent waits in the edge
//! queues, which are bounded and drop, and never in the device's own queue, which nobody manages.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use trunkline_packet::{Headers, Offload};
use trunkline_queue::Stats;
use trunkline_trunk::{ClassId, LaneSnapshot, RouteTable, Transmitter};
use trunkline_units::Instant;

use crate::keys::PublicKey;
use crate::lane_tx::{Flushed, LaneTx, LaneTxStats};
use crate::plan::Plan;
use crate::pool::{FRONT, HEAD_CONTENT, PacketBuf, Pool};
use crate::sys::TcpInfo;
use crate::tun::{ReadDrop, TunQueue, TunRead, TunReader};

/// Packet memory of one worker. Edge queues are bounded by their own limits long before; this bounds their sum.
const POOL_BYTES: usize = 256 << 20;
/// Packets, and bytes, read from the device before the lanes are served.
const READ_PACKETS: usize = 64;
const READ_BYTES: usize = 256 << 10;

/// Counts of a sender.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeviceReadStats {
    /// Packets read from the device; a super-packet counts once.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Dropped: to no peer's routes.
    pub(crate) no_route: u64,
    /// Dropped: no IP packet, or an offload request that does not fit.
    pub(crate) malformed: u64,
    /// Dropped: longer than a frame can carry.
    pub(crate) too_long: u64,
    /// Dropped: packet memory used up.
    pub(crate) no_memory: u64,
}

/// What the kernel says of a lane.
type Kernel = (TcpInfo, LaneSnapshot);

/// A sender's state at one instant.
#[derive(Debug)]
pub(crate) struct TxReport {
    pub(crate) device: DeviceReadStats,
    pub(crate) pool_bytes: usize,
    pub(crate) classes: Vec<(PublicKey, Arc<str>, Stats)>,
    pub(crate) lanes: Vec<(u64, LaneTxStats, Option<Kernel>)>,
}

struct Peer {
    key: PublicKey,
    core: Transmitter<PacketBuf>,
    lanes: Vec<Option<LaneSlot>>,
    /// Classes that have something to send and a lane that is not known to be full.
    dirty: u32,
}

struct LaneSlot {
    lane: LaneTx,
    full: bool,
}

pub(crate) struct Sender {
    reader: TunReader,
    pool: Pool,
    peers: Vec<Peer>,
    routes: RouteTable<usize>,
    /// Peers with a dirty class, each once.
    dirty_peers: Vec<usize>,
    /// Where the lane of this serial is.
    lanes: HashMap<u64, (usize, usize)>,
    stats: DeviceReadStats,
}

/// What the sender wants its owner to do about a lane.
#[derive(Debug)]
pub(crate) enum Wish {
    /// Say when the lane takes more.
    Writable { serial: u64 },
    /// Take the lane away: it failed.
    End { serial: u64, reason: String },
}

impl Sender {
    pub(crate) fn new(queue: TunQueue) -> Self {
        let mut pool = Pool::new(POOL_BYTES);
        Sender {
            reader: TunReader::new(queue, &mut pool),
            pool,
            peers: Vec::new(),
            routes: RouteTable::default(),
            dirty_peers: Vec::new(),
            lanes: HashMap::new(),
            stats: DeviceReadStats::default(),
        }
    }

    /// Reads a batch from the device. Whether there may be more.
    pub(crate) fn read_device(&mut self, now: Instant) -> io::Result<bool> {
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
        let prefix = &packet.head.bytes()[FRONT..FRONT + packet.len.min(HEAD_CONTENT)];
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
        packet.set_flow(headers.flow_hash());
        let Some(&index) = self.routes.lookup(headers.destination) else {
            self.stats.no_route += 1;
            return self.pool.release(packet);
        };
        let peer = &mut self.peers[index];
        let offered = peer.core.handle_packet(now, &headers, packet);
        if let Some((packet, _)) = offered.dropped {
            self.pool.release(packet);
        }
        if peer.lanes[offered.class.index()].as_ref().is_some_and(|slot| !slot.full) {
            mark(&mut self.dirty_peers, peer, index, offered.class.index());
        }
    }

    /// A lane takes more.
    pub(crate) fn lane_writable(&mut self, serial: u64) {
        let Some(&(index, class)) = self.lanes.get(&serial) else { return };
        if let Some(slot) = &mut self.peers[index].lanes[class] {
            slot.full = false;
            mark(&mut self.dirty_peers, &mut self.peers[index], index, class);
        }
    }

    /// Gives every lane that has something to send what it has room for.
    #[inline]
    pub(crate) fn serve_lanes(&mut self, now: Instant, wishes: &mut Vec<Wish>) {
        while let Some(index) = self.dirty_peers.pop() {
            let mut dirty = std::mem::take(&mut self.peers[index].dirty);
            while dirty != 0 {
                let class = dirty.trailing_zeros() as usize;
                dirty &= dirty - 1;
                let Peer { core, lanes, .. } = &mut self.peers[index];
                let Some(slot) = &mut lanes[class] else { continue };
                let serial = slot.lane.serial;
                match slot.lane.flush(now, ClassId(class as u8), core, &mut self.pool) {
                    Ok(Flushed::Idle) => {}
                    Ok(Flushed::Full) => {
                        slot.full = true;
                        wishes.push(Wish::Writable { serial });
                    }
                    Err(error) => wishes.push(Wish::End { serial, reason: error.to_string() }),
                }
            }
        }
    }

    /// Takes a lane away. With a goodbye, if the connection may still be good for one.
    pub(crate) fn take_lane(&mut self, serial: u64, goodbye: bool) {
        let Some((index, class)) = self.lanes.remove(&serial) else { return };
        if let Some(slot) = self.peers[index].lanes[class].take() {
            if goodbye {
                slot.lane.close(&mut self.pool);
            } else {
                slot.lane.release(&mut self.pool);
            }
        }
    }

    /// Every lane there is.
    pub(crate) fn serials(&self) -> Vec<u64> {
        self.peers.iter().flat_map(|peer| peer.lanes.iter().flatten()).map(|slot| slot.lane.serial).collect()
    }

    /// Puts a lane in its place and says which one stood there; gives it back if its peer or class is gone.
    pub(crate) fn lane_up(
        &mut self,
        peer: &PublicKey,
        class: &str,
        lane: Box<LaneTx>,
    ) -> Result<Option<u64>, Box<LaneTx>> {
        let place = self.peers.iter().position(|p| p.key == *peer).and_then(|index| {
            let class = self.peers[index].core.classes().find(|(_, settings, _)| &*settings.name == class)?.0;
            Some((index, class.index()))
        });
        let Some((index, class)) = place else { return Err(lane) };
        let replaced = self.peers[index].lanes[class].as_ref().map(|slot| slot.lane.serial);
        if let Some(serial) = replaced {
            self.take_lane(serial, false);
        }
        self.lanes.insert(lane.serial, (index, class));
        self.peers[index].lanes[class] = Some(LaneSlot { lane: *lane, full: false });
        mark(&mut self.dirty_peers, &mut self.peers[index], index, class);
        Ok(replaced)
    }

    /// Closes a lane that could not be put in its place.
    pub(crate) fn discard(&mut self, lane: LaneTx) {
        lane.close(&mut self.pool);
    }

    /// Takes on a plan. Peers and classes that stay keep their lanes and what waits for them; the lanes of those
    /// that go are closed, and their serials given back.
    pub(crate) fn follow(&mut self, plan: &Plan) -> Vec<u64> {
        let mut closed = Vec::new();
        let mut old = std::mem::take(&mut self.peers);
        self.dirty_peers.clear();
        self.lanes.clear();
        let pool = &mut self.pool;
        for planned in &plan.peers {
            let mut lanes: Vec<Option<LaneSlot>> = plan.classes.iter().map(|_| None).collect();
            let core = match old.iter().position(|peer| peer.key == planned.key) {
                Some(at) => {
                    let Peer { mut core, lanes: old_slots, .. } = old.swap_remove(at);
                    let names: Vec<Arc<str>> = core.classes().map(|(_, s, _)| Arc::clone(&s.name)).collect();
                    for (name, slot) in names.iter().zip(old_slots) {
                        let Some(slot) = slot else { continue };
                        match plan.classes.iter().position(|class| class.name == *name) {
                            Some(class) => lanes[class] = Some(slot),
                            None => retire(slot, pool, &mut closed),
                        }
                    }
                    core.reconfigure(&plan.classes, |packet| pool.release(packet));
                    core
                }
                None => Transmitter::new(&plan.classes),
            };
            self.peers.push(Peer { key: planned.key, core, lanes, dirty: 0 });
        }
        for mut gone in old {
            gone.core.flush(|packet| pool.release(packet));
            gone.lanes.into_iter().flatten().for_each(|slot| retire(slot, pool, &mut closed));
        }
        for (index, peer) in self.peers.iter_mut().enumerate() {
            for class in 0..peer.lanes.len() {
                if let Some(slot) = &mut peer.lanes[class] {
                    slot.full = false;
                    self.lanes.insert(slot.lane.serial, (index, class));
                    mark(&mut self.dirty_peers, peer, index, class);
                }
            }
        }
        self.routes = plan
            .peers
            .iter()
            .enumerate()
            .flat_map(|(index, peer)| peer.routes.iter().map(move |prefix| (*prefix, index)))
            .collect();
        closed
    }

    pub(crate) fn report(&self) -> TxReport {
        let classes = self.peers.iter().flat_map(|peer| {
            peer.core
                .classes()
                .map(|(_, settings, stats)| (peer.key, Arc::clone(&settings.name), stats.clone()))
        });
        let lanes = self
            .peers
            .iter()
            .flat_map(|peer| peer.lanes.iter().flatten())
            .map(|slot| (slot.lane.serial, slot.lane.stats, slot.lane.inspect().ok()));
        TxReport {
            device: self.stats,
            pool_bytes: self.pool.allocated_bytes(),
            classes: classes.collect(),
            lanes: lanes.collect(),
        }
    }
}

fn mark(dirty_peers: &mut Vec<usize>, peer: &mut Peer, index: usize, class: usize) {
    if peer.dirty == 0 {
        dirty_peers.push(index);
    }
    peer.dirty |= 1 << class;
}

fn retire(slot: LaneSlot, pool: &mut Pool, closed: &mut Vec<u64>) {
    closed.push(slot.lane.serial);
    slot.lane.close(pool);
}
