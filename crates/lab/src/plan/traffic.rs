//! Traffic.

use std::sync::Arc;

use trunkline_tcp::Settings;
use trunkline_workload::{Assignment, Distribution, Pattern, Timing};

use super::check::Check;
use super::context::Context;
use super::keys;
use crate::experiment::{
    AssignmentName, DistributionSpec, Family, LoadSpec, NodeKind, Shape, TimingName, TrafficKind, TrafficSpec,
};
use crate::quantity::{Size, Time};
use trunkline_engine::scenario::{Link, Load, Traffic};
use trunkline_schema::At;
use trunkline_units::Rate;

/// Connections, users.
const FLOWS: &str = "1 to 50000";

/// Connections at a time where requests arrive by themselves, unless the file says how many (Cangialosi et al. 2021 §7.1).
const CONNECTIONS: u32 = 200;

pub(super) fn all(context: &Context<'_>, links: &[Link], at: &At<'_>) -> Vec<Traffic> {
    let sources = &context.experiment.traffic;
    if sources.is_empty() {
        at.report("there is none", "at least one source");
    }
    let sources = sources.iter().enumerate();
    let sources = sources
        .map(|(place, (name, spec))| (spec, source((context, links), &at.key(name), (place, name, spec))));
    sources.filter_map(|(spec, source)| source.filter(|_| spec.enabled)).collect()
}

