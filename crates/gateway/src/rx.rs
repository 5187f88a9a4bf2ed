//! The receiving worker: takes frames from the lanes and writes their packets to the device.
//!
//! One thread per queue of the device. It owns the receiving half of that shard's lanes and the core's receiver
//! for each peer. Bytes are read into a lane's ring, opened there in place, and written to the device from
//! there: the kernel's two copies are the only ones.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use trunkline_trunk::{Receiver, ReceiverStats};

use crate::keys::PublicKey;
use crate::lane_rx::{LaneRx, RxError};
use crate::mailbox::Mailbox;
use crate::plan::Plan;
use crate::tun::{TunQueue, TunWriter};
use crate::tx::WorkerEvent;

/// What the control thread tells a receiving worker.
pub(crate) enum RxCommand {
    /// A lane of this peer is there.
    LaneUp { peer: PublicKey, lane: Box<LaneRx> },
    /// The lane is gone.
    LaneDown { serial: u64 },
    /// Peers and routes from now on.
    Plan(Arc<Plan>),
    /// Asks for a report.
    Report(SyncSender<RxReport>),
    /// Ends the worker.
    Stop,
}

/// Counts of one lane's receiving half.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LaneRxStats {
    /// Frames received.
    pub(crate) frames: u64,
    /// Bytes read from the socket.
    pub(crate) bytes: u64,
    /// Key updates received.
    pub(crate) key_updates: u64,
}

/// Counts of a receiving worker's writes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeviceWriteStats {
    /// Writes to the device; a super-packet counts once.
    pub(crate) writes: u64,
    /// Packets the device's kernel refused.
    pub(crate) refused: u64,
    /// UDP datagrams that shared a write with others.
    pub(crate) coalesced: u64,
}

/// A receiving worker's state at one instant.
#[derive(Debug)]
pub(crate) struct RxReport {
    pub(crate) device: DeviceWriteStats,
    pub(crate) peers: Vec<(PublicKey, ReceiverStats)>,
    pub(crate) lanes: Vec<(u64, LaneRxStats)>,
}

const MAILBOX: u64 = u64::MAX;

pub(crate) struct RxPeer {
    key: PublicKey,
    pub(crate) receiver: Receiver,
}

pub(crate) struct RxWorker {
    epoll: OwnedFd,
    commands: Mailbox<RxCommand>,
    events: Mailbox<WorkerEvent>,
    writer: TunWriter,
    stats: DeviceWriteStats,
    peers: Vec<RxPeer>,
    lanes: HashMap<u64, (usize, LaneRx)>,
}

impl RxWorker {
    pub(crate) fn new(
        queue: TunQueue,
        commands: Mailbox<RxCommand>,
        events: Mailbox<WorkerEvent>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &commands, epoll::EventData::new_u64(MAILBOX), epoll::EventFlags::IN)?;
        Ok(RxWorker {
            epoll,
            commands,
            events,
            writer: TunWriter::new(queue),
            stats: DeviceWriteStats::default(),
            peers: Vec::new(),
            lanes: HashMap::new(),
        })
    }

    /// Works until told to stop.
    pub(crate) fn run(mut self) {
        if let Err(error) = self.work() {
            self.events.post(WorkerEvent::Died { what: "receiving worker", reason: error.to_string() });
        }
    }

    fn work(&mut self) -> io::Result<()> {
        let mut ready: Vec<epoll::Event> = Vec::with_capacity(64);
        loop {
            ready.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut ready), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in ready.drain(..) {
                match event.data.u64() {
                    MAILBOX => {
                        if !self.obey()? {
                            return Ok(());
                        }
                    }
                    serial => self.serve(serial),
                }
            }
        }
    }

    /// Reads a lane once; what it leaves in the socket is reported again.
    fn serve(&mut self, serial: u64) {
        let Some((peer, lane)) = self.lanes.get_mut(&serial) else { return };
        let receiver = &mut self.peers[*peer].receiver;
        if let Err(error) = lane.receive(receiver, &mut self.writer, &mut self.stats) {
            let clean = matches!(error, RxError::Closed);
            self.events.post(WorkerEvent::LaneEnded { serial, reason: error.to_string(), clean });
            self.take_lane(serial);
        }
    }

    fn take_lane(&mut self, serial: u64) {
        if let Some((_, lane)) = self.lanes.remove(&serial) {
            let _ = epoll::delete(&self.epoll, lane.fd());
        }
    }

    /// Does what the control thread asked. Whether to go on.
    fn obey(&mut self) -> io::Result<bool> {
        for command in self.commands.take() {
            match command {
                RxCommand::LaneUp { peer, lane } => {
                    // A peer that a reload took away meanwhile: the sending worker reports it.
                    if let Some(index) = self.peers.iter().position(|p| p.key == peer) {
                        let data = epoll::EventData::new_u64(lane.serial);
                        epoll::add(&self.epoll, lane.fd(), data, epoll::EventFlags::IN)?;
                        self.lanes.insert(lane.serial, (index, *lane));
                    }
                }
                RxCommand::LaneDown { serial } => self.take_lane(serial),
                RxCommand::Plan(plan) => self.follow(&plan),
                RxCommand::Report(reply) => {
                    let _ = reply.try_send(self.report());
                }
                RxCommand::Stop => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Takes on a plan. Lanes of peers that are gone end; the sending worker reports them.
    fn follow(&mut self, plan: &Plan) {
        let mut old = std::mem::take(&mut self.peers);
        let old_keys: Vec<PublicKey> = old.iter().map(|peer| peer.key).collect();
        for planned in &plan.peers {
            let sources = planned.routes.clone();
            let peer = match old.iter().position(|peer| peer.key == planned.key) {
                Some(at) => {
                    let mut peer = old.swap_remove(at);
                    peer.receiver.set_sources(sources);
                    peer
                }
                None => RxPeer { key: planned.key, receiver: Receiver::new(sources) },
            };
            self.peers.push(peer);
        }
        let peers = &self.peers;
        let epoll = &self.epoll;
        self.lanes.retain(|_, (index, lane)| {
            let key = old_keys[*index];
            if let Some(at) = peers.iter().position(|peer| peer.key == key) {
                *index = at;
                return true;
            }
            let _ = epoll::delete(epoll, lane.fd());
            false
        });
    }

    fn report(&self) -> RxReport {
        let mut lanes: Vec<_> = self.lanes.values().map(|(_, lane)| (lane.serial, lane.stats)).collect();
        lanes.sort_unstable_by_key(|(serial, _)| *serial);
        RxReport {
            device: self.stats,
            peers: self.peers.iter().map(|peer| (peer.key, *peer.receiver.stats())).collect(),
            lanes,
        }
    }
}
