//! Connections with a TCP of their own on each side of a proxy.
//!
//! Each half speaks with the other end's address, so neither end knows. Octets that have come in order on one side are
//! written on the other; an end is told that the other has closed once it has all that was sent before.
//!
//! With path tail emulation, segments from the network pass an emulated link first: one that it has no room for is
//! dropped, and the acknowledgement of one that it takes leaves when the link would have delivered it.

use std::collections::BTreeMap;
use std::sync::Arc;

use trunkline_packet::{TcpFlags, protocol};
use trunkline_tcp::{Segment, Settings, State};
use trunkline_trunk::path_tail::{Arrival, CellId, Estimate, FlowId, Limit, PathTail, Verdict};
use trunkline_units::{Instant, Seq};

use super::{FlowKey, ProxyStats};
use crate::agenda::Kind;
use crate::connection::{Connection, ConnectionId, Role};
use crate::core::{Core, flags_of};
use crate::packet::{Addressing, IP};
use crate::{NodeId, Packet};

/// A cell of the mobile network, as the proxy emulates it.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The nodes in it.
    pub nodes: Vec<NodeId>,
    /// What the operator says it carries.
    pub estimate: Estimate,
    /// What its emulated link holds.
    pub limit: Limit,
    /// Whether each connection has an emulated link of its own: a profile with a fixed rate.
    pub each_alone: bool,
}

#[derive(Debug)]
struct Flow {
    /// The half that faces the network, and the half that faces the mobile node.
    ends: [ConnectionId; 2],
    /// Whether each half has been told to close.
    closing: [bool; 2],
    mobile: NodeId,
    tail: Option<FlowId>,
    /// What the half that faces the network would have said at once.
    said: Option<(Packet, Seq)>,
    released: Option<Seq>,
    /// The network's FIN, until the mobile node has acknowledged ours.
    fin: Option<Segment>,
}

#[derive(Debug)]
pub(super) struct Split {
    node: NodeId,
    tcp: [Arc<Settings>; 2],
    flows: Vec<Option<Flow>>,
    by_key: BTreeMap<FlowKey, u32>,
    by_tail: BTreeMap<FlowId, u32>,
    tail: Option<Tail>,
}

/// The emulated links.
#[derive(Debug)]
struct Tail {
    core: PathTail,
    cells: Vec<(Cell, CellId)>,
}

impl Tail {
    fn new(cells: &[Cell]) -> Self {
        let mut core = PathTail::new();
        let cells =
            cells.iter().map(|cell| (cell.clone(), core.add_cell(cell.estimate, cell.limit))).collect();
        Tail { core, cells }
    }

    /// Begins the emulation for a connection to `mobile`, if that is in a cell.
    fn open(&mut self, mobile: NodeId, first: Seq) -> Option<FlowId> {
        let (cell, id) = self.cells.iter().find(|(cell, _)| cell.nodes.contains(&mobile))?;
        Some(if cell.each_alone {
            self.core.open_with_profile(cell.estimate, cell.limit, first)
        } else {
            self.core.open(*id, first)
        })
    }
}

