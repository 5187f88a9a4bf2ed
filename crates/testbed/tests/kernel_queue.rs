//! A queueing discipline of the kernel in front of a link: its shaper, its limit, and its counters.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use trunkline_link::LinkSettings;
use trunkline_testbed::link::Direction;
use trunkline_testbed::network::{KernelQueue, LinkBetween, Network, NetworkSettings, NodeSettings};
use trunkline_testbed::privilege;
use trunkline_units::Rate;

const A: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const R: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const B: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 3);
/// With headers; 1 ms at the rate.
const PACKET_BYTES: usize = 1000;
const RATE: Rate = Rate::from_bits_per_second(8_000_000);
const SENT: u64 = 400;
const LIMIT: u64 = 50;

fn queue(discipline: &str) -> KernelQueue {
    KernelQueue { discipline: discipline.to_owned(), rate: RATE, mtu: 1500 }
}

/// `a`, a router, `b`, and the discipline between the router and `b`.
fn network(discipline: &str) -> Network {
    let node = |name: &str, address, forwards| NodeSettings {
        name: name.to_owned(),
        addresses: vec![IpAddr::V4(address)],
        forwards,
        sysctls: Vec::new(),
        without_route_to: [].into(),
        super_packets: false,
    };
    let way = LinkSettings::new(Rate::MAX, Duration::from_millis(1));
    let link =
        |ends, kernel| LinkBetween { ends, ways: [way.clone(), way.clone()], kernel_queues: [kernel, None] };
    let settings = NetworkSettings {
        nodes: vec![node("a", A, false), node("r", R, true), node("b", B, false)],
        links: vec![link([0, 1], None), link([1, 2], Some(queue(discipline)))],
        detours: Vec::new(),
        tcp: Vec::new(),
        seed: 1,
    };
    Network::new(&settings).expect("a network")
}

#[test]
fn it_keeps_the_links_rate_holds_no_more_than_its_limit_and_counts_every_packet() {
    let name = "it_keeps_the_links_rate_holds_no_more_than_its_limit_and_counts_every_packet";
    if !privilege::available(name) {
        return;
    }
    if let Err(error) = queue("pfifo limit 50").check() {
        println!("SKIPPED {name}: {error}");
        return;
    }
    let network = network(&format!("pfifo limit {LIMIT}"));
    let counters = || {
        let queue = network.kernel_queue(1, Direction::Forward).expect("there is one");
        queue.counters().expect("the kernel says")
    };
    assert!(network.kernel_queue(1, Direction::Backward).is_none());
    let receiver = network.hosts()[2].run(|| UdpSocket::bind((B, 9000))).expect("a socket");
    receiver.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    let begin = Instant::now();
    network.hosts()[0].run(|| {
        let sender = UdpSocket::bind((A, 0)).expect("a socket");
        let to = SocketAddr::from((B, 9000));
        for _ in 0..SENT {
            sender.send_to(&[0; PACKET_BYTES - 28], to).expect("sent");
        }
    });
    let mut received = 0;
    let mut most = 0;
    let mut buffer = [0; 2048];
    loop {
        let now = counters();
        most = most.max(now.backlog_packets);
        let offered = now.packets_out + now.dropped + now.backlog_packets;
        assert!(offered <= SENT, "{now:?}");
        if offered == SENT && received == now.packets_out && now.backlog_packets == 0 {
            break;
        }
        receiver.recv(&mut buffer).expect("a packet within 5 s");
        received += 1;
    }
    let took = begin.elapsed();
    let end = counters();
    assert_eq!((end.packets_out, end.bytes_out), (received, received * PACKET_BYTES as u64));
    assert!(most <= LIMIT, "{most} waited");
    // The bucket holds two packets of 1500 bytes: three of these, and the one that is sent.
    let least = Duration::from_millis(received.saturating_sub(4));
    assert!(took >= least, "{received} packets in {took:?}");
    assert!(end.dropped > 0 || took > Duration::from_millis(350), "{end:?} in {took:?}");
}

#[test]
fn what_the_kernel_has_not_is_refused_with_its_words() {
    if !privilege::available("what_the_kernel_has_not_is_refused_with_its_words") {
        return;
    }
    let unknown = queue("no_such_discipline limit 3").check().expect_err("unknown").to_string();
    let has_tool = !unknown.contains("is not installed");
    assert!(!has_tool || unknown.contains("no_such_discipline"), "{unknown}");
    let option = queue("pfifo depth 3").check().expect_err("no such option").to_string();
    assert!(!has_tool || option.contains("tc qdisc replace dev lo parent 1:1"), "{option}");
}
