//! A hub with many absent peers: they do not affect the traffic of present peers, and cost little memory and time.

use std::fmt::Write as _;
use std::fs;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::common::site::{Directory, status};
use crate::common::{Checker, send};
use trunkline_status::Status;
use trunkline_testbed::namespace::{Host, Process, veth};
use trunkline_testbed::{privilege, procfs};

/// Two sites on one line, of which the hub has many more peers.
struct Scene {
    directory: Directory,
    hub: Host,
    b: Host,
    running: Vec<Process>,
}

/// The address behind the absent peer of this number.
fn absent(number: usize) -> String {
    format!("10.{}.{}.1", number >> 8, number & 255)
}

impl Scene {
    /// `None`, with a message, if the machine lacks a requirement.
    fn new(test: &str, absent_peers: usize) -> Option<Self> {
        if !privilege::available(test) {
            return None;
        }
        let [hub, b] = ["hub", "b"].map(|name| Host::new(name).expect("a host"));
        veth(&hub, "wan", &b, "wan").expect("a line");
        for (host, last) in [(&hub, 1), (&b, 2)] {
            let net = format!("198.18.1.{last}/24").parse().expect("a prefix");
            host.address("wan", net, None).expect("an address");
        }
        let mut scene = Scene { directory: Directory::new(), hub, b, running: Vec::new() };
        let keys = ["hub", "b"].map(|site| scene.directory.key(site));
        let mut text = "listen = [\"198.18.1.1:4600\"]\n[tun]\naddress = [\"198.19.1.1/32\"]\n".to_owned();
        let mut peer = |name: &str, key: &str, route: &str| {
            let head = format!("\n[[peers]]\nname = \"{name}\"\npublic_key = \"{key}\"\n");
            writeln!(text, "{head}routes = [\"{route}\"]").expect("memory");
        };
        peer("b", &keys[1], "198.19.2.1/32");
        for number in 0..absent_peers {
            // Any 32 bytes are a public key; nobody has the private key.
            let mut key = "A".repeat(39);
            write!(key, "{number:04}").expect("memory");
            peer(
                &format!("absent{number}"),
                &(key[key.len() - 42..].to_owned() + "A="),
                &format!("{}/32", absent(number)),
            );
        }
        scene.start(true, "hub", &text);
        let head = "[tun]\naddress = [\"198.19.2.1/32\"]\n[[peers]]\nname = \"hub\"";
        let end = "endpoint = \"198.18.1.1:4600\"\nroutes = [\"198.19.1.1/32\"]\n";
        scene.start(false, "b", &format!("{head}\npublic_key = \"{}\"\n{end}", keys[0]));
        let since = Instant::now();
        while scene.lanes_up() < 3 {
            assert!(since.elapsed() < Duration::from_secs(60), "{} of 3 lanes are up", scene.lanes_up());
            std::thread::sleep(Duration::from_millis(200));
        }
        Some(scene)
    }

    fn start(&mut self, at_hub: bool, site: &str, text: &str) {
        self.directory.file(site, text);
        let log = fs::File::create(self.directory.0.join(format!("{site}.log"))).expect("a file");
        let host = if at_hub { &self.hub } else { &self.b };
        self.running.push(self.directory.start(host, site, log));
    }

    fn status(&self) -> Status {
        status(&self.directory.socket("hub"))
    }

    /// Lanes between the two sites that are up.
    fn lanes_up(&self) -> usize {
        self.status().peers[0].lanes_up()
    }

    /// Sends small datagrams to each absent peer in turn.
    fn flood(&self, absent_peers: usize, rounds: usize) {
        self.hub.run(|| {
            let socket = UdpSocket::bind("198.19.1.1:0").expect("a socket");
            for _ in 0..rounds {
                for number in 0..absent_peers {
                    // A device that is full says so, and the next packet may find room.
                    let _ = socket.send_to(&[7], (absent(number), 9));
                }
            }
        });
    }

    /// Carries a stream from the hub to the other site.
    fn check_stream(&self, bytes: u64) {
        let checker = Checker::start(&self.b, "198.19.2.1".parse().expect("an address"));
        send(&self.hub, checker.address, bytes, None).join().expect("it is sent");
        assert_eq!(checker.finish(), bytes);
    }

    /// Drops of all absent peers for a reason.
    fn dropped(status: &Status, reason: &str) -> u64 {
        let classes = status.peers.iter().skip(1).flat_map(|peer| &peer.classes);
        classes.filter_map(|class| class.drops.get(reason)).sum()
    }
}

/// What 140 absent peers are sent used up the packet memory of all, for as long as they stayed away.
#[test]
fn a_flood_to_140_absent_peers_does_not_affect_the_present_one() {
    let Some(scene) = Scene::new("absent-peers-flooded", 140) else { return };
    let before = procfs::memory(scene.running[0].pid()).expect("its memory").resident_bytes;
    // Until the queues of all of them have what they may: the device drops some on the way there.
    let since = Instant::now();
    let full = |status: &Status| {
        let dropped = Scene::dropped(status, "segment_limit") + Scene::dropped(status, "memory");
        dropped > 10_000 || status.tun.dropped_no_memory != 0
    };
    while !full(&scene.status()) {
        assert!(since.elapsed() < Duration::from_secs(60), "{:?}", scene.status().tun);
        scene.flood(140, 300);
    }
    scene.check_stream(3_000_000);
    let status = scene.status();
    assert_eq!(status.tun.dropped_no_memory, 0, "{:?}", status.tun);
    let after = procfs::memory(scene.running[0].pid()).expect("its memory").resident_bytes;
    assert!(after - before < 200 << 20, "{} MiB more", (after - before) >> 20);
    // No lane empties these queues: the packets expire.
    let since = Instant::now();
    let waiting = |status: &Status| -> u64 {
        let classes = status.peers.iter().flat_map(|peer| &peer.classes);
        classes.map(|class| class.backlog_packets).sum()
    };
    loop {
        let status = scene.status();
        if waiting(&status) == 0 {
            assert!(Scene::dropped(&status, "expired") > 1000, "{}", Scene::dropped(&status, "expired"));
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(120), "{} wait still", waiting(&status));
        std::thread::sleep(Duration::from_secs(1));
    }
    scene.check_stream(1_000_000);
}

/// A thousand peers that are configured and away cost next to no memory and no time.
#[test]
fn a_thousand_absent_peers_cost_little() {
    let Some(scene) = Scene::new("absent-peers-at-rest", 1000) else { return };
    let hub = scene.running[0].pid();
    let memory = procfs::memory(hub).expect("its memory").resident_bytes;
    println!("{} MiB at rest", memory >> 20);
    assert!(memory < 100 << 20, "{} MiB", memory >> 20);
    let cpu = procfs::cpu_time(hub).expect("its time");
    std::thread::sleep(Duration::from_secs(5));
    let spent = procfs::cpu_time(hub).expect("its time").since(cpu).total();
    println!("{spent:?} in 5 s at rest");
    assert!(spent < Duration::from_secs(1), "{spent:?} in 5 s");
    scene.flood(1000, 20);
    scene.check_stream(3_000_000);
    let memory = procfs::memory(hub).expect("its memory").resident_bytes;
    println!("{} MiB with packets for all of them", memory >> 20);
    assert!(memory < 400 << 20, "{} MiB", memory >> 20);
}
