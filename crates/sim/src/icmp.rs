//! ICMP errors (RFC 792, RFC 1191; of IPv6 RFC 4443, RFC 8201): what a node says of a packet that it cannot pass on or deliver, and
//! what the sender does.
//!
//! A node reports nothing about errors, nor about fragments but the first (RFC 1122 §3.2.2), and does not limit how often it
//! reports. A host remembers for each destination how long packets may be, and new connections begin with that; as it never
//! forgets, it does not find out that a path has become wider. Every IPv6 path takes 1280 bytes: who reports less is not believed
//! (RFC 8201 §4).

use trunkline_packet::{Version, protocol};
use trunkline_tcp::PathError;
use trunkline_units::Seq;

use crate::Packet;
use crate::connection::ConnectionId;
use crate::node::NodeId;
use crate::packet::{Addressing, ICMP, IPV4, IPV6, MIN_MTU_IPV6};
use crate::sockets::{Socket, socket_key};
use crate::state::NetworkState;

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
    fn fields(self, version: Version) -> (u8, u8, [u8; 4]) {
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
    fn parse(version: Version, head: [u8; ICMP]) -> Option<Self> {
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

    fn of_path(self, version: Version) -> PathError {
        match self {
            Error::TooLong { mtu } => PathError::TooLong { mss: mss_over(version, mtu) },
            Error::NoListener => PathError::Refused,
            Error::NoRoute | Error::HopsExpired => PathError::Unreachable,
        }
    }
}

/// What an error quotes of the packet that it is about.
struct Quoted {
    version: Version,
    source: NodeId,
    destination: NodeId,
    protocol: u8,
    ports: (u16, u16),
    seq: Seq,
}

impl Quoted {
    fn parse(bytes: &[u8]) -> Option<Self> {
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

impl NetworkState {
    /// Tells the sender of a packet why it got no further than `at`.
    #[cold]
    pub(crate) fn report(&mut self, at: NodeId, packet: &Packet, error: Error) {
        if packet.is_icmp() || packet.fragment().0 > 0 {
            return;
        }
        let source = packet.source();
        if source == at {
            // The device of its own host says so. What it has to send again goes with what it sends now.
            if let Some(quoted) = Quoted::parse(packet.header()) {
                self.handle_error(at, &quoted, error);
            }
            return;
        }
        // In TCP, RST says that nobody listens; no node of a simulation is asked for what is not there.
        if error == Error::NoListener && packet.protocol() != protocol::UDP {
            return;
        }
        let node = &mut self.nodes[at.index()];
        node.stats.errors_reported += 1;
        let id = node.take_id();
        let version = packet.version();
        let protocol = match version {
            Version::V4 => protocol::ICMP,
            Version::V6 => protocol::ICMPV6,
        };
        let addressing = Addressing::new((version, protocol), (at, 0), (source, 0), 0);
        let message = Packet::icmp(&addressing, id, error.fields(version), packet).sent_at(self.now);
        self.send(at, message);
    }

    /// An ICMP message has come to a node.
    #[cold]
    pub(crate) fn handle_icmp(&mut self, at: NodeId, packet: &Packet) {
        let message = packet.transport();
        let error = message.first_chunk().and_then(|head| Error::parse(packet.version(), *head));
        let quoted = message.get(ICMP..).and_then(Quoted::parse);
        let (Some(error), Some(quoted)) = (error, quoted) else {
            self.nodes[at.index()].stats.malformed += 1;
            return;
        };
        if quoted.source == at
            && let Some(id) = self.handle_error(at, &quoted, error)
        {
            self.serve(id);
        }
    }

    /// The connection that an error is about, which has been told.
    fn handle_error(&mut self, at: NodeId, quoted: &Quoted, error: Error) -> Option<ConnectionId> {
        let mut error = error;
        if let Error::TooLong { mtu } = &mut error {
            if quoted.version == Version::V6 {
                *mtu = MIN_MTU_IPV6.max(*mtu);
            }
            let path = (quoted.destination, quoted.version);
            let known = self.nodes[at.index()].path_mtus.entry(path).or_insert(*mtu);
            *known = (*mtu).min(*known);
        }
        let (near, far) = quoted.ports;
        let socket = self.sockets.get(&socket_key(at, quoted.destination, (far, near)));
        let (protocol::TCP, Some(Socket::Connection(id))) = (quoted.protocol, socket) else { return None };
        let (id, now) = (*id, self.now);
        self.connections[id.0 as usize].endpoint.handle_path_error(
            now,
            quoted.seq,
            error.of_path(quoted.version),
        );
        Some(id)
    }

    /// Lets a new connection make its segments no longer than its host knows that the path takes.
    pub(crate) fn apply_path_mtu(&mut self, id: ConnectionId) {
        let connection = &mut self.connections[id.0 as usize];
        let Addressing { destination, version, .. } = connection.addressing;
        let known = self.nodes[connection.node.index()].path_mtus.get(&(destination, version));
        if let Some(mtu) = known.filter(|_| connection.addressing.dont_fragment) {
            connection.endpoint.limit_mss(self.now, mss_over(version, *mtu));
        }
    }
}