impl Split {
    pub(super) fn new(node: NodeId, tcp: [Arc<Settings>; 2], cells: Option<&[Cell]>) -> Self {
        Split {
            node,
            tcp,
            flows: Vec::new(),
            by_key: BTreeMap::new(),
            by_tail: BTreeMap::new(),
            tail: cells.map(Tail::new),
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.tail.as_ref()?.core.next_release()
    }

    /// Sends the acknowledgements whose time has come.
    pub(super) fn release(&mut self, core: &mut Core) {
        let Some(tail) = &mut self.tail else { return };
        while let Some(release) = tail.core.poll_release(core.now) {
            let flow = self.by_tail.get(&release.flow).and_then(|flow| self.flows.get_mut(*flow as usize));
            let Some(Some(flow)) = flow else { continue };
            flow.released = Some(release.ack);
            if let Some((said, _)) = &flow.said {
                core.send(self.node, said.clone().with_ack(release.ack).sent_at(core.now));
            }
        }
    }

    pub(super) fn handle_packet(
        &mut self,
        core: &mut Core,
        index: u32,
        (key, inward): (FlowKey, bool),
        packet: Packet,
        stats: &mut ProxyStats,
    ) {
        let flags = flags_of(&packet);
        let known = self.by_key.get(&key).copied();
        let fresh = flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK);
        let flow = match (known, fresh) {
            (Some(flow), _) => flow,
            (None, true) => {
                stats.flows += 1;
                self.begin(core, index, key, inward)
            }
            // Of a connection that began before the proxy, or is over.
            (None, false) => {
                core.forward(self.node, packet);
                return;
            }
        };
        let Some(Some(Flow { ends, .. })) = self.flows.get(flow as usize) else { return };
        let end = ends[usize::from(!inward)];
        let length = packet.length() as usize - IP;
        let Ok((mut segment, _)) = Segment::parse(packet.transport(), length) else { return };
        segment.congestion_experienced = packet.congestion_experienced();
        if inward && self.emulate(core.now, flow, &mut segment, packet.length()) == Fate::Dropped {
            stats.dropped += 1;
            return;
        }
        let now = core.now;
        core.connections[end.0 as usize].endpoint.handle_segment(now, &segment);
        self.flush(core, (flow, end), stats);
        self.relay(core, flow, stats);
    }

    /// Passes a segment of the network's side by the emulated link. A FIN is kept from it until the mobile node has acknowledged
    /// ours, since a close is the mobile node's to acknowledge.
    fn emulate(&mut self, now: Instant, flow: u32, segment: &mut Segment, octets: u32) -> Fate {
        let (Some(tail), Some(Some(flow_state))) = (&mut self.tail, self.flows.get_mut(flow as usize)) else {
            return Fate::Taken;
        };
        if segment.flags.contains(TcpFlags::SYN) {
            if flow_state.tail.is_none() {
                flow_state.tail = tail.open(flow_state.mobile, segment.seq + 1);
                if let Some(id) = flow_state.tail {
                    self.by_tail.insert(id, flow);
                }
            }
            return Fate::Taken;
        }
        let Some(id) = flow_state.tail else { return Fate::Taken };
        let fin = segment.flags.contains(TcpFlags::FIN);
        if segment.payload > 0 {
            let end = segment.seq + segment.payload;
            // The FIN's own place is not the emulation's affair: it is kept below.
            let arrival = Arrival { seq: segment.seq, end, octets, fin: false };
            if let Verdict::Dropped(_) = tail.core.handle_segment(now, id, arrival) {
                return Fate::Dropped;
            }
        }
        if fin {
            flow_state.fin = Some(Segment { seq: segment.seq + segment.payload, payload: 0, ..*segment });
            segment.flags = TcpFlags(segment.flags.0 & !TcpFlags::FIN.0);
        }
        Fate::Taken
    }

    fn begin(&mut self, core: &mut Core, index: u32, key: FlowKey, inward: bool) -> u32 {
        let flow = self.flows.len() as u32;
        let (network, mobile) = ((key.0.into(), key.2), (key.1.into(), key.3));
        let to_network = Addressing::new(protocol::TCP, mobile, network, 0);
        let to_mobile = Addressing::new(protocol::TCP, network, mobile, 0);
        let role = Role::Split { proxy: index, flow };
        let now = core.now;
        let iss = core.initial_sequence();
        let near = (to_network, self.node, role);
        let far = (to_mobile, self.node, role);
        // The half that faces who asks waits for its SYN, the other one asks.
        let ends = if inward {
            [
                core.place(Connection::passive(&self.tcp[0], iss, near)),
                core.place(Connection::active(&self.tcp[1], (now, iss ^ 1), far)),
            ]
        } else {
            [
                core.place(Connection::active(&self.tcp[0], (now, iss), near)),
                core.place(Connection::passive(&self.tcp[1], iss ^ 1, far)),
            ]
        };
        let mobile = NodeId::of(key.1.into());
        let flow_state =
            Flow { ends, closing: [false; 2], mobile, tail: None, said: None, released: None, fin: None };
        self.flows.push(Some(flow_state));
        self.by_key.insert(key, flow);
        flow
    }

