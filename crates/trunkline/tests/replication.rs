//! Packets that go over two lanes of a trunk whose path loses some, on real kernels: each arrives once, and the counters of both
//! gateways say so. How long they take is judged in the simulator (`crates/sim/tests/trunk.rs`).

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{self, peer, setup, sites};
use trunkline_link::Loss;
use trunkline_testbed::link::DuplexSettings;
use trunkline_testbed::scene::{Encryption, Gateway, GatewaySetup, Plan, Wan};
use trunkline_units::Rate;

const CLASSES: &str = "[[classes]]\nname = \"urgent\"\nmatch = [{ protocol = \"udp\" }]\nreplicate = true\n\
                       [[classes]]\nname = \"rest\"\n";
const PACKETS: u32 = 1500;

#[test]
fn each_packet_that_goes_over_two_lanes_arrives_once() {
    let test = "each_packet_that_goes_over_two_lanes_arrives_once";
    for encryption in [Encryption::Tls, Encryption::None] {
        let way = DuplexSettings::wide_area(
            Rate::from_mbit(20.0),
            Duration::from_millis(20),
            Duration::from_millis(50),
        );
        let way = DuplexSettings { forward: way.forward.loss(Loss::Uniform(0.03)), ..way };
        let setup = GatewaySetup { classes: Some(CLASSES.to_owned()), ..setup(encryption) };
        let Some((scene, gateways)) = sites(test, Wan::Emulated(way), &setup) else { return };
        let sink = scene.x.run(|| UdpSocket::bind((Plan::IPV4.x, 7001))).expect("a socket");
        let source = scene.a.run(|| UdpSocket::bind((Plan::IPV4.a, 0))).expect("a socket");
        sink.set_read_timeout(Some(Duration::from_secs(3))).expect("a time-out");
        let to = SocketAddr::new(Plan::IPV4.x, 7001);
        let sender = thread::spawn(move || {
            let start = Instant::now();
            for number in 0..PACKETS {
                source.send_to(&number.to_be_bytes(), to).expect("the trunk takes it");
                thread::sleep((Duration::from_millis(4) * number).saturating_sub(start.elapsed()));
            }
        });
        let mut seen = [false; PACKETS as usize];
        let mut packet = [0; 16];
        while let Ok(length) = sink.recv(&mut packet) {
            let number = packet[..length]
                .first_chunk()
                .map_or(usize::MAX, |bytes| u32::from_be_bytes(*bytes) as usize);
            assert!(!std::mem::replace(&mut seen[number], true), "{encryption:?}: {number} came twice");
        }
        sender.join().expect("the sender ends");
        let missing = seen.iter().filter(|seen| !**seen).count();
        assert_eq!(missing, 0, "{encryption:?}: lanes over TCP lose none");
        let copies = common::class(&gateways, Gateway::T1, "urgent").copies;
        let duplicates = peer(&gateways, Gateway::T2).received.duplicates;
        // Before the first loss is seen there are none.
        assert!(
            copies > 100 && duplicates == copies,
            "{encryption:?}: {copies} copies, {duplicates} left out"
        );
    }
}
