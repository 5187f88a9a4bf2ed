//! One end of a lane over QUIC: the gateway's [`LanePump`], framing and congestion control over a model of its connection.
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
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use trunkline_congestion::CongestionAlgorithm;
use trunkline_packet::{Headers, Offload, Version, protocol};
use trunkline_tcp::Settings;
use trunkline_trunk::datagram::{DatagramError, Packer, Piece, Reassembler, Rest};
use trunkline_trunk::frame::{Frame, FrameHead, MAX_HEAD};
use trunkline_trunk::path::{Grant, Heard, LaneSign};
use trunkline_trunk::streams::{Deframer, Framing, MAX_STREAMS, StreamError};
use trunkline_trunk::{
    CongestionControl, CongestionControlCause, Delivery, HandedOver, LaneConnection, LaneControl, LaneEdge,
    LaneId, LanePump, LaneSnapshot, LaneWindow, PathMode, Served, Stalling, Transmitter, TrunkPlan,
};
use trunkline_units::Instant;

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

impl std::ops::Add for QuicLaneStats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        QuicLaneStats {
            sent: self.sent + other.sent,
            lost: self.lost + other.lost,
            repaired: self.repaired + other.repaired,
            late: self.late + other.late,
            received: self.received + other.received,
            doubled: self.doubled + other.doubled,
            acknowledgements: self.acknowledgements + other.acknowledgements,
            reductions: self.reductions + other.reductions,
            timeouts: self.timeouts + other.timeouts,
            reassembled: self.reassembled + other.reassembled,
        }
    }
}

const PORT: u16 = 7_100;
/// Bytes of the number of a packet, in a frame.
const KEY_BYTES: usize = 8;
/// The longest that a packet may be on its way, of a lane that repairs nothing.
const MAX_LIFETIME: Duration = Duration::from_secs(60);
static ZEROS: [u8; trunkline_trunk::frame::MAX_PACKET] = [0; trunkline_trunk::frame::MAX_PACKET];

/// How frames leave.
enum Framer {
    Datagrams { packer: Packer, pieces: Vec<Piece> },
    Streams(Framing),
}

/// How they come.
enum Receiving {
    Datagrams(Box<Reassembler>),
    Streams(Vec<(Received, Deframer)>),
}

pub(super) struct QuicLane {
    lane: LaneId,
    pump: LanePump,
    sending: Sending,
    receiving: Receiving,
    /// Its connection follows one that has ended, and has heard nothing yet: in the place of a handshake that is in progress.
    is_opening: bool,
    heard: Heard,
    past: Past,
}

/// What a lane did over connections that ended.
#[derive(Default, Clone, Copy)]
struct Past {
    ended: u64,
    bytes: u64,
    quic: QuicLaneStats,
}

/// The connection of a lane, and what it hands over.
struct Sending {
    node: NodeId,
    addressing: Addressing,
    connection: Connection,
    framer: Framer,
    /// Packets in frames that were handed over and did not come, by their numbers in the frames, and since when.
    carried: BTreeMap<u64, (Instant, Packet)>,
    next_key: u64,
    /// Bytes handed over.
    position: u64,
    frames: u64,
}

/// The same, with the network, while the lane is served.
pub(super) struct Serving<'a> {
    sending: &'a mut Sending,
    net: &'a mut NetworkState,
}

