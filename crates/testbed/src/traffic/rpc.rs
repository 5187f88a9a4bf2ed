//! Requests and responses over one TCP connection, as a person at a terminal or a program at a database sees them.
//!
//! A request begins with 16 bytes: its whole length, then the length of the response.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use trunkline_units::Instant;

use super::service::{Service, Stop};
use super::socket::{self, Connect};
use crate::clock;
use crate::namespace::Host;

const HEADER_BYTES: usize = 16;
/// The longest request or response that is taken seriously.
const MESSAGE_LIMIT: u64 = 1 << 30;
/// After a failed connection the next is tried so much later.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// When the next request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// So long after the response to the last one.
    ClosedLoop(Duration),
    /// At fixed times. A request that is held up by the one before counts as sent at its time, so that the delay it
    /// suffered is in the result.
    Interval(Duration),
}

/// What [`request_response`] is to do.
#[derive(Debug, Clone)]
pub struct RpcSettings {
    /// The server.
    pub target: SocketAddr,
    /// The address to send from, if not the route's.
    pub source: Option<IpAddr>,
    /// The congestion control of the connections, by name.
    pub congestion_control: String,
    /// Bytes of a request, at least 16.
    pub request_bytes: u32,
    /// Bytes of a response.
    pub response_bytes: u32,
    /// When requests are sent.
    pub pacing: Pacing,
    /// A request that has no response by then has failed, and the connection is replaced.
    pub deadline: Duration,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long in all.
    pub time: Duration,
}

impl RpcSettings {
    /// Requests and responses of 64 bytes in a closed loop without a pause, for `time`.
    pub fn new(target: SocketAddr, congestion_control: &str, time: Duration) -> Self {
        Self {
            target,
            source: None,
            congestion_control: congestion_control.to_owned(),
            request_bytes: 64,
            response_bytes: 64,
            pacing: Pacing::ClosedLoop(Duration::ZERO),
            deadline: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            time,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct RpcReport {
    /// From each request to the whole of its response, in order.
    pub latencies: Vec<Duration>,
    /// Requests that had no response by their deadline, or lost their connection.
    pub failed: u32,
    /// Connections made, the first one included.
    pub connections: u32,
    /// Connections that could not be made.
    pub refused: u32,
    /// How long the request had been waiting that was unanswered at the end, if one was.
    pub outstanding: Option<Duration>,
}

/// Asks from the calling thread's namespace until the time is over.
pub fn request_response(settings: &RpcSettings, stop: &Stop) -> RpcReport {
    clock::minimise_timer_slack();
    let mut report = RpcReport::default();
    let begin = clock::now();
    let end = begin + settings.time;
    let request = encode(settings);
    let mut connection: Option<TcpStream> = None;
    let mut due = begin;
    while due < end && stop.sleep_until(due) {
        let asked = if matches!(settings.pacing, Pacing::Interval(_)) { due } else { clock::now() };
        let limit = (asked + settings.deadline).min(end);
        if connection.is_none() {
            connection = connect(settings, limit, &mut report, stop);
        }
        let answered = connection.as_mut().is_some_and(|stream| {
            socket::write_all(stream, &request, limit, stop)
                && socket::skip(stream, u64::from(settings.response_bytes), limit, stop)
        });
        let now = clock::now();
        if answered {
            report.latencies.push(now - asked);
        } else if now >= end || stop.is_stopped() {
            report.outstanding = Some(now - asked);
            break;
        } else {
            report.failed += 1;
            connection = None;
        }
        due = match settings.pacing {
            Pacing::ClosedLoop(pause) => now + pause,
            Pacing::Interval(interval) => due + interval.max(Duration::from_nanos(1)),
        };
    }
    report
}

fn encode(settings: &RpcSettings) -> Vec<u8> {
    let mut request = vec![0x5a; (settings.request_bytes as usize).max(HEADER_BYTES)];
    let length = request.len() as u64;
    request[..8].copy_from_slice(&length.to_be_bytes());
    request[8..HEADER_BYTES].copy_from_slice(&u64::from(settings.response_bytes).to_be_bytes());
    request
}

fn connect(settings: &RpcSettings, limit: Instant, report: &mut RpcReport, stop: &Stop) -> Option<TcpStream> {
    while clock::now() < limit && !stop.is_stopped() {
        let connect = Connect {
            target: settings.target,
            source: settings.source,
            congestion_control: &settings.congestion_control,
            timeout: settings.connect_timeout.min(limit - clock::now()),
        };
        if let Ok(stream) = connect.connect() {
            report.connections += 1;
            return Some(stream);
        }
        report.refused += 1;
        stop.sleep_until(limit.min(clock::now() + RECONNECT_PAUSE));
    }
    None
}

/// A server that answers requests.
#[derive(Debug)]
pub struct RpcServer {
    address: SocketAddr,
    service: Service<u64>,
}

impl RpcServer {
    /// Answers at `address` (with port 0, at any port) in `host`; its connections use `congestion_control`.
    pub fn start(host: &Host, address: SocketAddr, congestion_control: &str) -> io::Result<Self> {
        let listener = host.run(|| socket::listen(address))?;
        // Accepted connections have the listener's.
        socket::set_congestion_control(&listener, congestion_control)?;
        let address = listener.local_addr()?;
        let service = Service::start(host, "rpc server", move |stop| {
            socket::serve(&listener, stop, |stream, _| answer(stream, stop)).iter().sum()
        });
        Ok(Self { address, service })
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it and says how many requests it answered.
    pub fn finish(self) -> u64 {
        self.service.finish()
    }
}

fn answer(mut stream: TcpStream, stop: &Stop) -> u64 {
    let never = Instant::FAR_FUTURE;
    let mut answered = 0;
    let mut header = [0; HEADER_BYTES];
    let response = vec![0x5a; 64 << 10];
    while socket::read_all(&mut stream, &mut header, never, stop) {
        let [length @ .., _, _, _, _, _, _, _, _] = header;
        let [_, _, _, _, _, _, _, _, wanted @ ..] = header;
        let (length, mut wanted) = (u64::from_be_bytes(length), u64::from_be_bytes(wanted));
        let Some(body) = length.checked_sub(HEADER_BYTES as u64) else { break };
        if body > MESSAGE_LIMIT || wanted > MESSAGE_LIMIT || !socket::skip(&mut stream, body, never, stop) {
            break;
        }
        while wanted > 0 {
            let part = wanted.min(response.len() as u64) as usize;
            if !socket::write_all(&mut stream, &response[..part], never, stop) {
                return answered;
            }
            wanted -= part as u64;
        }
        answered += 1;
    }
    answered
}
