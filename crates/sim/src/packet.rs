//! A packet: real headers, and data that has a length and no contents.
//!
//! The headers are bytes, because crate `trunk`, its classifier and its header compression read bytes, and because
//! a capture then needs nothing invented. The data is all zeros, which nobody stores.
//! docs/decisions/0011-simulated-packets.md has the cost.

mod addressing;
mod body;
#[cfg(test)]
mod tests;

use trunkline_packet::{Version, checksum, protocol};
use trunkline_queue::Item;
use trunkline_tcp::Segment;
use trunkline_units::{Instant, Region, Seq};

use crate::NodeId;
use crate::prefetch::prefetch;
use body::{BEGIN_IPV4, Body, DONT_FRAGMENT, MAX_HEADERS, MORE_FRAGMENTS, OFFSET, TRANSPORT, UDP};

pub use addressing::Addressing;
pub(crate) use body::{ICMP, IPV4, IPV6, MIN_MTU_IPV6};

/// A packet.
#[derive(Debug, Clone)]
pub struct Packet(Box<Body>);

/// Packets that were received, for those to come: the memory that was used last is still in the processor's caches.
#[derive(Debug, Default)]
pub(crate) struct SparePackets(Vec<Packet>);

impl SparePackets {
    /// More than these are given back.
    const MAX: usize = 64;

    #[inline]
    fn take(&mut self) -> Packet {
        self.0.pop().unwrap_or_else(Packet::blank)
    }

    /// Keeps the memory of a packet that nobody needs any more.
    #[inline]
    pub(crate) fn keep(&mut self, packet: Packet) {
        if self.0.len() < SparePackets::MAX {
            self.0.push(packet);
        }
    }
}

impl Packet {
    #[cold]
    fn blank() -> Self {
        Packet(Box::new(Body {
            sent: Instant::ZERO,
            hint: 0,
            duplication: 0,
            length: 0,
            end: 0,
            corrupted: false,
            bytes: [0; MAX_HEADERS],
        }))
    }

    /// A TCP segment; `id` is the IPv4 identification.
    #[inline]
    pub fn tcp(addressing: &Addressing, id: u16, segment: &Segment) -> Self {
        Self::blank().into_tcp(addressing, id, segment)
    }

    /// The same in memory that was used before.
    #[inline]
    pub(crate) fn tcp_reusing(
        spare: &mut SparePackets,
        addressing: &Addressing,
        id: u16,
        segment: &Segment,
    ) -> Self {
        spare.take().into_tcp(addressing, id, segment)
    }

    #[inline]
    fn into_tcp(mut self, addressing: &Addressing, id: u16, segment: &Segment) -> Self {
        let header_len = segment.write(addressing.ports, &mut self.0.bytes[TRANSPORT..]);
        let transport = (protocol::TCP, header_len, header_len as u32 + segment.payload);
        self.with(addressing, transport, (id, if segment.ecn_capable { 2 } else { 0 }))
    }

