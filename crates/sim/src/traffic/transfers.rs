//! A source of transfers over TCP.

mod accounting;

use trunkline_packet::Version;
use trunkline_units::{Instant, Rng};
use trunkline_workload::{Beginning, TransferState, Users};

use super::TcpTraffic;
use super::record::Record;
use crate::agenda::Kind;
use crate::connection::{App, ConnectionId, End, NO_TRANSFER, Role};
use crate::state::{NetworkState, Opening};

#[derive(Debug, Clone, Copy, Default)]
struct User {
    ends: Option<[ConnectionId; 2]>,
    /// The record of its transfer.
    record: u32,
    /// Bytes that were received on its connection before its transfer.
    before: u64,
    /// Of a bulk flow: bytes that the client has sent, when all of them are acknowledged.
    sent: Option<u64>,
    /// Bytes received by its transfers that are over.
    finished: u64,
    /// Segments that the sender of its data had sent again on its connection before its transfer.
    retransmissions_before: u64,
    /// The same for its transfers that are over.
    retransmissions: u64,
}

#[derive(Debug)]
pub(crate) struct TransferSource {
    pub(crate) traffic: TcpTraffic,
    pub(crate) version: Version,
    decisions: Users,
    users: Vec<User>,
    records: Vec<Record>,
    index: u32,
    /// Transfers that go on.
    running: u32,
}

impl TransferSource {
    pub(crate) fn new(version: Version, traffic: TcpTraffic, rng: Rng) -> Self {
        let at = |time| Instant::ZERO + time;
        let times = (at(traffic.start), traffic.stop.map(at));
        let decisions = Users::new(traffic.pattern.clone(), times, rng);
        let users = vec![User::default(); decisions.count() as usize];
        TransferSource { traffic, version, decisions, users, records: Vec::new(), index: 0, running: 0 }
    }

    /// Makes its TCPs those of its version of IP.
    pub(crate) fn adapt(&mut self, net: &NetworkState) {
        let (client, server) = (self.traffic.client, self.traffic.server);
        let ways = [(client, server), (server, client)];
        for (way, tcp) in ways.into_iter().zip(&mut self.traffic.tcp) {
            *tcp = net.tcp_over(self.version, way, tcp);
        }
    }

    /// Asks for the next call.
    pub(crate) fn begin(&mut self, net: &mut NetworkState, index: u32) {
        self.index = index;
        if let Some(at) = self.decisions.poll_time() {
            net.agenda.set(Kind::Source, index, at.max(net.now));
        }
    }

    pub(crate) fn run(&mut self, net: &mut NetworkState, index: u32) {
        if self.decisions.poll_stop(net.now) {
            self.stop(net);
        }
        while let Some(beginning) = self.decisions.poll_beginning(net.now) {
            self.start_transfer(net, index, beginning);
        }
        self.begin(net, index);
    }

    fn stop(&mut self, net: &mut NetworkState) {
        for user in &self.users {
            let Some([client, _]) = user.ends else { continue };
            let Role::App(app) = &mut net.connections[client.0 as usize].role else { continue };
            let endless = app.write > u64::MAX / 2;
            if endless {
                app.write = 0;
            }
            let idle = self.records[user.record as usize].state != TransferState::Running;
            if endless || idle {
                close(net, client);
            }
        }
    }

    /// A user's next step: a flow, an object, a request.
    fn start_transfer(&mut self, net: &mut NetworkState, index: u32, beginning: Beginning) {
        let Beginning { user, asked, request, response: answer } = beginning;
        let ask = request.unwrap_or(u64::MAX);
        let record = self.records.len() as u32;
        self.records.push(Record::begun(user, asked));
        self.running += 1;
        let place = &mut self.users[user as usize];
        let last = self.records[place.record as usize].counts.as_deref();
        place.retransmissions_before = match (place.ends, last) {
            (Some(_), Some(last)) => last.sender.retransmitted_segments,
            _ => 0,
        };
        place.record = record;
        place.before = 0;
        if let Some(ends) = place.ends {
            // A request on a connection that stays.
            self.records[record as usize].connected = Some(asked);
            let [client, server] = ends.map(|end| end.0 as usize);
            place.before = net.connections[client].endpoint.received();
            let transfer = (index, user);
            net.connections[server].role =
                Role::App(App { write: answer, read: ask, transfer, end: End::Server });
            net.connections[client].role =
                Role::App(App { write: ask, read: answer, transfer, end: End::Client { reported: false } });
            net.serve(ends[0]);
            return;
        }
        let transfer = (index, user);
        let client = App { write: ask, read: answer, transfer, end: End::Client { reported: false } };
        let server = App { write: answer, read: ask, transfer, end: End::Server };
        let ends = net.open(&Opening {
            client: self.traffic.client,
            server: self.traffic.server,
            port: self.traffic.port,
            version: self.version,
            dscp: [self.traffic.dscp; 2],
            settings: [&self.traffic.tcp[0], &self.traffic.tcp[1]],
            roles: [Role::App(client), Role::App(server)],
        });
        self.users[user as usize].ends = Some(ends);
    }

