//! The life of lanes: dialled, accepted, secured, handed to the workers, broken and dialled again.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll;
use trunkline_units::Instant;

use super::connection::{Connection, Phase, SocketOptions};
use super::half_open::{self, Admission};
use super::lanes::{Decision, Lane, LaneKey, State, Up, on_accept, on_dialled};
use super::{Daemon, DaemonError, Resolved, Source};
use crate::clock::now;
use crate::config::{Host, LaneGroupConfig, PeerConfig};
use crate::handshake::{
    Dialer, Established, Handshake, HandshakeError, Hello, Progress, RefusalReason, VERSION,
};
use crate::keys::PublicKey;
use crate::lane_rx::LaneRx;
use crate::lane_tx::LaneTx;
use crate::plan;
use crate::sys;
use crate::worker::{Command, WorkerEvent};

/// Lanes of one peer that are dialled at one time: below what an acceptor grants one address.
const DIALS_PER_PEER: usize = half_open::PER_ADDRESS / 2;
/// How long a name stays resolved while its addresses do not answer.
const RESOLVE_AGAIN: Duration = Duration::from_secs(30);
/// How long a dial may take, handshake included.
const DIAL_TIME_OUT: Duration = Duration::from_secs(8);
/// A lane that stood for so long has earned a fresh start of its back-off.
const PROVEN: Duration = Duration::from_secs(5);
/// The site with the larger key lets the other dial first, so that both do not dial at once.
const COURTESY: Duration = Duration::from_millis(300);

impl Daemon {
    fn peer_config(&self, key: &PublicKey) -> Option<&PeerConfig> {
        self.config.peers.iter().find(|peer| peer.public_key == *key)
    }

    pub(super) fn group_config(&self, name: &str) -> Option<&LaneGroupConfig> {
        self.config.lane_groups.iter().find(|group| group.name == name)
    }

    /// Lanes of a group to a peer, over all shards.
    fn lanes_of(&self, group: &str) -> u16 {
        self.group_config(group).map_or(0, |group| u16::from(group.count) * self.config.tun.queues)
    }

    /// The shard that a lane belongs to, and its place among the shard's lanes of its group.
    pub(super) fn place(&self, key: &LaneKey) -> (u16, u8) {
        let count = self.group_config(&key.group).map_or(1, |group| u16::from(group.count));
        (key.number / count, (key.number % count) as u8)
    }

