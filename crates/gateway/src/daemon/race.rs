//! The candidates of dials, as [`Races`](crate::life::Races) decides: begins them, and ends those that others have overtaken.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::net::sockopt;
use trunkline_trunk::Transport;
use trunkline_units::Instant;

use super::connection::{Dialled, Phase};
use super::{Daemon, Source};
use crate::clock::now;
use crate::life::{
    Attempt, CandidateId, DialCandidate, Failure, LaneKey, RaceAction, RaceId, Races, Serial, Shortens, Won,
};
use crate::sys;

/// A connection that is being made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Begun {
    /// Its token.
    Tcp(u64),
    /// Its serial, and its worker.
    Quic(Serial, u16),
}

/// What a lane changes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    ToQuic,
    ToTcp,
    /// To another connection over TCP, since this one delivers nothing.
    Anew,
    /// To segments without a bound.
    Lengthen,
}

/// Why candidates are dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The lane is down.
    Attempt(Attempt),
    /// It is up over a connection that another is to replace.
    Change(Change),
}

/// A race, as its connections are concerned.
#[derive(Debug)]
struct Entry {
    key: LaneKey,
    purpose: Purpose,
    /// The time in which a candidate must connect.
    connect_timeout: Duration,
    begun: BTreeMap<CandidateId, Begun>,
    /// A failure that is worth more in the log than the last: there was a connection.
    failure: Option<(Failure, String)>,
}

/// The races under way.
#[derive(Default)]
pub(super) struct RaceState {
    races: Races,
    entries: BTreeMap<RaceId, Entry>,
}

impl Daemon {
    /// Begins to dial these candidates for a lane.
    pub(super) fn begin_race(
        &mut self,
        key: &LaneKey,
        purpose: Purpose,
        connect_timeout: Duration,
        candidates: Vec<DialCandidate>,
    ) -> RaceId {
        // A change to longer segments asks whether they get through.
        let shortens =
            if purpose == Purpose::Change(Change::Lengthen) { Shortens::No } else { Shortens::Yes };
        let race = self.race.races.begin(now(), candidates, shortens);
        let entry =
            Entry { key: key.clone(), purpose, connect_timeout, begun: BTreeMap::new(), failure: None };
        self.race.entries.insert(race, entry);
        race
    }

    /// The attempt that a connection belongs to; `None` if it is a change of a lane that is up.
    pub(super) fn attempt_of(&self, dialled: &Dialled) -> Option<Attempt> {
        match self.purpose_of(dialled)? {
            Purpose::Attempt(attempt) => Some(attempt),
            Purpose::Change(_) => None,
        }
    }

    /// Why a connection is made.
    pub(super) fn purpose_of(&self, dialled: &Dialled) -> Option<Purpose> {
        Some(self.race.entries.get(&dialled.candidate.race)?.purpose)
    }

    /// The bound on the segments of a connection that this site dials.
    pub(super) fn max_segment_of(&self, dialled: &Dialled) -> Option<u16> {
        self.race.races.candidate(dialled.candidate)?.max_segment
    }

    /// Does what is due of races. The time of the next action.
    pub(super) fn handle_race_deadlines(&mut self, now: Instant) -> Option<Instant> {
        while let Some(action) = self.race.races.poll(now) {
            match action {
                RaceAction::Begin(id, candidate) => self.begin_candidate(id, candidate),
                RaceAction::Look(id) => self.look_at_candidate(now, id),
            }
        }
        self.race.races.poll_timeout()
    }

    fn begin_candidate(&mut self, id: CandidateId, candidate: DialCandidate) {
        let Some(entry) = self.race.entries.get(&id.race) else { return self.race.races.cancel(id.race) };
        let dialled = Dialled { key: entry.key.clone(), candidate: id };
        let deadline = now() + entry.connect_timeout;
        match self.connect(&dialled, candidate, deadline) {
            Ok(begun) => {
                if let Some(entry) = self.race.entries.get_mut(&id.race) {
                    entry.begun.insert(id, begun);
                }
            }
            Err(reason) => {
                let reason = format!("cannot connect to {}: {reason}", candidate.remote);
                self.candidate_failed(&dialled, Failure::Path, &reason);
            }
        }
    }

    /// Looks whether long packets of a connection get through.
    fn look_at_candidate(&mut self, now: Instant, id: CandidateId) {
        let Some(entry) = self.race.entries.get(&id.race) else { return };
        let Some(Begun::Tcp(token)) = entry.begun.get(&id).copied() else { return };
        let dialled = Dialled { key: entry.key.clone(), candidate: id };
        let Some(Source::Connection(connection)) = self.sources.get(&token) else { return };
        let Some(fd) = connection.fd() else { return };
        let is_unacknowledged =
            sys::TcpInfo::of(fd).is_ok_and(|info| info.unacked().is_some_and(|segments| segments > 0));
        if !self.race.races.handle_look(now, id, is_unacknowledged) {
            return;
        }
        // A reset is short; the usual end would wait behind what does not get through.
        let _ = sockopt::set_socket_linger(fd, Some(Duration::ZERO));
        let remote = connection.remote;
        self.sources.remove(&token);
        let reason = format!("{remote}: it connects, and long packets get no answer");
        self.candidate_failed(&dialled, Failure::Lane, &reason);
    }

    pub(super) fn is_second(&self, dialled: &Dialled) -> bool {
        self.race.races.is_second(dialled.candidate)
    }

