//! Why the device, or what leads into it, could not be set up.

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
    /// A route to what a peer asks for is there already and leads elsewhere.
    #[error(
        "cannot route {prefix} into the trunk: this machine has a route to it already ({there}), and it is not ours \
         to replace; {}",
        remedy(*prefix)
    )]
    RouteTaken {
        /// The prefix.
        prefix: IpNet,
        /// The route that is there.
        there: Box<Route>,
    },
    /// It could not be configured.
    #[error("cannot set up the TUN device: {0}")]
    Configure(#[from] NetlinkError),
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            " (CAP_NET_ADMIN is needed: run as root, or by the unit file in dist/)"
        }
        Some(libc::EBUSY) => " (another process holds it)",
        Some(libc::ENOENT | libc::ENODEV) => " (the kernel module tun is not loaded: modprobe tun)",
        Some(libc::EINVAL) => {
            " (a device of that name exists and is no TUN device, or has another number of queues)"
        }
        _ => "",
    }
}

fn remedy(prefix: IpNet) -> &'static str {
    if prefix.prefix_len() == 0 {
        "leave tun.table at \"auto\", which puts it beside that one"
    } else {
        "remove that one, or give the peer more specific routes, such as the two halves of it"
    }
}
