//! Packets into streams.

use bytes::Bytes;
use trunkline_packet::Headers;
use trunkline_trunk::Packet as _;
use trunkline_trunk::compress::{Compression, Compressor};
use trunkline_trunk::streams::Framing;
use trunkline_units::Instant;

use super::super::link::Link;
use crate::lane::LaneError;
use crate::pool::{PacketBuf, Pool};

/// Frames packets into the streams of a lane. The library keeps what it is handed over until all of a piece is acknowledged.
pub(super) struct Streams {
    framing: Framing,
    /// What the connection did not take, in order.
    left: Vec<(u16, Bytes)>,
    compressor: Compressor,
}

impl Streams {
    pub(super) fn new(seed: u64) -> Self {
        Streams {
            framing: Framing::new(seed),
            left: Vec::new(),
            compressor: Compressor::new(Compression::Off, 0),
        }
    }

    /// Hands over what was left. Whether the connection takes more.
    pub(super) fn prepare(&mut self, link: &mut Link) -> Result<bool, LaneError> {
        let left = std::mem::take(&mut self.left);
        write(&mut self.left, link, left.into_iter())?;
        self.framing.grow(link.open_streams());
        Ok(self.left.is_empty() && self.framing.streams() > 0)
    }

    /// Bytes that wait to be handed over.
    pub(super) const fn len(&self) -> usize {
        self.framing.len()
    }

    /// Frames a packet, super-packets whole. How many frames it has become.
    pub(super) fn put(&mut self, now: Instant, mut packet: PacketBuf, link: &Link, pool: &mut Pool) -> u64 {
        // Both were checked: the packet when it was read, the streams before it was taken.
        let is_put = Headers::parse(packet.prefix(), packet.len).is_ok_and(|headers| {
            let delivered = link.acknowledged().unwrap_or_default();
            self.framing.put(now, &headers.flow(), delivered, |piece| {
                let frame = packet.frame(&mut self.compressor);
                piece.reserve(frame.len() + packet.len - packet.head_len());
                piece.extend_from_slice(&packet.head.bytes()[frame]);
                packet.body_parts().for_each(|part| piece.extend_from_slice(part));
            })
        });
        pool.release(packet);
        u64::from(is_put)
    }

    /// Hands over what waits. How many bytes it was.
    pub(super) fn hand_over(&mut self, link: &mut Link) -> Result<usize, LaneError> {
        let len = self.framing.len();
        link.signals.set_handed_over(self.framing.position() + len as u64);
        let pieces = self.framing.take();
        write(&mut self.left, link, pieces.map(|(stream, bytes)| (stream, Bytes::from(bytes))))?;
        Ok(len)
    }
}

/// Writes pieces to their streams, each stream's in order. What is left goes to `left`: a stream that takes no more does not
/// stop the others.
fn write(
    left: &mut Vec<(u16, Bytes)>,
    link: &mut Link,
    pieces: impl Iterator<Item = (u16, Bytes)>,
) -> Result<(), LaneError> {
    for (stream, mut bytes) in pieces {
        if left.iter().all(|(other, _)| *other != stream) {
            link.write(stream, &mut bytes)?;
        }
        if !bytes.is_empty() {
            left.push((stream, bytes));
        }
    }
    Ok(())
}
