//! The traffic that hosts send.

mod datagram;
mod record;
mod transfers;

use std::sync::Arc;
use std::time::Duration;

use trunkline_packet::Version;
use trunkline_tcp::Settings;
use trunkline_workload::{Pattern, Timing};

use crate::NodeId;

pub(crate) use datagram::DatagramSource;
pub use record::Transfer;
pub(crate) use transfers::TransferSource;

/// A source of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub(crate) u32);

/// Bytes of the headers of a datagram, which the rates of its source include.
pub(crate) const fn headers(version: Version) -> u32 {
    match version {
        Version::V4 => Timing::HEADERS,
        Version::V6 => Timing::HEADERS_IPV6,
    }
}

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
