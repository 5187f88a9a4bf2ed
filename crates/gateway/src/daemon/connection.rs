//! A connection on its way to becoming a lane, whichever side dialled.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use trunkline_units::Instant;

use crate::handshake::{Dialer, Handshake, Hello};
use crate::life::{Attempt, LaneKey};
use crate::sys;

pub(super) enum Phase {
    /// Somebody dialled us, and has not been answered yet.
    Accepted(TcpStream),
    /// We dialled and the kernel is connecting.
    Connecting(TcpStream, Box<(Dialer, Hello)>),
    /// Keys and greetings are exchanged.
    Handshake(Box<Handshake<TcpStream>>),
    /// Nothing more will come of it.
    Over,
}

/// What a connection was dialled for.
#[derive(Debug, Clone)]
pub(super) struct Dialled {
    pub(super) attempt: Attempt,
    pub(super) key: LaneKey,
}

pub(super) struct Connection {
    pub(super) phase: Phase,
    /// What we dialled for; `None` if the peer dialled.
    pub(super) dialled: Option<Dialled>,
    pub(super) remote: SocketAddr,
    pub(super) deadline: Instant,
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
        match connect(&socket, &remote) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let phase = Phase::Connecting(TcpStream::from(socket), Box::new(dialler));
        Ok(Connection { phase, dialled: Some(dialled), remote, deadline })
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.phase {
            Phase::Accepted(stream) | Phase::Connecting(stream, _) => Some(stream.as_fd()),
            Phase::Handshake(handshake) => handshake.stream().map(AsFd::as_fd),
            Phase::Over => None,
        }
    }

    /// Takes note that the kernel has connected, or could not.
    pub(super) fn connected(&mut self) -> Result<(), String> {
        let Phase::Connecting(stream, dialler) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return Ok(());
        };
        match sockopt::socket_error(&stream) {
            Ok(Ok(())) => {
                let (dialer, hello) = *dialler;
                let handshake = dialer.dial(stream, hello).map_err(|error| error.to_string())?;
                self.phase = Phase::Handshake(Box::new(handshake));
                Ok(())
            }
            Ok(Err(error)) | Err(error) => {
                Err(format!("cannot connect to {}: {}", self.remote, io::Error::from(error)))
            }
        }
    }
}

/// What is set on a lane's socket before it connects, or once it is accepted.
pub(super) struct SocketOptions<'a> {
    /// The congestion control of its lane group; `None` while the lane group is not known.
    pub(super) congestion_control: Option<&'a str>,
    /// The code point of its packets.
    pub(super) dscp: u8,
    pub(super) mark: Option<u32>,
}

/// A dead lane is noticed within this time, ms: the longest that data may stay unacknowledged.
const DEAD_AFTER_MS: u32 = 8_000;
/// An idle lane is probed after so many seconds, and again after so many.
const PROBE_AFTER_S: u16 = 4;
const PROBE_EVERY_S: u16 = 1;

/// The longest retransmission time-out, ms: a path that returns carries traffic again within this time.
const MAX_RTO_MS: u32 = 1_000;
/// While a lane is verified: it is probed at once, and ends if nothing is heard for so long.
const VERIFY_PROBE_S: u16 = 1;
const VERIFY_MS: u32 = 2_500;

/// How soon a lane is noticed to be dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Liveness {
    /// As always.
    Usual,
    /// It has to show now that it is alive. One on a path that works answers and stays.
    Verify,
}

impl Liveness {
    pub(super) fn apply(self, fd: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Liveness::Usual => sys::set_dead_after(fd, PROBE_AFTER_S, PROBE_EVERY_S, DEAD_AFTER_MS),
            Liveness::Verify => sys::set_dead_after(fd, VERIFY_PROBE_S, VERIFY_PROBE_S, VERIFY_MS),
        }
    }
}

impl SocketOptions<'_> {
    pub(super) fn apply(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        sys::set_nodelay(fd)?;
        Liveness::Usual.apply(fd)?;
        // Older kernels double the time-out without this bound.
        let _ = sys::set_rto_max(fd, MAX_RTO_MS);
        if let Some(mark) = self.mark {
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
}
