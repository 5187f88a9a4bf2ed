//! One phase: two sites, the WAN, gateways or none, the traffic, and what is seen of it.

use std::env;
use std::time::Duration;

use trunkline_gateway::control::{Answer, Request as ControlRequest, ask};
use trunkline_gateway::status::Status;
use trunkline_link::LinkSettings;
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_testbed::clock;
use trunkline_testbed::gateway::GatewayError;
use trunkline_testbed::link::{Direction, DuplexSettings, LinkHandle};
use trunkline_testbed::scene::{
    Encryption, Gateway, GatewaySetup, Gateways, Scene, SceneError, SceneSettings, Wan,
};
use trunkline_testbed::traffic::Stop;
use trunkline_units::Instant;

use super::live::Live;
use super::load::Load;
use super::measurement::{
    EdgeBacklog, Outcome, Phase, Request, RequestState, Sample, Summary, Tallies, Tally, request_ms,
};
use super::parameters::Parameters;
use crate::failure::Failure;

/// From one sample to the next.
pub(super) const TICK: Duration = Duration::from_millis(500);
/// An interrupt is noticed within this time.
const LOOK_AROUND: Duration = Duration::from_millis(25);

/// Runs a phase from nothing to nothing.
pub(super) fn run(
    phase: Phase,
    parameters: &Parameters,
    stop: &Stop,
    live: &mut Live,
) -> Result<Outcome, Failure> {
    live.announce(phase, "building two sites and a WAN");
    let scene = Scene::build(&SceneSettings::new(Wan::Emulated(wan(parameters))).wire_size_packets());
    let scene = scene.map_err(failure)?;
    let mut gateways = None;
    match phase {
        Phase::Before => scene.route_directly().map_err(failure)?,
        Phase::After => {
            live.announce(phase, "starting a gateway at each site");
            gateways = Some(scene.start_gateways_until(&setup(parameters)?, stop).map_err(failure)?);
        }
    }
    let link = scene.link().ok_or_else(|| Failure::Other("the scene has no emulated WAN".to_owned()))?;
    let load = Load::start(&scene, parameters).map_err(Failure::doing("cannot start the traffic"))?;
    Observation { parameters, stop, link, gateways, load }.run(phase, live)
}

fn failure(error: SceneError) -> Failure {
    match error {
        SceneError::Gateway(GatewayError::Interrupted) => Failure::Interrupted,
        error => Failure::Other(error.to_string()),
    }
}

/// The way back is as fast as the way there: only answers and acknowledgements take it.
fn wan(parameters: &Parameters) -> DuplexSettings {
    let segments = u32::try_from(parameters.core_queue_packets).unwrap_or(u32::MAX);
    let delay = Duration::from_millis(parameters.round_trip_ms) / 2;
    let queue = QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX });
    DuplexSettings::symmetric(LinkSettings::new(parameters.rate(), delay).queue(queue))
}

fn setup(parameters: &Parameters) -> Result<GatewaySetup, Failure> {
    let binary = env::current_exe().map_err(Failure::doing("cannot find this program's file"))?;
    Ok(GatewaySetup {
        lanes: Some(format!("congestion_control = \"{}\"", parameters.congestion_control)),
        classes: Some(classes(parameters)),
        ..GatewaySetup::new(binary, Encryption::Tls)
    })
}

/// The classes of the gateways' files.
pub(super) fn classes(parameters: &Parameters) -> String {
    let tail_drop = |packets| format!("{{ discipline = \"tail-drop\", packets = {packets} }}");
    format!(
        "[[classes]]\nname = \"tcp\"\nmatch = [{{ protocol = \"tcp\" }}]\nqueue = {}\n\n\
         [[classes]]\nname = \"udp\"\nqueue = {}\n",
        tail_drop(parameters.edge_queue_tcp_packets),
        tail_drop(parameters.edge_queue_udp_packets)
    )
}

/// The counters at one instant.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    tcp_bytes: u64,
    udp_bytes: u64,
    transfers: u64,
    drops: Tallies,
    core_bytes: u64,
    edge_bytes: Option<(u64, u64)>,
}

struct Observation<'a> {
    parameters: &'a Parameters,
    stop: &'a Stop,
    link: LinkHandle,
    gateways: Option<Gateways>,
    // After the gateways, so that those end first and no connection closes in order over a full queue.
    load: Load,
}

