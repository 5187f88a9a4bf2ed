//! A lane with congestion control and without retransmissions: datagrams, one packet in each, and a congestion window over them.
//!
//! This is lee2002 §8's wish, and what QUIC's datagrams are (RFC 9221): the window of a TCP, without its order and its
//! repairs. Packets are numbered; the far end says which have come, by the largest number and a mask of the 64 before
//! it. A number is lost once one three above it has come, or after 9/8 of a round trip (RFC 9002 §6.1); the window
//! is reduced once for each round trip that loses something (§7.3.2), and everything under way counts as lost when
//! nothing is heard for a timeout (RFC 6298).

mod recovery;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use trunkline_congestion::{DatagramControl, Departure};
use trunkline_packet::protocol;
use trunkline_tcp::Settings;
use trunkline_trunk::{LaneAction, LaneControl, LaneId, LaneSnapshot, Paths, Poll, Transmitter, TrunkPlan};
use trunkline_units::Instant;

use super::datagram_arrivals::{ACK, ACK_FRONT, Arrivals, MASK};
use super::{LaneReport, congestion_control, timer};
use crate::agenda::Kind;
use crate::packet::Addressing;
use crate::sockets::Socket;
use crate::state::NetworkState;
use crate::{NodeId, Packet};

/// What the lane's datagrams are controlled by.
#[derive(Debug, Clone)]
pub struct DatagramLaneSettings {
    /// Of these the growth, the slow start, the initial window and the timers are used.
    pub tcp: Arc<Settings>,
    /// Bytes of the longest packet carried; the window counts in these.
    pub segment: u32,
}

/// What a lane of datagrams has done, at one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatagramLaneStats {
    /// Datagrams with packets that were sent.
    pub sent: u64,
    /// Of those, how many were found lost.
    pub lost: u64,
    /// Of the lost, how many came late after all.
    pub late: u64,
    /// Datagrams with packets that came.
    pub received: u64,
    /// Of those, how many had come before, or may have: they are dropped.
    pub doubled: u64,
    /// Acknowledgements sent.
    pub acknowledgements: u64,
    /// Reductions of the window for losses or marks.
    pub reductions: u64,
    /// Timeouts.
    pub timeouts: u64,
}

const DATA: u8 = 1;
/// Of a datagram with a packet: kind and number. The carried packet stands behind it.
const DATA_FRONT: usize = 5;
/// Numbers above a missing one that make it lost.
const REORDERING: u32 = 3;
/// The maximum of numbers found lost that it remembers while nothing is heard.
const MAX_LOST: usize = 4096;
const PORT: u16 = 7_100;

#[derive(Debug, Clone, Copy)]
struct Sent {
    number: u32,
    bytes: u32,
    departure: Departure,
    done: bool,
}

pub(super) struct DatagramLane {
    lane: LaneId,
    node: NodeId,
    addressing: Addressing,
    settings: DatagramLaneSettings,
    window: DatagramControl,
    sent: VecDeque<Sent>,
    next: u32,
    srtt: Option<Duration>,
    variation: Duration,
    min_rtt: Option<Duration>,
    heard: Instant,
    backoff: u32,
    /// The next packet, for which the window had no room.
    next_packet: Option<Packet>,
    marks_seen: u32,
    control: LaneControl,
    /// Numbers found lost that may come late.
    lost: VecDeque<u32>,
    arrivals: Arrivals,
    stats: DatagramLaneStats,
}

impl DatagramLane {
    /// Both ends of a lane.
    pub(super) fn pair(
        net: &mut NetworkState,
        (nodes, near): ([NodeId; 2], u32),
        (lane, dscp): (LaneId, [u8; 2]),
        settings: &DatagramLaneSettings,
    ) -> [Self; 2] {
        let far_port = PORT + u16::from(lane.0);
        let near_port = net.free_port(nodes[0], nodes[1], far_port);
        let places = [(nodes[0], near_port), (nodes[1], far_port)];
        [0, 1].map(|side| {
            let (here, there) = (places[side], places[1 - side]);
            let half = near + side as u32;
            net.bind(here, there, Socket::Lane { gateway: half, lane: u32::from(lane.0) });
            let address = |(node, port): (NodeId, u16)| (node.address(), port);
            DatagramLane {
                lane,
                node: here.0,
                addressing: Addressing::new(protocol::UDP, address(here), address(there), dscp[side]),
                settings: settings.clone(),
                window: DatagramControl::new(&settings.tcp.congestion(), settings.segment),
                sent: VecDeque::new(),
                next: 0,
                srtt: None,
                variation: Duration::ZERO,
                min_rtt: None,
                heard: Instant::ZERO,
                backoff: 0,
                next_packet: None,
                marks_seen: 0,
                control: LaneControl::default(),
                lost: VecDeque::new(),
                arrivals: Arrivals::default(),
                stats: DatagramLaneStats::default(),
            }
        })
    }

