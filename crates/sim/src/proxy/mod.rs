//! Proxies at the edge of a mobile network: what bosau2004 proposes, and what it is to be compared with.
//!
//! A proxy stands in the way of the packets to and from the nodes behind it. It either *splits* connections, so that the
//! network's side and the mobile side each have a TCP of their own, or *looks into* the packets that pass and changes
//! or holds some. Others it passes on.

mod inspect;
mod split;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trunkline_packet::{TcpFlags, protocol};
use trunkline_tcp::Settings;

use crate::core::{Core, flags_of};
use crate::{LinkId, NodeId, Packet};
use inspect::Inspected;
use split::Split;

pub use split::Cell;

/// A proxy of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxyId(pub(crate) u32);

/// What a proxy does with the connections of the nodes behind it.
#[derive(Debug, Clone)]
pub enum ProxyMode {
    /// Splits them (I-TCP, Bakre and Badrinath 1995): what has come is acknowledged at once and is the proxy's to
    /// deliver. The TCPs that face the network and the mobile node.
    Split([Arc<Settings>; 2]),
    /// Splits them, and acknowledges as a loss-free link of the mobile network's rate would (bosau2004 §3), by
    /// crate `trunk`'s path tail emulation. The TCP that faces the network must do without SACK and with an
    /// acknowledgement for each segment: when they leave is the emulation's to say.
    PathTail([Arc<Settings>; 2], Vec<Cell>),
    /// Lowers the windows that the nodes behind it offer, octets.
    ClampWindow(u64),
    /// M-TCP (Brown and Singh 1997): keeps the acknowledgement of the last octet back, and when the mobile node has not been heard
    /// of for a while, uses it to close the sender's window until it is.
    Freeze {
        /// For how long.
        after: Duration,
    },
    /// The acknowledgement regulator (Chan and Ramjee 2002): an acknowledgement passes only when what it sets free at the
    /// sender finds room before the mobile link.
    RegulateAcks {
        /// The mobile link.
        link: LinkId,
        /// Packets that may wait before it.
        room: u32,
    },
}

/// What a proxy is.
#[derive(Debug, Clone)]
pub struct ProxySettings {
    /// The nodes behind it.
    pub behind: Vec<NodeId>,
    /// What it does.
    pub mode: ProxyMode,
}

/// What a proxy has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyStats {
    /// Connections it has taken up.
    pub flows: u64,
    /// Segments it has dropped because its emulated link had no room.
    pub dropped: u64,
    /// Acknowledgements it has held back for a time.
    pub held: u64,
    /// Acknowledgements whose window it has lowered.
    pub clamped: u64,
    /// Times it has closed a sender's window.
    pub frozen: u64,
    /// Most octets that it had acknowledged and not yet delivered.
    pub peak_buffered: u64,
}

/// A connection as the proxy names it: addresses and ports, the side of the network first.
type FlowKey = (u32, u32, u16, u16);

#[derive(Debug)]
enum Work {
    Split(Split),
    Inspect(BTreeMap<FlowKey, Inspected>),
}

#[derive(Debug)]
pub(crate) struct Proxy {
    node: NodeId,
    behind: Vec<bool>,
    mode: ProxyMode,
    work: Work,
    stats: ProxyStats,
}

impl Proxy {
    pub(crate) fn new(node: NodeId, settings: ProxySettings) -> Self {
        let most = settings.behind.iter().map(|node| node.index()).max().map_or(0, |most| most + 1);
        let mut behind = vec![false; most];
        for node in &settings.behind {
            behind[node.index()] = true;
        }
        let work = match &settings.mode {
            ProxyMode::Split(tcp) => Work::Split(Split::new(node, tcp.clone(), None)),
            ProxyMode::PathTail(tcp, cells) => {
                Work::Split(Split::new(node, tcp.clone(), Some(cells.as_slice())))
            }
            ProxyMode::ClampWindow(_) | ProxyMode::Freeze { .. } | ProxyMode::RegulateAcks { .. } => {
                Work::Inspect(BTreeMap::new())
            }
        };
        Proxy { node, behind, mode: settings.mode, work, stats: ProxyStats::default() }
    }

    pub(crate) const fn stats(&self) -> &ProxyStats {
        &self.stats
    }

    fn is_behind(&self, node: NodeId) -> bool {
        self.behind.get(node.index()).copied().unwrap_or(false)
    }

    /// A packet that came to the proxy and is not for it.
    pub(crate) fn handle_packet(&mut self, core: &mut Core, index: u32, packet: Packet) {
        let (from, to) = (NodeId::of(packet.source()), NodeId::of(packet.destination()));
        let inward = self.is_behind(to);
        if packet.protocol() != protocol::TCP || packet.is_fragment() || inward == self.is_behind(from) {
            core.forward(self.node, packet);
            return;
        }
        let (source, destination) = packet.ports();
        let key = if inward {
            (u32::from(packet.source()), u32::from(packet.destination()), source, destination)
        } else {
            (u32::from(packet.destination()), u32::from(packet.source()), destination, source)
        };
        match &mut self.work {
            Work::Split(split) => split.handle_packet(core, index, (key, inward), packet, &mut self.stats),
            Work::Inspect(flows) => {
                if flags_of(&packet).contains(TcpFlags::SYN) && !flows.contains_key(&key) {
                    self.stats.flows += 1;
                    flows.insert(key, Inspected::default());
                }
                match flows.get_mut(&key) {
                    Some(flow) => {
                        let passes = flow.handle(core, &self.mode, (inward, packet), &mut self.stats);
                        passes.into_iter().flatten().for_each(|packet| core.forward(self.node, packet));
                    }
                    None => core.forward(self.node, packet),
                }
                self.wait(core, index);
            }
        }
    }

    /// Asks to be called when something is due.
    fn wait(&self, core: &mut Core, index: u32) {
        let next = match &self.work {
            Work::Split(split) => split.next(),
            Work::Inspect(flows) => flows.values().filter_map(|flow| flow.next(&self.mode)).min(),
        };
        match next {
            Some(at) => core.agenda.set(crate::agenda::Kind::Proxy, index, at.max(core.now)),
            None => core.agenda.cancel(crate::agenda::Kind::Proxy, index),
        }
    }

    pub(crate) fn run_timer(&mut self, core: &mut Core, index: u32) {
        match &mut self.work {
            Work::Split(split) => split.release(core),
            Work::Inspect(flows) => {
                for flow in flows.values_mut() {
                    for packet in flow.run(core, &self.mode, &mut self.stats) {
                        core.send(self.node, packet);
                    }
                }
            }
        }
        self.wait(core, index);
    }

    /// A half of a split connection has got something, or something else has happened to it.
    pub(crate) fn handle_split(&mut self, core: &mut Core, index: u32, flow: u32) {
        if let Work::Split(split) = &mut self.work {
            split.relay(core, flow, &mut self.stats);
        }
        self.wait(core, index);
    }
}
