//! This machine's kernel as an engine: hosts are network namespaces, links are emulated, gateways are processes, time is real.
//!
//! What disturbs a run is measured in the run: packets that the emulator delivered late, and CPU time that the hypervisor took away.
//! A run that was disturbed beyond a bound is made again, as often as the engine says.

mod build;
mod gateway;
mod paths;
mod proxies;
mod sources;
mod tcp;
mod tunnels;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trunkline_queue::{DropReason, Stats};
use trunkline_sim::ProxyStats;
use trunkline_status::{Peer, Status};
use trunkline_testbed::congestion::Loaded;
use trunkline_testbed::generator::Generator;
use trunkline_testbed::kernel::Kernel;
use trunkline_testbed::link::Direction;
use trunkline_testbed::network;
use trunkline_testbed::tunnel::TunnelError;
use trunkline_testbed::{clock, procfs};
use trunkline_units::Instant;

use super::measure::{Counters, LinkCounters, Network, TrunkCounters, measure};
use super::{Control, EngineError};
use crate::catalogue::measured::{ClassState, Disturbance, Lane, LinkState, NodeCounts, QueueReading, User};
use crate::catalogue::way;
use crate::outcome::Outcome;
use crate::scenario::{Family, Scenario};
use build::Plan;
use gateway::{Gateways, class_state, trunk_counters};
use proxies::Proxies;
use tunnels::Tunnels;

/// Packets that may be delivered more than 1 ms late, of all.
const MAX_LATE: f64 = 0.02;
/// CPU time that the hypervisor may take away, of all.
const MAX_STOLEN: f64 = 0.05;
/// How often a run looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);
/// The age at which what a gateway said of itself is asked for again. Each answer costs the gateway about a millisecond.
const STATUS_AGE: Duration = Duration::from_millis(100);
/// From the moment at which everything stands to the start of the run.
const LEAD: Duration = Duration::from_millis(200);

/// A part of a scenario that this machine cannot be.
#[derive(Debug)]
struct Misfit {
    part: String,
    problem: String,
}

impl Misfit {
    fn new(part: impl Into<String>, problem: impl Into<String>) -> Self {
        Misfit { part: part.into(), problem: problem.into() }
    }
}

impl From<Misfit> for EngineError {
    fn from(misfit: Misfit) -> Self {
        EngineError::Misfit { part: misfit.part, problem: misfit.problem }
    }
}

fn machine(error: impl std::fmt::Display) -> EngineError {
    EngineError::Machine(error.to_string())
}

/// Whether this machine can carry out a scenario.
pub(super) fn check(scenario: &Scenario) -> Result<(), EngineError> {
    plan(scenario, 0).map(drop)
}

/// How this machine carries a scenario out, or what of it it cannot be.
fn plan(scenario: &Scenario, seed: u64) -> Result<Plan, EngineError> {
    let kernel = Kernel::read().map_err(machine)?;
    if scenario.has(Family::Ipv6) && !network::has_ipv6() {
        let problem = "is \"ipv6\", which the kernel of this machine does not have; allowed: \"ipv4\"";
        return Err(Misfit::new("family", problem).into());
    }
    gateway::check(scenario)?;
    proxies::check(scenario)?;
    tunnels::check(scenario)?;
    check_kernel_queues(scenario)?;
    Ok(build::plan(scenario, &kernel, seed)?)
}

/// Whether this machine's kernel has the disciplines that are asked for.
fn check_kernel_queues(scenario: &Scenario) -> Result<(), Misfit> {
    for link in &scenario.links {
        for side in 0..2 {
            let Some(queue) = build::kernel_queue(link, side) else { continue };
            queue.check().map_err(|error| {
                let part = format!("links.{}.queue.kernel", way(&link.name, side));
                let allowed = "allowed: what tc and the kernel of this machine have";
                Misfit::new(part, format!("is {:?}: {error}; {allowed}", queue.discipline))
            })?;
        }
    }
    Ok(())
}

