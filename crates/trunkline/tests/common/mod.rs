//! Helpers of the tests on real kernels: a scene with gateways, and a stream of which every byte is checked.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod daemon;
pub(crate) mod proxy;
pub(crate) mod site;
pub(crate) mod stream;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use trunkline_status::{Class, Lane, Peer};
use trunkline_testbed::lateness::Lateness;
use trunkline_testbed::namespace::{Host, Task};
use trunkline_testbed::privilege;
use trunkline_testbed::scene::{Encryption, Gateway, GatewaySetup, Gateways, Plan, Scene, Wan};

pub(crate) fn setup(encryption: Encryption) -> GatewaySetup {
    GatewaySetup::new(env!("CARGO_BIN_EXE_trunkline"), encryption)
}

/// Two sites with gateways; `None`, with a message, if the machine lacks a requirement.
pub(crate) fn sites(test: &str, wan: Wan, setup: &GatewaySetup) -> Option<(Scene, Gateways)> {
    if !privilege::available(test) {
        return None;
    }
    let scene = Scene::new(wan).expect("a scene");
    let gateways = scene.start_gateways(setup).expect("gateways");
    Some((scene, gateways))
}

/// Waits until `done`, which should take `intended` at most ([`Lateness::limit`]). Otherwise panics with `what` and both gateways' logs.
pub(crate) fn wait_for(what: &str, intended: Duration, gateways: &Gateways, mut done: impl FnMut() -> bool) {
    let (start, lateness) = (Instant::now(), Lateness::watch());
    while !done() {
        let limit = lateness.limit(intended);
        if start.elapsed() > limit {
            let logs = Gateway::BOTH.map(|g| format!("--- {g:?}\n{}", gateways.log_tail(g))).join("\n");
            panic!("not within {limit:?}: {what}\n{logs}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The peer of a gateway's status; each has one in these scenes.
pub(crate) fn peer(gateways: &Gateways, gateway: Gateway) -> Peer {
    gateways.status(gateway).expect("a status").peers.swap_remove(0)
}

pub(crate) fn class(gateways: &Gateways, gateway: Gateway, name: &str) -> Class {
    let peer = peer(gateways, gateway);
    peer.class(name).unwrap_or_else(|| panic!("no class {name}: {peer:?}")).clone()
}

/// The first lane that a class rides on.
pub(crate) fn lane(gateways: &Gateways, gateway: Gateway, class_name: &str) -> Lane {
    let peer = peer(gateways, gateway);
    let lane = peer.class(class_name).and_then(|class| peer.lanes_of(class).next());
    lane.unwrap_or_else(|| panic!("no lane for {class_name}: {peer:?}")).clone()
}

/// Lanes of the default classes: two of `interactive`, four of `tcp`, one of `other`.
pub(crate) const LANES: usize = 7;

pub(crate) fn lanes_up(gateways: &Gateways, gateway: Gateway) -> usize {
    let Ok(status) = gateways.status(gateway) else { return 0 };
    status.peers[0].lanes_up()
}

/// Runs `ip` at a host.
pub(crate) fn ip(host: &Host, arguments: &str) {
    let mut command = Command::new("ip");
    command.args(arguments.split_whitespace());
    let output = host.run(|| command.output()).expect("ip runs");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Changes a gateway's file.
pub(crate) fn edit(gateways: &Gateways, gateway: Gateway, change: impl FnOnce(String) -> String) {
    let file = gateways.configuration_file(gateway);
    let text = fs::read_to_string(file).expect("its file");
    fs::write(file, change(text)).expect("its file");
}

/// The byte at `position` of the stream that [`send`] sends: it repeats after a prime number of bytes, so that no
/// shift of packets, records or buffers goes unnoticed.
fn byte(position: u64) -> u8 {
    (position % 65_521 % 251) as u8
}

fn pattern(from: u64, buffer: &mut [u8]) {
    for (offset, to) in buffer.iter_mut().enumerate() {
        *to = byte(from + offset as u64);
    }
}

/// A server that checks one stream and answers with its length.
pub(crate) struct Checker {
    pub(crate) address: SocketAddr,
    task: Task<Result<u64, String>>,
}

impl Checker {
    pub(crate) fn start(host: &Host, ip: IpAddr) -> Self {
        let listener = host.run(|| TcpListener::bind((ip, 0))).expect("a listener");
        let address = listener.local_addr().expect("its address");
        let task = host.spawn("checker", move || {
            let (mut stream, _) = listener.accept().map_err(|error| error.to_string())?;
            stream.set_read_timeout(Some(Duration::from_secs(60))).map_err(|error| error.to_string())?;
            let (mut buffer, mut expected) = (vec![0; 1 << 16], vec![0; 1 << 16]);
            let mut position = 0;
            loop {
                let read = stream.read(&mut buffer).map_err(|error| format!("at {position}: {error}"))?;
                if read == 0 {
                    break;
                }
                pattern(position, &mut expected[..read]);
                if buffer[..read] != expected[..read] {
                    return Err(format!("wrong bytes between {position} and {}", position + read as u64));
                }
                position += read as u64;
            }
            stream.write_all(&position.to_be_bytes()).map_err(|error| error.to_string())?;
            Ok(position)
        });
        Checker { address, task }
    }

    /// Waits for the stream's end; its length.
    pub(crate) fn finish(self) -> u64 {
        self.task.join().expect("the stream is intact")
    }
}

/// Sends `bytes` of the pattern to a [`Checker`], at most at about `rate` bytes per second, and waits for its
/// answer: everything has arrived.
pub(crate) fn send(
    host: &Host,
    to: SocketAddr,
    bytes: u64,
    rate: Option<u64>,
) -> Task<Result<Duration, String>> {
    host.spawn("sender", move || {
        let run = || -> std::io::Result<Duration> {
            let start = Instant::now();
            let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(10))?;
            stream.set_write_timeout(Some(Duration::from_secs(90)))?;
            stream.set_read_timeout(Some(Duration::from_secs(90)))?;
            let mut chunk = vec![0; if rate.is_some() { 1 << 14 } else { 1 << 16 }];
            let mut position = 0;
            while position < bytes {
                let len = chunk.len().min((bytes - position) as usize);
                pattern(position, &mut chunk[..len]);
                stream.write_all(&chunk[..len])?;
                position += len as u64;
                if let Some(rate) = rate {
                    let due = Duration::from_secs_f64(position as f64 / rate as f64);
                    std::thread::sleep(due.saturating_sub(start.elapsed()));
                }
            }
            stream.shutdown(std::net::Shutdown::Write)?;
            let mut answer = [0; 8];
            stream.read_exact(&mut answer)?;
            assert_eq!(u64::from_be_bytes(answer), bytes);
            Ok(start.elapsed())
        };
        run().map_err(|error| error.to_string())
    })
}

/// Sends and checks one stream from the client to the server, or back.
pub(crate) fn check_stream(from: &Host, to: &Host, to_ip: IpAddr, bytes: u64) {
    let checker = Checker::start(to, to_ip);
    let sending = send(from, checker.address, bytes, None);
    sending.join().expect("the stream is sent");
    assert_eq!(checker.finish(), bytes);
}

pub(crate) fn plans(scene: &Scene) -> Vec<Plan> {
    if scene.has_ipv6() { vec![Plan::IPV4, Plan::IPV6] } else { vec![Plan::IPV4] }
}
