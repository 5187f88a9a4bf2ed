//! The configuration of the TUN device: its addresses, its MTU, the routes and rules that lead into it, and the routes that
//! block packets while it does not exist.
//!
//! Other programs change these too: an administrator, a network manager, and the kernel, which removes a link's routes when
//! the link goes down. So each step compares the desired state with the kernel's state, never with earlier steps, and
//! `Device::repair` may run at any time.
//!
//! **Fail closed.** Each route into the device has a second route with the last metric, which makes the prefix unreachable.
//! When the device disappears for any reason, its routes disappear too and the second routes take over. They remain if the
//! process is killed; [`unblock`] removes them.

mod block;
mod error;
mod wanted;

use std::collections::BTreeSet;

use ipnet::IpNet;
use trunkline_netlink::{Event, Existing, Family, Handle, Route, RouteFilter, Rule};

pub(crate) use block::blocks;
pub use block::{Blocked, unblock};
pub use error::{DeviceError, RouteTaken};

use crate::config::{Config, OnExit};
use crate::sys::TunOffloads;
use crate::tun::TunQueue;
use block::gone;
use wanted::{Destination, PROTOCOL, Wanted, is_block};

/// The device, up and routed. Its queues go to the workers; this part serves reloads, repairs and counters.
pub(crate) struct Device {
    index: u32,
    netlink: Handle,
    wanted: Wanted,
    /// An open queue, so that the device exists as long as this value.
    keep: TunQueue,
}

/// The result of a repair.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// The state is as configured; the list has the parts that were restored.
    Done(Vec<String>),
    /// Another program took the device down: the kernel accepts no routes into it until it is up.
    Down,
    /// The device no longer exists.
    Gone,
}

impl Device {
    /// Opens and configures the device of `config`.
    pub(crate) fn open(config: &Config) -> Result<(Device, Vec<TunQueue>), DeviceError> {
        let queues = open_queues(config)?;
        let mut netlink = Handle::open()?;
        let index = netlink.link_index(&config.tun.name)?;
        let keep = queues[0].clone();
        let mut device = Device { index, netlink, wanted: Wanted::default(), keep };
        device.apply(config)?;
        Ok((device, queues))
    }

    /// Creates the device again, after another program has removed it.
    pub(crate) fn reopen(&mut self, config: &Config) -> Result<Vec<TunQueue>, DeviceError> {
        let queues = open_queues(config)?;
        self.index = self.netlink.link_index(&config.tun.name)?;
        self.keep = queues[0].clone();
        self.apply(config)?;
        Ok(queues)
    }

    /// The offloads that the kernel granted.
    pub(crate) const fn offloads(&self) -> TunOffloads {
        self.keep.offloads()
    }

    /// Whether an event may have changed the addresses, routes or rules of the device.
    pub(crate) fn affects(&self, event: &Event) -> bool {
        self.wanted.affects(event, self.index)
    }

    /// Whether the event's device is this one.
    pub(crate) fn is_own(&self, device: Option<u32>) -> bool {
        device == Some(self.index)
    }

    /// Applies the addresses, routes, rules, MTU and queue length of `config`. It touches only those that change.
    pub(crate) fn apply(&mut self, config: &Config) -> Result<(), DeviceError> {
        let tun = &config.tun;
        let wanted = Wanted::of(config);
        let old = std::mem::replace(&mut self.wanted, wanted);
        let link = self.netlink.link(self.index)?;
        if link.tx_queue_len != tun.tx_queue_len {
            self.netlink.set_tx_queue_len(self.index, tun.tx_queue_len)?;
        }
        if link.mtu != tun.mtu {
            self.netlink.set_mtu(self.index, tun.mtu)?;
        }
        if !link.up {
            self.netlink.set_up(self.index)?;
        }
        for address in old.addresses.difference(&self.wanted.addresses) {
            gone(self.netlink.delete_address(self.index, *address))?;
        }
        let new: BTreeSet<Destination> =
            self.wanted.destinations.difference(&old.destinations).copied().collect();
        self.refuse_taken_routes(&new)?;
        self.repair_addresses()?;
        self.repair_routes()?;
        Ok(())
    }

