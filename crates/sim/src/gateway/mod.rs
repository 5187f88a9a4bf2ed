//! Trunk gateways: crate `trunk`, as a gateway runs it, over modelled lanes.
//!
//! A trunk joins two gateways. Each has a half: the very transmitter and receiver of the gateway for Linux, and its end
//! of every lane. What the transmitter is told of a lane is what Linux tells (`TCP_INFO`, `SIOCOUTQ`), or the gateway's library
//! for QUIC, and as rarely as a gateway asks: see `tcp_lane.rs` and `quic/`.

mod quic;
mod report;
mod settings;
mod stream;
mod tcp_lane;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ipnet::IpNet;
use trunkline_packet::{Headers, Offload, TcpFlags, Version, protocol};
use trunkline_tcp::CongestionAlgorithm;
use trunkline_trunk::bonding::{Resequencer, Turn};
use trunkline_trunk::frame::FrameHead;
use trunkline_trunk::path::{LaneSign, PathNews, PathWatch};
use trunkline_trunk::{
    ClassId, ClassSettings, Label, LaneEdge, LaneId, Offered, PacketStore, PathMode, Paths, PeerId, Receiver,
    Transmitter, Transport, TrunkPlan,
};

use crate::agenda::Kind;
use crate::node::NodeSet;
use crate::state::{NetworkState, flags_of};
use crate::{NodeId, Packet};
use quic::QuicLane;
use tcp_lane::TcpLane;

pub use quic::QuicLaneStats;
pub use report::{LaneReport, TrunkReport};
pub use settings::{LaneSocket, TrunkSettings};

/// A trunk between two gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrunkId(pub(crate) u32);

pub(crate) struct Half {
    node: NodeId,
    /// Which nodes are behind it.
    site: NodeSet,
    transmitter: Transmitter<Packet>,
    paths: Paths,
    /// Over those to the other side, where there are several.
    watch: PathWatch,
    /// Lanes that are up, a bit each; known where there are several paths.
    up: u32,
    /// Packets that came over bonded paths, and wait for those before them.
    ordered: Resequencer<Packet>,
    /// What is random on this side follows from it.
    seed: u64,
    receiver: Receiver,
    lanes: Vec<Carrier>,
    refused: u64,
}

enum Carrier {
    Tcp(Box<TcpLane>),
    Quic(Box<QuicLane>),
}

impl std::fmt::Debug for Half {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Half")
            .field("node", &self.node)
            .field("lanes", &self.lanes.len())
            .finish_non_exhaustive()
    }
}

/// Packets of the model are copied and dropped without limit.
struct Copies;

impl PacketStore<Packet> for Copies {
    fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        Some(packet.clone())
    }

    fn release(&mut self, _: Packet) {}
}

/// The other side of a trunk.
const fn other(half: u32) -> u32 {
    half ^ 1
}

/// Every trunk of a network: the halves of the first, of the second, and so on.
#[derive(Debug, Default)]
pub(crate) struct Trunks {
    halves: Vec<Half>,
    settings: Vec<TrunkSettings>,
    /// Of the lanes of each trunk.
    versions: Vec<Version>,
    /// Trunks whose lanes are open or being opened.
    opened: usize,
    /// For each gateway, the half that packets to a node go into.
    toward: Vec<Vec<u32>>,
}

const NO_TRUNK: u32 = u32::MAX;

impl Trunks {
    pub(crate) fn add_gateway(&mut self) -> u32 {
        self.toward.push(Vec::new());
        self.toward.len() as u32 - 1
    }

