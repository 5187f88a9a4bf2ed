//! The memory that packets live in on their way from the device to a lane.
//!
//! A packet is read straight into blocks of the pool and sent, encrypted in place or not, from the very same
//! blocks. A head block holds the headers and all of a packet of ordinary length, body blocks of one TLS record's content
//! each hold the rest of a super-packet. Blocks go back to the pool, so a warm gateway allocates nothing per packet.
//!
//! Whoever sends packets to a peer that is away decides their length, so a packet holds little more memory than it has bytes: a
//! small one moves to a small block, and the end of a long one to a block of its size. Copying 192 bytes costs 20 ns and 4 KiB 200 ns,
//! where reading a packet from the device costs more than a microsecond (docs/decisions/0013).

use trunkline_packet::{Headers, Offload, Version, complete_checksum, mark_ce, trim};
use trunkline_queue::Item;
use trunkline_trunk::compress::{Compressor, MAX_FRAMED, Single};
use trunkline_trunk::frame::MAX_HEAD;
use trunkline_trunk::{Packet, PacketStore};

/// Bytes before the content of a block: a TLS record header and a frame head fit.
pub(crate) const FRONT: usize = 32;
/// Bytes after the content of a block: a TLS record trailer fits.
const BACK: usize = 32;
/// Content of a head block.
pub(crate) const HEAD_CONTENT: usize = Size::Head.content();
/// Content of a body block: that of one TLS record.
pub(crate) const BODY_CONTENT: usize = Size::Body.content();
/// Body blocks that the longest packet needs beside its head.
pub(crate) const BODIES: usize = 4;
/// What an edge queue needs for a packet beside its blocks, about.
const BOOKKEEPING: usize = 256;
/// Of a pool this is left to what is being read and sent: packets that wait do not get it.
const RESERVE: usize = 2 << 20;

const _: () = assert!(HEAD_CONTENT + BODIES * BODY_CONTENT >= trunkline_trunk::frame::MAX_PACKET);
const _: () = assert!(FRONT >= MAX_HEAD + crate::record::HEADER_BYTES);
const _: () = assert!(BACK >= crate::record::TRAILER_BYTES);

/// The sizes of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// All of a small packet.
    Small,
    /// The headers and all of a packet of ordinary length, or the end of a longer one.
    Head,
    /// The end of a super-packet.
    Middle,
    /// A TLS record.
    Body,
}

impl Size {
    const ALL: [Size; 4] = [Size::Small, Size::Head, Size::Middle, Size::Body];

    /// Bytes of the whole block.
    const fn bytes(self) -> usize {
        match self {
            Size::Small => 256,
            Size::Head => 2048,
            Size::Middle => 4096,
            Size::Body => (1 << 14) + FRONT + BACK,
        }
    }

    /// Bytes between the room before and the room behind.
    pub(crate) const fn content(self) -> usize {
        self.bytes() - FRONT - BACK
    }

    /// What a block of this size counts for: a packet has one head.
    const fn cost(self) -> usize {
        match self {
            Size::Small | Size::Head => self.bytes() + BOOKKEEPING,
            Size::Middle | Size::Body => self.bytes(),
        }
    }

    /// The smallest one for so much content.
    pub(crate) fn fitting(content: usize) -> Size {
        Size::ALL.into_iter().find(|size| size.content() >= content).unwrap_or(Size::Body)
    }
}

/// A stretch of memory of one of the sizes.
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

    const fn size(&self) -> Size {
        // The most frequent first.
        let len = self.0.len();
        if len == Size::Head.bytes() {
            Size::Head
        } else if len == Size::Body.bytes() {
            Size::Body
        } else if len == Size::Small.bytes() {
            Size::Small
        } else {
            Size::Middle
        }
    }
}

/// Free blocks, and how much memory there may be in all.
pub(crate) struct Pool {
    /// By [`Size`].
    free: [Vec<Block>; Size::ALL.len()],
    allocated_bytes: usize,
    /// What the blocks that are not free count for.
    used_bytes: usize,
    limit_bytes: usize,
    reserve_bytes: usize,
}

