//! The headers of a packet as a plain struct.
//!
//! The parser reads only the start of a packet, so a reader of super-packets need not have the payload at hand or
//! in cache. Sources: RFC 791 §3.1, RFC 8200 §3 and §4, RFC 6946 for atomic fragments.
//!
//! A router forwards a packet by its IP header alone. So does this parser refuse one: whatever follows that header, a packet
//! is a packet. Where extension or transport headers are cut short, or more of them follow each other than are read, the
//! packet has no ports, and counts as one of the first protocol that was not read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{FlowKey, Layer, PacketError, protocol};

/// Extension headers that are followed. RFC 8200 §4.1 knows seven places for one; a packet may have more (§4.1: "any order
/// and any number of times").
const EXTENSION_LIMIT: usize = 8;

/// Version of the Internet protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Whether a packet is a fragment, and of which kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// Not fragmented.
    Whole,
    /// Has the transport header. An IPv6 packet with a fragment header and nothing else missing ("atomic",
    /// RFC 6946) counts as one: no offload may reach across a fragment header.
    First,
    /// Has no transport header.
    Later,
}

/// What the headers of one packet say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// IP version.
    pub version: Version,
    /// Sender's address.
    pub source: IpAddr,
    /// Receiver's address, by the IP header: with an IPv6 routing header it is only the next stop.
    pub destination: IpAddr,
    /// Upper-layer protocol, after any IPv6 extension headers that were followed.
    pub protocol: u8,
    /// IPv4 type of service or IPv6 traffic class: DSCP and ECN (RFC 3168 §23.1).
    pub traffic_class: u8,
    /// Bytes before the transport header, or before the data of a later fragment.
    pub transport_offset: usize,
    /// Bytes in the whole packet.
    pub packet_len: usize,
    /// Whether it is a fragment.
    pub fragment: Fragment,
    /// Source and destination port of TCP, UDP, UDP-Lite, SCTP and DCCP, if they are there.
    pub ports: Option<(u16, u16)>,
    /// ICMP or `ICMPv6` type and code, if they are there.
    pub icmp: Option<(u8, u8)>,
}

impl Headers {
    /// Reads the headers at the start of a packet of `packet_len` bytes. `prefix` is the first part of the packet, all of it if
    /// you like. It must have the IP header. What lies behind it is not known: it should reach to the end of the transport
    /// header's ports.
    ///
    /// The IPv4 header checksum is not looked at: whoever routed the packet here has done that.
    #[inline]
    pub fn parse(prefix: &[u8], packet_len: usize) -> Result<Self, PacketError> {
        let prefix = prefix.get(..packet_len).unwrap_or(prefix);
        match prefix.first().map(|byte| byte >> 4) {
            Some(4) => parse_v4(prefix, packet_len),
            Some(6) => parse_v6(prefix, packet_len),
            Some(have) => Err(PacketError::UnknownVersion { have }),
            None => Err(PacketError::Truncated { layer: Layer::Ipv4, need: 1, have: 0 }),
        }
    }

    /// Differentiated services code point (RFC 2474 §3).
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class >> 2
    }

    /// ECN field: 0 not capable, 1 ECT(1), 2 ECT(0), 3 congestion experienced (RFC 3168 §5).
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.traffic_class & 3
    }

    /// Bytes from the transport header to the end.
    #[inline]
    pub fn transport_len(&self) -> usize {
        self.packet_len.saturating_sub(self.transport_offset)
    }

    /// The flow the packet belongs to.
    #[inline]
    pub fn flow(&self) -> FlowKey {
        let ports = match (self.fragment, self.ports) {
            (Fragment::Whole, Some(ports)) => ports,
            _ => (0, 0),
        };
        FlowKey { source: self.source, destination: self.destination, protocol: self.protocol, ports }
    }
}

