use proptest::prelude::*;

use super::*;
use crate::SegmentHeaders;
use crate::build::{self, Ip, Tcp};
use crate::segment::tests::split;

fn headers(packet: &[u8]) -> Headers {
    Headers::parse(packet, packet.len()).unwrap()
}

fn start(packet: &[u8], offload: Offload) -> Option<TcpRun> {
    TcpRun::start([packet, &[]], &headers(packet), offload)
}

fn push(run: &mut TcpRun, packet: &[u8]) -> bool {
    run.push([packet, &[]], &headers(packet), Offload::None)
}

const TCP: Tcp = Tcp {
    ports: (40_000, 443),
    seq: u32::MAX - 5,
    ack: 77,
    flags: TcpFlags::ACK,
    window: 512,
    options: &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
};

/// The segment of `len` bytes that begins `at` bytes behind the first.
fn segment(ip: &Ip, at: usize, len: usize) -> Vec<u8> {
    build::tcp(ip, &Tcp { seq: TCP.seq.wrapping_add(at as u32), ..TCP }, &vec![7; len])
}

#[test]
fn a_run_is_the_super_packet_that_a_host_with_tso_sends() {
    for ip in [Ip::v4(), Ip::v6()] {
        for flags in [TcpFlags::ACK, TcpFlags::ACK | TcpFlags::PSH, TcpFlags::ACK | TcpFlags::ECE] {
            let payload: Vec<u8> = (0..250).collect();
            let (packet, offload) = build::tcp_offloaded(&ip, &Tcp { flags, ..TCP }, &payload, 100);
            let mut segments = split(&packet, offload).into_iter();
            let mut run = start(&segments.next().unwrap(), Offload::None).unwrap();
            assert!(segments.all(|segment| push(&mut run, &segment)));
            assert_eq!((run.count(), run.packet_len()), (3, packet.len()));
            let (header, merged) = run.finish();
            assert_eq!(([header, &payload].concat(), merged), (packet, offload));
        }
    }
}

#[test]
fn a_run_of_one_is_what_it_was() {
    for ip in [Ip::v4(), Ip::v6()] {
        for (packet, offload) in
            [(build::tcp(&ip, &TCP, b"data"), Offload::None), build::tcp_offloaded(&ip, &TCP, b"data", 100)]
        {
            let mut run = start(&packet, offload).unwrap();
            let len = run.header_len();
            assert_eq!(run.finish(), (&packet[..len], offload));
        }
    }
}

#[test]
fn a_partial_checksum_merges_like_a_complete_one_and_parts_like_a_whole() {
    let ip = Ip::v4();
    let (packet, offload) = build::tcp_offloaded(&ip, &TCP, &[7; 10], 100);
    assert!(matches!(offload, Offload::Checksum { .. }));
    let (header, data) = packet.split_at(52);
    let mut run = TcpRun::start([header, data], &headers(&packet), offload).unwrap();
    assert!(push(&mut run, &segment(&ip, 10, 10)));
    let next = segment(&ip, 20, 10);
    let (header, data) = next.split_at(52);
    assert!(run.push([header, data], &headers(&next), Offload::None));
    assert_eq!(run.count(), 3);
}

#[test]
fn what_cannot_be_merged_starts_no_run() {
    let with = |flags| build::tcp(&Ip::v4(), &Tcp { flags, ..TCP }, b"data");
    let mut wrong = with(TcpFlags::ACK);
    *wrong.last_mut().unwrap() ^= 1;
    let mut long_header = with(TcpFlags::ACK);
    long_header[32] = 0xf0;
    for (name, packet) in [
        ("no data", build::tcp(&Ip::v4(), &TCP, b"")),
        ("UDP", build::udp(&Ip::v4(), (5, 6), b"data")),
        ("SYN", with(TcpFlags::ACK | TcpFlags::SYN)),
        ("FIN", with(TcpFlags::ACK | TcpFlags::FIN)),
        ("RST", with(TcpFlags::ACK | TcpFlags::RST)),
        ("URG", with(TcpFlags::ACK | TcpFlags::URG)),
        ("CWR", with(TcpFlags::ACK | TcpFlags::CWR)),
        ("no ACK", with(TcpFlags::PSH)),
        ("wrong data", wrong),
        ("a header beyond the packet", long_header),
    ] {
        assert!(start(&packet, Offload::None).is_none(), "{name}");
    }
    let (packet, offload) = build::tcp_offloaded(&Ip::v4(), &TCP, &[7; 30], 10);
    assert!(start(&packet, offload).is_none(), "super-packet");
    assert!(start(&packet, Offload::None).is_none(), "partial, said to be complete");
}

#[test]
fn what_differs_does_not_continue_a_run() {
    let ip = Ip::v4();
    let next = Tcp { seq: TCP.seq.wrapping_add(10), ..TCP };
    let options = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 3];
    for (name, ip, tcp, len) in [
        ("source", Ip { source: [192, 0, 2, 9].into(), ..ip }, next, 10),
        ("ECN", Ip { traffic_class: 3, ..ip }, next, 10),
        ("TTL", Ip { hop_limit: 63, ..ip }, next, 10),
        ("DF", Ip { dont_fragment: false, ..ip }, next, 10),
        ("version", Ip::v6(), next, 10),
        ("ports", ip, Tcp { ports: (40_000, 444), ..next }, 10),
        ("a gap", ip, Tcp { seq: TCP.seq.wrapping_add(11), ..TCP }, 10),
        ("a retransmission", ip, TCP, 10),
        ("acknowledgement", ip, Tcp { ack: 78, ..next }, 10),
        ("window", ip, Tcp { window: 511, ..next }, 10),
        ("ECE", ip, Tcp { flags: TcpFlags::ACK | TcpFlags::ECE, ..next }, 10),
        ("timestamps", ip, Tcp { options: &options, ..next }, 10),
        ("no options", ip, Tcp { options: &[], ..next }, 10),
        ("longer", ip, next, 11),
        ("empty", ip, next, 0),
    ] {
        let mut run = start(&segment(&Ip::v4(), 0, 10), Offload::None).unwrap();
        assert!(!push(&mut run, &build::tcp(&ip, &tcp, &vec![7; len])), "{name}");
        assert_eq!((run.count(), run.packet_len()), (1, 62));
        assert!(push(&mut run, &segment(&Ip::v4(), 10, 10)), "after {name}");
    }
}

