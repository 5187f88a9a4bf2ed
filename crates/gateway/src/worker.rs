//! A worker: one thread for each queue of the device, both ways.
//!
//! Both directions in one thread, because what one brings in the other often takes out at once: an
//! acknowledgement or an answer is in the device before the write that caused it returns, and is read without
//! another thread having to wake (docs/decisions/0002).

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use aws_lc_rs::hmac;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use trunkline_packet::Headers;
use trunkline_units::Instant;

use crate::clock::now;
use crate::keys::PublicKey;
use crate::known::KnownAddresses;
use crate::lane_rx::{LaneRx, Reports, RxError};
use crate::lane_tx::LaneTx;
use crate::life::Failure;
use crate::mailbox::Mailbox;
use crate::plan::Plan;
use crate::quic::{self, Change, Quic, QuicTx};
use crate::rx::{Receivers, RxReport};
use crate::tun::TunQueue;
use crate::tx::{LaneReport, LaneRequest, NoVacancy, Sender, TxReport};

/// What the control thread tells a worker.
pub(crate) enum Command {
    /// A lane is there. One that had its place must have been ended by a [`Command::LaneDown`] before.
    LaneUp(Box<NewLane>),
    /// Something about connections over QUIC.
    Quic(Box<QuicCommand>),
    /// The lane is to end.
    LaneDown { serial: u64 },
    /// Another connection takes the lane's place: nothing more is sent in this one, and what comes is still passed on.
    LaneRetired { serial: u64 },
    /// Classes, peers and routes from now on.
    Plan(Arc<Plan>),
    /// The device was made anew: its queue from now on.
    Device(TunQueue),
    /// Asks for a report, with so many of the busiest flows to each peer.
    Report { flows: usize, reply: SyncSender<(TxReport, RxReport)> },
    /// Asks for a sign of life: this number, in the worker's place for it.
    Beat(u64),
    /// Ends the worker.
    Stop,
}

/// What the control thread tells a worker about connections over QUIC.
pub(crate) enum QuicCommand {
    /// Callers are accepted with these settings from now on, those at known addresses on places of their own.
    Accept(quic::Acceptor, KnownAddresses),
    /// Packets are marked from now on (`SO_MARK`).
    Mark(Option<u32>),
    /// The longest silence of an idle lane from now on.
    Keepalive(Duration),
    /// Addresses or routes of this machine have changed.
    NetworkChanged,
    /// The other end of a lane may be gone: the lane ends unless it answers soon.
    Prove { serial: u64 },
    /// Callers come by this socket too.
    Listen(OwnedFd),
    /// A connection is to be made.
    Dial(quic::Dial),
    /// A dial that was welcomed becomes the lane in this place, as [`Command::LaneUp`].
    Install { serial: u64, place: Place },
    /// The answer to a caller; the place of its lane, if it is welcome.
    Answer { number: u64, answer: quic::Answer, place: Option<Place> },
}

/// How a worker ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was told to.
    Stopped,
}

/// A lane's place: number `index` of a group on a path to a peer.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) peer: PublicKey,
    pub(crate) path: u8,
    pub(crate) group: Arc<str>,
    pub(crate) index: u8,
}

/// Both halves of a lane and its place.
pub(crate) struct NewLane {
    pub(crate) place: Place,
    pub(crate) sending: LaneTx,
    pub(crate) receiving: LaneRx,
}

/// What a worker tells the control thread.
#[derive(Debug)]
pub(crate) enum WorkerEvent {
    /// A lane ended, and why; `clean` if the peer closed it of its own will.
    LaneEnded {
        serial: u64,
        reason: String,
        clean: bool,
    },
    /// A lane over TCP delivers nothing of what it has sent; and it does again.
    LaneStalled {
        serial: u64,
    },
    LaneRecovered {
        serial: u64,
    },
    /// Something happened to a connection over QUIC that is no lane.
    Quic {
        shard: u16,
        event: quic::Event,
    },
    /// The device was removed: the worker carries nothing until it is given another.
    DeviceLost,
    /// The worker of this shard ended without having been told to.
    Ended {
        shard: usize,
        reason: String,
    },
}

const TUN: u64 = u64::MAX;
const MAILBOX: u64 = u64::MAX - 1;
/// The sockets of lanes over QUIC, by their places. Serials of connections stay far below.
const PORTS: u64 = 1 << 62;

/// The maximum of lanes whose places others have taken and from which something may still come.
const MAX_RETIRED: usize = 32;

/// What a worker begins with.
pub(crate) struct Worker {
    shard: u16,
    shards: u16,
    epoll: OwnedFd,
    commands: Mailbox<Command>,
    events: Mailbox<WorkerEvent>,
    beat: Arc<AtomicU64>,
    device: TunQueue,
    reset_key: hmac::Key,
}

