//! A packet: real headers, and data that has a length and no contents.
//!
//! The headers are bytes, because crate `trunk`, its classifier and its header compression read bytes, and because
//! a capture then needs nothing invented. The data is all zeros, which nobody stores.
//! docs/decisions/0011-simulated-packets.md has the cost.

use std::net::{IpAddr, Ipv4Addr};

use trunkline_packet::{checksum, protocol};
use trunkline_queue::Item;
use trunkline_tcp::Segment;
use trunkline_units::{Instant, Seq, prefetch};

/// Bytes of an IPv4 header without options: the only kind there is here.
pub(crate) const IP: usize = 20;
const UDP: usize = 8;
pub(crate) const ICMP: usize = 8;
/// Bytes of a packet in an error about it: no error is longer than 576 bytes (RFC 1812 §4.3.2.3).
const MAX_QUOTED: u32 = 548;
const MAX_HEADERS: usize = IP + Segment::MAX_HEADER_LEN;
const HOPS: u8 = 64;
const MORE_FRAGMENTS: u16 = 0x2000;
const DONT_FRAGMENT: u16 = 0x4000;
const OFFSET: u16 = 0x1fff;

/// A packet.
#[derive(Debug, Clone)]
pub struct Packet(Box<Body>);

#[derive(Debug, Clone)]
struct Body {
    flow: u64,
    sent: Instant,
    length: u32,
    header_len: u8,
    corrupted: bool,
    /// The connection that probably receives it, to look up first.
    hint: u32,
    /// Which duplication it came of, from 1; 0: none.
    duplication: u32,
    header: [u8; MAX_HEADERS],
}

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

/// What tells the packets of one flow from others, worked out once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addressing {
    /// Sender's address.
    pub source: Ipv4Addr,
    /// Receiver's address.
    pub destination: Ipv4Addr,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Differentiated services code point.
    pub dscp: u8,
    /// Whether routers may not fragment.
    pub dont_fragment: bool,
    hash: u64,
}

impl Addressing {
    /// Of packets of a protocol from one address and port to another.
    pub fn new(protocol: u8, source: (Ipv4Addr, u16), destination: (Ipv4Addr, u16), dscp: u8) -> Self {
        let ports = (source.1, destination.1);
        let addresses = (u64::from(u32::from(source.0)), u64::from(u32::from(destination.0)));
        let ends = u64::from(ports.0) << 32 | u64::from(ports.1) << 16 | u64::from(protocol);
        let hash = mix(mix(addresses.0, addresses.1), ends);
        Addressing { source: source.0, destination: destination.0, ports, dscp, dont_fragment: false, hash }
    }
}

/// Mixes two numbers into one, by which the queues of links tell flows apart. It needs no key: nobody in a simulation
/// chooses its ports to meet somebody else.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xbf58_476d_1ce4_e5b9);
    (product >> 64) as u64 ^ product as u64
}

