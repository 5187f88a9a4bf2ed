//! The types of [`Life`](super::Life)'s interface: the configuration, actions, events and their results.

use std::sync::Arc;
use std::time::Duration;

use super::lane::{Attempt, LaneKey, PathKey, Serial};
use crate::keys::PublicKey;
use trunkline_schema::Encryption;

/// The site's parameters, beside the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site {
    pub(crate) key: PublicKey,
    /// The number of workers, each with a set of lanes of its own.
    pub(crate) shards: u16,
    /// The seed of all random numbers.
    pub(crate) seed: u64,
}

/// The peers and lane groups of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// One for each path to each peer. Each peer has the first.
    pub(crate) peers: Vec<WantedPeer>,
    pub(crate) lane_groups: Vec<WantedLaneGroup>,
}

/// A path to a configured peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedPeer {
    pub(crate) key: PathKey,
    /// The way that connections take to the endpoint, in any words: lanes come anew when it changes.
    pub(crate) via: Arc<str>,
    /// What its use costs. Lanes come anew when it changes, since their numbers say it.
    pub(crate) cost: u8,
    /// The endpoint to dial; `None` if only the peer dials.
    pub(crate) endpoint: Option<Arc<str>>,
    pub(crate) encryption: Encryption,
}

/// A configured lane group: the site has its lanes to each peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedLaneGroup {
    pub(crate) name: Arc<str>,
    /// The number of lanes in each shard to a peer with one path.
    pub(crate) lanes: u8,
    /// The same on each path to a peer with several.
    pub(crate) on_each: u8,
}

/// A lane to dial now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dial {
    pub(crate) attempt: Attempt,
    pub(crate) key: LaneKey,
    /// The time limit for the TCP connection, without the handshake.
    pub(crate) connect_timeout: Duration,
}

/// The reason for a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// A dial is due.
    Dial,
    /// The verification of a peer's lanes ends.
    Verified,
}

/// The scope of a failed dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no connection, so the failure concerns all lanes of the peer.
    Path,
    /// There was a connection, and it did not become this lane.
    Lane,
}

/// The consequence of a failed dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retry {
    /// The time until the next dial to this peer.
    pub(crate) wait: Duration,
    /// Whether this is the first report of the reason since a lane of the peer was up.
    pub(crate) first_report: bool,
}

/// A peer's request for a lane, in the terms of the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) peer: PublicKey,
    pub(crate) lane_group: &'a str,
    pub(crate) number: u16,
    /// The peer's instance.
    pub(crate) instance: u64,
}

/// Why the site declines a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Declined {
    UnknownPeer,
    UnknownLaneGroup,
    /// The lane group has no lane of this number.
    UnknownNumber {
        /// Its number of lanes, over all shards.
        lanes: u16,
    },
    /// Both sites dialled, and the other connection stays.
    Crossed,
}

/// A connection that has completed its handshake and may become a lane.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) key: LaneKey,
    /// A new serial.
    pub(crate) serial: Serial,
    /// Whether this site dialled.
    pub(crate) dialled: bool,
    /// Our dial; `None` if the peer dialled, or if the lane is up over another transport.
    pub(crate) attempt: Option<Attempt>,
    /// The peer's instance.
    pub(crate) instance: u64,
    /// The encryption that the handshake agreed on.
    pub(crate) encryption: Encryption,
}

/// The connection is the lane now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) struct Installed {
    /// The connection that it replaces. The caller must end it first.
    pub(crate) replaced: Option<Serial>,
}

/// Why a connection does not become a lane. The caller must close it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotInstalled {
    /// A reload has removed the lane meanwhile.
    NotConfigured,
    /// A reload has changed the peer's encryption meanwhile.
    Encryption,
    /// Both sites dialled, and the other connection stays.
    Crossed,
}

/// A lane that a reload ended. The caller must close its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) key: LaneKey,
    pub(crate) serial: Serial,
    pub(crate) reason: &'static str,
}
