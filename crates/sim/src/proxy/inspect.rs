//! Connections whose packets a proxy inspects and changes, without an end of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trunkline_packet::TcpFlags;
use trunkline_tcp::Segment;
use trunkline_trunk::path_tail::WindowClamp;
use trunkline_units::{Instant, Seq};

use super::{FlowKey, ProxyStats};
use crate::Packet;
use crate::state::flags_of;

/// Bytes of a segment before one has come (RFC 9293 §3.7.1).
const DEFAULT_SEGMENT: u64 = 536;

/// What is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Windows are lowered to this, bytes.
    Clamp(u64),
    /// Windows are lowered to the free places before the link to the mobile node, of so many; of a connection, to its part of those
    /// that are free now.
    ClampToRoom(u64),
    /// The sender is stopped when the mobile node has been silent for so long.
    Freeze(Duration),
}

/// A connection as seen from the side.
#[derive(Debug, Default)]
struct Inspected {
    clamp: WindowClamp,
    /// Behind the highest byte that the network's side has sent.
    sent: Option<Seq>,
    /// The mobile side's last segment that only acknowledges, as it came.
    last: Option<Packet>,
    last_ack: Option<Seq>,
    /// When a segment passed to the mobile node to which it has said nothing yet.
    unanswered_since: Option<Instant>,
    frozen: bool,
    /// Bytes of the longest segment of the network's side.
    longest: u64,
    /// Which sides have sent FIN, the network's first.
    closed: [bool; 2],
    due: Option<Instant>,
}

/// All connections of a proxy.
#[derive(Debug)]
pub(super) struct Inspection {
    change: Change,
    waiting: u64,
    flows: BTreeMap<FlowKey, Inspected>,
    due: BTreeSet<(Instant, FlowKey)>,
}

impl Inspection {
    pub(super) fn new(change: Change) -> Self {
        Inspection { change, waiting: 0, flows: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// Whether it is to know how many packets are before the link to the mobile node.
    pub(super) const fn follows_room(&self) -> bool {
        matches!(self.change, Change::ClampToRoom(_))
    }

    /// So many packets are before the link to the mobile node that the next packet is about.
    pub(super) const fn note_waiting(&mut self, waiting: u64) {
        self.waiting = waiting;
    }

    /// What passes in place of a packet.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        (key, inward): (FlowKey, bool),
        packet: Packet,
        stats: &mut ProxyStats,
    ) -> Packet {
        let flags = flags_of(&packet);
        if flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK) && !self.flows.contains_key(&key) {
            stats.flows += 1;
            self.flows.insert(key, Inspected::default());
        }
        let flows = self.flows.len() as u64;
        let Some(flow) = self.flows.get_mut(&key) else { return packet };
        let Ok((segment, _)) = Segment::parse(packet.transport(), packet.transport_len()) else {
            return packet;
        };
        let change = match self.change {
            Change::ClampToRoom(room) => Change::ClampToRoom(room.saturating_sub(self.waiting) / flows),
            change => change,
        };
        let passes = flow.handle(now, change, (inward, packet), &segment, stats);
        let due = flow.next(self.change);
        let over = flags.contains(TcpFlags::RST) || flow.closed == [true; 2];
        let before = std::mem::replace(&mut flow.due, due);
        if let Some(at) = before {
            self.due.remove(&(at, key));
        }
        if over {
            self.flows.remove(&key);
        } else if let Some(at) = due {
            self.due.insert((at, key));
        }
        passes
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next packet that is to be sent now.
    pub(super) fn poll(&mut self, now: Instant, stats: &mut ProxyStats) -> Option<Packet> {
        while let Some((_, key)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.pop_first();
            let Some(flow) = self.flows.get_mut(&key) else { continue };
            flow.due = None;
            flow.frozen = true;
            if let Some(last) = &flow.last {
                stats.frozen += 1;
                return Some(last.clone().with_window(0));
            }
        }
        None
    }
}

impl Inspected {
    fn handle(
        &mut self,
        now: Instant,
        change: Change,
        (inward, packet): (bool, Packet),
        segment: &Segment,
        stats: &mut ProxyStats,
    ) -> Packet {
        let syn = segment.flags.contains(TcpFlags::SYN);
        self.closed[usize::from(!inward)] |= segment.flags.contains(TcpFlags::FIN);
        if syn {
            let scale = segment.options.window_scale;
            if inward { self.clamp.handle_syn_of_sender(scale) } else { self.clamp.handle_syn_of_host(scale) }
        }
        if inward {
            // After a loss there may be nothing to answer: then the sender's timer is to run.
            self.unanswered_since.get_or_insert(now);
            self.longest = self.longest.max(u64::from(segment.sequence_len()));
            if self.sent.is_none_or(|sent| sent.before(segment.end())) {
                self.sent = Some(segment.end());
            }
            return packet;
        }
        match change {
            Change::Clamp(max) => self.clamp(packet, segment, max, stats),
            // A segment at least: a window of 0 would stop the sender.
            Change::ClampToRoom(free) => {
                self.clamp(packet, segment, free.max(1) * self.longest.max(DEFAULT_SEGMENT), stats)
            }
            Change::Freeze(_) if syn => packet,
            Change::Freeze(_) => self.hold_last_byte(packet, segment, stats),
        }
    }

    fn clamp(&self, packet: Packet, segment: &Segment, max: u64, stats: &mut ProxyStats) -> Packet {
        match self.clamp.lowered(segment.window, segment.flags.contains(TcpFlags::SYN), max) {
            Some(window) => {
                stats.clamped += 1;
                packet.with_window(window)
            }
            None => packet,
        }
    }

    /// Passes an acknowledgement but for its last byte.
    fn hold_last_byte(&mut self, packet: Packet, segment: &Segment, stats: &mut ProxyStats) -> Packet {
        self.unanswered_since = None;
        let thawed = std::mem::take(&mut self.frozen);
        let all = self.sent == Some(segment.ack);
        let advances = self.last_ack.is_none_or(|last| last.before(segment.ack));
        if advances {
            self.last_ack = Some(segment.ack);
        }
        if segment.sequence_len() > 0 || !segment.flags.contains(TcpFlags::ACK) {
            return packet;
        }
        self.last = Some(packet.clone());
        if all || !advances || thawed {
            // Nothing is under way, or it is a duplicate, or the sender is to go on.
            return packet;
        }
        stats.held += 1;
        packet.with_ack(Seq(segment.ack.0.wrapping_sub(1)))
    }

    /// When the sender is to be stopped.
    fn next(&self, change: Change) -> Option<Instant> {
        let Change::Freeze(after) = change else { return None };
        let waits = self.last.is_some() && !self.frozen && self.last_ack != self.sent;
        self.unanswered_since.filter(|_| waits).map(|asked| asked + after)
    }
}
