//! A segment as plain values, and as the bytes of its header (RFC 9293 §3.1, RFC 7323, RFC 2018).

use std::fmt;

use thiserror::Error;
use trunkline_packet::{PacketError, TcpFlags, TcpView};
use trunkline_units::Seq;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// What is wrong with the bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SegmentError {
    /// No TCP header.
    #[error("{0}")]
    Header(#[from] PacketError),
    /// An option that does not fit the header or has a length that its kind does not have.
    #[error("option {kind} has length {len}, and {have} bytes are left")]
    Option {
        /// The option's kind.
        kind: u8,
        /// What it says of its length.
        len: u8,
        /// Bytes from its start to the header's end.
        have: usize,
    },
}

/// Stretches of the stream that a receiver has beyond its acknowledgement: the newest first (RFC 2018 §4).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(Seq, Seq); 4],
    len: u8,
}

impl SackBlocks {
    /// Most that fit a header without timestamps; with them, one less.
    pub const MAX: usize = 4;

    /// Adds a block from its first byte to the one after its last; `false` if there is no room.
    pub fn push(&mut self, start: Seq, end: Seq) -> bool {
        let Some(place) = self.blocks.get_mut(usize::from(self.len)) else { return false };
        *place = (start, end);
        self.len += 1;
        true
    }

    /// The blocks.
    #[inline]
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.len)]
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice().iter().map(|(start, end)| start.0..end.0)).finish()
    }
}

/// The options of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Largest payload the sender takes, with SYN only.
    pub mss: Option<u16>,
    /// Shift of the windows to come, with SYN only.
    pub window_scale: Option<u8>,
    /// The sender understands SACK, with SYN only.
    pub sack_permitted: bool,
    /// `TSval` and `TSecr`.
    pub timestamps: Option<(u32, u32)>,
    /// What the sender has beyond its acknowledgement. A first block below it reports a duplicate (RFC 2883).
    pub sack: SackBlocks,
}

/// One segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// Of its first byte, or of SYN.
    pub seq: Seq,
    /// The next byte wanted, if ACK is set.
    pub ack: Seq,
    /// Flags.
    pub flags: TcpFlags,
    /// Window field, not scaled.
    pub window: u16,
    /// Bytes of data.
    pub payload: u32,
    /// Options.
    pub options: Options,
    /// Its IP header says that its ends understand ECN (ECT(0), RFC 3168 §6.1).
    pub ecn_capable: bool,
    /// Its IP header says that it met congestion; of segments that arrive.
    pub congestion_experienced: bool,
}

impl Segment {
    /// Bytes of the longest header.
    pub const MAX_HEADER_LEN: usize = 60;

    /// What it takes of the sequence space: data, SYN and FIN.
    #[inline]
    pub fn sequence_len(&self) -> u32 {
        let flag = |flag| u32::from(self.flags.contains(flag));
        self.payload + flag(TcpFlags::SYN) + flag(TcpFlags::FIN)
    }

    /// The number after its last.
    #[inline]
    pub fn end(&self) -> Seq {
        self.seq + self.sequence_len()
    }

    /// Bytes of its header: a multiple of four.
    #[inline]
    pub fn header_len(&self) -> usize {
        let options = &self.options;
        let mut len = 20;
        len += if options.mss.is_some() { 4 } else { 0 };
        len += if options.window_scale.is_some() { 4 } else { 0 };
        len += match (options.sack_permitted, options.timestamps.is_some()) {
            (_, true) => 12,
            (true, false) => 4,
            (false, false) => 0,
        };
        match options.sack.as_slice().len() {
            0 => len,
            blocks => len + 4 + 8 * blocks,
        }
    }

