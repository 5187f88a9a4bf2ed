//! The state that all parts of a network share: agenda, links, nodes and the ends of connections.

use std::sync::Arc;

use trunkline_packet::{TcpFlags, Version, protocol};
use trunkline_queue::Item;
use trunkline_tcp::{Segment, Settings, State};
use trunkline_units::{Instant, Region, Rng};
use trunkline_workload::{Arrival, Datagrams};

use crate::Packet;
use crate::agenda::{Agenda, Kind};
use crate::connection::{Connection, ConnectionId, NO_TRANSFER, Role, Upcall};
use crate::digest::Digest;
use crate::duplication::DuplicateTracker;
use crate::fragmentation::fragment;
use crate::icmp::{Error, mss_over};
use crate::link::{Link, LinkId};
use crate::node::{NO_ROUTE, Node, NodeId};
use crate::packet::{Addressing, MIN_MTU_IPV6, SparePackets};
use crate::prefetch::prefetch;
use crate::sockets::{Socket, SocketTable, socket_key};
use crate::traffic::headers;

/// The first port of those that flows begin from.
const LOWEST_PORT: u16 = 10_000;

/// The state of fewer connections fits into the caches of a processor.
const MANY_CONNECTIONS: usize = 256;

/// How to open a connection.
pub(crate) struct Opening<'a> {
    pub(crate) client: NodeId,
    pub(crate) server: NodeId,
    pub(crate) port: u16,
    pub(crate) version: Version,
    /// Of the client's packets, and of the server's.
    pub(crate) dscp: [u8; 2],
    pub(crate) settings: [&'a Arc<Settings>; 2],
    pub(crate) roles: [Role; 2],
}

#[derive(Debug)]
pub(crate) struct NetworkState {
    pub(crate) now: Instant,
    pub(crate) agenda: Agenda,
    pub(crate) links: Vec<Link>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) connections: Vec<Connection>,
    vacant: Vec<ConnectionId>,
    pub(crate) sockets: SocketTable,
    pub(crate) datagrams: Vec<Datagrams>,
    pub(crate) upcalls: Vec<Upcall>,
    pub(crate) digest: Digest,
    pub(crate) duplicates: DuplicateTracker,
    pub(crate) hops: u64,
    spare: SparePackets,
    numbers: Rng,
}

impl NetworkState {
    pub(crate) fn new(seed: u64) -> Self {
        NetworkState {
            now: Instant::ZERO,
            agenda: Agenda::new(),
            links: Vec::new(),
            nodes: Vec::new(),
            connections: Vec::new(),
            vacant: Vec::new(),
            sockets: SocketTable::default(),
            datagrams: Vec::new(),
            upcalls: Vec::new(),
            digest: Digest::new(seed),
            duplicates: DuplicateTracker::default(),
            hops: 0,
            spare: SparePackets::default(),
            numbers: Rng::new(seed, "initial sequence numbers"),
        }
    }

    /// Sends a packet from a node towards its destination.
    #[inline]
    pub(crate) fn send(&mut self, from: NodeId, packet: Packet) {
        let to = packet.destination();
        let node = &mut self.nodes[from.index()];
        let link = node.routes.get(to.index()).copied().unwrap_or(NO_ROUTE);
        if link == NO_ROUTE {
            node.stats.unreachable += 1;
            self.report(from, &packet, Error::NoRoute);
            return;
        }
        let (id, link) = (LinkId(link), &mut self.links[link as usize]);
        if packet.length() <= link.machine.mtu() {
            link.offer(self.now, id, packet, &mut self.agenda);
        } else {
            self.send_too_long(from, id, &packet);
        }
    }

    /// Sends a packet in fragments over a link that it is too long for, or reports it.
    #[cold]
    fn send_too_long(&mut self, from: NodeId, id: LinkId, packet: &Packet) {
        let link = &mut self.links[id.0 as usize];
        let (now, mtu) = (self.now, link.machine.mtu());
        if packet.dont_fragment() {
            link.machine.count_too_big();
            self.report(from, packet, Error::TooLong { mtu });
        } else {
            link.machine.count_fragmented();
            fragment(packet, mtu, &mut |piece| link.offer(now, id, piece, &mut self.agenda));
        }
    }

    /// Forwards a packet for another node.
    #[inline]
    pub(crate) fn forward(&mut self, at: NodeId, mut packet: Packet) {
        if packet.take_hop() {
            self.send(at, packet);
        } else {
            self.nodes[at.index()].stats.ttl_expired += 1;
            self.report(at, &packet, Error::HopsExpired);
        }
    }

