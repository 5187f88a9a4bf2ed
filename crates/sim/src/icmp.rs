//! ICMP errors (RFC 792, RFC 1191; of IPv6 RFC 4443, RFC 8201): what a node says of a packet that it cannot pass on or deliver, and
//! what the sender does.
//!
//! A node reports nothing about errors, nor about fragments but the first (RFC 1122 §3.2.2), and does not limit how often it
//! reports. A host remembers for each destination how long packets may be, and new connections begin with that; as it never
//! forgets, it does not find out that a path has become wider. Every IPv6 path takes 1280 bytes: who reports less is not believed
//! (RFC 8201 §4).

use trunkline_packet::Version;
use trunkline_tcp::PathError;
use trunkline_units::Seq;

use crate::node::NodeId;
use crate::packet::{ICMP, IPV4, IPV6};

/// The MSS option of segments that fill a packet: without the headers (RFC 6691).
pub(crate) fn mss_over(version: Version, mtu: u32) -> u16 {
    let headers = match version {
        Version::V4 => 40,
        Version::V6 => 60,
    };
    u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX)
}

/// Why a packet got no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Error {
    NoRoute,
    NoListener,
    TooLong {
        /// Of the link.
        mtu: u32,
    },
    HopsExpired,
}

impl Error {
    /// Type, code and what stands behind the checksum: the next hop's MTU, which has 16 bits in IPv4.
    pub(crate) fn fields(self, version: Version) -> (u8, u8, [u8; 4]) {
        let (mtu, [ipv4, ipv6]) = match self {
            Error::NoRoute => (0, [(3, 0), (1, 0)]),
            Error::NoListener => (0, [(3, 3), (1, 4)]),
            Error::TooLong { mtu } => (mtu, [(3, 4), (2, 0)]),
            Error::HopsExpired => (0, [(11, 0), (3, 0)]),
        };
        match version {
            Version::V4 => (ipv4.0, ipv4.1, mtu.min(u16::MAX.into()).to_be_bytes()),
            Version::V6 => (ipv6.0, ipv6.1, mtu.to_be_bytes()),
        }
    }

    /// Reads an ICMP header.
    pub(crate) fn parse(version: Version, head: [u8; ICMP]) -> Option<Self> {
        let [kind, code, _, _, rest @ ..] = head;
        let mtu = u32::from_be_bytes(rest);
        match (version, kind, code) {
            (Version::V4, 3, 0) | (Version::V6, 1, 0) => Some(Error::NoRoute),
            (Version::V4, 3, 3) | (Version::V6, 1, 4) => Some(Error::NoListener),
            (Version::V4, 3, 4) => Some(Error::TooLong { mtu: mtu & 0xffff }),
            (Version::V6, 2, _) => Some(Error::TooLong { mtu }),
            (Version::V4, 11, 0) | (Version::V6, 3, 0) => Some(Error::HopsExpired),
            _ => None,
        }
    }

    pub(crate) fn of_path(self, version: Version) -> PathError {
        match self {
            Error::TooLong { mtu } => PathError::TooLong { mss: mss_over(version, mtu) },
            Error::NoListener => PathError::Refused,
            Error::NoRoute | Error::HopsExpired => PathError::Unreachable,
        }
    }
}

/// What an error quotes of the packet that it is about.
pub(crate) struct Quoted {
    pub(crate) version: Version,
    pub(crate) source: NodeId,
    pub(crate) destination: NodeId,
    pub(crate) protocol: u8,
    pub(crate) ports: (u16, u16),
    pub(crate) seq: Seq,
}

impl Quoted {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..at + 4)?.first_chunk()?));
        let (version, ip, [source, destination], protocol) = match bytes.first()? >> 4 {
            4 => (Version::V4, IPV4, [12, 16], 9),
            6 => (Version::V6, IPV6, [20, 36], 6),
            _ => return None,
        };
        let ports = word(ip)?;
        Some(Quoted {
            version,
            source: NodeId::of(word(source)?),
            destination: NodeId::of(word(destination)?),
            protocol: *bytes.get(protocol)?,
            ports: ((ports >> 16) as u16, ports as u16),
            seq: Seq(word(ip + 4)?),
        })
    }
}
