//! Once it knows its flows and its queues have grown, a transmitter allocates nothing.

use std::time::Duration;

use crate::common;
use trunkline_packet::{Headers, build};
use trunkline_queue::{CoDelSettings, FqCoDelSettings, Item, Settings, TrunkSettings};
use trunkline_trunk::{ClassSettings, LaneId, LaneSnapshot, Packet, Poll, Rule, Transmitter, TrunkPlan};
use trunkline_units::{Instant, Rate};

/// A packet without its payload, so that nothing but the transmitter could allocate.
struct Reference([u8; 40]);

impl Item for Reference {
    fn bytes(&self) -> usize {
        1440
    }
}

impl Packet for Reference {
    fn prefix(&self) -> &[u8] {
        &self.0
    }
}

const FLOWS: u32 = 500;

/// Sends `rounds` rounds of one packet of each flow through lanes that do not carry all of it, so that
/// queues stand and drop.
fn run(transmitter: &mut Transmitter<Reference>, template: &mut [u8], rounds: std::ops::Range<u32>) -> u64 {
    let snapshot = LaneSnapshot {
        srtt: Some(Duration::from_millis(20)),
        min_rtt: Some(Duration::from_millis(20)),
        delivery_rate: Some(Rate::from_mbit(500.0)),
        window: 1_000_000,
        ..LaneSnapshot::default()
    };
    let (mut dropped, mut position) = (0, u64::from(rounds.start) * 1_000_000);
    for round in rounds {
        let now = Instant::from_millis(u64::from(round) * 12);
        for flow in 0..FLOWS {
            template[9] = if flow % 5 == 0 { 17 } else { 6 };
            template[20..22].copy_from_slice(&(1000 + flow as u16).to_be_bytes());
            template[24..28].copy_from_slice(&(round * 1400).to_be_bytes());
            let headers = Headers::parse(template, 1440).expect("a sound packet");
            let packet = Reference(*template.first_chunk().expect("its headers"));
            let _ = transmitter.handle_packet(now, &headers, packet, |_| dropped += 1);
        }
        // Nine tenths of what comes, once the flows count as bulk.
        for (lane, packets) in [(LaneId(0), 10), (LaneId(1), FLOWS * 72 / 100), (LaneId(2), FLOWS * 18 / 100)]
        {
            let mut room = 1440 * packets as usize;
            while let Poll::Packet(_) = transmitter.poll_transmit(now, lane, &mut room, |_| dropped += 1) {
                position += 1440;
            }
            transmitter.handle_transmitted(lane, position);
            transmitter.handle_lane(now, lane, &snapshot, position.saturating_sub(500_000));
        }
        template.swap(12, 16);
        let headers = Headers::parse(template, 1440).expect("a sound packet");
        transmitter.handle_returning(now, &headers, template);
        template.swap(12, 16);
    }
    dropped
}

#[test]
fn a_transmitter_in_its_stride_allocates_nothing() {
    let interactive = vec![Rule { interactive: true, ..Rule::default() }];
    let tcp = common::protocol(6);
    let plan = TrunkPlan::one_lane_per_class(vec![
        ClassSettings::new("interactive", interactive, Settings::FqCoDel(FqCoDelSettings::default()), 0),
        ClassSettings::new("tcp", vec![tcp], Settings::Trunk(TrunkSettings::default()), 0),
        ClassSettings::new("other", vec![], Settings::CoDel(CoDelSettings::default()), 0),
    ]);
    let mut transmitter = Transmitter::new(plan, 1 << 16, 1);
    let mut template = build::tcp(&build::Ip::v4(), &build::Tcp::default(), &[0; 1400]);
    let warm = run(&mut transmitter, &mut template, 0..300);
    assert!(warm > 0, "queues that drop are the harder case");
    let mut dropped = 0;
    let measured = allocation_counter::measure(|| dropped = run(&mut transmitter, &mut template, 300..600));
    assert!(dropped > 0);
    assert_eq!(measured.count_total, 0, "{} packets: {measured:?}", 300 * FLOWS);
}