pub(super) fn run(
    scenario: &Scenario,
    seed: u64,
    (program, attempts): (Option<&Path>, u32),
    control: Control<'_>,
) -> Result<Outcome, EngineError> {
    let plan = plan(scenario, seed)?;
    let mut discarded = 0;
    loop {
        let mut run = Run::start(scenario, &plan, (program, seed), control.stop)?;
        run.disturbance.discarded = discarded;
        let outcome = measure(scenario, &mut run, control.watch);
        let disturbance = run.disturbance;
        run.end()?;
        let mut outcome = outcome?;
        discarded += 1;
        if discarded >= attempts || !is_disturbed(&disturbance) {
            outcome.substitutions = plan.substitutions.iter().cloned().collect();
            return Ok(outcome);
        }
    }
}

fn is_disturbed(disturbance: &Disturbance) -> bool {
    disturbance.late as f64 > MAX_LATE * disturbance.delivered as f64 || disturbance.stolen > MAX_STOLEN
}

/// What each node's gateway said, and when.
type Statuses = Vec<Option<(Instant, Status)>>;

/// A run that goes on.
struct Run<'s> {
    scenario: &'s Scenario,
    // In the order in which they are to go.
    generator: Generator,
    gateways: Option<Gateways>,
    proxies: Option<Proxies>,
    tunnels: Tunnels,
    network: network::Network,
    _loaded: Vec<Arc<Loaded>>,
    statuses: Statuses,
    /// When it began, by the machine's clock.
    begin: Instant,
    /// Of the machine, then: CPU time of all, and stolen.
    cpu: (Duration, Duration),
    disturbance: Disturbance,
    has_peaks: bool,
    stop: &'s AtomicBool,
}

impl<'s> Run<'s> {
    fn start(
        scenario: &'s Scenario,
        plan: &Plan,
        (program, seed): (Option<&Path>, u64),
        stop: &'s AtomicBool,
    ) -> Result<Self, EngineError> {
        let loaded = plan.to_load.iter().map(|which| Loaded::get(*which).map_err(machine));
        let loaded = loaded.collect::<Result<_, _>>()?;
        let network = network::Network::new(&plan.network).map_err(machine)?;
        let gateways = match (scenario.trunks.is_empty(), program) {
            (true, _) => None,
            (false, None) => {
                let problem = "need gateways, and the program of one was not given";
                return Err(Misfit::new("trunks", problem).into());
            }
            (false, Some(program)) => Some(
                Gateways::start(scenario, network.hosts(), program, &plan.lanes, stop).map_err(machine)?,
            ),
        };
        let proxies = match (proxies::any(scenario), program) {
            (false, _) => None,
            (true, None) => {
                let problem = "need processes, and the program of one was not given";
                return Err(Misfit::new("proxies", problem).into());
            }
            (true, Some(program)) => {
                let what = (program, &plan.proxy_buffers[..]);
                Some(Proxies::start(scenario, network.hosts(), what, stop).map_err(machine)?)
            }
        };
        let tunnels = Tunnels::start(scenario, network.hosts(), stop).map_err(|error| match error {
            TunnelError::Interrupted => EngineError::Stopped,
            error => machine(error),
        })?;
        if stop.load(Ordering::Relaxed) {
            return Err(EngineError::Stopped);
        }
        let generator = sources::generator(scenario, plan, network.hosts(), seed).map_err(machine)?;
        let begin = clock::now() + LEAD;
        generator.start(begin);
        network.start_changes(begin);
        clock::sleep_until(begin);
        Ok(Run {
            scenario,
            generator,
            gateways,
            proxies,
            tunnels,
            network,
            _loaded: loaded,
            statuses: scenario.nodes.iter().map(|_| None).collect(),
            begin,
            cpu: procfs::machine_stolen().map_err(machine)?,
            disturbance: Disturbance::default(),
            has_peaks: true,
            stop,
        })
    }

    /// Ends it in order.
    fn end(mut self) -> Result<(), EngineError> {
        drop(self.generator);
        self.tunnels.end().map_err(machine)?;
        self.proxies.as_mut().map_or(Ok(()), Proxies::end).map_err(machine)?;
        self.gateways.as_mut().map_or(Ok(()), Gateways::end).map_err(machine)
    }

