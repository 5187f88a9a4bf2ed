//! A network of hosts and emulated links, as an experiment describes it.
//!
//! Each node is a network namespace with one address of each version of IP, which all its devices share; each link is a pair of TUN devices and a thread
//! that carries packets through a model of the link. Routes are static, along the path with the fewest links.

mod kernel_queue;

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;
use trunkline_link::LinkSettings;
use trunkline_netlink::{Existing, Route};
use trunkline_units::Instant;

use crate::clock::Scheduling;
use crate::link::{self, Direction, DuplexSettings, End, LinkError, LinkHandle};
use crate::namespace::{Host, HostError};

pub use kernel_queue::{InstalledQueue, KernelQueue, KernelQueueCounters, KernelQueueError};

/// A node.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// Its name, for errors and threads.
    pub name: String,
    /// Its addresses, one of each version of IP that the network has.
    pub addresses: Vec<IpAddr>,
    /// Whether it forwards packets of others.
    pub forwards: bool,
    /// Settings under `net.ipv4`, such as `tcp_sack`.
    pub sysctls: Vec<(String, String)>,
    /// Destinations to which it gets no route here: something that runs on it makes them.
    pub without_route_to: BTreeSet<usize>,
    /// Whether its TCP builds super-packets, which are cut before they come onto a link.
    pub super_packets: bool,
}

/// A link between two nodes.
#[derive(Debug, Clone)]
pub struct LinkBetween {
    /// The nodes, by their places.
    pub ends: [usize; 2],
    /// There and back.
    pub ways: [LinkSettings; 2],
    /// The kernel's discipline in front of each way, which has its rate; the way in `ways` has then no limit of its own.
    pub kernel_queues: [Option<KernelQueue>; 2],
}

/// Another way between two nodes than the one with the fewest links: of all packets of a further address of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detour {
    /// The nodes, by their places.
    pub ends: [usize; 2],
    /// The address of the first that the way belongs to, and the one of the second that it leads to.
    pub addresses: [IpAddr; 2],
    /// The link by which each sends to the other, by its place; the shortest way if `None`.
    pub links: [Option<usize>; 2],
}

/// The name of a link's device in the hosts at both ends.
pub fn device(link: usize) -> String {
    format!("link{link}")
}

/// The metric of the first node's route over a link that is not the shortest way: sockets that are bound to the device find it.
const DETOUR_METRIC: u32 = 2_000;

/// What the TCP connections from one node to another begin with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteTcp {
    /// The initial congestion window, segments; the kernel's if `None`.
    pub initial_window: Option<u32>,
    /// The initial slow start threshold, segments.
    pub initial_ssthresh: Option<u32>,
    /// Whether every segment is acknowledged at once.
    pub quick_acks: bool,
}

/// A network to be made.
#[derive(Debug, Clone)]
pub struct NetworkSettings {
    /// Nodes.
    pub nodes: Vec<NodeSettings>,
    /// Links.
    pub links: Vec<LinkBetween>,
    /// Ways that are not the shortest.
    pub detours: Vec<Detour>,
    /// For a node and a destination.
    pub tcp: Vec<((usize, usize), RouteTcp)>,
    /// Of everything that is random on links.
    pub seed: u64,
}

/// Why a network could not be made.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A node could not be made or set up.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A link could not be made.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The thread that serves the links could not be started.
    #[error("cannot start the thread of the links: {0}")]
    Forwarder(io::Error),
    /// A queueing discipline of the kernel could not be set up.
    #[error("link {link}: {source}")]
    KernelQueue {
        /// The link's place.
        link: usize,
        /// Why.
        source: KernelQueueError,
    },
}

/// A network. Dropping it removes all of it.
#[derive(Debug)]
pub struct Network {
    // Links before hosts: their devices are in the hosts.
    links: link::Network,
    kernel_queues: Vec<[Option<InstalledQueue>; 2]>,
    hosts: Vec<Arc<Host>>,
}

impl Network {
    /// Makes every node, link and route.
    pub fn new(settings: &NetworkSettings) -> Result<Self, NetworkError> {
        let hosts = settings.nodes.iter().map(|node| host(node).map(Arc::new));
        let hosts: Vec<Arc<Host>> = hosts.collect::<Result<_, _>>()?;
        let devices: Vec<String> = (0..settings.links.len()).map(device).collect();
        let mut links = link::Network::new(Scheduling::RealTime).map_err(NetworkError::Forwarder)?;
        let mut kernel_queues = Vec::new();
        for (number, (link, device)) in settings.links.iter().zip(&devices).enumerate() {
            let addresses = link.ends.map(|node| &settings.nodes[node].addresses[..]);
            let [a, b] =
                [0, 1].map(|side| End { host: &hosts[link.ends[side]], device, addresses: addresses[side] });
            let [forward, backward] = link.ways.clone();
            let seed = settings.seed.wrapping_add(number as u64);
            let duplex = DuplexSettings { backward, seed, ..DuplexSettings::symmetric(forward) };
            links.connect(a, b, &duplex)?;
            for node in link.ends.into_iter().filter(|node| !settings.nodes[*node].super_packets) {
                // Single segments, as a wire carries them: a TCP that builds super-packets sends in bursts and grows in steps.
                hosts[node].netlink(|handle| {
                    let index = handle.link_index(device)?;
                    handle.set_gso_max_segments(index, 1)
                })?;
            }
            let install = |side: usize| {
                let queue = link.kernel_queues[side].as_ref();
                let installed =
                    queue.map(|queue| InstalledQueue::install(&hosts[link.ends[side]], device, queue));
                installed.transpose().map_err(|source| NetworkError::KernelQueue { link: number, source })
            };
            kernel_queues.push([install(0)?, install(1)?]);
        }
        let network = Self { links, kernel_queues, hosts };
        network.make_routes(settings, &devices)?;
        Ok(network)
    }

