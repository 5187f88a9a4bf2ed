//! The sending worker: reads the device, lets the core queue what it read, and keeps the lanes busy.
//!
//! One thread per queue of the device. It owns that queue's reading side, its own core for each peer, and the
//! sending half of its lanes, so no packet ever meets a lock. The device is drained whether or not a lane has
//! room: what cannot be sent waits in the edge queues, which are bounded and drop, and never in the device's own
//! queue, which nobody manages.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use trunkline_packet::Headers;
use trunkline_queue::Stats;
use trunkline_trunk::{ClassId, LaneSnapshot, RouteTable, Transmitter};
use trunkline_units::Instant;

use crate::clock::now;
use crate::keys::PublicKey;
use crate::lane_tx::{Flushed, LaneError, LaneTx, LaneTxStats};
use crate::mailbox::Mailbox;
use crate::plan::Plan;
use crate::pool::{FRONT, HEAD_CONTENT, PacketBuf, Pool};
use crate::sys::TcpInfo;
use crate::tun::{ReadDrop, TunQueue, TunRead, TunReader};

/// Packet memory of one worker. Edge queues are bounded by their own limits long before; this bounds their sum.
const POOL_BYTES: usize = 256 << 20;
/// Packets, and bytes, read from the device before the lanes are served.
const READ_PACKETS: usize = 64;
const READ_BYTES: usize = 256 << 10;

/// What the control thread tells a sending worker.
pub(crate) enum TxCommand {
    /// A lane for this peer's class is there. One that stood in its place is replaced.
    LaneUp { peer: PublicKey, class: Arc<str>, lane: Box<LaneTx> },
    /// The lane is gone.
    LaneDown { serial: u64 },
    /// Classes, peers and routes from now on.
    Plan(Arc<Plan>),
    /// Asks for a report.
    Report(SyncSender<TxReport>),
    /// Ends the worker.
    Stop,
}

/// What a worker tells the control thread.
#[derive(Debug)]
pub(crate) enum WorkerEvent {
    /// A lane ended, and why; `clean` if the peer closed it of its own will.
    LaneEnded { serial: u64, reason: String, clean: bool },
    /// The worker cannot go on.
    Died { what: &'static str, reason: String },
}

/// Counts of a sending worker.
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

/// A sending worker's state at one instant.
#[derive(Debug)]
pub(crate) struct TxReport {
    pub(crate) device: DeviceReadStats,
    pub(crate) pool_bytes: usize,
    pub(crate) classes: Vec<(PublicKey, Arc<str>, Stats)>,
    pub(crate) lanes: Vec<(u64, LaneTxStats, Option<Kernel>)>,
}

const TUN: u64 = u64::MAX;
const MAILBOX: u64 = u64::MAX - 1;

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

pub(crate) struct TxWorker {
    epoll: std::os::fd::OwnedFd,
    commands: Mailbox<TxCommand>,
    events: Mailbox<WorkerEvent>,
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

impl TxWorker {
    pub(crate) fn new(
        queue: TunQueue,
        commands: Mailbox<TxCommand>,
        events: Mailbox<WorkerEvent>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &queue, epoll::EventData::new_u64(TUN), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &commands, epoll::EventData::new_u64(MAILBOX), epoll::EventFlags::IN)?;
        let mut pool = Pool::new(POOL_BYTES);
        Ok(TxWorker {
            epoll,
            commands,
            events,
            reader: TunReader::new(queue, &mut pool),
            pool,
            peers: Vec::new(),
            routes: RouteTable::default(),
            dirty_peers: Vec::new(),
            lanes: HashMap::new(),
            stats: DeviceReadStats::default(),
        })
    }

    /// Works until told to stop.
    pub(crate) fn run(mut self) {
        if let Err(error) = self.work() {
            self.events.post(WorkerEvent::Died { what: "sending worker", reason: error.to_string() });
        }
    }

