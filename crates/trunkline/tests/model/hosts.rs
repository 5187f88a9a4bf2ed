//! The hosts and the network between them, and the operations on it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use trunkline_link::Jitter;
use trunkline_link::Loss;
use trunkline_netlink::{Existing, Handle, NetlinkError, Route, RouteKind};
use trunkline_testbed::clock::Scheduling;
use trunkline_testbed::link::{Direction, DuplexSettings, End, LinkError, LinkHandle, Network};
use trunkline_testbed::namespace::{Host, HostError, veth};
use trunkline_units::Rate;

use super::step::{Site, Ways};

pub(crate) const TUN: &str = "trunk";
/// The host behind the hub, whose connections the hub's proxy treats.
pub(crate) const LAN: [u8; 4] = [198, 19, 101, 2];
/// Nobody is there, and nobody says so.
pub(crate) const NOWHERE: [u8; 4] = [203, 0, 113, 9];
/// Of each line, in each direction.
pub(crate) const MBIT: f64 = 20.0;
const ROUND_TRIP: Duration = Duration::from_millis(6);
const QUEUE: Duration = Duration::from_millis(60);
const MTU: u32 = 1500;
const MAIN_TABLE: u32 = 254;

/// What a line does to packets. The default is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// From the site, and to it.
    pub(crate) fails: [bool; 2],
    pub(crate) has_no_carrier: bool,
    pub(crate) reorders: bool,
    /// The longest packet it takes, if that is less than usual.
    pub(crate) longest: Option<u32>,
    /// Longer ones vanish without a word.
    pub(crate) swallows: bool,
}

impl Line {
    pub(crate) fn is_usable(self) -> bool {
        self.fails == [false; 2] && !self.has_no_carrier
    }
}

/// Three sites, each with a line of its own to the router in the middle.
///
/// ```text
/// site "wan" ── veth ── "wan" modem "core" ── emulated link ── "coreN" router
/// ```
pub(crate) struct Hosts {
    // Links before hosts: their devices are in the hosts.
    links: Network,
    pub(crate) router: Host,
    modems: [Host; 3],
    sites: [Arc<Host>; 3],
    pub(crate) lan: Arc<Host>,
    /// The last byte of each site's address.
    last: [u8; 3],
    lines: [Line; 3],
}

fn prefix(text: &str) -> IpNet {
    text.parse().expect("a prefix")
}

fn anywhere() -> IpNet {
    prefix("0.0.0.0/0")
}

fn gateway(site: Site) -> IpAddr {
    [198, 18, site.number(), 1].into()
}

fn core(site: Site) -> String {
    format!("core{}", site.number())
}

impl Hosts {
    pub(crate) fn new() -> Result<Self, LinkError> {
        let router = Host::new("R")?;
        router.forwarding()?;
        let hole = Route { kind: RouteKind::Blackhole, ..Route::to(prefix("203.0.113.0/24")) };
        router.netlink(|handle| handle.add_route(&hole, Existing::Replace))?;
        let sites = [Host::new("HUB")?, Host::new("B")?, Host::new("C")?];
        let modems = [Host::new("MHUB")?, Host::new("MB")?, Host::new("MC")?];
        let mut links = Network::new(Scheduling::Shared).map_err(|source| LinkError::Forwarder {
            a: "modems".into(),
            b: "router".into(),
            source,
        })?;
        let settings = DuplexSettings::wide_area(Rate::from_mbit(MBIT), ROUND_TRIP, QUEUE);
        for ((site, host), modem) in Site::ALL.into_iter().zip(&sites).zip(&modems) {
            let number = site.number();
            veth(modem, "wan", host, "wan")?;
            modem.address("wan", prefix(&format!("198.18.{number}.1/24")), None)?;
            modem.forwarding()?;
            host.address("wan", prefix(&format!("198.18.{number}.2/24")), None)?;
            host.forwarding()?;
            host.route(anywhere(), gateway(site))?;
            let ends = [1, 2].map(|last| IpAddr::from([198, 18, 100 + number, last]));
            links.connect(
                End { host: modem, device: "core", addresses: &ends[..1] },
                End { host: &router, device: &core(site), addresses: &ends[1..] },
                &DuplexSettings { seed: number.into(), ..settings.clone() },
            )?;
            modem.route_out(anywhere(), "core")?;
            router.route_out(prefix(&format!("198.18.{number}.0/24")), &core(site))?;
        }
        let lan = Host::new("LAN")?;
        let hub = &sites[Site::Hub as usize];
        veth(hub, "lan", &lan, "up")?;
        hub.address("lan", prefix("198.19.101.1/24"), None)?;
        lan.address("up", IpNet::new(LAN.into(), 24).expect("a prefix"), None)?;
        lan.route(anywhere(), [198, 19, 101, 1].into())?;
        Ok(Self {
            links,
            router,
            modems,
            sites: sites.map(Arc::new),
            lan: Arc::new(lan),
            last: [2; 3],
            lines: Default::default(),
        })
    }

