//! Trunks: sites, classes, lanes.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use trunkline_queue::Share;
use trunkline_sim::gateway::DatagramLaneSettings;
use trunkline_sim::{Lanes, NodeId, TrunkSettings};
use trunkline_trunk::compress::Compression;
use trunkline_trunk::{AdmissionSettings, ClassId, ClassSettings, LaneGroup, Over, TrunkPlan};

use super::check::Check;
use super::resolve::Context;
use super::{keys, queue, rules};
use crate::experiment::{Carrier, ClassSpec, NodeKind, TrunkSpec};
use crate::scenario::Trunk;
use trunkline_schema::At;

/// The class of a trunk that names none.
const ALL: &str = "all";

/// Trunks that are enabled, and the names of the others.
pub(super) fn all(context: &Context<'_>, at: &At<'_>) -> (Vec<Trunk>, Vec<String>) {
    let (mut trunks, mut disabled) = (Vec::new(), Vec::new());
    for (place, (name, spec)) in context.experiment.trunks.iter().enumerate() {
        let trunk = trunk(context, &at.key(name), (place, name, spec));
        if spec.enabled {
            trunks.extend(trunk);
        } else {
            disabled.push(name.clone());
        }
    }
    disjoint(context, at, &trunks);
    (trunks, disabled)
}

