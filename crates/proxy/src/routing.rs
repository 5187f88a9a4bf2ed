//! What leads connections to the proxy: a device that diverts their SYNs, routes, rules and a table of the packet filter.
//!
//! In the order of a connection:
//!
//! 1. Its SYN comes in. A rule of the packet filter marks it ([`DIVERT`]), and by the mark it is routed into the proxy's TUN device.
//! 2. The proxy connects to the server from the client's address (`IP_TRANSPARENT`). What the server sends belongs to that socket: the
//!    packet filter finds the socket and marks the packet ([`LOCAL`]), and a rule of the routing makes its delivery local.
//! 3. The proxy sends the SYN again, with a mark ([`DELIVER`]) by which it is routed to the loopback device. There the packet filter gives
//!    it to the proxy's listening socket. The kernel answers as the server.
//! 4. What the client sends belongs to the accepted socket, as in 2. So do ICMP errors about what these sockets send.
//!
//! What this host itself says of a server on one of its links that does not answer, it says to the client, in whose name the proxy has
//! asked: the message names a sequence number that the client does not know. So such messages are diverted to the proxy too ([`ERROR`]),
//! which forwards those about others. What it sends itself has a mark of its own ([`FORWARD`]).
//!
//! Packets never come in by the TUN device, so no filter of source addresses (`rp_filter`) is in the way. What is not marked is routed as
//! without a proxy. Packets to this host itself are delivered before any of these rules counts, since the rule for the table "local"
//! comes first.
//!
//! Where a tail is emulated, the socket that faces the network has a mark of its own ([`TAIL`]), by which all that it sends is routed into
//! the device, and what comes for it is diverted there. The proxy judges both, sends the one to the network ([`FORWARD`]) and the other to
//! the socket ([`LOCAL`]).
//!
//! Where windows are lowered, connections stay those of their ends: what hosts behind send, and the SYNs of the others, is diverted, and
//! the proxy forwards it ([`FORWARD`]).
//!
//! The kernel keeps the sockets of connections that ended a moment ago (TIME-WAIT), with the addresses of both ends. It looks up the
//! socket of a packet before its route, and drops what has one and is to be forwarded: a SYN on its way to the device, if an end opens
//! the same connection again, and everything between the ends once the proxy has gone. So that look-up is off while the proxy runs
//! ([`EarlyDemux`]), and the proxy has the kernel forget those sockets: one that is in the way of a new connection, and all at its end.
//!
//! If the process dies, the kernel removes the device and the routes through it, and, with `fail = "open"`, the table of the packet
//! filter, without which nothing is marked. With `fail = "closed"` the marks stay and lead to an unreachable route. The next start removes
//! what is left.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use trunkline_linux::open_tun_queue;
use trunkline_netlink::{
    Condition, Existing, Family, FilterChain, FilterRule, FilterTable, Handle, Hook, NetlinkError, Owner,
    PacketFilter, Route, RouteFilter, RouteKind, Rule, RuleMark, TimeWait, TimeWaits, Tproxy,
};
use trunkline_packet::protocol;
use trunkline_schema::FailMode;

use crate::plan::Plan;
use crate::syn::Connection;

/// Marks of packets: a SYN on its way to the proxy; on its way from there to the listening socket; a packet to one of its sockets; one
/// that the proxy sends; an error of this host on its way to the proxy.
const DIVERT: u32 = 0x746c_5001;
pub(crate) const DELIVER: u32 = 0x746c_5002;
pub(crate) const LOCAL: u32 = 0x746c_5003;
pub(crate) const FORWARD: u32 = 0x746c_5004;
const ERROR: u32 = 0x746c_5005;
/// Of sockets whose tail is emulated: all that they send goes into the device. And of a SYN on its way to such a listening socket.
pub(crate) const TAIL: u32 = 0x746c_5006;
pub(crate) const DELIVER_TO_TAIL: u32 = 0x746c_5007;

/// The TUN device.
pub(crate) const DEVICE: &str = "tl-proxy";
/// The table of the packet filter.
pub(crate) const FILTER: &str = "trunkline-proxy";
/// Who made routes and rules, as `rtnetlink.h` has it; the gateway's are 116.
const PROTOCOL: u8 = 112;
/// Routing tables: everything is delivered here; everything goes into the device; the same while there is one.
const HERE: u32 = 0x746c_5001;
const ASIDE: u32 = 0x746c_5002;
const ASIDE_OR_ON: u32 = 0x746c_5003;
/// Of sockets whose tail is emulated: into the device, in segments that the networks beyond take, each acknowledged at once.
const TAILS: u32 = 0x746c_5004;
const TAIL_MTU: u32 = 1500;
/// Before the rules of administrators and of the gateway, after that of the table "local".
const PRIORITY: u32 = 91;
/// The loopback interface has this index in every namespace.
const LOOPBACK: u32 = 1;
const MTU: u32 = 65_521;
const QUEUE_LEN: u32 = 4096;
/// nft's `mangle`.
const MANGLE: i32 = -150;
const EBUSY: i32 = 16;
const EPERM: i32 = 1;