    fn lane_index(&self, key: &LaneKey) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.key == *key)
    }

    fn label(&self, key: &LaneKey) -> String {
        let peer = self.peer_config(&key.peer).map_or("?", |peer| peer.name.as_str());
        match self.lanes_of(&key.group) {
            1 => format!("lane {} to {peer}", key.group),
            _ => format!("lane {}/{} to {peer}", key.group, key.number),
        }
    }

    /// Has a lane for every peer, group, shard and place in it, keeping those that stand.
    pub(super) fn follow_lanes(&mut self) {
        let now = now();
        let mut old = std::mem::take(&mut self.lanes);
        let peers = std::mem::take(&mut self.peers);
        self.peers = peers
            .into_iter()
            .filter(|(key, _)| self.config.peers.iter().any(|peer| peer.public_key == *key))
            .collect();
        for peer in &self.config.peers {
            let courtesy = if self.identity.public() > peer.public_key { COURTESY } else { Duration::ZERO };
            let state = self.peers.entry(peer.public_key).or_default();
            // The endpoint may have changed.
            state.resolved_at = None;
            for group in &self.config.lane_groups {
                for number in 0..u16::from(group.count) * self.config.tun.queues {
                    let key = LaneKey { peer: peer.public_key, group: group.name.as_str().into(), number };
                    let lane = match old.iter().position(|lane| lane.key == key) {
                        Some(at) => old.swap_remove(at),
                        None => Lane {
                            key,
                            state: State::Waiting { dial_at: now + courtesy },
                            since: now,
                            backoff: super::backoff::Backoff::default(),
                            established: 0,
                            last_error: None,
                        },
                    };
                    if let State::Up(up) = &lane.state {
                        // A lane that chooses for itself keeps what it has chosen.
                        if !group.adapts_congestion_control() {
                            let _ = sys::set_congestion_control(up.fd.as_fd(), &group.congestion_control);
                        }
                        let _ = sys::set_dscp(up.fd.as_fd(), group.dscp);
                    }
                    self.lanes.push(lane);
                }
            }
        }
        // Lanes made under another encryption end; they come back under the one that now holds.
        let changed: Vec<usize> = (0..self.lanes.len())
            .filter(|index| {
                let lane = &self.lanes[*index];
                let wanted = self.peer_config(&lane.key.peer).map(|peer| peer.encryption);
                matches!(&lane.state, State::Up(up) if Some(up.encryption) != wanted)
            })
            .collect();
        for index in changed {
            self.lane_down(index, "its encryption was changed".to_owned());
        }
    }

    // ------------------------------------------------------------ time

    /// Does what is due and says how long nothing else is.
    pub(super) fn attend_deadlines(&mut self) -> Duration {
        let now = now();
        let expired: Vec<u64> = self
            .sources
            .iter()
            .filter(|(_, source)| match source {
                Source::Connection(connection) => connection.deadline <= now,
                Source::Client(client) => client.deadline <= now,
                _ => false,
            })
            .map(|(token, _)| *token)
            .collect();
        for token in expired {
            if let Some(Source::Connection(connection)) = self.sources.remove(&token) {
                match connection.dialled.clone() {
                    Some(key) => self.dial_failed(&key, "no answer in time".to_owned()),
                    None => self.strangers.timed_out += 1,
                }
            }
        }
        self.dial_due(now);
        let lanes = self.lanes.iter().filter_map(|lane| match lane.state {
            State::Waiting { dial_at } if dial_at > now && self.can_dial(&lane.key.peer) => Some(dial_at),
            _ => None,
        });
        let sources = self.sources.values().filter_map(|source| match source {
            Source::Connection(connection) => Some(connection.deadline),
            Source::Client(client) => Some(client.deadline),
            _ => None,
        });
        let next = lanes.chain(sources).min().map_or(Duration::from_secs(60), |at| at.saturating_since(now));
        let next = next.min(self.workers.next_wake(now).saturating_since(now));
        next.max(Duration::from_millis(1))
    }

    fn can_dial(&self, peer: &PublicKey) -> bool {
        self.peer_config(peer).is_some_and(|peer| peer.endpoint.is_some())
    }

    fn dial_due(&mut self, now: Instant) {
        for index in 0..self.lanes.len() {
            let lane = &self.lanes[index];
            if !matches!(lane.state, State::Waiting { dial_at } if dial_at <= now) {
                continue;
            }
            let key = lane.key.clone();
            let under_way = self
                .lanes
                .iter()
                .filter(|lane| lane.key.peer == key.peer && matches!(lane.state, State::Dialling))
                .count();
            if under_way < DIALS_PER_PEER
                && let Some(address) = self.address_of(&key.peer, now)
            {
                self.lanes[index].state = State::Dialling;
                self.lanes[index].since = now;
                if let Err(reason) = self.dial(&key, address) {
                    self.dial_failed(&key, reason);
                }
            }
        }
    }

    /// An address to dial the peer at; `None` if it is not dialled, or its name is being resolved.
    fn address_of(&mut self, key: &PublicKey, now: Instant) -> Option<SocketAddr> {
        let endpoint = self.peer_config(key)?.endpoint.clone()?;
        let state = self.peers.entry(*key).or_default();
        let host = match endpoint.host {
            Host::Address(address) => return Some(SocketAddr::new(address, endpoint.port)),
            Host::Name(name) => name,
        };
        let stale = state.resolved_at.is_none_or(|at| now.saturating_since(at) > RESOLVE_AGAIN);
        if stale && !state.resolving {
            state.resolving = true;
            let (key, mailbox) = (*key, self.resolved.clone());
            let look_up = move || {
                let addresses = (host.as_str(), endpoint.port)
                    .to_socket_addrs()
                    .map(Iterator::collect)
                    .map_err(|error| format!("cannot resolve {host}: {error}"));
                mailbox.post(Resolved { peer: key, addresses });
            };
            // The system's resolver blocks, so it gets a thread for as long as it takes: one a peer at most.
            if std::thread::Builder::new().name("resolve".to_owned()).spawn(look_up).is_err() {
                state.resolving = false;
            }
        }
        let count = state.addresses.len();
        (count > 0).then(|| {
            state.next = (state.next + 1) % count;
            state.addresses[state.next]
        })
    }

    pub(super) fn take_resolved(&mut self) {
        let now = now();
        for Resolved { peer, addresses } in self.resolved.take() {
            let Some(state) = self.peers.get_mut(&peer) else { continue };
            state.resolving = false;
            match addresses {
                Ok(addresses) if !addresses.is_empty() => {
                    state.addresses = addresses;
                    state.next = state.addresses.len() - 1;
                    state.resolved_at = Some(now);
                }
                Ok(_) => state.resolved_at = Some(now),
                Err(reason) => {
                    state.resolved_at = Some(now - RESOLVE_AGAIN + Duration::from_secs(5));
                    tracing::warn!("{reason}");
                    let waiting: Vec<LaneKey> = self
                        .lanes
                        .iter()
                        .filter(|lane| lane.key.peer == peer && matches!(lane.state, State::Waiting { .. }))
                        .map(|lane| lane.key.clone())
                        .collect();
                    for key in &waiting {
                        self.dial_failed(key, reason.clone());
                    }
                }
            }
        }
    }

    // ------------------------------------------------------------ dialling

    fn dial(&mut self, key: &LaneKey, remote: SocketAddr) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let peer = self.peer_config(&key.peer).ok_or("no such peer")?;
        let group = self.group_config(&key.group).ok_or("no such group of lanes")?;
        let hello = Hello {
            version: VERSION,
            encryption: peer.encryption,
            shard: key.number,
            instance: self.instance,
            class: key.group.to_string(),
        };
        let options = SocketOptions {
            congestion_control: Some(group.usual_congestion_control()),
            dscp: group.dscp,
            mark: self.config.lanes.fwmark,
        };
        let dialer = Dialer::new(&self.identity, key.peer).map_err(|error| text(&error))?;
        let deadline = now() + DIAL_TIME_OUT;
        let connection = Connection::dial((dialer, hello), key.clone(), remote, &options, deadline)
            .map_err(|error| text(&error))?;
        self.add(Source::Connection(Box::new(connection))).map_err(|error| text(&error))?;
        Ok(())
    }

    fn dial_failed(&mut self, key: &LaneKey, reason: String) {
        let Some(index) = self.lane_index(key) else { return };
        if matches!(self.lanes[index].state, State::Up(_)) {
            return;
        }
        let label = self.label(key);
        let lane = &mut self.lanes[index];
        let wait = lane.backoff.next(&mut self.rng);
        if lane.last_error.as_ref() == Some(&reason) {
            tracing::debug!("{label}: {reason}; dialling again in {wait:.1?}");
        } else {
            tracing::warn!("{label}: {reason}; dialling again in {wait:.1?}");
        }
        lane.last_error = Some(reason);
        lane.state = State::Waiting { dial_at: now() + wait };
        lane.since = now();
    }

    // ------------------------------------------------------------ accepting

    pub(super) fn accept(&mut self, listener: &TcpListener) {
        // Bounded, so that a flood of connections leaves time for everything else.
        for _ in 0..64 {
            let (stream, remote) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of descriptors, say: the listener stays readable, so leave it for a moment.
                    tracing::debug!("accept: {error}");
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
            };
            self.strangers.accepted += 1;
            let half_open = self.sources.values().filter_map(|source| match source {
                Source::Connection(connection) => connection.stranger(),
                _ => None,
            });
            match half_open::admit(half_open, remote.ip()) {
                Admission::Refuse => {
                    self.strangers.over_address_limit += 1;
                    continue;
                }
                Admission::EvictOldest => {
                    self.strangers.over_total_limit += 1;
                    // Tokens count up: the first is the oldest.
                    let oldest = self.sources.iter().find_map(|(token, source)| {
                        matches!(source, Source::Connection(c) if c.stranger().is_some()).then_some(*token)
                    });
                    oldest.map(|token| self.sources.remove(&token));
                }
                Admission::Admit => {}
            }
            if let Err(error) = self.start_accepted(stream, remote) {
                tracing::debug!("{remote}: {error}");
            }
        }
    }

    fn start_accepted(&mut self, stream: TcpStream, remote: SocketAddr) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        SocketOptions { congestion_control: None, dscp: 0, mark: self.config.lanes.fwmark }
            .apply(stream.as_fd())?;
        let handshake = self.acceptor.accept(stream).map_err(io::Error::other)?;
        let connection = Connection {
            phase: Phase::Handshake(Box::new(handshake)),
            dialled: None,
            remote,
            deadline: now() + half_open::TIME_OUT,
        };
        self.add(Source::Connection(Box::new(connection)))?;
        Ok(())
    }

    // ------------------------------------------------------------ handshakes

    /// Moves a connection on as far as it goes. Gives it back if it is still under way.
    pub(super) fn advance(&mut self, token: u64, mut connection: Box<Connection>) -> Option<Source> {
        if matches!(connection.phase, Phase::Connecting(..))
            && let Err(reason) = connection.connected()
        {
            if let Some(key) = &connection.dialled {
                self.dial_failed(key, reason);
            }
            return None;
        }
        let Phase::Handshake(handshake) = &mut connection.phase else { return None };
        let flags = loop {
            match handshake.advance() {
                Ok(Progress::WantRead) => break epoll::EventFlags::IN,
                Ok(Progress::WantWrite) => break epoll::EventFlags::OUT,
                Ok(Progress::HelloReceived { hello, peer }) => {
                    if let Err(error) = self.judge(handshake, &hello, peer) {
                        self.handshake_failed(&connection, &error);
                        return None;
                    }
                }
                Ok(Progress::Done(established)) => {
                    // The descriptor lives on in the workers and is no business of this thread any more.
                    let _ = epoll::delete(&self.epoll, &established.stream);
                    let (dialled, remote) = (connection.dialled.take(), connection.remote);
                    self.established(*established, dialled, remote);
                    return None;
                }
                Ok(Progress::Refused) => return None,
                Err(error) => {
                    self.handshake_failed(&connection, &error);
                    return None;
                }
            }
        };
        if let Some(fd) = connection.fd() {
            self.rearm(token, fd, flags);
        }
        Some(Source::Connection(connection))
    }

    fn handshake_failed(&mut self, connection: &Connection, error: &HandshakeError) {
        if let Some(key) = &connection.dialled {
            return self.dial_failed(key, error.to_string());
        }
        match error {
            HandshakeError::UnknownKey { .. } => self.strangers.unknown_key += 1,
            _ => self.strangers.failed += 1,
        }
        let now = now();
        // One line a second is enough to notice, and cannot be made to fill a disk.
        if self.stranger_logged.is_none_or(|at| now.saturating_since(at) > Duration::from_secs(1)) {
            self.stranger_logged = Some(now);
            tracing::warn!("{} did not become a lane: {error}", connection.remote);
        }
    }

    /// Decides on what a peer that dialled asks for.
    fn judge(
        &mut self,
        handshake: &mut Handshake<TcpStream>,
        hello: &Hello,
        peer: PublicKey,
    ) -> Result<(), HandshakeError> {
        let Some(config) = self.peer_config(&peer) else {
            return handshake.refuse(RefusalReason::NotWanted, "no longer configured");
        };
        let encryption = config.encryption;
        if self.group_config(&hello.class).is_none() {
            let known: Vec<&str> = self.config.lane_groups.iter().map(|group| group.name.as_str()).collect();
            let text = format!("{:?} names no lanes here; there are: {}", hello.class, known.join(", "));
            tracing::warn!("{}: {text}", config.name);
            let text: String = text.chars().take(150).collect();
            return handshake.refuse(RefusalReason::UnknownClass, &text);
        }
        let lanes = self.lanes_of(&hello.class);
        if hello.shard >= lanes {
            let queues = self.config.tun.queues;
            let text = format!("tun.queues is {queues} here, and {} has {lanes} lanes in all", hello.class);
            tracing::warn!("{}: it asks for lane {} of {}; {text}", config.name, hello.shard, hello.class);
            return handshake.refuse(RefusalReason::UnknownShard, &text);
        }
        let key = LaneKey { peer, group: hello.class.as_str().into(), number: hello.shard };
        if let Some(index) = self.lane_index(&key)
            && let State::Up(up) = &self.lanes[index].state
        {
            let age = now().saturating_since(self.lanes[index].since);
            let smaller = self.identity.public() < peer;
            if on_accept(up, age, hello.instance, smaller) == Decision::Keep {
                return handshake
                    .refuse(RefusalReason::NotWanted, "both sites dialled; the other connection stays");
            }
        }
        handshake.welcome(self.instance, encryption)
    }

    /// Hands a lane that stands to the workers.
    fn established(&mut self, made: Established<TcpStream>, dialled: Option<LaneKey>, remote: SocketAddr) {
        let we_dialled = dialled.is_some();
        let key = dialled.unwrap_or_else(|| {
            let Hello { class, shard, .. } = &made.hello;
            LaneKey { peer: made.peer, group: class.as_str().into(), number: *shard }
        });
        // A reload may have taken it away meanwhile.
        let Some(index) = self.lane_index(&key) else { return };
        let Some(group) = self.group_config(&key.group).cloned() else { return };
        if we_dialled
            && let State::Up(up) = &self.lanes[index].state
            && on_dialled(up, made.hello.instance, self.identity.public() < key.peer) == Decision::Keep
        {
            return;
        }
        let Some(encryption) = self.peer_config(&key.peer).map(|peer| peer.encryption) else { return };
        if made.keys.is_some() != (encryption == crate::config::Encryption::Tls) {
            // A reload changed it while hands were shaken: let it be made anew.
            return self.dial_failed(&key, "its encryption was changed".to_owned());
        }
        self.retire_up(index);
        let serial = self.next_serial;
        self.next_serial += 1;
        let fd = Arc::new(OwnedFd::from(made.stream));
        let (sealer, opener) = match made.keys {
            Some(keys) => (Some(keys.sealer), Some(keys.opener)),
            None => (None, None),
        };
        let receiving = match sys::set_congestion_control(fd.as_fd(), group.usual_congestion_control())
            .and_then(|()| sys::set_dscp(fd.as_fd(), group.dscp))
            .and_then(|()| LaneRx::new(serial, Arc::clone(&fd), opener))
        {
            Ok(receiving) => Box::new(receiving),
            Err(error) => return self.dial_failed(&key, error.to_string()),
        };
        let compression = plan::compression(&self.config, &group.name);
        let mut sending = Box::new(LaneTx::new(serial, Arc::clone(&fd), sealer, compression));
        if group.adapts_congestion_control() {
            sending.adapt_congestion_control();
        }
        let (shard, number) = self.place(&key);
        let shard = &self.workers.shards[usize::from(shard)];
        let group = Arc::clone(&key.group);
        shard.commands.post(Command::LaneUp { peer: key.peer, group, number, sending, receiving });
        let how = if we_dialled { "dialled" } else { "accepted from" };
        tracing::info!("{}: up, {how} {remote}", self.label(&key));
        let lane = &mut self.lanes[index];
        lane.established += 1;
        lane.since = now();
        lane.last_error = None;
        lane.state = State::Up(Up {
            serial,
            fd,
            remote: Some(remote),
            instance: made.hello.instance,
            dialled: we_dialled,
            encryption,
        });
    }

    /// Ends the lane that stands at `index`, if one does, in the workers.
    fn retire_up(&mut self, index: usize) {
        let lane = &self.lanes[index];
        if let State::Up(up) = &lane.state {
            let (shard, _) = self.place(&lane.key);
            self.workers.shards[usize::from(shard)].commands.post(Command::LaneDown { serial: up.serial });
        }
    }

    fn lane_down(&mut self, index: usize, reason: String) {
        self.retire_up(index);
        let now = now();
        let label = self.label(&self.lanes[index].key);
        let courtesy =
            if self.identity.public() > self.lanes[index].key.peer { COURTESY } else { Duration::ZERO };
        let lane = &mut self.lanes[index];
        if now.saturating_since(lane.since) > PROVEN {
            lane.backoff.reset();
        }
        let wait = lane.backoff.next(&mut self.rng) + courtesy;
        tracing::warn!("{label}: down: {reason}");
        lane.last_error = Some(reason);
        lane.state = State::Waiting { dial_at: now + wait };
        lane.since = now;
    }

    pub(super) fn worker_events(&mut self) {
        for event in self.workers.events.take() {
            match event {
                WorkerEvent::LaneEnded { serial, reason, clean } => {
                    let standing = self
                        .lanes
                        .iter()
                        .position(|lane| matches!(&lane.state, State::Up(up) if up.serial == serial));
                    let Some(index) = standing else { continue };
                    let reason =
                        if clean { reason } else { format!("{reason} (what was under way is lost)") };
                    self.lane_down(index, reason);
                }
                WorkerEvent::Ended { shard, reason } => {
                    self.failed = Some(DaemonError::Worker { shard, reason });
                    self.stopping = true;
                }
            }
        }
    }
}