impl LaneConnection for Serving<'_> {
    type Packet = Packet;
    type Error = Infallible;

    fn snapshot(&mut self) -> Result<LaneSnapshot, Infallible> {
        Ok(self.sending.connection.snapshot(self.sending.position))
    }

    fn unsent(&mut self) -> Result<usize, Infallible> {
        Ok(self.sending.connection.unsent())
    }

    fn window(&mut self) -> Option<LaneWindow> {
        Some(self.sending.connection.lane_window())
    }

    /// The model takes all that is handed over.
    fn hand_over_rest(&mut self, _now: Instant) -> Result<HandedOver, Infallible> {
        Ok(HandedOver { bytes: 0, is_ready: true })
    }

    fn has_space(&self) -> bool {
        self.sending.waiting() < LaneControl::MAX_BATCH
    }

    fn accept(&mut self, now: Instant, packet: Packet) -> Result<(), Infallible> {
        self.sending.put(now, packet);
        Ok(())
    }

    fn release(&mut self, _packet: Packet) {}

    fn hand_over(&mut self, _now: Instant, rest: Rest) -> Result<u64, Infallible> {
        Ok(self.sending.hand_over(rest))
    }

    fn position(&self) -> u64 {
        self.sending.position
    }

    fn transmit(&mut self, _now: Instant) -> bool {
        let unsent = self.sending.connection.unsent();
        self.sending.transmit(self.net);
        self.sending.connection.unsent() < unsent
    }

    fn handle_window_limited(&mut self) {
        self.sending.connection.handle_blocked();
    }

    /// The model has every congestion control that a plan may name.
    fn set_congestion_control(&mut self, name: &str, _cause: CongestionControlCause) -> bool {
        self.sending.connection.control.set_algorithm(congestion_control(name));
        true
    }
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
            let mut pump = LanePump::over_quic(group.delivery);
            pump.configure(&plans[side], lane);
            let mut new = QuicLane {
                lane,
                pump,
                sending: Sending {
                    node: here.0,
                    addressing: Addressing::new((version, protocol::UDP), here, there, group.dscp),
                    connection: Connection::new(group.delivery, algorithm),
                    framer: match group.delivery {
                        Delivery::Datagram => {
                            Framer::Datagrams { packer: Packer::new(MAX_DATAGRAM), pieces: Vec::new() }
                        }
                        Delivery::Reliable => {
                            let mut framing = Framing::new(seeds[side]);
                            framing.grow(MAX_STREAMS);
                            Framer::Streams(framing)
                        }
                    },
                    carried: BTreeMap::new(),
                    next_key: 0,
                    position: 0,
                    frames: 0,
                },
                receiving: match group.delivery {
                    Delivery::Datagram => Receiving::Datagrams(Box::default()),
                    Delivery::Reliable => Receiving::Streams(
                        std::iter::repeat_with(Default::default).take(MAX_STREAMS).collect(),
                    ),
                },
                is_opening: false,
                heard: Heard::new(net.now),
                past: Past::default(),
            };
            let (pump, mut serving) = new.parts(net);
            let Ok(()) = pump.apply(&mut serving);
            new
        })
    }

    /// Takes the place of a lane whose connection has ended: what was in it is lost.
    pub(super) fn follow(mut self, old: &Self) -> Self {
        self.past = Past {
            ended: old.past.ended + 1,
            bytes: old.past.bytes + old.sending.connection.bytes_sent(),
            quic: old.past.quic + old.sending.connection.stats,
        };
        self.sending.frames = old.sending.frames;
        self.is_opening = true;
        self
    }

    /// The pump, and the connection for it.
    pub(super) const fn parts<'a>(
        &'a mut self,
        net: &'a mut NetworkState,
    ) -> (&'a mut LanePump, Serving<'a>) {
        (&mut self.pump, Serving { sending: &mut self.sending, net })
    }

    /// Takes what the lane's path grants it.
    pub(super) fn handle_grant(&mut self, net: &mut NetworkState, grant: Grant) {
        let (pump, mut serving) = self.parts(net);
        let Ok(()) = pump.handle_grant(grant, &mut serving);
    }

    pub(super) fn report_delivered(&mut self, net: &mut NetworkState, transmitter: &mut Transmitter<Packet>) {
        let (now, lane) = (net.now, self.lane);
        let (pump, mut serving) = self.parts(net);
        let Ok(()) = pump.report_delivered(now, lane, transmitter, &mut serving);
    }

    /// Sends what waits at the edge, until the connection takes no more, and what else the connection has to say.
    pub(super) fn serve(&mut self, net: &mut NetworkState, half: u32, edge: LaneEdge<'_, Packet>) {
        let now = net.now;
        self.is_opening &= self.sending.connection.rtt.sampled().is_none();
        let mut held = None;
        if self.is_opening {
            self.sending.transmit(net);
        } else {
            let (pump, mut serving) = self.parts(net);
            let Ok(served) = pump.serve(now, edge, &mut serving);
            if let Served::Held(until) = served {
                held = Some(until);
            }
        }
        match [held, self.sending.connection.next_timeout()].into_iter().flatten().min() {
            Some(at) => net.agenda.set(Kind::Gateway, timer(half, self.lane), at.max(now)),
            None => net.agenda.cancel(Kind::Gateway, timer(half, self.lane)),
        }
    }

    /// Whether its connection is to end: it holds data, and has delivered none for long.
    pub(super) fn is_dead(&mut self, now: Instant) -> bool {
        self.pump.poll_stall(now) == Some(Stalling::Dead)
    }

    /// A packet of the lane has come, and `far` is the end that sent it: the packets that are complete with it.
    pub(super) fn handle_packet(&mut self, now: Instant, packet: &Packet, far: &mut Self) -> Vec<Packet> {
        // A packet of a connection that has ended is nobody's.
        let (local, remote) = self.sending.addressing.ports;
        if packet.ports() != (remote, local) {
            return Vec::new();
        }
        let (number, ack) = Outgoing::decode(packet.front());
        if let Some(ack) = ack {
            self.sending.connection.handle_ack(now, &ack);
        }
        let Some(number) = number else { return Vec::new() };
        self.sending.connection.stats.received += 1;
        if !self.sending.connection.arrivals.note(now, number, packet.congestion_experienced()) {
            self.sending.connection.stats.doubled += 1;
            return Vec::new();
        }
        let mut keys = Vec::new();
        let mut note = |frame: &Frame, content: &[u8]| {
            if let (Frame::Packet { .. }, Some(key)) = (frame, content.first_chunk()) {
                keys.push(u64::from_be_bytes(*key));
            }
        };
        match (far.sending.connection.take_content(number), &mut self.receiving) {
            (Content::Datagrams(datagrams), Receiving::Datagrams(reassembler)) => {
                reassembler.set_round_trip(self.sending.connection.rtt.smoothed());
                for datagram in &datagrams {
                    let result = reassembler.handle_datagram(now, datagram, |frame, content| {
                        note(&frame, content);
                        Ok::<(), DatagramError>(())
                    });
                    debug_assert!(result.is_ok(), "both ends of a lane are ours: {result:?}");
                }
                self.sending.connection.stats.reassembled = reassembler.stats().reassembled;
            }
            (Content::Chunks(chunks), Receiving::Streams(streams)) => {
                for Chunk { stream, range } in chunks {
                    let (received, deframer) = &mut streams[usize::from(stream)];
                    let Some(end) = received.handle(&range) else { continue };
                    let bytes = far.sending.connection.read(stream, end);
                    let result = deframer.handle_bytes(&bytes, |frame, content| {
                        note(frame, content);
                        Ok::<(), StreamError>(())
                    });
                    debug_assert!(result.is_ok(), "both ends of a lane are ours: {result:?}");
                }
            }
            _ => {}
        }
        keys.iter().filter_map(|key| far.sending.carried.remove(key)).map(|(_, packet)| packet).collect()
    }

    /// What it says of its path; nothing while it is being opened.
    pub(super) fn sign(&mut self, now: Instant) -> Option<LaneSign> {
        if self.is_opening {
            return None;
        }
        let connection = &self.sending.connection;
        let in_flight = connection.in_flight.0;
        let acked = connection.stats.sent - connection.stats.lost - u64::from(in_flight);
        Some(self.heard.sign(now, acked, in_flight > 0, Some(connection.rtt.smoothed())))
    }

    /// A timer of the lane has run out.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.sending.connection.handle_timeout(now);
    }

    pub(super) fn report(&self, mode: Option<PathMode>) -> LaneReport {
        LaneReport {
            snapshot: *self.pump.snapshot(),
            pacing: mode.map(|mode| (mode, self.pump.grant())),
            chosen_congestion_control: self.pump.chosen_congestion_control(),
            frames: self.sending.frames,
            bytes: self.past.bytes + self.sending.connection.bytes_sent(),
            compression: trunkline_trunk::compress::CompressorStats::default(),
            tcp: None,
            quic: Some(self.past.quic + self.sending.connection.stats),
            broken: self.past.ended,
        }
    }
}

