//! The ICMP answer to a packet that does not get through: destination unreachable, or a packet that is too long.
//!
//! ICMP type 3 (RFC 792, codes in RFC 1812 §5.2.7.1), `ICMPv6` types 1 and 2 (RFC 4443 §3.1, §3.2). RFC 1812 §4.3.2.7 and RFC 4443
//! §2.4(e) say which packets may be answered.

use std::net::IpAddr;

use crate::{Fragment, Headers, Version, checksum, protocol};

/// Longest answer: 576 bytes (RFC 1812 §4.3.2.3) and the minimum MTU of IPv6 (RFC 4443 §2.4(c)).
const MAX_LEN: [usize; 2] = [576, 1280];
const HOP_LIMIT: u8 = 64;
/// Internetwork control, as RFC 1812 §4.3.2.5 has it for ICMP errors.
const PRECEDENCE: u8 = 0xc0;

/// Why a packet does not get through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// There is no route to its destination.
    Network,
    /// Its destination does not answer on its link.
    Host,
    /// Policy forbids it: communication administratively prohibited.
    Prohibited,
    /// It is longer than the next link takes, bytes: fragmentation needed (RFC 1191 §4), packet too big.
    TooLong(u16),
}

impl Unreachable {
    /// Type and code of ICMP and of `ICMPv6`.
    const fn kinds(self) -> [[u8; 2]; 2] {
        match self {
            Self::Network => [[3, 0], [1, 0]],
            Self::Host => [[3, 1], [1, 3]],
            Self::Prohibited => [[3, 13], [1, 1]],
            Self::TooLong(_) => [[3, 4], [2, 0]],
        }
    }

    /// The length that the next link takes, where the message says one.
    const fn mtu(self) -> u16 {
        match self {
            Self::TooLong(mtu) => mtu,
            Self::Network | Self::Host | Self::Prohibited => 0,
        }
    }
}

