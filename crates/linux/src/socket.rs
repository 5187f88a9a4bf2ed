//! Options of sockets that have no safe wrapper elsewhere.

use std::io;
use std::os::fd::BorrowedFd;

use libc::c_int;

use crate::sys::{get_option, set_option, set_text};

/// Sets an option whose value is one int.
pub fn set_int(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    set_option(fd, level, name, &value)
}

/// The value of an option that is one int.
pub(crate) fn get_int(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value = [0; 4];
    get_option(fd, level, name, &mut value)?;
    Ok(c_int::from_ne_bytes(value))
}

/// The sequence number of the SYN of a TCP socket that connects, and has sent nothing else. This needs `CAP_NET_ADMIN` (`TCP_REPAIR`).
///
/// The kernel takes `SO_REUSEADDR` from the socket.
pub fn sent_isn(fd: BorrowedFd<'_>) -> io::Result<u32> {
    const SEND_QUEUE: c_int = 2;
    // Without the probe with which a restored connection goes on.
    const OFF: c_int = -1;
    let set = |name, value: c_int| set_option(fd, libc::IPPROTO_TCP, name, &value);
    set(libc::TCP_REPAIR, 1)?;
    let next = set(libc::TCP_REPAIR_QUEUE, SEND_QUEUE).and_then(|()| {
        let mut next = [0; 4];
        get_option(fd, libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, &mut next)?;
        Ok(u32::from_ne_bytes(next))
    });
    set(libc::TCP_REPAIR, OFF)?;
    // The SYN counts as one byte.
    next.map(|next| next.wrapping_sub(1))
}

/// Marks a socket's packets for policy routing (`SO_MARK`).
pub fn set_mark(fd: BorrowedFd<'_>, mark: u32) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_MARK, &mark)
}

/// Lets a socket have addresses that are not this host's (`IP_TRANSPARENT`, `IPV6_TRANSPARENT`).
pub fn set_transparent(fd: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    if ipv6 {
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, &1_i32)
    } else {
        set_option(fd, libc::IPPROTO_IP, libc::IP_TRANSPARENT, &1_i32)
    }
}

/// Has a socket send through one interface, and receive from it alone (`SO_BINDTODEVICE`). An error names the interface.
pub fn bind_to_interface(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // The kernel takes a name that fills its buffer without the closing zero.
    let mut raw = [0_u8; libc::IFNAMSIZ];
    let bytes = name.as_bytes();
    let set = if bytes.len() < raw.len() {
        raw[..bytes.len()].copy_from_slice(bytes);
        set_option(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &raw)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    };
    set.map_err(|error| io::Error::new(error.kind(), format!("interface {name}: {error}")))
}

/// The interface that a socket is bound to; an error if it no longer exists.
pub fn interface_of(fd: BorrowedFd<'_>) -> io::Result<String> {
    let mut raw = [0_u8; libc::IFNAMSIZ];
    get_option(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &mut raw)?;
    let name = raw.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Leaves the choice of the port of a bound socket to its connection, so that many can have one address
/// (`IP_BIND_ADDRESS_NO_PORT`, for IPv6 too).
pub fn set_port_late(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &1_i32)
}

/// Limits the unsent bytes at which a socket is writable (`TCP_NOTSENT_LOWAT`).
pub fn set_notsent_lowat(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &c_int::try_from(bytes).unwrap_or(c_int::MAX))
}

/// Limits the pacing rate of a socket, bytes per second (`SO_MAX_PACING_RATE`); `None` for no limit.
pub fn set_max_pacing_rate(fd: BorrowedFd<'_>, rate: Option<u64>) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate.unwrap_or(u64::MAX))
}

/// The limit that [`set_max_pacing_rate`] has set, bytes per second; `u64::MAX` for none.
pub fn max_pacing_rate(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut rate = [0; 8];
    get_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut rate)?;
    Ok(u64::from_ne_bytes(rate))
}

/// Bounds the receive window that a socket offers (`TCP_WINDOW_CLAMP`).
pub fn set_window_clamp(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, &c_int::try_from(bytes).unwrap_or(c_int::MAX))
}

/// Sets the DSCP of a socket's packets (`IP_TOS`, `IPV6_TCLASS`). Their ECN field is TCP's own.
pub fn set_dscp(fd: BorrowedFd<'_>, dscp: u8) -> io::Result<()> {
    let traffic_class = c_int::from(dscp) << 2;
    match rustix::net::sockopt::socket_domain(fd)? {
        rustix::net::AddressFamily::INET6 => {
            // An IPv4 address within an IPv6 socket goes by the other one.
            let _ = set_option(fd, libc::IPPROTO_IP, libc::IP_TOS, &traffic_class);
            set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &traffic_class)
        }
        _ => set_option(fd, libc::IPPROTO_IP, libc::IP_TOS, &traffic_class),
    }
}

/// Sets the congestion control by name (`TCP_CONGESTION`).
pub fn set_congestion_control(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    set_text(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name)
}

/// Ends a connection whose data stays unacknowledged for this time (`TCP_USER_TIMEOUT`), and sets keepalive probes that
/// detect a dead idle connection in about the same time.
pub fn set_dead_after(fd: BorrowedFd<'_>, idle_s: u16, interval_s: u16, timeout_ms: u32) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1_i32)?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &c_int::from(idle_s))?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, &c_int::from(interval_s))?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, &3_i32)?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &timeout_ms)
}

/// Limits the retransmission timeout (`TCP_RTO_MAX_MS`, Linux 6.15; minimum one second).
pub fn set_rto_max(fd: BorrowedFd<'_>, ms: u32) -> io::Result<()> {
    const TCP_RTO_MAX_MS: c_int = 44;
    set_option(fd, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, &ms)
}

/// Bounds the segments of a connection that is not made yet, in both directions (`TCP_MAXSEG`).
pub fn set_max_segment(fd: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &c_int::from(bytes))
}

/// Sends small writes at once (`TCP_NODELAY`).
pub fn set_nodelay(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32)
}
