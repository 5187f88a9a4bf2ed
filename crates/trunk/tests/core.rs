//! The core as its owner sees it: packets in, packets out, nothing lost that is not counted.

use std::net::IpAddr;

use trunkline_packet::{Headers, Offload, Segmenter, TcpFlags, build};
use trunkline_queue::{DropReason, Item, Limits, Settings};
use trunkline_trunk::frame::FrameHead;
use trunkline_trunk::{
    ClassId, ClassSettings, LaneSnapshot, Packet, Protocol, Receiver, Refusal, Rule, Transmitter,
};
use trunkline_units::{Instant, Rng};

/// A packet in one vector, as a test or a simulator holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Whole {
    bytes: Vec<u8>,
    offload: Offload,
}

impl Item for Whole {
    fn bytes(&self) -> usize {
        self.bytes.len()
    }
    fn segments(&self) -> u32 {
        self.offload.segments(self.bytes.len()).max(1)
    }
}

impl Packet for Whole {
    fn trim(&mut self, headers: &Headers, segments: u32) {
        let Offload::Segments(segmentation) = self.offload else { panic!("only super-packets are trimmed") };
        let trimmed = trunkline_packet::trim(&mut self.bytes, headers, segmentation, segments);
        self.bytes.truncate(trimmed.len);
        self.offload = trimmed.offload;
    }
}

fn headers(packet: &Whole) -> Headers {
    Headers::parse(&packet.bytes, packet.bytes.len()).expect("a built packet is sound")
}

fn udp(source_port: u16, destination_port: u16, payload: usize) -> Whole {
    let bytes = build::udp(&build::Ip::v4(), (source_port, destination_port), &vec![7; payload]);
    Whole { bytes, offload: Offload::None }
}

fn tcp() -> Whole {
    Whole { bytes: build::tcp(&build::Ip::v4(), &build::Tcp::default(), b"segment"), offload: Offload::None }
}

fn super_packet(segments: usize) -> Whole {
    let payload: Vec<u8> = (0..segments * 1000).map(|byte| byte as u8).collect();
    let tcp = build::Tcp { flags: TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN, ..build::Tcp::default() };
    let (bytes, offload) = build::tcp_offloaded(&build::Ip::v4(), &tcp, &payload, 1000);
    Whole { bytes, offload }
}

fn class(name: &str, rules: Vec<Rule>, segments: u32) -> ClassSettings {
    let queue = Settings::TailDrop(Limits { segments, bytes: 1 << 20 });
    ClassSettings { name: name.into(), rules, queue }
}

fn protocol(number: u8) -> Rule {
    Rule { protocol: Some(Protocol::Number(number)), ..Rule::default() }
}

fn two_classes() -> Vec<ClassSettings> {
    vec![class("udp", vec![protocol(17)], 3), class("rest", vec![], 10)]
}

fn lane(room: usize) -> LaneSnapshot {
    LaneSnapshot { room, ..LaneSnapshot::default() }
}

fn offer(core: &mut Transmitter<Whole>, packet: Whole) -> (ClassId, Option<DropReason>) {
    let offered = core.handle_packet(Instant::ZERO, &headers(&packet), packet);
    (offered.class, offered.dropped.map(|(_, reason)| reason))
}

const UDP: ClassId = ClassId(0);
const REST: ClassId = ClassId(1);

#[test]
fn a_full_class_drops_its_own_packets_and_no_others() {
    let mut core = Transmitter::new(&two_classes());
    for n in 0..5 {
        let expected = (n >= 3).then_some(DropReason::SegmentLimit);
        assert_eq!(offer(&mut core, udp(1, 2, 100)), (UDP, expected), "datagram {n}");
    }
    assert_eq!(offer(&mut core, tcp()), (REST, None));
}

