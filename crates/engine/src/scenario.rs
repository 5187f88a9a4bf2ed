//! One point of an experiment, checked and resolved: what an engine is given. Names are places in lists, presets are spelt out.
//!
//! Queues, TCPs, classes and distributions are the plain values of the crates that run them; nothing here belongs to one engine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trunkline_link::LinkSettings;
use trunkline_sim::{LaneSocket, Version};
use trunkline_tcp::{CustomCongestion, Settings as TcpSettings};
use trunkline_trunk::TrunkPlan;
use trunkline_trunk::path_tail::CellLink;
use trunkline_workload::{Pattern, Timing};

use crate::site::SiteTrunks;

/// What an engine runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Maximum time.
    pub duration: Duration,
    /// What ends it.
    pub end: End,
    /// What happens before this is not counted in rates, ratios, queues, drops.
    pub warm_up: Duration,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Links.
    pub links: Vec<Link>,
    /// Sources of traffic.
    pub traffic: Vec<Traffic>,
    /// Trunks, those that are enabled.
    pub trunks: Vec<Trunk>,
    /// Tunnels of other programs in the place of trunks.
    pub tunnels: Vec<Tunnel>,
    /// Names of trunks that are not enabled or are other programs' tunnels: they have metrics too, so that points can be compared.
    pub disabled: Vec<String>,
    /// What is recorded over time: the interval and the names.
    pub series: Option<(Duration, Vec<String>)>,
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// What it does, if it is a proxy.
    pub proxy: Option<Proxy>,
}

/// A link.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Name.
    pub name: String,
    /// Nodes.
    pub ends: [usize; 2],
    /// There and back.
    pub ways: [LinkSettings; 2],
    /// In front of each way: a kernel's queueing discipline and its options, as `tc qdisc` takes them, in place of the queue of
    /// `ways`.
    pub kernel_queues: [Option<String>; 2],
}

/// A source of traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Name.
    pub name: String,
    /// Its place in the file, among all sources, enabled or not. They are in the order of their places.
    pub place: usize,
    /// Group.
    pub group: String,
    /// Nodes.
    pub ends: [usize; 2],
    /// Port.
    pub port: u16,
    /// Version of IP.
    pub family: Family,
    /// Code point.
    pub dscp: u8,
    /// When it begins.
    pub start: Duration,
    /// When it ends.
    pub stop: Option<Duration>,
    /// What is sent.
    pub load: Load,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// Transfers over TCP, by the TCPs of both ends.
    Tcp {
        /// TCPs.
        tcp: [Arc<TcpSettings>; 2],
        /// What transfers are like.
        pattern: Pattern,
    },
    /// Datagrams of so many bytes of data.
    Udp {
        /// Bytes, without headers.
        data: u32,
        /// When they leave.
        timing: Timing,
    },
}

/// A trunk.
#[derive(Debug, Clone, PartialEq)]
pub struct Trunk {
    /// Name.
    pub name: String,
    /// Its place in the file, among all trunks, enabled or not. They are in the order of their places.
    pub place: usize,
    /// Gateways.
    pub gateways: [usize; 2],
    /// Nodes behind each.
    pub sites: [Vec<usize>; 2],
    /// Version of IP of the lanes.
    pub family: Family,
    /// Of the lanes.
    pub tcp: Arc<TcpSettings>,
    /// Classes and lanes. Rules that name hosts have `None` for their prefixes here and the hosts in `hosts`.
    pub plan: TrunkPlan,
    /// For each of the plan's paths, the link by which its lanes leave each gateway, where it is said.
    pub path_links: Vec<[Option<usize>; 2]>,
    /// For each class, for each rule, source and destination host.
    pub hosts: Vec<Vec<[Option<usize>; 2]>>,
    /// TLS records.
    pub sealed: bool,
    /// The sockets of lanes over TCP.
    pub socket: LaneSocket,
    /// The same classes and lanes as a gateway's file has them; rules name nodes by their names.
    pub site: SiteTrunks,
}

