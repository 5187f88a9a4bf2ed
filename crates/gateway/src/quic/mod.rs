//! Lanes over QUIC (RFC 9000): connections whose datagrams (RFC 9221) carry frames, congestion-controlled and never sent
//! again.
//!
//! The protocol is quinn-proto's, which has no I/O and no clock. A worker owns an endpoint, its sockets and its connections,
//! and runs their handshakes in its own loop. The control thread decides, as it does for connections over TCP: it asks for
//! dials, and is asked about each caller that has proved a peer's key ([`Event`]).
//!
//! - [`port`]: a socket, batches of datagrams.
//! - [`cid`]: connection IDs lead packets to the worker of their lane.
//! - [`settings`]: keys, limits and timers.
//! - [`control`]: the congestion control.
//! - [`link`]: one connection.
//! - [`lane`]: the two halves of a lane, between a connection and the edge queues or the device.
//!
//! **Strangers.** A caller must prove its address by a Retry before anything is kept of it (RFC 9000 §8.1.2). Then a worker
//! begins at most [`HANDSHAKES_PER_SECOND`] handshakes a second with callers that are not known to be peers' lanes, and has
//! at most [`MAX_HALF_OPEN`] at a time. Further callers are not answered; they ask again.

mod cid;
mod control;
mod lane;
mod link;
mod port;
mod settings;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use bytes::BytesMut;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, Incoming, Transmit,
};
use trunkline_congestion::CongestionAlgorithm;
use trunkline_schema::Encryption;
use trunkline_trunk::CongestionControl;
use trunkline_units::Instant;

use self::control::Signals;
use self::link::{CLOSED, FAILED, Link, Shared, Stage};
use self::port::Port;
use crate::handshake::{HandshakeError, Hello, Message, MessageError, Refusal, RefusalReason, VERSION};
use crate::keys::PublicKey;
use crate::lane_rx::RxError;
use crate::life::Failure;
use crate::sys::udp::{self, Outgoing};

pub(crate) use self::lane::{QuicRx, QuicTx};
pub(crate) use self::settings::{Acceptor, Dialer};

/// The maximum of handshakes with callers that a worker has at a time.
const MAX_HALF_OPEN: usize = 16;
/// And that it begins in a second, as a token bucket of one second.
const HANDSHAKES_PER_SECOND: u32 = 10;
/// The time from a caller's first packet to the end of the greetings, as over TCP.
const CALLER_TIMEOUT: Duration = Duration::from_secs(5);
/// Batches read from a socket before lanes and device are looked at again.
const MAX_READS: usize = 16;
/// The longest batch that the kernel makes.
const READ_BYTES: usize = 1 << 16;

/// A connection that the worker is to make.
pub(crate) struct Dial {
    /// Names the connection, and the lane that it becomes.
    pub(crate) serial: u64,
    pub(crate) remote: SocketAddr,
    pub(crate) dialer: Dialer,
    pub(crate) hello: Hello,
    /// The time until the other end must have answered.
    pub(crate) timeout: Duration,
    pub(crate) options: Options,
}

/// What a lane group asks of its connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) dscp: u8,
    pub(crate) mark: Option<u32>,
    pub(crate) congestion_control: CongestionAlgorithm,
}

/// The control thread's answer to [`Event::Asked`].
#[derive(Debug)]
pub(crate) enum Answer {
    /// The connection becomes this lane.
    Welcome { serial: u64, hello: Hello, options: Options },
    /// It does not.
    Refuse(Refusal),
}

/// What happens to connections, for the control thread.
#[derive(Debug)]
pub(crate) enum Event {
    /// A dial was welcomed: the control thread gives the lane its place, or closes it.
    Welcomed { serial: u64, hello: Hello },
    /// A dial failed.
    DialFailed { serial: u64, failure: Failure, reason: String },
    /// A caller that has proved a peer's key asks for a lane.
    Asked { number: u64, peer: PublicKey, hello: Hello, remote: SocketAddr },
    /// A caller's handshake failed; with its key, if that was the reason.
    CallerFailed { remote: SocketAddr, key: Option<PublicKey>, reason: String },
}

