//! What a proxy costs: one connection beside direct routing, a plain relay and no proxy at all; the set-up of connections; the memory of
//! idle ones. In namespaces on this machine: `cargo bench -p trunkline --bench proxy`.
//!
//! All ways are measured in turns, so that what else the machine does meets each of them alike. The plain relay is what any program
//! would do: it accepts at an address of its own, connects onward, and has the kernel splice both directions, a thread each.

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use common::proxy::{CELL, Scene, ip, number};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use trunkline_testbed::namespace::Host;

const ROUNDS: usize = 5;
const TRANSFER: Duration = Duration::from_secs(2);
const CONNECTIONS: usize = 1000;
const IDLE: usize = 10_000;

fn main() {
    // `cargo test` runs benches too, with another argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let files = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(65_536), maximum: Some(65_536) });
    if raised.is_err() {
        println!("{IDLE} connections need 65536 descriptors; the limit is {:?}", files.maximum);
        return;
    }
    let Some(scene) = Scene::new("the bench of proxies") else { return };
    let server = Server::start(&scene.server);
    let relay = Relay::start(&scene.router, server.address);
    let to = [("direct", server.address), ("split", server.address), ("plain relay", relay.address)];
    let (mut rates, mut times) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
    for _ in 0..ROUNDS {
        for (way, (name, address)) in to.iter().enumerate() {
            let proxy = (*name == "split").then(|| scene.start(CELL));
            rates[way].push(goodput(&scene.client, *address));
            times[way].push(set_up(&scene.client, *address));
            if let Some(proxy) = proxy {
                let opened = number(&scene.end(proxy), "opened");
                assert!(opened > CONNECTIONS as u64, "it has split {opened}");
            }
        }
    }
    println!(
        "{:<12} {:>10} {:>8} {:>8} {:>9} {:>14} {:>9}",
        "", "Gbit/s", "min", "max", "of direct", "set-up µs p50", "added"
    );
    let direct = (median(&rates[0]), median(&times[0]));
    for (way, (name, _)) in to.iter().enumerate() {
        let (rate, time) = (median(&rates[way]), median(&times[way]));
        let (min, max) =
            rates[way].iter().fold((f64::MAX, 0.0_f64), |(min, max), rate| (min.min(*rate), max.max(*rate)));
        println!(
            "{name:<12} {rate:>10.2} {min:>8.2} {max:>8.2} {:>9.2} {time:>14.1} {:>9.1}",
            rate / direct.0,
            time - direct.1
        );
    }
    idle(&scene, server.address);
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Sends as fast as a connection takes, until it is closed. One that says something is answered, and nothing more.
struct Server {
    address: SocketAddr,
}

impl Server {
    fn start(host: &Host) -> Server {
        let listener = host.run(|| TcpListener::bind((ip("10.2.0.2"), 0))).expect("a listener");
        let address = listener.local_addr().expect("its address");
        thread::spawn(move || {
            let mut idle = Vec::new();
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut wish = [0];
                if stream.read_exact(&mut wish).is_err() {
                    continue;
                }
                match wish[0] {
                    b'd' => {
                        thread::spawn(move || {
                            let data = vec![7; 256 << 10];
                            while stream.write_all(&data).is_ok() {}
                        });
                    }
                    b'i' => idle.push(stream),
                    _ => {}
                }
            }
        });
        Server { address }
    }
}

/// A relay without any of a proxy's care.
struct Relay {
    address: SocketAddr,
}

impl Relay {
    fn start(host: &Host, server: SocketAddr) -> Relay {
        let listener = host.run(|| TcpListener::bind((ip("10.1.0.1"), 0))).expect("a listener");
        let address = listener.local_addr().expect("its address");
        let connect = host.spawn("relay", move || {
            for near in listener.incoming() {
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(server)) else { return };
                let (Ok(back), Ok(forth)) = (near.try_clone(), far.try_clone()) else { return };
                thread::spawn(move || std::io::copy(&mut &near, &mut &forth));
                thread::spawn(move || {
                    let _ = std::io::copy(&mut &far, &mut &back);
                    let _ = back.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        // It ends with the process.
        std::mem::forget(connect);
        Relay { address }
    }
}

/// Of one connection, Gbit/s.
fn goodput(client: &Host, to: SocketAddr) -> f64 {
    let mut stream = client.run(|| TcpStream::connect(to)).expect("a connection");
    stream.write_all(b"d").expect("sent");
    let (mut buffer, mut bytes) = (vec![0; 256 << 10], 0);
    let start = Instant::now();
    while start.elapsed() < TRANSFER {
        bytes += stream.read(&mut buffer).expect("received");
    }
    bytes as f64 * 8.0 / 1e9 / start.elapsed().as_secs_f64()
}

/// The median time of connect(2), microseconds.
fn set_up(client: &Host, to: SocketAddr) -> f64 {
    let times = client.run(|| {
        (0..CONNECTIONS)
            .map(|_| {
                let start = Instant::now();
                let mut stream = TcpStream::connect(to).expect("a connection");
                let time = start.elapsed();
                stream.write_all(b"x").expect("sent");
                time.as_secs_f64() * 1e6
            })
            .collect::<Vec<f64>>()
    });
    median(&times)
}

/// The memory of idle connections in the process.
fn idle(scene: &Scene, to: SocketAddr) {
    let proxy = scene.start(CELL);
    let open = |count: usize| -> Vec<TcpStream> {
        scene.client.run(|| {
            (0..count)
                .map(|_| {
                    let mut stream = TcpStream::connect(to).expect("a connection");
                    stream.write_all(b"i").expect("sent");
                    stream
                })
                .collect()
        })
    };
    let first = open(1);
    let before = common::proxy::resident(proxy.pid());
    let all = open(IDLE);
    common::site::until("all are open", || number(&scene.status(), "open") > IDLE as u64);
    let each = common::proxy::resident(proxy.pid()).saturating_sub(before) / IDLE as u64;
    println!("{IDLE} idle connections: {each} bytes each in the process");
    drop((first, all));
    scene.end(proxy);
}
