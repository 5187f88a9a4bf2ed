use super::*;
use crate::TcpFlags;
use crate::build::{self, Ip, Tcp};

fn headers(packet: &[u8]) -> Headers {
    Headers::parse(packet, packet.len()).unwrap()
}

fn segmentation(offload: Offload) -> Segmentation {
    match offload {
        Offload::Segments(segmentation) => segmentation,
        other => panic!("not a super-packet: {other:?}"),
    }
}

fn tcp4() -> (Headers, Segmentation) {
    let (packet, offload) = build::tcp_offloaded(&Ip::v4(), &Tcp::default(), &[0; 3000], 1448);
    (headers(&packet), segmentation(offload))
}

fn udp6() -> (Headers, Segmentation) {
    let (packet, offload) = build::udp_offloaded(&Ip::v6(), (5, 6), &[0; 3000], 1400);
    (headers(&packet), segmentation(offload))
}

#[test]
fn what_a_host_sends_passes() {
    for ip in [Ip::v4(), Ip::v6()] {
        for payload in [&vec![0; 100], &vec![0; 60_000]] {
            let tcp = Tcp { flags: TcpFlags::ACK | TcpFlags::CWR, ..Tcp::default() };
            for (packet, offload) in [
                build::tcp_offloaded(&ip, &tcp, payload, 1448),
                build::udp_offloaded(&ip, (5, 6), payload, 1400),
                (build::icmp_echo(&ip, 1, 2, payload), Offload::None),
            ] {
                let headers = headers(&packet);
                assert_eq!(offload.check(&headers), Ok(()));
                assert_eq!(offload.normalise(&packet, &headers), Ok(offload));
            }
        }
    }
}

#[test]
fn a_super_packet_offload_that_its_headers_deny_is_refused() {
    let (headers, good) = tcp4();
    let cases = [
        (Segmentation { size: 0, ..good }, OffloadError::SegmentSize { min: 8, have: 0 }),
        (Segmentation { size: u16::MAX, ..good }, OffloadError::SegmentSize { min: 8, have: u16::MAX }),
        (Segmentation { checksum_start: 40, ..good }, OffloadError::ChecksumStart { need: 20, have: 40 }),
        (Segmentation { checksum_offset: 6, ..good }, OffloadError::ChecksumOffset { need: 16, have: 6 }),
        (Segmentation { header_len: 39, ..good }, OffloadError::HeaderLength { min: 40, max: 80, have: 39 }),
        (Segmentation { header_len: 81, ..good }, OffloadError::HeaderLength { min: 40, max: 80, have: 81 }),
    ];
    for (segmentation, expected) in cases {
        assert_eq!(Offload::Segments(segmentation).check(&headers), Err(expected));
    }
    for kind in [SegmentKind::Tcp6, SegmentKind::Udp] {
        let offload = Offload::Segments(Segmentation { kind, ..good });
        let expected = OffloadError::KindMismatch { kind, version: Version::V4, protocol: protocol::TCP };
        assert_eq!(offload.check(&headers), Err(expected));
        assert_eq!(offload.normalise(&[0; 100], &headers), Err(expected));
    }
    let (udp_headers, udp) = udp6();
    let kind = SegmentKind::Tcp6;
    let expected = OffloadError::KindMismatch { kind, version: Version::V6, protocol: protocol::UDP };
    assert_eq!(Offload::Segments(Segmentation { kind, ..udp }).check(&udp_headers), Err(expected));
}

#[test]
fn headers_longer_than_the_packet_are_refused() {
    let (packet, _) = build::tcp_offloaded(&Ip::v4(), &Tcp::default(), &[0; 10], 1448);
    let offload = Offload::Segments(Segmentation { header_len: 60, ..tcp4().1 });
    let expected = OffloadError::Truncated { need: 60, have: 50 };
    assert_eq!(offload.check(&headers(&packet)), Err(expected));
}

#[test]
fn more_datagrams_than_the_kernel_makes_are_refused() {
    let (packet, offload) = build::udp_offloaded(&Ip::v4(), (5, 6), &[0; 128 * 8], 8);
    assert_eq!(offload.check(&headers(&packet)), Ok(()));
    let (packet, offload) = build::udp_offloaded(&Ip::v4(), (5, 6), &[0; 128 * 8 + 1], 8);
    let expected = OffloadError::SegmentCount { have: 129, limit: 128 };
    assert_eq!(offload.check(&headers(&packet)), Err(expected));
}