    /// What a gateway says of a trunk, no older than [`STATUS_AGE`].
    fn status(&mut self, trunk: usize, side: usize) -> Option<&Peer> {
        let trunk = &self.scenario.trunks[trunk];
        let node = trunk.gateways[side];
        let known = &mut self.statuses[node];
        let now = clock::now();
        if known.as_ref().is_none_or(|(at, _)| now.saturating_since(*at) >= STATUS_AGE) {
            let status = self.gateways.as_ref()?.status(node).ok()?;
            *known = Some((now, status));
        }
        known.as_ref().and_then(|(_, status)| gateway::peer(status, &trunk.name).ok())
    }

    /// One way of a link. A kernel's discipline says how much it has in it, and not for how long.
    fn link_counters(&self, link: usize, way: Direction) -> Result<LinkCounters, EngineError> {
        let reading = self.network.links()[link].reading(way);
        let Some(queue) = self.network.kernel_queue(link, way) else {
            let now = clock::now().max(reading.at);
            let queue = QueueReading::new(&reading.queue, now);
            return Ok(LinkCounters { queue, stats: reading.link, sent_for: reading.busy });
        };
        let counters = queue.counters().map_err(machine)?;
        let mut stats = Stats::default();
        stats.segments_out = counters.packets_out;
        stats.bytes_out = counters.bytes_out;
        stats.segments_in = counters.packets_out + counters.dropped + counters.backlog_packets;
        // For which reason it does not say.
        stats.dropped[DropReason::SegmentLimit as usize] = counters.dropped;
        Ok(LinkCounters {
            queue: QueueReading { stats, occupancy: None, has_peaks: false },
            stats: reading.link,
            sent_for: queue.time_to_send(counters.bytes_out),
        })
    }

    fn nodes(&self) -> Result<Vec<NodeCounts>, EngineError> {
        let hosts = self.network.hosts().iter();
        hosts
            .map(|host| {
                host.run(procfs::discard_counters).map(|counters| node_counts(&counters)).map_err(machine)
            })
            .collect()
    }

    /// What disturbed the run so far.
    fn disturbed(&self) -> Result<Disturbance, EngineError> {
        let mut disturbance = Disturbance { discarded: self.disturbance.discarded, ..Disturbance::default() };
        for counters in
            self.network.links().iter().flat_map(|link| Direction::BOTH.map(|way| link.counters(way)))
        {
            disturbance.delivered += counters.packets_out;
            disturbance.late += counters.late_packets;
            disturbance.late_max = disturbance.late_max.max(counters.late_peak);
        }
        let (all, stolen) = procfs::machine_stolen().map_err(machine)?;
        let all = all.saturating_sub(self.cpu.0).as_secs_f64();
        disturbance.stolen =
            if all > 0.0 { stolen.saturating_sub(self.cpu.1).as_secs_f64() / all } else { 0.0 };
        Ok(disturbance)
    }
}

/// A count of the kernel's that stands for two of the simulator's is in the first.
fn node_counts(counters: &procfs::DiscardCounters) -> NodeCounts {
    NodeCounts {
        unreachable: Some(counters.unreachable),
        ttl_expired: Some(counters.header_errors),
        // Of TCP the kernel has no such counter.
        no_listener: None,
        malformed: Some(counters.truncated),
        corrupted: Some(counters.corrupted),
        reassembly_failures: Some(counters.reassembly_failures),
    }
}