    /// Writes its header, without a checksum, to the front of `out`, and returns its length. The layout is the one
    /// that Linux uses.
    ///
    /// # Panics
    /// If the header would be longer than [`Segment::MAX_HEADER_LEN`] or `out`.
    #[inline]
    pub fn write(&self, ports: (u16, u16), out: &mut [u8]) -> usize {
        let len = self.header_len();
        let (fixed, mut rest) = out[..len].split_first_chunk_mut::<20>().unwrap_or_else(|| unreachable!());
        fixed[0..2].copy_from_slice(&ports.0.to_be_bytes());
        fixed[2..4].copy_from_slice(&ports.1.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        fixed[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        fixed[12] = (len as u8 / 4) << 4;
        fixed[13] = self.flags.0;
        fixed[14..16].copy_from_slice(&self.window.to_be_bytes());
        fixed[16..20].fill(0);
        let mut put = |bytes: &[u8]| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            now.copy_from_slice(bytes);
            rest = later;
        };
        let options = &self.options;
        if let Some(mss) = options.mss {
            let [high, low] = mss.to_be_bytes();
            put(&[MSS, 4, high, low]);
        }
        if let Some((value, echo)) = options.timestamps {
            put(if options.sack_permitted { &[SACK_PERMITTED, 2] } else { &[NOP, NOP] });
            put(&[TIMESTAMPS, 10]);
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        } else if options.sack_permitted {
            put(&[NOP, NOP, SACK_PERMITTED, 2]);
        }
        if let Some(shift) = options.window_scale {
            put(&[NOP, WINDOW_SCALE, 3, shift]);
        }
        let blocks = options.sack.as_slice();
        if !blocks.is_empty() {
            put(&[NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                put(&start.0.to_be_bytes());
                put(&end.0.to_be_bytes());
            }
        }
        len
    }

    /// Reads a segment of `len` bytes, header and data, of which `prefix` holds the header at least. The IP header's
    /// part ([`Segment::ecn_capable`], [`Segment::congestion_experienced`]) is left `false`. Unknown options are
    /// skipped.
    #[inline]
    pub fn parse(prefix: &[u8], len: usize) -> Result<(Self, (u16, u16)), SegmentError> {
        let view = TcpView::new(prefix)?;
        let segment = Segment {
            seq: Seq(view.seq()),
            ack: Seq(view.ack()),
            flags: view.flags(),
            window: view.window(),
            payload: len.saturating_sub(view.header_len()) as u32,
            options: Options::parse(view.options())?,
            ..Segment::default()
        };
        Ok((segment, (view.source(), view.destination())))
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

impl Options {
    #[inline]
    fn parse(mut rest: &[u8]) -> Result<Self, SegmentError> {
        let mut options = Options::default();
        // As nearly every segment has them.
        if let [NOP, NOP, TIMESTAMPS, 10, stamps @ ..] = rest
            && let Some((stamps, behind)) = stamps.split_at_checked(8)
        {
            options.timestamps = Some((word(&stamps[..4]), word(&stamps[4..])));
            rest = behind;
        }
        while let [kind, behind @ ..] = rest {
            match *kind {
                END => break,
                NOP => {
                    rest = behind;
                    continue;
                }
                _ => {}
            }
            let error = |len| SegmentError::Option { kind: *kind, len, have: rest.len() };
            let len = *behind.first().ok_or(error(0))?;
            let value = rest.get(2..usize::from(len)).ok_or(error(len))?;
            match (*kind, value.len()) {
                (MSS, 2) => options.mss = Some(word(value) as u16),
                // RFC 7323 §2.3: more than 14 counts as 14.
                (WINDOW_SCALE, 1) => options.window_scale = Some(value[0].min(14)),
                (SACK_PERMITTED, 0) => options.sack_permitted = true,
                (TIMESTAMPS, 8) => options.timestamps = Some((word(&value[..4]), word(&value[4..]))),
                (SACK, 8 | 16 | 24 | 32) => {
                    for block in value.chunks_exact(8) {
                        options.sack.push(Seq(word(&block[..4])), Seq(word(&block[4..])));
                    }
                }
                (MSS | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS | SACK, _) => return Err(error(len)),
                _ => {}
            }
            rest = &rest[usize::from(len)..];
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(segment: Segment) {
        let mut bytes = [0xaa; Segment::MAX_HEADER_LEN];
        let len = segment.write((80, 40_000), &mut bytes);
        assert_eq!(len, segment.header_len());
        let parsed = Segment::parse(&bytes[..len], len + segment.payload as usize);
        assert_eq!(parsed, Ok((segment, (80, 40_000))));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut sack = SackBlocks::default();
        for start in [5000_u32, 3000, 9000] {
            assert!(sack.push(Seq(start), Seq(start + 1000)));
        }
        let syn =
            Options { mss: Some(1460), window_scale: Some(7), sack_permitted: true, ..Options::default() };
        for options in [
            Options::default(),
            syn,
            Options { timestamps: Some((7, 9)), ..syn },
            Options { timestamps: Some((1, 2)), sack, ..Options::default() },
            Options { sack, ..Options::default() },
        ] {
            let flags = TcpFlags::ACK | TcpFlags::PSH;
            let (seq, ack) = (Seq(u32::MAX - 3), Seq(77));
            round_trip(Segment {
                seq,
                ack,
                flags,
                window: 4096,
                payload: 1448,
                options,
                ..Segment::default()
            });
        }
    }

    #[test]
    fn an_option_that_does_not_fit_is_an_error_that_names_it() {
        let mut bytes = [0; 24];
        let segment =
            Segment { options: Options { mss: Some(1), ..Options::default() }, ..Segment::default() };
        segment.write((1, 2), &mut bytes);
        bytes[21] = 5;
        assert_eq!(Segment::parse(&bytes, 24), Err(SegmentError::Option { kind: MSS, len: 5, have: 4 }));
        bytes[21] = 1;
        assert_eq!(Segment::parse(&bytes, 24), Err(SegmentError::Option { kind: MSS, len: 1, have: 4 }));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut bytes = [0_u8; 60];
        let mut rng = trunkline_units::Rng::new(1, "bytes");
        for _ in 0..20_000 {
            bytes.fill_with(|| rng.below(16) as u8);
            bytes[12] = (rng.below(16) as u8) << 4;
            let len = rng.below(61) as usize;
            let _ = Segment::parse(&bytes[..len], len);
        }
    }
}
