//! Connections whose packets a proxy looks into and changes or holds, without an end of its own.

use std::collections::VecDeque;

use trunkline_packet::TcpFlags;
use trunkline_tcp::Segment;
use trunkline_units::{Instant, Seq};

use super::{ProxyMode, ProxyStats};
use crate::Packet;
use crate::core::Core;
use crate::packet::IP;

/// Packets that an acknowledgement sets free at its sender at the most: one that it acknowledges, and one by which the window grows,
/// for every two that a delayed acknowledgement stands for.
const SET_FREE: u64 = 3;

/// How often a regulator looks again whether there is room.
const LOOK: std::time::Duration = std::time::Duration::from_millis(5);

/// A connection as seen from the side.
#[derive(Debug, Default)]
pub(super) struct Inspected {
    /// Shift of the windows that the mobile side offers, once it has said so and the other too.
    shift: u8,
    offered: Option<u8>,
    /// The highest number that the network's side has sent.
    sent: Option<Seq>,
    /// The last acknowledgement of the mobile side, as it came.
    last: Option<Packet>,
    last_ack: Option<Seq>,
    heard: Instant,
    frozen: bool,
    held: VecDeque<Packet>,
}

impl Inspected {
    /// What passes of a packet, and what goes with it.
    pub(super) fn handle(
        &mut self,
        core: &Core,
        mode: &ProxyMode,
        (inward, packet): (bool, Packet),
        stats: &mut ProxyStats,
    ) -> [Option<Packet>; 2] {
        let Ok((segment, _)) = Segment::parse(packet.transport(), packet.length() as usize - IP) else {
            return [Some(packet), None];
        };
        if segment.flags.contains(TcpFlags::SYN) {
            self.note_syn(inward, &segment);
            return [Some(packet), None];
        }
        if inward {
            if self.sent.is_none_or(|sent| sent.before(segment.end())) {
                if self.sent.is_none() || self.last_ack == self.sent {
                    // The mobile node has been asked nothing until now.
                    self.heard = core.now;
                }
                self.sent = Some(segment.end());
            }
            return [Some(packet), None];
        }
        let plain = segment.sequence_len() == 0 && !segment.flags.intersects(TcpFlags::RST);
        if !plain || !segment.flags.contains(TcpFlags::ACK) {
            return [Some(packet), None];
        }
        match mode {
            ProxyMode::ClampWindow(most) => [Some(self.clamp(packet, &segment, *most, stats)), None],
            ProxyMode::Freeze { .. } => self.keep_back(core, packet, &segment, stats),
            ProxyMode::RegulateAcks { .. } => {
                stats.held += 1;
                self.held.push_back(packet);
                let mut due = self.run(core, mode, stats).into_iter();
                [due.next(), due.next()]
            }
            ProxyMode::Split(_) | ProxyMode::PathTail(..) => [Some(packet), None],
        }
    }

    fn note_syn(&mut self, inward: bool, segment: &Segment) {
        // Both have to offer it.
        match (inward, segment.options.window_scale, self.offered) {
            (false, Some(shift), None) => self.offered = Some(shift),
            (false, Some(shift), Some(_)) | (true, Some(_), Some(shift)) => self.shift = shift,
            (true, Some(_), None) => self.offered = Some(0),
            (_, None, _) => {}
        }
    }

    fn clamp(&self, packet: Packet, segment: &Segment, most: u64, stats: &mut ProxyStats) -> Packet {
        let offered = u64::from(segment.window) << self.shift;
        if offered <= most {
            return packet;
        }
        stats.clamped += 1;
        let field = (most >> self.shift).clamp(1, u64::from(u16::MAX)) as u16;
        packet.with_window(field)
    }

    /// M-TCP: passes an acknowledgement but for its last octet.
    fn keep_back(
        &mut self,
        core: &Core,
        packet: Packet,
        segment: &Segment,
        stats: &mut ProxyStats,
    ) -> [Option<Packet>; 2] {
        self.heard = core.now;
        let thawed = std::mem::take(&mut self.frozen);
        let all = self.sent == Some(segment.ack);
        let advances = self.last_ack.is_none_or(|last| last.before(segment.ack));
        self.last_ack = Some(segment.ack);
        self.last = Some(packet.clone());
        if all || !advances || thawed {
            // Nothing is under way, or it is a duplicate, or the sender is to go on.
            return [Some(packet), None];
        }
        stats.held += 1;
        [Some(packet.with_ack(Seq(segment.ack.0.wrapping_sub(1)))), None]
    }

    /// When it has to be looked at.
    pub(super) fn next(&self, mode: &ProxyMode) -> Option<Instant> {
        match mode {
            ProxyMode::Freeze { after } => {
                let waits = self.last.is_some() && !self.frozen && self.last_ack != self.sent;
                waits.then(|| self.heard + *after)
            }
            ProxyMode::RegulateAcks { .. } => (!self.held.is_empty()).then(|| self.heard + LOOK),
            _ => None,
        }
    }

    /// What is to be sent now.
    pub(super) fn run(&mut self, core: &Core, mode: &ProxyMode, stats: &mut ProxyStats) -> Vec<Packet> {
        match mode {
            ProxyMode::Freeze { .. } if self.next(mode).is_some_and(|at| at <= core.now) => {
                self.frozen = true;
                stats.frozen += 1;
                self.last.iter().map(|last| last.clone().with_window(0)).collect()
            }
            ProxyMode::RegulateAcks { link, room } => {
                self.heard = core.now;
                let waiting = core.links[link.0 as usize].queue().backlog_segments;
                let mut free = u64::from(*room).saturating_sub(waiting);
                let mut due = Vec::new();
                while free >= SET_FREE
                    && let Some(packet) = self.held.pop_front()
                {
                    free -= SET_FREE;
                    due.push(packet);
                }
                if waiting == 0
                    && due.is_empty()
                    && let Some(packet) = self.held.pop_front()
                {
                    // A room for fewer than it sets free must not stop everything.
                    due.push(packet);
                }
                due
            }
            _ => Vec::new(),
        }
    }
}
