//! The transmitter as its owner sees it: packets in, packets out, nothing lost that is not counted.

use std::net::IpAddr;
use std::sync::Arc;

use crate::common::{
    Whole, class, next, offer, protocol, segment, super_packet, tail_drop, transmitter, udp,
};
use ipnet::IpNet;
use trunkline_packet::{Headers, Offload, Segmenter, TcpFlags, build};
use trunkline_queue::{DropReason, Item, Share};
use trunkline_trunk::frame::FrameHead;
use trunkline_trunk::{
    AdmissionSettings, Behaviour, ClassId, ClassSettings, LaneGroup, LaneId, Offered, Over, PeerId, Poll,
    Protocol, Receiver, Refusal, RouteTable, Rule, Transmitter, TrunkPlan,
};
use trunkline_units::{Instant, Rate, Rng};

fn two_classes() -> TrunkPlan {
    TrunkPlan::one_lane_per_class(vec![class("udp", vec![protocol(17)], 3), class("rest", vec![], 10)])
}

const UDP: LaneId = LaneId(0);
const REST: LaneId = LaneId(1);
const NOW: Instant = Instant::ZERO;

fn dropped(transmitter: &mut Transmitter<Whole>, class: ClassId, reason: DropReason) -> u64 {
    transmitter.report(NOW)[class.index()].queue.dropped_for(reason)
}

#[test]
fn a_full_class_drops_its_own_packets_and_no_others() {
    let mut transmitter = transmitter(two_classes());
    for n in 0..5 {
        let expected = if n < 3 { Offered::Queued(UDP) } else { Offered::Dropped };
        assert_eq!(offer(&mut transmitter, NOW, udp(1, 2, 100)), expected, "datagram {n}");
    }
    assert_eq!(dropped(&mut transmitter, ClassId(0), DropReason::SegmentLimit), 2);
    assert_eq!(offer(&mut transmitter, NOW, segment(1, 1, 100)), Offered::Queued(REST));
}

#[test]
fn a_lane_without_room_gets_nothing_and_one_with_little_gets_one_packet() {
    let mut transmitter = transmitter(two_classes());
    for _ in 0..3 {
        assert_eq!(offer(&mut transmitter, NOW, udp(1, 2, 1000)), Offered::Queued(UDP));
    }
    assert_eq!(transmitter.poll_transmit(NOW, UDP, &mut 0, drop), Poll::Nothing);
    let mut little = 10;
    assert!(matches!(transmitter.poll_transmit(NOW, UDP, &mut little, drop), Poll::Packet(_)));
    assert_eq!(little, 0);
    assert!(transmitter.has_backlog(UDP));
    assert!(!transmitter.has_backlog(REST));
}

#[test]
fn packets_of_a_class_leave_in_the_order_they_came() {
    let mut transmitter = transmitter(two_classes());
    for port in 1..=3 {
        assert_eq!(offer(&mut transmitter, NOW, udp(port, 9, 10)), Offered::Queued(UDP));
    }
    let ports: Vec<_> = std::iter::from_fn(|| next(&mut transmitter, NOW, UDP))
        .map(|packet| packet.headers().ports.map(|(source, _)| source))
        .collect();
    assert_eq!(ports, [Some(1), Some(2), Some(3)]);
}

#[test]
fn a_super_packet_that_fits_in_part_loses_whole_segments_from_its_end() {
    let mut classes = two_classes();
    classes.classes[1].filters_retransmissions = false;
    let mut transmitter = transmitter(classes);
    assert_eq!(offer(&mut transmitter, NOW, super_packet(7)), Offered::Queued(REST));
    assert_eq!(
        offer(&mut transmitter, NOW, super_packet(7)),
        Offered::Queued(REST),
        "three of its seven segments fit"
    );
    assert_eq!(offer(&mut transmitter, NOW, super_packet(7)), Offered::Dropped);
    let stats = transmitter.report(NOW)[1].queue.clone();
    assert_eq!((stats.backlog_segments, stats.dropped_total(), stats.segments_in), (10, 4 + 7, 21));
    let _whole = next(&mut transmitter, NOW, REST).expect("the first");
    let cut = next(&mut transmitter, NOW, REST).expect("the second");
    let cut_headers = cut.headers();
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
    let mut transmitter = transmitter(two_classes());
    assert_eq!(offer(&mut transmitter, NOW, udp(1, 2, 100)), Offered::Queued(UDP));
    assert_eq!(offer(&mut transmitter, NOW, segment(1, 1, 100)), Offered::Queued(REST));
    let mut discarded = Vec::new();
    let renamed = vec![class("voice", vec![protocol(17)], 5), class("rest", vec![], 10)];
    transmitter.reconfigure(Instant::ZERO, TrunkPlan::one_lane_per_class(renamed), |p| discarded.push(p));
    assert_eq!(discarded, [udp(1, 2, 100)]);
    assert!(!transmitter.has_backlog(UDP));
    assert!(transmitter.has_backlog(REST));
    assert_eq!(offer(&mut transmitter, NOW, udp(1, 2, 100)), Offered::Queued(UDP));
}

