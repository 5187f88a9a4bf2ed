//! Changes of the connection of a lane that is up: to the other transport, as [`Transports`] decides, and to shorter or longer
//! segments, as [`Segments`] does.
//!
//! A lane changes its connection without being down: another one is dialled, and takes its place when it is welcomed. The site
//! that dialled the lane does that.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use trunkline_trunk::Transport;
use trunkline_units::Instant;

use super::connection::Dialled;
use super::race::{Change, Purpose};
use super::{Daemon, Told};
use crate::clock::now;
use crate::handshake::{Hello, Refusal, RefusalReason};
use crate::life::{DialCandidate, LaneKey, PathKey, RaceId, Segments, Serial, State, Transports, Won};

/// The time in which a connection that changes a lane must connect.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection that is to take the place of one that delivers nothing waits for that one: where the path has just returned,
/// its next retransmission is due within a second.
const HOLD: Duration = Duration::from_millis(1200);
/// How long one waits for another that was made before it.
const SECOND_HOLD: Duration = Duration::from_secs(4);
/// A peer that has dialled over QUIC so lately may have dialled another connection before that.
const CROSSING: Duration = Duration::from_secs(3);

/// What the control thread knows of transports and segments, and the changes under way.
#[derive(Default)]
pub(super) struct AutoState {
    pub(super) transports: Transports,
    segments: Segments,
    /// Lanes that are up, and the race for the connection to which they change.
    pub(super) changes: BTreeMap<LaneKey, RaceId>,
}

/// A lane over TCP that this site has dialled.
struct OverTcp {
    key: LaneKey,
    remote: SocketAddr,
    max_segment: Option<u16>,
}

impl Daemon {
    /// The bound on the segments of lanes over TCP on a path.
    pub(super) fn segment_bound(&self, path: PathKey) -> Option<u16> {
        self.auto.segments.bound(path)
    }

    /// A connection that this site dialled is the lane now: what follows for the others.
    pub(super) fn lane_dialled(&mut self, key: &LaneKey, purpose: Purpose, won: &Won) {
        let (now, path) = (now(), key.path_key());
        match won.beside {
            Some(beside) => {
                self.auto.changes.insert(key.clone(), beside.race);
            }
            None => {
                self.auto.changes.remove(key);
            }
        }
        if won.candidate.transport == Transport::Quic {
            if self.auto.transports.handle_open(now, path) {
                for lane in self.lanes_over_tcp(path) {
                    if self.may_ride_on_quic(&lane.key) {
                        self.change(&lane.key, Change::ToQuic, lane.remote);
                    }
                }
            }
            return;
        }
        if won.has_quic_failed || purpose == Purpose::Change(Change::ToTcp) {
            self.auto.transports.handle_blocked(now, path);
        }
        let max_segment = won.candidate.max_segment;
        if !self.auto.segments.handle_up(now, path, max_segment) {
            return;
        }
        let path_label = self.path_label(&path);
        if let Some(bytes) = max_segment {
            tracing::warn!(
                "peer {path_label}: long packets do not get through, and nothing says so: segments of lanes have at most {bytes} bytes"
            );
        } else {
            tracing::info!("peer {path_label}: long packets get through again");
        }
        let change = if max_segment.is_some() { Change::Anew } else { Change::Lengthen };
        for lane in self.lanes_over_tcp(path).into_iter().filter(|lane| lane.max_segment != max_segment) {
            self.change(&lane.key, change, lane.remote);
        }
    }

    pub(super) fn change_failed(&mut self, key: &LaneKey, transport: Option<Transport>, reason: &str) {
        self.auto.changes.remove(key);
        tracing::debug!("{}: its connection stays: {reason}", self.label(key));
        if transport == Some(Transport::Quic) && self.is_over(key, Transport::Tcp) {
            self.auto.transports.handle_blocked(now(), key.path_key());
        }
    }

