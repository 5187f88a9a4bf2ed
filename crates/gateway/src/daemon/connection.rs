//! A connection that is not a lane yet, dialled by either site.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use trunkline_units::Instant;

use crate::config::Via;
use crate::handshake::{Dialer, Handshake, Hello};
use crate::life::{CandidateId, LaneKey};
use crate::sys;

pub(super) enum Phase {
    /// Accepted; the handshake has not begun.
    Accepted(TcpStream),
    /// Dialled; the kernel is connecting.
    Connecting(TcpStream, Box<(Dialer, Hello)>),
    /// The handshake is in progress.
    Handshake(Box<Handshake<TcpStream>>),
    /// It has come with an invitation, and waits for the decision. An event now is its end.
    Joining(Box<Handshake<TcpStream>>),
    /// The connection has ended, or is a lane.
    Over,
}

/// The dial of a connection, and its lane.
#[derive(Debug, Clone)]
pub(super) struct Dialled {
    pub(super) key: LaneKey,
    pub(super) candidate: CandidateId,
}

pub(super) struct Connection {
    pub(super) phase: Phase,
    /// Our dial; `None` if the peer dialled.
    pub(super) dialled: Option<Dialled>,
    pub(super) remote: SocketAddr,
    pub(super) deadline: Instant,
    /// It is connected, and its handshake begins at its deadline.
    pub(super) is_held: bool,
}

impl Connection {
    /// Starts to connect. The socket never blocks.
    pub(super) fn dial(
        dialler: (Dialer, Hello),
        dialled: Dialled,
        remote: SocketAddr,
        options: &SocketOptions<'_>,
        deadline: Instant,
    ) -> io::Result<Self> {
        let family = if remote.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        options.apply(socket.as_fd())?;
        options.bind(socket.as_fd())?;
        match connect(&socket, &remote) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let phase = Phase::Connecting(TcpStream::from(socket), Box::new(dialler));
        Ok(Connection { phase, dialled: Some(dialled), remote, deadline, is_held: false })
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.phase {
            Phase::Accepted(stream) | Phase::Connecting(stream, _) => Some(stream.as_fd()),
            Phase::Handshake(handshake) | Phase::Joining(handshake) => handshake.stream().map(AsFd::as_fd),
            Phase::Over => None,
        }
    }

    /// Whether the kernel has connected; an error is the reason why it cannot.
    pub(super) fn check_connected(&self) -> Result<(), String> {
        let Phase::Connecting(stream, _) = &self.phase else { return Ok(()) };
        match sockopt::socket_error(stream) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) | Err(error) => {
                Err(format!("cannot connect to {}: {}", self.remote, io::Error::from(error)))
            }
        }
    }

    /// The kernel has connected: begins the handshake.
    pub(super) fn begin_handshake(&mut self) -> Result<(), String> {
        if let Phase::Connecting(stream, dialler) = std::mem::replace(&mut self.phase, Phase::Over) {
            let (dialer, hello) = *dialler;
            let segment = segment(stream.as_fd());
            let handshake = dialer.dial(stream, hello).map_err(|error| error.to_string())?;
            self.phase = Phase::Handshake(Box::new(handshake.filling(segment)));
        }
        Ok(())
    }
}

/// The bytes of data in a full segment of a connection: what its handshake fills, so that a path on which long packets vanish
/// shows itself before the connection is a lane.
pub(super) fn segment(fd: BorrowedFd<'_>) -> usize {
    sys::TcpInfo::of(fd).ok().and_then(|info| info.snd_mss()).unwrap_or(0) as usize
}

/// The options of a lane's socket, set before it connects or after it is accepted.
pub(super) struct SocketOptions<'a> {
    /// The congestion control of its lane group; `None` while the lane group is not known.
    pub(super) congestion_control: Option<&'a str>,
    /// The DSCP of its packets.
    pub(super) dscp: u8,
    /// The bound on its segments in both directions, if the site dials it and there is one.
    pub(super) max_segment: Option<u16>,
    /// What it is bound to.
    pub(super) via: Via,
}

/// The maximum time that data may stay unacknowledged, ms (`TCP_USER_TIMEOUT`).
const DEAD_AFTER_MS: u32 = 8_000;
/// The idle time before the first keepalive probe, and the interval of further probes.
const PROBE_AFTER_S: u16 = 4;
const PROBE_EVERY_S: u16 = 1;

/// The maximum retransmission timeout, ms: after the path returns, the lane carries traffic within this time.
const MAX_RTO_MS: u32 = 1_000;
/// The same while a lane is verified: the first keepalive probe, and the maximum time without an answer.
const VERIFY_PROBE_S: u16 = 1;
const VERIFY_MS: u32 = 2_500;

/// How soon the kernel detects that a lane is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Liveness {
    /// The default.
    Usual,
    /// After this silence, and as much later as usual: of an idle lane on a path whose use costs, each probe costs too. A lane that
    /// stalls with data is dialled anew long before.
    Rare(Duration),
    /// Within seconds. A lane on a working path answers the probes and stays.
    Verify,
}

impl Liveness {
    pub(super) fn apply(self, fd: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Liveness::Usual => sys::set_dead_after(fd, PROBE_AFTER_S, PROBE_EVERY_S, DEAD_AFTER_MS),
            Liveness::Rare(silence) => {
                let silence_s = u16::try_from(silence.as_secs()).unwrap_or(u16::MAX).max(PROBE_AFTER_S);
                let dead_after = u32::from(silence_s) * 1_000 + DEAD_AFTER_MS;
                sys::set_dead_after(fd, silence_s, PROBE_EVERY_S, dead_after)
            }
            Liveness::Verify => sys::set_dead_after(fd, VERIFY_PROBE_S, VERIFY_PROBE_S, VERIFY_MS),
        }
    }
}

impl SocketOptions<'_> {
    pub(super) fn apply(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        sys::set_nodelay(fd)?;
        Liveness::Usual.apply(fd)?;
        // Ignored on older kernels, which double the timeout without this bound.
        let _ = sys::set_rto_max(fd, MAX_RTO_MS);
        if let Some(bytes) = self.max_segment {
            sys::set_max_segment(fd, bytes)?;
        }
        if let Some(mark) = self.via.fwmark {
            sys::set_mark(fd, mark)?;
        }
        if self.dscp != 0 {
            sys::set_dscp(fd, self.dscp)?;
        }
        if let Some(name) = self.congestion_control {
            sys::set_congestion_control(fd, name).map_err(|error| {
                io::Error::new(error.kind(), format!("congestion control {name:?}: {error}"))
            })?;
        }
        Ok(())
    }

    /// Binds a socket that is to connect to the interface and the address of its path.
    fn bind(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if let Some(interface) = &self.via.interface {
            sys::bind_to_interface(fd, interface)?;
        }
        if let Some(address) = self.via.address {
            sys::set_port_late(fd)?;
            bind(fd, &SocketAddr::new(address, 0))
                .map_err(io::Error::from)
                .map_err(|error| io::Error::new(error.kind(), format!("address {address}: {error}")))?;
        }
        Ok(())
    }
}