    /// A UDP datagram with so many bytes of data.
    #[inline]
    pub fn udp(addressing: &Addressing, id: u16, data: u32) -> Self {
        let mut packet = Self::blank();
        let header = &mut packet.0.bytes[TRANSPORT..];
        let length = UDP as u32 + data;
        header[..2].copy_from_slice(&addressing.ports.0.to_be_bytes());
        header[2..4].copy_from_slice(&addressing.ports.1.to_be_bytes());
        header[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        packet.with(addressing, (protocol::UDP, UDP, length), (id, 0))
    }

    /// A datagram with so many bytes of data, which begin with `front`.
    pub(crate) fn carrying(addressing: &Addressing, id: u16, front: &[u8], data: u32) -> Self {
        debug_assert!(front.len() <= data as usize);
        let mut packet = Self::udp(addressing, id, data);
        packet.0.bytes[TRANSPORT + UDP..][..front.len()].copy_from_slice(front);
        packet.0.end += front.len() as u8;
        packet
    }

    /// An ICMP error about `original`, whose headers it quotes: type, code, and the four bytes behind its checksum.
    pub(crate) fn icmp(
        addressing: &Addressing,
        id: u16,
        (kind, code, rest): (u8, u8, [u8; 4]),
        original: &Packet,
    ) -> Self {
        let mut packet = Self::blank();
        let message = &mut packet.0.bytes[TRANSPORT..];
        (message[0], message[1]) = (kind, code);
        message[4..ICMP].copy_from_slice(&rest);
        let (protocol, ip, max_length) = match addressing.version {
            // RFC 1812 §4.3.2.3
            Version::V4 => (protocol::ICMP, IPV4, 576),
            // RFC 4443 §2.4(c)
            Version::V6 => (protocol::ICMPV6, IPV6, MIN_MTU_IPV6),
        };
        let quoted = &original.header()[..(ip + 8).min(original.header().len())];
        message[ICMP..][..quoted.len()].copy_from_slice(quoted);
        let length = (ICMP as u32 + original.length()).min(max_length - ip as u32);
        packet.with(addressing, (protocol, ICMP + quoted.len(), length), (id, 0))
    }

    /// The packet whose transport header it has, of which so many bytes are kept and so many are behind the IP header; all else in it is
    /// an older one's.
    #[inline]
    fn with(
        mut self,
        addressing: &Addressing,
        (protocol, header_len, length): (u8, usize, u32),
        (id, ecn): (u16, u8),
    ) -> Self {
        let body = &mut *self.0;
        body.sent = Instant::ZERO;
        body.end = (TRANSPORT + header_len) as u8;
        (body.corrupted, body.hint, body.duplication) = (false, u32::MAX, 0);
        let traffic_class = addressing.dscp << 2 | ecn;
        match addressing.version {
            Version::V4 => body.write_ipv4(addressing, (protocol, length as u16), (id, traffic_class)),
            Version::V6 => body.write_ipv6(addressing, (protocol, length as u16), traffic_class),
        }
        self
    }

    /// Bytes of the whole packet.
    #[inline]
    pub fn length(&self) -> u32 {
        self.0.length.into()
    }

    #[inline]
    fn is_ipv6(&self) -> bool {
        self.0.is_ipv6()
    }

    /// Version of IP.
    pub fn version(&self) -> Version {
        if self.is_ipv6() { Version::V6 } else { Version::V4 }
    }

    /// Bytes behind its IP header.
    #[inline]
    pub(crate) fn transport_len(&self) -> usize {
        usize::from(self.0.length) - if self.is_ipv6() { IPV6 } else { IPV4 }
    }

    /// The same packet, sent by its first sender at this time.
    #[inline]
    #[must_use]
    pub(crate) fn sent_at(mut self, now: Instant) -> Self {
        self.0.sent = now;
        self
    }

    /// The same packet, with a place where its receiver may be.
    #[inline]
    #[must_use]
    pub(crate) fn hinted(mut self, hint: u32) -> Self {
        self.0.hint = hint;
        self
    }

    #[inline]
    pub(crate) fn hint(&self) -> u32 {
        self.0.hint
    }

    /// Which duplication it came of, from 1; 0: none.
    #[inline]
    pub(crate) fn duplication(&self) -> u32 {
        self.0.duplication
    }

    pub(crate) fn set_duplication(&mut self, duplication: u32) {
        self.0.duplication = duplication;
    }

    /// When its first sender sent it.
    #[inline]
    pub fn sent(&self) -> Instant {
        self.0.sent
    }

    /// Its headers.
    #[inline]
    pub fn header(&self) -> &[u8] {
        &self.0.bytes[self.0.begin()..usize::from(self.0.end)]
    }

    /// The headers behind the IP header.
    #[inline]
    pub(crate) fn transport(&self) -> &[u8] {
        &self.0.bytes[TRANSPORT..usize::from(self.0.end)]
    }

    /// The first bytes of a datagram's data, where it was [made](Packet::carrying) with some.
    pub(crate) fn front(&self) -> &[u8] {
        &self.transport()[UDP..]
    }

    /// The same packet with its headers put together again.
    pub(crate) fn rebuilt(mut self, bytes: &[u8], length: u32) -> Self {
        let body = &mut *self.0;
        // Behind the headers there may be the front of a datagram.
        debug_assert!(
            u32::from(body.length) == length && usize::from(body.end) >= body.begin() + bytes.len()
        );
        let begin = body.begin();
        body.bytes[begin..begin + bytes.len()].copy_from_slice(bytes);
        // Checksums are not kept: they are worked out where somebody looks.
        if !body.is_ipv6() {
            body.bytes[BEGIN_IPV4 + 10..BEGIN_IPV4 + 12].fill(0);
        }
        match body.protocol() {
            protocol::TCP => body.bytes[TRANSPORT + 16..TRANSPORT + 18].fill(0),
            protocol::UDP => body.bytes[TRANSPORT + 6..TRANSPORT + 8].fill(0),
            _ => {}
        }
        self
    }

    /// The same segment with another acknowledgement number.
    pub(crate) fn with_ack(mut self, ack: Seq) -> Self {
        self.0.bytes[TRANSPORT + 8..TRANSPORT + 12].copy_from_slice(&ack.0.to_be_bytes());
        self
    }

    /// The same segment with another window field.
    pub(crate) fn with_window(mut self, window: u16) -> Self {
        self.0.bytes[TRANSPORT + 14..TRANSPORT + 16].copy_from_slice(&window.to_be_bytes());
        self
    }

    pub(crate) fn set_ecn_capable(&mut self) {
        self.0.set_ecn(2);
    }

    /// Sender.
    #[inline]
    pub fn source(&self) -> NodeId {
        self.0.source()
    }

    /// Receiver.
    #[inline]
    pub fn destination(&self) -> NodeId {
        self.0.destination()
    }

    /// Protocol behind the IP header.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.0.protocol()
    }

