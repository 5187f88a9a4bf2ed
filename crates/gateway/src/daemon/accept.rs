//! Accepts connections of callers, and runs handshakes.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::event::epoll;
use trunkline_trunk::Transport;

use super::connection::{Connection, Phase, SocketOptions, segment};
use super::invitations::JOIN_TIMEOUT;
use super::rejections::Outcome;
use super::{Daemon, Source, warn};
use crate::clock::{now, thread_time};
use crate::half_open::{self, Evicted, Limits, Reason};
use crate::handshake::{Handshake, HandshakeError, Hello, Progress, Refusal, RefusalReason};
use crate::keys::PublicKey;
use crate::life::{Declined, Failure, Request};

/// The bounds on the callers of each kind.
pub(super) const LIMITS: Limits =
    Limits { waiting: 128, answered: 256, cpu_share: [0.4, 0.1], burst: Duration::from_millis(50) };
/// The time limit for the handshake of a dial.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(8);
/// Added to the reason when what was dialled does not speak the protocol.
const OTHER_SERVICE: &str =
    "; another service answers there, or a network on the way that wants a login first (a captive portal)";
/// The minimum interval between warnings about declined requests of one peer.
const REQUEST_WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// The minimum interval between warnings about connections that cannot be accepted.
const ACCEPT_WARNING_INTERVAL: Duration = Duration::from_secs(10);

