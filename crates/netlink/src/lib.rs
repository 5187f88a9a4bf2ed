//! Links, addresses, routes, rules and queue disciplines of the kernel, over rtnetlink (RFC 3549), and tables of its packet filter
//! (`nf_tables`).
//!
//! A [`Handle`] is one netlink socket. It belongs to the network namespace that the thread was in when it opened
//! the socket, whichever thread uses it later. Every call is one synchronous exchange: the kernel answers a
//! request within the system call that sends it, so there is nothing to wait for and no time-out.
//!
//! A [`Monitor`] is another socket, on which the kernel reports what changes; a [`FilterMonitor`] is one for the packet filter.
//!
//! Requests are built with `netlink-packet-route`. Replies are read attribute by attribute and only as far as
//! they are needed, so an attribute that a newer kernel changed cannot fail a call that does not use it.
//!
//! [`TimeWaits`] is a socket to the table of closed TCP connections.
//!
//! A [`PacketFilter`] is a socket to `nf_tables`: it makes, replaces and removes whole tables.
//!
//! Links are named by their index, as the kernel does it; [`Handle::link_index`] finds one by name.

mod address;
mod error;
mod filter;
mod handle;
mod link;
mod monitor;
mod notifications;
mod qdisc;
mod reply;
mod route;
mod rule;
mod time_wait;

pub use address::Address;
pub use error::{NetlinkError, Request};
pub use filter::{
    Condition, FilterChain, FilterChange, FilterEvent, FilterMonitor, FilterRule, FilterTable, Hook, Owner,
    PacketFilter, Tproxy,
};
pub use handle::Handle;
pub use link::{Link, LinkStats};
pub use monitor::{Event, Monitor};
pub use qdisc::{QdiscStats, TokenBucket};
pub use route::{Existing, Route, RouteFilter, RouteKind};
pub use rule::{Family, Rule, RuleMark};
pub use time_wait::{TimeWait, TimeWaits};
