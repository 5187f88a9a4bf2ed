//! The life of peers and lanes: when a lane is dialled, which connection stays, what follows when it ends.
//!
//! No I/O, no clock: `handle_*` says what happened, [`poll_dial`](Life::poll_dial) what to do next,
//! [`poll_timeout`](Life::poll_timeout) when to ask again and why. `now` and the seed of all chance are arguments. The
//! daemon keeps sockets, names and workers.
//!
//! **Contract.** Call `poll_dial` until it has nothing, then wait until `poll_timeout`. Each [`Dial`] ends with exactly
//! one of [`handle_dial_failed`](Life::handle_dial_failed) and [`handle_up`](Life::handle_up). A serial is drawn by
//! [`next_serial`](Life::next_serial) for each connection and never again.
//!
//! **Why it is sound.**
//! - A lane is in one [`State`]; one that is up has one serial, and the index from serials to lanes has that entry and no
//!   other. Whoever takes its place gets the old serial back and must end it ([`Placed`]).
//! - A lane that waits is in its peer's `waiting`, and the peer in `due` at the time of its first lane that may be dialled.
//!   So a wake-up costs O(log n) in the peers and lanes there are, whatever the number that wait.
//! - Nothing spins. A connection that cannot be made closes the path: then one lane of the peer is dialled at a time, at
//!   most once in [`backoff`]'s wait, and over all closed paths [`CLOSED_DIALS_PER_SECOND`]. A connection that is made and
//!   is refused, fails or ends soon makes its own lane wait, up to [`LANE_MAX_WAIT`], and no sign of the peer shortens
//!   that.
//! - Nothing is forgotten. A lane that is not up either waits or has an attempt, and each attempt ends.

mod backoff;
mod lane;
mod peer;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use trunkline_units::{Instant, Rng};

use self::lane::{Decision, on_accept, on_dialled};
use self::peer::{Path, Peer};
use crate::encryption::Encryption;
use crate::keys::PublicKey;

pub(crate) use self::lane::{Attempt, Cause, Lane, LaneKey, Serial, State, Up};

/// The waits of a lane whose connections do not become lanes.
const LANE_FIRST_WAIT: Duration = Duration::from_millis(200);
const LANE_MAX_WAIT: Duration = Duration::from_secs(5);
/// An uptime that resets the back-off.
const PROVEN: Duration = Duration::from_secs(5);
/// The site with the larger key lets the other dial first, so that both do not dial at once.
const COURTESY: Duration = Duration::from_millis(300);
/// Dials to peers whose paths are closed, over all peers.
const CLOSED_DIALS_PER_SECOND: u32 = 100;
/// No two attempts follow each other sooner.
const MIN_WAIT: Duration = Duration::from_millis(50);
/// Attempts under way over all peers: each is a descriptor.
const MAX_UNDER_WAY: usize = 1024;
/// How long the verification of a peer's lanes takes.
const VERIFY_TIME: Duration = Duration::from_secs(4);
/// Changes of the network that are acted on follow each other no sooner.
const NETWORK_CHANGES: Duration = Duration::from_secs(1);

/// What the life of lanes goes by beside the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site {
    pub(crate) key: PublicKey,
    /// Workers, each with a set of lanes of its own.
    pub(crate) shards: u16,
    /// Of all chance.
    pub(crate) seed: u64,
}

/// What the configuration asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) peers: Vec<WantedPeer>,
    pub(crate) lane_groups: Vec<WantedLaneGroup>,
}

/// A peer to have lanes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedPeer {
    pub(crate) key: PublicKey,
    /// What it is dialled at; `None` if it is waited for.
    pub(crate) endpoint: Option<Arc<str>>,
    pub(crate) encryption: Encryption,
}

/// A lane group to have to each peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedLaneGroup {
    pub(crate) name: Arc<str>,
    /// Lanes in each shard.
    pub(crate) lanes: u8,
}

/// A lane to dial now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dial {
    pub(crate) attempt: Attempt,
    pub(crate) key: LaneKey,
    /// How long it may take to connect, without the handshake.
    pub(crate) patience: Duration,
}

/// Why to ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// A lane is due to be dialled.
    Dial,
    /// The lanes to a peer have been verified.
    Verified,
}

