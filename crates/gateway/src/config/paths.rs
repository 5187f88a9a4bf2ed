//! `[[peers.paths]]`: the paths to a peer, and what no two of them may share.

use trunkline_schema::At;
use trunkline_trunk::{PathPolicy, PathSettings, TrunkPlan};

use super::file::{PathTable, QuotaTable};
use super::values::LOCAL_ADDRESS;
use super::{Config, Endpoint, Host, PathConfig, QuotaConfig, Via};
use crate::usage::{Each, Period};

const WAYS: &str = "another endpoint, interface, address or fwmark than that of each other path to the peer";

/// The paths to a peer with this endpoint, which is at `of_peer`.
pub(super) fn resolve(
    tables: Vec<PathTable>,
    endpoint: Option<&Endpoint>,
    of_peer: &At<'_>,
) -> Vec<PathConfig> {
    let at = of_peer.key("paths");
    if tables.len() > TrunkPlan::MAX_PATHS {
        at.index(TrunkPlan::MAX_PATHS)
            .report("is one path too many", format!("at most {} paths to a peer", TrunkPlan::MAX_PATHS));
    }
    let mut paths: Vec<PathConfig> = Vec::new();
    for (index, table) in tables.into_iter().enumerate().take(TrunkPlan::MAX_PATHS) {
        let path = path(table, &at.index(index));
        check(&path, &paths, endpoint, of_peer, &at.index(index));
        paths.push(path);
    }
    paths
}

fn path(table: PathTable, at: &At<'_>) -> PathConfig {
    PathConfig {
        name: table.name.0,
        endpoint: table.endpoint.map(|endpoint| endpoint.0),
        via: Via {
            interface: table.interface.map(|interface| interface.0),
            address: table.address.map(|address| address.0),
            fwmark: table.fwmark,
        },
        cost: table.cost,
        quota: table.quota.map(|quota| self::quota(quota, &at.key("quota"))),
    }
}

fn quota(table: QuotaTable, at: &At<'_>) -> QuotaConfig {
    if table.bytes.0 == 0 {
        at.key("bytes").refuse("more than 0, such as \"20 GB\"");
    }
    let days = Period::days(table.each);
    let from = table.from.unwrap_or(1);
    if !days.contains(&from) {
        let allowed = match table.each {
            Each::Day => "no day but 1".to_owned(),
            Each::Week => "1 (Monday) to 7".to_owned(),
            Each::Month => format!("1 to {}: each month has these", days.end()),
        };
        at.key("from").refuse(allowed);
    }
    QuotaConfig { bytes: table.bytes.0, period: Period { each: table.each, from }, then: table.then }
}

fn check(
    path: &PathConfig,
    before: &[PathConfig],
    of_peer: Option<&Endpoint>,
    peer_at: &At<'_>,
    at: &At<'_>,
) {
    if PathPolicy::of_word(&path.name).is_some() {
        at.key("name").report("is a word for the paths of classes", "another name");
    }
    if before.iter().any(|other| other.name == path.name) {
        at.key("name").report_plain(format!("{:?} is the name of two paths", path.name));
    }
    if path.cost >= PathSettings::MAX_COST {
        at.key("cost").refuse(format!("0 to {}", PathSettings::MAX_COST - 1));
    }
    if path.via.fwmark == Some(0) {
        at.key("fwmark").refuse("a whole number, 1 to 4294967295");
    }
    let endpoint = path.endpoint.as_ref().or(of_peer);
    let Some(endpoint) = endpoint else {
        if peer_at.key("endpoint").is_given() {
            // It is wrong: what follows from that is not reported.
            return;
        }
        if path.via != Via::default() {
            at.report(
                "is bound to something and has no endpoint to dial",
                "an endpoint for the path or the peer; a path that the peer dials has name and cost only",
            );
        }
        if path.quota.is_some() {
            at.key("quota").report(
                "is of a path that the peer dials",
                "a quota at the site that dials, which counts both directions",
            );
        }
        return;
    };
    let leads_alike =
        |other: &&PathConfig| other.via == path.via && other.endpoint.as_ref().or(of_peer) == Some(endpoint);
    if let Some(other) = before.iter().find(leads_alike) {
        at.report(format!("leads the same way as path {}", other.name), WAYS);
    }
    let is_v4 = match &endpoint.host {
        Host::Address(address) => Some(address.is_ipv4()),
        Host::LinkLocal(..) => Some(false),
        Host::Name(_) => None,
    };
    if let (Some(address), Some(is_v4)) = (path.via.address, is_v4)
        && address.is_ipv4() != is_v4
    {
        let family = |is_v4| if is_v4 { "IPv4" } else { "IPv6" };
        at.key("address").report(
            format!("is of {} and the endpoint of {}", family(address.is_ipv4()), family(is_v4)),
            LOCAL_ADDRESS,
        );
    }
}

/// What classes and paths say of each other. `at` is the whole file.
pub(super) fn check_classes(config: &Config, at: &At<'_>) {
    for (index, peer) in config.peers.iter().enumerate() {
        let count = peer.paths.len();
        if count > 1 && !config.trunk.fits_paths(count) {
            let (lanes, queues) = config.trunk.counts_on_paths(count);
            at.key("peers").index(index).key("paths").report(
                format!("make {lanes} lanes and {queues} edge queues to the peer in each shard"),
                format!(
                    "at most {} and {}: fewer paths, or fewer lanes",
                    TrunkPlan::MAX_LANES,
                    TrunkPlan::MAX_EDGE_QUEUES
                ),
            );
        }
    }
    let known = |name: &str| config.peers.iter().flat_map(|peer| &peer.paths).any(|path| path.name == name);
    for (index, class) in config.trunk.classes.iter().enumerate() {
        let PathPolicy::Named(names) = &class.paths else { continue };
        if let Some(unknown) = names.iter().find(|name| !known(name)) {
            let mut all: Vec<&str> =
                config.peers.iter().flat_map(|peer| &peer.paths).map(|path| path.name.as_str()).collect();
            all.sort_unstable();
            all.dedup();
            let all = if all.is_empty() { "no peer has [[peers.paths]]".to_owned() } else { all.join(", ") };
            at.key("classes")
                .index(index)
                .key("paths")
                .report(format!("names a path {unknown:?} that no peer has"), all);
        }
    }
}