    fn work(&mut self) -> io::Result<()> {
        let mut ready: Vec<epoll::Event> = Vec::with_capacity(64);
        let mut device_ready = false;
        loop {
            ready.clear();
            // With packets left in the device, look at the lanes and go on at once.
            let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            match epoll::wait(&self.epoll, spare_capacity(&mut ready), device_ready.then_some(&zero)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in ready.drain(..) {
                match event.data.u64() {
                    TUN => device_ready = true,
                    MAILBOX => {
                        if !self.obey()? {
                            return Ok(());
                        }
                    }
                    serial => self.lane_writable(serial),
                }
            }
            let now = now();
            if device_ready {
                device_ready = self.read_device(now)?;
            }
            self.serve_lanes(now);
        }
    }

    /// Reads a batch from the device. Whether there may be more.
    fn read_device(&mut self, now: Instant) -> io::Result<bool> {
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
        let Ok(offload) = packet.offload.normalise(prefix, &headers) else {
            self.stats.malformed += 1;
            return self.pool.release(packet);
        };
        packet.set_offload(offload);
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

    fn lane_writable(&mut self, serial: u64) {
        let Some(&(index, class)) = self.lanes.get(&serial) else { return };
        if let Some(slot) = &mut self.peers[index].lanes[class] {
            slot.full = false;
            mark(&mut self.dirty_peers, &mut self.peers[index], index, class);
        }
    }

    /// Gives every lane that has something to send what it has room for.
    fn serve_lanes(&mut self, now: Instant) {
        while let Some(index) = self.dirty_peers.pop() {
            let mut dirty = std::mem::take(&mut self.peers[index].dirty);
            while dirty != 0 {
                let class = dirty.trailing_zeros() as usize;
                dirty &= dirty - 1;
                self.serve_lane(now, index, class);
            }
        }
    }

    fn serve_lane(&mut self, now: Instant, index: usize, class: usize) {
        let Peer { core, lanes, .. } = &mut self.peers[index];
        let Some(slot) = &mut lanes[class] else { return };
        let outcome = slot.lane.flush(now, ClassId(class as u8), core, &mut self.pool).and_then(|flushed| {
            if flushed == Flushed::Full {
                // Arming it anew makes the kernel look, so that room made meanwhile is not missed.
                slot.full = true;
                let data = epoll::EventData::new_u64(slot.lane.serial);
                let flags = epoll::EventFlags::OUT | epoll::EventFlags::ET;
                epoll::modify(&self.epoll, slot.lane.fd(), data, flags).map_err(io::Error::from)?;
            }
            Ok(())
        });
        if let Err(error) = outcome {
            let serial = slot.lane.serial;
            self.end_lane(serial, &error);
        }
    }

    fn end_lane(&mut self, serial: u64, error: &LaneError) {
        self.events.post(WorkerEvent::LaneEnded { serial, reason: error.to_string(), clean: false });
        self.take_lane(serial, false);
    }

    fn take_lane(&mut self, serial: u64, goodbye: bool) {
        let Some((index, class)) = self.lanes.remove(&serial) else { return };
        if let Some(slot) = self.peers[index].lanes[class].take() {
            let _ = epoll::delete(&self.epoll, slot.lane.fd());
            if goodbye {
                slot.lane.close(&mut self.pool);
            } else {
                slot.lane.release(&mut self.pool);
            }
        }
    }

    /// Does what the control thread asked. Whether to go on.
    fn obey(&mut self) -> io::Result<bool> {
        for command in self.commands.take() {
            match command {
                TxCommand::LaneUp { peer, class, lane } => self.lane_up(&peer, &class, *lane)?,
                TxCommand::LaneDown { serial } => self.take_lane(serial, true),
                TxCommand::Plan(plan) => self.follow(&plan),
                TxCommand::Report(reply) => {
                    let _ = reply.try_send(self.report());
                }
                TxCommand::Stop => {
                    let serials: Vec<u64> = self
                        .peers
                        .iter()
                        .flat_map(|p| p.lanes.iter().flatten())
                        .map(|s| s.lane.serial)
                        .collect();
                    for serial in serials {
                        self.take_lane(serial, true);
                    }
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn lane_up(&mut self, peer: &PublicKey, class: &str, lane: LaneTx) -> io::Result<()> {
        let place = self.peers.iter().position(|p| p.key == *peer).and_then(|index| {
            let class = self.peers[index].core.classes().find(|(_, settings, _)| &*settings.name == class)?.0;
            Some((index, class.index()))
        });
        let Some((index, class)) = place else {
            // A reload took the peer or the class away while the handshake ran.
            let reason = "no longer configured".to_owned();
            self.events.post(WorkerEvent::LaneEnded { serial: lane.serial, reason, clean: true });
            lane.close(&mut self.pool);
            return Ok(());
        };
        if let Some(old) = &self.peers[index].lanes[class] {
            let serial = old.lane.serial;
            self.take_lane(serial, false);
        }
        let serial = lane.serial;
        let flags = epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, lane.fd(), epoll::EventData::new_u64(serial), flags)?;
        self.peers[index].lanes[class] = Some(LaneSlot { lane, full: false });
        self.lanes.insert(serial, (index, class));
        mark(&mut self.dirty_peers, &mut self.peers[index], index, class);
        Ok(())
    }

    /// Takes on a plan. Peers and classes that stay keep their lanes and what waits for them.
    fn follow(&mut self, plan: &Plan) {
        let mut old = std::mem::take(&mut self.peers);
        self.dirty_peers.clear();
        let old_lanes = std::mem::take(&mut self.lanes);
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
                            None => retire(&self.epoll, &self.events, slot, pool),
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
            gone.lanes.into_iter().flatten().for_each(|slot| retire(&self.epoll, &self.events, slot, pool));
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
        debug_assert!(self.lanes.len() <= old_lanes.len());
        self.routes = plan
            .peers
            .iter()
            .enumerate()
            .flat_map(|(index, peer)| peer.routes.iter().map(move |prefix| (*prefix, index)))
            .collect();
    }

    fn report(&self) -> TxReport {
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

fn retire(epoll: &impl AsFd, events: &Mailbox<WorkerEvent>, slot: LaneSlot, pool: &mut Pool) {
    let _ = epoll::delete(epoll, slot.lane.fd());
    let reason = "no longer configured".to_owned();
    events.post(WorkerEvent::LaneEnded { serial: slot.lane.serial, reason, clean: true });
    slot.lane.close(pool);
}
