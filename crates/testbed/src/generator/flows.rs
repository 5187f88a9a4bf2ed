//! Flows of datagrams: what a [`Schedule`] decides, done with sockets.
//!
//! Each datagram leaves alone, by a system call of its own, and begins with its number and the time at which it was sent. All
//! namespaces share one clock, so the receiver's difference is a one-way delay.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::time::{ClockId, clock_gettime};
use trunkline_units::Instant;
use trunkline_workload::{Arrival, Schedule, Timing};

use super::reading::{DatagramReading, Lateness, UserReading};
use super::seen::Seen;
use super::settings::DATAGRAM_HEAD;
use crate::clock;
use crate::sys::Arrivals;

/// Datagrams that one source sends, and batches that one socket takes, before others have their turn.
const TURN: usize = 64;

/// A source of datagrams.
#[derive(Debug)]
pub(super) struct Flow {
    schedule: Schedule,
    socket: OwnedFd,
    /// Bytes of headers of a datagram.
    headers: u32,
    next: u32,
    seen: Seen,
    reading: DatagramReading,
}

impl Flow {
    pub(super) fn new(schedule: Schedule, socket: OwnedFd, headers: u32) -> Self {
        let (seen, reading) = (Seen::default(), DatagramReading::default());
        Flow { schedule, socket, headers, next: 0, seen, reading }
    }

    fn send(&mut self, data: u32, buffer: &mut [u8], zero: Instant) {
        let datagram = &mut buffer[..data as usize];
        datagram[..4].copy_from_slice(&self.next.to_be_bytes());
        let now = clock::now().saturating_since(zero).as_nanos() as u64;
        datagram[4..DATAGRAM_HEAD as usize].copy_from_slice(&now.to_be_bytes());
        self.next = self.next.wrapping_add(1);
        self.reading.counts.handle_sent(u64::from(data + self.headers));
        let send = |datagram: &[u8]| rustix::net::send(&self.socket, datagram, SendFlags::NOSIGNAL);
        // What an earlier datagram met is reported once (ICMP): it says nothing of this one.
        let sent = match send(datagram) {
            Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::INTR) => send(datagram),
            sent => sent,
        };
        self.reading.refused += u64::from(sent.is_err());
    }

    fn take(&mut self, number: u32, arrival: &Arrival) {
        match self.seen.take(number) {
            super::seen::Novelty::Copy => self.reading.counts.duplicated += 1,
            novelty => {
                self.reading.counts.handle_arrival(arrival);
                self.reading.late += u64::from(novelty == super::seen::Novelty::Late);
            }
        }
    }
}

/// A socket that receives flows, by their senders' addresses.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) socket: OwnedFd,
    pub(super) flows: HashMap<SocketAddr, usize>,
}

/// All flows and their receivers.
pub(super) struct Flows {
    all: Vec<Flow>,
    receivers: Vec<Receiver>,
    arrivals: Arrivals,
    buffer: Vec<u8>,
}

impl Flows {
    pub(super) fn new(flows: Vec<Flow>, receivers: Vec<Receiver>) -> Self {
        let buffer = vec![0; Timing::MAX_DATA as usize];
        Flows { all: flows, receivers, arrivals: Arrivals::new(), buffer }
    }

    /// When the next datagram is due.
    pub(super) fn next_time(&self) -> Option<Instant> {
        self.all.iter().filter_map(|flow| flow.schedule.poll_time()).min()
    }

    /// Sends what is due. Time begins at `zero`.
    pub(super) fn run(&mut self, now: Instant, zero: Instant, lateness: &mut Lateness) {
        for flow in &mut self.all {
            for _ in 0..TURN {
                let Some(datagram) = flow.schedule.poll_datagram(now) else { break };
                lateness.add(now.saturating_since(datagram.at));
                flow.send(datagram.data, &mut self.buffer, zero);
            }
        }
    }

    /// Datagrams wait at a receiver.
    pub(super) fn receive(&mut self, receiver: usize, zero: Instant) {
        let Receiver { socket, flows } = &self.receivers[receiver];
        for _ in 0..TURN {
            let Ok(got) = self.arrivals.receive(socket.as_fd()) else { return };
            let (now, realtime) = (clock::now(), realtime());
            for (received, head) in self.arrivals.received() {
                let from = super::socket::plain(received.from);
                let Some(flow) = flows.get(&from) else { continue };
                let Some((number, time)) = parse(head) else { continue };
                // How long ago the kernel got it, by the clock that it notes.
                let ago = received.at.map_or(Duration::ZERO, |at| realtime.saturating_sub(at));
                let at = Instant::ZERO + now.saturating_since(zero).saturating_sub(ago);
                let flow = &mut self.all[*flow];
                let headers = flow.headers;
                flow.take(
                    number,
                    &Arrival {
                        sent: Instant::from_nanos(time),
                        at,
                        bytes: received.bytes as u64 + u64::from(headers),
                        headers,
                        marked: received.traffic_class & 3 == 3,
                    },
                );
            }
            if got == 0 {
                return;
            }
        }
    }

    /// Counts the extremes of all from now on.
    pub(super) fn reset_peaks(&mut self, now: Instant) {
        self.all.iter_mut().for_each(|flow| flow.reading.counts.reset_peaks(now));
    }

    /// What has been received, as of the one user of a source of transfers.
    pub(super) fn user(&self, flow: usize) -> UserReading {
        let received = self.all[flow].reading.counts.received_data();
        UserReading { received, ..UserReading::default() }
    }

    pub(super) fn reading(&self, flow: usize) -> DatagramReading {
        let flow = &self.all[flow];
        DatagramReading { missing: flow.seen.missing(), ..flow.reading.clone() }
    }
}

fn realtime() -> Duration {
    let now = clock_gettime(ClockId::Realtime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The number of a datagram and when it was sent.
fn parse(head: &[u8]) -> Option<(u32, u64)> {
    let number = head.get(..4)?.try_into().ok().map(u32::from_be_bytes)?;
    let time = head.get(4..12)?.try_into().ok().map(u64::from_be_bytes)?;
    Some((number, time))
}
