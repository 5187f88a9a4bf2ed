//! A connection that has been accepted on both sides: data, closes and resets go from each socket to the other.
//!
//! Data moves by splice(2) through a pipe, so it is not copied. Only an urgent byte and what comes before it are copied: splice does not
//! move them. A close in one direction leaves the other open (RFC 9293 §3.6). If a socket fails, both are reset: sockets of a
//! proxy have `SO_LINGER` with no time, so whatever ends without having been closed in both directions ends with a reset, the death of
//! the process included.

mod direction;
mod pipes;

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::net::sockopt;
use trunkline_linux::{TcpState, receive_queue, send_queue, tcp_state};
use trunkline_units::Instant;

use crate::syn::Connection;
use direction::{Direction, Visit};
pub(crate) use pipes::{PIPE_BYTES, Pipes};

/// A socket of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Towards who opened the connection.
    Client,
    /// Towards whom it was opened to.
    Server,
}

impl Side {
    pub(crate) const fn index(self) -> usize {
        match self {
            Side::Client => 0,
            Side::Server => 1,
        }
    }

    pub(crate) const fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// Which proxy a connection is of, and which of its ends is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of the proxy in the plan.
    pub(crate) proxy: usize,
    pub(crate) behind: Side,
}

/// What has gone to the end behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Bytes that it has acknowledged.
    pub(crate) delivered: u64,
    /// Bytes that are here, or on their way to it.
    pub(crate) held: u64,
    /// The shortest round trip to it.
    pub(crate) min_rtt: Option<Duration>,
}

/// What a connection needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// An event of a socket.
    Event,
    /// Another turn.
    Turn,
    /// Nothing: it has been closed in both directions.
    Closed,
    /// Nothing: a socket has failed.
    Broken,
}

/// How far the end is whose FIN waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It has not acknowledged everything.
    Waits,
    /// It has.
    Done,
    /// It will not.
    Failed,
}

#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) connection: Connection,
    /// The sockets, by [`Side`].
    sockets: [OwnedFd; 2],
    /// From each socket to the other.
    directions: [Direction; 2],
    active: Instant,
    pub(crate) place: Place,
    /// What has gone to the end behind, when it was asked last.
    pub(crate) progress: Progress,
    /// The side whose other one has its tail emulated, until it has acknowledged everything.
    pub(crate) delivers_to: Option<Side>,
}

impl Relay {
    /// `sockets` are those towards client and server.
    pub(crate) fn new(now: Instant, connection: Connection, sockets: [OwnedFd; 2], place: Place) -> Self {
        let progress = Progress::default();
        let directions = Default::default();
        Relay { connection, sockets, directions, active: now, place, progress, delivers_to: None }
    }

    /// What has gone to the end behind until now. What the kernel does not say any more is as it was.
    pub(crate) fn measure(&self) -> Progress {
        let (towards, from) = (self.socket(self.place.behind), self.socket(self.place.behind.other()));
        let Ok(state) = tcp_state(towards.as_fd()) else { return Progress { held: 0, ..self.progress } };
        // A socket that is closed has nothing to say of its queues.
        let bytes = |queue: std::io::Result<usize>| queue.map_or(0, |bytes| bytes as u64);
        let in_pipe = self.directions[self.place.behind.other().index()].held();
        Progress {
            delivered: state.bytes_acked,
            held: bytes(receive_queue(from.as_fd())) + in_pipe + bytes(send_queue(towards.as_fd())),
            min_rtt: state.min_rtt,
        }
    }

    pub(crate) fn socket(&self, side: Side) -> &OwnedFd {
        &self.sockets[side.index()]
    }

    /// For how long nothing has happened.
    pub(crate) fn idle(&self, now: Instant) -> Duration {
        now.saturating_since(self.active)
    }

    /// What epoll says of a socket.
    pub(crate) fn handle_event(&mut self, now: Instant, side: Side, flags: EventFlags) {
        self.active = now;
        let [from, to] = [side.index(), 1 - side.index()];
        if flags.contains(EventFlags::PRI) {
            self.directions[from].set_urgent();
        }
        // What failed shows when it is read or written.
        let failed = EventFlags::ERR | EventFlags::HUP;
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::PRI | failed) {
            self.directions[from].set_readable();
        }
        if flags.intersects(EventFlags::OUT | failed) {
            self.directions[to].set_writable();
        }
    }

    /// Moves what can be moved.
    pub(crate) fn turn(&mut self, pipes: &mut Pipes) -> Next {
        let mut next = Next::Event;
        for from in 0..2 {
            match self.directions[from].visit(&self.sockets[from], &self.sockets[1 - from], pipes) {
                Visit::Waits => {}
                Visit::Unfinished => next = Next::Turn,
                Visit::Broken => return Next::Broken,
            }
        }
        if self.directions.iter().all(Direction::is_closed) { Next::Closed } else { next }
    }

    /// Whether what goes to that side has all been moved, the close included, and waits to be acknowledged.
    pub(crate) fn waits_for_delivery(&self) -> bool {
        self.delivers_to.is_some_and(|side| self.directions[1 - side.index()].is_closed())
    }

    /// Whether the end on that side has acknowledged everything.
    pub(crate) fn delivery(&self) -> Delivery {
        let Some(side) = self.delivers_to else { return Delivery::Done };
        let socket = self.socket(side);
        match (sockopt::socket_error(socket), tcp_state(socket.as_fd())) {
            // FIN-WAIT-2, TIME-WAIT, closed.
            (Ok(Ok(())), Ok(TcpState { state: 5..=7, .. })) => Delivery::Done,
            (Ok(Ok(())), Ok(_)) => Delivery::Waits,
            _ => Delivery::Failed,
        }
    }

    /// Bytes moved since the last call: of the client, and of the server.
    pub(crate) fn take_moved(&mut self) -> [u64; 2] {
        let [client, server] = &mut self.directions;
        [client.take_moved(), server.take_moved()]
    }

    /// Ends it. Without `in_order` both sockets are reset.
    pub(crate) fn end(mut self, pipes: &mut Pipes, in_order: bool) {
        for direction in &mut self.directions {
            direction.end(pipes);
        }
        if in_order {
            for socket in &self.sockets {
                // The kernel goes on sending what it holds.
                let _ = sockopt::set_socket_linger(socket, None);
            }
        }
    }
}

#[cfg(test)]
mod tests;
