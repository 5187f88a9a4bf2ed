//! Packets of every kind that a router forwards: a sound IP header, and behind it whatever the RFCs allow, and more. What
//! follows is random, by the caller's source of random numbers.

use std::net::IpAddr;

use super::{Ip, Tcp, ip, tcp, tcp_bytes, udp, udp_bytes};
use crate::{TcpFlags, checksum, protocol};

/// Gives a number below its argument, which is not 0.
pub type Below<'a> = &'a mut dyn FnMut(u64) -> u64;

/// Extension headers that a router passes by, wherever they stand. Hop-by-hop options are to be looked at, and come first.
const EXTENSIONS: [u8; 6] = [
    protocol::DESTINATION_OPTIONS,
    protocol::ROUTING,
    protocol::AH,
    protocol::MOBILITY,
    protocol::HIP,
    protocol::SHIM6,
];
/// Data of the longest packet.
const MAX_DATA: u64 = 1200;

/// What the packets of a flow are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UDP with lengths and checksums that are right, wrong or absent.
    Udp,
    /// TCP with random flags, options, offsets, sequence numbers and checksums.
    OddTcp,
    /// A TCP stream, parts of which come again.
    Stream,
    /// Equal datagrams, or the segments of a stream, in a row.
    Run,
    /// The header of a transport protocol, cut short, down to nothing.
    Cut,
    /// ICMP: echoes, and errors that quote packets of all these kinds.
    Icmp,
    /// Protocols that nobody knows, ESP and no next header among them.
    Unknown,
    /// Fragments, the only one of a datagram too.
    Fragments,
    /// IPv4 options; IPv6 extension headers in any order and number.
    Extended,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::Udp,
        Kind::OddTcp,
        Kind::Stream,
        Kind::Run,
        Kind::Cut,
        Kind::Icmp,
        Kind::Unknown,
        Kind::Fragments,
        Kind::Extended,
    ];
}

/// `count` packets of a flow between the addresses of `header`, in the order in which they are sent.
pub fn flow(kind: Kind, header: &Ip, count: usize, below: Below<'_>) -> Vec<Vec<u8>> {
    let ports = (1 + below(65_535) as u16, 1 + below(65_535) as u16);
    match kind {
        Kind::Stream => stream(header, ports, count, below),
        Kind::Run => run(header, ports, count, below),
        Kind::Fragments => fragments(header, count, below),
        _ => (0..count)
            .map(|_| {
                let header = varied(header, below);
                match kind {
                    Kind::Udp => odd_udp(&header, ports, below),
                    Kind::OddTcp => odd_tcp(&header, ports, below),
                    Kind::Cut => cut(&header, ports, below),
                    Kind::Icmp => icmp(&header, below),
                    Kind::Unknown => unknown(&header, below),
                    _ => extended(&header, ports, below),
                }
            })
            .collect(),
    }
}

fn bytes(len: u64, below: Below<'_>) -> Vec<u8> {
    (0..len).map(|_| below(256) as u8).collect()
}

fn one_of<T: Copy>(all: &[T], below: Below<'_>) -> T {
    all[below(all.len() as u64) as usize]
}

/// Another header between the same addresses. Three hops are left at least.
fn varied(header: &Ip, below: Below<'_>) -> Ip {
    Ip {
        traffic_class: below(256) as u8,
        hop_limit: 8 + below(248) as u8,
        id: below(65_536) as u16,
        dont_fragment: below(2) == 0,
        ..*header
    }
}

/// The packet with another flow label, or the IPv4 flag that means nothing, now and then.
fn finish(mut packet: Vec<u8>, below: Below<'_>) -> Vec<u8> {
    if packet[0] >> 4 == 6 {
        packet[1] = packet[1] & 0xf0 | below(16) as u8;
        packet[2..4].copy_from_slice(&(below(65_536) as u16).to_be_bytes());
    } else if below(8) == 0 {
        packet[6] |= 0x80;
        fix(&mut packet);
    }
    packet
}

