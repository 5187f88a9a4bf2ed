//! Lanes that ride on either transport, as [`Transports`] decides: the second candidate of a dial, and the changes of lanes
//! that are up.
//!
//! A lane changes its transport without being down: a connection over the other one is dialled, and takes its place when it
//! is welcomed. The site that dialled the lane does that.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use trunkline_trunk::Transport;
use trunkline_units::Instant;

use super::connection::{Dialled, Phase};
use super::{Daemon, Source, Told};
use crate::clock::now;
use crate::handshake::{Hello, Refusal, RefusalReason};
use crate::life::{Attempt, Failure, LaneKey, Next, PathKey, Serial, State, Transports};

/// The time in which a connection that changes the transport of a lane must connect.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(2);
/// A peer that has dialled over QUIC so lately may have dialled over TCP before that.
const CROSSING: Duration = Duration::from_secs(3);

/// A connection that is being made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Begun {
    /// Its token.
    Tcp(u64),
    /// Its serial, and its worker.
    Quic(Serial, u16),
}

#[derive(Debug)]
struct Candidates {
    dialled: Dialled,
    remote: SocketAddr,
    deadline: Instant,
    begun: Vec<Begun>,
}

/// What the control thread has of dials over either transport.
#[derive(Default)]
pub(super) struct AutoState {
    transports: Transports,
    candidates: BTreeMap<Attempt, Candidates>,
    /// Lanes that are up, and the connection to which they change.
    changes: BTreeMap<LaneKey, Begun>,
}

impl Daemon {
    /// Dials a lane that rides on either transport.
    pub(super) fn dial_either(&mut self, dialled: &Dialled, remote: SocketAddr, deadline: Instant) {
        let Some(attempt) = dialled.attempt else { return };
        let first = self.auto.transports.begin(now(), attempt, dialled.key.path_key());
        let candidates = Candidates { dialled: dialled.clone(), remote, deadline, begun: Vec::new() };
        self.auto.candidates.insert(attempt, candidates);
        self.dial_candidate(attempt, first);
    }

    fn dial_candidate(&mut self, attempt: Attempt, transport: Transport) {
        let Some(Candidates { dialled, remote, deadline, .. }) = self.auto.candidates.get(&attempt) else {
            return;
        };
        let (dialled, remote, deadline) = (dialled.clone(), *remote, *deadline);
        match self.connect(&dialled, transport, remote, deadline) {
            Ok(begun) => {
                if let Some(candidates) = self.auto.candidates.get_mut(&attempt) {
                    candidates.begun.push(begun);
                }
            }
            Err(reason) => {
                let reason = format!("cannot connect to {remote}: {reason}");
                self.candidate_failed(&dialled, transport, Failure::Path, &reason);
            }
        }
    }

    /// A connection that this site dialled has failed. It may have been one of two.
    pub(super) fn candidate_failed(
        &mut self,
        dialled: &Dialled,
        transport: Transport,
        failure: Failure,
        reason: &str,
    ) {
        let Some(attempt) = dialled.attempt else {
            return self.change_failed(&dialled.key, transport, reason);
        };
        match self.auto.transports.handle_failed(attempt, dialled.key.path_key(), transport) {
            Next::Failed => {
                self.auto.candidates.remove(&attempt);
                self.dial_failed(dialled, attempt, failure, reason);
            }
            Next::Wait => tracing::debug!("{}: {transport}: {reason}", self.label(&dialled.key)),
            Next::DialTcp => {
                tracing::debug!("{}: {transport}: {reason}", self.label(&dialled.key));
                self.dial_candidate(attempt, Transport::Tcp);
            }
        }
    }

    /// A connection that this site dialled is the lane now.
    pub(super) fn candidate_up(&mut self, dialled: &Dialled, transport: Transport) {
        let (now, key) = (now(), &dialled.key);
        if let Some(attempt) = dialled.attempt {
            let candidates = self.auto.candidates.remove(&attempt);
            let quic_goes_on = self.auto.transports.handle_up(now, attempt, transport);
            for begun in candidates.into_iter().flat_map(|candidates| candidates.begun) {
                match begun {
                    Begun::Tcp(token) if transport == Transport::Quic => {
                        self.sources.remove(&token);
                    }
                    Begun::Quic(serial, _) if quic_goes_on => {
                        // It takes over if it is welcomed after all.
                        self.quic_dial_is_change(serial);
                        self.auto.changes.insert(key.clone(), begun);
                    }
                    Begun::Tcp(_) | Begun::Quic(..) => {}
                }
            }
        } else {
            self.auto.changes.remove(key);
            if transport == Transport::Tcp {
                self.auto.transports.handle_blocked(now, key.path_key());
            }
        }
        if transport == Transport::Quic && self.auto.transports.handle_open(now, key.path_key()) {
            for (key, remote) in self.lanes_over_tcp(key.path_key()) {
                self.change(&key, Transport::Quic, remote);
            }
        }
    }

    /// A connection that this site dialled does not become the lane, though nothing is wrong with it: the lane is no longer
    /// configured, or the other site's connection stays.
    pub(super) fn candidate_not_wanted(&mut self, dialled: &Dialled) {
        let Some(attempt) = dialled.attempt else {
            self.auto.changes.remove(&dialled.key);
            return;
        };
        self.auto.transports.handle_up(now(), attempt, Transport::Quic);
        let candidates = self.auto.candidates.remove(&attempt);
        for begun in candidates.into_iter().flat_map(|candidates| candidates.begun) {
            match begun {
                Begun::Tcp(token) => drop(self.sources.remove(&token)),
                Begun::Quic(serial, shard) => self.end_quic_dial(serial, shard),
            }
        }
    }

