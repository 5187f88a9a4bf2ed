//! A link of a network: the state machine of crate `link`, with its ends, its timers in the agenda, and captures.

use std::time::Duration;

use trunkline_link::{Arrival, Link as Machine, LinkChange, LinkSettings, Owner, Payload, Timer};
use trunkline_queue::DropReason;
use trunkline_units::{Instant, Rng};

use crate::agenda::{Agenda, Kind};
use crate::capture::{Capture, Happening};
use crate::{NodeId, Packet};

/// A link of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u32);

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) to: NodeId,
    pub(crate) from: NodeId,
    pub(crate) machine: Machine<Packet>,
    captures: Vec<Capture>,
}

/// A link's places in the agenda, and its captures.
struct Places<'a> {
    id: LinkId,
    now: Instant,
    agenda: &'a mut Agenda,
    captures: &'a mut Vec<Capture>,
}

impl Owner<Packet> for Places<'_> {
    #[inline]
    fn set(&mut self, timer: Timer, at: Instant) {
        let kind = match timer {
            Timer::Arrival => Kind::Arrival,
            Timer::Free => Kind::Free,
            Timer::Change => Kind::Change,
        };
        self.agenda.set(kind, self.id.0, at);
    }

    #[inline]
    fn sent(&mut self, now: Instant, packet: &Packet, waited: Duration) {
        if !self.captures.is_empty() {
            record(self.captures, now, packet, Happening::Sent { waited });
        }
    }

    fn dropped(&mut self, now: Instant, packet: &Packet, reason: DropReason) {
        record(self.captures, now, packet, Happening::Dropped(reason));
    }

    fn lost(&mut self, packet: &Packet) {
        record(self.captures, self.now, packet, Happening::Lost);
    }
}

impl Payload for Packet {
    fn corrupt(&mut self, _: &mut Rng) {
        self.set_corrupted();
    }
}

#[cold]
fn record(captures: &mut [Capture], now: Instant, packet: &Packet, happening: Happening) {
    for capture in captures {
        capture.take(now, packet, happening);
    }
}

impl Link {
    pub(crate) fn new((from, to): (NodeId, NodeId), settings: &LinkSettings, seed: u64) -> Self {
        Link { to, from, machine: Machine::new(settings, seed), captures: Vec::new() }
    }

    /// Asks to be called for the first change.
    pub(crate) fn start(&mut self, now: Instant, id: LinkId, agenda: &mut Agenda) {
        self.machine.start(now, &mut Places { id, now, agenda, captures: &mut self.captures });
    }

    /// Enqueues a packet.
    #[inline]
    pub(crate) fn offer(&mut self, now: Instant, id: LinkId, packet: Packet, agenda: &mut Agenda) {
        self.machine.offer(now, packet, &mut Places { id, now, agenda, captures: &mut self.captures });
    }

    /// Begins to send the next packet, if there is one.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant, id: LinkId, agenda: &mut Agenda) {
        self.machine.begin(now, &mut Places { id, now, agenda, captures: &mut self.captures });
    }

    /// The packet that is at the far end now, unless it was lost on the way.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        id: LinkId,
        agenda: &mut Agenda,
    ) -> Option<Arrival<Packet>> {
        let arrival = self.machine.arrive(&mut Places { id, now, agenda, captures: &mut self.captures })?;
        if !self.captures.is_empty() {
            record(&mut self.captures, now, &arrival.packet, Happening::Received);
        }
        Some(arrival)
    }

    /// Makes the change that is due, and asks to be called for the next.
    pub(crate) fn change(&mut self, now: Instant, id: LinkId, agenda: &mut Agenda) {
        self.machine.change(now, &mut Places { id, now, agenda, captures: &mut self.captures });
    }

    /// Makes a change now.
    pub(crate) fn apply(&mut self, now: Instant, id: LinkId, change: LinkChange, agenda: &mut Agenda) {
        self.machine.apply(now, change, &mut Places { id, now, agenda, captures: &mut self.captures });
    }

    pub(crate) fn capture(&mut self, capture: Capture) {
        self.captures.push(capture);
    }

    /// Ends its captures.
    pub(crate) fn finish_captures(&mut self) -> std::io::Result<()> {
        std::mem::take(&mut self.captures).into_iter().try_for_each(Capture::finish)
    }
}
