//! Ends that take nothing, and ends that send against their window, on this machine's kernel: what they cost others.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::common::proxy::{CELL, Scene, connect, connection, ip, transfer};
use crate::common::site::until;
use trunkline_linux::{TcpInfo, open_tun_queue};
use trunkline_netlink::{Existing, Route, RouteKind, TokenBucket};
use trunkline_packet::build::{self, Ip, Tcp};
use trunkline_packet::{Headers, TcpFlags, TcpView, VNET_LEN};
use trunkline_testbed::procfs;

/// A server sends to a host behind for as long as the value lives. The host stops reading when it is told to.
struct Download {
    stop: TcpStream,
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
    pause: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Download {
    fn start(scene: &Scene) -> Self {
        let (address, listener) = scene.listen(0);
        let (mut near, mut far) = connection(&scene.client, address, &listener);
        far.set_write_timeout(None).expect("no limit");
        let stop = near.try_clone().expect("a handle");
        let (sent, received, pause) = (Arc::default(), Arc::default(), Arc::default());
        let counts: (Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicBool>) =
            (Arc::clone(&sent), Arc::clone(&received), Arc::clone(&pause));
        let writer = thread::spawn(move || {
            let data = vec![7; 16_384];
            while far.write_all(&data).is_ok() {
                counts.0.fetch_add(data.len() as u64, Ordering::Relaxed);
            }
        });
        let reader = thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            loop {
                while counts.2.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(10));
                }
                match near.read(&mut buffer) {
                    Ok(bytes) if bytes > 0 => counts.1.fetch_add(bytes as u64, Ordering::Relaxed),
                    _ => return,
                };
            }
        });
        Download { stop, sent, received, pause, threads: vec![writer, reader] }
    }

    /// Mbit/s over a second.
    fn rate(&self) -> f64 {
        let (before, start) = (self.received.load(Ordering::Relaxed), Instant::now());
        sleep(Duration::from_secs(1));
        (self.received.load(Ordering::Relaxed) - before) as f64 * 8e-6 / start.elapsed().as_secs_f64()
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.pause.store(false, Ordering::Relaxed);
        let _ = self.stop.shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_host_that_stops_reading_leaves_the_others_of_its_measured_cell_their_rate() {
    let test = "a_host_that_stops_reading_leaves_the_others_of_its_measured_cell_their_rate";
    let Some(scene) = Scene::new(test) else { return };
    let bucket = TokenBucket::with_latency(20_000_000, 20_000, Duration::from_secs(1));
    scene
        .router
        .netlink(|handle| {
            let device = handle.link_index("inside")?;
            handle.qdisc_tbf(device, bucket)
        })
        .expect("a bottleneck");
    let measured = CELL.replace("\"split\"", "\"path-tail\"\nrate = \"measured\"");
    let proxy = scene.start(&format!("[proxy]\nbuffer = \"512 KiB\"\n{measured}"));
    let [paused, other] = [Download::start(&scene), Download::start(&scene)];
    let estimate = || scene.status().proxies[0].counts.rate as f64 / 1e6;
    until("20 Mbit/s are measured", || (10.0..28.0).contains(&estimate()));
    paused.pause.store(true, Ordering::Relaxed);
    until("nothing more is taken for the host that does not read", || {
        let before = paused.sent.load(Ordering::Relaxed);
        sleep(Duration::from_secs(1));
        paused.sent.load(Ordering::Relaxed) == before
    });
    // For as long as it takes that an estimate sinks to nothing.
    sleep(Duration::from_secs(5));
    let proxied = scene.status().proxies[0].clone();
    println!("{} Mbit/s beside the pause; {proxied:?}", other.rate());
    assert!(proxied.counts.held > 200_000, "something is held for it: {proxied:?}");
    until("the other has half of the link and more beside the pause", || other.rate() > 10.0);
    assert!(estimate() > 5.0, "{} Mbit/s", estimate());
    paused.pause.store(false, Ordering::Relaxed);
    until("the first has its part after the pause", || paused.rate() > 4.0);
    until("and the other too", || other.rate() > 4.0);
    drop((paused, other));
    scene.end(proxy);
}

/// A server that is no TCP: it accepts one connection, and sends beyond its window until it is told to stop.
struct Rogue {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u32>,
}

const ROGUE: &str = "198.51.100.1";
/// Segments that it sends at the most, a few each millisecond.
const MAX_SEGMENTS: u32 = 40_000;

impl Rogue {
    fn start(scene: &Scene) -> Self {
        let device = scene.server.run(|| open_tun_queue("rogue", false)).expect("a device");
        scene
            .server
            .netlink(|handle| {
                let device = handle.link_index("rogue")?;
                handle.set_up(device)
            })
            .expect("it is up");
        scene.server.address("rogue", "198.51.100.254/24".parse().expect("it"), None).expect("set");
        scene.server.forwarding().expect("forwarding");
        scene.router.route("198.51.100.0/24".parse().expect("it"), ip("10.2.0.2")).expect("a route");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Rogue { stop, thread: thread::spawn(move || serve(&device, &stopped)) }
    }

    /// The segments that it has sent.
    fn end(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it ends")
    }
}

fn serve(device: &OwnedFd, stop: &AtomicBool) -> u32 {
    const FIRST: u32 = 7000;
    let mut buffer = vec![0; 65_536];
    let (mut peer, mut sent) = (None, 0);
    while !stop.load(Ordering::Relaxed) && sent < MAX_SEGMENTS {
        while let Ok(len) = rustix::io::read(device, &mut buffer) {
            let packet = &buffer[VNET_LEN..len];
            let Ok(headers) = Headers::parse(packet, packet.len()) else { continue };
            let Ok(tcp) = TcpView::new(&packet[headers.transport_offset..]) else { continue };
            if headers.destination == ip(ROGUE) && tcp.flags().contains(TcpFlags::SYN) {
                let ports = headers.ports.expect("TCP has ports");
                peer = Some((headers.source, (ports.1, ports.0), tcp.seq() + 1));
                let flags = TcpFlags::SYN | TcpFlags::ACK;
                send(device, peer.expect("it"), (FIRST - 1, flags), 0);
            }
        }
        if let Some(peer) = peer {
            for _ in 0..4 {
                // The largest window without a scale ends before it.
                send(device, peer, (FIRST + 66_000 + sent * 1250, TcpFlags::ACK), 1250);
                sent += 1;
            }
        }
        sleep(Duration::from_millis(1));
    }
    sent
}

fn send(
    device: &OwnedFd,
    (to, ports, ack): (IpAddr, (u16, u16), u32),
    (seq, flags): (u32, TcpFlags),
    payload: usize,
) {
    let header = Ip { source: ip(ROGUE), destination: to, ..Ip::v4() };
    let tcp = Tcp { ports, seq, ack, flags, window: 60_000, options: &[] };
    let mut framed = vec![0; VNET_LEN];
    framed.extend(build::tcp(&header, &tcp, &vec![7; payload]));
    // The device may be full: a packet is lost, as on any link.
    let _ = rustix::io::write(device, &framed);
}

#[test]
fn a_server_that_sends_beyond_its_window_takes_nothing_from_the_others_of_its_cell() {
    let test = "a_server_that_sends_beyond_its_window_takes_nothing_from_the_others_of_its_cell";
    let Some(scene) = Scene::new(test) else { return };
    for rate in ["8 Mbit/s\"\nqueue = \"64 kB", "measured"] {
        let proxy = scene.start(&CELL.replace("\"split\"", &format!("\"path-tail\"\nrate = \"{rate}\"")));
        let rogue = Rogue::start(&scene);
        let victim = connect(&scene.client, (ip(ROGUE), 80).into()).expect("a connection");
        let (address, listener) = scene.listen(0);
        let (near, far) = connection(&scene.client, address, &listener);
        let took = transfer(far, near, 1_000_000);
        until("some has come", || scene.status().proxies[0].counts.tail_dropped > 1000);
        let sent = rogue.end();
        let proxied = scene.status().proxies[0].clone();
        println!("{rate}: {took:?} beside {sent} segments beyond the window: {proxied:?}");
        assert!(proxied.counts.tail_held < 1500, "the link has carried others: {proxied:?}");
        drop(victim);
        scene.end(proxy);
        // The device goes with its descriptor.
        let gone = || !scene.server.netlink(|handle| handle.link_exists("rogue")).expect("an answer");
        until("the device is gone", gone);
    }
}

/// Times that the threads of a process have slept and woken up.
fn wake_ups(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let count = |task: std::io::Result<fs::DirEntry>| {
        let status = fs::read_to_string(task.expect("a thread").path().join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    tasks.map(count).sum()
}

/// Nothing reaches the client.
fn hole(scene: &Scene) -> Route {
    let hole = Route { kind: RouteKind::Blackhole, ..Route::to("10.1.0.2/32".parse().expect("it")) };
    scene.router.netlink(|handle| handle.add_route(&hole, Existing::Keep)).expect("a route");
    hole
}

#[test]
fn ends_that_do_not_take_a_close_cost_little_and_take_it_when_they_can() {
    let test = "ends_that_do_not_take_a_close_cost_little_and_take_it_when_they_can";
    let Some(scene) = Scene::new(test) else { return };
    let ends: usize =
        std::env::var("TRUNKLINE_UNDELIVERED").map_or(1, |ends| ends.parse().expect("a number"));
    let tail = CELL.replace("\"split\"", "\"path-tail\"\nrate = \"50 Mbit/s\"");
    let proxy = scene.start(&tail);
    let (address, listener) = scene.listen(0);
    let pairs: Vec<_> = (0..ends)
        .map(|_| {
            let (mut near, mut far) = connection(&scene.client, address, &listener);
            near.write_all(b"x").expect("sent");
            far.read_exact(&mut [0]).expect("received");
            (near, far)
        })
        .collect();
    let hole = hole(&scene);
    for (_, far) in &pairs {
        far.shutdown(Shutdown::Write).expect("closed");
    }
    // Each look is twice as far from the one before.
    sleep(Duration::from_secs(8));
    let (cpu, woken, start) =
        (procfs::cpu_time(proxy.pid()).expect("it"), wake_ups(proxy.pid()), Instant::now());
    sleep(Duration::from_secs(4));
    let woken = wake_ups(proxy.pid()) - woken;
    let cpu = procfs::cpu_time(proxy.pid()).expect("it").since(cpu).total();
    println!(
        "{ends} ends that do not take a close: {cpu:?} of CPU time and {woken} wake-ups in {:?}",
        start.elapsed()
    );
    assert!(ends > 1 || woken < 60, "{woken} times in 4 s; fifty times a second is a look each 20 ms");
    scene.router.netlink(|handle| handle.delete_route(&hole)).expect("no route");
    let closed = Instant::now();
    for (mut near, far) in pairs {
        near.set_read_timeout(Some(Duration::from_secs(120))).expect("a limit");
        assert_eq!(near.read(&mut [0]).expect("the close"), 0);
        until("the close is acknowledged", || {
            TcpInfo::of(std::os::fd::AsFd::as_fd(&far)).expect("a TCP socket").state() == Some(5)
        });
    }
    println!("all have taken it after {:?}", closed.elapsed());
    assert_eq!(scene.end(proxy).totals.opened, ends as u64);
}
