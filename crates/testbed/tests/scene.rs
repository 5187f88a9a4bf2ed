//! The standard scene, as far as it goes without a gateway program.

mod common;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use common::within_three_attempts;
use trunkline_testbed::clock;
use trunkline_testbed::gateway::GatewayError;
use trunkline_testbed::lateness::{Lateness, judges_time};
use trunkline_testbed::link::{DuplexSettings, Scheduling};
use trunkline_testbed::privilege;
use trunkline_testbed::scene::{Encryption, GatewaySetup, Plan, Scene, SceneError, Wan};
use trunkline_testbed::statistics::percentile;
use trunkline_testbed::traffic::{
    BulkSettings, EchoServer, PingReport, PingSettings, Stop, TcpSink, bulk, ping,
};
use trunkline_units::Rate;

fn pings(scene: &Scene, address: IpAddr) -> PingReport {
    let server =
        EchoServer::start(&scene.x, SocketAddr::new(address, 0), Scheduling::Shared).expect("server");
    let mut settings = PingSettings::new(server.address(), Duration::from_millis(2), 10);
    settings.timeout = Duration::from_millis(300);
    scene.a.run(|| ping(&settings, &Stop::new())).expect("ping")
}

fn plans(scene: &Scene) -> Vec<Plan> {
    if scene.has_ipv6() { vec![Plan::IPV4, Plan::IPV6] } else { vec![Plan::IPV4] }
}

#[test]
fn sites_reach_each_other_only_while_there_is_a_route() {
    if !privilege::available("sites_reach_each_other_only_while_there_is_a_route") {
        return;
    }
    let scene = Scene::new(Wan::Veth).expect("scene");
    scene.unroute_directly().expect("nothing to do");
    for plan in plans(&scene) {
        assert_eq!(pings(&scene, plan.x).round_trips.len(), 0, "{}", plan.x);
        scene.route_directly().expect("route");
        assert_eq!(pings(&scene, plan.x).round_trips.len(), 10, "{}", plan.x);
        scene.unroute_directly().expect("unroute");
        assert_eq!(pings(&scene, plan.x).round_trips.len(), 0, "{}", plan.x);
    }
}

#[test]
fn an_emulated_wan_has_its_delay_and_its_rate_in_both_families() {
    if !privilege::available("an_emulated_wan_has_its_delay_and_its_rate_in_both_families") {
        return;
    }
    let rate = Rate::from_bits_per_second(50_000_000);
    let round_trip = Duration::from_millis(20);
    let wan = DuplexSettings::wide_area(rate, round_trip, Duration::from_millis(30));
    let scene = Scene::new(Wan::Emulated(wan)).expect("scene");
    scene.route_directly().expect("route");
    for plan in plans(&scene) {
        within_three_attempts("delay", || {
            let lateness = Lateness::watch();
            let median = percentile(&pings(&scene, plan.x).round_trips, 0.5).ok_or("no answer")?;
            let fits = median >= round_trip && median < round_trip + lateness.tolerance(4);
            if fits { Ok(()) } else { Err(format!("{median:?} of {round_trip:?} to {}", plan.x)) }
        });
        within_three_attempts("rate", || {
            let sink = TcpSink::start(&scene.x, SocketAddr::new(plan.x, 0), Duration::from_millis(50))
                .expect("sink");
            let begin = clock::now();
            let settings = BulkSettings::new(sink.address(), "cubic", 1, Duration::from_millis(1500));
            scene.a.run(|| bulk(&settings, &Stop::new()));
            let goodput = sink.finish().goodput(begin + Duration::from_millis(500), clock::now());
            let share = goodput.bits_per_second() as f64 / rate.bits_per_second() as f64;
            let least = if judges_time() { 0.7 } else { 0.3 };
            let fits = (least..0.98).contains(&share);
            if fits { Ok(()) } else { Err(format!("{share} of the rate to {}", plan.x)) }
        });
    }
}

#[test]
fn a_program_that_is_no_gateway_is_an_error_that_says_what_it_said() {
    if !privilege::available("a_program_that_is_no_gateway_is_an_error_that_says_what_it_said") {
        return;
    }
    let scene = Scene::new(Wan::Veth).expect("scene");
    let start = |binary: &str| scene.start_gateways(&GatewaySetup::new(binary, Encryption::Tls));
    let error = start("/bin/false").expect_err("not a gateway");
    assert!(
        matches!(error, SceneError::Gateway(GatewayError::Key { .. }))
            && error.to_string().contains("genkey"),
        "{error}"
    );
    // Echo "makes keys" and ends at once when it should stay up.
    let error = start("/bin/echo").expect_err("not a gateway");
    assert!(
        matches!(error, SceneError::Gateway(GatewayError::Ended { .. }))
            && error.to_string().contains("status: 0"),
        "{error}"
    );
}
