//! The paths to each peer, as far as dials show it: open or closed, and when the next dial may go out.

use std::time::Duration;

use trunkline_units::Instant;

use super::lane::{Cause, LaneKey, PathKey, State};
use super::peer::Path;
use super::{CLOSED_DIALS_PER_SECOND, Life, MIN_NETWORK_CHANGE_INTERVAL, MIN_WAIT};

impl Life {
    /// Addresses or routes of this machine have changed, so closed paths may be open now: probes them at once.
    pub(crate) fn handle_network_changed(&mut self, now: Instant) {
        if self.network_changed.is_some_and(|at| now.saturating_since(at) < MIN_NETWORK_CHANGE_INTERVAL) {
            return;
        }
        self.network_changed = Some(now);
        let closed: Vec<PathKey> =
            self.peers.iter().filter(|(_, peer)| peer.path == Path::Closed).map(|(key, _)| *key).collect();
        // Spread over time, so that the limit holds with many closed paths too.
        for (order, key) in closed.into_iter().enumerate() {
            let at = now + Duration::from_secs(1) * order as u32 / CLOSED_DIALS_PER_SECOND;
            if let Some(peer) = self.peers.get_mut(&key) {
                peer.probe_at = peer.probe_at.min(at);
                peer.backoff.reset();
            }
            self.schedule(key);
        }
    }

    /// Closes the path, since an attempt that began at `since` could not connect. Returns the time of the next
    /// probe.
    pub(super) fn close_path(&mut self, now: Instant, peer: PathKey, since: Instant) -> Option<Instant> {
        let peer = self.peers.get_mut(&peer)?;
        if peer.path == Path::Open {
            peer.path = Path::Closed;
            self.closed += 1;
        } else if peer.probe_at > now {
            // Several attempts were in progress when the path was found closed: only the first counts.
            return Some(peer.probe_at);
        }
        let rate_limit = Duration::from_secs(1) * self.closed / CLOSED_DIALS_PER_SECOND;
        let wait = peer.backoff.next(&mut self.rng).max(rate_limit.mul_f64(1.0 + self.rng.uniform() / 2.0));
        // The duration of the attempt counts as a part of the wait, since its SYNs have probed the path.
        peer.probe_at = (since + wait).max(now + MIN_WAIT);
        Some(peer.probe_at)
    }

    /// Opens the path, since a connection was made. The lanes that wait for the path are due after `delay`.
    pub(super) fn open_path(&mut self, now: Instant, peer_key: PathKey, delay: Duration) {
        let Some(peer) = self.peers.get_mut(&peer_key) else { return };
        if peer.path == Path::Closed {
            peer.path = Path::Open;
            self.closed = self.closed.saturating_sub(1);
            let at = now + delay;
            let late: Vec<(Instant, LaneKey)> =
                peer.waiting.iter().filter(|(dial_at, _)| *dial_at > at).cloned().collect();
            for (dial_at, key) in late {
                let Some(lane) = self.lanes.get_mut(&key) else { continue };
                if matches!(lane.state, State::Waiting { cause: Cause::Path, .. }) {
                    lane.state = State::Waiting { dial_at: at, cause: Cause::Path };
                    peer.waiting.remove(&(dial_at, key.clone()));
                    peer.waiting.insert((at, key));
                }
            }
        }
        self.schedule(peer_key);
    }

    pub(super) fn recount_closed(&mut self) {
        self.closed = self.peers.values().filter(|peer| peer.path == Path::Closed).count() as u32;
    }
}
