//! Frames: how packets stand in a lane's byte stream. docs/wire-format.md is the specification.
//!
//! A frame is a two-byte length, as kung1998 §3 has it, a kind, what the kind needs, and the packet. The length
//! counts the packet alone, so that a packet of 65 535 bytes fits. Numbers are in network byte order.
//!
//! ```text
//!  0       1       2       3                       11
//! +-------+-------+-------+-----------------------+---------- - -
//! |    length     | kind  | fields, by the kind   | the IP packet
//! +-------+-------+-------+-----------------------+---------- - -
//! ```
//!
//! | kind | packet | fields |
//! | --- | --- | --- |
//! | 0x01 | plain | none |
//! | 0x02 | checksum left to the receiver | start, offset: 2 × u16 |
//! | 0x03 | as 0x01, and it makes a context | context: u8 |
//! | 0x04 | as 0x02, and it makes a context | context: u8, start, offset: 2 × u16 |
//! | 0x10 | TCP/IPv4 super-packet | segment size, header length, start, offset: 4 × u16 |
//! | 0x11 | TCP/IPv6 super-packet | the same |
//! | 0x12 | UDP super-packet | the same |
//! | 0x18, 0x19 | as 0x10, 0x11, with CWR on the first segment | the same |
//! | 0x20 | none: an [arrival report](crate::ArrivalReport) | time, bytes: 2 × u64, as content |
//! | 0x21 | none: the [number](crate::SequenceNumber) of the next packet | space, number: 2 × u32, as content |
//! | 0x22 | none: the [place](crate::bonding::Order) of the next packet in the order of its flow | space, bucket, number: u32, u16, u32, as content; or how many it leaves out after the last place: u8 |
//! | 0x80 to 0xff | compressed: [`compress`](crate::compress) | none |
//!
//! Of a compressed packet the length counts what it was compressed to.
//!
//! Anything else is an error that closes the lane: a stream that once lost its place cannot be trusted again.

use thiserror::Error;
use trunkline_packet::{Offload, SegmentKind, Segmentation};

use crate::bonding::{Order, Places};
use crate::{ArrivalReport, SequenceNumber};

/// The maximum number of bytes before the packet.
pub const MAX_HEAD: usize = 11;

/// The longest packet that a frame can carry.
pub const MAX_PACKET: usize = 65_535;

/// The shortest packet that a frame may carry: an IPv4 header.
pub const MIN_PACKET: usize = 20;

const PLAIN: u8 = 0x01;
const CHECKSUM: u8 = 0x02;
const PLAIN_CONTEXT: u8 = 0x03;
const CHECKSUM_CONTEXT: u8 = 0x04;
const TCP4: u8 = 0x10;
const TCP6: u8 = 0x11;
const UDP: u8 = 0x12;
const ECN: u8 = 0x08;
const REPORT: u8 = 0x20;
const NUMBER: u8 = 0x21;
const ORDER: u8 = 0x22;
/// Set in the kind of compressed packets; the other bits say how to read them.
const COMPRESSED: u8 = 0x80;

/// Why a byte stream is no sequence of frames. Always the sender's fault, or that of someone on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// No frame has this kind.
    #[error("unknown frame kind {kind:#04x}")]
    UnknownKind {
        /// What stood in its place.
        kind: u8,
    },
    /// No IP packet is so short.
    #[error("a frame of {length} bytes holds no IP packet: at least {MIN_PACKET} are needed")]
    TooShort {
        /// Its length.
        length: usize,
    },
    /// A number has more bytes.
    #[error(
        "a frame of {length} bytes holds no sequence number: at least {} are needed",
        SequenceNumber::BYTES
    )]
    ShortNumber {
        /// Its length.
        length: usize,
    },
    /// The place of a packet has more fields.
    #[error(
        "a frame of {length} bytes holds no place in an order: at least {} are needed, or {} after another place",
        Order::BYTES,
        Places::SHORT
    )]
    ShortOrder {
        /// Its length.
        length: usize,
    },
    /// A report has more fields.
    #[error(
        "a frame of {length} bytes holds no arrival report: at least {} are needed",
        ArrivalReport::BYTES
    )]
    ShortReport {
        /// Its length.
        length: usize,
    },
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame, after {have} of its {need} bytes")]
    Truncated {
        /// Bytes of the frame, its head included, as far as known.
        need: usize,
        /// Bytes that had come.
        have: usize,
    },
}

