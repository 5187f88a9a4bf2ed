//! Real kernels' packets through real gateways: every byte arrives, whatever the offloads, family and encryption.

use std::net::UdpSocket;
use std::time::Duration;

use crate::common::{check_stream, class, edit, peer, plans, setup, sites, wait_for};
use trunkline_testbed::scene::{Encryption, Gateway, Plan, Wan};

const MANY: u64 = 40_000_000;

fn both_ways(test: &str, encryption: Encryption) {
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(encryption)) else { return };
    for plan in plans(&scene) {
        check_stream(&scene.a, &scene.x, plan.x, MANY);
        check_stream(&scene.x, &scene.a, plan.a, MANY);
    }
    let status = gateways.status(Gateway::T1).expect("a status");
    let packets = class(&gateways, Gateway::T1, "tcp").packets;
    let read = status.tun.super_read;
    assert!(packets > 2 * read, "super-packets travel whole: {packets} packets in {read} reads");
    let received = peer(&gateways, Gateway::T1).received;
    assert_eq!(received.refused(), 0, "{received:?}");
}

#[test]
fn tcp_is_carried_intact_both_ways_over_tls() {
    both_ways("tcp_is_carried_intact_both_ways_over_tls", Encryption::Tls);
}

#[test]
fn tcp_is_carried_intact_both_ways_in_clear() {
    both_ways("tcp_is_carried_intact_both_ways_in_clear", Encryption::None);
}

/// One end reads super-packets, the other's device takes none: it must segment them itself.
#[test]
fn an_end_without_offloads_segments_in_software() {
    let test = "an_end_without_offloads_segments_in_software";
    let Some((scene, mut gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    edit(&gateways, Gateway::T2, |text| text.replace("[tun]", "[tun]\noffloads = false"));
    gateways.kill9(Gateway::T2);
    gateways.restart(Gateway::T2).expect("T2 starts again");
    gateways.wait_until_up(Duration::from_secs(20)).expect("lanes");
    for plan in plans(&scene) {
        check_stream(&scene.a, &scene.x, plan.x, MANY / 4);
        check_stream(&scene.x, &scene.a, plan.a, MANY / 4);
    }
    let (near, far) =
        (gateways.status(Gateway::T1).expect("status"), gateways.status(Gateway::T2).expect("status"));
    assert_eq!(far.tun.offloads, [""; 0]);
    let sent = class(&gateways, Gateway::T1, "tcp").packets_sent;
    let read = near.tun.super_read;
    assert!(sent > 2 * read, "T1 sent super-packets: {sent} packets in {read} reads");
}

/// Datagrams of every size, alone and in bursts that get merged on the way: each arrives once, as it was sent.
#[test]
fn datagrams_arrive_unchanged_and_once() {
    let test = "datagrams_arrive_unchanged_and_once";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    for plan in plans(&scene) {
        let sink = scene.x.run(|| UdpSocket::bind((plan.x, 0))).expect("a socket");
        sink.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out");
        let to = sink.local_addr().expect("its address");
        let source = scene.a.run(|| UdpSocket::bind((plan.a, 0))).expect("a socket");
        let datagram = |number: u32, len: usize| {
            let mut bytes = vec![number as u8; len.max(4)];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            bytes
        };
        let mut number = 0;
        for round in 0..200_usize {
            // A burst of equal ones, one of another size, one of the greatest size.
            let sizes = std::iter::repeat_n(64 + round % 7, 20).chain([4 + round, 1400]);
            let sizes: Vec<usize> = sizes.collect();
            let first = number;
            for len in &sizes {
                source.send_to(&datagram(number, *len), to).expect("sent");
                number += 1;
            }
            let mut buffer = [0; 2000];
            for (offset, len) in sizes.iter().enumerate() {
                let (read, _) = sink.recv_from(&mut buffer).expect("it arrives");
                assert_eq!(buffer[..read], datagram(first + offset as u32, *len), "round {round}");
            }
        }
        sink.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out");
        assert!(sink.recv_from(&mut [0; 2000]).is_err(), "nothing arrives twice");
    }
    let merged = gateways.status(Gateway::T2).expect("status").tun.coalesced;
    println!("{merged} datagrams were merged for writing");
}

#[test]
fn traffic_goes_into_the_class_whose_rules_match() {
    let test = "traffic_goes_into_the_class_whose_rules_match";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    let Plan { a, x, .. } = Plan::IPV4;
    let count = |name| class(&gateways, Gateway::T1, name).packets;
    let before = [count("interactive"), count("tcp"), count("other")];
    let source = scene.a.run(|| UdpSocket::bind((a, 0))).expect("a socket");
    // One by its port; one because its flow sends little, and then no more.
    for port in [53, 4000] {
        source.send_to(b"question", (x, port)).expect("sent");
    }
    wait_for("both datagrams are counted", Duration::from_secs(5), &gateways, || {
        count("interactive") == before[0] + 2
    });
    for _ in 0..100 {
        source.send_to(&[0; 1000], (x, 4000)).expect("sent");
    }
    wait_for("bulk is counted", Duration::from_secs(5), &gateways, || {
        count("interactive") + count("other") == before[0] + before[2] + 102
    });
    // 32 KiB may pass as interactive, and what comes back of it meanwhile.
    let bulk = count("other") - before[2];
    assert!((60..=70).contains(&bulk), "{bulk} of a hundred datagrams count as bulk");
    assert_eq!(count("tcp"), before[1]);
}
