//! The candidates of a dial, begun one after the other: addresses, transports and sizes of segments.
//!
//! The next candidate begins [`DELAY`] after the last, or at once when one fails (RFC 8305 §5). The first that is welcomed
//! wins, and the others end. One over QUIC goes on where TCP to the same address has won: QUIC, welcomed later, takes over.
//!
//! A path may drop long packets and say nothing of it (RFC 2923 §2.1). A connection over TCP on such a path is made, since SYNs are
//! short, and then stands still. Both ends fill a segment during the handshake, so that it stands still there, and not the lane
//! later. The dialer looks: if what it sent is not acknowledged after [`LOST`], or no answer has come after [`SILENT`], it gives
//! the connection up, and the next candidate at the same address has shorter segments both ways ([`shorter`]).
//!
//! It has no I/O and no clock, as [`Life`](super::Life).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use trunkline_trunk::Transport;
use trunkline_units::Instant;

/// The connection attempt delay of RFC 8305 §5.
const DELAY: Duration = Duration::from_millis(250);
/// The time, beside four round trips, in which data that does get through is acknowledged: two retransmissions.
const LOST: Duration = Duration::from_secs(1);
/// The time, beside four round trips, in which an acceptor that got everything has answered.
const SILENT: Duration = Duration::from_millis(2500);
/// Segments that fit packets of 1280 bytes (RFC 8200 §5), and, over IPv4, of 576 (RFC 1191 §7.1).
const SHORT_SEGMENTS: [u16; 2] = [1220, 536];

/// The size of segments to try where these do not get through; `None` stands for those that the interface takes.
pub(crate) fn shorter(max_segment: Option<u16>) -> Option<u16> {
    SHORT_SEGMENTS.into_iter().find(|size| max_segment.is_none_or(|max| *size < max))
}

/// A way to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DialCandidate {
    pub(crate) remote: SocketAddr,
    /// QUIC or TCP.
    pub(crate) transport: Transport,
    /// Over TCP: the bound on segments in both directions, if there is one.
    pub(crate) max_segment: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RaceId(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CandidateId {
    pub(crate) race: RaceId,
    number: u8,
}

/// What the owner of a race has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RaceAction {
    /// Begin this candidate.
    Begin(CandidateId, DialCandidate),
    /// Say whether data that this candidate has sent is unacknowledged ([`Races::handle_look`]).
    Look(CandidateId),
}

/// How a race ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Won {
    pub(crate) candidate: DialCandidate,
    /// A candidate over QUIC that goes on beside a winner over TCP.
    pub(crate) beside: Option<CandidateId>,
    /// Over TCP: QUIC to the same address has failed before.
    pub(crate) has_quic_failed: bool,
}

#[derive(Debug)]
struct Running {
    candidate: DialCandidate,
    begun: Instant,
    /// Since when there is a connection, and the time that it took to make it: about a round trip.
    connected: Option<(Instant, Duration)>,
    look_at: Option<Instant>,
}

#[derive(Debug)]
struct Race {
    /// Whether candidates with shorter segments follow.
    shortens: bool,
    waiting: VecDeque<DialCandidate>,
    /// When the first that waits begins.
    next_at: Instant,
    running: BTreeMap<u8, Running>,
    failed: Vec<DialCandidate>,
    last_number: u8,
    /// The time of its entry in the index of all races.
    scheduled: Option<Instant>,
}

impl Race {
    fn due(&self) -> Option<Instant> {
        let looks = self.running.values().filter_map(|running| running.look_at);
        looks.chain(self.waiting.front().map(|_| self.next_at)).min()
    }
}

/// All races.
#[derive(Debug, Default)]
pub(crate) struct Races {
    by_id: BTreeMap<RaceId, Race>,
    due: BTreeSet<(Instant, RaceId)>,
    last: u64,
}

