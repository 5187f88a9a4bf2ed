use proptest::prelude::*;

use super::*;
use crate::build::{self, Ip, Tcp};
use crate::segment::tests::split;

fn headers(packet: &[u8]) -> Headers {
    Headers::parse(packet, packet.len()).unwrap()
}

fn start(packet: &[u8], offload: Offload) -> Option<UdpRun> {
    let headers = headers(packet);
    let whole = UdpRun::start([packet, &[]], &headers, offload);
    // Where it is cut makes no difference, if all of the headers are in front.
    if let Some((front, data)) = packet.split_at_checked(headers.transport_offset + 8) {
        let cut = UdpRun::start([front, data], &headers, offload);
        assert_eq!(
            cut.map(|mut run| run.finish().0.to_vec()),
            whole.clone().map(|mut run| run.finish().0.to_vec())
        );
    }
    whole
}

fn push(run: &mut UdpRun, packet: &[u8]) -> bool {
    let headers = headers(packet);
    let mut other = run.clone();
    let pushed = run.push([packet, &[]], &headers, Offload::None);
    if let Some((front, data)) = packet.split_at_checked(headers.transport_offset + 8) {
        assert_eq!(other.push([front, data], &headers, Offload::None), pushed);
        assert_eq!(other.finish().0, run.clone().finish().0);
    }
    pushed
}

fn datagram(len: usize) -> Vec<u8> {
    build::udp(&Ip::v4(), (5, 6), &vec![7; len])
}

/// The IPv4 header checksum after a change to the header.
fn repaired(mut packet: Vec<u8>) -> Vec<u8> {
    let checksum = checksum::ipv4_header_checksum(&packet[..20]);
    write_u16(&mut packet, 10, checksum);
    packet
}

#[test]
fn a_run_of_one_is_what_it_was() {
    for ip in [Ip::v4(), Ip::v6()] {
        for (packet, offload) in [
            (build::udp(&ip, (5, 6), b"data"), Offload::None),
            build::udp_offloaded(&ip, (5, 6), b"data", 100),
        ] {
            let mut run = start(&packet, offload).unwrap();
            let len = run.header_len();
            assert_eq!(run.finish(), (&packet[..len], offload));
            assert_eq!((run.count(), run.packet_len()), (1, packet.len()));
        }
    }
}

#[test]
fn a_run_is_the_super_packet_a_host_with_uso_sends() {
    for ip in [Ip::v4(), Ip::v6()] {
        let payload: Vec<u8> = (0..250).collect();
        let mut datagrams = payload.chunks(100).map(|data| build::udp(&ip, (5, 6), data));
        let mut run = start(&datagrams.next().unwrap(), Offload::None).unwrap();
        assert!(datagrams.all(|packet| push(&mut run, &packet)));
        let (header, offload) = run.finish();
        let packet = [header, &payload].concat();
        assert_eq!((packet, offload), build::udp_offloaded(&ip, (5, 6), &payload, 100));
    }
}

#[test]
fn a_partial_checksum_merges_like_a_complete_one() {
    let (packet, offload) = build::udp_offloaded(&Ip::v6(), (5, 6), b"data", 100);
    let mut run = start(&packet, offload).unwrap();
    assert!(push(&mut run, &build::udp(&Ip::v6(), (5, 6), b"more")));
    assert!(run.push([&packet, &[]], &headers(&packet), offload));
    assert_eq!(run.count(), 3);
}

#[test]
fn what_cannot_be_merged_starts_no_run() {
    let good = datagram(10);
    assert!(start(&good, Offload::None).is_some());
    let changed = |at: usize, value: u8| {
        let mut packet = good.clone();
        packet[at] = value;
        repaired(packet)
    };
    let mut no_checksum = good.clone();
    no_checksum[26..28].fill(0);
    let mut wrong_header_checksum = good.clone();
    wrong_header_checksum[10] ^= 1;
    let with_option = repaired({
        let mut packet = build::ip(&Ip::v4(), protocol::UDP, &[&[1; 4], &good[20..]].concat());
        packet[0] = 0x46;
        packet
    });
    let with_extension = build::ip(
        &Ip::v6(),
        60,
        &[&[17, 0, 1, 4, 0, 0, 0, 0], &build::udp(&Ip::v6(), (5, 6), b"x")[40..]].concat(),
    );
    for (name, packet) in [
        ("no data", datagram(0)),
        ("TCP", build::tcp(&Ip::v4(), &Tcp::default(), b"data")),
        ("fragment", changed(6, 0x20)),
        ("UDP length too short", changed(25, 17)),
        ("UDP length too long", changed(25, 19)),
        ("wrong data", changed(30, 8)),
        ("no checksum", no_checksum),
        ("wrong header checksum", wrong_header_checksum),
        ("IPv4 option", with_option),
        ("extension header", with_extension),
    ] {
        assert!(start(&packet, Offload::None).is_none(), "{name}");
    }
    assert!(
        start(&good, Offload::Checksum { start: 20, offset: 6 }).is_none(),
        "complete, said to be partial"
    );
    let (packet, offload) = build::udp_offloaded(&Ip::v4(), (5, 6), &[7; 30], 10);
    assert!(start(&packet, offload).is_none(), "super-packet");
    assert!(start(&packet, Offload::None).is_none(), "partial, said to be complete");
}

