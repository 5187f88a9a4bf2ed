//! Paths on which long packets vanish: the bound on the segments of lanes over TCP, and when it is tried without.
//!
//! A bound is found by a dial ([`race`](super::race)) and holds for all lanes on the path. One lane is dialled without it after
//! [`FIRST_RETRY_WAIT`], then less and less often, and each [`MAX_RETRY_WAIT`] at last (RFC 4821 §7.4 has 10 minutes), at once when the
//! network changes. If that is welcomed, the bound is gone.
//!
//! It has no I/O and no clock, as [`Life`](super::Life).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trunkline_units::Instant;

use super::PathKey;

const FIRST_RETRY_WAIT: Duration = Duration::from_secs(60);
const MAX_RETRY_WAIT: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy)]
struct Bound {
    max_segment: u16,
    retry_at: Instant,
    wait: Duration,
}

/// The bounds of all paths.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    paths: BTreeMap<PathKey, Bound>,
    retries: BTreeSet<(Instant, PathKey)>,
}

impl Segments {
    /// The bound on segments on a path, if there is one.
    pub(crate) fn bound(&self, path: PathKey) -> Option<u16> {
        self.paths.get(&path).map(|bound| bound.max_segment)
    }

    /// A lane that this site dialled with this bound is up. Whether the bound of its path has changed.
    pub(crate) fn handle_up(&mut self, now: Instant, path: PathKey, max_segment: Option<u16>) -> bool {
        let before = self.bound(path);
        match max_segment {
            None => self.forget(&path),
            // One that was dialled before the bound was known.
            Some(max_segment) if before.is_some_and(|before| before <= max_segment) => return false,
            Some(max_segment) => {
                let (retry_at, wait) = (now + FIRST_RETRY_WAIT, FIRST_RETRY_WAIT * 2);
                self.note(path, Bound { max_segment, retry_at, wait });
            }
        }
        before != max_segment
    }

    /// A path on which one lane is to be dialled without the bound. If there is none to try it with, call
    /// [`forget`](Self::forget).
    pub(crate) fn poll_retry(&mut self, now: Instant) -> Option<PathKey> {
        let (_, path) = *self.retries.first().filter(|(at, _)| *at <= now)?;
        if let Some(Bound { max_segment, wait, .. }) = self.paths.get(&path).copied() {
            let next = (wait * 2).min(MAX_RETRY_WAIT);
            self.note(path, Bound { max_segment, retry_at: now + wait, wait: next });
        }
        Some(path)
    }

    /// The time of the next retry.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// Addresses or routes have changed: each path may be another one.
    pub(crate) fn handle_network_changed(&mut self, now: Instant) {
        self.retries.clear();
        for (path, bound) in &mut self.paths {
            (bound.retry_at, bound.wait) = (now, FIRST_RETRY_WAIT);
            self.retries.insert((now, *path));
        }
    }

    /// Segments on this path have no bound any more.
    pub(crate) fn forget(&mut self, path: &PathKey) {
        if let Some(Bound { retry_at, .. }) = self.paths.remove(path) {
            self.retries.remove(&(retry_at, *path));
        }
    }

    /// Removes paths that are no longer configured.
    pub(crate) fn retain(&mut self, is_path: impl Fn(&PathKey) -> bool) {
        self.paths.retain(|path, _| is_path(path));
        self.retries.retain(|(_, path)| is_path(path));
    }

    fn note(&mut self, path: PathKey, bound: Bound) {
        self.forget(&path);
        self.retries.insert((bound.retry_at, path));
        self.paths.insert(path, bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::PublicKey;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn path() -> PathKey {
        PublicKey::from_bytes([1; 32]).into()
    }

    #[test]
    fn a_bound_holds_until_a_lane_is_up_without_it() {
        let mut segments = Segments::default();
        assert!(!segments.handle_up(at(0), path(), None));
        assert!(segments.handle_up(at(0), path(), Some(1220)));
        assert!(!segments.handle_up(at(1), path(), Some(1220)), "the other lanes");
        assert!(segments.handle_up(at(2), path(), Some(536)));
        assert!(!segments.handle_up(at(3), path(), Some(1220)), "one that was dialled before");
        assert_eq!(segments.bound(path()), Some(536));
        assert!(segments.handle_up(at(4), path(), None));
        assert_eq!((segments.bound(path()), segments.poll_timeout()), (None, None));
    }

    #[test]
    fn it_is_tried_without_the_bound_at_most_ten_minutes_apart() {
        let mut segments = Segments::default();
        segments.handle_up(at(0), path(), Some(1220));
        let (mut now, mut waits) = (at(0), Vec::new());
        for _ in 0..6 {
            let next = segments.poll_timeout().expect("a retry");
            assert_eq!(segments.poll_retry(next), Some(path()));
            assert_eq!(segments.poll_retry(next), None, "one lane at a time");
            waits.push(next.saturating_since(now).as_secs());
            now = next;
        }
        assert_eq!(waits, [60, 120, 240, 480, 600, 600]);
        segments.handle_network_changed(now);
        assert_eq!(segments.poll_retry(now), Some(path()), "at once");
        assert_eq!(segments.poll_timeout(), Some(now + FIRST_RETRY_WAIT), "and soon again");
        segments.retain(|_| false);
        assert_eq!((segments.bound(path()), segments.poll_timeout()), (None, None));
    }
}
