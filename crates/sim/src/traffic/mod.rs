//! The traffic that hosts send.

mod datagram;
mod record;
mod transfers;

use std::sync::Arc;
use std::time::Duration;

use trunkline_tcp::Settings;
use trunkline_units::Rate;

use crate::{Distribution, NodeId};

pub(crate) use datagram::DatagramSource;
pub use record::{Summary, Transfer, TransferState};
pub(crate) use transfers::TransferSource;

/// A source of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub(crate) u32);

/// Transfers over TCP between two hosts.
#[derive(Debug, Clone)]
pub struct TcpTraffic {
    /// Who opens the connections.
    pub client: NodeId,
    /// Who answers.
    pub server: NodeId,
    /// The server's port.
    pub port: u16,
    /// Code point of all packets.
    pub dscp: u8,
    /// The client's TCP and the server's.
    pub tcp: [Arc<Settings>; 2],
    /// When it begins.
    pub start: Duration,
    /// When it ends: nothing new begins then, and what has no end of its own ends. `None`: never.
    pub stop: Option<Duration>,
    /// What is sent.
    pub pattern: Pattern,
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
}

impl Pattern {
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
}

/// Datagrams from one host to another.
#[derive(Debug, Clone)]
pub struct UdpTraffic {
    /// Who sends.
    pub from: NodeId,
    /// Who receives.
    pub to: NodeId,
    /// The receiver's port.
    pub port: u16,
    /// Code point.
    pub dscp: u8,
    /// Bytes of data in a datagram; a trace has its own.
    pub data: u32,
    /// When it begins.
    pub start: Duration,
    /// When it ends.
    pub stop: Option<Duration>,
    /// When datagrams leave.
    pub timing: Timing,
}

impl UdpTraffic {
    /// Bytes of an IPv4 and a UDP header.
    pub const HEADERS: u32 = 28;
}

/// When datagrams leave.
#[derive(Debug, Clone, PartialEq)]
pub enum Timing {
    /// At a constant rate, IP header included.
    Constant(Rate),
    /// At this rate on average, IP header included, with exponentially distributed gaps.
    Poisson(Rate),
    /// At a constant rate at times, and at others not at all.
    OnOff {
        /// While on.
        rate: Rate,
        /// Seconds.
        on: Distribution,
        /// Seconds.
        off: Distribution,
    },
    /// At these times from the start, with so many bytes of data each; from the beginning again after the last if so
    /// much time passes until then.
    Trace {
        /// Times in order.
        datagrams: Arc<[(Duration, u32)]>,
        /// From the start to the start of the repetition; `None`: once.
        repeat: Option<Duration>,
    },
}
