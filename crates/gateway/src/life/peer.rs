//! The state of a path to a peer: whether it is open, and which of its lanes wait.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use trunkline_units::Instant;

use super::WantedPeer;
use super::backoff::Backoff;
use super::lane::{Attempt, LaneKey};
use trunkline_schema::Encryption;

/// The maximum number of concurrent dials to one peer on an open path: fewer than an acceptor allows one address.
const MAX_DIALS: usize = 8;
/// The first and the maximum wait between probes of a closed path. The maximum bounds the outage after the path returns.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The time limit of a connection. After it a new dial sends a SYN at once, where the kernel would back off.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// One of so many attempts gets more time, for paths whose round-trip time exceeds [`CONNECT_TIMEOUT`].
const LONG_TIMEOUT_EVERY: u32 = 8;
const LONG_CONNECT_TIMEOUT: Duration = Duration::from_secs(8);
/// The maximum number of reasons that are remembered as reported.
const MAX_REPORTED: usize = 16;

/// Whether connections to the peer succeed, as far as we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// The last attempt to connect succeeded, or there was none.
    Open,
    /// The last attempt to connect failed. One lane at a time probes the path for all lanes.
    Closed,
}

/// A path to a peer, and what is known of the peer on it.
#[derive(Debug)]
pub(super) struct Peer {
    /// The endpoint to dial; `None` if only the peer dials.
    pub(super) endpoint: Option<Arc<str>>,
    /// The way that connections take to it.
    pub(super) via: Arc<str>,
    pub(super) cost: u8,
    pub(super) encryption: Encryption,
    pub(super) path: Path,
    /// The back-off of probes.
    pub(super) backoff: Backoff,
    /// The time of the next probe, while the path is closed.
    pub(super) probe_at: Instant,
    /// Attempts that have not ended, and those of them that have not connected yet.
    pub(super) under_way: BTreeSet<Attempt>,
    pub(super) connecting: BTreeSet<Attempt>,
    /// Its waiting lanes, by the time when they are due.
    pub(super) waiting: BTreeSet<(Instant, LaneKey)>,
    /// The time of its entry in the index of all peers.
    pub(super) scheduled: Option<Instant>,
    /// Whether its lanes are being verified.
    pub(super) verifying: bool,
    reported: BTreeSet<String>,
}

impl Peer {
    pub(super) fn new(wanted: &WantedPeer) -> Self {
        Peer {
            endpoint: wanted.endpoint.clone(),
            via: Arc::clone(&wanted.via),
            cost: wanted.cost,
            encryption: wanted.encryption,
            path: Path::Open,
            backoff: Backoff::new(FIRST_WAIT, MAX_WAIT),
            probe_at: Instant::ZERO,
            under_way: BTreeSet::new(),
            connecting: BTreeSet::new(),
            waiting: BTreeSet::new(),
            scheduled: None,
            verifying: false,
            reported: BTreeSet::new(),
        }
    }

    /// The time when the next of its lanes may be dialled.
    pub(super) fn due(&self) -> Option<Instant> {
        self.endpoint.as_ref()?;
        let (at, _) = self.waiting.first()?;
        match self.path {
            Path::Open => (self.under_way.len() < MAX_DIALS).then_some(*at),
            Path::Closed => self.connecting.is_empty().then_some((*at).max(self.probe_at)),
        }
    }

    /// The time limit of the next connection.
    pub(super) fn connect_timeout(&self) -> Duration {
        let last = self.backoff.failures() % LONG_TIMEOUT_EVERY == LONG_TIMEOUT_EVERY - 1;
        if last { LONG_CONNECT_TIMEOUT } else { CONNECT_TIMEOUT }
    }

    /// Whether this is the first report of the reason since a lane was up. Records the report.
    pub(super) fn is_first_report(&mut self, reason: &str) -> bool {
        self.reported.len() < MAX_REPORTED && self.reported.insert(reason.to_owned())
    }

    /// A lane is up, so earlier failures no longer count.
    pub(super) fn handle_up(&mut self) {
        self.reported.clear();
        self.backoff.reset();
    }
}
