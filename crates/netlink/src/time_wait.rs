//! TCP connections that this host has closed first, and that the kernel remembers for a minute (TIME-WAIT, RFC 9293 §3.6).
//!
//! The kernel tells of them and forgets them over `sock_diag` (`linux/inet_diag.h`); to forget needs `CAP_NET_ADMIN` and a kernel with
//! `CONFIG_INET_DIAG_DESTROY`.

use std::net::{IpAddr, SocketAddr};

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;

use crate::error::{NetlinkError, Request};
use crate::handle::{Handle, Until};
use crate::reply::{Reply, ip};
use crate::rule::Family;

/// `SOCK_DIAG_BY_FAMILY`, `SOCK_DESTROY`.
const FIND: u16 = 20;
const DESTROY: u16 = 21;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// `TCP_TIME_WAIT`.
const TIME_WAIT: u8 = 6;
const HEADER_BYTES: u32 = 16;
/// `struct inet_diag_req_v2`: family, protocol, two bytes, the mask of states, the socket's identity.
const REQUEST_BYTES: u32 = 8 + ID_BYTES as u32;
/// `struct inet_diag_sockid`: ports, addresses, interface, cookie.
const ID_BYTES: usize = 48;
/// Where it is in `struct inet_diag_msg`.
const ID_OFFSET: usize = 4;
/// The last eight bytes: any socket of these addresses and ports.
const NO_COOKIE: [u8; 8] = [0xff; 8];
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// A connection in TIME-WAIT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeWait {
    /// This host's end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// As the kernel names it, its cookie included: another socket of the same addresses and ports is not meant.
    id: [u8; ID_BYTES],
}

/// A socket to the kernel's table of TCP connections, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct TimeWaits(Handle);

impl TimeWaits {
    /// Opens a socket in the calling thread's network namespace, to which it stays bound.
    ///
    /// # Errors
    /// [`NetlinkError::Open`].
    pub fn open() -> Result<Self, NetlinkError> {
        Handle::open_protocol(NETLINK_SOCK_DIAG).map(Self)
    }

    /// All connections in TIME-WAIT.
    ///
    /// # Errors
    /// The kernel's.
    pub fn list(&mut self, family: Family) -> Result<Vec<TimeWait>, NetlinkError> {
        let family_number = if family == Family::V4 { AF_INET } else { AF_INET6 };
        let message = message(FIND, NLM_F_REQUEST | NLM_F_DUMP, family_number, &[0; ID_BYTES]);
        let replies = self.0.exchange(&message, Until::Done);
        let replies = replies.map_err(|failure| failure.of(Request::ListTimeWaits(family)))?;
        Ok(replies.iter().filter_map(parse).collect())
    }

    /// The connection in TIME-WAIT between two addresses, if there is one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn find(&mut self, local: SocketAddr, remote: SocketAddr) -> Result<Option<TimeWait>, NetlinkError> {
        let id = id(local, remote);
        let message = message(FIND, NLM_F_REQUEST, family_of(local.ip()), &id);
        match self.0.exchange(&message, Until::FirstReply) {
            // Where there is no connection the kernel tells of one that listens.
            Ok(replies) => Ok(replies
                .iter()
                .find_map(parse)
                .filter(|found| (found.local, found.remote) == (local, remote))),
            Err(failure) => match failure.of(Request::FindTimeWait { local, remote }) {
                error if error.is_not_found() => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Has the kernel forget one. Whether it had not done so by itself.
    ///
    /// # Errors
    /// The kernel's: `EOPNOTSUPP` if it cannot, `EPERM` if the process may not.
    pub fn forget(&mut self, TimeWait { local, remote, id }: &TimeWait) -> Result<bool, NetlinkError> {
        let message = message(DESTROY, NLM_F_REQUEST | NLM_F_ACK, family_of(local.ip()), id);
        match self.0.exchange(&message, Until::Acknowledged) {
            Ok(_) => Ok(true),
            Err(failure) => match failure.of(Request::ForgetTimeWait { local: *local, remote: *remote }) {
                error if error.is_not_found() => Ok(false),
                error => Err(error),
            },
        }
    }
}

const fn family_of(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { AF_INET } else { AF_INET6 }
}

fn message(kind: u16, flags: u16, family: u8, id: &[u8; ID_BYTES]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((HEADER_BYTES + REQUEST_BYTES).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // The sequence number, which the exchange writes, and the port.
    bytes.extend([0; 8]);
    bytes.extend([family, TCP, 0, 0]);
    bytes.extend((1_u32 << TIME_WAIT).to_ne_bytes());
    bytes.extend(id);
    bytes
}

fn id(local: SocketAddr, remote: SocketAddr) -> [u8; ID_BYTES] {
    let mut id = [0; ID_BYTES];
    id[0..2].copy_from_slice(&local.port().to_be_bytes());
    id[2..4].copy_from_slice(&remote.port().to_be_bytes());
    for (at, address) in [(4, local.ip()), (20, remote.ip())] {
        match address {
            IpAddr::V4(ip) => id[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => id[at..at + 16].copy_from_slice(&ip.octets()),
        }
    }
    id[ID_BYTES - 8..].copy_from_slice(&NO_COOKIE);
    id
}

/// `None` for another state, and for what is too short.
fn parse(reply: &Reply) -> Option<TimeWait> {
    if reply.kind != FIND || reply.byte(1)? != TIME_WAIT {
        return None;
    }
    let id: [u8; ID_BYTES] = reply.body.get(ID_OFFSET..ID_OFFSET + ID_BYTES)?.try_into().ok()?;
    let bytes = if reply.byte(0)? == AF_INET { 4 } else { 16 };
    let end = |port: usize, at: usize| -> Option<SocketAddr> {
        Some(SocketAddr::new(ip(&id[at..at + bytes])?, u16::from_be_bytes([id[port], id[port + 1]])))
    };
    Some(TimeWait { local: end(0, 4)?, remote: end(2, 20)?, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_as_the_kernel_writes_it_and_other_states_are_none() {
        for (local, remote) in [("10.1.0.2:80", "10.2.0.9:4000"), ("[fd00::1]:80", "[fd00::2]:4000")] {
            let (local, remote): (SocketAddr, SocketAddr) =
                (local.parse().expect("it"), remote.parse().expect("it"));
            let id = id(local, remote);
            let body = |state: u8| [&[family_of(local.ip()), state, 0, 0][..], &id, &[0; 20]].concat();
            let reply = |state| Reply { kind: FIND, body: body(state) };
            assert_eq!(parse(&reply(TIME_WAIT)), Some(TimeWait { local, remote, id }));
            assert_eq!(parse(&reply(1)), None, "established");
            let short = Reply { kind: FIND, body: body(TIME_WAIT)[..40].to_vec() };
            assert_eq!(parse(&short), None);
        }
    }
}
