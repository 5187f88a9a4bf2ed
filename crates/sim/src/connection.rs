//! One end of a TCP connection at a node: the model of crate `tcp`, and its user.

use std::sync::Arc;

use trunkline_packet::protocol;
use trunkline_tcp::{Endpoint, Event, Settings};
use trunkline_units::Seq;

use crate::packet::Addressing;
use crate::{NodeId, Packet};

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) u32);

/// The user of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// An application that writes and reads so much.
    App(App),
    /// A lane of a gateway's trunk, by its number at the gateway.
    Lane { gateway: u32, lane: u32 },
    /// One half of a connection that a proxy has split.
    Split { proxy: u32, flow: u32 },
    /// None: the place is free.
    Vacant {
        /// The transfer of the application that was here last.
        was: (u32, u32),
    },
}

/// The work that remains for an application at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct App {
    /// Bytes to write.
    pub(crate) write: u64,
    /// Bytes to read before it is done, or, for one that answers, before it writes.
    pub(crate) read: u64,
    /// The transfer it belongs to: its source, and its place there.
    pub(crate) transfer: (u32, u32),
    pub(crate) end: End,
}

/// In place of a transfer: the application belongs to none any more.
pub(crate) const NO_TRANSFER: u32 = u32::MAX;

/// Which end of a transfer an application is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Sends the request, and closes when it has the answer.
    Client {
        /// It has reported that it has its answer.
        reported: bool,
    },
    /// Answers the request, and closes when the client has closed.
    Server,
}

/// An event of a connection for another part of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upcall {
    /// To the source of a transfer: the client is connected.
    Connected { source: u32, transfer: u32 },
    /// To the source of a transfer: the client has written and read all.
    Exchanged { source: u32, transfer: u32 },
    /// To the source of a transfer: the server has all that the client sent.
    Received { source: u32, transfer: u32 },
    /// To the source of a transfer: an end has closed, or broken.
    Ended { source: u32, transfer: u32, orderly: bool },
    /// To a gateway: a lane has received or sent data.
    Lane { gateway: u32, lane: u32 },
    /// To a gateway: a lane's connection has ended.
    Broken { gateway: u32, lane: u32 },
    /// To a proxy: a half of a split connection has received or sent data.
    Split { proxy: u32, flow: u32 },
}

/// It fills whole lines of a cache, so that none is read for its neighbour's sake.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Connection {
    pub(crate) endpoint: Endpoint,
    pub(crate) addressing: Addressing,
    pub(crate) role: Role,
    pub(crate) node: NodeId,
    /// The other end, if it is known: where its packets' receiver is looked for first.
    pub(crate) peer: u32,
    /// It was reset.
    pub(crate) broken: bool,
    /// Data segments that it sent and that the receiver, its peer or a proxy, had already.
    pub(crate) duplicates_delivered: u32,
}

impl Connection {
    pub(crate) fn active(
        settings: &Arc<Settings>,
        (now, iss): (trunkline_units::Instant, u32),
        place: (Addressing, NodeId, Role),
    ) -> Self {
        Self::new(Endpoint::connect(settings, now, Seq(iss)), place)
    }

    pub(crate) fn passive(settings: &Arc<Settings>, iss: u32, place: (Addressing, NodeId, Role)) -> Self {
        Self::new(Endpoint::accept(settings, Seq(iss)), place)
    }

    fn new(endpoint: Endpoint, (addressing, node, role): (Addressing, NodeId, Role)) -> Self {
        Connection {
            endpoint,
            addressing,
            role,
            node,
            peer: u32::MAX,
            broken: false,
            duplicates_delivered: 0,
        }
    }

    /// Whether a packet that came to `at` is for this end.
    #[inline]
    pub(crate) fn is_for(&self, at: NodeId, packet: &Packet) -> bool {
        let own = &self.addressing;
        self.node == at
            && !matches!(self.role, Role::Vacant { .. })
            && (own.destination, own.source) == (packet.source(), packet.destination())
            && (own.ports.1, own.ports.0) == packet.ports()
            && packet.protocol() == protocol::TCP
    }

    /// Whether a packet that has come has its addresses and ports.
    pub(crate) fn sends(&self, packet: &Packet) -> bool {
        let own = &self.addressing;
        !matches!(self.role, Role::Vacant { .. })
            && (own.source, own.destination) == (packet.source(), packet.destination())
            && own.ports == packet.ports()
    }

    /// Lets the application read and write what it can.
    #[inline]
    pub(crate) fn serve_app(&mut self, upcalls: &mut Vec<Upcall>) {
        let Role::App(app) = &mut self.role else { return };
        let endpoint = &mut self.endpoint;
        let there = endpoint.readable();
        if there > 0 {
            let read = endpoint.read(there);
            app.read = app.read.saturating_sub(read);
        }
        let may_write = match app.end {
            End::Client { .. } => true,
            End::Server => app.read == 0,
        };
        if app.write > 0 && may_write {
            let room = endpoint.send_room().min(app.write);
            if room > 0 {
                app.write -= endpoint.write(room);
            }
        }
        if let End::Client { reported } = &mut app.end
            && !*reported
            && app.write == 0
            && app.read == 0
            && endpoint.unsent() == 0
            && endpoint.unacknowledged() == 0
        {
            *reported = true;
            upcalls.push(Upcall::Exchanged { source: app.transfer.0, transfer: app.transfer.1 });
        }
    }

    /// Handles the events of the endpoint.
    #[inline]
    pub(crate) fn poll_events(&mut self, upcalls: &mut Vec<Upcall>) {
        while let Some(event) = self.endpoint.poll_event() {
            self.handle_event(event, upcalls);
        }
    }

    /// Reports an event to the user of the connection.
    fn handle_event(&mut self, event: Event, upcalls: &mut Vec<Upcall>) {
        self.broken |= matches!(event, Event::Reset(_));
        match (self.role, event) {
            (
                Role::App(App { transfer: (source, transfer), end: End::Client { .. }, .. }),
                Event::Connected,
            ) => {
                upcalls.push(Upcall::Connected { source, transfer });
            }
            (Role::App(App { transfer: (source, transfer), end: End::Server, .. }), Event::RemoteClosed) => {
                self.endpoint.close();
                upcalls.push(Upcall::Received { source, transfer });
            }
            (Role::App(App { transfer: (source, transfer), .. }), Event::Closed | Event::Reset(_)) => {
                let orderly = matches!(event, Event::Closed);
                upcalls.push(Upcall::Ended { source, transfer, orderly });
            }
            (Role::Lane { gateway, lane }, Event::Closed | Event::Reset(_)) => {
                upcalls.push(Upcall::Broken { gateway, lane });
            }
            _ => {}
        }
    }
}
