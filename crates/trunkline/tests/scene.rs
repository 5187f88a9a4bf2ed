//! The testbed's scene with the gateways of this build.

use std::net::SocketAddr;
use std::time::Duration;

use trunkline_testbed::gateway::GatewayError;
use trunkline_testbed::link::{DuplexSettings, Scheduling};
use trunkline_testbed::privilege;
use trunkline_testbed::scene::{Dialling, Encryption, Gateway, GatewaySetup, Plan, Scene, SceneError, Wan};
use trunkline_testbed::traffic::{EchoServer, PingSettings, Stop, ping};
use trunkline_units::Rate;

const BINARY: &str = env!("CARGO_BIN_EXE_trunkline");
const UP_LIMIT: Duration = Duration::from_secs(30);

fn answered(scene: &Scene, plan: Plan) -> usize {
    let server = EchoServer::start(&scene.x, SocketAddr::new(plan.x, 0), Scheduling::Shared).expect("server");
    let settings = PingSettings::new(server.address(), Duration::from_millis(2), 20);
    scene.a.run(|| ping(&settings, &Stop::new())).expect("ping").round_trips.len()
}

#[test]
fn a_trunk_carries_both_families_and_comes_back_after_a_crash() {
    if !privilege::available("a_trunk_carries_both_families_and_comes_back_after_a_crash") {
        return;
    }
    let rate = Rate::from_bits_per_second(20_000_000);
    let wan = DuplexSettings::wide_area(rate, Duration::from_millis(10), Duration::from_millis(50));
    let scene = Scene::new(Wan::Emulated(wan)).expect("scene");
    // Left where it is, this route would carry what the trunk is to carry.
    scene.route_directly().expect("route");
    let mut setup = GatewaySetup::new(BINARY, Encryption::Tls);
    setup.dialling = Dialling::Both;
    setup.lanes = Some("congestion_control = \"reno\"".to_owned());
    setup.tun = Some("tx_queue_len = 100".to_owned());
    setup.classes = Some("[[classes]]\nname = \"all\"".to_owned());
    let mut gateways = scene.start_gateways(&setup).expect("gateways");
    let plans = if scene.has_ipv6() { vec![Plan::IPV4, Plan::IPV6] } else { vec![Plan::IPV4] };
    for plan in &plans {
        assert_eq!(answered(&scene, *plan), 20, "{}", plan.x);
    }
    let status = gateways.status(Gateway::T1).expect("status");
    let (class, lane) = (&status.peers[0].classes[0], &status.peers[0].lanes[0]);
    assert_eq!((&class.name, &class.lane_group), (&"all".into(), &"all".into()));
    assert_eq!((&lane.lane_group, &lane.congestion_control), (&"all".into(), &"reno".into()));
    assert!(class.packets_sent >= 20 * plans.len() as u64, "{class:?}");
    assert!(gateways.memory().expect("memory").resident_bytes > 1_000_000);

    let first = gateways.pid(Gateway::T2);
    gateways.kill9(Gateway::T2);
    assert_eq!((gateways.pid(Gateway::T2), answered(&scene, Plan::IPV4)), (None, 0));
    gateways.restart(Gateway::T2).expect("restart");
    gateways.wait_until_up(UP_LIMIT).expect("lanes");
    assert!(gateways.pid(Gateway::T2).is_some_and(|pid| Some(pid) != first));
    assert_eq!(answered(&scene, Plan::IPV4), 20);

    gateways.stop().expect("stop");
    assert!(gateways.cpu_time().expect("none runs").total().is_zero());
    assert_eq!(answered(&scene, Plan::IPV4), 0, "the trunk's routes went with it");
}

#[test]
fn a_gateway_that_refuses_its_file_says_so_in_the_error() {
    if !privilege::available("a_gateway_that_refuses_its_file_says_so_in_the_error") {
        return;
    }
    let scene = Scene::new(Wan::Veth).expect("scene");
    let mut setup = GatewaySetup::new(BINARY, Encryption::None);
    setup.tun = Some("colour = \"blue\"".to_owned());
    let error = scene.start_gateways(&setup).expect_err("no such key");
    assert!(
        matches!(error, SceneError::Gateway(GatewayError::Ended { .. }))
            && error.to_string().contains("colour"),
        "{error}"
    );
}