impl Packet {
    #[cold]
    fn blank() -> Self {
        Packet(Box::new(Body {
            flow: 0,
            sent: Instant::ZERO,
            length: 0,
            header_len: 0,
            corrupted: false,
            hint: 0,
            duplication: 0,
            header: [0; MAX_HEADERS],
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
        let transport = segment.write(addressing.ports, &mut self.0.header[IP..]);
        let length = IP + transport + segment.payload as usize;
        let ecn = if segment.ecn_capable { 2 } else { 0 };
        self.with(addressing, (protocol::TCP, IP + transport), (length as u32, id, ecn))
    }

    /// A UDP datagram with so many bytes of data.
    #[inline]
    pub fn udp(addressing: &Addressing, id: u16, data: u32) -> Self {
        let mut packet = Self::blank();
        let header = &mut packet.0.header;
        header[IP..IP + 2].copy_from_slice(&addressing.ports.0.to_be_bytes());
        header[IP + 2..IP + 4].copy_from_slice(&addressing.ports.1.to_be_bytes());
        header[IP + 4..IP + 6].copy_from_slice(&((UDP as u32 + data) as u16).to_be_bytes());
        let length = (IP + UDP) as u32 + data;
        packet.with(addressing, (protocol::UDP, IP + UDP), (length, id, 0))
    }

    /// A datagram with so many bytes of data, which begin with `front`.
    pub(crate) fn carrying(addressing: &Addressing, id: u16, front: &[u8], data: u32) -> Self {
        debug_assert!(front.len() <= data as usize);
        let mut packet = Self::udp(addressing, id, data);
        packet.0.header[IP + UDP..IP + UDP + front.len()].copy_from_slice(front);
        packet.0.header_len += front.len() as u8;
        packet
    }

    /// An ICMP error about `original`, whose headers it quotes: type, code, and the last of its rest (RFC 792).
    pub(crate) fn icmp(
        addressing: &Addressing,
        id: u16,
        (kind, code, rest): (u8, u8, u16),
        original: &Packet,
    ) -> Self {
        let mut packet = Self::blank();
        let header = &mut packet.0.header;
        (header[IP], header[IP + 1]) = (kind, code);
        header[IP + 6..IP + 8].copy_from_slice(&rest.to_be_bytes());
        let quoted = &original.header()[..(IP + 8).min(original.header().len())];
        let begins = IP + ICMP;
        header[begins..begins + quoted.len()].copy_from_slice(quoted);
        let length = begins as u32 + original.length().min(MAX_QUOTED);
        packet.with(addressing, (protocol::ICMP, begins + quoted.len()), (length, id, 0))
    }

    /// The packet whose transport header it has; all else in it is an older one's.
    #[inline]
    fn with(
        mut self,
        addressing: &Addressing,
        (protocol, header_len): (u8, usize),
        (length, id, ecn): (u32, u16, u8),
    ) -> Self {
        let body = &mut *self.0;
        let header = &mut body.header;
        header[0] = 0x45;
        header[1] = addressing.dscp << 2 | ecn;
        header[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        header[4..6].copy_from_slice(&id.to_be_bytes());
        let flags = if addressing.dont_fragment { DONT_FRAGMENT } else { 0 };
        header[6..8].copy_from_slice(&flags.to_be_bytes());
        header[8] = HOPS;
        header[9] = protocol;
        header[10..12].fill(0);
        header[12..16].copy_from_slice(&addressing.source.octets());
        header[16..20].copy_from_slice(&addressing.destination.octets());
        (body.flow, body.sent) = (addressing.hash, Instant::ZERO);
        (body.length, body.header_len) = (length, header_len as u8);
        (body.corrupted, body.hint, body.duplication) = (false, u32::MAX, 0);
        self
    }

    /// Bytes of the whole packet.
    #[inline]
    pub fn length(&self) -> u32 {
        self.0.length
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
        &self.0.header[..usize::from(self.0.header_len)]
    }

    /// The headers behind the IP header.
    #[inline]
    pub(crate) fn transport(&self) -> &[u8] {
        &self.0.header[IP..usize::from(self.0.header_len)]
    }

    /// The first bytes of a datagram's data, where it was [made](Packet::carrying) with some.
    pub(crate) fn front(&self) -> &[u8] {
        &self.0.header[IP + UDP..usize::from(self.0.header_len)]
    }

    /// The same packet with its headers put together again.
    pub(crate) fn rebuilt(mut self, bytes: &[u8], length: u32) -> Self {
        let body = &mut *self.0;
        body.header[..bytes.len()].copy_from_slice(bytes);
        // Checksums are not kept: they are worked out where somebody looks.
        body.header[10..12].fill(0);
        match body.header[9] {
            protocol::TCP => body.header[IP + 16..IP + 18].fill(0),
            protocol::UDP => body.header[IP + 6..IP + 8].fill(0),
            _ => {}
        }
        // Behind the headers there may be the front of a datagram.
        debug_assert!(body.length == length && usize::from(body.header_len) >= bytes.len());
        self
    }

    /// The same segment with another acknowledgement number.
    pub(crate) fn with_ack(mut self, ack: Seq) -> Self {
        self.0.header[IP + 8..IP + 12].copy_from_slice(&ack.0.to_be_bytes());
        self
    }

    /// The same segment with another window field.
    pub(crate) fn with_window(mut self, window: u16) -> Self {
        self.0.header[IP + 14..IP + 16].copy_from_slice(&window.to_be_bytes());
        self
    }

    pub(crate) fn set_ecn_capable(&mut self) {
        self.0.header[1] |= 2;
    }

    /// Sender's address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.0.header[12], self.0.header[13], self.0.header[14], self.0.header[15])
    }

    /// Receiver's address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.0.header[16], self.0.header[17], self.0.header[18], self.0.header[19])
    }

    /// Protocol behind the IP header.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.0.header[9]
    }

    /// Source and destination port; of a first fragment too.
    #[inline]
    pub fn ports(&self) -> (u16, u16) {
        let at = |at: usize| u16::from_be_bytes([self.0.header[at], self.0.header[at + 1]]);
        (at(IP), at(IP + 2))
    }

    /// Whether a queue may mark it, or has.
    #[inline]
    pub(crate) fn ecn_capable(&self) -> bool {
        self.0.header[1] & 3 != 0
    }

    /// Whether it is marked CE.
    #[inline]
    pub fn congestion_experienced(&self) -> bool {
        self.0.header[1] & 3 == 3
    }

    /// Whether its data was damaged on the way, which its receiver finds out.
    #[inline]
    pub fn is_corrupted(&self) -> bool {
        self.0.corrupted
    }

    pub(crate) fn set_corrupted(&mut self) {
        self.0.corrupted = true;
    }

    /// Decrements the TTL; `false` if it expired.
    #[inline]
    pub(crate) fn take_hop(&mut self) -> bool {
        let left = &mut self.0.header[8];
        *left = left.saturating_sub(1);
        *left > 0
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0.header[at], self.0.header[at + 1]])
    }

    /// IPv4 identification.
    pub(crate) fn id(&self) -> u16 {
        self.word(4)
    }

    #[cfg(test)]
    pub(crate) fn set_id(&mut self, id: u16) {
        self.0.header[4..6].copy_from_slice(&id.to_be_bytes());
    }

    /// Whether it is a fragment.
    #[inline]
    pub(crate) fn is_fragment(&self) -> bool {
        self.word(6) & (MORE_FRAGMENTS | OFFSET) != 0
    }

    /// Whether it may not be fragmented.
    pub(crate) fn dont_fragment(&self) -> bool {
        self.word(6) & DONT_FRAGMENT != 0
    }

    /// Where a fragment's data begins in the whole, its length, and whether more follows.
    pub(crate) fn fragment(&self) -> (u32, u32, bool) {
        let field = self.word(6);
        (u32::from(field & OFFSET) * 8, self.0.length - IP as u32, field & MORE_FRAGMENTS != 0)
    }

    /// A fragment of it (RFC 791 §3.2) with the data from `start` on, `len` bytes, of which the last fragment of a
    /// whole packet has whatever is left. A fragment of a fragment is one of the whole.
    pub(crate) fn cut(&self, start: u32, len: u32) -> Self {
        let (offset, data, more) = self.fragment();
        let mut fragment = self.clone();
        let body = &mut *fragment.0;
        body.length = IP as u32 + len;
        if start > 0 {
            // What of the transport header lies beyond this place is not kept apart from data.
            body.header_len = IP as u8;
        }
        let more = more || start + len < data;
        let field = ((offset + start) / 8) as u16 | if more { MORE_FRAGMENTS } else { 0 };
        body.header[2..4].copy_from_slice(&(body.length as u16).to_be_bytes());
        body.header[6..8].copy_from_slice(&field.to_be_bytes());
        fragment
    }

    /// The whole of `data` bytes that this first fragment is the start of.
    pub(crate) fn whole(mut self, data: u32) -> Self {
        let body = &mut *self.0;
        body.length = IP as u32 + data;
        body.header[2..4].copy_from_slice(&(body.length as u16).to_be_bytes());
        body.header[6..8].fill(0);
        self
    }

    /// Its headers with the checksums they would have on a wire, for captures.
    pub fn checksummed(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.header());
        let sum = checksum::ipv4_header_checksum(&out[..IP]);
        out[10..12].copy_from_slice(&sum.to_be_bytes());
        let at = match self.protocol() {
            protocol::TCP if out.len() >= IP + 18 => IP + 16,
            protocol::UDP if out.len() >= IP + UDP => IP + 6,
            protocol::ICMP => {
                let sum = !checksum::fold(checksum::sum(&out[IP..]));
                out[IP + 2..IP + 4].copy_from_slice(&sum.to_be_bytes());
                return;
            }
            _ => return,
        };
        if self.is_fragment() {
            return;
        }
        let length = self.0.length - IP as u32;
        let addresses = (IpAddr::V4(self.source()), IpAddr::V4(self.destination()));
        // The data is zeros, which add nothing.
        let total = checksum::pseudo_header(addresses.0, addresses.1, self.protocol(), length)
            + checksum::sum(&out[IP..]);
        let sum = !checksum::fold(total);
        out[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

impl Item for Packet {
    #[inline]
    fn bytes(&self) -> usize {
        self.0.length as usize
    }

    #[inline]
    fn flow(&self) -> u64 {
        self.0.flow
    }

    #[inline]
    fn is_ecn_capable(&self) -> bool {
        self.ecn_capable()
    }

    fn mark(&mut self) {
        self.0.header[1] |= 3;
    }

    #[inline]
    fn prefetch(&self) {
        prefetch(&*self.0);
    }
}

impl trunkline_trunk::Packet for Packet {
    #[inline]
    fn prefix(&self) -> &[u8] {
        self.header()
    }
}
