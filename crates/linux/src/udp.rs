//! UDP sockets for lanes: batches by segmentation and coalescing (UDP GSO and GRO), and the fields of the IP header that
//! QUIC uses (RFC 9000 §13.4 for ECN).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use bytes::BytesMut;
use libc::c_int;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use crate::address::SocketAddress;
use crate::control::{ControlMessages, int};
use crate::socket::{bind_to_interface, get_int, interface_of, set_mark};
use crate::sys::{Envelope, receive_message, send_message, set_option};

/// Bytes of the kernel's receive buffer that a socket asks for: what comes while the worker does something else.
const RECEIVE_BUFFER: c_int = 8 << 20;
/// Bytes of `struct in_pktinfo` and `struct in6_pktinfo`.
const PKTINFO_BYTES: usize = 12;
const PKTINFO6_BYTES: usize = 20;

/// What goes into the headers of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing {
    /// Where it goes.
    pub to: SocketAddr,
    /// The source address; `None`: the kernel's choice.
    pub from: Option<IpAddr>,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The bytes are datagrams of this length each, but for the last; `None`: one datagram.
    pub segment: Option<u16>,
}

/// What came with a batch.
#[derive(Debug, Clone, Copy)]
pub struct Incoming {
    /// Bytes.
    pub len: usize,
    /// The sender.
    pub from: SocketAddr,
    /// The address that it was sent to.
    pub to: Option<IpAddr>,
    /// The ECN field of its IP header.
    pub ecn: u8,
    /// The bytes are datagrams of this length each, but for the last.
    pub segment: usize,
}

/// A socket that never blocks, is bound to `address`, and reports what [`receive`] gives. With `shared`, others may be bound
/// to the same address, and the kernel divides what comes among them.
pub fn open(address: SocketAddr, mark: Option<u32>, shared: bool) -> io::Result<OwnedFd> {
    const UDP_GRO: c_int = 104;
    let is_v4 = address.is_ipv4();
    let family = if is_v4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    let fd = socket.as_fd();
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
        set_mark(fd, mark)?;
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
pub fn steer(fd: BorrowedFd<'_>, sockets: u16) -> io::Result<()> {
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
pub fn longest_datagram(fd: BorrowedFd<'_>, remote: SocketAddr) -> io::Result<usize> {
    const IP_MTU: c_int = 14;
    const IPV6_MTU: c_int = 24;
    const UDP_HEADER: usize = 8;
    let mut local: SocketAddr = rustix::net::getsockname(fd)?.try_into()?;
    local.set_port(0);
    let mark: c_int = get_int(fd, libc::SOL_SOCKET, libc::SO_MARK)?;
    // A socket that is connected has a route, and is asked for nothing else.
    let asked = open(local, (mark != 0).then_some(mark.cast_unsigned()), false)?;
    let asked = asked.as_fd();
    let interface = interface_of(fd)?;
    if !interface.is_empty() {
        bind_to_interface(asked, &interface)?;
    }
    rustix::net::connect(asked, &remote)?;
    let (mtu, header, longest): (c_int, _, _) = if remote.is_ipv4() {
        (get_int(asked, libc::IPPROTO_IP, IP_MTU)?, 20, usize::from(u16::MAX))
    } else {
        // The length in the header does not count the header (RFC 8200 §3).
        (get_int(asked, libc::IPPROTO_IPV6, IPV6_MTU)?, 40, usize::from(u16::MAX) + 40)
    };
    let packet = usize::try_from(mtu).unwrap_or(0).min(longest);
    Ok(packet.saturating_sub(header + UDP_HEADER))
}

/// Sends a batch.
///
/// # Errors
/// The kernel's; of a batch nothing was sent then.
pub fn send(fd: BorrowedFd<'_>, headers: &Outgoing, bytes: &[u8]) -> io::Result<()> {
    const UDP_SEGMENT: c_int = 103;
    let mut control = ControlMessages::default();
    let class = c_int::from(headers.traffic_class).to_ne_bytes();
    if headers.to.is_ipv4() {
        control.push(libc::IPPROTO_IP, libc::IP_TOS, &class);
    } else {
        control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class);
    }
    // The number of the interface is left to the route.
    match headers.from {
        Some(IpAddr::V4(from)) => {
            let mut info = [0; PKTINFO_BYTES];
            info[4..8].copy_from_slice(&from.octets());
            control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
        }
        Some(IpAddr::V6(from)) => {
            let mut info = [0; PKTINFO6_BYTES];
            info[..16].copy_from_slice(&from.octets());
            control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        }
        None => {}
    }
    if let Some(segment) = headers.segment {
        control.push(libc::IPPROTO_UDP, UDP_SEGMENT, &segment.to_ne_bytes());
    }
    send_message(fd, &Envelope { address: headers.to.into(), control }, bytes)
}

/// Receives a batch of datagrams of one sender, and adds it to `buffer`, as much as this has capacity for.
///
/// # Errors
/// `WouldBlock` if there is none.
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut BytesMut) -> io::Result<Incoming> {
    const UDP_GRO: c_int = 104;
    let mut envelope = Envelope { address: SocketAddress::default(), control: ControlMessages::default() };
    let len = receive_message(fd, &mut envelope, buffer)?;
    let from = envelope.address.get().ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
    let mut incoming = Incoming { len, from, to: None, ecn: 0, segment: len };
    for (level, kind, value) in envelope.control.iter() {
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                incoming.ecn = value.first().map_or(0, |class| class & 3);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                incoming.ecn = int(value).map_or(0, |class| (class & 3) as u8);
            }
            // Behind the interface's number and the address that answers leave from.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let to: Option<&[u8; 4]> = value.get(8..).and_then(<[u8]>::first_chunk);
                incoming.to = to.map(|to| Ipv4Addr::from(*to).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let to: Option<&[u8; 16]> = value.first_chunk();
                incoming.to = to.map(|to| Ipv6Addr::from(*to).into());
            }
            (libc::IPPROTO_UDP, UDP_GRO) => {
                let segment = int(value).and_then(|bytes| usize::try_from(bytes).ok());
                incoming.segment = segment.unwrap_or(len).max(1);
            }
            _ => {}
        }
    }
    Ok(incoming)
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
