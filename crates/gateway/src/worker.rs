//! A worker: one thread for each queue of the device, both ways.
//!
//! Both directions in one thread, because what one brings in the other often takes out at once: an
//! acknowledgement or an answer is in the device before the write that caused it returns, and is read without
//! another thread having to wake (docs/decisions/0002).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use trunkline_packet::Headers;
use trunkline_units::Instant;

use crate::clock::now;
use crate::keys::PublicKey;
use crate::lane_rx::{LaneRx, Reports, RxError};
use crate::lane_tx::LaneTx;
use crate::mailbox::Mailbox;
use crate::plan::Plan;
use crate::rx::{Receivers, RxReport};
use crate::tun::TunQueue;
use crate::tx::{LaneRequest, NoVacancy, Sender, TxReport};

/// What the control thread tells a worker.
pub(crate) enum Command {
    /// A lane is there. One that had its place must have been ended by a [`Command::LaneDown`] before.
    LaneUp(Box<NewLane>),
    /// The lane is to end.
    LaneDown { serial: u64 },
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

/// How a worker ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was told to.
    Stopped,
}

/// Both halves of a lane and its place: number `place` of a group to a peer.
pub(crate) struct NewLane {
    pub(crate) peer: PublicKey,
    pub(crate) group: Arc<str>,
    pub(crate) place: u8,
    pub(crate) sending: LaneTx,
    pub(crate) receiving: LaneRx,
}

/// What a worker tells the control thread.
#[derive(Debug)]
pub(crate) enum WorkerEvent {
    /// A lane ended, and why; `clean` if the peer closed it of its own will.
    LaneEnded { serial: u64, reason: String, clean: bool },
    /// The device was removed: the worker carries nothing until it is given another.
    DeviceLost,
    /// The worker of this shard ended without having been told to.
    Ended { shard: usize, reason: String },
}

const TUN: u64 = u64::MAX;
const MAILBOX: u64 = u64::MAX - 1;

pub(crate) struct Worker {
    epoll: OwnedFd,
    commands: Mailbox<Command>,
    events: Mailbox<WorkerEvent>,
    /// Where it answers [`Command::Beat`].
    beat: Arc<AtomicU64>,
    device: TunQueue,
    sender: Sender,
    receivers: Receivers,
    requests: Vec<LaneRequest>,
}

impl Worker {
    pub(crate) fn new(
        shard: u16,
        queue: TunQueue,
        commands: Mailbox<Command>,
        events: Mailbox<WorkerEvent>,
        beat: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &queue, epoll::EventData::new_u64(TUN), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &commands, epoll::EventData::new_u64(MAILBOX), epoll::EventFlags::IN)?;
        Ok(Worker {
            epoll,
            commands,
            events,
            beat,
            sender: Sender::new(shard, queue.clone()),
            receivers: Receivers::new(queue.clone()),
            device: queue,
            requests: Vec::new(),
        })
    }

    /// Works until told to stop.
    ///
    /// # Errors
    /// The device's or the system's, after which it cannot go on.
    pub(crate) fn run(mut self) -> io::Result<Ending> {
        let mut ready: Vec<epoll::Event> = Vec::with_capacity(64);
        let mut device_ready = false;
        let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            ready.clear();
            // With packets left in the device, look at the lanes and go on at once.
            let wake = self.sender.next_wake().map(|at| timespec(at.saturating_since(now())));
            let timeout = if device_ready { Some(&zero) } else { wake.as_ref() };
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
                    serial => self.handle_lane_event(now, serial, flags),
                }
            }
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
    }

    /// Does what the control thread asked. Whether to go on.
    fn handle_commands(&mut self) -> io::Result<bool> {
        for command in self.commands.take() {
            match command {
                Command::LaneUp(lane) => self.lane_up(*lane),
                Command::LaneDown { serial } => self.take_lane(serial, true),
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
        let NewLane { peer, group, place, sending, receiving } = lane;
        let serial = sending.serial;
        match self.sender.vacancy(&peer, &group, place) {
            Ok(vacancy) => vacancy.fill(sending),
            Err(error) => {
                self.sender.discard(sending);
                let clean = error == NoVacancy::NotConfigured;
                self.events.post(WorkerEvent::LaneEnded { serial, reason: error.to_string(), clean });
                return;
            }
        }
        let flags = epoll::EventFlags::IN;
        if let Err(error) = epoll::add(&self.epoll, receiving.fd(), epoll::EventData::new_u64(serial), flags)
        {
            self.end(serial, format!("cannot be waited for: {}", io::Error::from(error)), false);
        } else if !self.receivers.lane_up(&peer, receiving) {
            self.end(serial, NoVacancy::NotConfigured.to_string(), true);
        }
    }
}

fn timespec(time: Duration) -> rustix::event::Timespec {
    rustix::event::Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() }
}
