//! Lanes over QUIC (RFC 9000): connections whose datagrams (RFC 9221) carry frames, congestion-controlled and never sent
//! again.
//!
//! The protocol is quinn-proto's, which has no I/O and no clock. A worker owns an endpoint, its sockets and its connections,
//! and runs their handshakes in its own loop. The control thread decides, as it does for connections over TCP: it asks for
//! dials, and is asked about each caller that has proved a peer's key ([`Event`]).
//!
//! - [`port`], [`sockets`]: a socket, batches of datagrams; the sockets of a worker.
//! - [`cid`]: connection IDs lead packets to the worker of their lane.
//! - [`settings`]: keys, limits and timers.
//! - [`callers`]: who may begin a handshake.
//! - [`greetings`]: the way of a connection from its handshake to a lane.
//! - [`keepalive`]: when an idle connection speaks, and when the other end is gone.
//! - [`control`], [`breaker`]: the congestion control, and what stands in for it; [`signals`]: what it and the lane tell each other.
//! - [`link`]: one connection; [`streams`]: its streams.
//! - [`watch`]: whether the path still carries UDP; [`lengths`]: whether it carries packets as long as QUIC requires.
//! - [`tx`], [`rx`]: the two halves of a lane, between a connection and the edge queues or the device.

mod breaker;
mod callers;
mod cid;
mod control;
mod greetings;
mod keepalive;
mod lengths;
mod link;
mod port;
mod rx;
mod settings;
mod signals;
mod sockets;
mod streams;
#[cfg(test)]
mod tests;
mod tx;
mod watch;
mod words;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use aws_lc_rs::hmac;
use bytes::BytesMut;
use quinn_proto::{Connection, ConnectionError, ConnectionHandle, Endpoint};
use trunkline_trunk::Delivery;
use trunkline_units::Instant;

use self::callers::Callers;
use self::keepalive::Due;
use self::link::{CLOSED, FAILED, Link, Shared, Stage};
use self::signals::Signals;
use self::watch::{Finding, ONLY_SHORT};
use crate::config::{DEFAULT_KEEPALIVE, Via};
use crate::half_open::Reason;
use crate::handshake::{Hello, Message, Refusal};
use crate::keys::PublicKey;
use crate::lane_rx::RxError;
use crate::life::Failure;

pub(crate) use self::control::{Control, NO_CONTROL};
pub(crate) use self::rx::{Arrived, QuicRx};
pub(crate) use self::settings::{Acceptor, Dialer};
pub(crate) use self::tx::QuicTx;

/// A connection that the worker is to make.
pub(crate) struct Dial {
    /// Names the connection, and the lane that it becomes.
    pub(crate) serial: u64,
    pub(crate) remote: SocketAddr,
    /// What its socket is bound to.
    pub(crate) via: Via,
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
    pub(crate) control: Control,
    pub(crate) delivery: Delivery,
    /// Keys the hash by which flows find their streams.
    pub(crate) seed: u64,
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
    Welcomed {
        serial: u64,
        hello: Hello,
    },
    /// A dial failed.
    DialFailed {
        serial: u64,
        failure: Failure,
        reason: String,
    },
    /// A caller that has proved a peer's key asks for a lane.
    Asked {
        number: u64,
        peer: PublicKey,
        hello: Hello,
        /// How the lane is to deliver.
        delivery: Delivery,
        remote: SocketAddr,
    },
    /// The path of a lane fails, while it can ride on TCP instead; and it does not any more.
    Failing {
        serial: u64,
        reason: &'static str,
    },
    Recovered {
        serial: u64,
    },
    /// The other end of a lane has another address.
    Moved {
        serial: u64,
        remote: SocketAddr,
    },
    /// A caller was closed while its handshake was in progress, to make room for another.
    CallerEvicted {
        remote: SocketAddr,
        reason: Reason,
    },
    /// A caller's handshake failed; with its key, if that was the reason.
    CallerFailed {
        remote: SocketAddr,
        key: Option<PublicKey>,
        reason: String,
    },
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
    /// Sockets for dials, by whether they are of IPv4 and what they are bound to: their places.
    dial_ports: BTreeMap<(bool, Via), usize>,
    mark: Option<u32>,
    /// The longest silence of an idle lane.
    keepalive: Duration,
    links: BTreeMap<u64, Rc<RefCell<Link>>>,
    numbers: HashMap<ConnectionHandle, u64>,
    lanes: HashMap<u64, u64>,
    last_number: u64,
    timers: BTreeSet<(StdInstant, u64)>,
    callers: Callers,
    buffer: Vec<u8>,
    /// What is received goes here.
    arena: BytesMut,
}