/// Whose fault it is that a dial failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection: it holds for all lanes of the peer.
    Path,
    /// The connection did not become this lane.
    Lane,
}

/// What became of a failed dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retry {
    /// When something of this peer is dialled again.
    pub(crate) wait: Duration,
    /// Whether the reason has not been reported since a lane of the peer last came up.
    pub(crate) news: bool,
}

/// A lane that a peer asks for, by the words of the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) peer: PublicKey,
    pub(crate) lane_group: &'a str,
    pub(crate) number: u16,
    /// The peer's instance.
    pub(crate) instance: u64,
}

/// Why a peer does not get the lane it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Declined {
    UnknownPeer,
    UnknownLaneGroup,
    /// There are so many in all shards.
    UnknownNumber {
        lanes: u16,
    },
    /// Both sites dialled; the other connection stays.
    Crossed,
}

/// A connection that is about to become a lane.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) key: LaneKey,
    /// Drawn for it.
    pub(crate) serial: Serial,
    /// The dial it comes from; `None` if the peer dialled.
    pub(crate) attempt: Option<Attempt>,
    /// The peer's instance.
    pub(crate) instance: u64,
    /// What protects it.
    pub(crate) encryption: Encryption,
}

/// The lane is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) struct Placed {
    /// The connection that was there before: to be ended first.
    pub(crate) replaced: Option<Serial>,
}

/// Why a connection does not become a lane after all: to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotPlaced {
    /// A reload took the lane away meanwhile.
    NotConfigured,
    /// A reload changed its encryption meanwhile.
    Encryption,
    /// Both sites dialled; the other connection stays.
    Crossed,
}

/// A lane that a reload ended: its connection is to be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) key: LaneKey,
    pub(crate) serial: Serial,
    pub(crate) reason: &'static str,
}

#[derive(Debug)]
struct UnderWay {
    key: LaneKey,
    since: Instant,
}

/// The life of all peers and lanes of a site.
#[derive(Debug)]
pub(crate) struct Life {
    site: Site,
    rng: Rng,
    lane_groups: BTreeMap<Arc<str>, u8>,
    peers: BTreeMap<PublicKey, Peer>,
    lanes: BTreeMap<LaneKey, Lane>,
    /// The lanes that are up.
    serials: BTreeMap<Serial, LaneKey>,
    attempts: BTreeMap<Attempt, UnderWay>,
    /// Peers with a lane that may be dialled, by when.
    due: BTreeSet<(Instant, PublicKey)>,
    /// Peers that are dialled and whose path is closed.
    closed: u32,
    last_serial: Serial,
    last_attempt: u64,
    network_changed: Option<Instant>,
    /// Peers whose lanes are being verified, and until when.
    verifying: BTreeSet<(Instant, PublicKey)>,
}