    /// # Panics
    /// If a gateway has a trunk to one of the nodes already.
    pub(crate) fn add(
        &mut self,
        ends: [(NodeId, u32); 2],
        version: Version,
        settings: TrunkSettings,
        seed: u64,
    ) -> TrunkId {
        let lanes = settings.plans[0].lane_count();
        for (side, (node, gateway)) in ends.into_iter().enumerate() {
            let half = self.halves.len() as u32;
            let toward = &mut self.toward[gateway as usize];
            for behind in &settings.sites[1 - side] {
                if toward.len() <= behind.index() {
                    toward.resize(behind.index() + 1, NO_TRUNK);
                }
                assert_eq!(
                    toward[behind.index()],
                    NO_TRUNK,
                    "node {} is behind two trunks of one gateway",
                    behind.index()
                );
                toward[behind.index()] = half;
            }
            // A half has one peer: the other one.
            let far = settings.sites[1 - side].iter();
            let owners = far.flat_map(|node| prefixes(*node)).map(|prefix| (prefix, PeerId(0))).collect();
            let mut paths = Paths::default();
            paths.configure(&settings.plans[side]);
            self.halves.push(Half {
                paths,
                watch: PathWatch::new(settings.plans[side].path_count()),
                up: 0,
                ordered: Resequencer::default(),
                node,
                site: settings.sites[side].iter().copied().collect(),
                transmitter: Transmitter::new(
                    settings.plans[side].clone(),
                    settings.flows,
                    seed ^ side as u64,
                ),
                seed: seed ^ side as u64,
                receiver: Receiver::new(PeerId(0), Arc::new(owners)),
                lanes: Vec::with_capacity(lanes),
                refused: 0,
            });
        }
        self.settings.push(settings);
        self.versions.push(version);
        TrunkId(self.settings.len() as u32 - 1)
    }

    /// The gateways of each trunk.
    pub(crate) fn ends(&self) -> impl Iterator<Item = [NodeId; 2]> {
        self.halves.chunks_exact(2).map(|halves| [halves[0].node, halves[1].node])
    }

    /// The ends of each path of each trunk, with the number of the trunk and its gateways.
    pub(crate) fn path_ends(&self) -> impl Iterator<Item = (usize, [NodeId; 2], [NodeId; 2])> {
        let ends = self.ends().zip(&self.settings).enumerate();
        ends.flat_map(|(number, (gateways, settings))| {
            let given = settings.path_ends.iter().copied();
            given
                .chain(settings.path_ends.is_empty().then_some(gateways))
                .map(move |ends| (number, gateways, ends))
        })
    }

    /// Whether the lanes of one are over IPv6.
    pub(crate) fn have_ipv6(&self) -> bool {
        self.versions.contains(&Version::V6)
    }

    /// Opens the lanes of trunks that were added.
    pub(crate) fn begin(&mut self, net: &mut NetworkState) {
        while let Some(settings) = self.settings.get(self.opened) {
            let near = self.opened as u32 * 2;
            let gateways = [near, other(near)].map(|half| self.halves[half as usize].node);
            let version = self.versions[self.opened];
            let lanes = settings.plans[0].lane_count() as u8;
            for lane in (0..lanes).map(LaneId) {
                let nodes = settings.ends(lane, gateways);
                if settings.transport(lane) == Transport::Tcp {
                    let dscp = settings.dscp(lane);
                    let ends = tcp_lane::open(net, (nodes, near), (version, lane, dscp), &settings.tcp);
                    for (side, end) in ends.into_iter().enumerate() {
                        let own = &mut self.halves[near as usize + side];
                        let tcp = TcpLane::new(net.now, end, lane, (settings, side), own.seed);
                        own.lanes.push(Carrier::Tcp(Box::new(tcp)));
                    }
                } else {
                    let seeds = [near, other(near)].map(|half| self.halves[half as usize].seed);
                    let place = (&settings.plans, &settings.tcp);
                    let ends = QuicLane::pair(net, (nodes, near), (version, lane), place, seeds);
                    for (side, end) in ends.into_iter().enumerate() {
                        self.halves[near as usize + side].lanes.push(Carrier::Quic(Box::new(end)));
                    }
                }
            }
            for half in [near, other(near)] {
                self.await_paths(net, half);
            }
            self.opened += 1;
        }
    }