/// The packet that tells the sender of another one, of which `prefix` is the start, why it does not get through; it comes
/// from `source`. `None` where no answer may be given: to an ICMP error, a later fragment, multicast, an unspecified
/// or loopback address, or where `source` is of another IP version.
pub fn unreachable(why: Unreachable, prefix: &[u8], headers: &Headers, source: IpAddr) -> Option<Vec<u8>> {
    let askable = |address: IpAddr| {
        !address.is_multicast()
            && !address.is_unspecified()
            && !address.is_loopback()
            && address != IpAddr::from([255, 255, 255, 255])
    };
    let is_error = match (headers.protocol, headers.icmp) {
        // Echo, timestamps and the like are questions and may be answered; everything else counts as an error.
        (protocol::ICMP, Some((kind, _))) => !matches!(kind, 8 | 13 | 15 | 17),
        (protocol::ICMPV6, Some((kind, _))) => kind < 128,
        (protocol::ICMP | protocol::ICMPV6, None) => true,
        _ => false,
    };
    if is_error
        || headers.fragment == Fragment::Later
        || !askable(headers.source)
        || !askable(headers.destination)
        || source.is_ipv4() != headers.source.is_ipv4()
    {
        return None;
    }
    let (longest, header_len) = match headers.version {
        Version::V4 => (MAX_LEN[0], 20),
        Version::V6 => (MAX_LEN[1], 40),
    };
    let quoted = &prefix[..prefix.len().min(longest - header_len - 8)];
    let mut message = vec![0; 8];
    // In both versions the last two bytes of the header; RFC 4443 has two more before them, which are zero.
    message[6..8].copy_from_slice(&why.mtu().to_be_bytes());
    message.extend_from_slice(quoted);
    let mut answer = Vec::with_capacity(header_len + message.len());
    match (source, headers.source) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            message[..2].copy_from_slice(&why.kinds()[0]);
            let sum = !checksum::fold(checksum::sum(&message));
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            let total = (header_len + message.len()) as u16;
            answer.extend([0x45, PRECEDENCE]);
            answer.extend(total.to_be_bytes());
            answer.extend([0, 0, 0, 0, HOP_LIMIT, protocol::ICMP, 0, 0]);
            answer.extend(from.octets());
            answer.extend(to.octets());
            let sum = checksum::ipv4_header_checksum(&answer);
            answer[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            message[..2].copy_from_slice(&why.kinds()[1]);
            let pseudo =
                checksum::pseudo_header(source, headers.source, protocol::ICMPV6, message.len() as u32);
            let sum = !checksum::fold(pseudo + checksum::sum(&message));
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            answer.extend([0x6c, 0, 0, 0]);
            answer.extend((message.len() as u16).to_be_bytes());
            answer.extend([protocol::ICMPV6, HOP_LIMIT]);
            answer.extend(from.octets());
            answer.extend(to.octets());
        }
        _ => return None,
    }
    answer.extend(message);
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IcmpView, build};

    fn parse(packet: &[u8]) -> Headers {
        Headers::parse(packet, packet.len()).unwrap()
    }

    #[test]
    fn the_answer_quotes_the_packet_and_its_checksums_hold() {
        for (ip, source, kind, header_len, longest) in
            [(build::Ip::v4(), "10.0.0.1", (3, 13), 20, 576), (build::Ip::v6(), "fd00::1", (1, 1), 40, 1280)]
        {
            let packet = build::udp(&ip, (7, 8), &[1; 1400]);
            let answer =
                unreachable(Unreachable::Prohibited, &packet, &parse(&packet), source.parse().unwrap())
                    .unwrap();
            let headers = parse(&answer);
            assert_eq!((headers.destination, headers.source.to_string()), (ip.source, source.to_owned()));
            assert_eq!(headers.icmp, Some(kind));
            assert_eq!(answer.len(), longest);
            let view = IcmpView::new(&answer[header_len..]).unwrap();
            assert_eq!(view.rest(), [0; 4]);
            assert_eq!(answer[header_len + 8..], packet[..longest - header_len - 8]);
            let pseudo = if header_len == 40 {
                checksum::pseudo_header(headers.source, headers.destination, 58, (longest - 40) as u32)
            } else {
                assert_eq!(checksum::fold(checksum::sum(&answer[..20])), 0xffff);
                0
            };
            assert_eq!(checksum::fold(pseudo + checksum::sum(&answer[header_len..])), 0xffff);
        }
    }

    #[test]
    fn each_reason_has_its_codes() {
        for (why, codes) in [(Unreachable::Network, [0, 0]), (Unreachable::Host, [1, 3])] {
            for (ip, source, code) in
                [(build::Ip::v4(), "10.0.0.1", codes[0]), (build::Ip::v6(), "fd00::1", codes[1])]
            {
                let packet = build::udp(&ip, (7, 8), b"data");
                let answer = unreachable(why, &packet, &parse(&packet), source.parse().unwrap()).unwrap();
                assert_eq!(parse(&answer).icmp.map(|(_, code)| code), Some(code));
            }
        }
    }

    #[test]
    fn a_packet_that_is_too_long_is_told_the_length() {
        for (ip, source, kind, at) in
            [(build::Ip::v4(), "10.0.0.1", (3, 4), 26), (build::Ip::v6(), "fd00::1", (2, 0), 46)]
        {
            let packet = build::udp(&ip, (7, 8), &[1; 1400]);
            let why = Unreachable::TooLong(1280);
            let answer = unreachable(why, &packet, &parse(&packet), source.parse().unwrap()).unwrap();
            assert_eq!((parse(&answer).icmp, &answer[at..at + 2]), (Some(kind), &[5, 0][..]));
        }
    }

    #[test]
    fn errors_and_packets_to_or_from_no_single_host_are_not_answered() {
        let us: IpAddr = "10.0.0.1".parse().unwrap();
        let refused =
            |packet: &[u8]| unreachable(Unreachable::Prohibited, packet, &parse(packet), us).is_none();
        let echo = build::icmp_echo(&build::Ip::v4(), 1, 2, b"ping");
        assert!(!refused(&echo), "a question may be answered");
        let error = unreachable(Unreachable::Prohibited, &echo, &parse(&echo), us).unwrap();
        assert!(refused(&error));
        let multicast = build::Ip { destination: "224.0.0.5".parse().unwrap(), ..build::Ip::v4() };
        assert!(refused(&build::udp(&multicast, (1, 2), b"")));
        let nobody = build::Ip { source: "0.0.0.0".parse().unwrap(), ..build::Ip::v4() };
        assert!(refused(&build::udp(&nobody, (1, 2), b"")));
        assert!(refused(&build::udp(&build::Ip::v6(), (1, 2), b"")), "of another IP version");
        let mut later = build::udp(&build::Ip::v4(), (1, 2), b"data");
        later[7] = 5;
        assert!(refused(&later));
    }
}
