//! Proxies at the edge of a mobile network: bosau2004's proposal, and those that it is compared with.
//!
//! A proxy forwards the packets to and from the nodes behind it. It either *splits* connections, so that the
//! network's side and the mobile side each have a TCP of their own, or *inspects* the packets that pass, and
//! changes or delays some. It forwards all others unchanged.

mod inspect;
mod regulate;
mod split;
mod tail;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trunkline_packet::protocol;
use trunkline_tcp::Settings;
use trunkline_trunk::path_tail::Estimate;

use crate::node::NodeSet;
use crate::state::NetworkState;
use crate::{LinkId, NodeId, Packet};
use inspect::{Change, Inspection};
use regulate::Regulator;
use split::Split;

pub use tail::Cell;

/// A proxy of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxyId(pub(crate) u32);

/// The treatment of the connections of the nodes behind a proxy.
#[derive(Debug, Clone)]
pub enum ProxyMode {
    /// Splits them (I-TCP, Bakre and Badrinath 1995): what has come is acknowledged at once and is the proxy's to
    /// deliver. The TCPs that face the network and the mobile node.
    Split([Arc<Settings>; 2]),
    /// Splits them, and acknowledges as a loss-free link of the mobile network's rate would (bosau2004 §3), by
    /// crate `trunk`'s path tail emulation. The TCP that faces the network goes without SACK, timestamps and delayed
    /// acknowledgements, whatever its settings: when they leave is the emulation's to say.
    PathTail([Arc<Settings>; 2], Vec<Cell>),
    /// Lowers the windows that the nodes behind it offer, bytes.
    ClampWindow(u64),
    /// Lowers them to what finds a free place before the link to the mobile node now (after Chakravorty et al. 2003): windows follow the
    /// mobile network. Connections share the free places; each keeps a segment.
    ClampToRoom {
        /// Packets that may wait before each of the proxy's links to the nodes behind it.
        room: u32,
    },
    /// M-TCP (Brown and Singh 1997): keeps the acknowledgement of the last byte back, and when the mobile node has not been heard
    /// of for a while, uses it to close the sender's window until it is.
    ///
    /// Deviation: theirs splits the connection, with a TCP of its own on the mobile side; here both ends are the hosts', and what the
    /// mobile link loses is the sender's to retransmit.
    Freeze {
        /// For how long.
        after: Duration,
    },
    /// The acknowledgement regulator (Chan and Ramjee 2002): an acknowledgement passes only when what it sets free at the
    /// sender finds room before the mobile link.
    RegulateAcks {
        /// Packets that may wait before each of the proxy's links to the nodes behind it.
        room: u32,
    },
}

/// The settings of a proxy.
#[derive(Debug, Clone)]
pub struct ProxySettings {
    /// The nodes behind it.
    pub behind: Vec<NodeId>,
    /// What it does.
    pub mode: ProxyMode,
}

/// The counters of a proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyStats {
    /// Connections it has taken up.
    pub flows: u64,
    /// Segments of the network that it dropped because an emulated link had no room.
    pub dropped: u64,
    /// Segments of the network that it dropped because it held enough of their connection.
    pub overflowed: u64,
    /// Damaged segments, of connections it has split.
    pub corrupted: u64,
    /// Acknowledgements it has held back for a time, or, of a freezing proxy, but for their last byte.
    pub held: u64,
    /// Acknowledgements it has sent when they were due.
    pub released: u64,
    /// Segments whose window it has lowered.
    pub clamped: u64,
    /// Times it has closed a sender's window.
    pub frozen: u64,
    /// Bytes that it holds for mobile nodes: received in order, and not acknowledged by a mobile node.
    pub buffered: u64,
    /// The peak of [`ProxyStats::buffered`].
    pub peak_buffered: u64,
}

impl ProxyStats {
    /// A connection that was counted with `counted` bytes has `now`.
    fn recount(&mut self, counted: &mut u64, now: u64) {
        self.buffered = self.buffered + now - *counted;
        self.peak_buffered = self.peak_buffered.max(self.buffered);
        *counted = now;
    }
}

/// A connection as the proxy names it: nodes and ports, the side of the network first.
type FlowKey = (NodeId, NodeId, u16, u16);

#[derive(Debug)]
enum Work {
    Split(Box<Split>),
    Inspect(Inspection),
    /// By the link to the mobile node.
    Regulate(u32, BTreeMap<LinkId, Regulator>),
}

#[derive(Debug)]
pub(crate) struct Proxy {
    node: NodeId,
    behind: NodeSet,
    work: Work,
    stats: ProxyStats,
}

impl Proxy {
    pub(crate) const fn node(&self) -> NodeId {
        self.node
    }

