//! The lifecycle of peers and lanes: when to dial a lane, which of two connections stays, and how a lane comes back.
//!
//! It has no I/O and no clock. The caller reports events to `handle_*`. [`poll_dial`](Life::poll_dial) and
//! [`poll_verified`](Life::poll_verified) return the actions that are due, [`poll_timeout`](Life::poll_timeout) the next
//! deadline and its reason. `now` and the random seed are arguments. The daemon keeps sockets, names and workers.
//!
//! **Contract.** Call `poll_dial` until it returns `None`, then wait until `poll_timeout`. End each [`Dial`] with exactly
//! one of [`handle_dial_failed`](Life::handle_dial_failed), [`handle_no_address`](Life::handle_no_address) and
//! [`handle_up`](Life::handle_up). Draw one serial for each connection with [`next_serial`](Life::next_serial).
//!
//! **Invariants.**
//! - A lane is in one [`State`]. A lane that is up has one serial, and the index from serials to lanes has exactly these
//!   entries. A connection that replaces another returns the old serial, which the caller must end ([`Installed`]).
//! - A peer has one path or several ([`PathKey`]), each with lanes, dials, back-off and verification of its own.
//! - A waiting lane is in its path's `waiting`. The path is in `due`, at the time when its first lane may be dialled. So a
//!   wake-up costs O(log n) in the number of peers and lanes, however many wait.
//! - Dials are bounded. A failure to connect closes the path to the peer: then one lane at a time probes it, at most once
//!   in the wait of [`backoff`], and at most [`CLOSED_DIALS_PER_SECOND`] times a second over all closed paths. If a
//!   connection is refused, fails or ends soon, its own lane backs off up to [`LANE_MAX_WAIT`], and no event shortens that.
//! - No lane is lost. A lane that is down either waits or has an attempt, and each attempt ends.

mod backoff;
mod dialling;
mod lane;
mod path;
mod peer;
mod race;
mod reload;
mod segments;
#[cfg(test)]
mod tests;
mod transports;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use trunkline_units::{Instant, Rng};

use self::lane::{Decision, on_accept, on_dialled};
use self::peer::Peer;
use crate::keys::PublicKey;

pub(crate) use self::lane::{Attempt, Cause, Lane, LaneKey, PathKey, Serial, State, Up};
pub(crate) use self::race::{CandidateId, DialCandidate, RaceAction, RaceId, Races, Shortens, Won};
pub(crate) use self::segments::Segments;
pub(crate) use self::transports::Transports;
pub(crate) use self::types::{
    Candidate, Declined, Dial, Ended, Failure, Installed, NotInstalled, Request, Retry, Site, Wake, Wanted,
    WantedLaneGroup, WantedPeer,
};

/// The back-off of a lane whose connections fail or end soon.
const LANE_FIRST_WAIT: Duration = Duration::from_millis(200);
const LANE_MAX_WAIT: Duration = Duration::from_secs(5);
/// The uptime from which a lane's back-off starts again.
const BACKOFF_RESET_UPTIME: Duration = Duration::from_secs(5);
/// The delay of the site with the larger key, so that both sites rarely dial at once.
const CROSS_DIAL_DELAY: Duration = Duration::from_millis(300);
/// The maximum rate of dials on closed paths, over all peers.
const CLOSED_DIALS_PER_SECOND: u32 = 100;
/// The minimum time between a failure and the next dial.
const MIN_WAIT: Duration = Duration::from_millis(50);
/// The maximum number of attempts over all peers: each uses a descriptor.
const MAX_ATTEMPTS: usize = 1024;
/// The time that the verification of a peer's lanes takes.
const VERIFY_TIME: Duration = Duration::from_secs(4);
/// The minimum interval between changes of the network that cause dials.
const MIN_NETWORK_CHANGE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct AttemptState {
    key: LaneKey,
    since: Instant,
}