    /// Takes the congestion control of a plan; its edge pacing is for lanes over TCP.
    pub(super) fn configure(&mut self, plan: &TrunkPlan) {
        self.control.configure(&TrunkPlan { edge_pacing: false, ..plan.clone() }, self.lane);
    }

    /// Sends what waits for the lane, as far as its window allows.
    pub(super) fn flush(&mut self, net: &mut NetworkState, half: u32, transmitter: &mut Transmitter<Packet>) {
        if self.control.snapshot_due(net.now) {
            let snapshot = LaneSnapshot {
                unacknowledged: self.window.in_flight() as usize,
                srtt: self.srtt,
                min_rtt: self.min_rtt,
                window: self.window.cwnd() as usize,
                delivery_rate: self.window.delivery_rate(),
                segments_sent: self.stats.sent as u32,
                retransmissions: self.stats.lost as u32,
                ..LaneSnapshot::default()
            };
            // Its plan has no edge pacing, so it is on no path.
            let place = (&mut *transmitter, &mut Paths::default());
            self.control.handle_snapshot(net.now, self.lane, place, snapshot);
            while let Some(action) = self.control.poll_action() {
                if let LaneAction::SetCongestionControl { name, .. } = action {
                    self.window.set_algorithm(congestion_control(&name));
                }
            }
        }
        let mut held = None;
        while self.next_packet.is_some() || transmitter.has_backlog(self.lane) {
            let packet = match self.next_packet.take() {
                Some(packet) => packet,
                None => match transmitter.poll_transmit(net.now, self.lane, &mut 1, drop) {
                    Poll::Packet(packet) => packet,
                    Poll::Wait(at) => {
                        held = Some(at);
                        break;
                    }
                    Poll::Nothing => break,
                },
            };
            if !self.window.has_room(packet.length()) {
                self.next_packet = Some(packet);
                self.window.handle_blocked();
                break;
            }
            self.control.handle_written(net.now, packet.length().into());
            transmitter.handle_transmitted(self.lane, self.control.written());
            self.send(net, packet);
        }
        if let Some(front) = self.arrivals.take_due(net.now) {
            self.stats.acknowledgements += 1;
            self.transmit(net, &front, None);
        }
        let timeout = (!self.sent.is_empty()).then(|| self.heard + self.rto());
        match [held, timeout, self.arrivals.owed()].into_iter().flatten().min() {
            Some(at) => net.agenda.set(Kind::Gateway, timer(half, self.lane), at.max(net.now)),
            None => net.agenda.cancel(Kind::Gateway, timer(half, self.lane)),
        }
    }

    fn send(&mut self, net: &mut NetworkState, packet: Packet) {
        let (now, number) = (net.now, self.next);
        let mut front = [0; DATA_FRONT];
        front[0] = DATA;
        front[1..].copy_from_slice(&number.to_be_bytes());
        let bytes = packet.length();
        if self.sent.is_empty() {
            self.heard = now;
        }
        let departure = self.window.handle_sent(now, bytes);
        self.sent.push_back(Sent { number, bytes, departure, done: false });
        self.next = number.wrapping_add(1);
        self.stats.sent += 1;
        self.transmit(net, &front, Some(packet));
    }

    fn transmit(&mut self, net: &mut NetworkState, front: &[u8], inner: Option<Packet>) {
        let id = net.nodes[self.node.index()].take_id();
        let mut packet = Packet::carrying(&self.addressing, id, front, inner).sent_at(net.now);
        if self.settings.tcp.ecn {
            packet.set_ecn_capable();
        }
        net.send(self.node, packet);
    }

    /// A datagram of the lane; the packet in it, if there is one.
    pub(super) fn handle_datagram(&mut self, net: &mut NetworkState, datagram: Packet) -> Option<Packet> {
        let marked = datagram.congestion_experienced();
        match datagram.front() {
            &[DATA, a, b, c, d] => {
                self.stats.received += 1;
                if !self.arrivals.note(net.now, u32::from_be_bytes([a, b, c, d]), marked) {
                    self.stats.doubled += 1;
                    return None;
                }
                datagram.into_inner()
            }
            front if front.len() == ACK_FRONT && front[0] == ACK => {
                let word =
                    |at: usize| u32::from_be_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]]);
                let mask = u64::from(word(5)) << 32 | u64::from(word(9));
                self.handle_ack(net.now, (word(1), mask), word(13));
                None
            }
            _ => None,
        }
    }

    pub(super) fn report(&self) -> LaneReport {
        LaneReport {
            snapshot: *self.control.snapshot(),
            pacing: None,
            chosen_congestion_control: self.control.chosen_congestion_control(),
            frames: self.stats.sent,
            bytes: self.control.written() + self.stats.sent * DATA_FRONT as u64,
            compression: trunkline_trunk::compress::CompressorStats::default(),
            tcp: None,
            datagrams: Some(self.stats),
            broken: 0,
        }
    }
}
