//! ICMP errors about connections: destination unreachable, with the start of the packet that it is about (RFC 792, RFC 4443 §3.1).

use std::net::{IpAddr, SocketAddr};

use trunkline_packet::{Fragment, Headers, Unreachable, Version, protocol};

use crate::syn::Connection;

/// What an error says of which connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorMessage {
    /// Whom it is sent to.
    pub destination: IpAddr,
    /// The connection whose packet it is about; `None` if that is not TCP.
    pub connection: Option<Connection>,
    /// Why nothing gets through; `None` if the packet was only too long (RFC 1191), which is not the end of anything.
    pub why: Option<Unreachable>,
}

const ICMP_HEADER: usize = 8;

impl ErrorMessage {
    /// Reads a whole packet. `None` if it is no such error.
    pub fn parse(packet: &[u8]) -> Option<ErrorMessage> {
        let headers = Headers::parse(packet, packet.len()).ok()?;
        let (kind, code) = headers.icmp.filter(|_| headers.fragment == Fragment::Whole)?;
        let why = match (headers.version, kind, code) {
            (Version::V4, 3, 0 | 5 | 6 | 11) | (Version::V6, 1, 0) => Some(Unreachable::Network),
            (Version::V4, 3, 9 | 10 | 13) | (Version::V6, 1, 1 | 5 | 6) => Some(Unreachable::Prohibited),
            (Version::V4, 3, 4) => None,
            // A server that refuses resets.
            (Version::V4, 3, _) | (Version::V6, 1, _) => Some(Unreachable::Host),
            _ => return None,
        };
        let quoted = packet.get(headers.transport_offset + ICMP_HEADER..)?;
        Some(ErrorMessage { destination: headers.destination, connection: connection(quoted), why })
    }
}

/// The connection of a packet of which only the start is there.
fn connection(quoted: &[u8]) -> Option<Connection> {
    let length = |at: usize| Some(usize::from(u16::from_be_bytes([*quoted.get(at)?, *quoted.get(at + 1)?])));
    let whole = match quoted.first()? >> 4 {
        4 => length(2)?,
        _ => length(4)? + 40,
    };
    let headers = Headers::parse(quoted, whole).ok()?;
    let (source, destination) = headers.ports.filter(|_| headers.protocol == protocol::TCP)?;
    Some(Connection {
        client: SocketAddr::new(headers.source, source),
        server: SocketAddr::new(headers.destination, destination),
    })
}

#[cfg(test)]
mod tests {
    use trunkline_packet::build::{self, Ip, Tcp};
    use trunkline_packet::{TcpFlags, unreachable};

    use super::*;

    fn error(ip: &Ip, why: Unreachable, packet: &[u8]) -> Vec<u8> {
        let headers = Headers::parse(packet, packet.len()).unwrap();
        unreachable(why, packet, &headers, ip.destination).unwrap()
    }

    #[test]
    fn it_says_which_connection_and_why_in_both_versions_of_ip() {
        for ip in [Ip::v4(), Ip::v6()] {
            let tcp =
                Tcp { ports: (1234, 80), seq: 7, ack: 0, flags: TcpFlags::SYN, window: 1, options: &[] };
            let packet = build::tcp(&ip, &tcp, b"");
            for why in [Unreachable::Network, Unreachable::Host, Unreachable::Prohibited] {
                let connection = Some(Connection {
                    client: SocketAddr::new(ip.source, 1234),
                    server: SocketAddr::new(ip.destination, 80),
                });
                let expected = ErrorMessage { destination: ip.source, connection, why: Some(why) };
                assert_eq!(ErrorMessage::parse(&error(&ip, why, &packet)), Some(expected));
            }
        }
    }

    #[test]
    fn the_start_of_a_packet_is_enough_and_less_names_no_connection() {
        let tcp = Tcp { ports: (1, 2), seq: 7, ack: 0, flags: TcpFlags::ACK, window: 1, options: &[] };
        let packet = build::tcp(&Ip::v4(), &tcp, &[0; 1000]);
        let whole = error(&Ip::v4(), Unreachable::Host, &packet);
        for (quoted, named) in [(28, true), (24, true), (23, false), (0, false)] {
            let mut message = whole[..20 + ICMP_HEADER + quoted].to_vec();
            let len = message.len() as u16;
            message[2..4].copy_from_slice(&len.to_be_bytes());
            let parsed = ErrorMessage::parse(&message).unwrap();
            assert_eq!(parsed.connection.is_some(), named, "{quoted}");
        }
    }

    #[test]
    fn other_packets_are_none() {
        let udp = build::udp(&Ip::v4(), (1, 2), b"data");
        assert_eq!(ErrorMessage::parse(&udp), None);
        assert_eq!(ErrorMessage::parse(&build::icmp_echo(&Ip::v6(), 1, 2, b"")), None);
        let about_udp = ErrorMessage::parse(&error(&Ip::v4(), Unreachable::Host, &udp)).unwrap();
        assert_eq!(about_udp.connection, None);
    }

    /// It is the end of nothing, and its destination must have it.
    #[test]
    fn a_packet_that_was_too_long_is_told_without_a_reason_to_give_up() {
        let udp = build::udp(&Ip::v4(), (1, 2), b"data");
        let parsed = ErrorMessage::parse(&error(&Ip::v4(), Unreachable::TooLong(1300), &udp)).unwrap();
        assert_eq!((parsed.destination, parsed.why), (Ip::v4().source, None));
    }
}
