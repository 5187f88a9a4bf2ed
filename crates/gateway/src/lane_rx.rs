//! The receiving half of a lane: bytes of a TCP connection in, packets to the device out.

mod held;
mod run;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{RecvFlags, recv};
use trunkline_packet::{Headers, protocol};
use trunkline_trunk::bonding::{Places, Turn};
use trunkline_trunk::compress::{CompressError, Decompressor, DecompressorStats, MAX_FIELDS, MAX_HEADER};
use trunkline_trunk::datagram::DatagramError;
use trunkline_trunk::frame::{Frame, FrameError, MAX_HEAD};
use trunkline_trunk::streams::StreamError;
use trunkline_trunk::{ArrivalReport, Label, ReceiveWindow, Receiver, Reporting, SequenceNumber};
use trunkline_units::Instant;

use crate::clock;
use crate::pool::HEAD_CONTENT;
use crate::record::{HEADER_BYTES, Opened, Opener, RecordError};
use crate::sys::{self, Ring, TcpInfo};
use crate::tun::{TunWrite, TunWriter};
use run::Run;

use held::HeldPacket;
pub(crate) use held::Ordered;

/// A lane's ring. It holds several of the longest frames; its pages are touched only as far as a burst reaches.
const RING_BYTES: usize = 256 << 10;
/// The part of a packet that is looked at for its headers. The far end has seen no more of it in one piece.
const PREFIX: usize = HEAD_CONTENT;
const _: () = assert!(PREFIX >= MAX_FIELDS);
/// The maximum number of contiguous parts of a packet in the ring, beside its virtio header.
const MAX_PARTS: usize = 78;

/// Why a lane ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RxError {
    #[error("the peer closed the lane")]
    Closed,
    #[error("the connection ended without a goodbye")]
    Cut,
    #[error("{0}")]
    Network(#[from] io::Error),
    #[error("{0}")]
    Record(#[from] RecordError),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Datagram(#[from] DatagramError),
    #[error("{0}")]
    Stream(#[from] StreamError),
    #[error("a datagram in a lane of streams, or a stream in one of datagrams")]
    Mixed,
    #[error("{0}")]
    Compress(#[from] CompressError),
    #[error("a frame in more than {MAX_PARTS} records, or in records too small to hold it")]
    Scattered,
}

/// A stretch of the ring that holds plain frames not yet consumed; positions count for ever.
#[derive(Debug, Clone, Copy)]
struct Part {
    at: usize,
    len: usize,
}

/// Counts of one lane's receiving half.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LaneRxStats {
    /// Frames with packets received.
    pub(crate) frames: u64,
    /// Bytes read from the socket.
    pub(crate) bytes: u64,
    /// Key updates received.
    pub(crate) key_updates: u64,
    /// What came with its headers compressed.
    pub(crate) compression: DecompressorStats,
}

/// Counts of the writes to a device's queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeviceWriteStats {
    /// Writes to the device; a super-packet counts once.
    pub(crate) writes: u64,
    /// Packets the device's kernel refused.
    pub(crate) refused: u64,
    /// Packets that shared a write with others.
    pub(crate) coalesced: u64,
}

/// What a read of a lane says about the two directions of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reports {
    /// The latest report of the far end about what it got.
    pub(crate) received: Option<ArrivalReport>,
    /// A report that the far end is to get.
    pub(crate) due: Option<ArrivalReport>,
}

/// Where packets that came out of a lane go.
pub(crate) struct Sink<'a> {
    pub(crate) writer: &'a mut TunWriter,
    pub(crate) device: &'a mut DeviceWriteStats,
    /// The peer's packets that came over bonded paths.
    pub(crate) ordered: &'a mut Ordered,
    /// Called with each TCP packet that is passed on.
    pub(crate) observe: &'a mut dyn FnMut(&Headers, &[u8]),
}

