//! The lanes' connections: dialled, accepted, secured, handed to the workers. When and which is [`crate::life::Life`]'s to say.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll;
use trunkline_trunk::compress::Compressor;
use trunkline_units::Instant;

use super::connection::{Connection, Dialled, Liveness, Phase, SocketOptions};
use super::half_open::{self, Evicted, Reason};
use super::names::{News, Target};
use super::rejections::Outcome;
use super::resolver::Answered;
use super::{Daemon, DaemonError, LaneSocket, Source};
use crate::clock::now;
use crate::config::{Encryption, Host, LaneGroupConfig, PeerConfig, Zone};
use crate::handshake::{
    Acceptor, Dialer, Established, Handshake, HandshakeError, Hello, Identity, Progress, RefusalReason,
    VERSION,
};
use crate::keys::PublicKey;
use crate::lane_rx::LaneRx;
use crate::lane_tx::LaneTx;
use crate::life::{
    Candidate, Declined, Dial, Failure, Installed, LaneKey, Request, Serial, State, Wanted, WantedLaneGroup,
    WantedPeer,
};
use crate::plan;
use crate::record::SessionKeys;
use crate::sys;
use crate::worker::{Command, NewLane, WorkerEvent};

/// How long the handshake of a dial may take.
const HANDSHAKE_TIME_OUT: Duration = Duration::from_secs(8);
/// Lines about one peer's requests for lanes that do not exist here follow each other no sooner.
const COMPLAINTS: Duration = Duration::from_secs(60);
/// Lines about connections that cannot be accepted follow each other no sooner.
const ACCEPT_FAILURES: Duration = Duration::from_secs(10);

impl Daemon {
    fn peer_config(&self, key: &PublicKey) -> Option<&PeerConfig> {
        self.config.peers.iter().find(|peer| peer.public_key == *key)
    }

    fn peer_name(&self, key: &PublicKey) -> &str {
        self.peer_config(key).map_or("?", |peer| peer.name.as_str())
    }

    pub(super) fn group_config(&self, name: &str) -> Option<&LaneGroupConfig> {
        self.config.lane_groups.iter().find(|group| group.name == name)
    }

    /// The lane as the log names it among those of its peer.
    fn lane_name(&self, key: &LaneKey) -> String {
        match self.life.lane_count(&key.lane_group) {
            1 => key.lane_group.to_string(),
            _ => format!("{}/{}", key.lane_group, self.life.number(key)),
        }
    }

    fn label(&self, key: &LaneKey) -> String {
        format!("lane {} to {}", self.lane_name(key), self.peer_name(&key.peer))
    }

    /// Has a lane for every peer, lane group, shard and place in it, keeping those that are up.
    pub(super) fn follow_lanes(&mut self) {
        let wanted = Wanted {
            peers: self.config.peers.iter().map(wanted_peer).collect(),
            lane_groups: self
                .config
                .lane_groups
                .iter()
                .map(|group| WantedLaneGroup { name: group.name.as_str().into(), lanes: group.count })
                .collect(),
        };
        let configured = |key: &PublicKey| wanted.peers.iter().any(|peer| peer.key == *key);
        self.known.retain(configured);
        self.complaints.retain(|key, _| configured(key));
        self.follow_endpoints();
        for lane in self.life.reload(now(), &wanted) {
            tracing::warn!("{}: down: {}", self.label(&lane.key), lane.reason);
            self.close_lane(lane.key.shard, lane.serial);
        }
        for listener in self.sources.values() {
            if let Source::Listener(listener) = listener
                && let Err(error) = sys::set_mark(listener.as_fd(), self.config.lanes.fwmark.unwrap_or(0))
                // Without the privilege there is no mark to take away either.
                && self.config.lanes.fwmark.is_some()
            {
                tracing::warn!("cannot mark a listening socket: {error}");
            }
        }
        for (serial, key) in self.life.up() {
            let (Some(socket), Some(group)) =
                (self.lane_sockets.get(&serial), self.group_config(&key.lane_group))
            else {
                continue;
            };
            // The workers see to the congestion control: they may be about to choose one by the path.
            let _ = sys::set_dscp(socket.fd.as_fd(), group.dscp);
            // A default route that is new would lead the packets of a lane without the mark into the trunk.
            let _ = sys::set_mark(socket.fd.as_fd(), self.config.lanes.fwmark.unwrap_or(0));
        }
    }

