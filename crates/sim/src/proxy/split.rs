//! Connections with a TCP of their own on each side of a proxy.
//!
//! Each half uses the other end's address, so neither end notices. The proxy writes data that arrived in order on
//! one side to the other. An end learns that the other has closed once it has all data that was sent before. A half
//! that breaks takes the other with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trunkline_packet::{TcpFlags, Version, protocol};
use trunkline_tcp::{Segment, Settings, State};
use trunkline_trunk::path_tail::{Backlog, DropReason, Estimate, Offer, SegmentAction, Totals};
use trunkline_units::Instant;

use super::tail::{Paced, Tail, facing_network, offer_of};
use super::{Cell, FlowKey, ProxyStats};
use crate::agenda::Kind;
use crate::connection::{Connection, ConnectionId, Role};
use crate::packet::Addressing;
use crate::state::{NetworkState, flags_of};
use crate::{NodeId, Packet};

#[derive(Debug)]
struct Flow {
    key: FlowKey,
    /// The half that faces the network, and the half that faces the mobile node.
    ends: [ConnectionId; 2],
    /// Whether each half was asked to close.
    closing: [bool; 2],
    /// What the half that faces the network has offered in its SYN.
    offered: Option<Offer>,
    paced: Option<Paced>,
    /// What of the proxy's bytes it has been counted with.
    counted: u64,
    /// The number of the mobile node's cell.
    cell: Option<usize>,
    /// What of the cell's bytes that were delivered it has been counted with.
    delivered: u64,
    /// When that grew, or data began to wait for the mobile node.
    moved: Instant,
}

/// Whether a half that faces the network may acknowledge of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckPolicy {
    Forward,
    /// What it acknowledges now is released later, if it is paced.
    Hold,
}

#[derive(Debug)]
pub(super) struct Split {
    node: NodeId,
    tcp: [Arc<Settings>; 2],
    /// The same over IPv6, for each length of segments.
    tcp_ipv6: [Vec<Arc<Settings>>; 2],
    flows: Vec<Option<Flow>>,
    vacant: Vec<u32>,
    by_key: BTreeMap<FlowKey, u32>,
    tail: Option<Tail>,
    /// Bytes that mobile nodes have acknowledged, by the number of the cell.
    delivered: Vec<u64>,
}

