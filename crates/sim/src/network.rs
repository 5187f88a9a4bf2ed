//! A network: nodes, links between them, what they send, and the loop that lets it all happen.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use trunkline_tcp::{Endpoint, Settings};
use trunkline_trunk::ClassId;
use trunkline_trunk::path_tail::Estimate;
use trunkline_units::{Instant, Rng};

use crate::agenda::Kind;
use crate::capture::{Capture, CapturePoint};
use crate::connection::{ConnectionId, Upcall};
use crate::core::Core;
use crate::digest::Digest;
use crate::gateway::{Lanes, TrunkId, TrunkReport, TrunkSettings, Trunks};
use crate::link::{Link, LinkId, LinkSettings};
use crate::node::{NO_ROUTE, Node, NodeId, NodeKind, NodeStats};
use crate::proxy::{Proxy, ProxyId, ProxyMode, ProxySettings, ProxyStats};
use crate::traffic::{DatagramSource, SourceId, TcpTraffic, Transfer, TransferSource, UdpTraffic};
use crate::{Datagrams, Packet, SettingsError};

#[derive(Debug)]
enum Source {
    Transfers(Box<TransferSource>),
    Datagrams(Box<DatagramSource>),
}

impl Source {
    /// The source that a connection belongs to.
    fn transfers(&mut self) -> &mut TransferSource {
        match self {
            Source::Transfers(transfers) => transfers,
            Source::Datagrams(_) => unreachable!("datagrams have no connections"),
        }
    }
}

/// A network in virtual time. A value: any number of them can run side by side, each on a thread of its own.
///
/// Build it ([`Network::host`], [`Network::connect`], [`Network::tcp`] and so on), then
/// [run](Network::run_until) it, in one go or in steps, which makes no difference to what happens, and look at what its
/// parts say of themselves. The same calls with the same seed give the same [`Digest`], on any machine.
#[derive(Debug)]
pub struct Network {
    core: Core,
    seed: u64,
    sources: Vec<Source>,
    trunks: Trunks,
    proxies: Vec<Proxy>,
    /// What was added last and has not been asked to begin.
    begun: (usize, usize),
    numbers: Numbers,
    routed: bool,
}

/// Of the parts that are added next, those that were left out included.
#[derive(Debug, Default)]
struct Numbers {
    sources: usize,
    trunks: usize,
}

impl Network {
    /// Nanoseconds from which on a clock's ticks are far apart.
    const COARSE: u64 = 1_000_000;

