//! Bulk TCP: flows that send as fast as they may, and a sink that counts what arrives.
//!
//! A connection begins with 16 bytes: the flow's number, then the bytes that follow (0: until it ends). When the sink
//! has read them all, it answers with one byte, so that a sender knows when a transfer was complete *there*.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, sockopt};
use trunkline_units::{Instant, Rate};

use super::service::{POLL_INTERVAL, Service, Stop};
use super::socket::{self, Connect, is_pause};
use super::watch::{TcpSample, acknowledged, retransmissions, watch};
use crate::clock::{self, Scheduling};
use crate::namespace::Host;
use crate::statistics::Series;

const HEADER_BYTES: usize = 16;
const READ_BYTES: usize = 128 << 10;
/// More than an initial window, and less than a kernel would push the middle of.
const FIRST_WRITE_BYTES: usize = 30_000;
const A_MOMENT: Duration = Duration::from_millis(1);
/// A connection that says nothing for so long has not said which flow it is.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long, or how much, each flow sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// One connection per flow, for so long.
    For(Duration),
    /// Transfers one after the other, each over a connection of its own.
    Transfers {
        /// Bytes of each.
        bytes: u64,
        /// Transfers per flow.
        repeat: u32,
        /// No flow lasts longer.
        limit: Duration,
    },
}

/// What [`bulk`] is to send.
#[derive(Debug, Clone)]
pub struct BulkSettings {
    /// The sink.
    pub target: SocketAddr,
    /// The address to send from, if not the route's.
    pub source: Option<IpAddr>,
    /// The congestion control of every connection, by name.
    pub congestion_control: String,
    /// Flows at a time.
    pub flows: u32,
    /// The number of the first flow; the others follow. The sink adds up what has the same number.
    pub first_flow: u32,
    /// How much each sends.
    pub load: Load,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// Bytes handed to the kernel at once.
    pub write_bytes: usize,
    /// From the start of one flow to that of the next.
    pub stagger: Duration,
    /// How often each connection's state is written down, if at all.
    pub watch: Option<Duration>,
    /// How the sending threads are scheduled. One that waits for a CPU in the midst of a write holds up its connection.
    pub scheduling: Scheduling,
}

impl BulkSettings {
    /// `flows` flows to `target` for `time`.
    pub fn new(target: SocketAddr, congestion_control: &str, flows: u32, time: Duration) -> Self {
        Self {
            target,
            source: None,
            congestion_control: congestion_control.to_owned(),
            flows,
            first_flow: 0,
            load: Load::For(time),
            connect_timeout: Duration::from_secs(5),
            write_bytes: 128 << 10,
            stagger: Duration::ZERO,
            watch: None,
            scheduling: Scheduling::Shared,
        }
    }
}

/// A complete transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// When its connection was asked for.
    pub begin: Instant,
    /// Until the sink had said that it has everything.
    pub duration: Duration,
}

/// A flow as its sender saw it.
#[derive(Debug, Clone, Default)]
pub struct BulkFlow {
    /// Its number.
    pub flow: u32,
    /// Bytes handed to the kernel.
    pub sent_bytes: u64,
    /// Segments sent more than once.
    pub retransmissions: u64,
    /// Its complete transfers, in order.
    pub transfers: Vec<Transfer>,
    /// What its connection that went by time was like, every `watch` and at its end.
    pub samples: Vec<TcpSample>,
    /// Transfers, or connections, that failed, and why.
    pub failures: Vec<String>,
}

/// What [`bulk`] did.
#[derive(Debug, Clone)]
pub struct BulkReport {
    /// When the flows were started.
    pub begin: Instant,
    /// When the last one ended.
    pub end: Instant,
    /// The flows by number.
    pub flows: Vec<BulkFlow>,
}

impl BulkReport {
    /// The durations of all complete transfers.
    pub fn durations(&self) -> Vec<Duration> {
        self.flows.iter().flat_map(|flow| &flow.transfers).map(|transfer| transfer.duration).collect()
    }

    /// Everything that failed.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        self.flows.iter().flat_map(|flow| &flow.failures).map(String::as_str)
    }
}

