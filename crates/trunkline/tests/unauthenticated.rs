//! Unauthenticated callers: a flood of connections does not keep a peer out, and rejections are listed.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::LANES;
use crate::common::site::{Directory, PROGRAM, status, until};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use trunkline_gateway::config::Encryption;
use trunkline_gateway::handshake::{Dialer, Hello, Identity, VERSION};
use trunkline_gateway::keys::SecretKey;
use trunkline_status::{LaneState, Status};
use trunkline_testbed::link::{DuplexSettings, End, Link};
use trunkline_testbed::namespace::{Host, veth};
use trunkline_testbed::{privilege, procfs};
use trunkline_units::Rate;

/// Addresses that the flood comes from.
const SOURCES: u8 = 64;
/// The maximum number of connections of the flood.
const MAX_CONNECTIONS: u64 = 40_000;

/// The site that listens, with a path of 100 ms to its peer and of 0 ms to the callers.
struct Scene {
    directory: Directory,
    listener: Host,
    peer: Host,
    callers: Host,
    path: Link,
}

fn ip(subnet: u8, last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(198, 18, subnet, last))
}

fn scene(test: &str) -> Option<Scene> {
    scene_with(test, "")
}

/// As [`scene`], with more in both sites' files.
fn scene_with(test: &str, more: &str) -> Option<Scene> {
    if !privilege::available(test) {
        return None;
    }
    let directory = Directory::new();
    let [listener, peer, callers] =
        ["listener", "peer", "callers"].map(|name| Host::new(name).expect("a host"));
    let net = |subnet: u8, last: u8| format!("198.18.{subnet}.{last}/24").parse().expect("a prefix");
    let (near, far) = ([ip(1, 1)], [ip(1, 2)]);
    let near = End { host: &listener, device: "wan", addresses: &near };
    let far = End { host: &peer, device: "wan", addresses: &far };
    let path = DuplexSettings::wide_area(
        Rate::from_mbit(100.0),
        Duration::from_millis(100),
        Duration::from_millis(100),
    );
    let path = Link::new(near, far, &path).expect("a link");
    veth(&listener, "lan", &callers, "lan").expect("a line");
    listener.address("lan", net(2, 1), None).expect("an address");
    for number in 0..SOURCES {
        callers.address("lan", net(2, 10 + number), None).expect("an address");
    }
    let keys = ["a", "b"].map(|site| directory.key(site));
    let file = |own: &str, tun: u8, peer: &str, rest: &str| {
        let key = &keys[usize::from(peer == "b")];
        let text = format!(
            "{own}\n[tun]\naddress = [\"198.19.{tun}.1/32\"]\n[[peers]]\nname = \"{peer}\"\npublic_key = \"{key}\"\n{rest}\n{more}"
        );
        directory.file(if peer == "b" { "a" } else { "b" }, &text);
    };
    file("listen = [\"0.0.0.0:4600\"]", 1, "b", "routes = [\"198.19.2.1/32\"]");
    file("", 2, "a", "routes = [\"198.19.1.1/32\"]\nendpoint = \"198.18.1.1:4600\"");
    Some(Scene { directory, listener, peer, callers, path })
}

impl Scene {
    fn status(&self) -> Status {
        status(&self.directory.socket("a"))
    }

    fn lanes_up(&self) -> usize {
        self.status().peers[0].lanes_up()
    }
}

/// Connects from one of the callers' addresses, without waiting for it.
fn call(number: u64) -> Option<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).ok()?;
    let from = ip(2, 10 + (number % u64::from(SOURCES)) as u8);
    bind(&socket, &SocketAddr::new(from, 0)).ok()?;
    let _ = connect(&socket, &SocketAddr::new(ip(2, 1), 4600));
    Some(TcpStream::from(socket))
}

