//! Round trips of single datagrams, as ping measures them, and their one-way delay.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use trunkline_units::Instant;

use super::service::{Service, Stop};
use super::socket::{self, is_pause};
use crate::clock::{self, Scheduling};
use crate::namespace::Host;

/// Number, time of sending, and the server's time.
const STAMP_BYTES: usize = 24;

/// What [`ping`] is to do.
#[derive(Debug, Clone, Copy)]
pub struct PingSettings {
    /// The server.
    pub target: SocketAddr,
    /// UDP payload of each datagram, at least 24 bytes.
    pub payload_bytes: usize,
    /// From one datagram to the next.
    pub interval: Duration,
    /// Datagrams to send.
    pub count: u32,
    /// How long to wait for answers after the last.
    pub timeout: Duration,
    /// How the calling thread is scheduled.
    pub scheduling: Scheduling,
}

impl PingSettings {
    /// `count` datagrams of 64 bytes to `target`, `interval` apart.
    pub fn new(target: SocketAddr, interval: Duration, count: u32) -> Self {
        Self {
            target,
            payload_bytes: 64,
            interval,
            count,
            timeout: Duration::from_secs(1),
            scheduling: Scheduling::Shared,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct PingReport {
    /// Datagrams sent.
    pub sent: u32,
    /// Round-trip times of those that were answered in time, in order of arrival.
    pub round_trips: Vec<Duration>,
    /// Of the same ones, the time to the server.
    pub forward: Vec<Duration>,
}

impl PingReport {
    /// The share that was not answered.
    pub fn loss(&self) -> f64 {
        let answered = self.round_trips.len() as f64;
        if self.sent == 0 { 0.0 } else { 1.0 - answered / f64::from(self.sent) }
    }
}

/// Sends from the calling thread's namespace. Answers are awaited between the datagrams: a slow one delays none.
pub fn ping(settings: &PingSettings, stop: &Stop) -> io::Result<PingReport> {
    settings.scheduling.apply();
    let socket = socket::udp(socket::any(settings.target))?;
    socket.connect(settings.target)?;
    let mut report = PingReport::default();
    let mut answered = vec![false; settings.count as usize];
    let mut datagram = vec![0; settings.payload_bytes.max(STAMP_BYTES)];
    let begin = clock::now();
    for number in 0..settings.count {
        listen(&socket, begin + settings.interval * number, &mut report, &mut answered, stop)?;
        if stop.is_stopped() {
            break;
        }
        datagram[..8].copy_from_slice(&u64::from(number).to_be_bytes());
        datagram[8..16].copy_from_slice(&clock::now().as_nanos().to_be_bytes());
        // One that the kernel does not take, say because there is no route now, is lost.
        let _ = socket.send(&datagram);
        report.sent += 1;
    }
    listen(&socket, clock::now() + settings.timeout, &mut report, &mut answered, stop)?;
    Ok(report)
}

/// Takes in answers until `until`, or until everything sent has been answered if nothing more is to be sent.
fn listen(
    socket: &UdpSocket,
    until: Instant,
    report: &mut PingReport,
    answered: &mut [bool],
    stop: &Stop,
) -> io::Result<()> {
    let mut buffer = [0; 2048];
    while !stop.is_stopped() && report.round_trips.len() < answered.len() {
        let left = until - clock::now();
        let mut wait = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN)];
        let limit = clock::timespec(left.min(super::service::POLL_INTERVAL));
        let ready = rustix::event::poll(&mut wait, Some(&limit)).unwrap_or(0);
        if ready == 0 {
            if left.is_zero() {
                return Ok(());
            }
            continue;
        }
        match socket.recv(&mut buffer) {
            Ok(bytes) => take(&buffer[..bytes], clock::now(), report, answered),
            // A refusal answers one datagram (ICMP); the next may get through.
            Err(error) if is_pause(&error) || error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) if error.kind() == io::ErrorKind::HostUnreachable => {}
            Err(error) => return Err(error),
        }
    }
    if !stop.is_stopped() && report.sent < answered.len() as u32 {
        clock::sleep_until(until);
    }
    Ok(())
}

fn take(datagram: &[u8], now: Instant, report: &mut PingReport, answered: &mut [bool]) {
    let word = |at: usize| Some(u64::from_be_bytes(datagram.get(at..at + 8)?.try_into().ok()?));
    let (Some(number), Some(sent), Some(seen)) = (word(0), word(8), word(16)) else { return };
    if let Some(first @ false) = answered.get_mut(number as usize) {
        *first = true;
        let sent = Instant::from_nanos(sent);
        report.round_trips.push(now - sent);
        report.forward.push(Instant::from_nanos(seen) - sent);
    }
}

/// A server that returns datagrams with its time in them.
#[derive(Debug)]
pub struct EchoServer {
    address: SocketAddr,
    service: Service<u64>,
}

impl EchoServer {
    /// Answers at `address` (with port 0, at any port) in `host`.
    pub fn start(host: &Host, address: SocketAddr, scheduling: Scheduling) -> io::Result<Self> {
        let socket = host.run(|| socket::udp(address))?;
        let address = socket.local_addr()?;
        let service = Service::start(host, "echo", move |stop| {
            scheduling.apply();
            answer(&socket, stop)
        });
        Ok(Self { address, service })
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it and says how many datagrams it answered.
    pub fn finish(self) -> u64 {
        self.service.finish()
    }
}

fn answer(socket: &UdpSocket, stop: &Stop) -> u64 {
    let mut buffer = vec![0; 65_536];
    let mut answered = 0;
    while !stop.is_stopped() {
        let Ok((bytes, peer)) = socket.recv_from(&mut buffer) else { continue };
        if bytes >= STAMP_BYTES {
            buffer[16..STAMP_BYTES].copy_from_slice(&clock::now().as_nanos().to_be_bytes());
        }
        answered += u64::from(socket.send_to(&buffer[..bytes], peer).is_ok());
    }
    answered
}
