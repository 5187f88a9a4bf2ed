//! UDP floods: numbered datagrams with timestamps, at a rate or as fast as possible, and a sink that counts them.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use trunkline_units::{Instant, Rate};

use super::service::{Service, Stop};
use super::socket::{self, is_pause};
use crate::clock::{self, Scheduling};
use crate::namespace::Host;
use crate::statistics::Series;
use crate::sys::Batch;

/// Number and time stamp.
const STAMP_BYTES: usize = 16;
/// Datagrams taken from the kernel at once.
const RECEIVE_BATCH: usize = 32;
/// Numbers beyond this are not of a flood of ours.
const NUMBER_LIMIT: u64 = 1 << 28;
/// Delays kept; of a longer flood, the first ones.
const DELAY_LIMIT: usize = 1 << 22;

/// How fast a flood is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As fast as the kernel takes datagrams.
    Unpaced,
    /// At this rate of IP packets, headers included.
    Rate(Rate),
}

/// What [`flood`] is to send.
#[derive(Debug, Clone, Copy)]
pub struct FloodSettings {
    /// The sink.
    pub target: SocketAddr,
    /// UDP payload of each datagram, at least 16 bytes.
    pub payload_bytes: usize,
    /// How fast.
    pub pace: Pace,
    /// Datagrams handed to the kernel at once. With 1 each leaves at its own time; more cost less.
    pub batch: usize,
    /// How long.
    pub time: Duration,
    /// How the calling thread is scheduled.
    pub scheduling: Scheduling,
}

/// What [`flood`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloodReport {
    /// When the first datagram was sent.
    pub begin: Instant,
    /// When the last one was.
    pub end: Instant,
    /// Datagrams the kernel took.
    pub sent: u64,
    /// Times the kernel refused, most likely because a queue of its own was full.
    pub refused: u64,
}

/// Sends from the calling thread's namespace until the time is over.
pub fn flood(settings: &FloodSettings, stop: &Stop) -> io::Result<FloodReport> {
    settings.scheduling.apply();
    let socket = UdpSocket::bind(socket::any(settings.target))?;
    socket.connect(settings.target)?;
    socket.set_write_timeout(Some(super::service::POLL_INTERVAL))?;
    let payload = settings.payload_bytes.max(STAMP_BYTES);
    let headers = if settings.target.is_ipv4() { 28 } else { 48 };
    let mut batch = Batch::new(settings.batch, payload);
    let count = batch.count();
    let begin = clock::now();
    let end = begin + settings.time;
    let mut report = FloodReport { begin, end: begin, sent: 0, refused: 0 };
    let (mut due, mut carry) = (begin, 0);
    while due < end && clock::now() < end && stop.sleep_until(due) {
        let now = clock::now();
        for index in 0..count {
            let datagram = batch.datagram_mut(index);
            datagram[..8].copy_from_slice(&(report.sent + index as u64).to_be_bytes());
            datagram[8..STAMP_BYTES].copy_from_slice(&now.as_nanos().to_be_bytes());
        }
        // What was not sent has no number: it goes with the next batch.
        match batch.send(&socket, count) {
            Ok(sent) => report.sent += sent as u64,
            Err(_) => report.refused += 1,
        }
        report.end = now;
        if let Pace::Rate(rate) = settings.pace {
            due += rate.time_for((count * (payload + headers)) as u64, &mut carry);
        }
    }
    Ok(report)
}

/// What a sink received.
#[derive(Debug, Clone)]
pub struct UdpSinkReport {
    /// Different datagrams.
    pub received: u64,
    /// Datagrams that had come before.
    pub duplicates: u64,
    /// Datagrams that came after one with a higher number.
    pub reordered: u64,
    /// UDP payload bytes of the different datagrams, over time.
    pub series: Series,
    /// The way from sender to sink, of each datagram in order of arrival.
    pub delays: Vec<Duration>,
}

