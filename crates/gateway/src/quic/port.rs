//! A UDP socket of a worker, and what waits for room in it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::udp::{self, Outgoing};

/// The maximum of batches that wait while the socket has no room. One for each connection that was being served is enough.
const MAX_WAITING: usize = 64;

/// The maximum of bytes in a batch: with the headers of IPv6 and UDP they are a packet of 64 KiB.
const BATCH_BYTES: usize = (1 << 16) - 1 - 48;
/// And of datagrams (`UDP_MAX_SEGMENTS`).
const MAX_SEGMENTS: usize = 64;

pub(super) struct Port {
    fd: OwnedFd,
    /// Whether the kernel cuts batches into datagrams.
    segmentation: bool,
    waiting: VecDeque<(Outgoing, Vec<u8>)>,
}

impl Port {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Port { fd, segmentation: true, waiting: VecDeque::new() }
    }

    /// Whether it has no room: what is sent now would wait.
    pub(super) fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The maximum of datagrams of so many bytes in a batch.
    pub(super) fn max_segments(&self, length: u16) -> usize {
        if self.segmentation { (BATCH_BYTES / usize::from(length)).clamp(1, MAX_SEGMENTS) } else { 1 }
    }

    /// Sends a batch, or lets it wait. What the kernel refuses is lost, as it might be on its way.
    pub(super) fn send(&mut self, headers: Outgoing, bytes: &[u8]) {
        let waits = self.is_full() || self.try_send(&headers, bytes) == Sent::Full;
        if waits && self.waiting.len() < MAX_WAITING {
            self.waiting.push_back((headers, bytes.to_vec()));
        }
    }

    /// Sends what waits. Whether all of it went.
    pub(super) fn flush(&mut self) -> bool {
        while let Some((headers, bytes)) = self.waiting.pop_front() {
            if self.try_send(&headers, &bytes) == Sent::Full {
                self.waiting.push_front((headers, bytes));
                return false;
            }
        }
        true
    }

    fn try_send(&mut self, headers: &Outgoing, bytes: &[u8]) -> Sent {
        let batch = headers.segment.filter(|segment| usize::from(*segment) < bytes.len());
        let Some(segment) = batch else {
            return self.try_send_one(&Outgoing { segment: None, ..*headers }, bytes);
        };
        let mut refused = None;
        if self.segmentation {
            match udp::send(self.fd.as_fd(), headers, bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Sent::Full,
                Err(error) if matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL)) => {
                    refused = Some(error);
                }
                Ok(()) | Err(_) => return Sent::Done,
            }
        }
        for datagram in bytes.chunks(segment.into()) {
            match self.try_send_one(&Outgoing { segment: None, ..*headers }, datagram) {
                Sent::Done => {}
                // Part of a batch that finds no room is lost, and found to be.
                Sent::Full => break,
                // The kernel refuses a batch of them as it does one that cannot be cut.
                Sent::TooLong => return Sent::Done,
            }
        }
        if let Some(error) = refused {
            // The device under the route cannot cut them, or checksum them.
            tracing::info!("sending without UDP segmentation: {error}");
            self.segmentation = false;
        }
        Sent::Done
    }

    fn try_send_one(&self, headers: &Outgoing, bytes: &[u8]) -> Sent {
        match udp::send(self.fd.as_fd(), headers, bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Full,
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => Sent::TooLong,
            _ => Sent::Done,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Done,
    Full,
    /// Longer than the route takes.
    TooLong,
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
