//! Sockets with every option set that affects a measurement, in the namespace that they are for.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use trunkline_linux::set_int;

use super::settings::{GeneratorError, SocketOptions};
use crate::namespace::{Host, enter};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 65_535;
/// Bytes of datagrams that wait to be read or sent.
const DATAGRAM_BUFFER: usize = 8 << 20;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A host as the generator's thread needs it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) namespace: Arc<File>,
}

impl Place {
    pub(super) fn of(host: &Host) -> Self {
        Place { namespace: host.namespace() }
    }

    pub(super) fn is(&self, host: &Host) -> bool {
        Arc::ptr_eq(&self.namespace, &host.namespace())
    }
}

/// The namespaces that one thread makes sockets in. A thread is in one at a time, and a socket stays in the one that its thread
/// was in.
#[derive(Debug, Default)]
pub(super) struct Places {
    all: Vec<Place>,
    current: Option<usize>,
}

impl Places {
    /// The number of a host, which is added if it is new.
    pub(super) fn number(&mut self, host: &Host) -> usize {
        self.all.iter().position(|place| place.is(host)).unwrap_or_else(|| {
            self.all.push(Place::of(host));
            self.all.len() - 1
        })
    }

    /// Moves the calling thread into the namespace.
    pub(super) fn enter(&mut self, number: usize) {
        if self.current != Some(number) {
            enter(&self.all[number].namespace);
            self.current = Some(number);
        }
    }

    /// The value is used by another thread from now on.
    pub(super) fn change_thread(&mut self) {
        self.current = None;
    }
}

/// An error in the namespace of `host` while it did something.
pub(super) fn failed<'e>(
    host: &'e Host,
    action: impl Into<String> + 'e,
) -> impl FnOnce(io::Error) -> GeneratorError + 'e {
    move |source| GeneratorError::Socket { host: host.name().to_owned(), action: action.into(), source }
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn set_dscp(socket: impl AsFd, ip: IpAddr, dscp: u8) -> io::Result<()> {
    match ip {
        IpAddr::V4(_) => sockopt::set_ip_tos(socket, dscp << 2)?,
        IpAddr::V6(_) => sockopt::set_ipv6_tclass(socket, u32::from(dscp) << 2)?,
    }
    Ok(())
}

impl SocketOptions {
    /// Sets what is to be set, before the handshake.
    pub(super) fn apply(&self, socket: impl AsFd, ip: IpAddr, dscp: u8) -> io::Result<()> {
        let socket = socket.as_fd();
        let int = |level, name, value: Option<u32>| {
            value.map_or(Ok(()), |value| {
                set_int(socket, level, name, value.min(i32::MAX as u32).cast_signed())
            })
        };
        // Beyond the machine's limit only with CAP_NET_ADMIN in the first user namespace.
        if let Some(bytes) = self.send_buffer
            && sockopt::set_socket_send_buffer_size_force(socket, bytes as usize).is_err()
        {
            sockopt::set_socket_send_buffer_size(socket, bytes as usize)?;
        }
        if let Some(bytes) = self.receive_buffer
            && sockopt::set_socket_recv_buffer_size_force(socket, bytes as usize).is_err()
        {
            sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?;
        }
        int(libc::IPPROTO_TCP, libc::TCP_MAXSEG, self.mss.map(u32::from))?;
        int(libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, self.window_clamp)?;
        self.apply_accepted(socket, ip, dscp)
    }