    pub(crate) fn host(&self, site: Site) -> &Arc<Host> {
        &self.sites[site as usize]
    }

    pub(crate) fn wan(&self, site: Site) -> IpNet {
        prefix(&format!("198.18.{}.{}/24", site.number(), self.last[site as usize]))
    }

    /// Whether the site has the address that others know.
    pub(crate) fn is_at_home(&self, site: Site) -> bool {
        self.last[site as usize] == 2
    }

    fn link(&self, site: Site) -> &LinkHandle {
        &self.links.links()[site as usize]
    }

    pub(crate) fn line(&self, site: Site) -> Line {
        self.lines[site as usize]
    }

    /// Gives the site's line other faults.
    pub(crate) fn damage(&mut self, site: Site, damage: impl FnOnce(&mut Line)) -> Result<(), HostError> {
        let mut line = self.line(site);
        damage(&mut line);
        self.lines[site as usize] = line;
        let longest = line.longest.unwrap_or(MTU);
        for (way, fails) in Direction::BOTH.into_iter().zip(line.fails) {
            let changed = self.link(site).change(way, |settings| {
                settings.impairments.loss = if fails { Loss::Uniform(1.0) } else { Loss::None };
                // Up to four packets of full length overtake one.
                let jitter = Jitter::Uniform { max: Duration::from_millis(3), reorders: true };
                settings.impairments.jitter = if line.reorders { jitter } else { Jitter::None };
                settings.mtu = longest;
            });
            changed.expect("settings that a link can have");
        }
        // Routers who know of it say so.
        let told = if line.swallows { MTU } else { longest };
        let modem = &self.modems[site as usize];
        for (host, device) in [(modem, "core"), (&self.router, &*core(site))] {
            host.netlink(|handle| handle.link_index(device).and_then(|index| handle.set_mtu(index, told)))?;
        }
        modem.netlink(|handle| {
            let index = handle.link_index("wan")?;
            if line.has_no_carrier { handle.set_down(index) } else { handle.set_up(index) }
        })
    }

    /// The network drops everything in these directions, without a word.
    pub(crate) fn fail(&mut self, site: Site, ways: Ways) -> Result<(), HostError> {
        self.damage(site, |line| line.fails = ways.fail())
    }

    /// Everything as it was at first, but for addresses.
    pub(crate) fn restore(&mut self, site: Site) -> Result<(), HostError> {
        self.damage(site, |line| *line = Line::default())?;
        self.host(site).route(anywhere(), gateway(site))
    }

    /// The WAN device goes down and up, and gets its default route back.
    pub(crate) fn bounce_wan(&self, site: Site) -> Result<(), HostError> {
        bounce(self.host(site), "wan")?;
        self.host(site).route(anywhere(), gateway(site))
    }

    /// Gives the site another address.
    pub(crate) fn renumber(&mut self, site: Site) -> Result<(), HostError> {
        let old = self.wan(site);
        let last = &mut self.last[site as usize];
        *last = if *last == 2 { 3 } else { 2 };
        let new = self.wan(site);
        self.host(site).netlink(|handle| {
            let index = handle.link_index("wan")?;
            handle.delete_address(index, old)?;
            handle.add_address(index, new, None)
        })?;
        self.host(site).route(anywhere(), gateway(site))
    }

    pub(crate) fn bounce_tun(&self, site: Site) -> Result<(), HostError> {
        bounce(self.host(site), TUN)
    }

    /// The prefixes that are routed into the trunk.
    pub(crate) fn trunk_routes(&self, site: Site) -> Result<Vec<String>, HostError> {
        self.host(site).netlink(|handle| {
            Ok(trunk_routes(handle)?.iter().map(|route| route.destination.to_string()).collect())
        })
    }

    /// Deletes one of them.
    pub(crate) fn lose_route(&self, site: Site) -> Result<(), HostError> {
        self.host(site).netlink(|handle| match trunk_routes(handle)?.first() {
            Some(route) => handle.delete_route(route),
            None => Ok(()),
        })
    }
}

fn bounce(host: &Host, device: &str) -> Result<(), HostError> {
    let index = host.netlink(|handle| {
        let index = handle.link_index(device)?;
        handle.set_down(index).map(|()| index)
    })?;
    std::thread::sleep(Duration::from_millis(50));
    host.netlink(|handle| handle.set_up(index))
}

fn trunk_routes(handle: &mut Handle) -> Result<Vec<Route>, NetlinkError> {
    if !handle.link_exists(TUN)? {
        return Ok(Vec::new());
    }
    let index = handle.link_index(TUN)?;
    let routes = handle.routes(MAIN_TABLE)?;
    Ok(routes
        .into_iter()
        .filter(|route| route.device == Some(index) && route.destination.addr().is_ipv4())
        .collect())
}

/// Asks until it is so; the last answer if it is not within `limit`.
pub(crate) fn within<E>(limit: Duration, mut so: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    let end = Instant::now() + limit;
    loop {
        match so() {
            Err(error) if Instant::now() >= end => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
            Ok(()) => return Ok(()),
        }
    }
}
