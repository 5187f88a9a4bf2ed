//! A source of transfers over TCP.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use trunkline_tcp::Stats;
use trunkline_units::{Instant, Rng};

use super::datagram::seconds;
use super::{Pattern, TcpTraffic};
use crate::agenda::Kind;
use crate::connection::{App, ConnectionId, End, Role};
use crate::core::{Core, Opening};

/// How far a transfer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferState {
    /// It goes on.
    Running,
    /// All that was to be sent has been received.
    Completed,
    /// A connection was reset or given up.
    Failed,
}

/// One transfer: a bulk flow, an object of a web page, a request and its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// The flow, user or connection it belongs to, from 0.
    pub user: u32,
    /// When it began: with the opening of its connection, or with its request.
    pub started: Instant,
    /// When its connection was open.
    pub connected: Option<Instant>,
    /// When it was over.
    pub ended: Option<Instant>,
    /// Octets that its receiver had by then.
    pub bytes: u64,
    /// How far it has come.
    pub state: TransferState,
    /// The side that sends the data, as its TCP counts. Of requests on one connection: all of them so far.
    pub sender: Stats,
    /// The side that receives it.
    pub receiver: Stats,
}

impl Transfer {
    /// How long it took, or takes until `now`.
    pub fn duration(&self, now: Instant) -> Duration {
        self.ended.unwrap_or(now).saturating_since(self.started)
    }
}

#[derive(Debug, Clone, Copy)]
struct User {
    ends: Option<[ConnectionId; 2]>,
    /// The record of its transfer.
    record: u32,
    /// Objects that its page has still.
    objects: u32,
}

#[derive(Debug)]
pub(crate) struct TransferSource {
    pub(crate) traffic: TcpTraffic,
    rng: Rng,
    users: Vec<User>,
    /// When users do something next.
    due: BinaryHeap<Reverse<(Instant, u32)>>,
    records: Vec<Transfer>,
    stopped: bool,
}

impl TransferSource {
    pub(crate) fn new(traffic: TcpTraffic, mut rng: Rng) -> Self {
        let start = Instant::ZERO + traffic.start;
        let (users, stagger) = match &traffic.pattern {
            Pattern::Bulk { flows, stagger, .. } => (*flows, *stagger),
            Pattern::Web { users, think, .. } => (*users, *think),
            Pattern::RequestResponse { connections, interval, .. } => (*connections, *interval),
        };
        let in_turn = matches!(traffic.pattern, Pattern::Bulk { .. });
        let mut at = start;
        let mut due = BinaryHeap::with_capacity(users as usize);
        for user in 0..users {
            due.push(Reverse((at, user)));
            let gap = seconds(stagger.draw(&mut rng));
            // Users do not begin all at once, nor one after the other.
            at = if in_turn { at + gap } else { start + gap.mul_f64(rng.uniform()) };
        }
        let user = User { ends: None, record: 0, objects: 0 };
        TransferSource {
            traffic,
            rng,
            users: vec![user; users as usize],
            due,
            records: Vec::new(),
            stopped: false,
        }
    }

    /// Asks for the next call.
    pub(crate) fn begin(&mut self, core: &mut Core, index: u32) {
        let next = self.due.peek().map(|Reverse((at, _))| *at);
        let stop = self.traffic.stop.filter(|_| !self.stopped).map(|stop| Instant::ZERO + stop);
        if let Some(at) = next.into_iter().chain(stop).min() {
            core.agenda.set(Kind::Source, index, at.max(core.now));
        }
    }

    pub(crate) fn run(&mut self, core: &mut Core, index: u32) {
        if !self.stopped && self.traffic.stop.is_some_and(|stop| core.now >= Instant::ZERO + stop) {
            self.stop(core);
        }
        while let Some(Reverse((at, user))) = self.due.peek().copied() {
            if at > core.now {
                break;
            }
            self.due.pop();
            self.act(core, index, user);
        }
        self.begin(core, index);
    }

    fn stop(&mut self, core: &mut Core) {
        self.stopped = true;
        self.due.clear();
        for user in &self.users {
            let Some([client, _]) = user.ends else { continue };
            let now = core.now;
            let end = &mut core.connections[client.0 as usize];
            if let Role::App(app) = &mut end.role
                && app.write > u64::MAX / 2
            {
                app.write = 0;
                end.endpoint.close(now);
                core.flush(client);
            }
        }
    }

    /// A user's next step: a flow, an object, a request.
    fn act(&mut self, core: &mut Core, index: u32, user: u32) {
        let (ask, answer) = match &self.traffic.pattern {
            Pattern::Bulk { bytes, .. } => (bytes.unwrap_or(u64::MAX), 0),
            Pattern::Web { request, response, objects, .. } => {
                let left = &mut self.users[user as usize].objects;
                if *left == 0 {
                    *left = objects.draw(&mut self.rng).clamp(1.0, 1e4) as u32;
                }
                *left -= 1;
                (*request, response.draw(&mut self.rng).clamp(1.0, 1e12) as u64)
            }
            Pattern::RequestResponse { request, response, .. } => (*request, *response),
        };
        let now = core.now;
        let record = self.records.len() as u32;
        self.records.push(Transfer {
            user,
            started: now,
            connected: None,
            ended: None,
            bytes: 0,
            state: TransferState::Running,
            sender: Stats::default(),
            receiver: Stats::default(),
        });
        let place = &mut self.users[user as usize];
        place.record = record;
        if let Some(ends) = place.ends {
            // A request on a connection that stays.
            self.records[record as usize].connected = Some(now);
            let [client, server] = ends.map(|end| end.0 as usize);
            let transfer = (index, user);
            core.connections[server].role =
                Role::App(App { write: answer, read: ask, transfer, end: End::Server });
            core.connections[client].role =
                Role::App(App { write: ask, read: answer, transfer, end: End::Client { told: false } });
            core.serve(ends[0]);
            return;
        }
        let transfer = (index, user);
        let client = App { write: ask, read: answer, transfer, end: End::Client { told: false } };
        let server = App { write: answer, read: ask, transfer, end: End::Server };
        let ends = core.open(&Opening {
            client: self.traffic.client,
            server: self.traffic.server,
            port: self.traffic.port,
            dscp: self.traffic.dscp,
            settings: [&self.traffic.tcp[0], &self.traffic.tcp[1]],
            roles: [Role::App(client), Role::App(server)],
        });
        self.users[user as usize].ends = Some(ends);
    }

