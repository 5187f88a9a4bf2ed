//! The networks that proxies are tried in.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_sim::{
    Cell, LinkId, Network, NodeId, ProxyId, ProxyMode, ProxySettings, SourceId, TcpTraffic, Transfer, both,
};
use trunkline_tcp::{Preset, Recovery, Settings, SpuriousDetection, Timers};
use trunkline_trunk::path_tail::{CellLink, Estimate};
use trunkline_units::{Instant, Rate};
use trunkline_workload::{Distribution, Pattern};

/// A sender in the Internet, a proxy, and mobile nodes behind it, each over a link of its own.
pub(crate) struct Scene {
    pub(crate) network: Network,
    pub(crate) sender: NodeId,
    pub(crate) mobiles: Vec<NodeId>,
    /// From the sender to the proxy and back.
    pub(crate) internet: [LinkId; 2],
    /// Towards each mobile node.
    pub(crate) links: Vec<LinkId>,
    pub(crate) proxy: ProxyId,
}

impl Scene {
    pub(crate) fn new(
        seed: u64,
        internet: &LinkSettings,
        mobile: &[LinkSettings],
        mode: impl Fn(&[NodeId]) -> ProxyMode,
    ) -> Scene {
        let mut network = Network::new(seed);
        let sender = network.host("sender");
        let mobiles: Vec<NodeId> = mobile.iter().map(|_| network.host("mobile")).collect();
        let settings = ProxySettings { behind: mobiles.clone(), mode: mode(&mobiles) };
        let (node, proxy) = network.proxy("proxy", settings);
        let internet = network.connect(sender, node, internet, internet);
        let links = mobile
            .iter()
            .zip(&mobiles)
            .map(|(link, mobile)| {
                let back = LinkSettings { mobile: None, changes: Vec::new(), ..link.clone() };
                network.connect(node, *mobile, link, &back)[0]
            })
            .collect();
        Scene { network, sender, mobiles, internet, links, proxy }
    }

    /// A transfer of so many bytes to a mobile node.
    pub(crate) fn transfer(&mut self, to: usize, tcp: Settings, bytes: Option<u64>) -> SourceId {
        let stagger = Distribution::Fixed(0.0);
        self.source([self.sender, self.mobiles[to]], tcp, Pattern::Bulk { flows: 1, bytes, stagger }, None)
    }

    pub(crate) fn source(
        &mut self,
        [client, server]: [NodeId; 2],
        tcp: Settings,
        pattern: Pattern,
        stop: Option<Duration>,
    ) -> SourceId {
        let start = Duration::ZERO;
        let traffic = TcpTraffic { client, server, port: 80, dscp: 0, tcp: both(tcp), start, stop, pattern };
        self.network.tcp(traffic)
    }

    pub(crate) fn only(&self, source: SourceId) -> Transfer {
        self.network.transfers(source)[0]
    }
}

pub(crate) type Mode = fn(&[NodeId]) -> ProxyMode;

pub(crate) fn link(mbit: f64, ms: u64) -> LinkSettings {
    LinkSettings::new(Rate::from_mbit(mbit), Duration::from_millis(ms))
}

pub(crate) fn seconds(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

pub(crate) fn linux() -> Settings {
    forgets(&Preset::Linux6.settings())
}

/// The same, and a closed connection is soon forgotten.
pub(crate) fn forgets(tcp: &Settings) -> Settings {
    let timers = Timers { time_wait: Duration::from_secs(20), ..tcp.timers };
    Settings { timers, ..tcp.clone() }
}

/// What does not need SACK.
pub(crate) fn plain() -> Settings {
    Settings { spurious: SpuriousDetection::None, ..Preset::Linux6Reno.settings() }
        .with_recovery(Recovery::NewReno)
}

/// The TCPs of a proxy with path tail emulation: the window is larger than what the emulated link and the way to it hold.
pub(crate) fn emulating() -> [Arc<Settings>; 2] {
    [Arc::new(Settings { receive_buffer: 120_000, ..forgets(&plain()) }), Arc::new(linux())]
}

/// An emulated link of so many Mbit/s with room for so many segments.
pub(crate) fn given(mbit: f64, segments: u32) -> CellLink {
    let estimate = Estimate { rate: Rate::from_mbit(mbit), recovery: Duration::ZERO };
    CellLink { estimate: Some(estimate), queue: Some(u64::MAX), packets: Some(segments) }
}

/// A cell of 1 Mbit/s with room for so many segments.
pub(crate) fn cell(nodes: &[NodeId], segments: u32) -> Cell {
    Cell { nodes: nodes.to_vec(), link: given(1.0, segments), buffer: u64::MAX, each_alone: false }
}

pub(crate) fn split(_: &[NodeId]) -> ProxyMode {
    ProxyMode::Split(both(linux()))
}

pub(crate) fn path_tail(nodes: &[NodeId]) -> ProxyMode {
    ProxyMode::PathTail(emulating(), vec![cell(nodes, 50)])
}

pub(crate) fn clamp(_: &[NodeId]) -> ProxyMode {
    ProxyMode::ClampWindow(20_000)
}

pub(crate) fn clamp_to_room(_: &[NodeId]) -> ProxyMode {
    ProxyMode::ClampToRoom { room: 20 }
}

/// Sooner than a timer runs out that began when what is now first in flight was sent.
pub(crate) fn freeze(_: &[NodeId]) -> ProxyMode {
    ProxyMode::Freeze { after: Duration::from_millis(200) }
}

pub(crate) fn regulate(_: &[NodeId]) -> ProxyMode {
    ProxyMode::RegulateAcks { room: 50 }
}

/// Not behind: nothing is done to it.
pub(crate) fn idle(_: &[NodeId]) -> ProxyMode {
    ProxyMode::ClampWindow(u64::MAX)
}

pub(crate) const MODES: [(&str, Mode); 7] = [
    ("none", idle),
    ("split", split),
    ("path tail", path_tail),
    ("clamp", clamp),
    ("clamp to room", clamp_to_room),
    ("freeze", freeze),
    ("regulate", regulate),
];
