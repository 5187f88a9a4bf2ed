//! Segmentation in software, for a receiver whose TUN takes no super-packets.
//!
//! Each segment is the common header, changed as a sending host would have written it, and its part of the data:
//! RFC 791 for lengths and identification, RFC 9293 §3.1 for sequence numbers and flags, RFC 3168 §6.1.2 for CWR on
//! one packet only, RFC 768 for UDP. The checksum follows from the partial sum in the packet, with the length in it
//! replaced, and not from the addresses: behind an IPv6 routing header the sum is over the final destination, which
//! the IP header does not have (RFC 8200 §8.1).

use crate::rewrite::{read_u16, set_ip_length, write_u16};
use crate::{Headers, Offload, OffloadError, SegmentKind, Segmentation, TcpFlags, Version, checksum};

/// Splits one packet into the finished packets it stands for.
#[derive(Debug, Clone)]
pub struct Segmenter<'a> {
    packet: &'a [u8],
    version: Version,
    offload: Offload,
    next: u32,
    count: u32,
}

impl<'a> Segmenter<'a> {
    /// Starts on `packet`, which must be all of it. The offload is normalised first.
    pub fn new(packet: &'a [u8], headers: &Headers, offload: Offload) -> Result<Self, OffloadError> {
        if packet.len() != headers.packet_len {
            return Err(OffloadError::Truncated { need: headers.packet_len, have: packet.len() });
        }
        let offload = offload.normalise(packet, headers)?;
        let count = offload.segments(packet.len());
        Ok(Self { packet, version: headers.version, offload, next: 0, count })
    }

    /// Packets still to come.
    pub fn remaining(&self) -> u32 {
        self.count - self.next
    }

    /// Bytes that the longest of them needs.
    pub fn longest(&self) -> usize {
        match self.offload {
            Offload::Segments(segmentation) => segmentation.longest(self.packet.len()),
            _ => self.packet.len(),
        }
    }

    /// Writes the next packet to the start of `out` and gives its length. `None` when there is no more, or when
    /// `out` is too short for it, which [`Segmenter::longest`] guards against and [`Segmenter::remaining`] shows.
    #[inline]
    pub fn next_into(&mut self, out: &mut [u8]) -> Option<usize> {
        if self.next == self.count {
            return None;
        }
        let len = match self.offload {
            Offload::Segments(segmentation) => self.segment_into(segmentation, out)?,
            offload => {
                let out = out.get_mut(..self.packet.len())?;
                out.copy_from_slice(self.packet);
                complete_checksum(out, offload).ok()?;
                out.len()
            }
        };
        self.next += 1;
        Some(len)
    }

    fn segment_into(&self, segmentation: Segmentation, out: &mut [u8]) -> Option<usize> {
        let header_len = usize::from(segmentation.header_len);
        let start = usize::from(segmentation.checksum_start);
        let (header, payload) = self.packet.split_at_checked(header_len)?;
        let at = self.next as usize * usize::from(segmentation.size);
        let data = payload.get(at..payload.len().min(at + usize::from(segmentation.size)))?;
        let len = header_len + data.len();
        let out = out.get_mut(..len)?;
        out[..header_len].copy_from_slice(header);
        out[header_len..].copy_from_slice(data);

        if self.version == Version::V4 {
            let id = read_u16(out, 4).wrapping_add(self.next as u16);
            write_u16(out, 4, id);
        }
        set_ip_length(out, self.version, start, len);
        match segmentation.kind {
            SegmentKind::Udp => write_u16(out, start + 4, (len - start) as u16),
            SegmentKind::Tcp4 | SegmentKind::Tcp6 => {
                let seq = [out[start + 4], out[start + 5], out[start + 6], out[start + 7]];
                let seq = u32::from_be_bytes(seq).wrapping_add(at as u32);
                out[start + 4..start + 8].copy_from_slice(&seq.to_be_bytes());
                if self.next > 0 {
                    out[start + 13] &= !TcpFlags::CWR.0;
                }
                if self.next + 1 < self.count {
                    out[start + 13] &= !(TcpFlags::FIN | TcpFlags::PSH).0;
                }
            }
        }
        let field = start + usize::from(segmentation.checksum_offset);
        let old_len = (self.packet.len() - start) as u16;
        let partial = checksum::replace(read_u16(out, field), old_len, (len - start) as u16);
        write_u16(out, field, partial);
        complete(out, start, field);
        Some(len)
    }
}

/// Completes a partial checksum in place. A UDP checksum of zero is written as 0xffff (RFC 768).
#[inline]
pub fn complete_checksum(packet: &mut [u8], offload: Offload) -> Result<(), OffloadError> {
    match offload {
        Offload::None => Ok(()),
        Offload::Segments(_) => Err(OffloadError::NotOnePacket),
        Offload::Checksum { start, offset } => {
            let start = usize::from(start);
            let field = start + usize::from(offset);
            if field + 2 > packet.len() {
                return Err(OffloadError::Truncated { need: field + 2, have: packet.len() });
            }
            complete(packet, start, field);
            Ok(())
        }
    }
}

#[inline]
fn complete(packet: &mut [u8], start: usize, field: usize) {
    let complete = !checksum::fold(checksum::sum(&packet[start..]));
    // Of the protocols with a checksum here, UDP alone gives zero a meaning; for the others the two are equal.
    let is_udp = field - start == 6;
    write_u16(packet, field, if is_udp && complete == 0 { 0xffff } else { complete });
}

#[cfg(test)]
pub(crate) mod tests;