#[test]
fn a_lane_without_room_gets_nothing_and_one_with_little_gets_one_packet() {
    let mut core = Transmitter::new(&two_classes());
    for _ in 0..3 {
        assert_eq!(offer(&mut core, udp(1, 2, 1000)).1, None);
    }
    assert!(core.poll_transmit(Instant::ZERO, UDP, &mut lane(0)).is_none());
    let mut little = lane(10);
    assert!(core.poll_transmit(Instant::ZERO, UDP, &mut little).is_some());
    assert_eq!(little.room, 0);
    assert!(core.poll_transmit(Instant::ZERO, UDP, &mut little).is_none());
    assert!(core.has_backlog(UDP));
    assert!(!core.has_backlog(REST));
}

#[test]
fn packets_of_a_class_leave_in_the_order_they_came() {
    let mut core = Transmitter::new(&two_classes());
    for port in 1..=3 {
        assert_eq!(offer(&mut core, udp(port, 9, 10)).1, None);
    }
    let mut room = lane(1 << 20);
    let ports: Vec<_> = std::iter::from_fn(|| core.poll_transmit(Instant::ZERO, UDP, &mut room))
        .map(|packet| headers(&packet).ports.map(|(source, _)| source))
        .collect();
    assert_eq!(ports, [Some(1), Some(2), Some(3)]);
}

#[test]
fn a_super_packet_that_fits_in_part_loses_whole_segments_from_its_end() {
    let mut core = Transmitter::new(&two_classes());
    assert_eq!(offer(&mut core, super_packet(7)), (REST, None));
    assert_eq!(offer(&mut core, super_packet(7)), (REST, None), "three of its seven segments fit");
    assert_eq!(offer(&mut core, super_packet(7)), (REST, Some(DropReason::SegmentLimit)));
    let (_, _, stats) = core.classes().nth(1).expect("two classes");
    assert_eq!((stats.backlog_segments, stats.dropped_total(), stats.segments_in), (10, 4 + 7, 21));
    let mut room = lane(1 << 20);
    let _whole = core.poll_transmit(Instant::ZERO, REST, &mut room).expect("the first");
    let cut = core.poll_transmit(Instant::ZERO, REST, &mut room).expect("the second");
    let cut_headers = headers(&cut);
    let mut segmenter = Segmenter::new(&cut.bytes, &cut_headers, cut.offload).expect("still sound");
    let mut whole_payload = Vec::new();
    let mut out = [0; 2000];
    while let Some(len) = segmenter.next_into(&mut out) {
        let segment = Headers::parse(&out[..len], len).expect("a sound segment");
        let view = trunkline_packet::TcpView::new(&out[segment.transport_offset..len]).expect("TCP");
        assert!(!view.flags().intersects(TcpFlags::FIN | TcpFlags::PSH), "the end was cut off");
        whole_payload.extend_from_slice(&out[segment.transport_offset + view.header_len()..len]);
    }
    assert_eq!(whole_payload, (0..3000).map(|byte| byte as u8).collect::<Vec<_>>());
}

#[test]
fn a_reload_keeps_what_waits_in_classes_that_stay_and_counts_what_goes() {
    let mut core = Transmitter::new(&two_classes());
    assert_eq!(offer(&mut core, udp(1, 2, 100)).1, None);
    assert_eq!(offer(&mut core, tcp()).1, None);
    let mut discarded = Vec::new();
    core.reconfigure(&[class("voice", vec![protocol(17)], 5), class("rest", vec![], 10)], |p| {
        discarded.push(p);
    });
    assert_eq!(discarded, [udp(1, 2, 100)]);
    assert!(!core.has_backlog(ClassId(0)));
    assert!(core.has_backlog(ClassId(1)));
    assert_eq!(offer(&mut core, udp(1, 2, 100)), (ClassId(0), None));
}

