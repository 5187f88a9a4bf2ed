//! What the gateway of a site gets of a plan: its peers, with the rates that are reserved for the trunks to them.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use trunkline_sites::ConfiguredPeer;

use crate::document::Document;
use crate::plan::{Plan, PlannedTrunk};

/// What gateways get, and what keeps some from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configurations {
    /// The peers of each site.
    pub peers: BTreeMap<String, Vec<ConfiguredPeer>>,
    /// Trunks that cannot come up, and why.
    pub problems: BTreeMap<String, String>,
}

/// What gateways get of a plan. A peer is there once its site has told its key.
pub fn configurations(document: &Document, plan: &Plan, keys: &BTreeMap<String, String>) -> Configurations {
    let mut all = Configurations::default();
    for site in document.sites() {
        all.peers.insert(site.clone(), Vec::new());
    }
    let mut joined: BTreeSet<[&str; 2]> = BTreeSet::new();
    for trunk in &plan.trunks {
        let mut pair = [trunk.sites[0].as_str(), trunk.sites[1].as_str()];
        pair.sort_unstable();
        if !joined.insert(pair) {
            let problem = format!("{} and {} have a trunk already; gateways have one", pair[0], pair[1]);
            all.problems.insert(trunk.name.clone(), problem);
            continue;
        }
        if let Some(problem) = problem(document, trunk, keys) {
            all.problems.insert(trunk.name.clone(), problem);
        }
        for side in 0..2 {
            if let Some(key) = keys.get(&trunk.sites[1 - side])
                && let Some(peers) = all.peers.get_mut(&trunk.sites[side])
            {
                peers.push(peer(document, trunk, side, key));
            }
        }
    }
    // Where a trunk stands in the document does not make another configuration.
    for peers in all.peers.values_mut() {
        peers.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    }
    all
}

fn problem(document: &Document, trunk: &PlannedTrunk, keys: &BTreeMap<String, String>) -> Option<String> {
    if let Some(missing) = trunk.sites.iter().find(|site| !keys.contains_key(*site)) {
        return Some(format!("{missing} has not enrolled"));
    }
    if [0, 1].into_iter().all(|side| endpoint(document, trunk, side).is_none()) {
        return Some("neither site has an endpoint on the trunk's way".to_owned());
    }
    let without = trunk.sites.iter().find(|site| networks(document, site).is_empty());
    without.map(|site| format!("{site} has no networks"))
}

/// What the site on this side of a trunk is to know of the other.
fn peer(document: &Document, trunk: &PlannedTrunk, side: usize, key: &str) -> ConfiguredPeer {
    let other = &trunk.sites[1 - side];
    let guarantee = if side == 0 { trunk.guarantee.forth } else { trunk.guarantee.back };
    let uplink = uplink(trunk, side);
    let interface = uplink
        .and_then(|name| document.links.find(name))
        .and_then(|link| document.uses[link].interface.clone());
    ConfiguredPeer {
        name: other.clone(),
        public_key: key.to_owned(),
        endpoint: endpoint(document, trunk, 1 - side),
        uplink: uplink.map(|name| name.split_once('/').map_or(name, |(_, uplink)| uplink).to_owned()),
        interface,
        routes: networks(document, other).to_vec(),
        reserved: if trunk.refused.is_none() { guarantee } else { 0 },
    }
}

/// The first link of the way from the site on this side.
fn uplink(trunk: &PlannedTrunk, side: usize) -> Option<&str> {
    let link = if side == 0 { trunk.way.first() } else { trunk.way.last() };
    link.map(String::as_str)
}

/// Where the site on this side is dialled: on the trunk's way; if it has none, on any uplink.
fn endpoint(document: &Document, trunk: &PlannedTrunk, side: usize) -> Option<String> {
    if let Some(name) = uplink(trunk, side) {
        return document.links.find(name).and_then(|link| document.uses[link].endpoint.clone());
    }
    let site = document.nodes.find(&trunk.sites[side])?;
    let links = document.network.links().iter().zip(&document.uses);
    links.filter(|(link, _)| link.ends[0] == site).find_map(|(_, used)| used.endpoint.clone())
}

fn networks<'d>(document: &'d Document, site: &str) -> &'d [IpNet] {
    document.nodes.find(site).and_then(|place| document.networks.get(place)).map_or(&[], Vec::as_slice)
}
