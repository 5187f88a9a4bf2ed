//! The lanes a site should have, and how each stands: for every peer, group of lanes and shard.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use trunkline_units::Instant;

use super::backoff::Backoff;
use crate::keys::PublicKey;

/// Which lane.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LaneKey {
    pub(super) peer: PublicKey,
    pub(super) group: Arc<str>,
    /// Its number among the lanes of the group over all shards: shard × lanes a shard + place in the shard.
    pub(super) number: u16,
}

/// How a lane stands.
#[derive(Debug)]
pub(super) enum State {
    /// Not there. Dialled when the time comes, if the peer can be dialled.
    Waiting { dial_at: Instant },
    /// A connection is being made or secured.
    Dialling,
    /// It carries packets.
    Up(Up),
}

/// A lane that stands.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) serial: u64,
    pub(super) fd: Arc<OwnedFd>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) instance: u64,
    pub(super) encryption: crate::config::Encryption,
    pub(super) dialled: bool,
}

/// A lane's place in the table.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) key: LaneKey,
    pub(super) state: State,
    pub(super) since: Instant,
    pub(super) backoff: Backoff,
    pub(super) established: u64,
    pub(super) last_error: Option<String>,
}

/// How long a peer that dialled at the same moment as we did may take to notice our connection.
pub(super) const SIMULTANEOUS: Duration = Duration::from_secs(10);

/// What an acceptor does with a connection for a lane it may already have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Take it, in place of what was there.
    Take,
    /// Keep what was there.
    Keep,
}

/// Decides between a lane that stands and a connection that the peer has just dialled for it.
///
/// A peer dials only what it does not have. So whatever stands is dead in the peer's eyes, but for one case: both
/// sites dialled at once. Then the connection of the site with the smaller key stays, at both sites.
pub(super) fn on_accept(up: &Up, age: Duration, their_instance: u64, we_are_smaller: bool) -> Decision {
    let simultaneous = up.dialled && up.instance == their_instance && age < SIMULTANEOUS;
    if simultaneous && we_are_smaller { Decision::Keep } else { Decision::Take }
}

/// Decides between a lane that stands because the peer dialled it, and our own connection that has now been
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
        let (end, _) = rustix::pipe::pipe().expect("a pipe");
        Up {
            serial: 1,
            fd: Arc::new(end),
            remote: None,
            instance,
            encryption: crate::config::Encryption::Tls,
            dialled,
        }
    }

    #[test]
    fn when_both_dial_at_once_both_keep_the_smaller_keys_connection() {
        let soon = Duration::from_millis(50);
        // The smaller site's own connection stands; the other's arrives.
        assert_eq!(on_accept(&up(true, 7), soon, 7, true), Decision::Keep);
        // The larger site's own connection stands; the smaller's arrives.
        assert_eq!(on_accept(&up(true, 7), soon, 7, false), Decision::Take);
        // The other order: the accepted one stands when our own is welcomed.
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
        assert_eq!(on_accept(&up(true, 7), late, 7, true), Decision::Take, "ours has stood for long");
        assert_eq!(on_accept(&up(true, 7), Duration::ZERO, 8, true), Decision::Take, "it has restarted");
        assert_eq!(on_dialled(&up(false, 7), 8, false), Decision::Take, "it has restarted");
    }
}
