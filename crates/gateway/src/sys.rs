//! The `unsafe` code of this crate: system calls without a safe wrapper.
//!
//! Each function checks the result of the system call and returns an `io::Error` on failure. No raw pointer leaves this
//! module.

#![allow(unsafe_code, reason = "system calls without a safe wrapper; each block says why it is sound")]

pub(crate) mod udp;

use std::ffi::c_void;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::time::Duration;

use libc::{c_int, socklen_t};

pub(crate) use trunkline_linux::{
    TunOffloads, next_signal, open_tun_queue, send_queue, send_queue_unsent, set_mark, set_tun_offloads,
    signal_descriptor,
};

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

// ------------------------------------------------------------------ TCP

/// The used fields of `TCP_INFO`. Fields that an older kernel does not fill are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Smoothed round-trip time, µs.
    pub(crate) rtt_us: u32,
    /// Smallest round-trip time, µs; `u32::MAX` before the first sample.
    pub(crate) min_rtt_us: u32,
    /// Congestion window, segments.
    pub(crate) cwnd: u32,
    /// Slow-start threshold, segments.
    pub(crate) ssthresh: u32,
    /// Sender's segment size, bytes.
    pub(crate) snd_mss: u32,
    /// Retransmitted segments since the connection began, modulo 2^32.
    pub(crate) retransmits: u32,
    /// Segments sent, retransmissions and those without data included, modulo 2^32.
    pub(crate) segments_out: u32,
    /// Segments with data sent, retransmissions included, modulo 2^32; `segments_out` before Linux 4.6.
    pub(crate) data_segments_out: u32,
    /// Delivery rate, bytes per second.
    pub(crate) delivery_rate: u64,
    /// Whether the sender, not the path, limited the delivery rate (application-limited).
    pub(crate) app_limited: bool,
    /// Pacing rate, bytes per second; `u64::MAX` if it is unlimited.
    pub(crate) pacing_rate: u64,
    /// Bytes in the send queue and not yet sent.
    pub(crate) notsent: u32,
    /// Segments sent and not yet acknowledged.
    pub(crate) unacked: u32,
    /// The time since data was sent last, ms.
    pub(crate) last_sent_ms: u32,
    /// Segments that the other end has, as its acknowledgements say, those behind a gap included, modulo 2^32; of kernels before
    /// Linux 4.18 bytes before the first gap.
    pub(crate) delivered: u32,
}

/// Round-trip times are measured of data. Those of a connection that has sent none for so long say nothing of its path any more.
const STALE_MS: u32 = 10_000;

impl TcpInfo {
    /// The smallest round-trip time; `None` before the first sample.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        (self.min_rtt_us != 0 && self.min_rtt_us != u32::MAX)
            .then(|| Duration::from_micros(self.min_rtt_us.into()))
    }

    /// The smoothed round-trip time, µs, if data was sent lately.
    pub(crate) fn fresh_rtt_us(&self) -> Option<u32> {
        (self.rtt_us != 0 && self.last_sent_ms < STALE_MS).then_some(self.rtt_us)
    }

    /// The smoothed round-trip time; `None` before the first sample.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        (self.rtt_us != 0).then(|| Duration::from_micros(self.rtt_us.into()))
    }
}

/// Reads `TCP_INFO`.
pub(crate) fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    const SIZE: usize = 256;
    let mut raw = [0_u8; SIZE];
    let mut len = SIZE as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `raw`.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            raw.as_mut_ptr().cast::<c_void>(),
            &raw mut len,
        )
    })?;
    let u32_at = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    Ok(TcpInfo {
        snd_mss: u32_at(16),
        unacked: u32_at(24),
        last_sent_ms: u32_at(44),
        // The kernel says how much it filled in: `tcpi_bytes_acked`, and `tcpi_delivered` far behind it.
        delivered: if len as usize >= 196 { u32_at(192) } else { u32_at(120) },
        rtt_us: u32_at(68),
        ssthresh: u32_at(76),
        cwnd: u32_at(80),
        retransmits: u32_at(100),
        segments_out: u32_at(136),
        // The kernel says how much it filled in: `tcpi_data_segs_out` is behind `tcpi_segs_out`.
        data_segments_out: if len as usize >= 160 { u32_at(156) } else { u32_at(136) },
        notsent: u32_at(144),
        min_rtt_us: u32_at(148),
        delivery_rate: u64_at(160),
        app_limited: raw[7] & 1 != 0,
        pacing_rate: u64_at(104),
    })
}

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

/// The value of an option that is a number.
fn get_option(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = mem::size_of::<c_int>() as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `value`.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast::<c_void>(), &raw mut len)
    })?;
    Ok(value)
}

/// Has a socket send through one interface, and receive from it alone (`SO_BINDTODEVICE`). An error names the interface.
pub(crate) fn bind_to_interface(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
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
pub(crate) fn interface_of(fd: BorrowedFd<'_>) -> io::Result<String> {
    let mut raw = [0_u8; libc::IFNAMSIZ];
    let mut len = raw.len() as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `raw`.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            raw.as_mut_ptr().cast::<c_void>(),
            &raw mut len,
        )
    })?;
    let name = raw.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Leaves the choice of the port of a bound socket to its connection, so that many can have one address
/// (`IP_BIND_ADDRESS_NO_PORT`, for IPv6 too).
pub(crate) fn set_port_late(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &1_i32)
}

/// Limits the unsent bytes at which a socket is writable (`TCP_NOTSENT_LOWAT`).
pub(crate) fn set_notsent_lowat(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &c_int::try_from(bytes).unwrap_or(c_int::MAX))
}

