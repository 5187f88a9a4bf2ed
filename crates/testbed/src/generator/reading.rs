//! What the generator has done so far.

use std::time::Duration;

use trunkline_units::Instant;
use trunkline_workload::{Datagrams, TransferState};

use super::tcp_info::{SenderState, TcpCounts};

/// One transfer: a bulk flow, an object of a web page, a request and its answer.
///
/// A bulk flow is over when its client has the end of the server's stream: the server has all data then, and the client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The flow, user or connection it belongs to, from 0.
    pub user: u32,
    /// When it began: with the opening of its connection, or with its request.
    pub started: Instant,
    /// When its connection was open.
    pub connected: Option<Instant>,
    /// When it was over.
    pub ended: Option<Instant>,
    /// Bytes that its receiver had by then.
    pub bytes: u64,
    /// How far it has come.
    pub state: TransferState,
    /// The side that sends the data: the client of a bulk flow, else the server. Of requests on one connection: all of them so
    /// far. `None` if that side has had no socket.
    pub sender: Option<TcpCounts>,
    /// The side that receives it.
    pub receiver: Option<TcpCounts>,
}

/// A flow of datagrams.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DatagramReading {
    /// Counts and delays, as the simulator counts them. The kernel notes arrivals, so that delays do not contain how late the
    /// generator was to read them.
    pub counts: Datagrams,
    /// Numbers below the highest that arrived that have not arrived themselves.
    pub missing: u64,
    /// Arrived after one with a higher number.
    pub late: u64,
    /// Of those sent, refused by the client's kernel.
    pub refused: u64,
}

/// What a source has done.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceReading {
    /// Its transfers, in the order in which they began, those that run as they are now.
    Transfers(Vec<Transfer>),
    /// Its datagrams.
    Datagrams(Box<DatagramReading>),
}

impl SourceReading {
    /// Transfers; none of datagrams.
    pub fn transfers(&self) -> &[Transfer] {
        match self {
            SourceReading::Transfers(transfers) => transfers,
            SourceReading::Datagrams(_) => &[],
        }
    }

    /// Datagrams, if it sends any.
    pub fn datagrams(&self) -> Option<&DatagramReading> {
        match self {
            SourceReading::Transfers(_) => None,
            SourceReading::Datagrams(datagrams) => Some(datagrams),
        }
    }
}

/// How late the generator began transfers and sent datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Transfers and datagrams that were due.
    pub count: u64,
    /// Sum of how late they were.
    pub total: Duration,
    /// The worst.
    pub worst: Duration,
    /// How many were later than a millisecond.
    pub above_1ms: u64,
}

impl Lateness {
    pub(super) fn add(&mut self, late: Duration) {
        self.count += 1;
        self.total += late;
        self.worst = self.worst.max(late);
        self.above_1ms += u64::from(late > Duration::from_millis(1));
    }
}

/// All sources at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// When, from the generator's start at zero.
    pub at: Instant,
    /// In the order of the list.
    pub sources: Vec<SourceReading>,
    /// So far.
    pub lateness: Lateness,
}

/// A user at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserReading {
    /// Bytes of its transfers that have been received.
    pub received: u64,
    /// Segments retransmitted in its transfers by the sender of their data, over all of its connections.
    pub retransmissions: u64,
    /// The sender of its data; `None` without a connection.
    pub sender: Option<SenderState>,
}