    /// Lets the connections of a race begin their handshakes that waited for another.
    fn release_held(&mut self, race: RaceId) {
        let begun = self.race.entries.get(&race).map(|entry| &entry.begun);
        for begun in begun.into_iter().flat_map(BTreeMap::values) {
            if let Begun::Tcp(token) = begun
                && let Some(Source::Connection(connection)) = self.sources.get_mut(token)
                && connection.is_held
                && matches!(connection.phase, Phase::Connecting(..))
            {
                connection.deadline = now();
                self.deadlines.insert((connection.deadline, *token));
            }
        }
    }

    /// A candidate over TCP has connected.
    pub(super) fn candidate_connected(&mut self, dialled: &Dialled) {
        let now = now();
        self.race.races.handle_connected(now, dialled.candidate);
        if let Some(attempt) = self.attempt_of(dialled) {
            self.life.handle_connected(now, attempt);
        }
    }

    /// A connection that this site dialled has failed. It may have been one of several.
    pub(super) fn candidate_failed(&mut self, dialled: &Dialled, failure: Failure, reason: &str) {
        let id = dialled.candidate;
        let transport = self.race.races.candidate(id).map(|candidate| candidate.transport);
        let Some(entry) = self.race.entries.get_mut(&id.race) else { return };
        entry.begun.remove(&id);
        if !self.race.races.handle_failed(now(), id) {
            if failure == Failure::Lane {
                entry.failure = Some((failure, reason.to_owned()));
            }
            self.release_held(id.race);
            return tracing::debug!("{}: {reason}", self.label(&dialled.key));
        }
        let Some(Entry { key, purpose, failure: other, .. }) = self.race.entries.remove(&id.race) else {
            return;
        };
        let (failure, reason) = match other {
            Some(other) if failure == Failure::Path => other,
            _ => (failure, reason.to_owned()),
        };
        match purpose {
            Purpose::Attempt(attempt) => {
                self.auto.transports.handle_lost(&key.path_key());
                self.dial_failed(&key, attempt, failure, &reason);
            }
            Purpose::Change(_) => self.change_failed(&key, transport, &reason),
        }
    }

    /// A connection that this site dialled is the lane now.
    pub(super) fn candidate_up(&mut self, dialled: &Dialled) {
        let Some((key, purpose, won)) = self.end_race(dialled) else { return };
        self.names.handle_good(key.path_key(), won.candidate.remote);
        if let Some(beside) = won.beside
            && let Some(entry) = self.race.entries.get_mut(&beside.race)
        {
            // It takes over if it is welcomed after all.
            entry.purpose = Purpose::Change(Change::ToQuic);
        }
        self.lane_dialled(&key, purpose, &won);
    }

    /// A connection that this site dialled does not become the lane, though nothing is wrong with it: the lane is no longer
    /// configured, or the other site's connection stays.
    pub(super) fn candidate_not_wanted(&mut self, dialled: &Dialled) {
        if let Some((key, _, won)) = self.end_race(dialled) {
            if let Some(beside) = won.beside {
                self.cancel_race(beside.race);
            }
            self.auto.changes.remove(&key);
        }
    }

    /// Ends the candidates that another has overtaken, all but the one that goes on beside it.
    fn end_race(&mut self, dialled: &Dialled) -> Option<(LaneKey, Purpose, Won)> {
        let id = dialled.candidate;
        let won = self.race.races.handle_up(id)?;
        let entry = self.race.entries.get_mut(&id.race)?;
        let (key, purpose) = (entry.key.clone(), entry.purpose);
        entry.begun.remove(&id);
        let overtaken: Vec<Begun> =
            entry.begun.iter().filter(|(id, _)| Some(**id) != won.beside).map(|(_, begun)| *begun).collect();
        entry.begun.retain(|id, _| Some(*id) == won.beside);
        if won.beside.is_none() {
            self.race.entries.remove(&id.race);
        }
        for begun in overtaken {
            self.end_begun(begun);
        }
        Some((key, purpose, won))
    }

    /// Gives all candidates of a race up.
    pub(super) fn cancel_race(&mut self, race: RaceId) {
        self.race.races.cancel(race);
        let begun = self.race.entries.remove(&race).map(|entry| entry.begun).unwrap_or_default();
        for begun in begun.into_values() {
            self.end_begun(begun);
        }
    }

    fn end_begun(&mut self, begun: Begun) {
        match begun {
            Begun::Tcp(token) => drop(self.sources.remove(&token)),
            Begun::Quic(serial, shard) => self.end_quic_dial(serial, shard),
        }
    }

    /// Whether no candidate of a race has a connection yet.
    pub(super) fn is_connecting(&self, race: RaceId) -> bool {
        let begun = self.race.entries.get(&race).map(|entry| &entry.begun);
        begun.into_iter().flatten().all(|(_, begun)| match begun {
            Begun::Tcp(token) => matches!(
                self.sources.get(token),
                Some(Source::Connection(connection)) if matches!(connection.phase, Phase::Connecting(..))
            ),
            Begun::Quic(..) => true,
        })
    }

    /// What the candidates of a race ride on.
    pub(super) fn is_race_over(&self, race: RaceId, transport: Transport) -> bool {
        let begun = self.race.entries.get(&race).map(|entry| &entry.begun);
        begun
            .into_iter()
            .flatten()
            .all(|(_, begun)| matches!(begun, Begun::Tcp(_)) == (transport == Transport::Tcp))
    }
}