impl Quic {
    pub(crate) fn new(shard: u16, shards: u16, reset_key: hmac::Key) -> Self {
        Quic {
            endpoint: Endpoint::new(Arc::new(settings::endpoint(shard, shards, reset_key)), None, true, None),
            acceptor: None,
            shared: Shared::new(),
            dial_ports: BTreeMap::new(),
            mark: None,
            keepalive: DEFAULT_KEEPALIVE,
            links: BTreeMap::new(),
            numbers: HashMap::new(),
            lanes: HashMap::new(),
            last_number: 0,
            timers: BTreeSet::new(),
            callers: Callers::new(),
            buffer: Vec::new(),
            arena: BytesMut::with_capacity(sockets::ROUND_BYTES),
        }
    }

    /// Begins a connection over the socket at this place.
    pub(crate) fn dial(&mut self, now: Instant, dial: Dial, port: usize) -> Result<(), String> {
        let at = self.shared.to_std(now);
        let signals = Signals::new(dial.options.control);
        let longest = self.longest_packet(port, dial.remote);
        let config = dial.dialer.client(dial.hello.number(), longest, &signals);
        let made = self.endpoint.connect(at, config, dial.remote, "0.0.0.0").map_err(|e| e.to_string())?;
        let stage = Stage::Dialling { serial: dial.serial, hello: dial.hello, asked: false };
        let link = self.insert(made, stage, port, signals);
        let mut link = link.borrow_mut();
        link.set_options(dial.options);
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
        self.callers.release(&mut it);
        match answer {
            Answer::Refuse(refusal) => {
                it.refuse(at, refusal);
                it.touch(&self.shared);
                None
            }
            Answer::Welcome { serial, hello, options } => {
                it.set_options(options);
                it.send_greeting(&Message::Welcome(hello));
                it.deadline = None;
                drop(it);
                self.lanes.insert(serial, number);
                Some(self.begin_lane(serial, link))
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
        Some(self.begin_lane(serial, link))
    }

    /// The connection carries this lane from now on: its sending half.
    fn begin_lane(&self, serial: u64, link: Rc<RefCell<Link>>) -> QuicTx {
        let mut it = link.borrow_mut();
        it.stage = Stage::Lane { serial };
        let Options { delivery, seed, .. } = it.options;
        if delivery == Delivery::Reliable {
            it.begin_streams();
        }
        // Datagrams may have come since the welcome.
        it.touch(&self.shared);
        drop(it);
        QuicTx::new(serial, (link, Rc::clone(&self.shared)), delivery, seed)
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

    /// The longest silence of an idle lane is this from now on.
    pub(crate) fn set_keepalive(&mut self, max: Duration) {
        if std::mem::replace(&mut self.keepalive, max) == max {
            return;
        }
        for link in self.links.values() {
            let mut link = link.borrow_mut();
            link.keepalive = None;
            link.touch(&self.shared);
        }
    }

    /// Addresses, routes or interfaces of this machine have changed: the connections that it dialled show the other ends where it is
    /// now (RFC 9000 §9), whether or not they have something to send. None sends packets longer than its route takes.
    pub(crate) fn handle_network_changed(&mut self, now: Instant) {
        let at = self.shared.to_std(now);
        for link in self.links.values() {
            let mut link = link.borrow_mut();
            let longest = self.longest_packet(link.port, link.inner.remote_address());
            link.handle_route(at, longest);
            if link.inner.side().is_client() {
                link.show_address(at);
            }
            link.touch(&self.shared);
        }
    }

    /// The other end of this lane may be gone: the lane ends unless it answers soon.
    pub(crate) fn prove(&mut self, now: Instant, serial: u64) {
        let link = self.lanes.get(&serial).and_then(|number| self.links.get(number));
        if let Some(link) = link {
            let mut link = link.borrow_mut();
            link.prove(self.shared.to_std(now));
            link.touch(&self.shared);
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
        let timer = self.timers.first().map(|(at, _)| self.shared.to_units(*at));
        timer.into_iter().chain(self.callers.poll_timeout()).min()
    }

    /// Looks after the connections that have something to say or to do. What those of lanes have to say leaves when the lane is served,
    /// or with [`settle_sent`](Self::settle_sent). `deliver` gets what has arrived in lanes, by their
    /// serials, with their round-trip times; an error ends the lane.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        changes: &mut Vec<Change>,
        mut deliver: impl FnMut(u64, Duration, Arrived<'_>) -> Result<(), RxError>,
    ) {
        let at = self.shared.to_std(now);
        self.begin_handshake(at, changes);
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
            if matches!(link.stage, Stage::Lane { .. }) {
                link.defer(&self.shared);
            } else {
                link.transmit(&self.shared, at);
                self.settle(&mut link);
            }
        }
    }

    /// Sends what lanes have to say that were not served, and looks after the timers of those that have sent something.
    pub(crate) fn settle_sent(&mut self, now: Instant) {
        let at = self.shared.to_std(now);
        let unsettled = std::mem::take(&mut *self.shared.unsettled.borrow_mut());
        for number in unsettled {
            if let Some(link) = self.links.get(&number).map(Rc::clone) {
                let mut link = link.borrow_mut();
                link.is_unsettled = false;
                link.transmit_deferred(&self.shared, at);
                self.settle(&mut link);
            }
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
        let timer = link.next_timeout();
        if timer != link.timer {
            if let Some(at) = link.timer {
                self.timers.remove(&(at, link.number));
            }
            self.timers.extend(timer.map(|at| (at, link.number)));
            link.timer = timer;
        }
    }

    /// An idle lane speaks, and with it those on the same way that soon would.
    fn keepalive(&self, at: StdInstant, link: &mut Link) {
        link.ping();
        let Some(keepalive) = &link.keepalive else { return };
        keepalive.retain(|number| self.links.contains_key(&number));
        for number in keepalive.beside().into_iter().filter(|number| *number != link.number) {
            let Some(other) = self.links.get(&number) else { continue };
            let mut other = other.borrow_mut();
            if other.keepalive.as_ref().is_some_and(|keepalive| keepalive.is_nearly_due(at)) {
                other.ping();
                other.touch(&self.shared);
            }
        }
    }

    fn advance_one(
        &mut self,
        at: StdInstant,
        link: &mut Link,
        changes: &mut Vec<Change>,
        deliver: &mut impl FnMut(u64, Duration, Arrived<'_>) -> Result<(), RxError>,
    ) {
        if link.deadline.is_some_and(|deadline| deadline <= at) {
            self.fail(at, link, Failure::Path, "no answer", changes);
        }
        while let Some(event) = link.inner.poll() {
            match event {
                quinn_proto::Event::ConnectionLost { reason } => self.handle_lost(link, &reason, changes),
                quinn_proto::Event::Stream(event) => link.handle_stream_event(&event),
                _ => {}
            }
        }
        if let Err(error) = self.advance_greetings(at, link, changes) {
            self.fail(at, link, Failure::Lane, &error.to_string(), changes);
        }
        let Stage::Lane { serial } = link.stage else { return };
        let round_trip = link.inner.rtt();
        let (any, result) =
            link.read(self.shared.to_units(at), |arrived| deliver(serial, round_trip, arrived));
        if any {
            // What came before a mistake is delivered.
            let _ = deliver(serial, round_trip, Arrived::Nothing);
        }
        if let Err(error) = result {
            link.close(at, FAILED, "");
            self.lanes.remove(&serial);
            changes.push(Change::Ended { serial, reason: error.to_string(), clean: false });
            return;
        }
        let finding = {
            let mut bindings = self.shared.bindings.borrow_mut();
            link.begin_keepalive(at, self.keepalive, &mut bindings);
            link.look(at, any, &mut bindings)
        };
        if link.is_to_be_dialled_again() {
            link.close(at, FAILED, "");
            self.lanes.remove(&serial);
            changes.push(Change::Ended { serial, reason: ONLY_SHORT.to_owned(), clean: false });
            return;
        }
        match link.poll_keepalive(at) {
            Some(Due::Ping) => self.keepalive(at, link),
            Some(Due::Dead) => {
                self.handle_lost(link, &ConnectionError::TimedOut, changes);
                return link.close(at, FAILED, "");
            }
            None => {}
        }
        if let Some(remote) = link.poll_moved(at) {
            changes.push(Change::Event(Event::Moved { serial, remote }));
        }
        match finding {
            Some(Finding::Failing(reason)) => changes.push(Change::Event(Event::Failing { serial, reason })),
            Some(Finding::Recovered) => changes.push(Change::Event(Event::Recovered { serial })),
            Some(Finding::Ask) | None => {}
        }
        changes.push(Change::Writable { serial });
    }
}
