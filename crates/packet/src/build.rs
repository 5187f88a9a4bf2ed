//! Packets for tests, here and in other crates: they allocate, and nothing on a packet path uses them.

pub mod forwardable;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Offload, SegmentKind, Segmentation, TcpFlags, checksum, protocol};

/// What goes into the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip {
    /// Sender's address; its version makes the packet's.
    pub source: IpAddr,
    /// Receiver's address, of the same version.
    pub destination: IpAddr,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// IPv4 identification.
    pub id: u16,
    /// IPv4 "don't fragment".
    pub dont_fragment: bool,
}

impl Ip {
    /// From 192.0.2.1 to 198.51.100.2, TTL 64, DF set.
    pub const fn v4() -> Self {
        Self {
            source: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            destination: IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)),
            traffic_class: 0,
            hop_limit: 64,
            id: 1,
            dont_fragment: true,
        }
    }

    /// From `2001:db8::1` to `2001:db8:1::2`, hop limit 64.
    pub const fn v6() -> Self {
        Self {
            source: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
            destination: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2)),
            ..Self::v4()
        }
    }

    fn header_len(&self) -> usize {
        if self.source.is_ipv4() { 20 } else { 40 }
    }
}

/// What goes into the TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp<'a> {
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags.
    pub flags: TcpFlags,
    /// Window field.
    pub window: u16,
    /// Options with padding: a multiple of four, at most 40 bytes.
    pub options: &'a [u8],
}

impl Default for Tcp<'_> {
    fn default() -> Self {
        Self { ports: (40_000, 443), seq: 1, ack: 1, flags: TcpFlags::ACK, window: 512, options: &[] }
    }
}

/// An IP packet around `transport`, header and data, which is taken as it is.
///
/// # Panics
///
/// If it does not fit into an IP packet.
pub fn ip(ip: &Ip, protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(ip.header_len() + transport.len());
    match (ip.source, ip.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total = u16::try_from(20 + transport.len()).expect("fits into IPv4");
            packet.extend([0x45, ip.traffic_class]);
            packet.extend(total.to_be_bytes());
            packet.extend(ip.id.to_be_bytes());
            packet.extend([u8::from(ip.dont_fragment) << 6, 0, ip.hop_limit, protocol, 0, 0]);
            packet.extend(source.octets());
            packet.extend(destination.octets());
            let sum = checksum::ipv4_header_checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let length = u16::try_from(transport.len()).expect("fits into IPv6");
            packet.extend([0x60 | ip.traffic_class >> 4, ip.traffic_class << 4, 0, 0]);
            packet.extend(length.to_be_bytes());
            packet.extend([protocol, ip.hop_limit]);
            packet.extend(source.octets());
            packet.extend(destination.octets());
        }
        _ => panic!("addresses of one version"),
    }
    packet.extend(transport);
    packet
}

/// A TCP packet.
pub fn tcp(header: &Ip, tcp: &Tcp, payload: &[u8]) -> Vec<u8> {
    with_checksum(header, protocol::TCP, &tcp_bytes(tcp, payload), 16)
}

/// A UDP packet.
pub fn udp(header: &Ip, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    with_checksum(header, protocol::UDP, &udp_bytes(ports, payload), 6)
}

/// An echo request of the right kind of ICMP.
pub fn icmp_echo(header: &Ip, id: u16, seq: u16, payload: &[u8]) -> Vec<u8> {
    let (protocol, kind) =
        if header.source.is_ipv4() { (protocol::ICMP, 8) } else { (protocol::ICMPV6, 128) };
    let mut message = vec![kind, 0, 0, 0];
    message.extend(id.to_be_bytes());
    message.extend(seq.to_be_bytes());
    message.extend(payload);
    if protocol == protocol::ICMP {
        let sum = !checksum::fold(checksum::sum(&message));
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        return ip(header, protocol, &message);
    }
    with_checksum(header, protocol, &message, 2)
}

/// A TCP packet as it leaves a host with TSO, with its offload: a super-packet of segments of `size` bytes, or a
/// packet with a partial checksum if the data is no longer than that.
pub fn tcp_offloaded(header: &Ip, tcp: &Tcp, payload: &[u8], size: u16) -> (Vec<u8>, Offload) {
    let kind = if header.source.is_ipv4() { SegmentKind::Tcp4 } else { SegmentKind::Tcp6 };
    let ecn = tcp.flags.contains(TcpFlags::CWR);
    let transport = tcp_bytes(tcp, payload);
    offloaded(header, transport, &Wanted { kind, ecn, size, payload_len: payload.len() })
}

/// The same for UDP with USO.
pub fn udp_offloaded(header: &Ip, ports: (u16, u16), payload: &[u8], size: u16) -> (Vec<u8>, Offload) {
    let transport = udp_bytes(ports, payload);
    let payload_len = payload.len();
    offloaded(header, transport, &Wanted { kind: SegmentKind::Udp, ecn: false, size, payload_len })
}

struct Wanted {
    kind: SegmentKind,
    ecn: bool,
    size: u16,
    payload_len: usize,
}

fn offloaded(header: &Ip, mut transport: Vec<u8>, wanted: &Wanted) -> (Vec<u8>, Offload) {
    let Wanted { kind, ecn, size, payload_len } = *wanted;
    let (protocol, offset) = if kind == SegmentKind::Udp { (protocol::UDP, 6) } else { (protocol::TCP, 16) };
    let partial = checksum::fold(pseudo_header(header, protocol, &transport));
    transport[offset..offset + 2].copy_from_slice(&partial.to_be_bytes());
    let packet = ip(header, protocol, &transport);
    let (start, offset) = (header.header_len() as u16, offset as u16);
    if payload_len <= usize::from(size) {
        return (packet, Offload::Checksum { start, offset });
    }
    let segmentation = Segmentation {
        kind,
        ecn,
        size,
        header_len: (packet.len() - payload_len) as u16,
        checksum_start: start,
        checksum_offset: offset,
    };
    (packet, Offload::Segments(segmentation))
}

fn tcp_bytes(tcp: &Tcp, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(20 + tcp.options.len() + payload.len());
    bytes.extend(tcp.ports.0.to_be_bytes());
    bytes.extend(tcp.ports.1.to_be_bytes());
    bytes.extend(tcp.seq.to_be_bytes());
    bytes.extend(tcp.ack.to_be_bytes());
    bytes.extend([((5 + tcp.options.len() / 4) << 4) as u8, tcp.flags.0]);
    bytes.extend(tcp.window.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(tcp.options);
    bytes.extend(payload);
    bytes
}

fn udp_bytes(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + payload.len());
    bytes.extend(ports.0.to_be_bytes());
    bytes.extend(ports.1.to_be_bytes());
    bytes.extend(u16::try_from(8 + payload.len()).expect("fits into UDP").to_be_bytes());
    bytes.extend([0; 2]);
    bytes.extend(payload);
    bytes
}

fn with_checksum(header: &Ip, protocol: u8, transport: &[u8], offset: usize) -> Vec<u8> {
    let mut sum = !checksum::fold(pseudo_header(header, protocol, transport) + checksum::sum(transport));
    if protocol == protocol::UDP && sum == 0 {
        sum = 0xffff;
    }
    let mut packet = ip(header, protocol, transport);
    let at = header.header_len() + offset;
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn pseudo_header(header: &Ip, protocol: u8, transport: &[u8]) -> u64 {
    checksum::pseudo_header(header.source, header.destination, protocol, transport.len() as u32)
}
