//! The system calls that have no safe form elsewhere. Everything unsafe in this crate is here, behind functions
//! that are safe to call with any argument.

#![allow(
    unsafe_code,
    reason = "ioctl, unshare, pre_exec and the batched datagram calls have no safe wrapper"
)]

use std::fs::File;
use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::traffic::Stop;

const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Gives the calling thread a network namespace of its own.
pub(crate) fn unshare_network() -> io::Result<()> {
    // SAFETY: only `FILES` can invalidate what other code holds, and it is not asked for.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(Into::into)
}

/// Gives the calling process user and mount namespaces of its own; it must have one thread only.
pub(crate) fn unshare_user() -> io::Result<()> {
    // SAFETY: as above.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }.map_err(Into::into)
}

/// Makes the kernel kill the child when the thread that starts it ends.
pub(crate) fn die_with_the_parent(command: &mut Command) {
    // SAFETY: between fork and exec this makes one system call and touches no memory of the parent's.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
                .map_err(Into::into)
        });
    }
}

/// Gives the calling thread the lowest real-time priority.
pub(crate) fn schedule_real_time() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: `parameter` is valid for the duration of the call; pid 0 is the calling thread.
    check(unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameter)
    })
    .map(drop)
}

/// Gives the calling thread only the time that no other wants.
pub(crate) fn schedule_idle() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) }).map(drop)
}

/// What signals stop.
static AT_SIGNAL: OnceLock<Stop> = OnceLock::new();

extern "C" fn stop_at_signal(_signal: libc::c_int) {
    // A handler may do little (signal-safety(7)): this reads one atomic and writes one.
    if let Some(stop) = AT_SIGNAL.get() {
        stop.stop();
    }
}

/// Makes the next one of each of these signals stop what is returned, the same for every call, and restores their
/// default for the ones after. System calls that they interrupt go on.
pub(crate) fn stop_at(signals: &[libc::c_int]) -> io::Result<Stop> {
    let stop = AT_SIGNAL.get_or_init(Stop::new);
    for signal in signals {
        // SAFETY: a sigaction is integers and a handler, for which all zeroes is a value (the default).
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = stop_at_signal as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
        // SAFETY: `action` is valid for the duration of the call, and the handler is safe as it says.
        check(unsafe { libc::sigaction(*signal, &raw const action, std::ptr::null_mut()) })?;
    }
    Ok(stop.clone())
}

/// A request structure for the device `name`, which must be shorter than 16 bytes.
fn request(name: &str) -> io::Result<libc::ifreq> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
        let text = format!("{name:?} is no device name: 1 to 15 bytes are allowed");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    // SAFETY: an ifreq is plain integers, for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = from.cast_signed();
    }
    Ok(request)
}

/// Attaches the open `/dev/net/tun` to a new TUN device that hands over bare IP packets.
pub(crate) fn attach_tun(device: &File, name: &str) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which `request` is.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) }).map(drop)
}

#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

/// Sets one of ethtool's single-word settings of the device `name`.
pub(crate) fn ethtool_set(socket: &UdpSocket, name: &str, command: u32, value: u32) -> io::Result<()> {
    let mut argument = EthtoolValue { command, value };
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut argument).cast();
    // SAFETY: SIOCETHTOOL reads one ifreq, whose data points to an ethtool_value as these commands want; both live
    // until the call returns.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) }).map(drop)
}

/// Bytes that the kernel writes for `TCP_INFO` at the most here; what an older one does not fill stays zero.
pub(crate) const TCP_INFO_BYTES: usize = 256;

/// `TCP_INFO`, as the kernel's `struct tcp_info` lies in memory.
pub(crate) fn tcp_info(socket: &TcpStream) -> io::Result<[u8; TCP_INFO_BYTES]> {
    tcp_info_of(socket.as_fd()).map(|(raw, _)| raw)
}

/// The same of any socket, and how many bytes the kernel wrote.
pub(crate) fn tcp_info_of(socket: BorrowedFd<'_>) -> io::Result<([u8; TCP_INFO_BYTES], usize)> {
    let mut raw = [0_u8; TCP_INFO_BYTES];
    let mut length = TCP_INFO_BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `raw`; both outlive the call.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            raw.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    Ok((raw, (length as usize).min(TCP_INFO_BYTES)))
}

