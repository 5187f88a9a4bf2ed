//! Errors of the device and of the routes into it.

use std::io;

use ipnet::IpNet;
use trunkline_netlink::{NetlinkError, Route};

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
    #[error(
        "cannot route {prefix} into the trunk: this machine has a route to it already ({there}), which another program \
         owns; {}",
        remedy(*prefix)
    )]
    RouteTaken {
        /// The prefix.
        prefix: IpNet,
        /// The existing route.
        there: Box<Route>,
    },
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

fn remedy(prefix: IpNet) -> &'static str {
    if prefix.prefix_len() == 0 {
        "leave tun.table at \"auto\": then the trunk's route has a table of its own"
    } else {
        "remove that route, or give the peer more specific routes, such as the two halves of the prefix"
    }
}
