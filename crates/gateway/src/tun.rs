//! The TUN device: reads and writes super-packets, with the virtio header that describes their offloads.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::{readv, write, writev};
use trunkline_packet::{Headers, Offload, Segmenter, VNET_LEN, protocol};

use crate::pool::{BODIES, BODY_CONTENT, Block, HEAD_CONTENT, PacketBuf, Pool, Size};
use crate::sys::{self, TunOffloads};

/// One queue of the device, shared by its reader and its writer.
#[derive(Clone)]
pub(crate) struct TunQueue {
    fd: Arc<OwnedFd>,
    offloads: TunOffloads,
}

impl TunQueue {
    /// A queue on any descriptor that preserves packet boundaries.
    #[cfg(test)]
    pub(crate) fn on(fd: OwnedFd) -> TunQueue {
        TunQueue { fd: Arc::new(fd), offloads: TunOffloads::default() }
    }

    /// Opens all queues of the device `name`, and creates the device if it does not exist.
    pub(crate) fn open(name: &str, queues: u16, offloads: bool) -> io::Result<Vec<TunQueue>> {
        let wanted = TunOffloads { checksum: offloads, tcp: offloads, udp: offloads };
        (0..queues)
            .map(|_| {
                let fd = sys::open_tun_queue(name, queues > 1)?;
                let offloads = sys::set_tun_offloads(fd.as_fd(), wanted);
                Ok(TunQueue { fd: Arc::new(fd), offloads })
            })
            .collect()
    }

    /// The offloads that the kernel granted.
    pub(crate) const fn offloads(&self) -> TunOffloads {
        self.offloads
    }
}

impl AsFd for TunQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The result of a read from the device.
pub(crate) enum TunRead {
    /// A packet.
    Packet(PacketBuf),
    /// A packet that was dropped, with the reason.
    Dropped(ReadDrop),
    /// The device has no packet now.
    Empty,
}

/// Why a packet read from the device was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadDrop {
    /// Its virtio header requests an offload that the gateway did not offer.
    BadOffload,
    /// It is longer than a frame can carry.
    TooLong,
    /// The packet memory is used up.
    NoMemory,
}

/// Reads packets into blocks. It always holds the blocks for one packet of maximum length, and replaces only those that a
/// packet used.
pub(crate) struct TunReader {
    queue: TunQueue,
    spare: Option<(Block, [Block; BODIES])>,
}

impl TunReader {
    pub(crate) fn new(queue: TunQueue, pool: &mut Pool) -> Self {
        let mut reader = TunReader { queue, spare: None };
        reader.refill(pool);
        reader
    }

    /// Reads from another queue from now on.
    pub(crate) fn set_queue(&mut self, queue: TunQueue) {
        self.queue = queue;
    }

    fn refill(&mut self, pool: &mut Pool) {
        let mut bodies = [pool.body(), pool.body(), pool.body(), pool.body()];
        if let (Some(head), [Some(_), Some(_), Some(_), Some(_)]) = (pool.head(), &bodies) {
            self.spare = Some((head, bodies.each_mut().map(|b| b.take().expect("matched above"))));
        } else {
            bodies.into_iter().flatten().for_each(|block| pool.give(block));
        }
    }

    /// Reads one packet without waiting.
    pub(crate) fn read(&mut self, pool: &mut Pool) -> io::Result<TunRead> {
        if self.spare.is_none() {
            self.refill(pool);
        }
        let Some((head, bodies)) = &mut self.spare else {
            // Out of memory: read and drop the packet, since the device would stay readable otherwise.
            let mut scrap = [0; 64];
            return match rustix::io::read(&self.queue, &mut scrap) {
                Ok(_) => Ok(TunRead::Dropped(ReadDrop::NoMemory)),
                Err(rustix::io::Errno::AGAIN) => Ok(TunRead::Empty),
                Err(error) => Err(error.into()),
            };
        };
        let mut vnet = [0; VNET_LEN];
        let [b0, b1, b2, b3] = bodies;
        let mut slices = [
            IoSliceMut::new(&mut vnet),
            IoSliceMut::new(head.content_mut()),
            IoSliceMut::new(b0.content_mut()),
            IoSliceMut::new(b1.content_mut()),
            IoSliceMut::new(b2.content_mut()),
            IoSliceMut::new(b3.content_mut()),
        ];
        let len = match readv(&self.queue, &mut slices) {
            Ok(len) => len.saturating_sub(VNET_LEN),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(TunRead::Empty),
            Err(error) => return Err(error.into()),
        };
        if len > trunkline_trunk::frame::MAX_PACKET {
            return Ok(TunRead::Dropped(ReadDrop::TooLong));
        }
        let Ok(offload) = Offload::from_vnet(&vnet) else {
            return Ok(TunRead::Dropped(ReadDrop::BadOffload));
        };
        Ok(match take_packet(pool, (head, bodies), len, offload) {
            Some(packet) => TunRead::Packet(packet),
            None => TunRead::Dropped(ReadDrop::NoMemory),
        })
    }
}

