//! Merges packets of one flow that came in a row into one super-packet.
//!
//! A write into a TUN costs about the same for one packet as for sixty-four. So the gateway gives consecutive packets of one
//! flow to the kernel as one super-packet. The kernel must be able to split it into the same packets again: every header
//! field that a super-packet has only once must be equal, and a checksum that the kernel will write anew must have been
//! right. The IPv4 identification counts up from the first one. With "don't fragment" it has no meaning (RFC 6864 §4.1);
//! otherwise it must count.
//!
//! Only the first header is kept. The caller writes `[vnet][header][payload][payload]...` with vectored I/O.

mod tcp;
mod udp;

use crate::rewrite::read_u16;
use crate::{Fragment, Headers, Offload, Version, checksum, protocol};

pub use tcp::TcpRun;
pub use udp::UdpRun;

/// The largest number of packets in a run: every kernel with `UDP_L4` takes it.
const COUNT_LIMIT: u32 = 64;
/// The longest super-packet, in bytes: that of the IPv4 header, as hosts send them.
const LEN_LIMIT: usize = 65_535;

/// A run of packets of one flow, of either protocol that can be merged.
#[derive(Debug, Clone)]
pub enum Run {
    /// Of TCP segments.
    Tcp(TcpRun),
    /// Of UDP datagrams.
    Udp(UdpRun),
}

impl Run {
    /// Starts a run with a packet, all of it in two parts: the first holds the headers, with or without data, the second may
    /// be empty. `None` if nothing can be merged with it.
    #[inline]
    pub fn start(packet: [&[u8]; 2], headers: &Headers, offload: Offload) -> Option<Self> {
        match headers.protocol {
            protocol::TCP => TcpRun::start(packet, headers, offload).map(Run::Tcp),
            protocol::UDP => UdpRun::start(packet, headers, offload).map(Run::Udp),
            _ => None,
        }
    }

    /// Adds a packet, in two parts, if it continues the run; if not, nothing changes.
    #[inline]
    pub fn push(&mut self, packet: [&[u8]; 2], headers: &Headers, offload: Offload) -> bool {
        match self {
            Run::Tcp(run) => run.push(packet, headers, offload),
            Run::Udp(run) => run.push(packet, headers, offload),
        }
    }

    /// Packets in the run.
    pub fn count(&self) -> u32 {
        match self {
            Run::Tcp(run) => run.count(),
            Run::Udp(run) => run.count(),
        }
    }

    /// Bytes at the start of each packet that are header, for the caller to leave out of all but the first.
    pub fn header_len(&self) -> usize {
        match self {
            Run::Tcp(run) => run.header_len(),
            Run::Udp(run) => run.header_len(),
        }
    }

    /// The header for the whole run and its offload. A run of one is what it was.
    #[inline]
    pub fn finish(&mut self) -> (&[u8], Offload) {
        match self {
            Run::Tcp(run) => run.finish(),
            Run::Udp(run) => run.finish(),
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

fn len(packet: [&[u8]; 2]) -> usize {
    packet[0].len() + packet[1].len()
}

/// Whether a packet is of this protocol, whole, without IP options and extension headers, and all there.
#[inline]
fn is_plain(packet: [&[u8]; 2], headers: &Headers, protocol: u8) -> bool {
    headers.protocol == protocol
        && headers.fragment == Fragment::Whole
        && headers.transport_offset == ip_len(headers.version)
        && headers.packet_len == len(packet)
}

/// Pseudo header without the length.
#[inline]
fn address_sum(packet: &[u8], version: Version, protocol: u8) -> Option<u64> {
    let range = match version {
        Version::V4 => 12..20,
        Version::V6 => 8..40,
    };
    Some(checksum::sum(packet.get(range)?) + u64::from(protocol))
}

/// Whether two IP headers are equal in all that a super-packet says once for all its packets; `next` is `count` packets
/// behind `first`.
#[inline]
fn same_ip_header(first: &[u8], next: &[u8], version: Version, count: u32) -> bool {
    match version {
        Version::V4 => {
            let (Some(first), Some(next)) = (first.first_chunk::<20>(), next.first_chunk::<20>()) else {
                return false;
            };
            let dont_fragment = next[6] & 0x40 != 0;
            first[12..20] == next[12..20]
                && first[6..10] == next[6..10]
                && first[..2] == next[..2]
                && (dont_fragment || read_u16(next, 4) == read_u16(first, 4).wrapping_add(count as u16))
        }
        Version::V6 => {
            let (Some(first), Some(next)) = (first.first_chunk::<40>(), next.first_chunk::<40>()) else {
                return false;
            };
            first[8..40] == next[8..40] && first[6..8] == next[6..8] && first[..4] == next[..4]
        }
    }
}

/// Whether the IPv4 header checksum is right, and the transport's checksum, `offset` bytes into its header, is partial or
/// complete and right.
#[inline]
fn checksums_right(
    packet: [&[u8]; 2],
    version: Version,
    (offload, offset): (Offload, u16),
    addresses: u64,
) -> bool {
    let start = ip_len(version);
    let Some((ip, transport)) = packet[0].split_at_checked(start) else { return false };
    // Sums of parts add up where the cut is even.
    if transport.len() % 2 != 0 && !packet[1].is_empty() {
        return false;
    }
    if version == Version::V4 && checksum::fold(checksum::sum(ip)) != 0xffff {
        return false;
    }
    let at = usize::from(offset);
    let Some(field) = transport.get(at..at + 2) else { return false };
    let field = u16::from_be_bytes([field[0], field[1]]);
    let pseudo = addresses + (transport.len() + packet[1].len()) as u64;
    match offload {
        Offload::None => {
            checksum::fold(pseudo + checksum::sum(transport) + checksum::sum(packet[1])) == 0xffff
        }
        Offload::Checksum { start: at, offset: open } => {
            usize::from(at) == start && open == offset && field == checksum::fold(pseudo)
        }
        Offload::Segments(_) => false,
    }
}
