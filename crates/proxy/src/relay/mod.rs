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
use trunkline_linux::{TcpInfo, receive_queue, send_queue};
use trunkline_trunk::path_tail::{Backlog, HostState};
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
    /// Bytes of these that wait for the network, and not for the end.
    pub(crate) waiting: u64,
    pub(crate) host: HostState,
    /// The shortest round trip to it.
    pub(crate) min_rtt: Option<Duration>,
    /// The state of the socket towards it, by the kernel's number.
    pub(crate) state: u8,
}

impl Progress {
    /// Whether it has acknowledged something, or there is something else for it.
    pub(crate) fn has_moved_since(&self, before: &Progress) -> bool {
        (self.delivered, self.held) != (before.delivered, before.held)
    }
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
    /// When it was seen to have acknowledged something, or nothing was held for it.
    acknowledged: Instant,
    /// The side whose other one has its tail emulated, until it has acknowledged everything.
    pub(crate) delivers_to: Option<Side>,
}

impl Relay {
    /// `sockets` are those towards client and server.
    pub(crate) fn new(now: Instant, connection: Connection, sockets: [OwnedFd; 2], place: Place) -> Self {
        let progress = Progress::default();
        let directions = Default::default();
        Relay {
            connection,
            sockets,
            directions,
            active: now,
            place,
            progress,
            acknowledged: now,
            delivers_to: None,
        }
    }

    /// Asks what has gone to the end behind until now. What the kernel does not say any more is as it was.
    pub(crate) fn measure(&mut self, now: Instant) -> Progress {
        let (towards, from) = (self.socket(self.place.behind), self.socket(self.place.behind.other()));
        let before = self.progress;
        let Ok(tcp) = TcpInfo::of(towards.as_fd()) else {
            self.progress = Progress { held: 0, waiting: 0, ..before };
            return self.progress;
        };
        // A socket that is closed has nothing to say of its queues.
        let bytes = |queue: std::io::Result<usize>| queue.map_or(0, |bytes| bytes as u64);
        let in_pipe = self.directions[self.place.behind.other().index()].held();
        let held = bytes(receive_queue(from.as_fd())) + in_pipe + bytes(send_queue(towards.as_fd()));
        let delivered = tcp.bytes_acked().unwrap_or_default();
        if delivered > before.delivered || before.held == 0 {
            self.acknowledged = now;
        }
        let silent = now.saturating_since(self.acknowledged);
        let window = tcp.snd_wnd().unwrap_or_default().into();
        let backlog = Backlog { held, window, silent, rtt: tcp.srtt().unwrap_or_default() };
        self.progress = Progress {
            delivered,
            held,
            waiting: backlog.waits_for_network(),
            host: backlog.host(),
            min_rtt: tcp.min_rtt(),
            state: tcp.state().unwrap_or_default(),
        };
        self.progress
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

    /// Whether the end behind has acknowledged everything, as it was measured last.
    pub(crate) fn delivery(&self) -> Delivery {
        match self.progress.state {
            // FIN-WAIT-2, TIME-WAIT.
            5 | 6 => Delivery::Done,
            // Closed: TIME-WAIT is over, or the socket has failed.
            7 => match sockopt::socket_error(self.socket(self.place.behind)) {
                Ok(Ok(())) => Delivery::Done,
                _ => Delivery::Failed,
            },
            _ => Delivery::Waits,
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
