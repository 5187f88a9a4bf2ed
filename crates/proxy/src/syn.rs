//! The packet that opens a connection, as far as the proxy needs it.

use std::net::SocketAddr;

use trunkline_packet::{Fragment, Headers, PacketError, TcpFlags, TcpView, Version, protocol};

/// A connection as both ends name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    /// Who opens it.
    pub client: SocketAddr,
    /// To whom.
    pub server: SocketAddr,
}

/// What a SYN says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syn {
    /// Which connection it opens.
    pub connection: Connection,
    /// Its sequence number.
    pub isn: u32,
    /// What it occupies of the sequence: itself, and data if it has some (RFC 7413).
    pub len: u32,
    /// Time to live or hop limit that is left.
    pub hops: u8,
    /// IPv4 type of service or IPv6 traffic class.
    pub traffic_class: u8,
}

/// Why a packet is no SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SynError {
    /// Its headers are broken.
    #[error("{0}")]
    Packet(#[from] PacketError),
    /// It is not TCP, or a fragment.
    #[error("no TCP")]
    NotTcp,
    /// It is TCP, and opens nothing.
    #[error("opens no connection")]
    NotOpening,
}

impl Syn {
    /// Reads a whole packet.
    ///
    /// # Errors
    /// [`SynError`]: what it is instead.
    pub fn parse(packet: &[u8]) -> Result<Syn, SynError> {
        let headers = Headers::parse(packet, packet.len())?;
        let (source, destination) = match headers.ports {
            Some(ports) if headers.protocol == protocol::TCP && headers.fragment == Fragment::Whole => ports,
            _ => return Err(SynError::NotTcp),
        };
        let tcp = TcpView::new(&packet[headers.transport_offset..])?;
        let opening = TcpFlags::SYN | TcpFlags::ACK | TcpFlags::RST | TcpFlags::FIN;
        if tcp.flags().0 & opening.0 != TcpFlags::SYN.0 {
            return Err(SynError::NotOpening);
        }
        let payload = headers.transport_len().saturating_sub(tcp.header_len());
        Ok(Syn {
            connection: Connection {
                client: SocketAddr::new(headers.source, source),
                server: SocketAddr::new(headers.destination, destination),
            },
            isn: tcp.seq(),
            len: 1 + payload as u32,
            hops: packet[if headers.version == Version::V4 { 8 } else { 7 }],
            traffic_class: headers.traffic_class,
        })
    }
}

#[cfg(test)]
mod tests {
    use trunkline_packet::build::{self, Ip, Tcp};

    use super::*;

    fn tcp(flags: TcpFlags) -> Tcp<'static> {
        Tcp { ports: (1234, 80), seq: 7, ack: 0, flags, window: 1000, options: &[2, 4, 5, 180] }
    }

    #[test]
    fn a_syn_names_its_connection_in_both_versions_of_ip() {
        for ip in [Ip::v4(), Ip::v6()] {
            let ip = Ip { hop_limit: 9, traffic_class: 0x28, ..ip };
            let syn = Syn::parse(&build::tcp(&ip, &tcp(TcpFlags::SYN), b"")).unwrap();
            let connection = Connection {
                client: SocketAddr::new(ip.source, 1234),
                server: SocketAddr::new(ip.destination, 80),
            };
            assert_eq!(syn, Syn { connection, isn: 7, len: 1, hops: 9, traffic_class: 0x28 });
        }
    }

    #[test]
    fn data_and_the_flags_of_ecn_may_be_in_it() {
        let flags = TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR;
        let syn = Syn::parse(&build::tcp(&Ip::v4(), &tcp(flags), b"early")).unwrap();
        assert_eq!(syn.len, 6);
    }

    #[test]
    fn other_packets_are_named_for_what_they_are() {
        for flags in
            [TcpFlags::ACK, TcpFlags::SYN | TcpFlags::ACK, TcpFlags::SYN | TcpFlags::RST, TcpFlags(0)]
        {
            let packet = build::tcp(&Ip::v4(), &tcp(flags), b"");
            assert_eq!(Syn::parse(&packet), Err(SynError::NotOpening), "{flags:?}");
        }
        assert_eq!(Syn::parse(&build::udp(&Ip::v6(), (1, 2), b"data")), Err(SynError::NotTcp));
        let mut fragment = build::tcp(&Ip::v4(), &tcp(TcpFlags::SYN), b"");
        fragment[6] = 0x20;
        assert_eq!(Syn::parse(&fragment), Err(SynError::NotTcp));
        for len in 0..40 {
            let packet = build::tcp(&Ip::v4(), &tcp(TcpFlags::SYN), b"");
            assert!(Syn::parse(&packet[..len]).is_err());
        }
    }
}
