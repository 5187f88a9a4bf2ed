//! One end of a lane over QUIC: the gateway's [`LaneControl`], framing and congestion control over a model of its connection.
//!
//! The model follows RFC 9002 with the settings of the gateway's library: packets are numbered, acknowledged, lost, paced.
//! Frames stand in datagrams ([`datagram`](trunkline_trunk::datagram)) or in streams ([`streams`](trunkline_trunk::streams)) as
//! on the wire, of the same bytes; of the packet in a frame only a number is there, by which the far end finds the simulated
//! packet at its sender.

mod arrivals;
mod connection;
mod pacer;
mod recovery;
mod rtt;
mod streams;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trunkline_congestion::CongestionAlgorithm;
use trunkline_packet::{Headers, Offload, Version, protocol};
use trunkline_tcp::Settings;
use trunkline_trunk::datagram::{DatagramError, Packer, Piece, Reassembler, Rest};
use trunkline_trunk::frame::{Frame, FrameHead, MAX_HEAD};
use trunkline_trunk::streams::{Deframer, Framing, MAX_STREAMS, StreamError};
use trunkline_trunk::{
    CongestionControl, Delivery, LaneAction, LaneControl, LaneId, PathMode, Paths, Poll, Transmitter,
    TrunkPlan,
};
use trunkline_units::{Instant, Rate};

use super::{LaneReport, congestion_control, timer};
use crate::agenda::Kind;
use crate::packet::Addressing;
use crate::sockets::Socket;
use crate::state::NetworkState;
use crate::{NodeId, Packet};
use connection::{Connection, Content, MAX_DATAGRAM, Outgoing};
use streams::{Chunk, Received};

/// What a lane over QUIC has done, at one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuicLaneStats {
    /// Packets that were sent and are to be acknowledged.
    pub sent: u64,
    /// Of those, how many were found lost.
    pub lost: u64,
    /// Of the lost, how many had parts of streams, which leave again.
    pub repaired: u64,
    /// Of the lost, how many came late after all.
    pub late: u64,
    /// Packets that came and are to be acknowledged.
    pub received: u64,
    /// Of those, how many had come before, or may have: they are dropped.
    pub doubled: u64,
    /// Acknowledgements sent.
    pub acknowledgements: u64,
    /// Reductions of the window for losses or marks.
    pub reductions: u64,
    /// Probe timeouts.
    pub timeouts: u64,
    /// Frames that came in pieces and were put together, of a lane of datagrams.
    pub reassembled: u64,
}

const PORT: u16 = 7_100;
/// Bytes of the number of a packet, in a frame.
const KEY_BYTES: usize = 8;
/// The longest that a packet may be on its way, of a lane that repairs nothing.
const MAX_LIFETIME: Duration = Duration::from_secs(60);
static ZEROS: [u8; trunkline_trunk::frame::MAX_PACKET] = [0; trunkline_trunk::frame::MAX_PACKET];

/// How frames leave.
enum Sending {
    Datagrams { packer: Packer, pieces: Vec<Piece> },
    Streams(Framing),
}

/// How they come.
enum Receiving {
    Datagrams(Box<Reassembler>),
    Streams(Vec<(Received, Deframer)>),
}

/// How a round of handing over ended.
enum Filled {
    /// Nothing waits at the edge.
    Idle,
    /// The connection has enough.
    Full,
    /// Something waits at the edge until then.
    Held(Instant),
}

pub(super) struct QuicLane {
    lane: LaneId,
    node: NodeId,
    addressing: Addressing,
    delivery: Delivery,
    control: LaneControl,
    connection: Connection,
    sending: Sending,
    receiving: Receiving,
    /// Packets in frames that were handed over and did not come, by their numbers in the frames, and since when.
    carried: BTreeMap<u64, (Instant, Packet)>,
    next_key: u64,
    /// Bytes handed over.
    position: u64,
    frames: u64,
}

