//! Adds the parts of a network: nodes, links, trunks, proxies and traffic.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_packet::Version;
use trunkline_tcp::Settings;
use trunkline_units::Rng;

use super::{Network, Source};
use crate::gateway::{TrunkId, TrunkSettings};
use crate::link::{Link, LinkId};
use crate::node::{Node, NodeId, NodeKind};
use crate::proxy::{Proxy, ProxyId, ProxyMode, ProxySettings};
use crate::traffic::{DatagramSource, SourceId, TcpTraffic, TransferSource, UdpTraffic};

impl Network {
    /// Nanoseconds from which on a clock's ticks are far apart.
    const COARSE: u64 = 1_000_000;

    /// Over which version of IP sources that are added from now on send, and trunks have their lanes: IPv4 unless this says otherwise.
    /// Every node has an address of both.
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// Adds a host.
    pub fn host(&mut self, name: &str) -> NodeId {
        self.node(name, NodeKind::Host)
    }

    /// Adds a router.
    pub fn router(&mut self, name: &str) -> NodeId {
        self.node(name, NodeKind::Router)
    }

    /// Adds a trunk gateway. It is a router too.
    pub fn gateway(&mut self, name: &str) -> NodeId {
        let gateway = self.trunks.add_gateway();
        self.node(name, NodeKind::Gateway(gateway))
    }

    /// Adds a proxy. It is a router too.
    ///
    /// # Panics
    /// If [`ProxySettings::check`] finds the settings wrong.
    pub fn proxy(&mut self, name: &str, mut settings: ProxySettings) -> (NodeId, ProxyId) {
        settings.check().unwrap_or_else(|error| panic!("proxy {name}: {error}"));
        let proxy = self.proxies.len() as u32;
        let node = self.node(name, NodeKind::Proxy(proxy));
        if let ProxyMode::Split(tcp) | ProxyMode::PathTail(tcp, _) = &mut settings.mode {
            for tcp in tcp {
                self.set_clock(node, tcp);
            }
        }
        self.proxies.push(Proxy::new(node, settings));
        (node, ProxyId(proxy))
    }

    /// Joins two gateways by a trunk. Its lanes are opened as the network begins to run.
    ///
    /// # Panics
    /// If one of the nodes is no gateway, if they are one, if one has a trunk to a node of the other's site already, or if
    /// [`TrunkSettings::check`] finds the settings wrong.
    pub fn trunk(&mut self, ends: [NodeId; 2], mut settings: TrunkSettings) -> TrunkId {
        settings.check().unwrap_or_else(|error| panic!("trunk between {}: {error}", self.names(ends)));
        assert_ne!(ends[0], ends[1], "a trunk has two ends");
        for (node, tcp) in ends.iter().zip(&mut settings.tcp) {
            self.set_clock(*node, tcp);
            // As the gateway's sockets (TCP_NODELAY): it hands over all it has, and what is left over is not to wait.
            Arc::make_mut(tcp).nagle &= settings.socket.nagle;
        }
        let ends = ends.map(|node| match self.net.nodes[node.index()].kind {
            NodeKind::Gateway(gateway) => (node, gateway),
            _ => panic!("{} is no gateway", self.net.nodes[node.index()].name),
        });
        let seed = self.stream("trunk", self.numbers.trunks).next_u64();
        self.numbers.trunks += 1;
        self.trunks.add(ends, self.version, settings, seed)
    }

    /// Adds a node.
    ///
    /// # Panics
    /// If there are more than [`NodeId::MAX`].
    fn node(&mut self, name: &str, kind: NodeKind) -> NodeId {
        let id = self.net.nodes.len() as u32;
        assert!(id < NodeId::MAX, "more than {} nodes", NodeId::MAX);
        self.net.nodes.push(Node::new(name, kind));
        self.routed = false;
        NodeId(id)
    }

    /// Adds a link in each direction: from `a` to `b`, and from `b` to `a`.
    ///
    /// # Panics
    /// As [`Network::link`] does.
    pub fn connect(
        &mut self,
        a: NodeId,
        b: NodeId,
        there: &LinkSettings,
        back: &LinkSettings,
    ) -> [LinkId; 2] {
        [self.link(a, b, there), self.link(b, a, back)]
    }

    /// Adds a link in one direction.
    ///
    /// # Panics
    /// If it ends where it begins, or [`LinkSettings::check`] finds the settings wrong.
    pub fn link(&mut self, from: NodeId, to: NodeId, settings: &LinkSettings) -> LinkId {
        settings.check().unwrap_or_else(|error| panic!("link between {}: {error}", self.names([from, to])));
        assert_ne!(from, to, "a link has two ends");
        let id = self.net.links.len() as u32;
        let seed = self.stream("link", id as usize).next_u64();
        self.net.links.push(Link::new((from, to), settings, seed));
        self.routed = false;
        LinkId(id)
    }

