//! Links: what each says, what the one that it is `like` says, and what the way back has that is different.

use super::context::Context;
use super::keys;
use super::way::Layers;
use crate::experiment::LinkSpec;
use trunkline_engine::scenario::Link;
use trunkline_link::LinkSettings;
use trunkline_schema::At;

/// What every link of an IPv6 path takes, bytes (RFC 8200 §5).
const MIN_MTU_IPV6: u32 = 1280;

/// The links, those that are like another in their own places.
pub(super) fn all(context: &Context<'_>, at: &At<'_>) -> Vec<Link> {
    let links = &context.experiment.links;
    let link = |(name, spec): (&String, &LinkSpec)| {
        let here = at.key(name);
        let ends = ends(context, &here, spec);
        let ways = ways(context, at, name);
        let (ways, kernel_queues) = ways?;
        Some(Link { name: name.clone(), ends: ends?, ways, kernel_queues })
    };
    if links.is_empty() {
        at.report("there are none", "at least one");
    }
    links.iter().filter_map(link).collect()
}

/// Checks that links are what IPv6 needs.
pub(super) fn check_ipv6(links: &[Link], at: &At<'_>) {
    for link in links {
        for (side, way) in link.ways.iter().enumerate() {
            if way.mtu < MIN_MTU_IPV6 {
                let problem = format!("is {} B{}", way.mtu, if side == 1 { " on the way back" } else { "" });
                let allowed = "1280 to 65535 bytes where something sends IPv6 (RFC 8200 §5)";
                at.key(&link.name).key("mtu").report(problem, allowed);
                break;
            }
        }
    }
}

fn ends(context: &Context<'_>, at: &At<'_>, spec: &LinkSpec) -> Option<[usize; 2]> {
    let at = at.key("ends");
    let Some([a, b]) = &spec.ends else {
        at.report("is missing", "two nodes, such as [\"a\", \"b\"]");
        return None;
    };
    let places = [context.node(&at.index(0), a), context.node(&at.index(1), b)];
    let [Some(a), Some(b)] = places else { return None };
    if a == b {
        at.report("has the same node twice", "two nodes");
        return None;
    }
    Some([a, b])
}

/// A link and those it is like, nearest first; `None` with a mistake.
fn ancestry<'e>(context: &'e Context<'_>, at: &At<'_>, name: &'e str) -> Option<Vec<&'e str>> {
    let links = &context.experiment.links;
    let mut chain = vec![name];
    let mut last = name;
    while let Some(next) = links[last].like.as_deref() {
        let here = at.key(last).key("like");
        if !links.contains_key(next) {
            here.report(format!("there is no link {next:?}"), keys::listed(links.keys().map(String::as_str)));
            return None;
        }
        if chain.contains(&next) {
            chain.push(next);
            here.report(
                format!("goes in a circle: {}", chain.join(", ")),
                "a link that is not like this one",
            );
            return None;
        }
        chain.push(next);
        last = next;
    }
    Some(chain)
}

/// Both ways, and the kernel's discipline in front of each.
type Ways = ([LinkSettings; 2], [Option<String>; 2]);

fn ways(context: &Context<'_>, at: &At<'_>, name: &str) -> Option<Ways> {
    let links = &context.experiment.links;
    let chain = ancestry(context, at, name)?;
    let there: Vec<_> = chain.iter().map(|name| (at.key(name), &links[*name])).collect();
    if links[name].back.is_some() {
        let at = at.key(name).key("back");
        let given = ["ends", "like", "back"].map(|key| (key, at.key(key).is_given()));
        keys::only(&at, "a way back", &HAS, &given);
    }
    let backs = there.iter().filter_map(|(at, spec)| Some((at.key("back"), spec.back.as_deref()?)));
    let back: Vec<_> = backs.chain(there.iter().cloned()).collect();
    let differs = back.len() > there.len();
    let kernel_queues = [&there, &back].map(|layers| Layers(layers).kernel_queue());
    let there = Layers(&there).settings();
    let back = if differs { Layers(&back).settings() } else { there.clone() };
    Some(([there?, back?], kernel_queues))
}

/// What a way back may have of its own.
const HAS: [&str; 12] = [
    "rate",
    "deliveries",
    "delay",
    "queue",
    "mtu",
    "loss",
    "corruption",
    "duplication",
    "jitter",
    "mobile",
    "changes",
    "repeat",
];
