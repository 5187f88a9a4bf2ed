//! Tunnels of other programs, in the place of trunks.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use trunkline_sim::NodeId;
use trunkline_testbed::namespace::Host;
use trunkline_testbed::tunnel::{Adapter, Tunnel, TunnelError, TunnelSettings};

use super::Misfit;
use crate::scenario::{Family, Scenario};

/// The tunnels of a scenario.
#[derive(Debug)]
pub(super) struct Tunnels(Vec<Tunnel>);

/// Whether this machine has the programs of all.
pub(super) fn check(scenario: &Scenario) -> Result<(), Misfit> {
    if let (Some(tunnel), true) = (scenario.tunnels.first(), scenario.sends(Family::Ipv6)) {
        let problem = "is beside traffic over IPv6, which tunnels of other programs do not carry here; allowed: family = \"ipv4\"";
        return Err(Misfit::new(format!("trunks.{}.program", tunnel.name), problem));
    }
    for tunnel in &scenario.tunnels {
        let part = format!("trunks.{}.program", tunnel.name);
        let Some(adapter) = Adapter::named(&tunnel.program) else {
            let known = Adapter::names().collect::<Vec<_>>().join(", ");
            return Err(Misfit::new(part, format!("is {:?}; allowed: {known}", tunnel.program)));
        };
        let missing = adapter.missing();
        if !missing.is_empty() {
            let problem = format!(
                "is {:?}, which needs {}; allowed on this machine: what is there",
                tunnel.program,
                missing.join(" and ")
            );
            return Err(Misfit::new(part, problem));
        }
    }
    Ok(())
}

impl Tunnels {
    /// Starts all, and waits until each carries packets.
    pub(super) fn start(
        scenario: &Scenario,
        hosts: &[Arc<Host>],
        stop: &AtomicBool,
    ) -> Result<Self, TunnelError> {
        let mut tunnels = Vec::new();
        for (number, tunnel) in (0..).zip(&scenario.tunnels) {
            let Some(adapter) = Adapter::named(&tunnel.program) else { continue };
            let settings = TunnelSettings {
                name: &tunnel.name,
                number,
                hosts: tunnel.gateways.map(|gateway| &hosts[gateway]),
                addresses: tunnel.gateways.map(|gateway| NodeId::nth(gateway).address()),
                sites: tunnel
                    .sites
                    .each_ref()
                    .map(|site| site.iter().map(|host| NodeId::nth(*host).address()).collect()),
                probe: &hosts[tunnel.sites[0][0]],
            };
            tunnels.push(Tunnel::start(adapter, &settings, stop)?);
        }
        Ok(Tunnels(tunnels))
    }

    /// An error if a program has ended.
    pub(super) fn check_alive(&mut self) -> Result<(), TunnelError> {
        self.0.iter_mut().try_for_each(Tunnel::check_alive)
    }

    /// Ends all of them in order.
    pub(super) fn end(&mut self) -> Result<(), TunnelError> {
        self.0.iter_mut().try_for_each(Tunnel::end)
    }
}