/// What stands before a packet that travels whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of packet that follow the head.
    pub packet_len: usize,
    /// What the sender left to the receiver's kernel.
    pub offload: Offload,
}

/// What stands at the start of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// A packet travels whole.
    Packet {
        /// What stands before it.
        head: FrameHead,
        /// The context that its headers make, if any: [`compress`](crate::compress).
        context: Option<u8>,
    },
    /// A packet travels with its headers compressed.
    Compressed {
        /// The kind's lower seven bits.
        bits: u8,
        /// Bytes that follow: compressed header and payload.
        len: usize,
    },
    /// No packet: an [`ArrivalReport`].
    Report {
        /// Bytes that follow: its fields, and what another version may add to them.
        len: usize,
    },
    /// No packet: the [`SequenceNumber`] of the next one.
    Number {
        /// Bytes that follow: the number, and what another version may add to it.
        len: usize,
    },
    /// No packet: the [`Order`] of the next one, by [`Places`].
    Order {
        /// Bytes that follow: its fields, and what another version may add to them.
        len: usize,
    },
}

impl FrameHead {
    /// Bytes it is written in.
    #[inline]
    pub const fn encoded_len(&self) -> usize {
        match self.offload {
            Offload::None => 3,
            Offload::Checksum { .. } => 7,
            Offload::Segments(_) => MAX_HEAD,
        }
    }

    /// Writes the head in front of a packet: into the *end* of `room`, so that the packet that starts where
    /// `room` ends needs no move. Returns the head's length. `packet_len` must be at most [`MAX_PACKET`].
    #[inline]
    pub fn encode_before(&self, room: &mut [u8; MAX_HEAD]) -> usize {
        debug_assert!(self.packet_len <= MAX_PACKET);
        let length = (self.packet_len as u16).to_be_bytes();
        match self.offload {
            Offload::None => {
                room[MAX_HEAD - 3..].copy_from_slice(&[length[0], length[1], PLAIN]);
            }
            Offload::Checksum { start, offset } => {
                room[MAX_HEAD - 7..MAX_HEAD - 4].copy_from_slice(&[length[0], length[1], CHECKSUM]);
                room[MAX_HEAD - 4..MAX_HEAD - 2].copy_from_slice(&start.to_be_bytes());
                room[MAX_HEAD - 2..].copy_from_slice(&offset.to_be_bytes());
            }
            Offload::Segments(s) => {
                let kind = match s.kind {
                    SegmentKind::Tcp4 => TCP4,
                    SegmentKind::Tcp6 => TCP6,
                    SegmentKind::Udp => UDP,
                };
                let ecn = if s.ecn && s.kind != SegmentKind::Udp { ECN } else { 0 };
                room[..3].copy_from_slice(&[length[0], length[1], kind | ecn]);
                for (at, value) in
                    [s.size, s.header_len, s.checksum_start, s.checksum_offset].iter().enumerate()
                {
                    room[3 + 2 * at..5 + 2 * at].copy_from_slice(&value.to_be_bytes());
                }
            }
        }
        self.encoded_len()
    }

    /// The same for a packet that makes a context; no super-packet does.
    #[inline]
    pub fn encode_context_before(&self, context: u8, room: &mut [u8; MAX_HEAD]) -> usize {
        debug_assert!(!matches!(self.offload, Offload::Segments(_)));
        let plain_len = self.encode_before(room);
        let start = MAX_HEAD - plain_len;
        // Length and kind move down by one.
        room.copy_within(start..start + 3, start - 1);
        room[start + 1] = if plain_len == 3 { PLAIN_CONTEXT } else { CHECKSUM_CONTEXT };
        room[start + 2] = context;
        plain_len + 1
    }
}

