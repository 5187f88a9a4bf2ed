//! A scenario as a network of namespaces: what each host's kernel, each route and each socket is set to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use trunkline_queue::Limits;
use trunkline_sim::{LaneSocket, NodeId};
use trunkline_tcp::Settings;
use trunkline_testbed::congestion::Loadable;
use trunkline_testbed::generator;
use trunkline_testbed::kernel::Kernel;
use trunkline_testbed::network::{KernelQueue, LinkBetween, NetworkSettings, NodeSettings, RouteTcp};
use trunkline_trunk::Transport;
use trunkline_units::Rate;

use super::Misfit;
use super::paths::detours;
use super::sources::{bounded, sockets};
use super::tcp::{KernelTcp, kernel_tcp};
use crate::scenario::{Family, Link, Load, NodeKind, ProxyMode, Scenario};

/// The address of a node: the one that it has in the simulator.
pub(super) fn address(node: usize, family: Family) -> IpAddr {
    NodeId::nth(node).ip(family.version())
}

/// The addresses of a node in a scenario.
pub(super) fn addresses(scenario: &Scenario, node: usize) -> Vec<IpAddr> {
    let families = [Some(Family::Ipv4), scenario.has(Family::Ipv6).then_some(Family::Ipv6)];
    families.into_iter().flatten().map(|family| address(node, family)).collect()
}

/// A host's address as a prefix.
pub(super) fn prefix(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
}

/// A scenario as this machine is to carry it out.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) network: NetworkSettings,
    /// What each source sends, and with which sockets.
    pub(super) loads: Vec<generator::Load>,
    /// For each trunk: the congestion control of its lanes, if not the gateway's own choice.
    pub(super) lanes: Vec<Option<String>>,
    /// For each node: the bytes that the sockets of its proxy hold in each direction, if they are bounded.
    pub(super) proxy_buffers: Vec<Option<u64>>,
    /// Congestion controls that are to be loaded into the kernel.
    pub(super) to_load: BTreeSet<Loadable>,
    /// What is different from what the scenario asks for.
    pub(super) substitutions: BTreeSet<String>,
}

/// A kernel's settings for a node, each with the part that asked for it.
type Sysctls = BTreeMap<&'static str, (String, String)>;

struct Planner<'s> {
    scenario: &'s Scenario,
    kernel: &'s Kernel,
    sysctls: Vec<Sysctls>,
    routes: BTreeMap<(usize, usize), (RouteTcp, String)>,
    /// For each node that sends: whether its TCP builds super-packets, and the part that asked.
    super_packets: BTreeMap<usize, (bool, String)>,
    to_load: BTreeSet<Loadable>,
    substitutions: BTreeSet<String>,
}

