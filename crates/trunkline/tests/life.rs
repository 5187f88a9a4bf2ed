//! The lifecycle of a gateway: start, reload, change of address, end.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::common::{LANES, check_stream, edit, lane, lanes_up, setup, sites, wait_for};
use trunkline_status::LaneState;
use trunkline_testbed::machine;
use trunkline_testbed::namespace::Host;
use trunkline_testbed::scene::{Dialling, Encryption, Gateway, GatewaySetup, Plan, Wan};

fn trunkline(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_trunkline")).args(arguments).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

const CLASSES: &str = r#"
[[classes]]
name = "udp"
match = [{ protocol = "udp" }]

[[classes]]
name = "tcp"
match = [{ protocol = "tcp" }]

[[classes]]
name = "rest"
"#;

#[test]
fn a_reload_changes_classes_without_touching_lanes_that_stay() {
    machine::share();
    let test = "a_reload_changes_classes_without_touching_lanes_that_stay";
    let setup = GatewaySetup { classes: Some(CLASSES.to_owned()), ..setup(Encryption::Tls) };
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup) else { return };
    for gateway in Gateway::BOTH {
        edit(&gateways, gateway, |text| {
            text.replace("name = \"udp\"", "name = \"voice\"").replace(
                "match = [{ protocol = \"tcp\" }]",
                "match = [{ protocol = \"tcp\" }]\nqueue = { discipline = \"tail-drop\", packets = 77 }",
            )
        });
        gateways.reload(gateway).expect("it reloads");
    }
    wait_for("the new class has its lane", Duration::from_secs(15), &gateways, || {
        lanes_up(&gateways, Gateway::T1) == 3 && lanes_up(&gateways, Gateway::T2) == 3
    });
    for gateway in Gateway::BOTH {
        assert_eq!(lane(&gateways, gateway, "tcp").established, 1, "untouched");
        assert_eq!(lane(&gateways, gateway, "rest").established, 1, "untouched");
        assert_eq!(lane(&gateways, gateway, "voice").state, LaneState::Up);
    }
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 5_000_000);
}

#[test]
fn a_reload_switches_lanes_that_stay_between_auto_and_a_named_congestion_control() {
    machine::share();
    let test = "a_reload_switches_lanes_that_stay_between_auto_and_a_named_congestion_control";
    let lanes = Some("congestion_control = \"reno\"".to_owned());
    let Some((_scene, gateways)) = sites(test, Wan::Veth, &GatewaySetup { lanes, ..setup(Encryption::Tls) })
    else {
        return;
    };
    let becomes = |from: &str, to: &str, chosen: &str| {
        edit(&gateways, Gateway::T1, |text| {
            text.replace(&format!("congestion_control = {from:?}"), &format!("congestion_control = {to:?}"))
        });
        gateways.reload(Gateway::T1).expect("it reloads");
        let lane = lane(&gateways, Gateway::T1, "tcp");
        assert_eq!((lane.congestion_control.as_str(), lane.established), (chosen, 1));
    };
    assert_eq!(lane(&gateways, Gateway::T1, "tcp").congestion_control, "reno");
    becomes("reno", "auto", "cubic");
    becomes("auto", "reno", "reno");
}

#[test]
fn a_reload_that_cannot_be_applied_changes_nothing_and_says_why() {
    machine::share();
    let test = "a_reload_that_cannot_be_applied_changes_nothing_and_says_why";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    let file = gateways.configuration_file(Gateway::T1).to_owned();
    let good = fs::read_to_string(&file).expect("its file");
    for (broken, says) in [
        (good.replace("[tun]", "[tun]\nqueues = 3"), "tun.queues"),
        (good.replace("routes =", "roots ="), "roots"),
        (good.replace("[tun]", "[lanes]\ncongestion_control = \"nonesuch\"\n[tun]"), "nonesuch"),
    ] {
        fs::write(&file, broken).expect("its file");
        let (code, _, error) =
            trunkline(&["reload", &gateways.control_socket(Gateway::T1).to_string_lossy()]);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(says), "{error}");
        assert_eq!(lanes_up(&gateways, Gateway::T1), LANES);
    }
    fs::write(&file, good).expect("its file");
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 1_000_000);
}

#[test]
fn sites_that_both_dial_have_each_lane_once() {
    machine::share();
    let test = "sites_that_both_dial_have_each_lane_once";
    let setup = GatewaySetup { dialling: Dialling::Both, ..setup(Encryption::Tls) };
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup) else { return };
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 5_000_000);
    std::thread::sleep(Duration::from_secs(2));
    for gateway in Gateway::BOTH {
        assert_eq!(lanes_up(&gateways, gateway), LANES);
        for class in ["interactive", "tcp", "other"] {
            let established = lane(&gateways, gateway, class).established;
            assert!(established <= 2, "{class}: made {established} times");
        }
    }
}

