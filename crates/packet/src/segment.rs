//! Segmentation in software, for a receiver whose TUN takes no super-packets.
//!
//! Each segment is the common header, changed as a sending host would have written it, and its part of the data:
//! RFC 791 for lengths and identification, RFC 9293 §3.1 for sequence numbers and flags, RFC 3168 §6.1.2 for CWR on
//! one packet only, RFC 768 for UDP. The checksum follows from the partial sum in the packet, with the length in it
//! replaced, and not from the addresses: behind an IPv6 routing header the sum is over the final destination, which
//! the IP header does not have (RFC 8200 §8.1).

mod headers;

use crate::rewrite::write_u16;
use crate::{Headers, Offload, OffloadError, checksum};

pub use headers::{Segment, SegmentHeaders};

/// Splits one packet into the finished packets it stands for.
#[derive(Debug, Clone)]
pub struct Segmenter<'a> {
    packet: &'a [u8],
    rest: Rest<'a>,
}

#[derive(Debug, Clone)]
enum Rest<'a> {
    /// The packet itself.
    One(Offload),
    Segments(SegmentHeaders<'a>),
    Nothing,
}

impl<'a> Segmenter<'a> {
    /// Starts on `packet`, which must be all of it. The offload is normalised first.
    pub fn new(packet: &'a [u8], headers: &Headers, offload: Offload) -> Result<Self, OffloadError> {
        if packet.len() != headers.packet_len {
            return Err(OffloadError::Truncated { need: headers.packet_len, have: packet.len() });
        }
        let rest = match offload {
            Offload::Segments(segmentation) => {
                Rest::Segments(SegmentHeaders::new(packet, headers, segmentation)?)
            }
            offload => Rest::One(offload.normalise(packet, headers)?),
        };
        Ok(Self { packet, rest })
    }

    /// Packets still to come.
    pub fn remaining(&self) -> u32 {
        match &self.rest {
            Rest::One(_) => 1,
            Rest::Segments(headers) => headers.remaining(),
            Rest::Nothing => 0,
        }
    }

    /// Bytes that the longest of them needs.
    pub fn longest(&self) -> usize {
        match &self.rest {
            Rest::Segments(headers) => headers.segmentation.longest(self.packet.len()),
            Rest::One(_) | Rest::Nothing => self.packet.len(),
        }
    }

    /// Writes the next packet to the start of `out` and gives its length. `None` when there is no more, or when
    /// `out` is too short for it, which [`Segmenter::longest`] guards against and [`Segmenter::remaining`] shows.
    #[inline]
    pub fn next_into(&mut self, out: &mut [u8]) -> Option<usize> {
        match &mut self.rest {
            Rest::Nothing => None,
            Rest::One(offload) => {
                let out = out.get_mut(..self.packet.len())?;
                out.copy_from_slice(self.packet);
                complete_checksum(out, *offload).ok()?;
                self.rest = Rest::Nothing;
                Some(out.len())
            }
            Rest::Segments(headers) => {
                let out = out.get_mut(..headers.next_len())?;
                let segment = headers.next_into(out)?;
                out[segment.header_len..].copy_from_slice(self.packet.get(segment.data)?);
                complete_checksum(out, segment.offload).ok()?;
                Some(out.len())
            }
        }
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