#[test]
fn what_differs_does_not_continue_a_run() {
    let ip = Ip::v4();
    let other_source = Ip { source: [192, 0, 2, 9].into(), ..ip };
    for (name, packet) in [
        ("source", build::udp(&other_source, (5, 6), &[7; 10])),
        ("destination", build::udp(&Ip { destination: [192, 0, 2, 9].into(), ..ip }, (5, 6), &[7; 10])),
        ("source port", build::udp(&ip, (4, 6), &[7; 10])),
        ("destination port", build::udp(&ip, (5, 4), &[7; 10])),
        ("TTL", build::udp(&Ip { hop_limit: 63, ..ip }, (5, 6), &[7; 10])),
        ("ECN", build::udp(&Ip { traffic_class: 3, ..ip }, (5, 6), &[7; 10])),
        ("DF", build::udp(&Ip { dont_fragment: false, ..ip }, (5, 6), &[7; 10])),
        ("longer", datagram(11)),
        ("empty", datagram(0)),
        ("version", build::udp(&Ip::v6(), (5, 6), &[7; 10])),
    ] {
        let mut run = start(&datagram(10), Offload::None).unwrap();
        assert!(!push(&mut run, &packet), "{name}");
        assert_eq!((run.count(), run.packet_len()), (1, 38));
        assert!(push(&mut run, &datagram(10)), "after {name}");
    }
    for ip in [Ip { hop_limit: 63, ..Ip::v6() }, Ip { traffic_class: 1, ..Ip::v6() }] {
        let mut run = start(&build::udp(&Ip::v6(), (5, 6), b"data"), Offload::None).unwrap();
        assert!(!push(&mut run, &build::udp(&ip, (5, 6), b"data")));
    }
}

#[test]
fn a_shorter_datagram_is_the_last() {
    let mut run = start(&datagram(10), Offload::None).unwrap();
    assert!(push(&mut run, &datagram(9)));
    assert!(!push(&mut run, &datagram(9)));
    assert!(!push(&mut run, &datagram(10)));
    assert_eq!((run.count(), run.packet_len()), (2, 28 + 19));
}

#[test]
fn without_dont_fragment_the_ids_must_count_up() {
    let packet = |id| build::udp(&Ip { id, dont_fragment: false, ..Ip::v4() }, (5, 6), b"data");
    let mut run = start(&packet(0xffff), Offload::None).unwrap();
    assert!(!push(&mut run, &packet(0xffff)));
    assert!(push(&mut run, &packet(0)));
    assert!(!push(&mut run, &packet(2)));
    assert!(push(&mut run, &packet(1)));
}

#[test]
fn a_run_ends_at_64_datagrams_and_at_65535_bytes() {
    for (len, max) in [(10, 64), (1400, (65_535 - 28) / 1400)] {
        let mut run = start(&datagram(len), Offload::None).unwrap();
        while push(&mut run, &datagram(len)) {}
        assert_eq!(run.count(), max);
        let (header, offload) = run.finish();
        let packet_len = 28 + len * max as usize;
        assert_eq!(offload.check(&Headers::parse(header, packet_len).unwrap()), Ok(()));
    }
}

#[test]
fn a_finished_run_can_go_on() {
    let mut run = start(&datagram(10), Offload::None).unwrap();
    assert!(push(&mut run, &datagram(10)));
    let (header, offload) = run.finish();
    let before = (header.to_vec(), offload);
    assert_eq!(run.finish(), (&before.0[..], offload));
    assert!(push(&mut run, &datagram(10)));
    let (header, _) = run.finish();
    assert_eq!(header[..20], build::udp(&Ip::v4(), (5, 6), &[7; 30])[..20]);
}

proptest! {
    #[test]
    fn merging_then_segmenting_gives_the_datagrams_back(
        payload in prop::collection::vec(any::<u8>(), 1..3000), size in 50_usize..600, v6: bool,
        dont_fragment: bool, first_id: u16,
    ) {
        let ip = Ip { dont_fragment, ..if v6 { Ip::v6() } else { Ip::v4() } };
        let datagrams: Vec<_> = payload.chunks(size).enumerate().map(|(index, data)| {
            build::udp(&Ip { id: first_id.wrapping_add(index as u16), ..ip }, (5, 6), data)
        }).collect();
        let mut run = start(&datagrams[0], Offload::None).unwrap();
        for packet in &datagrams[1..] {
            prop_assert!(push(&mut run, packet));
        }
        let (header, offload) = run.finish();
        prop_assert_eq!(split(&[header, &payload].concat(), offload), datagrams);
    }
}