/// What a look after the connections finds, for their worker.
#[derive(Debug)]
pub(crate) enum Change {
    /// A lane may take more.
    Writable { serial: u64 },
    /// A lane has ended, and why; `clean` if the other end closed it of its own will.
    Ended { serial: u64, reason: String, clean: bool },
    /// Something for the control thread.
    Event(Event),
}

/// The connections of a worker.
pub(crate) struct Quic {
    endpoint: Endpoint,
    acceptor: Option<Acceptor>,
    shared: Rc<Shared>,
    /// Sockets for dials, by address family (IPv4, IPv6) and mark: their places.
    dial_ports: BTreeMap<(bool, u32), usize>,
    links: BTreeMap<u64, Rc<RefCell<Link>>>,
    numbers: HashMap<ConnectionHandle, u64>,
    lanes: HashMap<u64, u64>,
    last_number: u64,
    timers: BTreeSet<(StdInstant, u64)>,
    /// Handshakes that callers may begin, and since when it is so many.
    tokens: (u32, StdInstant),
    half_open: usize,
    buffer: Vec<u8>,
}

impl Quic {
    pub(crate) fn new(shard: u16, shards: u16) -> Self {
        Quic {
            endpoint: Endpoint::new(Arc::new(settings::endpoint(shard, shards)), None, true, None),
            acceptor: None,
            shared: Shared::new(),
            dial_ports: BTreeMap::new(),
            links: BTreeMap::new(),
            numbers: HashMap::new(),
            lanes: HashMap::new(),
            last_number: 0,
            timers: BTreeSet::new(),
            tokens: (HANDSHAKES_PER_SECOND, StdInstant::now()),
            half_open: 0,
            buffer: Vec::new(),
        }
    }

    // ------------------------------------------------------------ sockets

    /// Accepts callers with these settings from now on.
    pub(crate) fn set_acceptor(&mut self, acceptor: Acceptor) {
        self.endpoint.set_server_config(Some(acceptor.server()));
        self.acceptor = Some(acceptor);
    }

    /// Adds a socket; its place, by which events of it are told apart.
    pub(crate) fn add_port(&mut self, fd: OwnedFd) -> usize {
        let mut ports = self.shared.ports.borrow_mut();
        ports.push(Port::new(fd));
        ports.len() - 1
    }

    /// How many sockets there are.
    pub(crate) fn ports(&self) -> usize {
        self.shared.ports.borrow().len()
    }

    /// Does something with the descriptor of a socket.
    pub(crate) fn with_port<T>(
        &self,
        place: usize,
        act: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> T,
    ) -> Option<T> {
        self.shared.ports.borrow().get(place).map(|port| act(port.as_fd()))
    }

    /// The socket for dials to this address with this mark. It is opened if there is none; then it is new.
    pub(crate) fn dial_port(&mut self, remote: SocketAddr, mark: Option<u32>) -> io::Result<(usize, bool)> {
        let key = (remote.is_ipv4(), mark.unwrap_or(0));
        if let Some(place) = self.dial_ports.get(&key) {
            return Ok((*place, false));
        }
        let any = if remote.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let address = any.parse().map_err(io::Error::other)?;
        let place = self.add_port(udp::open(address, mark, false)?);
        self.dial_ports.insert(key, place);
        Ok((place, true))
    }

    /// Whether a socket waits for room, so that it is to be watched for it.
    pub(crate) fn is_full(&self, place: usize) -> bool {
        self.shared.ports.borrow().get(place).is_some_and(Port::is_full)
    }