impl Sending {
    /// Bytes that wait to be handed over.
    fn waiting(&self) -> usize {
        match &self.framer {
            Framer::Datagrams { packer, .. } => packer.len(),
            Framer::Streams(framing) => framing.len(),
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
        match &mut self.framer {
            Framer::Datagrams { packer, .. } => packer.put(&parts),
            Framer::Streams(framing) => {
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
        if matches!(self.framer, Framer::Datagrams { .. }) {
            let is_gone = |since: Instant| now.saturating_since(since) > MAX_LIFETIME;
            while self.carried.first_entry().is_some_and(|first| is_gone(first.get().0)) {
                self.carried.pop_first();
            }
        }
    }

    /// Hands over what waits. Returns the bytes.
    fn hand_over(&mut self, rest: Rest) -> u64 {
        let bytes = match &mut self.framer {
            Framer::Datagrams { packer, .. } if packer.is_empty() => 0,
            Framer::Datagrams { packer, pieces } => {
                let bytes = packer.take_with(pieces, rest, Vec::new());
                for piece in pieces.drain(..) {
                    self.connection.send_datagram(bytes[piece.start..piece.end].to_vec());
                }
                bytes.len()
            }
            Framer::Streams(framing) => {
                let len = framing.len();
                self.connection.set_handed_over(framing.position() + len as u64);
                framing.take().for_each(|(stream, bytes)| self.connection.write(stream, &bytes));
                len
            }
        };
        self.position += bytes as u64;
        bytes as u64
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
}

/// The congestion control with which a connection begins. One that goes by its path begins with the usual one.
fn algorithm(wanted: &CongestionControl, tcp: &Settings) -> CongestionAlgorithm {
    match wanted {
        CongestionControl::AsOpened => tcp.congestion_control,
        CongestionControl::Named(_) | CongestionControl::ByPath => congestion_control(wanted.initial()),
    }
}