/// Bytes of a report's frame.
pub const REPORT_BYTES: usize = 3 + ArrivalReport::BYTES;

/// The frame of a report.
pub fn encode_report(report: &ArrivalReport) -> [u8; REPORT_BYTES] {
    without_packet(REPORT, &report.encode())
}

/// A frame of this kind, with no packet in it.
fn without_packet<const N: usize>(kind: u8, content: &[u8]) -> [u8; N] {
    let mut frame = [0; N];
    frame[..3].copy_from_slice(&[0, content.len() as u8, kind]);
    frame[3..].copy_from_slice(content);
    frame
}

/// Bytes of a sequence number's frame.
pub const NUMBER_BYTES: usize = 3 + SequenceNumber::BYTES;

/// The frame of a sequence number.
pub fn encode_number(number: SequenceNumber) -> [u8; NUMBER_BYTES] {
    without_packet(NUMBER, &number.encode())
}

/// The most bytes of the frame of a place in an order.
pub const MAX_ORDER_BYTES: usize = 3 + Order::BYTES;

/// Writes the frame of a place in an order, the next one of a lane, to the front of `frame`; its length.
pub fn encode_order(places: &mut Places, order: Order, frame: &mut [u8; MAX_ORDER_BYTES]) -> usize {
    let mut content = [0; Order::BYTES];
    let len = places.encode(order, &mut content);
    *frame = without_packet(ORDER, &content);
    frame[1] = len as u8;
    3 + len
}

impl Frame {
    /// Bytes that follow the head.
    #[inline]
    pub const fn content_len(&self) -> usize {
        match self {
            Frame::Packet { head, .. } => head.packet_len,
            Frame::Compressed { len, .. }
            | Frame::Report { len }
            | Frame::Number { len }
            | Frame::Order { len } => *len,
        }
    }

    /// Whether it says nothing of other frames and needs none before it: what lanes over QUIC carry, where frames do not come in one
    /// order.
    pub const fn stands_alone(&self) -> bool {
        matches!(self, Frame::Packet { context: None, .. } | Frame::Report { .. })
    }

    /// Reads the head of the frame that starts `bytes`, and its length; `None` if more bytes are needed.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, FrameError> {
        let [high, low, kind, rest @ ..] = bytes else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind & COMPRESSED != 0 {
            return Ok(Some((Frame::Compressed { bits: *kind & !COMPRESSED, len: length }, 3)));
        }
        if *kind == REPORT {
            return match length {
                ..ArrivalReport::BYTES => Err(FrameError::ShortReport { length }),
                len => Ok(Some((Frame::Report { len }, 3))),
            };
        }
        if *kind == NUMBER {
            return match length {
                ..SequenceNumber::BYTES => Err(FrameError::ShortNumber { length }),
                len => Ok(Some((Frame::Number { len }, 3))),
            };
        }
        if *kind == ORDER {
            return match length {
                len @ (Places::SHORT | Order::BYTES..) => Ok(Some((Frame::Order { len }, 3))),
                length => Err(FrameError::ShortOrder { length }),
            };
        }
        if length < MIN_PACKET {
            return Err(FrameError::TooShort { length });
        }
        let number = |at: usize| rest.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
        let mut context = None;
        let offload = match *kind {
            PLAIN => Offload::None,
            PLAIN_CONTEXT => {
                let Some(number) = rest.first() else { return Ok(None) };
                context = Some(*number);
                Offload::None
            }
            CHECKSUM | CHECKSUM_CONTEXT => {
                let at = usize::from(*kind == CHECKSUM_CONTEXT);
                let (Some(start), Some(offset)) = (number(at), number(at + 2)) else { return Ok(None) };
                if at == 1 {
                    context = rest.first().copied();
                }
                Offload::Checksum { start, offset }
            }
            TCP4 | TCP6 | UDP | 0x18 | 0x19 => {
                let (Some(size), Some(header_len), Some(checksum_start), Some(checksum_offset)) =
                    (number(0), number(2), number(4), number(6))
                else {
                    return Ok(None);
                };
                let segment_kind = match kind & !ECN {
                    TCP4 => SegmentKind::Tcp4,
                    TCP6 => SegmentKind::Tcp6,
                    _ => SegmentKind::Udp,
                };
                Offload::Segments(Segmentation {
                    kind: segment_kind,
                    ecn: kind & ECN != 0,
                    size,
                    header_len,
                    checksum_start,
                    checksum_offset,
                })
            }
            kind => return Err(FrameError::UnknownKind { kind }),
        };
        let head = FrameHead { packet_len: length, offload };
        let head_len = head.encoded_len() + usize::from(context.is_some());
        Ok(Some((Frame::Packet { head, context }, head_len)))
    }
}