impl QuicLane {
    /// Both ends of a lane.
    pub(super) fn pair(
        net: &mut NetworkState,
        (nodes, near): ([NodeId; 2], u32),
        (version, lane): (Version, LaneId),
        (plans, tcp): (&[TrunkPlan; 2], &[Arc<Settings>; 2]),
        seeds: [u64; 2],
    ) -> [Self; 2] {
        let far_port = PORT + u16::from(lane.0);
        let near_port = net.free_port(nodes[0], nodes[1], far_port);
        let places = [(nodes[0], near_port), (nodes[1], far_port)];
        [0, 1].map(|side| {
            let (here, there) = (places[side], places[1 - side]);
            let half = near + side as u32;
            net.bind(here, there, Socket::Lane { gateway: half, lane: u32::from(lane.0) });
            net.agenda.set(Kind::Gateway, timer(half, lane), net.now);
            let group = plans[side].group_of(lane).0;
            let algorithm = algorithm(&group.congestion_control, &tcp[side]);
            let mut control = LaneControl::default();
            control.pace();
            let mut new = QuicLane {
                lane,
                node: here.0,
                addressing: Addressing::new((version, protocol::UDP), here, there, group.dscp),
                delivery: group.delivery,
                control,
                connection: Connection::new(group.delivery, algorithm),
                sending: match group.delivery {
                    Delivery::Datagram => {
                        Sending::Datagrams { packer: Packer::new(MAX_DATAGRAM), pieces: Vec::new() }
                    }
                    Delivery::Reliable => {
                        let mut framing = Framing::new(seeds[side]);
                        framing.grow(MAX_STREAMS);
                        Sending::Streams(framing)
                    }
                },
                receiving: match group.delivery {
                    Delivery::Datagram => Receiving::Datagrams(Box::default()),
                    Delivery::Reliable => Receiving::Streams(
                        std::iter::repeat_with(Default::default).take(MAX_STREAMS).collect(),
                    ),
                },
                carried: BTreeMap::new(),
                next_key: 0,
                position: 0,
                frames: 0,
            };
            new.control.configure(&plans[side], lane);
            new.apply();
            new
        })
    }

    /// Changes what the control asks for. Pacing is done where packets leave the edge, and there is no low-water mark, as in the
    /// gateway.
    fn apply(&mut self) {
        while let Some(action) = self.control.poll_action() {
            if let LaneAction::SetCongestionControl { name, .. } = action {
                self.connection.control.set_algorithm(congestion_control(&name));
            }
        }
    }

    /// Takes the rate that the lane's path grants it.
    pub(super) fn handle_grant(&mut self, grant: Option<Rate>) {
        self.control.handle_grant(grant);
        self.apply();
    }

    pub(super) fn report_delivered(&mut self, now: Instant, transmitter: &mut Transmitter<Packet>) {
        if transmitter.has_data_in_transit(self.lane) && self.control.delivery_due(now) {
            let held = self.connection.snapshot(self.position).held();
            self.control.handle_held(now, self.lane, transmitter, held);
        }
    }

    /// Sends what waits at the edge, until the connection takes no more, and what else the connection has to say.
    pub(super) fn flush(
        &mut self,
        net: &mut NetworkState,
        half: u32,
        (transmitter, paths): (&mut Transmitter<Packet>, &mut Paths),
    ) {
        let now = net.now;
        if self.control.snapshot_due(now) {
            let snapshot = self.connection.snapshot(self.position);
            self.control.handle_snapshot(now, self.lane, (&mut *transmitter, paths), snapshot);
            self.apply();
        }
        // What a lane of datagrams holds does not come any more if it stalls, and need not be waited for.
        let stalled = self.control.stalled_until(now).filter(|_| self.delivery == Delivery::Reliable);
        let mut held = stalled.filter(|_| transmitter.has_backlog(self.lane));
        if stalled.is_some() {
            self.transmit(net);
        } else {
            loop {
                let filled = self.fill(now, transmitter);
                let unsent = self.connection.unsent();
                self.transmit(net);
                match filled {
                    // What has left makes room for more.
                    Filled::Full if self.connection.unsent() < unsent => {}
                    Filled::Full | Filled::Idle => break,
                    Filled::Held(until) => {
                        held = Some(until);
                        break;
                    }
                }
            }
        }
        match [held, self.connection.next_timeout()].into_iter().flatten().min() {
            Some(at) => net.agenda.set(Kind::Gateway, timer(half, self.lane), at.max(now)),
            None => net.agenda.cancel(Kind::Gateway, timer(half, self.lane)),
        }
    }

