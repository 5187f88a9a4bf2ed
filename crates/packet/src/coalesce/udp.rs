//! Runs of UDP datagrams.

use super::{COUNT_LIMIT, LEN_LIMIT, address_sum, checksums_right, ip_len, is_plain, len, same_ip_header};
use crate::rewrite::{set_ip_length, write_u16};
use crate::{Headers, Offload, SegmentKind, Segmentation, Version, checksum, protocol};

/// Longest header: IPv6 and UDP.
const HEADER_MAX: usize = 48;

/// A run of datagrams of one flow.
#[derive(Debug, Clone)]
pub struct UdpRun {
    header: [u8; HEADER_MAX],
    version: Version,
    size: usize,
    packet_len: usize,
    count: u32,
    /// A datagram shorter than the first was taken: it is the last.
    closed: bool,
    /// The first datagram's.
    offload: Offload,
    /// Pseudo header without the length.
    addresses: u64,
}

impl UdpRun {
    /// Starts a run with a packet, all of it in two parts: the first holds the headers, with or without data, the
    /// second may be empty. `None` if it cannot be merged with anything: not UDP, an IP option, an extension header,
    /// a fragment, no data, a wrong length, no checksum or a wrong one, or a super-packet already.
    #[inline]
    pub fn start(packet: [&[u8]; 2], headers: &Headers, offload: Offload) -> Option<Self> {
        let ip_len = ip_len(headers.version);
        let payload_len = payload_len(packet, headers)?;
        if payload_len == 0 {
            return None;
        }
        let addresses = address_sum(packet[0], headers.version, protocol::UDP)?;
        if !checksum_right(packet, headers.version, offload, addresses) {
            return None;
        }
        let mut header = [0; HEADER_MAX];
        header[..ip_len + 8].copy_from_slice(packet[0].get(..ip_len + 8)?);
        Some(Self {
            header,
            version: headers.version,
            size: payload_len,
            packet_len: len(packet),
            count: 1,
            closed: false,
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
        let Some(payload_len) = payload_len(packet, headers) else { return false };
        if payload_len == 0 || payload_len > self.size || self.packet_len + payload_len > LEN_LIMIT {
            return false;
        }
        if !self.same_flow(packet[0]) || !checksum_right(packet, self.version, offload, self.addresses) {
            return false;
        }
        self.closed = payload_len < self.size;
        self.packet_len += payload_len;
        self.count += 1;
        true
    }

    /// Datagrams in the run.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes in the super-packet: the header and every datagram's data.
    pub fn packet_len(&self) -> usize {
        self.packet_len
    }

    /// Bytes at the start of each datagram that are header, for the caller to leave out of all but the first.
    pub fn header_len(&self) -> usize {
        ip_len(self.version) + 8
    }

    /// The header for the whole run and its offload. A run of one is what it was.
    #[inline]
    pub fn finish(&mut self) -> (&[u8], Offload) {
        let header_len = self.header_len();
        let header = &mut self.header[..header_len];
        if self.count == 1 {
            return (header, self.offload);
        }
        let start = header_len - 8;
        let udp_len = self.packet_len - start;
        set_ip_length(header, self.version, start, self.packet_len);
        write_u16(header, start + 4, udp_len as u16);
        write_u16(header, start + 6, checksum::fold(self.addresses + udp_len as u64));
        let segmentation = Segmentation {
            kind: SegmentKind::Udp,
            ecn: false,
            size: self.size as u16,
            header_len: header_len as u16,
            checksum_start: start as u16,
            checksum_offset: 6,
        };
        (header, Offload::Segments(segmentation))
    }

    /// Equal in all that the super-packet says once for all its datagrams.
    #[inline]
    fn same_flow(&self, packet: &[u8]) -> bool {
        let ports = ip_len(self.version)..ip_len(self.version) + 4;
        packet.get(ports.clone()).is_some_and(|next| next == &self.header[ports])
            && same_ip_header(&self.header, packet, self.version, self.count)
    }
}

/// Bytes of data of a plain UDP datagram; `None` if it is anything else.
#[inline]
fn payload_len(packet: [&[u8]; 2], headers: &Headers) -> Option<usize> {
    let start = ip_len(headers.version);
    let udp_len = usize::from(u16::from_be_bytes(*packet[0].get(start + 4..)?.first_chunk()?));
    (is_plain(packet, headers, protocol::UDP) && start + udp_len == len(packet))
        .then_some(udp_len.checked_sub(8)?)
}

/// Whether the checksums are right; a datagram may have none, and then its super-packet cannot either.
#[inline]
fn checksum_right(packet: [&[u8]; 2], version: Version, offload: Offload, addresses: u64) -> bool {
    let start = ip_len(version);
    let has_one = packet[0].get(start + 6..start + 8).is_some_and(|field| field != [0, 0]);
    (has_one || offload != Offload::None) && checksums_right(packet, version, (offload, 6), addresses)
}

#[cfg(test)]
mod tests;