/// The time the device takes for a super-packet grows with its segments, whatever its length.
#[test]
fn a_tcp_super_packet_of_more_segments_than_a_sender_makes_is_refused() {
    let offered = |data: usize, size: u16| {
        let (packet, offload) = build::tcp_offloaded(&Ip::v4(), &Tcp::default(), &vec![0; data], size);
        let headers = headers(&packet);
        let normalised = offload.normalise(&packet, &headers).map(|_| ());
        assert_eq!(offload.check(&headers), normalised);
        normalised
    };
    // An MSS of 536, of TCP_MIN_MSS, and of TCP_MIN_SND_MSS less its timestamps: as much as a packet holds.
    for size in [536, 88, 48, 36] {
        assert_eq!(offered(65_400, size), Ok(()), "{size}");
    }
    assert_eq!(offered(2048 * 8, 8), Ok(()));
    assert_eq!(offered(2048 * 8 + 1, 8), Err(OffloadError::SegmentCount { have: 2049, limit: 2048 }));
    for size in 1..8 {
        assert_eq!(offered(64_000, size), Err(OffloadError::SegmentSize { min: 8, have: size }));
    }
}

#[test]
fn no_offload_is_taken_on_a_fragment() {
    let (headers, segmentation) = tcp4();
    for fragment in [Fragment::First, Fragment::Later] {
        let headers = Headers { fragment, ..headers };
        assert_eq!(Offload::None.check(&headers), Ok(()));
        for offload in [Offload::Checksum { start: 20, offset: 16 }, Offload::Segments(segmentation)] {
            assert_eq!(offload.check(&headers), Err(OffloadError::Fragment));
            assert_eq!(offload.normalise(&[0; 100], &headers), Err(OffloadError::Fragment));
        }
    }
}

#[test]
fn a_checksum_is_where_its_protocol_has_it() {
    let tcp = headers(&build::tcp(&Ip::v4(), &Tcp::default(), b""));
    let udp = headers(&build::udp(&Ip::v6(), (5, 6), b""));
    let icmp6 = headers(&build::icmp_echo(&Ip::v6(), 1, 2, b""));
    let of = |number| headers(&build::ip(&Ip::v4(), number, &[0; 8]));
    for (headers, (start, offset), expected) in [
        (tcp, (20, 16), Ok(())),
        (tcp, (20, 14), Err(OffloadError::ChecksumOffset { need: 16, have: 14 })),
        (tcp, (0, 16), Err(OffloadError::ChecksumStart { need: 20, have: 0 })),
        (udp, (40, 6), Ok(())),
        (udp, (40, 7), Err(OffloadError::ChecksumOffset { need: 6, have: 7 })),
        (icmp6, (40, 2), Ok(())),
        (icmp6, (40, 3), Err(OffloadError::ChecksumOffset { need: 2, have: 3 })),
        (of(protocol::DCCP), (20, 6), Ok(())),
        // Over the ports, say.
        (of(protocol::DCCP), (20, 1), Err(OffloadError::ChecksumOffset { need: 6, have: 1 })),
        (of(protocol::ICMP), (20, 0), Err(OffloadError::ChecksumOffset { need: 2, have: 0 })),
        (of(protocol::SCTP), (20, 6), Err(OffloadError::NoChecksum { protocol: protocol::SCTP })),
        (of(protocol::GRE), (20, 6), Err(OffloadError::NoChecksum { protocol: protocol::GRE })),
        (of(protocol::TCP), (20, 16), Err(OffloadError::Truncated { need: 38, have: 28 })),
        (tcp, (20, u16::MAX), Err(OffloadError::ChecksumOffset { need: 16, have: u16::MAX })),
    ] {
        assert_eq!(Offload::Checksum { start, offset }.check(&headers), expected);
    }
}

#[test]
fn normalising_takes_the_header_length_from_the_packet() {
    let tcp = Tcp { options: &[1; 12], ..Tcp::default() };
    let (packet, offload) = build::tcp_offloaded(&Ip::v6(), &tcp, &[0; 3000], 1428);
    let headers = headers(&packet);
    for header_len in [0, 60, 72, 1500, u16::MAX] {
        let reported = Offload::Segments(Segmentation { header_len, ..segmentation(offload) });
        assert_eq!(reported.normalise(&packet[..72], &headers), Ok(offload));
    }
    let short = offload.normalise(&packet[..71], &headers);
    assert_eq!(short, Err(OffloadError::Truncated { need: 72, have: 71 }));
}

#[test]
fn normalising_wants_the_udp_length_of_the_whole() {
    let (mut packet, offload) = build::udp_offloaded(&Ip::v4(), (5, 6), &[0; 3000], 1400);
    packet[25] ^= 1;
    let expected = OffloadError::UdpLength { need: 3008, have: 3009 };
    assert_eq!(offload.normalise(&packet, &headers(&packet)), Err(expected));
}

#[test]
fn segments_are_counted_up() {
    let segmentation = Segmentation { size: 100, header_len: 40, ..tcp4().1 };
    for (packet_len, segments, wire_len) in
        [(40, 1, 40), (41, 1, 41), (140, 1, 140), (141, 2, 181), (240, 2, 280), (1040, 10, 1400)]
    {
        let offload = Offload::Segments(segmentation);
        assert_eq!((offload.segments(packet_len), offload.wire_len(packet_len)), (segments, wire_len));
        assert_eq!((Offload::None.segments(packet_len), Offload::None.wire_len(packet_len)), (1, packet_len));
        assert!(segmentation.longest(packet_len) <= 140);
    }
}