    /// Sends what a half has to send. Acknowledgements of what an emulated link has taken wait until it says so.
    fn flush(&mut self, core: &mut Core, (flow, end): (u32, ConnectionId), stats: &mut ProxyStats) {
        let now = core.now;
        loop {
            let connection = &mut core.connections[end.0 as usize];
            let Some(segment) = connection.endpoint.poll_transmit(now) else { break };
            let addressing = connection.addressing;
            let number = core.nodes[self.node.index()].take_id();
            let packet = Packet::tcp(&addressing, number, &segment).sent_at(now);
            if let Some(Some(state)) = self.flows.get_mut(flow as usize)
                && state.tail.is_some()
                && end == state.ends[0]
            {
                let plain = segment.sequence_len() == 0 && !segment.flags.intersects(TcpFlags::RST);
                let early = state.released.is_none_or(|released| released.before(segment.ack));
                if plain {
                    state.said = Some((packet.clone(), segment.ack));
                }
                if plain && early && state.fin.is_none() {
                    stats.held += 1;
                    continue;
                }
            }
            core.send(self.node, packet);
        }
        match core.connections[end.0 as usize].endpoint.next_wakeup() {
            Some((at, _)) => core.agenda.set(Kind::Connection, end.0, at.max(now)),
            None => core.agenda.cancel(Kind::Connection, end.0),
        }
    }

    /// Moves what each half has to the other.
    pub(super) fn relay(&mut self, core: &mut Core, flow: u32, stats: &mut ProxyStats) {
        let now = core.now;
        let Some(Some(Flow { ends, closing, fin, .. })) = self.flows.get_mut(flow as usize) else { return };
        let ends = *ends;
        if fin.is_some() {
            let [near, far] = ends.map(|end| end.0 as usize);
            let all = core.connections[near].endpoint.readable() == 0;
            if all && !closing[1] {
                closing[1] = true;
                core.connections[far].endpoint.close(now);
            }
            let state = core.connections[far].endpoint.state();
            if matches!(state, State::FinWait2 | State::TimeWait | State::Closed)
                && let Some(fin) = fin.take()
            {
                core.connections[near].endpoint.handle_segment(now, &fin);
            }
        }
        for from in 0..2 {
            let to = 1 - from;
            let there = core.connections[ends[from].0 as usize].endpoint.readable();
            let room = core.connections[ends[to].0 as usize].endpoint.send_room();
            let take = there.min(room);
            if take > 0 {
                let taken = core.connections[ends[to].0 as usize].endpoint.write(now, take);
                core.connections[ends[from].0 as usize].endpoint.read(now, taken);
            }
            let source = &core.connections[ends[from].0 as usize].endpoint;
            if has_closed(source.state()) && source.readable() == 0 && !closing[to] {
                closing[to] = true;
                core.connections[ends[to].0 as usize].endpoint.close(now);
            }
        }
        let [near, far] = ends.map(|end| &core.connections[end.0 as usize].endpoint);
        let buffered = near.readable() + far.unsent() + far.unacknowledged();
        stats.peak_buffered = stats.peak_buffered.max(buffered);
        // A half that is gone though the other was not told to close was reset.
        for side in 0..2 {
            let gone = core.connections[ends[side].0 as usize].endpoint.state() == State::Closed;
            if gone && !closing[1 - side] {
                closing[1 - side] = true;
                core.connections[ends[1 - side].0 as usize].endpoint.abort(now);
            }
        }
        for half in ends {
            self.flush(core, (flow, half), stats);
        }
        if ends.iter().all(|end| core.connections[end.0 as usize].endpoint.state() == State::Closed) {
            for end in ends {
                core.forget(end);
            }
            self.by_tail.retain(|_, known| *known != flow);
            self.flows[flow as usize] = None;
            self.by_key.retain(|_, known| *known != flow);
        }
    }
}

/// Whether the peer will send nothing more.
fn has_closed(state: State) -> bool {
    matches!(state, State::CloseWait | State::LastAck | State::Closing | State::TimeWait)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Taken,
    Dropped,
}