/// A worker at work, which never leaves its thread.
struct Running {
    shard: u16,
    epoll: OwnedFd,
    commands: Mailbox<Command>,
    events: Mailbox<WorkerEvent>,
    /// Where it answers [`Command::Beat`].
    beat: Arc<AtomicU64>,
    device: TunQueue,
    sender: Sender,
    receivers: Receivers,
    requests: Vec<LaneRequest>,
    quic: Quic,
    changes: Vec<Change>,
    /// Sockets of lanes over QUIC that may have more than was read.
    unread: Vec<usize>,
    /// Lanes over TCP whose places others have taken, the oldest first; of those that have ended too.
    retired: VecDeque<u64>,
}

impl Worker {
    /// A worker of a shard, of so many, with the key of the site's stateless resets.
    pub(crate) fn new(
        (shard, shards, reset_key): (u16, u16, hmac::Key),
        queue: TunQueue,
        commands: Mailbox<Command>,
        events: Mailbox<WorkerEvent>,
        beat: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &queue, epoll::EventData::new_u64(TUN), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &commands, epoll::EventData::new_u64(MAILBOX), epoll::EventFlags::IN)?;
        Ok(Worker { shard, shards, epoll, commands, events, beat, device: queue, reset_key })
    }

    /// Works until told to stop.
    ///
    /// # Errors
    /// The device's or the system's, after which it cannot go on.
    pub(crate) fn run(self) -> io::Result<Ending> {
        let Worker { shard, shards, epoll, commands, events, beat, device, reset_key } = self;
        let running = Running {
            shard,
            epoll,
            commands,
            events,
            beat,
            sender: Sender::new(shard, device.clone()),
            receivers: Receivers::new(device.clone()),
            device,
            requests: Vec::new(),
            quic: Quic::new(shard, shards, reset_key),
            changes: Vec::new(),
            unread: Vec::new(),
            retired: VecDeque::new(),
        };
        running.run()
    }
}

