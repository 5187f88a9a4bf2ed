//! Transfers over TCP: what [`Users`] decide, done with sockets.

mod records;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::net::sockopt;
use trunkline_units::Instant;
use trunkline_workload::{Beginning, TransferState, Users};

use super::connection::{Connection, End, Request, Scratch, Turn};
use super::poll::{ConnectionId, Poll, Token};
use super::reading::{Lateness, Transfer};
use super::settings::SocketOptions;
use super::slots::Slots;
use super::socket::{self, Connect, Places};

/// Transfers of one source that begin, and connections of one listener that are accepted, before others have their turn.
const TURN: usize = 64;

/// A user and its transfer.
#[derive(Debug, Clone, Copy, Default)]
struct User {
    connection: Option<ConnectionId>,
    /// The record of its last transfer.
    record: Option<u32>,
    /// Bytes that were received on its connection before its transfer.
    before: u64,
    /// Bytes received by its transfers that are over.
    finished: u64,
    /// Segments that the sender of its data had retransmitted on its connection before its transfer.
    retransmissions_before: u64,
    /// The same for its transfers that are over.
    retransmissions: u64,
}

/// A source of transfers.
#[derive(Debug)]
pub(super) struct TcpSource {
    users: Users,
    /// The client's namespace.
    client: usize,
    listener: usize,
    connect: Connect,
    server: SocketOptions,
    places: Vec<User>,
    records: Vec<Transfer>,
    /// Transfers that go on.
    running: u32,
}

impl TcpSource {
    pub(super) fn new(
        users: Users,
        (client, listener): (usize, usize),
        connect: Connect,
        server: SocketOptions,
    ) -> Self {
        let places = vec![User::default(); users.count() as usize];
        TcpSource { users, client, listener, connect, server, places, records: Vec::new(), running: 0 }
    }

    fn is_running(&self, user: u32) -> bool {
        let record = self.places[user as usize].record;
        record.is_some_and(|record| self.records[record as usize].state == TransferState::Running)
    }
}

/// All sources of transfers, and their connections.
#[derive(Debug)]
pub(super) struct Transfers {
    poll: Poll,
    sources: Vec<TcpSource>,
    listeners: Vec<OwnedFd>,
    connections: Slots,
    /// Connections that were not accepted yet, by listener and the client's address.
    expected: HashMap<(usize, SocketAddr), ConnectionId>,
    /// Connections that have more to do than one turn allowed.
    again: Vec<ConnectionId>,
    scratch: Scratch,
}

impl Transfers {
    pub(super) fn new(poll: Poll, listeners: Vec<OwnedFd>, sources: Vec<TcpSource>) -> Self {
        Transfers {
            poll,
            sources,
            listeners,
            connections: Slots::default(),
            expected: HashMap::new(),
            again: Vec::new(),
            scratch: Scratch::new(),
        }
    }

    /// When something is to begin or to stop.
    pub(super) fn next_time(&self) -> Option<Instant> {
        self.sources.iter().filter_map(|source| source.users.poll_time()).min()
    }

    /// Whether a connection has more to do.
    pub(super) fn is_busy(&self) -> bool {
        !self.again.is_empty()
    }

    /// Whether nothing of a source goes on or is to begin.
    pub(super) fn is_over(&self, source: usize) -> bool {
        let source = &self.sources[source];
        source.running == 0 && source.users.is_idle()
    }

    /// Begins and stops what is due, and goes on with what had more to do.
    pub(super) fn run(&mut self, now: Instant, places: &mut Places, lateness: &mut Lateness) {
        for number in 0..self.sources.len() {
            if self.sources[number].users.poll_stop(now) {
                self.stop(number, now);
            }
            for _ in 0..TURN {
                let users = &mut self.sources[number].users;
                let Some(due) = users.poll_time() else { break };
                let Some(beginning) = users.poll_beginning(now) else { break };
                lateness.add(now.saturating_since(due));
                self.begin(number, beginning, (now, places));
            }
        }
        for id in std::mem::take(&mut self.again) {
            self.serve(id, now);
        }
    }

    /// What has no end of its own ends, and connections without a transfer close.
    fn stop(&mut self, number: usize, now: Instant) {
        for user in 0..self.sources[number].places.len() {
            let Some(id) = self.sources[number].places[user].connection else { continue };
            let running = self.sources[number].is_running(user as u32);
            let upload = self.sources[number].users.pattern().is_upload();
            if !running {
                self.close_client(id);
            } else if upload
                && let Some(client) = self.connections.get_mut(id).and_then(|c| c.client.as_mut())
                && client.to_write > u64::MAX / 2
            {
                client.to_write = 0;
                self.serve(id, now);
            }
        }
    }

    fn begin(&mut self, number: usize, beginning: Beginning, (now, places): (Instant, &mut Places)) {
        let Beginning { user, asked, request, response } = beginning;
        let request = request.unwrap_or(u64::MAX);
        self.add_record(number, user, asked);
        let source = &mut self.sources[number];
        if let Some(id) = source.places[user as usize].connection
            && let Some(connection) = self.connections.get_mut(id)
            && let Some(client) = &mut connection.client
        {
            // A request on a connection that stays.
            source.places[user as usize].before = client.received;
            client.to_write += request;
            connection.answer_end = client.received + response;
            connection.request = Request { end: connection.request.end + request, answer: response };
            self.serve(id, now);
            return;
        }
        places.enter(source.client);
        let Ok((socket, own)) = source.connect.begin() else {
            self.end(number, user, TransferState::Failed, now);
            return;
        };
        let listener = source.listener;
        let mut client = End::new(socket);
        client.to_write = request;
        let id = self.connections.insert(Connection {
            source: number,
            user: Some(user),
            own,
            client: Some(client),
            server: None,
            connected: false,
            request: Request { end: request, answer: response },
            answer_end: response,
        });
        source.places[user as usize].connection = Some(id);
        self.expected.insert((listener, own), id);
        let client = self.connections.get(id).and_then(|connection| connection.client.as_ref());
        let polled = client.map(|client| self.poll.add_edges(&client.socket, Token::Client(id)));
        if !matches!(polled, Some(Ok(()))) {
            self.fail(id, now);
        }
    }