impl Split {
    pub(super) fn new(node: NodeId, mut tcp: [Arc<Settings>; 2], cells: Option<&[Cell]>) -> Self {
        if cells.is_some() {
            tcp[0] = Arc::new(facing_network(&tcp[0]));
        }
        let tail = cells.map(Tail::new);
        let delivered = vec![0; cells.map_or(0, <[Cell]>::len)];
        Split {
            node,
            tcp,
            tcp_ipv6: Default::default(),
            flows: Vec::new(),
            vacant: Vec::new(),
            by_key: BTreeMap::new(),
            tail,
            delivered,
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        let tail = self.tail.as_ref()?;
        [tail.emulation.next_release(), tail.next_reading()].into_iter().flatten().min()
    }

    pub(super) fn set_estimate(&mut self, now: Instant, cell: usize, estimate: Estimate) {
        if let Some(tail) = &mut self.tail {
            tail.set_estimate(now, cell, estimate);
        }
    }

    /// Measures the rates of cells, if it is time.
    fn measure(&mut self, net: &NetworkState) {
        let Some(tail) =
            self.tail.as_mut().filter(|tail| tail.next_reading().is_some_and(|at| at <= net.now))
        else {
            return;
        };
        let total = |delivered: &u64| Totals { delivered: *delivered, ..Totals::default() };
        let mut totals: Vec<Totals> = self.delivered.iter().map(total).collect();
        for flow in self.flows.iter().flatten() {
            let (Some(cell), Some(paced)) = (flow.cell, &flow.paced) else { continue };
            let far = &net.connections[flow.ends[1].0 as usize].endpoint;
            let backlog = Backlog {
                held: flow.deliverable(net),
                window: far.peer_window(),
                silent: net.now.saturating_since(flow.moved),
                rtt: far.srtt().unwrap_or(Duration::ZERO),
            };
            totals[cell].add(&backlog, far.min_rtt());
            tail.emulation.set_host(paced.flow.id(), backlog.host());
        }
        tail.follow(net.now, &totals);
    }

    /// Measures the rates of cells, and sends the acknowledgements whose time has come.
    pub(super) fn release(&mut self, net: &mut NetworkState, stats: &mut ProxyStats) {
        self.measure(net);
        let Some(tail) = &mut self.tail else { return };
        while let Some(release) = tail.emulation.poll_release(net.now) {
            let flow = tail.flow(release.flow).and_then(|flow| self.flows[flow as usize].as_mut());
            let Some(Flow { paced: Some(paced), ends, .. }) = flow else { continue };
            let due = paced.flow.handle_release(&mut tail.emulation, release.ack);
            if let Some(segment) = paced.segment(due) {
                stats.released += 1;
                send(net, ends[0], &segment);
            }
        }
    }

    pub(super) fn handle_packet(
        &mut self,
        net: &mut NetworkState,
        index: u32,
        (key, inward): (FlowKey, bool),
        packet: Packet,
        stats: &mut ProxyStats,
    ) {
        let flags = flags_of(&packet);
        let fresh = flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK);
        let number = match (self.by_key.get(&key).copied(), fresh) {
            (Some(flow), _) => flow,
            (None, true) => {
                stats.flows += 1;
                self.begin(net, index, (key, inward), packet.version())
            }
            // Of a connection that began before the proxy, or is over.
            (None, false) => {
                net.forward(self.node, packet);
                return;
            }
        };
        let Some(flow) = &mut self.flows[number as usize] else { return };
        let Ok((mut segment, _)) = Segment::parse(packet.transport(), packet.transport_len()) else { return };
        (segment.ecn_capable, segment.congestion_experienced) = packet.ecn_of_segment();
        let (end, bytes) = (flow.ends[usize::from(!inward)], packet.length());
        let mut acks = AckPolicy::Forward;
        let mut is_answered = false;
        if inward && let Some(tail) = &mut self.tail {
            if segment.payload > 0 {
                acks = AckPolicy::Hold;
            }
            match flow.emulate(net, tail, number, (&mut segment, bytes), stats) {
                SegmentAction::Drop(_) => return,
                SegmentAction::OutOfWindow(answer) => {
                    if answer.is_some() {
                        flow.acknowledge(net, tail);
                    }
                    return;
                }
                SegmentAction::Duplicate(answer) => is_answered = answer.is_some(),
                SegmentAction::Accept | SegmentAction::Forward => {}
            }
        }
        net.deliver_segment(end, &packet, &segment);
        net.poll_events(end);
        if inward {
            flow.flush(net, 0, (acks, self.tail.as_mut()));
            if is_answered && let Some(tail) = &mut self.tail {
                flow.acknowledge(net, tail);
            }
        }
        self.relay(net, number, acks, stats);
    }

