//! From an experiment to a scenario: names become places in lists, presets and defaults are spelt out, everything is checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::Table;
use trunkline_sim::TcpTraffic;
use trunkline_tcp::Settings;

use super::graph::Graph;
use super::{general, keys, link, names, proxy, tcp, traffic, trunk};
use crate::experiment::{Experiment, Family, NodeKind};
use trunkline_engine::scenario::{Load, Node, Scenario, Traffic};
use trunkline_schema::{At, Finding, Findings};

/// The most nodes. The simulator's routes take four bytes for each two of them.
pub(super) const MAX_NODES: usize = 4096;
/// The most links, sources, trunks: more than these nodes need.
const MAX_PARTS: usize = 16_384;

/// What parts of an experiment refer to.
pub(super) struct Context<'e> {
    pub(super) experiment: &'e Experiment,
    /// Settings by name; `None` of those with a mistake, which has been told.
    pub(super) tcps: BTreeMap<&'e str, Option<Arc<Settings>>>,
    pub(super) graph: Graph<'e>,
}

/// What an experiment without its sweep runs, if nothing is wrong, and keys of no use to it.
pub(super) fn scenario(experiment: &Experiment, tree: &Table) -> Resolved {
    let findings = Findings::new(tree);
    let scenario = resolve(experiment, &findings.root());
    let (found, misplaced) = findings.into_found();
    Resolved { scenario: scenario.filter(|_| found.is_empty()).ok_or(found), misplaced }
}

/// What came of an experiment.
pub(super) struct Resolved {
    pub(super) scenario: Result<Scenario, Vec<Finding>>,
    pub(super) misplaced: Vec<Finding>,
}

fn resolve(experiment: &Experiment, root: &At<'_>) -> Option<Scenario> {
    let bounds = [
        ("nodes", experiment.nodes.len(), MAX_NODES),
        ("links", experiment.links.len(), MAX_PARTS),
        ("traffic", experiment.traffic.len(), MAX_PARTS),
        ("trunks", experiment.trunks.len(), MAX_PARTS),
        ("tcp", experiment.tcp.len(), MAX_PARTS),
    ];
    if let Some((key, count, most)) = bounds.into_iter().find(|(_, count, most)| count > most) {
        root.key(key).report(format!("are {count}"), format!("up to {most}"));
        return None;
    }
    general::check_point(experiment, root);
    names::check_all(experiment, root);
    let graph = Graph::new(experiment);
    let context = Context { experiment, tcps: tcp::all(experiment, &root.key("tcp")), graph };
    let links = link::all(&context, &root.key("links"));
    let nodes = nodes(&context, root);
    let traffic = traffic::all(&context, &links, &root.key("traffic"));
    let trunk::Trunks { own: trunks, tunnels, disabled } = trunk::all(&context, &root.key("trunks"));
    connections(&traffic, &root.key("traffic"));
    let scenario = Scenario {
        duration: experiment.duration.0,
        end: experiment.end,
        warm_up: experiment.warm_up.0,
        nodes,
        links,
        traffic,
        trunks,
        tunnels,
        disabled,
        series: experiment.series.as_ref().map(|series| (series.every.0, series.of.clone())),
    };
    if scenario.has(Family::Ipv6) {
        link::check_ipv6(&scenario.links, &root.key("links"));
    }
    Some(scenario)
}

impl Context<'_> {
    /// The place of a node, or a mistake.
    pub(super) fn node(&self, at: &At<'_>, name: &str) -> Option<usize> {
        let place = self.experiment.nodes.get_index_of(name);
        if place.is_none() {
            let names = self.experiment.nodes.keys().map(String::as_str);
            at.report(format!("there is no node {name:?}"), keys::listed(names));
        }
        place
    }

    /// The place of a node of this kind, or a mistake.
    pub(super) fn node_of_kind(&self, at: &At<'_>, name: &str, kind: NodeKind) -> Option<usize> {
        let place = self.node(at, name)?;
        if self.experiment.nodes[place] == kind {
            return Some(place);
        }
        let is = |kind| match kind {
            NodeKind::Host => "host",
            NodeKind::Router => "router",
            NodeKind::Gateway => "gateway",
            NodeKind::Proxy => "proxy",
        };
        let fitting = self.experiment.nodes.iter().filter(|(_, of)| **of == kind);
        let problem = format!("{name} is no {}, but a {}", is(kind), is(self.experiment.nodes[place]));
        at.report(problem, keys::listed(fitting.map(|(name, _)| name.as_str())));
        None
    }

    /// The places of hosts.
    pub(super) fn hosts(&self, at: &At<'_>, names: &[String]) -> Vec<usize> {
        let mut places = Vec::with_capacity(names.len());
        for (number, name) in names.iter().enumerate() {
            let at = at.index(number);
            let Some(place) = self.node_of_kind(&at, name, NodeKind::Host) else { continue };
            if places.contains(&place) {
                at.report(format!("{name} is here twice"), "each host once");
            } else {
                places.push(place);
            }
        }
        places
    }

    /// A version of IP, which is the experiment's if nothing else is said.
    pub(super) fn family(&self, own: Option<Family>) -> Family {
        own.or(self.experiment.family).unwrap_or_default()
    }

    /// A TCP by its name, which is this file's or a preset's; `linux-6` without a name.
    pub(super) fn tcp(&self, at: &At<'_>, name: Option<&str>) -> Option<Arc<Settings>> {
        tcp::named(self.experiment, &self.tcps, at, name.unwrap_or("linux-6"))
    }
}

fn nodes(context: &Context<'_>, root: &At<'_>) -> Vec<Node> {
    let experiment = context.experiment;
    if experiment.nodes.is_empty() {
        root.key("nodes").report("there are none", "at least two");
    }
    let proxies = root.key("proxies");
    for name in experiment.proxies.keys() {
        context.node_of_kind(&proxies.key(name), name, NodeKind::Proxy);
    }
    let node = |(name, kind): (&String, &NodeKind)| {
        let spec = experiment.proxies.get(name).filter(|_| *kind == NodeKind::Proxy);
        if spec.is_none() && *kind == NodeKind::Proxy {
            let allowed = "what it does; mode = \"none\": nothing";
            proxies.key(name).report(format!("is missing: {name} is a proxy"), allowed);
        }
        let proxy = spec.and_then(|spec| proxy::proxy(context, &proxies.key(name), spec));
        Node { name: name.clone(), kind: *kind, proxy }
    };
    experiment.nodes.iter().map(node).collect()
}

/// Sources from one host to one port of another have so many connections together at the most.
fn connections(traffic: &[Traffic], at: &At<'_>) {
    let mut users: BTreeMap<([usize; 2], u16), u64> = BTreeMap::new();
    for source in traffic {
        if let Load::Tcp { pattern, .. } = &source.load {
            let all = users.entry((source.ends, source.port)).or_default();
            *all += u64::from(pattern.users());
            if *all > u64::from(TcpTraffic::MAX_CONNECTIONS) {
                let problem = format!("makes it {all} connections between two hosts and to one port");
                let allowed = format!("up to {}", TcpTraffic::MAX_CONNECTIONS);
                at.key(&source.name).key("flows").report(problem, allowed);
            }
        }
    }
}