    /// Restores the parts that other programs have removed.
    pub(crate) fn repair(&mut self) -> Result<Repair, DeviceError> {
        match self.netlink.link(self.index) {
            Ok(link) if link.up => {}
            Ok(_) => return Ok(Repair::Down),
            Err(error) if error.is_not_found() => return Ok(Repair::Gone),
            Err(error) => return Err(error.into()),
        }
        let mut restored = self.repair_addresses()?;
        restored.extend(self.repair_routes()?);
        Ok(Repair::Done(restored))
    }

    fn repair_addresses(&mut self) -> Result<Vec<String>, DeviceError> {
        let there: BTreeSet<IpNet> =
            self.netlink.addresses(self.index)?.into_iter().map(|address| address.address).collect();
        let missing: Vec<IpNet> = self.wanted.addresses.difference(&there).copied().collect();
        for address in &missing {
            self.netlink.add_address(self.index, *address, None)?;
        }
        Ok(missing.iter().map(|address| format!("address {address}")).collect())
    }

    /// Adds blocks first, so that packets never take another route in between.
    fn repair_routes(&mut self) -> Result<Vec<String>, DeviceError> {
        let ours = block::ours(&mut self.netlink)?;
        self.repair_blocks(&ours)?;
        for route in ours.iter().filter(|route| route.device == Some(self.index) && !is_block(route)) {
            if !self.wanted.destinations.contains(&(route.destination, route.table)) {
                gone(self.netlink.delete_route(route))?;
            }
        }
        // The kernel adds routes into the device itself, for the networks of its addresses: those count too.
        let filter = RouteFilter { device: Some(self.index), ..RouteFilter::default() };
        let there = self.netlink.routes_where(filter)?;
        let there: BTreeSet<Destination> =
            there.iter().map(|route| (route.destination, route.table)).collect();
        let mut restored = Vec::new();
        let mut taken = None;
        for (prefix, table) in self.wanted.destinations.difference(&there) {
            let route = Route { protocol: PROTOCOL, ..Route::to(*prefix).device(self.index).table(*table) };
            match self.netlink.add_route(&route, Existing::Keep) {
                Ok(()) => restored.push(format!("route {prefix}")),
                Err(error) if error.is_already_there() => taken = Some((*prefix, *table)),
                Err(error) => return Err(error.into()),
            }
        }
        restored.extend(self.repair_rules()?);
        // The error comes last, so that one conflicting route does not prevent the others.
        match taken {
            Some(destination) => Err(self.taken(destination)?),
            None => Ok(restored),
        }
    }

    /// The error about a route of another program to one of our destinations.
    fn taken(&mut self, (prefix, table): Destination) -> Result<DeviceError, DeviceError> {
        let filter = RouteFilter { table: Some(table), ..RouteFilter::default() };
        let mut there = self.netlink.routes_where(filter)?;
        there.retain(|route| route.destination == prefix && !is_block(route));
        let there = self.route_taken(there.pop().unwrap_or_else(|| Route::to(prefix).table(table)));
        Ok(DeviceError::RouteTaken(Box::new(there)))
    }

    fn route_taken(&mut self, there: Route) -> RouteTaken {
        let device = there.device.and_then(|index| self.netlink.link(index).ok()).map(|link| link.name);
        RouteTaken { there, device }
    }

    fn repair_blocks(&mut self, ours: &[Route]) -> Result<(), DeviceError> {
        let metric = Some(self.wanted.block_metric);
        let there: Vec<&Route> =
            ours.iter().filter(|route| is_block(route) && route.metric == metric).collect();
        let wanted: Vec<Route> = self.wanted.blocks().collect();
        let same = |a: &Route, b: &Route| (a.destination, a.table) == (b.destination, b.table);
        for block in wanted.iter().filter(|block| !there.iter().any(|route| same(route, block))) {
            match self.netlink.add_route(block, Existing::Keep) {
                Err(error) if error.is_already_there() => {}
                other => other?,
            }
        }
        for stale in there.iter().filter(|route| !wanted.iter().any(|block| same(route, block))) {
            gone(self.netlink.delete_route(stale))?;
        }
        Ok(())
    }

