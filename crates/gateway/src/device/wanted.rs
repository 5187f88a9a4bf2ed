//! The desired state of the kernel for a configuration, as plain values.

use std::collections::BTreeSet;

use ipnet::IpNet;
use trunkline_netlink::{Event, Family, Route, RouteKind, Rule, RuleMark};

use crate::config::{Config, DefaultRouting, MAIN_TABLE, OnExit};

/// The protocol number (`rtm_protocol`) of all routes and rules of gateways. The daemon and `ip route show proto 116` find
/// them by it. iproute2 has no name for this number.
pub(crate) const PROTOCOL: u8 = 116;
/// The priorities of the rules, before those that the kernel assigns by itself.
const PRIORITY_MAIN: u32 = 29_999;
const PRIORITY_OWN: u32 = 30_000;

/// A prefix in a table.
pub(crate) type Destination = (IpNet, u32);

/// The desired state of the kernel.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) addresses: BTreeSet<IpNet>,
    /// The destinations that are routed into the device, and blocked without it.
    pub(crate) destinations: BTreeSet<Destination>,
    pub(crate) on_exit: OnExit,
    /// The rules of both address families.
    pub(crate) rules: Vec<Rule>,
    /// The metric of the site's blocks.
    pub(crate) block_metric: u32,
}

impl Wanted {
    pub(crate) fn of(config: &Config) -> Self {
        let prefixes = || config.peers.iter().flat_map(|peer| &peer.routes).map(IpNet::trunc);
        let rules = config.default_routing().map(|routing| {
            let families: BTreeSet<Family> =
                prefixes().filter(|prefix| prefix.prefix_len() == 0).map(family).collect();
            families.into_iter().flat_map(|family| rules(family, routing)).collect()
        });
        Wanted {
            addresses: config.tun.addresses.iter().copied().collect(),
            destinations: prefixes().map(|prefix| (prefix, config.table_of(prefix))).collect(),
            on_exit: config.tun.on_exit,
            rules: rules.unwrap_or_default(),
            block_metric: block_metric(&config.name),
        }
    }

    /// The desired blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Route> {
        let block = |(prefix, table): &Destination| block(*prefix, *table, self.block_metric);
        self.destinations.iter().filter(|_| self.on_exit == OnExit::Block).map(block)
    }

    /// Whether an event may have changed a part of this state, for the device with this index.
    pub(crate) fn affects(&self, event: &Event, index: u32) -> bool {
        match event {
            Event::Link(link) => link.index == index,
            Event::LinkRemoved { device }
            | Event::Address { device, .. }
            | Event::AddressRemoved { device, .. } => *device == index,
            Event::Route(route) => {
                let ours = route.device == Some(index) || is_block(route);
                !ours && self.destinations.contains(&(route.destination, route.table))
            }
            Event::RouteRemoved(route) => self.destinations.contains(&(route.destination, route.table)),
            Event::Rules => !self.rules.is_empty(),
            Event::Missed => true,
        }
    }
}

/// A route that makes a prefix unreachable if there is no other route.
fn block(prefix: IpNet, table: u32, metric: u32) -> Route {
    Route {
        kind: RouteKind::Unreachable,
        protocol: PROTOCOL,
        ..Route::to(prefix).table(table).metric(metric)
    }
}

/// Whether a route is a block, of any site.
pub(crate) fn is_block(route: &Route) -> bool {
    route.protocol == PROTOCOL && route.kind == RouteKind::Unreachable
}

/// The metric of a site's blocks. It is higher than those of other programs, and differs between sites (FNV-1a of the
/// name), so that two sites of one machine that block the same prefix have a route each.
pub(crate) fn block_metric(site: &str) -> u32 {
    let hash =
        site.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    0xf000_0000 | (hash & 0x0fff_fffe)
}

pub(crate) fn family(prefix: IpNet) -> Family {
    if prefix.addr().is_ipv4() { Family::V4 } else { Family::V6 }
}

/// The rules of wg-quick(8): the main table first, without its default route; then our table, for all packets but those of
/// lanes.
fn rules(family: Family, routing: DefaultRouting) -> [Rule; 2] {
    let own = Rule {
        family,
        priority: PRIORITY_OWN,
        table: routing.table,
        mark: Some(RuleMark::IsNot(routing.mark)),
        suppress_prefix_len: None,
        protocol: PROTOCOL,
    };
    let main = Rule {
        priority: PRIORITY_MAIN,
        table: MAIN_TABLE,
        mark: None,
        suppress_prefix_len: Some(0),
        ..own.clone()
    };
    [own, main]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn wanted(tun: &str, routes: &str) -> Wanted {
        let text = format!(
            "private_key_file = \"k\"\nlisten = [\"[::]:1\"]\n[tun]\n{tun}\n[[peers]]\nname = \"b\"\npublic_key = \
             \"1yu8EBD2hXEw1rG5DrWBHxYYHv5mYT5x62F3GwVzNDk=\"\nroutes = {routes}\n"
        );
        Wanted::of(&Config::parse(&text, Path::new("a.toml")).expect("a configuration"))
    }

    #[test]
    fn default_routes_need_two_rules_a_family_and_others_none() {
        assert_eq!(wanted("", "[\"10.2.0.0/16\", \"fd00:2::/64\"]").rules, []);
        let both = wanted("", "[\"10.2.0.0/16\", \"0.0.0.0/0\", \"::/0\"]").rules;
        assert_eq!(both.len(), 4);
        assert!(both.iter().all(|rule| (rule.table == MAIN_TABLE) == (rule.suppress_prefix_len == Some(0))));
        let own = both.iter().find(|rule| rule.table != MAIN_TABLE).expect("a rule");
        let main = both.iter().find(|rule| rule.table == MAIN_TABLE).expect("a rule");
        assert!(main.priority < own.priority, "the routes of the main table come first");
        assert!(wanted("", "[\"::/0\"]").rules.iter().all(|rule| rule.family == Family::V6));
    }

    #[test]
    fn every_prefix_is_blocked_in_its_table_unless_configured_to_pass() {
        let blocked = wanted("", "[\"10.2.0.0/16\", \"0.0.0.0/0\"]");
        let blocks: Vec<Route> = blocked.blocks().collect();
        assert_eq!(blocks.len(), 2);
        assert!(blocks.iter().all(is_block));
        let tables: BTreeSet<u32> = blocks.iter().map(|route| route.table).collect();
        assert_eq!(tables.len(), 2);
        assert_eq!(wanted("on_exit = \"pass\"", "[\"10.2.0.0/16\"]").blocks().count(), 0);
    }

    #[test]
    fn each_site_has_a_metric_of_its_own_that_is_the_last() {
        let metrics: BTreeSet<u32> = ["a", "b", "ab", "ba", ""].map(block_metric).into();
        assert_eq!(metrics.len(), 5);
        assert!(metrics.iter().all(|metric| (0xf000_0000..u32::MAX).contains(metric)));
    }
}
