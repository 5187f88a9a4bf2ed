//! Errors of requests to the kernel, each with its request.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::{Family, Route, RouteFilter, Rule};

/// No such queue discipline.
const ENOENT: i32 = 2;
/// No such route.
const ESRCH: i32 = 3;
const EEXIST: i32 = 17;
/// The kernel was built without the family.
const EAFNOSUPPORT: i32 = 97;
/// The kernel was built without it.
const EOPNOTSUPP: i32 = 95;
/// No such link.
const ENODEV: i32 = 19;
/// No such address.
const EADDRNOTAVAIL: i32 = 99;

/// A call that failed. Every variant but [`NetlinkError::Open`] has the request.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// No netlink socket could be opened.
    #[error("cannot open a netlink socket: {source}")]
    Open {
        /// The system's error.
        source: io::Error,
    },
    /// The kernel understood the request and refused it.
    #[error("cannot {request}: {}{}", io::Error::from_raw_os_error(*.errno), explanation(.message.as_deref()))]
    Refused {
        /// The request.
        request: Box<Request>,
        /// The kernel's reason, as in `errno.h`.
        errno: i32,
        /// The kernel's explanation, if it gives one.
        message: Option<String>,
    },
    /// The socket could not send the request or receive the answer.
    #[error("cannot {request}: the netlink socket failed: {source}")]
    Socket {
        /// The request.
        request: Box<Request>,
        /// The system's error.
        source: io::Error,
    },
    /// The request mixes IPv4 and IPv6 where the kernel would misread one as the other.
    #[error("cannot {request}: it mixes IPv4 and IPv6")]
    MixedFamilies {
        /// The request.
        request: Box<Request>,
    },
    /// The kernel's answer violates the protocol.
    #[error("cannot {request}: the kernel's answer lacks {missing}")]
    Malformed {
        /// The request.
        request: Box<Request>,
        /// The part that is missing.
        missing: &'static str,
    },
}

impl NetlinkError {
    /// The system's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            Self::Open { source } | Self::Socket { source, .. } => source.raw_os_error(),
            Self::MixedFamilies { .. } | Self::Malformed { .. } => None,
        }
    }

    /// The request to the kernel that failed.
    pub fn request(&self) -> Option<&Request> {
        match self {
            Self::Open { .. } => None,
            Self::Refused { request, .. }
            | Self::Socket { request, .. }
            | Self::MixedFamilies { request }
            | Self::Malformed { request, .. } => Some(request),
        }
    }

    /// Whether the object to change, read or remove does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.errno(), Some(ENODEV | EADDRNOTAVAIL | ESRCH | ENOENT))
    }

    /// Whether the kernel lacks the requested feature (`EAFNOSUPPORT`, `EOPNOTSUPP`).
    pub fn is_unsupported(&self) -> bool {
        matches!(self.errno(), Some(EAFNOSUPPORT | EOPNOTSUPP))
    }

    /// Whether the object to create exists already (`EEXIST`).
    pub fn is_already_there(&self) -> bool {
        self.errno() == Some(EEXIST)
    }
}

fn explanation(message: Option<&str>) -> String {
    message.map_or_else(String::new, |text| format!(" (the kernel says: {text})"))
}