    /// A socket has room again. Whether all that waited for it went.
    pub(crate) fn handle_writable(&mut self, place: usize) -> bool {
        let done = self.shared.ports.borrow_mut().get_mut(place).is_none_or(Port::flush);
        if done {
            for link in self.links.values().filter(|link| link.borrow().port == place) {
                link.borrow_mut().touch(&self.shared);
            }
        }
        done
    }

    // ------------------------------------------------------------ connections

    /// Begins a connection over the socket at this place.
    pub(crate) fn dial(&mut self, now: Instant, dial: Dial, port: usize) -> Result<(), String> {
        let at = self.shared.to_std(now);
        let signals = Signals::new(dial.options.congestion_control);
        let config = dial.dialer.client(dial.hello.lane, &signals);
        let made = self.endpoint.connect(at, config, dial.remote, "0.0.0.0").map_err(|e| e.to_string())?;
        let stage = Stage::Dialling { serial: dial.serial, hello: dial.hello, asked: false };
        let link = self.insert(made, stage, port, signals);
        let mut link = link.borrow_mut();
        link.set_dscp(dial.options.dscp);
        link.deadline = Some(at + dial.timeout);
        link.touch(&self.shared);
        Ok(())
    }

    fn insert(
        &mut self,
        made: (ConnectionHandle, Connection),
        stage: Stage,
        port: usize,
        signals: Arc<Signals>,
    ) -> Rc<RefCell<Link>> {
        self.last_number += 1;
        let (number, handle) = (self.last_number, made.0);
        self.numbers.insert(handle, number);
        if let Stage::Dialling { serial, .. } = &stage {
            self.lanes.insert(*serial, number);
        }
        let link = Rc::new(RefCell::new(Link::new(number, made, stage, port, signals)));
        self.links.insert(number, Rc::clone(&link));
        link
    }

    /// Takes the control thread's answer to a caller. The sending half of its lane, if it becomes one.
    pub(crate) fn answer(&mut self, now: Instant, number: u64, answer: Answer) -> Option<QuicTx> {
        let link = Rc::clone(self.links.get(&number)?);
        let at = self.shared.to_std(now);
        let mut it = link.borrow_mut();
        if !matches!(it.stage, Stage::Deciding) {
            return None;
        }
        self.half_open = self.half_open.saturating_sub(1);
        match answer {
            Answer::Refuse(refusal) => {
                it.refuse(at, refusal);
                it.touch(&self.shared);
                None
            }
            Answer::Welcome { serial, hello, options } => {
                it.set_dscp(options.dscp);
                it.set_algorithm(options.congestion_control);
                it.send_greeting(&Message::Welcome(hello));
                it.stage = Stage::Lane { serial };
                it.deadline = None;
                it.touch(&self.shared);
                drop(it);
                self.lanes.insert(serial, number);
                Some(QuicTx::new(serial, link, Rc::clone(&self.shared)))
            }
        }
    }

    /// A dial that was welcomed becomes the lane: its sending half. `None` if it has ended meanwhile.
    pub(crate) fn install(&mut self, serial: u64) -> Option<QuicTx> {
        let link = self.lanes.get(&serial).and_then(|number| self.links.get(number)).map(Rc::clone);
        let Some(link) = link.filter(|link| matches!(link.borrow().stage, Stage::Deciding)) else {
            self.lanes.remove(&serial);
            return None;
        };
        let mut it = link.borrow_mut();
        it.stage = Stage::Lane { serial };
        // Datagrams may have come since the welcome.
        it.touch(&self.shared);
        drop(it);
        Some(QuicTx::new(serial, link, Rc::clone(&self.shared)))
    }

    /// Closes the connection of this serial, whatever it is.
    pub(crate) fn close(&mut self, now: Instant, serial: u64, clean: bool) {
        let Some(link) = self.lanes.remove(&serial).and_then(|number| self.links.get(&number)) else {
            return;
        };
        let at = self.shared.to_std(now);
        let mut link = link.borrow_mut();
        link.close(at, if clean { CLOSED } else { FAILED }, "");
        link.touch(&self.shared);
    }