/// Keys of each kind, and its name.
const fn has(kind: TrafficKind) -> (&'static str, &'static [&'static str]) {
    match kind {
        TrafficKind::Bulk => ("bulk", &["tcp", "tcp_to", "flows", "bytes", "stagger"]),
        TrafficKind::Web => {
            ("web", &["tcp", "tcp_to", "flows", "request", "response", "objects", "gap", "think"])
        }
        TrafficKind::Requests => ("requests", &["tcp", "tcp_to", "flows", "request", "response", "think"]),
        TrafficKind::Arrivals => {
            ("arrivals", &["tcp", "tcp_to", "flows", "request", "response", "load", "assign"])
        }
        TrafficKind::Udp => ("udp", &["rate", "packet", "timing", "on", "off"]),
    }
}

fn given(spec: &TrafficSpec) -> [(&'static str, bool); 17] {
    [
        ("tcp", spec.tcp.is_some()),
        ("tcp_to", spec.tcp_to.is_some()),
        ("flows", spec.flows.is_some()),
        ("bytes", spec.bytes.is_some()),
        ("stagger", spec.stagger.is_some()),
        ("request", spec.request.is_some()),
        ("response", spec.response.is_some()),
        ("objects", spec.objects.is_some()),
        ("gap", spec.gap.is_some()),
        ("think", spec.think.is_some()),
        ("load", spec.load.is_some()),
        ("assign", spec.assign.is_some()),
        ("rate", spec.rate.is_some()),
        ("packet", spec.packet.is_some()),
        ("timing", spec.timing.is_some()),
        ("on", spec.on.is_some()),
        ("off", spec.off.is_some()),
    ]
}

fn source(
    (context, links): (&Context<'_>, &[Link]),
    at: &At<'_>,
    (place, name, spec): (usize, &str, &TrafficSpec),
) -> Option<Traffic> {
    let (kind, has) = has(spec.kind);
    keys::only(at, kind, has, &given(spec));
    let load = match spec.kind {
        TrafficKind::Udp => udp((context, links), at, spec),
        _ => tcp((context, links), at, spec),
    };
    let port = spec.port.unwrap_or(if spec.kind == TrafficKind::Udp { 9 } else { 80 });
    if port == 0 {
        at.key("port").refuse("1 to 65535");
    }
    let dscp = spec.dscp.unwrap_or(0);
    if dscp > 63 {
        at.key("dscp").refuse("0 to 63");
    }
    let start = spec.start.unwrap_or_default().0;
    let stop = spec.stop.map(|stop| stop.0);
    if stop.is_some_and(|stop| stop <= start) {
        at.key("stop").refuse("later than start");
    }
    let from = context.node_of_kind(&at.key("from"), &spec.from, NodeKind::Host);
    let to = context.node_of_kind(&at.key("to"), &spec.to, NodeKind::Host);
    let ends = [from?, to?];
    if ends[0] == ends[1] {
        at.key("to").report("is the host that from is", "another host");
    } else if context.graph.is_whole() && !context.graph.reaches(ends[0], ends[1]) {
        at.report(format!("there is no way from {} to {}", spec.from, spec.to), "hosts that links join");
    }
    Some(Traffic {
        name: name.to_owned(),
        place,
        group: spec.group.clone().unwrap_or_else(|| name.to_owned()),
        ends,
        port,
        family: context.family(spec.family),
        dscp,
        start,
        stop,
        load: load?,
    })
}

fn tcp((context, links): (&Context<'_>, &[Link]), at: &At<'_>, spec: &TrafficSpec) -> Option<Load> {
    let near = context.tcp(&at.key("tcp"), spec.tcp.as_deref());
    let far = match &spec.tcp_to {
        Some(name) => context.tcp(&at.key("tcp_to"), Some(name)),
        None => near.clone(),
    };
    let arrivals = spec.kind == TrafficKind::Arrivals;
    let flows = spec.flows.unwrap_or(if arrivals { CONNECTIONS } else { 1 });
    if flows == 0 {
        at.key("flows").refuse(FLOWS);
    }
    let pattern = match spec.kind {
        TrafficKind::Bulk => Pattern::Bulk {
            flows,
            bytes: spec.bytes.map(|bytes| bytes.0),
            stagger: spec
                .stagger
                .as_ref()
                .map_or(Distribution::Fixed(0.0), |spec| times(&at.key("stagger"), spec)),
        },
        TrafficKind::Web => web(at, spec, flows)?,
        TrafficKind::Arrivals => arrive((context, links), at, spec, flows)?,
        _ => requests(at, spec, flows)?,
    };
    let checked = pattern.check();
    let holds = checked.is_ok();
    at.check(checked, |place| if arrivals { key_of_arrivals(place) } else { key(place) });
    let tcp: [Arc<Settings>; 2] = [near?, far?];
    holds.then_some(Load::Tcp { tcp, pattern })
}

/// Users as Surge makes them, or, with answers of their own, as they are described.
fn web(at: &At<'_>, spec: &TrafficSpec, users: u32) -> Option<Pattern> {
    let surge = Pattern::surge(users);
    let Pattern::Web { request, response, objects, gap, think, .. } = surge else { return None };
    let own = spec.response.is_some();
    if own && spec.think.is_none() {
        missing(at, "think", "a time or a distribution of times from a page to the next, such as \"1 s\"");
        return None;
    }
    Some(Pattern::Web {
        users,
        request: spec.request.map_or(request, |bytes| bytes.0),
        response: spec.response.as_ref().map_or(response, |spec| sizes(&at.key("response"), spec)),
        objects: match &spec.objects {
            Some(objects) => distribution(&at.key("objects"), objects, |number| *number),
            None if own => Distribution::Fixed(1.0),
            None => objects,
        },
        gap: match &spec.gap {
            Some(gap) => times(&at.key("gap"), gap),
            None if own => Distribution::Fixed(0.0),
            None => gap,
        },
        think: spec.think.as_ref().map_or(think, |spec| times(&at.key("think"), spec)),
    })
}

/// Requests that arrive so often that the data of their answers is the load.
fn arrive(
    (context, links): (&Context<'_>, &[Link]),
    at: &At<'_>,
    spec: &TrafficSpec,
    connections: u32,
) -> Option<Pattern> {
    if spec.response.is_none() {
        missing(at, "response", "bytes of an answer or a distribution of them, such as \"1 kB\"");
    }
    if spec.load.is_none() {
        missing(at, "load", "a rate, such as \"1 Mbit/s\", or a share of a link's");
    }
    let response = sizes(&at.key("response"), spec.response.as_ref()?);
    let load = load((context, links), &at.key("load"), spec.load.as_ref()?)?;
    // A distribution that is none has no mean either, and is refused as a part of the pattern.
    let mean = response.mean();
    if mean.is_infinite() {
        at.key("response").report("has no mean", "a distribution with a mean, so that there is a load");
        return None;
    }
    let interval = Distribution::Exponential { mean: mean * 8.0 / load.bits_per_second() as f64 };
    let request = spec.request.map_or(300, |bytes| bytes.0);
    let assignment = match spec.assign {
        Some(AssignmentName::Random) => Assignment::Random,
        Some(AssignmentName::Idle) | None => Assignment::LongestIdle,
    };
    Some(Pattern::Arrivals { connections, assignment, request, response, interval })
}

fn load((context, links): (&Context<'_>, &[Link]), at: &At<'_>, spec: &LoadSpec) -> Option<Rate> {
    let rate = match spec {
        LoadSpec::Rate(rate) => rate.0,
        LoadSpec::Of(of) => {
            let (name, side) = of.link.strip_suffix(".back").map_or((&*of.link, 0), |name| (name, 1));
            let known = &context.experiment.links;
            if !known.contains_key(name) {
                let names = known.keys().map(String::as_str);
                at.key("link").report(format!("there is no link {name:?}"), keys::listed(names));
            }
            // One with a mistake is not there.
            let link = links.iter().find(|link| link.name == name)?;
            let bits = link.ways[side].rate.bits_per_second() as f64 * of.share.0;
            Rate::from_bits_per_second(bits as u64)
        }
    };
    if rate.bits_per_second() == 0 {
        at.refuse("more than 0 bit/s");
        return None;
    }
    Some(rate)
}

fn requests(at: &At<'_>, spec: &TrafficSpec, connections: u32) -> Option<Pattern> {
    if spec.response.is_none() {
        missing(at, "response", "bytes of an answer, such as \"1 kB\"");
    }
    if spec.think.is_none() {
        missing(at, "think", "a time or a distribution of times from a request to the next, such as \"1 s\"");
    }
    let response = match spec.response.as_ref()? {
        DistributionSpec::Fixed(bytes) => bytes.0,
        DistributionSpec::Random(_) => {
            at.key("response")
                .report("is a distribution", "one size, such as \"1 kB\": requests have answers of one size");
            return None;
        }
    };
    let request = spec.request.map_or(300, |bytes| bytes.0);
    let interval = times(&at.key("think"), spec.think.as_ref()?);
    Some(Pattern::RequestResponse { connections, request, response, interval })
}

fn udp((context, links): (&Context<'_>, &[Link]), at: &At<'_>, spec: &TrafficSpec) -> Option<Load> {
    let timing = spec.timing.unwrap_or(TimingName::Constant);
    let on_off = timing == TimingName::OnOff;
    for (key, given) in [("on", spec.on.is_some()), ("off", spec.off.is_some())] {
        if given && !on_off {
            at.key(key).misplaced(
                "is no key of this timing".to_owned(),
                "timing = \"on-off\" has on, off".to_owned(),
            );
        } else if on_off && !given {
            missing(at, key, "a time or a distribution of times, such as \"1 s\"");
        }
    }
    let packet = spec.packet.map_or(1500, |packet| packet.0);
    let family = context.family(spec.family);
    let headers = match family {
        Family::Ipv4 => Timing::HEADERS,
        Family::Ipv6 => Timing::HEADERS_IPV6,
    };
    let data = packet
        .checked_sub(u64::from(headers))
        .and_then(|data| u32::try_from(data).ok())
        .filter(|_| packet <= 65_535);
    if data.is_none() {
        at.key("packet").refuse(format!("{headers} to 65535 bytes, of which {headers} are headers"));
    }
    if family == Family::Ipv6 {
        fits(links, &at.key("packet"), (context.experiment.nodes.get_index_of(&spec.from)?, packet));
    }
    if spec.rate.is_none() {
        missing(at, "rate", "a rate, such as \"1 Mbit/s\"");
    }
    let rate = spec.rate?.0;
    let timing = match timing {
        TimingName::Constant => Timing::Constant(rate),
        TimingName::Poisson => Timing::Poisson(rate),
        TimingName::OnOff => Timing::OnOff {
            rate,
            on: times(&at.key("on"), spec.on.as_ref()?),
            off: times(&at.key("off"), spec.off.as_ref()?),
        },
    };
    let checked = timing.check();
    let holds = checked.is_ok();
    at.check(checked, key);
    Some(Load::Udp { data: data?, timing }).filter(|_| holds)
}

/// Checks that a link of the host takes packets of this length: hosts do not fragment IPv6 here.
fn fits(links: &[Link], at: &At<'_>, (from, packet): (usize, u64)) {
    let own = links.iter().flat_map(|link| link.ends.iter().zip(&link.ways));
    let longest = own.filter(|(end, _)| **end == from).map(|(_, way)| way.mtu).max();
    if let Some(mtu) = longest.filter(|mtu| u64::from(*mtu) < packet) {
        let problem = format!("is {packet} B, longer than any link of its host takes");
        at.report(problem, format!("up to {mtu} B: no packet of IPv6 is fragmented"));
    }
}

fn missing(at: &At<'_>, key: &str, allowed: &str) {
    at.key(key).report("is missing", allowed);
}

/// The file's key for a place in a pattern or timing.
fn key(place: &str) -> String {
    match place {
        "users" | "connections" => "flows".to_owned(),
        "interval" => "think".to_owned(),
        place => match place.split_once('.') {
            Some((of, part)) => {
                let of = if of == "interval" { "think" } else { of };
                let part = if part == "shape" { "exponent" } else { part };
                format!("{of}.{}", part.replacen("points", "shares", 1))
            }
            None => place.to_owned(),
        },
    }
}

/// The same where the interval follows from the load.
fn key_of_arrivals(place: &str) -> String {
    if place.starts_with("interval") { "load".to_owned() } else { key(place) }
}

fn distribution<T>(at: &At<'_>, spec: &DistributionSpec<T>, number: impl Fn(&T) -> f64) -> Distribution {
    match spec {
        DistributionSpec::Fixed(value) => Distribution::Fixed(number(value)),
        DistributionSpec::Random(Shape::Uniform { from, to }) => {
            Distribution::Uniform(number(from), number(to))
        }
        DistributionSpec::Random(Shape::Exponential { mean }) => {
            Distribution::Exponential { mean: number(mean) }
        }
        DistributionSpec::Random(Shape::Pareto { min, exponent }) => {
            Distribution::Pareto { min: number(min), shape: *exponent }
        }
        DistributionSpec::Random(Shape::Cdf { values, shares }) => {
            if values.len() != shares.len() {
                let problem = format!("has {} elements", shares.len());
                at.key("shares").report(problem, format!("as many as values has: {}", values.len()));
                return Distribution::Fixed(1.0);
            }
            let points = values.iter().zip(shares).map(|(value, share)| (number(value), share.0));
            Distribution::Cdf(points.collect())
        }
    }
}

/// In seconds.
fn times(at: &At<'_>, spec: &DistributionSpec<Time>) -> Distribution {
    distribution(at, spec, |time| time.0.as_secs_f64())
}

/// In bytes.
fn sizes(at: &At<'_>, spec: &DistributionSpec<Size>) -> Distribution {
    distribution(at, spec, |size| size.0 as f64)
}