/// The packet of `len` bytes in these blocks. It copies a small packet, and a short end of a long one, into blocks of their
/// size. A long packet takes these blocks, and new ones replace them. `None` if the pool has no memory.
#[inline]
fn take_packet(
    pool: &mut Pool,
    (head, bodies): (&mut Block, &mut [Block; BODIES]),
    len: usize,
    offload: Offload,
) -> Option<PacketBuf> {
    const NO_BODIES: [Option<Block>; BODIES] = [None, None, None, None];
    if len <= Size::Small.content() {
        let copy = pool.copy(&head.content_mut()[..len])?;
        return Some(PacketBuf::new(copy, NO_BODIES, len, offload));
    }
    let fresh_head = pool.head()?;
    let mut packet = PacketBuf::new(std::mem::replace(head, fresh_head), NO_BODIES, len, offload);
    let mut rest = len.saturating_sub(HEAD_CONTENT);
    for (index, body) in bodies.iter_mut().enumerate() {
        if rest == 0 {
            break;
        }
        let taken = if rest <= Size::Middle.content() {
            pool.copy(&body.content_mut()[..rest])
        } else {
            pool.body().map(|fresh| std::mem::replace(body, fresh))
        };
        let Some(taken) = taken else {
            pool.release(packet);
            return None;
        };
        packet.bodies[index] = Some(taken);
        rest = rest.saturating_sub(BODY_CONTENT);
    }
    Some(packet)
}

/// The result of a write to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TunWrite {
    /// The kernel accepted the packet.
    Written,
    /// The kernel refused the packet: the device is down, its queue is full, or the packet is invalid.
    Refused,
}

/// Writes packets to the device: super-packets if the device has the offload, otherwise segments.
pub(crate) struct TunWriter {
    queue: TunQueue,
    /// Buffers for software segmentation: the whole packet, and one segment.
    whole: Vec<u8>,
    segment: Vec<u8>,
}

impl TunWriter {
    pub(crate) fn new(queue: TunQueue) -> Self {
        TunWriter { queue, whole: Vec::new(), segment: Vec::new() }
    }

    /// Writes to another queue from now on.
    pub(crate) fn set_queue(&mut self, queue: TunQueue) {
        self.queue = queue;
    }

    /// Whether super-packets of this transport protocol may be written.
    pub(crate) const fn takes_super_packets(&self, protocol: u8) -> bool {
        match protocol {
            protocol::TCP => self.queue.offloads.tcp,
            protocol::UDP => self.queue.offloads.udp,
            _ => false,
        }
    }

    fn takes(&self, offload: Offload) -> bool {
        match offload {
            Offload::None => true,
            Offload::Checksum { .. } => self.queue.offloads.checksum,
            Offload::Segments(s) if s.kind == trunkline_packet::SegmentKind::Udp => self.queue.offloads.udp,
            Offload::Segments(_) => self.queue.offloads.tcp,
        }
    }

    /// Writes a packet. `slices[0]` is its virtio header (of `offload`); the packet's bytes follow in order.
    #[inline]
    pub(crate) fn write(&mut self, slices: &[IoSlice<'_>], headers: &Headers, offload: Offload) -> TunWrite {
        if !self.takes(offload) {
            return self.write_segments(slices, headers, offload);
        }
        match writev(&self.queue, slices) {
            Ok(_) => TunWrite::Written,
            Err(_) => TunWrite::Refused,
        }
    }

    #[cold]
    fn write_segments(&mut self, slices: &[IoSlice<'_>], headers: &Headers, offload: Offload) -> TunWrite {
        self.whole.clear();
        slices[1..].iter().for_each(|slice| self.whole.extend_from_slice(slice));
        // A virtio header of zeroes: a packet without offloads, with a complete checksum.
        self.segment.resize(VNET_LEN + trunkline_trunk::frame::MAX_PACKET, 0);
        self.segment[..VNET_LEN].fill(0);
        let Ok(mut segmenter) = Segmenter::new(&self.whole, headers, offload) else {
            return TunWrite::Refused;
        };
        let mut outcome = TunWrite::Refused;
        while let Some(len) = segmenter.next_into(&mut self.segment[VNET_LEN..]) {
            outcome = match write(&self.queue, &self.segment[..VNET_LEN + len]) {
                Ok(_) => TunWrite::Written,
                Err(_) => return TunWrite::Refused,
            };
        }
        outcome
    }
}

#[cfg(test)]
mod tests;