    /// A packet that came to a gateway and is not for it.
    #[inline]
    pub(crate) fn handle_packet(
        &mut self,
        net: &mut NetworkState,
        (at, gateway): (NodeId, u32),
        mut packet: Packet,
    ) {
        let to = packet.destination();
        let half = self.toward[gateway as usize].get(to.index()).copied().unwrap_or(NO_TRUNK);
        if half == NO_TRUNK || !self.is_behind(half, packet.source()) {
            net.forward(at, packet);
            return;
        }
        if !packet.take_hop() {
            net.nodes[at.index()].stats.ttl_expired += 1;
            return;
        }
        let Ok(headers) = Headers::parse(packet.header(), packet.length() as usize) else {
            net.nodes[at.index()].stats.malformed += 1;
            return;
        };
        let own = &mut self.halves[half as usize];
        for lane in &mut own.lanes {
            lane.report_delivered(net, &mut own.transmitter);
        }
        match own.transmitter.handle_packet(net.now, &headers, packet, Copies) {
            Offered::Queued(lane) => self.serve(net, half, lane),
            Offered::QueuedFor(lanes) => {
                LaneId::of_set(lanes).for_each(|lane| self.serve(net, half, lane));
            }
            Offered::Dropped => {}
            Offered::Refused(packet) => {
                own.refused += 1;
                if flags_of(&packet).contains(TcpFlags::SYN) {
                    net.prohibit(&packet);
                }
            }
        }
    }

    /// Whether a node is of the site behind this half.
    fn is_behind(&self, half: u32, node: NodeId) -> bool {
        self.halves[half as usize].site.contains(node)
    }

    fn serve(&mut self, net: &mut NetworkState, half: u32, lane: LaneId) {
        let own = &mut self.halves[half as usize];
        let edge = LaneEdge { lane, transmitter: &mut own.transmitter, paths: &mut own.paths };
        let is_dead = match own.lanes.get_mut(lane.index()) {
            Some(Carrier::Tcp(tcp)) => {
                tcp.serve(net, half, edge);
                tcp.is_dead(net.now)
            }
            Some(Carrier::Quic(quic)) => {
                quic.serve(net, half, edge);
                quic.is_dead(net.now)
            }
            None => return,
        };
        if is_dead {
            return self.reopen(net, half, lane);
        }
        let has_changed = own.paths.take_changed();
        if !own.watch.is_empty() {
            self.handle_served(net, half, lane);
        }
        if !has_changed {
            return;
        }
        let own = &mut self.halves[half as usize];
        for (lane, carrier) in (0..).map(LaneId).zip(&mut own.lanes) {
            let grant = own.paths.grant(lane);
            match carrier {
                Carrier::Tcp(tcp) => tcp.handle_grant(net, grant),
                Carrier::Quic(quic) => quic.handle_grant(net, grant),
            }
        }
    }

    /// A lane's TCP has got something, or sent something.
    pub(crate) fn handle_lane(&mut self, net: &mut NetworkState, half: u32, lane: u32) {
        let Some(Carrier::Tcp(tcp)) = self.halves[half as usize].lanes.get_mut(lane as usize) else { return };
        let arrived = tcp.take_arrived(net);
        if arrived > 0 {
            let far = &mut self.halves[other(half) as usize];
            let Some(Carrier::Tcp(sender)) = far.lanes.get_mut(lane as usize) else { return };
            let mut frames = sender.sending.stream.arrive(arrived);
            let own = &mut self.halves[half as usize];
            for frame in frames.drain(..) {
                let Some(Carrier::Tcp(tcp)) = own.lanes.get_mut(lane as usize) else { break };
                match tcp.handle_frame(net.now, frame, &mut own.paths) {
                    Some((packet, None)) => own.pass_on(net, packet),
                    Some((packet, Some(label))) => own.handle_labelled(net, packet, label),
                    None => {}
                }
            }
            if let Some(Carrier::Tcp(tcp)) = own.lanes.get_mut(lane as usize) {
                tcp.handle_arrived(net.now, arrived);
            }
            if let Some(Carrier::Tcp(sender)) = self.halves[other(half) as usize].lanes.get_mut(lane as usize)
            {
                sender.sending.stream.reuse(frames);
            }
        }
        self.serve(net, half, LaneId(lane as u8));
    }