    /// An empty network. Everything that is random in it follows from `seed`, each part by itself: a node, link, source or trunk by its
    /// number among those of its kind, from the first that was added.
    pub fn new(seed: u64) -> Self {
        Network {
            core: Core::new(seed),
            seed,
            sources: Vec::new(),
            trunks: Trunks::default(),
            proxies: Vec::new(),
            begun: (0, 0),
            numbers: Numbers::default(),
            routed: false,
        }
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

    /// What a proxy has done.
    pub fn proxy_stats(&self, id: ProxyId) -> &ProxyStats {
        self.proxies[id.0 as usize].stats()
    }

    /// The operator of a mobile network says something else of one of a [path tail](crate::ProxyMode::PathTail) proxy's
    /// cells, by its number. What it says of a profile holds for each connection that has one.
    ///
    /// # Panics
    /// If there is no such cell.
    pub fn set_estimate(&mut self, id: ProxyId, cell: usize, estimate: Estimate) {
        self.proxies[id.0 as usize].set_estimate(&mut self.core, id.0, cell, estimate);
    }

    /// Joins two gateways by a trunk. Its lanes are opened as the network begins to run.
    ///
    /// # Panics
    /// If one of the nodes is no gateway, if they are one, if one has a trunk to a node of the other's site already, or if
    /// [`TrunkSettings::check`] finds the settings wrong.
    pub fn trunk(&mut self, ends: [NodeId; 2], mut settings: TrunkSettings) -> TrunkId {
        settings.check().unwrap_or_else(|error| panic!("trunk between {}: {error}", self.names(ends)));
        assert_ne!(ends[0], ends[1], "a trunk has two ends");
        if let Lanes::Tcp(tcp) = &mut settings.lanes {
            for (node, tcp) in ends.iter().zip(tcp) {
                self.set_clock(*node, tcp);
                // As the gateway's sockets (TCP_NODELAY): it hands over all it has, and what is left over is not to wait.
                Arc::make_mut(tcp).nagle = false;
            }
        }
        let ends = ends.map(|node| match self.core.nodes[node.index()].kind {
            NodeKind::Gateway(gateway) => (node, gateway),
            _ => panic!("{} is no gateway", self.core.nodes[node.index()].name),
        });
        let seed = self.stream("trunk", self.numbers.trunks).next_u64();
        self.numbers.trunks += 1;
        self.trunks.add(ends, settings, seed)
    }

    /// Adds a node.
    ///
    /// # Panics
    /// If there are more than [`NodeId::MOST`].
    fn node(&mut self, name: &str, kind: NodeKind) -> NodeId {
        let id = self.core.nodes.len() as u32;
        assert!(id < NodeId::MOST, "more than {} nodes", NodeId::MOST);
        self.core.nodes.push(Node::new(name, kind));
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
        let id = self.core.links.len() as u32;
        let seed = self.stream("link", id as usize).next_u64();
        self.core.links.push(Link::new((from, to), settings, seed));
        self.routed = false;
        LinkId(id)
    }

    /// Sends packets for `destination` from the node at which `link` begins over it, instead of the shortest way. Routes that
    /// are set by hand hold until a node or link is added.
    pub fn route(&mut self, destination: NodeId, link: LinkId) {
        self.find_routes();
        let from = self.core.links[link.0 as usize].from;
        self.core.nodes[from.index()].routes[destination.index()] = link.0;
    }

    /// Adds a source of TCP transfers.
    ///
    /// # Panics
    /// If [`TcpTraffic::check`] finds the settings wrong, or the sources from one node to one port of another have more than
    /// [`TcpTraffic::MOST_CONNECTIONS`] together.
    pub fn tcp(&mut self, mut traffic: TcpTraffic) -> SourceId {
        let nodes = [traffic.client, traffic.server];
        traffic.check().unwrap_or_else(|error| panic!("TCP between {}: {error}", self.names(nodes)));
        let users = self.connections_to(traffic.client, traffic.server, traffic.port)
            + u64::from(traffic.pattern.users());
        let most = TcpTraffic::MOST_CONNECTIONS;
        assert!(
            users <= u64::from(most),
            "{users} connections between {}, to port {}; allowed: up to {most}",
            self.names(nodes),
            traffic.port
        );
        nodes.iter().zip(&mut traffic.tcp).for_each(|(node, tcp)| self.set_clock(*node, tcp));
        let rng = self.source_stream();
        self.add(Source::Transfers(Box::new(TransferSource::new(traffic, rng))))
    }

    /// Adds a source of datagrams.
    ///
    /// # Panics
    /// If [`UdpTraffic::check`] finds the settings wrong.
    pub fn udp(&mut self, traffic: UdpTraffic) -> SourceId {
        let nodes = [traffic.from, traffic.to];
        traffic.check().unwrap_or_else(|error| panic!("UDP between {}: {error}", self.names(nodes)));
        let rng = self.source_stream();
        let source = DatagramSource::new(&mut self.core, traffic, rng);
        self.add(Source::Datagrams(Box::new(source)))
    }

    /// Connections of the sources so far from a node to a port of another: up to [`TcpTraffic::MOST_CONNECTIONS`].
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

    /// Each node's clock ticks at instants of its own. If all did at the same, those who wait for a timer would all send at once.
    fn set_clock(&self, node: NodeId, tcp: &mut Arc<Settings>) {
        let tick = tcp.timers.granularity.as_nanos() as u64;
        if tick >= Self::COARSE && tcp.timers.phase.is_zero() {
            let phase = self.stream("clock", node.index()).below(tick);
            Arc::make_mut(tcp).timers.phase = Duration::from_nanos(phase);
        }
    }

    fn names(&self, nodes: [NodeId; 2]) -> String {
        let [a, b] = nodes.map(|node| {
            self.core
                .nodes
                .get(node.index())
                .map_or_else(|| format!("no node {node:?}"), |node| node.name.clone())
        });
        format!("{a} and {b}")
    }

    /// Whether packets have a way: those of every source, and of the answers if there are any, and of every trunk from
    /// gateway to gateway. Routes that are set by hand may lead elsewhere.
    pub fn check(&mut self) -> Result<(), SettingsError> {
        self.find_routes();
        let sources = self.sources.iter().enumerate().flat_map(|(number, source)| {
            let ways = match source {
                Source::Transfers(source) => {
                    let (client, server) = (source.traffic.client, source.traffic.server);
                    vec![(client, server), (server, client)]
                }
                Source::Datagrams(source) => vec![(source.traffic.from, source.traffic.to)],
            };
            ways.into_iter().map(move |way| (format!("source {number}"), way))
        });
        let trunks = self.trunks.ends().enumerate().flat_map(|(number, [near, far])| {
            [(near, far), (far, near)].map(|way| (format!("trunk {number}"), way))
        });
        for (place, (from, to)) in sources.chain(trunks) {
            if self.core.nodes[from.index()].routes[to.index()] == NO_ROUTE {
                let problem = "has no way to where it sends; allowed: nodes that links join";
                return Err(SettingsError::Node { place, node: from, problem });
            }
        }
        Ok(())
    }

    fn add(&mut self, source: Source) -> SourceId {
        self.sources.push(source);
        SourceId(self.sources.len() as u32 - 1)
    }

    fn source_stream(&mut self) -> Rng {
        let number = self.numbers.sources;
        self.numbers.sources += 1;
        self.stream("source", number)
    }

    /// Leaves a source out: what is random in those that are added from now on is as if there were one more before them.
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

    /// The shortest way, by links, from each node to each other; of equally short ones that by the link added first.
    fn find_routes(&mut self) {
        if std::mem::replace(&mut self.routed, true) {
            return;
        }
        let nodes = self.core.nodes.len();
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); nodes];
        for (number, link) in self.core.links.iter().enumerate() {
            into[link.to.index()].push(number as u32);
        }
        for node in &mut self.core.nodes {
            node.routes = vec![NO_ROUTE; nodes];
        }
        for destination in 0..nodes {
            let mut reached = VecDeque::from([destination]);
            while let Some(at) = reached.pop_front() {
                // A host passes nothing on.
                if at != destination && self.core.nodes[at].kind == NodeKind::Host {
                    continue;
                }
                for &link in &into[at] {
                    let from = self.core.links[link as usize].from.index();
                    let route = &mut self.core.nodes[from].routes[destination];
                    if from != destination && *route == NO_ROUTE {
                        *route = link;
                        reached.push_back(from);
                    }
                }
            }
        }
    }

    /// Captures the packets of a link from now on, as a pcap file with nanoseconds and bare IP packets.
    pub fn capture(
        &mut self,
        link: LinkId,
        point: CapturePoint,
        out: Box<dyn Write + Send>,
    ) -> io::Result<()> {
        self.core.links[link.0 as usize].capture(Capture::new(point, out)?);
        Ok(())
    }

    /// Ends all captures. An error that ended one before, such as a full disk, is told here.
    pub fn finish_captures(&mut self) -> io::Result<()> {
        self.core.links.iter_mut().try_for_each(Link::finish_captures)
    }

    fn begin(&mut self) {
        self.find_routes();
        self.trunks.begin(&mut self.core);
        let (links, sources) = self.begun;
        for number in links..self.core.links.len() {
            let id = LinkId(number as u32);
            self.core.links[number].await_change(self.core.now, id, &mut self.core.agenda);
        }
        for number in sources..self.sources.len() {
            match &mut self.sources[number] {
                Source::Transfers(source) => source.begin(&mut self.core, number as u32),
                Source::Datagrams(source) => source.begin(&mut self.core, number as u32),
            }
        }
        self.begun = (self.core.links.len(), self.sources.len());
    }

    /// Lets everything happen that is due up to `end`, and stops the clock there.
    pub fn run_until(&mut self, end: Instant) {
        self.begin();
        while self.step(end) {}
        self.core.now = self.core.now.max(end);
    }

    /// Lets everything happen that is due within `time`.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.core.now + time);
    }

    /// As [`Network::run_until`], but stops as the last of these sources is over: it has no transfer that goes on or is to begin.
    /// Whether all are. Sources of datagrams never are.
    pub fn run_until_over(&mut self, sources: &[SourceId], end: Instant) -> bool {
        self.begin();
        let mut left = sources.iter();
        let mut awaited = left.next();
        loop {
            while awaited.is_some_and(|source| self.is_over(*source)) {
                awaited = left.next();
            }
            if awaited.is_none() {
                return true;
            }
            if !self.step(end) {
                self.core.now = self.core.now.max(end);
                return false;
            }
        }
    }

    fn is_over(&self, id: SourceId) -> bool {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => source.is_over(),
            Source::Datagrams(_) => false,
        }
    }

    /// Counts what is largest or least of all, the peaks of queues and buffers and the delays of datagrams, from now on, and so
    /// [`Datagrams::overdue`].
    pub fn forget_peaks(&mut self) {
        self.core.links.iter_mut().for_each(Link::forget_peaks);
        let now = self.core.now;
        self.core.datagrams.iter_mut().for_each(|flow| flow.forget_peaks(now));
        self.proxies.iter_mut().for_each(Proxy::forget_peaks);
        self.trunks.forget_peaks();
    }

    /// One event, if there is one up to `end`.
    #[inline]
    fn step(&mut self, end: Instant) -> bool {
        let Some((at, who)) = self.core.agenda.next(end) else { return false };
        debug_assert!(at >= self.core.now, "time runs forward");
        self.core.now = at;
        self.core.digest.add(at.as_nanos(), (who.kind as u64) << 32 | u64::from(who.index));
        let index = who.index as usize;
        match who.kind {
            Kind::Arrival => {
                let link = &mut self.core.links[index];
                let to = link.to;
                if let Some((mut packet, doubled)) = link.arrive(at, LinkId(who.index), &mut self.core.agenda)
                {
                    self.core.hops += 1;
                    self.core.digest.add(packet.sent().as_nanos(), u64::from(packet.length()));
                    if doubled {
                        self.core.doubles.mark(&mut packet);
                        self.receive(to, packet.clone());
                    }
                    self.receive(to, packet);
                }
            }
            Kind::Free => {
                let now = self.core.now;
                self.core.links[index].begin(now, LinkId(who.index), &mut self.core.agenda);
            }
            Kind::Change => {
                let now = self.core.now;
                self.core.links[index].change(now, LinkId(who.index), &mut self.core.agenda);
            }
            Kind::Connection => self.core.run_timer(ConnectionId(who.index)),
            Kind::Gateway => self.trunks.run_timer(&mut self.core, who.index),
            Kind::Proxy => self.proxies[index].run_timer(&mut self.core, who.index),
            Kind::Source => match &mut self.sources[index] {
                Source::Transfers(source) => source.run(&mut self.core, who.index),
                Source::Datagrams(source) => source.run(&mut self.core, who.index),
            },
        }
        self.answer_upcalls();
        true
    }

    /// A packet has come to a node.
    #[inline]
    fn receive(&mut self, at: NodeId, packet: Packet) {
        let here = NodeId::of(packet.destination()) == at;
        match self.core.nodes[at.index()].kind {
            _ if here => {
                if let Some((half, lane, datagram)) = self.core.deliver(at, packet) {
                    self.trunks.handle_datagram(&mut self.core, half, lane, datagram);
                }
            }
            NodeKind::Router => self.core.forward(at, packet),
            NodeKind::Proxy(proxy) => {
                self.proxies[proxy as usize].handle_packet(&mut self.core, proxy, packet);
            }
            NodeKind::Gateway(gateway) => self.trunks.handle_packet(&mut self.core, (at, gateway), packet),
            NodeKind::Host => self.core.nodes[at.index()].stats.unclaimed += 1,
        }
    }

    #[inline]
    fn answer_upcalls(&mut self) {
        while let Some(upcall) = self.core.upcalls.pop() {
            self.answer(upcall);
        }
    }

    fn answer(&mut self, upcall: Upcall) {
        let Network { core, sources, trunks, proxies, .. } = self;
        match upcall {
            Upcall::Connected { source, transfer } => {
                sources[source as usize].transfers().connected(core, transfer);
            }
            Upcall::Exchanged { source, transfer } => {
                sources[source as usize].transfers().exchanged(core, source, transfer);
            }
            Upcall::Received { source, transfer } => {
                sources[source as usize].transfers().received(core, transfer);
            }
            Upcall::Ended { source, transfer, orderly } => {
                sources[source as usize].transfers().ended(core, source, transfer, orderly);
            }
            Upcall::Lane { gateway, lane } => trunks.handle_lane(core, gateway, lane),
            Upcall::Broken { gateway, lane } => trunks.handle_broken(core, gateway, lane),
            Upcall::Split { proxy, flow } => proxies[proxy as usize].handle_split(core, proxy, flow),
        }
    }

    /// Virtual time.
    pub const fn now(&self) -> Instant {
        self.core.now
    }

    /// The seed that it was made with.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// A fingerprint of every event so far.
    pub const fn digest(&self) -> Digest {
        self.core.digest
    }

    /// Packets that went over a link, each time one did.
    pub const fn packet_hops(&self) -> u64 {
        self.core.hops
    }

    /// A link.
    pub fn link_state(&self, id: LinkId) -> &Link {
        &self.core.links[id.0 as usize]
    }

    /// What became of packets at a node.
    pub fn node_stats(&self, id: NodeId) -> &NodeStats {
        &self.core.nodes[id.index()].stats
    }

    /// A node's name.
    pub fn node_name(&self, id: NodeId) -> &str {
        &self.core.nodes[id.index()].name
    }

    /// The transfers of a source of TCP traffic so far; empty for others.
    pub fn transfers(&self, id: SourceId) -> Vec<Transfer> {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => source.transfers(&self.core),
            Source::Datagrams(_) => Vec::new(),
        }
    }

    /// What arrived of a source of datagrams; `None` for others.
    pub fn datagrams(&self, id: SourceId) -> Option<&Datagrams> {
        match &self.sources[id.0 as usize] {
            Source::Datagrams(source) => self.core.datagrams.get(source.flow as usize),
            Source::Transfers(_) => None,
        }
    }

    /// The ends of a user's connection as it is now, the client's first: for looking at windows and timers.
    pub fn endpoints(&self, id: SourceId, user: u32) -> Option<[&Endpoint; 2]> {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => {
                source.ends(user).map(|ends| ends.map(|end| &self.core.connections[end.0 as usize].endpoint))
            }
            Source::Datagrams(_) => None,
        }
    }

    /// The end of a user's connection that sends the data of its transfers.
    pub fn sender(&self, id: SourceId, user: u32) -> Option<&Endpoint> {
        self.sender_first(id, user).map(|[sender, _]| self.endpoint(sender))
    }

    /// The connection of a user, the end that sends data first.
    pub(crate) fn sender_first(&self, id: SourceId, user: u32) -> Option<[ConnectionId; 2]> {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => source.sender_first(user),
            Source::Datagrams(_) => None,
        }
    }

    /// Octets of a user's transfers that have been received.
    pub fn received_by(&self, id: SourceId, user: u32) -> u64 {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => source.received_by(&self.core, user),
            Source::Datagrams(_) => 0,
        }
    }

    /// Segments that were sent again in a user's transfers, by the sender of their data: of all connections that it has had.
    pub fn repeats_by(&self, id: SourceId, user: u32) -> u64 {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => source.repeats_by(&self.core, user),
            Source::Datagrams(_) => 0,
        }
    }

    pub(crate) fn endpoint(&self, end: ConnectionId) -> &Endpoint {
        &self.core.connections[end.0 as usize].endpoint
    }

    /// Lanes of a trunk, open or not.
    pub fn lanes(&self, id: TrunkId) -> usize {
        self.trunks.lanes(id)
    }

    /// One side of a trunk, 0 or 1, and what it says of itself.
    pub fn trunk_report(&mut self, id: TrunkId, side: usize) -> TrunkReport {
        self.trunks.report(&self.core, id, side)
    }

    /// Segments and octets that wait in a class' edge queues at one side of a trunk, 0 or 1.
    pub fn class_backlog(&self, id: TrunkId, side: usize, class: ClassId) -> (u64, u64) {
        self.trunks.backlog(id, side, class)
    }

    /// The end of a lane's connection at one side of a trunk; `None` of lanes of datagrams.
    pub fn lane_endpoint(&self, id: TrunkId, side: usize, lane: usize) -> Option<&Endpoint> {
        let end = self.trunks.lane_end(id, side, lane)?;
        Some(&self.core.connections[end.0 as usize].endpoint)
    }

    /// Ends of connections that are there, lanes' and proxies' too, and those that only remember for a while that they
    /// were closed.
    pub fn live_ends(&self) -> usize {
        self.core.live_ends()
    }

    /// Flows, users or connections of a source.
    pub fn users(&self, id: SourceId) -> u32 {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => source.users(),
            Source::Datagrams(_) => 1,
        }
    }
}

/// One TCP for both ends.
pub fn both(settings: trunkline_tcp::Settings) -> [Arc<trunkline_tcp::Settings>; 2] {
    let settings = Arc::new(settings);
    [settings.clone(), settings]
}
