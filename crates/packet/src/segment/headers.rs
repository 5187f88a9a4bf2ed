//! The headers of the packets that a super-packet stands for, without a copy of its data.

use std::ops::Range;

use crate::rewrite::{read_u16, set_ip_length, write_u16};
use crate::{Headers, Offload, OffloadError, SegmentKind, Segmentation, TcpFlags, Version, checksum};

/// Data of a TCP segment that every path carries (RFC 9293 §3.7.1): segments are not made shorter than this.
pub(super) const MIN_TCP_DATA: usize = 536;

/// One packet of a super-packet: the header that was written, and its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Bytes of header.
    pub header_len: usize,
    /// Where its data is in the super-packet.
    pub data: Range<usize>,
    /// Its checksum is left open.
    pub offload: Offload,
}

impl Segment {
    /// Bytes of the packet.
    pub fn packet_len(&self) -> usize {
        self.header_len + self.data.len()
    }
}

/// Gives the headers of a super-packet's packets one after another.
#[derive(Debug, Clone)]
pub struct SegmentHeaders<'a> {
    header: &'a [u8],
    version: Version,
    pub(super) segmentation: Segmentation,
    packet_len: usize,
    next: u32,
    count: u32,
    /// Packets from this one on have a byte less than the size.
    short_from: u32,
}

impl<'a> SegmentHeaders<'a> {
    /// Starts on a super-packet, of which `prefix` is the start, with all headers. The offload is normalised first.
    pub fn new(
        prefix: &'a [u8],
        headers: &Headers,
        segmentation: Segmentation,
    ) -> Result<Self, OffloadError> {
        let Offload::Segments(segmentation) = Offload::Segments(segmentation).normalise(prefix, headers)?
        else {
            return Err(OffloadError::NotOnePacket);
        };
        let (need, have) = (usize::from(segmentation.header_len), prefix.len());
        let header = prefix.get(..need).ok_or(OffloadError::Truncated { need, have })?;
        let packet_len = headers.packet_len;
        let count = segmentation.segments(packet_len);
        Ok(Self {
            header,
            version: headers.version,
            segmentation,
            packet_len,
            next: 0,
            count,
            short_from: count,
        })
    }

    /// Makes packets of at most `max` bytes, if these packets may have another length than the sender chose: TCP segments
    /// that nobody fragments, since their IPv4 identifications then repeat those of later ones (RFC 6864 §4.1). The far end's
    /// maximum segment size is a bound from above (RFC 9293 §3.7.1).
    ///
    /// As few as that takes, and of lengths that differ by a byte at most: a batch of UDP datagrams with one in each goes to the
    /// kernel at once as long as they have one length, which a few bytes of padding give them.
    #[must_use]
    pub fn within(mut self, max: usize) -> Self {
        let size = max.saturating_sub(self.header.len());
        let unfragmented =
            self.version == Version::V6 || self.header.get(6).is_some_and(|byte| byte & 0x40 != 0);
        let is_tcp = self.segmentation.kind != SegmentKind::Udp;
        if is_tcp && unfragmented && size >= MIN_TCP_DATA && size < usize::from(self.segmentation.size) {
            let data = self.packet_len - self.header.len();
            let count = data.div_ceil(size);
            let size = data.div_ceil(count);
            self.segmentation.size = size as u16;
            self.count = count as u32;
            self.short_from = (count - (count * size - data)) as u32;
        }
        self
    }

    /// Packets still to come.
    pub fn remaining(&self) -> u32 {
        self.count - self.next
    }

    /// Bytes of the next packet; 0 if there is none.
    pub(super) fn next_len(&self) -> usize {
        if self.next == self.count { 0 } else { self.header.len() + self.next_data().len() }
    }

    fn next_data(&self) -> Range<usize> {
        let (header_len, size) = (self.header.len(), usize::from(self.segmentation.size));
        let start =
            header_len + self.next as usize * size - self.next.saturating_sub(self.short_from) as usize;
        start..self.packet_len.min(start + size - usize::from(self.next >= self.short_from))
    }

    /// Writes the header of the next packet to the start of `out`. `None` when there is no more, or when `out` is too short
    /// for it.
    #[inline]
    pub fn next_into(&mut self, out: &mut [u8]) -> Option<Segment> {
        if self.next == self.count {
            return None;
        }
        let Segmentation { kind, checksum_start, checksum_offset, .. } = self.segmentation;
        let (header_len, start) = (self.header.len(), usize::from(checksum_start));
        let out = out.get_mut(..header_len)?;
        out.copy_from_slice(self.header);
        let data = self.next_data();
        let len = header_len + data.len();
        if self.version == Version::V4 {
            let id = read_u16(out, 4).wrapping_add(self.next as u16);
            write_u16(out, 4, id);
        }
        set_ip_length(out, self.version, start, len);
        match kind {
            SegmentKind::Udp => write_u16(out, start + 4, (len - start) as u16),
            SegmentKind::Tcp4 | SegmentKind::Tcp6 => {
                let seq = [out[start + 4], out[start + 5], out[start + 6], out[start + 7]];
                let seq = u32::from_be_bytes(seq).wrapping_add((data.start - header_len) as u32);
                out[start + 4..start + 8].copy_from_slice(&seq.to_be_bytes());
                if self.next > 0 {
                    out[start + 13] &= !TcpFlags::CWR.0;
                }
                if self.next + 1 < self.count {
                    out[start + 13] &= !(TcpFlags::FIN | TcpFlags::PSH).0;
                }
            }
        }
        let field = start + usize::from(checksum_offset);
        let old_len = (self.packet_len - start) as u16;
        let partial = checksum::replace(read_u16(out, field), old_len, (len - start) as u16);
        write_u16(out, field, partial);
        self.next += 1;
        let offload = Offload::Checksum { start: checksum_start, offset: checksum_offset };
        Some(Segment { header_len, data, offload })
    }
}
