//! The streams of a connection whose lane delivers everything ([`Delivery::Reliable`](trunkline_trunk::Delivery)).
//!
//! Each end opens up to 256 streams to the other and never ends one. The connection's receive window bounds what waits in all
//! of them, as a TCP connection's does in it; the window of a single stream never binds before.
//!
//! The library does not say how much of what it was given has left. [`Unsent`] estimates it, from the sizes of the packets that
//! leave, always a little too high, and is corrected whenever the library has nothing more to send.

use std::time::{Duration, Instant as StdInstant};

use bytes::Bytes;
use quinn_proto::{ConnectionStats, Dir, ReadError, StreamEvent, StreamId, VarInt, WriteError};
use trunkline_trunk::ReceiveWindow;
use trunkline_trunk::streams::{MAX_STREAMS, StreamError};
use trunkline_units::Instant;

use super::link::Link;
use crate::lane_rx::RxError;

/// The receive window of a connection before anything is known of its path, and the largest one, bytes.
const FIRST_WINDOW: usize = 4 << 20;
const MAX_WINDOW: usize = 64 << 20;
/// What a connection keeps of what it has sent until it is acknowledged, bytes.
pub(super) const SEND_WINDOW: u64 = MAX_WINDOW as u64;
/// The receive window of a stream.
pub(super) const STREAM_WINDOW: u32 = MAX_WINDOW as u32;
/// A timer that is so near may be that of the library's pacing, whose bursts last 2 ms.
const NEAR: Duration = Duration::from_millis(5);

/// Bytes of a packet that are no stream's: its head, packet number and tag (RFC 9001 §5).
const PACKET_BYTES: u64 = 29;
/// The longest head of a STREAM frame with these streams, and a long ACK frame.
const STREAM_HEAD_BYTES: u64 = 13;
const ACK_BYTES: u64 = 25;

/// What is kept of a connection's streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// How many we have opened: their numbers are below this.
    opened: usize,
    /// Streams of the other end that may have something to read, a bit each.
    readable: [u64; MAX_STREAMS / 64],
    window: ReceiveWindow,
    pub(super) unsent: Unsent,
}

/// An estimate of the bytes that were handed over and have not left, those that are to leave again included.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Unsent {
    bytes: u64,
    /// Of the connection, when it was looked at last.
    stream_frames: u64,
    ack_frames: u64,
    lost: (u64, u64),
}

impl Unsent {
    /// Packets of so many bytes have left.
    fn handle_sent(&mut self, (bytes, packets): (u64, u64), stats: &ConnectionStats) {
        self.handle_lost(stats);
        let frames = &stats.frame_tx;
        let streams = frames.stream - std::mem::replace(&mut self.stream_frames, frames.stream);
        let acks = frames.acks - std::mem::replace(&mut self.ack_frames, frames.acks);
        // A packet without a stream's bytes takes none away.
        let head = packets * PACKET_BYTES + streams * STREAM_HEAD_BYTES + acks * ACK_BYTES;
        let left = if streams == 0 { 0 } else { bytes.saturating_sub(head) };
        self.bytes = self.bytes.saturating_sub(left);
    }

    /// What was lost since this was looked at last is to leave again.
    fn handle_lost(&mut self, stats: &ConnectionStats) {
        let path = &stats.path;
        let before = std::mem::replace(&mut self.lost, (path.lost_bytes, path.lost_packets));
        let (bytes, packets) = (path.lost_bytes - before.0, path.lost_packets - before.1);
        self.bytes += bytes.saturating_sub(packets * PACKET_BYTES);
    }
}

impl Link {
    /// The connection carries streams from now on, both ways.
    pub(super) fn begin_streams(&mut self) {
        self.inner.set_max_concurrent_streams(Dir::Uni, VarInt::from_u32(MAX_STREAMS as u32));
        self.inner.set_receive_window(VarInt::from_u32(FIRST_WINDOW as u32));
        self.streams = Some(Box::default());
    }

    /// How many streams may be written to: as many as the other end lets us open.
    pub(super) fn open_streams(&mut self) -> usize {
        let Some(streams) = &mut self.streams else { return 0 };
        while streams.opened < MAX_STREAMS && self.inner.streams().open(Dir::Uni).is_some() {
            streams.opened += 1;
        }
        streams.opened
    }

