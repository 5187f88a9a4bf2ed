//! The standard scene: two sites, a gateway each, and a WAN between the gateways.
//!
//! ```text
//! A (client) ── veth ── T1 (gateway) ══ WAN ══ T2 (gateway) ── veth ── X (server)
//! ```
//!
//! Sites know one route, to their gateway. Gateways know no route to the far site until either
//! [`Scene::route_directly`] makes one over the WAN or [`Scene::start_gateways`] runs trunk gateways, which make
//! their own into the trunk: so nothing can pass a trunk by and be counted as carried by it.
//!
//! Gateways need keys, configurations and sockets, the only things here that have names: they are in a private
//! directory under `$TMPDIR` that goes with the [`Gateways`].

mod configuration;
mod error;
mod gateways;
mod plan;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use trunkline_netlink::Route;

use crate::link::{DuplexSettings, End, Link, LinkHandle};
use crate::namespace::{Host, HostError, Offloads, veth};
use crate::traffic::Stop;

pub use configuration::{Dialling, Encryption, GatewaySetup, TUN_DEVICE};
pub use error::SceneError;
pub use gateways::{Gateway, Gateways};
pub use plan::Plan;

/// The device of a site host, and of a gateway towards its site.
pub const LAN_DEVICE: &str = "lan";
/// The device of a gateway towards the other.
pub const WAN_DEVICE: &str = "wan";
const MAIN_TABLE: u32 = 254;

/// What joins the gateways.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a scene has one")]
pub enum Wan {
    /// A pair of virtual Ethernet devices: as fast as the CPU.
    Veth,
    /// An emulated link, T1 being its first host.
    Emulated(DuplexSettings),
}

/// How a scene is built.
#[derive(Debug, Clone, PartialEq)]
pub struct SceneSettings {
    /// What joins the gateways.
    pub wan: Wan,
    /// The congestion control of sockets that choose none, as far as the kernel lets a namespace have it. Traffic
    /// and gateways name theirs per socket.
    pub congestion_control: String,
    /// Whether the sites' devices segment and merge packets. [`Offloads::Off`] makes every packet one that a wire
    /// would carry, so that a queue in packets counts real ones.
    pub site_offloads: Offloads,
}

impl SceneSettings {
    /// Cubic; offloads on a fast WAN, and none on an emulated one.
    pub fn new(wan: Wan) -> Self {
        let site_offloads = match wan {
            Wan::Veth => Offloads::On,
            Wan::Emulated(_) => Offloads::Off,
        };
        Self { wan, congestion_control: "cubic".to_owned(), site_offloads }
    }
}

/// Two sites and what is between them. Dropping it removes everything.
#[derive(Debug)]
pub struct Scene {
    // Before the hosts, so that it goes first.
    link: Option<Link>,
    /// The client.
    pub a: Arc<Host>,
    /// The first gateway.
    pub t1: Arc<Host>,
    /// The second gateway.
    pub t2: Arc<Host>,
    /// The server.
    pub x: Arc<Host>,
    plans: Vec<Plan>,
}

impl Scene {
    /// Builds the scene with the settings that suit the WAN.
    pub fn new(wan: Wan) -> Result<Self, SceneError> {
        Self::build(&SceneSettings::new(wan))
    }

    /// Builds the scene.
    pub fn build(settings: &SceneSettings) -> Result<Self, SceneError> {
        let plans = plans();
        let host = |name| -> Result<Arc<Host>, HostError> {
            let host = Host::new(name)?;
            prepare(&host, &settings.congestion_control, &plans)?;
            Ok(Arc::new(host))
        };
        let mut scene =
            Self { link: None, a: host("A")?, t1: host("T1")?, t2: host("T2")?, x: host("X")?, plans };
        for gateway in [&scene.t1, &scene.t2] {
            gateway.sysctl("net.ipv4.ip_forward", "1")?;
            if scene.has_ipv6() {
                gateway.sysctl("net.ipv6.conf.all.forwarding", "1")?;
            }
        }
        veth(&scene.a, LAN_DEVICE, &scene.t1, LAN_DEVICE)?;
        veth(&scene.x, LAN_DEVICE, &scene.t2, LAN_DEVICE)?;
        for host in [&scene.a, &scene.t1, &scene.t2, &scene.x] {
            host.offloads(LAN_DEVICE, settings.site_offloads)?;
        }
        scene.link = scene.join(&settings.wan)?;
        scene.address()?;
        Ok(scene)
    }

    fn join(&self, wan: &Wan) -> Result<Option<Link>, SceneError> {
        match wan {
            Wan::Veth => {
                veth(&self.t1, WAN_DEVICE, &self.t2, WAN_DEVICE)?;
                for plan in &self.plans {
                    self.t1.address(WAN_DEVICE, plan::on_link(plan.t1_wan), None)?;
                    self.t2.address(WAN_DEVICE, plan::on_link(plan.t2_wan), None)?;
                }
                Ok(None)
            }
            Wan::Emulated(settings) => {
                let near: Vec<IpAddr> = self.plans.iter().map(|plan| plan.t1_wan).collect();
                let far: Vec<IpAddr> = self.plans.iter().map(|plan| plan.t2_wan).collect();
                let t1 = End { host: &self.t1, device: WAN_DEVICE, addresses: &near };
                let t2 = End { host: &self.t2, device: WAN_DEVICE, addresses: &far };
                Ok(Some(Link::new(t1, t2, settings)?))
            }
        }
    }