    fn begin(
        &mut self,
        net: &mut NetworkState,
        index: u32,
        (key, inward): (FlowKey, bool),
        version: Version,
    ) -> u32 {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() as u32 - 1
        });
        let (network, mobile) = ((key.0, key.2), (key.1, key.3));
        let protocol = (version, protocol::TCP);
        let to_network = Addressing::new(protocol, mobile, network, 0);
        let to_mobile = Addressing::new(protocol, network, mobile, 0);
        let tcp = [(0, key.0), (1, key.1)].map(|(side, to)| self.tcp(net, (version, to), side));
        let role = Role::Split { proxy: index, flow: number };
        let now = net.now;
        let iss = net.initial_sequence();
        let near = (to_network, self.node, role);
        let far = (to_mobile, self.node, role);
        // The half that faces who asks waits for its SYN, the other one asks.
        let ends = if inward {
            [
                net.place(Connection::passive(&tcp[0], iss, near)),
                net.place(Connection::active(&tcp[1], (now, iss ^ 1), far)),
            ]
        } else {
            [
                net.place(Connection::active(&tcp[0], (now, iss), near)),
                net.place(Connection::passive(&tcp[1], iss ^ 1, far)),
            ]
        };
        let cell = self.tail.as_ref().and_then(|tail| tail.cell_of(key.1));
        let flow = Flow {
            key,
            ends,
            closing: [false; 2],
            offered: None,
            paced: None,
            counted: 0,
            cell,
            delivered: 0,
            moved: now,
        };
        self.flows[number as usize] = Some(flow);
        self.by_key.insert(key, number);
        number
    }

    /// The TCP of a half that faces this node.
    fn tcp(&mut self, net: &NetworkState, (version, to): (Version, NodeId), side: usize) -> Arc<Settings> {
        let usual = &self.tcp[side];
        if version == Version::V4 {
            return Arc::clone(usual);
        }
        let own = net.tcp_over(version, (self.node, to), usual);
        let known = &mut self.tcp_ipv6[side];
        if let Some(same) = known.iter().find(|known| known.mss == own.mss) {
            return Arc::clone(same);
        }
        known.push(Arc::clone(&own));
        own
    }

    /// Something has happened to a half by itself.
    pub(super) fn handle_half(&mut self, net: &mut NetworkState, flow: u32, stats: &mut ProxyStats) {
        self.relay(net, flow, AckPolicy::Forward, stats);
    }

    /// Moves what each half has to the other.
    fn relay(&mut self, net: &mut NetworkState, number: u32, acks: AckPolicy, stats: &mut ProxyStats) {
        let Some(Some(flow)) = self.flows.get_mut(number as usize) else { return };
        for from in 0..2 {
            flow.carry(net, from);
        }
        if let Some(tail) = &mut self.tail {
            flow.finish(net, tail);
        }
        let broken = flow.ends.map(|end| net.connections[end.0 as usize].broken);
        for side in 0..2 {
            if broken[1 - side] && !broken[side] {
                net.connections[flow.ends[side].0 as usize].endpoint.abort();
            }
        }
        if let Some(cell) = flow.cell {
            let delivered = net.connections[flow.ends[1].0 as usize].endpoint.acknowledged();
            if delivered > flow.delivered || flow.counted == 0 {
                flow.moved = net.now;
            }
            self.delivered[cell] += delivered - flow.delivered;
            flow.delivered = delivered;
        }
        let buffered = flow.buffered(net);
        stats.recount(&mut flow.counted, buffered);
        flow.flush(net, 0, (acks, self.tail.as_mut()));
        flow.flush(net, 1, (AckPolicy::Forward, None));
        if flow.ends.iter().all(|end| net.connections[end.0 as usize].endpoint.state() == State::Closed) {
            flow.ends.into_iter().for_each(|end| net.forget(end));
            stats.recount(&mut flow.counted, 0);
            self.by_key.remove(&flow.key);
            if let (Some(tail), Some(paced)) = (&mut self.tail, &flow.paced) {
                tail.close(paced.flow.id());
            }
            self.flows[number as usize] = None;
            self.vacant.push(number);
        }
    }
}

impl Flow {
    /// Passes a segment of the network's side by the emulated link.
    fn emulate(
        &mut self,
        net: &NetworkState,
        tail: &mut Tail,
        number: u32,
        (segment, bytes): (&mut Segment, u32),
        stats: &mut ProxyStats,
    ) -> SegmentAction {
        let mobile = self.key.1;
        if segment.flags.contains(TcpFlags::SYN) {
            if self.paced.is_none() {
                self.paced = tail.open(number, mobile, segment, self.offered);
            }
            return SegmentAction::Forward;
        }
        let held = self.buffered(net) + u64::from(segment.payload);
        let paced = self.paced.as_mut().filter(|paced| !paced.flow.is_delivered());
        let Some(paced) = paced else { return SegmentAction::Forward };
        if segment.payload > 0 && held > tail.buffer(mobile) {
            stats.overflowed += 1;
            return SegmentAction::Drop(DropReason::QueueFull);
        }
        let action = paced.handle_segment(&mut tail.emulation, net.now, segment, bytes);
        stats.dropped += u64::from(matches!(action, SegmentAction::Drop(_) | SegmentAction::OutOfWindow(_)));
        stats.held += u64::from(action == SegmentAction::Accept);
        action
    }

    /// Bytes that the mobile node has not acknowledged and the proxy can deliver: they have no gap before them.
    fn deliverable(&self, net: &NetworkState) -> u64 {
        let [near, far] = self.ends.map(|end| &net.connections[end.0 as usize].endpoint);
        near.readable() + far.unsent() + far.unacknowledged()
    }