    /// Hands over what waits, until the connection has as much as it sends soon.
    fn fill(&mut self, now: Instant, transmitter: &mut Transmitter<Packet>) -> Filled {
        self.control.handle_window(self.connection.lane_window());
        loop {
            if !transmitter.has_backlog(self.lane) {
                self.hand_over(now, Rest::Leaves);
                return Filled::Idle;
            }
            if let Some(until) = self.control.paced_until(now) {
                if until.saturating_since(now) > Rest::MAX_WAIT {
                    self.hand_over(now, Rest::Leaves);
                }
                if self.control.is_window_limited() {
                    self.connection.handle_blocked();
                }
                return Filled::Held(until);
            }
            let Some(mut room) = self.control.room(now, self.connection.unsent()) else {
                if self.control.is_window_limited() {
                    self.connection.handle_blocked();
                }
                return Filled::Full;
            };
            let mut held = None;
            while self.waiting() < LaneControl::MAX_BATCH {
                match transmitter.poll_transmit(now, self.lane, &mut room, drop) {
                    Poll::Packet(packet) => self.put(now, packet),
                    Poll::Wait(until) => {
                        held = Some(until);
                        break;
                    }
                    Poll::Nothing => break,
                }
            }
            let more_follows = held.is_none() && transmitter.has_backlog(self.lane);
            self.hand_over(now, if more_follows { Rest::Waits } else { Rest::Leaves });
            transmitter.handle_transmitted(self.lane, self.position);
            if let Some(until) = held {
                return Filled::Held(until);
            }
        }
    }

    /// Bytes that wait to be handed over.
    fn waiting(&self) -> usize {
        match &self.sending {
            Sending::Datagrams { packer, .. } => packer.len(),
            Sending::Streams(framing) => framing.len(),
        }
    }

    /// Frames a packet.
    fn put(&mut self, now: Instant, packet: Packet) {
        let packet_len = packet.length() as usize;
        let mut room = [0; MAX_HEAD];
        let head = FrameHead { packet_len, offload: Offload::None };
        let head_len = head.encode_before(&mut room);
        let key = self.next_key.to_be_bytes();
        let parts: [&[u8]; 3] = [&room[MAX_HEAD - head_len..], &key, &ZEROS[..packet_len - KEY_BYTES]];
        match &mut self.sending {
            Sending::Datagrams { packer, .. } => packer.put(&parts),
            Sending::Streams(framing) => {
                let Ok(headers) = Headers::parse(packet.header(), packet_len) else { return };
                let delivered = self.connection.acknowledged.position();
                framing.put(now, &headers.flow(), delivered, |piece| {
                    for part in parts {
                        piece.extend_from_slice(part);
                    }
                });
            }
        }
        self.carried.insert(self.next_key, (now, packet));
        self.next_key += 1;
        self.frames += 1;
        if self.delivery == Delivery::Datagram {
            let is_gone = |since: Instant| now.saturating_since(since) > MAX_LIFETIME;
            while self.carried.first_entry().is_some_and(|first| is_gone(first.get().0)) {
                self.carried.pop_first();
            }
        }
    }

    /// Hands over what waits.
    fn hand_over(&mut self, now: Instant, rest: Rest) {
        let bytes = match &mut self.sending {
            Sending::Datagrams { packer, .. } if packer.is_empty() => 0,
            Sending::Datagrams { packer, pieces } => {
                let bytes = packer.take_with(pieces, rest, Vec::new());
                for piece in pieces.drain(..) {
                    self.connection.send_datagram(bytes[piece.start..piece.end].to_vec());
                }
                bytes.len()
            }
            Sending::Streams(framing) => {
                let len = framing.len();
                self.connection.set_handed_over(framing.position() + len as u64);
                framing.take().for_each(|(stream, bytes)| self.connection.write(stream, &bytes));
                len
            }
        };
        if bytes > 0 {
            self.position += bytes as u64;
            self.control.handle_written(now, bytes as u64);
        }
    }

