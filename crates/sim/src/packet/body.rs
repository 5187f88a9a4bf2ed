//! The headers of a packet as bytes, and what is known of it beside them.
//!
//! The transport header stands at one place whatever the version of IP, so that a network of IPv4 alone does not pay for IPv6.

use trunkline_packet::{Version, protocol};
use trunkline_tcp::Segment;
use trunkline_units::Instant;

use super::addressing::{Addressing, flow_hash};
use crate::NodeId;

/// Bytes of an IPv4 header without options, and of an IPv6 header without extensions: the only kinds there are here.
pub(crate) const IPV4: usize = 20;
pub(crate) const IPV6: usize = 40;
pub(super) const UDP: usize = 8;
pub(crate) const ICMP: usize = 8;
pub(super) const MAX_HEADERS: usize = IPV6 + Segment::MAX_HEADER_LEN;
/// What every link of an IPv6 path takes (RFC 8200 §5).
pub(crate) const MIN_MTU_IPV6: u32 = 1280;
const HOPS: u8 = 64;
pub(super) const MORE_FRAGMENTS: u16 = 0x2000;
pub(super) const DONT_FRAGMENT: u16 = 0x4000;
pub(super) const OFFSET: u16 = 0x1fff;

/// Where an IPv4 header begins in a packet's headers. An IPv6 header begins at 0, so that the transport header is at one place.
pub(super) const BEGIN_IPV4: usize = IPV6 - IPV4;
pub(super) const TRANSPORT: usize = IPV6;
/// Where an IPv4 packet keeps the hash of its flow, in front of its header.
const FLOW: std::ops::Range<usize> = 8..16;

/// Its size is 120 bytes, which the usual allocator stores in 128.
#[derive(Debug, Clone)]
pub(super) struct Body {
    pub(super) sent: Instant,
    /// The connection that probably receives it, to look up first.
    pub(super) hint: u32,
    /// Which duplication it came of, from 1; 0: none.
    pub(super) duplication: u32,
    pub(super) length: u16,
    /// Where its headers end in `bytes`.
    pub(super) end: u8,
    pub(super) corrupted: bool,
    /// The headers of an IPv6 packet from the front on; in front of those of an IPv4 packet first a zero, and the hash of its flow.
    pub(super) bytes: [u8; MAX_HEADERS],
}

impl Body {
    /// The first byte of an IPv6 header is not zero.
    #[inline]
    pub(super) fn is_ipv6(&self) -> bool {
        self.bytes[0] != 0
    }

    /// Where the IP header begins.
    #[inline]
    pub(super) fn begin(&self) -> usize {
        if self.is_ipv6() { 0 } else { BEGIN_IPV4 }
    }

    #[inline]
    pub(super) fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    #[inline]
    pub(super) fn protocol(&self) -> u8 {
        self.bytes[if self.is_ipv6() { 6 } else { BEGIN_IPV4 + 9 }]
    }

    #[inline]
    pub(super) fn ports(&self) -> (u16, u16) {
        (self.word(TRANSPORT), self.word(TRANSPORT + 2))
    }

    #[inline]
    pub(super) fn flow_ipv4(&self) -> u64 {
        let mut hash = [0; 8];
        hash.copy_from_slice(&self.bytes[FLOW]);
        u64::from_ne_bytes(hash)
    }

    #[inline(never)]
    pub(super) fn flow_ipv6(&self) -> u64 {
        let protocol = self.protocol();
        let ports = if protocol == protocol::ICMPV6 { (0, 0) } else { self.ports() };
        flow_hash((Version::V6, protocol), (self.source(), self.destination()), ports)
    }

    #[inline]
    pub(super) fn source(&self) -> NodeId {
        NodeId(self.word(if self.is_ipv6() { 21 } else { BEGIN_IPV4 + 13 }).into())
    }

    /// The node's number is at one place in the addresses of both versions, which end where the IP header does.
    #[inline]
    pub(super) fn destination(&self) -> NodeId {
        NodeId(self.word(TRANSPORT - 3).into())
    }

    /// Sets bits of the ECN field.
    pub(super) fn set_ecn(&mut self, bits: u8) {
        if self.is_ipv6() {
            self.bytes[1] |= bits << 4;
        } else {
            self.bytes[BEGIN_IPV4 + 1] |= bits;
        }
    }

    /// Makes an IPv4 packet one of so many bytes of data, with these flags and this offset.
    pub(super) fn set_fragment(&mut self, data: u32, field: u16) {
        self.length = (IPV4 as u32 + data) as u16;
        let header = &mut self.bytes[BEGIN_IPV4..];
        header[2..4].copy_from_slice(&self.length.to_be_bytes());
        header[6..8].copy_from_slice(&field.to_be_bytes());
    }

    #[inline]
    pub(super) fn write_ipv4(
        &mut self,
        addressing: &Addressing,
        (protocol, length): (u8, u16),
        (id, traffic_class): (u16, u8),
    ) {
        self.length = length + IPV4 as u16;
        self.bytes[0] = 0;
        self.bytes[FLOW].copy_from_slice(&addressing.hash.to_ne_bytes());
        let header = &mut self.bytes[BEGIN_IPV4..TRANSPORT];
        header[0] = 0x45;
        header[1] = traffic_class;
        header[2..4].copy_from_slice(&self.length.to_be_bytes());
        header[4..6].copy_from_slice(&id.to_be_bytes());
        let flags = if addressing.dont_fragment { DONT_FRAGMENT } else { 0 };
        header[6..8].copy_from_slice(&flags.to_be_bytes());
        header[8] = HOPS;
        header[9] = protocol;
        header[10..12].fill(0);
        header[12..16].copy_from_slice(&addressing.source.ipv4().to_be_bytes());
        header[16..20].copy_from_slice(&addressing.destination.ipv4().to_be_bytes());
    }

    /// With a flow label that is the same for all packets of a flow (RFC 6437 §2).
    #[inline]
    pub(super) fn write_ipv6(
        &mut self,
        addressing: &Addressing,
        (protocol, length): (u8, u16),
        traffic_class: u8,
    ) {
        self.length = length + IPV6 as u16;
        let header = &mut self.bytes[..TRANSPORT];
        let label = addressing.hash as u32 & 0xf_ffff;
        let first = 6 << 28 | u32::from(traffic_class) << 20 | label;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[6] = protocol;
        header[7] = HOPS;
        header[8..24].copy_from_slice(&addressing.source.ipv6().to_be_bytes());
        header[24..40].copy_from_slice(&addressing.destination.ipv6().to_be_bytes());
    }
}