impl Life {
    pub(crate) fn new(site: Site) -> Self {
        Life {
            rng: Rng::new(site.seed, "life"),
            site,
            lane_groups: BTreeMap::new(),
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

    /// The lanes to a peer.
    pub(crate) fn lanes_of(&self, peer: PublicKey) -> impl Iterator<Item = (&LaneKey, &Lane)> {
        let first = LaneKey { peer, lane_group: "".into(), shard: 0, place: 0 };
        self.lanes.range(first..).take_while(move |(key, _)| key.peer == peer)
    }

    /// The lanes that are up.
    pub(crate) fn up(&self) -> impl Iterator<Item = (Serial, &LaneKey)> {
        self.serials.iter().map(|(serial, key)| (*serial, key))
    }

    /// The lane that this connection is.
    #[cfg(test)]
    pub(crate) fn key_of(&self, serial: Serial) -> Option<&LaneKey> {
        self.serials.get(&serial)
    }

    /// Lanes of a lane group to a peer, over all shards.
    pub(crate) fn lane_count(&self, lane_group: &str) -> u16 {
        self.lane_groups.get(lane_group).map_or(0, |lanes| u16::from(*lanes) * self.site.shards)
    }

    /// The number by which the two sites name a lane.
    pub(crate) fn number(&self, key: &LaneKey) -> u16 {
        key.number(self.site.shards)
    }

    // ------------------------------------------------------------ what to do

    /// A lane to dial now, if one is due.
    pub(crate) fn poll_dial(&mut self, now: Instant) -> Option<Dial> {
        if self.attempts.len() >= MAX_UNDER_WAY {
            return None;
        }
        let (_, peer_key) = *self.due.first().filter(|(at, _)| *at <= now)?;
        let peer = self.peers.get_mut(&peer_key)?;
        let (_, key) = peer.waiting.pop_first()?;
        self.last_attempt += 1;
        let attempt = Attempt(self.last_attempt);
        peer.under_way.insert(attempt);
        peer.connecting.insert(attempt);
        let patience = peer.patience();
        if let Some(lane) = self.lanes.get_mut(&key) {
            (lane.state, lane.since) = (State::Dialling { attempt }, now);
        }
        self.attempts.insert(attempt, UnderWay { key: key.clone(), since: now });
        self.schedule(peer_key);
        Some(Dial { attempt, key, patience })
    }

    /// When to ask again, and for what.
    pub(crate) fn poll_timeout(&self) -> Option<(Instant, Wake)> {
        // With as many attempts under way as may be, the end of one comes first.
        let free = self.attempts.len() < MAX_UNDER_WAY;
        let dial = self.due.first().filter(|_| free).map(|(at, _)| (*at, Wake::Dial));
        let verified = self.verifying.first().map(|(at, _)| (*at, Wake::Verified));
        dial.into_iter().chain(verified).min_by_key(|(at, _)| *at)
    }

    /// A peer whose lanes have been verified: those that are up are to be treated as always again.
    pub(crate) fn poll_verified(&mut self, now: Instant) -> Option<PublicKey> {
        let (_, peer) = *self.verifying.first().filter(|(at, _)| *at <= now)?;
        self.verifying.pop_first();
        let peer_state = self.peers.get_mut(&peer)?;
        peer_state.verifying = false;
        Some(peer)
    }

    /// A serial that no connection had and none will have.
    pub(crate) fn next_serial(&mut self) -> Serial {
        self.last_serial += 1;
        self.last_serial
    }

    // ------------------------------------------------------------ dialling

    /// The dial has a connection, though no lane yet: the path to the peer is open, and what waits for it is due.
    pub(crate) fn handle_connected(&mut self, now: Instant, attempt: Attempt) {
        if let Some(key) = self.attempts.get(&attempt).map(|under_way| under_way.key.peer) {
            if let Some(peer) = self.peers.get_mut(&key) {
                peer.connecting.remove(&attempt);
            }
            self.open(now, key, Duration::ZERO);
        }
    }

    /// The dial failed. `None` if that changes nothing, as when the lane is up by the other site's dial.
    pub(crate) fn handle_dial_failed(
        &mut self,
        now: Instant,
        attempt: Attempt,
        failure: Failure,
        reason: &str,
    ) -> Option<Retry> {
        let UnderWay { key, since } = self.end_attempt(attempt)?;
        let current = self.lanes.get(&key).is_some_and(|lane| lane.state == State::Dialling { attempt });
        let retry = current.then(|| {
            let at = match failure {
                Failure::Path => self.close(now, key.peer, since),
                Failure::Lane => {
                    let lane = self.lanes.get_mut(&key)?;
                    Some(now + lane.backoff.next(&mut self.rng))
                }
            }?;
            let cause = match failure {
                Failure::Path => Cause::Path,
                Failure::Lane => Cause::Lane,
            };
            self.wait(now, &key, at, cause);
            self.lanes.get_mut(&key)?.last_error = Some(reason.to_owned());
            let news = self.peers.get_mut(&key.peer)?.report(reason);
            Some(Retry { wait: at.saturating_since(now), news })
        });
        self.schedule(key.peer);
        retry.flatten()
    }

    /// There is no address to dial yet: the name is being resolved.
    pub(crate) fn handle_no_address(&mut self, now: Instant, attempt: Attempt) {
        let Some(UnderWay { key, since }) = self.end_attempt(attempt) else { return };
        if self.lanes.get(&key).is_some_and(|lane| lane.state == State::Dialling { attempt }) {
            // Asked again then even if no answer is ever heard of.
            let at = self.close(now, key.peer, since).unwrap_or(now) + Duration::from_secs(1);
            if let Some(peer) = self.peers.get_mut(&key.peer) {
                peer.scout_at = at;
            }
            self.wait(now, &key, now, Cause::Path);
        }
        self.schedule(key.peer);
    }

    /// The peer's name has addresses.
    pub(crate) fn handle_resolved(&mut self, now: Instant, peer: PublicKey) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.scout_at = now;
            self.schedule(peer);
        }
    }

