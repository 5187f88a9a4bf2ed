//! The tests, each over one carrier.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use trunkline_testbed::clock;
use trunkline_testbed::gateway::GatewayError;
use trunkline_testbed::link::Scheduling;
use trunkline_testbed::namespace::Task;
use trunkline_testbed::procfs::CpuTime;
use trunkline_testbed::scene::{Encryption, GatewaySetup, Gateways, Plan, Scene, SceneError, Wan};
use trunkline_testbed::statistics::percentile;
use trunkline_testbed::traffic::{
    BulkReport, BulkSettings, EchoServer, FloodSettings, Pace, PingReport, PingSettings, Stop, TcpSink,
    UdpSink, bulk, flood, ping,
};
use trunkline_units::Instant;

use super::figure::{Carrier, Figure, Run};
use crate::failure::Failure;
use crate::output::remark;

/// The congestion control of the user's flows.
pub(super) const CONGESTION_CONTROL: &str = "cubic";
const PING_INTERVAL: Duration = Duration::from_millis(2);
/// The longest time of ping tests: beyond it the machine's noise, not the number of samples, limits the 99th percentile.
const PING_TIME_LIMIT: Duration = Duration::from_secs(3);
/// Time for which a flow runs before the round trips beside it are measured.
const LOAD_LEAD: Duration = Duration::from_millis(700);
const REACH_LIMIT: Duration = Duration::from_secs(10);
const BIN: Duration = Duration::from_millis(10);
const SMALL_PAYLOAD_BYTES: usize = 64;
/// A long datagram that no ordinary path fragments.
const LARGE_PAYLOAD_BYTES: usize = 1400;
/// All classes of a trunk over QUIC ride on it.
const QUIC_CLASSES: &str = "[[classes]]\nname = \"all\"\ntransport = \"quic\"\n";
/// Datagrams that the flood hands to the kernel at once, so that the sender's system calls are not the bottleneck.
const FLOOD_BATCH: usize = 32;
/// The share of lost round trips from which a message reports them: the percentiles omit them.
const NOTABLE_LOSS: f64 = 0.01;

/// The tests over each carrier, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    IdleLatency,
    Tcp1,
    Tcp10,
    LoadLatency,
    SmallPackets,
    LargePackets,
}

impl Test {
    pub(super) const ALL: [Self; 6] = [
        Self::IdleLatency,
        Self::Tcp1,
        Self::Tcp10,
        Self::LoadLatency,
        Self::SmallPackets,
        Self::LargePackets,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::IdleLatency => "round trips, idle",
            Self::Tcp1 => "one TCP flow",
            Self::Tcp10 => "ten TCP flows",
            Self::LoadLatency => "round trips beside a TCP flow",
            Self::SmallPackets => "small datagrams",
            Self::LargePackets => "large datagrams",
        }
    }

    /// Its approximate duration.
    pub(super) fn time(self, seconds: Duration) -> Duration {
        match self {
            Self::IdleLatency => ping_time(seconds),
            Self::LoadLatency => LOAD_LEAD + ping_time(seconds),
            Self::Tcp1 | Self::Tcp10 | Self::SmallPackets | Self::LargePackets => seconds,
        }
    }
}

fn ping_time(seconds: Duration) -> Duration {
    seconds.min(PING_TIME_LIMIT)
}

/// The scene of one carrier. Each carrier has hosts of its own, so that each test can run over all carriers in turn.
pub(super) struct Site {
    pub(super) carrier: Carrier,
    // Before the scene, so that the gateways end before their namespaces do.
    gateways: Option<Gateways>,
    scene: Scene,
    seconds: Duration,
    stop: Stop,
}

impl Site {
    pub(super) fn build(
        carrier: Carrier,
        binary: &Path,
        seconds: Duration,
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let scene = Scene::new(Wan::Veth).map_err(failure)?;
        let encryption = match carrier {
            Carrier::Direct => None,
            Carrier::Plain => Some(Encryption::None),
            Carrier::Encrypted | Carrier::Quic | Carrier::Streams => Some(Encryption::Tls),
        };
        let start = |encryption| {
            let delivery = match carrier {
                Carrier::Quic => Some("datagram"),
                Carrier::Streams => Some("reliable"),
                Carrier::Direct | Carrier::Plain | Carrier::Encrypted => None,
            };
            let classes = delivery.map(|delivery| format!("{QUIC_CLASSES}delivery = \"{delivery}\"\n"));
            let setup = GatewaySetup { classes, ..GatewaySetup::new(binary, encryption) };
            scene.start_gateways_until(&setup, stop).map_err(failure)
        };
        let gateways = encryption.map(start).transpose()?;
        if carrier == Carrier::Direct {
            scene.route_directly().map_err(failure)?;
        }
        let site = Self { carrier, gateways, scene, seconds, stop: stop.clone() };
        site.check_reach("at the start")?;
        Ok(site)
    }

