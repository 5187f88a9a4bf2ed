//! The scene of one measurement, and helpers that the scenarios share.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use trunkline_testbed::clock::{self, Scheduling};
use trunkline_testbed::gateway::GatewayError;
use trunkline_testbed::link::{Counters, Direction, DuplexSettings, LinkHandle};
use trunkline_testbed::namespace::{Host, Task};
use trunkline_testbed::scene::{Encryption, Gateway, GatewaySetup, Gateways, Plan, Scene, SceneError, Wan};
use trunkline_testbed::traffic::{BulkReport, BulkSettings, Stop, TcpSink, bulk};
use trunkline_units::{Instant, Rate};

use super::run::Bench;
use super::variant::{Carrier, Variant};
use crate::failure::Failure;

/// The resolution of the receivers' counters.
const BIN: Duration = Duration::from_millis(10);
/// The interval between samples of the queues.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// Two sites, joined by an emulated WAN and one variant of carrying packets over it.
pub(super) struct Site {
    // Before the scene, so that the gateways end before their namespaces do.
    gateways: Option<Gateways>,
    pub(super) scene: Scene,
    pub(super) link: LinkHandle,
    stop: Stop,
}

impl Site {
    pub(super) fn build(bench: &Bench, variant: &Variant, link: DuplexSettings) -> Result<Self, Failure> {
        // Without real-time scheduling, delay of a busy machine would count as queueing delay.
        let settings = DuplexSettings { scheduling: Scheduling::RealTime, ..link };
        let scene = Scene::new(Wan::Emulated(settings)).map_err(failure)?;
        let link = scene.link().ok_or_else(|| Failure::Other("the scene has no link".to_owned()))?;
        let gateways = match &variant.carrier {
            Carrier::Direct => {
                scene.route_directly().map_err(failure)?;
                None
            }
            Carrier::Trunk { classes, lanes } => {
                let setup = GatewaySetup {
                    classes: classes.clone(),
                    lanes: Some(lanes.clone()),
                    ..GatewaySetup::new(&bench.binary, Encryption::Tls)
                };
                Some(scene.start_gateways_until(&setup, &bench.stop).map_err(failure)?)
            }
        };
        Ok(Self { gateways, scene, link, stop: bench.stop.clone() })
    }

    /// A sink at the server, at `port`; at any free port if it is 0.
    pub(super) fn sink(&self, port: u16) -> Result<TcpSink, Failure> {
        sink_in(&self.scene.x, Plan::IPV4.x, port)
    }

    /// Starts bulk flows from the client. [`Site::sent`] waits for them.
    pub(super) fn bulk(&self, settings: BulkSettings) -> Task<BulkReport> {
        self.bulk_from(&self.scene.a, settings)
    }

    pub(super) fn bulk_from(&self, host: &Host, settings: BulkSettings) -> Task<BulkReport> {
        let stop = self.stop.clone();
        host.spawn("bulk", move || bulk(&settings, &stop))
    }

    /// Bulk flows from the client that start at `begin`.
    pub(super) fn bulk_at(&self, begin: Instant, settings: BulkSettings) -> Task<BulkReport> {
        let stop = self.stop.clone();
        self.scene.a.spawn("bulk", move || {
            stop.sleep_until(begin);
            bulk(&settings, &stop)
        })
    }

    /// Waits for flows. An error if one failed, since the goodput of the others is then no result.
    pub(super) fn sent(&self, flows: Task<BulkReport>) -> Result<BulkReport, Failure> {
        let report = flows.join();
        self.check_interrupt()?;
        let failed =
            report.failures().next().map(|reason| Failure::Other(format!("a TCP flow failed: {reason}")));
        failed.map_or(Ok(report), Err)
    }

    /// The counters of the WAN from the client's site to the server's.
    pub(super) fn wan(&self) -> Counters {
        self.link.counters(Direction::Forward)
    }

    /// Waits until `then`, and samples the WAN's queue meanwhile: its mean backlog, in bytes.
    pub(super) fn mean_backlog_until(&self, then: Instant) -> Result<f64, Failure> {
        let (mut sum, mut samples) = (0.0, 0.0);
        while clock::now() < then {
            self.sleep_until(then.min(clock::now() + SAMPLE_INTERVAL))?;
            sum += self.wan().backlog_bytes as f64;
            samples += 1.0;
        }
        Ok(if samples > 0.0 { sum / samples } else { 0.0 })
    }

    pub(super) fn sleep_until(&self, then: Instant) -> Result<(), Failure> {
        if self.stop.sleep_until(then) { Ok(()) } else { Err(Failure::Interrupted) }
    }

    pub(super) fn check_interrupt(&self) -> Result<(), Failure> {
        if self.stop.is_stopped() { Err(Failure::Interrupted) } else { Ok(()) }
    }

    pub(super) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// The classes in the status of the first gateway; none without gateways.
    pub(super) fn classes(&self) -> Result<Vec<Value>, Failure> {
        let Some(gateways) = &self.gateways else { return Ok(Vec::new()) };
        let status = gateways.status(Gateway::T1).map_err(failure)?;
        let peers = status["peers"].as_array().cloned().unwrap_or_default();
        Ok(peers.iter().flat_map(|peer| peer["classes"].as_array().cloned().unwrap_or_default()).collect())
    }
}

/// A sink in `host`.
pub(super) fn sink_in(host: &Host, address: IpAddr, port: u16) -> Result<TcpSink, Failure> {
    TcpSink::start(host, SocketAddr::new(address, port), BIN).map_err(traffic)
}

/// The sum of a counter over classes.
pub(super) fn total(classes: &[Value], key: &str) -> f64 {
    classes.iter().filter_map(|class| class[key].as_f64()).sum()
}

/// Packets that classes dropped, over all reasons.
pub(super) fn dropped(classes: &[Value]) -> f64 {
    let of = |class: &Value| -> f64 {
        class["drops"]
            .as_object()
            .into_iter()
            .flat_map(|drops| drops.values())
            .filter_map(Value::as_f64)
            .sum()
    };
    classes.iter().map(of).sum()
}

/// The time that a queue of `bytes` takes to drain at `rate`, in milliseconds.
pub(super) fn drain_ms(bytes: f64, rate: Rate) -> f64 {
    bytes * 8e3 / rate.bits_per_second() as f64
}

pub(super) fn failure(error: SceneError) -> Failure {
    match error {
        SceneError::Gateway(GatewayError::Interrupted) => Failure::Interrupted,
        error => Failure::Other(error.to_string()),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the form that map_err wants")]
pub(super) fn traffic(error: io::Error) -> Failure {
    Failure::Other(format!("cannot make traffic: {error}"))
}