    /// The peer's name cannot be resolved. Whether that has not been reported since a lane of the peer last came up.
    pub(crate) fn handle_unresolved(&mut self, peer: PublicKey, reason: &str) -> bool {
        let first = LaneKey { peer, lane_group: "".into(), shard: 0, place: 0 };
        for (_, lane) in self.lanes.range_mut(first..).take_while(|(key, _)| key.peer == peer) {
            if matches!(lane.state, State::Waiting { .. }) {
                lane.last_error = Some(reason.to_owned());
            }
        }
        self.peers.get_mut(&peer).is_some_and(|peer| peer.report(reason))
    }

    // ------------------------------------------------------------ lanes

    /// Which lane a peer that dialled asks for, or why it does not get it.
    pub(crate) fn judge(&self, now: Instant, request: Request<'_>) -> Result<LaneKey, Declined> {
        if !self.peers.contains_key(&request.peer) {
            return Err(Declined::UnknownPeer);
        }
        let Some((lane_group, _)) = self.lane_groups.get_key_value(request.lane_group) else {
            return Err(Declined::UnknownLaneGroup);
        };
        let lanes = self.lane_count(lane_group);
        if request.number >= lanes {
            return Err(Declined::UnknownNumber { lanes });
        }
        let shards = self.site.shards;
        let (shard, place) = (request.number % shards, (request.number / shards) as u8);
        let key = LaneKey { peer: request.peer, lane_group: Arc::clone(lane_group), shard, place };
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

    /// A connection has become a lane: it takes the lane's place, unless it is not wanted any more.
    pub(crate) fn handle_up(&mut self, now: Instant, made: Made) -> Result<Placed, NotPlaced> {
        let Made { key, serial, attempt, instance, encryption } = made;
        if let Some(attempt) = attempt {
            self.end_attempt(attempt);
        }
        let result = self.place(now, &key, Up { serial, instance, encryption, dialled: attempt.is_some() });
        if result == Err(NotPlaced::Encryption)
            && let Some(attempt) = attempt
            && self.lanes.get(&key).is_some_and(|lane| lane.state == State::Dialling { attempt })
        {
            self.wait(now, &key, now + MIN_WAIT, Cause::Lane);
        }
        let patience = if attempt.is_some() { Duration::ZERO } else { self.courtesy(key.peer) };
        self.open(now, key.peer, patience);
        result
    }

    fn place(&mut self, now: Instant, key: &LaneKey, up: Up) -> Result<Placed, NotPlaced> {
        let smaller = self.site.key < key.peer;
        let (Some(lane), Some(peer)) = (self.lanes.get_mut(key), self.peers.get_mut(&key.peer)) else {
            return Err(NotPlaced::NotConfigured);
        };
        if peer.encryption != up.encryption {
            return Err(NotPlaced::Encryption);
        }
        let mut replaced = None;
        match lane.state {
            State::Up(old) => {
                if up.dialled && on_dialled(&old, up.instance, smaller) == Decision::Keep {
                    return Err(NotPlaced::Crossed);
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
        peer.recovered();
        self.serials.insert(up.serial, key.clone());
        Ok(Placed { replaced })
    }

    /// A connection that was a lane has ended. Which lane, unless another connection has its place already.
    pub(crate) fn handle_ended(&mut self, now: Instant, serial: Serial, reason: &str) -> Option<LaneKey> {
        let key = self.serials.remove(&serial)?;
        let courtesy = self.courtesy(key.peer);
        let lane = self.lanes.get_mut(&key)?;
        let proven = now.saturating_since(lane.since) > PROVEN;
        if proven {
            lane.backoff.reset();
        }
        let at = now + lane.backoff.next(&mut self.rng) + courtesy;
        lane.last_error = Some(reason.to_owned());
        self.wait(now, &key, at, if proven { Cause::Path } else { Cause::Lane });
        self.schedule(key.peer);
        Some(key)
    }

    // ------------------------------------------------------------ configuration and network

    /// Has a lane for every peer, lane group, shard and place, keeping those that are up. Those that are to be closed.
    pub(crate) fn reload(&mut self, now: Instant, wanted: &Wanted) -> Vec<Ended> {
        let mut ended = Vec::new();
        self.lane_groups =
            wanted.lane_groups.iter().map(|group| (Arc::clone(&group.name), group.lanes)).collect();
        let peers: BTreeMap<PublicKey, &WantedPeer> =
            wanted.peers.iter().map(|peer| (peer.key, peer)).collect();
        let gone: Vec<LaneKey> = self
            .lanes
            .keys()
            .filter(|key| {
                let lanes = self.lane_groups.get(&key.lane_group).copied().unwrap_or(0);
                !peers.contains_key(&key.peer) || key.place >= lanes
            })
            .cloned()
            .collect();
        for key in gone {
            let Some(lane) = self.lanes.remove(&key) else { continue };
            match lane.state {
                State::Up(up) => {
                    self.serials.remove(&up.serial);
                    ended.push(Ended { key, serial: up.serial, reason: "no longer configured" });
                }
                State::Waiting { dial_at, .. } => {
                    if let Some(peer) = self.peers.get_mut(&key.peer) {
                        peer.waiting.remove(&(dial_at, key));
                    }
                }
                State::Dialling { .. } => {}
            }
        }
        self.peers.retain(|key, _| peers.contains_key(key));
        self.due.retain(|(_, key)| peers.contains_key(key));
        self.verifying.retain(|(_, key)| peers.contains_key(key));
        for (key, wanted) in &peers {
            self.follow_peer(now, *key, wanted, &mut ended);
        }
        self.count_closed();
        ended
    }

    fn follow_peer(
        &mut self,
        now: Instant,
        peer_key: PublicKey,
        wanted: &WantedPeer,
        ended: &mut Vec<Ended>,
    ) {
        let new = || Peer::new(wanted.endpoint.clone(), wanted.encryption);
        let peer = self.peers.entry(peer_key).or_insert_with(new);
        if peer.endpoint != wanted.endpoint {
            peer.endpoint.clone_from(&wanted.endpoint);
            peer.scout_at = now;
            peer.backoff.reset();
        }
        let changed = peer.encryption != wanted.encryption;
        peer.encryption = wanted.encryption;
        let dial_at = now + self.courtesy(peer_key);
        let groups: Vec<(Arc<str>, u8)> =
            self.lane_groups.iter().map(|(name, lanes)| (Arc::clone(name), *lanes)).collect();
        for (group, lanes) in groups {
            for (shard, place) in
                (0..self.site.shards).flat_map(|shard| (0..lanes).map(move |place| (shard, place)))
            {
                let key = LaneKey { peer: peer_key, lane_group: Arc::clone(&group), shard, place };
                match self.lanes.get(&key).map(|lane| lane.state) {
                    None => {
                        self.lanes.insert(key.clone(), Lane::new(now));
                        self.wait(now, &key, dial_at, Cause::Path);
                    }
                    // It comes back under the encryption that now holds.
                    Some(State::Up(up)) if changed => {
                        let reason = "its encryption was changed";
                        self.handle_ended(now, up.serial, reason);
                        ended.push(Ended { key, serial: up.serial, reason });
                    }
                    Some(_) => {}
                }
            }
        }
        self.schedule(peer_key);
    }

    /// The lanes to a peer may be dead, since one of them was found so or the network changed. Whether to verify those
    /// that are up: not while that is being done.
    pub(crate) fn handle_doubt(&mut self, now: Instant, peer: PublicKey) -> bool {
        let Some(state) = self.peers.get_mut(&peer).filter(|peer| !peer.verifying) else { return false };
        state.verifying = true;
        self.verifying.insert((now + VERIFY_TIME, peer));
        true
    }

    /// This site has another key, which decides who gives way where both dial.
    pub(crate) const fn handle_identity(&mut self, key: PublicKey) {
        self.site.key = key;
    }

    /// Addresses or routes of this machine have changed: paths that were closed may be open now.
    pub(crate) fn handle_network_changed(&mut self, now: Instant) {
        if self.network_changed.is_some_and(|at| now.saturating_since(at) < NETWORK_CHANGES) {
            return;
        }
        self.network_changed = Some(now);
        let closed: Vec<PublicKey> =
            self.peers.iter().filter(|(_, peer)| peer.path == Path::Closed).map(|(key, _)| *key).collect();
        // Not all at once where there are many.
        for (place, key) in closed.into_iter().enumerate() {
            let at = now + Duration::from_secs(1) * place as u32 / CLOSED_DIALS_PER_SECOND;
            if let Some(peer) = self.peers.get_mut(&key) {
                peer.scout_at = peer.scout_at.min(at);
                peer.backoff.reset();
            }
            self.schedule(key);
        }
    }

    // ------------------------------------------------------------ helpers

    fn courtesy(&self, peer: PublicKey) -> Duration {
        if self.site.key > peer { COURTESY } else { Duration::ZERO }
    }

    fn end_attempt(&mut self, attempt: Attempt) -> Option<UnderWay> {
        let under_way = self.attempts.remove(&attempt)?;
        if let Some(peer) = self.peers.get_mut(&under_way.key.peer) {
            peer.under_way.remove(&attempt);
            peer.connecting.remove(&attempt);
        }
        Some(under_way)
    }

    /// Makes a lane wait. The caller schedules its peer.
    fn wait(&mut self, now: Instant, key: &LaneKey, dial_at: Instant, cause: Cause) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        (lane.state, lane.since) = (State::Waiting { dial_at, cause }, now);
        if let Some(peer) = self.peers.get_mut(&key.peer) {
            peer.waiting.insert((dial_at, key.clone()));
        }
    }

    /// Takes note that no connection to the peer can be made, as an attempt begun at `since` found. When the next scout
    /// goes.
    fn close(&mut self, now: Instant, peer: PublicKey, since: Instant) -> Option<Instant> {
        let peer = self.peers.get_mut(&peer)?;
        if peer.path == Path::Open {
            peer.path = Path::Closed;
            self.closed += 1;
        } else if peer.scout_at > now {
            // One of several that were under way when the path was found closed.
            return Some(peer.scout_at);
        }
        let crowd = Duration::from_secs(1) * self.closed / CLOSED_DIALS_PER_SECOND;
        let wait = peer.backoff.next(&mut self.rng).max(crowd.mul_f64(1.0 + self.rng.uniform() / 2.0));
        // What the attempt itself took counts: its SYNs went out meanwhile.
        peer.scout_at = (since + wait).max(now + MIN_WAIT);
        Some(peer.scout_at)
    }

    /// Takes note that connections to the peer can be made: what waits for its path is due after `patience`.
    fn open(&mut self, now: Instant, peer_key: PublicKey, patience: Duration) {
        let Some(peer) = self.peers.get_mut(&peer_key) else { return };
        if peer.path == Path::Closed {
            peer.path = Path::Open;
            self.closed = self.closed.saturating_sub(1);
            let at = now + patience;
            let late: Vec<(Instant, LaneKey)> =
                peer.waiting.iter().filter(|(dial_at, _)| *dial_at > at).cloned().collect();
            for (dial_at, key) in late {
                let Some(lane) = self.lanes.get_mut(&key) else { continue };
                if matches!(lane.state, State::Waiting { cause: Cause::Path, .. }) {
                    lane.state = State::Waiting { dial_at: at, cause: Cause::Path };
                    peer.waiting.remove(&(dial_at, key.clone()));
                    peer.waiting.insert((at, key));
                }
            }
        }
        self.schedule(peer_key);
    }

    fn count_closed(&mut self) {
        self.closed = self.peers.values().filter(|peer| peer.path == Path::Closed).count() as u32;
    }

    /// Puts the peer where it belongs among those that are due.
    fn schedule(&mut self, key: PublicKey) {
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