/// Brings an IPv4 header's checksum up to date.
fn fix(packet: &mut [u8]) {
    if packet[0] >> 4 == 4 {
        let len = usize::from(packet[0] & 15) * 4;
        let sum = checksum::ipv4_header_checksum(&packet[..len]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn transport_at(packet: &[u8]) -> usize {
    if packet[0] >> 4 == 4 { 20 } else { 40 }
}

fn odd_udp(header: &Ip, ports: (u16, u16), below: Below<'_>) -> Vec<u8> {
    let len = one_of(&[0, 1, 7, 100, MAX_DATA], below);
    let mut packet = udp(header, ports, &bytes(below(len + 1), below));
    let at = transport_at(&packet);
    let mut set = |offset: usize, value: u64| {
        packet[at + offset..at + offset + 2].copy_from_slice(&(value as u16).to_be_bytes());
    };
    match below(6) {
        0 => set(6, 0),
        1 => set(6, below(65_536)),
        2 => set(4, below(65_536)),
        3 => set(6, 0xffff),
        _ => {}
    }
    finish(packet, below)
}

fn odd_tcp(header: &Ip, ports: (u16, u16), below: Below<'_>) -> Vec<u8> {
    let options = bytes(below(11) * 4, below);
    let segment = Tcp {
        ports,
        seq: below(3000) as u32,
        ack: below(3) as u32,
        flags: TcpFlags(below(256) as u8),
        window: below(2) as u16,
        options: &options,
    };
    let mut packet = tcp(header, &segment, &bytes(below(200), below));
    let at = transport_at(&packet);
    match below(5) {
        0 => packet[at + 12] = below(256) as u8,
        1 => packet[at + 12] |= below(16) as u8,
        2 => packet[at + 16] ^= 1 + below(255) as u8,
        3 => packet[at + 18] = below(256) as u8,
        _ => {}
    }
    finish(packet, below)
}

fn stream(header: &Ip, ports: (u16, u16), count: usize, below: Below<'_>) -> Vec<Vec<u8>> {
    let header = varied(header, below);
    let (mut seq, mut id, mut packets) = (below(1 << 32) as u32, header.id, Vec::<Vec<u8>>::new());
    let echoes = below(2) == 0;
    while packets.len() < count {
        if !packets.is_empty() && below(4) == 0 {
            let again = below(packets.len() as u64) as usize;
            packets.push(packets[again].clone());
            continue;
        }
        id = id.wrapping_add(1);
        // A segment that is one byte shorter than the one before it may be cut in another place where the two are merged.
        let data = bytes(below(MAX_DATA / 2) * 2, below);
        let syn = packets.is_empty() && below(2) == 0;
        let fin = packets.len() + 1 == count && below(2) == 0;
        let flags = match (syn, fin) {
            (true, _) => TcpFlags::SYN,
            (_, true) => TcpFlags::ACK | TcpFlags::FIN,
            _ => TcpFlags::ACK,
        };
        let stamps = [[1, 1, 8, 10], [0, 0, 0, id as u8], [0, 0, 0, 1]].concat();
        let options = if echoes { &stamps[..] } else { &[] };
        let segment = Tcp { ports, seq, ack: 7, flags, window: 100, options };
        packets.push(tcp(&Ip { id, ..header }, &segment, &data));
        seq = seq.wrapping_add(data.len() as u32 + u32::from(syn) + u32::from(fin));
    }
    packets
}

/// What a receiver may merge on its way into the device, and must take apart again.
fn run(header: &Ip, ports: (u16, u16), count: usize, below: Below<'_>) -> Vec<Vec<u8>> {
    let header = varied(header, below);
    let (is_tcp, counts, size) = (below(2) == 0, below(2) == 0, 8 + below(MAX_DATA));
    let (mut seq, mut id) = (below(1 << 32) as u32, header.id);
    let mut packets = Vec::new();
    for number in 0..count {
        let size = if number + 1 == count { 1 + below(size) } else { size };
        let data = bytes(size, below);
        let header = Ip { id, ..header };
        packets.push(if is_tcp {
            let flags = TcpFlags::ACK | if below(4) == 0 { TcpFlags::PSH } else { TcpFlags(0) };
            tcp(&header, &Tcp { ports, seq, flags, ..Tcp::default() }, &data)
        } else {
            udp(&header, ports, &data)
        });
        seq = seq.wrapping_add(size as u32);
        id = if counts { id.wrapping_add(1) } else { below(65_536) as u16 };
    }
    packets
}

fn cut(header: &Ip, ports: (u16, u16), below: Below<'_>) -> Vec<u8> {
    let whole = [
        (protocol::TCP, tcp_bytes(&Tcp { ports, ..Tcp::default() }, &[])),
        (protocol::UDP, udp_bytes(ports, &[])),
        (protocol::UDP_LITE, udp_bytes(ports, &[])),
        (protocol::SCTP, vec![9; 12]),
        (protocol::DCCP, vec![9; 16]),
        (protocol::ICMP, vec![8, 0, 0, 0]),
        (protocol::ICMPV6, vec![128, 0, 0, 0]),
    ];
    let (number, whole) = &whole[below(whole.len() as u64) as usize];
    let len = below(whole.len() as u64 + 1) as usize;
    finish(ip(header, *number, &whole[..len]), below)
}

fn icmp(header: &Ip, below: Below<'_>) -> Vec<u8> {
    let (number, kinds): (u8, &[u8]) = match header.source {
        IpAddr::V4(_) => (protocol::ICMP, &[0, 3, 4, 5, 8, 11, 12, 13, 14, 42, 253]),
        // Neighbour discovery is a link's own.
        IpAddr::V6(_) => (protocol::ICMPV6, &[1, 2, 3, 4, 100, 128, 129, 144, 160, 200]),
    };
    let quoted = odd_udp(&varied(header, below), (1, 2), below);
    let mut message = vec![one_of(kinds, below), below(16) as u8];
    message.extend(bytes(6, below));
    message.extend(&quoted[..below(quoted.len() as u64 + 1) as usize]);
    let len = one_of(&[0, 1, 4, 8, message.len()], below);
    finish(ip(header, number, &message[..len]), below)
}

fn unknown(header: &Ip, below: Below<'_>) -> Vec<u8> {
    let known = [protocol::NO_NEXT_HEADER, protocol::ESP, protocol::GRE, 4, 41, 253, 255];
    let number = if below(2) == 0 { one_of(&known, below) } else { 1 + below(255) as u8 };
    let len = one_of(&[0, 1, 3, 4, 50, MAX_DATA], below);
    finish(ip(header, number, &bytes(len, below)), below)
}

/// Fragments that may belong together, and those that do not: a router does not put them together.
fn fragments(header: &Ip, count: usize, below: Below<'_>) -> Vec<Vec<u8>> {
    let header = Ip { dont_fragment: false, ..varied(header, below) };
    let number = one_of(&[protocol::UDP, protocol::TCP, protocol::ICMP, 253], below);
    let fragment = |field: u16, data: &[u8]| match header.source {
        IpAddr::V4(_) => {
            let mut packet = ip(&header, number, data);
            packet[6..8].copy_from_slice(&field.to_be_bytes());
            fix(&mut packet);
            packet
        }
        IpAddr::V6(_) => {
            let more = u16::from(field & 0x2000 != 0);
            let [high, low] = (field << 3 | more).to_be_bytes();
            let [id_high, id_low] = header.id.to_be_bytes();
            ip(
                &header,
                protocol::FRAGMENT,
                &[&[number, 0, high, low, 0, 0, id_high, id_low][..], data].concat(),
            )
        }
    };
    let fragments = (0..count).map(|place| {
        let more = if place + 1 < count { 0x2000 } else { 0 };
        let offset = if below(4) == 0 { below(8192) as u16 } else { place as u16 * 8 };
        let len = if below(4) == 0 { below(MAX_DATA) } else { 64 };
        fragment(offset | more, &bytes(len, below))
    });
    fragments.collect()
}

fn extended(header: &Ip, ports: (u16, u16), below: Below<'_>) -> Vec<u8> {
    let data = bytes(below(100), below);
    let transport = match below(4) {
        0 => (protocol::UDP, udp_bytes(ports, &data)),
        1 => (protocol::TCP, tcp_bytes(&Tcp { ports, ..Tcp::default() }, &data)),
        2 => (protocol::NO_NEXT_HEADER, data),
        _ => (253, data),
    };
    let packet = match header.source {
        IpAddr::V4(_) => with_options(&ip(header, transport.0, &transport.1), below),
        IpAddr::V6(_) => with_extensions(header, transport, below),
    };
    finish(packet, below)
}

/// Options that a router passes by: no operation, and some that nobody knows.
fn with_options(packet: &[u8], below: Below<'_>) -> Vec<u8> {
    let mut options = Vec::new();
    let len = 4 * (1 + below(10)) as usize;
    while options.len() < len {
        let room = len - options.len();
        if room < 2 || below(3) == 0 {
            options.push(1);
            continue;
        }
        let option = 2 + below(room as u64 - 1) as usize;
        options.extend([one_of(&[0x1e_u8, 0x5e, 0x9e, 0xde], below), option as u8]);
        options.extend(bytes(option as u64 - 2, below));
    }
    let (fixed, rest) = packet.split_at(20);
    let mut packet = [fixed, &options, rest].concat();
    packet[0] = 0x45 + (len / 4) as u8;
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    fix(&mut packet);
    packet
}

fn with_extensions(header: &Ip, (last, transport): (u8, Vec<u8>), below: Below<'_>) -> Vec<u8> {
    let many = if below(8) == 0 { 40 } else { 4 };
    let count = below(many + 1) as usize;
    let mut chain: Vec<u8> = (0..count).map(|_| one_of(&EXTENSIONS, below)).collect();
    if below(3) == 0 {
        chain.insert(0, protocol::HOP_BY_HOP);
    }
    let mut payload = Vec::new();
    for (place, number) in chain.iter().enumerate() {
        let next = chain.get(place + 1).copied().unwrap_or(last);
        match *number {
            // Padding alone, which every router must skip (RFC 8200 §4.2).
            protocol::HOP_BY_HOP => {
                let units = below(3) as u8;
                let padding = units * 8 + 4;
                payload.extend([next, units, 1, padding]);
                payload.extend(vec![0; usize::from(padding)]);
            }
            protocol::AH => {
                payload.extend([next, 4]);
                payload.extend(bytes(22, below));
            }
            protocol::ROUTING => {
                payload.extend([next, 0, below(256) as u8, 0]);
                payload.extend(bytes(4, below));
            }
            _ => {
                let units = if below(8) == 0 { below(20) } else { below(2) };
                payload.extend([next, units as u8]);
                payload.extend(bytes(units * 8 + 6, below));
            }
        }
    }
    payload.extend(transport);
    payload.truncate(MAX_DATA as usize);
    // The chain may end anywhere, but for the part that routers read.
    if below(4) == 0 && chain.first() != Some(&protocol::HOP_BY_HOP) {
        payload.truncate(below(payload.len() as u64 + 1) as usize);
    }
    ip(header, chain.first().copied().unwrap_or(last), &payload)
}
