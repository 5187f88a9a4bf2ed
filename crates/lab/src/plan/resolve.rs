//! From an experiment to a scenario: names become places in lists, presets and defaults are spelt out, everything is checked.

use std::collections::BTreeMap;

use toml::Table;
use trunkline_sim::TcpTraffic;

use super::context::Context;
use super::graph::Graph;
use super::{general, link, names, proxy, tcp, traffic, trunk};
use crate::experiment::{Experiment, Family, NodeKind};
use trunkline_engine::scenario::{Load, Node, Scenario, Traffic};
use trunkline_schema::{At, Finding, Findings};

/// The most nodes. The simulator's routes take four bytes for each two of them.
pub(super) const MAX_NODES: usize = 4096;
/// The most links, sources, trunks: more than these nodes need.
const MAX_PARTS: usize = 16_384;

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
