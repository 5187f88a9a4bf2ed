//! One direction of a connection: from what one socket has received into what the other sends.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustix::pipe::{SpliceFlags, splice};
use trunkline_linux::is_at_urgent_byte;

use super::pipes::{PIPE_BYTES, Pipe, Pipes};

/// Turns of one visit: then others have theirs.
const MAX_TURNS: usize = 8;

/// How a visit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visit {
    /// It waits for one of the sockets, or is closed.
    Waits,
    /// There is more to do.
    Unfinished,
    /// A socket has failed.
    Broken,
}

#[derive(Debug, Default)]
pub(crate) struct Direction {
    pipe: Option<Pipe>,
    /// Bytes in the pipe.
    held: usize,
    /// There is an urgent byte to come.
    urgent: bool,
    readable: bool,
    writable: bool,
    /// The source sends nothing more.
    ended: bool,
    /// The target has been told so.
    closed: bool,
    /// Bytes that have gone into the target.
    moved: u64,
}

/// A socket has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failed;

impl Direction {
    /// The source may have something to read.
    pub(crate) fn set_readable(&mut self) {
        self.readable = true;
    }

    /// The target may have room.
    pub(crate) fn set_writable(&mut self) {
        self.writable = true;
    }

    /// The source has been sent an urgent byte.
    pub(crate) fn set_urgent(&mut self) {
        self.urgent = true;
    }

    /// Whether everything has been moved, the close included.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Bytes in the pipe.
    pub(crate) fn held(&self) -> u64 {
        self.held as u64
    }

    /// Bytes moved since the last call.
    pub(crate) fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    /// Moves what can be moved.
    pub(crate) fn visit(&mut self, from: &OwnedFd, to: &OwnedFd, pipes: &mut Pipes) -> Visit {
        for _ in 0..MAX_TURNS {
            match self.turn(from, to, pipes) {
                Ok(true) => {}
                Ok(false) => return Visit::Waits,
                Err(Failed) => return Visit::Broken,
            }
        }
        Visit::Unfinished
    }

    /// Gives back the pipe of a connection that has ended.
    pub(crate) fn end(&mut self, pipes: &mut Pipes) {
        if let Some(pipe) = self.pipe.take() {
            if self.held == 0 {
                pipes.take_back(pipe);
            } else {
                pipes.lost();
            }
        }
    }

    /// Whether there may be more to do at once.
    fn turn(&mut self, from: &OwnedFd, to: &OwnedFd, pipes: &mut Pipes) -> Result<bool, Failed> {
        if self.closed {
            return Ok(false);
        }
        if let Some(pipe) = self.pipe.take() {
            return self.empty(pipe, to, pipes);
        }
        if self.ended {
            // A failure has reached the other direction too, which reports it.
            let _ = shutdown(to, Shutdown::Write);
            self.closed = true;
            return Ok(false);
        }
        if !self.readable || !self.writable {
            return Ok(false);
        }
        match pipes.lend() {
            Some(pipe) if !self.urgent => self.fill(pipe, from, pipes)?,
            Some(pipe) => {
                pipes.take_back(pipe);
                self.copy(from, to, pipes)?;
            }
            None => self.copy(from, to, pipes)?,
        }
        Ok(true)
    }

    fn fill(&mut self, pipe: Pipe, from: &OwnedFd, pipes: &mut Pipes) -> Result<(), Failed> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let filled = splice(from, None, &pipe.write, None, PIPE_BYTES, flags);
        if let Ok(bytes) = filled
            && bytes > 0
        {
            self.held = bytes;
            self.pipe = Some(pipe);
            return Ok(());
        }
        pipes.take_back(pipe);
        match filled {
            // The end, or the place in front of an urgent byte.
            Ok(_) => match recv(from, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok((_, 0)) => self.ended = true,
                Ok(_) => self.urgent = true,
                Err(Errno::AGAIN | Errno::INTR) => self.readable = false,
                Err(_) => return Err(Failed),
            },
            Err(Errno::AGAIN) => self.readable = false,
            Err(Errno::INTR) => {}
            Err(_) => return Err(Failed),
        }
        Ok(())
    }

    fn empty(&mut self, pipe: Pipe, to: &OwnedFd, pipes: &mut Pipes) -> Result<bool, Failed> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let emptied = if self.writable {
            splice(&pipe.read, None, to, None, self.held, flags)
        } else {
            Err(Errno::AGAIN)
        };
        if let Ok(bytes) = emptied {
            self.held -= bytes;
            self.moved += bytes as u64;
        }
        if self.held == 0 {
            pipes.take_back(pipe);
        } else {
            self.pipe = Some(pipe);
        }
        match emptied {
            Ok(_) | Err(Errno::INTR) => Ok(true),
            Err(Errno::AGAIN) => {
                self.writable = false;
                Ok(false)
            }
            Err(_) => Err(Failed),
        }
    }

    /// Moves bytes without a pipe, of which the proxy holds none meanwhile: they leave the source's buffer once they are in the
    /// target's. Stops before an urgent byte, which then goes alone.
    fn copy(&mut self, from: &OwnedFd, to: &OwnedFd, pipes: &mut Pipes) -> Result<(), Failed> {
        let urgent = self.urgent && is_at_urgent_byte(from.as_fd()).map_err(|_| Failed)?;
        let scratch = pipes.scratch();
        let room = if urgent { 1 } else { scratch.len() };
        let read = match recv(from, &mut scratch[..room], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, 0)) => {
                self.ended = true;
                return Ok(());
            }
            Ok((_, read)) => read,
            Err(Errno::AGAIN) => {
                self.readable = false;
                // The pointer may be ahead of its byte. epoll tells when that has come.
                self.urgent = false;
                return Ok(());
            }
            Err(Errno::INTR) => return Ok(()),
            Err(_) => return Err(Failed),
        };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let flags = if urgent { flags | SendFlags::OOB } else { flags };
        match send(to, &scratch[..read], flags) {
            Ok(sent) => {
                recv(from, &mut scratch[..sent], RecvFlags::TRUNC | RecvFlags::DONTWAIT)
                    .map_err(|_| Failed)?;
                self.moved += sent as u64;
                self.urgent &= !urgent;
            }
            Err(Errno::AGAIN) => self.writable = false,
            Err(Errno::INTR) => {}
            Err(_) => return Err(Failed),
        }
        Ok(())
    }
}