/// Limits the pacing rate of a socket, bytes per second (`SO_MAX_PACING_RATE`); `None` for no limit.
pub(crate) fn set_max_pacing_rate(fd: BorrowedFd<'_>, rate: Option<u64>) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate.unwrap_or(u64::MAX))
}

/// The limit that [`set_max_pacing_rate`] has set; `u64::MAX` for none.
#[cfg(test)]
pub(crate) fn max_pacing_rate(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let (mut rate, mut len) = (0_u64, size_of::<u64>() as socklen_t);
    // SAFETY: the kernel writes at most `len` bytes into `rate`.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw mut rate).cast(),
            &raw mut len,
        )
    };
    if result == 0 { Ok(rate) } else { Err(io::Error::last_os_error()) }
}

/// Bounds the receive window that a socket offers (`TCP_WINDOW_CLAMP`).
pub(crate) fn set_window_clamp(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, &c_int::try_from(bytes).unwrap_or(c_int::MAX))
}

/// Sets the DSCP of a socket's packets (`IP_TOS`, `IPV6_TCLASS`). Their ECN field is TCP's own.
pub(crate) fn set_dscp(fd: BorrowedFd<'_>, dscp: u8) -> io::Result<()> {
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
pub(crate) fn set_congestion_control(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: the name is readable for its length.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast::<c_void>(),
            name.len() as socklen_t,
        )
    })?;
    Ok(())
}

/// Ends a connection whose data stays unacknowledged for this time (`TCP_USER_TIMEOUT`), and sets keepalive probes that
/// detect a dead idle connection in about the same time.
pub(crate) fn set_dead_after(
    fd: BorrowedFd<'_>,
    idle_s: u16,
    interval_s: u16,
    timeout_ms: u32,
) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1_i32)?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &c_int::from(idle_s))?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, &c_int::from(interval_s))?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, &3_i32)?;
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &timeout_ms)
}

/// Limits the retransmission timeout (`TCP_RTO_MAX_MS`, Linux 6.15; minimum one second).
pub(crate) fn set_rto_max(fd: BorrowedFd<'_>, ms: u32) -> io::Result<()> {
    const TCP_RTO_MAX_MS: c_int = 44;
    set_option(fd, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, &ms)
}

/// Bounds the segments of a connection that is not made yet, in both directions (`TCP_MAXSEG`).
pub(crate) fn set_max_segment(fd: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &c_int::from(bytes))
}

/// Sends small writes at once (`TCP_NODELAY`).
pub(crate) fn set_nodelay(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32)
}

// ------------------------------------------------------------------ identity

/// Sets the user and group with which this thread, and the threads that it starts, open files (`setfsuid`, `setfsgid`).
/// Whether it took effect: it fails without `CAP_SETUID` and `CAP_SETGID`, and with an id that the user namespace does not
/// map.
///
/// The identity for signals and tracing does not change.
pub(crate) fn set_file_identity(id: u32) -> bool {
    // SAFETY: both calls take plain numbers and concern this thread alone. They return what was in force before, so
    // that a second call tells whether the first succeeded; -1 changes nothing.
    unsafe {
        libc::setfsgid(id);
        libc::setfsuid(id);
        libc::setfsgid(u32::MAX).cast_unsigned() == id && libc::setfsuid(u32::MAX).cast_unsigned() == id
    }
}

// ------------------------------------------------------------------ memory

/// A ring buffer that is mapped twice in a row, so that any range up to its size is contiguous.
///
/// A lane reads into the free part and takes packets from the filled part without a copy.
pub(crate) struct Ring {
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring of `size` bytes, a multiple of the page size. Pages that were never touched take no memory.
    pub(crate) fn new(size: usize) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("trunkline-ring", rustix::fs::MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, size as u64)?;
        // SAFETY: the first call reserves 2 × size of address space at a place of the kernel's choice; the other
        // two replace exactly that reservation, which nothing else uses. On failure the reservation is unmapped.
        unsafe {
            let base = libc::mmap(
                ptr::null_mut(),
                2 * size,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let base = base.cast::<u8>();
            for half in 0..2 {
                let at = libc::mmap(
                    base.add(half * size).cast::<c_void>(),
                    size,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED | libc::MAP_FIXED,
                    file.as_raw_fd(),
                    0,
                );
                if at == libc::MAP_FAILED {
                    let error = io::Error::last_os_error();
                    libc::munmap(base.cast::<c_void>(), 2 * size);
                    return Err(error);
                }
            }
            let base = NonNull::new(base).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
            Ok(Ring { base, size })
        }
    }

    /// Its size in bytes.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// `len` bytes from position `at`, which counts for ever and is taken modulo the size.
    pub(crate) fn window(&self, at: usize, len: usize) -> &[u8] {
        assert!(len <= self.size, "a window of {len} bytes in a ring of {}", self.size);
        // SAFETY: at % size + len <= 2 × size, all of it mapped; no byte of a window of at most `size` bytes is
        // mapped twice within it; `&self` keeps mutable windows away.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at % self.size), len) }
    }

    /// `len` bytes from position `at`, to write into.
    pub(crate) fn window_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        assert!(len <= self.size, "a window of {len} bytes in a ring of {}", self.size);
        // SAFETY: as in `window`; `&mut self` makes it the only one.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(at % self.size), len) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this size and no window outlives the ring.
        unsafe {
            libc::munmap(self.base.as_ptr().cast::<c_void>(), 2 * self.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_contiguous_across_its_end() {
        let mut ring = Ring::new(4096).expect("memory");
        let text = b"across the end";
        ring.window_mut(4090, text.len()).copy_from_slice(text);
        assert_eq!(ring.window(4090, text.len()), text);
        assert_eq!(ring.window(0, 8), &text[6..]);
        assert_eq!(ring.window(3 * 4096 - 6, text.len()), text);
    }
}
