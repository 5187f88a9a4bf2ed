//! Whatever plain routing forwards, a trunk forwards, on real kernels: packets of every kind go from a host to another, once over
//! plain routes and once over each kind of lane. The same packets arrive, byte by byte and in order within their flow.
//! docs/firewalls.md names what differs.
//!
//! `TRUNKLINE_FORWARDING_SEED=7 cargo test -p trunkline --test all forwarding::` sends others.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::common::{ip, peer, plans, setup};
use trunkline_packet::build::Ip;
use trunkline_packet::build::forwardable::{self, Kind};
use trunkline_packet::{FlowKey, Fragment, Headers, TcpFlags, TcpView, VNET_LEN, protocol};
use trunkline_testbed::namespace::{Host, Offloads};
use trunkline_testbed::privilege;
use trunkline_testbed::scene::{Encryption, Gateway, GatewaySetup, Plan, Scene, SceneSettings, Wan};
use trunkline_units::Rng;

/// Flows, the packets of each at most, and those that are sent before they are looked for.
const FLOWS: u16 = 80;
const PACKETS: u64 = 10;
const BURST: usize = 16;
/// The last part of the first flow's source; those of the others follow.
const FIRST: u16 = 100;
/// The device from which packets come into the first host, and the one to which they leave the last.
const GENERATOR: &str = "generator";
const SINK: &str = "sink";
/// Where all of them go: an address behind the last host.
const DESTINATIONS: [(IpAddr, Plan); 2] = [
    (IpAddr::V4(Ipv4Addr::new(198, 18, 3, 77)), Plan::IPV4),
    (IpAddr::V6(Ipv6Addr::new(0xfd00, 3, 0, 0, 0, 0, 0, 77)), Plan::IPV6),
];

/// A packet, and the flow that it belongs to.
type Sent = (u16, Vec<u8>);

/// Packets of flows that are mixed with each other, in the order in which they are sent.
fn traffic(seed: u64, has_ipv6: bool) -> Vec<Sent> {
    let mut rng = Rng::new(seed, "forwarding");
    let mut flows: Vec<(u16, Vec<Vec<u8>>)> = Vec::new();
    for flow in 0..FLOWS {
        let kind = Kind::ALL[usize::from(flow) % Kind::ALL.len()];
        let header = if flow % 2 == 0 || !has_ipv6 {
            let source = Ipv4Addr::new(198, 18, 1, (FIRST + flow) as u8);
            Ip { source: source.into(), destination: DESTINATIONS[0].0, ..Ip::v4() }
        } else {
            let source = Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, FIRST + flow);
            Ip { source: source.into(), destination: DESTINATIONS[1].0, ..Ip::v6() }
        };
        let count = 1 + rng.below(PACKETS) as usize;
        let mut packets = forwardable::flow(kind, &header, count, &mut |bound| rng.below(bound));
        packets.reverse();
        flows.push((flow, packets));
    }
    let mut sent = Vec::new();
    while !flows.is_empty() {
        let at = rng.below(flows.len() as u64) as usize;
        let (flow, packets) = &mut flows[at];
        for _ in 0..=rng.below(4) {
            sent.extend(packets.pop().map(|packet| (*flow, packet)));
        }
        if packets.is_empty() {
            flows.swap_remove(at);
        }
    }
    sent
}

/// The flow of a packet by its source; `None` if it is of nobody's.
fn flow_of(packet: &[u8]) -> Option<u16> {
    let headers = Headers::parse(packet, packet.len()).ok()?;
    let (network, last) = match headers.source {
        IpAddr::V4(source) => (Plan::IPV4.first_site(), u16::from(source.octets()[3])),
        IpAddr::V6(source) => (Plan::IPV6.first_site(), source.segments()[7]),
    };
    let flow = last.checked_sub(FIRST).filter(|flow| *flow < FLOWS)?;
    network.contains(&headers.source).then_some(flow)
}

/// Two hosts as routers: packets come into one from a device, and leave the other to a device, which the kernel gives no
/// super-packets.
struct Road<'a> {
    scene: &'a Scene,
    generator: OwnedFd,
    sink: OwnedFd,
    arrived: Vec<Sent>,
}