    fn make_routes(&self, settings: &NetworkSettings, devices: &[String]) -> Result<(), HostError> {
        let ways = settings
            .links
            .iter()
            .flat_map(|link| [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])]);
        let ways: Vec<(usize, usize)> = ways.collect();
        let routes =
            trunkline_link::routes(settings.nodes.len(), &ways, |node| settings.nodes[node].forwards);
        for (node, routes) in routes.iter().enumerate() {
            let own = &settings.nodes[node];
            self.hosts[node].netlink(|handle| {
                for (destination, way) in routes.iter().enumerate() {
                    let Some(way) = way.filter(|_| !own.without_route_to.contains(&destination)) else {
                        continue;
                    };
                    let index = handle.link_index(&devices[way / 2])?;
                    let far = &settings.nodes[destination].addresses;
                    for (source, to) in own.addresses.iter().zip(far) {
                        let route =
                            Route { source: Some(*source), ..settings.route((node, destination), *to) };
                        handle.add_route(&route.device(index), Existing::Replace)?;
                    }
                    for detour in settings.detours.iter().filter(|detour| detour.ends[0] == destination) {
                        let link = detour.links[1].filter(|_| detour.ends[1] == node);
                        let index = handle.link_index(&devices[link.unwrap_or(way / 2)])?;
                        let route = settings.route((node, destination), detour.addresses[0]);
                        handle.add_route(&route.device(index), Existing::Replace)?;
                    }
                }
                for (metric, detour) in (DETOUR_METRIC..).zip(&settings.detours) {
                    if detour.ends[0] != node {
                        continue;
                    }
                    let lo = handle.link_index("lo")?;
                    handle.add_address(lo, IpNet::from(detour.addresses[0]), None)?;
                    if let Some(link) = detour.links[0] {
                        let route = settings.route((node, detour.ends[1]), detour.addresses[1]);
                        let index = handle.link_index(&devices[link])?;
                        let route = Route { metric: Some(metric), ..route.device(index) };
                        handle.add_route(&route, Existing::Replace)?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The nodes' hosts.
    pub fn hosts(&self) -> &[Arc<Host>] {
        &self.hosts
    }

    /// The links.
    pub fn links(&self) -> &[LinkHandle] {
        self.links.links()
    }

    /// The kernel's discipline in front of one way of a link, if it has one.
    pub fn kernel_queue(&self, link: usize, way: Direction) -> Option<&InstalledQueue> {
        self.kernel_queues[link][way as usize].as_ref()
    }

    /// Counts the peaks of all queues of links from now on.
    pub fn reset_peaks(&self) {
        self.links().iter().for_each(LinkHandle::reset_peaks);
    }

    /// Lets the scheduled changes of all links count their times from `start`, by the machine's monotonic clock.
    pub fn start_changes(&self, start: Instant) {
        self.links.restart_changes(start);
    }
}

impl NetworkSettings {
    /// The route of a node to an address of another, without its device.
    fn route(&self, ends: (usize, usize), to: IpAddr) -> Route {
        let tcp = self.tcp.iter().find(|(of, _)| *of == ends).map(|(_, tcp)| *tcp).unwrap_or_default();
        Route {
            initial_cwnd: tcp.initial_window,
            initial_ssthresh: tcp.initial_ssthresh,
            quick_acks: tcp.quick_acks,
            ..Route::to(IpNet::from(to))
        }
    }
}

/// Whether this machine's kernel has IPv6.
pub fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

fn host(settings: &NodeSettings) -> Result<Host, HostError> {
    let host = Host::new(&settings.name)?;
    for (path, value) in [
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
        ("net.ipv4.conf.all.send_redirects", "0"),
        ("net.ipv4.conf.default.send_redirects", "0"),
        ("net.ipv4.ip_forward", if settings.forwards { "1" } else { "0" }),
        // Nothing is remembered from one connection to the next.
        ("net.ipv4.tcp_no_metrics_save", "1"),
    ] {
        host.sysctl(path, value)?;
    }
    // Packets that IPv6 sends by itself would be counted on the links.
    if settings.addresses.iter().any(IpAddr::is_ipv6) {
        for (path, value) in [
            ("net.ipv6.conf.all.forwarding", if settings.forwards { "1" } else { "0" }),
            // A link has no address of its own, which routers would be asked for, and which would be announced.
            ("net.ipv6.conf.default.addr_gen_mode", "1"),
            ("net.ipv6.conf.default.accept_dad", "0"),
            ("net.ipv6.conf.default.accept_ra", "0"),
            ("net.ipv6.conf.default.router_solicitations", "0"),
        ] {
            host.sysctl(path, value)?;
        }
    } else if has_ipv6() {
        host.sysctl("net.ipv6.conf.all.disable_ipv6", "1")?;
        host.sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
    }
    for (name, value) in &settings.sysctls {
        host.sysctl(&format!("net.ipv4.{name}"), value)?;
    }
    Ok(host)
}
