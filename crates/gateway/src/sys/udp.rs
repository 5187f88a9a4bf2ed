//! UDP sockets for lanes: batches by segmentation and coalescing (UDP GSO and GRO), and the fields of the IP header that
//! QUIC uses (RFC 9000 §13.4 for ECN).

use std::ffi::c_void;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use bytes::BytesMut;
use libc::{c_int, socklen_t};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use super::{check, get_option, set_option};

/// Bytes of the kernel's receive buffer that a socket asks for: what comes while the worker does something else.
const RECEIVE_BUFFER: c_int = 8 << 20;
/// Room for all control messages of a datagram.
const CONTROL_BYTES: usize = 256;

#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// What goes into the headers of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing {
    pub(crate) to: SocketAddr,
    /// The source address; `None`: the kernel's choice.
    pub(crate) from: Option<IpAddr>,
    /// DSCP and ECN.
    pub(crate) traffic_class: u8,
    /// The bytes are datagrams of this length each, but for the last; `None`: one datagram.
    pub(crate) segment: Option<u16>,
}

/// What came with a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming {
    pub(crate) len: usize,
    pub(crate) from: SocketAddr,
    /// The address that it was sent to.
    pub(crate) to: Option<IpAddr>,
    /// The ECN field of its IP header.
    pub(crate) ecn: u8,
    /// The bytes are datagrams of this length each, but for the last.
    pub(crate) segment: usize,
}

/// A socket that never blocks, is bound to `address`, and reports what [`receive`] gives. With `shared`, others may be bound
/// to the same address, and the kernel divides what comes among them.
pub(crate) fn open(address: SocketAddr, mark: Option<u32>, shared: bool) -> io::Result<OwnedFd> {
    const UDP_GRO: c_int = 104;
    let is_v4 = address.is_ipv4();
    let family = if is_v4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    let fd = std::os::fd::AsFd::as_fd(&socket);
    let on: c_int = 1;
    if is_v4 {
        set_option(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, &on)?;
        set_option(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, &on)?;
        set_option(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &libc::IP_PMTUDISC_PROBE)?;
    } else {
        sockopt::set_ipv6_v6only(&socket, true)?;
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, &on)?;
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &on)?;
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, &libc::IPV6_PMTUDISC_PROBE)?;
    }
    // Without coalescing it works too, at a higher cost.
    let _ = set_option(fd, libc::IPPROTO_UDP, UDP_GRO, &on);
    // Beyond the system's limit if we may, else up to it.
    if set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER).is_err() {
        let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER);
    }
    if let Some(mark) = mark {
        super::set_mark(fd, mark)?;
    }
    if shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}

/// Lets the kernel choose among the sockets that share an address by the first two bytes of a QUIC packet's destination
/// connection ID, modulo `sockets`: in the order in which they were bound. One socket of them is enough.
///
/// The header's form is in its first bit (RFC 8999 §5): in a long one the connection ID begins after 6 bytes, in a short one
/// after 1. A packet that is shorter goes by the kernel's hash.
pub(crate) fn steer(fd: BorrowedFd<'_>, sockets: u16) -> io::Result<()> {
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        op(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 2, 0x80),
        op(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 6),
        op(libc::BPF_JMP | libc::BPF_JA, 0, 0, 1),
        op(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 1),
        op(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, 0, 0, sockets.into()),
        op(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // The kernel copies the program, which outlives the call.
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &filter)
}

/// The length of the longest datagram to `remote` that this machine sends whole the way that the packets of a socket go: by its
/// mark, its interface and its address. The route and the interface say.
///
/// # Errors
/// The kernel's: there is no route, or no socket for the question.
pub(crate) fn longest_datagram(fd: BorrowedFd<'_>, remote: SocketAddr) -> io::Result<usize> {
    const IP_MTU: c_int = 14;
    const IPV6_MTU: c_int = 24;
    const UDP_HEADER: usize = 8;
    let mut local: SocketAddr = rustix::net::getsockname(fd)?.try_into()?;
    local.set_port(0);
    let mark: c_int = get_option(fd, libc::SOL_SOCKET, libc::SO_MARK)?;
    // A socket that is connected has a route, and is asked for nothing else.
    let asked = open(local, (mark != 0).then_some(mark.cast_unsigned()), false)?;
    let asked = std::os::fd::AsFd::as_fd(&asked);
    let interface = super::interface_of(fd)?;
    if !interface.is_empty() {
        super::bind_to_interface(asked, &interface)?;
    }
    rustix::net::connect(asked, &remote)?;
    let (mtu, header, longest): (c_int, _, _) = if remote.is_ipv4() {
        (get_option(asked, libc::IPPROTO_IP, IP_MTU)?, 20, usize::from(u16::MAX))
    } else {
        // The length in the header does not count the header (RFC 8200 §3).
        (get_option(asked, libc::IPPROTO_IPV6, IPV6_MTU)?, 40, usize::from(u16::MAX) + 40)
    };
    let packet = usize::try_from(mtu).unwrap_or(0).min(longest);
    Ok(packet.saturating_sub(header + UDP_HEADER))
}

