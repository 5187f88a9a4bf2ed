//! The work that remains on a packet, and whether it is consistent with the packet.
//!
//! A packet that leaves a host through a device with offloads is unfinished. Its transport checksum field holds the
//! uncomplemented sum of the pseudo header alone ("partial"), and it may be a *super-packet*: one header followed
//! by the data of many segments. The partial sum of a super-packet covers the length of the whole.
//!
//! The offload of a packet from a peer decides where the kernel will write and how many packets it will make, so
//! [`Offload::check`] refuses every offload that does not agree with the packet's own headers.

use crate::{Fragment, Headers, OffloadError, TcpView, UdpView, Version, protocol};

/// The largest number of datagrams in one UDP super-packet: `UDP_MAX_SEGMENTS` of Linux.
const UDP_SEGMENT_LIMIT: u32 = 128;
/// The largest number of segments in one TCP super-packet. `GSO_MAX_SEGS` of Linux is 65 535, which no sender reaches: Linux sends no segment that an
/// MSS below 48 asks for (`net.ipv4.tcp_min_snd_mss`), of which timestamps leave 36 bytes of data, and 64 KiB of those are 1821. The kernel
/// makes all the packets of one before it returns, at about 1.5 µs each.
const TCP_SEGMENT_LIMIT: u32 = 2048;
/// The fewest bytes of data in a segment of a TCP super-packet: `TCP_MIN_GSO_SIZE` of Linux, that same MSS with all the options there can be.
/// Without it a few bytes from a peer would cost as many packets.
const TCP_SEGMENT_MIN: u16 = 8;

/// What a packet still needs done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Offload {
    /// Nothing: the packet is complete.
    #[default]
    None,
    /// The checksum has to be completed.
    Checksum {
        /// Bytes of packet before the first byte that is summed.
        start: u16,
        /// Bytes from there to the checksum field.
        offset: u16,
    },
    /// It has to be segmented, and each segment's checksum completed.
    Segments(Segmentation),
}

/// The transport protocol of a super-packet, as virtio-net names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over either.
    Udp,
}

/// How to segment a super-packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segmentation {
    /// Its protocol.
    pub kind: SegmentKind,
    /// The first segment, and only that one, carries TCP's CWR flag.
    pub ecn: bool,
    /// Data in each segment but the last, in bytes.
    pub size: u16,
    /// Bytes of header that every segment repeats, IP and transport.
    pub header_len: u16,
    /// Bytes before the transport header.
    pub checksum_start: u16,
    /// Bytes from there to the checksum field.
    pub checksum_offset: u16,
}

impl SegmentKind {
    /// Bytes in the transport header: shortest and longest.
    fn header_range(self) -> (usize, usize) {
        match self {
            Self::Tcp4 | Self::Tcp6 => (20, 60),
            Self::Udp => (8, 8),
        }
    }

    fn checksum_offset(self) -> u16 {
        match self {
            Self::Tcp4 | Self::Tcp6 => 16,
            Self::Udp => 6,
        }
    }

    /// The largest number of segments in a super-packet.
    fn segment_limit(self) -> u32 {
        match self {
            Self::Tcp4 | Self::Tcp6 => TCP_SEGMENT_LIMIT,
            Self::Udp => UDP_SEGMENT_LIMIT,
        }
    }

    /// The fewest bytes of data in a segment that is not the last.
    fn min_size(self) -> u16 {
        match self {
            Self::Tcp4 | Self::Tcp6 => TCP_SEGMENT_MIN,
            Self::Udp => 1,
        }
    }

    fn fits(self, headers: &Headers) -> bool {
        match self {
            Self::Tcp4 => headers.version == Version::V4 && headers.protocol == protocol::TCP,
            Self::Tcp6 => headers.version == Version::V6 && headers.protocol == protocol::TCP,
            Self::Udp => headers.protocol == protocol::UDP,
        }
    }
}

impl Segmentation {
    /// Bytes of data in a super-packet of `packet_len` bytes.
    #[inline]
    pub fn payload_len(&self, packet_len: usize) -> usize {
        packet_len.saturating_sub(usize::from(self.header_len))
    }

    /// Packets that a super-packet of `packet_len` bytes stands for, at least one.
    #[inline]
    pub fn segments(&self, packet_len: usize) -> u32 {
        let size = usize::from(self.size).max(1);
        self.payload_len(packet_len).div_ceil(size).max(1) as u32
    }

    /// Bytes in the longest of these packets.
    #[inline]
    pub fn longest(&self, packet_len: usize) -> usize {
        packet_len.min(usize::from(self.header_len) + usize::from(self.size))
    }

