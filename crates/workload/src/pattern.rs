//! Patterns of transfers.

use trunkline_units::SettingsError;
use trunkline_units::check::ensure;

use crate::{Distribution, check_part};

/// Which connection a request has that arrives by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Assignment {
    /// The one that has been idle for the longest time; while all are busy, the first that is idle again.
    #[default]
    LongestIdle,
    /// One of all at random, idle or not.
    Random,
}

/// The pattern of transfers.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// Connections on which the client sends as fast as it may.
    Bulk {
        /// How many.
        flows: u32,
        /// Bytes of each; `None`: until the source stops.
        bytes: Option<u64>,
        /// From the start of one to that of the next, drawn for each; seconds.
        stagger: Distribution,
    },
    /// Users who each fetch one object after another, over a connection each (HTTP/1.0).
    Web {
        /// How many.
        users: u32,
        /// Bytes of a request.
        request: u64,
        /// Bytes of an answer.
        response: Distribution,
        /// Objects of a page.
        objects: Distribution,
        /// Seconds from one object to the next of the page.
        gap: Distribution,
        /// Seconds from a page to the next.
        think: Distribution,
    },
    /// Connections that stay open, with a small request at intervals; the next waits for the last answer.
    RequestResponse {
        /// How many.
        connections: u32,
        /// Bytes of a request.
        request: u64,
        /// Bytes of an answer.
        response: u64,
        /// Seconds from one request to the next.
        interval: Distribution,
    },
    /// Requests that arrive whatever became of those before them: an open loop, over connections that stay open. While the
    /// connection that it is to have is busy, a request waits.
    Arrivals {
        /// How many at a time, at most.
        connections: u32,
        /// Which of them a request is to have.
        assignment: Assignment,
        /// Bytes of a request.
        request: u64,
        /// Bytes of an answer.
        response: Distribution,
        /// Seconds from one arrival to the next.
        interval: Distribution,
    },
}

impl Pattern {
    /// The most flows, users or connections: more than this have no ports of their own.
    pub const MAX_USERS: u32 = 50_000;

    /// Web users as Surge makes them (Barford and Crovella 1998).
    pub const fn surge(users: u32) -> Self {
        Pattern::Web {
            users,
            request: 300,
            response: Distribution::SURGE_FILE,
            objects: Distribution::SURGE_OBJECTS,
            gap: Distribution::SURGE_ACTIVE_OFF,
            think: Distribution::SURGE_INACTIVE_OFF,
        }
    }

    /// Flows, users or connections.
    pub const fn users(&self) -> u32 {
        match self {
            Pattern::Bulk { flows, .. } => *flows,
            Pattern::Web { users, .. } => *users,
            Pattern::RequestResponse { connections, .. } | Pattern::Arrivals { connections, .. } => {
                *connections
            }
        }
    }

    /// Whether there can be such transfers.
    pub fn check(&self) -> Result<(), SettingsError> {
        let positive = |place, value: u64| ensure(value > 0, place, value, "1 or more bytes");
        let place = match self {
            Pattern::Bulk { bytes, stagger, .. } => {
                positive("bytes", bytes.unwrap_or(u64::MAX))?;
                check_part("stagger", stagger)?;
                "flows"
            }
            Pattern::Web { request, response, objects, gap, think, .. } => {
                positive("request", *request)?;
                check_part("response", response)?;
                check_part("objects", objects)?;
                check_part("gap", gap)?;
                check_part("think", think)?;
                "users"
            }
            Pattern::RequestResponse { request, response, interval, .. } => {
                positive("request", *request)?;
                positive("response", *response)?;
                check_part("interval", interval)?;
                "connections"
            }
            Pattern::Arrivals { connections, request, response, interval, .. } => {
                positive("request", *request)?;
                check_part("response", response)?;
                check_part("interval", interval)?;
                // Else requests would arrive without end in one instant.
                ensure(interval.mean() >= 1e-6, "interval", interval, "a mean of a microsecond or more")?;
                ensure(*connections > 0, "connections", connections, "1 to 50000")?;
                "connections"
            }
        };
        ensure(self.users() <= Self::MAX_USERS, place, self.users(), "up to 50000")
    }

    /// Whether the data goes from client to server. Of other patterns the server's answers are the data.
    pub const fn is_upload(&self) -> bool {
        matches!(self, Pattern::Bulk { .. })
    }

    /// Whether transfers follow each other on one connection.
    pub const fn keeps_connections(&self) -> bool {
        matches!(self, Pattern::RequestResponse { .. } | Pattern::Arrivals { .. })
    }
}
