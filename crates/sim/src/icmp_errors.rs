//! What a node does when it cannot pass a packet on or deliver it, and when it is told so.

use trunkline_packet::{Version, protocol};

use crate::Packet;
use crate::connection::ConnectionId;
use crate::icmp::{Error, Quoted, mss_over};
use crate::node::NodeId;
use crate::packet::{Addressing, ICMP, MIN_MTU_IPV6};
use crate::sockets::{Socket, socket_key};
use crate::state::NetworkState;

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
