use std::net::IpAddr;

use proptest::prelude::*;

use super::headers::MIN_TCP_DATA;
use super::*;
use crate::build::{self, Ip, Tcp};
use crate::{Segmentation, TcpFlags, TcpView, UdpView};

pub(crate) fn split(packet: &[u8], offload: Offload) -> Vec<Vec<u8>> {
    let headers = Headers::parse(packet, packet.len()).unwrap();
    let mut segmenter = Segmenter::new(packet, &headers, offload).unwrap();
    let mut out = vec![0xee; segmenter.longest()];
    let mut packets = Vec::new();
    while let Some(len) = segmenter.next_into(&mut out) {
        packets.push(out[..len].to_vec());
    }
    assert_eq!(segmenter.remaining(), 0);
    packets
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 % 251) as u8).collect()
}

/// The packets a host without offloads would have sent.
fn sent_one_by_one(ip: &Ip, tcp: &Tcp, payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    let count = payload.len().div_ceil(size);
    let segment = |(index, data): (usize, &[u8])| {
        let mut flags = tcp.flags.0;
        if index > 0 {
            flags &= !TcpFlags::CWR.0;
        }
        if index + 1 < count {
            flags &= !(TcpFlags::FIN | TcpFlags::PSH).0;
        }
        let ip = Ip { id: ip.id.wrapping_add(index as u16), ..*ip };
        let seq = tcp.seq.wrapping_add((index * size) as u32);
        build::tcp(&ip, &Tcp { flags: TcpFlags(flags), seq, ..*tcp }, data)
    };
    payload.chunks(size).enumerate().map(segment).collect()
}

#[test]
fn a_tcp_super_packet_becomes_what_a_host_without_tso_sends() {
    let flags = [
        TcpFlags::ACK,
        TcpFlags::ACK | TcpFlags::PSH,
        TcpFlags::ACK | TcpFlags::FIN | TcpFlags::PSH,
        TcpFlags::ACK | TcpFlags::CWR,
    ];
    for ip in [Ip { id: 0xffff, ..Ip::v4() }, Ip::v6()] {
        for (payload_len, size) in [(101, 100), (200, 100), (1000, 99), (60_000, 1448)] {
            for flags in flags {
                let tcp = Tcp { flags, seq: u32::MAX - 10, options: &[1; 12], ..Tcp::default() };
                let payload = data(payload_len);
                let (packet, offload) = build::tcp_offloaded(&ip, &tcp, &payload, size);
                let expected = sent_one_by_one(&ip, &tcp, &payload, usize::from(size));
                assert_eq!(split(&packet, offload), expected);
            }
        }
    }
}

#[test]
fn a_udp_super_packet_becomes_its_datagrams() {
    for ip in [Ip::v4(), Ip::v6()] {
        let payload = data(3001);
        let (packet, offload) = build::udp_offloaded(&ip, (5, 6), &payload, 1000);
        let datagram =
            |(index, data): (usize, &[u8])| build::udp(&Ip { id: ip.id + index as u16, ..ip }, (5, 6), data);
        let expected: Vec<_> = payload.chunks(1000).enumerate().map(datagram).collect();
        assert_eq!(split(&packet, offload), expected);
    }
}

#[test]
fn flags_and_sequence_numbers_of_three_segments() {
    let flags = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN | TcpFlags::CWR;
    let tcp = Tcp { seq: 1000, flags, ..Tcp::default() };
    let (packet, offload) = build::tcp_offloaded(&Ip::v4(), &tcp, &data(250), 100);
    let packets = split(&packet, offload);
    let views: Vec<_> = packets.iter().map(|packet| TcpView::new(&packet[20..]).unwrap()).collect();
    assert_eq!(views.iter().map(TcpView::seq).collect::<Vec<_>>(), [1000, 1100, 1200]);
    let expected =
        [TcpFlags::ACK | TcpFlags::CWR, TcpFlags::ACK, TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN];
    assert_eq!(views.iter().map(TcpView::flags).collect::<Vec<_>>(), expected);
    assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [140, 140, 90]);
}