    fn check(&self, headers: &Headers) -> Result<(), OffloadError> {
        let kind = self.kind;
        if !kind.fits(headers) {
            let Headers { version, protocol, .. } = *headers;
            return Err(OffloadError::KindMismatch { kind, version, protocol });
        }
        let (min, have) = (kind.min_size(), self.size);
        if have < min || have == u16::MAX {
            return Err(OffloadError::SegmentSize { min, have });
        }
        check_checksum(self.checksum_start, self.checksum_offset, kind.checksum_offset(), headers)?;
        let have = usize::from(self.header_len);
        let (min, max) = kind.header_range();
        let (min, max) = (headers.transport_offset + min, headers.transport_offset + max);
        if have < min || have > max {
            return Err(OffloadError::HeaderLength { min, max, have });
        }
        if have > headers.packet_len {
            return Err(OffloadError::Truncated { need: have, have: headers.packet_len });
        }
        let (segments, limit) = (self.segments(headers.packet_len), kind.segment_limit());
        if segments > limit {
            return Err(OffloadError::SegmentCount { have: segments, limit });
        }
        Ok(())
    }
}

impl Offload {
    /// Checks the offload against the headers of its packet, whoever sent it.
    ///
    /// For an offload just read from a local TUN use [`Offload::normalise`]: Linux puts anything from the length
    /// of the headers up to that of a buffer into the header length.
    #[inline]
    pub fn check(&self, headers: &Headers) -> Result<(), OffloadError> {
        match self {
            Self::None => Ok(()),
            _ if headers.fragment != Fragment::Whole => Err(OffloadError::Fragment),
            Self::Checksum { start, offset } => {
                // Anywhere else the kernel would write over a header that a firewall has already judged.
                let need = match headers.protocol {
                    protocol::TCP => 16,
                    protocol::UDP | protocol::UDP_LITE | protocol::DCCP => 6,
                    protocol::ICMP | protocol::ICMPV6 => 2,
                    protocol => return Err(OffloadError::NoChecksum { protocol }),
                };
                check_checksum(*start, *offset, need, headers)
            }
            Self::Segments(segmentation) => segmentation.check(headers),
        }
    }

    /// Takes the header length from the packet instead of the offload, then checks all of it; of a UDP
    /// super-packet also the UDP length. `prefix` is the first part of the packet and must hold all headers.
    #[inline]
    pub fn normalise(self, prefix: &[u8], headers: &Headers) -> Result<Self, OffloadError> {
        let Self::Segments(mut segmentation) = self else {
            return self.check(headers).map(|()| self);
        };
        // What follows reads the header of this kind, so the kind has to be right first.
        if headers.fragment != Fragment::Whole {
            return Err(OffloadError::Fragment);
        }
        if !segmentation.kind.fits(headers) {
            let Headers { version, protocol, .. } = *headers;
            return Err(OffloadError::KindMismatch { kind: segmentation.kind, version, protocol });
        }
        let start = headers.transport_offset;
        let (min, _) = segmentation.kind.header_range();
        let truncated = |need: usize| OffloadError::Truncated { need: start + need, have: prefix.len() };
        let transport = prefix.get(start..).ok_or_else(|| truncated(min))?;
        let header_len = match segmentation.kind {
            SegmentKind::Udp => {
                let udp = UdpView::new(transport).map_err(|_| truncated(min))?;
                let (need, have) = (headers.transport_len(), usize::from(udp.length()));
                if need != have {
                    return Err(OffloadError::UdpLength { need, have });
                }
                start + min
            }
            SegmentKind::Tcp4 | SegmentKind::Tcp6 => {
                let claimed = transport.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
                let tcp = TcpView::new(transport).map_err(|_| truncated(claimed.max(min)))?;
                start + tcp.header_len()
            }
        };
        segmentation.header_len = header_len as u16;
        segmentation.check(headers)?;
        Ok(Self::Segments(segmentation))
    }

    /// Packets that a packet of `packet_len` bytes stands for: 1 unless it is a super-packet.
    #[inline]
    pub fn segments(&self, packet_len: usize) -> u32 {
        match self {
            Self::Segments(segmentation) => segmentation.segments(packet_len),
            _ => 1,
        }
    }

    /// Bytes that these packets have together once each has its own headers.
    #[inline]
    pub fn wire_len(&self, packet_len: usize) -> usize {
        match self {
            Self::Segments(segmentation) => {
                let copies = segmentation.segments(packet_len) as usize - 1;
                packet_len + copies * usize::from(segmentation.header_len)
            }
            _ => packet_len,
        }
    }
}

fn check_checksum(start: u16, offset: u16, need: u16, headers: &Headers) -> Result<(), OffloadError> {
    let have = usize::from(start);
    if have != headers.transport_offset {
        return Err(OffloadError::ChecksumStart { need: headers.transport_offset, have });
    }
    if need != offset {
        return Err(OffloadError::ChecksumOffset { need, have: offset });
    }
    let need = have + usize::from(offset) + 2;
    if need > headers.packet_len {
        return Err(OffloadError::Truncated { need, have: headers.packet_len });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
