//! The system calls that have no safe form elsewhere. Everything unsafe in this crate is here, behind functions
//! that are safe to call with any argument.

#![allow(
    unsafe_code,
    reason = "ioctl, unshare, pre_exec and the batched datagram calls have no safe wrapper"
)]

use std::fs::File;
use std::io;
use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::thread::{UnshareFlags, unshare_unsafe};
use trunkline_linux::address::SocketAddress;
use trunkline_linux::control::{ControlMessages, int};

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

/// Room for datagrams of which the beginnings and the times of arrival are wanted.
pub(crate) struct Arrivals {
    heads: Vec<[u8; HEAD_BYTES]>,
    control: Vec<ControlMessages>,
    names: Vec<SocketAddress>,
    got: Vec<Received>,
}

impl Arrivals {
    pub(crate) fn new() -> Self {
        Self {
            heads: vec![[0; HEAD_BYTES]; ARRIVALS],
            control: vec![ControlMessages::default(); ARRIVALS],
            names: vec![SocketAddress::default(); ARRIVALS],
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
            .zip(&mut self.control)
            .zip(&mut self.names)
            .map(|((vector, control), name)| {
                let (control, name) = (control.room(), name.room());
                // SAFETY: an mmsghdr is integers and pointers, for which all zeroes is a value.
                let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
                message.msg_hdr.msg_iov = vector;
                message.msg_hdr.msg_iovlen = 1;
                message.msg_hdr.msg_name = name.as_mut_ptr().cast();
                message.msg_hdr.msg_namelen = name.len() as libc::socklen_t;
                message.msg_hdr.msg_control = control.as_mut_ptr().cast();
                message.msg_hdr.msg_controllen = control.len() as _;
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
        for ((message, name), control) in messages[..got].iter().zip(&mut self.names).zip(&mut self.control) {
            name.set_len(message.msg_hdr.msg_namelen as usize);
            control.set_len(message.msg_hdr.msg_controllen);
            let from = name.get().ok_or_else(|| io::Error::other("a datagram without an address"))?;
            let (at, traffic_class) = time_and_class(control);
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
fn time_and_class(messages: &ControlMessages) -> (Option<Duration>, u8) {
    let (mut at, mut class) = (None, 0);
    for (level, kind, value) in messages.iter() {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => at = time(value),
            (libc::IPPROTO_IP, libc::IP_TOS) => class = value.first().copied().unwrap_or_default(),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => class = int(value).unwrap_or_default() as u8,
            _ => {}
        }
    }
    (at, class)
}

/// A `struct timespec`: seconds and nanoseconds.
fn time(value: &[u8]) -> Option<Duration> {
    let (seconds, nanos) = value.split_first_chunk()?;
    Some(Duration::new(u64::from_ne_bytes(*seconds), u32::from_ne_bytes(*nanos.first_chunk()?)))
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