#[test]
fn a_single_packet_only_has_its_checksum_completed() {
    for ip in [Ip::v4(), Ip::v6()] {
        let tcp = Tcp { flags: TcpFlags::ACK | TcpFlags::PSH, ..Tcp::default() };
        let (packet, offload) = build::tcp_offloaded(&ip, &tcp, b"abc", 100);
        assert!(matches!(offload, Offload::Checksum { .. }));
        assert_eq!(split(&packet, offload), [build::tcp(&ip, &tcp, b"abc")]);
        assert_eq!(split(&packet, Offload::None), std::slice::from_ref(&packet));
        let (packet, offload) = build::udp_offloaded(&ip, (5, 6), b"abc", 100);
        assert_eq!(split(&packet, offload), [build::udp(&ip, (5, 6), b"abc")]);
    }
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_all_ones() {
    let ip = Ip::v4();
    let rest = UdpView::new(&build::udp(&ip, (5, 6), &[0, 0])[20..]).unwrap().checksum();
    let (mut packet, offload) = build::udp_offloaded(&ip, (5, 6), &rest.to_be_bytes(), 100);
    complete_checksum(&mut packet, offload).unwrap();
    assert_eq!(packet[26..28], [0xff, 0xff]);
}

#[test]
fn a_checksum_beyond_the_packet_is_refused() {
    let (mut packet, offload) = build::tcp_offloaded(&Ip::v4(), &Tcp::default(), &data(250), 100);
    assert_eq!(complete_checksum(&mut packet, offload), Err(OffloadError::NotOnePacket));
    let expected = Err(OffloadError::Truncated { need: 292, have: 290 });
    assert_eq!(complete_checksum(&mut packet, Offload::Checksum { start: 284, offset: 6 }), expected);
}

/// The packets that the headers and the data make, once their checksums are complete.
fn joined(packet: &[u8], offload: Offload, max: usize) -> Vec<Vec<u8>> {
    let Offload::Segments(segmentation) = offload else { panic!("not a super-packet") };
    let headers = Headers::parse(packet, packet.len()).unwrap();
    // The start of the packet is enough.
    let prefix = &packet[..usize::from(segmentation.header_len)];
    let mut headers = SegmentHeaders::new(prefix, &headers, segmentation).unwrap().within(max);
    let mut packets = Vec::new();
    let mut header = [0; 120];
    while let Some(segment) = headers.next_into(&mut header) {
        let mut joined = [&header[..segment.header_len], &packet[segment.data.clone()]].concat();
        assert_eq!(joined.len(), segment.packet_len());
        complete_checksum(&mut joined, segment.offload).unwrap();
        packets.push(joined);
    }
    assert_eq!(headers.remaining(), 0);
    packets
}

#[test]
fn headers_alone_and_the_data_are_the_same_packets() {
    for ip in [Ip::v4(), Ip::v6()] {
        let tcp = Tcp { options: &[1; 12], ..Tcp::default() };
        let (packet, offload) = build::tcp_offloaded(&ip, &tcp, &data(10_000), 1448);
        assert_eq!(joined(&packet, offload, usize::MAX), split(&packet, offload));
        let (packet, offload) = build::udp_offloaded(&ip, (5, 6), &data(3001), 1000);
        assert_eq!(joined(&packet, offload, usize::MAX), split(&packet, offload));
    }
}

#[test]
fn tcp_that_nobody_fragments_is_cut_into_shorter_segments() {
    let tcp = Tcp { flags: TcpFlags::ACK | TcpFlags::PSH | TcpFlags::CWR, ..Tcp::default() };
    for ip in [Ip::v4(), Ip::v6()] {
        let (packet, offload) = build::tcp_offloaded(&ip, &tcp, &data(10_000), 1460);
        let header_len = packet.len() - 10_000;
        // Eight of at most 1300 bytes, of one length.
        assert_eq!(
            joined(&packet, offload, header_len + 1300),
            sent_one_by_one(&ip, &tcp, &data(10_000), 1250)
        );
        // Longer ones than the sender's are not made, and very short ones neither.
        for max in [header_len + 1461, header_len + MIN_TCP_DATA - 1, 10] {
            assert_eq!(joined(&packet, offload, max), split(&packet, offload));
        }
    }
    let ip = Ip { dont_fragment: false, ..Ip::v4() };
    let (packet, offload) = build::tcp_offloaded(&ip, &tcp, &data(10_000), 1460);
    assert_eq!(joined(&packet, offload, 1300), split(&packet, offload));
    let (packet, offload) = build::udp_offloaded(&Ip::v4(), (5, 6), &data(3001), 1000);
    assert_eq!(joined(&packet, offload, 900), split(&packet, offload), "datagrams have their lengths");
}

#[test]
fn shorter_segments_differ_by_a_byte_at_most_and_are_the_whole_stream() {
    for ip in [Ip::v4(), Ip::v6()] {
        for (len, max) in [(10_003, 1300), (65_160, 1377), (2896, 1400), (1461, 1000), (12_345, 1459)] {
            let (packet, offload) = build::tcp_offloaded(&ip, &Tcp::default(), &data(len), 1460);
            let header_len = packet.len() - len;
            let packets = joined(&packet, offload, header_len + max);
            assert_eq!(packets.len(), len.div_ceil(max));
            let lens: Vec<usize> = packets.iter().map(|packet| packet.len() - header_len).collect();
            let (longest, shortest) = (lens[0], *lens.last().unwrap());
            assert!(
                longest <= max && longest - shortest <= 1 && lens.is_sorted_by(|a, b| a >= b),
                "{lens:?}"
            );
            let mut stream = Vec::new();
            for packet in &packets {
                let seq = packet[header_len - 16..header_len - 12].try_into().unwrap();
                let at = u32::from_be_bytes(seq).wrapping_sub(Tcp::default().seq) as usize;
                assert_eq!(at, stream.len());
                stream.extend_from_slice(&packet[header_len..]);
            }
            assert_eq!(stream, data(len));
        }
    }
}

#[test]
fn a_short_buffer_stops_nothing() {
    let (packet, offload) = build::tcp_offloaded(&Ip::v4(), &Tcp::default(), &data(250), 100);
    let headers = Headers::parse(&packet, packet.len()).unwrap();
    let mut segmenter = Segmenter::new(&packet, &headers, offload).unwrap();
    assert_eq!((segmenter.longest(), segmenter.remaining()), (140, 3));
    assert_eq!(segmenter.next_into(&mut [0; 139]), None);
    assert_eq!(segmenter.remaining(), 3);
    assert_eq!(segmenter.next_into(&mut [0; 140]), Some(140));
    assert_eq!(segmenter.remaining(), 2);
    assert!(Segmenter::new(&packet[1..], &headers, offload).is_err());
}

/// RFC 8200 §8.1: behind a routing header the checksum covers the final destination.
#[test]
fn the_partial_sum_decides_which_destination_is_covered() {
    let last_stop = IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    let to_last_stop = Ip { destination: last_stop, ..Ip::v6() };
    let routed = |mut udp: Vec<u8>| {
        let mut payload = vec![crate::protocol::UDP, 0, 4, 0, 0, 0, 0, 0];
        payload.append(&mut udp.split_off(40));
        build::ip(&Ip::v6(), crate::protocol::ROUTING, &payload)
    };
    let payload = data(250);
    let (packet, offload) = build::udp_offloaded(&to_last_stop, (5, 6), &payload, 100);
    let Offload::Segments(segmentation) = offload else { panic!("not a super-packet") };
    let offload = Offload::Segments(Segmentation { checksum_start: 48, ..segmentation });
    let expected: Vec<_> =
        payload.chunks(100).map(|data| routed(build::udp(&to_last_stop, (5, 6), data))).collect();
    assert_eq!(split(&routed(packet), offload), expected);
}

proptest! {
    #[test]
    fn segments_of_any_size_are_those_of_a_host_without_tso(
        payload in prop::collection::vec(any::<u8>(), 1..2000), size in 8_u16..1500, v6: bool, seq: u32, id: u16,
        flags: u8,
    ) {
        let ip = Ip { id, ..if v6 { Ip::v6() } else { Ip::v4() } };
        let tcp = Tcp { seq, flags: TcpFlags(flags), ..Tcp::default() };
        let (packet, offload) = build::tcp_offloaded(&ip, &tcp, &payload, size);
        let packets = split(&packet, offload);
        prop_assert_eq!(packets.len() as u32, offload.segments(packet.len()));
        prop_assert_eq!(packets.iter().map(Vec::len).sum::<usize>(), offload.wire_len(packet.len()));
        prop_assert_eq!(packets, sent_one_by_one(&ip, &tcp, &payload, usize::from(size)));
    }
}