    /// Shakes hands as `identity` from now on. What the key before made ends: lanes, and handshakes under way.
    pub(super) fn take_identity(&mut self, identity: Identity, acceptor: Acceptor) {
        const REASON: &str = "the private key was changed";
        tracing::info!("the private key was changed: key {}", identity.public());
        (self.identity, self.acceptor) = (identity, acceptor);
        self.life.handle_identity(self.identity.public());
        let is_connection = |(_, source): &(&u64, &Source)| matches!(source, Source::Connection(_));
        let under_way: Vec<u64> =
            self.sources.iter().filter(is_connection).map(|(token, _)| *token).collect();
        for token in under_way {
            self.half_open.remove(token);
            if let Some(Source::Connection(connection)) = self.sources.remove(&token)
                && let Some(dialled) = &connection.dialled
            {
                self.dial_failed(dialled, Failure::Lane, REASON);
            }
        }
        let up: Vec<Serial> = self.life.up().map(|(serial, _)| serial).collect();
        for serial in up {
            self.end_lane(serial, REASON);
        }
    }

    /// Addresses or routes of this machine have changed, or may have: what waits for a path is dialled at once.
    pub(super) fn network_changed(&mut self) {
        let now = now();
        self.life.handle_network_changed(now);
        // A lane whose address is gone is dead; any other has to show that it is alive.
        let mut gone: BTreeMap<SocketAddr, bool> = BTreeMap::new();
        let up: Vec<(Serial, LaneKey)> = self.life.up().map(|(serial, key)| (serial, key.clone())).collect();
        for (serial, key) in up {
            let Some(mut local) = self.lane_sockets.get(&serial).and_then(|socket| socket.local) else {
                continue;
            };
            local.set_port(0);
            if *gone.entry(local).or_insert_with(|| is_gone(local)) {
                self.end_lane(serial, &format!("the address {} is not this machine's any more", local.ip()));
            } else {
                self.verify(key.peer);
            }
        }
    }

    /// Ends in a moment those lanes to the peer that are dead. A lane on a path that works answers and stays.
    fn verify(&mut self, peer: PublicKey) {
        if self.life.handle_suspect(now(), peer) {
            self.set_liveness(peer, Liveness::Verify);
        }
    }

    fn set_liveness(&self, peer: PublicKey, liveness: Liveness) {
        for (_, lane) in self.life.lanes_of(peer) {
            if let State::Up(up) = &lane.state
                && let Some(socket) = self.lane_sockets.get(&up.serial)
            {
                let _ = liveness.apply(socket.fd.as_fd());
            }
        }
    }

    // ------------------------------------------------------------ time

