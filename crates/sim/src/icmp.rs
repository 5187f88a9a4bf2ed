//! ICMP errors (RFC 792, RFC 1191): what a node says of a packet that it cannot pass on or deliver, and what the sender does.
//!
//! A node reports nothing about errors, nor about fragments but the first (RFC 1122 §3.2.2), and does not limit how often it
//! reports. A host remembers for each destination how long packets may be, and new connections begin with that; as it never
//! forgets, it does not find out that a path has become wider.

use std::net::Ipv4Addr;

use trunkline_packet::protocol;
use trunkline_tcp::PathError;
use trunkline_units::Seq;

use crate::Packet;
use crate::connection::ConnectionId;
use crate::node::NodeId;
use crate::packet::{Addressing, ICMP, IP};
use crate::sockets::{Socket, socket_key};
use crate::state::NetworkState;

/// Bytes of the headers in a packet that are not counted by the MSS option.
const HEADERS: u32 = 40;

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
    /// Type, code and the next hop's MTU.
    fn fields(self) -> (u8, u8, u16) {
        match self {
            Error::NoRoute => (3, 0, 0),
            Error::NoListener => (3, 3, 0),
            Error::TooLong { mtu } => (3, 4, u16::try_from(mtu).unwrap_or(u16::MAX)),
            Error::HopsExpired => (11, 0, 0),
        }
    }

    fn parse(kind: u8, code: u8, rest: u16) -> Option<Self> {
        match (kind, code) {
            (3, 0) => Some(Error::NoRoute),
            (3, 3) => Some(Error::NoListener),
            (3, 4) => Some(Error::TooLong { mtu: rest.into() }),
            (11, 0) => Some(Error::HopsExpired),
            _ => None,
        }
    }

    fn of_path(self) -> PathError {
        match self {
            Error::TooLong { mtu } => {
                PathError::TooLong { mss: u16::try_from(mtu.saturating_sub(HEADERS)).unwrap_or(u16::MAX) }
            }
            Error::NoListener => PathError::Refused,
            Error::NoRoute | Error::HopsExpired => PathError::Unreachable,
        }
    }
}

/// What an error quotes of the packet that it is about.
struct Quoted {
    source: NodeId,
    destination: NodeId,
    protocol: u8,
    ports: (u16, u16),
    seq: Seq,
}

impl Quoted {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..at + 4)?.first_chunk()?));
        let address = |at: usize| Some(NodeId::of(Ipv4Addr::from(word(at)?)));
        let ports = word(IP)?;
        Some(Quoted {
            source: address(12)?,
            destination: address(16)?,
            protocol: *bytes.get(9)?,
            ports: ((ports >> 16) as u16, ports as u16),
            seq: Seq(word(IP + 4)?),
        })
    }
}

impl NetworkState {
    /// Tells the sender of a packet why it got no further than `at`.
    #[cold]
    pub(crate) fn report(&mut self, at: NodeId, packet: &Packet, error: Error) {
        if packet.protocol() == protocol::ICMP || packet.fragment().0 > 0 {
            return;
        }
        let source = NodeId::of(packet.source());
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
        let addressing = Addressing::new(protocol::ICMP, (at.address(), 0), (packet.source(), 0), 0);
        let message = Packet::icmp(&addressing, id, error.fields(), packet).sent_at(self.now);
        self.send(at, message);
    }

    /// An ICMP message has come to a node.
    #[cold]
    pub(crate) fn handle_icmp(&mut self, at: NodeId, packet: &Packet) {
        let message = packet.transport();
        let error = message
            .get(..ICMP)
            .and_then(|head| Error::parse(head[0], head[1], u16::from_be_bytes([head[6], head[7]])));
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
        if let Error::TooLong { mtu } = error {
            let known = self.nodes[at.index()].path_mtus.entry(quoted.destination).or_insert(mtu);
            *known = mtu.min(*known);
        }
        let (near, far) = quoted.ports;
        let socket = self.sockets.get(&socket_key(at, quoted.destination, (far, near)));
        let (protocol::TCP, Some(Socket::Connection(id))) = (quoted.protocol, socket) else { return None };
        let (id, now) = (*id, self.now);
        self.connections[id.0 as usize].endpoint.handle_path_error(now, quoted.seq, error.of_path());
        Some(id)
    }

    /// Lets a new connection make its segments no longer than its host knows that the path takes.
    pub(crate) fn apply_path_mtu(&mut self, id: ConnectionId) {
        let connection = &mut self.connections[id.0 as usize];
        let to = NodeId::of(connection.addressing.destination);
        let known = self.nodes[connection.node.index()].path_mtus.get(&to);
        if let Some(mtu) = known.filter(|_| connection.addressing.dont_fragment)
            && let PathError::TooLong { mss } = (Error::TooLong { mtu: *mtu }).of_path()
        {
            connection.endpoint.limit_mss(self.now, mss);
        }
    }
}
