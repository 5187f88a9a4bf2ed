//! The headers that are compressed, taken apart and put together.
//!
//! Taken apart: what stays the same for a flow ([`Chain`]), what changes ([`Fields`]), and the SACK blocks, which
//! are said relative to the acknowledgement and never remembered. What can be computed is checked and left out:
//! lengths, the IPv4 header checksum, an open transport checksum. Putting together gives the same bytes, so a
//! header with anything in it that is none of these is not taken apart at all, and [`Whole`] says why.

use std::net::IpAddr;

use trunkline_packet::{FlowKey, Offload, TcpFlags, Version, checksum, protocol};

use super::{MAX_HEADER, Whole};

/// Two NOPs and a timestamp option (RFC 7323 appendix A).
const TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];
/// Flags of packets that open or end a connection: there is one of each, and nothing to learn from it.
const ENDS: TcpFlags = TcpFlags(0x07);

/// What stays the same for a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chain {
    /// The IP header, with zeroes for all that changes or is computed; an IPv4 one fills half of it.
    ip: [u8; 40],
    ports: [u8; 4],
    pub(super) version: Version,
    pub(super) tcp: bool,
    /// Whether TCP timestamps stand first among the options; otherwise nothing but SACK does.
    pub(super) timestamps: bool,
}

/// What becomes of the transport checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checksum {
    /// Left open by the sender's kernel: the pseudo header's sum stands in the field.
    Open,
    /// UDP without one.
    Absent,
    /// Complete. It is carried, so that it goes from end to end.
    Complete,
}

/// What changes from packet to packet. What a protocol does not have is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) ts_value: u32,
    pub(super) ts_echo: u32,
    /// IPv4 identification.
    pub(super) id: u16,
    pub(super) window: u16,
    pub(super) urgent: u16,
    pub(super) sum: u16,
    pub(super) checksum: Checksum,
    /// TCP flags but for PSH.
    pub(super) flags: u8,
    pub(super) push: bool,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
}

/// SACK blocks: left and right edge of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sack {
    pub(super) count: usize,
    pub(super) blocks: [(u32, u32); 4],
}

/// A header taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) chain: Chain,
    pub(super) fields: Fields,
    pub(super) sack: Sack,
}

impl Chain {
    pub(super) fn ip_len(&self) -> usize {
        match self.version {
            Version::V4 => 20,
            Version::V6 => 40,
        }
    }

    /// Offset of the checksum field in the transport header.
    pub(super) fn checksum_offset(&self) -> usize {
        if self.tcp { 16 } else { 6 }
    }

    /// Its flow.
    #[inline]
    pub(super) fn flow(&self) -> FlowKey {
        let (source, destination) = match self.version {
            Version::V4 => {
                let at = |at: usize| {
                    IpAddr::from([self.ip[at], self.ip[at + 1], self.ip[at + 2], self.ip[at + 3]])
                };
                (at(12), at(16))
            }
            Version::V6 => {
                let at = |at: usize| {
                    let mut bytes = [0; 16];
                    bytes.copy_from_slice(&self.ip[at..at + 16]);
                    IpAddr::from(bytes)
                };
                (at(8), at(24))
            }
        };
        let protocol = if self.tcp { protocol::TCP } else { protocol::UDP };
        FlowKey { source, destination, protocol, ports: (half(&self.ports, 0), half(&self.ports, 2)) }
    }

    /// The maximum number of SACK blocks that fit behind the other options (RFC 2018 §3).
    pub(super) fn sack_limit(&self) -> usize {
        match (self.tcp, self.timestamps) {
            (false, _) => 0,
            (true, true) => 3,
            (true, false) => 4,
        }
    }

    /// The pseudo header's sum for a transport header and data of `len` bytes.
    fn pseudo_sum(&self, len: usize) -> u16 {
        let addresses = match self.version {
            Version::V4 => &self.ip[12..20],
            Version::V6 => &self.ip[8..40],
        };
        let protocol = if self.tcp { protocol::TCP } else { protocol::UDP };
        checksum::fold(checksum::sum(addresses) + u64::from(protocol) + len as u64)
    }
}

