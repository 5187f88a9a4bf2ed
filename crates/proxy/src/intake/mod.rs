//! The thread that opens connections: it reads diverted SYNs, connects to servers, lets the kernel accept, and hands both sockets to a
//! worker. It also carries the packets that are judged one by one (`segments`), follows what cells carry (`cells`), and answers clients.

mod cells;
mod segments;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with, getsockname, sockopt};
use trunkline_linux::clock;
use trunkline_linux::mailbox::Mailbox;
use trunkline_packet::{Unreachable, VNET_LEN};
use trunkline_schema::FailMode;
use trunkline_service::{Response, Server, request::Protocol};
use trunkline_units::Instant;

use crate::answer::{self, Answer};
use crate::clamp::Clamps;
use crate::counters::Counters;
use crate::error_message::ErrorMessage;
use crate::notices::{Incident, Notices};
use crate::opening::{Late, Openings, SynAction};
use crate::plan::Plan;
use crate::relay::{Place, Relay, Side};
use crate::routing::{Routing, TAIL};
use crate::slots::{Key, Slots};
use crate::sockets::{self, RawSender, TcpSettings};
use crate::status;
use crate::syn::{Connection, Syn};
use crate::tail::{Path, Tails, TcpPacket};
use crate::worker::{FromWorker, ToWorker};
use cells::Cells;

const DEVICE: u64 = u64::MAX;
const MAILBOX: u64 = u64::MAX - 1;
const STOP: u64 = u64::MAX - 2;
const SERVER: u64 = u64::MAX - 3;
/// Notifications of the kernel.
const CHANGES: u64 = u64::MAX - 4;
const LISTENER: u64 = u64::MAX - 5;
const MAX_EVENTS: usize = 256;
/// Packets and connections that are taken at a time: then others have their turn.
const MAX_BATCH: usize = 64;
const MAX_PACKET: usize = 65_535;

/// A connection to a server that the client has not confirmed.
#[derive(Debug)]
struct Pending {
    syn: Syn,
    /// The SYN itself, until it has gone to the kernel.
    packet: Vec<u8>,
    socket: OwnedFd,
    /// The sequence number of the proxy's own SYN, once it has been asked for.
    own_isn: OnceCell<Option<u32>>,
    connected: bool,
    place: Place,
    /// Whether the tail of the end in the network is emulated.
    has_tail: bool,
}

impl Pending {
    fn own_isn(&self) -> Option<u32> {
        *self.own_isn.get_or_init(|| sockets::isn(&self.socket))
    }
}

/// What the thread is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) routing: Routing,
    /// The listening sockets.
    pub(crate) listeners: Vec<OwnedFd>,
    /// Send SYNs to them: to plain ones, and to those whose tail is emulated.
    pub(crate) deliver: [RawSender; 2],
    /// Sends answers, and what passes.
    pub(crate) forward: RawSender,
    /// Sends to the proxy's own sockets.
    pub(crate) local: RawSender,
    pub(crate) workers: Vec<Mailbox<ToWorker>>,
    pub(crate) from_workers: Mailbox<FromWorker>,
    pub(crate) counters: Arc<Counters>,
    /// The name that the status says.
    pub(crate) name: String,
    /// Its clients, unless another thread answers them.
    pub(crate) server: Option<Server>,
}

#[derive(Debug)]
pub(crate) struct Intake {
    parts: Parts,
    epoll: OwnedFd,
    tcp: TcpSettings,
    plan: Plan,
    tails: Tails,
    cells: Cells,
    clamps: Clamps,
    openings: Openings,
    notices: Notices,
    pending: Slots<Pending>,
    by_connection: HashMap<Connection, Key>,
    /// Connections of each worker.
    loads: Vec<usize>,
    /// Connections beyond which idle ones are closed, and how many at a time.
    crowded: usize,
    evict: usize,
    /// Workers that have not been asked to close idle connections, while one is.
    unasked: Option<usize>,
    /// A descriptor to spare, so that there is one to accept and refuse with.
    reserve: Option<OwnedFd>,
    buffer: Vec<u8>,
    started: Instant,
}

