//! One end of a connection: what is sent and what comes of it.
//!
//! Packets are numbered and each is sent once. Its contents stay at its sender until the other end takes them out, since a
//! simulated packet has a length and no contents.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_congestion::{
    CongestionAlgorithm, DatagramControl, Departure, Feedback, Settings, TIME_THRESHOLD,
};
use trunkline_trunk::streams::Acknowledged;
use trunkline_trunk::{Delivery, LaneSnapshot, LaneWindow};
use trunkline_units::Instant;

use super::QuicLaneStats;
use super::arrivals::{Ack, Arrivals};
use super::pacer::Pacer;
use super::rtt::Rtt;
use super::streams::{Chunk, SendStreams};

/// Bytes of the longest packet: UDP data on a path that carries 1500 bytes, as the gateway's library finds it (RFC 8899).
pub(super) const MAX_BYTES: u32 = 1452;
/// Bytes of a packet that are no frame's: its head, packet number and tag (RFC 9001 §5).
const PACKET_BYTES: u32 = 29;
/// Bytes before a datagram in its frame, and the most that its library reckons with.
const DATAGRAM_BYTES: u32 = 3;
const MAX_DATAGRAM_BYTES: u32 = 9;
/// Bytes of the longest datagram.
pub(super) const MAX_DATAGRAM: usize = (MAX_BYTES - PACKET_BYTES - MAX_DATAGRAM_BYTES) as usize;
const PING_BYTES: u32 = 1;
/// What a round trip is taken for at least where batches are forgotten: timers of a real connection are no finer.
const MIN_RTT: Duration = Duration::from_millis(5);

/// What a packet carries besides an acknowledgement.
#[derive(Debug, Default)]
pub(super) enum Content {
    /// Nothing: it is a PING, or was taken out.
    #[default]
    Empty,
    Datagrams(Vec<Vec<u8>>),
    Chunks(Vec<Chunk>),
}

/// What waits to leave in packets.
#[derive(Debug)]
enum Pending {
    Datagrams { queue: VecDeque<Vec<u8>>, bytes: usize },
    Streams(SendStreams),
}

impl Pending {
    fn unsent(&self) -> usize {
        match self {
            Pending::Datagrams { bytes, .. } => *bytes,
            Pending::Streams(streams) => streams.unsent() as usize,
        }
    }

