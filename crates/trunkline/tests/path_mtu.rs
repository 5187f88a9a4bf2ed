//! Lanes over TCP on paths that drop long packets without a word to anybody, on real kernels.

use std::time::Duration;

use crate::common::{self, Checker, check_stream, ip, send, setup, wait_for};
use trunkline_status::LaneState;
use trunkline_testbed::link::{Direction, DuplexSettings, LinkHandle};
use trunkline_testbed::privilege;
use trunkline_testbed::scene::{Encryption, Gateway, Gateways, Plan, Scene, Wan};
use trunkline_units::Rate;

const LIMIT: Duration = Duration::from_secs(60);
const BOUND: &str = "long packets do not get through";

/// A scene whose gateways are not started yet.
fn scene(test: &str) -> Option<(Scene, LinkHandle)> {
    if !privilege::available(test) {
        return None;
    }
    let rate = Rate::from_mbit(50.0);
    let wan = DuplexSettings::wide_area(rate, Duration::from_millis(10), Duration::from_millis(50));
    let scene = Scene::new(Wan::Emulated(wan)).expect("a scene");
    let link = scene.link().expect("an emulated link");
    Some((scene, link))
}

/// The path swallows packets that are longer, in one direction. Its devices keep their MTU of 1500 bytes.
fn swallow(link: &LinkHandle, way: Direction, longest: u32) {
    link.change(way, |settings| settings.mtu = longest).expect("the settings");
}

/// A stream of full packets in each direction.
fn both_ways(scene: &Scene) {
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 1_000_000);
    check_stream(&scene.x, &scene.a, Plan::IPV4.a, 1_000_000);
}

fn log_has(gateways: &Gateways, text: &str) -> bool {
    Gateway::BOTH.into_iter().any(|gateway| gateways.log(gateway).contains(text))
}

#[test]
fn lanes_come_up_and_carry_full_packets_where_long_packets_vanish() {
    let test = "lanes_come_up_and_carry_full_packets_where_long_packets_vanish";
    let (forward, backward) = (Direction::Forward, Direction::Backward);
    let cases: [(&[Direction], u32); 4] =
        [(&[forward, backward], 1400), (&[forward], 1492), (&[backward], 1492), (&[forward, backward], 600)];
    for (ways, longest) in cases {
        let Some((scene, link)) = scene(test) else { return };
        for way in ways {
            swallow(&link, *way, longest);
        }
        let gateways = scene.start_gateways(&setup(Encryption::Tls)).expect("all lanes are up");
        both_ways(&scene);
        assert!(log_has(&gateways, BOUND), "{ways:?}, {longest}: what the path swallowed?");
    }
}

#[test]
fn a_transfer_goes_on_when_its_path_begins_to_swallow_long_packets() {
    let test = "a_transfer_goes_on_when_its_path_begins_to_swallow_long_packets";
    for way in Direction::BOTH {
        let Some((scene, link)) = scene(test) else { return };
        let gateways = scene.start_gateways(&setup(Encryption::Tls)).expect("all lanes are up");
        both_ways(&scene);
        assert!(!log_has(&gateways, BOUND), "the path takes all");
        let (from, to) = match way {
            Direction::Forward => (&scene.a, (&scene.x, Plan::IPV4.x)),
            Direction::Backward => (&scene.x, (&scene.a, Plan::IPV4.a)),
        };
        let checker = Checker::start(to.0, to.1);
        let bytes = 8_000_000;
        let sending = send(from, checker.address, bytes, Some(2_000_000));
        std::thread::sleep(Duration::from_secs(1));
        swallow(&link, way, 1400);
        let took = sending.join().expect("the transfer finishes");
        assert_eq!(checker.finish(), bytes);
        println!("{way:?}: {took:.1?} with a path that swallows, 4 s without");
        assert!(log_has(&gateways, BOUND), "{way:?}");
    }
}

#[test]
fn segments_are_long_again_when_the_path_takes_them() {
    let Some((scene, link)) = scene("segments_are_long_again_when_the_path_takes_them") else { return };
    for way in Direction::BOTH {
        swallow(&link, way, 1400);
    }
    let gateways = scene.start_gateways(&setup(Encryption::Tls)).expect("all lanes are up");
    for way in Direction::BOTH {
        swallow(&link, way, 1500);
    }
    // A change of the network has the gateway try at once what it tries each ten minutes.
    ip(&scene.t1, "address add 198.18.77.1/32 dev wan");
    wait_for("long segments", LIMIT, &gateways, || log_has(&gateways, "long packets get through again"));
    both_ways(&scene);
    for class in ["interactive", "tcp", "other"] {
        let lane = common::lane(&gateways, Gateway::T1, class);
        assert_eq!((lane.state, &lane.last_error), (LaneState::Up, &None), "{lane:?}");
    }
}
