//! A scenario as a network of the simulator.
//!
//! Parts are added in the scenario's order, and those of the file that are not enabled are left out by their place, so that what is random
//! in a part is the same whether others are enabled or not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::{
    Cell, LinkId, Network, NodeId, ProxyId, ProxyMode, ProxySettings, SourceId, TcpTraffic, TrunkId,
    TrunkSettings, UdpTraffic,
};
use trunkline_trunk::{Rule, Transport, TrunkPlan};
use trunkline_units::Rate;

use super::EngineError;
use crate::scenario::{self, Family, Load, NodeKind, Scenario};

/// A network, and where in it the parts of its scenario are.
pub(super) struct Built {
    pub(super) network: Network,
    pub(super) nodes: Vec<NodeId>,
    /// For each node.
    pub(super) proxies: Vec<Option<ProxyId>>,
    pub(super) links: Vec<[LinkId; 2]>,
    pub(super) sources: Vec<SourceId>,
    pub(super) trunks: Vec<TrunkId>,
    /// A gateway's interface to a link that is one of several paths: a router between the two, by gateway and link.
    interfaces: BTreeMap<(usize, usize), NodeId>,
}

pub(super) fn build(scenario: &Scenario, seed: u64) -> Result<Built, EngineError> {
    let mut network = Network::new(seed);
    if scenario.nodes.len() >= NodeId::MAX as usize {
        return Err(misfit("nodes", format!("are {}; allowed: {}", scenario.nodes.len(), NodeId::MAX - 1)));
    }
    let (mut nodes, mut proxies) = (Vec::new(), Vec::new());
    for place in 0..scenario.nodes.len() {
        let (id, proxy) = add_node(&mut network, scenario, place)?;
        nodes.push(id);
        proxies.push(proxy);
    }
    let mut built = Built {
        network,
        nodes,
        proxies,
        links: Vec::new(),
        sources: Vec::new(),
        trunks: Vec::new(),
        interfaces: BTreeMap::new(),
    };
    built.add_interfaces(scenario);
    for (place, link) in scenario.links.iter().enumerate() {
        built.add_link(place, link)?;
    }
    built.join_interfaces(scenario);
    let mut next = 0;
    for traffic in &scenario.traffic {
        (next..traffic.place).for_each(|_| built.network.skip_source());
        built.add_traffic(traffic)?;
        next = traffic.place + 1;
    }
    let mut next = 0;
    for trunk in &scenario.trunks {
        (next..trunk.place).for_each(|_| built.network.skip_trunk());
        built.add_trunk(scenario, trunk)?;
        next = trunk.place + 1;
    }
    built.network.check().map_err(|error| settings("network", error))?;
    Ok(built)
}

fn settings(part: &str, error: impl Into<trunkline_sim::SettingsError>) -> EngineError {
    EngineError::Settings { part: part.to_owned(), error: error.into() }
}

fn misfit(part: &str, problem: String) -> EngineError {
    EngineError::Misfit { part: part.to_owned(), problem }
}

fn add_node(
    network: &mut Network,
    scenario: &Scenario,
    place: usize,
) -> Result<(NodeId, Option<ProxyId>), EngineError> {
    let node = &scenario.nodes[place];
    let has_trunk = || scenario.trunks.iter().any(|trunk| trunk.gateways.contains(&place));
    Ok(match node.kind {
        NodeKind::Host => (network.host(&node.name), None),
        NodeKind::Gateway if has_trunk() => (network.gateway(&node.name), None),
        NodeKind::Router | NodeKind::Gateway => (network.router(&node.name), None),
        NodeKind::Proxy => match node.proxy.as_ref().and_then(proxy_settings) {
            Some(proxy) => {
                proxy.check().map_err(|error| settings(&format!("proxies.{}", node.name), error))?;
                let (id, proxy) = network.proxy(&node.name, proxy);
                (id, Some(proxy))
            }
            None => (network.router(&node.name), None),
        },
    })
}

/// `None` of one that does nothing.
fn proxy_settings(proxy: &scenario::Proxy) -> Option<ProxySettings> {
    let some = |nodes: &[usize]| nodes.iter().map(|node| NodeId::nth(*node)).collect::<Vec<_>>();
    let cell = |cell: &scenario::Cell| Cell {
        nodes: some(&cell.hosts),
        link: cell.link,
        buffer: cell.buffer,
        each_alone: cell.each_alone,
    };
    let mode = match &proxy.mode {
        scenario::ProxyMode::None => return None,
        scenario::ProxyMode::Split(tcp) => ProxyMode::Split(tcp.clone()),
        scenario::ProxyMode::PathTail(tcp, cells) => {
            ProxyMode::PathTail(tcp.clone(), cells.iter().map(cell).collect())
        }
        scenario::ProxyMode::ClampWindow(bytes) => ProxyMode::ClampWindow(*bytes),
        scenario::ProxyMode::Freeze(after) => ProxyMode::Freeze { after: *after },
        scenario::ProxyMode::ClampToRoom(room) => ProxyMode::ClampToRoom { room: *room },
        scenario::ProxyMode::RegulateAcks(room) => ProxyMode::RegulateAcks { room: *room },
    };
    Some(ProxySettings { behind: some(&proxy.behind), mode })
}

