use trunkline_packet::Offload;

use super::context::{Context, kind};
use super::header::{Checksum, Header};
use super::number::Reader;
use super::{CONTEXTS, CompressError, MAX_HEADER};
use crate::frame::{FrameHead, MAX_PACKET};

/// What a decompressor has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecompressorStats {
    /// Packets restored.
    pub restored: u64,
    /// Contexts made, whether new or in place of another.
    pub contexts: u64,
    /// Bytes of headers restored.
    pub header_bytes: u64,
    /// Bytes of compressed headers they came from, the frame's kind included and its length not.
    pub compressed_bytes: u64,
}

/// A header restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Bytes at the start of the frame's content that the header was made from; the payload follows.
    pub consumed: usize,
    /// Bytes of header.
    pub header_len: usize,
    /// What would stand before the packet had it travelled whole.
    pub head: FrameHead,
}

/// The receiving end of a lane's header compression. After an error it must not be used again.
pub struct Decompressor {
    contexts: Vec<Option<Context>>,
    last: Option<u8>,
    stats: DecompressorStats,
}

impl Default for Decompressor {
    fn default() -> Self {
        Self::new()
    }
}

impl Decompressor {
    /// A decompressor for a lane that has carried nothing yet.
    pub fn new() -> Self {
        Decompressor { contexts: vec![None; CONTEXTS], last: None, stats: DecompressorStats::default() }
    }

    /// What it has done so far.
    pub const fn stats(&self) -> &DecompressorStats {
        &self.stats
    }

    /// Makes a context of a packet that travelled whole. `prefix` is its first part and holds the headers.
    pub fn establish(&mut self, context: u8, head: &FrameHead, prefix: &[u8]) -> Result<(), CompressError> {
        let header = Header::parse(prefix, head.packet_len, head.offload)
            .map_err(|reason| CompressError::NoForm { context, reason })?;
        self.contexts[usize::from(context)] = Some(Context::new(&header, head.packet_len - header.len()));
        self.last = Some(context);
        self.stats.contexts += 1;
        Ok(())
    }

    /// Restores the header of a compressed frame whose kind has `bits` and whose content has `len` bytes, of which
    /// `prefix` holds the first [`MAX_FIELDS`](super::MAX_FIELDS), or all there are.
    #[inline]
    pub fn restore(
        &mut self,
        bits: u8,
        prefix: &[u8],
        len: usize,
        into: &mut [u8; MAX_HEADER],
    ) -> Result<Restored, CompressError> {
        let mut input = Reader::new(prefix.get(..len).unwrap_or(prefix));
        let number = if bits & kind::CONTEXT != 0 {
            input.byte()?
        } else {
            self.last.ok_or(CompressError::NoContext)?
        };
        let Some(context) = &mut self.contexts[usize::from(number)] else {
            return Err(CompressError::UnknownContext { context: number });
        };
        let header = context.decode(bits, number, &mut input)?;
        let consumed = input.at();
        let header_len = header.len();
        let payload_len = len - consumed;
        let packet_len = header_len + payload_len;
        if packet_len > MAX_PACKET {
            return Err(CompressError::TooLong { length: packet_len });
        }
        header.write(packet_len, into);
        context.advance(header.fields, payload_len);
        self.last = Some(number);
        self.stats.restored += 1;
        self.stats.header_bytes += header_len as u64;
        self.stats.compressed_bytes += consumed as u64 + 1;
        let offload = match header.fields.checksum {
            Checksum::Open => Offload::Checksum {
                start: header.chain.ip_len() as u16,
                offset: header.chain.checksum_offset() as u16,
            },
            Checksum::Absent | Checksum::Complete => Offload::None,
        };
        Ok(Restored { consumed, header_len, head: FrameHead { packet_len, offload } })
    }
}