    /// A lane's connection is no more.
    pub(crate) fn handle_broken(&mut self, net: &mut NetworkState, half: u32, lane: u32) {
        self.reopen(net, half, LaneId(lane as u8));
    }

    /// Opens a lane again, at both ends. What was in it is lost.
    fn reopen(&mut self, net: &mut NetworkState, half: u32, lane: LaneId) {
        let near = half & !1;
        let gateways = [near, other(near)].map(|half| self.halves[half as usize].node);
        let settings = &self.settings[near as usize / 2];
        let version = self.versions[near as usize / 2];
        let nodes = settings.ends(lane, gateways);
        let Ok([first, second]) = self.halves.get_disjoint_mut([near as usize, other(near) as usize]) else {
            return;
        };
        for half in [&mut *first, &mut *second] {
            half.transmitter.handle_lane_lost(lane);
            half.paths.remove_lane(lane);
            half.up &= !(1 << lane.0);
            half.watch.handle_lanes_changed();
        }
        let carriers = (first.lanes.get_mut(lane.index()), second.lanes.get_mut(lane.index()));
        match carriers {
            (Some(Carrier::Tcp(one)), Some(Carrier::Tcp(two))) => {
                let mut olds = [one, two];
                for old in &mut olds {
                    net.connections[old.end().0 as usize].endpoint.abort();
                    old.close(net);
                    net.forget(old.end());
                }
                let dscp = settings.dscp(lane);
                let ends = tcp_lane::open(net, (nodes, near), (version, lane, dscp), &settings.tcp);
                for (side, (old, end)) in olds.into_iter().zip(ends).enumerate() {
                    old.reopen(net.now, end, (settings, side));
                }
            }
            (Some(Carrier::Quic(one)), Some(Carrier::Quic(two))) => {
                let seeds = [first.seed, second.seed];
                let place = (&settings.plans, &settings.tcp);
                let ends = QuicLane::pair(net, (nodes, near), (version, lane), place, seeds);
                for (old, new) in [one, two].into_iter().zip(ends) {
                    **old = new.follow(old);
                }
            }
            _ => {}
        }
    }

    /// A packet of a lane over QUIC has come.
    pub(crate) fn handle_datagram(
        &mut self,
        net: &mut NetworkState,
        half: u32,
        lane: u32,
        datagram: &Packet,
    ) {
        let (here, there) = (half as usize, other(half) as usize);
        let Ok([own, far]) = self.halves.get_disjoint_mut([here, there]) else { return };
        let ends = (own.lanes.get_mut(lane as usize), far.lanes.get_mut(lane as usize));
        let (Some(Carrier::Quic(end)), Some(Carrier::Quic(sender))) = ends else { return };
        for packet in end.handle_packet(net.now, datagram, sender) {
            own.pass_on(net, packet);
        }
        self.serve(net, half, LaneId(lane as u8));
    }

    /// What a lane waited for has come: the end of a ceiling, or a timer of a connection. Or a look at the paths of a trunk is due.
    pub(crate) fn run_timer(&mut self, net: &mut NetworkState, index: u32) {
        let (half, lane) = (index / TrunkPlan::MAX_LANES as u32, index % TrunkPlan::MAX_LANES as u32);
        let own = &mut self.halves[half as usize];
        if lane == u32::from(TrunkSettings::PATHS.0) && !own.watch.is_empty() {
            return self.run_paths(net, half);
        }
        if let Some(Carrier::Quic(quic)) = own.lanes.get_mut(lane as usize) {
            quic.handle_timeout(net.now);
        }
        self.serve(net, half, LaneId(lane as u8));
    }

    /// A lane of one of several paths was served.
    fn handle_served(&mut self, net: &mut NetworkState, half: u32, lane: LaneId) {
        let own = &mut self.halves[half as usize];
        own.watch.handle_served(net.now);
        own.note_up(net, lane);
        self.await_paths(net, half);
    }

