//! The thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver as Commands, SyncSender, TryRecvError};
use std::time::Duration;

use rustix::event::epoll::{self, Event, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use trunkline_units::Instant;

use super::flows::Flows;
use super::poll::{Poll, Token};
use super::reading::{Lateness, Reading, SourceReading, UserReading};
use super::socket::Places;
use super::transfers::Transfers;
use crate::clock;

/// Events that one call takes.
const EVENTS: usize = 256;

/// What the owner asks for.
pub(super) enum Command {
    /// Time zero of all sources.
    Start(Instant),
    Reading(SyncSender<Reading>),
    Users(usize, SyncSender<Vec<UserReading>>),
    /// A message as soon as all of these are over.
    Await(Vec<usize>, SyncSender<()>),
    ResetPeaks,
    End,
}

/// Where a source is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Transfers(usize),
    Flow(usize),
}

pub(super) struct Engine {
    pub(super) poll: Poll,
    pub(super) timer: OwnedFd,
    pub(super) commands: Commands<Command>,
    pub(super) places: Places,
    pub(super) transfers: Transfers,
    pub(super) flows: Flows,
    /// In the order of the list.
    pub(super) parts: Vec<Part>,
    pub(super) awaited: Vec<(Vec<usize>, SyncSender<()>)>,
    pub(super) zero: Option<Instant>,
    /// What the timer is set to.
    pub(super) alarm: Option<Instant>,
    pub(super) lateness: Lateness,
}

pub(super) fn timer() -> io::Result<OwnedFd> {
    Ok(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?)
}

impl Engine {
    pub(super) fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            if !self.obey() {
                return;
            }
            let wait = match self.zero.filter(|zero| clock::now() >= *zero) {
                Some(zero) => {
                    self.run_sources(zero);
                    self.set_alarm(self.next_time().map(|at| zero + (at - Instant::ZERO)))
                }
                None => self.set_alarm(self.zero),
            };
            self.report_over();
            let timeout = (!wait).then(|| clock::timespec(Duration::ZERO));
            events.clear();
            // An interrupted wait is one without events.
            let spare = rustix::buffer::spare_capacity(&mut events);
            let _ = epoll::wait(self.poll.descriptor(), spare, timeout.as_ref());
            for Event { flags, data } in events.iter().copied() {
                self.handle(Token::decode(data.u64()), flags);
            }
        }
    }

    /// The time since zero.
    fn now(&self) -> Instant {
        self.zero.map_or(Instant::ZERO, |zero| Instant::ZERO + clock::now().saturating_since(zero))
    }

    fn next_time(&self) -> Option<Instant> {
        self.transfers.next_time().into_iter().chain(self.flows.next_time()).min()
    }

    fn run_sources(&mut self, zero: Instant) {
        let now = self.now();
        self.transfers.run(now, &mut self.places, &mut self.lateness);
        self.flows.run(now, zero, &mut self.lateness);
    }

    /// Sets the timer; whether to wait for it, or for an event.
    fn set_alarm(&mut self, alarm: Option<Instant>) -> bool {
        if self.transfers.is_busy() || alarm.is_some_and(|alarm| clock::now() >= alarm) {
            return false;
        }
        if self.alarm != alarm {
            self.alarm = alarm;
            let at = alarm.map_or(0, Instant::as_nanos);
            let none = clock::timespec(Duration::ZERO);
            let value = Itimerspec { it_interval: none, it_value: clock::timespec(Duration::from_nanos(at)) };
            // It fails for no time that a clock has shown or that follows one.
            let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value);
        }
        true
    }

    fn handle(&mut self, token: Token, flags: EventFlags) {
        let now = self.now();
        match token {
            // The loop looks for commands and for what is due.
            Token::Wake => {}
            Token::Listener(listener) => self.transfers.accept(listener as usize, now),
            Token::Receiver(receiver) => {
                self.flows.receive(receiver as usize, self.zero.unwrap_or(Instant::ZERO));
            }
            Token::Client(id) => self.transfers.handle_client(id, flags, now),
            Token::Server(id) => self.transfers.serve(id, now),
        }
    }

    /// Does what the owner asked for; whether to go on.
    fn obey(&mut self) -> bool {
        loop {
            // An owner that does not wait for an answer any more does not miss it.
            match self.commands.try_recv() {
                Ok(Command::Start(zero)) => self.zero = Some(zero),
                Ok(Command::Reading(answer)) => drop(answer.send(self.reading())),
                Ok(Command::Users(source, answer)) => {
                    let users = match self.parts.get(source) {
                        Some(Part::Transfers(number)) => self.transfers.users(*number),
                        Some(Part::Flow(number)) => vec![self.flows.user(*number)],
                        None => Vec::new(),
                    };
                    let _ = answer.send(users);
                }
                Ok(Command::Await(sources, answer)) => self.awaited.push((sources, answer)),
                Ok(Command::ResetPeaks) => self.flows.reset_peaks(self.now()),
                Ok(Command::End) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn report_over(&mut self) {
        let (transfers, parts) = (&self.transfers, &self.parts);
        let over = |source: &usize| match parts.get(*source) {
            Some(Part::Transfers(number)) => transfers.is_over(*number),
            Some(Part::Flow(_)) => false,
            None => true,
        };
        self.awaited.retain(|(sources, answer)| {
            let all = sources.iter().all(over);
            if all {
                let _ = answer.send(());
            }
            !all
        });
    }

    fn reading(&self) -> Reading {
        let source = |part: &Part| match part {
            Part::Transfers(number) => SourceReading::Transfers(self.transfers.transfers(*number)),
            Part::Flow(number) => SourceReading::Datagrams(Box::new(self.flows.reading(*number))),
        };
        Reading { at: self.now(), sources: self.parts.iter().map(source).collect(), lateness: self.lateness }
    }
}
