use proptest::prelude::*;

use super::*;
use crate::build::{self, Ip, Tcp};

fn parse(packet: &[u8]) -> Result<Headers, PacketError> {
    Headers::parse(packet, packet.len())
}

/// A chain of extension headers, each `(number, bytes)`, before a UDP datagram.
fn with_extensions(chain: &[(u8, &[u8])]) -> Vec<u8> {
    let udp = build::udp(&Ip::v6(), (5, 6), b"data").split_off(40);
    let next_of = |index: usize| chain.get(index).map_or(protocol::UDP, |header| header.0);
    let mut payload = Vec::new();
    for (index, (_, bytes)) in chain.iter().enumerate() {
        payload.push(next_of(index + 1));
        payload.extend(&bytes[1..]);
    }
    payload.extend(udp);
    build::ip(&Ip::v6(), next_of(0), &payload)
}

#[test]
fn ipv4_fields_are_read() {
    let ip = Ip { traffic_class: 0xb9, ..Ip::v4() };
    let packet = build::tcp(&ip, &Tcp { ports: (1234, 80), ..Tcp::default() }, b"data");
    let headers = parse(&packet).unwrap();
    let expected = Headers {
        version: Version::V4,
        source: ip.source,
        destination: ip.destination,
        protocol: protocol::TCP,
        traffic_class: 0xb9,
        transport_offset: 20,
        packet_len: 44,
        fragment: Fragment::Whole,
        ports: Some((1234, 80)),
        icmp: None,
    };
    assert_eq!(headers, expected);
    assert_eq!((headers.dscp(), headers.ecn(), headers.transport_len()), (46, 1, 24));
}

#[test]
fn ipv6_fields_are_read() {
    let ip = Ip { traffic_class: 0xb9, ..Ip::v6() };
    let headers = parse(&build::udp(&ip, (53, 5353), b"data")).unwrap();
    let expected = Headers {
        version: Version::V6,
        source: ip.source,
        destination: ip.destination,
        protocol: protocol::UDP,
        traffic_class: 0xb9,
        transport_offset: 40,
        packet_len: 52,
        fragment: Fragment::Whole,
        ports: Some((53, 5353)),
        icmp: None,
    };
    assert_eq!(headers, expected);
}

#[test]
fn the_prefix_needs_the_ports_and_no_more() {
    let packet = build::tcp(&Ip::v4(), &Tcp::default(), &[0; 1000]);
    assert_eq!(Headers::parse(&packet[..24], packet.len()), parse(&packet));
    assert_eq!(Headers::parse(&packet[..23], packet.len()).unwrap().ports, None);
    assert!(Headers::parse(&packet, 20).is_err());
}

/// A router looks at nothing behind the IP header.
#[test]
fn a_packet_may_end_anywhere_behind_its_ip_header() {
    for next in 0..=u8::MAX {
        for len in 0..12 {
            for ip in [Ip::v4(), Ip::v6()] {
                let packet = build::ip(&ip, next, &vec![0xff; len]);
                let headers = parse(&packet).unwrap();
                assert_eq!(headers.packet_len, packet.len());
                assert!(headers.transport_offset <= packet.len(), "{next}: {headers:?}");
                assert!(len >= 4 || headers.ports.is_none());
            }
        }
    }
}

#[test]
fn icmp_type_and_code_are_read() {
    assert_eq!(parse(&build::icmp_echo(&Ip::v4(), 1, 2, b"")).unwrap().icmp, Some((8, 0)));
    assert_eq!(parse(&build::icmp_echo(&Ip::v6(), 1, 2, b"")).unwrap().icmp, Some((128, 0)));
}

#[test]
fn ipv4_options_are_skipped() {
    let udp = build::udp(&Ip::v4(), (5, 6), b"data").split_off(20);
    let mut packet = build::ip(&Ip::v4(), protocol::UDP, &[&[1; 8], &udp[..]].concat());
    packet[0] = 0x47;
    let headers = parse(&packet).unwrap();
    assert_eq!((headers.transport_offset, headers.ports), (28, Some((5, 6))));
}

#[test]
fn a_wrong_ip_header_is_named() {
    let v4 = build::udp(&Ip::v4(), (5, 6), b"data");
    let v6 = build::udp(&Ip::v6(), (5, 6), b"data");
    let changed = |packet: &[u8], at: usize, value: u8| {
        let mut packet = packet.to_vec();
        packet[at] = value;
        parse(&packet).unwrap_err()
    };
    let (ipv4, ipv6) = (Layer::Ipv4, Layer::Ipv6);
    assert_eq!(changed(&v4, 0, 0x55), PacketError::UnknownVersion { have: 5 });
    assert_eq!(changed(&v4, 0, 0x44), PacketError::HeaderLength { layer: ipv4, need: 20, have: 16 });
    assert_eq!(changed(&v4, 0, 0x4f), PacketError::Truncated { layer: ipv4, need: 60, have: 32 });
    assert_eq!(changed(&v4, 3, 33), PacketError::PacketLength { layer: ipv4, need: 33, have: 32 });
    assert_eq!(changed(&v6, 5, 13), PacketError::PacketLength { layer: ipv6, need: 53, have: 52 });
    assert_eq!(changed(&v6, 5, 0), PacketError::Jumbogram { have: 52 });
    assert_eq!(parse(&v4[..19]), Err(PacketError::Truncated { layer: ipv4, need: 20, have: 19 }));
    assert_eq!(parse(&v6[..39]), Err(PacketError::Truncated { layer: ipv6, need: 40, have: 39 }));
    assert_eq!(parse(&[]), Err(PacketError::Truncated { layer: ipv4, need: 1, have: 0 }));
}