    /// Delivers a packet at its destination. Returns a packet for a gateway's unreliable lane.
    #[inline]
    pub(crate) fn deliver(&mut self, at: NodeId, mut packet: Packet) -> Option<(u32, u32, Packet)> {
        if packet.is_fragment() {
            packet = self.reassemble(at, packet)?;
        }
        let node = &mut self.nodes[at.index()];
        if packet.is_corrupted() {
            node.stats.corrupted += 1;
            return None;
        }
        let hint = packet.hint();
        let socket = match self.connections.get(hint as usize) {
            Some(connection) if connection.is_for(at, &packet) => {
                Some(Socket::Connection(ConnectionId(hint)))
            }
            _ => self.sockets.get(&socket_key(at, packet.source(), packet.ports())).copied(),
        };
        match socket {
            None if packet.is_icmp() => self.handle_icmp(at, &packet),
            None => {
                node.stats.no_listener += 1;
                self.report(at, &packet, Error::NoListener);
            }
            Some(Socket::Connection(id)) => {
                let Ok((mut segment, _)) = Segment::parse(packet.transport(), packet.transport_len()) else {
                    node.stats.malformed += 1;
                    return None;
                };
                (segment.ecn_capable, segment.congestion_experienced) = packet.ecn_of_segment();
                self.deliver_segment(id, &packet, &segment);
                self.spare.keep(packet);
                self.serve(id);
            }
            Some(Socket::Datagrams(flow)) => self.deliver_datagram(flow, &packet),
            Some(Socket::Lane { gateway, lane }) => return Some((gateway, lane, packet)),
        }
        None
    }

    /// Begins to load what the packets need that arrive next on a link: a packet, then its receiver, then what that refers
    /// to. A few packets later they are in the processor's caches. With few connections they are there anyway.
    #[inline]
    pub(crate) fn look_ahead(&self, link: LinkId) {
        if self.connections.len() < MANY_CONNECTIONS {
            return;
        }
        let machine = &self.links[link.0 as usize].machine;
        if let Some(packet) = machine.upcoming(14) {
            packet.prefetch();
        }
        let receiver = |ahead| {
            let hint = machine.upcoming(ahead)?.hint();
            Some((hint, self.connections.get(hint as usize)?))
        };
        if let Some((number, connection)) = receiver(9) {
            prefetch(Region::of(connection));
            self.agenda.prefetch(Kind::Connection, number);
        }
        if let Some((_, connection)) = receiver(5) {
            connection.endpoint.prefetch(prefetch);
        }
        if let Some((_, connection)) = receiver(2) {
            connection.endpoint.prefetch_flight(prefetch);
        }
    }

    /// The packet that is whole with this fragment.
    #[cold]
    fn reassemble(&mut self, at: NodeId, fragment: Packet) -> Option<Packet> {
        let node = &mut self.nodes[at.index()];
        let reassembly = node.reassembly.get_or_insert_default();
        let whole = reassembly.handle(self.now, fragment);
        node.stats.reassembly_failures = reassembly.failures;
        whole
    }

    #[inline(never)]
    fn deliver_datagram(&mut self, flow: u32, packet: &Packet) {
        let first = self.duplicates.is_first(packet);
        let flow = &mut self.datagrams[flow as usize];
        if first {
            flow.handle_arrival(&Arrival {
                sent: packet.sent(),
                at: self.now,
                bytes: packet.length().into(),
                headers: headers(packet.version()),
                marked: packet.congestion_experienced(),
            });
        } else {
            flow.duplicated += 1;
        }
    }

    /// Delivers the segment of a packet to a connection.
    #[inline]
    pub(crate) fn deliver_segment(&mut self, id: ConnectionId, packet: &Packet, segment: &Segment) {
        let endpoint = &mut self.connections[id.0 as usize].endpoint;
        let before = endpoint.duplicates_received();
        endpoint.handle_segment(self.now, segment);
        let had = endpoint.duplicates_received() != before;
        if had || packet.duplication() != 0 {
            self.count_duplicate(packet, had);
        }
    }

    /// Counts a duplicate at its sender. `had` says whether the receiver had all of the packet's data before; a copy that
    /// a link made does not count.
    #[cold]
    fn count_duplicate(&mut self, packet: &Packet, had: bool) {
        if self.duplicates.is_first(packet)
            && had
            && let Some(sender) = self.sender(packet)
        {
            sender.duplicates_delivered += 1;
        }
    }

    /// The end that sent a packet; `None` if it is gone, or if a proxy sent in its name.
    fn sender(&mut self, packet: &Packet) -> Option<&mut Connection> {
        let sender = self.connections.get(packet.hint() as usize)?.peer;
        self.connections.get_mut(sender as usize).filter(|sender| sender.sends(packet))
    }

