//! What the thread waits for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// A command, or the timer.
    Wake,
    Listener(u32),
    Receiver(u32),
    Client(ConnectionId),
    Server(ConnectionId),
}

/// A connection's place, and how often the place has been given away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Token {
    fn encode(self) -> u64 {
        let of = |kind: u64, id: ConnectionId| {
            kind << 60 | u64::from(id.generation & 0x0fff_ffff) << 32 | u64::from(id.index)
        };
        let plain = |index| ConnectionId { index, generation: 0 };
        match self {
            Token::Wake => of(0, plain(0)),
            Token::Listener(index) => of(1, plain(index)),
            Token::Receiver(index) => of(2, plain(index)),
            Token::Client(id) => of(3, id),
            Token::Server(id) => of(4, id),
        }
    }

    pub(super) fn decode(data: u64) -> Self {
        let id = ConnectionId { index: data as u32, generation: (data >> 32) as u32 & 0x0fff_ffff };
        match data >> 60 {
            1 => Token::Listener(id.index),
            2 => Token::Receiver(id.index),
            3 => Token::Client(id),
            4 => Token::Server(id),
            _ => Token::Wake,
        }
    }
}

/// An epoll instance. A descriptor leaves it when it is closed.
#[derive(Debug, Clone)]
pub(super) struct Poll(Arc<OwnedFd>);

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Poll(Arc::new(epoll::create(CreateFlags::CLOEXEC)?)))
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// Reports whenever there is something to read, until it is read.
    pub(super) fn add_input(&self, socket: impl AsFd, token: Token) -> io::Result<()> {
        Ok(epoll::add(&self.0, socket, EventData::new_u64(token.encode()), EventFlags::IN)?)
    }

    /// Reports once whenever something new can be read, or what was full has room: its owner reads and writes until the kernel
    /// refuses. So no call is needed to change what is waited for.
    pub(super) fn add_edges(&self, socket: impl AsFd, token: Token) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.0, socket, EventData::new_u64(token.encode()), flags)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_was() {
        let id = ConnectionId { index: 49_999, generation: 0x0abc_def0 };
        for token in
            [Token::Wake, Token::Listener(7), Token::Receiver(9), Token::Client(id), Token::Server(id)]
        {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
