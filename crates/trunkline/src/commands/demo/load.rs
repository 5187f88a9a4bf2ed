//! The traffic: file transfers, requests and the flood, from A to X.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use trunkline_testbed::clock::{self, Scheduling};
use trunkline_testbed::namespace::{Host, Task};
use trunkline_testbed::scene::{Plan, Scene};
use trunkline_testbed::traffic::{
    self, BulkSettings, FloodSettings, Pace, Pacing, Response, RpcServer, RpcSettings, Stop, TcpSink,
    UdpSink, bulk, flood, request_response,
};
use trunkline_units::Instant;

use super::measurement::RequestLog;
use super::parameters::{DATAGRAM_BYTES, Parameters};

/// After a transfer that failed the next is tried so much later.
const PAUSE: Duration = Duration::from_millis(100);
/// Longer than any phase: nothing gives up, it waits.
const FOR_EVER: Duration = Duration::from_secs(3600);
/// The steps in which the sinks count for themselves.
const BIN: Duration = Duration::from_millis(500);

/// Running traffic. Dropping it stops it.
pub(super) struct Load {
    begin: Instant,
    stop: Stop,
    requesters: Vec<Requester>,
    completed: Arc<AtomicU64>,
    flood: FloodSettings,
    client: Arc<Host>,
    clients: Vec<Task<()>>,
    tcp_sink: TcpSink,
    udp_sink: UdpSink,
    _server: RpcServer,
}

impl Load {
    /// Starts transfers and requests.
    pub(super) fn start(scene: &Scene, parameters: &Parameters) -> io::Result<Self> {
        let plan = Plan::IPV4;
        let any_port = |address: IpAddr| SocketAddr::new(address, 0);
        let tcp_sink = TcpSink::start(&scene.x, any_port(plan.x), BIN)?;
        let udp_sink = UdpSink::start(&scene.x, any_port(plan.x), BIN)?;
        let server = RpcServer::start(&scene.x, any_port(plan.x), parameters.congestion_control)?;
        let stop = Stop::new();
        let completed = Arc::new(AtomicU64::new(0));
        let mut clients = Vec::new();
        let begin = clock::now();
        for number in 0..parameters.transfer_connections {
            let settings = transfer(tcp_sink.address(), number, parameters);
            let (stop, completed) = (stop.clone(), Arc::clone(&completed));
            clients.push(scene.a.spawn("transfers", move || transfers(&settings, &stop, &completed)));
        }
        let mut requesters = Vec::new();
        for number in 0..parameters.request_connections {
            let (sender, responses) = mpsc::channel();
            // In turns, so that together they ask at even intervals.
            let begin = begin + parameters.request_interval() * number / parameters.request_connections;
            let settings = RpcSettings { responses: Some(sender), ..requests(server.address(), parameters) };
            let stop = stop.clone();
            clients.push(scene.a.spawn("requests", move || {
                clock::sleep_until(begin);
                drop(request_response(&settings, &stop));
            }));
            requesters.push(Requester { begin, responses, due: Vec::new(), took: Vec::new() });
        }
        let flood = FloodSettings {
            target: udp_sink.address(),
            payload_bytes: DATAGRAM_BYTES,
            pace: Pace::Rate(parameters.flood()),
            batch: 1,
            time: Duration::ZERO,
            scheduling: Scheduling::Shared,
        };
        let client = Arc::clone(&scene.a);
        Ok(Self {
            begin,
            stop,
            requesters,
            completed,
            flood,
            client,
            clients,
            tcp_sink,
            udp_sink,
            _server: server,
        })
    }

    /// Starts the flood, for so long.
    pub(super) fn flood(&mut self, time: Duration) {
        let (settings, stop) = (FloodSettings { time, ..self.flood }, self.stop.clone());
        // Without a socket there is no flood, which the UDP goodput of zero shows.
        self.clients.push(self.client.spawn("flood", move || drop(flood(&settings, &stop))));
    }

    /// When the traffic began.
    pub(super) fn begin(&self) -> Instant {
        self.begin
    }

    /// Bytes of transfers that have arrived.
    pub(super) fn tcp_received(&self) -> u64 {
        self.tcp_sink.received().total()
    }

    /// Bytes of the flood that have arrived.
    pub(super) fn udp_received(&self) -> u64 {
        self.udp_sink.received().total()
    }

    /// Complete transfers.
    pub(super) fn transfers(&self) -> u64 {
        self.completed.load(Relaxed)
    }

    /// Those who ask.
    pub(super) fn requesters(&mut self) -> &mut [Requester] {
        &mut self.requesters
    }
}

/// A connection over which requests go, and the responses that have come.
#[derive(Debug)]
pub(super) struct Requester {
    begin: Instant,
    responses: Receiver<Response>,
    due: Vec<Instant>,
    took: Vec<Duration>,
}

impl Requester {
    /// Takes in the responses that have come; how long the slowest of them took.
    pub(super) fn collect(&mut self) -> Option<Duration> {
        let mut slowest = None;
        for response in self.responses.try_iter() {
            self.due.push(response.asked);
            self.took.push(response.latency);
            slowest = slowest.max(Some(response.latency));
        }
        slowest
    }

    /// How long the oldest request without a response has been waiting.
    pub(super) fn waiting(&self, now: Instant, interval: Duration) -> Duration {
        now - self.due.last().map_or(self.begin, |due| *due + interval)
    }

    /// All that was asked, and when.
    pub(super) fn log(&self, interval: Duration) -> RequestLog<'_> {
        RequestLog { begin: self.begin, interval, due: &self.due, took: &self.took }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // The clients' threads are joined after this.
        self.stop.stop();
    }
}

fn requests(target: SocketAddr, parameters: &Parameters) -> RpcSettings {
    RpcSettings {
        request_bytes: parameters.request_bytes,
        response_bytes: parameters.response_bytes,
        pacing: Pacing::Interval(parameters.request_interval()),
        deadline: FOR_EVER,
        ..RpcSettings::new(target, parameters.congestion_control, FOR_EVER)
    }
}

fn transfer(target: SocketAddr, number: u32, parameters: &Parameters) -> BulkSettings {
    BulkSettings {
        first_flow: number,
        load: traffic::Load::Transfers { bytes: parameters.transfer_bytes, repeat: 1, limit: FOR_EVER },
        ..BulkSettings::new(target, parameters.congestion_control, 1, FOR_EVER)
    }
}

/// File after file.
fn transfers(settings: &BulkSettings, stop: &Stop, completed: &AtomicU64) {
    while !stop.is_stopped() {
        let report = bulk(settings, stop);
        let done = report.durations().len() as u64;
        completed.fetch_add(done, Relaxed);
        if done == 0 {
            std::thread::sleep(PAUSE);
        }
    }
}