impl Header {
    /// Takes apart the headers at the start of a packet of `packet_len` bytes.
    #[inline]
    pub(super) fn parse(head: &[u8], packet_len: usize, offload: Offload) -> Result<Self, Whole> {
        let open = match offload {
            Offload::None => None,
            Offload::Checksum { start, offset } => Some((usize::from(start), usize::from(offset))),
            Offload::Segments(_) => return Err(Whole::SuperPacket),
        };
        let mut fields = Fields::default();
        let (chain, transport) = match head.first() {
            Some(0x45) => ipv4(head, packet_len, &mut fields)?,
            Some(byte) if byte >> 4 == 6 => ipv6(head, packet_len, &mut fields)?,
            _ => return Err(Whole::IpHeader),
        };
        let mut header = Header { chain, fields, sack: Sack::default() };
        let ip_len = header.chain.ip_len();
        let transport_len = packet_len - ip_len;
        if header.chain.tcp {
            header.tcp(transport)?;
        } else {
            header.udp(transport, transport_len)?;
        }
        if let Some(open) = open {
            let right = open == (ip_len, header.chain.checksum_offset())
                && header.fields.sum == header.chain.pseudo_sum(transport_len);
            if !right {
                return Err(Whole::Checksum);
            }
            header.fields.checksum = Checksum::Open;
        }
        // The header was read from `head`, which may be longer than the packet claims to be.
        if header.len() > packet_len {
            return Err(Whole::IpHeader);
        }
        Ok(header)
    }

    fn tcp(&mut self, transport: &[u8]) -> Result<(), Whole> {
        let Some((fixed, rest)) = transport.split_first_chunk::<20>() else { return Err(Whole::TcpFlags) };
        let flags = TcpFlags(fixed[13]);
        // The four bits behind the offset are reserved, but for one that goes with options unknown here (AccECN).
        if fixed[12] & 0x0f != 0 || flags.intersects(ENDS) || !flags.contains(TcpFlags::ACK) {
            return Err(Whole::TcpFlags);
        }
        let options = (usize::from(fixed[12] >> 4) * 4)
            .checked_sub(20)
            .and_then(|len| rest.get(..len))
            .ok_or(Whole::TcpOptions)?;
        self.chain.ports.copy_from_slice(&fixed[..4]);
        let fields = &mut self.fields;
        fields.seq = word(fixed, 4);
        fields.ack = word(fixed, 8);
        fields.flags = flags.0 & !TcpFlags::PSH.0;
        fields.push = flags.contains(TcpFlags::PSH);
        fields.window = half(fixed, 14);
        fields.sum = half(fixed, 16);
        fields.urgent = half(fixed, 18);
        let rest = match options.split_first_chunk::<12>() {
            Some((first, rest)) if first[..4] == TIMESTAMPS => {
                self.chain.timestamps = true;
                fields.ts_value = word(first, 4);
                fields.ts_echo = word(first, 8);
                rest
            }
            _ => options,
        };
        self.sack = Sack::parse(rest).ok_or(Whole::TcpOptions)?;
        Ok(())
    }

    fn udp(&mut self, transport: &[u8], transport_len: usize) -> Result<(), Whole> {
        let Some(fixed) = transport.first_chunk::<8>() else { return Err(Whole::UdpLength) };
        if usize::from(half(fixed, 4)) != transport_len {
            return Err(Whole::UdpLength);
        }
        self.chain.ports.copy_from_slice(&fixed[..4]);
        self.fields.sum = half(fixed, 6);
        if self.fields.sum == 0 {
            self.fields.checksum = Checksum::Absent;
        }
        Ok(())
    }

    /// Bytes it has when put together.
    pub(super) fn len(&self) -> usize {
        let options = if self.chain.timestamps { 12 } else { 0 } + self.sack.len();
        self.chain.ip_len() + if self.chain.tcp { 20 + options } else { 8 }
    }

    /// Puts the header of a packet of `packet_len` bytes together. `packet_len` must be at most 65 535.
    #[inline]
    pub(super) fn write(&self, packet_len: usize, into: &mut [u8; MAX_HEADER]) {
        let (chain, fields) = (&self.chain, &self.fields);
        let ip_len = chain.ip_len();
        into[..40].copy_from_slice(&chain.ip);
        match chain.version {
            Version::V4 => {
                into[1] = fields.traffic_class;
                put(into, 2, packet_len as u16);
                put(into, 4, fields.id);
                into[8] = fields.hop_limit;
                let sum = !checksum::fold(checksum::sum(&into[..20]));
                put(into, 10, sum);
            }
            Version::V6 => {
                into[0] |= fields.traffic_class >> 4;
                into[1] |= fields.traffic_class << 4;
                put(into, 4, (packet_len - 40) as u16);
                into[7] = fields.hop_limit;
            }
        }
        let sum = match fields.checksum {
            Checksum::Open => chain.pseudo_sum(packet_len - ip_len),
            Checksum::Absent => 0,
            Checksum::Complete => fields.sum,
        };
        let transport = &mut into[ip_len..];
        transport[..4].copy_from_slice(&chain.ports);
        put(transport, chain.checksum_offset(), sum);
        if !chain.tcp {
            put(transport, 4, (packet_len - ip_len) as u16);
            return;
        }
        transport[4..8].copy_from_slice(&fields.seq.to_be_bytes());
        transport[8..12].copy_from_slice(&fields.ack.to_be_bytes());
        transport[12] = ((self.len() - ip_len) << 2) as u8;
        transport[13] = fields.flags | if fields.push { TcpFlags::PSH.0 } else { 0 };
        put(transport, 14, fields.window);
        put(transport, 18, fields.urgent);
        let mut options = &mut transport[20..];
        if chain.timestamps {
            options[..4].copy_from_slice(&TIMESTAMPS);
            options[4..8].copy_from_slice(&fields.ts_value.to_be_bytes());
            options[8..12].copy_from_slice(&fields.ts_echo.to_be_bytes());
            options = &mut options[12..];
        }
        self.sack.write(options);
    }
}

