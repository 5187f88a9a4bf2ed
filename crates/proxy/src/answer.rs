//! What a client is told when its server does not accept: what the server, or the network before it, told the proxy.

use std::net::IpAddr;

use rustix::io::Errno;
use trunkline_packet::{Headers, TcpFlags, Unreachable, Version, unreachable};

use crate::syn::Syn;
use crate::tcp_packet::tcp_packet;

/// An answer to a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A reset, as from the server.
    Reset,
    /// ICMP, as from a router.
    Unreachable(Unreachable),
    /// None: the client retransmits its SYN, and gives up as it would without a proxy.
    Silence,
}

/// What follows from the failure of a connection to the server.
pub(crate) fn of(error: Errno) -> Answer {
    match error {
        Errno::CONNREFUSED | Errno::CONNRESET => Answer::Reset,
        Errno::NETUNREACH => Answer::Unreachable(Unreachable::Network),
        Errno::HOSTUNREACH => Answer::Unreachable(Unreachable::Host),
        Errno::ACCESS | Errno::PERM => Answer::Unreachable(Unreachable::Prohibited),
        _ => Answer::Silence,
    }
}

/// Whether the connection failed for want of descriptors or memory here, which says nothing of the server.
pub(crate) fn is_shortage(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::NOSPC)
}

/// The reset that refuses a SYN (RFC 9293 §3.10.7.1).
pub(crate) fn reset(syn: &Syn) -> Vec<u8> {
    let mut tcp = [0; 20];
    tcp[0..2].copy_from_slice(&syn.connection.server.port().to_be_bytes());
    tcp[2..4].copy_from_slice(&syn.connection.client.port().to_be_bytes());
    tcp[8..12].copy_from_slice(&syn.isn.wrapping_add(syn.len).to_be_bytes());
    tcp[12] = 5 << 4;
    tcp[13] = (TcpFlags::RST | TcpFlags::ACK).0;
    tcp_packet(syn.connection.server.ip(), syn.connection.client.ip(), &mut tcp)
}

/// The ICMP message about a SYN, from `source`; `None` where none may be sent.
pub(crate) fn icmp(why: Unreachable, packet: &[u8], source: IpAddr) -> Option<Vec<u8>> {
    let headers = Headers::parse(packet, packet.len()).ok()?;
    debug_assert_eq!(headers.version == Version::V4, source.is_ipv4());
    unreachable(why, packet, &headers, source)
}

#[cfg(test)]
mod tests {
    use trunkline_packet::build::{self, Ip, Tcp};

    use trunkline_packet::{TcpView, checksum, protocol};

    use super::*;

    #[test]
    fn a_reset_comes_from_the_server_and_acknowledges_the_syn_and_its_data() {
        for ip in [Ip::v4(), Ip::v6()] {
            let tcp = Tcp {
                ports: (1234, 80),
                seq: u32::MAX,
                ack: 0,
                flags: TcpFlags::SYN,
                window: 1,
                options: &[],
            };
            let packet = build::tcp(&ip, &tcp, b"early");
            let answer = reset(&Syn::parse(&packet).unwrap());
            let headers = Headers::parse(&answer, answer.len()).unwrap();
            assert_eq!((headers.source, headers.destination), (ip.destination, ip.source));
            let view = TcpView::new(&answer[headers.transport_offset..]).unwrap();
            assert_eq!((view.source(), view.destination(), view.seq(), view.ack()), (80, 1234, 0, 5));
            assert_eq!(view.flags(), TcpFlags::RST | TcpFlags::ACK);
            let pseudo = checksum::pseudo_header(headers.source, headers.destination, protocol::TCP, 20);
            let sum = checksum::sum(&answer[headers.transport_offset..]);
            assert_eq!(checksum::fold(pseudo + sum), 0xffff);
        }
    }

    #[test]
    fn each_failure_has_the_answer_that_the_client_would_have_got() {
        assert_eq!(of(Errno::CONNREFUSED), Answer::Reset);
        assert_eq!(of(Errno::HOSTUNREACH), Answer::Unreachable(Unreachable::Host));
        assert_eq!(of(Errno::NETUNREACH), Answer::Unreachable(Unreachable::Network));
        assert_eq!(of(Errno::TIMEDOUT), Answer::Silence);
        assert_eq!(of(Errno::ADDRNOTAVAIL), Answer::Silence);
    }
}