#[test]
fn only_the_first_ipv4_fragment_has_ports() {
    for (field, fragment, ports) in [
        (0x4000_u16, Fragment::Whole, Some((5, 6))),
        (0x2000, Fragment::First, Some((5, 6))),
        (0x2001, Fragment::Later, None),
        (0x0001, Fragment::Later, None),
    ] {
        let mut packet = build::udp(&Ip::v4(), (5, 6), b"data");
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        let headers = parse(&packet).unwrap();
        assert_eq!((headers.fragment, headers.ports), (fragment, ports), "{field:#x}");
    }
}

#[test]
fn extension_headers_are_walked() {
    let eight: (u8, &[u8]) = (protocol::HOP_BY_HOP, &[0; 8]);
    let sixteen: (u8, &[u8]) =
        (protocol::DESTINATION_OPTIONS, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let ah: (u8, &[u8]) = (protocol::AH, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for (chain, offset) in [
        (vec![eight], 48),
        (vec![eight, sixteen], 64),
        (vec![eight, ah, sixteen], 76),
        (vec![eight; EXTENSION_LIMIT], 40 + 8 * EXTENSION_LIMIT),
    ] {
        let headers = parse(&with_extensions(&chain)).unwrap();
        let got = (headers.protocol, headers.transport_offset, headers.ports);
        assert_eq!(got, (protocol::UDP, offset, Some((5, 6))));
    }
    // What is behind more of them than that is not looked at, however many there are.
    for more in [1, 2, 100] {
        let headers = parse(&with_extensions(&vec![eight; EXTENSION_LIMIT + more])).unwrap();
        let got = (headers.protocol, headers.transport_offset, headers.ports);
        assert_eq!(got, (protocol::HOP_BY_HOP, 40 + 8 * EXTENSION_LIMIT, None));
    }
}

#[test]
fn an_extension_header_that_is_cut_short_is_not_followed() {
    let whole = (protocol::DESTINATION_OPTIONS, &[0; 8][..]);
    let packet = with_extensions(&[whole, (protocol::ROUTING, &[0; 8])]);
    let cut = Headers::parse(&packet[..55], packet.len()).unwrap();
    assert_eq!((cut.protocol, cut.transport_offset, cut.ports), (protocol::ROUTING, 48, None));
    let beyond = with_extensions(&[whole, (protocol::ROUTING, &[0, 9, 0, 0, 0, 0, 0, 0])]);
    let beyond = parse(&beyond).unwrap();
    assert_eq!((beyond.protocol, beyond.transport_offset, beyond.ports), (protocol::ROUTING, 48, None));
}

#[test]
fn a_fragment_header_makes_a_fragment() {
    for (field, fragment, ports) in [
        (0_u16, Fragment::First, Some((5, 6))),
        (1, Fragment::First, Some((5, 6))),
        (8, Fragment::Later, None),
    ] {
        let [high, low] = field.to_be_bytes();
        let headers =
            parse(&with_extensions(&[(protocol::FRAGMENT, &[0, 0, high, low, 0, 0, 0, 1])])).unwrap();
        let got = (headers.fragment, headers.ports, headers.protocol, headers.transport_offset);
        assert_eq!(got, (fragment, ports, protocol::UDP, 48), "{field}");
    }
}

#[test]
fn all_fragments_of_a_datagram_are_one_flow() {
    let whole = build::udp(&Ip::v4(), (5, 6), b"data");
    let mut first = whole.clone();
    first[6] = 0x20;
    let mut later = whole.clone();
    later[7] = 1;
    let [whole, first, later] = [whole, first, later].map(|packet| parse(&packet).unwrap().flow());
    assert_eq!(first, later);
    assert_eq!((whole.ports, first.ports), ((5, 6), (0, 0)));
    assert_eq!(whole.reversed().ports, (6, 5));
    assert_eq!(whole.reversed().reversed(), whole);
}

/// Bytes that often enough are a packet.
fn nearly_packets() -> impl Strategy<Value = Vec<u8>> {
    (prop::collection::vec(any::<u8>(), 0..120), 0_u8..4).prop_map(|(mut bytes, form)| {
        let len = bytes.len() as u16;
        match form {
            1 if len >= 20 => {
                bytes[0] = 0x45 + (bytes[0] & 1);
                bytes[2..4].copy_from_slice(&len.to_be_bytes());
            }
            2 | 3 if len > 40 => {
                bytes[0] = 0x60;
                bytes[4..6].copy_from_slice(&(len - 40).to_be_bytes());
                if form == 3 && len > 41 {
                    bytes[6] = [0, 43, 44, 51, 60][usize::from(bytes[6] % 5)];
                    bytes[41] %= 4;
                }
            }
            _ => {}
        }
        bytes
    })
}

proptest! {
    #[test]
    fn any_bytes_are_headers_within_them_or_an_error(bytes in nearly_packets(), claimed in 0_usize..200) {
        if let Ok(headers) = parse(&bytes) {
            prop_assert!(headers.transport_offset <= bytes.len());
            prop_assert_eq!(headers.packet_len, bytes.len());
        }
        let _ = Headers::parse(&bytes, claimed);
    }
}