    /// Whether it is an ICMP message of its version of IP.
    #[inline]
    pub(crate) fn is_icmp(&self) -> bool {
        self.protocol() == if self.is_ipv6() { protocol::ICMPV6 } else { protocol::ICMP }
    }

    /// Source and destination port; of a first fragment too.
    #[inline]
    pub fn ports(&self) -> (u16, u16) {
        self.0.ports()
    }

    /// The ECN field.
    #[inline]
    fn ecn(&self) -> u8 {
        if self.is_ipv6() { self.0.bytes[1] >> 4 & 3 } else { self.0.bytes[BEGIN_IPV4 + 1] & 3 }
    }

    /// Whether a queue may mark it, or has.
    #[inline]
    pub(crate) fn ecn_capable(&self) -> bool {
        self.ecn() != 0
    }

    /// Whether a queue may mark it, or has, and whether it is marked CE.
    #[inline]
    pub(crate) fn ecn_of_segment(&self) -> (bool, bool) {
        let ecn = self.ecn();
        (ecn != 0, ecn == 3)
    }

    /// Whether it is marked CE.
    #[inline]
    pub fn congestion_experienced(&self) -> bool {
        self.ecn() == 3
    }

    /// Whether its data was damaged on the way, which its receiver finds out.
    #[inline]
    pub fn is_corrupted(&self) -> bool {
        self.0.corrupted
    }

    pub(crate) fn set_corrupted(&mut self) {
        self.0.corrupted = true;
    }

    /// Decrements the TTL or hop limit; `false` if it expired.
    #[inline]
    pub(crate) fn take_hop(&mut self) -> bool {
        let at = if self.is_ipv6() { 7 } else { BEGIN_IPV4 + 8 };
        let left = &mut self.0.bytes[at];
        *left = left.saturating_sub(1);
        *left > 0
    }

    /// IPv4 identification.
    pub(crate) fn id(&self) -> u16 {
        self.0.word(BEGIN_IPV4 + 4)
    }

    #[cfg(test)]
    pub(crate) fn set_id(&mut self, id: u16) {
        self.0.bytes[BEGIN_IPV4 + 4..BEGIN_IPV4 + 6].copy_from_slice(&id.to_be_bytes());
    }

