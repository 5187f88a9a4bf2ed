//! Errors of the device and of the routes into it.

use std::fmt;
use std::io;

use trunkline_netlink::{NetlinkError, Route};

use super::wanted::PROTOCOL;
use crate::config::{AUTO_TABLE, MAIN_TABLE};

/// Why the device could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The device could not be opened.
    #[error("cannot open the TUN device {name}: {source}{}", hint(source))]
    Open {
        /// Its name.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Another program has a route to a prefix of a peer.
    #[error(transparent)]
    RouteTaken(Box<RouteTaken>),
    /// The kernel refused a step of the configuration.
    #[error("cannot set up the TUN device: {0}")]
    Configure(#[from] NetlinkError),
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            " (this needs CAP_NET_ADMIN: run as root, or with the unit file in dist/)"
        }
        Some(libc::EBUSY) => " (another process holds it)",
        Some(libc::ENOENT | libc::ENODEV) => " (the kernel module tun is not loaded: modprobe tun)",
        Some(libc::EINVAL) => {
            " (a device with that name exists and is not a TUN device, or has another number of queues)"
        }
        _ => "",
    }
}

/// A route of another program to a prefix of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteTaken {
    /// The route. Its destination is the prefix.
    pub there: Route,
    /// The name of the device that it leads to, if there is one.
    pub device: Option<String>,
}

impl std::error::Error for RouteTaken {}

impl fmt::Display for RouteTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RouteTaken { there, .. } = self;
        let prefix = there.destination;
        write!(f, "cannot route {prefix} into the trunk: ")?;
        if there.protocol == PROTOCOL {
            write!(f, "another Trunkline site on this machine has that route")?;
        } else {
            write!(f, "this machine has a route to it already, which another program owns")?;
        }
        write!(f, " ({}); {}", self.way(), self.remedy())
    }
}

impl RouteTaken {
    /// Where the route leads, and the table that has it.
    pub(super) fn way(&self) -> String {
        let RouteTaken { there, device } = self;
        let via = there.via.map_or_else(String::new, |via| format!("via {via}, "));
        let device = device.as_ref().map_or_else(String::new, |name| format!("device {name}, "));
        let table = if there.table == MAIN_TABLE { "main".to_owned() } else { there.table.to_string() };
        format!("{via}{device}table {table}")
    }

    fn remedy(&self) -> String {
        let is_default = self.there.destination.prefix_len() == 0;
        match self.there.table {
            AUTO_TABLE if is_default && self.there.protocol == PROTOCOL => format!(
                "give one of the two sites another tun.table, with ip rules that lead to it, and lanes.fwmark = {AUTO_TABLE}; \
                 or make them one site with two peers"
            ),
            MAIN_TABLE if is_default => {
                "leave tun.table at \"auto\": then the trunk's route has a table of its own".to_owned()
            }
            table if is_default => format!("remove that route, or give the site another tun.table than {table}"),
            _ if self.there.protocol == PROTOCOL => "give the prefix to one of the two sites".to_owned(),
            _ => "remove that route, or give the peer more specific routes, such as the two halves of the prefix"
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ipnet::IpNet;

    use super::*;

    fn told(prefix: &str, table: u32, protocol: u8) -> String {
        let prefix: IpNet = prefix.parse().expect("a prefix");
        let there = Route { protocol, ..Route::to(prefix).table(table).device(4) };
        RouteTaken { there, device: Some("trunk0".to_owned()) }.to_string()
    }

    #[test]
    fn a_route_that_is_taken_names_its_device_and_a_remedy_that_is_not_in_force_already() {
        assert_eq!(
            told("0.0.0.0/0", AUTO_TABLE, PROTOCOL),
            "cannot route 0.0.0.0/0 into the trunk: another Trunkline site on this machine has that route (device trunk0, \
             table 29804); give one of the two sites another tun.table, with ip rules that lead to it, and lanes.fwmark = \
             29804; or make them one site with two peers"
        );
        let cases = [
            (
                "::/0",
                MAIN_TABLE,
                3,
                "another program owns (device trunk0, table main); leave tun.table at \"auto\"",
            ),
            ("::/0", AUTO_TABLE, 3, "remove that route, or give the site another tun.table than 29804"),
            ("0.0.0.0/0", 9, PROTOCOL, "remove that route, or give the site another tun.table than 9"),
            ("10.0.0.0/8", MAIN_TABLE, PROTOCOL, "table main); give the prefix to one of the two sites"),
            ("10.0.0.0/8", MAIN_TABLE, 3, "more specific routes, such as the two halves"),
        ];
        for (prefix, table, protocol, words) in cases {
            let told = told(prefix, table, protocol);
            assert!(told.contains(words), "{told}");
            assert_eq!(told.contains("Trunkline site"), protocol == PROTOCOL, "{told}");
        }
    }
}
