//! The outcome of dials, and of the resolution of names.

use std::time::Duration;

use trunkline_units::Instant;

use super::{Attempt, AttemptState, Cause, Failure, Life, PathKey, Retry, State, first_lane};

impl Life {
    /// The dial has connected, without the handshake. So the path to the peer is open, and the lanes that wait for it are
    /// due.
    pub(crate) fn handle_connected(&mut self, now: Instant, attempt: Attempt) {
        if let Some(key) = self.attempts.get(&attempt).map(|state| state.key.path_key()) {
            if let Some(peer) = self.peers.get_mut(&key) {
                peer.connecting.remove(&attempt);
            }
            self.open_path(now, key, Duration::ZERO);
        }
    }

    /// The dial failed. `None` if the failure has no effect, for example because the other site's dial has brought the lane
    /// up.
    pub(crate) fn handle_dial_failed(
        &mut self,
        now: Instant,
        attempt: Attempt,
        failure: Failure,
        reason: &str,
    ) -> Option<Retry> {
        let AttemptState { key, since } = self.end_attempt(attempt)?;
        let current = self.lanes.get(&key).is_some_and(|lane| lane.state == State::Dialling { attempt });
        let retry = current.then(|| {
            let at = match failure {
                Failure::Path => self.close_path(now, key.path_key(), since),
                Failure::Lane => {
                    let lane = self.lanes.get_mut(&key)?;
                    Some(now + lane.backoff.next(&mut self.rng))
                }
            }?;
            let cause = match failure {
                Failure::Path => Cause::Path,
                Failure::Lane => Cause::Lane,
            };
            self.set_waiting(now, &key, at, cause);
            self.lanes.get_mut(&key)?.last_error = Some(reason.to_owned());
            let first_report = self.peers.get_mut(&key.path_key())?.is_first_report(reason);
            Some(Retry { wait: at.saturating_since(now), first_report })
        });
        self.schedule(key.path_key());
        retry.flatten()
    }

    /// The dial has no address yet: the name is being resolved.
    pub(crate) fn handle_no_address(&mut self, now: Instant, attempt: Attempt) {
        let Some(AttemptState { key, since }) = self.end_attempt(attempt) else { return };
        if self.lanes.get(&key).is_some_and(|lane| lane.state == State::Dialling { attempt }) {
            // The next dial asks for an address again, even if the resolver never answers.
            let at = self.close_path(now, key.path_key(), since).unwrap_or(now) + Duration::from_secs(1);
            if let Some(peer) = self.peers.get_mut(&key.path_key()) {
                peer.probe_at = at;
            }
            self.set_waiting(now, &key, now, Cause::Path);
        }
        self.schedule(key.path_key());
    }

    /// The name at the end of the path has addresses.
    pub(crate) fn handle_resolved(&mut self, now: Instant, path: PathKey) {
        if let Some(state) = self.peers.get_mut(&path) {
            state.probe_at = now;
            self.schedule(path);
        }
    }

    /// The name at the end of the path cannot be resolved. Whether this is the first report of the reason since a lane on it was up.
    pub(crate) fn handle_unresolved(&mut self, path: PathKey, reason: &str) -> bool {
        let of_path = self.lanes.range_mut(first_lane(path)..).take_while(|(key, _)| key.path_key() == path);
        for (_, lane) in of_path {
            if matches!(lane.state, State::Waiting { .. }) {
                lane.last_error = Some(reason.to_owned());
            }
        }
        self.peers.get_mut(&path).is_some_and(|state| state.is_first_report(reason))
    }
}
