//! The TUN device: super-packets in and out, with the virtio header that says what is left to do on them.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::{readv, write, writev};
use trunkline_packet::{Headers, Offload, Segmenter, VNET_LEN};

use crate::pool::{BODIES, BODY_CONTENT, Block, HEAD_CONTENT, PacketBuf, Pool, Size};
use crate::sys::{self, TunOffloads};

/// One queue of the device, shared by the thread that reads it and the one that writes it.
#[derive(Clone)]
pub(crate) struct TunQueue {
    fd: Arc<OwnedFd>,
    offloads: TunOffloads,
}

impl TunQueue {
    /// A queue on any descriptor that keeps packets apart.
    #[cfg(test)]
    pub(crate) fn on(fd: OwnedFd) -> TunQueue {
        TunQueue { fd: Arc::new(fd), offloads: TunOffloads::default() }
    }

    /// Opens every queue of the device `name`, making the device if it is not there.
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

    /// What the kernel granted.
    pub(crate) const fn offloads(&self) -> TunOffloads {
        self.offloads
    }
}

impl AsFd for TunQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What a read from the device gave.
pub(crate) enum TunRead {
    /// A packet.
    Packet(PacketBuf),
    /// A packet that could not be used, and why; nothing is left to do.
    Dropped(ReadDrop),
    /// The device has nothing more now.
    Empty,
}

/// Why a packet read from the device was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadDrop {
    /// Its virtio header asks for something we did not offer to do.
    BadOffload,
    /// It is longer than a frame can carry.
    TooLong,
    /// The packet memory is used up.
    NoMemory,
}

/// Reads packets into blocks. It always holds the blocks of one packet of the greatest length, and after a
/// packet replaces only those that the packet used.
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
            // Out of memory: take the packet off the device all the same, or it would come again and again.
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

/// The packet of `len` bytes that was read into these blocks: a small one in a copy, a long one in these blocks, which are replaced, but for
/// its end, if that is short. `None` if there is no memory to do so.
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

/// What became of a packet written to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TunWrite {
    /// The kernel took it.
    Written,
    /// The kernel did not: the device is down, or its queue full, or it found fault with the packet.
    Refused,
}

/// Writes packets to the device, as they are where it takes super-packets and in segments where it does not.
pub(crate) struct TunWriter {
    queue: TunQueue,
    /// For software segmentation alone: the packet in one piece, and one segment.
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

    /// Whether UDP super-packets may be written.
    pub(crate) const fn takes_udp_super_packets(&self) -> bool {
        self.queue.offloads.udp
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
        // Behind a virtio header of zeroes: a plain packet with a complete checksum.
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