fn shared(first: Share, second: Share) -> TrunkPlan {
    let class = |name: &str, rules, share| ClassSettings {
        share,
        filters_retransmissions: false,
        ..ClassSettings::new(name, rules, tail_drop(100_000), 0)
    };
    TrunkPlan::new(
        vec![class("udp", vec![protocol(17)], first), class("rest", vec![], second)],
        vec![LaneGroup::new("all", 1)],
    )
}

#[test]
fn classes_that_share_a_lane_get_bytes_by_weight_super_packets_or_not() {
    let weight = |weight| Share { weight, ..Share::default() };
    let mut transmitter = transmitter(shared(weight(30), weight(70)));
    for _ in 0..2000 {
        let _ = offer(&mut transmitter, NOW, udp(1, 2, 1000));
    }
    for _ in 0..200 {
        let _ = offer(&mut transmitter, NOW, super_packet(20));
    }
    let (mut udp_bytes, mut total) = (0, 0);
    for _ in 0..1000 {
        let packet = next(&mut transmitter, NOW, LaneId(0)).expect("both have packets");
        total += packet.bytes();
        udp_bytes += if packet.headers().protocol == 17 { packet.bytes() } else { 0 };
    }
    let share = udp_bytes as f64 / total as f64;
    assert!((0.29..0.31).contains(&share), "{share}");
}

#[test]
fn a_ceiling_says_when_to_come_back() {
    let capped = Share { ceiling: Some(Rate::from_mbit(1.0)), ..Share::default() };
    let mut transmitter = transmitter(shared(capped, Share::default()));
    for _ in 0..10 {
        let _ = offer(&mut transmitter, NOW, udp(1, 2, 1400));
    }
    let (mut now, mut sent) = (NOW, 0);
    while sent < 10 {
        match transmitter.poll_transmit(now, LaneId(0), &mut (1 << 20), drop) {
            Poll::Packet(_) | Poll::Labelled(..) => sent += 1,
            Poll::Wait(at) => {
                assert!(at > now);
                now = at;
            }
            Poll::Nothing => panic!("packets wait"),
        }
    }
    // Ten packets of 1428 bytes at 1 Mbit/s are 114 ms, less what the bucket had saved.
    assert!((70..115).contains(&(now.as_nanos() / 1_000_000)), "{now:?}");
}

#[test]
fn a_flow_keeps_to_one_of_its_groups_lanes_and_flows_spread() {
    let plan = TrunkPlan::new(vec![class("all", vec![], 10_000)], vec![LaneGroup::new("all", 4)]);
    let mut transmitter = transmitter(plan);
    let mut flows_of = [0; 4];
    for port in 0..400 {
        let Offered::Queued(lane) = offer(&mut transmitter, NOW, udp(port, 9, 10)) else {
            panic!("there is room")
        };
        assert_eq!(offer(&mut transmitter, NOW, udp(port, 9, 10)), Offered::Queued(lane));
        flows_of[lane.index()] += 1;
    }
    assert!(flows_of.iter().all(|flows| (60..=140).contains(flows)), "{flows_of:?}");
}