/// Decides how this machine carries a scenario out, or says what of it it cannot be.
pub(super) fn plan(scenario: &Scenario, kernel: &Kernel, seed: u64) -> Result<Plan, Misfit> {
    let mut planner = Planner {
        scenario,
        kernel,
        sysctls: vec![Sysctls::new(); scenario.nodes.len()],
        routes: BTreeMap::new(),
        super_packets: BTreeMap::new(),
        to_load: BTreeSet::new(),
        substitutions: BTreeSet::new(),
    };
    let mut loads = Vec::new();
    for traffic in &scenario.traffic {
        let part = format!("traffic.{}", traffic.name);
        loads.push(match &traffic.load {
            Load::Tcp { tcp, pattern } => {
                let sockets = Box::new(sockets(&planner.connection(&part, traffic.ends, tcp)?));
                generator::Load::Tcp { pattern: pattern.clone(), sockets }
            }
            Load::Udp { data, timing } => generator::Load::Udp { data: *data, timing: timing.clone() },
        });
    }
    let mut proxy_buffers = vec![None; scenario.nodes.len()];
    for (node, buffer) in proxy_buffers.iter_mut().enumerate() {
        *buffer = planner.proxy(node)?;
    }
    let mut lanes = Vec::new();
    for trunk in &scenario.trunks {
        let part = format!("trunks.{}", trunk.name);
        if trunk.socket != LaneSocket::default() {
            let problem = "asks for sockets of another program; allowed on this engine: those of the gateway";
            return Err(Misfit::new(format!("{part}.lane_socket"), problem));
        }
        let over_tcp = trunk.plan.groups.iter().any(|group| group.transport == Transport::Tcp);
        let congestion_control = if over_tcp {
            let tcp = [Arc::clone(&trunk.tcp), Arc::clone(&trunk.tcp)];
            let [near, _] = planner.connection(&part, trunk.gateways, &tcp)?;
            if near.loads.is_some() {
                let problem = format!(
                    "asks for congestion control {} on its lanes; allowed on this engine: one of the kernel's own ({})",
                    trunk.tcp.congestion_control.name(),
                    kernel.congestion_controls.join(", ")
                );
                return Err(Misfit::new(part, problem));
            }
            near.congestion_control
        } else {
            // That of a gateway's QUIC lanes is not the kernel's but the simulator's.
            trunk.tcp.congestion_control.name().to_owned()
        };
        let is_named = trunk
            .plan
            .groups
            .iter()
            .all(|group| group.congestion_control != trunkline_trunk::CongestionControl::AsOpened);
        lanes.push((!is_named).then_some(congestion_control));
    }
    let Planner { sysctls, routes, super_packets, to_load, substitutions, .. } = planner;
    let nodes = scenario.nodes.iter().zip(sysctls).enumerate();
    let nodes = nodes.map(|(node, (settings, sysctls))| NodeSettings {
        name: settings.name.clone(),
        addresses: addresses(scenario, node),
        forwards: settings.kind != NodeKind::Host,
        sysctls: sysctls.into_iter().map(|(name, (value, _))| (name.to_owned(), value)).collect(),
        without_route_to: beyond(scenario, node),
        super_packets: super_packets.get(&node).is_some_and(|(builds, _)| *builds),
    });
    let links = scenario.links.iter().map(link_between);
    Ok(Plan {
        network: NetworkSettings {
            nodes: nodes.collect(),
            links: links.collect(),
            detours: detours(scenario).into_iter().flatten().collect(),
            tcp: routes.into_iter().map(|(ends, (tcp, _))| (ends, tcp)).collect(),
            seed,
        },
        loads,
        lanes,
        proxy_buffers,
        to_load,
        substitutions,
    })
}

/// A link whose queues are the emulator's, or the kernel's with the link's rate: what then follows has no limit.
fn link_between(link: &Link) -> LinkBetween {
    let mut ways = link.ways.clone();
    let kernel_queues = [0, 1].map(|side| kernel_queue(link, side));
    for (way, _) in ways.iter_mut().zip(&kernel_queues).filter(|(_, queue)| queue.is_some()) {
        way.rate = Rate::MAX;
        way.queue = way.queue.with_limits(Limits { segments: u32::MAX, bytes: u64::MAX });
    }
    LinkBetween { ends: link.ends, ways, kernel_queues }
}

/// The kernel's discipline in front of one way of a link.
pub(super) fn kernel_queue(link: &Link, side: usize) -> Option<KernelQueue> {
    let discipline = link.kernel_queues[side].clone()?;
    Some(KernelQueue { discipline, rate: link.ways[side].rate, mtu: link.ways[side].mtu })
}

/// Nodes that a gateway reaches by its trunks and tunnels.
fn beyond(scenario: &Scenario, gateway: usize) -> BTreeSet<usize> {
    let trunks = scenario.trunks.iter().map(|trunk| (&trunk.gateways, &trunk.sites));
    let tunnels = scenario.tunnels.iter().map(|tunnel| (&tunnel.gateways, &tunnel.sites));
    let sides = trunks.chain(tunnels).flat_map(|ends| [0, 1].map(|side| (ends, side)));
    let own = sides.filter(|((gateways, _), side)| gateways[*side] == gateway);
    own.flat_map(|((_, sites), side)| sites[1 - side].iter().copied()).collect()
}