impl Pool {
    /// An empty pool that allocates as it must, up to `limit_bytes`.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Pool {
            free: Default::default(),
            allocated_bytes: 0,
            used_bytes: 0,
            limit_bytes,
            reserve_bytes: RESERVE.min(limit_bytes / 8),
        }
    }

    #[inline]
    fn take(&mut self, size: Size) -> Option<Block> {
        let block = match self.free[size as usize].pop() {
            Some(block) => block,
            None => self.allocate(size)?,
        };
        self.used_bytes += size.cost();
        Some(block)
    }

    /// A new block. At the limit free blocks of other sizes give way, lest a burst of small packets leave no room for long ones.
    #[cold]
    fn allocate(&mut self, size: Size) -> Option<Block> {
        while self.allocated_bytes + size.bytes() > self.limit_bytes {
            let most =
                Size::ALL.into_iter().max_by_key(|size| size.bytes() * self.free[*size as usize].len())?;
            self.free[most as usize].pop()?;
            self.allocated_bytes -= most.bytes();
        }
        self.allocated_bytes += size.bytes();
        Some(Block(vec![0; size.bytes()].into_boxed_slice()))
    }

    /// A head block; `None` if the pool is at its limit.
    #[inline]
    pub(crate) fn head(&mut self) -> Option<Block> {
        self.take(Size::Head)
    }

    /// A body block; `None` if the pool is at its limit.
    #[inline]
    pub(crate) fn body(&mut self) -> Option<Block> {
        self.take(Size::Body)
    }

    /// A block with a copy of `content`, of the smallest size that holds it; `None` if the pool is at its limit.
    #[inline]
    pub(crate) fn copy(&mut self, content: &[u8]) -> Option<Block> {
        let mut block = self.take(Size::fitting(content.len()))?;
        block.content_mut()[..content.len()].copy_from_slice(content);
        Some(block)
    }

    /// A body block although the pool is at its limit, for what must be sent to make room again.
    #[cold]
    pub(crate) fn beyond_limit(&mut self) -> Block {
        self.allocated_bytes += Size::Body.bytes();
        self.used_bytes += Size::Body.cost();
        Block(vec![0; Size::Body.bytes()].into_boxed_slice())
    }

    /// Takes a block back.
    #[inline]
    pub(crate) fn give(&mut self, block: Block) {
        let size = block.size();
        debug_assert_eq!(block.0.len(), size.bytes(), "the block is not the pool's");
        self.used_bytes -= size.cost();
        if self.allocated_bytes > self.limit_bytes {
            self.allocated_bytes -= size.bytes();
            return;
        }
        self.free[size as usize].push(block);
    }

    /// Takes a packet's blocks back.
    #[inline]
    pub(crate) fn release(&mut self, packet: PacketBuf) {
        self.give(packet.head);
        for body in packet.bodies.into_iter().flatten() {
            self.give(body);
        }
    }

    /// How far packets that wait hold what is reserved for those that are read and sent, bytes.
    #[inline]
    pub(crate) const fn shortage_bytes(&self) -> usize {
        (self.used_bytes + self.reserve_bytes).saturating_sub(self.limit_bytes)
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

    /// What of the packet is behind the head block, in order.
    pub(crate) fn body_parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.len - self.head_len();
        self.bodies.iter().flatten().map(move |block| {
            let len = rest.min(BODY_CONTENT);
            rest -= len;
            &block.bytes()[FRONT..FRONT + len]
        })
    }

    /// Calls `each` with the parts of a stretch of the packet, in order.
    pub(crate) fn for_parts<'a>(&'a self, stretch: std::ops::Range<usize>, mut each: impl FnMut(&'a [u8])) {
        let mut at = 0;
        for part in std::iter::once(self.prefix()).chain(self.body_parts()) {
            let (start, end) = (stretch.start.max(at), stretch.end.min(at + part.len()));
            if start < end {
                each(&part[start - at..end - at]);
            }
            at += part.len();
        }
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

/// The memory of the packets that the edge has and drops.
impl PacketStore<PacketBuf> for &mut Pool {
    fn copy(&mut self, packet: &PacketBuf) -> Option<PacketBuf> {
        let head = Pool::copy(self, packet.prefix())?;
        let mut copy = PacketBuf::new(head, Default::default(), packet.len, packet.offload);
        let parts = packet.body_parts().filter(|part| !part.is_empty());
        for (body, part) in copy.bodies.iter_mut().zip(parts) {
            *body = Pool::copy(self, part);
            if body.is_none() {
                Pool::release(self, copy);
                return None;
            }
        }
        Some(copy)
    }

    fn release(&mut self, packet: PacketBuf) {
        Pool::release(self, packet);
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

    fn memory_bytes(&self) -> usize {
        let bodies = self.bodies.iter().flatten().map(|block| block.size().cost());
        self.head.size().cost() + bodies.sum::<usize>()
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

    #[test]
    fn free_blocks_of_one_size_give_way_to_those_of_another() {
        let mut pool = Pool::new(100 * Size::Body.bytes());
        let small: Vec<Block> = std::iter::from_fn(|| pool.copy(&[7; 29])).collect();
        assert!(small.len() >= 99 * Size::Body.bytes() / Size::Small.bytes());
        assert!(pool.body().is_none() && pool.head().is_none());
        for block in small {
            pool.give(block);
        }
        let bodies: Vec<Block> = std::iter::from_fn(|| pool.body()).collect();
        assert_eq!(bodies.len(), 100);
        assert!(pool.allocated_bytes() <= 100 * Size::Body.bytes());
    }

    #[test]
    fn a_pool_above_its_limit_returns_to_it() {
        let mut pool = Pool::new(Size::Body.bytes());
        let blocks = [pool.body().expect("below the limit"), pool.beyond_limit()];
        assert!(
            pool.allocated_bytes() == 2 * Size::Body.bytes() && pool.shortage_bytes() > Size::Body.bytes()
        );
        for block in blocks {
            pool.give(block);
        }
        assert_eq!(pool.allocated_bytes(), Size::Body.bytes());
        assert_eq!(pool.shortage_bytes(), 0);
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
    fn a_stretch_of_a_packet_is_in_the_parts_that_it_touches() {
        let mut pool = Pool::new(1 << 20);
        let bytes: Vec<u8> = (0..HEAD_CONTENT + BODY_CONTENT + 100).map(|at| (at % 251) as u8).collect();
        let mut head = pool.head().expect("memory");
        head.content_mut().copy_from_slice(&bytes[..HEAD_CONTENT]);
        let mut body = pool.body().expect("memory");
        body.content_mut().copy_from_slice(&bytes[HEAD_CONTENT..HEAD_CONTENT + BODY_CONTENT]);
        let last = pool.copy(&bytes[HEAD_CONTENT + BODY_CONTENT..]).expect("memory");
        let packet = PacketBuf::new(head, [Some(body), Some(last), None, None], bytes.len(), Offload::None);
        let border = HEAD_CONTENT + BODY_CONTENT;
        for (stretch, parts) in [
            (0..10, 1),
            (HEAD_CONTENT - 1..HEAD_CONTENT, 1),
            (HEAD_CONTENT..HEAD_CONTENT + 5, 1),
            (HEAD_CONTENT - 5..HEAD_CONTENT + 5, 2),
            (0..bytes.len(), 3),
            (border..bytes.len(), 1),
            (7..7, 0),
        ] {
            let (mut got, mut count) = (Vec::new(), 0);
            packet.for_parts(stretch.clone(), |part| {
                got.extend_from_slice(part);
                count += 1;
            });
            assert_eq!((&got[..], count), (&bytes[stretch], parts));
        }
    }

    #[test]
    fn blocks_go_back_to_the_list_of_their_size() {
        let mut pool = Pool::new(1 << 20);
        let (mut head, mut body) = (pool.head().expect("memory"), pool.body().expect("memory"));
        assert_eq!(head.content_mut().len(), HEAD_CONTENT);
        assert_eq!(body.content_mut().len(), BODY_CONTENT);
        pool.give(head);
        pool.give(body);
        assert_eq!(pool.free.each_ref().map(Vec::len), [0, 1, 0, 1]);
        assert_eq!(pool.used_bytes, 0);
    }
}