#[test]
fn a_flow_too_many_goes_to_the_other_class_or_is_refused() {
    for over in [Over::Class(ClassId(1)), Over::Refuse] {
        let mut plan = two_classes();
        plan.classes[0].admission = Some(AdmissionSettings { limit: 2, over });
        let mut transmitter = transmitter(plan);
        for port in [1, 2, 1] {
            assert_eq!(offer(&mut transmitter, NOW, udp(port, 9, 10)), Offered::Queued(UDP));
        }
        let third = offer(&mut transmitter, NOW, udp(3, 9, 10));
        let report = transmitter.report(NOW);
        if over == Over::Refuse {
            assert_eq!(third, Offered::Refused(udp(3, 9, 10)));
            assert_eq!((report[0].stats.refused, report[1].stats.moved), (1, 0));
        } else {
            assert_eq!(third, Offered::Queued(REST));
            assert_eq!((report[0].stats.refused, report[1].stats.moved), (0, 1));
        }
    }
}

/// Which lane, thus class, a small packet of this flow waits for; `None` if it is refused.
fn class_of(transmitter: &mut Transmitter<Whole>, now: Instant, packet: Whole) -> Option<LaneId> {
    let lane = match offer(transmitter, now, packet) {
        Offered::Queued(lane) => lane,
        Offered::QueuedFor(lanes) => LaneId(lanes.trailing_zeros() as u8),
        Offered::Refused(_) => return None,
        Offered::Dropped => panic!("there is room"),
    };
    transmitter.flush(NOW, drop);
    Some(lane)
}

#[test]
fn a_flow_that_leaves_a_class_needs_a_place_in_the_one_it_comes_to() {
    let little = Rule { interactive: true, ..Rule::default() };
    let mut plan =
        TrunkPlan::one_lane_per_class(vec![class("little", vec![little], 1000), class("rest", vec![], 1000)]);
    plan.classes[0].admission = Some(AdmissionSettings { limit: 50, over: Over::Refuse });
    plan.classes[1].admission = Some(AdmissionSettings { limit: 1, over: Over::Refuse });
    let mut transmitter = transmitter(plan);
    let (mut little, mut rest, mut refused) = (0, 0, 0);
    for port in 0..50 {
        // 32 KiB are what an interactive flow may spend.
        for n in 0..40 {
            match class_of(&mut transmitter, NOW, segment(port, n * 1000, 1000)) {
                Some(LaneId(0)) => little += 1,
                Some(_) => rest += 1,
                None => refused += 1,
            }
        }
    }
    assert!((50 * 30..=50 * 32).contains(&little), "{little}");
    assert!((8..=10).contains(&rest), "the packets of one flow: {rest}");
    assert_eq!(little + rest + refused, 50 * 40);
}

#[test]
fn a_flow_that_overflows_is_held_to_the_limit_of_the_class_it_goes_to() {
    let limit = |limit, over| Some(AdmissionSettings { limit, over });
    let classes = |names: [&str; 3]| {
        let rules = [vec![protocol(17)], vec![protocol(6)], vec![]];
        let classes = names.iter().zip(rules).map(|(name, rules)| class(name, rules, 1000));
        TrunkPlan::one_lane_per_class(classes.collect())
    };
    let mut plan = classes(["first", "second", "third"]);
    plan.classes[0].admission = limit(1, Over::Class(ClassId(1)));
    plan.classes[1].admission = limit(2, Over::Class(ClassId(2)));
    plan.classes[2].admission = limit(3, Over::Refuse);
    let mut of_chain = transmitter(plan.clone());
    let mut lanes: Vec<_> = (0..8).map(|port| class_of(&mut of_chain, NOW, udp(port, 9, 10))).collect();
    lanes.extend((0..8).map(|port| class_of(&mut of_chain, NOW, udp(port, 9, 10))));
    let expected = [Some(0), Some(1), Some(1), Some(2), Some(2), Some(2), None, None].map(|n| n.map(LaneId));
    assert_eq!(lanes, [expected, expected].concat(), "and again: each keeps its place");
    assert_eq!(of_chain.report(NOW)[0].stats.refused, 4);
    // A chain that comes round refuses.
    plan.classes[2].admission = limit(1, Over::Class(ClassId(0)));
    let mut of_loop = transmitter(plan);
    let admitted = (0..8).filter(|port| class_of(&mut of_loop, NOW, udp(*port, 9, 10)).is_some());
    assert_eq!(admitted.count(), 1 + 2 + 1);
}