/// Sends from the calling thread's namespace until the load is done. Flows that end by time end with a reset, so
/// that what is still queued is not part of the measurement.
pub fn bulk(settings: &BulkSettings, stop: &Stop) -> BulkReport {
    let begin = clock::now();
    let flows = thread::scope(|scope| {
        let threads: Vec<_> = (0..settings.flows)
            .map(|index| scope.spawn(move || send_flow(settings, settings.first_flow + index, begin, stop)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    BulkReport { begin, end: clock::now(), flows }
}

fn send_flow(settings: &BulkSettings, number: u32, begin: Instant, stop: &Stop) -> BulkFlow {
    settings.scheduling.apply();
    let mut flow = BulkFlow { flow: number, ..BulkFlow::default() };
    let data = vec![0x5a; settings.write_bytes.max(1)];
    match settings.load {
        Load::For(time) => {
            let start = begin + settings.stagger * (number - settings.first_flow);
            stop.sleep_until(start);
            if let Err(error) = send_for(settings, &mut flow, &data, begin + time, stop) {
                flow.failures.push(error.to_string());
            }
        }
        Load::Transfers { bytes, repeat, limit } => {
            let end = begin + limit;
            for _ in 0..repeat {
                if stop.is_stopped() || clock::now() >= end {
                    break;
                }
                let begin = clock::now();
                match transfer(settings, &mut flow, &data, bytes, end, stop) {
                    Ok(()) => flow.transfers.push(Transfer { begin, duration: clock::now() - begin }),
                    Err(error) => flow.failures.push(error.to_string()),
                }
            }
        }
    }
    flow
}

fn connect(settings: &BulkSettings, flow: u32, bytes: u64, end: Instant) -> io::Result<TcpStream> {
    let connect = Connect {
        target: settings.target,
        source: settings.source,
        congestion_control: &settings.congestion_control,
        timeout: settings.connect_timeout.min(end - clock::now()),
    };
    let mut stream = connect.connect()?;
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&flow.to_be_bytes());
    header[8..].copy_from_slice(&bytes.to_be_bytes());
    // Together with what follows: a small segment of its own would take a place in the initial window.
    let sent = rustix::net::send(&stream, &header, SendFlags::MORE)?;
    stream.write_all(&header[sent..])?;
    Ok(stream)
}

fn send_for(
    settings: &BulkSettings,
    flow: &mut BulkFlow,
    data: &[u8],
    end: Instant,
    stop: &Stop,
) -> io::Result<()> {
    let mut stream = connect(settings, flow.flow, 0, end)?;
    let watched = settings.watch.map(|every| stream.try_clone().map(|stream| (stream, every))).transpose()?;
    let outcome = thread::scope(|scope| {
        let watcher = watched.map(|(stream, every)| scope.spawn(move || watch(&stream, every, end, stop)));
        let outcome = write_until(&mut stream, flow, data, end, stop);
        if let Some(watcher) = watcher {
            flow.samples = watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        outcome
    });
    flow.retransmissions += u64::from(retransmissions(&stream)?);
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    outcome
}

fn write_until(
    stream: &mut TcpStream,
    flow: &mut BulkFlow,
    data: &[u8],
    end: Instant,
    stop: &Stop,
) -> io::Result<()> {
    // Only once a third of the buffer is free: what ends a write is pushed, and acknowledged at once by its receiver.
    stream.set_nonblocking(true)?;
    let mut part = data.len().min(FIRST_WRITE_BYTES);
    while !stop.is_stopped() && clock::now() < end {
        let left = (end - clock::now()).min(POLL_INTERVAL);
        if poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&clock::timespec(left)))? == 0 {
            continue;
        }
        match stream.write(&data[..part]) {
            Ok(bytes) => flow.sent_bytes += bytes as u64,
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
        if part < data.len() {
            // Until it knows the peer's window, a kernel pushes every 32 KB of what is written.
            while acknowledged(stream)? <= 1
                && stop.sleep_until(clock::now() + A_MOMENT)
                && clock::now() < end
            {}
            part = data.len();
        }
    }
    Ok(())
}

fn transfer(
    settings: &BulkSettings,
    flow: &mut BulkFlow,
    data: &[u8],
    bytes: u64,
    end: Instant,
    stop: &Stop,
) -> io::Result<()> {
    let mut stream = connect(settings, flow.flow, bytes, end)?;
    let mut left = bytes;
    let mut whole = true;
    while whole && left > 0 {
        let part = &data[..left.min(data.len() as u64) as usize];
        whole = socket::write_all(&mut stream, part, end, stop);
        if whole {
            left -= part.len() as u64;
            flow.sent_bytes += part.len() as u64;
        }
    }
    whole = whole && socket::read_all(&mut stream, &mut [0], end, stop);
    flow.retransmissions += u64::from(retransmissions(&stream)?);
    if whole {
        Ok(())
    } else {
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        Err(io::Error::other("the transfer was cut short"))
    }
}

/// A flow as the sink saw it.
#[derive(Debug, Clone)]
pub struct SinkFlow {
    /// Its number.
    pub flow: u32,
    /// Bytes received, over time.
    pub series: Series,
    /// Its connections.
    pub connections: u32,
}

/// What a sink received.
#[derive(Debug, Clone)]
pub struct SinkReport {
    /// The flows by number.
    pub flows: Vec<SinkFlow>,
}

impl SinkReport {
    /// Bytes of all flows.
    pub fn bytes(&self) -> u64 {
        self.flows.iter().map(|flow| flow.series.total()).sum()
    }

    /// The goodput of all flows together in `from..to`, in whole bins.
    pub fn goodput(&self, from: Instant, to: Instant) -> Rate {
        let rates = self.flows.iter().map(|flow| flow.series.rate(from, to).bits_per_second());
        Rate::from_bits_per_second(rates.sum())
    }
}

/// A server that reads what it is sent and counts.
#[derive(Debug)]
pub struct TcpSink {
    address: SocketAddr,
    service: Service<SinkReport>,
}

impl TcpSink {
    /// Listens at `address` (with port 0, at any port) in `host`, and counts in steps of `bin`.
    pub fn start(host: &Host, address: SocketAddr, bin: Duration) -> io::Result<Self> {
        Self::scheduled(host, address, bin, Scheduling::Shared)
    }

    /// The same with its reading threads scheduled so.
    pub fn scheduled(
        host: &Host,
        address: SocketAddr,
        bin: Duration,
        scheduling: Scheduling,
    ) -> io::Result<Self> {
        let listener = host.run(|| socket::listen(address))?;
        let address = listener.local_addr()?;
        let begin = clock::now();
        let service = Service::start(host, "sink", move |stop| {
            let connections = socket::serve(&listener, stop, |stream, _| {
                scheduling.apply();
                receive(stream, Series::new(begin, bin), stop)
            });
            merge(connections.into_iter().flatten())
        });
        Ok(Self { address, service })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it and says what it received.
    pub fn finish(self) -> SinkReport {
        self.service.finish()
    }
}

fn receive(mut stream: TcpStream, mut series: Series, stop: &Stop) -> Option<(u32, Series)> {
    let mut header = [0; HEADER_BYTES];
    if !socket::read_all(&mut stream, &mut header, clock::now() + HEADER_TIMEOUT, stop) {
        return None;
    }
    let [a, b, c, d, _, _, _, _, length @ ..] = header;
    let (flow, expected) = (u32::from_be_bytes([a, b, c, d]), u64::from_be_bytes(length));
    let mut buffer = vec![0; READ_BYTES];
    let mut received = 0;
    while !stop.is_stopped() {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => {
                series.add(clock::now(), bytes as u64);
                received += bytes as u64;
                if expected != 0 && received >= expected {
                    // If the sender has gone, nobody waits for the answer.
                    let _ = stream.write_all(&[1]);
                    break;
                }
            }
            Err(error) if is_pause(&error) => {}
            Err(_) => break,
        }
    }
    Some((flow, series))
}

fn merge(connections: impl Iterator<Item = (u32, Series)>) -> SinkReport {
    let mut flows: BTreeMap<u32, SinkFlow> = BTreeMap::new();
    for (flow, series) in connections {
        if let Some(known) = flows.get_mut(&flow) {
            known.connections += 1;
            known.series.merge(&series);
        } else {
            flows.insert(flow, SinkFlow { flow, series, connections: 1 });
        }
    }
    SinkReport { flows: flows.into_values().collect() }
}