/// The lifecycle of all peers and lanes of a site.
#[derive(Debug)]
pub(crate) struct Life {
    site: Site,
    rng: Rng,
    lane_groups: BTreeMap<Arc<str>, WantedLaneGroup>,
    /// The peers with several paths.
    on_several: BTreeSet<PublicKey>,
    /// One entry for each path to each peer.
    peers: BTreeMap<PathKey, Peer>,
    lanes: BTreeMap<LaneKey, Lane>,
    /// The lanes that are up, by the serials of their connections.
    serials: BTreeMap<Serial, LaneKey>,
    attempts: BTreeMap<Attempt, AttemptState>,
    /// Paths with a lane to dial, and when it may be dialled.
    due: BTreeSet<(Instant, PathKey)>,
    /// The number of paths that are closed.
    closed: u32,
    last_serial: Serial,
    last_attempt: u64,
    network_changed: Option<Instant>,
    /// Paths whose lanes are being verified, with the end of the verification.
    verifying: BTreeSet<(Instant, PathKey)>,
}

impl Life {
    pub(crate) fn new(site: Site) -> Self {
        Life {
            rng: Rng::new(site.seed, "life"),
            site,
            lane_groups: BTreeMap::new(),
            on_several: BTreeSet::new(),
            peers: BTreeMap::new(),
            lanes: BTreeMap::new(),
            serials: BTreeMap::new(),
            attempts: BTreeMap::new(),
            due: BTreeSet::new(),
            closed: 0,
            last_serial: 0,
            last_attempt: 0,
            network_changed: None,
            verifying: BTreeSet::new(),
        }
    }

    // ------------------------------------------------------------ getters

    /// The lanes to a peer, path by path.
    pub(crate) fn lanes_of(&self, peer: PublicKey) -> impl Iterator<Item = (&LaneKey, &Lane)> {
        self.lanes.range(first_lane(peer.into())..).take_while(move |(key, _)| key.peer == peer)
    }

    /// The lanes to a peer on one path.
    pub(crate) fn lanes_on(&self, path: PathKey) -> impl Iterator<Item = (&LaneKey, &Lane)> {
        self.lanes.range(first_lane(path)..).take_while(move |(key, _)| key.path_key() == path)
    }

    /// The lanes that are up.
    pub(crate) fn up(&self) -> impl Iterator<Item = (Serial, &LaneKey)> {
        self.serials.iter().map(|(serial, key)| (*serial, key))
    }

    /// The lane of this connection.
    pub(crate) fn key_of(&self, serial: Serial) -> Option<&LaneKey> {
        self.serials.get(&serial)
    }

    pub(crate) fn lane(&self, key: &LaneKey) -> Option<&Lane> {
        self.lanes.get(key)
    }

    /// The number of lanes of a lane group to a peer on each path, over all shards.
    pub(crate) fn lane_count(&self, peer: PublicKey, lane_group: &str) -> u16 {
        u16::from(self.lanes_in_shard(peer, lane_group)) * self.site.shards
    }

    fn lanes_in_shard(&self, peer: PublicKey, lane_group: &str) -> u8 {
        let lanes = |group: &WantedLaneGroup| {
            if self.on_several.contains(&peer) { group.on_each } else { group.lanes }
        };
        self.lane_groups.get(lane_group).map_or(0, lanes)
    }

    /// The number of a lane on the wire.
    pub(crate) fn number(&self, key: &LaneKey) -> u16 {
        key.number(self.site.shards)
    }

    // ------------------------------------------------------------ actions

    /// Returns a lane to dial now, if one is due.
    pub(crate) fn poll_dial(&mut self, now: Instant) -> Option<Dial> {
        if self.attempts.len() >= MAX_ATTEMPTS {
            return None;
        }
        let (_, peer_key) = *self.due.first().filter(|(at, _)| *at <= now)?;
        let peer = self.peers.get_mut(&peer_key)?;
        let (_, key) = peer.waiting.pop_first()?;
        self.last_attempt += 1;
        let attempt = Attempt(self.last_attempt);
        peer.under_way.insert(attempt);
        peer.connecting.insert(attempt);
        let connect_timeout = peer.connect_timeout();
        if let Some(lane) = self.lanes.get_mut(&key) {
            (lane.state, lane.since) = (State::Dialling { attempt }, now);
        }
        self.attempts.insert(attempt, AttemptState { key: key.clone(), since: now });
        self.schedule(peer_key);
        Some(Dial { attempt, key, connect_timeout })
    }

