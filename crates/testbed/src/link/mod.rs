//! An emulated link between two hosts.
//!
//! A link is two TUN devices, one in each host, and a thread that carries packets between them through a model of
//! a wire ([`model`]). The devices are the hosts' interfaces: point to point, no neighbour discovery, and without
//! a virtio header the kernel hands over packets as a wire would carry them, never 64 KB at once. Since a TUN
//! takes responsibility for a packet when it is queued, a sender's TCP sees the link's queue as it would see that
//! of a router, not as local congestion (TCP small queues).
//!
//! Rate and order are exact in the long run whatever the machine does; a single packet can be late by the time it
//! takes to wake the thread up.

mod control;
mod counters;
mod forwarder;
pub mod model;
mod tun;

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_units::Rate;

use crate::namespace::{Host, HostError};

pub use crate::clock::Scheduling;
pub use control::LinkHandle;
pub use model::{Counters, DirectionSettings, Drops};

use forwarder::Forwarder;

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first host of the link to the second.
    Forward,
    /// From the second host to the first.
    Backward,
}

/// The parameters of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSettings {
    /// From the first host to the second.
    pub forward: DirectionSettings,
    /// From the second to the first.
    pub backward: DirectionSettings,
    /// The largest IP packet, in bytes.
    pub mtu: u32,
    /// Bytes that each packet occupies on the wire beyond its own, such as 14 for Ethernet.
    pub overhead_bytes: u32,
    /// Of the random streams of both directions.
    pub seed: u64,
    /// How the forwarding thread is scheduled.
    pub scheduling: Scheduling,
}

impl LinkSettings {
    /// The same in both directions, with an MTU of 1500 and no overhead.
    pub fn symmetric(direction: DirectionSettings) -> Self {
        Self {
            forward: direction,
            backward: direction,
            mtu: 1500,
            overhead_bytes: 0,
            seed: 1,
            scheduling: Scheduling::Shared,
        }
    }

    /// A wide-area link: `rate` and half of `round_trip` each way, and a tail-drop queue that takes `queue` to drain.
    pub fn wide_area(rate: Rate, round_trip: Duration, queue: Duration) -> Self {
        let bytes = rate.bytes_in(queue).max(2 * 1514);
        Self::symmetric(DirectionSettings {
            rate: Some(rate),
            delay: round_trip / 2,
            queue: QueueSettings::TailDrop(Limits { segments: u32::MAX, bytes }),
            ..DirectionSettings::default()
        })
    }
}

/// One end of a link to be made.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// The host.
    pub host: &'a Host,
    /// The name of the device in it.
    pub device: &'a str,
    /// The device's addresses, of either family.
    pub addresses: &'a [IpAddr],
}

/// Why a link could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A TUN device could not be made.
    #[error("host {host}: cannot make the TUN device {device}: {source}")]
    Device {
        /// The host.
        host: String,
        /// The device.
        device: String,
        /// What the system said.
        source: io::Error,
    },
    /// The device could not be configured.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The forwarding thread could not be started.
    #[error("cannot start the forwarder between {a} and {b}: {source}")]
    Forwarder {
        /// One host.
        a: String,
        /// The other.
        b: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A link. Dropping it removes both devices.
#[derive(Debug)]
pub struct Link {
    forwarder: Forwarder,
}

impl Link {
    /// Joins two hosts. Both devices are up, and each end has a route to every address of the other.
    pub fn new(a: End<'_>, b: End<'_>, settings: LinkSettings) -> Result<Self, LinkError> {
        let tun_a = tun::Tun::create(a.host, a.device)?;
        let tun_b = tun::Tun::create(b.host, b.device)?;
        configure(a, b.addresses, settings.mtu)?;
        configure(b, a.addresses, settings.mtu)?;
        let forwarder = Forwarder::start(tun_a, tun_b, settings).map_err(|source| LinkError::Forwarder {
            a: a.host.name().to_owned(),
            b: b.host.name().to_owned(),
            source,
        })?;
        Ok(Self { forwarder })
    }

    /// A handle to change the link and read its counters, from any thread.
    pub fn handle(&self) -> LinkHandle {
        self.forwarder.handle()
    }

    /// The counters of one direction now.
    pub fn counters(&self, way: Direction) -> Counters {
        self.forwarder.handle().counters(way)
    }
}

fn configure(end: End<'_>, peers: &[IpAddr], mtu: u32) -> Result<(), HostError> {
    end.host.netlink(|handle| {
        let index = handle.link_index(end.device)?;
        handle.set_mtu(index, mtu)?;
        // The thread empties the device's queue at once; its length only covers the thread's lateness.
        handle.set_tx_queue_len(index, 4096)?;
        handle.set_up(index)?;
        for address in end.addresses {
            handle.add_address(index, IpNet::from(*address), None)?;
        }
        for peer in peers {
            let route = trunkline_netlink::Route::to(IpNet::from(*peer)).device(index);
            handle.add_route(&route, trunkline_netlink::Existing::Replace)?;
        }
        Ok(())
    })
}
