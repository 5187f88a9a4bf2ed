//! The bytes of a lane that wait for its socket: frames, in clear or in TLS records.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use trunkline_trunk::bonding::Places;
use trunkline_trunk::compress::{Compression, Compressor, CompressorStats};
use trunkline_trunk::frame::{MAX_ORDER_BYTES, encode_number, encode_order, encode_report};
use trunkline_trunk::{ArrivalReport, Label};

use crate::pool::{BODY_CONTENT, Block, FRONT, PacketBuf, Pool};
use crate::record::{HEADER_BYTES, RecordError, Sealer, TRAILER_BYTES};

/// The maximum number of pieces sent with one system call.
const BATCH: usize = 128;
/// The pieces that one packet may become: a head and bodies, each a record, and a key update.
const PACKET_PIECES: usize = 8;

/// A stretch of a block that waits to be sent.
struct Piece {
    block: Block,
    start: usize,
    end: usize,
}

pub(super) struct Outbox {
    sealer: Option<Sealer>,
    compressor: Compressor,
    pieces: VecDeque<Piece>,
    /// Small frames gathered for one record.
    stage: Option<(Block, usize)>,
    /// Of packets of bonded classes.
    places: Places,
    /// Bytes ever put into it: the place in the lane's stream where the last packet ends.
    position: u64,
    key_updates: u64,
}

impl Outbox {
    pub(super) fn new(sealer: Option<Sealer>, compressor: Compressor) -> Self {
        Outbox {
            sealer,
            compressor,
            pieces: VecDeque::with_capacity(BATCH),
            stage: None,
            places: Places::default(),
            position: 0,
            key_updates: 0,
        }
    }

    pub(super) fn set_compression(&mut self, compression: Compression) {
        self.compressor.set(compression);
    }

    pub(super) const fn compression(&self) -> &CompressorStats {
        self.compressor.stats()
    }

    pub(super) const fn key_updates(&self) -> u64 {
        self.key_updates
    }

    /// The place in the lane's stream where the last packet ends.
    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// Whether another packet fits into what one system call sends.
    #[inline]
    pub(super) fn has_space(&self) -> bool {
        self.pieces.len() < BATCH - PACKET_PIECES
    }

    /// Adds a report. Whether there was memory for it: without a block the next report has to do.
    pub(super) fn put_report(
        &mut self,
        report: &ArrivalReport,
        pool: &mut Pool,
    ) -> Result<bool, RecordError> {
        let frame = encode_report(report);
        let Some(block) = pool.copy(&frame) else { return Ok(false) };
        if self.sealer.is_some() {
            self.seal(block, frame.len(), pool)?;
        } else {
            self.push(block, FRONT, FRONT + frame.len());
        }
        Ok(true)
    }

    /// Adds the label of the next packet. Without memory for it the packet goes without, and may come twice or out of order.
    pub(super) fn put_label(&mut self, label: Label, pool: &mut Pool) -> Result<(), RecordError> {
        match label {
            Label::Number(number) => self.put_small(&encode_number(number), pool).map(|_| ()),
            Label::Order(order) => {
                let mut frame = [0; MAX_ORDER_BYTES];
                let len = encode_order(&mut self.places, order, &mut frame);
                if !self.put_small(&frame[..len], pool)? {
                    // The next one must not follow one that the far end does not get.
                    self.places = Places::default();
                }
                Ok(())
            }
        }
    }

    /// Adds a frame without a packet. Whether there was memory for it.
    fn put_small(&mut self, frame: &[u8], pool: &mut Pool) -> Result<bool, RecordError> {
        if self.sealer.is_some() {
            return self.stage(frame, pool).map(|()| true);
        }
        let Some(block) = pool.copy(frame) else { return Ok(false) };
        self.push(block, FRONT, FRONT + frame.len());
        Ok(true)
    }

    fn push(&mut self, block: Block, start: usize, end: usize) {
        self.position += (end - start) as u64;
        self.pieces.push_back(Piece { block, start, end });
    }

