//! Packets into streams.

use bytes::Bytes;
use trunkline_packet::Headers;
use trunkline_trunk::Packet as _;
use trunkline_trunk::compress::{Compression, Compressor};
use trunkline_trunk::streams::{Lending, MAX_STREAMS};
use trunkline_units::Instant;

use super::super::link::Link;
use crate::lane_tx::LaneError;
use crate::pool::{PacketBuf, Pool};

/// Frames packets into the streams of a lane. What goes to one stream at one time is one piece of memory, which the library
/// keeps until all of it is acknowledged.
pub(super) struct Streams {
    lending: Lending,
    /// What waits to be handed over, for each stream.
    pieces: Vec<Vec<u8>>,
    /// The streams for which something waits, in the order in which it came.
    order: Vec<u16>,
    len: usize,
    /// What the connection did not take, in order.
    left: Vec<(u16, Bytes)>,
    /// Handed over so far, bytes.
    position: u64,
    compressor: Compressor,
}

impl Streams {
    pub(super) fn new(seed: u64) -> Self {
        Streams {
            lending: Lending::new(seed),
            pieces: vec![Vec::new(); MAX_STREAMS],
            order: Vec::new(),
            len: 0,
            left: Vec::new(),
            position: 0,
            compressor: Compressor::new(Compression::Off, 0),
        }
    }

    /// Hands over what was left. Whether the connection takes more.
    pub(super) fn prepare(&mut self, link: &mut Link) -> Result<bool, LaneError> {
        let left = std::mem::take(&mut self.left);
        self.write(link, left.into_iter())?;
        self.lending.grow(link.open_streams());
        Ok(self.left.is_empty() && self.lending.streams() > 0)
    }

    /// Writes pieces to their streams, each stream's in order. One that takes no more does not stop the others.
    fn write(
        &mut self,
        link: &mut Link,
        pieces: impl Iterator<Item = (u16, Bytes)>,
    ) -> Result<(), LaneError> {
        for (stream, mut bytes) in pieces {
            if self.left.iter().all(|(other, _)| *other != stream) {
                link.write(stream, &mut bytes)?;
            }
            if !bytes.is_empty() {
                self.left.push((stream, bytes));
            }
        }
        Ok(())
    }

    /// Bytes that wait to be handed over.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Frames a packet, super-packets whole. How many frames it has become.
    pub(super) fn put(&mut self, now: Instant, mut packet: PacketBuf, link: &Link, pool: &mut Pool) -> u64 {
        // Both were checked: the packet when it was read, the streams before it was taken.
        let stream = Headers::parse(packet.prefix(), packet.len).ok().and_then(|headers| {
            let delivered = link.acknowledged().unwrap_or_default();
            self.lending.lend(now, &headers.flow(), self.position, delivered)
        });
        let Some(stream) = stream else {
            pool.release(packet);
            return 0;
        };
        let piece = &mut self.pieces[usize::from(stream)];
        if piece.is_empty() {
            self.order.push(stream);
        }
        let frame = packet.frame(&mut self.compressor);
        let before = piece.len();
        piece.reserve(frame.len() + packet.len - packet.head_len());
        piece.extend_from_slice(&packet.head.bytes()[frame]);
        packet.body_parts().for_each(|part| piece.extend_from_slice(part));
        self.len += piece.len() - before;
        pool.release(packet);
        1
    }

    /// Hands over what waits. How many bytes it was.
    pub(super) fn hand_over(&mut self, link: &mut Link) -> Result<usize, LaneError> {
        self.position += self.len as u64;
        link.signals.set_handed_over(self.position);
        let order = std::mem::take(&mut self.order);
        let mut all = std::mem::take(&mut self.pieces);
        let pieces =
            order.iter().map(|stream| (*stream, Bytes::from(std::mem::take(&mut all[usize::from(*stream)]))));
        self.write(link, pieces)?;
        self.pieces = all;
        self.order = order;
        self.order.clear();
        Ok(std::mem::take(&mut self.len))
    }
}