impl Observation<'_> {
    fn run(mut self, phase: Phase, live: &mut Live) -> Result<Outcome, Failure> {
        let flood_begin = self.load.begin() + self.parameters.lead_in();
        let end = flood_begin + self.parameters.measured();
        let mut samples = Vec::new();
        let mut last = self.read()?;
        // Until the flood begins, totals count from the beginning of the traffic.
        let mut origin = last;
        let mut flooding = false;
        for tick in 1.. {
            let due = self.load.begin() + TICK * tick;
            if due > end {
                break;
            }
            self.sleep_until(due)?;
            let reading = self.read()?;
            samples.push(self.sample(reading, last, origin, flood_begin));
            live.show(phase, &samples, self.parameters);
            last = reading;
            if !flooding && due >= flood_begin {
                flooding = true;
                origin = reading;
                self.load.flood(end - clock::now());
            }
        }
        let (tcp_mbit, udp_mbit) = (mbit(origin, last, |r| r.tcp_bytes), mbit(origin, last, |r| r.udp_bytes));
        let drops = last.drops.since(origin.drops);
        let requests = self.requests(origin.at, last.at);
        let summary = Summary {
            tcp_mbit,
            udp_mbit,
            transfers_completed: last.transfers - origin.transfers,
            request_p50_ms: request_ms(&requests, 0.5),
            request_p99_ms: request_ms(&requests, 0.99),
            core_drop_percent: drops.core.percent(),
            edge_drop_percent: drops.edge().percent(),
            edge_tcp_drop_percent: drops.edge_tcp.percent(),
            edge_udp_drop_percent: drops.edge_udp.percent(),
        };
        Ok(Outcome { samples, requests, summary })
    }

    fn sleep_until(&self, due: Instant) -> Result<(), Failure> {
        while clock::now() < due {
            if self.stop.is_stopped() {
                return Err(Failure::Interrupted);
            }
            clock::sleep_until(due.min(clock::now() + LOOK_AROUND));
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Reading, Failure> {
        let core = self.link.counters(Direction::Forward);
        let core_tally = Tally { offered: core.packets_in, dropped: core.dropped.queue };
        let mut drops = Tallies { core: core_tally, ..Tallies::default() };
        let mut edge_bytes = None;
        if let Some(status) = self.edge()? {
            let classes = status.peers.iter().flat_map(|peer| &peer.classes);
            let (mut tcp, mut udp) = (0, 0);
            for class in classes {
                let (tally, backlog) = match class.name.as_str() {
                    "tcp" => (&mut drops.edge_tcp, &mut tcp),
                    _ => (&mut drops.edge_udp, &mut udp),
                };
                *tally = tally.and(Tally { offered: class.packets, dropped: class.dropped() });
                *backlog += class.backlog_bytes;
            }
            let lost = status.tun.dropped_device_queue;
            drops.device = Tally { offered: lost, dropped: lost };
            edge_bytes = Some((tcp, udp));
        }
        Ok(Reading {
            at: clock::now(),
            tcp_bytes: self.load.tcp_received(),
            udp_bytes: self.load.udp_received(),
            transfers: self.load.transfers(),
            drops,
            core_bytes: core.backlog_bytes,
            edge_bytes,
        })
    }

    /// The state of the sending site's gateway, where there is one.
    fn edge(&mut self) -> Result<Option<Status>, Failure> {
        let Some(gateways) = &mut self.gateways else { return Ok(None) };
        for gateway in Gateway::BOTH {
            gateways.check_alive(gateway).map_err(|error| interrupted_or(self.stop, failure(error)))?;
        }
        match ask(gateways.control_socket(Gateway::T1), ControlRequest::Status) {
            Ok(Answer::Status(status)) => Ok(Some(*status)),
            Ok(_) => Err(Failure::Other("the gateway answered something else than its status".to_owned())),
            Err(error) => Err(interrupted_or(self.stop, Failure::Other(error.to_string()))),
        }
    }

    fn sample(&mut self, now: Reading, last: Reading, origin: Reading, flood_begin: Instant) -> Sample {
        let parameters = self.parameters;
        let at_s = now.at.as_secs_f64() - flood_begin.as_secs_f64();
        Sample {
            at_s,
            tcp_mbit: mbit(last, now, |reading| reading.tcp_bytes),
            udp_mbit: mbit(last, now, |reading| reading.udp_bytes),
            transfers: now.transfers - origin.transfers,
            request: self.request_state(now.at),
            core_ms: parameters.drain_ms(now.core_bytes),
            edge_ms: now.edge_bytes.map(|(tcp, udp)| EdgeBacklog {
                tcp: parameters.drain_ms(tcp),
                udp: parameters.drain_ms(udp),
            }),
            drops: now.drops.since(origin.drops),
        }
    }

    fn request_state(&mut self, now: Instant) -> RequestState {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let interval = self.parameters.request_interval();
        let (mut slowest, mut waiting) = (None, Duration::ZERO);
        for requester in self.load.requesters() {
            slowest = slowest.max(requester.collect());
            waiting = waiting.max(requester.waiting(now, interval));
        }
        match slowest {
            Some(took) if waiting <= took => RequestState::Answered(ms(took)),
            None if waiting.is_zero() => RequestState::Idle,
            _ => RequestState::Waiting(ms(waiting)),
        }
    }

    /// The requests of all connections that were due in `from..to`, in order.
    fn requests(&mut self, from: Instant, to: Instant) -> Vec<Request> {
        let interval = self.parameters.request_interval();
        let mut requests: Vec<Request> = Vec::new();
        for requester in self.load.requesters() {
            requester.collect();
            requests.extend(requester.log(interval).requests(from, to));
        }
        requests.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        requests
    }
}

fn interrupted_or(stop: &Stop, failure: Failure) -> Failure {
    if stop.is_stopped() { Failure::Interrupted } else { failure }
}

fn mbit(from: Reading, to: Reading, of: fn(&Reading) -> u64) -> f64 {
    let seconds = (to.at - from.at).as_secs_f64();
    if seconds > 0.0 { (of(&to) - of(&from)) as f64 * 8.0 / seconds / 1e6 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_gateway_takes_the_classes() {
        let arguments = crate::cli::DemoArguments {
            seconds: 25,
            rate: trunkline_units::Rate::from_mbit(2.0),
            html: None,
            json: false,
        };
        let parameters = Parameters::new(&arguments).expect("parameters");
        let text = format!(
            "name = \"t1\"\nprivate_key_file = \"k\"\n{}\n[[peers]]\nname = \"t2\"\nroutes = [\"198.18.3.0/24\"]\n",
            classes(&parameters)
        );
        let errors =
            trunkline_gateway::config::Config::parse(&text, Path::new("t1.toml")).expect_err("no key");
        assert!(errors.0.iter().all(|error| !error.key.contains("classes")), "{errors}");
    }
}