    pub(crate) fn connected(&mut self, core: &Core, user: u32) {
        let record = self.users[user as usize].record;
        self.records[record as usize].connected = Some(core.now);
    }

    /// The client has sent all and has its answer.
    pub(crate) fn exchanged(&mut self, core: &mut Core, index: u32, user: u32) {
        let Some(ends) = self.users[user as usize].ends else { return };
        self.note(core, user, TransferState::Completed);
        match &self.traffic.pattern {
            Pattern::RequestResponse { interval, .. } => {
                let started = self.records[self.users[user as usize].record as usize].started;
                let next = started + seconds(interval.draw(&mut self.rng));
                self.wait(core, index, user, next.max(core.now));
            }
            Pattern::Bulk { .. } => close(core, ends[0]),
            Pattern::Web { gap, think, .. } => {
                let pause = if self.users[user as usize].objects > 0 { gap } else { think };
                let next = core.now + seconds(pause.draw(&mut self.rng));
                close(core, ends[0]);
                // The connection goes on closing by itself; the user does not wait for it.
                self.abandon(core, user);
                self.wait(core, index, user, next);
            }
        }
    }

    /// Leaves the ends of a user's connection to themselves.
    fn abandon(&mut self, core: &mut Core, user: u32) {
        let Some(ends) = self.users[user as usize].ends.take() else { return };
        for end in ends {
            if let Role::App(app) = &mut core.connections[end.0 as usize].role {
                app.transfer.1 = NOBODY;
            }
        }
    }

    fn wait(&mut self, core: &mut Core, index: u32, user: u32, at: Instant) {
        if !self.stopped {
            self.due.push(Reverse((at, user)));
            self.begin(core, index);
        }
    }

    /// An end of a user's connection has closed, or broken.
    pub(crate) fn ended(&mut self, core: &mut Core, index: u32, user: u32, orderly: bool) {
        let Some(ends) = self.users.get(user as usize).and_then(|user| user.ends) else { return };
        self.note(core, user, if orderly { TransferState::Completed } else { TransferState::Failed });
        self.abandon(core, user);
        if orderly {
            return;
        }
        let now = core.now;
        for end in ends {
            // The place of an end that is gone may be another's by now.
            let connection = &mut core.connections[end.0 as usize];
            if matches!(connection.role, Role::App(app) if app.transfer == (index, NOBODY)) {
                connection.endpoint.abort(now);
                core.serve(end);
            }
        }
        if let Pattern::Web { think, .. } = &self.traffic.pattern {
            let next = now + seconds(think.draw(&mut self.rng));
            self.wait(core, index, user, next);
        }
    }

    /// Writes down how a transfer ended, once.
    fn note(&mut self, core: &Core, user: u32, state: TransferState) {
        let Some(place) = self.users.get(user as usize) else { return };
        let Some(ends) = place.ends else { return };
        let upload = matches!(self.traffic.pattern, Pattern::Bulk { .. });
        let record = &mut self.records[place.record as usize];
        if record.state == TransferState::Running {
            fill(record, core, ends, upload);
            (record.state, record.ended) = (state, Some(core.now));
        }
    }

    /// All its transfers, in the order in which they began, those that go on as they are now.
    pub(crate) fn transfers(&self, core: &Core) -> Vec<Transfer> {
        let upload = matches!(self.traffic.pattern, Pattern::Bulk { .. });
        let mut all = self.records.clone();
        for user in &self.users {
            if let (Some(ends), Some(record)) = (user.ends, all.get_mut(user.record as usize))
                && record.state == TransferState::Running
            {
                fill(record, core, ends, upload);
            }
        }
        all
    }

    /// The connection of a user, the client's end first.
    pub(crate) fn ends(&self, user: u32) -> Option<[ConnectionId; 2]> {
        self.users.get(user as usize)?.ends
    }

    pub(crate) fn users(&self) -> u32 {
        self.users.len() as u32
    }
}

/// In the place of a user: nobody waits for it.
const NOBODY: u32 = u32::MAX;

fn fill(record: &mut Transfer, core: &Core, ends: [ConnectionId; 2], upload: bool) {
    let [client, server] = ends.map(|end| &core.connections[end.0 as usize].endpoint);
    let (sender, receiver) = if upload { (client, server) } else { (server, client) };
    record.bytes = receiver.received();
    record.sender = sender.stats();
    record.receiver = receiver.stats();
}

fn close(core: &mut Core, client: ConnectionId) {
    let now = core.now;
    core.connections[client.0 as usize].endpoint.close(now);
    core.flush(client);
}