    /// Sets what may be set after the handshake, on a socket that has the rest from its listener.
    pub(super) fn apply_accepted(&self, socket: impl AsFd, ip: IpAddr, dscp: u8) -> io::Result<()> {
        let socket = socket.as_fd();
        sockopt::set_tcp_congestion(socket, &self.congestion_control)?;
        sockopt::set_tcp_nodelay(socket, !self.nagle)?;
        if let Some(bytes) = self.unsent_low_water {
            let bytes = bytes.min(i32::MAX as u32).cast_signed();
            set_int(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)?;
        }
        if let Some(timeout) = self.user_timeout {
            sockopt::set_tcp_user_timeout(socket, u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX))?;
        }
        set_dscp(socket, ip, dscp)
    }

    /// Whether a host has the congestion control, and takes the rest.
    pub(super) fn check(&self, host: &Host, address: SocketAddr, dscp: u8) -> Result<(), GeneratorError> {
        let (congestion, rest) = host.run(|| {
            let socket = rustix::net::socket_with(family(address), SocketType::STREAM, FLAGS, None);
            let socket = match socket {
                Ok(socket) => socket,
                Err(error) => return (Ok(()), Err(error.into())),
            };
            let congestion = sockopt::set_tcp_congestion(&socket, &self.congestion_control);
            (congestion, self.apply(&socket, address.ip(), dscp))
        });
        congestion.map_err(|error| {
            let list = "/proc/sys/net/ipv4/tcp_available_congestion_control";
            let available = host.run(|| std::fs::read_to_string(list)).unwrap_or_default();
            GeneratorError::CongestionControl {
                host: host.name().to_owned(),
                name: self.congestion_control.clone(),
                available: available.split_whitespace().collect::<Vec<_>>().join(", "),
                source: error.into(),
            }
        })?;
        rest.map_err(failed(host, "set the options of a TCP socket"))
    }
}

/// How a client connects.
#[derive(Debug, Clone)]
pub(super) struct Connect {
    pub(super) address: SocketAddr,
    pub(super) dscp: u8,
    pub(super) options: SocketOptions,
}

impl Connect {
    /// Begins to connect from the calling thread's namespace; the socket and its own address.
    pub(super) fn begin(&self) -> io::Result<(OwnedFd, SocketAddr)> {
        let socket = rustix::net::socket_with(family(self.address), SocketType::STREAM, FLAGS, None)?;
        self.options.apply(&socket, self.address.ip(), self.dscp)?;
        match rustix::net::connect(&socket, &self.address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let own = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
        Ok((socket, plain(own)))
    }
}

/// An address without what only its own host knows of it.
pub(super) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

/// A listener in the calling thread's namespace.
pub(super) fn listen(address: SocketAddr, options: &SocketOptions, dscp: u8) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(family(address), SocketType::STREAM, FLAGS, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    options.apply(&socket, address.ip(), dscp)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A connection that waits; `None` if there is none.
pub(super) fn accept(listener: impl AsFd) -> Option<(OwnedFd, SocketAddr)> {
    // Errors of accept are those of the connection (accept(2)): the next one may be well.
    for _ in 0..64 {
        match rustix::net::acceptfrom_with(&listener, FLAGS) {
            Ok((socket, Some(peer))) => {
                if let Ok(peer) = SocketAddr::try_from(peer) {
                    return Some((socket, plain(peer)));
                }
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                return None;
            }
            _ => {}
        }
    }
    None
}

/// A socket for datagrams from an address of the calling thread's namespace, which notes when they arrive.
pub(super) fn receiver(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(family(address), SocketType::DGRAM, FLAGS, None)?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, DATAGRAM_BUFFER).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, DATAGRAM_BUFFER)?;
    }
    set_int(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    if address.is_ipv4() {
        sockopt::set_ip_recvtos(&socket, true)?;
    } else {
        sockopt::set_ipv6_recvtclass(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// A socket that sends datagrams to an address, and its own.
pub(super) fn sender(address: SocketAddr, dscp: u8) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = rustix::net::socket_with(family(address), SocketType::DGRAM, FLAGS, None)?;
    if sockopt::set_socket_send_buffer_size_force(&socket, DATAGRAM_BUFFER).is_err() {
        sockopt::set_socket_send_buffer_size(&socket, DATAGRAM_BUFFER)?;
    }
    set_dscp(&socket, address.ip(), dscp)?;
    rustix::net::connect(&socket, &address)?;
    let own = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, plain(own)))
}
