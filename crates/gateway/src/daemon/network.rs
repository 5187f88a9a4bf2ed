//! Changes of this machine's network by other programs.
//!
//! A netlink socket reports changes of links, addresses, routes and rules. The daemon reacts in two ways: it restores the
//! addresses, routes and rules of the device, and it dials or verifies lanes. It does each once for a burst of changes and
//! at most once per interval. This bounds the cost of a routing daemon that changes thousands of routes, and of a program
//! that removes again what the daemon restores.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use trunkline_netlink::{Event, Monitor};
use trunkline_units::{Instant, Paced};

use super::{Daemon, DaemonError, LaneSocket};
use crate::clock::now;
use crate::config::Config;
use crate::device::{DeviceError, Repair};
use crate::life::Serial;
use crate::reverse_path;

/// The maximum number of netlink datagrams to read at once; epoll reports the rest again.
const DATAGRAMS: usize = 64;
/// The minimum interval between repairs of the device.
const REPAIR_INTERVAL: Duration = Duration::from_secs(1);
/// The minimum interval between early dials of waiting lanes.
const REDIAL_INTERVAL: Duration = Duration::from_secs(1);
/// The time that a link may need after it comes up, before it carries packets.
const REDIAL_DELAY: Duration = Duration::from_millis(50);
const NEVER: Duration = Duration::from_secs(3600);

/// The daemon's view of the machine's network.
pub(super) struct Network {
    monitor: Monitor,
    repair: Paced,
    redial: Paced,
    /// The last warning about the device, so that the log has each once.
    last_warning: Option<String>,
}

impl Network {
    pub(super) fn open() -> Result<Self, DeviceError> {
        Ok(Network {
            monitor: Monitor::open()?,
            repair: Paced::default(),
            redial: Paced::default(),
            last_warning: None,
        })
    }
}

impl AsFd for Network {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }
}

impl Daemon {
    /// Reads and handles changes.
    pub(super) fn handle_network_events(&mut self) {
        let now = now();
        for event in self.network.monitor.read(DATAGRAMS) {
            if self.device.affects(&event) {
                self.network.repair.request(now, Duration::ZERO, REPAIR_INTERVAL);
            }
            match event {
                Event::AddressRemoved { device, address } if !self.device.is_own(Some(device)) => {
                    self.address_removed(address.address.addr());
                }
                Event::Address { device, .. } if !self.device.is_own(Some(device)) => self.path_changed(now),
                Event::Link(link) if link.up && link.carrier && !self.device.is_own(Some(link.index)) => {
                    self.path_changed(now);
                }
                Event::Link(link) if !self.device.is_own(Some(link.index)) => self.interface_down(&link.name),
                Event::Route(route) if !self.device.is_own(route.device) => self.path_changed(now),
                Event::Missed => self.path_changed(now),
                _ => {}
            }
        }
    }

    /// The device has changed: requests a repair.
    pub(super) fn device_changed(&mut self) {
        self.network.repair.request(now(), Duration::ZERO, REPAIR_INTERVAL);
    }

    fn path_changed(&mut self, now: Instant) {
        self.network.redial.request(now, REDIAL_DELAY, REDIAL_INTERVAL);
    }

    /// Runs the actions that are due. Returns the time until the next.
    pub(super) fn handle_network_deadlines(&mut self) -> Duration {
        let now = now();
        if self.network.repair.take_due(now) {
            self.repair_device();
        }
        if self.network.redial.take_due(now) {
            self.network_changed();
        }
        let next =
            [&self.network.repair, &self.network.redial].into_iter().filter_map(Paced::next_timeout).min();
        next.map_or(NEVER, |at| at.saturating_since(now))
    }

