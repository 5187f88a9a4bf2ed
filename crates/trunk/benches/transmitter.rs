//! The cost of a packet in the transmitter: classify, queue, dequeue, frame. It must not grow with the number of flows
//! or of routes. `cargo bench -p trunkline-trunk`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and its arguments; the crate under test does not"
)]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use trunkline_packet::{Headers, Offload, build};
use trunkline_queue::{CoDelSettings, Item, Settings, TrunkSettings};
use trunkline_trunk::frame::{FrameHead, MAX_HEAD};
use trunkline_trunk::{
    ClassSettings, LaneId, LaneSnapshot, Offered, Packet, PeerId, Poll, Protocol, Receiver, RouteTable, Rule,
    Transmitter, TrunkPlan,
};
use trunkline_units::{Instant, Rate, Rng};

/// A packet without its payload.
struct Reference {
    len: usize,
    start: [u8; 40],
}

impl Item for Reference {
    fn bytes(&self) -> usize {
        self.len
    }
}

impl Packet for Reference {
    fn prefix(&self) -> &[u8] {
        &self.start
    }
}

const PACKETS: usize = 2_000_000;
const BATCH: usize = 64;
const PAYLOAD: u32 = 1400;

fn main() {
    let only: Option<u32> = std::env::args().skip(1).find_map(|word| word.parse().ok());
    println!(
        "transmitter, ns per packet: parse + route + flow + classify + filter + queue + schedule + frame + receive + \
         acknowledge; best of 5 rounds"
    );
    println!("{:>8} {:>8} {:>12} {:>12} {:>8}", "flows", "routes", "transmitter", "all", "ratio");
    let mut base = 0.0;
    for (flows, routes) in
        [(1, 1), (100, 1), (1000, 1), (10_000, 1), (100_000, 1), (1, 1000), (100_000, 1000)]
    {
        if only.is_some_and(|only| only != flows) {
            continue;
        }
        let rounds: Vec<(f64, f64)> = (0..5).map(|_| round(flows, routes)).collect();
        let best = |pick: fn(&(f64, f64)) -> f64| rounds.iter().map(pick).fold(f64::INFINITY, f64::min);
        let (transmitter, all) = (best(|r| r.0), best(|r| r.1));
        if base == 0.0 {
            base = transmitter;
        }
        println!("{flows:>8} {routes:>8} {transmitter:>12.1} {all:>12.1} {:>8.2}", transmitter / base);
    }
}

/// The classes of a gateway that is told nothing: interactive, tcp, other.
fn plan() -> TrunkPlan {
    let interactive = vec![
        Rule { protocol: Some(Protocol::AnyIcmp), ..Rule::default() },
        Rule { dscp: Some([46].into_iter().collect()), ..Rule::default() },
        Rule { either_ports: vec![22..=22, 53..=53, 123..=123], ..Rule::default() },
        Rule { interactive: true, ..Rule::default() },
    ];
    let tcp = vec![Rule { protocol: Some(Protocol::Number(6)), ..Rule::default() }];
    let trunk = Settings::Trunk(TrunkSettings::default());
    TrunkPlan::one_lane_per_class(vec![
        ClassSettings::new("interactive", interactive, trunk, 0),
        ClassSettings::new("tcp", tcp, trunk, 0),
        ClassSettings::new("other", vec![], Settings::CoDel(CoDelSettings::default()), 0),
    ])
}