impl UdpSinkReport {
    /// The share that did not arrive of `sent` datagrams.
    pub fn loss(&self, sent: u64) -> f64 {
        if sent == 0 { 0.0 } else { sent.saturating_sub(self.received) as f64 / sent as f64 }
    }

    /// Datagrams per second in `from..to`, if each carried `payload_bytes`.
    pub fn datagrams_per_second(&self, from: Instant, to: Instant, payload_bytes: usize) -> f64 {
        let (bytes, time) = self.series.sum(from, to);
        if time.is_zero() { 0.0 } else { bytes as f64 / payload_bytes.max(1) as f64 / time.as_secs_f64() }
    }
}

/// A server that counts datagrams.
#[derive(Debug)]
pub struct UdpSink {
    address: SocketAddr,
    service: Service<UdpSinkReport>,
}

impl UdpSink {
    /// Receives at `address` (with port 0, at any port) in `host`, and counts in steps of `bin`.
    pub fn start(host: &Host, address: SocketAddr, bin: Duration) -> io::Result<Self> {
        let socket = host.run(|| socket::udp(address))?;
        let address = socket.local_addr()?;
        let begin = clock::now();
        let service = Service::start(host, "udp sink", move |stop| receive(&socket, begin, bin, stop));
        Ok(Self { address, service })
    }

    /// Where it receives.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it and says what it received.
    pub fn finish(self) -> UdpSinkReport {
        self.service.finish()
    }
}

fn receive(socket: &UdpSocket, begin: Instant, bin: Duration, stop: &Stop) -> UdpSinkReport {
    let mut report = UdpSinkReport {
        received: 0,
        duplicates: 0,
        reordered: 0,
        series: Series::new(begin, bin),
        delays: Vec::new(),
    };
    let mut batch = Batch::new(RECEIVE_BATCH, 65_536);
    let mut seen = Seen::default();
    while !stop.is_stopped() {
        match batch.receive(socket) {
            Ok(_) => {
                let now = clock::now();
                for datagram in batch.received() {
                    count(&mut report, &mut seen, now, datagram);
                }
            }
            Err(error) if is_pause(&error) => {}
            Err(_) => break,
        }
    }
    report
}

/// Counts a datagram.
fn count(report: &mut UdpSinkReport, seen: &mut Seen, now: Instant, datagram: &[u8]) {
    let Some((number, sent)) = stamp(datagram) else { return };
    match seen.note(number) {
        Order::Foreign => return,
        Order::Again => {
            report.duplicates += 1;
            return;
        }
        Order::Late => report.reordered += 1,
        Order::Next => {}
    }
    report.received += 1;
    report.series.add(now, datagram.len() as u64);
    if report.delays.len() < DELAY_LIMIT {
        report.delays.push(now - sent);
    }
}

fn stamp(datagram: &[u8]) -> Option<(u64, Instant)> {
    let word = |at: usize| Some(u64::from_be_bytes(datagram.get(at..at + 8)?.try_into().ok()?));
    Some((word(0)?, Instant::from_nanos(word(8)?)))
}

#[derive(Debug, PartialEq, Eq)]
enum Order {
    Next,
    Late,
    Again,
    Foreign,
}

/// Which numbers have come, a bit each.
#[derive(Debug, Default)]
struct Seen {
    bits: Vec<u64>,
    end: u64,
}

impl Seen {
    fn note(&mut self, number: u64) -> Order {
        if number >= NUMBER_LIMIT {
            return Order::Foreign;
        }
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        if self.bits[word] & bit != 0 {
            return Order::Again;
        }
        self.bits[word] |= bit;
        let late = number < self.end;
        self.end = self.end.max(number + 1);
        if late { Order::Late } else { Order::Next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_and_late_comers_are_told_apart() {
        let mut seen = Seen::default();
        let orders: Vec<Order> = [0, 1, 70, 2, 70, u64::MAX].into_iter().map(|n| seen.note(n)).collect();
        assert_eq!(
            orders,
            [Order::Next, Order::Next, Order::Next, Order::Late, Order::Again, Order::Foreign]
        );
    }
}