#[test]
fn a_peer_whose_address_changed_is_found_when_it_dials() {
    machine::share();
    let test = "a_peer_whose_address_changed_is_found_when_it_dials";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    let (old, new): (ipnet::IpNet, ipnet::IpNet) =
        ("198.18.2.1/24".parse().expect("a prefix"), "198.18.2.77/24".parse().expect("a prefix"));
    scene
        .t1
        .netlink(|netlink| {
            let wan = netlink.link_index("wan")?;
            netlink.delete_address(wan, old)?;
            netlink.add_address(wan, new, None)
        })
        .expect("another address");
    wait_for("every lane comes from the new address", Duration::from_secs(25), &gateways, || {
        ["interactive", "tcp", "other"].iter().all(|class| {
            let lane = lane(&gateways, Gateway::T2, class);
            lane.state == LaneState::Up && lane.remote.is_some_and(|r| r.starts_with("198.18.2.77:"))
        })
    });
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 1_000_000);
}

#[test]
fn down_ends_a_gateway_and_leaves_nothing() {
    machine::share();
    let test = "down_ends_a_gateway_and_leaves_nothing";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    let socket = gateways.control_socket(Gateway::T1).to_owned();
    let (code, said, error) = trunkline(&["down", &socket.to_string_lossy()]);
    assert_eq!(code, 0, "{error}");
    assert!(said.contains("goes down"), "{said}");
    wait_for("the socket is gone", Duration::from_secs(5), &gateways, || !socket.exists());
    let device_gone = |host: &Host| host.netlink(|n| n.link_exists("trunk")).is_ok_and(|exists| !exists);
    wait_for("the device is gone", Duration::from_secs(5), &gateways, || device_gone(&scene.t1));
    wait_for("the peer notices", Duration::from_secs(3), &gateways, || lanes_up(&gateways, Gateway::T2) == 0);
    let error = lane(&gateways, Gateway::T2, "tcp").last_error.unwrap_or_default();
    assert!(error.contains("the peer closed the lane"), "{error}");
    let (code, _, error) = trunkline(&["status", &socket.to_string_lossy()]);
    assert_eq!(code, 3, "{error}");
}

#[test]
fn metrics_are_served_as_text_and_json() {
    use std::io::{Read as _, Write as _};
    machine::share();
    let test = "metrics_are_served_as_text_and_json";
    let setup = GatewaySetup {
        more: Some("[metrics]\nlisten = \"127.0.0.1:9460\"".to_owned()),
        ..setup(Encryption::Tls)
    };
    let Some((scene, _gateways)) = sites(test, Wan::Veth, &setup) else { return };
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 1_000_000);
    let ask = |request: &str| {
        scene.t1.run(|| {
            let mut stream = std::net::TcpStream::connect("127.0.0.1:9460").expect("it listens");
            stream.write_all(request.as_bytes()).expect("asked");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("answered");
            answer
        })
    };
    let page = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    for family in [
        "trunkline_class_packets_total{peer=\"t2\",class=\"tcp\"}",
        "trunkline_class_dropped_packets_total{peer=\"t2\",class=\"tcp\",reason=\"segment_limit\"}",
        "trunkline_class_sojourn_seconds_bucket{peer=\"t2\",class=\"tcp\",le=\"+Inf\"}",
        "trunkline_lane_cwnd_segments{peer=\"t2\",lane_group=\"tcp\",shard=\"0\",lane=\"0\"}",
        "trunkline_lane_rtt_seconds",
        "trunkline_lane_retransmitted_segments_total",
        "trunkline_lane_unsent_bytes",
        "trunkline_lane_unacked_bytes",
    ] {
        assert!(page.contains(family), "{family} is missing in\n{page}");
    }
    assert!(ask("GET /metrics.json HTTP/1.1\r\nHost: x\r\n\r\n").contains("\"peers\""));
    assert!(ask("GET /etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask("POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 405"));
}

#[test]
fn top_shows_the_classes_lanes_and_flows_of_a_gateway() {
    machine::share();
    let test = "top_shows_the_classes_lanes_and_flows_of_a_gateway";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 1_000_000);
    let socket = gateways.control_socket(Gateway::T1).to_string_lossy();
    let (code, text, error) = trunkline(&["top", "--once", "--interval", "0.2", &socket]);
    assert_eq!(code, 0, "{error}");
    let has = |start: &str, part: &str| text.lines().any(|l| l.starts_with(start) && l.contains(part));
    assert!(has("tcp ", "%"), "the class: {text}");
    assert!(has("tcp.0 ", " up "), "the lane: {text}");
    assert!(has(&format!("tcp {}:", Plan::IPV4.a), &format!("> {}:", Plan::IPV4.x)), "the flow: {text}");
}

#[test]
fn a_wrong_file_is_refused_with_its_line_and_what_is_allowed() {
    machine::share();
    let directory = std::env::temp_dir().join(format!("trunkline-check-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("site.toml");
    fs::write(&file, "private_key_file = \"a.key\"\n[tun]\nmtu = 12\n").expect("a file");
    let (code, _, error) = trunkline(&["check", &file.to_string_lossy()]);
    fs::remove_dir_all(&directory).expect("removed");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("site.toml:3:") && error.contains("mtu"), "{error}");
}
