//! Tables of the kernel's packet filter (`nf_tables`, nft(8)).
//!
//! A table is made in one transaction (a *batch*): all of it is there from one packet to the next, or nothing has changed. The kernel
//! removes a table that belongs to a socket ([`Owner::Socket`], Linux 5.12) when that socket closes, however the process ends.
//!
//! There is no well-kept library that speaks this protocol without C code or another licence, and the part that is needed is small.
//! Numbers are those of `linux/netfilter/nf_tables.h`.

mod attributes;
mod encode;
mod expressions;
mod monitor;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use netlink_sys::{Socket, SocketAddr as NetlinkAddress, protocols::NETLINK_NETFILTER};

use crate::error::{NetlinkError, Request};
use crate::handle::{messages, retry};
use crate::reply::word;
use crate::rule::Family;
use encode::Batch;
pub use monitor::{FilterChange, FilterEvent, FilterMonitor};

const NLMSG_ERROR: u16 = 2;
/// The family of tables that see IPv4 and IPv6: `NFPROTO_INET`.
const INET: u8 = 1;
/// `NFT_MSG_NEWTABLE`, `_GETTABLE`, `_DELTABLE`, `_NEWCHAIN`, `_NEWRULE`.
const NEW_TABLE: u8 = 0;
const GET_TABLE: u8 = 1;
const DELETE_TABLE: u8 = 2;
const NEW_CHAIN: u8 = 3;
const NEW_RULE: u8 = 6;
/// `NFT_TABLE_F_OWNER`.
const OWNED: u32 = 2;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;
const NF_ACCEPT: u32 = 1;
const ENOENT: i32 = 2;

/// How long a table lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// As long as the socket that made it. No other socket can change it.
    Socket,
    /// Until it is removed.
    Nobody,
}

/// Where a chain sees packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// As they come in, before their route is looked up.
    Prerouting,
    /// As this host sends them. Their route is looked up again if a rule changes their mark.
    Output,
    /// As they leave. Rules see the first packet of a connection only, and what they do holds for all of it.
    Postrouting,
}

/// A table for IPv4 and IPv6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterTable {
    /// Its name.
    pub name: String,
    /// How long it lives.
    pub owner: Owner,
    /// Its chains.
    pub chains: Vec<FilterChain>,
}

/// A chain of rules. Packets that no rule accepts are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterChain {
    /// Its name.
    pub name: String,
    /// Where it sees packets.
    pub hook: Hook,
    /// Its place among the chains of the hook: lower ones come before; -150 is that of nft's word `mangle`.
    pub priority: i32,
    /// Its rules. The first that applies to a packet accepts it, and ends the chain.
    pub rules: Vec<FilterRule>,
}

/// A rule: what it does with a packet to which all its conditions apply, before it accepts the packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterRule {
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// Marks the packet.
    pub mark: Option<u32>,
    /// Gives the packet to a listening socket of this host.
    pub tproxy: Option<Tproxy>,
    /// Gives the connection, at [`Hook::Postrouting`], the address of the link that it leaves by and a port at random
    /// (`masquerade fully-random`).
    pub masquerade: bool,
}

/// A socket with `IP_TRANSPARENT` that listens on an address of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tproxy(pub SocketAddr);

/// A property of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// It came in by the link of this name.
    Link(String),
    /// It came in by any other link.
    OtherLink(String),
    /// Its version of IP.
    Family(Family),
    /// Its protocol above IP.
    Protocol(u8),
    /// Its source is in the prefix.
    Source(IpNet),
    /// Its destination is in the prefix.
    Destination(IpNet),
    /// It is TCP, and its source port is in the range.
    SourcePort(RangeInclusive<u16>),
    /// It is TCP, and its destination port is in the range.
    DestinationPort(RangeInclusive<u16>),
    /// Its TCP flags, under `mask`, are `value`.
    TcpFlags {
        /// The flags that count.
        mask: u8,
        /// Their values.
        value: u8,
    },
    /// It is of this protocol, `1` or `58`, and its ICMP type is `kind`.
    Icmp {
        /// ICMP or `ICMPv6`.
        protocol: u8,
        /// The type.
        kind: u8,
    },
    /// Its mark.
    Mark(u32),
    /// It belongs to a socket of this host with `IP_TRANSPARENT`.
    TransparentSocket,
    /// It belongs to a socket of this host with this mark (`SO_MARK`).
    SocketMark(u32),
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(name) => write!(f, "iifname {name}"),
            Self::OtherLink(name) => write!(f, "iifname != {name}"),
            Self::Family(family) => write!(f, "nfproto {family}"),
            Self::Protocol(number) => write!(f, "l4proto {number}"),
            Self::Source(net) => write!(f, "saddr {net}"),
            Self::Destination(net) => write!(f, "daddr {net}"),
            Self::SourcePort(ports) => write!(f, "sport {}-{}", ports.start(), ports.end()),
            Self::DestinationPort(ports) => write!(f, "dport {}-{}", ports.start(), ports.end()),
            Self::TcpFlags { mask, value } => write!(f, "tcp flags & {mask:#x} == {value:#x}"),
            Self::Icmp { protocol, kind } => write!(f, "l4proto {protocol} type {kind}"),
            Self::Mark(mark) => write!(f, "mark {mark:#x}"),
            Self::TransparentSocket => write!(f, "socket transparent 1"),
            Self::SocketMark(mark) => write!(f, "socket mark {mark:#x}"),
        }
    }
}

