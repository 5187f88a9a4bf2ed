//! The device, addresses and routes of this machine.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use rustix::process::{Resource, getrlimit};
use trunkline_netlink::Handle;

use super::Level::{Fault, Warning};
use super::{Examination, Level};
use crate::config::Config;
use crate::device::{Blocked, blocks};

/// Descriptors that a gateway should have: one for each lane, and for its proxies two for each connection.
const MIN_DESCRIPTORS: u64 = 1024;

/// Whether a device can be made.
pub(super) fn examine_device(examination: &mut Examination) {
    let opened = std::fs::File::options().read(true).write(true).open("/dev/net/tun");
    let found = opened.err().map(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let problem = "this user may not open /dev/net/tun".to_owned();
            (Fault, problem, "run as root, or as a unit of systemd".to_owned())
        }
        _ => (Fault, format!("/dev/net/tun cannot be opened: {error}"), "modprobe tun".to_owned()),
    });
    examination.look("tun", found);
}

pub(super) fn examine_limits(examination: &mut Examination) {
    // The gateway raises its soft limit to this one.
    let limit = getrlimit(Resource::Nofile).maximum;
    let few = limit.filter(|limit| *limit < MIN_DESCRIPTORS).map(|limit| {
        let problem =
            format!("a process may have {limit} descriptors: many lanes or proxied connections need more");
        (Warning, problem, "ulimit -Hn 65536, or LimitNOFILE=65536 in the unit".to_owned())
    });
    examination.look("descriptors", few);
}

/// Looks at what a site needs of this machine. `runs`: its gateway runs, and has what it needs of addresses and device.
pub(super) fn examine(site: &Config, runs: bool, examination: &mut Examination) {
    if !runs {
        for address in &site.listen {
            examination.look("listen", listen(site, *address));
        }
    }
    let mut handle = match Handle::open() {
        Ok(handle) => handle,
        Err(error) => {
            let problem = format!("addresses and routes cannot be read: {error}");
            return examination.look("routes", Some((Warning, problem, "run as root".to_owned())));
        }
    };
    if !runs {
        device(site, &mut handle, examination);
        blocked(site, &mut handle, examination);
    }
    overlaps(site, &mut handle, examination);
}

/// Whether the gateway could listen on an address.
fn listen(site: &Config, address: SocketAddr) -> Option<(Level, String, String)> {
    let tcp = site.may_use_tcp().then(|| TcpListener::bind(address).err()).flatten();
    let udp = site.may_use_quic().then(|| UdpSocket::bind(address).err()).flatten();
    let (name, error) = tcp.map(|error| ("TCP", error)).or_else(|| udp.map(|error| ("UDP", error)))?;
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("end what listens there (ss -lnp 'sport = {}'), or take another port", address.port())
        }
        io::ErrorKind::AddrNotAvailable => {
            "write an address of this machine (ip address), or 0.0.0.0".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "take a port from 1024 on, or allow CAP_NET_BIND_SERVICE".to_owned()
        }
        _ => "see `ip address`".to_owned(),
    };
    Some((Fault, format!("the gateway cannot listen on {address}, {name}: {error}"), remedy))
}

/// Whether another device has the name of the site's.
fn device(site: &Config, handle: &mut Handle, examination: &mut Examination) {
    let name = &site.tun.name;
    let taken = handle.link_exists(name).unwrap_or(false).then(|| {
        let problem =
            format!("there is a device {name} already, and the gateway of {} does not run", site.name);
        (Fault, problem, format!("ip link delete {name}, or set tun.name in the file"))
    });
    examination.look("device", taken);
}

/// Whether a gateway that has ended still blocks packets to the site's peers.
fn blocked(site: &Config, handle: &mut Handle, examination: &mut Examination) {
    let routes = blocks(handle, Blocked::Site(&site.name)).unwrap_or_default();
    let found = routes.first().map(|route| {
        let problem = format!(
            "packets to {} are blocked until the gateway of {} runs again, so that they do not leave unencrypted",
            route.destination, site.name
        );
        (Warning, problem, format!("start the gateway, or: trunkline unblock {}", site.name))
    });
    examination.look("blocked", found);
}

/// Whether an address of this machine lies in a prefix that leads to a peer.
fn overlaps(site: &Config, handle: &mut Handle, examination: &mut Examination) {
    let links = handle.links().unwrap_or_default();
    for link in links.into_iter().filter(|link| link.name != site.tun.name) {
        for address in handle.addresses(link.index).unwrap_or_default() {
            let address = address.address.addr();
            let routes =
                site.peers.iter().flat_map(|peer| peer.routes.iter().map(move |route| (peer, route)));
            let mut inside = routes.filter(|(_, route)| route.prefix_len() > 0 && route.contains(&address));
            let found = inside.next().map(|(peer, route)| {
                let problem = format!(
                    "{address} of {} is in {route}, which leads to {}: hosts of that network here become unreachable, or those there",
                    link.name, peer.name
                );
                (Warning, problem, format!("write in routes of {} only what is behind it", peer.name))
            });
            examination.look("routes", found);
        }
    }
}