/// A tunnel of another program.
#[derive(Debug, Clone, PartialEq)]
pub struct Tunnel {
    /// Name of the trunk in whose place it is.
    pub name: String,
    /// Gateways. The first dials.
    pub gateways: [usize; 2],
    /// Nodes behind each.
    pub sites: [Vec<usize>; 2],
    /// Name of the [program](crate::tunnel_programs).
    pub program: String,
}

/// A proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct Proxy {
    /// Nodes behind it.
    pub behind: Vec<usize>,
    /// What it does.
    pub mode: ProxyMode,
}

/// What a proxy does; docs/models/proxies.md describes each.
#[derive(Debug, Clone, PartialEq)]
pub enum ProxyMode {
    /// Nothing.
    None,
    /// TCPs towards the network and the hosts.
    Split([Arc<TcpSettings>; 2]),
    /// The same, and the links that are emulated.
    PathTail([Arc<TcpSettings>; 2], Vec<Cell>),
    /// Bytes.
    ClampWindow(u64),
    /// Packets.
    ClampToRoom(u32),
    /// The silence after which it freezes senders.
    Freeze(Duration),
    /// Packets.
    RegulateAcks(u32),
}

/// A link that is emulated.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Hosts in it.
    pub hosts: Vec<usize>,
    /// Its rate, given or measured, and its queue.
    pub link: CellLink,
    /// Bytes buffered for a connection.
    pub buffer: u64,
    /// Each connection by itself.
    pub each_alone: bool,
}

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// In the words of the crates below.
    pub const fn version(self) -> Version {
        match self {
            Family::Ipv4 => Version::V4,
            Family::Ipv6 => Version::V6,
        }
    }
}

impl Scenario {
    /// Whether sources of traffic send packets of this version of IP.
    pub fn sends(&self, family: Family) -> bool {
        self.traffic.iter().any(|traffic| traffic.family == family)
    }

    /// Whether any packet is of this version of IP, those of lanes included.
    pub fn has(&self, family: Family) -> bool {
        self.sends(family) || self.trunks.iter().any(|trunk| trunk.family == family)
    }
}

impl Scenario {
    /// Names of series that show a run at a glance: of every way of a link, and of every class at the edge, what waits and what is dropped;
    /// of every group what arrives.
    pub fn overview(&self) -> Vec<String> {
        let ways = |name: &str| [name.to_owned(), format!("{name}.back")];
        let links = self.links.iter().flat_map(|link| ways(&link.name));
        let classes = self.trunks.iter().flat_map(|trunk| {
            let class = |way: String| {
                trunk
                    .plan
                    .classes
                    .iter()
                    .map(move |class| format!("{way}.{}", class.name))
                    .collect::<Vec<_>>()
            };
            ways(&trunk.name).into_iter().flat_map(class)
        });
        let queues =
            links.chain(classes).flat_map(|of| [format!("{of}.queue.packets"), format!("{of}.drops")]);
        let groups: BTreeSet<&str> = self.traffic.iter().map(|traffic| traffic.group.as_str()).collect();
        queues.chain(groups.into_iter().map(|group| format!("{group}.goodput"))).collect()
    }

    /// The names of the sources over TCP.
    pub fn tcp_sources(&self) -> impl Iterator<Item = &str> {
        let over_tcp = self.traffic.iter().filter(|source| matches!(source.load, Load::Tcp { .. }));
        over_tcp.map(|source| source.name.as_str())
    }

    /// Gives the senders of a source over TCP, at both ends, a congestion control of the caller's own. `false` if there is no such source.
    pub fn set_custom_congestion(&mut self, traffic: &str, custom: &CustomCongestion) -> bool {
        let source = self.traffic.iter_mut().find(|source| source.name == traffic);
        let Some(Load::Tcp { tcp, .. }) = source.map(|source| &mut source.load) else { return false };
        for tcp in tcp {
            let tcp = Arc::make_mut(tcp);
            tcp.custom_congestion = Some(custom.clone());
        }
        true
    }
}

/// What ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The time.
    #[default]
    Duration,
    /// The time, or before it the end of all transfers that have one.
    Transfers,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// Sends and receives, and passes nothing on.
    Host,
    /// Passes packets on.
    Router,
    /// A router at which trunks may end.
    Gateway,
    /// A router that looks at what it passes on, as `proxies` says.
    Proxy,
}
