//! The cost of a packet in the core: classify, queue, dequeue, frame. It must not grow with the number of flows
//! or of routes. `cargo bench -p trunkline-trunk`.

#![allow(clippy::disallowed_types, reason = "a benchmark reads the clock; the crate under test does not")]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant as Clock;

use trunkline_packet::{Headers, Offload, build};
use trunkline_queue::{Item, Limits, Settings};
use trunkline_trunk::frame::{FrameHead, MAX_HEAD};
use trunkline_trunk::{
    ClassId, ClassSettings, LaneSnapshot, Packet, Protocol, Receiver, RouteTable, Rule, Transmitter,
};
use trunkline_units::{Instant, Rng};

struct Reference {
    len: usize,
}

impl Item for Reference {
    fn bytes(&self) -> usize {
        self.len
    }
}

impl Packet for Reference {
    fn trim(&mut self, _: &Headers, _: u32) {}
}

const PACKETS: usize = 2_000_000;
const BATCH: usize = 64;

fn main() {
    println!("core, ns per packet: parse + route + classify + queue + frame + receive; best of 5 rounds");
    println!("{:>8} {:>8} {:>10} {:>8}", "flows", "routes", "ns/packet", "ratio");
    let mut base = 0.0;
    for (flows, routes) in [(1, 1), (100, 1), (10_000, 1), (100_000, 1), (1, 1000), (100_000, 1000)] {
        let best = (0..5).map(|_| round(flows, routes)).fold(f64::INFINITY, f64::min);
        if base == 0.0 {
            base = best;
        }
        println!("{flows:>8} {routes:>8} {best:>10.1} {:>8.2}", best / base);
    }
}

fn round(flows: u32, routes: u32) -> f64 {
    let rules = vec![
        Rule { protocol: Some(Protocol::AnyIcmp), ..Rule::default() },
        Rule { dscp: Some([46].into_iter().collect()), ..Rule::default() },
        Rule { either_ports: vec![22..=22, 53..=53, 123..=123], ..Rule::default() },
    ];
    let queue = Settings::TailDrop(Limits::default());
    let classes = [
        ClassSettings { name: "interactive".into(), rules, queue },
        ClassSettings {
            name: "tcp".into(),
            rules: vec![Rule { protocol: Some(Protocol::Number(6)), ..Rule::default() }],
            queue,
        },
        ClassSettings { name: "other".into(), rules: vec![], queue },
    ];
    let mut core: Transmitter<Reference> = Transmitter::new(&classes);
    let table: RouteTable<u32> = (0..routes)
        .map(|n| {
            let prefix = ipnet::Ipv4Net::new(Ipv4Addr::from(0x0a00_0000 | n << 8), 24).expect("a prefix");
            (prefix.into(), n)
        })
        .collect();
    let mut receiver = Receiver::new(["10.0.0.0/8".parse().expect("a prefix")]);
    // One template; the flow is in its addresses and ports, changed in place.
    let mut packet = build::tcp(&build::Ip::v4(), &build::Tcp::default(), &[0; 1400]);
    let mut rng = Rng::new(1, "flows");
    let mut room = LaneSnapshot { room: usize::MAX, ..LaneSnapshot::default() };
    let start = Clock::now();
    for batch in 0..PACKETS / BATCH {
        let now = Instant::from_nanos(batch as u64);
        for _ in 0..BATCH {
            let flow = rng.below(u64::from(flows)) as u32;
            let source = 0x0a00_0000 | flow;
            let destination = 0x0a00_0001 | (flow % routes) << 8;
            packet[12..16].copy_from_slice(&source.to_be_bytes());
            packet[16..20].copy_from_slice(&destination.to_be_bytes());
            packet[20..22].copy_from_slice(&(1024 + (flow >> 4) as u16 % 60_000).to_be_bytes());
            let headers = Headers::parse(&packet, packet.len()).expect("a sound packet");
            black_box(table.lookup(headers.destination));
            let offered = core.handle_packet(now, &headers, Reference { len: packet.len() });
            debug_assert!(offered.dropped.is_none());
            black_box(offered.class);
        }
        while let Some(sent) = core.poll_transmit(now, ClassId(1), &mut room) {
            let head = FrameHead { packet_len: sent.len, offload: Offload::None };
            let mut bytes = [0; MAX_HEAD];
            black_box(head.encode_before(&mut bytes));
            black_box(receiver.handle_frame(&head, &packet).is_ok());
        }
    }
    let elapsed = start.elapsed();
    assert!(receiver.stats().frames as usize == PACKETS, "every packet went through");
    assert!(table.lookup(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))).is_some());
    elapsed.as_secs_f64() * 1e9 / PACKETS as f64
}
