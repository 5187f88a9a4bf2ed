//! Trunks: sites, classes, lanes.

use std::collections::BTreeMap;

use trunkline_engine::scenario::{Trunk, Tunnel};
use trunkline_engine::tunnel_programs;
use trunkline_schema::{At, Classes, Encryption, LanesSpec, Resolver, RuleSpec, check_reserved};
use trunkline_sim::{LaneSocket, NodeId, TrunkSettings};
use trunkline_trunk::{CongestionControl, LaneGroup, Transport, TrunkPlan};

use super::check::Check;
use super::context::Context;
use super::keys;
use super::paths::on_paths;
use super::way::queue_key;
use crate::experiment::{NodeKind, TrunkSpec};

/// The trunks of an experiment.
#[derive(Default)]
pub(super) struct Trunks {
    /// Those of gateways of ours.
    pub(super) own: Vec<Trunk>,
    pub(super) tunnels: Vec<Tunnel>,
    /// Names of those that have no gateways of ours.
    pub(super) disabled: Vec<String>,
}

/// Trunks that are enabled, tunnels in their place, and the names of the others.
pub(super) fn all(context: &Context<'_>, at: &At<'_>) -> Trunks {
    let mut all = Trunks::default();
    for (place, (name, spec)) in context.experiment.trunks.iter().enumerate() {
        let at = at.key(name);
        if let Some(program) = &spec.program {
            let tunnel = tunnel(context, &at, (name, spec, program));
            all.tunnels.extend(tunnel.filter(|_| spec.enabled));
            all.disabled.push(name.clone());
            continue;
        }
        let trunk = trunk(context, &at, (place, name, spec));
        if spec.enabled {
            all.own.extend(trunk);
        } else {
            all.disabled.push(name.clone());
        }
    }
    disjoint(context, at, &all);
    all
}

/// The places of both gateways.
fn gateways(context: &Context<'_>, at: &At<'_>, spec: &TrunkSpec) -> [Option<usize>; 2] {
    let ends = at.key("gateways");
    let [near, far] = &spec.gateways;
    let near = context.node_of_kind(&ends.index(0), near, NodeKind::Gateway);
    let far = context.node_of_kind(&ends.index(1), far, NodeKind::Gateway);
    [near, far]
}

/// Both gateways and the hosts behind each, if that makes sense.
fn places(
    context: &Context<'_>,
    at: &At<'_>,
    spec: &TrunkSpec,
    gateways: [usize; 2],
) -> Option<[Vec<usize>; 2]> {
    let ends = at.key("gateways");
    if gateways[0] == gateways[1] {
        ends.report("has the same gateway twice", "two gateways");
        return None;
    }
    if !context.graph.is_whole() {
        return None;
    }
    if !context.graph.reaches(gateways[0], gateways[1]) {
        ends.report("there is no way from one to the other", "gateways that links join");
        return None;
    }
    sites(context, at, spec, gateways)
}

/// A tunnel of another program.
fn tunnel(
    context: &Context<'_>,
    at: &At<'_>,
    (name, spec, program): (&str, &TrunkSpec, &str),
) -> Option<Tunnel> {
    let known = tunnel_programs();
    let is_known = known.contains(&program);
    if !is_known {
        at.key("program").report(format!("is {program:?}"), keys::listed(known));
    }
    let of_ours = [
        ("family", spec.family.is_some()),
        ("tcp", spec.tcp.is_some()),
        ("encryption", spec.encryption.is_some()),
        ("reserved", spec.reserved.is_some()),
        ("lane_socket", spec.lane_socket.is_some()),
        ("paths", !spec.paths.is_empty()),
        ("lanes", spec.lanes != LanesSpec::default()),
        ("classes", spec.classes != Classes::default()),
    ];
    for (key, _) in of_ours.into_iter().filter(|(_, said)| *said) {
        at.key(key).report(format!("has no meaning for {program}"), "not beside program: that is a trunk's");
    }
    let [near, far] = gateways(context, at, spec);
    let gateways = [near?, far?];
    let sites = places(context, at, spec, gateways)?;
    is_known.then(|| Tunnel { name: name.to_owned(), gateways, sites, program: program.to_owned() })
}

