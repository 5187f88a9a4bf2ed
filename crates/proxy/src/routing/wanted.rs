//! What leads connections to the proxy, as plain values: routes, rules, and the table of the packet filter.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use trunkline_netlink::{
    Condition, Event, Family, FilterChain, FilterRule, FilterTable, Hook, Owner, Route, RouteKind, Rule,
    RuleMark, Tproxy,
};
use trunkline_packet::protocol;
use trunkline_schema::FailMode;

use super::{DELIVER, DELIVER_TO_TAIL, FILTER, FORWARD, LOCAL, Listener, TAIL};
use crate::plan::Plan;

/// Marks of packets: a SYN on its way to the proxy; an error of this host on its way there.
const DIVERT: u32 = 0x746c_5001;
const ERROR: u32 = 0x746c_5005;
/// Who made routes and rules, as `rtnetlink.h` has it; the gateway's are 116.
pub(super) const PROTOCOL: u8 = 112;
/// Routing tables: everything is delivered here; everything goes into the device; the same while there is one.
const HERE: u32 = 0x746c_5001;
const ASIDE: u32 = 0x746c_5002;
const ASIDE_OR_ON: u32 = 0x746c_5003;
/// Of sockets whose tail is emulated: into the device, in segments that the networks beyond take, each acknowledged at once.
const TAILS: u32 = 0x746c_5004;
const TABLES: [u32; 4] = [HERE, ASIDE, ASIDE_OR_ON, TAILS];
const TAIL_MTU: u32 = 1500;
/// Before the rules of administrators and of the gateway, after that of the table "local".
const PRIORITY: u32 = 91;
/// The loopback interface has this index in every namespace.
const LOOPBACK: u32 = 1;
/// nft's `mangle`.
const MANGLE: i32 = -150;

/// The state of the kernel that a plan needs.
#[derive(Debug)]
pub(super) struct Wanted {
    families: Vec<Family>,
    fail: FailMode,
    pub(super) rules: Vec<Rule>,
    pub(super) filter: FilterTable,
}

impl Wanted {
    /// For sockets that listen on `listeners`.
    pub(super) fn new(plan: &Plan, listeners: &[Listener]) -> Self {
        let families = families(listeners);
        let marks = [
            (TAIL, TAILS),
            (DELIVER_TO_TAIL, HERE),
            (DIVERT, ASIDE),
            (ERROR, ASIDE_OR_ON),
            (DELIVER, HERE),
            (LOCAL, HERE),
        ];
        let rules = families.iter().flat_map(|family| marks.map(|(mark, table)| rule(*family, mark, table)));
        Wanted { fail: plan.fail, rules: rules.collect(), filter: filter_table(plan, listeners), families }
    }

    /// The routes that need no device: first what refuses connections without one.
    pub(super) fn routes_without_device(&self) -> Vec<Route> {
        let mut routes = Vec::new();
        for family in &self.families {
            if self.fail == FailMode::Closed {
                let refuses = route(*family, ASIDE).metric(u32::MAX - 1);
                routes.push(Route { kind: RouteKind::Unreachable, ..refuses });
            }
            routes.push(Route { kind: RouteKind::Local, ..route(*family, HERE).device(LOOPBACK) });
        }
        routes
    }

    /// The routes into the device with this index.
    pub(super) fn routes_into(&self, device: u32) -> Vec<Route> {
        let into = |family: &Family| {
            let [aside, on] = [ASIDE, ASIDE_OR_ON].map(|table| route(*family, table).device(device));
            let tails = route(*family, TAILS).device(device);
            [aside, on, Route { mtu: Some(TAIL_MTU), quick_acks: true, ..tails }]
        };
        self.families.iter().flat_map(into).collect()
    }
}

/// Whether an event may have changed a part of what is wanted, with the device of this index.
pub(super) fn is_affected(event: &Event, device: Option<u32>) -> bool {
    match event {
        // While there is no device, any may be in its place.
        Event::Link(link) => device.is_none_or(|device| device == link.index) || link.index == LOOPBACK,
        Event::LinkRemoved { device: index } => device.is_none_or(|device| device == *index),
        Event::Route(route) | Event::RouteRemoved(route) => is_table(route.table),
        Event::Rules | Event::Missed => true,
        Event::Address { .. } | Event::AddressRemoved { .. } => false,
    }
}

/// Whether a table is the proxy's.
pub(super) fn is_table(table: u32) -> bool {
    TABLES.contains(&table)
}

/// Whether a route, which is the proxy's or that of one before, is this one. The kernel adds to it.
pub(super) fn is_same(there: &Route, wanted: &Route) -> bool {
    let leads_to = wanted.kind != RouteKind::Unicast || there.device == wanted.device;
    (there.destination, there.table, there.kind) == (wanted.destination, wanted.table, wanted.kind)
        && leads_to
        && there.mtu == wanted.mtu
}

fn route(family: Family, table: u32) -> Route {
    Route { protocol: PROTOCOL, ..Route::to(any(family)).table(table) }
}

fn any(family: Family) -> IpNet {
    match family {
        Family::V4 => Ipv4Net::default().into(),
        Family::V6 => Ipv6Net::default().into(),
    }
}

/// The versions of IP that sockets listen on.
fn families(listeners: &[Listener]) -> Vec<Family> {
    let has = |family: &Family| {
        listeners.iter().any(|listener| listener.address.is_ipv4() == (*family == Family::V4))
    };
    Family::BOTH.into_iter().filter(has).collect()
}