    /// What fits into so much room, and how much of it that takes.
    fn take(&mut self, room: u32) -> (Content, u32) {
        match self {
            Pending::Datagrams { queue, bytes } => {
                let (mut datagrams, mut taken) = (Vec::new(), 0);
                while let Some(next) = queue.front() {
                    let need = DATAGRAM_BYTES + next.len() as u32;
                    if taken + need > room {
                        break;
                    }
                    taken += need;
                    *bytes -= next.len();
                    datagrams.extend(queue.pop_front());
                }
                let content =
                    if datagrams.is_empty() { Content::Empty } else { Content::Datagrams(datagrams) };
                (content, taken)
            }
            Pending::Streams(streams) => {
                let (chunks, taken) = streams.take(room);
                (if chunks.is_empty() { Content::Empty } else { Content::Chunks(chunks) }, taken)
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    InFlight,
    Acknowledged,
    Lost,
}

#[derive(Debug)]
pub(super) struct Sent {
    pub(super) at: Instant,
    pub(super) departure: Departure,
    pub(super) bytes: u32,
    pub(super) fate: Fate,
    pub(super) content: Content,
    /// Of a connection that repairs: what leaves again if the packet is lost.
    pub(super) repairs: Vec<Chunk>,
}

/// What leaves: what stands at the front of the simulated packet, and bytes of UDP data.
#[derive(Debug)]
pub(super) struct Outgoing {
    front: [u8; Self::MAX_FRONT],
    front_len: usize,
    pub(super) bytes: u32,
}

impl Outgoing {
    const MAX_FRONT: usize = 5 + Ack::BYTES;
    /// Bits of the kind: it has a number and is to be acknowledged; it has an acknowledgement.
    pub(super) const NUMBER: u8 = 1;
    pub(super) const ACK: u8 = 2;

    fn new(number: Option<u32>, ack: Option<&Ack>, bytes: u32) -> Self {
        let mut front = [0; Self::MAX_FRONT];
        let mut len = 1;
        if let Some(number) = number {
            front[0] |= Self::NUMBER;
            front[len..len + 4].copy_from_slice(&number.to_be_bytes());
            len += 4;
        }
        if let Some(ack) = ack {
            front[0] |= Self::ACK;
            front[len..len + Ack::BYTES].copy_from_slice(&ack.encode());
            len += Ack::BYTES;
        }
        Outgoing { front, front_len: len, bytes }
    }

    pub(super) fn front(&self) -> &[u8] {
        &self.front[..self.front_len]
    }

    /// The number and the acknowledgement in the front of a packet.
    pub(super) fn decode(front: &[u8]) -> (Option<u32>, Option<Ack>) {
        let Some((kind, mut rest)) = front.split_first() else { return (None, None) };
        let mut number = None;
        if kind & Self::NUMBER != 0
            && let Some((bytes, behind)) = rest.split_first_chunk()
        {
            (number, rest) = (Some(u32::from_be_bytes(*bytes)), behind);
        }
        (number, if kind & Self::ACK != 0 { Ack::decode(rest) } else { None })
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) control: DatagramControl,
    pub(super) rtt: Rtt,
    pacer: Pacer,
    pub(super) arrivals: Arrivals,
    pending: Pending,
    /// Packets that were sent from this number on, in order, and the numbers of those before which all are settled.
    pub(super) sent: VecDeque<Sent>,
    pub(super) first: u32,
    pub(super) largest_acked: Option<u32>,
    /// The first number that was sent when the round-trip time was known.
    pub(super) known_from: Option<u32>,
    pub(super) marks_seen: u32,
    /// Packets and bytes in flight.
    pub(super) in_flight: (u32, u32),
    /// When a packet that waits for its turn counts as lost.
    pub(super) loss_time: Option<Instant>,
    last_sent: Instant,
    /// Probe timeouts in a row, and probes that are to leave.
    pub(super) probe_timeouts: u32,
    pub(super) probes: u32,
    ping: bool,
    /// What the pacing waits for.
    paced_until: Option<Instant>,
    pub(super) acknowledged: Acknowledged,
    handed_over: u64,
    pub(super) lost_bytes: u64,
    packets_sent: u64,
    bytes_sent: u64,
    pub(super) stats: QuicLaneStats,
}

impl Connection {
    pub(super) fn new(delivery: Delivery, algorithm: CongestionAlgorithm) -> Self {
        Connection {
            control: DatagramControl::new(&Settings::of_lane(algorithm), MAX_BYTES),
            rtt: Rtt::default(),
            pacer: Pacer::new(MAX_BYTES),
            arrivals: Arrivals::default(),
            pending: match delivery {
                Delivery::Datagram => Pending::Datagrams { queue: VecDeque::new(), bytes: 0 },
                Delivery::Reliable => Pending::Streams(SendStreams::new()),
            },
            sent: VecDeque::new(),
            first: 0,
            largest_acked: None,
            known_from: None,
            marks_seen: 0,
            in_flight: (0, 0),
            loss_time: None,
            last_sent: Instant::ZERO,
            probe_timeouts: 0,
            probes: 0,
            // In the place of a handshake, which gives the first sample of the round-trip time.
            ping: true,
            paced_until: None,
            acknowledged: Acknowledged::default(),
            handed_over: 0,
            lost_bytes: 0,
            packets_sent: 0,
            bytes_sent: 0,
            stats: QuicLaneStats::default(),
        }
    }

    // ------------------------------------------------------------ what the lane hands over

    /// Takes a datagram, of a connection that repairs nothing.
    pub(super) fn send_datagram(&mut self, datagram: Vec<u8>) {
        if let Pending::Datagrams { queue, bytes } = &mut self.pending {
            *bytes += datagram.len();
            queue.push_back(datagram);
        }
    }

    /// Takes bytes of a stream.
    pub(super) fn write(&mut self, stream: u16, data: &[u8]) {
        if let Pending::Streams(streams) = &mut self.pending {
            streams.write(stream, data);
        }
    }

    /// The lane has handed over so many bytes to streams in all.
    pub(super) const fn set_handed_over(&mut self, bytes: u64) {
        self.handed_over = bytes;
    }

    /// Bytes that were handed over, and are in no packet yet.
    pub(super) fn unsent(&self) -> usize {
        self.pending.unsent()
    }

    pub(super) fn retransmit(&mut self, chunks: Vec<Chunk>) {
        if let Pending::Streams(streams) = &mut self.pending {
            for chunk in chunks {
                streams.retransmit(chunk);
            }
        }
    }

    /// The contents of a packet that has come to the other end, which has not come there before.
    pub(super) fn take_content(&mut self, number: u32) -> Content {
        let sent = number.checked_sub(self.first).and_then(|at| self.sent.get_mut(at as usize));
        sent.map_or(Content::Empty, |sent| std::mem::take(&mut sent.content))
    }

    /// Bytes of a stream that the other end has in order now.
    pub(super) fn read(&mut self, stream: u16, end: u64) -> Vec<u8> {
        match &mut self.pending {
            Pending::Streams(streams) => streams.read(stream, end),
            Pending::Datagrams { .. } => Vec::new(),
        }
    }

    // ------------------------------------------------------------ what leaves

    /// Bytes that may be in flight, and one more: the gateway's library sends only if a full packet leaves the window unfilled. A
    /// window of one packet is taken for two.
    fn window(&self) -> u32 {
        self.control.send_window().max(2 * MAX_BYTES) + 1
    }

    /// The window as it is now.
    pub(super) fn lane_window(&self) -> LaneWindow {
        let free = (self.window() - 1).saturating_sub(self.in_flight.1);
        LaneWindow {
            bytes: self.control.cwnd().into(),
            available: (free / MAX_BYTES * MAX_BYTES) as usize,
            srtt: self.rtt.sampled(),
        }
    }

    /// Whether window and pacing let a packet leave.
    fn may_send(&mut self, now: Instant) -> bool {
        self.paced_until = None;
        let window = self.window();
        if self.in_flight.1 + MAX_BYTES >= window {
            return false;
        }
        self.paced_until = self.pacer.held_until(now, window, self.rtt.smoothed());
        self.paced_until.is_none()
    }

    /// The next packet, if one is to leave now.
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Outgoing> {
        let is_ack_due = self.arrivals.due().is_some_and(|due| due <= now);
        let has_data = self.unsent() > 0 || self.ping || self.probes > 0;
        let mut room = MAX_BYTES - PACKET_BYTES;
        if has_data && (self.probes > 0 || self.may_send(now)) {
            // An acknowledgement leaves with other frames if there is something to tell. One that is due precedes them.
            let mut ack = None;
            let ack_room = if self.arrivals.has_news() { Ack::FRAME_BYTES } else { 0 };
            let (mut content, mut bytes) = self.pending.take(room - ack_room);
            let is_left_over = matches!(content, Content::Empty) && self.unsent() > 0;
            if is_left_over && is_ack_due {
                return self.acknowledge(now);
            }
            if is_left_over {
                (content, bytes) = self.pending.take(room);
            } else if ack_room > 0 {
                ack = self.arrivals.take(now);
                room -= ack_room;
            }
            debug_assert!(bytes <= room);
            if matches!(content, Content::Empty) {
                bytes += PING_BYTES;
            }
            let bytes = PACKET_BYTES + bytes + ack.map_or(0, |_| Ack::FRAME_BYTES);
            let number = self.handle_sent(now, bytes, content);
            self.stats.acknowledgements += u64::from(ack.is_some());
            return Some(self.count(Outgoing::new(Some(number), ack.as_ref(), bytes)));
        }
        if is_ack_due { self.acknowledge(now) } else { None }
    }

    /// A packet with an acknowledgement alone.
    fn acknowledge(&mut self, now: Instant) -> Option<Outgoing> {
        let ack = self.arrivals.take(now)?;
        self.stats.acknowledgements += 1;
        Some(self.count(Outgoing::new(None, Some(&ack), PACKET_BYTES + Ack::FRAME_BYTES)))
    }

    fn count(&mut self, outgoing: Outgoing) -> Outgoing {
        self.packets_sent += 1;
        self.bytes_sent += u64::from(outgoing.bytes);
        outgoing
    }

    /// A packet that is to be acknowledged leaves: its number.
    fn handle_sent(&mut self, now: Instant, bytes: u32, content: Content) -> u32 {
        self.acknowledged.forget_stale(now, self.rtt.smoothed().max(MIN_RTT) * (TIME_THRESHOLD + 1));
        if self.handed_over > 0 {
            self.acknowledged.handle_sent(now, bytes.into(), self.handed_over);
        }
        let departure = self.control.handle_sent(now, bytes);
        self.pacer.take(bytes);
        (self.ping, self.probes) = (false, self.probes.saturating_sub(1));
        let repairs = match &content {
            Content::Chunks(chunks) => chunks.clone(),
            Content::Empty | Content::Datagrams(_) => Vec::new(),
        };
        let number = self.first + self.sent.len() as u32;
        self.sent.push_back(Sent { at: now, departure, bytes, fate: Fate::InFlight, content, repairs });
        self.in_flight = (self.in_flight.0 + 1, self.in_flight.1 + bytes);
        self.last_sent = now;
        self.stats.sent += 1;
        number
    }

    /// All that may leave has left. What has not shows that window or pacing are in use.
    pub(super) fn handle_drained(&mut self) {
        if self.unsent() > 0 {
            self.handle_blocked();
        }
    }

    /// Something waits because of window or pacing.
    pub(super) const fn handle_blocked(&mut self) {
        self.control.handle_blocked();
    }

    /// When the next packet may leave or something is found out without one that comes.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let paced = self.paced_until.filter(|_| self.unsent() > 0 || self.ping);
        [self.loss_timeout(), self.arrivals.due(), paced].into_iter().flatten().min()
    }

    /// When a packet counts as lost, or the other end is to be asked (RFC 9002 §6.2).
    fn loss_timeout(&self) -> Option<Instant> {
        /// The timeout does not double more often.
        const MAX_DOUBLINGS: u32 = 16;
        if self.loss_time.is_some() {
            return self.loss_time;
        }
        let wait = self.rtt.probe_timeout() * (1 << self.probe_timeouts.min(MAX_DOUBLINGS));
        (self.in_flight.0 > 0).then(|| self.last_sent + wait)
    }

    /// Finds out what is found out now without a packet that comes.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.loss_timeout().is_none_or(|at| at > now) {
            return;
        }
        if self.loss_time.is_some() {
            self.detect_losses(now, false);
        } else {
            self.probe_timeouts += 1;
            self.probes = 2;
            self.stats.timeouts += 1;
        }
    }