    pub(crate) fn new(node: NodeId, settings: ProxySettings) -> Self {
        let behind = settings.behind.iter().copied().collect();
        let work = match settings.mode {
            ProxyMode::Split(tcp) => Work::Split(Box::new(Split::new(node, tcp, None))),
            ProxyMode::PathTail(tcp, cells) => Work::Split(Box::new(Split::new(node, tcp, Some(&cells)))),
            ProxyMode::ClampWindow(max) => Work::Inspect(Inspection::new(Change::Clamp(max))),
            ProxyMode::ClampToRoom { room } => {
                Work::Inspect(Inspection::new(Change::ClampToRoom(room.into())))
            }
            ProxyMode::Freeze { after } => Work::Inspect(Inspection::new(Change::Freeze(after))),
            ProxyMode::RegulateAcks { room } => Work::Regulate(room, BTreeMap::new()),
        };
        Proxy { node, behind, work, stats: ProxyStats::default() }
    }

    pub(crate) const fn stats(&self) -> &ProxyStats {
        &self.stats
    }

    pub(crate) fn reset_peaks(&mut self) {
        self.stats.peak_buffered = self.stats.buffered;
    }

    /// The operator says something else of a cell, by its number.
    pub(crate) fn set_estimate(
        &mut self,
        net: &mut NetworkState,
        index: u32,
        cell: usize,
        estimate: Estimate,
    ) {
        if let Work::Split(split) = &mut self.work {
            split.set_estimate(net.now, cell, estimate);
            self.wait(net, index);
        }
    }

    /// A packet that came to the proxy and is not for it.
    pub(crate) fn handle_packet(&mut self, net: &mut NetworkState, index: u32, packet: Packet) {
        let (from, to) = (packet.source(), packet.destination());
        let inward = self.behind.contains(to);
        if packet.protocol() != protocol::TCP || packet.is_fragment() || inward == self.behind.contains(from)
        {
            net.forward(self.node, packet);
            return;
        }
        let (source, destination) = packet.ports();
        let key = if inward { (from, to, source, destination) } else { (to, from, destination, source) };
        let mobile = if inward { to } else { from };
        let (node, now, stats) = (self.node, net.now, &mut self.stats);
        match &mut self.work {
            // An end would find it out; who only looks does not.
            Work::Split(_) if packet.is_corrupted() => stats.corrupted += 1,
            Work::Split(split) => split.handle_packet(net, index, (key, inward), packet, stats),
            _ if packet.is_corrupted() => net.forward(node, packet),
            Work::Inspect(inspection) => {
                if inspection.follows_room() {
                    inspection.note_waiting(waiting(net, link_to(net, node, mobile)));
                }
                let passes = inspection.handle(now, (key, inward), packet, stats);
                net.forward(node, passes);
            }
            Work::Regulate(room, regulators) => {
                let link = link_to(net, node, mobile);
                let regulator = regulators.entry(link).or_insert_with(|| Regulator::new(*room));
                if let Some(passes) = regulator.handle(now, (key, inward), packet, stats) {
                    net.forward(node, passes);
                }
            }
        }
        self.release(net);
        self.wait(net, index);
    }

    /// Sends what is due.
    fn release(&mut self, net: &mut NetworkState) {
        let (node, now, stats) = (self.node, net.now, &mut self.stats);
        match &mut self.work {
            Work::Split(split) => split.release(net, stats),
            Work::Inspect(inspection) => {
                while let Some(packet) = inspection.poll(now, stats) {
                    net.send(node, packet.sent_at(now));
                }
            }
            Work::Regulate(_, regulators) => {
                for (link, regulator) in regulators {
                    let waiting = waiting(net, *link);
                    while let Some(packet) = regulator.poll(now, waiting, stats) {
                        net.forward(node, packet);
                    }
                }
            }
        }
    }

    /// Asks to be called when something is due.
    fn wait(&self, net: &mut NetworkState, index: u32) {
        let next = match &self.work {
            Work::Split(split) => split.next(),
            Work::Inspect(inspection) => inspection.next(),
            Work::Regulate(_, regulators) => regulators.values().filter_map(Regulator::next).min(),
        };
        match next {
            Some(at) => net.agenda.set(crate::agenda::Kind::Proxy, index, at.max(net.now)),
            None => net.agenda.cancel(crate::agenda::Kind::Proxy, index),
        }
    }

    pub(crate) fn run_timer(&mut self, net: &mut NetworkState, index: u32) {
        self.release(net);
        self.wait(net, index);
    }

    /// A half of a split connection has got something, or something else has happened to it.
    pub(crate) fn handle_split(&mut self, net: &mut NetworkState, index: u32, flow: u32) {
        if let Work::Split(split) = &mut self.work {
            split.handle_half(net, flow, &mut self.stats);
        }
        self.wait(net, index);
    }
}

/// The link from a node towards another.
fn link_to(net: &NetworkState, from: NodeId, to: NodeId) -> LinkId {
    LinkId(net.nodes[from.index()].routes[to.index()])
}

/// Packets before a link.
fn waiting(net: &NetworkState, link: LinkId) -> u64 {
    net.links.get(link.0 as usize).map_or(0, |link| link.machine.queue().backlog_segments)
}
