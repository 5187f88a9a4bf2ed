//! The memory that packets live in on their way from the device to a lane.
//!
//! A packet is read straight into blocks of the pool and sent, encrypted in place or not, from the very same
//! blocks. Two sizes keep a backlog of small packets small: a head block holds the headers and all of a small
//! packet, body blocks of one TLS record's content each hold the rest of a super-packet. Blocks go back to the
//! pool, so a warm gateway allocates nothing per packet.

use trunkline_packet::{Headers, Offload, Version, complete_checksum, mark_ce, trim};
use trunkline_queue::Item;
use trunkline_trunk::Packet;
use trunkline_trunk::compress::{Compressor, MAX_FRAMED, Single};
use trunkline_trunk::frame::MAX_HEAD;

/// Bytes before the content of a block: a TLS record header and a frame head fit.
pub(crate) const FRONT: usize = 32;
/// Bytes after the content of a block: a TLS record trailer fits.
const BACK: usize = 32;
/// Content of a head block.
pub(crate) const HEAD_CONTENT: usize = 2048 - FRONT - BACK;
/// Content of a body block: that of one TLS record.
pub(crate) const BODY_CONTENT: usize = 1 << 14;
/// Body blocks that the longest packet needs beside its head.
pub(crate) const BODIES: usize = 4;

const _: () = assert!(HEAD_CONTENT + BODIES * BODY_CONTENT >= trunkline_trunk::frame::MAX_PACKET);
const _: () = assert!(FRONT >= MAX_HEAD + crate::record::HEADER_BYTES);
const _: () = assert!(BACK >= crate::record::TRAILER_BYTES);

/// A stretch of memory of one of the two sizes.
#[derive(Debug)]
pub(crate) struct Block(Box<[u8]>);

impl Block {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Where content of up to the block's content size goes.
    pub(crate) fn content_mut(&mut self) -> &mut [u8] {
        let end = self.0.len() - BACK;
        &mut self.0[FRONT..end]
    }
}

/// Free blocks, and how much memory there may be in all.
pub(crate) struct Pool {
    heads: Vec<Block>,
    bodies: Vec<Block>,
    allocated_bytes: usize,
    limit_bytes: usize,
}

impl Pool {
    /// An empty pool that allocates as it must, up to `limit_bytes`.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Pool { heads: Vec::new(), bodies: Vec::new(), allocated_bytes: 0, limit_bytes }
    }

    fn allocate(&mut self, content: usize) -> Option<Block> {
        let size = content + FRONT + BACK;
        if self.allocated_bytes + size > self.limit_bytes {
            return None;
        }
        self.allocated_bytes += size;
        Some(Block(vec![0; size].into_boxed_slice()))
    }

    /// A head block; `None` if the pool is at its limit.
    #[inline]
    pub(crate) fn head(&mut self) -> Option<Block> {
        self.heads.pop().or_else(|| self.allocate(HEAD_CONTENT))
    }

    /// A body block; `None` if the pool is at its limit.
    #[inline]
    pub(crate) fn body(&mut self) -> Option<Block> {
        self.bodies.pop().or_else(|| self.allocate(BODY_CONTENT))
    }

    /// A body block although the pool is at its limit, for what must be sent to make room again.
    #[cold]
    pub(crate) fn beyond_limit(&mut self) -> Block {
        self.allocated_bytes += BODY_CONTENT + FRONT + BACK;
        Block(vec![0; BODY_CONTENT + FRONT + BACK].into_boxed_slice())
    }

    /// Takes a block back.
    #[inline]
    pub(crate) fn give(&mut self, block: Block) {
        match block.0.len() - FRONT - BACK {
            HEAD_CONTENT => self.heads.push(block),
            BODY_CONTENT => self.bodies.push(block),
            other => debug_assert!(false, "a block of {other} bytes is not the pool's"),
        }
    }

    /// Takes a packet's blocks back.
    #[inline]
    pub(crate) fn release(&mut self, packet: PacketBuf) {
        self.give(packet.head);
        for body in packet.bodies.into_iter().flatten() {
            self.give(body);
        }
    }

    /// Memory that the pool has taken so far.
    pub(crate) const fn allocated_bytes(&self) -> usize {
        self.allocated_bytes
    }
}

/// A packet in blocks: the first [`HEAD_CONTENT`] bytes in `head`, the rest in `bodies`, each filled in turn.
#[derive(Debug)]
pub(crate) struct PacketBuf {
    pub(crate) head: Block,
    pub(crate) bodies: [Option<Block>; BODIES],
    pub(crate) len: usize,
    pub(crate) offload: Offload,
    segments: u32,
}

impl PacketBuf {
    pub(crate) fn new(head: Block, bodies: [Option<Block>; BODIES], len: usize, offload: Offload) -> Self {
        PacketBuf { head, bodies, len, offload, segments: offload.segments(len).max(1) }
    }