    fn repair_device(&mut self) {
        let name = format!("device {}", self.config.tun.name);
        match self.device.repair() {
            Ok(Repair::Done(restored)) => {
                let was_down = self.network.last_warning.take().is_some();
                if !restored.is_empty() {
                    tracing::warn!("{name}: restored what another program removed: {}", summary(&restored));
                } else if was_down {
                    tracing::info!("{name}: up and complete again");
                }
            }
            Ok(Repair::Down) => {
                self.warn_about_device(format!(
                    "{name}: another program took the device down: it carries no packets"
                ));
            }
            Ok(Repair::Gone) => self.recreate_device(),
            Err(error) => self.warn_about_device(format!("{name}: {error}")),
        }
    }

    /// Logs a warning about the device, unless it is the same as the last.
    fn warn_about_device(&mut self, warning: String) {
        if self.network.last_warning.as_ref() != Some(&warning) {
            tracing::warn!("{warning}");
            self.network.last_warning = Some(warning);
        }
    }

    fn recreate_device(&mut self) {
        let name = &self.config.tun.name;
        tracing::warn!("device {name}: another program removed the device: it is created again");
        match self.device.reopen(&self.config) {
            Ok(queues) => {
                self.offloads = self.device.offloads();
                self.workers.set_device(queues);
            }
            Err(error) => {
                self.failed = Some(DaemonError::Device(error));
                self.stopping = true;
            }
        }
    }

    pub(super) fn log_blocked_prefixes(&self) {
        let (name, count) = (&self.config.name, self.device.blocked());
        if count > 0 {
            tracing::info!(
                "site {name}: {} unreachable, so that no packet leaves in clear: `trunkline unblock {name}` lets packets pass",
                trunkline_schema::count(count, "prefix of peers stays", "prefixes of peers stay")
            );
        }
    }

    // ------------------------------------------------------------ paths of lanes

    /// Ends the lanes with a removed local address at once: they cannot receive an answer.
    fn address_removed(&mut self, address: IpAddr) {
        let is_gone = |socket: &LaneSocket| {
            // A lane over QUIC goes on from another address.
            let local = socket.fd.as_ref().and_then(|fd| rustix::net::getsockname(fd).ok());
            let local = local.and_then(|local| SocketAddr::try_from(local).ok());
            local.is_some_and(|local| local.ip().to_canonical() == address)
        };
        let gone: Vec<Serial> = self
            .lane_sockets
            .iter()
            .filter(|(_, socket)| is_gone(socket))
            .map(|(serial, _)| *serial)
            .collect();
        for serial in gone {
            self.end_lane(serial, &format!("this machine no longer has the address {address}"));
        }
    }
}

/// The first three items of a list, and the number of the others.
fn summary(items: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = items[..items.len().min(SHOWN)].join(", ");
    if items.len() > SHOWN { format!("{shown} and {} more", items.len() - SHOWN) } else { shown }
}

/// Warns of strict reverse-path filters. With a default route through the trunk, packets of lanes arrive on an interface
/// other than that of the route to their source, and a strict filter (RFC 3704) drops them. The daemon does not change the
/// filter, since it is a security setting of the machine.
pub(super) fn warn_of_strict_filters(config: &Config) {
    let default_v4 = |prefix: &ipnet::IpNet| prefix.prefix_len() == 0 && prefix.addr().is_ipv4();
    if config.default_routing().is_none() || !config.peers.iter().flat_map(|p| &p.routes).any(default_v4) {
        return;
    }
    let devices = fs::read_dir("/proc/sys/net/ipv4/conf").into_iter().flatten().flatten();
    let names = devices.filter_map(|entry| entry.file_name().into_string().ok());
    let strict = |name: &String| name != "all" && name != "default" && reverse_path::is_strict(name);
    if let Some(device) = names.filter(|name| *name != config.tun.name && name != "lo").find(strict) {
        tracing::warn!(
            "reverse-path filtering of {device} is strict and drops incoming packets of lanes: \
             sysctl -w net.ipv4.conf.all.rp_filter=2"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_shows_three_at_most() {
        let items: Vec<String> = (1..=5).map(|number| number.to_string()).collect();
        assert_eq!(summary(&items[..2]), "1, 2");
        assert_eq!(summary(&items), "1, 2, 3 and 2 more");
    }
}