    pub(crate) fn connected(&mut self, net: &NetworkState, user: u32) {
        let record = self.users[user as usize].record;
        self.records[record as usize].connected = Some(net.now);
    }

    /// The client has sent all and has its answer.
    pub(crate) fn exchanged(&mut self, net: &mut NetworkState, index: u32, user: u32) {
        let Some(ends) = self.users[user as usize].ends else { return };
        if self.traffic.pattern.is_upload() {
            let client = &net.connections[ends[0].0 as usize].endpoint;
            self.users[user as usize].sent = Some(client.acknowledged());
        }
        self.received(net, user);
        let stays = self.traffic.pattern.keeps_connections() && !self.decisions.is_stopped();
        if !stays {
            close(net, ends[0]);
        }
        if !self.traffic.pattern.is_upload() && !self.traffic.pattern.keeps_connections() {
            // The connection goes on closing by itself; the user does not wait for it.
            self.detach(net, user);
        }
        self.schedule_next(net, index, (user, TransferState::Completed));
    }

    /// The server may have all that was sent: the transfer is complete if the client knows that it sent all, too. Where a proxy
    /// acknowledges, that is sooner or later.
    pub(crate) fn received(&mut self, net: &NetworkState, user: u32) {
        let Some(place) = self.users.get(user as usize).copied() else { return };
        if self.has_arrived(net, user) {
            self.record_end(net, user, TransferState::Completed);
        } else if place.sent.is_some() {
            // The client's end may be gone when the rest arrives.
            self.update_record(net, user);
        }
    }

    /// A user's transfer is over: when the next one begins.
    fn schedule_next(&mut self, net: &mut NetworkState, index: u32, (user, state): (u32, TransferState)) {
        self.decisions.handle_end(user, state, net.now);
        if !self.decisions.is_stopped() && !self.traffic.pattern.is_upload() {
            self.begin(net, index);
        }
    }

    /// Leaves the ends of a user's connection to themselves.
    fn detach(&mut self, net: &mut NetworkState, user: u32) {
        let Some(ends) = self.users[user as usize].ends.take() else { return };
        for end in ends {
            if let Role::App(app) = &mut net.connections[end.0 as usize].role {
                app.transfer.1 = NO_TRANSFER;
            }
        }
    }

    /// An end of a user's connection has closed, or broken.
    pub(crate) fn ended(&mut self, net: &mut NetworkState, index: u32, user: u32, orderly: bool) {
        let Some(ends) = self.users.get(user as usize).and_then(|user| user.ends) else { return };
        if orderly && self.users[user as usize].sent.is_some() && !self.has_arrived(net, user) {
            // A proxy has acknowledged what the server does not have. It will tell.
            return;
        }
        let state = if orderly { TransferState::Completed } else { TransferState::Failed };
        let went_on = self.record_end(net, user, state);
        self.detach(net, user);
        if !orderly {
            for end in ends {
                // The place of an end that is gone may be another's by now.
                let connection = &mut net.connections[end.0 as usize];
                if matches!(connection.role, Role::App(app) if app.transfer == (index, NO_TRANSFER)) {
                    connection.endpoint.abort();
                    net.serve(end);
                }
            }
        }
        if went_on {
            self.schedule_next(net, index, (user, state));
        }
    }

    /// Writes down how a transfer ended, once; whether it went on until now.
    fn record_end(&mut self, net: &NetworkState, user: u32, state: TransferState) -> bool {
        let Some(place) = self.users.get(user as usize).copied() else { return false };
        let running = self.records[place.record as usize].state == TransferState::Running;
        if place.ends.is_none() || !running {
            return false;
        }
        self.update_record(net, user);
        self.running -= 1;
        let record = &mut self.records[place.record as usize];
        let all = record.counts.as_deref().map_or(0, |counts| counts.sender.retransmitted_segments);
        let place = &mut self.users[user as usize];
        place.finished += record.bytes;
        place.retransmissions += all - place.retransmissions_before;
        (record.state, record.ended) = (state, Some(net.now));
        true
    }
}

fn close(net: &mut NetworkState, client: ConnectionId) {
    net.connections[client.0 as usize].endpoint.close();
    net.flush(client);
}
