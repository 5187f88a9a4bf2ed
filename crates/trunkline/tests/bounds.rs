//! Bounds on the memory, descriptors, threads and CPU time that each kind of load may take, and that the gateway releases
//! them.
//!
//! Absent peers are in `absent_peers.rs`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use crate::common::site::{Directory, ask, status, until};
use trunkline_status::{Answer, Request};
use trunkline_testbed::namespace::{Host, Process, veth};
use trunkline_testbed::privilege;
use trunkline_testbed::procfs;

const LISTEN: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(198, 18, 1, 1)), 4600);
const METRICS: &str = "127.0.0.1:9460";
/// Descriptors that a gateway may keep for callers of one kind, all limits together: 128 half-open connections and the
/// clients of two listeners, with room to spare.
const CALLERS: usize = 300;
/// The maximum growth of memory after a load: the allocator does not return every freed page.
const LEFT_BEHIND: u64 = 24 << 20;

/// What a process holds.
#[derive(Debug, Clone, Copy)]
struct Use {
    descriptors: usize,
    threads: usize,
    resident_bytes: u64,
}

/// A gateway whose only peer is absent, and a host with unauthenticated callers.
struct Scene {
    gateway: Process,
    outside: Host,
    host: Host,
    directory: Directory,
}

impl Scene {
    fn new(test: &str) -> Option<Self> {
        if !privilege::available(test) {
            return None;
        }
        let (host, outside) = (Host::new("gateway").expect("a host"), Host::new("outside").expect("a host"));
        veth(&outside, "wan", &host, "wan").expect("a line");
        host.address("wan", "198.18.1.1/24".parse().expect("a prefix"), None).expect("an address");
        outside.address("wan", "198.18.1.2/24".parse().expect("a prefix"), None).expect("an address");
        let directory = Directory::new();
        directory.key("a");
        let peer = directory.key("peer");
        directory.file(
            "a",
            &format!(
                "listen = [\"198.18.1.1:4600\"]\n[tun]\naddress = [\"198.19.1.1/32\"]\n[metrics]\nlisten = \"{METRICS}\"\n\
                 [[peers]]\nname = \"b\"\npublic_key = \"{peer}\"\nroutes = [\"198.19.2.0/24\"]\n"
            ),
        );
        let gateway = directory.start(&host, "a", Stdio::null());
        Some(Self { gateway, outside, host, directory })
    }

    fn usage(&self) -> Use {
        let pid = self.gateway.pid();
        Use {
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors").count(),
            threads: procfs::threads(pid).expect("its threads"),
            resident_bytes: procfs::memory(pid).expect("its memory").resident_bytes,
        }
    }

    fn cpu_time(&self) -> Duration {
        procfs::cpu_time(self.gateway.pid()).expect("its time").total()
    }

    /// Runs `load` twice, the first time as a warm-up, and compares the resources after the second run with those before it.
    fn releases_resources(&self, load: impl Fn(&Self)) {
        load(self);
        self.quiet(None);
        let before = self.usage();
        load(self);
        self.quiet(Some(before));
        let after = self.usage();
        println!("{before:?} before, {after:?} after");
        assert!(after.threads <= before.threads, "threads: {before:?}, then {after:?}");
        assert!(
            after.resident_bytes <= before.resident_bytes + LEFT_BEHIND,
            "memory: {before:?}, then {after:?}"
        );
    }

    /// Waits until all callers are disconnected.
    fn quiet(&self, before: Option<Use>) {
        until("half-open connections and clients are gone", || {
            let half_open = status(&self.directory.socket("a")).callers.half_open;
            let limit = before.map_or(CALLERS / 4, |before| before.descriptors);
            half_open == 0 && self.usage().descriptors <= limit
        });
    }
}

#[test]
fn unauthenticated_callers_use_bounded_descriptors_and_release_them() {
    let Some(scene) = Scene::new("unauthenticated_callers_use_bounded_descriptors_and_release_them") else {
        return;
    };
    let start = scene.usage();
    scene.releases_resources(|scene| {
        let mut held = Vec::new();
        let mut max = scene.usage();
        for number in 0..1000_u32 {
            // The gateway's queue of connections may be full for a moment.
            let connect = || TcpStream::connect_timeout(&LISTEN.into(), Duration::from_secs(10));
            let mut stream = scene.outside.run(connect).expect("a connection");
            match number % 3 {
                0 => drop(stream),
                1 => drop(stream.write_all(&[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc])),
                _ => held.push(stream),
            }
            if number % 50 == 0 {
                let now = scene.usage();
                max.descriptors = max.descriptors.max(now.descriptors);
                max.threads = max.threads.max(now.threads);
            }
        }
        assert!(max.descriptors <= start.descriptors + CALLERS, "{max:?} from {start:?}");
        // The resolver of names and the logger may have one each.
        assert!(max.threads <= start.threads + 2, "{max:?} from {start:?}");
    });
}