    /// Records the memory of the gateways before any load.
    pub(super) fn record_idle_memory(&self, run: &mut Run) -> Result<(), Failure> {
        self.record_memory(Figure::RssIdle, run)
    }

    /// Runs one test and records its figures.
    pub(super) fn measure(&self, test: Test, run: &mut Run) -> Result<(), Failure> {
        match test {
            Test::IdleLatency => {
                let report = self.ping(ping_time(self.seconds))?;
                self.record_round_trips(&report, [Figure::IdleP50, Figure::IdleP99], run)
            }
            Test::Tcp1 => self.tcp(1, [Figure::Tcp1, Figure::CpuPerGb], run),
            Test::Tcp10 => {
                self.tcp(10, [Figure::Tcp10, Figure::CpuPerGb10], run)?;
                self.record_memory(Figure::Rss, run)
            }
            Test::LoadLatency => self.load_latency(run),
            Test::SmallPackets => {
                let rate = self.flood(SMALL_PAYLOAD_BYTES)?;
                run.insert((self.carrier, Figure::Pps64), rate);
                // A trunk that the flood has broken would make the next tests meaningless.
                self.check_reach("after the flood")
            }
            Test::LargePackets => {
                let rate = self.flood(LARGE_PAYLOAD_BYTES)?;
                run.insert((self.carrier, Figure::Udp1400), rate * LARGE_PAYLOAD_BYTES as f64 * 8.0 / 1e6);
                self.check_reach("after the flood")
            }
        }
    }

    fn tcp(&self, flows: u32, [goodput, cpu]: [Figure; 2], run: &mut Run) -> Result<(), Failure> {
        let (sink, sender) = self.start_bulk(flows, self.seconds)?;
        // Neither slow start nor the end of the flows is part of the figure.
        let begin = clock::now() + self.seconds / 8;
        let end = begin + self.seconds * 3 / 4;
        self.sleep_until(begin)?;
        let (cpu_begin, begin) = (self.cpu_time()?, clock::now());
        self.sleep_until(end)?;
        let (cpu_end, end) = (self.cpu_time()?, clock::now());
        self.check_sent(&sender.join())?;
        let report = sink.finish();
        let rate = report.goodput(begin, end).bits_per_second() as f64;
        run.insert((self.carrier, goodput), rate / 1e6);
        if self.gateways.is_some() && rate > 0.0 {
            let gigabytes = rate / 8e9 * (end - begin).as_secs_f64();
            run.insert((self.carrier, cpu), cpu_end.since(cpu_begin).total().as_secs_f64() / gigabytes);
        }
        Ok(())
    }

    fn load_latency(&self, run: &mut Run) -> Result<(), Failure> {
        let time = ping_time(self.seconds);
        let (_sink, sender) = self.start_bulk(1, LOAD_LEAD + time)?;
        self.sleep_until(clock::now() + LOAD_LEAD)?;
        let report = self.ping(time)?;
        self.check_sent(&sender.join())?;
        self.record_round_trips(&report, [Figure::LoadP50, Figure::LoadP99], run)
    }

    /// Floods the sink; the datagrams that arrive in a second.
    fn flood(&self, payload_bytes: usize) -> Result<f64, Failure> {
        let sink = UdpSink::start(&self.scene.x, server_address(), BIN).map_err(traffic)?;
        let settings = FloodSettings {
            target: sink.address(),
            payload_bytes,
            pace: Pace::Unpaced,
            batch: FLOOD_BATCH,
            time: self.seconds,
            scheduling: Scheduling::Shared,
        };
        let sent = self.scene.a.run(|| flood(&settings, &self.stop)).map_err(traffic)?;
        self.check_interrupt()?;
        let received = sink.finish();
        let margin = (sent.end - sent.begin) / 4;
        let (begin, end) = (sent.begin + margin, sent.begin + margin * 3);
        Ok(received.datagrams_per_second(begin, end, payload_bytes))
    }