fn trunk(
    context: &Context<'_>,
    at: &At<'_>,
    (place, name, spec): (usize, &str, &TrunkSpec),
) -> Option<Trunk> {
    let ends = at.key("gateways");
    let [near, far] = &spec.gateways;
    let near = context.node_of_kind(&ends.index(0), near, NodeKind::Gateway);
    let far = context.node_of_kind(&ends.index(1), far, NodeKind::Gateway);
    let tcp = context.tcp(&at.key("tcp"), spec.tcp.as_deref());
    let (plan, hosts) = plan(context, at, spec);
    if spec.carrier == Carrier::Datagrams {
        for (key, on) in
            [("compression", spec.compression), ("edge_pacing", spec.edge_pacing), ("sealed", spec.sealed)]
        {
            if on {
                at.key(key).report("is true", "false: lanes of datagrams have none");
            }
        }
    }
    let gateways = [near?, far?];
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
    let sites = sites(context, at, spec, gateways)?;
    let (plan, tcp) = (plan?, tcp?);
    let lanes = match spec.carrier {
        Carrier::Tcp => Lanes::Tcp([Arc::clone(&tcp), Arc::clone(&tcp)]),
        Carrier::Datagrams => Lanes::Datagrams(DatagramLaneSettings { tcp: Arc::clone(&tcp), segment: 1500 }),
    };
    let nodes = sites.each_ref().map(|site| site.iter().map(|node| NodeId::nth(*node)).collect());
    let settings = TrunkSettings { lanes, ..TrunkSettings::new(nodes, plan.clone(), (*tcp).clone()) };
    let checked = settings.check();
    let holds = checked.is_ok();
    at.check(checked, |place| key(place, &plan, spec));
    holds.then(|| Trunk {
        name: name.to_owned(),
        place,
        gateways,
        sites,
        tcp,
        carrier: spec.carrier,
        plan,
        hosts,
        sealed: spec.sealed,
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
fn disjoint(context: &Context<'_>, at: &At<'_>, trunks: &[Trunk]) {
    let mut toward: BTreeMap<(usize, usize), &str> = BTreeMap::new();
    for trunk in trunks {
        for side in 0..2 {
            for &host in &trunk.sites[1 - side] {
                let gateway = trunk.gateways[side];
                let first = *toward.entry((gateway, host)).or_insert(&trunk.name);
                if first != trunk.name {
                    let [gateway, host] = [gateway, host].map(|node| context.graph.name(node));
                    let problem = format!("takes packets from {gateway} to {host}, as {first} does");
                    let at = at.key(&trunk.name).key("sites");
                    at.report(problem, "sites that keep trunks of one gateway apart");
                    return;
                }
            }
        }
    }
}

type Plan = (Option<TrunkPlan>, Vec<Vec<[Option<usize>; 2]>>);

fn plan(context: &Context<'_>, at: &At<'_>, spec: &TrunkSpec) -> Plan {
    let one = IndexMap::from([(ALL.to_owned(), ClassSpec::default())]);
    let specs = if spec.classes.is_empty() { &one } else { &spec.classes };
    let mut groups: IndexMap<&str, u8> = IndexMap::new();
    for (name, class) in specs {
        let group = class.lane.as_deref().unwrap_or(name);
        groups.entry(group).or_insert_with(|| {
            spec.lanes.get(group).map_or(1, |lanes| (*lanes).clamp(1, TrunkPlan::MAX_LANES as u8))
        });
    }
    for (group, lanes) in &spec.lanes {
        let at = at.key("lanes").key(group);
        if !groups.contains_key(group.as_str()) {
            at.report("no class is on these lanes", keys::listed(groups.keys().copied()));
        } else if !(1..=TrunkPlan::MAX_LANES).contains(&usize::from(*lanes)) {
            at.refuse("1 to 32");
        }
    }
    let at = at.key("classes");
    if specs.len() > TrunkPlan::MAX_CLASSES {
        at.report(format!("are {}", specs.len()), format!("up to {}", TrunkPlan::MAX_CLASSES));
        return (None, Vec::new());
    }
    let overs: Vec<&str> = specs.values().filter_map(|class| class.flows.as_ref()?.over.as_deref()).collect();
    let (mut classes, mut hosts) = (Vec::new(), Vec::new());
    let mut catch_all: Option<&str> = None;
    for (name, class) in specs {
        let at = at.key(name);
        if let Some(first) = catch_all.filter(|_| !overs.contains(&name.as_str())) {
            at.report(format!("gets no packet: {first} before it takes all"), "classes without match last");
        }
        if class.rules.is_empty() {
            catch_all = catch_all.or(Some(name));
        }
        let each = class.rules.iter().enumerate();
        let rules = each.map(|(number, rule)| rules::rule(context, &at.key("match").index(number), rule));
        let (rules, ends): (Vec<_>, Vec<_>) = rules.unzip();
        let lane = class.lane.as_deref().unwrap_or(name);
        let weight = class.weight.unwrap_or(1);
        if !(1..=1000).contains(&weight) {
            at.key("weight").refuse("1 to 1000");
        }
        classes.push(ClassSettings {
            share: Share {
                weight: weight.max(1),
                guarantee: class.guarantee.map(|rate| rate.0),
                ceiling: class.ceiling.map(|rate| rate.0),
                priority: class.priority.unwrap_or(false),
            },
            admission: admission(&at, (name, class), specs),
            filters_retransmissions: class.repeat_filter.unwrap_or(spec.carrier == Carrier::Tcp),
            ..ClassSettings::new(
                name,
                rules,
                queue::settings(&at.key("queue"), class.queue.as_ref()),
                groups.get_index_of(lane).unwrap_or_default(),
            )
        });
        hosts.push(ends);
    }
    let groups = groups.into_iter().map(|(name, lanes)| LaneGroup {
        dscp: spec.dscp.unwrap_or(0),
        compression: if spec.compression { Compression::On } else { Compression::Off },
        ..LaneGroup::new(name, lanes)
    });
    (Some(TrunkPlan { classes, groups: groups.collect(), edge_pacing: spec.edge_pacing }), hosts)
}

fn admission(
    at: &At<'_>,
    (name, class): (&str, &ClassSpec),
    classes: &IndexMap<String, ClassSpec>,
) -> Option<AdmissionSettings> {
    let flows = class.flows.as_ref()?;
    let at = at.key("flows");
    if flows.limit == 0 {
        at.key("limit").refuse("1 or more flows");
    }
    let Some(over) = flows.over.as_deref() else {
        return Some(AdmissionSettings { limit: flows.limit, over: Over::Refuse });
    };
    let Some(place) = classes.get_index_of(over).filter(|_| over != name) else {
        let others = classes.keys().map(String::as_str).filter(|other| *other != name);
        at.key("over").report(format!("there is no other class {over:?}"), keys::listed(others));
        return None;
    };
    let over = Over::Class(ClassId(u8::try_from(place).unwrap_or_default()));
    Some(AdmissionSettings { limit: flows.limit, over })
}

/// The file's key for a place in a trunk's settings.
fn key(place: &str, plan: &TrunkPlan, spec: &TrunkSpec) -> String {
    let place = place
        .split_once("].")
        .filter(|(first, _)| first.starts_with("plans["))
        .map_or(place, |(_, rest)| rest);
    if place.starts_with("lanes.") {
        return "tcp".to_owned();
    }
    if let Some(group) = place.strip_prefix("groups") {
        let own = group.split_once("].").is_some_and(|(_, key)| key == "dscp");
        return if own { "dscp" } else { "lanes" }.to_owned();
    }
    let numbered = place.strip_prefix("classes[").and_then(|rest| rest.split_once("]."));
    let Some((number, rest)) = numbered else { return place.to_owned() };
    let class = number.parse::<usize>().ok().and_then(|number| plan.classes.get(number));
    let Some(class) = class.filter(|_| !spec.classes.is_empty()) else { return "classes".to_owned() };
    let rest = match rest.split_once('.') {
        Some(("queue", rest)) => format!("queue.{}", queue::key(rest)),
        Some(("share", rest)) => rest.to_owned(),
        _ if rest == "filters_retransmissions" => "repeat_filter".to_owned(),
        _ => rest.to_owned(),
    };
    format!("classes.{}.{rest}", class.name)
}