#[inline]
fn parse_v4(prefix: &[u8], packet_len: usize) -> Result<Headers, PacketError> {
    let layer = Layer::Ipv4;
    let Some(header) = prefix.first_chunk::<20>() else {
        return Err(PacketError::Truncated { layer, need: 20, have: prefix.len() });
    };
    let header_len = usize::from(header[0] & 0x0f) * 4;
    if header_len < 20 {
        return Err(PacketError::HeaderLength { layer, need: 20, have: header_len });
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if total != packet_len {
        return Err(PacketError::PacketLength { layer, need: total, have: packet_len });
    }
    if header_len > prefix.len() {
        return Err(PacketError::Truncated { layer, need: header_len, have: prefix.len() });
    }
    let fragment_field = u16::from_be_bytes([header[6], header[7]]);
    let fragment = match (fragment_field & 0x1fff, fragment_field & 0x2000) {
        (0, 0) => Fragment::Whole,
        (0, _) => Fragment::First,
        _ => Fragment::Later,
    };
    let protocol = header[9];
    let (ports, icmp) = transport_start(prefix, header_len, protocol, fragment);
    Ok(Headers {
        version: Version::V4,
        source: IpAddr::V4(Ipv4Addr::new(header[12], header[13], header[14], header[15])),
        destination: IpAddr::V4(Ipv4Addr::new(header[16], header[17], header[18], header[19])),
        protocol,
        traffic_class: header[1],
        transport_offset: header_len,
        packet_len,
        fragment,
        ports,
        icmp,
    })
}

#[inline]
fn parse_v6(prefix: &[u8], packet_len: usize) -> Result<Headers, PacketError> {
    let layer = Layer::Ipv6;
    let Some((header, _)) = prefix.split_first_chunk::<40>() else {
        return Err(PacketError::Truncated { layer, need: 40, have: prefix.len() });
    };
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if payload == 0 && packet_len > 40 {
        return Err(PacketError::Jumbogram { have: packet_len });
    }
    if payload + 40 != packet_len {
        return Err(PacketError::PacketLength { layer, need: payload + 40, have: packet_len });
    }
    let (protocol, transport_offset, fragment) = match header[6] {
        known @ (protocol::TCP | protocol::UDP | protocol::ICMPV6) => (known, 40, Fragment::Whole),
        next => walk_extensions(prefix, next),
    };
    let (ports, icmp) = transport_start(prefix, transport_offset, protocol, fragment);
    let address = |at: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(bytes))
    };
    Ok(Headers {
        version: Version::V6,
        source: address(8),
        destination: address(24),
        protocol,
        traffic_class: header[0] << 4 | header[1] >> 4,
        transport_offset,
        packet_len,
        fragment,
        ports,
        icmp,
    })
}

/// The upper-layer protocol, where it starts, and whether a fragment header was on the way; the first extension header that is
/// not followed if the chain does not end before.
fn walk_extensions(prefix: &[u8], mut next: u8) -> (u8, usize, Fragment) {
    let mut at = 40;
    let mut fragment = Fragment::Whole;
    for _ in 0..EXTENSION_LIMIT {
        if !is_extension(next) {
            break;
        }
        let Some(header) = prefix.get(at..).and_then(<[u8]>::first_chunk::<8>) else { break };
        let len = match next {
            protocol::FRAGMENT => {
                if u16::from_be_bytes([header[2], header[3]]) >> 3 != 0 {
                    return (header[0], at + 8, Fragment::Later);
                }
                fragment = Fragment::First;
                8
            }
            // RFC 4302 §2.2: in units of four bytes, less two.
            protocol::AH => (usize::from(header[1]) + 2) * 4,
            _ => (usize::from(header[1]) + 1) * 8,
        };
        if at + len > prefix.len() {
            break;
        }
        next = header[0];
        at += len;
    }
    (next, at, fragment)
}

#[inline]
fn is_extension(next: u8) -> bool {
    matches!(
        next,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AH
            | protocol::DESTINATION_OPTIONS
            | protocol::MOBILITY
            | protocol::HIP
            | protocol::SHIM6
    )
}

type TransportStart = (Option<(u16, u16)>, Option<(u8, u8)>);

#[inline]
fn transport_start(prefix: &[u8], at: usize, protocol: u8, fragment: Fragment) -> TransportStart {
    if fragment == Fragment::Later {
        return (None, None);
    }
    let rest = prefix.get(at..).unwrap_or_default();
    match protocol {
        protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP | protocol::DCCP => {
            let port = |ports: &[u8; 4], at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
            (rest.first_chunk().map(|ports| (port(ports, 0), port(ports, 2))), None)
        }
        protocol::ICMP | protocol::ICMPV6 => {
            (None, rest.first_chunk::<2>().map(|start| (start[0], start[1])))
        }
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests;
