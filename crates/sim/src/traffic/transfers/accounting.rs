//! The counters of a source's transfers so far.

use trunkline_workload::{Pattern, TransferState};

use super::TransferSource;
use crate::connection::{Connection, ConnectionId, Role};
use crate::state::NetworkState;
use crate::traffic::record::{Counts, Record, Transfer};

impl TransferSource {
    /// Whether all of a user's transfer that the client knows to be acknowledged has arrived.
    pub(super) fn has_arrived(&self, net: &NetworkState, user: u32) -> bool {
        let place = &self.users[user as usize];
        match (&self.traffic.pattern, place.ends, place.sent) {
            (Pattern::Bulk { .. }, Some([_, server]), Some(sent)) => {
                self.connection_of(net, user, server).is_none_or(|server| server.endpoint.received() >= sent)
            }
            (Pattern::Bulk { .. }, _, None) => false,
            _ => true,
        }
    }

    /// An end, if it is that user's still: its place may be another's by now.
    pub(super) fn connection_of<'a>(
        &self,
        net: &'a NetworkState,
        user: u32,
        end: ConnectionId,
    ) -> Option<&'a Connection> {
        let connection = &net.connections[end.0 as usize];
        let user = (self.index, user);
        let own = match connection.role {
            Role::App(app) => app.transfer == user,
            // It broke in this instant.
            Role::Vacant { was } => was == user,
            Role::Lane { .. } | Role::Split { .. } => false,
        };
        own.then_some(connection)
    }

    pub(super) fn update_record(&mut self, net: &NetworkState, user: u32) {
        let record = self.users[user as usize].record as usize;
        let transfer = self.with_counts(self.records[record].transfer(), net, user);
        self.records[record].bytes = transfer.bytes;
        let Transfer { sender, receiver, duplicates_delivered, .. } = transfer;
        self.records[record].counts = Some(Box::new(Counts { sender, receiver, duplicates_delivered }));
    }

    /// A user's record with what its ends have counted.
    pub(super) fn with_counts(&self, mut record: Transfer, net: &NetworkState, user: u32) -> Transfer {
        let place = &self.users[user as usize];
        let Some(ends) = place.ends else { return record };
        let [client, server] = ends.map(|end| self.connection_of(net, user, end));
        let upload = self.traffic.pattern.is_upload();
        let (sender, receiver) = if upload { (client, server) } else { (server, client) };
        if let Some(sender) = sender {
            record.sender = sender.endpoint.stats();
            record.duplicates_delivered = sender.duplicates_delivered.into();
        }
        if let Some(receiver) = receiver {
            record.receiver = receiver.endpoint.stats();
            record.bytes = receiver.endpoint.received() - place.before;
        }
        record
    }

    /// All its transfers, in the order in which they began, those that go on as they are now.
    pub(crate) fn transfers(&self, net: &NetworkState) -> Vec<Transfer> {
        let mut all: Vec<Transfer> = self.records.iter().map(Record::transfer).collect();
        for (user, place) in self.users.iter().enumerate() {
            if let Some(record) = all.get_mut(place.record as usize)
                && record.state == TransferState::Running
            {
                *record = self.with_counts(*record, net, user as u32);
            }
        }
        all
    }

    /// The connection of a user, the client's end first.
    pub(crate) fn ends(&self, user: u32) -> Option<[ConnectionId; 2]> {
        self.users.get(user as usize)?.ends
    }

    /// The same, the end that sends data first.
    pub(crate) fn sender_first(&self, user: u32) -> Option<[ConnectionId; 2]> {
        let [client, server] = self.ends(user)?;
        let upload = self.traffic.pattern.is_upload();
        Some(if upload { [client, server] } else { [server, client] })
    }

    /// Bytes of a user's transfers that have been received.
    pub(crate) fn received_by(&self, net: &NetworkState, user: u32) -> u64 {
        let finished = self.users.get(user as usize).map_or(0, |place| place.finished);
        finished + self.running_of(net, user).map_or(0, |transfer| transfer.bytes)
    }

    /// Segments that were sent again in a user's transfers, by the sender of their data.
    pub(crate) fn retransmissions_by(&self, net: &NetworkState, user: u32) -> u64 {
        let Some(place) = self.users.get(user as usize) else { return 0 };
        let running = self.running_of(net, user);
        place.retransmissions
            + running.map_or(0, |transfer| {
                transfer.sender.retransmitted_segments.saturating_sub(place.retransmissions_before)
            })
    }

    /// A user's transfer, if it goes on.
    pub(super) fn running_of(&self, net: &NetworkState, user: u32) -> Option<Transfer> {
        let place = self.users.get(user as usize)?;
        let record = self.records.get(place.record as usize)?;
        let running = record.user == user && record.state == TransferState::Running;
        running.then(|| self.with_counts(record.transfer(), net, user))
    }

    /// Nothing goes on, and nothing is to begin.
    pub(crate) fn is_over(&self) -> bool {
        self.running == 0 && self.decisions.is_idle()
    }

    pub(crate) fn users(&self) -> u32 {
        self.users.len() as u32
    }
}
