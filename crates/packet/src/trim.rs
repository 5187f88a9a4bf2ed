//! Removes segments from the end of a super-packet.
//!
//! Where a queue drops one packet, it must not drop all forty that one super-packet stands for. Cutting the tail
//! changes only the headers: the lengths, and the length in the partial checksum. FIN and PSH belong to the tail.
//! The rest is the packet that the sender would have sent without the tail.

use crate::rewrite::{read_u16, set_ip_length, write_u16};
use crate::{Headers, Offload, SegmentKind, Segmentation, TcpFlags};

/// What is left of a super-packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trimmed {
    /// Bytes to keep of the packet.
    pub len: usize,
    /// The offload for them: a checksum when one segment is left.
    pub offload: Offload,
}

/// Keeps the first `keep` segments, at least one. `head` starts with the headers and may end with them; nothing
/// behind them is touched.
///
/// `segmentation` has passed [`Offload::normalise`] with these headers. If the three do not belong together,
/// nothing is done and all of the packet is kept.
pub fn trim(head: &mut [u8], headers: &Headers, segmentation: Segmentation, keep: u32) -> Trimmed {
    let Headers { version, transport_offset: start, packet_len: old_len, .. } = *headers;
    let whole = Trimmed { len: old_len, offload: Offload::Segments(segmentation) };
    let header_len = usize::from(segmentation.header_len);
    if head.len() < header_len || whole.offload.check(headers).is_err() {
        return whole;
    }
    let keep = keep.clamp(1, segmentation.segments(old_len));
    let len = old_len.min(header_len + keep as usize * usize::from(segmentation.size));
    if len < old_len {
        set_ip_length(head, version, start, len);
        let (old, new) = ((old_len - start) as u16, (len - start) as u16);
        match segmentation.kind {
            SegmentKind::Udp => write_u16(head, start + 4, new),
            SegmentKind::Tcp4 | SegmentKind::Tcp6 => head[start + 13] &= !(TcpFlags::FIN | TcpFlags::PSH).0,
        }
        let field = start + usize::from(segmentation.checksum_offset);
        let partial = crate::checksum::replace(read_u16(head, field), old, new);
        write_u16(head, field, partial);
    }
    let offload = if keep == 1 {
        let Segmentation { checksum_start: start, checksum_offset: offset, .. } = segmentation;
        Offload::Checksum { start, offset }
    } else {
        whole.offload
    };
    Trimmed { len, offload }
}

#[cfg(test)]
mod tests;
