//! The TUN device as the network sees it: its addresses, its MTU and the routes that lead into it.

use std::collections::BTreeSet;

use ipnet::IpNet;
use trunkline_netlink::{Existing, Handle, NetlinkError, Route};

use crate::config::Config;
use crate::tun::TunQueue;

/// Why the device could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The device could not be opened.
    #[error("cannot open the TUN device {name}: {source}{}", hint(source))]
    Open {
        /// Its name.
        name: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// A route that a peer asks for is there already and leads elsewhere.
    #[error(
        "cannot route {0} into the trunk: this machine has that route already, and it is not ours to replace; \
         remove it, or give the peer more specific routes, such as the two halves of it"
    )]
    RouteTaken(IpNet),
    /// It could not be configured.
    #[error("cannot set up the TUN device: {0}")]
    Configure(#[from] NetlinkError),
}

fn hint(error: &std::io::Error) -> &'static str {
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

const MAIN_TABLE: u32 = 254;

/// The device, up and routed. Its queues go to the workers; what is left here serves reloads and counters.
pub(crate) struct Device {
    index: u32,
    netlink: Handle,
    addresses: BTreeSet<IpNet>,
    routes: BTreeSet<IpNet>,
    mtu: u32,
    tx_queue_len: u32,
    /// Keeps the device while workers come and go.
    _keep: TunQueue,
}

impl Device {
    /// Opens and configures the device of `config`.
    pub(crate) fn open(config: &Config) -> Result<(Device, Vec<TunQueue>), DeviceError> {
        let tun = &config.tun;
        let queues = TunQueue::open(&tun.name, tun.queues, tun.offloads)
            .map_err(|source| DeviceError::Open { name: tun.name.clone(), source })?;
        let offloads = queues[0].offloads();
        if tun.offloads && !(offloads.checksum && offloads.tcp) {
            tracing::warn!("{}: no TCP offloads on this kernel: packets are carried one by one", tun.name);
        } else if tun.offloads && !offloads.udp {
            tracing::warn!(
                "{}: no UDP offload on this kernel: its super-packets are segmented here",
                tun.name
            );
        }
        let mut netlink = Handle::open()?;
        let index = netlink.link_index(&tun.name)?;
        let keep = queues[0].clone();
        let mut device = Device {
            index,
            netlink,
            addresses: BTreeSet::new(),
            routes: BTreeSet::new(),
            mtu: 0,
            tx_queue_len: 0,
            _keep: keep,
        };
        device.follow(config)?;
        Ok((device, queues))
    }

    /// Brings addresses, routes, MTU and queue length to what `config` says; touches nothing that stays.
    pub(crate) fn follow(&mut self, config: &Config) -> Result<(), DeviceError> {
        let tun = &config.tun;
        if self.tx_queue_len != tun.tx_queue_len {
            self.netlink.set_tx_queue_len(self.index, tun.tx_queue_len)?;
            self.tx_queue_len = tun.tx_queue_len;
        }
        if self.mtu != tun.mtu {
            self.netlink.set_mtu(self.index, tun.mtu)?;
            self.mtu = tun.mtu;
        }
        self.netlink.set_up(self.index)?;
        let addresses: BTreeSet<IpNet> = tun.addresses.iter().copied().collect();
        for gone in self.addresses.difference(&addresses).copied().collect::<Vec<_>>() {
            self.netlink.delete_address(self.index, gone)?;
            self.addresses.remove(&gone);
        }
        for new in addresses.difference(&self.addresses).copied().collect::<Vec<_>>() {
            self.netlink.add_address(self.index, new, None)?;
            self.addresses.insert(new);
        }
        let routes: BTreeSet<IpNet> =
            config.peers.iter().flat_map(|peer| &peer.routes).map(IpNet::trunc).collect();
        for gone in self.routes.difference(&routes).copied().collect::<Vec<_>>() {
            self.netlink.delete_route(&Route::to(gone).device(self.index))?;
            self.routes.remove(&gone);
        }
        for new in routes.difference(&self.routes).copied().collect::<Vec<_>>() {
            self.add_route(new)?;
            self.routes.insert(new);
        }
        Ok(())
    }

    /// Routes `prefix` into the device. What is there already and leads elsewhere is somebody else's.
    fn add_route(&mut self, prefix: IpNet) -> Result<(), DeviceError> {
        match self.netlink.add_route(&Route::to(prefix).device(self.index), Existing::Keep) {
            Err(error) if error.is_already_there() => {
                let there = self.netlink.routes(MAIN_TABLE)?;
                let ours = |route: &Route| route.destination == prefix && route.device == Some(self.index);
                if there.iter().any(ours) { Ok(()) } else { Err(DeviceError::RouteTaken(prefix)) }
            }
            other => Ok(other?),
        }
    }

    /// Packets that the kernel dropped because the device's own queue was full.
    pub(crate) fn queue_drops(&mut self) -> u64 {
        self.netlink.link_stats(self.index).map_or(0, |stats| stats.tx_dropped)
    }
}
