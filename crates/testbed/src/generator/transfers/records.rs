//! The records of transfers, and what is read of them.

use std::os::fd::AsFd;

use trunkline_linux::TcpInfo;
use trunkline_units::Instant;
use trunkline_workload::TransferState;

use super::{Transfers, User};
use crate::generator::connection::{Connection, End};
use crate::generator::poll::ConnectionId;
use crate::generator::reading::{Transfer, UserReading};
use crate::generator::tcp_info;

/// The end that sends a transfer's data and the one that receives it.
fn sides(connection: &Connection, upload: bool) -> [Option<&End>; 2] {
    let mut ends = [connection.client.as_ref(), connection.server.as_ref()];
    if !upload {
        ends.reverse();
    }
    ends
}

/// A record with what both ends have counted.
fn with_counts(mut record: Transfer, user: &User, connection: &Connection, upload: bool) -> Transfer {
    let [sender, receiver] = sides(connection, upload);
    record.sender = sender.and_then(End::counts);
    record.receiver = receiver.and_then(End::counts);
    record.bytes = receiver.map_or(0, |receiver| receiver.received - user.before);
    record
}

fn retransmitted(record: &Transfer) -> u64 {
    record.sender.map_or(0, |sender| sender.retransmitted_segments)
}

impl Transfers {
    /// A user's transfer begins, which was asked for at `asked`.
    pub(super) fn add_record(&mut self, number: usize, user: u32, asked: Instant) {
        let source = &mut self.sources[number];
        let place = &mut source.places[user as usize];
        let stays = place.connection.is_some();
        let last = place.record.filter(|_| stays).map(|record| &source.records[record as usize]);
        place.retransmissions_before = last.map_or(0, retransmitted);
        place.before = 0;
        place.record = Some(source.records.len() as u32);
        source.running += 1;
        source.records.push(Transfer {
            user,
            started: asked,
            connected: stays.then_some(asked),
            ended: None,
            bytes: 0,
            state: TransferState::Running,
            sender: None,
            receiver: None,
        });
    }

    /// A user's connection is open.
    pub(super) fn connected(&mut self, number: usize, user: Option<u32>, now: Instant) {
        let source = &mut self.sources[number];
        if let Some(record) = user.and_then(|user| source.places[user as usize].record) {
            source.records[record as usize].connected = Some(now);
        }
    }

    /// Writes down what the ends of a connection have counted, if its transfer runs.
    pub(super) fn update_record(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else { return };
        let source = &mut self.sources[connection.source];
        let Some(user) = connection.user.filter(|user| source.is_running(*user)) else { return };
        let upload = source.users.pattern().is_upload();
        let place = &source.places[user as usize];
        if let Some(record) = place.record {
            let record = &mut source.records[record as usize];
            *record = with_counts(*record, place, connection, upload);
        }
    }

    /// A user's transfer is over, and its record up to date.
    pub(super) fn end(&mut self, number: usize, user: u32, state: TransferState, now: Instant) {
        let source = &mut self.sources[number];
        let place = &mut source.places[user as usize];
        let Some(record) = place.record else { return };
        let record = &mut source.records[record as usize];
        (record.state, record.ended) = (state, Some(now));
        place.finished += record.bytes;
        place.retransmissions += retransmitted(record).saturating_sub(place.retransmissions_before);
        source.running -= 1;
        source.users.handle_end(user, state, now);
    }

    /// All transfers of a source, those that run as they are now.
    pub(in crate::generator) fn transfers(&self, number: usize) -> Vec<Transfer> {
        let source = &self.sources[number];
        let mut all = source.records.clone();
        for place in &source.places {
            if let Some(record) = place.record
                && let Some(running) = self.running(number, place)
            {
                all[record as usize] = running;
            }
        }
        all
    }

    /// A user's transfer with the present counts, if it runs and has a connection.
    fn running(&self, number: usize, user: &User) -> Option<Transfer> {
        let source = &self.sources[number];
        let record = &source.records[user.record? as usize];
        let connection = self.connections.get(user.connection?)?;
        let upload = source.users.pattern().is_upload();
        (record.state == TransferState::Running).then(|| with_counts(*record, user, connection, upload))
    }

    /// All users of a source.
    pub(in crate::generator) fn users(&self, number: usize) -> Vec<UserReading> {
        let source = &self.sources[number];
        let upload = source.users.pattern().is_upload();
        let reading = |user: &User| {
            let connection = user.connection.and_then(|id| self.connections.get(id));
            let sender = connection.and_then(|connection| sides(connection, upload)[0]);
            let sender = sender.and_then(|sender| TcpInfo::of(sender.socket.as_fd()).ok());
            let running = self.running(number, user);
            let now = running.map_or(0, |running| retransmitted(&running));
            let now = now.saturating_sub(user.retransmissions_before);
            UserReading {
                received: user.finished + running.map_or(0, |running| running.bytes),
                retransmissions: user.retransmissions + if running.is_some() { now } else { 0 },
                sender: sender.as_ref().map(tcp_info::sender),
            }
        };
        source.places.iter().map(reading).collect()
    }
}
