use proptest::prelude::*;

use super::*;
use crate::build::{self, Ip, Tcp};
use crate::segment::tests::split;

fn segmentation(offload: Offload) -> Segmentation {
    match offload {
        Offload::Segments(segmentation) => segmentation,
        other => panic!("not a super-packet: {other:?}"),
    }
}

fn trim_packet(packet: &mut Vec<u8>, offload: Offload, keep: u32) -> Offload {
    let headers = Headers::parse(packet, packet.len()).unwrap();
    let head = segmentation(offload).header_len as usize;
    let trimmed = trim(&mut packet[..head], &headers, segmentation(offload), keep);
    packet.truncate(trimmed.len);
    trimmed.offload
}

#[test]
fn what_is_kept_is_what_the_sender_would_have_sent_without_the_tail() {
    let tail = Tcp { flags: TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN | TcpFlags::CWR, ..Tcp::default() };
    let without = Tcp { flags: TcpFlags::ACK | TcpFlags::CWR, ..tail };
    for ip in [Ip::v4(), Ip::v6()] {
        for keep in 1..=3 {
            let kept = keep as usize * 100;
            let (mut packet, offload) = build::tcp_offloaded(&ip, &tail, &[9; 350], 100);
            let left = trim_packet(&mut packet, offload, keep);
            assert_eq!((packet, left), build::tcp_offloaded(&ip, &without, &[9; 350][..kept], 100));

            let (mut packet, offload) = build::udp_offloaded(&ip, (5, 6), &[9; 350], 100);
            let left = trim_packet(&mut packet, offload, keep);
            assert_eq!((packet, left), build::udp_offloaded(&ip, (5, 6), &[9; 350][..kept], 100));
        }
    }
}

#[test]
fn keeping_everything_changes_nothing() {
    let tcp = Tcp { flags: TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN, ..Tcp::default() };
    let (packet, offload) = build::tcp_offloaded(&Ip::v4(), &tcp, &[9; 350], 100);
    for keep in [4, 5, u32::MAX] {
        let mut whole = packet.clone();
        assert_eq!((trim_packet(&mut whole, offload, keep), &whole), (offload, &packet));
    }
}

#[test]
fn keeping_none_keeps_one() {
    let (mut packet, offload) = build::tcp_offloaded(&Ip::v4(), &Tcp::default(), &[9; 350], 100);
    assert_eq!(trim_packet(&mut packet, offload, 0), Offload::Checksum { start: 20, offset: 16 });
    assert_eq!(packet.len(), 140);
}

#[test]
fn a_head_that_is_too_short_is_left_alone() {
    let (mut packet, offload) = build::tcp_offloaded(&Ip::v4(), &Tcp::default(), &[9; 350], 100);
    let headers = Headers::parse(&packet, packet.len()).unwrap();
    let before = packet.clone();
    let trimmed = trim(&mut packet[..39], &headers, segmentation(offload), 1);
    assert_eq!(trimmed, Trimmed { len: 390, offload });
    assert_eq!(packet, before);
}

proptest! {
    #[test]
    fn trimming_then_segmenting_gives_the_first_segments(
        payload in prop::collection::vec(any::<u8>(), 2..2000), size in 16_u16..1000, keep in 1_u32..20,
        v6: bool, udp: bool, flags: u8,
    ) {
        prop_assume!(payload.len() > usize::from(size));
        let ip = if v6 { Ip::v6() } else { Ip::v4() };
        let tcp = Tcp { flags: TcpFlags(flags), ..Tcp::default() };
        let (mut packet, offload) = if udp {
            build::udp_offloaded(&ip, (5, 6), &payload, size)
        } else {
            build::tcp_offloaded(&ip, &tcp, &payload, size)
        };
        let mut expected = split(&packet, offload);
        expected.truncate(keep as usize);
        let left = trim_packet(&mut packet, offload, keep);
        prop_assert_eq!(split(&packet, left), expected);
    }
}