    /// The time of the next action, and its reason.
    pub(crate) fn poll_timeout(&self) -> Option<(Instant, Wake)> {
        // At the limit of attempts the next dial has to wait for the end of one, which is an event and no timeout.
        let free = self.attempts.len() < MAX_ATTEMPTS;
        let dial = self.due.first().filter(|_| free).map(|(at, _)| (*at, Wake::Dial));
        let verified = self.verifying.first().map(|(at, _)| (*at, Wake::Verified));
        dial.into_iter().chain(verified).min_by_key(|(at, _)| *at)
    }

    /// Returns a path whose verification has ended: its lanes get their usual liveness settings again.
    pub(crate) fn poll_verified(&mut self, now: Instant) -> Option<PathKey> {
        let (_, path) = *self.verifying.first().filter(|(at, _)| *at <= now)?;
        self.verifying.pop_first();
        let state = self.peers.get_mut(&path)?;
        state.verifying = false;
        Some(path)
    }

    /// Draws a serial. Each is unique.
    pub(crate) fn next_serial(&mut self) -> Serial {
        self.last_serial += 1;
        self.last_serial
    }

    // ------------------------------------------------------------ lanes

    /// The lane that a peer requests, or why the site declines the request.
    pub(crate) fn find_lane(&self, now: Instant, request: Request<'_>) -> Result<LaneKey, Declined> {
        if !self.peers.contains_key(&request.peer.into()) {
            return Err(Declined::UnknownPeer);
        }
        let Some((lane_group, _)) = self.lane_groups.get_key_value(request.lane_group) else {
            return Err(Declined::UnknownLaneGroup);
        };
        let lanes = self.lane_count(request.peer, lane_group);
        let shards = self.site.shards;
        let (path, shard, index) = LaneKey::of_number(request.number, shards);
        let key = LaneKey { peer: request.peer, path, lane_group: Arc::clone(lane_group), shard, index };
        if u16::from(index) * shards >= lanes || !self.peers.contains_key(&key.path_key()) {
            return Err(Declined::UnknownNumber { lanes });
        }
        if let Some(lane) = self.lanes.get(&key)
            && let State::Up(up) = &lane.state
        {
            let age = now.saturating_since(lane.since);
            if on_accept(up, age, request.instance, self.site.key < request.peer) == Decision::Keep {
                return Err(Declined::Crossed);
            }
        }
        Ok(key)
    }

    /// A connection has completed its handshake: it becomes the lane, unless the lane no longer exists or another
    /// connection stays.
    pub(crate) fn handle_up(
        &mut self,
        now: Instant,
        candidate: Candidate,
    ) -> Result<Installed, NotInstalled> {
        let Candidate { key, serial, dialled, attempt, instance, encryption } = candidate;
        if let Some(attempt) = attempt {
            self.end_attempt(attempt);
        }
        let result = self.install(now, &key, Up { serial, instance, encryption, dialled });
        if result == Err(NotInstalled::Encryption)
            && let Some(attempt) = attempt
            && self.lanes.get(&key).is_some_and(|lane| lane.state == State::Dialling { attempt })
        {
            self.set_waiting(now, &key, now + MIN_WAIT, Cause::Lane);
        }
        // A peer that has dialled one lane is about to dial the others.
        let delay = if dialled { Duration::ZERO } else { self.cross_dial_delay(key.peer) };
        self.open_path(now, key.path_key(), delay);
        result
    }

