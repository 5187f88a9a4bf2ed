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
//! filter, without which nothing is marked. With `fail = "closed"` the marks stay and lead to an unreachable route, also after a process
//! that has ended by an error. The next start goes on from what is left, and never lets connections pass meanwhile; [`unblock`] removes it.
//!
//! Other programs change the kernel's state too. So each step compares what is wanted with what is there, never with earlier steps, and
//! the proxy restores what is missing when the kernel tells of a change (`watch`).

mod early_demux;
mod wanted;
mod watch;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use trunkline_linux::open_tun_queue;
use trunkline_netlink::{
    Existing, Family, Handle, NetlinkError, PacketFilter, Route, RouteFilter, RouteKind, Rule, TimeWait,
    TimeWaits,
};
use trunkline_schema::FailMode;
use trunkline_units::Instant;

use crate::plan::Plan;
use crate::syn::Connection;
use early_demux::EarlyDemux;
use wanted::{PROTOCOL, Wanted, is_same};
use watch::Watch;

/// Marks of packets: a SYN on its way from the proxy to the listening socket; a packet to one of its sockets; one that the proxy sends.
pub(crate) const DELIVER: u32 = 0x746c_5002;
pub(crate) const LOCAL: u32 = 0x746c_5003;
pub(crate) const FORWARD: u32 = 0x746c_5004;
/// Of sockets whose tail is emulated: all that they send goes into the device. And of a SYN on its way to such a listening socket.
pub(crate) const TAIL: u32 = 0x746c_5006;
pub(crate) const DELIVER_TO_TAIL: u32 = 0x746c_5007;

/// The TUN device.
const DEVICE: &str = "tl-proxy";
/// The table of the packet filter.
const FILTER: &str = "trunkline-proxy";
const MTU: u32 = 65_521;
const QUEUE_LEN: u32 = 4096;
const EBUSY: i32 = 16;
const EPERM: i32 = 1;

/// Why the way to the proxy is not complete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RoutingError {
    /// Another process has the device, or the table.
    #[error("another proxy runs in this network namespace")]
    Running,
    /// The device cannot be opened.
    #[error("cannot open the TUN device {DEVICE}: {0}")]
    Device(io::Error),
    /// Somebody has taken the device down: the kernel accepts no routes into it until it is up.
    #[error("another program took the device {DEVICE} down")]
    Down,
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

/// The device, from which diverted packets are read, each behind a virtio header.
#[derive(Debug)]
struct Device {
    queue: OwnedFd,
    index: u32,
}

impl Device {
    fn open(handle: &mut Handle) -> Result<Self, RoutingError> {
        let queue = open_tun_queue(DEVICE, false).map_err(|error| match error.raw_os_error() {
            Some(EBUSY) => RoutingError::Running,
            _ => RoutingError::Device(error),
        })?;
        let index = handle.link_index(DEVICE)?;
        handle.set_mtu(index, MTU)?;
        handle.set_tx_queue_len(index, QUEUE_LEN)?;
        handle.set_up(index)?;
        Ok(Device { queue, index })
    }
}

/// The result of a repair.
#[derive(Debug)]
pub(crate) struct Repair {
    /// Whether there is another device now.
    pub(crate) has_new_device: bool,
    /// What could not be restored.
    pub(crate) problem: Option<String>,
}

/// The way to the proxy. It is there while this value is, and then unless `fail = "closed"` and it has not ended in order.
#[derive(Debug)]
pub(crate) struct Routing {
    /// `None` after another program has removed it, until it is made again.
    device: Option<Device>,
    handle: Handle,
    filter: PacketFilter,
    time_waits: TimeWaits,
    plan: Plan,
    wanted: Wanted,
    watch: Watch,
    early_demux: Option<EarlyDemux>,
    in_order: bool,
}

impl Routing {
    /// Makes the way for what `plan` treats, to the sockets that listen on `listeners`.
    pub(crate) fn new(plan: &Plan, listeners: &[Listener]) -> Result<Self, RoutingError> {
        let mut handle = Handle::open()?;
        // First, since another proxy has it as long as that runs.
        let device = Device::open(&mut handle)?;
        let (filter, time_waits, watch) = (PacketFilter::open()?, TimeWaits::open()?, Watch::open()?);
        let mut routing = Routing {
            device: Some(device),
            handle,
            filter,
            time_waits,
            plan: plan.clone(),
            wanted: Wanted::new(plan, listeners),
            watch,
            early_demux: EarlyDemux::of(plan)?,
            in_order: false,
        };
        routing.restore(&mut Vec::new())?;
        Ok(routing)
    }

    /// The device, if there is one, from which diverted packets are read, each behind a virtio header.
    pub(crate) fn device(&self) -> Option<&OwnedFd> {
        self.device.as_ref().map(|device| &device.queue)
    }

    /// The device is of no use any more: another program has removed it.
    pub(crate) fn lose_device(&mut self, now: Instant) {
        self.device = None;
        self.watch.request(now);
    }

