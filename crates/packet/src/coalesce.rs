//! Merges a run of UDP datagrams into one super-packet.
//!
//! A write into a TUN costs about the same for one datagram as for sixty-four. So the gateway gives consecutive
//! datagrams of one flow to the kernel as one `UDP_L4` super-packet. The kernel must split it into the same
//! datagrams again: every header field that a super-packet has only once must be equal, and a checksum that the
//! kernel will write anew must have been right. The IPv4 identification counts up from the first one. With "don't
//! fragment" it has no meaning (RFC 6864 §4.1); otherwise it must count.
//!
//! Only the first header is kept. The caller writes `[vnet][header][payload][payload]...` with vectored I/O.

use crate::rewrite::{read_u16, set_ip_length, write_u16};
use crate::{Fragment, Headers, Offload, SegmentKind, Segmentation, Version, checksum, protocol};

/// The largest number of datagrams in a run: every kernel with `UDP_L4` takes it.
const COUNT_LIMIT: u32 = 64;
/// The longest super-packet, in bytes.
const LEN_LIMIT: usize = 65_000;
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
        let addresses = address_sum(packet[0], headers.version)?;
        if !checksums_right(packet, headers.version, offload, addresses) {
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
        if !self.same_flow(packet[0]) || !checksums_right(packet, self.version, offload, self.addresses) {
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
        match self.version {
            Version::V4 => {
                let (Some(first), Some(next)) = (self.header.first_chunk::<28>(), packet.first_chunk::<28>())
                else {
                    return false;
                };
                let dont_fragment = next[6] & 0x40 != 0;
                first[12..24] == next[12..24]
                    && first[6..10] == next[6..10]
                    && first[..2] == next[..2]
                    && (dont_fragment
                        || read_u16(next, 4) == read_u16(first, 4).wrapping_add(self.count as u16))
            }
            Version::V6 => {
                let Some(next) = packet.first_chunk::<48>() else { return false };
                self.header[8..44] == next[8..44]
                    && self.header[6..8] == next[6..8]
                    && self.header[..4] == next[..4]
            }
        }
    }
}

#[inline]
fn ip_len(version: Version) -> usize {
    match version {
        Version::V4 => 20,
        Version::V6 => 40,
    }
}

/// Bytes of data of a plain UDP datagram; `None` if it is anything else.
#[inline]
fn payload_len(packet: [&[u8]; 2], headers: &Headers) -> Option<usize> {
    let start = ip_len(headers.version);
    let len = len(packet);
    let plain = headers.protocol == protocol::UDP
        && headers.fragment == Fragment::Whole
        && headers.transport_offset == start
        && headers.packet_len == len;
    let udp_len = usize::from(u16::from_be_bytes(*packet[0].get(start + 4..)?.first_chunk()?));
    (plain && start + udp_len == len).then_some(udp_len.checked_sub(8)?)
}

fn len(packet: [&[u8]; 2]) -> usize {
    packet[0].len() + packet[1].len()
}

/// Pseudo header without the length.
#[inline]
fn address_sum(packet: &[u8], version: Version) -> Option<u64> {
    let range = match version {
        Version::V4 => 12..20,
        Version::V6 => 8..40,
    };
    Some(checksum::sum(packet.get(range)?) + u64::from(protocol::UDP))
}

/// Whether the IPv4 header checksum is right, and the UDP checksum is partial or complete and right.
#[inline]
fn checksums_right(packet: [&[u8]; 2], version: Version, offload: Offload, addresses: u64) -> bool {
    let start = ip_len(version);
    let Some((ip, udp)) = packet[0].split_at_checked(start) else { return false };
    // Sums of parts add up where the cut is even.
    if udp.len() % 2 != 0 && !packet[1].is_empty() {
        return false;
    }
    if version == Version::V4 && checksum::fold(checksum::sum(ip)) != 0xffff {
        return false;
    }
    let Some(field) = udp.get(6..8) else { return false };
    let field = u16::from_be_bytes([field[0], field[1]]);
    let pseudo = addresses + (udp.len() + packet[1].len()) as u64;
    match offload {
        Offload::None => {
            field != 0 && checksum::fold(pseudo + checksum::sum(udp) + checksum::sum(packet[1])) == 0xffff
        }
        Offload::Checksum { start: at, offset } => {
            usize::from(at) == start && offset == 6 && field == checksum::fold(pseudo)
        }
        Offload::Segments(_) => false,
    }
}

#[cfg(test)]
mod tests;