fn trunk(
    context: &Context<'_>,
    at: &At<'_>,
    (place, name, spec): (usize, &str, &TrunkSpec),
) -> Option<Trunk> {
    let [near, far] = gateways(context, at, spec);
    let tcp = context.tcp(&at.key("tcp"), spec.tcp.as_deref());
    let before = at.mistakes();
    if spec
        .lane_socket
        .and_then(|socket| socket.unsent)
        .is_some_and(|unsent| !(1..=1 << 30).contains(&unsent.0))
    {
        at.key("lane_socket").key("unsent").refuse("1 B to 1 GiB");
    }
    let (plan, hosts) = plan(context, at, spec);
    let gateways = [near?, far?];
    let (plan, path_links) = on_paths(context, at, spec, gateways, &plan);
    let is_right = at.mistakes() == before;
    let sites = places(context, at, spec, gateways)?;
    let tcp = tcp?;
    let nodes = sites.each_ref().map(|site| site.iter().map(|node| NodeId::nth(*node)).collect());
    let settings = TrunkSettings {
        path_ends: vec![gateways.map(NodeId::nth); path_links.len()],
        ..TrunkSettings::new(nodes, plan.clone(), (*tcp).clone())
    };
    if !is_right {
        return None;
    }
    let checked = settings.check();
    let holds = checked.is_ok();
    at.check(checked, |place| key(place, spec));
    holds.then(|| Trunk {
        name: name.to_owned(),
        place,
        gateways,
        sites,
        family: context.family(spec.family),
        tcp,
        plan,
        path_links,
        hosts,
        site: spec.site(),
        sealed: spec.encryption != Some(Encryption::None),
        socket: spec.lane_socket.map(LaneSocket::from).unwrap_or_default(),
    })
}

/// The hosts behind each gateway.
fn sites(
    context: &Context<'_>,
    at: &At<'_>,
    spec: &TrunkSpec,
    gateways: [usize; 2],
) -> Option<[Vec<usize>; 2]> {
    let at = at.key("sites");
    if let Some([near, far]) = &spec.sites {
        let sites = [context.hosts(&at.index(0), near), context.hosts(&at.index(1), far)];
        for (side, site) in sites.iter().enumerate() {
            if site.is_empty() {
                at.index(side).report("has no host", "at least one host");
            }
        }
        if let Some(host) = sites[0].iter().find(|host| sites[1].contains(host)) {
            at.report(format!("{} is on both sides", context.graph.name(*host)), "each host on one side");
            return None;
        }
        return Some(sites).filter(|sites| sites.iter().all(|site| !site.is_empty()));
    }
    let distances = gateways.map(|gateway| context.graph.distances(gateway));
    let mut sites = [Vec::new(), Vec::new()];
    let mut between = Vec::new();
    for host in context.graph.hosts() {
        match (distances[0][host], distances[1][host]) {
            (Some(near), Some(far)) if near < far => sites[0].push(host),
            (Some(near), Some(far)) if near > far => sites[1].push(host),
            (Some(_), Some(_)) => between.push(context.graph.name(host)),
            (Some(_), None) => sites[0].push(host),
            (None, Some(_)) => sites[1].push(host),
            (None, None) => {}
        }
    }
    let allowed = "the hosts behind each gateway, such as [[\"a\"], [\"b\"]]";
    if !between.is_empty() {
        let problem = format!(
            "is missing, and needed: as near to one gateway as to the other are {}",
            keys::listed(between)
        );
        at.report(problem, allowed);
        return None;
    }
    if let Some(side) = sites.iter().position(Vec::is_empty) {
        let gateway = context.graph.name(gateways[side]);
        at.report(format!("is missing, and needed: no host is nearer to {gateway}"), allowed);
        return None;
    }
    Some(sites)
}