#[test]
fn a_shorter_segment_and_one_with_psh_are_the_last() {
    let ip = Ip::v4();
    let mut run = start(&segment(&ip, 0, 10), Offload::None).unwrap();
    assert!(push(&mut run, &segment(&ip, 10, 8)));
    assert!(!push(&mut run, &segment(&ip, 18, 8)));
    let flags = TcpFlags::ACK | TcpFlags::PSH;
    let mut run = start(&segment(&ip, 0, 10), Offload::None).unwrap();
    assert!(push(&mut run, &build::tcp(&ip, &Tcp { seq: TCP.seq.wrapping_add(10), flags, ..TCP }, &[7; 10])));
    assert!(!push(&mut run, &segment(&ip, 20, 10)));
    let mut run = start(&build::tcp(&ip, &Tcp { flags, ..TCP }, &[7; 10]), Offload::None).unwrap();
    assert!(!push(&mut run, &segment(&ip, 10, 10)));
    let mut run = start(&segment(&ip, 0, 7), Offload::None).unwrap();
    assert!(!push(&mut run, &segment(&ip, 7, 7)), "no kernel takes a super-packet of these");
}

#[test]
fn what_was_cut_into_shorter_segments_is_one_run() {
    for ip in [Ip::v4(), Ip::v6()] {
        let payload: Vec<u8> = (0..65_160_u32).map(|n| n as u8).collect();
        let (packet, offload) = build::tcp_offloaded(&ip, &TCP, &payload, 1448);
        let Offload::Segments(segmentation) = offload else { panic!("a super-packet") };
        let mut segments = SegmentHeaders::new(&packet, &headers(&packet), segmentation)
            .unwrap()
            .within(packet.len() - payload.len() + 1348);
        let (mut header, mut run) = ([0; 120], None::<TcpRun>);
        while let Some(cut) = segments.next_into(&mut header) {
            let segment = [&header[..cut.header_len], &packet[cut.data.clone()]].concat();
            match &mut run {
                None => run = start(&segment, cut.offload),
                Some(run) => {
                    assert!(
                        run.push([&segment, &[]], &headers(&segment), cut.offload),
                        "at {}",
                        cut.data.start
                    );
                }
            }
        }
        let mut run = run.unwrap();
        assert_eq!((run.count(), run.packet_len()), (49, packet.len()));
        let (header, merged) = run.finish();
        let Offload::Segments(merged) = merged else { panic!("a super-packet") };
        assert_eq!((header, merged.size), (&packet[..header.len()], 1330));
    }
}

#[test]
fn a_run_ends_at_64_segments_and_at_65535_bytes() {
    let ip = Ip::v6();
    for (len, max) in [(10, 64), (1400, (65_535 - 72) / 1400)] {
        let mut run = start(&segment(&ip, 0, len), Offload::None).unwrap();
        let mut at = len;
        while push(&mut run, &segment(&ip, at, len)) {
            at += len;
        }
        assert_eq!(run.count(), max);
        let (header, offload) = run.finish();
        assert_eq!(offload.check(&Headers::parse(header, 72 + len * max as usize).unwrap()), Ok(()));
    }
}

proptest! {
    #[test]
    fn what_is_merged_is_what_is_split_again(
        lens in prop::collection::vec(1_usize..300, 1..20), first in 8_usize..300, v6: bool, psh in 0_usize..20,
    ) {
        let ip = if v6 { Ip::v6() } else { Ip::v4() };
        let packet = |number: usize, at: usize, len: usize| {
            let flags = if number == psh { TcpFlags::ACK | TcpFlags::PSH } else { TcpFlags::ACK };
            let ip = Ip { id: ip.id + number as u16, ..ip };
            build::tcp(&ip, &Tcp { seq: TCP.seq.wrapping_add(at as u32), flags, ..TCP }, &vec![7; len])
        };
        let mut packets = vec![packet(0, 0, first)];
        let mut run = start(&packets[0], Offload::None).unwrap();
        let (mut payload, mut at) = (first, first);
        for (number, len) in (1..).zip(lens) {
            let next = packet(number, at, len);
            if !push(&mut run, &next) {
                break;
            }
            packets.push(next);
            (payload, at) = (payload + len, at + len);
        }
        let (header, offload) = run.finish();
        let header_len = header.len();
        let whole = [header, &vec![7; payload]].concat();
        let again = split(&whole, offload);
        let even = packets.split_last().is_none_or(|(_, rest)| rest.iter().all(|p| p.len() == packets[0].len()));
        if even {
            prop_assert_eq!(again, packets);
        } else {
            // Cut in other places: the same stream in no more and no longer segments.
            let stream = |packets: &[Vec<u8>]| packets.iter().flat_map(|p| p[header_len..].to_vec()).collect::<Vec<u8>>();
            prop_assert_eq!(stream(&again), stream(&packets));
            prop_assert!(again.len() <= packets.len());
            prop_assert!(again.iter().all(|p| p.len() <= packets[0].len()));
        }
    }
}