impl Sack {
    /// Reads what stands behind the timestamps: nothing, or two NOPs and one SACK option (RFC 2018 §3).
    fn parse(options: &[u8]) -> Option<Self> {
        let mut sack = Sack::default();
        let Some((head, rest)) = options.split_first_chunk::<4>() else {
            return options.is_empty().then_some(sack);
        };
        let (blocks, odd) = rest.as_chunks::<8>();
        if head[..3] != [1, 1, 5] || usize::from(head[3]) != options.len() - 2 || !odd.is_empty() {
            return None;
        }
        if blocks.is_empty() || blocks.len() > sack.blocks.len() {
            return None;
        }
        sack.count = blocks.len();
        for (edges, block) in sack.blocks.iter_mut().zip(blocks) {
            *edges = (word(block, 0), word(block, 4));
        }
        Some(sack)
    }

    fn len(&self) -> usize {
        if self.count == 0 { 0 } else { 4 + 8 * self.count }
    }

    fn write(&self, into: &mut [u8]) {
        if self.count == 0 {
            return;
        }
        into[..4].copy_from_slice(&[1, 1, 5, (2 + 8 * self.count) as u8]);
        let blocks = &self.blocks[..self.count];
        for (room, (left, right)) in into[4..].as_chunks_mut::<8>().0.iter_mut().zip(blocks) {
            room[..4].copy_from_slice(&left.to_be_bytes());
            room[4..].copy_from_slice(&right.to_be_bytes());
        }
    }
}

impl Default for Fields {
    fn default() -> Self {
        Fields {
            seq: 0,
            ack: 0,
            ts_value: 0,
            ts_echo: 0,
            id: 0,
            window: 0,
            urgent: 0,
            sum: 0,
            checksum: Checksum::Complete,
            flags: 0,
            push: false,
            hop_limit: 0,
            traffic_class: 0,
        }
    }
}

fn chain(ip: [u8; 40], version: Version, next: u8) -> Result<Chain, Whole> {
    match next {
        protocol::TCP | protocol::UDP => {
            Ok(Chain { ip, ports: [0; 4], version, tcp: next == protocol::TCP, timestamps: false })
        }
        _ => Err(Whole::Protocol),
    }
}

fn ipv4<'a>(head: &'a [u8], packet_len: usize, fields: &mut Fields) -> Result<(Chain, &'a [u8]), Whole> {
    let Some((fixed, transport)) = head.split_first_chunk::<20>() else { return Err(Whole::IpHeader) };
    if usize::from(half(fixed, 2)) != packet_len || packet_len < 20 {
        return Err(Whole::IpHeader);
    }
    if half(fixed, 6) & 0x3fff != 0 {
        return Err(Whole::Fragment);
    }
    // In this form alone is it computed again: 0xffff would do for a router in place of 0, and is not the same.
    if half(fixed, 10) != checksum::ipv4_header_checksum(fixed) {
        return Err(Whole::IpHeader);
    }
    fields.traffic_class = fixed[1];
    fields.id = half(fixed, 4);
    fields.hop_limit = fixed[8];
    let mut ip = [0; 40];
    ip[0] = fixed[0];
    ip[6] = fixed[6];
    ip[9] = fixed[9];
    ip[12..20].copy_from_slice(&fixed[12..]);
    Ok((chain(ip, Version::V4, fixed[9])?, transport))
}

fn ipv6<'a>(head: &'a [u8], packet_len: usize, fields: &mut Fields) -> Result<(Chain, &'a [u8]), Whole> {
    let Some((fixed, transport)) = head.split_first_chunk::<40>() else { return Err(Whole::IpHeader) };
    if usize::from(half(fixed, 4)) + 40 != packet_len {
        return Err(Whole::IpHeader);
    }
    fields.traffic_class = fixed[0] << 4 | fixed[1] >> 4;
    fields.hop_limit = fixed[7];
    let mut ip = *fixed;
    ip[0] &= 0xf0;
    ip[1] &= 0x0f;
    ip[4..6].fill(0);
    ip[7] = 0;
    Ok((chain(ip, Version::V6, fixed[6])?, transport))
}

#[inline]
fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
