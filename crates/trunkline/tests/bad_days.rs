//! Failures of real networks: processes die, links fail, peers send invalid data. Transfers finish in spite of them.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::common::{
    Checker, LANES, check_stream, class, edit, lane, lanes_up, peer, send, setup, sites, wait_for,
};
use trunkline_gateway::config::Encryption as LaneEncryption;
use trunkline_gateway::handshake::{Dialer, Established, Handshake, Hello, Identity, Progress, VERSION};
use trunkline_gateway::keys::{PublicKey, SecretKey};
use trunkline_status::{Lane, LaneState};
use trunkline_testbed::link::DuplexSettings;
use trunkline_testbed::machine;
use trunkline_testbed::scene::{Encryption, Gateway, Gateways, Plan, Scene, Wan};
use trunkline_units::Rate;

fn wide_area() -> Wan {
    let rate = Rate::from_mbit(50.0);
    Wan::Emulated(DuplexSettings::wide_area(rate, Duration::from_millis(10), Duration::from_millis(50)))
}

/// A transfer that takes some seconds, during which `trouble` happens, and which finishes with every byte.
fn survives(scene: &Scene, trouble: impl FnOnce()) -> Duration {
    let checker = Checker::start(&scene.x, Plan::IPV4.x);
    let bytes = 12_000_000;
    let sending = send(&scene.a, checker.address, bytes, Some(2_000_000));
    std::thread::sleep(Duration::from_secs(2));
    trouble();
    let took = sending.join().expect("the transfer finishes");
    assert_eq!(checker.finish(), bytes);
    took
}

fn killed(test: &str, victim: Gateway) {
    let Some((scene, mut gateways)) = sites(test, wide_area(), &setup(Encryption::Tls)) else { return };
    let took = survives(&scene, || {
        gateways.kill9(victim);
        std::thread::sleep(Duration::from_millis(500));
        gateways.restart(victim).expect("it starts again");
    });
    assert!(took < Duration::from_secs(30), "{took:?}");
    gateways.wait_until_up(Duration::from_secs(15)).expect("every lane is back");
}

#[test]
fn a_transfer_survives_kill_9_of_the_near_gateway() {
    machine::share();
    killed("a_transfer_survives_kill_9_of_the_near_gateway", Gateway::T1);
}

#[test]
fn a_transfer_survives_kill_9_of_the_far_gateway() {
    machine::share();
    killed("a_transfer_survives_kill_9_of_the_far_gateway", Gateway::T2);
}

#[test]
fn a_transfer_survives_a_wan_that_is_down_for_thirty_seconds() {
    machine::share();
    let test = "a_transfer_survives_a_wan_that_is_down_for_thirty_seconds";
    let Some((scene, gateways)) = sites(test, wide_area(), &setup(Encryption::Tls)) else { return };
    let link = scene.link().expect("an emulated link");
    survives(&scene, || {
        let cut = Instant::now();
        link.cut();
        wait_for("the busy lane is noticed to be dead", Duration::from_secs(10), &gateways, || {
            lane(&gateways, Gateway::T1, "tcp").state != LaneState::Up
        });
        wait_for("the idle lanes are noticed to be dead", Duration::from_secs(12), &gateways, || {
            lanes_up(&gateways, Gateway::T1) == 0 && lanes_up(&gateways, Gateway::T2) == 0
        });
        std::thread::sleep(Duration::from_secs(30).saturating_sub(cut.elapsed()));
        link.restore();
        wait_for("every lane is back", Duration::from_secs(15), &gateways, || {
            lanes_up(&gateways, Gateway::T1) == LANES
        });
    });
    assert_eq!(lane(&gateways, Gateway::T1, "tcp").established, 2);
}