    fn change_failed(&mut self, key: &LaneKey, transport: Transport, reason: &str) {
        self.auto.changes.remove(key);
        tracing::debug!("{}: it stays, {transport}: {reason}", self.label(key));
        if transport == Transport::Quic && self.is_over(key, Transport::Tcp) {
            self.auto.transports.handle_blocked(now(), key.path_key());
        }
    }

    /// Dials a lane that is up over another transport.
    fn change(&mut self, key: &LaneKey, to: Transport, remote: SocketAddr) {
        if self.auto.changes.contains_key(key) {
            return;
        }
        let dialled = Dialled { attempt: None, key: key.clone() };
        match self.connect(&dialled, to, remote, now() + CHANGE_TIMEOUT) {
            Ok(begun) => {
                self.auto.changes.insert(key.clone(), begun);
            }
            Err(reason) => self.change_failed(key, to, &format!("cannot connect to {remote}: {reason}")),
        }
    }

    /// What a lane that is up rides on.
    fn is_over(&self, key: &LaneKey, transport: Transport) -> bool {
        let Some(State::Up(up)) = self.life.lane(key).map(|lane| lane.state) else { return false };
        self.transport_of(up.serial) == Some(transport)
    }

    pub(super) fn transport_of(&self, serial: Serial) -> Option<Transport> {
        let socket = self.lane_sockets.get(&serial)?;
        Some(if socket.fd.is_some() { Transport::Tcp } else { Transport::Quic })
    }

    /// The lanes on a path that this site dialled over TCP and that may ride on QUIC.
    fn lanes_over_tcp(&self, path: PathKey) -> Vec<(LaneKey, SocketAddr)> {
        let lanes = self.life.lanes_on(path).filter_map(|(key, lane)| {
            let State::Up(up) = lane.state else { return None };
            let group = self.group_config(&key.lane_group)?;
            let over_tcp = self.transport_of(up.serial) == Some(Transport::Tcp);
            let remote = self.lane_sockets.get(&up.serial)?.remote;
            (up.dialled && over_tcp && group.transport == Transport::Auto).then(|| (key.clone(), remote))
        });
        lanes.collect()
    }

    /// The path of a lane over QUIC fails: TCP may still come through.
    pub(super) fn handle_failing(&mut self, serial: Serial, reason: &str) {
        let Some(key) = self.life.key_of(serial).cloned() else { return };
        let auto = self.group_config(&key.lane_group).is_some_and(|group| group.transport == Transport::Auto);
        let Some(remote) = self.lane_sockets.get(&serial).map(|socket| socket.remote) else { return };
        if auto && !self.auto.changes.contains_key(&key) {
            let line = format!("{}: {reason}; dialling {remote} over TCP", self.label(&key));
            self.log_of_lane(key.peer, Told::Dial, &line);
            self.change(&key, Transport::Tcp, remote);
        }
    }

    /// It works again: a connection over TCP that is not made yet is not needed any more.
    pub(super) fn handle_recovered(&mut self, serial: Serial) {
        let Some(key) = self.life.key_of(serial).cloned() else { return };
        let Some(Begun::Tcp(token)) = self.auto.changes.get(&key).copied() else { return };
        if let Some(Source::Connection(connection)) = self.sources.get(&token)
            && matches!(connection.phase, Phase::Connecting(..))
        {
            self.sources.remove(&token);
            self.auto.changes.remove(&key);
        }
    }

    /// Addresses or routes have changed: UDP may come through now.
    pub(super) fn auto_network_changed(&mut self) {
        self.auto.transports.handle_network_changed(now());
    }

    /// Applies a configuration.
    pub(super) fn apply_auto(&mut self) {
        let peers = &self.config.peers;
        self.auto.transports.retain(|path| peers.iter().any(|peer| peer.public_key == path.peer));
    }

    /// Dials what is due. The time of the next.
    pub(super) fn handle_auto_deadlines(&mut self, now: Instant) -> Option<Instant> {
        while let Some(attempt) = self.auto.transports.poll_second(now) {
            self.dial_candidate(attempt, Transport::Tcp);
        }
        while let Some(path) = self.auto.transports.poll_retry(now) {
            match self.lanes_over_tcp(path).into_iter().next() {
                Some((key, remote)) => self.change(&key, Transport::Quic, remote),
                None => self.auto.transports.forget(&path),
            }
        }
        self.auto.transports.poll_timeout()
    }

    /// Refuses a request over TCP for a lane that the same peer has just dialled over QUIC: it dials both and takes the one
    /// over QUIC.
    pub(super) fn check_crossing(&self, key: &LaneKey, hello: &Hello) -> Result<(), Refusal> {
        let Some(lane) = self.life.lane(key) else { return Ok(()) };
        let State::Up(up) = lane.state else { return Ok(()) };
        let crosses = !up.dialled
            && up.instance == hello.instance
            && self.transport_of(up.serial) == Some(Transport::Quic)
            && now().saturating_since(lane.since) < CROSSING;
        if !crosses {
            return Ok(());
        }
        let text = "the connection over QUIC stays".to_owned();
        Err(Refusal { reason: RefusalReason::NotWanted, text })
    }
}