    /// Adds a packet, framed.
    #[inline]
    pub(super) fn put(&mut self, mut packet: PacketBuf, pool: &mut Pool) -> Result<(), RecordError> {
        let frame = packet.frame(&mut self.compressor);
        let bodies = packet.bodies.each_mut().map(Option::take);
        let mut rest = packet.len - packet.head_len();
        if self.sealer.is_some() {
            self.stage(&packet.head.bytes()[frame], pool)?;
            pool.give(packet.head);
            if rest > 0 {
                self.seal_stage(pool)?;
            }
        } else {
            self.push(packet.head, frame.start, frame.end);
        }
        for block in bodies.into_iter().flatten() {
            let len = rest.min(BODY_CONTENT);
            rest -= len;
            if len == 0 {
                pool.give(block);
            } else if self.sealer.is_some() {
                self.seal(block, len, pool)?;
            } else {
                self.push(block, FRONT, FRONT + len);
            }
        }
        Ok(())
    }

    /// Adds a frame, or the start of one, to the record that is being gathered.
    fn stage(&mut self, bytes: &[u8], pool: &mut Pool) -> Result<(), RecordError> {
        if self.stage.as_ref().is_some_and(|(_, len)| len + bytes.len() > BODY_CONTENT) {
            self.seal_stage(pool)?;
        }
        if self.stage.is_none() {
            // A record of what one block more than the pool's limit would hold still has to be sent.
            let block = pool.body().unwrap_or_else(|| pool.beyond_limit());
            self.stage = Some((block, 0));
        }
        if let Some((block, len)) = &mut self.stage {
            block.content_mut()[*len..*len + bytes.len()].copy_from_slice(bytes);
            *len += bytes.len();
        }
        Ok(())
    }

    /// Seals what is gathered.
    pub(super) fn seal_stage(&mut self, pool: &mut Pool) -> Result<(), RecordError> {
        match self.stage.take() {
            Some((block, len)) => self.seal(block, len, pool),
            None => Ok(()),
        }
    }

    /// Seals the first `len` bytes of a block's content in place.
    fn seal(&mut self, mut block: Block, len: usize, pool: &mut Pool) -> Result<(), RecordError> {
        let Some(sealer) = &mut self.sealer else { return Ok(()) };
        let mut carrier = None;
        if sealer.needs_update() {
            let update = sealer.update()?;
            let mut block = pool.head().unwrap_or_else(|| pool.beyond_limit());
            block.bytes_mut()[..update.len()].copy_from_slice(&update);
            self.key_updates += 1;
            carrier = Some((block, update.len()));
        }
        let (header, trailer) = sealer.seal(&mut block.content_mut()[..len])?;
        let bytes = block.bytes_mut();
        bytes[FRONT - HEADER_BYTES..FRONT].copy_from_slice(&header);
        bytes[FRONT + len..FRONT + len + TRAILER_BYTES].copy_from_slice(&trailer);
        if let Some((carrier, len)) = carrier {
            self.push(carrier, 0, len);
        }
        self.push(block, FRONT - HEADER_BYTES, FRONT + len + TRAILER_BYTES);
        Ok(())
    }

    /// Sends what waits. Returns the bytes that the socket has taken, and whether nothing is left.
    pub(super) fn send(&mut self, fd: &OwnedFd, pool: &mut Pool) -> io::Result<(u64, bool)> {
        let mut taken = 0;
        while !self.pieces.is_empty() {
            let mut slices = [IoSlice::new(&[]); BATCH];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
                *slice = IoSlice::new(&piece.block.bytes()[piece.start..piece.end]);
                count += 1;
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let mut sent = match sendmsg(fd, &slices[..count], &mut SendAncillaryBuffer::default(), flags) {
                Ok(sent) => sent,
                Err(rustix::io::Errno::AGAIN) => return Ok((taken, false)),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            taken += sent as u64;
            while sent > 0 {
                let Some(piece) = self.pieces.front_mut() else { break };
                let of_piece = sent.min(piece.end - piece.start);
                piece.start += of_piece;
                sent -= of_piece;
                if piece.start == piece.end
                    && let Some(piece) = self.pieces.pop_front()
                {
                    pool.give(piece.block);
                }
            }
        }
        Ok((taken, true))
    }

    /// The goodbye of a lane that has sent everything, if it is sealed.
    pub(super) fn close(&mut self) -> Option<impl AsRef<[u8]>> {
        let sealer = self.sealer.as_mut().filter(|_| self.pieces.is_empty())?;
        sealer.close().ok()
    }

    /// Gives the blocks back: what they held is lost.
    pub(super) fn release(self, pool: &mut Pool) {
        for piece in self.pieces {
            pool.give(piece.block);
        }
        if let Some((block, _)) = self.stage {
            pool.give(block);
        }
    }
}
