//! The acknowledgement regulator (Chan and Ramjee 2002): an acknowledgement of the mobile node passes when the
//! segments that it releases at the sender will find room before the mobile link.
//!
//! The queue there is known; the regulator estimates the segments on their way to it. An acknowledgement releases
//! the segments that it acknowledges, and at most one segment of growth, which arrive a round trip of the network's
//! side later, as the handshake measured it. Once a sender's window has reached the room, the regulator lets growth
//! pass, so that one segment is dropped and the window halved, and acknowledgements are not held for ever.
//!
//! Deviation: the room is that of the link's queue, which all connections share, and acknowledgements pass in the
//! order in which they came; the original has a queue for each mobile node. The original's estimate of the segments
//! on their way was not at hand.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use trunkline_packet::TcpFlags;
use trunkline_tcp::Segment;
use trunkline_units::{Instant, Seq};

use super::{FlowKey, ProxyStats};
use crate::Packet;
use crate::state::flags_of;

/// How often it looks whether there is room.
const LOOK: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
struct Watched {
    /// When the mobile side's SYN passed, and the round trip from there to the network and back.
    unanswered_since: Option<Instant>,
    round_trip: Duration,
    /// Bytes of the longest segment.
    mss: u32,
    /// Behind the highest byte that the network's side has sent.
    sent: Option<Seq>,
    /// The highest acknowledgement that has passed.
    passed: Option<Seq>,
    closed: [bool; 2],
}

#[derive(Debug)]
struct Held {
    key: FlowKey,
    packet: Packet,
    ack: Seq,
    since: Instant,
}

/// All connections over one link to mobile nodes.
#[derive(Debug)]
pub(super) struct Regulator {
    room: u64,
    flows: BTreeMap<FlowKey, Watched>,
    held: VecDeque<Held>,
    /// When segments that were set free will have come, and how many.
    expected: VecDeque<(Instant, u64)>,
    look: Instant,
}

impl Regulator {
    pub(super) fn new(room: u32) -> Self {
        Regulator {
            room: u64::from(room),
            flows: BTreeMap::new(),
            held: VecDeque::new(),
            expected: VecDeque::new(),
            look: Instant::ZERO,
        }
    }

    /// Takes a packet; gives it back if it passes at once. Then [`Regulator::poll`] is to be called until `None`.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        (key, inward): (FlowKey, bool),
        packet: Packet,
        stats: &mut ProxyStats,
    ) -> Option<Packet> {
        let flags = flags_of(&packet);
        let syn = flags.contains(TcpFlags::SYN);
        if syn && !flags.contains(TcpFlags::ACK) && !self.flows.contains_key(&key) {
            stats.flows += 1;
            self.flows.insert(key, Watched::default());
        }
        let Some(flow) = self.flows.get_mut(&key) else { return Some(packet) };
        let Ok((segment, _)) = Segment::parse(packet.transport(), packet.transport_len()) else {
            return Some(packet);
        };
        flow.closed[usize::from(!inward)] |= flags.contains(TcpFlags::FIN);
        if inward {
            flow.note_inward(now, &segment);
        } else if syn {
            flow.unanswered_since = Some(now);
        }
        if flags.contains(TcpFlags::RST) || flow.closed == [true; 2] {
            self.flows.remove(&key);
            return Some(packet);
        }
        if inward || segment.sequence_len() > 0 || !flags.contains(TcpFlags::ACK) {
            return Some(packet);
        }
        self.held.push_back(Held { key, packet, ack: segment.ack, since: now });
        None
    }

    /// When it looks again.
    pub(super) fn next(&self) -> Option<Instant> {
        (!self.held.is_empty()).then_some(self.look)
    }

    /// The next acknowledgement that passes now, `waiting` packets being before the link.
    pub(super) fn poll(&mut self, now: Instant, waiting: u64, stats: &mut ProxyStats) -> Option<Packet> {
        while self.expected.front().is_some_and(|(at, _)| *at <= now) {
            self.expected.pop_front();
        }
        self.look = now + LOOK;
        let Held { key, ack, since, .. } = self.held.front()?;
        let coming = self.expected.iter().map(|(_, segments)| segments).sum::<u64>();
        let taken = waiting + coming;
        let (ack, delayed) = (*ack, *since < now);
        if let Some(flow) = self.flows.get_mut(key) {
            let (frees, grows) = flow.sets_free(ack);
            let grows = if flow.window(coming) < self.room { grows } else { 0 };
            // With nothing before the link or on its way to it everything would stop.
            if taken + frees + grows > self.room && taken > 0 {
                return None;
            }
            flow.pass(ack);
            let at = now + flow.round_trip;
            let place = self.expected.partition_point(|(due, _)| *due <= at);
            self.expected.insert(place, (at, frees + grows));
        }
        stats.held += u64::from(delayed);
        self.held.pop_front().map(|held| held.packet)
    }
}

impl Watched {
    fn note_inward(&mut self, now: Instant, segment: &Segment) {
        if let Some(asked) = self.unanswered_since.take() {
            self.round_trip = now - asked;
        }
        self.mss = self.mss.max(segment.payload);
        if self.sent.is_none_or(|sent| sent.before(segment.end())) {
            self.sent = Some(segment.end());
        }
    }

    /// Segments that an acknowledgement sets free: for what it acknowledges, and by growth. A duplicate lets one leave.
    fn sets_free(&self, ack: Seq) -> (u64, u64) {
        let acknowledged = self.passed.filter(|passed| passed.before(ack)).map_or(0, |passed| ack - passed);
        (u64::from(acknowledged.div_ceil(self.mss.max(1))), 1)
    }

    fn pass(&mut self, ack: Seq) {
        if self.passed.is_none_or(|passed| passed.before(ack)) {
            self.passed = Some(ack);
        }
    }

    /// The sender's window as it looks from here, in segments: what has come and is not acknowledged, and what is coming.
    fn window(&self, coming: u64) -> u64 {
        let (Some(sent), Some(passed)) = (self.sent, self.passed) else { return coming };
        let here = if passed.before(sent) { sent - passed } else { 0 };
        u64::from(here.div_ceil(self.mss.max(1))) + coming
    }
}
