//! Notifications of changes in the kernel.

use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::protocols::NETLINK_ROUTE;

use crate::address::{self, Address, RTM_DELADDR, RTM_NEWADDR};
use crate::error::NetlinkError;
use crate::link::{self, Link, RTM_DELLINK, RTM_NEWLINK};
use crate::notifications::Notifications;
use crate::reply::Reply;
use crate::route::{self, RTM_DELROUTE, RTM_NEWROUTE, Route};
use crate::rule::{RTM_DELRULE, RTM_NEWRULE};

/// `RTNLGRP_LINK`, `_IPV4_IFADDR`, `_IPV4_ROUTE`, `_IPV4_RULE`, `_IPV6_IFADDR`, `_IPV6_ROUTE`, `_IPV6_RULE`.
const GROUPS: [u32; 7] = [1, 5, 7, 8, 9, 11, 19];

/// Something that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A link was created or has changed; its new state.
    Link(Link),
    /// A link was removed, or moved to another namespace.
    LinkRemoved {
        /// Its index.
        device: u32,
    },
    /// An address was added to a link, or changed.
    Address {
        /// The link's index.
        device: u32,
        /// The address.
        address: Address,
    },
    /// An address was removed from a link.
    AddressRemoved {
        /// The link's index.
        device: u32,
        /// The address.
        address: Address,
    },
    /// A route was added, or replaced one with the same prefix and metric. A multipath route has no `device` here.
    Route(Route),
    /// A route was removed. The kernel does not report routes that it removes together with their link.
    RouteRemoved(Route),
    /// Rules changed.
    Rules,
    /// The kernel dropped notifications because the socket's buffer was full: anything may have changed.
    Missed,
}

/// A socket for the kernel's notifications of changes. It is readable when there are any.
#[derive(Debug)]
pub struct Monitor {
    notifications: Notifications,
}

impl Monitor {
    /// Opens a socket in the calling thread's network namespace, to which it stays bound.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { notifications: Notifications::open(NETLINK_ROUTE, &GROUPS)? })
    }

    /// Returns the changes in at most `datagrams` datagrams; none if there are none. Messages that it does not understand
    /// are skipped.
    pub fn read(&mut self, datagrams: usize) -> Vec<Event> {
        self.notifications.read(datagrams, Event::Missed, |message| {
            event(&Reply { kind: message.kind, body: message.body.to_vec() })
        })
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }
}

/// The family of messages about links themselves; others are about what a bridge or IPv6 makes of them.
const AF_UNSPEC: u8 = 0;

fn event(reply: &Reply) -> Option<Event> {
    Some(match reply.kind {
        RTM_NEWLINK | RTM_DELLINK if reply.byte(0)? != AF_UNSPEC => return None,
        RTM_NEWLINK => Event::Link(link::parse(reply)?),
        RTM_DELLINK => Event::LinkRemoved { device: reply.word(4)? },
        RTM_NEWADDR => Event::Address { device: reply.word(4)?, address: address::parse(reply)? },
        RTM_DELADDR => Event::AddressRemoved { device: reply.word(4)?, address: address::parse(reply)? },
        RTM_NEWROUTE => Event::Route(route::parse_any(reply)?),
        RTM_DELROUTE => Event::RouteRemoved(route::parse_any(reply)?),
        RTM_NEWRULE | RTM_DELRULE => Event::Rules,
        _ => return None,
    })
}
