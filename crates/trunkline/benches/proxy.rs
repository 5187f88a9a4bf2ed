//! What a proxy costs: one connection beside direct routing and a plain relay; the set-up of connections; the memory of idle ones. In
//! namespaces on this machine: `cargo bench -p trunkline --bench proxy`, and `-- idle` for the memory alone.
//!
//! All ways are measured in turns, so that what else the machine does meets each of them alike; ratios and differences are those of a
//! turn. The plain relay is what TPROXY and splice(2) give without a proxy's care: it accepts before it asks the server, connects from an
//! address of its own, and has a thread for each direction.

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::thread;
use std::time::{Duration, Instant};

use common::proxy::{CELL, Scene, ip};
use rustix::pipe::{SpliceFlags, pipe, splice};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use trunkline_netlink::{
    Condition, Existing, Family, FilterChain, FilterRule, FilterTable, Hook, Owner, PacketFilter, Route,
    RouteKind, Rule, RuleMark, Tproxy,
};
use trunkline_testbed::namespace::{Host, Task};

const ROUNDS: usize = 5;
const TRANSFER: Duration = Duration::from_secs(2);
const CONNECTIONS: usize = 1000;
const IDLE: usize = 10_000;
/// Descriptors that are not those of idle connections.
const OTHER_FILES: u64 = 150;
/// The relay's mark and routing table.
const RELAY: u32 = 77;
const SPLICE_BYTES: usize = 64 << 10;

fn main() {
    // `cargo test` runs benches too, with another argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let limit = Rlimit { current: Some(65_536), maximum: Some(65_536) };
    let raised = setrlimit(Resource::Nofile, limit).is_ok();
    let files = if raised { 65_536 } else { getrlimit(Resource::Nofile).current.unwrap_or(65_536) };
    // Both ends of a connection are in this process, and two sockets in the proxy's, which has this one's limit.
    let idle_connections = IDLE.min((files.saturating_sub(OTHER_FILES) / 2) as usize);
    let Some(scene) = Scene::new("the bench of proxies") else { return };
    let server = Server::start(&scene.server);
    if !std::env::args().any(|argument| argument == "idle") {
        compare(&scene, server.address);
    }
    idle(&scene, server.address, idle_connections);
}

/// Measures the ways in turns.
fn compare(scene: &Scene, to: SocketAddr) {
    let ways = ["direct", "split", "plain relay"];
    let (mut rates, mut times) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
    for _ in 0..ROUNDS {
        for (way, name) in ways.iter().enumerate() {
            let proxy = (*name == "split").then(|| scene.start(CELL));
            let relay = (*name == "plain relay").then(|| Relay::start(&scene.router, to));
            rates[way].push(goodput(&scene.client, to));
            times[way].push(set_up(&scene.client, to));
            if let Some(proxy) = proxy {
                let opened = scene.end(proxy).totals.opened;
                assert!(opened > CONNECTIONS as u64, "it has split {opened}");
            }
            if let Some(relay) = relay {
                let accepted = relay.end(&scene.router);
                assert!(accepted > CONNECTIONS, "it has relayed {accepted}");
            }
        }
    }
    println!(
        "{:<12} {:>10} {:>8} {:>8} {:>9} {:>14} {:>9}",
        "", "Gbit/s", "min", "max", "of direct", "set-up \u{b5}s p50", "added"
    );
    for (way, name) in ways.iter().enumerate() {
        let (rate, time) = (median(&rates[way]), median(&times[way]));
        let (min, max) =
            rates[way].iter().fold((f64::MAX, 0.0_f64), |(min, max), rate| (min.min(*rate), max.max(*rate)));
        let of_direct: Vec<f64> =
            rates[way].iter().zip(&rates[0]).map(|(rate, direct)| rate / direct).collect();
        let added: Vec<f64> = times[way].iter().zip(&times[0]).map(|(time, direct)| time - direct).collect();
        println!(
            "{name:<12} {rate:>10.2} {min:>8.2} {max:>8.2} {:>9.2} {time:>14.1} {:>9.1}",
            median(&of_direct),
            median(&added)
        );
    }
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
    filter: PacketFilter,
    /// Counts what it has accepted, until it is told to end.
    accepting: Task<usize>,
    listens: SocketAddr,
}

