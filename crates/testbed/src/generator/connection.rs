//! A connection: both ends, since one thread has them both.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use trunkline_units::Instant;

use super::tcp_info::{RttSampler, TcpCounts};

/// Bytes that one end reads or writes before others have their turn.
const TURN_BYTES: u64 = 1 << 20;
/// Bytes of one read or write.
const CHUNK_BYTES: usize = 128 << 10;

/// An end has more to read or write than one turn allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It waits for the kernel.
    Done,
    /// It goes on in the next turn.
    Again,
}

/// Memory that reads and writes of all connections share: what is sent is zeroes, what is received is not looked at.
#[derive(Debug)]
pub(super) struct Scratch(Vec<u8>);

impl Scratch {
    pub(super) fn new() -> Self {
        Scratch(vec![0; CHUNK_BYTES])
    }
}

/// One end.
#[derive(Debug)]
pub(super) struct End {
    pub(super) socket: OwnedFd,
    /// Bytes still to write.
    pub(super) to_write: u64,
    /// Bytes read so far.
    pub(super) received: u64,
    /// The other end's stream is over.
    pub(super) ended: bool,
    /// Its own stream is over.
    pub(super) shut: bool,
    rtt: RttSampler,
}

impl End {
    pub(super) fn new(socket: OwnedFd) -> Self {
        End { socket, to_write: 0, received: 0, ended: false, shut: false, rtt: RttSampler::default() }
    }

    /// Reads what is there. The kernel drops the bytes (`MSG_TRUNC`, tcp(7)) and does not copy them.
    pub(super) fn read(&mut self, scratch: &mut Scratch) -> Result<Turn, Errno> {
        let mut left = TURN_BYTES;
        while !self.ended {
            match rustix::net::recv(&self.socket, &mut scratch.0[..], RecvFlags::TRUNC) {
                Ok((_, 0)) => self.ended = true,
                Ok((_, bytes)) => {
                    self.received += bytes as u64;
                    left = left.saturating_sub(bytes as u64);
                    if left == 0 {
                        return Ok(Turn::Again);
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Turn::Done)
    }

    /// Writes what there is to write and the kernel takes.
    pub(super) fn write(&mut self, scratch: &Scratch, now: Instant) -> Result<Turn, Errno> {
        let mut left = TURN_BYTES;
        if self.to_write > 0 {
            self.rtt.sample(&self.socket, now);
        }
        while self.to_write > 0 {
            let bytes = self.to_write.min(CHUNK_BYTES as u64) as usize;
            match rustix::net::send(&self.socket, &scratch.0[..bytes], SendFlags::NOSIGNAL) {
                Ok(written) => {
                    self.to_write -= written as u64;
                    left = left.saturating_sub(written as u64);
                    if left == 0 && self.to_write > 0 {
                        return Ok(Turn::Again);
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Turn::Done)
    }

    /// Ends its stream behind all that was written.
    pub(super) fn shut(&mut self) {
        if !self.shut {
            self.shut = true;
            // It fails only if the connection is gone, which the next read says.
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        }
    }

    /// Makes its close a reset, for a connection that failed: nothing of it stays in the kernel.
    pub(super) fn abort(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(std::time::Duration::ZERO));
    }

    pub(super) fn counts(&self) -> Option<TcpCounts> {
        self.rtt.counts(&self.socket)
    }
}

/// The work of the server for one request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Request {
    /// Bytes that the server has received when it has the request.
    pub(super) end: u64,
    /// Bytes of its answer; 0 when it has been given.
    pub(super) answer: u64,
}

/// Both ends of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// Of the TCP sources.
    pub(super) source: usize,
    /// `None`: its user has finished with it, and it closes by itself.
    pub(super) user: Option<u32>,
    /// The client's address.
    pub(super) own: SocketAddr,
    /// `None` once it has closed.
    pub(super) client: Option<End>,
    /// `None` until it is accepted, and once it has closed.
    pub(super) server: Option<End>,
    pub(super) connected: bool,
    pub(super) request: Request,
    /// What the client has received when it has its answer.
    pub(super) answer_end: u64,
}

impl Connection {
    /// Lets the server answer if it has the request.
    pub(super) fn answer(&mut self) {
        let Some(server) = &mut self.server else { return };
        if server.received >= self.request.end {
            server.to_write += std::mem::take(&mut self.request.answer);
        }
    }
}
