//! The `unsafe` code of this crate: system calls without a safe wrapper.
//!
//! Each function checks the result of the system call and returns an `io::Error` on failure. No raw pointer leaves this
//! module.

#![allow(unsafe_code, reason = "system calls without a safe wrapper; each block says why it is sound")]

use std::ffi::c_void;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use libc::{c_char, c_int, c_short, c_uint, c_ulong, socklen_t};

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

// ------------------------------------------------------------------ TUN

const TUNSETIFF: c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: c_ulong = 0x4004_54d0;
const IFF_TUN: c_short = 0x0001;
const IFF_NO_PI: c_short = 0x1000;
const IFF_VNET_HDR: c_short = 0x4000;
const IFF_MULTI_QUEUE: c_short = 0x0100;

#[repr(C)]
struct InterfaceRequest {
    name: [c_char; libc::IFNAMSIZ],
    flags: c_short,
    padding: [u8; 22],
}

/// The offloads that the kernel granted to a TUN device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TunOffloads {
    /// Partial checksums; the others require them.
    pub checksum: bool,
    /// TCP super-packets (TSO, IPv4 and IPv6).
    pub tcp: bool,
    /// UDP super-packets (USO, Linux 6.2).
    pub udp: bool,
}

/// Opens one queue of the TUN device `name`, with a virtio header before each packet.
pub fn open_tun_queue(name: &str, multi_queue: bool) -> io::Result<OwnedFd> {
    let mut request = InterfaceRequest {
        name: [0; libc::IFNAMSIZ],
        flags: IFF_TUN | IFF_NO_PI | IFF_VNET_HDR,
        padding: [0; 22],
    };
    if multi_queue {
        request.flags |= IFF_MULTI_QUEUE;
    }
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (to, from) in request.name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: the path is a NUL-terminated constant; the returned descriptor has no other owner.
    let fd = unsafe {
        let raw =
            check(libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK))?;
        OwnedFd::from_raw_fd(raw)
    };
    // SAFETY: `request` has the size and layout of struct ifreq and outlives the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETIFF as _, &raw mut request) })?;
    Ok(fd)
}

/// Requests offloads, and returns those that the kernel grants.
pub fn set_tun_offloads(fd: BorrowedFd<'_>, wanted: TunOffloads) -> TunOffloads {
    const CHECKSUM: c_uint = 0x01;
    const TSO4: c_uint = 0x02;
    const TSO6: c_uint = 0x04;
    const TSO_ECN: c_uint = 0x08;
    const USO: c_uint = 0x20 | 0x40;
    let set = |bits: c_uint| {
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETOFFLOAD as _, c_ulong::from(bits)) }).is_ok()
    };
    let tcp = CHECKSUM | TSO4 | TSO6 | TSO_ECN;
    if wanted.udp && set(tcp | USO) {
        TunOffloads { checksum: true, tcp: true, udp: true }
    } else if wanted.tcp && set(tcp) {
        TunOffloads { checksum: true, tcp: true, udp: false }
    } else if wanted.checksum && set(CHECKSUM) {
        TunOffloads { checksum: true, ..TunOffloads::default() }
    } else {
        set(0);
        TunOffloads::default()
    }
}

// ------------------------------------------------------------------ sockets

fn set_option<T>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: `value` is readable for its size, which is what is passed.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast::<c_void>(),
            mem::size_of::<T>() as socklen_t,
        )
    })?;
    Ok(())
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
        let (mut next, mut len) = (0_u32, mem::size_of::<u32>() as socklen_t);
        // SAFETY: the kernel writes at most `len` bytes, the size of `next`, into it.
        check(unsafe {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_QUEUE_SEQ,
                ptr::from_mut(&mut next).cast::<c_void>(),
                &raw mut len,
            )
        })?;
        Ok(next)
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

/// Whether the next byte of a TCP socket is the urgent one (`SIOCATMARK`).
pub fn is_at_urgent_byte(fd: BorrowedFd<'_>) -> io::Result<bool> {
    const SIOCATMARK: c_ulong = 0x8905;
    queue_ioctl(fd, SIOCATMARK).map(|value| value != 0)
}

/// What the kernel says of a TCP socket (`TCP_INFO`), as far as a proxy needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpState {
    /// The state, by the kernel's number: 1 established, 4 and 5 FIN-WAIT-1 and -2, 6 TIME-WAIT, 7 closed.
    pub state: u8,
    /// Bytes that the other end has acknowledged.
    pub bytes_acked: u64,
    /// The shortest round trip; `None` before the first.
    pub min_rtt: Option<Duration>,
    /// The round trip, smoothed.
    pub rtt: Duration,
    /// The window that the other end offers: bytes beyond those that it has acknowledged (Linux 5.4).
    pub window: u64,
}

/// Reads it. What an older kernel does not say is zero.
pub fn tcp_state(fd: BorrowedFd<'_>) -> io::Result<TcpState> {
    let mut info = [0_u8; 232];
    let mut len = info.len() as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `info`.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast::<c_void>(),
            &raw mut len,
        )
    })?;
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&info[120..128]);
    let number = |at: usize| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    let min_rtt = number(148);
    Ok(TcpState {
        state: info[0],
        bytes_acked: u64::from_ne_bytes(bytes),
        min_rtt: (min_rtt != u32::MAX).then(|| Duration::from_micros(min_rtt.into())),
        rtt: Duration::from_micros(number(68).into()),
        window: number(228).into(),
    })
}

fn queue_ioctl(fd: BorrowedFd<'_>, request: c_ulong) -> io::Result<usize> {
    let mut value: c_int = 0;
    // SAFETY: the requests of the callers write one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, &raw mut value) })?;
    Ok(value.max(0) as usize)
}

/// Bytes in a TCP socket's send queue: unsent and unacknowledged (`SIOCOUTQ`).
pub fn send_queue(fd: BorrowedFd<'_>) -> io::Result<usize> {
    queue_ioctl(fd, 0x5411)
}

/// Bytes in the send queue that were never sent (`SIOCOUTQNSD`).
pub fn send_queue_unsent(fd: BorrowedFd<'_>) -> io::Result<usize> {
    queue_ioctl(fd, 0x894b)
}

/// Bytes that a TCP socket has received in order and nobody has read (`SIOCINQ`).
pub fn receive_queue(fd: BorrowedFd<'_>) -> io::Result<usize> {
    queue_ioctl(fd, 0x541b)
}

// ------------------------------------------------------------------ signals

/// Blocks these signals for this thread and the threads that it will start, and returns a descriptor that reports them.
pub fn signal_descriptor(signals: &[c_int]) -> io::Result<OwnedFd> {
    // SAFETY: `set` is initialised by sigemptyset before use; the returned descriptor is owned by nobody else.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        let error = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        let raw = check(libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(raw))
    }
}

/// The number of the next signal that a [`signal_descriptor`] reports; `None` if there is none.
pub fn next_signal(fd: BorrowedFd<'_>) -> Option<c_int> {
    let mut info = [0_u8; mem::size_of::<libc::signalfd_siginfo>()];
    // SAFETY: the kernel writes at most the length of `info`.
    let read = unsafe { libc::read(fd.as_raw_fd(), info.as_mut_ptr().cast::<c_void>(), info.len()) };
    (read == info.len().cast_signed()).then(|| i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))
}