#[test]
fn a_reload_keeps_the_places_of_flows_and_grants_none_anew() {
    let plan = |reversed: bool, limit| {
        let mut classes = vec![class("udp", vec![protocol(17)], 1000), class("tcp", vec![protocol(6)], 1000)];
        classes[0].admission = Some(AdmissionSettings { limit, over: Over::Refuse });
        if reversed {
            classes.reverse();
        }
        TrunkPlan::one_lane_per_class(classes.into_iter().chain([class("rest", vec![], 1000)]).collect())
    };
    let mut transmitter = transmitter(plan(false, 2));
    let taken = |transmitter: &mut Transmitter<Whole>| -> Vec<u16> {
        (0..6).filter(|port| class_of(transmitter, NOW, udp(*port, 9, 10)).is_some()).collect()
    };
    assert_eq!(taken(&mut transmitter), [0, 1]);
    for (reversed, limit, expected) in
        [(false, 2, vec![0, 1]), (true, 2, vec![0, 1]), (false, 1, vec![0, 1]), (true, 4, vec![0, 1, 2, 3])]
    {
        transmitter.reconfigure(NOW, plan(reversed, limit), drop);
        assert_eq!(taken(&mut transmitter), expected, "limit {limit}, reversed: {reversed}");
        // TCP has no limit, wherever its class stands.
        assert!((0..6).all(|port| class_of(&mut transmitter, NOW, segment(port, 1, 10)).is_some()));
    }
}

#[test]
fn a_flow_that_sends_little_is_interactive_until_it_sends_much() {
    let little = Rule { interactive: true, ..Rule::default() };
    let mut transmitter = transmitter(TrunkPlan::one_lane_per_class(vec![
        class("little", vec![little], 1000),
        class("rest", vec![], 1000),
    ]));
    let mut lanes = Vec::new();
    for n in 0..100 {
        let Offered::Queued(lane) = offer(&mut transmitter, NOW, segment(5, n * 1000, 1000)) else {
            panic!("room")
        };
        lanes.push(lane);
    }
    let first = lanes.iter().take_while(|lane| **lane == LaneId(0)).count();
    assert!((30..=32).contains(&first), "32 KiB are {first} segments");
    assert!(lanes[first..].iter().all(|lane| *lane == LaneId(1)));
    assert_eq!(offer(&mut transmitter, NOW, udp(7, 53, 60)), Offered::Queued(LaneId(0)));
}

#[test]
fn rules_match_on_every_field_they_give() {
    let dscp_ef = Rule { dscp: Some([46].into_iter().collect()), ..Rule::default() };
    let port = |port| Rule { either_ports: vec![port..=port], ..Rule::default() };
    let from = Rule { source: Some("192.0.2.0/24".parse().expect("a prefix")), ..Rule::default() };
    let mut ef = build::Ip::v4();
    ef.traffic_class = 46 << 2;
    let marked = Whole::new(build::udp(&ef, (5, 6), b"voice"));
    let length = |range| Rule { lengths: vec![range], ..Rule::default() };
    for (rule, packet, expected) in [
        (dscp_ef.clone(), &marked, true),
        (dscp_ef, &udp(5, 6, 1), false),
        (port(53), &udp(53, 999, 1), true),
        (port(53), &udp(999, 53, 1), true),
        (port(53), &udp(54, 52, 1), false),
        (Rule { protocol: Some(Protocol::AnyIcmp), ..Rule::default() }, &udp(1, 2, 1), false),
        (from, &udp(1, 2, 1), udp(1, 2, 1).headers().source.to_string().starts_with("192.0.2.")),
        (length(28..=40), &udp(1, 2, 12), true),
        (length(28..=40), &udp(1, 2, 13), false),
        (Rule { interactive: true, ..Rule::default() }, &udp(1, 2, 13), false),
    ] {
        let behaviour = Behaviour { length: packet.bytes() as u16, interactive: false };
        assert_eq!(rule.matches(&packet.headers(), behaviour), expected, "{rule:?}");
    }
}

fn receiver_for(packet: &Whole) -> Receiver {
    let source: IpAddr = packet.headers().source;
    Receiver::new(PeerId(0), owners(&[(&IpNet::from(source).to_string(), 0)]))
}

/// The prefixes of some peers, by their places.
fn owners(of: &[(&str, u32)]) -> Arc<RouteTable<PeerId>> {
    let owner = |(prefix, peer): &(&str, u32)| (prefix.parse().expect("a prefix"), PeerId(*peer));
    Arc::new(of.iter().map(owner).collect())
}

