//! One lane: which it is, how it stands, and which of two connections for it stays.

use std::sync::Arc;
use std::time::Duration;

use trunkline_units::Instant;

use super::backoff::Backoff;
use crate::encryption::Encryption;
use crate::keys::PublicKey;

/// Which lane. The key means the same lane of the same worker as long as the process runs, whatever a reload does to
/// the number of lanes: the number of shards needs a restart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LaneKey {
    pub(crate) peer: PublicKey,
    /// The name of its lane group.
    pub(crate) lane_group: Arc<str>,
    /// The worker it belongs to.
    pub(crate) shard: u16,
    /// Its place among the lanes of its lane group in the shard.
    pub(crate) place: u8,
}

impl LaneKey {
    /// The number by which the two sites name the lane, at a site with so many shards. It does not depend on how many
    /// lanes the group has, so a reload of that count, at one site first, leaves the lanes that stay what they are.
    pub(crate) fn number(&self, shards: u16) -> u16 {
        u16::from(self.place) * shards + self.shard
    }
}

/// How a lane stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Not there. Dialled when the time comes, if the peer can be dialled.
    Waiting { dial_at: Instant, cause: Cause },
    /// We make and secure a connection.
    Dialling { attempt: Attempt },
    /// It carries packets.
    Up(Up),
}

/// Why a lane waits to be dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The path to the peer, as far as we know: dialled as soon as there is a sign of the peer.
    Path,
    /// Its last connection did not become a lane, or ended soon: dialled when its own time comes and no sooner.
    Lane,
}

/// A dial, told from any other of the same lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attempt(pub(super) u64);

/// A connection that became a lane, told from any other by the workers and this thread.
pub(crate) type Serial = u64;

/// A lane that is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Up {
    pub(crate) serial: Serial,
    /// The peer's instance.
    pub(crate) instance: u64,
    pub(crate) encryption: Encryption,
    /// Whether we dialled it.
    pub(crate) dialled: bool,
}

/// A lane.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) state: State,
    /// When the state began.
    pub(crate) since: Instant,
    /// How often it came up.
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

/// How long a peer that dialled at the same moment as we did may take to notice our connection.
pub(super) const SIMULTANEOUS: Duration = Duration::from_secs(10);

/// Which of two connections for a lane stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// The new one, in place of the one that is there.
    Take,
    /// The one that is there.
    Keep,
}

/// Decides between a lane that is up for `age` and a connection that the peer has just dialled for it.
///
/// A peer dials only what it does not have. So the lane that is up is dead in the peer's eyes, but for one case: both
/// sites dialled at once. Then the connection of the site with the smaller key stays, at both sites.
pub(super) fn on_accept(up: &Up, age: Duration, their_instance: u64, we_are_smaller: bool) -> Decision {
    let simultaneous = up.dialled && up.instance == their_instance && age < SIMULTANEOUS;
    if simultaneous && we_are_smaller { Decision::Keep } else { Decision::Take }
}

/// Decides between a lane that is up because the peer dialled it, and our own connection that has now been
/// welcomed.
pub(super) fn on_dialled(up: &Up, their_instance: u64, we_are_smaller: bool) -> Decision {
    if up.instance == their_instance && !up.dialled && !we_are_smaller {
        Decision::Keep
    } else {
        Decision::Take
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
        assert_eq!(on_accept(&up(true, 7), soon, 7, false), Decision::Take);
        // The other order: the accepted one is up when our own is welcomed.
        assert_eq!(on_dialled(&up(false, 7), 7, true), Decision::Take);
        assert_eq!(on_dialled(&up(false, 7), 7, false), Decision::Keep);
    }

    #[test]
    fn a_peer_that_dials_again_is_believed() {
        let late = Duration::from_secs(60);
        assert_eq!(
            on_accept(&up(false, 7), Duration::ZERO, 7, true),
            Decision::Take,
            "it dialled the old one"
        );
        assert_eq!(on_accept(&up(true, 7), late, 7, true), Decision::Take, "ours has been up for long");
        assert_eq!(on_accept(&up(true, 7), Duration::ZERO, 8, true), Decision::Take, "it has restarted");
        assert_eq!(on_dialled(&up(false, 7), 8, false), Decision::Take, "it has restarted");
    }

    #[test]
    fn a_lanes_number_does_not_depend_on_how_many_there_are() {
        let key = |shard, place| LaneKey {
            peer: PublicKey::from_bytes([1; 32]),
            lane_group: "tcp".into(),
            shard,
            place,
        };
        let numbers: Vec<u16> =
            [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(shard, place)| key(shard, place).number(2)).into();
        assert_eq!(numbers, [0, 1, 2, 3], "those of one lane a shard, then those that a second adds");
    }
}