#[test]
fn packets_in_the_edge_queue_survive_a_broken_lane() {
    machine::share();
    let test = "packets_in_the_edge_queue_survive_a_broken_lane";
    let Some((scene, mut gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    gateways.kill9(Gateway::T2);
    wait_for("the lanes are down", Duration::from_secs(10), &gateways, || {
        lanes_up(&gateways, Gateway::T1) == 0
    });
    let sink = scene.x.run(|| UdpSocket::bind((Plan::IPV4.x, 0))).expect("a socket");
    sink.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    let source = scene.a.run(|| UdpSocket::bind((Plan::IPV4.a, 0))).expect("a socket");
    for number in 0..100_u32 {
        source.send_to(&number.to_be_bytes(), sink.local_addr().expect("an address")).expect("sent");
    }
    wait_for("they wait at the edge", Duration::from_secs(5), &gateways, || {
        // A flow that sends so little counts as interactive.
        class(&gateways, Gateway::T1, "interactive").backlog_packets == 100
    });
    gateways.restart(Gateway::T2).expect("T2 starts again");
    let mut buffer = [0; 100];
    for number in 0..100_u32 {
        let (len, _) = sink.recv_from(&mut buffer).expect("it arrives");
        assert_eq!(buffer[..len], number.to_be_bytes());
    }
}

// ------------------------------------------------------------------ peers that lie

fn key_of(gateways: &Gateways, gateway: Gateway) -> SecretKey {
    let file = gateways.configuration_file(gateway).with_extension("key");
    SecretKey::load(&file).expect("its key")
}

fn public(gateways: &Gateways, gateway: Gateway) -> PublicKey {
    key_of(gateways, gateway).public()
}

/// Connects from T1 to T2 and shakes hands with `secret`, as a peer with other software might.
fn shake(
    scene: &Scene,
    secret: &SecretKey,
    peer: PublicKey,
    class: &str,
    encryption: LaneEncryption,
) -> Result<Established<TcpStream>, String> {
    let stream = scene
        .t1
        .run(|| TcpStream::connect((Plan::IPV4.t2_wan, 4600)))
        .map_err(|error| format!("connect: {error}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(|error| error.to_string())?;
    let hello = Hello { version: VERSION, encryption, lane: 0, instance: 99, lane_group: class.to_owned() };
    let identity = Identity::new(secret).map_err(|error| error.to_string())?;
    let dialer = Dialer::new(&identity, peer).map_err(|error| error.to_string())?;
    let mut handshake: Handshake<TcpStream> =
        dialer.dial(stream, hello).map_err(|error| error.to_string())?;
    for _ in 0..100 {
        if let Progress::Done(established) = handshake.advance().map_err(|error| error.to_string())? {
            return Ok(*established);
        }
    }
    Err("no progress".to_owned())
}

/// T2 with a malicious peer: the test stops the gateway at T1 and uses its key.
fn with_liar(test: &str, encryption: Encryption) -> Option<(Scene, Gateways, SecretKey, PublicKey)> {
    let (scene, mut gateways) = sites(test, Wan::Veth, &setup(encryption))?;
    let (secret, target) = (key_of(&gateways, Gateway::T1), public(&gateways, Gateway::T2));
    gateways.kill9(Gateway::T1);
    wait_for("T2 has lost its lanes", Duration::from_secs(10), &gateways, || {
        lanes_up(&gateways, Gateway::T2) == 0
    });
    Some((scene, gateways, secret, target))
}

/// Sends raw bytes on a fresh clear lane beside a healthy one; how T2 names the end of that lane.
fn garbage(test: &str, bytes: &[u8], then_close: bool) -> Option<String> {
    let (scene, gateways, secret, target) = with_liar(test, Encryption::None)?;
    let healthy = shake(&scene, &secret, target, "interactive", LaneEncryption::None).expect("a lane");
    let mut lane_made = shake(&scene, &secret, target, "tcp", LaneEncryption::None).expect("a lane");
    wait_for("both lanes are up", Duration::from_secs(5), &gateways, || {
        lanes_up(&gateways, Gateway::T2) == 2
    });
    lane_made.stream.write_all(bytes).expect("sent");
    if then_close {
        drop(lane_made);
    }
    wait_for("that lane ends", Duration::from_secs(5), &gateways, || lanes_up(&gateways, Gateway::T2) == 1);
    assert_eq!(
        lane(&gateways, Gateway::T2, "interactive").state,
        LaneState::Up,
        "the other lane notices nothing"
    );
    drop(healthy);
    lane(&gateways, Gateway::T2, "tcp").last_error
}

#[test]
fn an_unknown_frame_ends_its_lane_by_name() {
    machine::share();
    let Some(error) = garbage("an_unknown_frame_ends_its_lane_by_name", &[0, 100, 0x77, 1, 2, 3], false)
    else {
        return;
    };
    assert!(error.contains("unknown frame kind 0x77"), "{error}");
}

#[test]
fn a_frame_too_short_for_a_packet_ends_its_lane_by_name() {
    machine::share();
    let test = "a_frame_too_short_for_a_packet_ends_its_lane_by_name";
    let Some(error) = garbage(test, &[0, 5, 0x01, 1, 2, 3, 4, 5], false) else { return };
    assert!(error.contains("a frame of 5 bytes holds no IP packet"), "{error}");
}

#[test]
fn a_truncated_frame_ends_its_lane_by_name() {
    machine::share();
    let test = "a_truncated_frame_ends_its_lane_by_name";
    let Some(error) = garbage(test, &[0, 100, 0x01, 0x45, 0, 0], true) else { return };
    assert!(error.contains("ended inside a frame, after 6 of its 103 bytes"), "{error}");
}

#[test]
fn garbage_records_end_their_lane_by_name() {
    machine::share();
    let test = "garbage_records_end_their_lane_by_name";
    let Some((scene, gateways, secret, target)) = with_liar(test, Encryption::Tls) else { return };
    let tls = LaneEncryption::Tls;
    let _healthy = shake(&scene, &secret, target, "interactive", tls).expect("a lane");
    // A record longer than TLS allows; then one that no key has sealed.
    let forged = [&[0x17, 3, 3, 0, 64][..], &[0; 64]].concat();
    for (bytes, name) in [(&[0x17, 3, 3, 0xff, 0xff][..], "65535"), (&forged[..], "altered")] {
        let mut lane_made = shake(&scene, &secret, target, "tcp", tls).expect("a lane");
        wait_for("both lanes are up", Duration::from_secs(5), &gateways, || {
            lanes_up(&gateways, Gateway::T2) == 2
        });
        lane_made.stream.write_all(bytes).expect("sent");
        wait_for("that lane ends", Duration::from_secs(5), &gateways, || {
            lanes_up(&gateways, Gateway::T2) == 1
        });
        let error = lane(&gateways, Gateway::T2, "tcp").last_error.unwrap_or_default();
        assert!(error.contains(name), "{error}");
        assert_eq!(lane(&gateways, Gateway::T2, "interactive").state, LaneState::Up);
    }
}

#[test]
fn a_forged_inner_source_is_refused_and_the_lane_lives() {
    machine::share();
    let test = "a_forged_inner_source_is_refused_and_the_lane_lives";
    let Some((scene, gateways, secret, target)) = with_liar(test, Encryption::Tls) else { return };
    let mut made = shake(&scene, &secret, target, "other", LaneEncryption::Tls).expect("a lane");
    let sink = scene.x.run(|| UdpSocket::bind((Plan::IPV4.x, 7777))).expect("a socket");
    sink.set_read_timeout(Some(Duration::from_secs(2))).expect("a time-out");
    let frame = |source: [u8; 4]| {
        let mut ip = trunkline_packet::build::Ip::v4();
        ip.source = source.into();
        ip.destination = Plan::IPV4.x;
        let packet = trunkline_packet::build::udp(&ip, (1, 7777), &source);
        [&(packet.len() as u16).to_be_bytes()[..], &[1], &packet].concat()
    };
    let sealer = &mut made.keys.as_mut().expect("keys").sealer;
    for source in [[203, 0, 113, 9], [198, 18, 1, 77]] {
        let mut bytes = frame(source);
        let (header, trailer) = sealer.seal(&mut bytes).expect("sealed");
        made.stream.write_all(&[&header[..], &bytes, &trailer].concat()).expect("sent");
    }
    let mut buffer = [0; 100];
    let (len, from) = sink.recv_from(&mut buffer).expect("the honest packet arrives");
    assert_eq!((&buffer[..len], from.ip().to_string()), (&[198, 18, 1, 77][..], "198.18.1.77".to_owned()));
    let received = peer(&gateways, Gateway::T2).received;
    assert_eq!((received.refused_forged_source, received.packets), (1, 1), "{received:?}");
    assert_eq!(lane(&gateways, Gateway::T2, "other").state, LaneState::Up);
}

#[test]
fn a_caller_with_an_unknown_key_gets_no_lane() {
    machine::share();
    let test = "a_caller_with_an_unknown_key_gets_no_lane";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    let target = public(&gateways, Gateway::T2);
    let unknown = SecretKey::generate().expect("a key");
    assert!(shake(&scene, &unknown, target, "tcp", LaneEncryption::Tls).is_err());
    wait_for("it is counted", Duration::from_secs(5), &gateways, || {
        gateways.status(Gateway::T2).is_ok_and(|status| status.callers.unknown_key == 1)
    });
    assert_eq!(lanes_up(&gateways, Gateway::T2), LANES);
}

#[test]
fn one_end_in_clear_and_one_encrypted_get_no_lane_and_both_say_why() {
    machine::share();
    let test = "one_end_in_clear_and_one_encrypted_get_no_lane_and_both_say_why";
    let Some((_scene, mut gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    edit(&gateways, Gateway::T1, |text| text.replace("encryption = \"tls\"", "encryption = \"none\""));
    gateways.kill9(Gateway::T1);
    gateways.restart(Gateway::T1).expect("T1 starts again");
    wait_for("T1 says why", Duration::from_secs(10), &gateways, || {
        // It does not answer before it is up.
        let told =
            |lane: &Lane| lane.last_error.as_ref().is_some_and(|error| error.contains("encryption is"));
        gateways.status(Gateway::T1).is_ok_and(|status| status.peers[0].lanes.iter().any(told))
    });
    assert_eq!(lanes_up(&gateways, Gateway::T1), 0);
    assert!(gateways.log(Gateway::T2).contains("encryption"), "{}", gateways.log_tail(Gateway::T2));
}

// ------------------------------------------------------------------ floods

#[test]
fn random_bytes_and_a_thousand_silent_callers_leave_no_state() {
    machine::share();
    let test = "random_bytes_and_a_thousand_silent_callers_leave_no_state";
    let Some((scene, mut gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    let before = gateways.memory().expect("memory");
    let callers: Vec<TcpStream> = scene.t1.run(|| {
        (0..1000)
            .filter_map(|number| {
                let to = (Plan::IPV4.t2_wan, 4600).into();
                let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2)).ok()?;
                if number % 10 == 0 {
                    let noise: Vec<u8> = (0..500_u32).map(|n| ((n * n) >> 3) as u8).collect();
                    let _ = stream.write_all(&noise);
                }
                Some(stream)
            })
            .collect()
    });
    let status = gateways.status(Gateway::T2).expect("it answers in the midst of it");
    let half_open = status.callers.half_open;
    assert!(half_open <= 128, "{half_open} half-open");
    assert_eq!(lanes_up(&gateways, Gateway::T2), LANES, "the lanes notice nothing");
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 5_000_000);
    // The peer itself can come back while they are there: it takes its turn.
    gateways.kill9(Gateway::T1);
    gateways.restart(Gateway::T1).expect("T1 starts again");
    gateways.wait_until_up(Duration::from_secs(15)).expect("the peer comes through");
    wait_for("the silent ones are gone", Duration::from_secs(10), &gateways, || {
        gateways.status(Gateway::T2).is_ok_and(|status| status.callers.half_open == 0)
    });
    for mut stream in callers {
        stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a time-out");
        assert!(matches!(stream.read(&mut [0; 16]), Ok(_) | Err(_)));
    }
    let after = gateways.memory().expect("memory");
    let grown = after.resident_bytes.saturating_sub(before.resident_bytes);
    assert!(grown < 8 << 20, "{grown} bytes stay");
}

/// The gateway does not run for a while: the device's own queue fills, drops, and is short.
#[test]
fn a_full_device_queue_drops_and_recovers() {
    machine::share();
    let test = "a_full_device_queue_drops_and_recovers";
    let Some((scene, gateways)) = sites(test, Wan::Veth, &setup(Encryption::Tls)) else { return };
    let pid = rustix::process::Pid::from_raw(gateways.pid(Gateway::T1).expect("it runs").cast_signed())
        .expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("stopped");
    let source = scene.a.run(|| UdpSocket::bind((Plan::IPV4.a, 0))).expect("a socket");
    for _ in 0..5000 {
        let _ = source.send_to(&[0; 100], (Plan::IPV4.x, 4000));
    }
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("goes on");
    wait_for("the drops are counted", Duration::from_secs(5), &gateways, || {
        let status = gateways.status(Gateway::T1).expect("a status");
        (3000..5000).contains(&status.tun.dropped_device_queue)
    });
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 5_000_000);
}