impl<'a> Road<'a> {
    fn new(scene: &'a Scene) -> Self {
        let device = |host: &Host, name: &'static str| {
            host.forwarding().expect("sysctls");
            let device = host.run(|| trunkline_linux::open_tun_queue(name, false)).expect("a device");
            ip(host, &format!("link set {name} up"));
            device
        };
        let (generator, sink) = (device(&scene.a, GENERATOR), device(&scene.x, SINK));
        for (destination, plan) in DESTINATIONS.iter().filter(|(_, plan)| plans(scene).contains(plan)) {
            ip(&scene.t2, &format!("route add {destination} via {}", plan.x));
            ip(&scene.x, &format!("route add {destination} dev {SINK}"));
        }
        Road { scene, generator, sink, arrived: Vec::new() }
    }

    fn read(&mut self) {
        let mut buffer = vec![0; 70_000];
        while let Ok(len) = rustix::io::read(&self.sink, &mut buffer) {
            let packet = buffer.get(VNET_LEN..len).unwrap_or_default();
            self.arrived.extend(flow_of(packet).map(|flow| (flow, packet.to_vec())));
        }
    }

    /// Waits until so many have arrived in all, or nothing has for this time.
    fn wait(&mut self, count: usize, quiet: Duration) {
        let mut last = (self.arrived.len(), Instant::now());
        loop {
            self.read();
            if self.arrived.len() != last.0 {
                last = (self.arrived.len(), Instant::now());
            }
            if self.arrived.len() >= count || last.1.elapsed() >= quiet {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends bursts. How many have arrived after each, if `expected` does not say it.
    fn send(&mut self, sent: &[Sent], expected: Option<&[usize]>) -> Vec<usize> {
        let mut counts = Vec::new();
        for (number, burst) in sent.chunks(BURST).enumerate() {
            for (_, packet) in burst {
                let written = [&[0; VNET_LEN][..], packet].concat();
                rustix::io::write(&self.generator, &written).expect("the device takes it");
            }
            let count = expected.map_or(self.arrived.len() + burst.len(), |expected| expected[number]);
            self.wait(count, Duration::from_millis(100));
            counts.push(self.arrived.len());
        }
        counts
    }

    fn has_ipv6(&self) -> bool {
        self.scene.has_ipv6()
    }
}

/// Two sites whose devices have no offloads, so that each packet is one on the wire.
fn scene() -> Scene {
    let settings = SceneSettings { site_offloads: Offloads::Off, ..SceneSettings::new(Wan::Veth) };
    Scene::build(&settings).expect("a scene")
}

/// A TCP segment as the retransmission filter sees it: what it takes up, and what it says of the other direction.
fn segment(packet: &[u8]) -> Option<((u32, u32), (u32, u16))> {
    let headers = Headers::parse(packet, packet.len()).ok()?;
    if headers.protocol != protocol::TCP || headers.fragment != Fragment::Whole {
        return None;
    }
    let view = TcpView::new(&packet[headers.transport_offset..]).ok()?;
    let data = headers.transport_len().checked_sub(view.header_len())? as u32;
    let flag = |flag| u32::from(view.flags().contains(flag));
    let len = data + flag(TcpFlags::SYN) + flag(TcpFlags::FIN);
    (len > 0).then(|| ((view.seq(), len), (view.ack(), view.window())))
}

/// Whether the filter may drop a packet behind these: it says nothing new, and each of its bytes was sent before.
fn may_be_dropped(before: &[Vec<u8>], packet: &[u8]) -> bool {
    let Some(((seq, len), news)) = segment(packet) else { return false };
    let earlier: Vec<_> = before.iter().filter_map(|packet| segment(packet)).collect();
    let covered = |at: u32| earlier.iter().any(|((from, len), _)| at.wrapping_sub(*from) < *len);
    earlier.iter().any(|(_, said)| *said == news) && (0..len).all(|more| covered(seq.wrapping_add(more)))
}

/// An IPv4 packet that nobody fragments may get another identification where packets were merged for a device, and nothing else.
fn without_id(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 && packet[6] & 0x40 != 0 {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

/// The packets of a flow in its narrowest sense, as ports and protocols tell it.
fn of(flow: &FlowKey, packets: &[Sent]) -> Vec<Vec<u8>> {
    packets.iter().filter(|(_, packet)| key(packet) == *flow).map(|(_, packet)| packet.clone()).collect()
}

fn key(packet: &[u8]) -> FlowKey {
    Headers::parse(packet, packet.len()).expect("a packet").flow()
}

/// What is wrong with what arrived of a flow, and how many packets of it the filter dropped.
fn compare(routed: &[Vec<u8>], carried: &[Vec<u8>]) -> Result<usize, String> {
    let (mut filtered, mut carried) = (0, carried.iter().peekable());
    for (number, packet) in routed.iter().enumerate() {
        if carried.peek().is_some_and(|next| without_id(next) == without_id(packet)) {
            carried.next();
        } else if may_be_dropped(&routed[..number], packet) {
            filtered += 1;
        } else {
            return Err(format!(
                "packet {number}\n{packet:02x?}\nis missing before\n{:02x?}",
                carried.peek()
            ));
        }
    }
    carried.next().map_or(Ok(filtered), |packet| Err(format!("nobody sent\n{packet:02x?}")))
}

fn lanes() -> Vec<(&'static str, GatewaySetup)> {
    let kind = |encryption, text: &str| {
        // A queue that drops nothing and marks nothing.
        let queue = "queue = { discipline = \"tail-drop\" }";
        let classes = Some(format!("[[classes]]\nname = \"all\"\n{queue}\n{text}"));
        GatewaySetup { classes, ..setup(encryption) }
    };
    vec![
        ("TCP with TLS", kind(Encryption::Tls, "transport = \"tcp\"")),
        ("TCP in clear", kind(Encryption::None, "transport = \"tcp\"")),
        (
            "TCP without header compression",
            kind(Encryption::Tls, "transport = \"tcp\"\nheader_compression = false"),
        ),
        ("QUIC datagrams", kind(Encryption::Tls, "transport = \"quic\"")),
        ("QUIC streams", kind(Encryption::Tls, "transport = \"quic\"\ndelivery = \"reliable\"")),
    ]
}

#[test]
fn whatever_plain_routing_forwards_each_kind_of_lane_forwards() {
    if !privilege::available("whatever_plain_routing_forwards_each_kind_of_lane_forwards") {
        return;
    }
    let seed = std::env::var("TRUNKLINE_FORWARDING_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let direct = scene();
    direct.route_directly().expect("routes");
    let mut road = Road::new(&direct);
    let sent = traffic(seed, road.has_ipv6());
    let counts = road.send(&sent, None);
    let routed = std::mem::take(&mut road.arrived);
    drop(road);
    drop(direct);
    println!("{} of {} packets pass plain routing", routed.len(), sent.len());
    // Some the kernel's routers drop: what they drop need not pass a trunk.
    assert!(routed.len() * 100 >= sent.len() * 95, "{} of {}", routed.len(), sent.len());

    let keys: BTreeSet<FlowKey> = sent.iter().map(|(_, packet)| key(packet)).collect();
    for (what, setup) in lanes() {
        let scene = scene();
        let gateways = scene.start_gateways(&setup).expect("gateways");
        let mut road = Road::new(&scene);
        road.send(&sent, Some(&counts));
        let end = Instant::now() + Duration::from_secs(60);
        let results: Vec<Result<usize, String>> = loop {
            let results: Vec<_> =
                keys.iter().map(|flow| compare(&of(flow, &routed), &of(flow, &road.arrived))).collect();
            if results.iter().all(Result::is_ok) || Instant::now() >= end {
                break results;
            }
            road.wait(usize::MAX, Duration::from_millis(200));
        };
        for (flow, result) in keys.iter().zip(&results) {
            if let Err(difference) = result {
                let received = peer(&gateways, Gateway::T2).received;
                let log = gateways.log_tail(Gateway::T1);
                panic!("{what}, seed {seed}, {flow:?}: {difference}\n{received:?}\n{log}");
            }
        }
        let filtered: usize = results.into_iter().flatten().sum();
        println!(
            "{what}: {} packets arrived, {filtered} were copies of others in transit",
            road.arrived.len()
        );
    }
}
