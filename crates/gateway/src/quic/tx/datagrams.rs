//! Packets into datagrams.

use std::collections::VecDeque;

use bytes::Bytes;
use trunkline_packet::{Headers, Offload, SegmentHeaders, Segmentation};
use trunkline_trunk::Packet as _;
use trunkline_trunk::compress::{Compression, Compressor};
use trunkline_trunk::datagram::{MIN_DATAGRAM, Packer, Piece, Rest};
use trunkline_trunk::frame::{FrameHead, MAX_HEAD};

use super::super::link::Link;
use crate::pool::{BODIES, HEAD_CONTENT, PacketBuf, Pool};

/// The maximum of batches whose memory is kept until they have left: as many as are handed over before they leave, as a rule.
const MAX_KEPT: usize = 4;

/// Fills the datagrams of a lane.
pub(super) struct Datagrams {
    packer: Packer,
    /// Whether it makes the longest datagrams that the connection takes now.
    is_max: bool,
    pieces: Vec<Piece>,
    /// What was handed over last, whose memory is used again once all of it has left.
    handed_over: VecDeque<Bytes>,
    /// A lane that loses packets compresses no headers.
    compressor: Compressor,
    /// A frame head and the headers of one segment of a super-packet.
    head: Box<[u8; MAX_HEAD + HEAD_CONTENT]>,
}

impl Datagrams {
    pub(super) fn new() -> Self {
        Datagrams {
            packer: Packer::new(MIN_DATAGRAM),
            is_max: false,
            pieces: Vec::new(),
            handed_over: VecDeque::new(),
            compressor: Compressor::new(Compression::Off, 0),
            head: Box::new([0; MAX_HEAD + HEAD_CONTENT]),
        }
    }

    /// Whether the connection takes datagrams.
    pub(super) fn prepare(&mut self, link: &mut Link) -> bool {
        let Some(max) = link.max_datagram() else { return false };
        if self.packer.is_empty() {
            self.packer.set_max(max);
        }
        self.is_max = max == self.packer.max();
        true
    }

    /// Bytes that wait to be handed over.
    pub(super) fn len(&self) -> usize {
        self.packer.len()
    }

    /// Hands over what waits. How many bytes it was.
    pub(super) fn hand_over(&mut self, link: &mut Link, rest: Rest) -> usize {
        if self.packer.is_empty() {
            return 0;
        }
        self.pieces.clear();
        let rest = if self.is_max { rest } else { Rest::Leaves };
        let spare = self.spare();
        let bytes = Bytes::from(self.packer.take_with(&mut self.pieces, rest, spare));
        link.hand_over(&bytes, &self.pieces);
        let len = bytes.len();
        if self.handed_over.len() == MAX_KEPT {
            self.handed_over.pop_front();
        }
        self.handed_over.push_back(bytes);
        len
    }

    /// Memory for the next datagrams: that of earlier ones that have left, if there are such.
    fn spare(&mut self) -> Vec<u8> {
        if !self.handed_over.front().is_some_and(Bytes::is_unique) {
            return Vec::new();
        }
        let left = self.handed_over.pop_front().and_then(|bytes| bytes.try_into_mut().ok());
        left.map_or_else(Vec::new, |mut bytes| {
            bytes.clear();
            bytes.into()
        })
    }

    /// Frames a packet. A super-packet is segmented first: a lost datagram must not cost all of it.
    /// How many frames it has become.
    pub(super) fn put(&mut self, mut packet: PacketBuf, pool: &mut Pool) -> u64 {
        let frames = if let Offload::Segments(segmentation) = packet.offload {
            self.put_segments(&packet, segmentation)
        } else {
            let frame = packet.frame(&mut self.compressor);
            let mut parts: [&[u8]; 1 + BODIES] = [&[]; 1 + BODIES];
            parts[0] = &packet.head.bytes()[frame];
            for (part, body) in parts[1..].iter_mut().zip(packet.body_parts()) {
                *part = body;
            }
            self.packer.put(&parts);
            1
        };
        pool.release(packet);
        frames
    }

    /// Frames the segments of a super-packet, each of TCP short enough for a datagram of its own, so that a lost datagram
    /// costs one and nothing has to be put together. Their checksums are left to the receiver's kernel: the connection proves
    /// that they arrive as they left.
    fn put_segments(&mut self, packet: &PacketBuf, segmentation: Segmentation) -> u64 {
        let prefix = packet.prefix();
        // The offload was checked when the packet was read.
        let Ok(headers) = Headers::parse(prefix, packet.len) else { return 0 };
        let Ok(segments) = SegmentHeaders::new(prefix, &headers, segmentation) else { return 0 };
        let open = Offload::Checksum { start: 0, offset: 0 };
        let frame_head = FrameHead { packet_len: 0, offload: open }.encoded_len();
        let mut segments = segments.within(self.packer.longest_whole() - frame_head);
        let (room, header) =
            self.head.split_first_chunk_mut::<MAX_HEAD>().expect("an array of this length and more");
        let mut frames = 0;
        while let Some(segment) = segments.next_into(header) {
            let head = FrameHead { packet_len: segment.packet_len(), offload: segment.offload };
            let head_len = head.encode_before(room);
            let mut parts: [&[u8]; 3 + BODIES] = [&[]; 3 + BODIES];
            parts[0] = &room[MAX_HEAD - head_len..];
            parts[1] = &header[..segment.header_len];
            let mut next = 2;
            packet.for_parts(segment.data, |part| {
                parts[next] = part;
                next += 1;
            });
            frames += 1;
            self.packer.put(&parts[..next]);
        }
        frames
    }
}