    /// Routes packets for `destination` over `link` at the node where it begins, instead of over the shortest path. The
    /// route holds until a node or link is added.
    pub fn route(&mut self, destination: NodeId, link: LinkId) {
        self.find_routes();
        let from = self.net.links[link.0 as usize].from;
        self.net.nodes[from.index()].routes[destination.index()] = link.0;
    }

    /// Adds a source of TCP transfers.
    ///
    /// # Panics
    /// If [`TcpTraffic::check`] finds the settings wrong, or the sources from one node to one port of another have more than
    /// [`TcpTraffic::MAX_CONNECTIONS`] together.
    pub fn tcp(&mut self, mut traffic: TcpTraffic) -> SourceId {
        let nodes = [traffic.client, traffic.server];
        traffic.check().unwrap_or_else(|error| panic!("TCP between {}: {error}", self.names(nodes)));
        let users = self.connections_to(traffic.client, traffic.server, traffic.port)
            + u64::from(traffic.pattern.users());
        let max = TcpTraffic::MAX_CONNECTIONS;
        assert!(
            users <= u64::from(max),
            "{users} connections between {}, to port {}; allowed: up to {max}",
            self.names(nodes),
            traffic.port
        );
        nodes.iter().zip(&mut traffic.tcp).for_each(|(node, tcp)| self.set_clock(*node, tcp));
        let rng = self.source_stream();
        self.add(Source::Transfers(Box::new(TransferSource::new(self.version, traffic, rng))))
    }

    /// Adds a source of datagrams.
    ///
    /// # Panics
    /// If [`UdpTraffic::check`] finds the settings wrong.
    pub fn udp(&mut self, traffic: UdpTraffic) -> SourceId {
        let nodes = [traffic.from, traffic.to];
        traffic.check().unwrap_or_else(|error| panic!("UDP between {}: {error}", self.names(nodes)));
        let rng = self.source_stream();
        let source = DatagramSource::new(&mut self.net, self.version, traffic, rng);
        self.add(Source::Datagrams(Box::new(source)))
    }

    /// Connections of the sources so far from a node to a port of another: up to [`TcpTraffic::MAX_CONNECTIONS`].
    pub fn connections_to(&self, from: NodeId, to: NodeId, to_port: u16) -> u64 {
        let same = |source: &Source| match source {
            Source::Transfers(source) => {
                let TcpTraffic { client, server, port, pattern, .. } = &source.traffic;
                let same = (*client, *server, *port) == (from, to, to_port);
                if same { u64::from(pattern.users()) } else { 0 }
            }
            Source::Datagrams(_) => 0,
        };
        self.sources.iter().map(same).sum()
    }

    /// Gives each node's clock a phase of its own. If all clocks ticked together, all timers would send at once.
    fn set_clock(&self, node: NodeId, tcp: &mut Arc<Settings>) {
        let tick = tcp.timers.granularity.as_nanos() as u64;
        if tick >= Self::COARSE && tcp.timers.phase.is_zero() {
            let phase = self.stream("clock", node.index()).below(tick);
            Arc::make_mut(tcp).timers.phase = Duration::from_nanos(phase);
        }
    }

    pub(super) fn names(&self, nodes: [NodeId; 2]) -> String {
        let [a, b] = nodes.map(|node| {
            self.net
                .nodes
                .get(node.index())
                .map_or_else(|| format!("no node {node:?}"), |node| node.name.clone())
        });
        format!("{a} and {b}")
    }

    fn add(&mut self, source: Source) -> SourceId {
        self.sources.push(source);
        SourceId(self.sources.len() as u32 - 1)
    }

    fn source_stream(&mut self) -> Rng {
        let number = self.numbers.sources;
        self.numbers.sources += 1;
        trunkline_workload::stream(self.seed, number)
    }

    /// Leaves a source out: the random streams of later sources are as if it had been added.
    pub fn skip_source(&mut self) {
        self.numbers.sources += 1;
    }

    /// Leaves a trunk out, as [`Network::skip_source`] a source.
    pub fn skip_trunk(&mut self) {
        self.numbers.trunks += 1;
    }

    fn stream(&self, part: &str, number: usize) -> Rng {
        Rng::new(self.seed, &format!("{part} {number}"))
    }
}
