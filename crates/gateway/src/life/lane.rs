//! One lane: its key, its state, and which of two connections for it stays.

use std::sync::Arc;
use std::time::Duration;

use trunkline_units::Instant;

use super::backoff::Backoff;
use crate::keys::PublicKey;
use trunkline_schema::Encryption;
use trunkline_trunk::TrunkPlan;

/// One of the paths to a peer. Each is dialled, waited for and verified on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PathKey {
    pub(crate) peer: PublicKey,
    /// Its number among the paths to the peer; both sites number them alike.
    pub(crate) path: u8,
}

impl From<PublicKey> for PathKey {
    /// The first path.
    fn from(peer: PublicKey) -> Self {
        PathKey { peer, path: 0 }
    }
}

/// In the number of a lane on the wire: its place on its path is below this.
const PLACES: u16 = 64;
const _: () = assert!(TrunkPlan::MAX_LANES <= PLACES as usize);

/// The key of a lane. It names the same lane of the same worker while the process runs, even if a reload changes the
/// number of lanes, since the number of shards needs a restart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LaneKey {
    pub(crate) peer: PublicKey,
    /// The number of its path.
    pub(crate) path: u8,
    /// The name of its lane group.
    pub(crate) lane_group: Arc<str>,
    /// The worker it belongs to.
    pub(crate) shard: u16,
    /// Its index among the lanes of its lane group on its path in the shard.
    pub(crate) index: u8,
}

impl LaneKey {
    /// Its path.
    pub(crate) fn path_key(&self) -> PathKey {
        PathKey { peer: self.peer, path: self.path }
    }

    /// The number of the lane on the wire, at a site with so many shards. It does not depend on the number of lanes in the
    /// group. So a reload of that number, at one site first, does not renumber the lanes that stay. On the first path it is as it
    /// was before there were others.
    pub(crate) fn number(&self, shards: u16) -> u16 {
        (u16::from(self.path) * PLACES + u16::from(self.index)) * shards + self.shard
    }

    /// Its number among the lanes of its group on its path.
    pub(crate) fn number_on_path(&self, shards: u16) -> u16 {
        u16::from(self.index) * shards + self.shard
    }

    /// The path, shard and index of a number.
    pub(crate) fn of_number(number: u16, shards: u16) -> (u8, u16, u8) {
        let place = number / shards;
        let path = u8::try_from(place / PLACES).unwrap_or(u8::MAX);
        (path, number % shards, (place % PLACES) as u8)
    }
}

/// The state of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It is down. The site dials it at `dial_at`, if the peer has an endpoint.
    Waiting { dial_at: Instant, cause: Cause },
    /// The site is connecting, or in the handshake.
    Dialling { attempt: Attempt },
    /// It carries packets.
    Up(Up),
}

/// Why a lane waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The path to the peer is closed, as far as we know: any connection to or from the peer makes the lane due.
    Path,
    /// Its last connection did not become a lane, or ended soon: it waits for its own back-off.
    Lane,
}

/// The identifier of a dial; unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attempt(pub(super) u64);

/// The identifier of a connection of a lane, for the workers and the control thread; unique.
pub(crate) type Serial = u64;

/// A lane that is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Up {
    pub(crate) serial: Serial,
    /// The peer's instance.
    pub(crate) instance: u64,
    pub(crate) encryption: Encryption,
    /// Whether this site dialled.
    pub(crate) dialled: bool,
}

/// A lane.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) state: State,
    /// When the state began.
    pub(crate) since: Instant,
    /// How many times it came up.
    pub(crate) established: u64,
    pub(crate) last_error: Option<String>,
    pub(super) backoff: Backoff,
}

impl Lane {
    pub(super) fn new(now: Instant) -> Self {
        Lane {
            state: State::Waiting { dial_at: now, cause: Cause::Path },
            since: now,
            established: 0,
            last_error: None,
            backoff: Backoff::new(super::LANE_FIRST_WAIT, super::LANE_MAX_WAIT),
        }
    }
}

/// The maximum age of our connection at which a dial of the peer may have crossed ours: the peer may not have noticed our
/// connection yet.
pub(super) const MAX_CROSS_DIAL_AGE: Duration = Duration::from_secs(10);

/// Which of two connections for a lane stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// The new one replaces the old one.
    Replace,
    /// The old one stays.
    Keep,
}

/// Decides between a lane that is up for `age` and a connection that the peer has just dialled for it.
///
/// A peer dials only lanes that it does not have. So the old connection is dead at the peer, with one exception: both
/// sites dialled at once. Then both sites keep the connection that the site with the smaller key dialled.
pub(super) fn on_accept(up: &Up, age: Duration, their_instance: u64, we_are_smaller: bool) -> Decision {
    let simultaneous = up.dialled && up.instance == their_instance && age < MAX_CROSS_DIAL_AGE;
    if simultaneous && we_are_smaller { Decision::Keep } else { Decision::Replace }
}

/// Decides between a lane that is up because the peer dialled it, and our own connection, which the peer has just
/// welcomed.
pub(super) fn on_dialled(up: &Up, their_instance: u64, we_are_smaller: bool) -> Decision {
    if up.instance == their_instance && !up.dialled && !we_are_smaller {
        Decision::Keep
    } else {
        Decision::Replace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(dialled: bool, instance: u64) -> Up {
        Up { serial: 1, instance, encryption: Encryption::Tls, dialled }
    }

    #[test]
    fn when_both_dial_at_once_both_keep_the_smaller_keys_connection() {
        let soon = Duration::from_millis(50);
        // The smaller site's own connection is up; the other's arrives.
        assert_eq!(on_accept(&up(true, 7), soon, 7, true), Decision::Keep);
        // The larger site's own connection is up; the smaller's arrives.
        assert_eq!(on_accept(&up(true, 7), soon, 7, false), Decision::Replace);
        // The other order: the accepted one is up when our own is welcomed.
        assert_eq!(on_dialled(&up(false, 7), 7, true), Decision::Replace);
        assert_eq!(on_dialled(&up(false, 7), 7, false), Decision::Keep);
    }

    #[test]
    fn a_peer_that_dials_again_replaces_the_old_connection() {
        let late = Duration::from_secs(60);
        assert_eq!(
            on_accept(&up(false, 7), Duration::ZERO, 7, true),
            Decision::Replace,
            "it dialled the old one"
        );
        assert_eq!(on_accept(&up(true, 7), late, 7, true), Decision::Replace, "ours has been up for long");
        assert_eq!(on_accept(&up(true, 7), Duration::ZERO, 8, true), Decision::Replace, "it has restarted");
        assert_eq!(on_dialled(&up(false, 7), 8, false), Decision::Replace, "it has restarted");
    }

    #[test]
    fn a_lanes_number_does_not_depend_on_how_many_there_are() {
        let key = |path, shard, index| LaneKey {
            peer: PublicKey::from_bytes([1; 32]),
            path,
            lane_group: "tcp".into(),
            shard,
            index,
        };
        let numbers: Vec<u16> =
            [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(shard, index)| key(0, shard, index).number(2)).into();
        assert_eq!(numbers, [0, 1, 2, 3], "those of one lane a shard, then those that a second adds");
        let second = [(0, 0), (1, 0), (0, 1)].map(|(shard, index)| key(1, shard, index).number(2));
        assert_eq!(second, [128, 129, 130], "behind all that the first path may have");
        for number in [0, 3, 63, 128, 131, 511, 4095] {
            let (path, shard, index) = LaneKey::of_number(number, 3);
            assert_eq!(key(path, shard, index).number(3), number);
        }
    }
}