#[test]
fn clients_use_bounded_descriptors_and_release_them() {
    let Some(scene) = Scene::new("clients_use_bounded_descriptors_and_release_them") else { return };
    let start = scene.usage();
    let socket = scene.directory.socket("a");
    scene.releases_resources(|scene| {
        let (mut unix, mut tcp) = (Vec::new(), Vec::new());
        for number in 0..500_u32 {
            let mut control = UnixStream::connect(&socket).expect("it listens");
            let mut metrics = scene.host.run(|| TcpStream::connect(METRICS)).expect("it listens");
            match number % 4 {
                0 => {}
                // Asks, and takes nothing of the answer.
                1 => {
                    let _ = control.write_all(b"{\"request\":\"flows\"}\n");
                    let _ = metrics.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
                    unix.push(control);
                    tcp.push(metrics);
                }
                2 => {
                    let _ = control.write_all(&[b'x'; 10_000]);
                    let _ = metrics.write_all(&[b'x'; 10_000]);
                }
                _ => {
                    unix.push(control);
                    tcp.push(metrics);
                }
            }
            assert!(number % 50 != 0 || scene.usage().descriptors <= start.descriptors + CALLERS);
        }
    });
    let mut stream = scene.host.run(|| TcpStream::connect(METRICS)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(15))).expect("a time-out");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it reads");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it answers");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
}

#[test]
fn reloads_leave_no_memory_or_descriptor() {
    let Some(scene) = Scene::new("reloads_leave_no_memory_or_descriptor") else { return };
    let file = scene.directory.0.join("a.toml");
    let plain = fs::read_to_string(&file).expect("its file");
    let other = plain
        .replace("[tun]", "classes = \"split\"\n[tun]\nmtu = 1400")
        .replace("198.19.2.0/24\"", "198.19.2.0/24\", \"198.19.3.0/24\"");
    scene.releases_resources(|scene| {
        for text in [&other, &plain].into_iter().cycle().take(60) {
            fs::write(&file, text).expect("its file");
            let answer = ask(&scene.directory.socket("a"), &Request::Reload).expect("it answers");
            assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
        }
    });
}

#[test]
fn packets_to_an_absent_peer_use_bounded_memory() {
    let Some(scene) = Scene::new("packets_to_an_absent_peer_use_bounded_memory") else { return };
    scene.releases_resources(|scene| {
        scene.host.run(|| {
            let socket = UdpSocket::bind("198.19.1.1:0").expect("a socket");
            for number in 0..60_000_u32 {
                // Many flows, many destinations, small and large.
                let to = Ipv4Addr::new(198, 19, 2, (number % 250) as u8 + 1);
                let payload = [0; 1400];
                let len = if number % 2 == 0 { 1 } else { 1400 };
                // A refusal of the device's queue is as good as a drop.
                let _ = socket.send_to(&payload[..len], (to, 1024 + (number % 5000) as u16));
            }
        });
        let peak = scene.usage().resident_bytes;
        assert!(peak < 400 << 20, "{} MiB", peak >> 20);
    });
}

#[test]
fn an_idle_gateway_uses_almost_no_processor_time() {
    let Some(scene) = Scene::new("an_idle_gateway_uses_almost_no_processor_time") else { return };
    std::thread::sleep(Duration::from_millis(500));
    // A client that sends nothing costs no time either.
    let idle: Vec<TcpStream> =
        scene.outside.run(|| (0..10).map(|_| TcpStream::connect(LISTEN).expect("a connection")).collect());
    let before = scene.cpu_time();
    std::thread::sleep(Duration::from_secs(4));
    let spent = scene.cpu_time().saturating_sub(before);
    drop(idle);
    assert!(spent < Duration::from_millis(400), "{spent:?} in 4 s");
}