/// A gateway has one trunk to each host.
fn disjoint(context: &Context<'_>, at: &At<'_>, all: &Trunks) {
    let mut toward: BTreeMap<(usize, usize), &str> = BTreeMap::new();
    let trunks = all.own.iter().map(|trunk| (&trunk.name, &trunk.gateways, &trunk.sites));
    let tunnels = all.tunnels.iter().map(|tunnel| (&tunnel.name, &tunnel.gateways, &tunnel.sites));
    for (name, gateways, sites) in trunks.chain(tunnels) {
        for side in 0..2 {
            for &host in &sites[1 - side] {
                let gateway = gateways[side];
                let first = *toward.entry((gateway, host)).or_insert(name);
                if first != name {
                    let [gateway, host] = [gateway, host].map(|node| context.graph.name(node));
                    let problem = format!("takes packets from {gateway} to {host}, as {first} does");
                    let at = at.key(name).key("sites");
                    at.report(problem, "sites that keep trunks of one gateway apart");
                    return;
                }
            }
        }
    }
}

/// The plan of the trunk, and the hosts that each rule of each class names.
fn plan(context: &Context<'_>, at: &At<'_>, spec: &TrunkSpec) -> (TrunkPlan, Vec<Vec<[Option<usize>; 2]>>) {
    let resolver = Resolver {
        // A rule names hosts, whose addresses are known once the network is built.
        prefix: &|_, _| None,
        congestion_control: match spec.tcp {
            Some(_) => CongestionControl::AsOpened,
            None => CongestionControl::ByPath,
        },
        retransmission_filter: true,
        max_lanes: TrunkPlan::MAX_LANES as u8,
        either_transport: false,
        paths: !spec.paths.is_empty(),
    };
    let mut plan = resolver.plan(at, &spec.lanes, &spec.classes);
    plan.reserved = spec.reserved.map(|rate| check_reserved(&at.key("reserved"), rate, &plan));
    let over_tcp = |group: &LaneGroup| group.transport == Transport::Tcp;
    if spec.encryption == Some(Encryption::None) && spec.has_quic() && plan.groups.iter().any(over_tcp) {
        let problem = "is \"none\", and some lanes are over QUIC, which are always encrypted";
        at.key("encryption").report(problem, "\"tls\"");
    }
    let at = at.key("classes");
    let classes = spec.classes.list();
    let hosts = classes.iter().enumerate().map(|(place, class)| {
        let at = at.index(place).key("match");
        let rules = class.rules.iter().flatten().enumerate();
        rules.map(|(place, rule)| hosts(context, &at.index(place), rule)).collect()
    });
    (plan, hosts.collect())
}

/// The source and the destination of a rule.
fn hosts(context: &Context<'_>, at: &At<'_>, rule: &RuleSpec) -> [Option<usize>; 2] {
    let host = |key: &str, name: Option<&String>| context.node_of_kind(&at.key(key), name?, NodeKind::Host);
    [host("source", rule.source.as_ref()), host("destination", rule.destination.as_ref())]
}

/// The file's key for a place in a trunk's settings.
fn key(place: &str, spec: &TrunkSpec) -> String {
    let place = place
        .split_once("].")
        .filter(|(first, _)| first.starts_with("plans["))
        .map_or(place, |(_, rest)| rest);
    if place.starts_with("tcp[") {
        return "tcp".to_owned();
    }
    let numbered = place.strip_prefix("classes[").and_then(|rest| rest.split_once("]."));
    let Some((number, rest)) = numbered.filter(|_| matches!(spec.classes, Classes::List(_))) else {
        return "classes".to_owned();
    };
    let rest = match rest.split_once('.') {
        Some(("queue", rest)) => format!("queue.{}", queue_key(rest)),
        Some(("share", rest)) => rest.to_owned(),
        _ if rest == "filters_retransmissions" => "retransmission_filter".to_owned(),
        _ if rest == "replicates" => "replicate".to_owned(),
        _ => rest.to_owned(),
    };
    format!("classes[{number}].{rest}")
}