#[test]
fn a_forged_source_is_refused_by_name_and_counted() {
    let packet = udp(1, 2, 100);
    let mut elsewhere = Receiver::new(PeerId(0), owners(&[("203.0.113.0/24", 0)]));
    let head = FrameHead { packet_len: packet.bytes.len(), offload: packet.offload };
    let refusal = elsewhere.handle_frame(&head, &packet.bytes).expect_err("it is not from there");
    assert_eq!(refusal, Refusal::ForgedSource(packet.headers().source));
    assert_eq!(elsewhere.stats().forged_source, 1);
    assert!(receiver_for(&packet).handle_frame(&head, &packet.bytes).is_ok());
}

#[test]
fn a_forged_source_behind_one_that_belongs_to_the_peer_is_refused_all_the_same() {
    let (own, mut forged) = (udp(1, 2, 100), udp(1, 2, 100));
    forged.bytes[15] ^= 1;
    assert_ne!(own.headers().source, forged.headers().source);
    let mut receiver = receiver_for(&own);
    for _ in 0..2 {
        for (packet, accepted) in [(&own, true), (&forged, false)] {
            let head = FrameHead { packet_len: packet.bytes.len(), offload: packet.offload };
            assert_eq!(receiver.handle_frame(&head, &packet.bytes).is_ok(), accepted);
        }
    }
    assert_eq!((receiver.stats().frames, receiver.stats().forged_source), (2, 2));
}

#[test]
fn a_peer_with_a_short_prefix_cannot_send_as_one_with_a_longer_prefix_inside_it() {
    let packet = udp(1, 2, 100);
    let head = FrameHead { packet_len: packet.bytes.len(), offload: packet.offload };
    let source: IpAddr = packet.headers().source;
    let host = IpNet::from(source).to_string();
    let both = owners(&[("0.0.0.0/0", 0), (&host, 1)]);
    let mut receivers = [0, 1].map(|peer| Receiver::new(PeerId(peer), Arc::clone(&both)));
    assert_eq!(receivers[0].handle_frame(&head, &packet.bytes), Err(Refusal::ForgedSource(source)));
    assert!(receivers[1].handle_frame(&head, &packet.bytes).is_ok());
    // The longer prefix goes, and its former owner has another place: the counts stay.
    let shorter = owners(&[("0.0.0.0/0", 1), ("203.0.113.0/24", 0)]);
    receivers[0].set_owners(PeerId(1), Arc::clone(&shorter));
    receivers[1].set_owners(PeerId(0), shorter);
    assert!(receivers[0].handle_frame(&head, &packet.bytes).is_ok());
    assert!(receivers[1].handle_frame(&head, &packet.bytes).is_err());
    for receiver in &receivers {
        assert_eq!((receiver.stats().frames, receiver.stats().forged_source), (1, 1));
    }
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
        let mut transmitter = transmitter(two_classes());
        let (mut offered, mut sent, mut discarded) = (0, 0, 0);
        for step in 0..2000 {
            let now = Instant::from_millis(step);
            match rng.below(10) {
                0..5 => {
                    let packet = match rng.below(3) {
                        0 => udp(1, 2, rng.below(1200) as usize),
                        1 => segment(9, rng.below(20_000) as u32, 1 + rng.below(1000) as usize),
                        _ => super_packet(1 + rng.below(12) as usize),
                    };
                    offered += u64::from(packet.segments());
                    let _ = offer(&mut transmitter, now, packet);
                }
                5..8 => {
                    let lane = LaneId(rng.below(2) as u8);
                    let mut room = rng.below(5000) as usize;
                    while let Poll::Packet(packet) = transmitter.poll_transmit(now, lane, &mut room, drop) {
                        sent += u64::from(packet.segments());
                    }
                    transmitter.handle_transmitted(lane, step);
                }
                8 => transmitter.handle_delivered(LaneId(rng.below(2) as u8), rng.below(step + 1)),
                _ => transmitter
                    .reconfigure(now, two_classes(), |packet: Whole| discarded += packet.segments()),
            }
        }
        assert_eq!(discarded, 0, "classes that stay keep their packets");
        let (mut dropped, mut waiting) = (0, 0);
        for class in transmitter.report(NOW) {
            dropped += class.queue.dropped_total() + class.stats.filtered;
            waiting += class.queue.backlog_segments;
        }
        assert_eq!(offered, sent + dropped + waiting, "seed {seed}");
    }
}