    fn address(&self) -> Result<(), HostError> {
        for plan in &self.plans {
            self.t1.address(LAN_DEVICE, plan::on_link(plan.t1_lan), None)?;
            self.t2.address(LAN_DEVICE, plan::on_link(plan.t2_lan), None)?;
            self.a.address(LAN_DEVICE, plan::on_link(plan.a), None)?;
            self.x.address(LAN_DEVICE, plan::on_link(plan.x), None)?;
            self.a.route(plan.any(), plan.t1_lan)?;
            self.x.route(plan.any(), plan.t2_lan)?;
        }
        Ok(())
    }

    /// The emulated link, to change it and read its counters; `None` with [`Wan::Veth`].
    pub fn link(&self) -> Option<LinkHandle> {
        self.link.as_ref().map(Link::handle)
    }

    /// Joins the gateways by another emulated link, whose devices have this name and these addresses: the first gateway's, and the
    /// second's. One thread serves both links.
    ///
    /// # Errors
    /// As [`Link::join`]; a scene without an [emulated](Wan::Emulated) WAN cannot have one.
    pub fn join_again(
        &mut self,
        device: &str,
        [near, far]: [IpAddr; 2],
        settings: &DuplexSettings,
    ) -> Result<LinkHandle, SceneError> {
        let t1 = End { host: &self.t1, device, addresses: &[near] };
        let t2 = End { host: &self.t2, device, addresses: &[far] };
        let link = self.link.as_mut().ok_or(SceneError::NotEmulated)?;
        Ok(link.join(t1, t2, settings)?)
    }

    /// Whether the scene has IPv6, which a kernel may lack.
    pub fn has_ipv6(&self) -> bool {
        self.plans.contains(&Plan::IPV6)
    }

    /// A gateway's host.
    pub fn host(&self, gateway: Gateway) -> &Arc<Host> {
        match gateway {
            Gateway::T1 => &self.t1,
            Gateway::T2 => &self.t2,
        }
    }

    /// Routes between the sites over the WAN, without a trunk.
    pub fn route_directly(&self) -> Result<(), SceneError> {
        for plan in &self.plans {
            self.t1.route(plan.second_site(), plan.t2_wan)?;
            self.t2.route(plan.first_site(), plan.t1_wan)?;
        }
        Ok(())
    }

    /// Takes back what [`Scene::route_directly`] did; does nothing if it did nothing.
    pub fn unroute_directly(&self) -> Result<(), SceneError> {
        for plan in &self.plans {
            unroute(&self.t1, &Route::to(plan.second_site()).via(plan.t2_wan))?;
            unroute(&self.t2, &Route::to(plan.first_site()).via(plan.t1_wan))?;
        }
        Ok(())
    }

    /// Runs a trunk gateway in T1 and in T2, in place of direct routes, and waits until all lanes are up.
    pub fn start_gateways(&self, setup: &GatewaySetup) -> Result<Gateways, SceneError> {
        self.start_gateways_until(setup, &Stop::new())
    }

    /// As [`Scene::start_gateways`], but stops waiting, now and in later waits, when asked to.
    pub fn start_gateways_until(&self, setup: &GatewaySetup, stop: &Stop) -> Result<Gateways, SceneError> {
        self.unroute_directly()?;
        Gateways::start([Arc::clone(&self.t1), Arc::clone(&self.t2)], setup, &self.plans, stop)
    }
}

fn plans() -> Vec<Plan> {
    let mut plans = vec![Plan::IPV4];
    if Path::new("/proc/sys/net/ipv6").exists() {
        plans.push(Plan::IPV6);
    }
    plans
}

fn prepare(host: &Host, congestion_control: &str, plans: &[Plan]) -> Result<(), HostError> {
    host.sysctl("net.ipv4.conf.all.rp_filter", "0")?;
    host.sysctl("net.ipv4.conf.default.rp_filter", "0")?;
    host.sysctl("net.ipv4.tcp_no_metrics_save", "1")?;
    if plans.contains(&Plan::IPV6) {
        // The test of a new address for duplicates would hold it back for a second.
        host.sysctl("net.ipv6.conf.default.accept_dad", "0")?;
    }
    // A namespace may have as its default only what tcp_allowed_congestion_control lists; sockets of ours name
    // theirs and do not depend on it.
    let _ = host.sysctl("net.ipv4.tcp_congestion_control", congestion_control);
    Ok(())
}

fn unroute(host: &Host, route: &Route) -> Result<(), HostError> {
    host.netlink(|handle| {
        let there = handle
            .routes(MAIN_TABLE)?
            .into_iter()
            .any(|other| other.destination == route.destination && other.via == route.via);
        if there { handle.delete_route(route) } else { Ok(()) }
    })
}