    /// The end is in order: nothing stays.
    pub(crate) fn end_in_order(&mut self) {
        self.in_order = true;
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

    /// Restores what is missing, and removes what a proxy before has left.
    ///
    /// What refuses connections comes first, and what is left goes last, so that no connection passes in between. One error does not
    /// prevent the other steps.
    fn restore(&mut self, restored: &mut Vec<String>) -> Result<(), RoutingError> {
        let device = self.restore_device(restored);
        let mut wanted = self.wanted.routes_without_device();
        if let (Ok(()), Some(device)) = (&device, &self.device) {
            wanted.extend(self.wanted.routes_into(device.index));
        }
        let routes = self.restore_routes(&wanted, restored);
        let rules = self.restore_rules(restored);
        let filter = self.restore_filter(restored);
        device.and(routes).and(rules).and(filter)?;
        for route in self.routes()?.iter().filter(|there| !wanted.iter().any(|route| is_same(there, route))) {
            gone(self.handle.delete_route(route))?;
        }
        for rule in self.rules()?.iter().filter(|rule| !self.wanted.rules.contains(rule)) {
            gone(self.handle.delete_rule(rule))?;
        }
        Ok(())
    }

    fn restore_device(&mut self, restored: &mut Vec<String>) -> Result<(), RoutingError> {
        let link = self.device.as_ref().map(|device| self.handle.link(device.index));
        match link {
            Some(Ok(link)) if !link.up => return Err(RoutingError::Down),
            Some(Ok(link)) => {
                if link.mtu != MTU {
                    self.handle.set_mtu(link.index, MTU)?;
                    restored.push(format!("MTU of {DEVICE}"));
                }
                return Ok(());
            }
            Some(Err(error)) if !error.is_not_found() => return Err(error.into()),
            Some(Err(_)) | None => {}
        }
        self.device = None;
        self.device = Some(Device::open(&mut self.handle)?);
        restored.push(format!("device {DEVICE}"));
        Ok(())
    }

    fn restore_routes(&mut self, wanted: &[Route], restored: &mut Vec<String>) -> Result<(), RoutingError> {
        let there = self.routes()?;
        let mut outcome = Ok(());
        for route in wanted.iter().filter(|route| !there.iter().any(|there| is_same(there, route))) {
            match self.handle.add_route(route, Existing::Replace) {
                Ok(()) => restored.push(format!("route {route}")),
                Err(error) => outcome = outcome.and(Err(error.into())),
            }
        }
        outcome
    }

    fn restore_rules(&mut self, restored: &mut Vec<String>) -> Result<(), RoutingError> {
        let there = self.rules()?;
        let mut outcome = Ok(());
        for rule in self.wanted.rules.iter().filter(|rule| !there.contains(rule)) {
            match self.handle.add_rule(rule) {
                Ok(()) => restored.push(format!("rule {rule}")),
                Err(error) => outcome = outcome.and(Err(error.into())),
            }
        }
        outcome
    }

    fn restore_filter(&mut self, restored: &mut Vec<String>) -> Result<(), RoutingError> {
        if !self.watch.has_filter_changed() && self.filter.exists(FILTER)? {
            return Ok(());
        }
        match self.filter.replace(&self.wanted.filter) {
            Ok(()) => {
                self.watch.handle_filter_restored();
                restored.push(format!("table inet {FILTER}"));
                Ok(())
            }
            // It belongs to the socket of another process.
            Err(error) if error.errno() == Some(EPERM) && self.filter.exists(FILTER).unwrap_or(false) => {
                Err(RoutingError::Running)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The routes of proxies.
    fn routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        routes(&mut self.handle)
    }

    /// The rules of proxies.
    fn rules(&mut self) -> Result<Vec<Rule>, NetlinkError> {
        rules(&mut self.handle)
    }
}

impl Drop for Routing {
    fn drop(&mut self) {
        if self.plan.fail == FailMode::Closed && !self.in_order && self.filter.exists(FILTER).unwrap_or(true)
        {
            tracing::warn!(
                "new connections stay unreachable until the proxy runs again: `trunkline unblock` lets them pass"
            );
        } else {
            // First what leads packets to the others.
            let removed = [self.filter.delete(FILTER).map(drop), remove_all(&mut self.handle)];
            for error in removed.into_iter().filter_map(Result::err) {
                tracing::warn!("{error}");
            }
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

/// Lets connections pass that a proxy with `fail = "closed"` has left unreachable. Whether there was something of one.
///
/// # Errors
/// A proxy runs in this network namespace, or the kernel refused.
pub(crate) fn unblock() -> Result<bool, RoutingError> {
    let mut handle = Handle::open()?;
    if handle.link_exists(DEVICE)? {
        return Err(RoutingError::Running);
    }
    // Without nf_tables there is no table.
    let mut filter = PacketFilter::open().ok();
    let has_table = filter.as_mut().is_some_and(|filter| filter.exists(FILTER).unwrap_or(false));
    if has_table && let Some(filter) = &mut filter {
        filter.delete(FILTER)?;
    }
    let is_left = has_table || !rules(&mut handle)?.is_empty();
    remove_all(&mut handle)?;
    Ok(is_left)
}

fn routes(handle: &mut Handle) -> Result<Vec<Route>, NetlinkError> {
    let mut routes =
        handle.routes_where(RouteFilter { protocol: Some(PROTOCOL), ..RouteFilter::default() })?;
    routes.retain(|route| wanted::is_table(route.table));
    Ok(routes)
}

fn rules(handle: &mut Handle) -> Result<Vec<Rule>, NetlinkError> {
    let mut all = Vec::new();
    for family in Family::BOTH {
        all.extend(handle.rules(family)?.into_iter().filter(|rule| rule.protocol == PROTOCOL));
    }
    Ok(all)
}

fn remove_all(handle: &mut Handle) -> Result<(), NetlinkError> {
    for rule in rules(handle)? {
        gone(handle.delete_rule(&rule))?;
    }
    for route in routes(handle)? {
        gone(handle.delete_route(&route))?;
    }
    Ok(())
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