    /// Lets a connection's timer run out.
    pub(crate) fn run_timer(&mut self, id: ConnectionId) {
        self.connections[id.0 as usize].endpoint.handle_timeout(self.now);
        self.serve(id);
    }

    /// Runs a connection and its user until they wait.
    #[inline]
    pub(crate) fn serve(&mut self, id: ConnectionId) {
        let connection = &mut self.connections[id.0 as usize];
        connection.serve_app(&mut self.upcalls);
        connection.poll_events(&mut self.upcalls);
        match connection.role {
            Role::Lane { gateway, lane } => self.upcalls.push(Upcall::Lane { gateway, lane }),
            Role::Split { proxy, flow } => {
                // The proxy sends what it has to send.
                self.upcalls.push(Upcall::Split { proxy, flow });
                return;
            }
            Role::App(_) | Role::Vacant { .. } => {}
        }
        self.flush(id);
        let connection = &self.connections[id.0 as usize];
        if let Role::App(app) = connection.role
            && connection.endpoint.state() == State::Closed
        {
            let failures = connection.broken && app.transfer.1 == NO_TRANSFER;
            let peer = if failures { self.peer(id) } else { None };
            self.forget(id);
            // An end that nobody waits for, and whose peer gave up, would wait for ever.
            if let Some(peer) = peer {
                self.forget(peer);
            }
        }
    }

    /// Handles the events of a connection.
    pub(crate) fn poll_events(&mut self, id: ConnectionId) {
        self.connections[id.0 as usize].poll_events(&mut self.upcalls);
    }

    /// The other end of an application's connection, if it is there.
    fn peer(&self, id: ConnectionId) -> Option<ConnectionId> {
        let Connection { addressing, node, .. } = &self.connections[id.0 as usize];
        let (near, far) = addressing.ports;
        let Socket::Connection(peer) =
            *self.sockets.get(&socket_key(addressing.destination, *node, (near, far)))?
        else {
            return None;
        };
        matches!(self.connections[peer.0 as usize].role, Role::App(app) if app.transfer.1 == NO_TRANSFER)
            .then_some(peer)
    }

    /// Ends of connections, with those in TIME-WAIT.
    pub(crate) fn live_endpoints(&self) -> usize {
        self.connections.len() - self.vacant.len()
    }

    /// Sends the segments of a connection, and schedules its next timer.
    #[inline]
    pub(crate) fn flush(&mut self, id: ConnectionId) {
        let now = self.now;
        loop {
            let connection = &mut self.connections[id.0 as usize];
            let Some(segment) = connection.endpoint.poll_transmit(now) else { break };
            let node = connection.node;
            let number = self.nodes[node.index()].take_id();
            let packet = Packet::tcp_reusing(&mut self.spare, &connection.addressing, number, &segment)
                .sent_at(now)
                .hinted(connection.peer);
            self.send(node, packet);
        }
        match self.connections[id.0 as usize].endpoint.next_wakeup() {
            Some((at, _)) => self.agenda.set(Kind::Connection, id.0, at.max(now)),
            None => self.agenda.cancel(Kind::Connection, id.0),
        }
    }

    /// An initial sequence number.
    pub(crate) fn initial_sequence(&mut self) -> u32 {
        self.numbers.next_u64() as u32
    }

    /// Opens a connection between two nodes; the client's first segment leaves at once.
    pub(crate) fn open(&mut self, opening: &Opening) -> [ConnectionId; 2] {
        let (client, server) = (opening.client, opening.server);
        let local = self.free_port(client, server, opening.port);
        let (near, far) = ((client, local), (server, opening.port));
        let protocol = (opening.version, protocol::TCP);
        let mut there = Addressing::new(protocol, near, far, opening.dscp[0]);
        let mut back = Addressing::new(protocol, far, near, opening.dscp[1]);
        there.dont_fragment |= opening.settings[0].path_mtu_discovery;
        back.dont_fragment |= opening.settings[1].path_mtu_discovery;
        let [near_iss, far_iss] = [self.numbers.next_u64() as u32, self.numbers.next_u64() as u32];
        let [near_role, far_role] = opening.roles;
        let passive = Connection::passive(opening.settings[1], far_iss, (back, server, far_role));
        let far = self.place(passive);
        let now = self.now;
        let active = Connection::active(opening.settings[0], (now, near_iss), (there, client, near_role));
        let near = self.place(active);
        self.connections[near.0 as usize].peer = far.0;
        self.connections[far.0 as usize].peer = near.0;
        self.sockets.insert(socket_key(client, server, (opening.port, local)), Socket::Connection(near));
        self.sockets.insert(socket_key(server, client, (local, opening.port)), Socket::Connection(far));
        self.apply_path_mtu(near);
        self.apply_path_mtu(far);
        self.flush(near);
        [near, far]
    }