    /// Addresses or routes of this machine have changed: the connections that it dialled show the other ends where it is now
    /// (RFC 9000 §9), whether or not they have something to send.
    pub(crate) fn handle_network_changed(&mut self) {
        for link in self.links.values() {
            let mut link = link.borrow_mut();
            if link.inner.side().is_client() {
                link.inner.local_address_changed();
                link.touch(&self.shared);
            }
        }
    }

    /// Closes all connections.
    pub(crate) fn close_all(&mut self, now: Instant) {
        let at = self.shared.to_std(now);
        for link in self.links.values() {
            let mut link = link.borrow_mut();
            link.close(at, CLOSED, "");
            link.transmit(&self.shared, at);
        }
    }

    /// When to look after the connections at the latest.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        if !self.shared.touched.borrow().is_empty() {
            return Some(Instant::ZERO);
        }
        self.timers.first().map(|(at, _)| self.shared.to_units(*at))
    }

    /// Reads what a socket has, up to a bound. Whether there may be more.
    pub(crate) fn receive(&mut self, now: Instant, place: usize, events: &mut Vec<Change>) -> bool {
        let at = self.shared.to_std(now);
        for _ in 0..MAX_READS {
            let mut batch = BytesMut::zeroed(READ_BYTES);
            let received = match self.with_port(place, |fd| udp::receive(fd, &mut batch)) {
                Some(Ok(received)) => received,
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // What an ICMP error says of one connection is no concern of the others; its own timers find out.
                Some(Err(_)) => continue,
                None => return false,
            };
            batch.truncate(received.len);
            let ecn = EcnCodepoint::from_bits(received.ecn);
            while !batch.is_empty() {
                let datagram = batch.split_to(received.segment.min(batch.len()));
                let (len, mut response) = (datagram.len(), std::mem::take(&mut self.buffer));
                response.clear();
                let event =
                    self.endpoint.handle(at, received.from, received.to, ecn, datagram, &mut response);
                match event {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                        if let Some(link) = self.numbers.get(&handle).and_then(|n| self.links.get(n)) {
                            let mut link = link.borrow_mut();
                            link.inner.handle_event(event);
                            link.bytes_received += len as u64;
                            link.touch(&self.shared);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        self.handle_caller(at, place, incoming, &mut response, events);
                    }
                    Some(DatagramEvent::Response(transmit)) => self.respond(place, &transmit, &response),
                    None => {}
                }
                self.buffer = response;
            }
        }
        true
    }

    fn respond(&self, place: usize, transmit: &Transmit, bytes: &[u8]) {
        let headers =
            Outgoing { to: transmit.destination, from: transmit.src_ip, traffic_class: 0, segment: None };
        if let Some(port) = self.shared.ports.borrow_mut().get_mut(place)
            && !port.is_full()
        {
            port.send(headers, &bytes[..transmit.size]);
        }
    }

    /// Decides about the first packet of a caller.
    fn handle_caller(
        &mut self,
        at: StdInstant,
        place: usize,
        incoming: Incoming,
        response: &mut Vec<u8>,
        events: &mut Vec<Change>,
    ) {
        if !incoming.remote_address_validated() {
            match self.endpoint.retry(incoming, response) {
                Ok(transmit) => self.respond(place, &transmit, response),
                Err(error) => self.endpoint.ignore(error.into_incoming()),
            }
            return;
        }
        let Some(acceptor) = self.acceptor.clone().filter(|_| self.may_begin(at)) else {
            return self.endpoint.ignore(incoming);
        };
        let remote = incoming.remote_address();
        let signals = Signals::new(CongestionAlgorithm::Cubic);
        match self.endpoint.accept(incoming, at, response, Some(acceptor.for_caller(&signals))) {
            Ok(made) => {
                self.half_open += 1;
                let link = self.insert(made, Stage::Accepting, place, signals);
                let mut link = link.borrow_mut();
                link.deadline = Some(at + CALLER_TIMEOUT);
                link.touch(&self.shared);
            }
            Err(error) => {
                if let Some(transmit) = &error.response {
                    self.respond(place, transmit, response);
                }
                let (key, reason) = (acceptor.take_refused(), error.cause.to_string());
                events.push(Change::Event(Event::CallerFailed { remote, key, reason }));
            }
        }
    }

    /// Whether a handshake with a caller may begin.
    fn may_begin(&mut self, at: StdInstant) -> bool {
        let (tokens, since) = &mut self.tokens;
        let interval = Duration::from_secs(1) / HANDSHAKES_PER_SECOND;
        let earned = at.saturating_duration_since(*since).as_nanos() / interval.as_nanos();
        if earned > 0 {
            *tokens =
                HANDSHAKES_PER_SECOND.min(tokens.saturating_add(u32::try_from(earned).unwrap_or(u32::MAX)));
            *since = at;
        }
        let may = *tokens > 0 && self.half_open < MAX_HALF_OPEN;
        *tokens -= u32::from(may);
        may
    }

    /// Looks after the connections that have something to say or to do. `deliver` gets the datagrams of lanes, by their
    /// serials, and `None` behind the last that is there; an error ends the lane.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        changes: &mut Vec<Change>,
        mut deliver: impl FnMut(u64, Duration, Option<&[u8]>) -> Result<(), RxError>,
    ) {
        let at = self.shared.to_std(now);
        while let Some((_, number)) = self.timers.first().copied().filter(|(time, _)| *time <= at) {
            self.timers.pop_first();
            let Some(link) = self.links.get(&number) else { continue };
            let mut link = link.borrow_mut();
            link.timer = None;
            if link.inner.poll_timeout().is_some_and(|time| time <= at) {
                link.inner.handle_timeout(at);
            }
            link.touch(&self.shared);
        }
        // A connection that is touched meanwhile gets its turn in the next round.
        let touched = std::mem::take(&mut *self.shared.touched.borrow_mut());
        for number in touched {
            let Some(link) = self.links.get(&number).map(Rc::clone) else { continue };
            let mut link = link.borrow_mut();
            if !link.take_touched() {
                continue;
            }
            self.advance_one(at, &mut link, changes, &mut deliver);
            link.transmit(&self.shared, at);
            self.settle(&mut link);
        }
    }

    /// The endpoint's part of a connection's state, and the connection's timer.
    fn settle(&mut self, link: &mut Link) {
        while let Some(event) = link.inner.poll_endpoint_events() {
            let is_last = event.is_drained();
            if let Some(event) = self.endpoint.handle_event(link.handle, event) {
                link.inner.handle_event(event);
                link.touch(&self.shared);
            }
            if is_last {
                self.numbers.remove(&link.handle);
                self.links.remove(&link.number);
                if let Some(at) = link.timer.take() {
                    self.timers.remove(&(at, link.number));
                }
                return;
            }
        }
        let timer = link.inner.poll_timeout().into_iter().chain(link.deadline).min();
        if timer != link.timer {
            if let Some(at) = link.timer {
                self.timers.remove(&(at, link.number));
            }
            self.timers.extend(timer.map(|at| (at, link.number)));
            link.timer = timer;
        }
    }

    fn advance_one(
        &mut self,
        at: StdInstant,
        link: &mut Link,
        changes: &mut Vec<Change>,
        deliver: &mut impl FnMut(u64, Duration, Option<&[u8]>) -> Result<(), RxError>,
    ) {
        if link.deadline.is_some_and(|deadline| deadline <= at) {
            self.fail(at, link, Failure::Path, "no answer", changes);
        }
        while let Some(event) = link.inner.poll() {
            if let quinn_proto::Event::ConnectionLost { reason } = event {
                self.handle_lost(link, &reason, changes);
            }
        }
        if let Err(error) = self.advance_greetings(at, link, changes) {
            self.fail(at, link, Failure::Lane, &error.to_string(), changes);
        }
        let Stage::Lane { serial } = link.stage else { return };
        let round_trip = link.inner.rtt();
        let mut any = false;
        while let Some(datagram) = link.inner.datagrams().recv() {
            any = true;
            if let Err(error) = deliver(serial, round_trip, Some(&datagram)) {
                link.close(at, FAILED, "");
                self.lanes.remove(&serial);
                changes.push(Change::Ended { serial, reason: error.to_string(), clean: false });
                break;
            }
        }
        if any {
            // What came before a mistake is delivered.
            let _ = deliver(serial, round_trip, None);
        }
        if !matches!(link.stage, Stage::Lane { .. }) {
            return;
        }
        changes.push(Change::Writable { serial });
    }

    /// Continues with the greetings, as far as the handshake and the other end are.
    fn advance_greetings(
        &mut self,
        at: StdInstant,
        link: &mut Link,
        changes: &mut Vec<Change>,
    ) -> Result<(), HandshakeError> {
        if link.inner.is_handshaking() || link.inner.is_closed() {
            return Ok(());
        }
        match &mut link.stage {
            Stage::Dialling { hello, asked: asked @ false, .. } => {
                *asked = true;
                let hello = Message::Hello(hello.clone());
                link.send_greeting(&hello);
            }
            Stage::Dialling { serial, hello, asked: true } => {
                let (serial, ours) = (*serial, hello.clone());
                let theirs = match link.receive_greeting()? {
                    None => return Ok(()),
                    Some(Message::Welcome(hello)) => hello,
                    Some(Message::Refusal(refusal)) => return Err(HandshakeError::Refused(refusal)),
                    Some(other) => return Err(MessageError::UnexpectedKind(other.kind()).into()),
                };
                check_version(&theirs)?;
                if (&theirs.lane_group, theirs.lane) != (&ours.lane_group, ours.lane) {
                    let Hello { lane_group, lane, .. } = theirs;
                    return Err(HandshakeError::WrongAnswer { lane_group, lane });
                }
                link.deadline = None;
                link.stage = Stage::Deciding;
                changes.push(Change::Event(Event::Welcomed { serial, hello: theirs }));
            }
            Stage::Accepting => {
                let hello = match link.receive_greeting() {
                    Ok(None) => return Ok(()),
                    Ok(Some(Message::Hello(hello))) => hello,
                    Ok(Some(other)) => return Err(MessageError::UnexpectedKind(other.kind()).into()),
                    Err(HandshakeError::Message(error @ MessageError::UnknownVersion { .. })) => {
                        let reason = RefusalReason::UnsupportedVersion;
                        self.half_open = self.half_open.saturating_sub(1);
                        link.refuse(at, Refusal { reason, text: error.to_string() });
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                };
                check_version(&hello)?;
                let peer = link.peer().ok_or(HandshakeError::NoProtocol)?;
                let (number, remote) = (link.number, link.inner.remote_address());
                link.stage = Stage::Deciding;
                changes.push(Change::Event(Event::Asked { number, peer, hello, remote }));
            }
            Stage::Deciding | Stage::Lane { .. } | Stage::Over => {}
        }
        Ok(())
    }

    /// A connection is lost.
    fn handle_lost(&mut self, link: &mut Link, error: &ConnectionError, changes: &mut Vec<Change>) {
        link.deadline = None;
        let clean = matches!(error, ConnectionError::ApplicationClosed(close) if close.error_code == CLOSED);
        let reason = match error {
            _ if clean => RxError::Closed.to_string(),
            ConnectionError::TimedOut => "nothing came from the other end any more".to_owned(),
            other => other.to_string(),
        };
        // How an acceptor of ours says that it knows no peer by our key.
        let not_admitted = matches!(
            error,
            ConnectionError::ConnectionClosed(close)
                if is_alert(close.error_code, 46) || is_alert(close.error_code, 49)
        );
        match std::mem::replace(&mut link.stage, Stage::Over) {
            Stage::Lane { serial } => {
                self.lanes.remove(&serial);
                changes.push(Change::Ended { serial, reason, clean });
            }
            Stage::Dialling { serial, .. } => {
                self.lanes.remove(&serial);
                let failure = if link.inner.is_handshaking() || matches!(error, ConnectionError::TimedOut) {
                    Failure::Path
                } else {
                    Failure::Lane
                };
                let (failure, reason) = if not_admitted {
                    (Failure::Lane, HandshakeError::NotAdmitted.to_string())
                } else {
                    (failure, reason)
                };
                changes.push(Change::Event(Event::DialFailed { serial, failure, reason }));
            }
            Stage::Accepting => {
                self.half_open = self.half_open.saturating_sub(1);
                let remote = link.inner.remote_address();
                let key = self.acceptor.as_ref().and_then(Acceptor::take_refused);
                changes.push(Change::Event(Event::CallerFailed { remote, key, reason }));
            }
            // The control thread's answer finds it over.
            Stage::Deciding if link.inner.side().is_server() => {
                self.half_open = self.half_open.saturating_sub(1);
            }
            Stage::Deciding | Stage::Over => {}
        }
    }

    /// Closes a connection that does not become a lane.
    fn fail(
        &mut self,
        at: StdInstant,
        link: &mut Link,
        failure: Failure,
        reason: &str,
        changes: &mut Vec<Change>,
    ) {
        match std::mem::replace(&mut link.stage, Stage::Over) {
            Stage::Dialling { serial, .. } => {
                self.lanes.remove(&serial);
                // A handshake that began shows that there is a path.
                let failure = if link.inner.is_handshaking() { failure } else { Failure::Lane };
                let reason = reason.to_owned();
                changes.push(Change::Event(Event::DialFailed { serial, failure, reason }));
            }
            Stage::Accepting => {
                self.half_open = self.half_open.saturating_sub(1);
                let (remote, reason) = (link.inner.remote_address(), reason.to_owned());
                changes.push(Change::Event(Event::CallerFailed { remote, key: None, reason }));
            }
            Stage::Deciding if link.inner.side().is_server() => {
                self.half_open = self.half_open.saturating_sub(1);
            }
            Stage::Lane { serial } => link.stage = Stage::Lane { serial },
            Stage::Deciding | Stage::Over => {}
        }
        if !matches!(link.stage, Stage::Lane { .. }) {
            link.close(at, FAILED, "");
        }
    }
}

/// Whether an error of a connection is this alert of TLS (RFC 9001 §4.8).
fn is_alert(code: quinn_proto::TransportErrorCode, alert: u8) -> bool {
    code == quinn_proto::TransportErrorCode::crypto(alert)
}

/// A lane over QUIC has the version that its ALPN names, and TLS.
fn check_version(hello: &Hello) -> Result<(), HandshakeError> {
    if hello.version != VERSION {
        return Err(MessageError::UnknownVersion { theirs: hello.version }.into());
    }
    if hello.encryption != Encryption::Tls {
        let (ours, theirs) = (Encryption::Tls, hello.encryption);
        return Err(HandshakeError::EncryptionMismatch { ours, theirs });
    }
    Ok(())
}

/// The algorithm of a lane group's connections. One that goes by its path, or that no code of ours has, gets CUBIC.
pub(crate) fn algorithm(wanted: &CongestionControl) -> CongestionAlgorithm {
    match wanted {
        CongestionControl::Named(name) => name.parse().unwrap_or(CongestionAlgorithm::Cubic),
        CongestionControl::ByPath | CongestionControl::AsOpened => CongestionAlgorithm::Cubic,
    }
}