impl Daemon {
    pub(super) fn accept(&mut self, listener: &TcpListener) {
        // Bounded, so that a flood of connections leaves time for other events.
        for _ in 0..64 {
            let (stream, remote) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // For example, no descriptor is free. The listener stays readable, and the pause prevents a busy loop.
                    if self.accept_warnings.allows(now(), ACCEPT_WARNING_INTERVAL) {
                        tracing::warn!("cannot accept a connection: {error}");
                    }
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
            };
            self.callers.accepted += 1;
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
            deadline: now() + half_open::TIMEOUT,
            is_held: false,
        };
        let token = self.add(Source::Connection(Box::new(connection)))?;
        let evicted = self.half_open.admit(token, remote.ip(), self.known.caller(remote.ip()));
        self.evict(evicted);
        Ok(())
    }

    fn evict(&mut self, evicted: Option<Evicted>) {
        let Some(Evicted { token, reason }) = evicted else { return };
        if let Some(Source::Connection(connection)) = self.sources.remove(&token) {
            self.handle_evicted(connection.remote, reason);
        }
    }

    /// A caller was closed to make room for another.
    pub(super) fn handle_evicted(&mut self, remote: SocketAddr, reason: Reason) {
        match reason {
            Reason::LargestSource => self.callers.over_address_limit += 1,
            Reason::Oldest => self.callers.over_total_limit += 1,
        }
        warn(self.rejections.handle_closed(now(), remote, Outcome::Displaced));
    }

    /// Starts the handshakes of callers that are next in turn.
    pub(super) fn start_handshakes(&mut self) {
        while let Some((token, evicted)) = self.half_open.poll_turn(now()) {
            self.evict(evicted);
            let Some(Source::Connection(connection)) = self.sources.remove(&token) else {
                self.half_open.remove(token);
                continue;
            };
            let remote = connection.remote;
            match self.begin_handshake(token, connection) {
                Ok(connection) => self.handle_connection_event(token, connection),
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
            SocketOptions { congestion_control: None, dscp: 0, max_segment: None, via: self.common_via() }
                .apply(stream.as_fd())?;
            let data = epoll::EventData::new_u64(token);
            epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
            let segment = segment(stream.as_fd());
            let handshake = self.acceptor.accept(stream).map_err(io::Error::other)?;
            connection.phase = Phase::Handshake(Box::new(handshake.filling(segment)));
        }
        Ok(connection)
    }

    /// Handles an event of a connection. The time that callers' handshakes take counts against their budget.
    pub(super) fn handle_connection_event(&mut self, token: u64, connection: Box<Connection>) {
        if connection.dialled.is_some() {
            if let Some(source) = self.advance(token, connection) {
                self.sources.insert(token, source);
            }
            return;
        }
        if let Phase::Accepted(stream) = &connection.phase {
            // The caller's data stays unread until its turn, so epoll would report the socket as ready all the time.
            let _ = epoll::delete(&self.epoll, stream);
            self.half_open.handle_ready(token);
            self.sources.insert(token, Source::Connection(connection));
            return;
        }
        let start = thread_time();
        let keep = self.advance(token, connection);
        self.half_open.charge(token, thread_time().saturating_sub(start));
        match keep {
            Some(source) => {
                self.sources.insert(token, source);
            }
            None => self.half_open.remove(token),
        }
    }

    /// Advances a connection as far as possible. Returns it if its handshake continues.
    fn advance(&mut self, token: u64, mut connection: Box<Connection>) -> Option<Source> {
        if matches!(connection.phase, Phase::Connecting(..))
            && let Some(dialled) = connection.dialled.clone()
        {
            if let Err(reason) = connection.check_connected() {
                self.candidate_failed(&dialled, Failure::Path, &reason);
                return None;
            }
            if !connection.is_held {
                self.candidate_connected(&dialled);
                if let Some(until) = self.hold_until(&dialled)
                    && let Some(fd) = connection.fd()
                {
                    self.rearm(token, fd, epoll::EventFlags::empty());
                    self.deadlines.insert((until, token));
                    (connection.deadline, connection.is_held) = (until, true);
                }
            }
            if connection.is_held && connection.deadline > now() {
                return Some(Source::Connection(connection));
            }
            if let Err(reason) = connection.begin_handshake() {
                self.candidate_failed(&dialled, Failure::Lane, &reason);
                return None;
            }
            connection.deadline = now() + HANDSHAKE_TIMEOUT;
        }
        let Phase::Handshake(handshake) = &mut connection.phase else { return None };
        let flags = loop {
            match handshake.advance() {
                Ok(Progress::WantRead) => break epoll::EventFlags::IN,
                Ok(Progress::WantWrite) => break epoll::EventFlags::OUT,
                Ok(Progress::HelloReceived { hello, peer }) => {
                    if let Err(error) = self.answer_hello(handshake, &hello, peer) {
                        self.handshake_failed(&connection, &error);
                        return None;
                    }
                }
                Ok(Progress::JoinReceived { join, invitation }) => {
                    let remote = connection.remote;
                    match self.answer_join(token, handshake, join, &invitation, remote) {
                        Ok(false) => {}
                        Ok(true) => {
                            connection.deadline = now() + JOIN_TIMEOUT;
                            let phase = std::mem::replace(&mut connection.phase, Phase::Over);
                            if let Phase::Handshake(handshake) = phase {
                                connection.phase = Phase::Joining(handshake);
                            }
                            break epoll::EventFlags::empty();
                        }
                        Err(error) => {
                            self.handshake_failed(&connection, &error);
                            return None;
                        }
                    }
                }
                Ok(Progress::Done(established)) => {
                    // The worker watches the descriptor from here on.
                    let _ = epoll::delete(&self.epoll, &established.stream);
                    self.handle_established(*established, connection.dialled.as_ref(), connection.remote);
                    return None;
                }
                Ok(Progress::Refused | Progress::Joined) => return None,
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
            let hint = if error.is_of_another_service() { OTHER_SERVICE } else { "" };
            let reason = format!("{}: {error}{hint}", connection.remote);
            return self.candidate_failed(dialled, Failure::Lane, &reason);
        }
        let key = if let HandshakeError::UnknownKey { key } = error { Some(*key) } else { None };
        match key {
            Some(_) => self.callers.unknown_key += 1,
            None => self.callers.failed += 1,
        }
        warn(self.rejections.handle_failed(now(), connection.remote, key, &error.to_string()));
    }

    /// Accepts or declines the request of a peer that dialled.
    fn answer_hello(
        &mut self,
        handshake: &mut Handshake<TcpStream>,
        hello: &Hello,
        peer: PublicKey,
    ) -> Result<(), HandshakeError> {
        self.learn_path(now(), peer, hello);
        let found = self.life.find_lane(now(), request(hello, peer));
        let found = found.map_err(|declined| self.refusal(declined, hello, peer));
        let found = found.and_then(|key| self.check_transport(&key, Transport::Tcp).map(|()| key));
        let found = found.and_then(|key| self.check_quota(&key).map(|()| key));
        let found = found.and_then(|key| self.check_crossing(&key, hello).map(|()| key));
        match found {
            Ok(key) => {
                let encryption = self.peer_config(&key.peer).map_or(hello.encryption, |peer| peer.encryption);
                handshake.welcome(self.instance, encryption)
            }
            Err(Refusal { reason, text }) => handshake.refuse(reason, &text),
        }
    }

    /// What a peer is told whose request is declined; what is worth a warning here is logged.
    pub(super) fn refusal(&mut self, declined: Declined, hello: &Hello, peer: PublicKey) -> Refusal {
        let (reason, text) = match declined {
            Declined::UnknownPeer => (RefusalReason::NotWanted, "no longer configured".to_owned()),
            Declined::Crossed => {
                (RefusalReason::NotWanted, "both sites dialled; the other connection stays".to_owned())
            }
            Declined::UnknownLaneGroup => {
                let known: Vec<&str> = self.config.trunk.groups.iter().map(|group| &*group.name).collect();
                let text = format!(
                    "there is no lane group {:?} here; there are: {}",
                    hello.lane_group,
                    known.join(", ")
                );
                self.warn_of_request(peer, &text);
                (RefusalReason::UnknownLaneGroup, text.chars().take(150).collect())
            }
            Declined::UnknownNumber { lanes } => {
                let queues = self.config.tun.queues;
                let paths = self.peer_config(&peer).map_or(1, |peer| self.paths_to(peer).len().max(1));
                let text = format!(
                    "tun.queues is {queues} here, and {} has {lanes} lanes on each path, of which there are {paths}",
                    hello.lane_group
                );
                self.warn_of_request(
                    peer,
                    &format!("it requests lane {} of {}; {text}", hello.number(), hello.lane_group),
                );
                (RefusalReason::UnknownLane, text)
            }
        };
        Refusal { reason, text }
    }

    /// Logs a warning about a peer's request, at a limited rate: the peer decides how often it sends requests.
    pub(super) fn warn_of_request(&mut self, peer: PublicKey, text: &str) {
        if self.request_warnings.entry(peer).or_default().allows(now(), REQUEST_WARNING_INTERVAL) {
            tracing::warn!("peer {}: {text}", self.peer_name(&peer));
        }
    }
}

pub(super) fn request(hello: &Hello, peer: PublicKey) -> Request<'_> {
    Request { peer, lane_group: &hello.lane_group, number: hello.number(), instance: hello.instance }
}