    /// Has [`Trunks::run_paths`] called when it is due.
    fn await_paths(&self, net: &mut NetworkState, half: u32) {
        let own = &self.halves[half as usize];
        let first = own.watch.poll_timeout().into_iter().chain(own.ordered.poll_timeout()).min();
        if let Some(at) = first {
            net.agenda.set(Kind::Gateway, timer(half, TrunkSettings::PATHS), at.max(net.now));
        }
    }

    /// A look at the paths of a trunk is due, or packets have waited long enough for one that is missing.
    fn run_paths(&mut self, net: &mut NetworkState, half: u32) {
        let own = &mut self.halves[half as usize];
        own.ordered.handle_timeout(net.now);
        own.pass_on_ordered(net);
        let moved = own.look_at_paths(net);
        for lane in LaneId::of_set(moved) {
            self.serve(net, half, lane);
        }
        self.await_paths(net, half);
    }

    /// One side of a trunk, and what it says of itself.
    pub(crate) fn report(&mut self, net: &NetworkState, trunk: TrunkId, side: usize) -> TrunkReport {
        let own = &mut self.halves[trunk.0 as usize * 2 + side];
        TrunkReport {
            classes: own.transmitter.report(net.now),
            lanes: (0..)
                .map(LaneId)
                .zip(&own.lanes)
                .map(|(lane, carrier)| carrier.report(net, own.paths.mode(lane)))
                .collect(),
            paths: own.paths.status(),
            receiver: *own.receiver.stats(),
            refused: own.refused,
        }
    }

    /// Segments and bytes that wait in a class' edge queues.
    pub(crate) fn backlog(&self, trunk: TrunkId, side: usize, class: ClassId) -> (u64, u64) {
        self.halves[trunk.0 as usize * 2 + side].transmitter.backlog(class)
    }

    pub(crate) fn plan(&self, trunk: TrunkId, side: usize) -> &TrunkPlan {
        self.halves[trunk.0 as usize * 2 + side].transmitter.plan()
    }

    /// # Panics
    /// If they are other classes, or on other lanes.
    pub(crate) fn set_classes(
        &mut self,
        net: &mut NetworkState,
        trunk: TrunkId,
        side: usize,
        classes: Vec<ClassSettings>,
    ) {
        let half = trunk.0 * 2 + side as u32;
        let own = &mut self.halves[half as usize];
        let place = |class: &ClassSettings| (Arc::clone(&class.name), class.group);
        let old = own.transmitter.plan();
        assert!(
            old.classes.iter().map(place).eq(classes.iter().map(place)),
            "other classes, or on other lanes"
        );
        let plan = TrunkPlan { classes, ..old.clone() };
        own.paths.update_shares(&plan);
        own.transmitter.reconfigure(net.now, plan.clone(), drop);
        self.settings[trunk.0 as usize].plans[side] = plan;
        for lane in (0..self.lanes(trunk) as u8).map(LaneId) {
            self.serve(net, half, lane);
        }
    }

    pub(crate) fn reset_peaks(&mut self) {
        self.halves.iter_mut().for_each(|half| half.transmitter.reset_peaks());
    }

    /// Lanes of a trunk, open or not.
    pub(crate) fn lanes(&self, trunk: TrunkId) -> usize {
        self.settings[trunk.0 as usize].plans[0].lane_count()
    }

    /// The connection of a lane, at one side.
    pub(crate) fn lane_end(&self, trunk: TrunkId, side: usize, lane: usize) -> Option<crate::ConnectionId> {
        match self.halves.get(trunk.0 as usize * 2 + side)?.lanes.get(lane)? {
            Carrier::Tcp(tcp) => Some(tcp.end()),
            Carrier::Quic(_) => None,
        }
    }
}

impl Half {
    /// A packet with a label has come out of a lane.
    fn handle_labelled(&mut self, net: &mut NetworkState, packet: Packet, label: Label) {
        match label {
            Label::Number(number) => {
                if self.receiver.handle_number(number) {
                    self.pass_on(net, packet);
                }
            }
            Label::Order(order) => {
                match self.ordered.handle(net.now, order) {
                    Turn::Now => self.pass_on(net, packet),
                    Turn::Again => {}
                    Turn::Early => {
                        let bytes = packet.length() as usize;
                        self.ordered.hold(net.now, order, packet, bytes);
                    }
                }
                self.pass_on_ordered(net);
            }
        }
    }

