//! Flows of one kind through one bottleneck, on this machine's kernel, for comparison with a model.
//!
//! Everything that decides the outcome and that a model can be told is in [`DumbbellSettings`]; the rest is fixed here:
//!
//! - the sender makes single segments (`gso_max_segs` 1), as a wire carries them, unless super-packets are asked for. Turning the
//!   offloads off would only move the cutting: a TCP that builds super-packets sends in bursts and grows in steps;
//! - both buffers are fixed and far above the path's product, so that neither end tunes or bounds anything. How long
//!   they did anyway is in each sample;
//! - nothing is remembered from one connection to the next (`tcp_no_metrics_save`);
//! - no queue but the link's: a TUN's own is emptied at once by a thread that goes before others, as do those that
//!   send and receive. How late it was is in the link's counters, and what is left shows in the idle round trip.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use trunkline_link::{LinkSettings, Loss};
use trunkline_queue::Settings as QueueSettings;
use trunkline_units::{Instant, Rate};

use crate::clock::Scheduling;
use crate::link::{Counters, Direction, DuplexSettings, End, Link, LinkError};
use crate::namespace::{Host, HostError};
use crate::traffic::{
    BulkFlow, BulkSettings, EchoServer, PingSettings, SinkFlow, Stop, TcpSample, TcpSink, bulk, ping,
};

const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 2, 1));
const RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 2, 2));
const DEVICE: &str = "wan";
/// Datagrams that measure the idle round trip.
const PINGS: u32 = 20;
const PING_INTERVAL: Duration = Duration::from_millis(10);
/// Steps of the receiver's count.
const BIN: Duration = Duration::from_millis(10);

/// A bottleneck, and the flows through it.
#[derive(Debug, Clone, PartialEq)]
pub struct DumbbellSettings {
    /// Of the bottleneck, towards the receiver. The way back has no rate, queue or loss.
    pub rate: Rate,
    /// Propagation, there and back together; half of it each way.
    pub round_trip: Duration,
    /// In front of the bottleneck.
    pub queue: QueueSettings,
    /// Probability that a packet is lost behind the bottleneck.
    pub loss: f64,
    /// The largest IP packet, bytes.
    pub mtu: u32,
    /// The kernel's name for it.
    pub congestion_control: String,
    /// Flows, all from one host to one other.
    pub flows: u32,
    /// From the start of one to that of the next.
    pub stagger: Duration,
    /// Of each socket, bytes in the kernel's accounting, which packets and not data fill.
    pub buffer_bytes: u64,
    /// From the start of the first flow to that of the window in which goodput is counted apart.
    pub lead_in: Duration,
    /// The window.
    pub window: Duration,
    /// How often each connection is asked how it is.
    pub watch: Duration,
    /// Of the losses.
    pub seed: u64,
    /// Selective acknowledgements (RFC 2018), at both hosts.
    pub sack: bool,
    /// Timestamps (RFC 7323), at both hosts.
    pub timestamps: bool,
    /// Explicit congestion notification (RFC 3168), at both hosts.
    pub ecn: bool,
    /// Senders build super-packets, which are cut before they come onto the link.
    pub super_packets: bool,
}

impl DumbbellSettings {
    /// One flow over a path that loses nothing.
    pub fn new(rate: Rate, round_trip: Duration, queue: QueueSettings, congestion_control: &str) -> Self {
        Self {
            rate,
            round_trip,
            queue,
            loss: 0.0,
            mtu: 1500,
            congestion_control: congestion_control.to_owned(),
            flows: 1,
            stagger: Duration::from_millis(100),
            buffer_bytes: 6 << 20,
            lead_in: Duration::from_secs(5),
            window: Duration::from_secs(20),
            watch: Duration::from_millis(20),
            seed: 1,
            sack: true,
            timestamps: true,
            ecn: false,
            super_packets: false,
        }
    }

    fn link(&self) -> DuplexSettings {
        let way = |rate| LinkSettings { mtu: self.mtu, ..LinkSettings::new(rate, self.round_trip / 2) };
        DuplexSettings {
            backward: way(Rate::MAX),
            seed: self.seed,
            scheduling: Scheduling::RealTime,
            ..DuplexSettings::symmetric(way(self.rate).queue(self.queue).loss(Loss::Uniform(self.loss)))
        }
    }
}

/// What happened in a stretch of a flow's life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Bytes that the receiver's user got.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmissions: u32,
    /// Retransmission timers that ran out.
    pub timeouts: u32,
}

/// A flow of a dumbbell.
#[derive(Debug, Clone)]
pub struct DumbbellFlow {
    /// From its first byte to the end.
    pub whole: FlowCounts,
    /// In the window.
    pub window: FlowCounts,
    /// What its sender said, in order.
    pub samples: Vec<TcpSample>,
}