    /// Writes to a stream that is open. What is left in `bytes` has to wait: the other end takes no more, or too much of what was
    /// sent is not acknowledged.
    ///
    /// # Errors
    /// The other end has stopped the stream.
    pub(super) fn write(&mut self, stream: u16, bytes: &mut Bytes) -> Result<(), StreamError> {
        let id = StreamId::new(self.inner.side(), Dir::Uni, stream.into());
        let before = bytes.len();
        match self.inner.send_stream(id).write_chunks(std::slice::from_mut(bytes)) {
            Ok(_) | Err(WriteError::Blocked) => {}
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return Err(StreamError::Ended),
        }
        if let Some(streams) = &mut self.streams {
            streams.unsent.bytes += (before - bytes.len()) as u64;
        }
        Ok(())
    }

    /// Takes note of what the library says of streams.
    pub(super) fn handle_stream_event(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.mark_readable(id.index()),
            StreamEvent::Opened { dir: Dir::Uni } => {
                while let Some(id) = self.inner.streams().accept(Dir::Uni) {
                    self.mark_readable(id.index());
                }
            }
            _ => {}
        }
    }

    fn mark_readable(&mut self, index: u64) {
        if let Some(streams) = &mut self.streams
            && let Some(word) = streams.readable.get_mut((index / 64) as usize)
        {
            *word |= 1 << (index % 64);
        }
    }

    /// Passes on what streams have to read, in order for each.
    ///
    /// # Errors
    /// Those of `deliver`, and of a stream that ends.
    pub(super) fn read_streams(
        &mut self,
        now: Instant,
        mut deliver: impl FnMut(u16, &[u8]) -> Result<(), RxError>,
    ) -> Result<(), RxError> {
        let Some(streams) = &mut self.streams else { return Ok(()) };
        let readable = std::mem::take(&mut streams.readable);
        let mut got = 0;
        for index in (0..MAX_STREAMS as u16).filter(|at| readable[usize::from(at / 64)] >> (at % 64) & 1 == 1)
        {
            let id = StreamId::new(!self.inner.side(), Dir::Uni, index.into());
            let mut stream = self.inner.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else { continue };
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => {
                        got += chunk.bytes.len();
                        deliver(index, &chunk.bytes)?;
                    }
                    Err(ReadError::Blocked) => break,
                    Ok(None) | Err(ReadError::Reset(_)) => return Err(StreamError::Ended.into()),
                }
            }
        }
        if got > 0 {
            let min_rtt = self.inner.min_rtt();
            let bound = streams.window.handle_received(now, got, || Some(min_rtt));
            if let Some(bound) = bound {
                let bound = bound.min(MAX_WINDOW) as u32;
                self.inner.set_receive_window(VarInt::from_u32(bound));
            }
        }
        Ok(())
    }

    /// Takes note that packets have left, when the library has nothing more that it would send now.
    pub(super) fn handle_streams_sent(&mut self, now: StdInstant, sent: (u64, u64), is_port_full: bool) {
        let Some(streams) = &mut self.streams else { return };
        let unsent = &mut streams.unsent;
        unsent.handle_sent(sent, &self.inner.stats());
        let mtu = usize::from(self.inner.current_mtu());
        let is_paced = self.inner.poll_timeout().is_some_and(|timer| timer <= now + NEAR);
        if !is_port_full && !is_paced && !self.signals.is_window_full(2 * mtu) {
            unsent.bytes = 0;
        }
    }

    /// Bytes that were handed over to streams and have not left, about.
    pub(super) fn unsent_in_streams(&mut self) -> usize {
        let Some(streams) = &mut self.streams else { return 0 };
        if self.signals.take_drained() {
            streams.unsent.bytes = 0;
        }
        streams.unsent.handle_lost(&self.inner.stats());
        streams.unsent.bytes as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_of_what_has_not_left_is_never_below_it() {
        let mut unsent = Unsent { bytes: 100_000, ..Unsent::default() };
        let mut stats = ConnectionStats::default();
        // 44 full packets with one frame each: 1452 bytes, of which at least 1410 are the stream's.
        stats.frame_tx.stream = 44;
        unsent.handle_sent((44 * 1452, 44), &stats);
        let left = 100_000 - 44 * 1410;
        assert!(unsent.bytes >= left && unsent.bytes <= left + 44 * 12, "{}", unsent.bytes);
        // An acknowledgement alone takes nothing away.
        let before = unsent.bytes;
        stats.frame_tx.acks = 1;
        unsent.handle_sent((60, 1), &stats);
        assert_eq!(unsent.bytes, before);
        // What is lost is to leave again.
        (stats.path.lost_bytes, stats.path.lost_packets) = (2904, 2);
        unsent.handle_sent((0, 0), &stats);
        assert_eq!(unsent.bytes, before + 2904 - 58);
        stats.frame_tx.stream = 1000;
        unsent.handle_sent((1 << 20, 700), &stats);
        assert_eq!(unsent.bytes, 0);
    }
}