/// Why the way to the proxy could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RoutingError {
    /// Another process has the device, or the table.
    #[error("another proxy runs in this network namespace")]
    Running,
    /// The device cannot be opened.
    #[error("cannot open the TUN device {DEVICE}: {0}")]
    Device(io::Error),
    /// The setting cannot be changed.
    #[error("cannot set net.ipv4.tcp_early_demux to 0: {0}")]
    EarlyDemux(io::Error),
    /// The kernel refused.
    #[error("{0}")]
    Netlink(#[from] NetlinkError),
}

/// A listening socket: where, and the mark of the SYNs for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    pub(crate) mark: u32,
}

/// The way to the proxy. It is there while this value is.
#[derive(Debug)]
pub(crate) struct Routing {
    device: OwnedFd,
    handle: Handle,
    filter: PacketFilter,
    time_waits: TimeWaits,
    plan: Plan,
    early_demux: Option<EarlyDemux>,
}

/// The kernel's look-up of a packet's socket before its route: off while this value is there. Besides packets for sockets in TIME-WAIT,
/// it would cost those that are diverted from sockets whose tail is emulated.
#[derive(Debug)]
struct EarlyDemux {
    /// Opened before the process gives up its access to files.
    setting: File,
    before: Vec<u8>,
}

impl EarlyDemux {
    const PATH: &str = "/proc/sys/net/ipv4/tcp_early_demux";

    /// `None` if it is off already.
    fn switch_off() -> io::Result<Option<Self>> {
        let before = std::fs::read(Self::PATH)?;
        if before.trim_ascii() == b"0" {
            return Ok(None);
        }
        let mut setting = OpenOptions::new().write(true).open(Self::PATH)?;
        setting.write_all(b"0")?;
        Ok(Some(EarlyDemux { setting, before }))
    }

    /// What `plan` needs. Without it a plan with tails does not work, and others do but for connections that are opened again.
    fn of(plan: &Plan) -> Result<Option<Self>, RoutingError> {
        if !plan.ends_connections() {
            return Ok(None);
        }
        match Self::switch_off() {
            Ok(switched) => Ok(switched),
            Err(error) if plan.has_tails() => Err(RoutingError::EarlyDemux(error)),
            Err(error) => {
                tracing::warn!(
                    "{}; connections between the addresses and ports of one that ended within a minute may fail",
                    RoutingError::EarlyDemux(error)
                );
                Ok(None)
            }
        }
    }

    /// Leaves it off.
    fn stay_off(&mut self) {
        self.before = b"0".to_vec();
    }
}

impl Drop for EarlyDemux {
    fn drop(&mut self) {
        let restored = self.setting.rewind().and_then(|()| self.setting.write_all(&self.before));
        if let Err(error) = restored {
            tracing::warn!("cannot restore {}: {error}", Self::PATH);
        }
    }
}

impl Routing {
    /// Makes the way for what `plan` treats, to the sockets that listen on `listeners`.
    pub(crate) fn new(plan: &Plan, listeners: &[Listener]) -> Result<Self, RoutingError> {
        let device = open_tun_queue(DEVICE, false).map_err(|error| match error.raw_os_error() {
            Some(EBUSY) => RoutingError::Running,
            _ => RoutingError::Device(error),
        })?;
        let (handle, filter) = (Handle::open()?, PacketFilter::open()?);
        let (time_waits, early_demux) = (TimeWaits::open()?, EarlyDemux::of(plan)?);
        let mut routing = Routing { device, handle, filter, time_waits, plan: plan.clone(), early_demux };
        routing.remove_left()?;
        routing.set_up(plan, listeners)?;
        Ok(routing)
    }

    /// The device, from which diverted packets are read, each behind a virtio header.
    pub(crate) fn device(&self) -> &OwnedFd {
        &self.device
    }

    /// The address from which this host answers `client`.
    pub(crate) fn source_towards(&mut self, client: IpAddr) -> Option<IpAddr> {
        self.handle.route_to(client).ok()?.source
    }

    /// The longest packet that the link towards a host takes, and the address from which this host answers there.
    pub(crate) fn next_link(&mut self, to: IpAddr) -> Option<(u16, IpAddr)> {
        let route = self.handle.route_to(to).ok()?;
        let link = self.handle.link(route.device?).ok()?.mtu;
        let mtu = route.mtu.map_or(link, |mtu| mtu.min(link));
        Some((u16::try_from(mtu).unwrap_or(u16::MAX), route.source?))
    }

    /// Whether the way to a host begins with the link of this name.
    pub(crate) fn leads_to(&mut self, to: IpAddr, link: &str) -> bool {
        let device = self.handle.route_to(to).ok().and_then(|route| route.device);
        device.is_some_and(|device| self.handle.link_index(link).is_ok_and(|index| index == device))
    }