    /// Dials a lane that is up.
    fn change(&mut self, key: &LaneKey, change: Change, remote: SocketAddr) {
        if self.auto.changes.contains_key(key) {
            return;
        }
        let transport = if change == Change::ToQuic { Transport::Quic } else { Transport::Tcp };
        let max_segment = if change == Change::Lengthen { None } else { self.segment_bound(key.path_key()) };
        let candidate = DialCandidate { remote, transport, max_segment };
        let race = self.begin_race(key, Purpose::Change(change), CHANGE_TIMEOUT, vec![candidate]);
        self.auto.changes.insert(key.clone(), race);
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

    /// The lanes on a path that this site dialled over TCP.
    fn lanes_over_tcp(&self, path: PathKey) -> Vec<OverTcp> {
        let lanes = self.life.lanes_on(path).filter_map(|(key, lane)| {
            let State::Up(up) = lane.state else { return None };
            let socket = self.lane_sockets.get(&up.serial)?;
            let (remote, max_segment) = (socket.remote, socket.max_segment);
            (up.dialled && socket.fd.is_some()).then(|| OverTcp { key: key.clone(), remote, max_segment })
        });
        lanes.collect()
    }

    fn may_ride_on_quic(&self, key: &LaneKey) -> bool {
        self.group_config(&key.lane_group).is_some_and(|group| group.transport == Transport::Auto)
    }

    /// The path of a lane over QUIC fails: TCP may still come through.
    pub(super) fn handle_failing(&mut self, serial: Serial, reason: &str) {
        let Some(key) = self.life.key_of(serial).cloned() else { return };
        let Some(remote) = self.lane_sockets.get(&serial).map(|socket| socket.remote) else { return };
        if self.may_ride_on_quic(&key) && !self.auto.changes.contains_key(&key) {
            let line = format!("{}: {reason}; dialling {remote} over TCP", self.label(&key));
            self.log_of_lane(key.peer, Told::Dial, &line);
            self.change(&key, Change::ToTcp, remote);
        }
    }

    /// A lane over TCP delivers nothing: perhaps its long packets do not get through any more, and shorter ones do.
    pub(super) fn handle_stalled(&mut self, serial: Serial) {
        let Some(key) = self.life.key_of(serial).cloned() else { return };
        let Some(remote) = self.lane_sockets.get(&serial).map(|socket| socket.remote) else { return };
        let dialled =
            self.life.lane(&key).is_some_and(|lane| matches!(lane.state, State::Up(up) if up.dialled));
        if dialled && !self.auto.changes.contains_key(&key) {
            tracing::debug!("{}: it delivers nothing: dialling {remote} anew", self.label(&key));
            self.change(&key, Change::Anew, remote);
        }
    }

    /// Until when a connection that has been made waits before its handshake, unless something happens before that.
    pub(super) fn hold_until(&self, dialled: &Dialled) -> Option<Instant> {
        if self.is_second(dialled) {
            return Some(now() + SECOND_HOLD);
        }
        let key = &dialled.key;
        let is_over_tcp = self.is_over(key, Transport::Tcp);
        let is_anew = self.purpose_of(dialled) == Some(Purpose::Change(Change::Anew));
        (is_anew && is_over_tcp && self.max_segment_of(dialled).is_none()).then(|| now() + HOLD)
    }

    /// It works again: a connection over TCP that is not made yet is not needed any more.
    pub(super) fn handle_recovered(&mut self, serial: Serial) {
        let Some(key) = self.life.key_of(serial).cloned() else { return };
        let Some(race) = self.auto.changes.get(&key).copied() else { return };
        if self.is_race_over(race, Transport::Tcp) && self.is_connecting(race) {
            self.cancel_race(race);
            self.auto.changes.remove(&key);
        }
    }

    /// Addresses or routes have changed: what is known of the paths is tried again.
    pub(super) fn auto_network_changed(&mut self) {
        let now = now();
        self.auto.transports.handle_network_changed(now);
        self.auto.segments.handle_network_changed(now);
    }

    /// Applies a configuration.
    pub(super) fn apply_auto(&mut self) {
        let peers = &self.config.peers;
        let is_path = |path: &PathKey| peers.iter().any(|peer| peer.public_key == path.peer);
        self.auto.transports.retain(is_path);
        self.auto.segments.retain(is_path);
    }

    /// Dials what is due. The time of the next.
    pub(super) fn handle_auto_deadlines(&mut self, now: Instant) -> Option<Instant> {
        while let Some(path) = self.auto.transports.poll_retry(now) {
            let mut lanes = self.lanes_over_tcp(path).into_iter();
            match lanes.find(|lane| self.may_ride_on_quic(&lane.key)) {
                Some(lane) => self.change(&lane.key, Change::ToQuic, lane.remote),
                None => self.auto.transports.forget(&path),
            }
        }
        while let Some(path) = self.auto.segments.poll_retry(now) {
            match self.lanes_over_tcp(path).into_iter().find(|lane| lane.max_segment.is_some()) {
                Some(lane) => self.change(&lane.key, Change::Lengthen, lane.remote),
                None => self.auto.segments.forget(&path),
            }
        }
        let timeout = self.auto.transports.poll_timeout();
        timeout.into_iter().chain(self.auto.segments.poll_timeout()).min()
    }

    /// Refuses a request for a lane that the same peer has just dialled over QUIC: it dials several connections and takes the first
    /// that is welcomed, or the one over QUIC.
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