impl Built {
    /// Adds the interfaces of gateways to the links that are paths of trunks.
    fn add_interfaces(&mut self, scenario: &Scenario) {
        for trunk in &scenario.trunks {
            let ends = trunk.path_links.iter().flat_map(|links| trunk.gateways.into_iter().zip(*links));
            for (gateway, link) in ends.filter_map(|(gateway, link)| Some((gateway, link?))) {
                let name = || format!("{}/{}", scenario.nodes[gateway].name, scenario.links[link].name);
                let network = &mut self.network;
                self.interfaces.entry((gateway, link)).or_insert_with(|| network.router(&name()));
            }
        }
    }

    /// Joins each interface to its gateway, without delay.
    fn join_interfaces(&mut self, scenario: &Scenario) {
        for (&(gateway, link), &interface) in &self.interfaces {
            let [there, back] = &scenario.links[link].ways;
            let within = LinkSettings {
                mtu: there.mtu.min(back.mtu),
                ..LinkSettings::new(Rate::MAX, Duration::ZERO)
                    .queue(QueueSettings::TailDrop(Limits { segments: u32::MAX, bytes: u64::MAX }))
            };
            self.network.connect(self.nodes[gateway], interface, &within, &within);
        }
    }

    /// The node at which lanes end that leave a gateway by this link.
    fn end(&self, gateway: usize, link: Option<usize>) -> NodeId {
        let interface = link.and_then(|link| self.interfaces.get(&(gateway, link)));
        interface.copied().unwrap_or(self.nodes[gateway])
    }

    fn add_link(&mut self, place: usize, link: &scenario::Link) -> Result<(), EngineError> {
        let part = format!("links.{}", link.name);
        let [a, b] = link.ends.map(|end| self.end(end, Some(place)));
        if a == b {
            return Err(misfit(&part, "ends where it begins; allowed: two nodes".to_owned()));
        }
        for (way, place) in link.ways.iter().zip([part.clone(), format!("{part}.back")]) {
            way.check().map_err(|error| settings(&place, error))?;
        }
        self.links.push(self.network.connect(a, b, &link.ways[0], &link.ways[1]));
        Ok(())
    }

    fn add_traffic(&mut self, traffic: &scenario::Traffic) -> Result<(), EngineError> {
        let part = format!("traffic.{}", traffic.name);
        let [from, to] = traffic.ends.map(|end| self.nodes[end]);
        let scenario::Traffic { port, dscp, start, stop, .. } = *traffic;
        self.network.set_version(traffic.family.version());
        let id = match &traffic.load {
            Load::Tcp { tcp, pattern } => {
                let (tcp, pattern) = (tcp.clone(), pattern.clone());
                let users = pattern.users();
                let tcp = TcpTraffic { client: from, server: to, port, dscp, tcp, start, stop, pattern };
                tcp.check().map_err(|error| settings(&part, error))?;
                let before = self.network.connections_to(from, to, port);
                let max = u64::from(TcpTraffic::MAX_CONNECTIONS);
                if before + u64::from(users) > max {
                    let problem = format!(
                        "makes {} connections from one node to one port of another; allowed: up to {max} (give it another port)",
                        before + u64::from(users)
                    );
                    return Err(misfit(&part, problem));
                }
                self.network.tcp(tcp)
            }
            Load::Udp { data, timing } => {
                let (data, timing) = (*data, timing.clone());
                let udp = UdpTraffic { from, to, port, dscp, data, start, stop, timing };
                udp.check().map_err(|error| settings(&part, error))?;
                self.network.udp(udp)
            }
        };
        self.sources.push(id);
        Ok(())
    }

    fn add_trunk(&mut self, scenario: &Scenario, trunk: &scenario::Trunk) -> Result<(), EngineError> {
        let part = format!("trunks.{}", trunk.name);
        for gateway in trunk.gateways {
            if scenario.nodes[gateway].kind != NodeKind::Gateway {
                let problem = format!("ends at {}, which is no gateway", scenario.nodes[gateway].name);
                return Err(misfit(&part, problem));
            }
        }
        if trunk.gateways[0] == trunk.gateways[1] {
            return Err(misfit(&part, "ends where it begins; allowed: two gateways".to_owned()));
        }
        check_apart(scenario, trunk, &part)?;
        let ends = trunk.gateways.map(|gateway| self.nodes[gateway]);
        let own = self.trunk_settings(scenario, trunk);
        own.check().map_err(|error| settings(&part, error))?;
        self.network.set_version(trunk.family.version());
        self.trunks.push(self.network.trunk(ends, own));
        Ok(())
    }