    /// Has the kernel forget the proxy's connection in TIME-WAIT that is in the way of a new one to the server. Whether there was one.
    pub(crate) fn make_way(&mut self, connection: Connection) -> bool {
        let found = self.time_waits.find(connection.client, connection.server);
        match found.and_then(|found| found.map_or(Ok(false), |old| self.time_waits.forget(&old))) {
            Ok(forgotten) => forgotten,
            Err(error) => {
                tracing::debug!("{error}");
                false
            }
        }
    }

    /// Has the kernel forget all connections of the proxy in TIME-WAIT.
    fn forget_ended(&mut self) -> Result<(), NetlinkError> {
        // Unlike those of this host's own connections, their addresses are not this host's.
        let mut is_here: HashMap<IpAddr, bool> = HashMap::new();
        for family in Family::BOTH {
            let listed = match self.time_waits.list(family) {
                // The kernel has no IPv6.
                Err(error) if family == Family::V6 && error.is_not_found() => continue,
                listed => listed?,
            };
            for ended in listed.into_iter().filter(|ended| treats(&self.plan, ended)) {
                let handle = &mut self.handle;
                let here = *is_here.entry(ended.local.ip()).or_insert_with_key(|ip| {
                    handle.route_to(*ip).is_ok_and(|route| route.kind == RouteKind::Local)
                });
                if !here {
                    self.time_waits.forget(&ended)?;
                }
            }
        }
        Ok(())
    }

    fn set_up(&mut self, plan: &Plan, listeners: &[Listener]) -> Result<(), RoutingError> {
        let device = self.handle.link_index(DEVICE)?;
        self.handle.set_mtu(device, MTU)?;
        self.handle.set_tx_queue_len(device, QUEUE_LEN)?;
        self.handle.set_up(device)?;
        for family in families(listeners) {
            let route = || Route { protocol: PROTOCOL, ..Route::to(any(family)) };
            let here = Route { kind: RouteKind::Local, ..route().device(LOOPBACK).table(HERE) };
            self.handle.add_route(&here, Existing::Replace)?;
            for table in [ASIDE, ASIDE_OR_ON] {
                self.handle.add_route(&route().device(device).table(table), Existing::Replace)?;
            }
            if plan.fail == FailMode::Closed {
                let unreachable = route().table(ASIDE).metric(u32::MAX - 1);
                let unreachable = Route { kind: RouteKind::Unreachable, ..unreachable };
                self.handle.add_route(&unreachable, Existing::Replace)?;
            }
            let tails =
                Route { mtu: Some(TAIL_MTU), quick_acks: true, ..route().device(device).table(TAILS) };
            self.handle.add_route(&tails, Existing::Replace)?;
            for (mark, table) in [(TAIL, TAILS), (DELIVER_TO_TAIL, HERE)] {
                self.handle.add_rule(&rule(family, mark, table))?;
            }
            for (mark, table) in [(DIVERT, ASIDE), (ERROR, ASIDE_OR_ON), (DELIVER, HERE), (LOCAL, HERE)] {
                self.handle.add_rule(&rule(family, mark, table))?;
            }
        }
        self.filter.replace(&filter_table(plan, listeners)).map_err(|error| match error.errno() {
            // It belongs to the socket of another process.
            Some(EPERM) if self.filter.exists(FILTER).unwrap_or(false) => RoutingError::Running,
            _ => error.into(),
        })
    }

    /// Removes what a proxy has left that could not end in order, or this one.
    fn remove_left(&mut self) -> Result<(), NetlinkError> {
        for family in Family::BOTH {
            for rule in self.handle.rules(family)?.into_iter().filter(|rule| rule.protocol == PROTOCOL) {
                gone(self.handle.delete_rule(&rule))?;
            }
        }
        for table in [HERE, ASIDE, ASIDE_OR_ON, TAILS] {
            let left = RouteFilter { table: Some(table), protocol: Some(PROTOCOL), device: None };
            for route in self.handle.routes_where(left)? {
                gone(self.handle.delete_route(&route))?;
            }
        }
        Ok(())
    }
}

impl Drop for Routing {
    fn drop(&mut self) {
        // First what leads packets to the others.
        if let Err(error) = self.filter.delete(FILTER) {
            tracing::warn!("{error}");
        }
        if let Err(error) = self.remove_left() {
            tracing::warn!("{error}");
        }
        if self.plan.ends_connections()
            && let Err(error) = self.forget_ended()
        {
            tracing::warn!(
                "{error}: tcp_early_demux stays as it is, so that ended connections can be opened again"
            );
            if let Some(early_demux) = &mut self.early_demux {
                early_demux.stay_off();
            }
        }
    }
}

/// Whether a connection in TIME-WAIT is one that a plan treats.
fn treats(plan: &Plan, &TimeWait { local, remote, .. }: &TimeWait) -> bool {
    let connections =
        [Connection { client: local, server: remote }, Connection { client: remote, server: local }];
    connections.into_iter().any(|connection| plan.candidates(connection).next().is_some())
}

fn gone(outcome: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    match outcome {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
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
