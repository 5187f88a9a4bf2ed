//! Proxies.

use trunkline_sim as sim;
use trunkline_trunk::path_tail::{CellLink, Estimate};

use super::check::Check;
use super::context::Context;
use super::keys;
use crate::experiment::{CellSpec, ProxyModeName, ProxySpec};
use trunkline_engine::scenario::{Cell, Proxy, ProxyMode};
use trunkline_schema::{At, RateSource};

const ROOM: &str = "packets, 1 or more";

/// Keys of each mode, and its name. A proxy that does nothing may keep its keys, so that a sweep can switch it off.
const fn has(mode: ProxyModeName) -> Option<(&'static str, &'static [&'static str])> {
    match mode {
        ProxyModeName::None => None,
        ProxyModeName::Split => Some(("split", &["tcp", "tcp_mobile"])),
        ProxyModeName::PathTail => Some(("path-tail", &["tcp", "tcp_mobile", "cells"])),
        ProxyModeName::ClampWindow => Some(("clamp-window", &["window"])),
        ProxyModeName::ClampToRoom => Some(("clamp-to-room", &["room"])),
        ProxyModeName::Freeze => Some(("freeze", &["after"])),
        ProxyModeName::RegulateAcks => Some(("regulate-acks", &["room"])),
    }
}

pub(super) fn proxy(context: &Context<'_>, at: &At<'_>, spec: &ProxySpec) -> Option<Proxy> {
    if let Some((mode, has)) = has(spec.mode) {
        let all = ["tcp", "tcp_mobile", "cells", "window", "after", "room"];
        keys::only(at, mode, has, &all.map(|key| (key, at.key(key).is_given())));
    }
    let behind = context.hosts(&at.key("behind"), &spec.behind);
    if spec.behind.is_empty() {
        at.key("behind").refuse("at least one host");
    }
    let mode = mode(context, at, spec, &behind)?;
    let same = |tcp: &[std::sync::Arc<trunkline_tcp::Settings>; 2]| tcp.clone();
    let checked = match &mode {
        ProxyMode::ClampWindow(bytes) => sim::ProxyMode::ClampWindow(*bytes).check(),
        ProxyMode::Freeze(after) => sim::ProxyMode::Freeze { after: *after }.check(),
        ProxyMode::ClampToRoom(room) => sim::ProxyMode::ClampToRoom { room: *room }.check(),
        ProxyMode::RegulateAcks(room) => sim::ProxyMode::RegulateAcks { room: *room }.check(),
        ProxyMode::PathTail(tcp, cells) => {
            sim::ProxyMode::PathTail(same(tcp), cells.iter().map(cell).collect()).check()
        }
        ProxyMode::None | ProxyMode::Split(_) => Ok(()),
    };
    let holds = checked.is_ok();
    at.check(checked, |place| key(place, spec));
    holds.then_some(Proxy { behind, mode })
}

fn mode(context: &Context<'_>, at: &At<'_>, spec: &ProxySpec, behind: &[usize]) -> Option<ProxyMode> {
    let tcps = || {
        let network = context.tcp(&at.key("tcp"), spec.tcp.as_deref());
        let mobile = match &spec.tcp_mobile {
            Some(name) => context.tcp(&at.key("tcp_mobile"), Some(name)),
            None => network.clone(),
        };
        Some([network?, mobile?])
    };
    Some(match spec.mode {
        ProxyModeName::None => ProxyMode::None,
        ProxyModeName::Split => ProxyMode::Split(tcps()?),
        ProxyModeName::PathTail => {
            let cells = Some(&spec.cells).filter(|cells| !cells.is_empty());
            let cells = needed(at, "cells", cells, "the links that are emulated, by name")?.iter();
            let emulated = |(name, spec): (&String, &CellSpec)| {
                emulated(context, &at.key("cells").key(name), spec, behind)
            };
            let cells = cells.map(emulated).collect();
            ProxyMode::PathTail(tcps()?, cells)
        }
        ProxyModeName::ClampWindow => {
            ProxyMode::ClampWindow(needed(at, "window", spec.window, "bytes, such as \"16 kB\"")?.0)
        }
        ProxyModeName::Freeze => {
            ProxyMode::Freeze(needed(at, "after", spec.after, "a time, such as \"500 ms\"")?.0)
        }
        ProxyModeName::ClampToRoom => ProxyMode::ClampToRoom(needed(at, "room", spec.room, ROOM)?),
        ProxyModeName::RegulateAcks => ProxyMode::RegulateAcks(needed(at, "room", spec.room, ROOM)?),
    })
}

/// What a key says, or a mistake.
fn needed<T>(at: &At<'_>, key: &str, said: Option<T>, allowed: &str) -> Option<T> {
    if said.is_none() {
        at.key(key).report("is missing", allowed);
    }
    said
}

fn emulated(context: &Context<'_>, at: &At<'_>, spec: &CellSpec, behind: &[usize]) -> Cell {
    let hosts = match &spec.hosts {
        Some(names) => {
            let hosts = context.hosts(&at.key("hosts"), names);
            for host in hosts.iter().filter(|host| !behind.contains(host)) {
                let names = behind.iter().map(|host| context.graph.name(*host));
                let problem = format!("{} is not behind the proxy", context.graph.name(*host));
                at.key("hosts").report(problem, keys::listed(names));
            }
            if names.is_empty() {
                at.key("hosts").refuse("at least one host");
            }
            hosts
        }
        None => behind.to_vec(),
    };
    spec.rate.check_recovery(at);
    let (bytes, packets) = (spec.bytes.map(|bytes| bytes.0), spec.packets);
    let link = match spec.rate.0 {
        RateSource::Given(rate) => CellLink {
            estimate: Some(Estimate { rate: rate.0, recovery: spec.recovery.unwrap_or_default().0 }),
            queue: bytes.or(Some(u64::MAX)),
            packets: packets.or(Some(1000)),
        },
        RateSource::Measured => CellLink { estimate: None, queue: bytes, packets },
    };
    Cell { hosts, link, buffer: spec.buffer.map_or(u64::MAX, |bytes| bytes.0), each_alone: spec.each_alone }
}

/// As the simulator has it.
fn cell(cell: &Cell) -> sim::Cell {
    sim::Cell {
        nodes: cell.hosts.iter().map(|host| sim::NodeId::nth(*host)).collect(),
        link: cell.link,
        buffer: cell.buffer,
        each_alone: cell.each_alone,
    }
}

/// The file's key for a place in a proxy's mode.
fn key(place: &str, spec: &ProxySpec) -> String {
    let numbered = place.strip_prefix("cells[").and_then(|rest| rest.split_once(']'));
    let Some((number, rest)) = numbered else { return place.to_owned() };
    let name = number.parse().ok().and_then(|number: usize| spec.cells.get_index(number));
    let name = name.map_or("", |(name, _)| name.as_str());
    let key = match rest.trim_start_matches('.') {
        "link.estimate.rate" => "rate",
        "link.packets" => "packets",
        "link.queue" => "bytes",
        "" => "hosts",
        other => other,
    };
    format!("cells.{name}.{key}")
}
