//! The traffic of an experiment, on real hosts: what crate `workload` decides, done with sockets.
//!
//! One thread has the sockets of all hosts, clients' and servers'. A socket belongs to the namespace that its thread was in when
//! it made it, so the thread enters a namespace (setns(2)) to open a connection there, and serves it from anywhere. This is why:
//!
//! - Who has both ends of a connection knows without a message that the server has all that the client sent. A reading has both
//!   ends' counts of one instant, and no counter needs a lock.
//! - Two threads for each host would wake each other for each segment. An experiment has tens of hosts, a machine few cores,
//!   and the links need those.
//! - It costs little: the kernel drops received bytes without a copy (`MSG_TRUNC`), and connections are added to epoll once.
//!
//! A client's connection is known to the server by its address and port, so nothing but the data of transfers is sent.
//!
//! Times are those of the monotonic clock, from the instant given to [`Generator::start`] as zero.

mod build;
mod connection;
mod engine;
mod flows;
mod poll;
mod reading;
mod seen;
mod settings;
mod slots;
mod socket;
mod tcp_info;
mod transfers;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, sync_channel};
use std::thread::JoinHandle;

use trunkline_units::Instant;

use crate::clock::{self, Scheduling};
use engine::Command;

pub use reading::{DatagramReading, Lateness, Reading, SourceReading, Transfer, UserReading};
pub use settings::{GeneratorError, Load, SocketOptions, Source};
pub use tcp_info::{RttSamples, SenderState, TcpCounts};

/// Sources of traffic that run. Dropping it ends the thread and closes all sockets.
#[derive(Debug)]
pub struct Generator {
    commands: Sender<Command>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Generator {
    /// Opens the servers' sockets. Nothing is sent before [`Generator::start`].
    ///
    /// Changes settings of the hosts: clients get the ports from 10240 on and use one again a second after it was closed
    /// (`tcp_tw_reuse`); servers let as many connections wait as the kernel allows and answer with the code point that they are
    /// asked with (`tcp_reflect_tos`).
    pub fn new(sources: &[Source<'_>], scheduling: Scheduling) -> Result<Self, GeneratorError> {
        build::build(sources, scheduling)
    }

    /// Begins; a source's start counts from `zero`.
    pub fn start(&self, zero: Instant) {
        self.send(Command::Start(zero));
    }

    /// What all sources have done, now.
    ///
    /// # Panics
    /// If the thread panicked.
    pub fn reading(&self) -> Reading {
        let (answer, reading) = sync_channel(1);
        self.send(Command::Reading(answer));
        reading.recv().expect("the generator's thread runs until it is told to end")
    }

    /// The users of a source, now. A source of datagrams has one, of whom only what was received is known.
    ///
    /// # Panics
    /// If the thread panicked.
    pub fn users(&self, source: usize) -> Vec<UserReading> {
        let (answer, users) = sync_channel(1);
        self.send(Command::Users(source, answer));
        users.recv().expect("the generator's thread runs until it is told to end")
    }

    /// Starts anew the minimum and maximum delay of datagrams, and the count of those sent before the reset.
    pub fn reset_peaks(&self) {
        self.send(Command::ResetPeaks);
    }

    /// Waits until none of these sources has a transfer that goes on or is to begin, but not longer than until `end` by the
    /// monotonic clock. Whether that is so. Sources of datagrams are never over.
    pub fn wait_until_over(&self, sources: &[usize], end: Instant) -> bool {
        let (answer, over) = sync_channel(1);
        self.send(Command::Await(sources.to_vec(), answer));
        over.recv_timeout(end.saturating_since(clock::now())).is_ok()
    }

    /// Ends it: the last reading.
    ///
    /// # Panics
    /// If the thread panicked.
    pub fn finish(self) -> Reading {
        self.reading()
    }

    fn send(&self, command: Command) {
        // Both fail only if the thread panicked, which whoever waits for an answer sees.
        let _ = self.commands.send(command);
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        self.send(Command::End);
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, was printed by the panic hook; drop must not panic again.
            let _ = thread.join();
        }
    }
}