/// Opens about 1500 connections a second that say nothing, and keeps the last 1000 of them open.
fn flood(stop: &AtomicBool, opened: &AtomicU64) {
    let (start, mut open) = (Instant::now(), VecDeque::new());
    for number in 0..MAX_CONNECTIONS {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        open.extend(call(number));
        if open.len() > 1000 {
            open.pop_front();
        }
        opened.fetch_add(1, Ordering::Relaxed);
        let due = Duration::from_micros(667) * number as u32;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
}

#[test]
fn a_distant_peer_connects_during_a_flood_of_unauthenticated_callers() {
    let Some(scene) = scene("a_distant_peer_connects_during_a_flood_of_unauthenticated_callers") else {
        return;
    };
    let _a = scene.directory.start(&scene.listener, "a", Stdio::null());
    let _b = scene.directory.start(&scene.peer, "b", Stdio::null());
    until("all lanes are up", || scene.lanes_up() == LANES);
    let (stop, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let flooding = {
        let (stop, opened) = (Arc::clone(&stop), Arc::clone(&opened));
        scene.callers.spawn("flood", move || flood(&stop, &opened))
    };
    until("the flood is under way", || opened.load(Ordering::Relaxed) > 2_000);
    // All lanes end, and are dialled again during the flood.
    scene.path.handle().cut();
    until("the lanes are down", || scene.lanes_up() == 0);
    scene.path.handle().restore();
    until("all lanes are up again", || scene.lanes_up() == LANES);
    assert!(!flooding.is_finished(), "the flood was still under way");
    stop.store(true, Ordering::Relaxed);
    flooding.join();
    let callers = scene.status().callers;
    let evicted = callers.over_address_limit + callers.over_total_limit;
    assert!(evicted > 1_000, "it was a flood: {callers:?}");
}

/// The first packet of a handshake over QUIC as a site sends it, taken at the address that it dials.
fn first_packet(scene: &Scene) -> Vec<u8> {
    let socket = scene.listener.run(|| UdpSocket::bind((ip(1, 1), 4600))).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    let mut dialer = scene.directory.start(&scene.peer, "b", Stdio::null());
    let mut packet = vec![0; 2000];
    let len = socket.recv(&mut packet).expect("a first packet");
    dialer.terminate(Duration::from_secs(20)).expect("it ends");
    packet.truncate(len);
    packet
}

/// Sends a first packet some 5000 times a second, each from another address and port than the one before.
fn flood_of_handshakes(packet: &[u8], stop: &AtomicBool, sent: &AtomicU64) {
    let from = |source| UdpSocket::bind((ip(2, 10 + source), 0)).expect("a socket");
    let sockets: Vec<UdpSocket> = (0..8).flat_map(|_| (0..SOURCES).map(from)).collect();
    let start = Instant::now();
    for number in 0..5 * MAX_CONNECTIONS {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let _ = sockets[number as usize % sockets.len()].send_to(packet, (ip(2, 1), 4600));
        sent.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep((Duration::from_micros(200) * number as u32).saturating_sub(start.elapsed()));
    }
}

/// First packets of handshakes from many addresses, which never prove theirs: lanes stay, and a peer gets through.
#[test]
fn lanes_over_quic_stay_and_come_back_during_a_flood_of_handshakes() {
    let test = "lanes_over_quic_stay_and_come_back_during_a_flood_of_handshakes";
    let more = "[lanes]\nkeepalive = \"1 s\"\n[[classes]]\nname = \"all\"\ntransport = \"quic\"\n";
    let Some(scene) = scene_with(test, more) else { return };
    let packet = first_packet(&scene);
    let mut a = scene.directory.start(&scene.listener, "a", Stdio::null());
    let _b = scene.directory.start(&scene.peer, "b", Stdio::null());
    until("the lane is up", || scene.lanes_up() == 1);
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let flooding = {
        let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
        scene.callers.spawn("flood", move || flood_of_handshakes(&packet, &stop, &sent))
    };
    until("the flood is under way", || sent.load(Ordering::Relaxed) > 5_000);
    // Longer than an idle lane is believed to be there without a sign of it.
    std::thread::sleep(Duration::from_secs(11));
    let lane = scene.status().peers[0].lanes[0].clone();
    assert_eq!((lane.state, lane.established), (LaneState::Up, 1), "it was never down: {lane:?}");
    scene.path.handle().cut();
    until("the lane is down", || scene.lanes_up() == 0);
    scene.path.handle().restore();
    until("the lane is up again", || scene.lanes_up() == 1);
    assert!(!flooding.is_finished(), "the flood was still under way");
    stop.store(true, Ordering::Relaxed);
    flooding.join();
    let memory = procfs::memory(a.pid()).expect("its memory").resident_bytes;
    assert!(memory < 60 << 20, "nothing is kept of them: {memory} bytes");
    a.terminate(Duration::from_secs(20)).expect("it ends in order");
}

#[test]
fn rejected_keys_are_listed_and_summarised() {
    let Some(scene) = scene("rejected_keys_are_listed_and_summarised") else { return };
    let mut process = scene.directory.start(&scene.listener, "a", Stdio::piped());
    let acceptor = SecretKey::load(&scene.directory.0.join("a.key")).expect("its key").public();
    let unknown = SecretKey::generate().expect("a key");
    let identity = Identity::new(&unknown).expect("an identity");
    for _ in 0..20 {
        let stream = scene.callers.run(|| TcpStream::connect((ip(2, 1), 4600))).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        let (lane_group, encryption) = ("tcp".to_owned(), Encryption::Tls);
        let hello = Hello { version: VERSION, encryption, lane: 0, instance: 1, lane_group };
        let dialer = Dialer::new(&identity, acceptor).expect("a dialer");
        let mut handshake = dialer.dial(stream, hello).expect("a handshake");
        assert!(handshake.advance().is_err(), "it is not let in");
    }
    // A caller with another protocol.
    let mut stream = scene.callers.run(|| TcpStream::connect((ip(2, 1), 4600))).expect("a connection");
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is said");
    let rejected = || scene.status().callers.rejected;
    until("both are listed", || rejected().len() == 2);
    let list = rejected();
    let key = list.iter().find(|entry| entry.public_key.is_some()).expect("the key");
    assert_eq!(key.public_key, Some(unknown.public().to_string()));
    assert_eq!((key.address.as_str(), key.count), ("198.18.2.10", 20));
    let table =
        Command::new(PROGRAM).arg("status").arg(scene.directory.socket("a")).output().expect("it runs");
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains(&unknown.public().to_string()) && table.contains("198.18.2.10"), "{table}");
    process.terminate(Duration::from_secs(20)).expect("it ends");
    let mut log = String::new();
    process.stderr().expect("its log").read_to_string(&mut log).expect("its log");
    assert_eq!(log.matches("did not become a lane: ").count(), 1, "one line for all of them:\n{log}");
}