impl Network for Run<'_> {
    fn now(&self) -> Instant {
        Instant::ZERO + clock::now().saturating_since(self.begin)
    }

    fn run_until(&mut self, at: Instant, awaited: &[usize]) -> Result<bool, EngineError> {
        let end = self.begin + at.saturating_since(Instant::ZERO);
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(EngineError::Stopped);
            }
            if let Some(gateways) = &mut self.gateways {
                gateways.check_alive().map_err(machine)?;
            }
            if let Some(proxies) = &mut self.proxies {
                proxies.check_alive().map_err(machine)?;
            }
            self.tunnels.check_alive().map_err(machine)?;
            let now = clock::now();
            if now >= end {
                return Ok(false);
            }
            let next = end.min(now + LOOK);
            if awaited.is_empty() {
                clock::sleep_until(next);
            } else if self.generator.wait_until_over(awaited, next) {
                return Ok(true);
            }
        }
    }

    fn reset_peaks(&mut self) {
        self.network.reset_peaks();
        // A gateway counts its peaks from its start.
        self.has_peaks = self.now() < Instant::ZERO + LOOK;
        self.generator.reset_peaks();
    }

    fn counters(&mut self) -> Result<Counters, EngineError> {
        let at = self.now();
        let links = (0..self.network.links().len()).map(|link| -> Result<_, EngineError> {
            let [there, back] = Direction::BOTH.map(|way| self.link_counters(link, way));
            Ok([there?, back?])
        });
        let links = links.collect::<Result<_, _>>()?;
        let mut trunks: Vec<[TrunkCounters; 2]> = Vec::new();
        if let Some(gateways) = &self.gateways {
            // Once for each gateway, however many trunks it has.
            let statuses = (0..self.scenario.nodes.len()).map(|node| gateways.status(node));
            let statuses = statuses.collect::<Result<Vec<_>, _>>().map_err(machine)?;
            for trunk in &self.scenario.trunks {
                let side = |node: usize| {
                    let peer = gateway::peer(&statuses[node], &trunk.name).map_err(machine)?;
                    Ok::<_, EngineError>(trunk_counters(peer, self.has_peaks))
                };
                trunks.push([side(trunk.gateways[0])?, side(trunk.gateways[1])?]);
            }
        }
        let proxies = match &self.proxies {
            Some(proxies) => proxies.stats().map_err(machine)?,
            None => vec![ProxyStats::default(); self.scenario.nodes.len()],
        };
        let counters = Counters {
            at,
            sources: self.generator.reading().sources.iter().map(sources::counters).collect(),
            links,
            trunks,
            proxies,
            nodes: self.nodes()?,
        };
        self.disturbance = self.disturbed()?;
        Ok(counters)
    }

    fn link_backlog(&self, link: usize, side: usize) -> u32 {
        let way = Direction::BOTH[side];
        // A kernel that does not answer now is asked again at the end, which then fails.
        let kernel = self.network.kernel_queue(link, way).and_then(|queue| queue.counters().ok());
        kernel.map_or_else(
            || self.network.links()[link].counters(way).backlog_packets,
            |counters| counters.backlog_packets,
        ) as u32
    }

    fn class_backlog(&mut self, trunk: usize, side: usize, class: usize) -> u32 {
        self.class(trunk, side, class).packets as u32
    }

    fn received(&self, source: usize) -> u64 {
        sources::received(&self.generator, source)
    }

    fn user(&self, source: usize, user: u32) -> User {
        sources::user(&self.generator, source, user)
    }

    fn link(&self, link: usize, side: usize) -> LinkState {
        let way = Direction::BOTH[side];
        let reading = self.network.links()[link].reading(way);
        let mut state = LinkState {
            packets: reading.queue.backlog_segments,
            bytes: reading.queue.backlog_bytes,
            sent_for: reading.busy,
            delivered_bytes: reading.link.delivered_bytes,
            drops: reading.queue.dropped_total(),
        };
        let kernel = self.network.kernel_queue(link, way);
        if let Some((queue, counters)) = kernel.and_then(|queue| Some((queue, queue.counters().ok()?))) {
            state.packets = counters.backlog_packets;
            state.bytes = counters.backlog_bytes;
            state.sent_for = queue.time_to_send(counters.bytes_out);
            state.drops = counters.dropped;
        }
        state
    }

    fn class(&mut self, trunk: usize, side: usize, class: usize) -> ClassState {
        self.status(trunk, side).and_then(|peer| peer.classes.get(class)).map(class_state).unwrap_or_default()
    }

    fn lane(&mut self, trunk: usize, side: usize, lane: usize) -> Option<Lane> {
        gateway::lane(self.status(trunk, side)?.lanes.get(lane)?)
    }

    fn disturbance(&self) -> Option<Disturbance> {
        Some(self.disturbance)
    }

    fn digest(&self) -> String {
        String::new()
    }
}