/// Sets an option whose value is one int.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the kernel reads one int, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Bytes in the send queue: all of them (`SIOCOUTQ`), and those that were never sent (`SIOCOUTQNSD`).
pub(crate) fn send_queue(socket: &TcpStream) -> io::Result<(u64, u64)> {
    let ask = |request: libc::Ioctl| {
        let mut value: libc::c_int = 0;
        // SAFETY: both requests write one int, which outlives the call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut value) })
            .map(|_| u64::from(value.max(0).cast_unsigned()))
    };
    Ok((ask(0x5411)?, ask(0x894b)?))
}

/// Room for a batch of datagrams of one size, for `sendmmsg` and `recvmmsg`.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    slot: usize,
    count: usize,
    received: Vec<usize>,
}

impl Batch {
    /// `count` datagrams of at most `slot` bytes each.
    pub(crate) fn new(count: usize, slot: usize) -> Self {
        let (count, slot) = (count.clamp(1, 1024), slot.max(1));
        Self { bytes: vec![0; count * slot], slot, count, received: Vec::with_capacity(count) }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The bytes of one datagram to send.
    pub(crate) fn datagram_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[index * self.slot..][..self.slot]
    }

    /// The datagrams that the last [`Batch::receive`] got.
    pub(crate) fn received(&self) -> impl Iterator<Item = &[u8]> {
        self.received.iter().zip(self.bytes.chunks(self.slot)).map(|(length, slot)| &slot[..*length])
    }

    fn vectors(&mut self) -> Vec<libc::iovec> {
        let slot = self.slot;
        self.bytes
            .chunks_mut(slot)
            .map(|chunk| libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: chunk.len() })
            .collect()
    }

    fn messages(vectors: &mut [libc::iovec]) -> Vec<libc::mmsghdr> {
        vectors
            .iter_mut()
            .map(|vector| {
                // SAFETY: an mmsghdr is integers and pointers, for which all zeroes is a value.
                let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
                message.msg_hdr.msg_iov = vector;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect()
    }

    /// Sends the first `count` datagrams to the socket's peer; how many went.
    pub(crate) fn send(&mut self, socket: &UdpSocket, count: usize) -> io::Result<usize> {
        let mut vectors = self.vectors();
        let mut messages = Self::messages(&mut vectors);
        let count = count.min(messages.len());
        // SAFETY: `count` message headers are passed, each with one vector into `self.bytes`; all outlive the call.
        let sent = check(unsafe {
            libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count as libc::c_uint, 0)
        })?;
        Ok(sent as usize)
    }

    /// Waits for one datagram, within the socket's time-out, and takes what else is there; how many there were.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.received.clear();
        let mut vectors = self.vectors();
        let mut messages = Self::messages(&mut vectors);
        // SAFETY: as many headers are passed as there are, each with one vector into `self.bytes`; all outlive the
        // call, and nothing else refers to the bytes during it.
        let got = check(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as libc::c_uint,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        })? as usize;
        self.received.extend(messages[..got].iter().map(|message| (message.msg_len as usize).min(self.slot)));
        Ok(got)
    }
}

/// A datagram that was received.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    pub(crate) from: SocketAddr,
    /// Its length.
    pub(crate) bytes: usize,
    /// When the kernel got it, by the realtime clock; `None` if it does not say.
    pub(crate) at: Option<Duration>,
    /// Its type of service or traffic class.
    pub(crate) traffic_class: u8,
}

/// Bytes of a datagram that are read: the rest is counted and forgotten.
const HEAD_BYTES: usize = 64;
/// Datagrams that one call takes at most.
const ARRIVALS: usize = 32;

/// Room for control messages, aligned as their headers must be.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Ancillary([u8; 128]);

/// Room for datagrams of which the beginnings and the times of arrival are wanted.
pub(crate) struct Arrivals {
    heads: Vec<[u8; HEAD_BYTES]>,
    ancillary: Vec<Ancillary>,
    names: Vec<libc::sockaddr_storage>,
    got: Vec<Received>,
}