    /// Does what is due and says how long nothing else is.
    pub(super) fn attend_deadlines(&mut self) -> Duration {
        let now = now();
        while let Some((at, token)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, token));
            match self.sources.get(&token).and_then(Source::deadline) {
                // It has more time since.
                Some(later) if later > now => {
                    self.deadlines.insert((later, token));
                }
                Some(_) => {
                    self.half_open.remove(token);
                    if let Some(Source::Connection(connection)) = self.sources.remove(&token) {
                        self.timed_out(&connection);
                    }
                }
                None => {}
            }
        }
        while let Some(dial) = self.life.poll_dial(now) {
            self.dial(dial);
        }
        while let Some(peer) = self.life.poll_verified(now) {
            self.set_liveness(peer, Liveness::Usual);
        }
        self.look_up_names(now);
        warn(self.rejections.poll_line(now));
        let due = self.life.poll_timeout().map(|(at, _)| at);
        let due = due.into_iter().chain(self.names.poll_timeout());
        let due = due.chain(self.rejections.poll_timeout()).chain(self.half_open.poll_timeout());
        let next = due.chain(self.deadlines.first().map(|(at, _)| *at)).min();
        let next = next.map_or(Duration::from_secs(60), |at| at.saturating_since(now));
        let next = next.min(self.workers.next_wake(now).saturating_since(now));
        next.max(Duration::from_millis(1))
    }

    fn timed_out(&mut self, connection: &Connection) {
        let Some(dialled) = &connection.dialled else {
            self.strangers.timed_out += 1;
            warn(self.rejections.handle_closed(now(), connection.remote, Outcome::TimedOut));
            return;
        };
        let (failure, reason) = match connection.phase {
            Phase::Connecting(..) => {
                (Failure::Path, format!("cannot connect to {}: no answer", connection.remote))
            }
            _ => (Failure::Lane, format!("{}: no answer in time", connection.remote)),
        };
        self.dial_failed(dialled, failure, &reason);
    }

    /// An address to dial the peer at; `None` if it is not dialled, or its name is being resolved.
    fn address_of(&mut self, key: &PublicKey, now: Instant) -> Option<SocketAddr> {
        let endpoint = self.peer_config(key)?.endpoint.clone()?;
        match endpoint.host {
            Host::Address(address) => return Some(SocketAddr::new(address, endpoint.port)),
            // The interface may come later, and under another index each time.
            Host::LinkLocal(address, zone) => {
                let scope = match zone {
                    Zone::Index(index) => index,
                    Zone::Name(name) => self.device.link_index(&name)?,
                };
                return Some(SocketAddrV6::new(address, endpoint.port, 0, scope).into());
            }
            Host::Name(_) => {}
        }
        let address = self.names.address(now, *key);
        self.look_up_names(now);
        address
    }

    /// Begins the look-ups that are due, and ends those that take too long.
    fn look_up_names(&mut self, now: Instant) {
        while let Some(news) = self.names.poll_given_up(now) {
            self.name_news(now, news);
        }
        while let Some(look_up) = self.names.poll_look_up(now) {
            self.resolver.look_up(look_up);
        }
    }

    pub(super) fn take_resolved(&mut self) {
        let now = now();
        for Answered { number, answer } in self.resolver.answers.take() {
            if let Some(news) = self.names.handle_answer(now, number, answer) {
                self.name_news(now, news);
            }
        }
    }

    fn name_news(&mut self, now: Instant, news: News) {
        match news {
            News::Resolved(peer) => {
                self.know_endpoints();
                self.life.handle_resolved(now, peer);
            }
            News::Failed(peer, reason) => {
                if self.life.handle_unresolved(peer, &reason) {
                    tracing::warn!("{reason}");
                }
            }
        }
    }

    /// Names and addresses of the endpoints of the configuration.
    fn follow_endpoints(&mut self) {
        let targets = self.config.peers.iter().filter_map(|peer| {
            let endpoint = peer.endpoint.as_ref()?;
            let Host::Name(host) = &endpoint.host else { return None };
            Some((peer.public_key, Target { host: host.clone(), port: endpoint.port }))
        });
        self.names.follow(now(), targets.collect());
        self.know_endpoints();
    }

    fn know_endpoints(&mut self) {
        let fixed = self.config.peers.iter().filter_map(|peer| match peer.endpoint.as_ref()?.host {
            Host::Address(address) => Some(address),
            Host::LinkLocal(address, _) => Some(address.into()),
            Host::Name(_) => None,
        });
        self.known.set_endpoints(fixed.chain(self.names.known().map(|address| address.ip())));
    }

    // ------------------------------------------------------------ dialling

    fn dial(&mut self, dial: Dial) {
        let Dial { attempt, key, connect_timeout } = dial;
        let now = now();
        let Some(remote) = self.address_of(&key.peer, now) else {
            return self.life.handle_no_address(now, attempt);
        };
        let dialled = Dialled { attempt, key };
        if let Err(reason) = self.connect(&dialled, remote, now + connect_timeout) {
            self.dial_failed(&dialled, Failure::Path, &format!("cannot connect to {remote}: {reason}"));
        }
    }

    fn connect(&mut self, dialled: &Dialled, remote: SocketAddr, deadline: Instant) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let key = &dialled.key;
        let peer = self.peer_config(&key.peer).ok_or("no such peer")?;
        let group = self.group_config(&key.lane_group).ok_or("no such lane group")?;
        let hello = Hello {
            version: VERSION,
            encryption: peer.encryption,
            lane: self.life.number(key),
            instance: self.instance,
            lane_group: key.lane_group.to_string(),
        };
        let options = SocketOptions {
            congestion_control: Some(group.usual_congestion_control()),
            dscp: group.dscp,
            mark: self.config.lanes.fwmark,
        };
        let dialer = Dialer::new(&self.identity, key.peer).map_err(|error| text(&error))?;
        let connection = Connection::dial((dialer, hello), dialled.clone(), remote, &options, deadline)
            .map_err(|error| text(&error))?;
        self.add(Source::Connection(Box::new(connection))).map_err(|error| text(&error))?;
        Ok(())
    }

    /// A reason is reported once for all lanes of a peer.
    fn dial_failed(&mut self, dialled: &Dialled, failure: Failure, reason: &str) {
        let Some(retry) = self.life.handle_dial_failed(now(), dialled.attempt, failure, reason) else {
            return;
        };
        let (peer, wait) = (self.peer_name(&dialled.key.peer), retry.wait);
        let lane = match failure {
            Failure::Path => String::new(),
            Failure::Lane => format!("lane {}: ", self.lane_name(&dialled.key)),
        };
        if retry.first_report {
            tracing::warn!("{peer}: {lane}{reason}; dialling again in {wait:.1?}");
        } else {
            tracing::debug!("{peer}: {lane}{reason}; dialling again in {wait:.1?}");
        }
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
                    if self.accept_failures.allows(now(), ACCEPT_FAILURES) {
                        tracing::warn!("cannot accept a connection: {error}");
                    }
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
            };
            self.strangers.accepted += 1;
            if let Err(error) = self.start_accepted(stream, remote) {
                tracing::debug!("{remote}: {error}");
            }
        }
    }

    fn start_accepted(&mut self, stream: TcpStream, remote: SocketAddr) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let connection = Connection {
            phase: Phase::Accepted(stream),
            dialled: None,
            remote,
            deadline: now() + half_open::TIME_OUT,
        };
        let token = self.add(Source::Connection(Box::new(connection)))?;
        let evicted = self.half_open.admit(token, remote.ip(), self.known.kind(remote.ip()));
        self.evict(evicted);
        Ok(())
    }

    fn evict(&mut self, evicted: Option<Evicted>) {
        let Some(Evicted { token, reason }) = evicted else { return };
        match reason {
            Reason::MostPlaces => self.strangers.over_address_limit += 1,
            Reason::Oldest => self.strangers.over_total_limit += 1,
        }
        if let Some(Source::Connection(connection)) = self.sources.remove(&token) {
            let line = self.rejections.handle_closed(now(), connection.remote, Outcome::Displaced);
            warn(line);
        }
    }

    /// Begins the handshakes of callers whose turn it is.
    pub(super) fn take_turns(&mut self) {
        while let Some((token, evicted)) = self.half_open.poll_turn(now()) {
            self.evict(evicted);
            let Some(Source::Connection(connection)) = self.sources.remove(&token) else {
                self.half_open.remove(token);
                continue;
            };
            let remote = connection.remote;
            match self.begin_handshake(token, connection) {
                Ok(connection) => self.attend_connection(token, connection),
                Err(error) => {
                    self.half_open.remove(token);
                    tracing::debug!("{remote}: {error}");
                }
            }
        }
    }

    fn begin_handshake(
        &mut self,
        token: u64,
        mut connection: Box<Connection>,
    ) -> io::Result<Box<Connection>> {
        if let Phase::Accepted(stream) = std::mem::replace(&mut connection.phase, Phase::Over) {
            SocketOptions { congestion_control: None, dscp: 0, mark: self.config.lanes.fwmark }
                .apply(stream.as_fd())?;
            let data = epoll::EventData::new_u64(token);
            epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
            let handshake = self.acceptor.accept(stream).map_err(io::Error::other)?;
            connection.phase = Phase::Handshake(Box::new(handshake));
        }
        Ok(connection)
    }

    /// Something has happened on a connection. What callers' handshakes cost is counted.
    pub(super) fn attend_connection(&mut self, token: u64, connection: Box<Connection>) {
        if connection.dialled.is_some() {
            if let Some(source) = self.advance(token, connection) {
                self.sources.insert(token, source);
            }
            return;
        }
        if let Phase::Accepted(stream) = &connection.phase {
            // Nothing is read before its turn, so it would be reported as ready all the time.
            let _ = epoll::delete(&self.epoll, stream);
            self.half_open.handle_ready(token);
            self.sources.insert(token, Source::Connection(connection));
            return;
        }
        let start = now();
        let keep = self.advance(token, connection);
        self.half_open.spend(token, now().saturating_since(start));
        match keep {
            Some(source) => {
                self.sources.insert(token, source);
            }
            None => self.half_open.remove(token),
        }
    }

    // ------------------------------------------------------------ handshakes

    /// Moves a connection on as far as it goes. Gives it back if it is still under way.
    fn advance(&mut self, token: u64, mut connection: Box<Connection>) -> Option<Source> {
        if matches!(connection.phase, Phase::Connecting(..))
            && let Some(dialled) = connection.dialled.clone()
        {
            if let Err(reason) = connection.connected() {
                self.dial_failed(&dialled, Failure::Path, &reason);
                return None;
            }
            self.life.handle_connected(now(), dialled.attempt);
            connection.deadline = now() + HANDSHAKE_TIME_OUT;
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
                    self.established(*established, connection.dialled.as_ref(), connection.remote);
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
        if let Some(dialled) = &connection.dialled {
            return self.dial_failed(dialled, Failure::Lane, &error.to_string());
        }
        let key = if let HandshakeError::UnknownKey { key } = error { Some(*key) } else { None };
        match key {
            Some(_) => self.strangers.unknown_key += 1,
            None => self.strangers.failed += 1,
        }
        warn(self.rejections.handle_failed(now(), connection.remote, key, &error.to_string()));
    }

    /// Decides on what a peer that dialled asks for.
    fn judge(
        &mut self,
        handshake: &mut Handshake<TcpStream>,
        hello: &Hello,
        peer: PublicKey,
    ) -> Result<(), HandshakeError> {
        let (reason, text) = match self.life.find_lane(now(), request(hello, peer)) {
            Ok(key) => {
                let encryption = self.peer_config(&key.peer).map_or(hello.encryption, |peer| peer.encryption);
                return handshake.welcome(self.instance, encryption);
            }
            Err(Declined::UnknownPeer) => (RefusalReason::NotWanted, "no longer configured".to_owned()),
            Err(Declined::Crossed) => {
                (RefusalReason::NotWanted, "both sites dialled; the other connection stays".to_owned())
            }
            Err(Declined::UnknownLaneGroup) => {
                let known: Vec<&str> =
                    self.config.lane_groups.iter().map(|group| group.name.as_str()).collect();
                let text = format!(
                    "there is no lane group {:?} here; there are: {}",
                    hello.lane_group,
                    known.join(", ")
                );
                self.complain(peer, &text);
                (RefusalReason::UnknownLaneGroup, text.chars().take(150).collect())
            }
            Err(Declined::UnknownNumber { lanes }) => {
                let queues = self.config.tun.queues;
                let text =
                    format!("tun.queues is {queues} here, and {} has {lanes} lanes in all", hello.lane_group);
                self.complain(
                    peer,
                    &format!("it asks for lane {} of {}; {text}", hello.lane, hello.lane_group),
                );
                (RefusalReason::UnknownLane, text)
            }
        };
        handshake.refuse(reason, &text)
    }

    /// Says what is wrong with a peer's requests: it may repeat them as often as it likes.
    fn complain(&mut self, peer: PublicKey, text: &str) {
        if self.complaints.entry(peer).or_default().allows(now(), COMPLAINTS) {
            tracing::warn!("{}: {text}", self.peer_name(&peer));
        }
    }

    /// Hands a connection that has become a lane to the workers.
    fn established(&mut self, made: Established<TcpStream>, dialled: Option<&Dialled>, remote: SocketAddr) {
        let now = now();
        let key = match dialled {
            Some(dialled) => dialled.key.clone(),
            None => match self.life.find_lane(now, request(&made.hello, made.peer)) {
                Ok(key) => key,
                // A reload took it away meanwhile, or our own dial was faster.
                Err(_) => return,
            },
        };
        let serial = self.life.next_serial();
        let fd = Arc::new(OwnedFd::from(made.stream));
        let encryption = if made.keys.is_some() { Encryption::Tls } else { Encryption::None };
        let attempt = dialled.map(|dialled| dialled.attempt);
        // Before anything is replaced: a lane that cannot be served costs the one that is there nothing.
        let new = match self.new_lane(&key, serial, &fd, made.keys) {
            Ok(new) => new,
            Err(error) => {
                let reason = format!("{remote}: cannot be made a lane: {error}");
                match dialled {
                    Some(dialled) => self.dial_failed(dialled, Failure::Lane, &reason),
                    None => self.complain(key.peer, &reason),
                }
                return;
            }
        };
        let instance = made.hello.instance;
        let made = Candidate { key: key.clone(), serial, attempt, instance, encryption };
        let Ok(Installed { replaced }) = self.life.handle_up(now, made) else { return };
        if let Some(old) = replaced {
            self.close_lane(key.shard, old);
        }
        let local = rustix::net::getsockname(&fd).ok().and_then(|address| address.try_into().ok());
        self.lane_sockets.insert(serial, LaneSocket { fd, local, remote });
        self.workers.shards[usize::from(key.shard)].commands.post(Command::LaneUp(Box::new(new)));
        let how = if dialled.is_some() { "dialled" } else { "accepted from" };
        self.known.handle_lane(key.peer, remote.ip());
        tracing::info!("{}: up, {how} {remote}", self.label(&key));
    }

    /// Both halves of a lane, for its worker.
    fn new_lane(
        &self,
        key: &LaneKey,
        serial: Serial,
        fd: &Arc<OwnedFd>,
        keys: Option<SessionKeys>,
    ) -> io::Result<NewLane> {
        let group = self
            .group_config(&key.lane_group)
            .ok_or_else(|| io::Error::other(format!("there is no lane group {} any more", key.lane_group)))?;
        sys::set_congestion_control(fd.as_fd(), group.usual_congestion_control())?;
        sys::set_dscp(fd.as_fd(), group.dscp)?;
        let (sealer, opener) = keys.map(|keys| (keys.sealer, keys.opener)).unzip();
        let receiving = LaneRx::new(serial, Arc::clone(fd), opener)?;
        let group = plan::lane_group(&self.config, group);
        let compressor = Compressor::new(group.compression, self.seed);
        let sending = LaneTx::new(serial, Arc::clone(fd), sealer, compressor);
        let lane_group = Arc::clone(&key.lane_group);
        Ok(NewLane { peer: key.peer, group: lane_group, place: key.index, sending, receiving })
    }

    /// Has the worker end a connection that was a lane.
    fn close_lane(&mut self, shard: u16, serial: Serial) {
        self.lane_sockets.remove(&serial);
        self.workers.shards[usize::from(shard)].commands.post(Command::LaneDown { serial });
    }

    /// Ends a lane for a reason of ours.
    pub(super) fn end_lane(&mut self, serial: Serial, reason: &str) {
        if let Some(key) = self.lane_down(serial, reason) {
            self.close_lane(key.shard, serial);
        }
    }

    /// Takes note that a connection that was a lane has ended. Which lane, unless another connection has its place.
    fn lane_down(&mut self, serial: Serial, reason: &str) -> Option<LaneKey> {
        self.lane_sockets.remove(&serial);
        let key = self.life.handle_ended(now(), serial, reason)?;
        tracing::warn!("{}: down: {reason}", self.label(&key));
        Some(key)
    }

    pub(super) fn worker_events(&mut self) {
        for event in self.workers.events.take() {
            match event {
                WorkerEvent::LaneEnded { serial, reason, clean } => {
                    let reason =
                        if clean { reason } else { format!("{reason} (what was under way is lost)") };
                    // `None` if it was replaced or retired meanwhile.
                    let key = self.lane_down(serial, &reason);
                    if let Some(key) = key.filter(|_| !clean) {
                        // What ended this one may have ended the others.
                        self.verify(key.peer);
                    }
                }
                WorkerEvent::DeviceLost => self.device_changed(),
                WorkerEvent::Ended { shard, reason } => {
                    self.failed = Some(DaemonError::Worker { shard, reason });
                    self.stopping = true;
                }
            }
        }
    }
}

/// Whether the machine has lost this address.
fn is_gone(address: SocketAddr) -> bool {
    UdpSocket::bind(address).is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

fn wanted_peer(peer: &PeerConfig) -> WantedPeer {
    let endpoint = peer.endpoint.as_ref().map(|endpoint| endpoint.to_string().into());
    WantedPeer { key: peer.public_key, endpoint, encryption: peer.encryption }
}

fn request(hello: &Hello, peer: PublicKey) -> Request<'_> {
    Request { peer, lane_group: &hello.lane_group, number: hello.lane, instance: hello.instance }
}

fn warn(line: Option<String>) {
    if let Some(line) = line {
        tracing::warn!("{line}");
    }
}