    /// Sends what the connection may send now.
    fn transmit(&mut self, net: &mut NetworkState) {
        while let Some(outgoing) = self.connection.poll_transmit(net.now) {
            let id = net.nodes[self.node.index()].take_id();
            let mut packet = Packet::carrying(&self.addressing, id, outgoing.front(), outgoing.bytes);
            packet.set_ecn_capable();
            net.send(self.node, packet.sent_at(net.now));
        }
        self.connection.handle_drained();
    }

    /// A packet of the lane has come, and `far` is the end that sent it: the packets that are complete with it.
    pub(super) fn handle_packet(&mut self, now: Instant, packet: &Packet, far: &mut Self) -> Vec<Packet> {
        let (number, ack) = Outgoing::decode(packet.front());
        if let Some(ack) = ack {
            self.connection.handle_ack(now, &ack);
        }
        let Some(number) = number else { return Vec::new() };
        self.connection.stats.received += 1;
        if !self.connection.arrivals.note(now, number, packet.congestion_experienced()) {
            self.connection.stats.doubled += 1;
            return Vec::new();
        }
        let mut keys = Vec::new();
        let mut note = |frame: &Frame, content: &[u8]| {
            if let (Frame::Packet { .. }, Some(key)) = (frame, content.first_chunk()) {
                keys.push(u64::from_be_bytes(*key));
            }
        };
        match (far.connection.take_content(number), &mut self.receiving) {
            (Content::Datagrams(datagrams), Receiving::Datagrams(reassembler)) => {
                reassembler.set_round_trip(self.connection.rtt.smoothed());
                for datagram in &datagrams {
                    let result = reassembler.handle_datagram(now, datagram, |frame, content| {
                        note(&frame, content);
                        Ok::<(), DatagramError>(())
                    });
                    debug_assert!(result.is_ok(), "both ends of a lane are ours: {result:?}");
                }
                self.connection.stats.reassembled = reassembler.stats().reassembled;
            }
            (Content::Chunks(chunks), Receiving::Streams(streams)) => {
                for Chunk { stream, range } in chunks {
                    let (received, deframer) = &mut streams[usize::from(stream)];
                    let Some(end) = received.handle(&range) else { continue };
                    let bytes = far.connection.read(stream, end);
                    let result = deframer.handle_bytes(&bytes, |frame, content| {
                        note(frame, content);
                        Ok::<(), StreamError>(())
                    });
                    debug_assert!(result.is_ok(), "both ends of a lane are ours: {result:?}");
                }
            }
            _ => {}
        }
        keys.iter().filter_map(|key| far.carried.remove(key)).map(|(_, packet)| packet).collect()
    }

    /// A timer of the lane has run out.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
    }

    pub(super) fn report(&self, mode: Option<PathMode>) -> LaneReport {
        LaneReport {
            snapshot: *self.control.snapshot(),
            pacing: mode.map(|mode| (mode, self.control.grant())),
            chosen_congestion_control: self.control.chosen_congestion_control(),
            frames: self.frames,
            bytes: self.connection.bytes_sent(),
            compression: trunkline_trunk::compress::CompressorStats::default(),
            tcp: None,
            quic: Some(self.connection.stats),
            broken: 0,
        }
    }
}

/// The congestion control with which a connection begins. One that goes by its path begins with the usual one.
fn algorithm(wanted: &CongestionControl, tcp: &Settings) -> CongestionAlgorithm {
    match wanted {
        CongestionControl::AsOpened => tcp.congestion_control,
        CongestionControl::Named(_) | CongestionControl::ByPath => congestion_control(wanted.initial()),
    }
}
