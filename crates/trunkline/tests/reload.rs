//! Reloads: lanes and flows that they must not touch, and settings that they apply.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::common::site::Directory;
use crate::common::{check_stream, edit, lanes_up, setup, sites, wait_for};
use trunkline_netlink::{Existing, Family, Route, RouteKind, Rule, RuleMark};
use trunkline_testbed::machine;
use trunkline_testbed::namespace::Task;
use trunkline_testbed::scene::{Encryption, Gateway, GatewaySetup, Plan, Scene, Wan};

const ONE_CLASS: &str = r#"
[[classes]]
name = "all"
lanes = 1
"#;

/// Connections from the client to an echo server.
struct Flows {
    // Before the server, which ends with them and is waited for.
    streams: Vec<TcpStream>,
    _server: Task<()>,
}

impl Flows {
    fn open(scene: &Scene, count: usize) -> Self {
        let listener = scene.x.run(|| TcpListener::bind((Plan::IPV4.x, 0))).expect("a listener");
        let address = listener.local_addr().expect("its address");
        let server = scene.x.spawn("echo", move || {
            let echoes: Vec<_> = (0..count)
                .map(|_| {
                    let (mut stream, _) = listener.accept().expect("a connection");
                    std::thread::spawn(move || {
                        let mut buffer = [0; 64];
                        while let Ok(read @ 1..) = stream.read(&mut buffer) {
                            if stream.write_all(&buffer[..read]).is_err() {
                                break;
                            }
                        }
                    })
                })
                .collect();
            for echo in echoes {
                drop(echo.join());
            }
        });
        let connect = || {
            let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).expect("connected");
            stream.set_read_timeout(Some(Duration::from_secs(8))).expect("a time-out");
            stream
        };
        Flows { streams: scene.a.run(|| (0..count).map(|_| connect()).collect()), _server: server }
    }

    /// How many answer, each within eight seconds.
    fn alive(&mut self) -> usize {
        let mut answers = 0;
        for stream in &mut self.streams {
            let _ = stream.write_all(b"are you there?");
        }
        for stream in &mut self.streams {
            answers += usize::from(stream.read_exact(&mut [0; 14]).is_ok());
        }
        answers
    }
}

#[test]
fn every_flow_over_two_queues_survives_reloads_of_the_number_of_lanes() {
    machine::share();
    let test = "every_flow_over_two_queues_survives_reloads_of_the_number_of_lanes";
    let setup = GatewaySetup {
        tun: Some("queues = 2".to_owned()),
        classes: Some(ONE_CLASS.to_owned()),
        ..setup(Encryption::Tls)
    };
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup) else { return };
    let mut flows = Flows::open(&scene, 80);
    assert_eq!(flows.alive(), 80, "before any reload");
    let mut lanes = 1;
    for (first, count) in [(Gateway::T1, 3), (Gateway::T2, 2), (Gateway::T1, 4), (Gateway::T2, 1)] {
        for gateway in [first, first.other()] {
            let (from, to) = (format!("lanes = {lanes}"), format!("lanes = {count}"));
            edit(&gateways, gateway, |text| text.replace(&from, &to));
            gateways.reload(gateway).expect("it reloads");
            // Until both sites have the lanes, those of one wait, and the flows that go by them.
            std::thread::sleep(Duration::from_millis(300));
        }
        lanes = count;
        wait_for("every lane is up", Duration::from_secs(15), &gateways, || {
            Gateway::BOTH.iter().all(|gateway| lanes_up(&gateways, *gateway) == 2 * lanes)
        });
        assert_eq!(flows.alive(), 80, "with {lanes} lanes at both");
    }
}

#[test]
fn a_reload_of_fwmark_marks_the_sockets_that_listen() {
    machine::share();
    let test = "a_reload_of_fwmark_marks_the_sockets_that_listen";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    for device in ["all", "wan"] {
        scene.t2.sysctl(&format!("net.ipv4.conf.{device}.rp_filter"), "0").expect("no filter");
    }
    // What leaves T2 without the mark goes nowhere.
    let nowhere =
        Route { kind: RouteKind::Unreachable, ..Route::to("0.0.0.0/0".parse().expect("a prefix")).table(77) };
    let rule = Rule {
        family: Family::V4,
        priority: 100,
        table: 77,
        mark: Some(RuleMark::IsNot(7)),
        suppress_prefix_len: None,
        protocol: 4,
    };
    scene
        .t2
        .netlink(|netlink| {
            netlink.add_route(&nowhere, Existing::Keep)?;
            netlink.add_rule(&rule)
        })
        .expect("a rule");
    let to = (Plan::IPV4.t2_wan, 4600).into();
    let answers = || scene.t1.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(2))).is_ok();
    assert!(!answers(), "without a mark the answer is lost");
    edit(&gateways, Gateway::T2, |text| text.replace("[control]", "[lanes]\nfwmark = 7\n[control]"));
    gateways.reload(Gateway::T2).expect("it reloads");
    assert!(answers(), "the listening socket has the mark");
}

#[test]
fn a_reload_applies_another_private_key_and_replaces_the_lanes() {
    machine::share();
    let test = "a_reload_applies_another_private_key_and_replaces_the_lanes";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    let lanes = lanes_up(&gateways, Gateway::T1);
    let before = gateways.status(Gateway::T1).expect("a status").public_key;
    let file = gateways.configuration_file(Gateway::T1).with_file_name("t1.key");
    let directory = Directory::new();
    let after = directory.key("t1");
    fs::copy(directory.0.join("t1.key"), &file).expect("its key");
    assert_ne!(before, after);
    // After one side alone has changed, neither accepts the other's key.
    gateways.reload(Gateway::T1).expect("it reloads");
    assert_eq!(gateways.status(Gateway::T1).expect("a status").public_key, after);
    wait_for("T2 sees the lanes end", Duration::from_secs(5), &gateways, || {
        lanes_up(&gateways, Gateway::T2) == 0
    });
    wait_for("T1 says why there are none", Duration::from_secs(5), &gateways, || {
        gateways.log(Gateway::T1).contains("does not know our public key")
    });
    assert_eq!(lanes_up(&gateways, Gateway::T1), 0);
    edit(&gateways, Gateway::T2, |text| text.replace(&before, &after));
    gateways.reload(Gateway::T2).expect("it reloads");
    wait_for("the lanes are back under the new key", Duration::from_secs(15), &gateways, || {
        lanes_up(&gateways, Gateway::T1) == lanes && lanes_up(&gateways, Gateway::T2) == lanes
    });
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 2_000_000);
}