pub(crate) struct LaneRx {
    pub(crate) serial: u64,
    fd: Arc<OwnedFd>,
    opener: Option<Opener>,
    ring: Ring,
    /// Plain bytes, in order.
    parts: VecDeque<Part>,
    /// Plain bytes in `parts`.
    plain: usize,
    /// Where bytes start that are not opened yet.
    sealed_at: usize,
    /// Where the next byte read goes.
    end: usize,
    window: ReceiveWindow,
    /// When to report what arrived, if the far end takes reports.
    reporting: Option<Reporting>,
    received: Option<ArrivalReport>,
    /// The label of the next packet.
    label: Option<Label>,
    places: Places,
    decompressor: Decompressor,
    stats: LaneRxStats,
}

impl LaneRx {
    /// With `reports`, both ends report what arrives.
    pub(crate) fn new(
        serial: u64,
        fd: Arc<OwnedFd>,
        opener: Option<Opener>,
        reports: bool,
    ) -> io::Result<Self> {
        Ok(LaneRx {
            serial,
            fd,
            opener,
            ring: Ring::new(RING_BYTES)?,
            parts: VecDeque::new(),
            plain: 0,
            sealed_at: 0,
            end: 0,
            window: ReceiveWindow::default(),
            reporting: reports.then(Reporting::default),
            received: None,
            label: None,
            places: Places::default(),
            decompressor: Decompressor::new(),
            stats: LaneRxStats::default(),
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What it has done so far.
    pub(crate) fn stats(&self) -> LaneRxStats {
        LaneRxStats { compression: *self.decompressor.stats(), ..self.stats }
    }

    /// Reads what the socket has, once, and passes on the packets that are complete.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        receiver: &mut Receiver,
        sink: &mut Sink<'_>,
    ) -> Result<Reports, RxError> {
        let start = self.parts.front().map_or(self.sealed_at, |part| part.at);
        let free = self.ring.size() - (self.end - start);
        if free == 0 {
            return Err(RxError::Scattered);
        }
        let window = self.ring.window_mut(self.end, free);
        let read = match recv(&self.fd, window, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(self.cut()),
            Ok((read, _)) => read,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(Reports::default()),
            Err(error) => return Err(RxError::Network(error.into())),
        };
        // Some of these bytes may have come since `now`. In a report they must not seem to have come earlier than they did.
        let read_at = clock::now();
        self.end += read;
        self.stats.bytes += read as u64;
        let fd = &self.fd;
        let min_rtt = || TcpInfo::of(fd.as_fd()).ok()?.min_rtt();
        if let Some(bound) = self.window.handle_received(now, read, min_rtt) {
            sys::set_window_clamp(fd.as_fd(), bound)?;
        }
        let closed = self.open()?;
        self.pass_on(now, receiver, sink)?;
        if closed {
            return Err(RxError::Closed);
        }
        if self.parts.is_empty() && self.sealed_at == self.end {
            // Empty: start over, so that a lane of little traffic touches few pages.
            self.sealed_at = 0;
            self.end = 0;
        }
        let LaneRxStats { bytes, frames, .. } = self.stats;
        let due = self.reporting.as_mut().and_then(|it| it.handle_received(read_at, bytes, frames));
        Ok(Reports { received: self.received.take(), due })
    }

    /// The stream ended: between frames, or inside one.
    fn cut(&self) -> RxError {
        let have = self.plain + (self.end - self.sealed_at);
        if have == 0 {
            return RxError::Cut;
        }
        let mut bytes = [0; MAX_HEAD];
        let known = self.peek(&mut bytes);
        let need = match Frame::decode(&bytes[..known]) {
            Ok(Some((frame, len))) => len + frame.content_len(),
            _ => have + 1,
        };
        RxError::Frame(FrameError::Truncated { need, have })
    }

    /// Opens the records that are complete. Whether the peer has said goodbye.
    fn open(&mut self) -> Result<bool, RxError> {
        let Some(opener) = &mut self.opener else {
            let (at, len) = (self.sealed_at, self.end - self.sealed_at);
            self.sealed_at = self.end;
            self.plain += len;
            add_part(&mut self.parts, at, len);
            return Ok(false);
        };
        while self.end - self.sealed_at >= HEADER_BYTES {
            let mut header = [0; HEADER_BYTES];
            header.copy_from_slice(self.ring.window(self.sealed_at, HEADER_BYTES));
            let body_len = Opener::body_len(header)?;
            if self.end - self.sealed_at < HEADER_BYTES + body_len {
                break;
            }
            let body_at = self.sealed_at + HEADER_BYTES;
            let opened = opener.open(header, self.ring.window_mut(body_at, body_len))?;
            self.sealed_at = body_at + body_len;
            match opened {
                Opened::Data(len) => {
                    self.plain += len;
                    add_part(&mut self.parts, body_at, len);
                }
                Opened::KeyUpdate { .. } => self.stats.key_updates += 1,
                Opened::Closed => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Copies the first plain bytes; how many there were.
    fn peek(&self, into: &mut [u8]) -> usize {
        let mut have = 0;
        for part in &self.parts {
            let take = part.len.min(into.len() - have);
            into[have..have + take].copy_from_slice(self.ring.window(part.at, take));
            have += take;
            if have == into.len() {
                break;
            }
        }
        have
    }

    fn consume(&mut self, mut len: usize) {
        self.plain -= len;
        while len > 0 {
            let Some(part) = self.parts.front_mut() else { break };
            let take = len.min(part.len);
            part.at += take;
            part.len -= take;
            len -= take;
            if part.len == 0 {
                self.parts.pop_front();
            }
        }
    }

    /// Writes every complete packet to the device.
    fn pass_on(&mut self, now: Instant, receiver: &mut Receiver, sink: &mut Sink<'_>) -> Result<(), RxError> {
        let mut run = Run::default();
        let result = loop {
            let decoded = match self.parts.front() {
                Some(part) if part.len >= MAX_HEAD => Frame::decode(self.ring.window(part.at, MAX_HEAD)),
                Some(_) => {
                    let mut copy = [0; MAX_HEAD];
                    let have = self.peek(&mut copy);
                    Frame::decode(&copy[..have])
                }
                None => break Ok(()),
            };
            let (frame, head_len) = match decoded {
                Ok(Some(decoded)) => decoded,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error.into()),
            };
            if self.plain < head_len + frame.content_len() {
                if self.parts.len() >= MAX_PARTS {
                    break Err(RxError::Scattered);
                }
                break Ok(());
            }
            self.consume(head_len);
            if let Err(error) = self.handle_frame(now, frame, receiver, sink, &mut run) {
                break Err(error);
            }
            self.consume(frame.content_len());
        };
        self.finish_run(&mut run, sink);
        result
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        frame: Frame,
        receiver: &mut Receiver,
        sink: &mut Sink<'_>,
        run: &mut Run,
    ) -> Result<(), RxError> {
        let len = frame.content_len();
        let mut copy;
        let want = len.min(PREFIX);
        let first = self.parts.front().copied().unwrap_or(Part { at: 0, len: 0 });
        let contiguous = first.len >= len;
        let content = if first.len >= want {
            self.ring.window(first.at, first.len.min(len))
        } else {
            copy = [0; PREFIX];
            let have = self.peek(&mut copy[..want]);
            &copy[..have]
        };
        // What the packet starts with if that is not in the ring, and what it does not have of what is.
        let mut restored_header = [0; MAX_HEADER];
        let (head, restored, skip) = match frame {
            Frame::Packet { head, context } => {
                if let Some(context) = context {
                    self.decompressor.establish(context, &head, content)?;
                }
                (head, &[][..], 0)
            }
            Frame::Compressed { bits, len } => {
                let restored = self.decompressor.restore(bits, content, len, &mut restored_header)?;
                (restored.head, &restored_header[..restored.header_len], restored.consumed)
            }
            Frame::Report { .. } => {
                // Another version may add fields.
                self.received = content.first_chunk().map(ArrivalReport::decode);
                return Ok(());
            }
            Frame::Number { .. } => {
                self.label = content.first_chunk().map(SequenceNumber::decode).map(Label::Number);
                return Ok(());
            }
            Frame::Order { .. } => {
                let place = self.places.decode(content).ok_or(FrameError::ShortOrder { length: len })?;
                self.label = Some(Label::Order(place));
                return Ok(());
            }
        };
        self.stats.frames += 1;
        let mut order = None;
        match self.label.take() {
            Some(Label::Number(number)) if !receiver.handle_number(number) => return Ok(()),
            Some(Label::Order(place)) => match sink.ordered.handle(now, place) {
                Turn::Again => return Ok(()),
                turn => order = Some((place, turn)),
            },
            Some(Label::Number(_)) | None => {}
        }
        let prefix = if restored.is_empty() { content } else { restored };
        let accepted = receiver.handle_frame(&head, prefix);
        if let Some((place, Turn::Early)) = order {
            let packet = match accepted {
                Ok((headers, offload)) => {
                    let (pieces, count) = self.pieces(restored, skip, len)?;
                    Some(HeldPacket::new(&pieces[..count], headers, offload))
                }
                Err(_) => None,
            };
            sink.hold(now, place, packet);
            return Ok(());
        }
        let Ok((headers, offload)) = accepted else {
            sink.write_ordered();
            return Ok(());
        };
        if headers.protocol == protocol::TCP {
            (sink.observe)(&headers, prefix);
        }
        let may_merge = contiguous && order.is_none();
        if may_merge && headers.protocol == protocol::UDP && sink.writer.takes_super_packets(protocol::UDP) {
            let packet = if restored.is_empty() { [content, &[]] } else { [restored, &content[skip..]] };
            let end = first.at + len;
            if run.push(packet, &headers, offload, end) {
                return Ok(());
            }
            self.finish_run(run, sink);
            if run.start(packet, headers, offload, end) {
                return Ok(());
            }
        } else {
            self.finish_run(run, sink);
        }
        let vnet = offload.to_vnet();
        let (mut slices, count) = self.pieces(restored, skip, len)?;
        slices[0] = IoSlice::new(&vnet);
        count_write(sink.device, sink.writer.write(&slices[..count], &headers, offload), 1);
        if order.is_some() {
            sink.write_ordered();
        }
        Ok(())
    }

    /// The pieces of the packet that the plain bytes start with, of which `len` belong to its frame and the first `skip` not to the packet:
    /// an empty one, what was restored of it, and what stands in the ring. How many there are.
    fn pieces<'a>(
        &'a self,
        restored: &'a [u8],
        mut skip: usize,
        len: usize,
    ) -> Result<([IoSlice<'a>; MAX_PARTS + 2], usize), RxError> {
        let mut slices = [IoSlice::new(&[]); MAX_PARTS + 2];
        slices[1] = IoSlice::new(restored);
        let (mut count, mut rest) = (2, len);
        for part in &self.parts {
            if rest == 0 {
                break;
            }
            let Some(slice) = slices.get_mut(count) else { return Err(RxError::Scattered) };
            let take = part.len.min(rest);
            let skipped = skip.min(take);
            *slice = IoSlice::new(self.ring.window(part.at + skipped, take - skipped));
            skip -= skipped;
            rest -= take;
            count += 1;
        }
        Ok((slices, count))
    }

    /// Writes the datagrams gathered so far as one super-packet.
    fn finish_run(&self, run: &mut Run, sink: &mut Sink<'_>) {
        let Some((mut merged, headers)) = run.merged.take() else { return };
        let datagrams = merged.count();
        let (header, offload) = merged.finish();
        let vnet = offload.to_vnet();
        let mut slices = [IoSlice::new(&[]); MAX_PARTS + 2];
        slices[0] = IoSlice::new(&vnet);
        slices[1] = IoSlice::new(header);
        let payloads = &run.payloads[..run.count];
        for (slice, (at, len)) in slices[2..].iter_mut().zip(payloads) {
            *slice = IoSlice::new(self.ring.window(*at, *len));
        }
        run.count = 0;
        if datagrams > 1 {
            sink.device.coalesced += u64::from(datagrams);
        }
        let count = 2 + payloads.len();
        count_write(sink.device, sink.writer.write(&slices[..count], &headers, offload), datagrams);
    }
}

fn add_part(parts: &mut VecDeque<Part>, at: usize, len: usize) {
    match parts.back_mut() {
        Some(last) if last.at + last.len == at => last.len += len,
        _ if len > 0 => parts.push_back(Part { at, len }),
        _ => {}
    }
}

pub(crate) fn count_write(device: &mut DeviceWriteStats, outcome: TunWrite, packets: u32) {
    match outcome {
        TunWrite::Written => device.writes += 1,
        TunWrite::Refused => device.refused += u64::from(packets),
    }
}