impl Arrivals {
    pub(crate) fn new() -> Self {
        // SAFETY: a sockaddr_storage is integers, for which all zeroes is a value.
        let name: libc::sockaddr_storage = unsafe { mem::zeroed() };
        Self {
            heads: vec![[0; HEAD_BYTES]; ARRIVALS],
            ancillary: vec![Ancillary([0; 128]); ARRIVALS],
            names: vec![name; ARRIVALS],
            got: Vec::with_capacity(ARRIVALS),
        }
    }

    /// Takes what is there, without a wait. The socket should have `SO_TIMESTAMPNS` and `IP_RECVTOS` or
    /// `IPV6_RECVTCLASS` set. An error of kind `WouldBlock` says that nothing is there.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.got.clear();
        let mut vectors: Vec<libc::iovec> = self
            .heads
            .iter_mut()
            .map(|head| libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: HEAD_BYTES })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = vectors
            .iter_mut()
            .zip(&mut self.ancillary)
            .zip(&mut self.names)
            .map(|((vector, ancillary), name)| {
                // SAFETY: an mmsghdr is integers and pointers, for which all zeroes is a value.
                let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
                message.msg_hdr.msg_iov = vector;
                message.msg_hdr.msg_iovlen = 1;
                message.msg_hdr.msg_name = (&raw mut *name).cast();
                message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
                message.msg_hdr.msg_control = ancillary.0.as_mut_ptr().cast();
                message.msg_hdr.msg_controllen = ancillary.0.len() as _;
                message
            })
            .collect();
        // SAFETY: as many headers are passed as there are, each with one vector, a name and room for control messages that
        // outlive the call, and nothing else refers to them during it.
        let got = check(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        })? as usize;
        for (message, name) in messages[..got].iter().zip(&self.names) {
            let from = address(name).ok_or_else(|| io::Error::other("a datagram without an address"))?;
            let (at, traffic_class) = control_messages(&message.msg_hdr);
            self.got.push(Received { from, bytes: message.msg_len as usize, at, traffic_class });
        }
        Ok(got)
    }

    /// What the last call got, each with its first bytes, as far as there was room.
    pub(crate) fn received(&self) -> impl Iterator<Item = (&Received, &[u8])> {
        self.got.iter().zip(&self.heads).map(|(got, head)| (got, &head[..got.bytes.min(HEAD_BYTES)]))
    }
}

/// The time of arrival and the type of service that the kernel wrote beside a datagram.
fn control_messages(header: &libc::msghdr) -> (Option<Duration>, u8) {
    let (mut at, mut class) = (None, 0);
    // SAFETY: the kernel filled the header's control messages; CMSG_FIRSTHDR and CMSG_NXTHDR stay within their length, and
    // each value is read unaligned and only as long as its kind is known to be.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let data = libc::CMSG_DATA(message);
            match ((*message).cmsg_level, (*message).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time: libc::timespec = data.cast::<libc::timespec>().read_unaligned();
                    at = Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => class = data.read(),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    class = data.cast::<libc::c_int>().read_unaligned() as u8;
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    (at, class)
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: a sockaddr_storage has room for every address and is aligned for it; the family says that this is one.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(name.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some(SocketAddr::new(ip.into(), u16::from_be(name.sin6_port)))
        }
        _ => None,
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_name_has_one_to_fifteen_bytes() {
        assert!(request("wan0").is_ok());
        assert!(request("").is_err());
        assert!(request("sixteen-bytes-xx").is_err());
    }

    #[test]
    fn a_batch_arrives_as_it_was_sent() {
        let to = UdpSocket::bind("127.0.0.1:0").expect("bind");
        let from = UdpSocket::bind("127.0.0.1:0").expect("bind");
        from.connect(to.local_addr().expect("address")).expect("connect");
        to.set_read_timeout(Some(std::time::Duration::from_secs(1))).expect("time-out");
        let mut out = Batch::new(3, 5);
        for index in 0..3 {
            out.datagram_mut(index).fill(index as u8);
        }
        assert_eq!(out.send(&from, 3).expect("send"), 3);
        let mut into = Batch::new(8, 100);
        let mut all = Vec::new();
        while all.len() < 3 {
            into.receive(&to).expect("receive");
            all.extend(into.received().map(<[u8]>::to_vec));
        }
        assert_eq!(all, [vec![0; 5], vec![1; 5], vec![2; 5]]);
    }
}