    /// Sets what is left to do on the packet.
    #[inline]
    pub(crate) fn set_offload(&mut self, offload: Offload) {
        self.offload = offload;
        self.segments = offload.segments(self.len).max(1);
    }

    /// Computes a checksum that was left open, if the packet lies in one piece and asks for no more than that.
    #[cold]
    pub(crate) fn close_checksum(&mut self) -> bool {
        let (len, offload) = (self.len, self.offload);
        matches!(offload, Offload::Checksum { .. })
            && len <= HEAD_CONTENT
            && complete_checksum(&mut self.head.0[FRONT..FRONT + len], offload).is_ok()
    }

    /// Bytes of the packet in the head block.
    pub(crate) fn head_len(&self) -> usize {
        self.len.min(HEAD_CONTENT)
    }

    /// Writes what the lane has to say before the packet, in place of what it leaves out of it, and gives the range
    /// of the head block to send.
    #[inline]
    pub(crate) fn frame(&mut self, compressor: &mut Compressor) -> std::ops::Range<usize> {
        let end = FRONT + self.head_len();
        let head = &self.head.0[FRONT..end];
        let mut room = [0; MAX_FRAMED];
        let single = Single { head, len: self.len, offload: self.offload };
        let framed = compressor.frame(&single, &mut room);
        let payload = FRONT + framed.replaced;
        let start = payload - framed.len;
        self.head.0[start..payload].copy_from_slice(&room[..framed.len]);
        start..end
    }
}

impl Item for PacketBuf {
    fn bytes(&self) -> usize {
        self.len
    }

    fn segments(&self) -> u32 {
        self.segments
    }

    #[cold]
    fn mark(&mut self) {
        let len = self.head_len();
        let head = &mut self.head.0[FRONT..FRONT + len];
        let version = if head.first().is_some_and(|byte| byte >> 4 == 4) { Version::V4 } else { Version::V6 };
        mark_ce(head, version);
    }

    #[cold]
    fn trim(&mut self, keep: u32) {
        let head_len = self.head_len();
        let head = &mut self.head.0[FRONT..FRONT + head_len];
        let (Offload::Segments(segmentation), Ok(headers)) = (self.offload, Headers::parse(head, self.len))
        else {
            return;
        };
        let trimmed = trim(head, &headers, segmentation, keep);
        self.len = trimmed.len;
        self.offload = trimmed.offload;
        self.segments = keep;
    }
}

impl Packet for PacketBuf {
    fn prefix(&self) -> &[u8] {
        &self.head.0[FRONT..FRONT + self.head_len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_stops_at_its_limit_and_goes_on_when_blocks_come_back() {
        let mut pool = Pool::new(2 * (HEAD_CONTENT + FRONT + BACK));
        let first = pool.head().expect("below the limit");
        let _second = pool.head().expect("at the limit");
        assert!(pool.head().is_none());
        assert!(pool.body().is_none());
        pool.give(first);
        assert!(pool.head().is_some());
        assert_eq!(pool.allocated_bytes(), 4096);
    }

    /// A checksum left open inside a tunnel's payload, as a VXLAN device leaves it.
    #[test]
    fn an_open_checksum_deep_in_a_packet_is_closed() {
        use trunkline_packet::{build, checksum};
        let inner = build::udp(&build::Ip::v4(), (7, 8), b"inner");
        let mut outer = build::udp(&build::Ip::v4(), (9, 4789), &inner);
        let start = outer.len() - inner.len() + 20;
        let closed = outer.clone();
        let partial = checksum::fold(checksum::pseudo_header(
            build::Ip::v4().source,
            build::Ip::v4().destination,
            17,
            (inner.len() - 20) as u32,
        ));
        outer[start + 6..start + 8].copy_from_slice(&partial.to_be_bytes());
        let mut pool = Pool::new(1 << 20);
        let mut head = pool.head().expect("memory");
        head.content_mut()[..outer.len()].copy_from_slice(&outer);
        let offload = Offload::Checksum { start: start as u16, offset: 6 };
        let mut packet = PacketBuf::new(head, [None, None, None, None], outer.len(), offload);
        assert!(packet.close_checksum());
        assert_eq!(&packet.head.bytes()[FRONT..FRONT + outer.len()], closed);
    }

    #[test]
    fn blocks_go_back_to_the_list_of_their_size() {
        let mut pool = Pool::new(1 << 20);
        let (mut head, mut body) = (pool.head().expect("memory"), pool.body().expect("memory"));
        assert_eq!(head.content_mut().len(), HEAD_CONTENT);
        assert_eq!(body.content_mut().len(), BODY_CONTENT);
        pool.give(head);
        pool.give(body);
        assert_eq!((pool.heads.len(), pool.bodies.len()), (1, 1));
    }
}
