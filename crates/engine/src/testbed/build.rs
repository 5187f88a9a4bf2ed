//! A scenario as a network of namespaces: what each host's kernel, each route and each socket is set to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use trunkline_sim::NodeId;
use trunkline_tcp::Settings;
use trunkline_testbed::generator;
use trunkline_testbed::kernel::Kernel;
use trunkline_testbed::network::{LinkBetween, NetworkSettings, NodeSettings, RouteTcp};

use super::Misfit;
use super::sources::sockets;
use super::tcp::{KernelTcp, kernel_tcp};
use crate::scenario::{Carrier, Load, NodeKind, ProxyMode, Scenario};

/// The address of a node: the one that it has in the simulator.
pub(super) fn address(node: usize) -> Ipv4Addr {
    NodeId::nth(node).address()
}

/// A scenario as this machine is to carry it out.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) network: NetworkSettings,
    /// What each source sends, and with which sockets.
    pub(super) loads: Vec<generator::Load>,
    /// For each trunk: the congestion control of its lanes, if not the gateway's own choice.
    pub(super) lanes: Vec<Option<&'static str>>,
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
    substitutions: BTreeSet<String>,
}

/// Decides how this machine carries a scenario out, or says what of it it cannot be.
pub(super) fn plan(scenario: &Scenario, kernel: &Kernel, seed: u64) -> Result<Plan, Misfit> {
    for node in &scenario.nodes {
        if node.proxy.as_ref().is_some_and(|proxy| proxy.mode != ProxyMode::None) {
            let problem = "does something; allowed on this engine: mode = \"none\"";
            return Err(Misfit::new(format!("proxies.{}", node.name), problem));
        }
    }
    let mut planner = Planner {
        scenario,
        kernel,
        sysctls: vec![Sysctls::new(); scenario.nodes.len()],
        routes: BTreeMap::new(),
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
    let mut lanes = Vec::new();
    for trunk in &scenario.trunks {
        let part = format!("trunks.{}", trunk.name);
        let congestion_control = match trunk.carrier {
            Carrier::Tcp => {
                let tcp = [Arc::clone(&trunk.tcp), Arc::clone(&trunk.tcp)];
                let [near, _] = planner.connection(&part, trunk.gateways, &tcp)?;
                near.congestion_control
            }
            // That of a gateway's QUIC lanes is not the kernel's but the simulator's.
            Carrier::Datagrams => trunk.tcp.congestion_control.name(),
        };
        let is_named = trunk
            .plan
            .groups
            .iter()
            .all(|group| group.congestion_control != trunkline_trunk::CongestionControl::AsOpened);
        lanes.push((!is_named).then_some(congestion_control));
    }
    let Planner { sysctls, routes, substitutions, .. } = planner;
    let nodes = scenario.nodes.iter().zip(sysctls).enumerate();
    let nodes = nodes.map(|(node, (settings, sysctls))| NodeSettings {
        name: settings.name.clone(),
        address: address(node),
        forwards: settings.kind != NodeKind::Host,
        sysctls: sysctls.into_iter().map(|(name, (value, _))| (name.to_owned(), value)).collect(),
        without_route_to: beyond(scenario, node),
    });
    let links = scenario.links.iter().map(|link| LinkBetween { ends: link.ends, ways: link.ways.clone() });
    Ok(Plan {
        network: NetworkSettings {
            nodes: nodes.collect(),
            links: links.collect(),
            tcp: routes.into_iter().map(|(ends, (tcp, _))| (ends, tcp)).collect(),
            seed,
        },
        loads,
        lanes,
        substitutions,
    })
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
            let name = &self.scenario.nodes[node].name;
            for (sysctl, value) in &tcp.sysctls {
                let entry = (value.clone(), part.to_owned());
                let (known, by) = &*self.sysctls[node].entry(sysctl).or_insert(entry);
                if known != value {
                    let problem = format!(
                        "needs {sysctl} = {value} at {name}, where {by} needs {known}; allowed on this engine: one value for each host (give it a host of its own)"
                    );
                    return Err(Misfit::new(part, problem));
                }
            }
            let route = RouteTcp {
                initial_window: Some(tcp.initial_window),
                initial_ssthresh: tcp.initial_ssthresh,
                quick_acks: tcp.quick_acks,
            };
            let entry = (route, part.to_owned());
            let (known, by) = &*self.routes.entry((node, peer)).or_insert(entry);
            if *known != route {
                let problem = format!(
                    "needs another initial window, initial ssthresh or delay of acknowledgements from {name} than {by}; allowed on this engine: one for each pair of hosts"
                );
                return Err(Misfit::new(part, problem));
            }
            self.substitutions.extend(tcp.substitutions.iter().cloned());
        }
        Ok(both)
    }
}