/// Nanoseconds a packet of the transmitter alone, and of everything.
fn round(flows: u32, routes: u32) -> (f64, f64) {
    let mut transmitter: Transmitter<Reference> = Transmitter::new(plan(), 1 << 18, 1);
    let table: RouteTable<u32> = (0..routes)
        .map(|n| {
            let prefix = ipnet::Ipv4Net::new(Ipv4Addr::from(0x0a00_0000 | n << 8), 24).expect("a prefix");
            (prefix.into(), n)
        })
        .collect();
    let everywhere = "10.0.0.0/8".parse().expect("a prefix");
    let mut receiver = Receiver::new(PeerId(0), Arc::new([(everywhere, PeerId(0))].into_iter().collect()));
    // One template; the flow is in its addresses and ports, changed in place.
    let mut packet = build::tcp(&build::Ip::v4(), &build::Tcp::default(), &[0; PAYLOAD as usize]);
    let mut sequence = vec![1_u32; flows as usize];
    let mut rng = Rng::new(1, "flows");
    let lane = LaneSnapshot {
        srtt: Some(Duration::from_millis(30)),
        min_rtt: Some(Duration::from_millis(30)),
        delivery_rate: Some(Rate::from_mbit(10_000.0)),
        window: 40_000_000,
        ..LaneSnapshot::default()
    };
    let mut in_transmitter = Duration::ZERO;
    let (mut frames, mut position) = (0_usize, 0_u64);
    // A first pass makes every flow known, and is not measured.
    let warm = flows as usize / BATCH + 100;
    let mut start = Clock::now();
    for batch in 0..warm + PACKETS / BATCH {
        if batch == warm {
            (start, in_transmitter, frames) = (Clock::now(), Duration::ZERO, 0);
        }
        // 64 packets in 70 µs are 10 Gbit/s.
        let now = Instant::from_nanos(batch as u64 * 70_000);
        let batch_start = Clock::now();
        for _ in 0..BATCH {
            let flow = rng.below(u64::from(flows)) as u32;
            let source = 0x0a00_0000 | flow;
            let destination = 0x0a00_0001 | (flow % routes) << 8;
            let seq = &mut sequence[flow as usize];
            packet[4..6].copy_from_slice(&(*seq as u16).to_be_bytes());
            packet[12..16].copy_from_slice(&source.to_be_bytes());
            packet[16..20].copy_from_slice(&destination.to_be_bytes());
            packet[20..22].copy_from_slice(&(1024 + (flow >> 4) as u16 % 60_000).to_be_bytes());
            packet[24..28].copy_from_slice(&seq.to_be_bytes());
            *seq = seq.wrapping_add(PAYLOAD);
            let headers = Headers::parse(&packet, packet.len()).expect("a sound packet");
            black_box(table.lookup(headers.destination));
            let start = *packet.first_chunk().expect("longer than its headers");
            let offered =
                transmitter.handle_packet(now, &headers, Reference { len: packet.len(), start }, drop);
            debug_assert!(matches!(offered, Offered::Queued(_)));
            black_box(&offered);
        }
        for lane in (0..2).map(LaneId) {
            while let Poll::Packet(sent) = transmitter.poll_transmit(now, lane, &mut usize::MAX.clone(), drop)
            {
                let head = FrameHead { packet_len: sent.len, offload: Offload::None };
                let mut bytes = [0; MAX_HEAD];
                black_box(head.encode_before(&mut bytes));
                frames += 1;
                position += 1;
            }
            transmitter.handle_transmitted(lane, position);
            transmitter.handle_delivered(lane, position.saturating_sub(4096));
        }
        if batch % 64 == 0 {
            transmitter.handle_lane(now, LaneId(1), &lane, position.saturating_sub(4096));
        }
        in_transmitter += batch_start.elapsed();
        // As many come back as went.
        for _ in 0..BATCH {
            let head = FrameHead { packet_len: packet.len(), offload: Offload::None };
            let (headers, _) = receiver.handle_frame(&head, &packet).expect("a sound packet");
            transmitter.handle_returning(now, &headers, &packet);
        }
    }
    let elapsed = start.elapsed();
    assert_eq!(frames, PACKETS / BATCH * BATCH, "every packet went through");
    assert!(table.lookup(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))).is_some());
    let per_packet = |time: Duration| time.as_secs_f64() * 1e9 / frames as f64;
    (per_packet(in_transmitter), per_packet(elapsed))
}