    /// The packets whose turn it is go to the site.
    fn pass_on_ordered(&mut self, net: &mut NetworkState) {
        while let Some(packet) = self.ordered.poll() {
            self.pass_on(net, packet);
        }
    }

    /// What a lane says of its path; nothing while it is not up.
    fn sign(&mut self, net: &NetworkState, lane: LaneId) -> Option<LaneSign> {
        match self.lanes.get_mut(lane.index())? {
            Carrier::Tcp(tcp) => tcp.sign(net),
            Carrier::Quic(quic) => quic.sign(net.now),
        }
    }

    /// A lane may have come up.
    fn note_up(&mut self, net: &NetworkState, lane: LaneId) {
        let bit = 1 << lane.0;
        if self.up & bit == 0 && self.sign(net, lane).is_some() {
            self.up |= bit;
            self.watch.handle_lanes_changed();
        }
    }

    /// Looks at the paths, if that is due. Returns the lanes for which packets wait now that came from others, a bit each.
    fn look_at_paths(&mut self, net: &NetworkState) -> u32 {
        if !self.watch.begin(net.now) {
            return 0;
        }
        for path in 0..self.watch.len() {
            let lanes = (0..self.lanes.len() as u8).map(LaneId);
            let on_path = |lane: &LaneId| usize::from(self.transmitter.plan().path_of(*lane).0) == path;
            let lanes: Vec<LaneId> = lanes.filter(on_path).collect();
            let signs: Vec<LaneSign> = lanes.into_iter().filter_map(|lane| self.sign(net, lane)).collect();
            let capacity = self.paths.capacity(path as u8);
            if self.watch.look(net.now, path, &signs, capacity) == Some(PathNews::Silent) {
                self.transmitter.handle_path_silent(path as u8);
            }
        }
        let moved = self.watch.update(net.now, self.up, &mut self.transmitter, &mut self.paths, drop);
        while self.paths.poll_handover().is_some() {}
        moved
    }

    /// A packet that came out of the trunk goes to the site.
    fn pass_on(&mut self, net: &mut NetworkState, packet: Packet) {
        let head = FrameHead { packet_len: packet.length() as usize, offload: Offload::None };
        let Ok((headers, _)) = self.receiver.handle_frame(&head, packet.header()) else { return };
        if headers.protocol == protocol::TCP {
            self.transmitter.handle_returning(net.now, &headers, packet.header());
        }
        net.forward(self.node, packet);
    }
}

impl Carrier {
    #[inline]
    fn report_delivered(&mut self, net: &mut NetworkState, transmitter: &mut Transmitter<Packet>) {
        match self {
            Carrier::Tcp(tcp) => tcp.report_delivered(net, transmitter),
            Carrier::Quic(quic) => quic.report_delivered(net, transmitter),
        }
    }

    fn report(&self, net: &NetworkState, mode: Option<PathMode>) -> LaneReport {
        match self {
            Carrier::Tcp(tcp) => tcp.report(net, mode),
            Carrier::Quic(quic) => quic.report(mode),
        }
    }
}

/// A node's addresses.
fn prefixes(node: NodeId) -> [IpNet; 2] {
    [(Version::V4, 24), (Version::V6, 120)]
        .map(|(version, len)| IpNet::new_assert(node.ip(version), len).trunc())
}

/// The algorithm of this name: settings with others are refused.
fn congestion_control(name: &str) -> CongestionAlgorithm {
    name.parse().unwrap_or_else(|_| unreachable!("no congestion control of the model: {name}"))
}

/// The place in the agenda of a lane's timer.
fn timer(half: u32, lane: LaneId) -> u32 {
    half * TrunkPlan::MAX_LANES as u32 + u32::from(lane.0)
}