/// A request to the kernel. Its `Display` completes the sentence "cannot …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Find a link by its name.
    FindLink {
        /// The name.
        name: String,
    },
    /// Read a link's state or counters.
    ReadLink {
        /// Its index.
        device: u32,
    },
    /// List all links.
    ListLinks,
    /// Take a link up or down.
    SetState {
        /// Its index.
        device: u32,
        /// The state asked for.
        up: bool,
    },
    /// Change a link's MTU.
    SetMtu {
        /// Its index.
        device: u32,
        /// The MTU asked for.
        mtu: u32,
    },
    /// Change the length of a link's transmit queue.
    SetTxQueueLen {
        /// Its index.
        device: u32,
        /// The length asked for.
        packets: u32,
    },
    /// Bound what a link is handed at once.
    SetGsoMaxSegments {
        /// Its index.
        device: u32,
        /// The bound asked for.
        segments: u32,
    },
    /// Rename a link.
    Rename {
        /// Its index.
        device: u32,
        /// The name asked for.
        name: String,
    },
    /// Make a pair of joined links.
    CreateVeth {
        /// The near end.
        name: String,
        /// The far end.
        peer: String,
    },
    /// Make a bridge.
    CreateBridge {
        /// Its name.
        name: String,
    },
    /// Move a link to another network namespace.
    MoveToNamespace {
        /// Its index.
        device: u32,
    },
    /// Make a link a port of a bridge, or release it.
    SetMaster {
        /// The port's index.
        device: u32,
        /// The bridge's index.
        master: Option<u32>,
    },
    /// Remove a link.
    DeleteLink {
        /// Its index.
        device: u32,
    },
    /// Give a link an address.
    AddAddress {
        /// The link's index.
        device: u32,
        /// The address and its prefix.
        address: IpNet,
        /// The other end of a point-to-point link.
        peer: Option<IpAddr>,
    },
    /// Take an address from a link.
    DeleteAddress {
        /// The link's index.
        device: u32,
        /// The address and its prefix.
        address: IpNet,
    },
    /// List a link's addresses.
    ListAddresses {
        /// The link's index.
        device: u32,
    },
    /// Make a route.
    AddRoute(Route),
    /// Remove a route.
    DeleteRoute(Route),
    /// List the routes of a table.
    ListRoutes {
        /// The table's number.
        table: u32,
    },
    /// List the routes that a filter takes.
    FindRoutes(RouteFilter),
    /// Make a rule.
    AddRule(Rule),
    /// Remove a rule.
    DeleteRule(Rule),
    /// List the rules of a family.
    ListRules(Family),
    /// Make a table of the packet filter in place of the one of its name.
    ReplaceFilter {
        /// Its name.
        table: String,
        /// The part that the kernel refused.
        part: String,
    },
    /// Remove a table of the packet filter.
    DeleteFilter {
        /// Its name.
        table: String,
    },
    /// Look for a table of the packet filter.
    FindFilter {
        /// Its name.
        table: String,
    },
    /// Ask which route a packet would take.
    FindRoute {
        /// The packet's destination.
        destination: IpAddr,
    },
    /// List the connections in TIME-WAIT.
    ListTimeWaits(Family),
    /// Look for a connection in TIME-WAIT.
    FindTimeWait {
        /// This host's end.
        local: SocketAddr,
        /// The other end.
        remote: SocketAddr,
    },
    /// Have the kernel forget a connection in TIME-WAIT.
    ForgetTimeWait {
        /// This host's end.
        local: SocketAddr,
        /// The other end.
        remote: SocketAddr,
    },
    /// Set a link's queue discipline.
    SetQdisc {
        /// The link's index.
        device: u32,
        /// The discipline, with its parameters.
        discipline: String,
    },
    /// Give a link its default queue discipline back.
    DeleteQdisc {
        /// The link's index.
        device: u32,
    },
    /// Read the counters of a link's queue discipline.
    ReadQdisc {
        /// The link's index.
        device: u32,
    },
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FindLink { name } => write!(f, "find link {name}"),
            Self::ReadLink { device } => write!(f, "read link {device}"),
            Self::ListLinks => write!(f, "list the links"),
            Self::SetState { device, up } => {
                write!(f, "take link {device} {}", if *up { "up" } else { "down" })
            }
            Self::SetMtu { device, mtu } => write!(f, "set the MTU of link {device} to {mtu}"),
            Self::SetTxQueueLen { device, packets } => {
                write!(f, "set the transmit queue of link {device} to {packets} packets")
            }
            Self::SetGsoMaxSegments { device, segments } => {
                write!(f, "bound what link {device} is handed at once to {segments} segments")
            }
            Self::Rename { device, name } => write!(f, "rename link {device} to {name}"),
            Self::CreateVeth { name, peer } => write!(f, "create the veth pair {name} and {peer}"),
            Self::CreateBridge { name } => write!(f, "create bridge {name}"),
            Self::MoveToNamespace { device } => write!(f, "move link {device} to another namespace"),
            Self::SetMaster { device, master: Some(master) } => {
                write!(f, "make link {device} a port of bridge {master}")
            }
            Self::SetMaster { device, master: None } => write!(f, "release link {device} from its bridge"),
            Self::DeleteLink { device } => write!(f, "delete link {device}"),
            Self::AddAddress { device, address, peer: None } => write!(f, "add {address} to link {device}"),
            Self::AddAddress { device, address, peer: Some(peer) } => {
                write!(f, "add {address} with peer {peer} to link {device}")
            }
            Self::DeleteAddress { device, address } => write!(f, "delete {address} from link {device}"),
            Self::ListAddresses { device } => write!(f, "list the addresses of link {device}"),
            Self::AddRoute(route) => write!(f, "add the route {route}"),
            Self::DeleteRoute(route) => write!(f, "delete the route {route}"),
            Self::ListRoutes { table } => write!(f, "list the routes of table {table}"),
            Self::FindRoutes(_) => write!(f, "look for routes"),
            Self::AddRule(rule) => write!(f, "add the rule {rule}"),
            Self::DeleteRule(rule) => write!(f, "delete the rule {rule}"),
            Self::ListRules(family) => write!(f, "list the rules of {family}"),
            Self::ReplaceFilter { table, part } => {
                write!(f, "make the packet filter's table {table} ({part})")
            }
            Self::DeleteFilter { table } => write!(f, "delete the packet filter's table {table}"),
            Self::FindFilter { table } => write!(f, "look for the packet filter's table {table}"),
            Self::FindRoute { destination } => write!(f, "find the route to {destination}"),
            Self::ListTimeWaits(family) => write!(f, "list the connections of {family} in TIME-WAIT"),
            Self::FindTimeWait { local, remote } => {
                write!(f, "look for the connection of {local} with {remote} in TIME-WAIT")
            }
            Self::ForgetTimeWait { local, remote } => {
                write!(f, "forget the connection of {local} with {remote} in TIME-WAIT")
            }
            Self::SetQdisc { device, discipline } => write!(f, "put {discipline} on link {device}"),
            Self::DeleteQdisc { device } => write!(f, "delete the queue discipline of link {device}"),
            Self::ReadQdisc { device } => write!(f, "read the queue discipline of link {device}"),
        }
    }
}
