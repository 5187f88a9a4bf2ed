//! Frames: how packets stand in a lane's byte stream. docs/wire-format.md is the specification.
//!
//! A frame is a two-byte length, as kung1998 §3 has it, a kind, what the kind needs, and the packet. The length
//! counts the packet alone, so that a packet of 65 535 bytes fits. Numbers are in network byte order.
//!
//! ```text
//!  0       1       2       3                       11
//! +-------+-------+-------+-----------------------+---------- - -
//! |    length     | kind  | offload, by the kind  | the IP packet
//! +-------+-------+-------+-----------------------+---------- - -
//! ```
//!
//! | kind | packet | offload bytes |
//! | --- | --- | --- |
//! | 0x01 | plain | none |
//! | 0x02 | checksum left to the receiver | start, offset: 2 × u16 |
//! | 0x10 | TCP/IPv4 super-packet | segment size, header length, start, offset: 4 × u16 |
//! | 0x11 | TCP/IPv6 super-packet | the same |
//! | 0x12 | UDP super-packet | the same |
//! | 0x18, 0x19 | as 0x10, 0x11, with CWR on the first segment | the same |
//!
//! Anything else is an error that closes the lane: a stream that once lost its place cannot be trusted again.

use thiserror::Error;
use trunkline_packet::{Offload, SegmentKind, Segmentation};

/// The most bytes that come before the packet.
pub const MAX_HEAD: usize = 11;

/// The longest packet that a frame can carry.
pub const MAX_PACKET: usize = 65_535;

/// The shortest packet that a frame may carry: an IPv4 header.
pub const MIN_PACKET: usize = 20;

const PLAIN: u8 = 0x01;
const CHECKSUM: u8 = 0x02;
const TCP4: u8 = 0x10;
const TCP6: u8 = 0x11;
const UDP: u8 = 0x12;
const ECN: u8 = 0x08;

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
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame, after {have} of its {need} bytes")]
    Truncated {
        /// Bytes of the frame, its head included, as far as known.
        need: usize,
        /// Bytes that had come.
        have: usize,
    },
}

/// What stands before a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of packet that follow the head.
    pub packet_len: usize,
    /// What the sender left to the receiver's kernel.
    pub offload: Offload,
}

impl FrameHead {
    /// Writes the head in front of a packet: into the *end* of `room`, so that the packet that starts where
    /// `room` ends needs no move. Returns the head's length. `packet_len` must be at most [`MAX_PACKET`].
    #[inline]
    pub fn encode_before(&self, room: &mut [u8; MAX_HEAD]) -> usize {
        debug_assert!(self.packet_len <= MAX_PACKET);
        let length = (self.packet_len as u16).to_be_bytes();
        match self.offload {
            Offload::None => {
                room[MAX_HEAD - 3..].copy_from_slice(&[length[0], length[1], PLAIN]);
                3
            }
            Offload::Checksum { start, offset } => {
                room[MAX_HEAD - 7..MAX_HEAD - 4].copy_from_slice(&[length[0], length[1], CHECKSUM]);
                room[MAX_HEAD - 4..MAX_HEAD - 2].copy_from_slice(&start.to_be_bytes());
                room[MAX_HEAD - 2..].copy_from_slice(&offset.to_be_bytes());
                7
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
                MAX_HEAD
            }
        }
    }

    /// Reads the head of the frame that starts `bytes`, and its length; `None` if more bytes are needed.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Option<(FrameHead, usize)>, FrameError> {
        let [high, low, kind, rest @ ..] = bytes else { return Ok(None) };
        let packet_len = usize::from(u16::from_be_bytes([*high, *low]));
        if packet_len < MIN_PACKET {
            return Err(FrameError::TooShort { length: packet_len });
        }
        let number = |at: usize| rest.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
        let (offload, len) = match *kind {
            PLAIN => (Offload::None, 3),
            CHECKSUM => {
                let (Some(start), Some(offset)) = (number(0), number(2)) else { return Ok(None) };
                (Offload::Checksum { start, offset }, 7)
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
                let segmentation = Segmentation {
                    kind: segment_kind,
                    ecn: kind & ECN != 0,
                    size,
                    header_len,
                    checksum_start,
                    checksum_offset,
                };
                (Offload::Segments(segmentation), MAX_HEAD)
            }
            kind => return Err(FrameError::UnknownKind { kind }),
        };
        Ok(Some((FrameHead { packet_len, offload }, len)))
    }
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
            let mut room = [0; MAX_HEAD];
            let len = head.encode_before(&mut room);
            let bytes = &room[MAX_HEAD - len..];
            assert_eq!(FrameHead::decode(bytes), Ok(Some((head, len))));
            for short in 0..len {
                assert_eq!(FrameHead::decode(&bytes[..short]), Ok(None), "{head:?} cut to {short}");
            }
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
    }

    #[test]
    fn what_is_no_frame_is_named() {
        assert_eq!(FrameHead::decode(&[0, 100, 0x13]), Err(FrameError::UnknownKind { kind: 0x13 }));
        assert_eq!(FrameHead::decode(&[0, 100, 0x1a]), Err(FrameError::UnknownKind { kind: 0x1a }));
        assert_eq!(FrameHead::decode(&[0, 100, 0x00]), Err(FrameError::UnknownKind { kind: 0 }));
        assert_eq!(FrameHead::decode(&[0, 19, 0x01]), Err(FrameError::TooShort { length: 19 }));
    }
}