    /// Flags and offset of an IPv4 packet. No IPv6 packet is a fragment here.
    #[inline]
    fn fragment_field(&self) -> u16 {
        if self.is_ipv6() { DONT_FRAGMENT } else { self.0.word(BEGIN_IPV4 + 6) }
    }

    /// Whether it is a fragment.
    #[inline]
    pub(crate) fn is_fragment(&self) -> bool {
        self.fragment_field() & (MORE_FRAGMENTS | OFFSET) != 0
    }

    /// Whether routers may not fragment it.
    pub(crate) fn dont_fragment(&self) -> bool {
        self.fragment_field() & DONT_FRAGMENT != 0
    }

    /// Where a fragment's data begins in the whole, its length, and whether more follows.
    pub(crate) fn fragment(&self) -> (u32, u32, bool) {
        let field = self.fragment_field();
        (u32::from(field & OFFSET) * 8, self.transport_len() as u32, field & MORE_FRAGMENTS != 0)
    }

    /// A fragment of an IPv4 packet (RFC 791 §3.2) with the data from `start` on, `len` bytes, of which the last fragment of a
    /// whole packet has whatever is left. A fragment of a fragment is one of the whole.
    pub(crate) fn cut(&self, start: u32, len: u32) -> Self {
        let (offset, data, more) = self.fragment();
        let mut fragment = self.clone();
        if start > 0 {
            // What of the transport header lies beyond this place is not kept apart from data.
            fragment.0.end = TRANSPORT as u8;
        }
        let more = more || start + len < data;
        let field = ((offset + start) / 8) as u16 | if more { MORE_FRAGMENTS } else { 0 };
        fragment.0.set_fragment(len, field);
        fragment
    }

    /// The whole of `data` bytes that this first fragment is the start of.
    pub(crate) fn whole(mut self, data: u32) -> Self {
        self.0.set_fragment(data, 0);
        self
    }

    /// Its headers with the checksums they would have on a wire, for captures.
    pub fn checksummed(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.header());
        let (ip, protocol) = (TRANSPORT - self.0.begin(), self.protocol());
        if !self.is_ipv6() {
            let sum = checksum::ipv4_header_checksum(&out[..ip]);
            out[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let (at, has_pseudo_header) = match protocol {
            protocol::TCP if out.len() >= ip + 18 => (ip + 16, true),
            protocol::UDP if out.len() >= ip + UDP => (ip + 6, true),
            protocol::ICMPV6 => (ip + 2, true),
            protocol::ICMP => (ip + 2, false),
            _ => return,
        };
        if self.is_fragment() && has_pseudo_header {
            return;
        }
        let pseudo_header = if has_pseudo_header {
            let [source, destination] =
                [self.source(), self.destination()].map(|node| node.ip(self.version()));
            checksum::pseudo_header(source, destination, protocol, self.transport_len() as u32)
        } else {
            0
        };
        // The data is zeros, which add nothing.
        let mut sum = !checksum::fold(pseudo_header + checksum::sum(&out[ip..]));
        if sum == 0 && protocol == protocol::UDP && self.is_ipv6() {
            // Zero would say that there is none (RFC 8200 §8.1).
            sum = u16::MAX;
        }
        out[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

impl Item for Packet {
    #[inline]
    fn bytes(&self) -> usize {
        self.0.length.into()
    }

    #[inline]
    fn flow(&self) -> u64 {
        if self.is_ipv6() { self.0.flow_ipv6() } else { self.0.flow_ipv4() }
    }

    #[inline]
    fn is_ecn_capable(&self) -> bool {
        self.ecn_capable()
    }

    fn mark(&mut self) {
        self.0.set_ecn(3);
    }

    #[inline]
    fn prefetch(&self) {
        prefetch(Region::of(&*self.0));
    }

    #[inline]
    fn prefetch_place(place: Region) {
        prefetch(place);
    }
}

impl trunkline_trunk::Packet for Packet {
    #[inline]
    fn prefix(&self) -> &[u8] {
        self.header()
    }
}
