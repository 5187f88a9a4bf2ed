//! What the generator is to send.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use trunkline_units::check::ensure;
use trunkline_units::{Rng, SettingsError};
use trunkline_workload::{Pattern, Timing};

use crate::namespace::{Host, HostError};

/// Bytes at the start of each datagram: its number and when it was sent.
pub(super) const DATAGRAM_HEAD: u32 = 12;

/// Options of a TCP socket. `None` leaves the kernel's own value, or its automatic tuning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketOptions {
    /// The kernel's name of the congestion control: the default of a machine would colour what is measured.
    pub congestion_control: String,
    /// `SO_SNDBUF`, bytes; the kernel doubles it for its own bookkeeping.
    pub send_buffer: Option<u32>,
    /// `SO_RCVBUF`, bytes; the kernel doubles it. It bounds the window.
    pub receive_buffer: Option<u32>,
    /// `TCP_MAXSEG`, bytes of the largest segment's data and options.
    pub mss: Option<u16>,
    /// Whether small segments wait for acknowledgements (RFC 896): `TCP_NODELAY` is set if not.
    pub nagle: bool,
    /// `TCP_NOTSENT_LOWAT`, bytes that wait unsent before the sender is asked for more.
    pub unsent_low_water: Option<u32>,
    /// `TCP_WINDOW_CLAMP`, bytes of the largest window that is offered.
    pub window_clamp: Option<u32>,
    /// `TCP_USER_TIMEOUT`, the longest time that data stays unacknowledged before the connection is given up.
    pub user_timeout: Option<Duration>,
}

impl SocketOptions {
    /// This congestion control, and all else as the kernel has it.
    pub fn new(congestion_control: &str) -> Self {
        SocketOptions {
            congestion_control: congestion_control.to_owned(),
            send_buffer: None,
            receive_buffer: None,
            mss: None,
            nagle: true,
            unsent_low_water: None,
            window_clamp: None,
            user_timeout: None,
        }
    }

    /// What a handshake fixes, so that connections to one port have it in common.
    pub(super) fn of_handshake(&self) -> [Option<u32>; 3] {
        [self.receive_buffer, self.mss.map(u32::from), self.window_clamp]
    }
}

/// What a source sends.
#[derive(Debug, Clone)]
pub enum Load {
    /// Transfers over TCP.
    Tcp {
        /// What transfers.
        pattern: Pattern,
        /// Options of the client's sockets and of the server's.
        sockets: Box<[SocketOptions; 2]>,
    },
    /// Datagrams from the client to the server.
    Udp {
        /// Bytes of data in a datagram, 12 or more; a trace has its own.
        data: u32,
        /// When they leave.
        timing: Timing,
    },
}

/// A source of traffic.
#[derive(Debug, Clone)]
pub struct Source<'h> {
    /// The host that opens connections or sends datagrams.
    pub client: &'h Host,
    /// The host that answers or receives.
    pub server: &'h Host,
    /// An address of the server's and its port.
    pub address: SocketAddr,
    /// Code point of all packets.
    pub dscp: u8,
    /// When it begins, from the generator's start.
    pub start: Duration,
    /// When it ends: nothing new begins then, and what has no end of its own ends. `None`: never.
    pub stop: Option<Duration>,
    /// Its random stream: [`trunkline_workload::stream`] gives the one that the simulator uses.
    pub rng: Rng,
    /// What it sends.
    pub load: Load,
}

impl Source<'_> {
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        ensure(self.address.port() > 0, "port", self.address.port(), "1 to 65535")?;
        ensure(self.dscp < 64, "dscp", self.dscp, "0 to 63")?;
        let after = self.stop.is_none_or(|stop| stop > self.start);
        ensure(after, "stop", self.stop.unwrap_or_default(), "later than start")?;
        match &self.load {
            Load::Tcp { pattern, .. } => pattern.check().map_err(|error| error.within("pattern")),
            Load::Udp { data, timing } => {
                timing.check().map_err(|error| error.within("timing"))?;
                let long = |place: &str, bytes: u32| {
                    let holds = (DATAGRAM_HEAD..=Timing::MAX_DATA).contains(&bytes);
                    ensure(holds, place, bytes, "12 to 65507 bytes: each carries its number and its time")
                };
                match timing {
                    Timing::Trace { datagrams, .. } => datagrams
                        .iter()
                        .enumerate()
                        .try_for_each(|(number, (_, bytes))| long(&format!("timing[{number}]"), *bytes)),
                    _ => long("data", *data),
                }
            }
        }
    }
}

/// Why there is no generator.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorError {
    /// A source makes no sense.
    #[error("source {source_number}: {error}")]
    Settings {
        /// Its place in the list.
        source_number: usize,
        /// What is wrong with it.
        error: SettingsError,
    },
    /// The kernel lacks a congestion control.
    #[error("host {host}: the kernel has no congestion control {name:?}; allowed: {available} ({source})")]
    CongestionControl {
        /// The host.
        host: String,
        /// What was asked for.
        name: String,
        /// What it has.
        available: String,
        /// What the system said.
        source: io::Error,
    },
    /// Two sources want one port with different options that the handshake fixes.
    #[error(
        "source {source_number}: another source has {address} with another receive buffer, MSS or window clamp; allowed: \
         the same there, or another port"
    )]
    Port {
        /// The later one's place in the list.
        source_number: usize,
        /// The server's.
        address: SocketAddr,
    },
    /// More connections than the process may have descriptors.
    #[error("{needed} file descriptors are needed; allowed: {limit} (RLIMIT_NOFILE)")]
    Descriptors {
        /// For both ends of all connections.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// A socket could not be made or set up.
    #[error("host {host}: cannot {action}: {source}")]
    Socket {
        /// The host.
        host: String,
        /// What was tried.
        action: String,
        /// What the system said.
        source: io::Error,
    },
    /// A setting of a host could not be made.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The thread could not be started.
    #[error("cannot start the generator: {0}")]
    Start(io::Error),
}