    fn trunk_settings(&self, scenario: &Scenario, trunk: &scenario::Trunk) -> TrunkSettings {
        let tcp = &trunk.tcp;
        let plan = self.plan(scenario, trunk);
        let users = |traffic: &scenario::Traffic| match &traffic.load {
            Load::Tcp { pattern, .. } => pattern.users() as usize,
            Load::Udp { .. } => 1,
        };
        let flows: usize = scenario.traffic.iter().map(users).sum();
        TrunkSettings {
            sites: trunk.sites.each_ref().map(|site| site.iter().map(|node| self.nodes[*node]).collect()),
            plans: [plan.clone(), plan],
            tcp: [Arc::clone(tcp), Arc::clone(tcp)],
            sealed: trunk.sealed,
            socket: trunk.socket,
            // Both directions of each, and as many again that are over.
            flows: (flows * 4).clamp(1 << 12, 1 << 20),
            path_ends: trunk
                .path_links
                .iter()
                .map(|links| [0, 1].map(|side| self.end(trunk.gateways[side], links[side])))
                .collect(),
        }
    }

    /// The trunk's plan, with prefixes for the hosts that its rules name, of each version of IP that hosts send.
    fn plan(&self, scenario: &Scenario, trunk: &scenario::Trunk) -> TrunkPlan {
        let mut plan = trunk.plan.clone();
        let families = [Some(Family::Ipv4), scenario.sends(Family::Ipv6).then_some(Family::Ipv6)];
        for (class, hosts) in plan.classes.iter_mut().zip(&trunk.hosts) {
            let mut rules = Vec::with_capacity(class.rules.len());
            let hosts = hosts.iter().copied().chain(std::iter::repeat([None; 2]));
            for (rule, hosts) in class.rules.drain(..).zip(hosts) {
                if hosts == [None, None] {
                    rules.push(rule);
                    continue;
                }
                for family in families.into_iter().flatten() {
                    let [source, destination] =
                        hosts.map(|host| host.map(|node| self.nodes[node].ip(family.version()).into()));
                    rules.push(Rule {
                        source: source.or(rule.source),
                        destination: destination.or(rule.destination),
                        ..rule.clone()
                    });
                }
            }
            class.rules = rules;
        }
        plan
    }
}

/// Lanes over QUIC do not look for what the path takes, and nothing fragments their packets over IPv6.
pub(super) fn check_quic(scenario: &Scenario) -> Result<(), EngineError> {
    let is_narrow = |link: &&scenario::Link| link.ways.iter().any(|way| way.mtu < QUIC_PACKET);
    let over_quic = |trunk: &&scenario::Trunk| {
        let mut groups = trunk.plan.groups.iter();
        trunk.family == Family::Ipv6 && groups.any(|group| group.transport != Transport::Tcp)
    };
    let (Some(trunk), Some(link)) =
        (scenario.trunks.iter().find(over_quic), scenario.links.iter().find(is_narrow))
    else {
        return Ok(());
    };
    let problem = format!(
        "has lanes over QUIC and IPv6, whose packets have {QUIC_PACKET} bytes, and links.{} takes fewer; allowed on this engine: an mtu of {QUIC_PACKET} B or more (or lanes over TCP)",
        link.name
    );
    Err(misfit(&format!("trunks.{}", trunk.name), problem))
}

/// Bytes of a full packet of a lane over QUIC and IPv6.
const QUIC_PACKET: u32 = 1500;

/// A gateway sends the packets for a node into one trunk.
fn check_apart(scenario: &Scenario, trunk: &scenario::Trunk, part: &str) -> Result<(), EngineError> {
    let beyond = |trunk: &scenario::Trunk, gateway: usize| -> Vec<usize> {
        let sides = (0..2).filter(|side| trunk.gateways[*side] == gateway);
        sides.flat_map(|side| trunk.sites[1 - side].clone()).collect()
    };
    let others = scenario.trunks.iter().take_while(|other| !std::ptr::eq(*other, trunk));
    for other in others {
        for gateway in trunk.gateways {
            let taken = beyond(other, gateway);
            if let Some(node) = beyond(trunk, gateway).into_iter().find(|node| taken.contains(node)) {
                let problem = format!(
                    "and trunk {} both lead from {} to {}; allowed: one (say which hosts in sites)",
                    other.name, scenario.nodes[gateway].name, scenario.nodes[node].name
                );
                return Err(misfit(part, problem));
            }
        }
    }
    Ok(())
}
