//! Notifications of changes of the packet filter.

use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::protocols::NETLINK_NETFILTER;

use super::encode::SUBSYSTEM;
use crate::error::NetlinkError;
use crate::handle::Message;
use crate::notifications::Notifications;
use crate::reply::{attributes, text};

/// `NFNLGRP_NFTABLES`.
const GROUP: u32 = 7;
/// `struct nfgenmsg`.
const HEADER_BYTES: usize = 4;
/// The name of the table, in messages about tables and what is in them.
const TABLE: u16 = 1;
/// `NFT_MSG_NEWGEN`, the end of a transaction: the only notification that names no table.
const NEW_GENERATION: u8 = 15;

/// A table, or something in it, was made, changed or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterChange {
    /// The table's name.
    pub table: String,
    /// The port of the socket that asked for it ([`PacketFilter::port`](super::PacketFilter::port)).
    pub by: u32,
}

/// Something that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterEvent {
    /// This table.
    Changed(FilterChange),
    /// The kernel dropped notifications because the socket's buffer was full: anything may have changed.
    Missed,
}

/// A socket for notifications of changes of the packet filter. It is readable when there are any. The kernel reports those of all families
/// and of every table.
#[derive(Debug)]
pub struct FilterMonitor {
    notifications: Notifications,
}

impl FilterMonitor {
    /// Opens a socket in the calling thread's network namespace, to which it stays bound.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { notifications: Notifications::open(NETLINK_NETFILTER, &[GROUP])? })
    }

    /// Returns the changes in at most `datagrams` datagrams; none if there are none. Changes of one table by one socket that follow each
    /// other are one.
    pub fn read(&mut self, datagrams: usize) -> Vec<FilterEvent> {
        let mut events = self.notifications.read(datagrams, FilterEvent::Missed, change);
        events.dedup();
        events
    }
}

impl AsFd for FilterMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }
}

fn change(message: &Message<'_>) -> Option<FilterEvent> {
    let [kind, subsystem] = message.kind.to_le_bytes();
    if subsystem != SUBSYSTEM || kind == NEW_GENERATION {
        return None;
    }
    let mut attributes = attributes(message.body.get(HEADER_BYTES..)?);
    let table = text(attributes.find(|attribute| attribute.kind() == TABLE)?.value());
    Some(FilterEvent::Changed(FilterChange { table, by: message.port }))
}