impl Races {
    /// Begins a race among these, in this order. With `shortens`, shorter segments are tried where long ones vanish.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        candidates: impl IntoIterator<Item = DialCandidate>,
        shortens: Shortens,
    ) -> RaceId {
        self.last += 1;
        let id = RaceId(self.last);
        let race = Race {
            shortens: shortens == Shortens::Yes,
            waiting: candidates.into_iter().collect(),
            next_at: now,
            running: BTreeMap::new(),
            failed: Vec::new(),
            last_number: 0,
            scheduled: None,
        };
        self.by_id.insert(id, race);
        self.schedule(id);
        id
    }

    /// What is due.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<RaceAction> {
        let (_, id) = *self.due.first().filter(|(at, _)| *at <= now)?;
        let race = self.by_id.get_mut(&id)?;
        let look = race.running.iter_mut().find(|(_, running)| running.look_at.is_some_and(|at| at <= now));
        let action = if let Some((number, running)) = look {
            running.look_at = None;
            RaceAction::Look(CandidateId { race: id, number: *number })
        } else {
            let candidate = race.waiting.pop_front()?;
            race.last_number = race.last_number.wrapping_add(1);
            race.next_at = now + DELAY;
            let running = Running { candidate, begun: now, connected: None, look_at: None };
            race.running.insert(race.last_number, running);
            RaceAction::Begin(CandidateId { race: id, number: race.last_number }, candidate)
        };
        self.schedule(id);
        Some(action)
    }

    /// The time of the next action.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A candidate that was begun and has not ended.
    pub(crate) fn candidate(&self, id: CandidateId) -> Option<DialCandidate> {
        Some(self.by_id.get(&id.race)?.running.get(&id.number)?.candidate)
    }

    /// A candidate over TCP has connected, and its handshake begins: others wait for it.
    pub(crate) fn handle_connected(&mut self, now: Instant, id: CandidateId) {
        let Some(race) = self.by_id.get_mut(&id.race) else { return };
        let Some(running) = race.running.get_mut(&id.number) else { return };
        let round_trip = now.saturating_since(running.begun);
        let look_at = now + LOST + round_trip * 4;
        (running.connected, running.look_at) = (Some((now, round_trip)), Some(look_at));
        race.next_at = race.next_at.max(look_at);
        self.schedule(id.race);
    }

    /// Whether another candidate over TCP has connected before this one and goes on: this one waits, so that the acceptor is asked
    /// for the lane once.
    pub(crate) fn is_second(&self, id: CandidateId) -> bool {
        let Some(race) = self.by_id.get(&id.race) else { return false };
        let connected = |number: &u8| race.running.get(number).and_then(|running| running.connected);
        let own = connected(&id.number);
        race.running
            .keys()
            .filter(|number| **number != id.number)
            .filter_map(connected)
            .any(|(at, _)| own.is_none_or(|(own, _)| at <= own))
    }

    /// The owner has looked at a candidate. Whether it gives the candidate up: long packets do not get through. It reports that
    /// with [`handle_failed`](Self::handle_failed).
    pub(crate) fn handle_look(&mut self, now: Instant, id: CandidateId, is_unacknowledged: bool) -> bool {
        let Some(race) = self.by_id.get_mut(&id.race) else { return false };
        let Some(running) = race.running.get_mut(&id.number) else { return false };
        let Some((connected, round_trip)) = running.connected else { return false };
        let Some(max_segment) = shorter(running.candidate.max_segment).filter(|_| race.shortens) else {
            return false;
        };
        let silent_at = connected + SILENT + round_trip * 4;
        let gives_up = is_unacknowledged || now >= silent_at;
        if gives_up {
            let candidate = DialCandidate { max_segment: Some(max_segment), ..running.candidate };
            race.waiting.push_front(candidate);
        } else {
            running.look_at = Some(silent_at);
        }
        self.schedule(id.race);
        gives_up
    }

    /// A candidate has failed. Whether the race is lost: it was the last.
    pub(crate) fn handle_failed(&mut self, now: Instant, id: CandidateId) -> bool {
        let Some(race) = self.by_id.get_mut(&id.race) else { return false };
        let Some(Running { candidate, .. }) = race.running.remove(&id.number) else { return false };
        race.failed.push(candidate);
        race.next_at = race.next_at.min(now);
        let is_lost = race.running.is_empty() && race.waiting.is_empty();
        if is_lost {
            self.cancel(id.race);
        } else {
            self.schedule(id.race);
        }
        is_lost
    }

    /// A candidate has won. The race is over, unless one goes on beside the winner.
    pub(crate) fn handle_up(&mut self, id: CandidateId) -> Option<Won> {
        let race = self.by_id.get_mut(&id.race)?;
        let Running { candidate, .. } = race.running.remove(&id.number)?;
        let is_rival = |other: &DialCandidate| {
            candidate.transport == Transport::Tcp
                && other.transport == Transport::Quic
                && other.remote == candidate.remote
        };
        let has_quic_failed = race.failed.iter().any(is_rival);
        race.running.retain(|_, running| is_rival(&running.candidate));
        race.waiting.clear();
        let beside = race.running.keys().next().map(|number| CandidateId { race: id.race, number: *number });
        if beside.is_some() {
            self.schedule(id.race);
        } else {
            self.cancel(id.race);
        }
        Some(Won { candidate, beside, has_quic_failed })
    }

    /// Ends a race without a winner.
    pub(crate) fn cancel(&mut self, id: RaceId) {
        if let Some(at) = self.by_id.remove(&id).and_then(|race| race.scheduled) {
            self.due.remove(&(at, id));
        }
    }

    fn schedule(&mut self, id: RaceId) {
        let Some(race) = self.by_id.get_mut(&id) else { return };
        let due = race.due();
        if race.scheduled != due {
            if let Some(at) = race.scheduled {
                self.due.remove(&(at, id));
            }
            self.due.extend(due.map(|at| (at, id)));
            race.scheduled = due;
        }
    }
}

/// Whether candidates with shorter segments follow those that are stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortens {
    Yes,
    No,
}

#[cfg(test)]
mod tests;