/// What a dumbbell did.
#[derive(Debug, Clone)]
pub struct DumbbellReport {
    /// When the first flow began.
    pub begin: Instant,
    /// The smallest round trip of a datagram of 92 bytes before there was any load.
    pub idle_round_trip: Duration,
    /// In the order of their beginning.
    pub flows: Vec<DumbbellFlow>,
    /// The bottleneck.
    pub bottleneck: Counters,
    /// The way back.
    pub back: Counters,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum DumbbellError {
    /// The hosts could not be made or set up.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Nor the link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A socket could not be had.
    #[error("dumbbell: {0}")]
    Socket(#[from] io::Error),
    /// A connection failed.
    #[error("dumbbell: flow {flow}: {reason}")]
    Flow {
        /// Its number.
        flow: u32,
        /// What the system said.
        reason: String,
    },
    /// The run was stopped from outside.
    #[error("dumbbell: interrupted")]
    Interrupted,
}

/// Builds the path, sends, and takes it down. Lasts as long as lead-in and window together, and a little more.
pub fn measure(settings: &DumbbellSettings, stop: &Stop) -> Result<DumbbellReport, DumbbellError> {
    let (sender, receiver) = (host("sender", settings)?, host("receiver", settings)?);
    let link = Link::new(
        End { host: &sender, device: DEVICE, addresses: &[SENDER] },
        End { host: &receiver, device: DEVICE, addresses: &[RECEIVER] },
        &settings.link(),
    )?;
    for host in [&sender, &receiver].into_iter().filter(|_| !settings.super_packets) {
        host.netlink(|handle| {
            let device = handle.link_index(DEVICE)?;
            handle.set_gso_max_segments(device, 1)
        })?;
    }
    let port = SocketAddr::new(RECEIVER, 0);
    let idle_round_trip = idle_round_trip(&sender, &receiver, port, stop)?;
    let sink = TcpSink::scheduled(&receiver, port, BIN, Scheduling::RealTime)?;
    let time = settings.lead_in + settings.window;
    let load = BulkSettings {
        stagger: settings.stagger,
        watch: Some(settings.watch),
        scheduling: Scheduling::RealTime,
        ..BulkSettings::new(sink.address(), &settings.congestion_control, settings.flows, time)
    };
    let sent = sender.run(|| bulk(&load, stop));
    let (bottleneck, back) = (link.counters(Direction::Forward), link.counters(Direction::Backward));
    let received = sink.finish();
    if stop.is_stopped() {
        return Err(DumbbellError::Interrupted);
    }
    let window = (sent.begin + settings.lead_in, sent.begin + time);
    let flows = sent
        .flows
        .into_iter()
        .map(|flow| {
            let got = received.flows.iter().find(|received| received.flow == flow.flow);
            describe(flow, got, window)
        })
        .collect::<Result<_, _>>()?;
    Ok(DumbbellReport { begin: sent.begin, idle_round_trip, flows, bottleneck, back })
}

fn host(name: &str, settings: &DumbbellSettings) -> Result<Host, HostError> {
    let host = Host::new(name)?;
    let fixed = format!("4096 {0} {0}", settings.buffer_bytes);
    let switch = |on: bool| if on { "1" } else { "0" };
    for (path, value) in [
        ("net.ipv4.tcp_rmem", fixed.as_str()),
        ("net.ipv4.tcp_wmem", &fixed),
        ("net.ipv4.tcp_moderate_rcvbuf", "0"),
        ("net.ipv4.tcp_no_metrics_save", "1"),
        // What the model is set to as well, and what Linux does by itself.
        ("net.ipv4.tcp_sack", switch(settings.sack)),
        ("net.ipv4.tcp_timestamps", switch(settings.timestamps)),
        ("net.ipv4.tcp_window_scaling", "1"),
        ("net.ipv4.tcp_ecn", switch(settings.ecn)),
        ("net.ipv4.tcp_recovery", "1"),
        ("net.ipv4.tcp_early_retrans", "3"),
        ("net.ipv4.tcp_slow_start_after_idle", "1"),
    ] {
        host.sysctl(path, value)?;
    }
    Ok(host)
}

fn idle_round_trip(
    sender: &Host,
    receiver: &Host,
    address: SocketAddr,
    stop: &Stop,
) -> Result<Duration, DumbbellError> {
    let echo = EchoServer::start(receiver, address, Scheduling::RealTime)?;
    let settings = PingSettings {
        scheduling: Scheduling::RealTime,
        ..PingSettings::new(echo.address(), PING_INTERVAL, PINGS)
    };
    let report = sender.run(|| ping(&settings, stop))?;
    let smallest = report.round_trips.into_iter().min();
    smallest.ok_or_else(|| io::Error::other("no datagram was answered").into())
}

fn describe(
    flow: BulkFlow,
    received: Option<&SinkFlow>,
    (from, to): (Instant, Instant),
) -> Result<DumbbellFlow, DumbbellError> {
    if let Some(reason) = flow.failures.into_iter().next() {
        return Err(DumbbellError::Flow { flow: flow.flow, reason });
    }
    let bytes = received
        .map_or((0, 0), |SinkFlow { series, .. }| (series.sum(series.begin(), to).0, series.sum(from, to).0));
    let last = flow.samples.last();
    let total = last.map_or((0, 0), |sample| (sample.retransmissions, sample.timeouts));
    let before = flow.samples.iter().rfind(|sample| sample.at <= from);
    let before = before.map_or((0, 0), |sample| (sample.retransmissions, sample.timeouts));
    let counts = |bytes, (retransmissions, timeouts): (u32, u16), earlier: (u32, u16)| FlowCounts {
        bytes,
        retransmissions: retransmissions - earlier.0,
        timeouts: u32::from(timeouts - earlier.1),
    };
    Ok(DumbbellFlow {
        whole: counts(bytes.0, total, (0, 0)),
        window: counts(bytes.1, total, before),
        samples: flow.samples,
    })
}