    fn repair_rules(&mut self) -> Result<Vec<String>, DeviceError> {
        let mut restored = Vec::new();
        for family in Family::BOTH {
            let there = self.netlink.rules(family)?;
            let wanted: Vec<&Rule> = self.wanted.rules.iter().filter(|rule| rule.family == family).collect();
            for rule in wanted.iter().filter(|rule| !there.contains(rule)) {
                self.netlink.add_rule(rule)?;
                restored.push(format!("rule {rule}"));
            }
            if wanted.is_empty() {
                block::remove_idle_rules(&mut self.netlink, family)?;
                continue;
            }
            // A rule of an earlier configuration, with another mark, would lead the lanes into the trunk.
            for stale in there.iter().filter(|rule| rule.protocol == PROTOCOL && !wanted.contains(rule)) {
                gone(self.netlink.delete_rule(stale))?;
            }
        }
        Ok(restored)
    }

    /// Refuses destinations to which another program has a route. One of the two routes would shadow the other, and the other
    /// program's route would carry packets in clear. A default route is always refused, any other unless the configuration
    /// lets packets pass without the trunk.
    fn refuse_taken_routes(&mut self, new: &BTreeSet<Destination>) -> Result<(), DeviceError> {
        let tables: BTreeSet<u32> = new.iter().map(|(_, table)| *table).collect();
        for table in tables {
            let filter = RouteFilter { table: Some(table), ..RouteFilter::default() };
            for route in self.netlink.routes_where(filter)? {
                let prefix = route.destination;
                let elsewhere = route.device != Some(self.index) && !is_block(&route);
                if elsewhere && new.contains(&(prefix, table)) {
                    if self.wanted.on_exit == OnExit::Block || prefix.prefix_len() == 0 {
                        return Err(DeviceError::RouteTaken(Box::new(self.route_taken(route))));
                    }
                    tracing::warn!(
                        "this machine has another route to {prefix} ({}): packets take it while the device of the trunk does not exist",
                        self.route_taken(route).way()
                    );
                }
            }
        }
        Ok(())
    }

    /// Removes rules that would outlive the device, unless they lead to blocks.
    pub(crate) fn close(&mut self) {
        if self.wanted.on_exit == OnExit::Pass {
            for rule in &self.wanted.rules {
                let _ = self.netlink.delete_rule(rule);
            }
        }
    }

    /// The index of an interface of this machine.
    pub(crate) fn link_index(&mut self, name: &str) -> Option<u32> {
        self.netlink.link_index(name).ok()
    }

    /// The number of prefixes that are blocked without the device.
    pub(crate) fn blocked(&self) -> usize {
        self.wanted.blocks().count()
    }

    /// Packets that the kernel dropped because the device's own queue was full.
    pub(crate) fn queue_drops(&mut self) -> u64 {
        self.netlink.link_stats(self.index).map_or(0, |stats| stats.tx_dropped)
    }
}

fn open_queues(config: &Config) -> Result<Vec<TunQueue>, DeviceError> {
    let tun = &config.tun;
    let queues = TunQueue::open(&tun.name, tun.queues, tun.offloads)
        .map_err(|source| DeviceError::Open { name: tun.name.clone(), source })?;
    let offloads = queues[0].offloads();
    if tun.offloads && !(offloads.checksum && offloads.tcp) {
        tracing::warn!(
            "device {}: this kernel has no TCP offloads: the gateway carries packets one by one",
            tun.name
        );
    } else if tun.offloads && !offloads.udp {
        tracing::warn!(
            "device {}: this kernel has no UDP offload: the gateway segments UDP super-packets",
            tun.name
        );
    }
    Ok(queues)
}