impl Intake {
    pub(crate) fn new(plan: &Plan, parts: Parts) -> io::Result<Intake> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let evict = (plan.limits.connections / 64).max(1);
        let mut tails = Tails::new();
        let cells = Cells::new(plan, &mut tails);
        let intake = Intake {
            tcp: plan.into(),
            plan: plan.clone(),
            tails,
            cells,
            clamps: Clamps::new(plan.limits.connections),
            started: clock::now(),
            openings: Openings::new(plan.limits),
            notices: Notices::new(plan.fail),
            pending: Slots::new(),
            by_connection: HashMap::new(),
            loads: vec![0; parts.workers.len()],
            crowded: plan.limits.connections - evict,
            evict,
            unasked: None,
            reserve: reserve(),
            buffer: vec![0; VNET_LEN + MAX_PACKET],
            parts,
            epoll,
        };
        intake.watch_device()?;
        for monitor in intake.parts.routing.monitors() {
            intake.watch(monitor, CHANGES)?;
        }
        intake.watch(&intake.parts.from_workers, MAILBOX)?;
        for (index, listener) in intake.parts.listeners.iter().enumerate() {
            intake.watch(listener, LISTENER - index as u64)?;
        }
        if let Some(server) = &intake.parts.server {
            intake.watch(server, SERVER)?;
        }
        intake.cells.publish_rates(&intake.parts.counters);
        Ok(intake)
    }

    fn watch(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
    }

    fn watch_device(&self) -> io::Result<()> {
        self.parts.routing.device().map_or(Ok(()), |device| self.watch(device, DEVICE))
    }

    /// What leads connections here is removed at the end, whatever is to become of them otherwise.
    pub(crate) fn end_in_order(&mut self) {
        self.parts.routing.end_in_order();
    }

    /// Works until `stop` is readable, or a client says so.
    pub(crate) fn run(&mut self, stop: &OwnedFd) -> io::Result<()> {
        self.watch(stop, STOP)?;
        let mut events: Vec<epoll::Event> = Vec::with_capacity(MAX_EVENTS);
        loop {
            events.clear();
            let wait = self.next_timeout().map(|at| timespec(at.saturating_since(clock::now())));
            match epoll::wait(&self.epoll, spare_capacity(&mut events), wait.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let now = clock::now();
            for event in &events {
                match event.data.u64() {
                    DEVICE => self.read_device(now),
                    MAILBOX => self.read_mail()?,
                    STOP => return Ok(()),
                    CHANGES => self.parts.routing.handle_changes(now),
                    SERVER => {
                        if self.answer_clients(now) {
                            return Ok(());
                        }
                    }
                    token if token > LISTENER - self.parts.listeners.len() as u64 => {
                        self.accept(now, (LISTENER - token) as usize);
                    }
                    key => self.handle_socket(now, Key::from_u64(key)),
                }
            }
            while let Some((connection, late)) = self.openings.poll_timeout(now) {
                let totals = &self.parts.counters.totals;
                match late {
                    Late::Server => totals.timed_out.add(1),
                    Late::Client => totals.unconfirmed.add(1),
                }
                self.take(connection);
                self.close_tail(connection);
            }
            if let Some(repair) = self.parts.routing.poll_repair(now) {
                if repair.has_new_device {
                    self.watch_device()?;
                }
                self.parts.counters.set_problem(repair.problem);
            }
            while let Some(line) = self.notices.poll_line(now) {
                tracing::warn!("{line}");
            }
            while let Some((path, packet)) = self.tails.poll_release(now) {
                self.forward(&packet, path.network.ip());
            }
            self.cells.follow(now, &mut self.tails, &self.parts.counters);
            self.cells.publish(&self.tails, &self.parts.counters);
            if self.parts.server.as_ref().and_then(Server::next_timeout).is_some_and(|at| at <= now) {
                self.answer_clients(now);
            }
            self.parts.counters.totals.opening.set(self.openings.opening() as u64);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let server = self.parts.server.as_ref().and_then(Server::next_timeout);
        let cells = self.cells.next_reading(&self.parts.counters);
        let notices = self.notices.next_timeout();
        let own = [self.openings.next_timeout(), self.tails.next_release()];
        own.into_iter().chain([self.parts.routing.next_repair(), notices, server, cells]).flatten().min()
    }

    /// Answers clients. Whether one has said that the process is to end.
    fn answer_clients(&mut self, now: Instant) -> bool {
        let Some(server) = &mut self.parts.server else { return false };
        let uptime = now.saturating_since(self.started).as_secs_f64();
        let (plan, counters, name) = (&self.plan, &self.parts.counters, &self.parts.name);
        let mut is_over = false;
        server.handle(now, |protocol, request| {
            let status = || status::status(name, uptime, plan, counters);
            match protocol {
                Protocol::Control => {
                    let (answer, ends) = status::answer(request, status);
                    is_over |= ends;
                    Response::Line(answer)
                }
                Protocol::Http => status::page(request, status),
            }
        });
        is_over
    }

    fn read_device(&mut self, now: Instant) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..MAX_BATCH {
            let Some(device) = self.parts.routing.device() else { break };
            match rustix::io::read(device, &mut buffer) {
                Ok(len) => self.handle_packet(now, buffer.get_mut(VNET_LEN..len).unwrap_or_default()),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => self.parts.routing.lose_device(now),
            }
        }
        self.buffer = buffer;
    }

    fn handle_packet(&mut self, now: Instant, packet: &mut [u8]) {
        let Ok(syn) = Syn::parse(packet) else {
            if self.handle_segment(now, packet) {
                return;
            }
            match ErrorMessage::parse(packet) {
                Some(message) => self.handle_error(message, packet),
                // The kernel also announces the device to routers and multicast listeners.
                None => self.parts.counters.totals.ignored.add(1),
            }
            return;
        };
        if self.is_own(&syn) {
            self.handle_segment(now, packet);
            return;
        }
        let place = self.place(syn.connection);
        if let Some(place) = place
            && let Some(max) = self.plan.treatments[place.proxy].window
        {
            self.open_clamp(now, path(syn.connection, place.behind), (place.proxy, max));
            self.handle_segment(now, packet);
            return;
        }
        self.make_room();
        let (pending, keys) = (&self.pending, &self.by_connection);
        let own_isn = || pending.get(*keys.get(&syn.connection)?)?.own_isn();
        match self.openings.handle_syn(now, &syn, own_isn) {
            SynAction::Connect { instead_of } => {
                if let Some(displaced) = instead_of {
                    self.parts.counters.totals.displaced.add(1);
                    self.note(now, Incident::Displaced, displaced);
                    self.take(displaced);
                    self.close_tail(displaced);
                }
                self.connect(now, syn, packet.to_vec(), place);
            }
            SynAction::Wait => {}
            SynAction::Deliver => self.deliver(now, syn.connection, packet),
            SynAction::Full => self.turn_away(now, Incident::Full, &syn, packet),
            SynAction::Loop => {
                self.parts.counters.totals.loops.add(1);
                self.note(now, Incident::Loop, syn.connection);
                if let Some(pending) = self.take(syn.connection) {
                    self.close_tail(syn.connection);
                    self.answer(&pending.syn, &pending.packet, Errno::NETUNREACH);
                }
            }
        }
    }

    fn note(&mut self, now: Instant, what: Incident, connection: Connection) {
        if let Some(line) = self.notices.handle(now, what, connection) {
            tracing::warn!("{line}");
        }
    }

    /// A connection for which there is no place, or nothing to serve it with: it passes, or is refused as while the proxy does not run.
    fn turn_away(&mut self, now: Instant, why: Incident, syn: &Syn, packet: &[u8]) {
        self.note(now, why, syn.connection);
        match self.plan.fail {
            FailMode::Open => {
                self.parts.counters.totals.passed.add(1);
                self.forward(packet, syn.connection.server.ip());
            }
            FailMode::Closed => {
                self.parts.counters.totals.full.add(1);
                self.send_unreachable(syn, packet, Unreachable::Host);
            }
        }
    }

    /// Which proxy a connection is of: the first whose prefixes and ports fit, and whose interface leads to the host behind. Where there
    /// is one alone, the packet filter has looked at the interface.
    fn place(&mut self, connection: Connection) -> Option<Place> {
        let plan = &self.plan;
        let place = |(proxy, behind)| Place { proxy, behind };
        let mut candidates = plan.candidates(connection).map(place).peekable();
        let first = candidates.next()?;
        if candidates.peek().is_none() {
            return Some(first);
        }
        let routing = &mut self.parts.routing;
        std::iter::once(first).chain(candidates).find(|place| {
            let Some(link) = &plan.treatments[place.proxy].link else { return true };
            let behind = match place.behind {
                Side::Client => connection.client,
                Side::Server => connection.server,
            };
            routing.leads_to(behind.ip(), link)
        })
    }

    /// Whether a SYN is that of the proxy's own socket, whose tail is emulated, and not its client's.
    fn is_own(&self, syn: &Syn) -> bool {
        let key = self.by_connection.get(&syn.connection);
        let pending = key.and_then(|key| self.pending.get(*key));
        pending.is_some_and(|pending| {
            let is_other =
                pending.has_tail && pending.place.behind == Side::Client && pending.syn.isn != syn.isn;
            // Where the kernel does not tell, any other is taken for it: nothing would work otherwise.
            is_other && pending.own_isn().is_none_or(|own| own == syn.isn)
        })
    }

    /// Gives a SYN to the listening socket of its kind.
    fn deliver(&mut self, now: Instant, connection: Connection, packet: &mut [u8]) {
        let path = path(connection, Side::Server);
        let tail = self.tails.knows(path);
        if tail && let Ok(Some(mut packet)) = TcpPacket::parse(packet) {
            self.tails.handle_incoming(now, path, &mut packet);
        }
        let _ = self.parts.deliver[usize::from(tail)].send(packet, connection.server.ip());
    }

    fn close_tail(&mut self, connection: Connection) {
        for behind in [Side::Client, Side::Server] {
            self.tails.close(path(connection, behind));
        }
    }

    /// This host cannot reach a destination, or not with so long a packet: the server of a connection that is being opened, or somebody else's.
    fn handle_error(&mut self, message: ErrorMessage, packet: &[u8]) {
        let key = message.connection.and_then(|connection| self.by_connection.get(&connection).copied());
        let asked = key.and_then(|key| self.pending.get(key)).filter(|pending| !pending.connected);
        let Some((connection, why)) = asked.map(|pending| pending.syn.connection).zip(message.why) else {
            self.forward(packet, message.destination);
            return;
        };
        self.openings.remove(connection);
        self.close_tail(connection);
        if let Some(pending) = self.take(connection) {
            self.tell(&pending.syn, &pending.packet, Answer::Unreachable(why));
        }
    }

    /// Has idle connections closed if there are almost as many as there may be.
    fn make_room(&mut self) {
        if self.unasked.is_some() || self.openings.len() < self.crowded {
            return;
        }
        let busiest = self.loads.iter().enumerate().max_by_key(|(_, load)| **load);
        if let Some((worker, _)) = busiest {
            self.unasked = Some(self.loads.len() - 1);
            self.parts.workers[worker].post(ToWorker::Evict(self.evict));
        }
    }

    fn connect(&mut self, now: Instant, syn: Syn, packet: Vec<u8>, place: Option<Place>) {
        let Some(place) = place else {
            // It was diverted by a rule that this plan does not have, or by an interface that does not lead back.
            self.openings.remove(syn.connection);
            self.parts.counters.totals.passed.add(1);
            self.forward(&packet, syn.connection.server.ip());
            return;
        };
        let cell = self.cells.of(place.proxy);
        if let Some(cell) = cell {
            self.tails.open(path(syn.connection, place.behind), cell);
        }
        let has_tail = cell.is_some();
        let mark = (has_tail && place.behind == Side::Client).then_some(TAIL);
        let mut opened = self.tcp.connect(&syn, mark);
        // The kernel refuses a connection that ended a moment ago, unless both ends' time stamps tell the old one's packets apart.
        if opened.as_ref().is_err_and(|error| *error == Errno::ADDRNOTAVAIL)
            && self.parts.routing.make_way(syn.connection)
        {
            opened = self.tcp.connect(&syn, mark);
        }
        let waits = match opened {
            Ok(socket) => {
                let own_isn = OnceCell::new();
                let pending = Pending { syn, packet, socket, own_isn, connected: false, place, has_tail };
                self.wait_for_server(pending)
            }
            Err(error) => Err((error, packet)),
        };
        let Err((error, packet)) = waits else { return };
        self.openings.remove(syn.connection);
        self.close_tail(syn.connection);
        if answer::is_shortage(error) {
            self.parts.counters.totals.without_means.add(1);
            self.turn_away(now, Incident::NoMeans, &syn, &packet);
        } else {
            self.answer(&syn, &packet, error);
        }
    }

    /// Gives a connection a place, and has epoll tell what becomes of it. On failure, its SYN.
    fn wait_for_server(&mut self, pending: Pending) -> Result<(), (Errno, Vec<u8>)> {
        let connection = pending.syn.connection;
        let key = self.pending.insert(pending);
        let data = epoll::EventData::new_u64(key.to_u64());
        let socket = self.pending.get(key).map(|pending| &pending.socket);
        let watched =
            socket.map_or(Ok(()), |socket| epoll::add(&self.epoll, socket, data, epoll::EventFlags::OUT));
        if let Err(error) = watched {
            let packet = self.pending.remove(key).map_or_else(Vec::new, |pending| pending.packet);
            return Err((error, packet));
        }
        self.by_connection.insert(connection, key);
        Ok(())
    }

    /// The connection to a server has succeeded or failed.
    fn handle_socket(&mut self, now: Instant, key: Key) {
        let Some(pending) = self.pending.get_mut(key) else { return };
        let connection = pending.syn.connection;
        let error = match sockopt::socket_error(&pending.socket) {
            Ok(Ok(())) if !pending.connected => {
                pending.connected = true;
                let mut packet = std::mem::take(&mut pending.packet);
                // From now on only failures matter, which epoll reports without being asked.
                let data = epoll::EventData::new_u64(key.to_u64());
                let _ = epoll::modify(&self.epoll, &pending.socket, data, epoll::EventFlags::empty());
                if self.openings.handle_connected(now, connection) {
                    self.deliver(now, connection, &mut packet);
                }
                return;
            }
            Ok(Ok(())) => Errno::CONNRESET,
            Ok(Err(error)) | Err(error) => error,
        };
        self.openings.remove(connection);
        self.close_tail(connection);
        if let Some(pending) = self.take(connection) {
            if pending.connected {
                // The kernel accepts nevertheless, and then finds no connection to the server.
                self.parts.counters.totals.reset.add(1);
            } else {
                self.answer(&pending.syn, &pending.packet, error);
            }
        }
    }

    fn accept(&mut self, now: Instant, listener: usize) {
        for _ in 0..MAX_BATCH {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let (socket, peer) = match acceptfrom_with(&self.parts.listeners[listener], flags) {
                Ok((socket, peer)) => (socket, peer),
                Err(Errno::MFILE | Errno::NFILE) => {
                    // It would be ready for ever: refuse one with the descriptor to spare.
                    self.parts.counters.totals.without_means.add(1);
                    self.reserve = None;
                    drop(acceptfrom_with(&self.parts.listeners[listener], flags));
                    self.reserve = reserve();
                    return;
                }
                Err(_) => return,
            };
            let client = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
            let server = getsockname(&socket).ok().and_then(|name| SocketAddr::try_from(name).ok());
            let (Some(client), Some(server)) = (client, server) else { continue };
            let connection = Connection { client: plain(client), server: plain(server) };
            // Dropped, a socket that is no connection of ours is reset.
            if !self.openings.handle_accepted(connection) {
                continue;
            }
            let Some(pending) = self.take(connection) else { continue };
            let _ = epoll::delete(&self.epoll, &pending.socket);
            let least = self.loads.iter().enumerate().min_by_key(|(_, load)| **load);
            let worker = least.map_or(0, |(worker, _)| worker);
            self.loads[worker] += 1;
            self.parts.counters.totals.opened.add(1);
            let mut relay = Relay::new(now, connection, [socket, pending.socket], pending.place);
            relay.delivers_to = pending.has_tail.then_some(pending.place.behind);
            self.parts.workers[worker].post(ToWorker::Adopt(Box::new(relay)));
        }
    }

    fn read_mail(&mut self) -> io::Result<()> {
        for message in self.parts.from_workers.take() {
            match message {
                FromWorker::Ended { worker, connection } => {
                    self.loads[worker] = self.loads[worker].saturating_sub(1);
                    self.openings.remove(connection);
                    self.close_tail(connection);
                }
                FromWorker::Delivered(connection) => {
                    for behind in [Side::Client, Side::Server] {
                        let path = path(connection, behind);
                        if let Some(packet) = self.tails.handle_delivered(path) {
                            self.forward(&packet, path.network.ip());
                        }
                    }
                }
                FromWorker::Host(connection, host) => {
                    for behind in [Side::Client, Side::Server] {
                        self.tails.set_host(path(connection, behind), host);
                    }
                }
                // One that had none to close leaves it to the next.
                FromWorker::Evicted { worker, count: 0 } if self.unasked.is_some_and(|left| left > 0) => {
                    self.unasked = self.unasked.map(|left| left - 1);
                    let next = (worker + 1) % self.parts.workers.len();
                    self.parts.workers[next].post(ToWorker::Evict(self.evict));
                }
                FromWorker::Evicted { .. } => self.unasked = None,
                // Its connections are lost, and nobody would take new ones.
                FromWorker::Gone => return Err(io::Error::other("a worker has ended")),
            }
        }
        Ok(())
    }

    fn take(&mut self, connection: Connection) -> Option<Pending> {
        let key = self.by_connection.remove(&connection)?;
        self.pending.remove(key)
    }

    /// Tells a client what has become of its SYN.
    fn answer(&mut self, syn: &Syn, packet: &[u8], error: Errno) {
        match answer::of(error) {
            Answer::Silence if error == Errno::TIMEDOUT => self.parts.counters.totals.timed_out.add(1),
            Answer::Silence => {
                self.parts.counters.totals.without_means.add(1);
                tracing::debug!("cannot connect to {}: {error}", syn.connection.server);
            }
            answer => self.tell(syn, packet, answer),
        }
    }

    fn tell(&mut self, syn: &Syn, packet: &[u8], answer: Answer) {
        let client = syn.connection.client.ip();
        match answer {
            Answer::Reset => {
                self.parts.counters.totals.refused.add(1);
                self.forward(&answer::reset(syn), client);
            }
            Answer::Unreachable(why) => {
                self.parts.counters.totals.unreachable.add(1);
                self.send_unreachable(syn, packet, why);
            }
            Answer::Silence => {}
        }
    }

    fn send_unreachable(&mut self, syn: &Syn, packet: &[u8], why: Unreachable) {
        let client = syn.connection.client.ip();
        let source = self.parts.routing.source_towards(client);
        if let Some(message) = source.and_then(|source| answer::icmp(why, packet, source)) {
            self.forward(&message, client);
        }
    }
}

const fn path(connection: Connection, behind: Side) -> Path {
    match behind {
        Side::Client => Path { network: connection.server, behind: connection.client },
        Side::Server => Path { network: connection.client, behind: connection.server },
    }
}

/// Without scope and flow label, which a SYN does not have.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

fn reserve() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

fn timespec(duration: Duration) -> Timespec {
    // Rounded up, so that what is waited for has come.
    Timespec { tv_sec: duration.as_secs().cast_signed(), tv_nsec: i64::from(duration.subsec_nanos()) }
}