    /// Bytes that the proxy has for the mobile node and that the mobile node has not acknowledged. What came beyond a gap
    /// is known of paced connections only.
    fn buffered(&self, net: &NetworkState) -> u64 {
        let far = &net.connections[self.ends[1].0 as usize].endpoint;
        let accepted = self.paced.as_ref().filter(|paced| !paced.flow.is_delivered());
        let accepted = accepted.map_or(0, |paced| paced.accepted);
        self.deliverable(net).max(accepted.saturating_sub(far.acknowledged()))
    }

    /// Moves bytes from one half to the other, and its close when there are no more.
    fn carry(&mut self, net: &mut NetworkState, from: usize) {
        let [source, target] = [self.ends[from], self.ends[1 - from]].map(|end| end.0 as usize);
        let there = net.connections[source].endpoint.readable();
        let take = there.min(net.connections[target].endpoint.send_room());
        if take > 0 {
            let taken = net.connections[target].endpoint.write(take);
            net.connections[source].endpoint.read(taken);
        }
        let source = &net.connections[source].endpoint;
        if has_closed(source.state()) && source.readable() == 0 && !self.closing[1 - from] {
            self.closing[1 - from] = true;
            net.connections[target].endpoint.close();
        }
    }

    /// Closes the mobile side with a FIN that is kept, and hands it to the half that faces the network once the mobile
    /// node has acknowledged everything.
    fn finish(&mut self, net: &mut NetworkState, tail: &mut Tail) {
        let now = net.now;
        let Some(paced) = &mut self.paced else { return };
        let Some(fin) = paced.fin else { return };
        let [near, far] = self.ends.map(|end| end.0 as usize);
        let endpoint = &net.connections[near].endpoint;
        if endpoint.readable() == 0 && paced.is_complete(endpoint.received()) && !self.closing[1] {
            self.closing[1] = true;
            net.connections[far].endpoint.close();
        }
        let Connection { endpoint, broken, .. } = &net.connections[far];
        let acknowledged = matches!(endpoint.state(), State::FinWait2 | State::TimeWait | State::Closed);
        if self.closing[1] && acknowledged && !broken {
            paced.fin = None;
            // The half that gets the FIN acknowledges all of it.
            paced.flow.handle_delivered(&mut tail.emulation);
            tail.close(paced.flow.id());
            net.connections[near].endpoint.handle_segment(now, &fin);
            net.poll_events(self.ends[0]);
        }
    }

    /// Acknowledges to the network what may be, at once.
    fn acknowledge(&mut self, net: &mut NetworkState, tail: &mut Tail) {
        let Some(paced) = &mut self.paced else { return };
        let acknowledgement = paced.flow.acknowledge(&mut tail.emulation);
        if let Some(segment) = paced.segment(acknowledgement) {
            send(net, self.ends[0], &segment);
        }
    }

    /// Sends what a half has to send. The emulation paces that of the half that faces the network.
    fn flush(
        &mut self,
        net: &mut NetworkState,
        side: usize,
        (acks, mut tail): (AckPolicy, Option<&mut Tail>),
    ) {
        let now = net.now;
        let end = self.ends[side];
        while let Some(mut segment) = net.connections[end.0 as usize].endpoint.poll_transmit(now) {
            if side == 0 && segment.flags.contains(TcpFlags::SYN) {
                self.offered = Some(offer_of(&segment));
            }
            if side == 0
                && let (Some(paced), Some(tail)) = (&mut self.paced, &mut tail)
            {
                let is_answer = acks == AckPolicy::Hold;
                let Some(sent) = paced.handle_own(&mut tail.emulation, segment, is_answer) else { continue };
                segment = sent;
            }
            send(net, end, &segment);
        }
        match net.connections[end.0 as usize].endpoint.next_wakeup() {
            Some((at, _)) => net.agenda.set(Kind::Connection, end.0, at.max(now)),
            None => net.agenda.cancel(Kind::Connection, end.0),
        }
    }
}

/// Sends a segment of a half.
fn send(net: &mut NetworkState, end: ConnectionId, segment: &Segment) {
    let Connection { addressing, node, .. } = net.connections[end.0 as usize];
    let number = net.nodes[node.index()].take_id();
    let packet = Packet::tcp(&addressing, number, segment).sent_at(net.now);
    net.send(node, packet);
}

/// Whether the peer will send nothing more.
fn has_closed(state: State) -> bool {
    matches!(state, State::CloseWait | State::LastAck | State::Closing | State::TimeWait)
}
