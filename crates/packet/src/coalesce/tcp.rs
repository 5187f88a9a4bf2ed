//! Runs of TCP segments, by the rules of Linux's receive offload (GRO): segments that follow each other in the stream and
//! differ in nothing but their sequence number, their data and PSH of the last. A segment that is one byte shorter than the
//! first is not the last as in GRO: whoever cuts a super-packet anew makes such ones
//! ([`SegmentHeaders::within`](crate::SegmentHeaders::within)). The kernel then cuts what is merged in other places again,
//! which is nothing to TCP: no segment is longer than the longest was.

use super::{COUNT_LIMIT, LEN_LIMIT, address_sum, checksums_right, ip_len, is_plain, len, same_ip_header};
use crate::rewrite::{set_ip_length, write_u16};
use crate::{Headers, Offload, SegmentKind, Segmentation, TcpFlags, Version, checksum, protocol};

/// Longest header: IPv6 and TCP with all options.
const HEADER_MAX: usize = 40 + 60;
/// The fewest bytes of data in a segment that others may follow: a kernel takes no super-packet of shorter ones.
const MIN_SIZE: usize = 8;
/// Where the checksum is in the TCP header.
const CHECKSUM: u16 = 16;

/// A run of segments of one flow.
#[derive(Debug, Clone)]
pub struct TcpRun {
    header: [u8; HEADER_MAX],
    header_len: usize,
    version: Version,
    size: usize,
    packet_len: usize,
    count: u32,
    /// A segment was taken that is shorter than the first by two bytes or more, or has PSH: it is the last.
    closed: bool,
    next_seq: u32,
    /// The first segment's.
    offload: Offload,
    /// Pseudo header without the length.
    addresses: u64,
}

/// What a segment has beside its data.
struct Parsed {
    header_len: usize,
    payload_len: usize,
    seq: u32,
    push: bool,
}

impl TcpRun {
    /// Starts a run with a packet, all of it in two parts: the first holds the headers, with or without data, the
    /// second may be empty. `None` if it cannot be merged with anything: not TCP, an IP option, an extension header,
    /// a fragment, no data, a flag other than ACK, PSH and ECE, a wrong checksum, or a super-packet already.
    #[inline]
    pub fn start(packet: [&[u8]; 2], headers: &Headers, offload: Offload) -> Option<Self> {
        let Parsed { header_len, payload_len, seq, push } = parse(packet, headers)?;
        let addresses = address_sum(packet[0], headers.version, protocol::TCP)?;
        if !checksums_right(packet, headers.version, (offload, CHECKSUM), addresses) {
            return None;
        }
        let mut header = [0; HEADER_MAX];
        header[..header_len].copy_from_slice(packet[0].get(..header_len)?);
        Some(Self {
            header,
            header_len,
            version: headers.version,
            size: payload_len,
            packet_len: len(packet),
            count: 1,
            closed: push || payload_len < MIN_SIZE,
            next_seq: seq.wrapping_add(payload_len as u32),
            offload,
            addresses,
        })
    }

    /// Adds a packet, in two parts, if it continues the run; if not, nothing changes.
    #[inline]
    pub fn push(&mut self, packet: [&[u8]; 2], headers: &Headers, offload: Offload) -> bool {
        if self.closed || self.count == COUNT_LIMIT || headers.version != self.version {
            return false;
        }
        let Some(Parsed { header_len, payload_len, seq, push }) = parse(packet, headers) else {
            return false;
        };
        if header_len != self.header_len
            || seq != self.next_seq
            || payload_len > self.size
            || self.packet_len + payload_len > LEN_LIMIT
        {
            return false;
        }
        if !self.same_flow(packet[0])
            || !checksums_right(packet, self.version, (offload, CHECKSUM), self.addresses)
        {
            return false;
        }
        if push {
            self.header[ip_len(self.version) + 13] |= TcpFlags::PSH.0;
        }
        self.closed = push || payload_len + 1 < self.size;
        self.next_seq = seq.wrapping_add(payload_len as u32);
        self.packet_len += payload_len;
        self.count += 1;
        true
    }

    /// Segments in the run.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes in the super-packet: the header and every segment's data.
    pub fn packet_len(&self) -> usize {
        self.packet_len
    }

    /// Bytes at the start of each segment that are header, for the caller to leave out of all but the first.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// The header for the whole run and its offload. A run of one is what it was.
    #[inline]
    pub fn finish(&mut self) -> (&[u8], Offload) {
        let header = &mut self.header[..self.header_len];
        if self.count == 1 {
            return (header, self.offload);
        }
        let start = ip_len(self.version);
        set_ip_length(header, self.version, start, self.packet_len);
        let partial = checksum::fold(self.addresses + (self.packet_len - start) as u64);
        write_u16(header, start + usize::from(CHECKSUM), partial);
        let segmentation = Segmentation {
            kind: if self.version == Version::V4 { SegmentKind::Tcp4 } else { SegmentKind::Tcp6 },
            ecn: false,
            size: self.size as u16,
            header_len: self.header_len as u16,
            checksum_start: start as u16,
            checksum_offset: CHECKSUM,
        };
        (header, Offload::Segments(segmentation))
    }

    /// Equal in all that the super-packet says once for all its segments: addresses and ports, acknowledgement, flags without
    /// PSH, window, urgent pointer and options.
    #[inline]
    fn same_flow(&self, packet: &[u8]) -> bool {
        let tcp = ip_len(self.version)..self.header_len;
        let (first, Some(next)) = (&self.header[tcp.clone()], packet.get(tcp)) else { return false };
        let flags = |header: &[u8]| header[13] & !TcpFlags::PSH.0;
        first[..4] == next[..4]
            && first[8..13] == next[8..13]
            && flags(first) == flags(next)
            && first[14..16] == next[14..16]
            && first[18..] == next[18..]
            && same_ip_header(&self.header, packet, self.version, self.count)
    }
}

/// A plain segment with data; `None` if it is anything else.
#[inline]
fn parse(packet: [&[u8]; 2], headers: &Headers) -> Option<Parsed> {
    if !is_plain(packet, headers, protocol::TCP) {
        return None;
    }
    let start = ip_len(headers.version);
    let tcp = packet[0].get(start..)?.first_chunk::<20>()?;
    let header_len = start + usize::from(tcp[12] >> 4) * 4;
    let flags = tcp[13] & !(TcpFlags::PSH | TcpFlags::ECE).0;
    if header_len < start + 20 || header_len > packet[0].len() || flags != TcpFlags::ACK.0 {
        return None;
    }
    let payload_len = len(packet) - header_len;
    let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    (payload_len > 0).then_some(Parsed { header_len, payload_len, seq, push: tcp[13] & TcpFlags::PSH.0 != 0 })
}

#[cfg(test)]
mod tests;