/// Sends a batch.
///
/// # Errors
/// The kernel's; of a batch nothing was sent then.
pub(crate) fn send(fd: BorrowedFd<'_>, headers: &Outgoing, bytes: &[u8]) -> io::Result<()> {
    const UDP_SEGMENT: c_int = 103;
    let (mut storage, length) = to_sockaddr(headers.to);
    let mut vector =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: an all-zero msghdr is a valid one without address, data and control messages.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = (&raw mut storage).cast::<c_void>();
    message.msg_namelen = length;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = CONTROL_BYTES as _;
    let mut used = 0;
    let class = c_int::from(headers.traffic_class);
    if headers.to.is_ipv4() {
        push(&message, &mut used, libc::IPPROTO_IP, libc::IP_TOS, &class);
    } else {
        push(&message, &mut used, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class);
    }
    match headers.from {
        Some(IpAddr::V4(from)) => {
            let from = libc::in_addr { s_addr: u32::from(from).to_be() };
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: from,
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            push(&message, &mut used, libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
        }
        Some(IpAddr::V6(from)) => {
            let info =
                libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: from.octets() }, ipi6_ifindex: 0 };
            push(&message, &mut used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        }
        None => {}
    }
    if let Some(segment) = headers.segment {
        push(&message, &mut used, libc::IPPROTO_UDP, UDP_SEGMENT, &segment);
    }
    message.msg_controllen = used as _;
    // SAFETY: all that `message` points to is alive, of the lengths it says, and only read.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Adds a control message to those of `message`, of which `used` bytes are taken.
fn push<T: Copy>(message: &libc::msghdr, used: &mut usize, level: c_int, kind: c_int, value: &T) {
    let size = mem::size_of::<T>();
    // SAFETY: CMSG_SPACE and CMSG_LEN only compute, and an all-zero header is valid. The buffer of `message` has CONTROL_BYTES
    // bytes, and the assertion keeps header and value within it; they are copied byte by byte.
    unsafe {
        let space = libc::CMSG_SPACE(size as u32) as usize;
        assert!(*used + space <= CONTROL_BYTES, "no room for a control message");
        let mut header: libc::cmsghdr = mem::zeroed();
        header.cmsg_level = level;
        header.cmsg_type = kind;
        header.cmsg_len = libc::CMSG_LEN(size as u32) as _;
        let to = message.msg_control.cast::<u8>().add(*used);
        ptr::copy_nonoverlapping(ptr::from_ref(&header).cast::<u8>(), to, mem::size_of_val(&header));
        let data = to.add(libc::CMSG_LEN(0) as usize);
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), data, size);
        *used += space;
    }
}