impl fmt::Display for FilterRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for condition in &self.conditions {
            write!(f, "{condition} ")?;
        }
        if let Some(Tproxy(to)) = self.tproxy {
            write!(f, "tproxy to {to} ")?;
        }
        if let Some(mark) = self.mark {
            write!(f, "mark set {mark:#x} ")?;
        }
        if self.masquerade {
            f.write_str("masquerade fully-random ")?;
        }
        f.write_str("accept")
    }
}

/// A socket to the packet filter of the namespace of the thread that opened it.
#[derive(Debug)]
pub struct PacketFilter {
    socket: Socket,
    port: u32,
}

impl PacketFilter {
    /// Opens a socket in the calling thread's network namespace, to which it stays bound.
    pub fn open() -> Result<Self, NetlinkError> {
        let open = || -> io::Result<Self> {
            let mut socket = Socket::new(NETLINK_NETFILTER)?;
            let port = socket.bind_auto()?.port_number();
            socket.connect(&NetlinkAddress::new(0, 0))?;
            // The kernel answers within the system call that sends the request.
            socket.set_non_blocking(true)?;
            let _ = socket.set_cap_ack(true);
            Ok(Self { socket, port })
        };
        open().map_err(|source| NetlinkError::Open { source })
    }

    /// The socket's port: that of the changes which it makes ([`FilterChange::by`]).
    pub const fn port(&self) -> u32 {
        self.port
    }

    /// Makes a table, in place of the one of its name if there is one.
    ///
    /// # Errors
    /// The kernel's, with the part of the table that it refused. `EPERM` if the table belongs to another socket, or the process may not
    /// change the packet filter.
    pub fn replace(&mut self, table: &FilterTable) -> Result<(), NetlinkError> {
        let mut batch = Batch::new();
        let replaced = usize::from(self.exists(&table.name)?);
        if replaced > 0 {
            batch.table(DELETE_TABLE, 0, &table.name, 0);
        }
        let flags = match table.owner {
            Owner::Socket => OWNED,
            Owner::Nobody => 0,
        };
        batch.table(NEW_TABLE, NLM_F_CREATE, &table.name, flags);
        for chain in &table.chains {
            batch.chain(&table.name, chain);
        }
        for chain in &table.chains {
            for rule in &chain.rules {
                batch.rule(&table.name, &chain.name, rule);
            }
        }
        let part = |number: usize| -> String {
            let rules = || table.chains.iter().flat_map(|chain| &chain.rules);
            match number.checked_sub(replaced + 1) {
                None => "the table".to_owned(),
                Some(number) => match (table.chains.get(number), number.checked_sub(table.chains.len())) {
                    (Some(chain), _) => format!("chain {}", chain.name),
                    (None, Some(number)) => {
                        rules().nth(number).map_or_else(String::new, |rule| format!("rule {rule}"))
                    }
                    (None, None) => String::new(),
                },
            }
        };
        self.send(batch, |number| Request::ReplaceFilter { table: table.name.clone(), part: part(number) })
    }

    /// Removes a table and all that is in it. Whether it was there.
    ///
    /// # Errors
    /// As for [`PacketFilter::replace`].
    pub fn delete(&mut self, name: &str) -> Result<bool, NetlinkError> {
        let mut batch = Batch::new();
        batch.table(DELETE_TABLE, 0, name, 0);
        match self.send(batch, |_| Request::DeleteFilter { table: name.to_owned() }) {
            Ok(()) => Ok(true),
            Err(error) if error.errno() == Some(ENOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether there is a table of this name.
    ///
    /// # Errors
    /// The kernel's.
    pub fn exists(&mut self, name: &str) -> Result<bool, NetlinkError> {
        match self.exchange(&encode::get_table(name), |_| Request::FindFilter { table: name.to_owned() }) {
            Ok(()) => Ok(true),
            Err(error) if error.errno() == Some(ENOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn send(&mut self, batch: Batch, request: impl Fn(usize) -> Request) -> Result<(), NetlinkError> {
        self.exchange(&batch.finish(), request)
    }

    /// Sends messages. `request` names the one of a number, from 0.
    fn exchange(&mut self, bytes: &[u8], request: impl Fn(usize) -> Request) -> Result<(), NetlinkError> {
        let failed = |source| NetlinkError::Socket { request: Box::new(request(0)), source };
        retry(|| self.socket.send(bytes, 0)).map_err(failed)?;
        let mut refused = None;
        loop {
            let datagram = match retry(|| self.socket.recv_from_full()) {
                Ok((datagram, _)) => datagram,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(source) => {
                    return Err(NetlinkError::Socket { request: Box::new(request(0)), source });
                }
            };
            for message in messages(&datagram).filter(|message| message.kind == NLMSG_ERROR) {
                let code = word(message.body).map_or(0, u32::cast_signed);
                if code != 0 && refused.is_none() {
                    let number = encode::number_of(message.sequence);
                    refused = Some((number, code.wrapping_neg()));
                }
            }
        }
        match refused {
            None => Ok(()),
            Some((number, errno)) => {
                Err(NetlinkError::Refused { request: Box::new(request(number)), errno, message: None })
            }
        }
    }
}
