//! The deadlines of the control thread: handles those that are due, and computes the next.

use std::time::Duration;

use super::connection::{Connection, Phase};
use super::rejections::Outcome;
use super::{Daemon, Source, warn};
use crate::clock::now;
use crate::life::Failure;

impl Daemon {
    /// Handles all deadlines that are due. Returns the time until the next.
    pub(super) fn handle_deadlines(&mut self) -> Duration {
        let now = now();
        while let Some((at, token)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, token));
            match self.sources.get(&token).and_then(Source::deadline) {
                // The deadline has been extended meanwhile.
                Some(later) if later > now => {
                    self.deadlines.insert((later, token));
                }
                Some(_) => {
                    self.half_open.remove(token);
                    if let Some(Source::Connection(connection)) = self.sources.remove(&token) {
                        if connection.is_held && matches!(connection.phase, Phase::Connecting(..)) {
                            self.handle_connection_event(token, connection);
                            self.deadlines.extend(
                                self.sources.get(&token).and_then(Source::deadline).map(|at| (at, token)),
                            );
                        } else {
                            self.handle_connection_timeout(&connection);
                        }
                    }
                }
                None => {}
            }
        }
        while let Some(dial) = self.life.poll_dial(now) {
            self.dial(dial);
        }
        let auto = self.handle_auto_deadlines(now);
        let race = self.handle_race_deadlines(now);
        let invitations = self.handle_invitation_deadlines(now);
        let quotas = self.handle_quota_deadlines(now);
        let learnt = self.handle_learnt_deadlines(now);
        while let Some(peer) = self.life.poll_verified(now) {
            self.set_liveness(peer, self.usual_liveness(&peer));
        }
        self.look_up_names(now);
        warn(self.rejections.poll_line(now));
        while let Some((peer, line)) = self.peer_log.poll_line(now) {
            tracing::warn!("peer {}: {line}", self.peer_name(&peer));
        }
        let due = self.life.poll_timeout().map(|(at, _)| at);
        let due = due.into_iter().chain(auto).chain(race).chain(invitations).chain(self.names.poll_timeout());
        let due = due
            .chain(self.rejections.poll_timeout())
            .chain(self.peer_log.poll_timeout())
            .chain(self.half_open.poll_timeout())
            .chain(quotas)
            .chain(learnt);
        let next = due.chain(self.deadlines.first().map(|(at, _)| *at)).min();
        let next = next.map_or(Duration::from_secs(60), |at| at.saturating_since(now));
        let next = next.min(self.workers.next_wake(now).saturating_since(now));
        // A deadline between two clock ticks must not make the loop spin.
        next.max(Duration::from_millis(1))
    }

    fn handle_connection_timeout(&mut self, connection: &Connection) {
        let Some(dialled) = &connection.dialled else {
            self.callers.timed_out += 1;
            warn(self.rejections.handle_closed(now(), connection.remote, Outcome::TimedOut));
            return;
        };
        let (failure, reason) = match connection.phase {
            Phase::Connecting(..) => {
                (Failure::Path, format!("cannot connect to {}: no answer", connection.remote))
            }
            _ => (Failure::Lane, format!("{}: no answer in time", connection.remote)),
        };
        self.candidate_failed(dialled, failure, &reason);
    }
}