/// Receives a batch of datagrams of one sender, and adds it to `buffer`, as much as this has capacity for.
///
/// # Errors
/// `WouldBlock` if there is none.
pub(crate) fn receive(fd: BorrowedFd<'_>, buffer: &mut BytesMut) -> io::Result<Incoming> {
    const UDP_GRO: c_int = 104;
    // SAFETY: an all-zero address storage and msghdr are valid values.
    let (mut storage, mut message): (libc::sockaddr_storage, libc::msghdr) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    let room = buffer.spare_capacity_mut();
    let mut vector = libc::iovec { iov_base: room.as_mut_ptr().cast::<c_void>(), iov_len: room.len() };
    let mut control = Control([0; CONTROL_BYTES]);
    message.msg_name = (&raw mut storage).cast::<c_void>();
    message.msg_namelen = mem::size_of::<libc::sockaddr_storage>() as socklen_t;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: all that `message` points to is alive, writable, and of the lengths it says.
    let received = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let len = check(received as c_int)? as usize;
    // SAFETY: the kernel has written so many bytes behind the buffer's length, and no more than there is capacity for.
    unsafe { buffer.set_len(buffer.len() + len) };
    let from = from_sockaddr(&storage).ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
    let mut incoming = Incoming { len, from, to: None, ecn: 0, segment: len };
    // SAFETY: the kernel has written well-formed control messages of `msg_controllen` bytes in all; each value is read with the
    // size that the kernel gives it, without regard to alignment.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(found) = header.as_ref() {
            let data = libc::CMSG_DATA(header);
            match (found.cmsg_level, found.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => incoming.ecn = *data & 3,
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    incoming.ecn = (ptr::read_unaligned(data.cast::<c_int>()) & 3) as u8;
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = ptr::read_unaligned(data.cast::<libc::in_pktinfo>());
                    incoming.to = Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = ptr::read_unaligned(data.cast::<libc::in6_pktinfo>());
                    incoming.to = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                (libc::IPPROTO_UDP, UDP_GRO) => {
                    let segment = ptr::read_unaligned(data.cast::<c_int>());
                    incoming.segment = usize::try_from(segment).unwrap_or(len).max(1);
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(incoming)
}

fn to_sockaddr(address: SocketAddr) -> (libc::sockaddr_storage, socklen_t) {
    // SAFETY: an all-zero address storage is a valid value.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    // SAFETY: the storage is larger than either address and aligned for both.
    let length = unsafe {
        match address {
            SocketAddr::V4(address) => {
                (&raw mut storage).cast::<libc::sockaddr_in>().write(libc::sockaddr_in {
                    sin_family: libc::AF_INET as _,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                    sin_zero: [0; 8],
                });
                mem::size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(address) => {
                (&raw mut storage).cast::<libc::sockaddr_in6>().write(libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as _,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                });
                mem::size_of::<libc::sockaddr_in6>()
            }
        }
    };
    (storage, length as socklen_t)
}

fn from_sockaddr(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    // SAFETY: the family says which address the kernel wrote, and the storage is aligned for both.
    unsafe {
        match c_int::from(storage.ss_family) {
            libc::AF_INET => {
                let address = &*ptr::from_ref(storage).cast::<libc::sockaddr_in>();
                let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
                Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
            }
            libc::AF_INET6 => {
                let address = &*ptr::from_ref(storage).cast::<libc::sockaddr_in6>();
                let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
                Some(SocketAddrV6::new(ip, u16::from_be(address.sin6_port), 0, address.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::time::{Duration, Instant};

    use super::*;

    fn address(fd: &OwnedFd) -> SocketAddr {
        rustix::net::getsockname(fd).expect("its address").try_into().expect("an IP address")
    }

    fn wait(fd: &OwnedFd) -> (Incoming, BytesMut) {
        let (start, mut buffer) = (Instant::now(), BytesMut::with_capacity(1000));
        loop {
            match receive(fd.as_fd(), &mut buffer) {
                Ok(incoming) => {
                    assert_eq!(buffer.len(), incoming.len);
                    return (incoming, buffer);
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            assert!(start.elapsed() < Duration::from_secs(5), "nothing came");
        }
    }

    #[test]
    fn a_batch_arrives_with_its_ecn_field_and_addresses() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let local: SocketAddr = local.parse().expect("an address");
            let Ok(receiver) = open(local, None, false) else {
                assert!(local.is_ipv6(), "every machine has IPv4");
                continue;
            };
            let sender = open(local, None, false).expect("a socket");
            let to = address(&receiver);
            let headers =
                Outgoing { to, from: Some(local.ip()), traffic_class: 46 << 2 | 1, segment: Some(100) };
            let bytes: Vec<u8> = (0..250).collect();
            send(sender.as_fd(), &headers, &bytes).expect("loopback has room");
            let mut got = Vec::new();
            while got.len() < bytes.len() {
                let (incoming, buffer) = wait(&receiver);
                assert_eq!((incoming.from, incoming.to), (address(&sender), Some(local.ip())));
                assert_eq!(incoming.ecn, 1);
                assert!(incoming.segment <= 100);
                got.extend_from_slice(&buffer);
            }
            assert_eq!(got, bytes);
        }
    }

    #[test]
    fn the_route_says_how_long_a_datagram_may_be() {
        for (local, header) in [("127.0.0.1:0", 28), ("[::1]:0", 48)] {
            let local: SocketAddr = local.parse().expect("an address");
            let Ok(socket) = open(local, None, false) else { continue };
            let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").expect("the loopback interface");
            let mtu: usize = mtu.trim().parse().expect("a number");
            let longest = if local.is_ipv4() { 65_535 } else { 65_575 };
            let known = longest_datagram(socket.as_fd(), local).expect("a route");
            assert_eq!(known, mtu.min(longest) - header, "{local}");
        }
        // Nothing leads from the loopback address to another machine.
        let socket = open("127.0.0.1:0".parse().expect("an address"), None, false).expect("a socket");
        let other = "192.0.2.1:1".parse().expect("an address");
        assert!(longest_datagram(socket.as_fd(), other).is_err());
    }

    #[test]
    fn connection_ids_choose_the_socket_in_long_and_short_headers() {
        let first = open("127.0.0.1:0".parse().expect("an address"), None, true).expect("a socket");
        let to = address(&first);
        let others = [0, 1].map(|_| open(to, None, true).expect("a shared address"));
        let sockets = [&first, &others[0], &others[1]];
        steer(first.as_fd(), 3).expect("the program is sound");
        let sender = open("127.0.0.1:0".parse().expect("an address"), None, false).expect("a socket");
        let headers = Outgoing { to, from: None, traffic_class: 0, segment: None };
        for id in [0_u16, 1, 2, 3, 17, 255, 256, 12_345, 65_535] {
            let [high, low] = id.to_be_bytes();
            for packet in [&[0xc0, 0, 0, 0, 1, 8, high, low, 9][..], &[0x40, high, low, 7]] {
                send(sender.as_fd(), &headers, packet).expect("loopback has room");
                assert_eq!(&wait(sockets[usize::from(id % 3)]).1[..], packet);
            }
        }
    }
}