impl Running {
    fn run(mut self) -> io::Result<Ending> {
        let mut ready: Vec<epoll::Event> = Vec::with_capacity(64);
        let mut device_ready = false;
        let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            ready.clear();
            // With packets left in the device, look at the lanes and go on at once.
            let wakes = [self.sender.next_wake(), self.quic.next_wake(), self.receivers.next_wake()];
            let wake = wakes.into_iter().flatten().min();
            let wake = wake.map(|at| timespec(at.saturating_since(now())));
            let more = device_ready || !self.unread.is_empty();
            let timeout = if more { Some(&zero) } else { wake.as_ref() };
            match epoll::wait(&self.epoll, spare_capacity(&mut ready), timeout) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let now = now();
            for event in ready.drain(..) {
                let flags = event.flags;
                match event.data.u64() {
                    TUN => device_ready = true,
                    MAILBOX => {
                        if !self.handle_commands()? {
                            return Ok(Ending::Stopped);
                        }
                    }
                    port if port >= PORTS => self.handle_port_event((port - PORTS) as usize, flags),
                    serial => self.handle_lane_event(now, serial, flags),
                }
            }
            self.advance_quic(now);
            let sender = &mut self.sender;
            self.receivers.release(now, |peer, headers, prefix| {
                sender.handle_returning(now, peer, headers, prefix);
            });
            if device_ready {
                device_ready = match self.sender.read_device(now) {
                    Ok(more) => more,
                    Err(error) if error.raw_os_error() == Some(libc::EBADFD) => {
                        // Its descriptor would be reported for ever.
                        let _ = epoll::delete(&self.epoll, &self.device);
                        self.events.post(WorkerEvent::DeviceLost);
                        false
                    }
                    Err(error) => return Err(error),
                };
            }
            self.sender.serve_lanes(now, &mut self.requests);
            self.quic.settle_sent(now);
            self.handle_requests();
        }
    }

    fn handle_lane_event(&mut self, now: Instant, serial: u64, flags: epoll::EventFlags) {
        if flags.contains(epoll::EventFlags::OUT) {
            self.sender.lane_writable(serial);
            self.arm(serial, epoll::EventFlags::IN);
        }
        if !flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            return;
        }
        let observe = |peer, headers: &Headers, prefix: &[u8]| {
            self.sender.handle_returning(now, peer, headers, prefix);
        };
        match self.receivers.serve(now, serial, observe) {
            Ok(Reports { received, due }) => {
                if let Some(report) = received {
                    self.sender.handle_report(now, serial, report);
                }
                if let Some(report) = due {
                    self.sender.report_arrival(serial, report);
                }
            }
            Err(error) => {
                let clean = matches!(error, RxError::Closed);
                self.end(serial, error.to_string(), clean);
            }
        }
    }

    fn arm(&self, serial: u64, flags: epoll::EventFlags) {
        if let Some(fd) = self.receivers.fd(serial) {
            let _ = epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(serial), flags);
        }
    }

    fn handle_requests(&mut self) {
        while let Some(request) = self.requests.pop() {
            match request {
                // Arming it makes the kernel look, so that room made meanwhile is not missed.
                LaneRequest::Writable { serial } => {
                    self.arm(serial, epoll::EventFlags::IN | epoll::EventFlags::OUT);
                }
                LaneRequest::End { serial, reason } => self.end(serial, reason, false),
                LaneRequest::Report(LaneReport::Stalled, serial) => {
                    self.events.post(WorkerEvent::LaneStalled { serial });
                }
                LaneRequest::Report(LaneReport::Recovered, serial) => {
                    self.events.post(WorkerEvent::LaneRecovered { serial });
                }
            }
        }
    }

    /// Ends a lane and says so.
    fn end(&mut self, serial: u64, reason: String, clean: bool) {
        self.take_lane(serial, false);
        self.events.post(WorkerEvent::LaneEnded { serial, reason, clean });
    }

    fn take_lane(&mut self, serial: u64, goodbye: bool) {
        if let Some(lane) = self.receivers.take_lane(serial) {
            let _ = epoll::delete(&self.epoll, lane.fd());
        }
        self.sender.take_lane(serial, goodbye);
        self.quic.close(now(), serial, goodbye);
    }

    /// Ends the sending half of a lane. The other half passes on what still comes, until the far end closes it too.
    fn retire(&mut self, serial: u64) {
        self.sender.take_lane(serial, true);
        if let Some(fd) = self.receivers.fd(serial) {
            let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
            self.retired.push_back(serial);
        }
        if self.retired.len() > MAX_RETIRED
            && let Some(oldest) = self.retired.pop_front()
        {
            self.take_lane(oldest, false);
        }
    }

    /// Does what the control thread asked. Whether to go on.
    fn handle_commands(&mut self) -> io::Result<bool> {
        for command in self.commands.take() {
            match command {
                Command::LaneUp(lane) => self.lane_up(*lane),
                Command::Quic(command) => self.handle_quic_command(now(), *command)?,
                Command::LaneDown { serial } => self.take_lane(serial, true),
                Command::LaneRetired { serial } => self.retire(serial),
                Command::Plan(plan) => {
                    for serial in self.sender.reconfigure(now(), &plan) {
                        self.end(serial, "no longer configured".to_owned(), true);
                    }
                    self.receivers.reconfigure(&plan);
                }
                Command::Device(queue) => self.set_device(queue)?,
                Command::Report { flows, reply } => {
                    let _ = reply.try_send((self.sender.report(now(), flows), self.receivers.report()));
                }
                Command::Beat(number) => self.beat.store(number, Ordering::Release),
                Command::Stop => {
                    for serial in self.sender.serials() {
                        self.take_lane(serial, true);
                    }
                    self.quic.close_all(now());
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn set_device(&mut self, queue: TunQueue) -> io::Result<()> {
        let _ = epoll::delete(&self.epoll, &self.device);
        epoll::add(&self.epoll, &queue, epoll::EventData::new_u64(TUN), epoll::EventFlags::IN)?;
        self.sender.set_device(queue.clone());
        self.receivers.set_device(queue.clone());
        self.device = queue;
        Ok(())
    }

    /// Puts a lane in its place. Whatever keeps it from there ends this lane and no other.
    fn lane_up(&mut self, lane: NewLane) {
        let NewLane { place, sending, receiving } = lane;
        let serial = sending.serial;
        match self.sender.vacancy(&place) {
            Ok(vacancy) => vacancy.fill(sending.into()),
            Err(error) => {
                self.sender.discard(sending.into());
                let clean = error == NoVacancy::NotConfigured;
                self.events.post(WorkerEvent::LaneEnded { serial, reason: error.to_string(), clean });
                return;
            }
        }
        let flags = epoll::EventFlags::IN;
        if let Err(error) = epoll::add(&self.epoll, receiving.fd(), epoll::EventData::new_u64(serial), flags)
        {
            self.end(serial, format!("cannot be waited for: {}", io::Error::from(error)), false);
        } else if !self.receivers.lane_up(&place.peer, receiving) {
            self.end(serial, NoVacancy::NotConfigured.to_string(), true);
        }
    }
}

// ---------------------------------------------------------------- QUIC

impl Running {
    fn handle_port_event(&mut self, port: usize, flags: epoll::EventFlags) {
        if flags.contains(epoll::EventFlags::OUT) && self.quic.handle_writable(port) {
            self.arm_port(port, epoll::EventFlags::IN);
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::ERR) && !self.unread.contains(&port) {
            self.unread.push(port);
        }
    }

    /// Reads what has come, and looks after the connections that it concerns, or whose time has come.
    fn advance_quic(&mut self, now: Instant) {
        let (quic, changes) = (&mut self.quic, &mut self.changes);
        self.unread.retain(|port| quic.receive(now, *port, changes));
        let (sender, receivers) = (&mut self.sender, &mut self.receivers);
        quic.advance(now, changes, |serial, round_trip, arrived| {
            let observe = |peer, headers: &Headers, prefix: &[u8]| {
                sender.handle_returning(now, peer, headers, prefix);
            };
            receivers.handle_arrived(now, serial, (arrived, round_trip), observe)
        });
        let mut changes = std::mem::take(&mut self.changes);
        for change in changes.drain(..) {
            match change {
                Change::Writable { serial } => self.sender.lane_writable(serial),
                Change::Ended { serial, reason, clean } => self.end(serial, reason, clean),
                Change::Event(event) => {
                    self.events.post(WorkerEvent::Quic { shard: self.shard, event });
                }
            }
        }
        self.changes = changes;
        for port in 0..self.quic.ports() {
            if self.quic.is_full(port) {
                self.arm_port(port, epoll::EventFlags::IN | epoll::EventFlags::OUT);
            }
        }
    }

    fn arm_port(&self, port: usize, flags: epoll::EventFlags) {
        let data = epoll::EventData::new_u64(PORTS + port as u64);
        let _ = self.quic.with_port(port, |fd| epoll::modify(&self.epoll, fd, data, flags));
    }

    fn watch_port(&self, port: usize) -> io::Result<()> {
        let data = epoll::EventData::new_u64(PORTS + port as u64);
        let watched =
            self.quic.with_port(port, |fd| epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN));
        watched.unwrap_or(Ok(())).map_err(io::Error::from)
    }

    fn handle_quic_command(&mut self, now: Instant, command: QuicCommand) -> io::Result<()> {
        match command {
            QuicCommand::Accept(acceptor, known) => self.quic.set_acceptor(acceptor, known),
            QuicCommand::Mark(mark) => self.quic.set_mark(mark),
            QuicCommand::Keepalive(max) => self.quic.set_keepalive(max),
            QuicCommand::NetworkChanged => self.quic.handle_network_changed(now),
            QuicCommand::Prove { serial } => self.quic.prove(now, serial),
            QuicCommand::Listen(socket) => {
                let port = self.quic.add_port(socket);
                self.watch_port(port)?;
            }
            QuicCommand::Dial(dial) => {
                let (serial, remote) = (dial.serial, dial.remote);
                if let Err(reason) = self.dial(now, dial) {
                    let reason = format!("cannot connect to {remote}: {reason}");
                    let event = quic::Event::DialFailed { serial, failure: Failure::Path, reason };
                    self.events.post(WorkerEvent::Quic { shard: self.shard, event });
                }
            }
            QuicCommand::Install { serial, place } => {
                let sending = self.quic.install(serial);
                self.quic_lane_up(serial, sending, &place);
            }
            QuicCommand::Answer { number, answer, place } => {
                let serial =
                    if let quic::Answer::Welcome { serial, .. } = &answer { Some(*serial) } else { None };
                let sending = self.quic.answer(now, number, answer);
                if let (Some(serial), Some(place)) = (serial, place) {
                    self.quic_lane_up(serial, sending, &place);
                }
            }
        }
        Ok(())
    }

    fn dial(&mut self, now: Instant, dial: quic::Dial) -> Result<(), String> {
        let made = self.quic.dial_port(dial.remote, &dial.via);
        let (port, is_new) = made.map_err(|error| error.to_string())?;
        if is_new {
            self.watch_port(port).map_err(|error| error.to_string())?;
        }
        self.quic.dial(now, dial, port)
    }

    /// Puts a lane in its place, unless its connection has ended meanwhile.
    fn quic_lane_up(&mut self, serial: u64, sending: Option<QuicTx>, place: &Place) {
        let Some(sending) = sending else {
            return self.end(serial, "the connection ended before the lane was up".to_owned(), false);
        };
        let delivery = sending.delivery();
        match self.sender.vacancy(place) {
            Ok(vacancy) => vacancy.fill(sending.into()),
            Err(error) => {
                let clean = error == NoVacancy::NotConfigured;
                return self.end(serial, error.to_string(), clean);
            }
        }
        if !self.receivers.quic_lane_up(&place.peer, serial, delivery) {
            self.end(serial, NoVacancy::NotConfigured.to_string(), true);
        }
    }
}

fn timespec(time: Duration) -> rustix::event::Timespec {
    rustix::event::Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() }
}