impl Planner<'_> {
    /// Sets up the node of a proxy for its connections, to hosts behind and to those that talk with them.
    fn proxy(&mut self, node: usize) -> Result<Option<u64>, Misfit> {
        let settings = &self.scenario.nodes[node];
        let (ProxyMode::Split(tcps) | ProxyMode::PathTail(tcps, _)) =
            settings.proxy.as_ref().map_or(&ProxyMode::None, |proxy| &proxy.mode)
        else {
            return Ok(None);
        };
        let part = format!("proxies.{}", settings.name);
        let behind = settings.proxy.as_ref().map_or(&[][..], |proxy| &proxy.behind);
        let mut buffer = None;
        for (towards_behind, tcp) in tcps.iter().enumerate().map(|(side, tcp)| (side == 1, tcp)) {
            let own = kernel_tcp(tcp, self.kernel).map_err(|problem| Misfit::new(&*part, problem))?;
            // A network namespace may have another algorithm by default only if every user may choose it.
            let control = &own.congestion_control;
            let default = (control == UNRESTRICTED).then(|| ("tcp_congestion_control", control.clone()));
            if default.is_none() {
                let kernel =
                    format!("{}: a proxy has the congestion control that this host has by default", tcp.name);
                self.substitutions.insert(kernel);
            }
            let sysctls = own.sysctls.iter().map(|(name, value)| (*name, value.clone()));
            for (sysctl, value) in sysctls.chain(default) {
                self.sysctl(node, (sysctl, value), &part)?;
            }
            let peers = self.scenario.traffic.iter().flat_map(|traffic| traffic.ends);
            let peers: BTreeSet<usize> =
                peers.filter(|peer| behind.contains(peer) == towards_behind).collect();
            for peer in peers {
                self.route((node, peer), &own, &part)?;
            }
            let bounded = bounded(own.send_buffer.min(own.receive_window)).map(u64::from);
            buffer = buffer.into_iter().chain(bounded).min();
            let segments = format!("{}: a proxy's segments are as long as the path takes", tcp.name);
            self.substitutions.insert(segments);
            self.substitutions.extend(own.substitutions);
        }
        Ok(buffer.map(|bytes: u64| bytes.max(MIN_BUFFER)))
    }

    fn sysctl(
        &mut self,
        node: usize,
        (sysctl, value): (&'static str, String),
        part: &str,
    ) -> Result<(), Misfit> {
        let name = &self.scenario.nodes[node].name;
        let entry = (value.clone(), part.to_owned());
        let (known, by) = &*self.sysctls[node].entry(sysctl).or_insert(entry);
        if *known != value {
            let problem = format!(
                "needs {sysctl} = {value} at {name}, where {by} needs {known}; allowed on this engine: one value for each host (give it a host of its own)"
            );
            return Err(Misfit::new(part, problem));
        }
        Ok(())
    }

    fn super_packets(&mut self, node: usize, builds: bool, part: &str) -> Result<(), Misfit> {
        let (known, by) = &*self.super_packets.entry(node).or_insert((builds, part.to_owned()));
        if *known != builds {
            let problem = format!(
                "needs tso = {builds} at {}, where {by} needs {known}; allowed on this engine: one value for each host (give it a host of its own)",
                self.scenario.nodes[node].name
            );
            return Err(Misfit::new(part, problem));
        }
        Ok(())
    }

    fn route(&mut self, ends: (usize, usize), tcp: &KernelTcp, part: &str) -> Result<(), Misfit> {
        let route = RouteTcp {
            initial_window: Some(tcp.initial_window),
            initial_ssthresh: tcp.initial_ssthresh,
            quick_acks: tcp.quick_acks,
        };
        let (known, by) = &*self.routes.entry(ends).or_insert((route, part.to_owned()));
        if *known != route {
            let problem = format!(
                "needs another initial window, initial ssthresh or delay of acknowledgements from {} than {by}; allowed on this engine: one for each pair of hosts",
                self.scenario.nodes[ends.0].name
            );
            return Err(Misfit::new(part, problem));
        }
        Ok(())
    }

    /// Sets up two nodes for connections between them.
    fn connection(
        &mut self,
        part: &str,
        ends: [usize; 2],
        tcp: &[Arc<Settings>; 2],
    ) -> Result<[KernelTcp; 2], Misfit> {
        let own = |tcp: &Settings| kernel_tcp(tcp, self.kernel).map_err(|problem| Misfit::new(part, problem));
        let both = [own(&tcp[0])?, own(&tcp[1])?];
        for (side, tcp) in both.iter().enumerate() {
            let (node, peer) = (ends[side], ends[1 - side]);
            for (sysctl, value) in &tcp.sysctls {
                self.sysctl(node, (*sysctl, value.clone()), part)?;
            }
            self.route((node, peer), tcp, part)?;
            self.super_packets(node, tcp.super_packets, part)?;
            self.to_load.extend(tcp.loads);
            self.substitutions.extend(tcp.substitutions.iter().cloned());
        }
        Ok(both)
    }
}

/// The congestion control that every user may choose, whatever the machine allows.
const UNRESTRICTED: &str = "reno";

/// What a proxy's buffers are at the least.
const MIN_BUFFER: u64 = 16 << 10;