    // ------------------------------------------------------------ what is known of it

    pub(super) fn feedback(&self, now: Instant) -> Feedback {
        Feedback {
            now,
            acked: None,
            lost: None,
            marked: false,
            srtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min(),
        }
    }

    /// Its state as the gateway reports it, of a lane that has handed over so many bytes.
    pub(super) fn snapshot(&self, handed_over: u64) -> LaneSnapshot {
        let micros = |time: Duration| Some(Duration::from_micros(time.as_micros() as u64));
        let undelivered = match self.pending {
            Pending::Datagrams { .. } => None,
            Pending::Streams(_) => Some(handed_over.saturating_sub(self.acknowledged.position()) as usize),
        };
        LaneSnapshot {
            srtt: micros(self.rtt.smoothed()),
            min_rtt: micros(self.rtt.min()),
            // In whole packets, as a kernel would say it.
            window: (self.control.cwnd() / MAX_BYTES * MAX_BYTES) as usize,
            delivery_rate: self.control.delivery_rate(),
            segments_sent: self.packets_sent as u32,
            retransmissions: self.stats.lost as u32,
            lost_bytes: if undelivered.is_none() { self.lost_bytes } else { 0 },
            ..LaneSnapshot::default()
        }
        .of_packets(self.unsent(), self.in_flight.1 as usize, undelivered)
    }

    /// Bytes of UDP data that were sent.
    pub(super) const fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }
}