impl Relay {
    fn start(host: &Host, server: SocketAddr) -> Relay {
        let listener = host.run(|| TcpListener::bind(("127.0.0.1", 0))).expect("a listener");
        trunkline_linux::set_transparent(listener.as_fd(), false).expect("a transparent socket");
        let listens = listener.local_addr().expect("its address");
        let here = Route { kind: RouteKind::Local, ..Route::to("0.0.0.0/0".parse().expect("it")) };
        host.netlink(|handle| {
            let lo = handle.link_index("lo")?;
            handle.add_route(&here.device(lo).table(RELAY), Existing::Replace)?;
            handle.add_rule(&rule())
        })
        .expect("a way to it");
        let divert = FilterRule {
            conditions: vec![
                Condition::Link("inside".to_owned()),
                Condition::Family(Family::V4),
                Condition::Protocol(6),
                Condition::DestinationPort(server.port()..=server.port()),
            ],
            mark: Some(RELAY),
            tproxy: Some(Tproxy(listens)),
            ..FilterRule::default()
        };
        let chain = FilterChain {
            name: "in".to_owned(),
            hook: Hook::Prerouting,
            priority: -150,
            rules: vec![divert],
        };
        let table = FilterTable { name: "relay".to_owned(), owner: Owner::Socket, chains: vec![chain] };
        let mut filter = host.run(PacketFilter::open).expect("the packet filter");
        filter.replace(&table).expect("a table");
        let accepting = host.spawn("relay", move || {
            let mut accepted = 0;
            for near in listener.incoming() {
                let near = near.expect("a connection");
                if near.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()) {
                    break;
                }
                accepted += 1;
                let far = TcpStream::connect(server).expect("a connection");
                let (back, forth) = (near.try_clone().expect("it"), far.try_clone().expect("it"));
                thread::spawn(move || relay(&near, &forth));
                thread::spawn(move || relay(&far, &back));
            }
            accepted
        });
        Relay { filter, accepting, listens }
    }

    /// Ends it. Connections that it has accepted.
    fn end(self, host: &Host) -> usize {
        drop(self.filter);
        host.netlink(|handle| handle.delete_rule(&rule())).expect("no way to it");
        drop(host.run(|| TcpStream::connect(self.listens)).expect("it listens"));
        self.accepting.join()
    }
}

fn rule() -> Rule {
    Rule {
        family: Family::V4,
        priority: 77,
        table: RELAY,
        mark: Some(RuleMark::Is(RELAY)),
        suppress_prefix_len: None,
        protocol: 4,
    }
}

/// Moves what one end sends, until it closes or either fails.
fn relay(from: &TcpStream, to: &TcpStream) {
    let (read, write) = pipe().expect("a pipe");
    let moves = || -> rustix::io::Result<bool> {
        let mut held = splice(from, None, &write, None, SPLICE_BYTES, SpliceFlags::MOVE)?;
        let is_over = held == 0;
        while held > 0 {
            held -= splice(&read, None, to, None, held, SpliceFlags::MOVE)?;
        }
        Ok(!is_over)
    };
    while moves() == Ok(true) {}
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
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
fn idle(scene: &Scene, to: SocketAddr, count: usize) {
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
    let all = open(count);
    common::site::until("all are open", || scene.status().totals.open > count as u64);
    let each = common::proxy::resident(proxy.pid()).saturating_sub(before) / count as u64;
    println!("{count} idle connections: {each} bytes each in the process");
    drop((first, all));
    scene.end(proxy);
}
