//! A socket for the kernel's notifications of one netlink protocol.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::Socket;

use crate::error::NetlinkError;
use crate::handle::{Message, messages, retry};

/// A socket that is a member of notification groups. It is readable when there are notifications.
#[derive(Debug)]
pub(crate) struct Notifications {
    socket: Socket,
}

impl Notifications {
    /// Opens a socket in the calling thread's network namespace, to which it stays bound.
    pub(crate) fn open(protocol: isize, groups: &[u32]) -> Result<Self, NetlinkError> {
        let open = || -> io::Result<Self> {
            let mut socket = Socket::new(protocol)?;
            socket.bind_auto()?;
            socket.set_non_blocking(true)?;
            groups.iter().try_for_each(|group| socket.add_membership(*group))?;
            Ok(Self { socket })
        };
        open().map_err(|source| NetlinkError::Open { source })
    }

    /// Returns what the messages of at most `datagrams` datagrams mean; none if there are none. `missed` stands for those that the
    /// kernel dropped. Messages that `parse` does not understand are skipped.
    pub(crate) fn read<E>(
        &mut self,
        datagrams: usize,
        missed: E,
        parse: impl Fn(&Message<'_>) -> Option<E>,
    ) -> Vec<E> {
        let mut events = Vec::new();
        for _ in 0..datagrams {
            match retry(|| self.socket.recv_from_full()) {
                Ok((datagram, sender)) if sender.port_number() == 0 => {
                    events.extend(messages(&datagram).filter_map(|message| parse(&message)));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // ENOBUFS: the kernel dropped notifications.
                Err(_) => {
                    events.push(missed);
                    break;
                }
            }
        }
        events
    }
}

impl AsFd for Notifications {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