    /// The TCP of a node's connections to another over a version of IP. Over IPv6 it discovers the MTU of the path, and its segments
    /// fit the link that they leave by, as those of Linux do.
    pub(crate) fn tcp_over(
        &self,
        version: Version,
        (from, to): (NodeId, NodeId),
        settings: &Arc<Settings>,
    ) -> Arc<Settings> {
        if version == Version::V4 {
            return Arc::clone(settings);
        }
        let link = self.nodes[from.index()].routes.get(to.index()).copied().unwrap_or(NO_ROUTE);
        let mtu = self.links.get(link as usize).map_or(MIN_MTU_IPV6, |link| link.machine.mtu());
        let mss = settings.mss.min(mss_over(version, mtu));
        Arc::new(Settings { mss, path_mtu_discovery: true, ..(**settings).clone() })
    }

    /// Tells the sender of a packet that it is prohibited: a connection that is being opened fails.
    pub(crate) fn prohibit(&mut self, packet: &Packet) {
        let (from, to) = (packet.source(), packet.destination());
        let (source, destination) = packet.ports();
        if let Some(Socket::Connection(id)) = self.sockets.get(&socket_key(from, to, (destination, source))) {
            let id = *id;
            self.connections[id.0 as usize].endpoint.abort();
            self.serve(id);
        }
    }

    /// A port of `client` from which nothing goes to that of `server` yet, or what went has ended on both sides and is only
    /// remembered (RFC 1122 §4.2.2.13, RFC 6191).
    pub(crate) fn free_port(&mut self, client: NodeId, server: NodeId, port: u16) -> u16 {
        for _ in LOWEST_PORT..u16::MAX {
            let local = self.take_port(client);
            let keys = [socket_key(client, server, (port, local)), socket_key(server, client, (local, port))];
            let bound = keys.map(|key| self.sockets.get(&key).copied());
            if bound.into_iter().flatten().all(|socket| self.in_time_wait(socket)) {
                for socket in bound.into_iter().flatten() {
                    if let Socket::Connection(id) = socket {
                        self.forget(id);
                    }
                }
                return local;
            }
        }
        panic!("55 000 connections from {} to {} port {port}", client.address(), server.address());
    }

    /// Whether this is an end in TIME-WAIT that nobody waits for.
    fn in_time_wait(&self, socket: Socket) -> bool {
        let Socket::Connection(id) = socket else { return false };
        let Connection { endpoint, role, .. } = &self.connections[id.0 as usize];
        endpoint.state() == State::TimeWait && matches!(role, Role::App(app) if app.transfer.1 == NO_TRANSFER)
    }

    pub(crate) fn place(&mut self, connection: Connection) -> ConnectionId {
        if let Some(id) = self.vacant.pop() {
            self.connections[id.0 as usize] = connection;
            return id;
        }
        if self.connections.len() == self.connections.capacity() {
            // By an eighth: ten thousand of them should not pay for as many that never come.
            self.connections.reserve_exact(self.connections.len() / 8 + 16);
        }
        self.connections.push(connection);
        ConnectionId(self.connections.len() as u32 - 1)
    }

    /// Forgets an end of a connection.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        let connection = &mut self.connections[id.0 as usize];
        let was = match connection.role {
            Role::Vacant { .. } => return,
            Role::App(app) => app.transfer,
            Role::Lane { .. } | Role::Split { .. } => (NO_TRANSFER, NO_TRANSFER),
        };
        connection.role = Role::Vacant { was };
        let addressing = &connection.addressing;
        let key =
            socket_key(connection.node, addressing.destination, (addressing.ports.1, addressing.ports.0));
        if self.sockets.get(&key) == Some(&Socket::Connection(id)) {
            self.sockets.remove(&key);
        }
        self.agenda.cancel(Kind::Connection, id.0);
        self.vacant.push(id);
    }

    /// Binds a socket to the packets from a node and port to another.
    pub(crate) fn bind(&mut self, at: (NodeId, u16), from: (NodeId, u16), socket: Socket) {
        self.sockets.insert(socket_key(at.0, from.0, (from.1, at.1)), socket);
    }

    /// The next port of a node.
    pub(crate) fn take_port(&mut self, node: NodeId) -> u16 {
        let next = &mut self.nodes[node.index()].next_port;
        let port = *next;
        *next = if port == u16::MAX { LOWEST_PORT } else { port + 1 };
        port
    }
}

/// Whether a packet opens or ends a connection.
pub(crate) fn flags_of(packet: &Packet) -> TcpFlags {
    packet.transport().get(13).map_or(TcpFlags(0), |flags| TcpFlags(*flags))
}
