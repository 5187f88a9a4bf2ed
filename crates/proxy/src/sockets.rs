//! The proxy's sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RawProtocol, SendFlags, SocketFlags, SocketType, bind, connect, getsockname,
    listen, sendto, socket_with, sockopt,
};
use trunkline_linux::{sent_isn, set_mark, set_transparent};
use trunkline_netlink::Family;

use crate::plan::Plan;
use crate::syn::Syn;

const BACKLOG: i32 = 4096;
const PROBES: u32 = 6;
/// `IPPROTO_RAW`: packets are sent as they are, with their headers.
const RAW: RawProtocol = RawProtocol::new(255).expect("not zero");

/// What all TCP sockets of a proxy have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TcpSettings {
    buffer: Option<usize>,
    keepalive: Duration,
}

impl From<&Plan> for TcpSettings {
    fn from(plan: &Plan) -> Self {
        TcpSettings { buffer: plan.buffer, keepalive: plan.keepalive }
    }
}

impl TcpSettings {
    /// A socket that may have addresses of others. What ends without having been closed in both directions is reset.
    fn socket(&self, ip: IpAddr, mark: Option<u32>) -> rustix::io::Result<OwnedFd> {
        let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        set_transparent(socket.as_fd(), ip.is_ipv6()).map_err(|error| errno(&error))?;
        if let Some(mark) = mark {
            set_mark(socket.as_fd(), mark).map_err(|error| errno(&error))?;
        }
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        sockopt::set_socket_oobinline(&socket, true)?;
        // What is to be gathered into segments, the end's own TCP has gathered.
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, self.keepalive)?;
        sockopt::set_tcp_keepintvl(&socket, (self.keepalive / PROBES).max(Duration::from_secs(1)))?;
        sockopt::set_tcp_keepcnt(&socket, PROBES)?;
        if let Some(bytes) = self.buffer {
            // The kernel doubles it for its own needs.
            sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
            sockopt::set_socket_send_buffer_size(&socket, bytes)?;
        }
        Ok(socket)
    }

    /// A socket that connects to the server of a SYN as its client. Its packets have the hops that the SYN has left, so that a loop
    /// through proxies ends as one through routers does.
    pub(crate) fn connect(&self, syn: &Syn, mark: Option<u32>) -> rustix::io::Result<OwnedFd> {
        let (client, server) = (syn.connection.client, syn.connection.server);
        let socket = self.socket(client.ip(), mark)?;
        // The lower two bits are the TCP's own (RFC 3168).
        let traffic_class = syn.traffic_class & 0xfc;
        let hops = syn.hops.max(1);
        if client.is_ipv4() {
            sockopt::set_ip_ttl(&socket, u32::from(hops))?;
            sockopt::set_ip_tos(&socket, traffic_class)?;
        } else {
            sockopt::set_ipv6_unicast_hops(&socket, Some(hops))?;
            sockopt::set_ipv6_tclass(&socket, u32::from(traffic_class))?;
        }
        bind(&socket, &client)?;
        match connect(&socket, &server) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }

    /// A socket that listens on the loopback for what the packet filter gives it, with its address. Accepted ones inherit its options.
    pub(crate) fn listen(
        &self,
        family: Family,
        mark: Option<u32>,
    ) -> rustix::io::Result<(OwnedFd, SocketAddr)> {
        let ip: IpAddr = match family {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        };
        let socket = self.socket(ip, mark)?;
        bind(&socket, &SocketAddr::new(ip, 0))?;
        listen(&socket, BACKLOG)?;
        let address = SocketAddr::try_from(getsockname(&socket)?)?;
        Ok((socket, address))
    }
}

/// The sequence number of the SYN that a socket of [`TcpSettings::connect`] has sent, if the kernel tells.
pub(crate) fn isn(socket: &OwnedFd) -> Option<u32> {
    let isn = sent_isn(socket.as_fd());
    // The question takes it away, and other connections have the same port.
    let _ = sockopt::set_socket_reuseaddr(socket, true);
    isn.ok()
}

/// Sends whole packets, whatever their source.
#[derive(Debug)]
pub(crate) struct RawSender {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
}

impl RawSender {
    /// What it sends has `mark`.
    pub(crate) fn new(mark: u32) -> io::Result<Self> {
        let open = |family| -> io::Result<OwnedFd> {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = socket_with(family, SocketType::RAW, flags, Some(Protocol::from_raw(RAW)))?;
            set_mark(socket.as_fd(), mark)?;
            Ok(socket)
        };
        let v6 = match open(AddressFamily::INET6) {
            Err(error) if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => None,
            other => Some(other?),
        };
        Ok(RawSender { v4: open(AddressFamily::INET)?, v6 })
    }

    /// Sends a packet to its destination. What the kernel refuses is lost, as on any link.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn send(&self, packet: &[u8], to: IpAddr) -> Result<(), Errno> {
        let socket = match to {
            IpAddr::V4(_) => Some(&self.v4),
            IpAddr::V6(_) => self.v6.as_ref(),
        };
        let socket = socket.ok_or(Errno::AFNOSUPPORT)?;
        let sent = sendto(socket, packet, SendFlags::DONTWAIT, &SocketAddr::new(to, 0));
        if let Err(error) = &sent {
            tracing::debug!("a packet to {to} was not sent: {error}");
        }
        sent.map(drop)
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
