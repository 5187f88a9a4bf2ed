//! Links that one thread serves.

use std::io;

use trunkline_units::Instant;

use super::control::{LinkHandle, check};
use super::forwarder::Forwarder;
use super::tun::Tun;
use super::{DuplexSettings, End, LinkError, configure};
use crate::clock::Scheduling;

/// Any number of links with one forwarding thread. Dropping it removes all devices.
#[derive(Debug)]
pub struct Network {
    forwarder: Forwarder,
    links: Vec<LinkHandle>,
}

impl Network {
    /// A network without links, whose thread is scheduled like this.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn new(scheduling: Scheduling) -> io::Result<Self> {
        Ok(Self { forwarder: Forwarder::start(scheduling)?, links: Vec::new() })
    }

    /// Joins two hosts by a link. Both devices are up, and each end has a route to every address of the other. The settings'
    /// `scheduling` is not used: the thread is the network's.
    ///
    /// # Errors
    /// If a device cannot be made or configured, or the settings are wrong.
    pub fn connect(
        &mut self,
        a: End<'_>,
        b: End<'_>,
        settings: &DuplexSettings,
    ) -> Result<LinkHandle, LinkError> {
        for (place, way) in [("forward", &settings.forward), ("backward", &settings.backward)] {
            check(way).map_err(|error| LinkError::Settings(error.within(place)))?;
        }
        let tuns = [Tun::create(a.host, a.device)?, Tun::create(b.host, b.device)?];
        configure(a, b.addresses, settings.forward.mtu)?;
        configure(b, a.addresses, settings.backward.mtu)?;
        let handle = self.forwarder.join(tuns, settings);
        self.links.push(handle.clone());
        Ok(handle)
    }

    /// The links, in the order in which they were made.
    pub fn links(&self) -> &[LinkHandle] {
        &self.links
    }

    /// Lets the scheduled changes of all links count their times from `start`.
    pub fn restart_changes(&self, start: Instant) {
        self.links.iter().for_each(|link| link.restart_changes(start));
    }
}