    /// Connections wait at a listener.
    pub(super) fn accept(&mut self, listener: usize, now: Instant) {
        for _ in 0..TURN {
            let Some((socket, peer)) = socket::accept(&self.listeners[listener]) else { return };
            let server = End::new(socket);
            let id = self.expected.remove(&(listener, peer));
            let Some((id, connection)) =
                id.and_then(|id| self.connections.get_mut(id).map(|connection| (id, connection)))
            else {
                // Its client has given it up.
                server.abort();
                continue;
            };
            let source = &self.sources[connection.source];
            let Connect { address, dscp, .. } = source.connect;
            let set = source.server.apply_accepted(&server.socket, address.ip(), dscp);
            let polled = self.poll.add_edges(&server.socket, Token::Server(id));
            connection.server = Some(server);
            if set.and(polled).is_ok() {
                self.serve(id, now);
            } else {
                self.fail(id, now);
            }
        }
    }

    /// The kernel has something new for a client.
    pub(super) fn handle_client(&mut self, id: ConnectionId, flags: EventFlags, now: Instant) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Some(client) = &connection.client else { return };
        if !connection.connected {
            match sockopt::socket_error(&client.socket) {
                Ok(Ok(())) if flags.contains(EventFlags::OUT) => {}
                Ok(Ok(())) if !flags.intersects(EventFlags::ERR | EventFlags::HUP) => return,
                _ => return self.fail(id, now),
            }
            connection.connected = true;
            let (source, user) = (connection.source, connection.user);
            self.connected(source, user, now);
        }
        self.serve(id, now);
    }

    /// Lets both ends of a connection do what they can.
    pub(super) fn serve(&mut self, id: ConnectionId, now: Instant) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let scratch = &mut self.scratch;
        let mut turns = Vec::with_capacity(4);
        if let Some(client) = connection.client.as_mut().filter(|_| connection.connected) {
            turns.push(client.read(scratch));
            turns.push(client.write(scratch, now));
        }
        if let Some(server) = &mut connection.server {
            turns.push(server.read(scratch));
        }
        connection.answer();
        if let Some(server) = &mut connection.server {
            turns.push(server.write(scratch, now));
        }
        if turns.iter().any(Result::is_err) {
            return self.fail(id, now);
        }
        if turns.contains(&Ok(Turn::Again)) {
            self.again.push(id);
        }
        self.settle(id, now);
    }

    /// Ends streams and transfers that are at their end.
    fn settle(&mut self, id: ConnectionId, now: Instant) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let source = &self.sources[connection.source];
        let upload = source.users.pattern().is_upload();
        let Some(user) = connection.user else {
            // It closes by itself.
            if connection.server.as_ref().is_none_or(|server| server.ended) {
                self.connections.remove(id);
            }
            return;
        };
        let Some(client) = &mut connection.client else { return };
        if upload {
            if connection.connected && client.to_write == 0 {
                client.shut();
            }
            if let Some(server) = connection.server.as_mut().filter(|server| server.ended) {
                server.shut();
                if client.ended {
                    self.complete(id, now);
                }
            }
        } else if source.is_running(user) {
            if client.received >= connection.answer_end && client.to_write == 0 {
                self.complete(id, now);
            } else if client.ended {
                self.fail(id, now);
            }
        } else if client.ended {
            self.fail(id, now);
        }
    }

    /// A transfer has done all that it was to do.
    fn complete(&mut self, id: ConnectionId, now: Instant) {
        let Some((number, user)) = self.connections.get(id).and_then(|c| Some((c.source, c.user?))) else {
            return;
        };
        let users = &self.sources[number].users;
        let upload = users.pattern().is_upload();
        let stays = users.pattern().keeps_connections() && !users.is_stopped();
        self.update_record(id);
        if upload {
            self.connections.remove(id);
            self.sources[number].places[user as usize].connection = None;
        } else if !stays {
            self.close_client(id);
        }
        self.end(number, user, TransferState::Completed, now);
    }

    /// A client closes a connection on which no transfer runs. The server closes when it reads that.
    fn close_client(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.client = None;
        if let Some(user) = connection.user.take() {
            self.sources[connection.source].places[user as usize].connection = None;
        }
        if connection.server.as_ref().is_none_or(|server| server.ended) {
            self.connections.remove(id);
        }
    }

    /// A connection was reset, refused or given up.
    fn fail(&mut self, id: ConnectionId, now: Instant) {
        self.update_record(id);
        let Some(connection) = self.connections.remove(id) else { return };
        connection.client.iter().chain(&connection.server).for_each(End::abort);
        let expected = (self.sources[connection.source].listener, connection.own);
        if self.expected.get(&expected) == Some(&id) {
            self.expected.remove(&expected);
        }
        if let Some(user) = connection.user {
            self.sources[connection.source].places[user as usize].connection = None;
            if self.sources[connection.source].is_running(user) {
                self.end(connection.source, user, TransferState::Failed, now);
            }
        }
    }
}