fn rule(family: Family, mark: u32, table: u32) -> Rule {
    Rule {
        family,
        priority: PRIORITY,
        table,
        mark: Some(RuleMark::Is(mark)),
        suppress_prefix_len: None,
        protocol: PROTOCOL,
    }
}

fn filter_table(plan: &Plan, listeners: &[Listener]) -> FilterTable {
    let mut rules = Vec::new();
    for listener in listeners {
        let family = if listener.address.is_ipv4() { Family::V4 } else { Family::V6 };
        rules.push(FilterRule {
            conditions: vec![
                Condition::Link("lo".to_owned()),
                Condition::Mark(listener.mark),
                Condition::Family(family),
                Condition::Protocol(protocol::TCP),
            ],
            tproxy: Some(Tproxy(listener.address)),
            ..FilterRule::default()
        });
    }
    // SYNs come before packets of sockets: one for a connection in TIME-WAIT opens another, and must not go to the old socket.
    for treatment in &plan.treatments {
        rules.extend(treatment.rules(DIVERT));
    }
    if plan.has_tails() {
        rules.push(FilterRule {
            conditions: vec![
                Condition::OtherLink("lo".to_owned()),
                Condition::Protocol(protocol::TCP),
                Condition::TransparentSocket,
                Condition::SocketMark(TAIL),
            ],
            mark: Some(DIVERT),
            ..FilterRule::default()
        });
    }
    for protocol in [protocol::TCP, protocol::ICMP, protocol::ICMPV6] {
        rules.push(FilterRule {
            conditions: vec![Condition::Protocol(protocol), Condition::TransparentSocket],
            mark: Some(LOCAL),
            ..FilterRule::default()
        });
    }
    for treatment in plan.treatments.iter().filter(|treatment| treatment.window.is_some()) {
        rules.extend(treatment.window_rules(DIVERT));
    }
    let incoming =
        FilterChain { name: "prerouting".to_owned(), hook: Hook::Prerouting, priority: MANGLE, rules };
    // What the proxy sends itself, errors among it, has found its way already.
    let own = |mark| FilterRule { conditions: vec![Condition::Mark(mark)], ..FilterRule::default() };
    let mut rules: Vec<FilterRule> = [FORWARD, LOCAL].into_iter().map(own).collect();
    for (protocol, kind) in [(protocol::ICMP, 3), (protocol::ICMPV6, 1)] {
        rules.push(FilterRule {
            conditions: vec![Condition::Icmp { protocol, kind }],
            mark: Some(ERROR),
            ..FilterRule::default()
        });
    }
    let outgoing = FilterChain { name: "output".to_owned(), hook: Hook::Output, priority: MANGLE, rules };
    let owner = match plan.fail {
        FailMode::Open => Owner::Socket,
        FailMode::Closed => Owner::Nobody,
    };
    FilterTable { name: FILTER.to_owned(), owner, chains: vec![incoming, outgoing] }
}

#[cfg(test)]
mod tests {
    use trunkline_schema::{ProxyFile, Source};

    use super::*;

    fn wanted(fail: &str) -> Wanted {
        let text = format!(
            "[proxy]\nfail = \"{fail}\"\n[[proxies]]\nname = \"c\"\nbehind = [\"10.1.0.0/16\"]\nmode = \"split\"\n"
        );
        let file = ProxyFile::of(&Source::parse("a.toml", &text).expect("TOML")).expect("a file");
        let address = "127.0.0.1:1".parse().expect("an address");
        Wanted::new(&Plan::new(&file.proxy, &file.proxies), &[Listener { address, mark: DELIVER }])
    }

    #[test]
    fn what_refuses_connections_needs_neither_the_device_nor_the_process() {
        let closed = wanted("closed");
        let refuses = |route: &Route| route.kind == RouteKind::Unreachable && route.table == ASIDE;
        assert!(closed.routes_without_device().first().is_some_and(refuses), "before all others");
        assert!(
            closed.rules.iter().any(|rule| rule.mark == Some(RuleMark::Is(DIVERT)) && rule.table == ASIDE)
        );
        assert_eq!(closed.filter.owner, Owner::Nobody);
        let open = wanted("open");
        assert!(!open.routes_without_device().iter().any(refuses));
        assert_eq!(open.filter.owner, Owner::Socket);
    }

    #[test]
    fn an_event_counts_if_it_is_about_these_tables_the_device_or_the_loopback() {
        let counts = |event: &Event| is_affected(event, Some(7));
        let removed = |table| Event::RouteRemoved(Route::to(any(Family::V4)).table(table));
        assert!(TABLES.iter().all(|table| counts(&removed(*table))) && !counts(&removed(254)));
        assert!(counts(&Event::Rules) && counts(&Event::Missed));
        assert!(counts(&Event::LinkRemoved { device: 7 }) && !counts(&Event::LinkRemoved { device: 8 }));
    }

    #[test]
    fn a_route_out_of_a_device_that_was_there_before_is_another() {
        let wanted = wanted("open");
        let [before, now] = [7, 8].map(|device| wanted.routes_into(device));
        assert!(before.iter().zip(&before).all(|(there, wanted)| is_same(there, wanted)));
        assert!(!before.iter().zip(&now).any(|(there, wanted)| is_same(there, wanted)));
        // IPv6 has a metric and a device for what is unreachable.
        let refuses = Route { kind: RouteKind::Unreachable, ..route(Family::V6, ASIDE) };
        assert!(is_same(&refuses.clone().device(LOOPBACK).metric(1024), &refuses));
    }
}