    fn start_bulk(&self, flows: u32, time: Duration) -> Result<(TcpSink, Task<BulkReport>), Failure> {
        let sink = TcpSink::start(&self.scene.x, server_address(), BIN).map_err(traffic)?;
        let settings = BulkSettings::new(sink.address(), CONGESTION_CONTROL, flows, time);
        let stop = self.stop.clone();
        let sender = self.scene.a.spawn("bulk", move || bulk(&settings, &stop));
        Ok((sink, sender))
    }

    fn check_sent(&self, report: &BulkReport) -> Result<(), Failure> {
        self.check_interrupt()?;
        match report.failures().next() {
            None => Ok(()),
            Some(reason) => {
                Err(Failure::Other(format!("{}: a TCP flow failed: {reason}", self.carrier.name())))
            }
        }
    }

    fn ping(&self, time: Duration) -> Result<PingReport, Failure> {
        // Neither end of the round trips may wait for a CPU that the load keeps busy: that is not the path's delay.
        let scheduling = Scheduling::RealTime;
        let server = EchoServer::start(&self.scene.x, server_address(), scheduling).map_err(traffic)?;
        let count = (time.as_millis() / PING_INTERVAL.as_millis()) as u32;
        let settings =
            PingSettings { scheduling, ..PingSettings::new(server.address(), PING_INTERVAL, count) };
        let report = self.scene.a.run(|| ping(&settings, &self.stop)).map_err(traffic)?;
        self.check_interrupt()?;
        Ok(report)
    }

    fn record_round_trips(
        &self,
        report: &PingReport,
        figures: [Figure; 2],
        run: &mut Run,
    ) -> Result<(), Failure> {
        let name = self.carrier.name();
        for (figure, p) in figures.into_iter().zip([0.5, 0.99]) {
            let round_trip = percentile(&report.round_trips, p)
                .ok_or_else(|| Failure::Other(format!("{name}: no datagram got an answer")))?;
            run.insert((self.carrier, figure), round_trip.as_secs_f64() * 1e6);
        }
        if report.loss() > NOTABLE_LOSS {
            let percent = report.loss() * 100.0;
            remark(&format_args!("trunkline: {name}: {percent:.1} % of the round trips were lost"));
        }
        Ok(())
    }

    fn record_memory(&self, figure: Figure, run: &mut Run) -> Result<(), Failure> {
        let Some(gateways) = &self.gateways else { return Ok(()) };
        let memory = gateways.memory().map_err(failure)?;
        run.insert((self.carrier, figure), memory.resident_bytes as f64 / 1e6);
        Ok(())
    }

    fn cpu_time(&self) -> Result<CpuTime, Failure> {
        let time = self.gateways.as_ref().map(Gateways::cpu_time).transpose().map_err(failure)?;
        Ok(time.unwrap_or_default())
    }

    /// Waits until a datagram has made a round trip.
    fn check_reach(&self, when: &str) -> Result<(), Failure> {
        let server =
            EchoServer::start(&self.scene.x, server_address(), Scheduling::Shared).map_err(traffic)?;
        let mut settings = PingSettings::new(server.address(), PING_INTERVAL, 1);
        settings.timeout = Duration::from_millis(100);
        let end = clock::now() + REACH_LIMIT;
        while clock::now() < end {
            let report = self.scene.a.run(|| ping(&settings, &self.stop)).map_err(traffic)?;
            self.check_interrupt()?;
            if !report.round_trips.is_empty() {
                return Ok(());
            }
        }
        Err(Failure::Other(format!("{}: nothing gets through {when}", self.carrier.name())))
    }

    fn sleep_until(&self, then: Instant) -> Result<(), Failure> {
        if self.stop.sleep_until(then) { Ok(()) } else { Err(Failure::Interrupted) }
    }

    fn check_interrupt(&self) -> Result<(), Failure> {
        if self.stop.is_stopped() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

fn server_address() -> SocketAddr {
    SocketAddr::new(Plan::IPV4.x, 0)
}

fn failure(error: SceneError) -> Failure {
    match error {
        SceneError::Gateway(GatewayError::Interrupted) => Failure::Interrupted,
        error => Failure::Other(error.to_string()),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the form that map_err wants")]
fn traffic(error: io::Error) -> Failure {
    Failure::Other(format!("cannot make traffic: {error}"))
}
