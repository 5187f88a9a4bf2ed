//! Pipes, in which data is on its way between two sockets without being copied.
//!
//! A connection has a pipe only while data is in it, so idle connections cost none, and what all of them may hold is bounded. Without a
//! pipe data is copied, from the buffer of one socket into that of the other: connections whose data nobody takes can keep all pipes, and
//! cost the others time, but do not stop them.

use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// Bytes that a pipe may hold. The kernel counts pages, and a segment takes one or more of them.
pub(crate) const PIPE_BYTES: usize = 256 << 10;
/// Bytes that are copied at a time.
const SCRATCH_BYTES: usize = 64 << 10;
/// Empty pipes that are kept for the next.
const MAX_SPARE: usize = 16;

/// A pipe.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) read: OwnedFd,
    pub(crate) write: OwnedFd,
}

/// The pipes of a worker.
#[derive(Debug)]
pub(crate) struct Pipes {
    spare: Vec<Pipe>,
    lent: usize,
    limit: usize,
    scratch: Vec<u8>,
}

impl Pipes {
    /// Up to `limit` pipes at a time.
    pub(crate) fn new(limit: usize) -> Self {
        Pipes { spare: Vec::new(), lent: 0, limit, scratch: vec![0; SCRATCH_BYTES] }
    }

    /// Room for bytes that are copied.
    pub(crate) fn scratch(&mut self) -> &mut [u8] {
        &mut self.scratch
    }

    /// An empty pipe, unless too many are lent, or the process has no descriptors left.
    pub(crate) fn lend(&mut self) -> Option<Pipe> {
        if self.lent >= self.limit {
            return None;
        }
        let pipe = self.spare.pop().or_else(make)?;
        self.lent += 1;
        Some(pipe)
    }

    /// Takes back a pipe that is empty.
    pub(crate) fn take_back(&mut self, pipe: Pipe) {
        self.lent -= 1;
        if self.spare.len() < MAX_SPARE {
            self.spare.push(pipe);
        }
    }

    /// A pipe was dropped with what was in it.
    pub(crate) fn lost(&mut self) {
        self.lent -= 1;
    }

    /// Pipes with data in them.
    #[cfg(test)]
    pub(crate) fn lent(&self) -> usize {
        self.lent
    }
}

fn make() -> Option<Pipe> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
    // A user without privileges may have fewer large ones: then it keeps the kernel's size.
    let _ = fcntl_setpipe_size(&write, PIPE_BYTES);
    Some(Pipe { read, write })
}