#[test]
fn rules_match_on_every_field_they_give() {
    let dscp_ef = Rule { dscp: Some([46].into_iter().collect()), ..Rule::default() };
    let port = |port| Rule { either_ports: vec![port..=port], ..Rule::default() };
    let from = Rule { source: Some("192.0.2.0/24".parse().expect("a prefix")), ..Rule::default() };
    let mut ef = build::Ip::v4();
    ef.traffic_class = 46 << 2;
    let marked = Whole { bytes: build::udp(&ef, (5, 6), b"voice"), offload: Offload::None };
    for (rule, packet, expected) in [
        (dscp_ef.clone(), &marked, true),
        (dscp_ef, &udp(5, 6, 1), false),
        (port(53), &udp(53, 999, 1), true),
        (port(53), &udp(999, 53, 1), true),
        (port(53), &udp(54, 52, 1), false),
        (Rule { protocol: Some(Protocol::AnyIcmp), ..Rule::default() }, &udp(1, 2, 1), false),
        (from, &udp(1, 2, 1), headers(&udp(1, 2, 1)).source.to_string().starts_with("192.0.2.")),
    ] {
        assert_eq!(rule.matches(&headers(packet)), expected, "{rule:?}");
    }
}

fn receiver_for(packet: &Whole) -> Receiver {
    let source: IpAddr = headers(packet).source;
    Receiver::new([source.into()])
}

#[test]
fn a_forged_source_is_refused_by_name_and_counted() {
    let packet = udp(1, 2, 100);
    let mut elsewhere = Receiver::new(["203.0.113.0/24".parse().expect("a prefix")]);
    let head = FrameHead { packet_len: packet.bytes.len(), offload: packet.offload };
    let refusal = elsewhere.handle_frame(&head, &packet.bytes).expect_err("it is not from there");
    assert_eq!(refusal, Refusal::ForgedSource(headers(&packet).source));
    assert_eq!(elsewhere.stats().forged_source, 1);
    assert!(receiver_for(&packet).handle_frame(&head, &packet.bytes).is_ok());
}

#[test]
fn an_offload_request_that_does_not_fit_the_packet_is_refused() {
    let packet = udp(1, 2, 100);
    let lie = super_packet(2).offload;
    let head = FrameHead { packet_len: packet.bytes.len(), offload: lie };
    let mut receiver = receiver_for(&packet);
    assert!(matches!(receiver.handle_frame(&head, &packet.bytes), Err(Refusal::BadOffload(_))));
    let head = FrameHead { packet_len: packet.bytes.len() + 1, offload: Offload::None };
    assert!(matches!(receiver.handle_frame(&head, &packet.bytes), Err(Refusal::Malformed(_))));
    assert_eq!(
        (receiver.stats().bad_offload, receiver.stats().malformed, receiver.stats().frames),
        (1, 1, 0)
    );
}

/// Random packets, lanes and reloads: everything offered is sent, dropped with a count, or still there.
#[test]
fn nothing_is_lost_that_is_not_counted() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed, "core");
        let mut core = Transmitter::new(&two_classes());
        let (mut offered, mut sent, mut discarded) = (0, 0, 0);
        for step in 0..2000 {
            match rng.below(10) {
                0..5 => {
                    let packet = match rng.below(3) {
                        0 => udp(1, 2, rng.below(1200) as usize),
                        1 => tcp(),
                        _ => super_packet(1 + rng.below(12) as usize),
                    };
                    offered += u64::from(packet.segments());
                    let _ = offer(&mut core, packet);
                }
                5..9 => {
                    let class = ClassId(rng.below(2) as u8);
                    let mut room = lane(rng.below(5000) as usize);
                    while let Some(packet) = core.poll_transmit(Instant::from_nanos(step), class, &mut room) {
                        sent += u64::from(packet.segments());
                    }
                }
                _ => core.reconfigure(&two_classes(), |packet: Whole| discarded += packet.segments()),
            }
        }
        assert_eq!(discarded, 0, "classes that stay keep their packets");
        let (mut dropped, mut waiting) = (0, 0);
        for (_, _, stats) in core.classes() {
            dropped += stats.dropped_total();
            waiting += stats.backlog_segments;
        }
        assert_eq!(offered, sent + dropped + waiting, "seed {seed}");
    }
}
