//! Emulated links between hosts.
//!
//! A link is two TUN devices, one in each host, and a thread that carries packets between them through the model of a link that
//! the simulator runs ([`model`]). The devices are the hosts' interfaces: point to point, no neighbour discovery, and without
//! a virtio header the kernel hands over packets as a wire would carry them, never 64 KB at once. Since a TUN
//! takes responsibility for a packet when it is queued, a sender's TCP sees the link's queue as it would see that
//! of a router, not as local congestion (TCP small queues).
//!
//! Rate and order are exact in the long run whatever the machine does; a single packet can be late by the time it
//! takes to wake the thread up. A [`Network`] serves many links with one thread, a [`Link`] has one of its own.

mod control;
mod forwarder;
pub mod model;
mod network;
mod tun;

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use trunkline_link::LinkSettings;
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_units::{Rate, SettingsError};

use crate::namespace::{Host, HostError};

pub use crate::clock::Scheduling;
pub use control::LinkHandle;
pub use model::{Counters, Drops, Reading};
pub use network::Network;

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first host of the link to the second.
    Forward,
    /// From the second host to the first.
    Backward,
}

impl Direction {
    /// Both.
    pub const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];
}

/// The settings of both directions of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct DuplexSettings {
    /// From the first host to the second. Rates are of bits on the wire and queues of bytes on the wire, overhead included. Its
    /// MTU is that of the first host's device.
    pub forward: LinkSettings,
    /// From the second to the first.
    pub backward: LinkSettings,
    /// Bytes that each packet occupies on the wire beyond its own, such as 14 for Ethernet.
    pub overhead_bytes: u32,
    /// Of the random streams of both directions.
    pub seed: u64,
    /// How the forwarding thread of a link by itself is scheduled. The links of a [`Network`] have the network's.
    pub scheduling: Scheduling,
}

impl DuplexSettings {
    /// The same in both directions, without overhead.
    pub fn symmetric(way: LinkSettings) -> Self {
        Self {
            backward: way.clone(),
            forward: way,
            overhead_bytes: 0,
            seed: 1,
            scheduling: Scheduling::Shared,
        }
    }

    /// A wide-area link: `rate` and half of `round_trip` each way, and a tail-drop queue that takes `queue` to drain.
    pub fn wide_area(rate: Rate, round_trip: Duration, queue: Duration) -> Self {
        let bytes = rate.bytes_in(queue).max(2 * 1514);
        let queue = QueueSettings::TailDrop(Limits { segments: u32::MAX, bytes });
        Self::symmetric(LinkSettings::new(rate, round_trip / 2).queue(queue))
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
    /// The settings are wrong.
    #[error("link: {0}")]
    Settings(SettingsError),
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

/// A link with a forwarding thread of its own. Dropping it removes all devices of that thread.
#[derive(Debug)]
pub struct Link {
    handle: LinkHandle,
    network: Network,
}

impl Link {
    /// Joins two hosts, as [`Network::connect`] does.
    ///
    /// # Errors
    /// As that, or if the thread cannot be started.
    pub fn new(a: End<'_>, b: End<'_>, settings: &DuplexSettings) -> Result<Self, LinkError> {
        let mut network = Network::new(settings.scheduling).map_err(|source| LinkError::Forwarder {
            a: a.host.name().to_owned(),
            b: b.host.name().to_owned(),
            source,
        })?;
        Ok(Self { handle: network.connect(a, b, settings)?, network })
    }

    /// Joins two hosts by another link, which the same thread serves.
    ///
    /// # Errors
    /// As [`Network::connect`].
    pub fn join(
        &mut self,
        a: End<'_>,
        b: End<'_>,
        settings: &DuplexSettings,
    ) -> Result<LinkHandle, LinkError> {
        self.network.connect(a, b, settings)
    }

    /// A handle to change the link and read its counters, from any thread.
    pub fn handle(&self) -> LinkHandle {
        self.handle.clone()
    }

    /// The counters of one direction now.
    pub fn counters(&self, way: Direction) -> Counters {
        self.handle.counters(way)
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
