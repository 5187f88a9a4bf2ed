//! Who chooses ports cannot choose whom their flows meet.

use crate::common::{Whole, class, next, offer, udp};
use trunkline_packet::{build, protocol};
use trunkline_queue::{FqCoDelSettings, Settings};
use trunkline_trunk::{LaneId, Transmitter, TrunkPlan};
use trunkline_units::Instant;

const VICTIM: u16 = 9;
const QUEUES: u64 = 1024;
const NOW: Instant = Instant::ZERO;

/// A hash without a key, by which flows once found their queues.
fn unkeyed(port: u16) -> u64 {
    let mix = |a: u64, b: u64| {
        let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xbf58_476d_1ce4_e5b9);
        (product >> 64) as u64 ^ product as u64
    };
    let address = |bytes: [u8; 4]| u64::from(u32::from_be_bytes(bytes));
    let ip = build::Ip::v4();
    let (std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination)) = (ip.source, ip.destination)
    else {
        unreachable!("these are IPv4")
    };
    let ports = u64::from(port) << 32 | 80 << 16 | u64::from(protocol::UDP);
    mix(mix(address(source.octets()), address(destination.octets())), ports)
}

/// How many packets of the flows of `ports` go before the one of the victim, which came after all of theirs.
fn before_the_victim(ports: &[u16], seed: u64) -> usize {
    let mut settings = class("all", vec![], 0);
    settings.queue = Settings::FqCoDel(FqCoDelSettings::default());
    let mut transmitter: Transmitter<Whole> =
        Transmitter::new(TrunkPlan::one_lane_per_class(vec![settings]), 1024, seed);
    for _ in 0..10 {
        for port in ports {
            let _ = offer(&mut transmitter, NOW, udp(*port, 80, 1400));
        }
    }
    let victim = udp(VICTIM, 80, 1000);
    let _ = offer(&mut transmitter, NOW, victim.clone());
    let mut before = 0;
    while next(&mut transmitter, NOW, LaneId(0)).expect("the victim's packet waits") != victim {
        before += 1;
    }
    before
}

#[test]
fn ports_chosen_by_what_everybody_knows_do_not_meet_a_victim_in_its_queue() {
    let meets = |port: &u16| *port != VICTIM && unkeyed(*port) % QUEUES == unkeyed(VICTIM) % QUEUES;
    let chosen: Vec<u16> = (0..=u16::MAX).filter(meets).take(60).collect();
    assert_eq!(chosen.len(), 60);
    for seed in 1..=5 {
        // Two packets are a flow's turn. In one queue with the victim all 600 would go first.
        let before = before_the_victim(&chosen, seed);
        assert!((60..200).contains(&before), "{before} packets of 60 flows, seed {seed}");
    }
}