    fn install(&mut self, now: Instant, key: &LaneKey, up: Up) -> Result<Installed, NotInstalled> {
        let smaller = self.site.key < key.peer;
        let (Some(lane), Some(peer)) = (self.lanes.get_mut(key), self.peers.get_mut(&key.path_key())) else {
            return Err(NotInstalled::NotConfigured);
        };
        if peer.encryption != up.encryption {
            return Err(NotInstalled::Encryption);
        }
        let mut replaced = None;
        match lane.state {
            State::Up(old) => {
                if up.dialled && on_dialled(&old, up.instance, smaller) == Decision::Keep {
                    return Err(NotInstalled::Crossed);
                }
                self.serials.remove(&old.serial);
                replaced = Some(old.serial);
            }
            State::Waiting { dial_at, .. } => {
                peer.waiting.remove(&(dial_at, key.clone()));
            }
            State::Dialling { .. } => {}
        }
        lane.state = State::Up(up);
        lane.since = now;
        lane.established += 1;
        lane.last_error = None;
        peer.handle_up();
        self.serials.insert(up.serial, key.clone());
        Ok(Installed { replaced })
    }

    /// The connection of a lane has ended. Returns the lane, unless another connection has replaced this one.
    pub(crate) fn handle_ended(&mut self, now: Instant, serial: Serial, reason: &str) -> Option<LaneKey> {
        let key = self.serials.remove(&serial)?;
        let cross_dial_delay = self.cross_dial_delay(key.peer);
        let lane = self.lanes.get_mut(&key)?;
        let was_stable = now.saturating_since(lane.since) > BACKOFF_RESET_UPTIME;
        if was_stable {
            lane.backoff.reset();
        }
        let at = now + lane.backoff.next(&mut self.rng) + cross_dial_delay;
        lane.last_error = Some(reason.to_owned());
        self.set_waiting(now, &key, at, if was_stable { Cause::Path } else { Cause::Lane });
        self.schedule(key.path_key());
        Some(key)
    }

    // ------------------------------------------------------------ verification and identity

    /// The lanes on a path may be dead, since one of them has died or the network has changed. Whether to verify those that
    /// are up: not if a verification is in progress.
    pub(crate) fn handle_suspect(&mut self, now: Instant, path: PathKey) -> bool {
        let Some(state) = self.peers.get_mut(&path).filter(|state| !state.verifying) else { return false };
        state.verifying = true;
        self.verifying.insert((now + VERIFY_TIME, path));
        true
    }

    /// Whether its lanes are verified now.
    pub(crate) fn is_verifying(&self, path: PathKey) -> bool {
        self.peers.get(&path).is_some_and(|state| state.verifying)
    }

    /// This site has another key. The keys decide which connection stays if both sites dial.
    pub(crate) const fn handle_identity(&mut self, key: PublicKey) {
        self.site.key = key;
    }

    // ------------------------------------------------------------ helpers

    fn cross_dial_delay(&self, peer: PublicKey) -> Duration {
        if self.site.key > peer { CROSS_DIAL_DELAY } else { Duration::ZERO }
    }

    fn end_attempt(&mut self, attempt: Attempt) -> Option<AttemptState> {
        let state = self.attempts.remove(&attempt)?;
        if let Some(peer) = self.peers.get_mut(&state.key.path_key()) {
            peer.under_way.remove(&attempt);
            peer.connecting.remove(&attempt);
        }
        Some(state)
    }

    /// Sets a lane to wait. The caller must schedule its peer.
    fn set_waiting(&mut self, now: Instant, key: &LaneKey, dial_at: Instant, cause: Cause) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        (lane.state, lane.since) = (State::Waiting { dial_at, cause }, now);
        if let Some(peer) = self.peers.get_mut(&key.path_key()) {
            peer.waiting.insert((dial_at, key.clone()));
        }
    }

    /// Updates the path's entry in `due`.
    fn schedule(&mut self, key: PathKey) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let due = peer.due();
        if peer.scheduled != due {
            if let Some(at) = peer.scheduled {
                self.due.remove(&(at, key));
            }
            self.due.extend(due.map(|at| (at, key)));
            peer.scheduled = due;
        }
    }
}

/// No lane on a path comes before this.
fn first_lane(path: PathKey) -> LaneKey {
    LaneKey { peer: path.peer, path: path.path, lane_group: "".into(), shard: 0, index: 0 }
}
