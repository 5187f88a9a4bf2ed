//! What is known of a peer beyond its configuration: whether its path seems open, and which of its lanes wait.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use trunkline_units::Instant;

use super::backoff::Backoff;
use super::lane::{Attempt, LaneKey};
use crate::encryption::Encryption;

/// Lanes of one peer that are dialled at one time while its path is open: below what an acceptor grants one address.
const DIALS: usize = 8;
/// The first wait after a path was found closed, and the longest: the traffic of a path that returns waits no longer.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const MAX_WAIT: Duration = Duration::from_secs(1);
/// A connection that is not there after so long is given up, so that a SYN goes out each second on any kernel.
const PATIENCE: Duration = Duration::from_secs(2);
/// Every so many failures one attempt gets more time, for paths on which a round trip takes longer.
const PATIENT_EVERY: u32 = 8;
const MORE_PATIENCE: Duration = Duration::from_secs(8);
/// Reasons remembered as reported.
const MAX_REPORTED: usize = 16;

/// Whether a connection to the peer can be made, as far as we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// The last connection was made, or none has been tried.
    Open,
    /// The last one could not be made. One lane at a time is dialled, as a scout for all.
    Closed,
}

#[derive(Debug)]
pub(super) struct Peer {
    /// What it is dialled at; `None` if it is not dialled.
    pub(super) endpoint: Option<Arc<str>>,
    pub(super) encryption: Encryption,
    pub(super) path: Path,
    /// Of the scouts.
    pub(super) backoff: Backoff,
    /// While the path is closed nothing is dialled before.
    pub(super) scout_at: Instant,
    /// Attempts that have not ended, and those of them that have no connection yet.
    pub(super) under_way: BTreeSet<Attempt>,
    pub(super) connecting: BTreeSet<Attempt>,
    /// Its lanes that wait, by when they are due.
    pub(super) waiting: BTreeSet<(Instant, LaneKey)>,
    /// Its entry in the index of all peers.
    pub(super) scheduled: Option<Instant>,
    /// Whether its lanes are being verified.
    pub(super) verifying: bool,
    reported: BTreeSet<String>,
}

impl Peer {
    pub(super) fn new(endpoint: Option<Arc<str>>, encryption: Encryption) -> Self {
        Peer {
            endpoint,
            encryption,
            path: Path::Open,
            backoff: Backoff::new(FIRST_WAIT, MAX_WAIT),
            scout_at: Instant::ZERO,
            under_way: BTreeSet::new(),
            connecting: BTreeSet::new(),
            waiting: BTreeSet::new(),
            scheduled: None,
            verifying: false,
            reported: BTreeSet::new(),
        }
    }

    /// When the next of its lanes may be dialled.
    pub(super) fn due(&self) -> Option<Instant> {
        self.endpoint.as_ref()?;
        let (at, _) = self.waiting.first()?;
        match self.path {
            Path::Open => (self.under_way.len() < DIALS).then_some(*at),
            Path::Closed => self.connecting.is_empty().then_some((*at).max(self.scout_at)),
        }
    }

    /// How long the next attempt may take to connect.
    pub(super) fn patience(&self) -> Duration {
        let last = self.backoff.failures() % PATIENT_EVERY == PATIENT_EVERY - 1;
        if last { MORE_PATIENCE } else { PATIENCE }
    }

    /// Whether this reason has not been reported since a lane last came up.
    pub(super) fn report(&mut self, reason: &str) -> bool {
        self.reported.len() < MAX_REPORTED && self.reported.insert(reason.to_owned())
    }

    /// A lane is up: whatever was wrong is over.
    pub(super) fn recovered(&mut self) {
        self.reported.clear();
        self.backoff.reset();
    }
}
