//! The `unsafe` code of this crate: system calls without a safe wrapper.
//!
//! Each function checks the result of the system call and returns an `io::Error` on failure. No raw pointer leaves this
//! module.

#![allow(unsafe_code, reason = "system calls without a safe wrapper; each block says why it is sound")]

use std::ffi::c_void;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use bytes::BytesMut;
use libc::{c_int, c_short, c_uint, c_ulong, socklen_t};

use crate::address::SocketAddress;
use crate::control::ControlMessages;

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

/// `struct ifreq`. Its name is of bytes here: C's `char` is signed on x86-64 and unsigned on ARM.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
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
    request.name[..name.len()].copy_from_slice(name.as_bytes());
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

/// Sets an option of a socket. A value with pointers must point to what lives until the call returns.
pub(crate) fn set_option<T>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
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

/// Sets an option whose value is text.
pub(crate) fn set_text(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &str) -> io::Result<()> {
    // SAFETY: the text is readable for its length.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast::<c_void>(),
            value.len() as socklen_t,
        )
    })?;
    Ok(())
}

/// Reads an option, of whose value the kernel writes as much as `value` has room for. Returns the bytes that it has written.
pub(crate) fn get_option(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut len = value.len() as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `value`.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast::<c_void>(), &raw mut len)
    })?;
    Ok((len as usize).min(value.len()))
}

/// The answer of an ioctl that writes one int.
fn ask(fd: BorrowedFd<'_>, request: c_ulong) -> io::Result<usize> {
    let mut value: c_int = 0;
    // SAFETY: the requests of the callers write one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, &raw mut value) })?;
    Ok(value.max(0) as usize)
}

/// Bytes in a TCP socket's send queue: unsent and unacknowledged (`SIOCOUTQ`).
pub fn send_queue(fd: BorrowedFd<'_>) -> io::Result<usize> {
    ask(fd, 0x5411)
}

/// Bytes in the send queue that were never sent (`SIOCOUTQNSD`).
pub fn send_queue_unsent(fd: BorrowedFd<'_>) -> io::Result<usize> {
    ask(fd, 0x894b)
}

/// Bytes that a TCP socket has received in order and nobody has read (`SIOCINQ`).
pub fn receive_queue(fd: BorrowedFd<'_>) -> io::Result<usize> {
    ask(fd, 0x541b)
}

/// Whether the next byte of a TCP socket is the urgent one (`SIOCATMARK`).
pub fn is_at_urgent_byte(fd: BorrowedFd<'_>) -> io::Result<bool> {
    ask(fd, 0x8905).map(|value| value != 0)
}

// ------------------------------------------------------------------ datagrams

/// Where a datagram goes or comes from, and what goes with it, in the kernel's form.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) address: SocketAddress,
    pub(crate) control: ControlMessages,
}

/// Sends bytes without a wait.
pub(crate) fn send_message(fd: BorrowedFd<'_>, envelope: &Envelope, bytes: &[u8]) -> io::Result<()> {
    let (address, control) = (envelope.address.bytes(), envelope.control.bytes());
    let mut vector =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(), iov_len: bytes.len() };
    // SAFETY: an all-zero msghdr is a valid one without address, data and control messages.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = address.as_ptr().cast_mut().cast::<c_void>();
    message.msg_namelen = address.len() as socklen_t;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_ptr().cast_mut().cast::<c_void>();
    message.msg_controllen = control.len() as _;
    // SAFETY: all that `message` points to is alive, of the lengths it says, and only read.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives without a wait, and adds to `buffer` as much as this has capacity for. Returns the bytes, and writes the rest to
/// `envelope`.
pub(crate) fn receive_message(
    fd: BorrowedFd<'_>,
    envelope: &mut Envelope,
    buffer: &mut BytesMut,
) -> io::Result<usize> {
    let room = buffer.spare_capacity_mut();
    let mut vector = libc::iovec { iov_base: room.as_mut_ptr().cast::<c_void>(), iov_len: room.len() };
    let (address, control) = (envelope.address.room(), envelope.control.room());
    // SAFETY: an all-zero msghdr is a valid one without address, data and control messages.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = address.as_mut_ptr().cast::<c_void>();
    message.msg_namelen = address.len() as socklen_t;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = control.len() as _;
    // SAFETY: all that `message` points to is alive, writable, and of the lengths it says.
    let received = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let len = check(received as c_int)? as usize;
    envelope.address.set_len(message.msg_namelen as usize);
    envelope.control.set_len(message.msg_controllen as usize);
    // SAFETY: the kernel has written so many bytes behind the buffer's length, and no more than there is capacity for.
    unsafe { buffer.set_len(buffer.len() + len) };
    Ok(len)
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

// ------------------------------------------------------------------ identity

/// Sets the user and group with which this thread, and the threads that it starts, open files (`setfsuid`, `setfsgid`).
/// Whether it took effect: it fails without `CAP_SETUID` and `CAP_SETGID`, and with an id that the user namespace does not
/// map.
///
/// The identity for signals and tracing does not change.
pub fn set_file_identity(id: u32) -> bool {
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
pub struct Ring {
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring of `size` bytes, a multiple of the page size. Pages that were never touched take no memory.
    pub fn new(size: usize) -> io::Result<Self> {
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
    pub const fn size(&self) -> usize {
        self.size
    }

    /// `len` bytes from position `at`, which counts for ever and is taken modulo the size.
    pub fn window(&self, at: usize, len: usize) -> &[u8] {
        assert!(len <= self.size, "a window of {len} bytes in a ring of {}", self.size);
        // SAFETY: at % size + len <= 2 × size, all of it mapped; no byte of a window of at most `size` bytes is
        // mapped twice within it; `&self` keeps mutable windows away.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at % self.size), len) }
    }

    /// `len` bytes from position `at`, to write into.
    pub fn window_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
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