/// The head of a compressed frame with these bits in its kind, and `len` bytes of content.
#[inline]
pub(crate) fn compressed_head(bits: u8, len: usize) -> [u8; 3] {
    debug_assert!(bits & COMPRESSED == 0 && len <= MAX_PACKET);
    let [high, low] = (len as u16).to_be_bytes();
    [high, low, COMPRESSED | bits]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads() -> Vec<FrameHead> {
        let segments = |kind, ecn| {
            Offload::Segments(Segmentation {
                kind,
                ecn,
                size: 1448,
                header_len: 52,
                checksum_start: 20,
                checksum_offset: 16,
            })
        };
        [
            Offload::None,
            Offload::Checksum { start: 20, offset: 16 },
            segments(SegmentKind::Tcp4, false),
            segments(SegmentKind::Tcp4, true),
            segments(SegmentKind::Tcp6, false),
            segments(SegmentKind::Tcp6, true),
            segments(SegmentKind::Udp, false),
        ]
        .into_iter()
        .zip([20, 65_535, 65_000, 64_000, 63_000, 62_000, 61_000])
        .map(|(offload, packet_len)| FrameHead { packet_len, offload })
        .collect()
    }

    #[test]
    fn a_head_that_was_written_is_read_back_and_every_prefix_asks_for_more() {
        for head in heads() {
            let contexts: &[Option<u8>] = match head.offload {
                Offload::Segments(_) => &[None],
                _ => &[None, Some(0), Some(200)],
            };
            for &context in contexts {
                let mut room = [0; MAX_HEAD];
                let len = match context {
                    None => head.encode_before(&mut room),
                    Some(context) => head.encode_context_before(context, &mut room),
                };
                let bytes = &room[MAX_HEAD - len..];
                assert_eq!(Frame::decode(bytes), Ok(Some((Frame::Packet { head, context }, len))));
                for short in 0..len {
                    assert_eq!(Frame::decode(&bytes[..short]), Ok(None), "{head:?} cut to {short}");
                }
            }
        }
    }

    #[test]
    fn a_compressed_frame_may_be_of_any_length() {
        for len in [0, 3, 19, MAX_PACKET] {
            let head = compressed_head(0x15, len);
            assert_eq!(Frame::decode(&head), Ok(Some((Frame::Compressed { bits: 0x15, len }, 3))));
        }
        assert_eq!(Frame::decode(&[0, 1]), Ok(None));
    }

    #[test]
    fn a_report_is_a_frame_of_its_own_that_another_version_may_extend() {
        let report = ArrivalReport { at: 7, bytes: 9 };
        let frame = encode_report(&report);
        assert_eq!(Frame::decode(&frame), Ok(Some((Frame::Report { len: 16 }, 3))));
        assert_eq!(frame[3..], report.encode());
        assert_eq!(Frame::decode(&[0, 40, 0x20]), Ok(Some((Frame::Report { len: 40 }, 3))));
        assert_eq!(Frame::decode(&[0, 15, 0x20]), Err(FrameError::ShortReport { length: 15 }));
    }

    #[test]
    fn the_number_of_the_next_packet_is_a_frame_of_its_own() {
        let number = SequenceNumber { space: 1, number: 2 };
        let frame = encode_number(number);
        assert_eq!(Frame::decode(&frame), Ok(Some((Frame::Number { len: 8 }, 3))));
        assert_eq!(frame[3..], number.encode());
        assert_eq!(Frame::decode(&[0, 7, 0x21]), Err(FrameError::ShortNumber { length: 7 }));
    }

    #[test]
    fn the_place_of_the_next_packet_is_a_frame_of_its_own() {
        let order = Order { space: 1, bucket: 2, number: 3 };
        let (mut written, mut read) = (Places::default(), Places::default());
        for (order, len) in [(order, 10), (Order { number: 4, ..order }, 1)] {
            let mut frame = [0; MAX_ORDER_BYTES];
            assert_eq!(encode_order(&mut written, order, &mut frame), 3 + len);
            assert_eq!(Frame::decode(&frame), Ok(Some((Frame::Order { len }, 3))));
            assert_eq!(read.decode(&frame[3..3 + len]), Some(order));
        }
        for length in [0, 2, 9] {
            assert_eq!(
                Frame::decode(&[0, length, 0x22]),
                Err(FrameError::ShortOrder { length: length.into() })
            );
        }
    }

    /// The vectors of docs/wire-format.md.
    #[test]
    fn the_published_vectors_hold() {
        let vectors: [(&[u8], usize); 3] = [
            (&[0x00, 0x54, 0x01], 0),
            (&[0x00, 0x34, 0x02, 0x00, 0x14, 0x00, 0x10], 1),
            (&[0xfd, 0xe8, 0x10, 0x05, 0xa8, 0x00, 0x34, 0x00, 0x14, 0x00, 0x10], 2),
        ];
        let offloads = [Offload::None, Offload::Checksum { start: 20, offset: 16 }, heads()[2].offload];
        let lengths = [84, 52, 65_000];
        for (bytes, index) in vectors {
            let head = FrameHead { packet_len: lengths[index], offload: offloads[index] };
            let mut room = [0; MAX_HEAD];
            let len = head.encode_before(&mut room);
            assert_eq!(&room[MAX_HEAD - len..], bytes);
        }
        let report = encode_report(&ArrivalReport { at: 1_000_000, bytes: 65_536 });
        assert_eq!(report, *b"\x00\x10\x20\0\0\0\0\0\x0f\x42\x40\0\0\0\0\0\x01\0\0");
        let number = encode_number(SequenceNumber { space: 0xa1b2_c3d4, number: 258 });
        assert_eq!(number, *b"\x00\x08\x21\xa1\xb2\xc3\xd4\0\0\x01\x02");
        let (mut places, mut frame) = (Places::default(), [0; MAX_ORDER_BYTES]);
        let order = |number| Order { space: 0xa1b2_c3d4, bucket: 0x0abc, number };
        assert_eq!(encode_order(&mut places, order(258), &mut frame), 13);
        assert_eq!(frame, *b"\x00\x0a\x22\xa1\xb2\xc3\xd4\x0a\xbc\0\0\x01\x02");
        assert_eq!(encode_order(&mut places, order(261), &mut frame), 4);
        assert_eq!(frame[..4], *b"\x00\x01\x22\x02");
    }

    #[test]
    fn what_is_no_frame_is_named() {
        assert_eq!(Frame::decode(&[0, 100, 0x13]), Err(FrameError::UnknownKind { kind: 0x13 }));
        assert_eq!(Frame::decode(&[0, 100, 0x1a]), Err(FrameError::UnknownKind { kind: 0x1a }));
        assert_eq!(Frame::decode(&[0, 100, 0x00]), Err(FrameError::UnknownKind { kind: 0 }));
        assert_eq!(Frame::decode(&[0, 19, 0x01]), Err(FrameError::TooShort { length: 19 }));
    }
}
