//! The hosts and the network between them, and the operations on it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use trunkline_netlink::{Existing, Handle, NetlinkError, Route, RouteKind};
use trunkline_testbed::namespace::{Host, HostError, veth};

use crate::step::Site;

pub(crate) const TUN: &str = "trunk";
const MAIN_TABLE: u32 = 254;

/// Three sites and the router in the middle.
pub(crate) struct Hosts {
    pub(crate) router: Host,
    sites: [Arc<Host>; 3],
    /// The last byte of each site's address.
    last: [u8; 3],
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

fn line(site: Site) -> String {
    format!("wan{}", site.number())
}

impl Hosts {
    pub(crate) fn new() -> Result<Self, HostError> {
        let router = Host::new("R")?;
        router.forwarding()?;
        // A silent network: what it drops it does not report.
        let sites = [Host::new("HUB")?, Host::new("B")?, Host::new("C")?];
        for (site, host) in Site::ALL.into_iter().zip(&sites) {
            let (line, number) = (line(site), site.number());
            veth(&router, &line, host, "wan")?;
            router.address(&line, prefix(&format!("198.18.{number}.1/24")), None)?;
            host.address("wan", prefix(&format!("198.18.{number}.2/24")), None)?;
            host.forwarding()?;
            host.route(anywhere(), gateway(site))?;
        }
        Ok(Self { router, sites: sites.map(Arc::new), last: [2; 3] })
    }

    pub(crate) fn host(&self, site: Site) -> &Arc<Host> {
        &self.sites[site as usize]
    }

    fn wan(&self, site: Site) -> IpNet {
        prefix(&format!("198.18.{}.{}/24", site.number(), self.last[site as usize]))
    }

    /// Whether the site has the address that others know.
    pub(crate) fn is_at_home(&self, site: Site) -> bool {
        self.last[site as usize] == 2
    }

    /// The network drops what is for the site, without a word.
    pub(crate) fn cut(&self, site: Site) -> Result<(), HostError> {
        self.router.netlink(|handle| {
            let destination = prefix(&format!("198.18.{}.0/25", site.number()));
            let route = Route { kind: RouteKind::Blackhole, ..Route::to(destination) };
            handle.add_route(&route, Existing::Replace)
        })
    }

    pub(crate) fn lose_carrier(&self, site: Site) -> Result<(), HostError> {
        self.router.netlink(|handle| handle.link_index(&line(site)).and_then(|index| handle.set_down(index)))
    }

    /// Everything as it was at first, but for addresses.
    pub(crate) fn restore(&self, site: Site) -> Result<(), HostError> {
        self.router.netlink(|handle| {
            let cut = prefix(&format!("198.18.{}.0/25", site.number()));
            if handle.routes(MAIN_TABLE)?.iter().any(|route| route.destination == cut) {
                handle.delete_route(&Route { kind: RouteKind::Blackhole, ..Route::to(cut) })?;
            }
            handle.link_index(&line(site)).and_then(|index| handle.set_up(index))
        })?;
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
