//! Proxies that judge packets one by one, on this machine's kernel: path tails and windows.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::Duration;

use crate::common::proxy::{CELL, CLIENT, SERVER, Scene, connection, ip, listen, transfer};
use crate::common::site::until;
use trunkline_linux::{send_queue, send_queue_unsent};
use trunkline_netlink::{Existing, Route, RouteKind, TokenBucket};
use trunkline_testbed::namespace::{Host, veth};

/// A cell of 8 Mbit/s whose queue holds 64 kB.
fn tail() -> String {
    CELL.replace("\"split\"", "\"path-tail\"\nrate = \"8 Mbit/s\"\nqueue = \"64 kB\"")
}

#[test]
fn with_a_path_tail_the_sender_keeps_the_rate_of_the_emulated_link() {
    let Some(scene) = Scene::new("with_a_path_tail_the_sender_keeps_the_rate_of_the_emulated_link") else {
        return;
    };
    let proxy = scene.start(&tail());
    for (version, client) in CLIENT.iter().enumerate().take(scene.versions) {
        // To the host behind, whoever opens; and from there, where nothing is emulated.
        let (address, listener) = scene.listen(version);
        let (near, far) = connection(&scene.client, address, &listener);
        let down = transfer(far, near, 2_000_000);
        let (near, far) = connection(&scene.client, address, &listener);
        let up = transfer(near, far, 2_000_000);
        let (address, listener) = listen(&scene.client, client);
        let (near, far) = connection(&scene.server, address, &listener);
        let opened_by_server = transfer(near, far, 2_000_000);
        println!("{version}: down {down:?}, up {up:?}, opened by the server {opened_by_server:?}");
        for took in [down, opened_by_server] {
            assert!(took >= Duration::from_millis(1800) && took <= Duration::from_secs(6), "{took:?}");
        }
        assert!(up < Duration::from_secs(1), "{up:?}");
    }
    let status = scene.end(proxy);
    println!("{status:?}");
    let totals = &status.totals;
    assert!(totals.tail_held > 0 && totals.tail_released > 0 && totals.tail_dropped > 0, "{status:?}");
    assert_eq!(status.totals.reset, 0, "{status:?}");
    assert_eq!(scene.left(), (0, false));
}

/// What this host's kernel says of packets that are too long for a link comes by the proxy, which it does not concern.
#[test]
fn hosts_behind_are_told_that_packets_are_too_long_for_a_link_of_the_proxys_host() {
    let test = "hosts_behind_are_told_that_packets_are_too_long_for_a_link_of_the_proxys_host";
    let Some(scene) = Scene::new(test) else { return };
    let proxy = scene.start(&tail());
    let narrowed = scene
        .router
        .netlink(|handle| handle.link_index("outside").and_then(|index| handle.set_mtu(index, 1300)));
    narrowed.expect("another MTU");
    for version in 0..scene.versions {
        let sink = scene.server.run(|| UdpSocket::bind((ip(SERVER[version]), 0))).expect("a socket");
        sink.set_read_timeout(Some(Duration::from_millis(50))).expect("a limit");
        let address = sink.local_addr().expect("its address");
        let source = scene.client.run(|| UdpSocket::bind((ip(CLIENT[version]), 0))).expect("a socket");
        // The kernel sends them whole and not to be fragmented, until it is told.
        until("a long datagram arrives in fragments", || {
            let _ = source.send_to(&[7; 1400], address);
            sink.recv(&mut [0; 1500]).is_ok_and(|bytes| bytes == 1400)
        });
    }
    scene.end(proxy);
}

#[test]
fn with_a_path_tail_a_close_is_acknowledged_by_the_host_behind_alone() {
    let Some(scene) = Scene::new("with_a_path_tail_a_close_is_acknowledged_by_the_host_behind_alone") else {
        return;
    };
    let proxy = scene.start(&tail());
    let (address, listener) = scene.listen(0);
    let (mut near, mut far) = connection(&scene.client, address, &listener);
    near.write_all(b"x").expect("sent");
    far.read_exact(&mut [0]).expect("received");
    // The host behind is out of reach for a while.
    let hole = Route { kind: RouteKind::Blackhole, ..Route::to("10.1.0.2/32".parse().expect("it")) };
    scene.router.netlink(|handle| handle.add_route(&hole, Existing::Keep)).expect("a route");
    far.write_all(b"answer").expect("sent");
    far.shutdown(std::net::Shutdown::Write).expect("closed");
    // FIN-WAIT-1: the FIN is not acknowledged, while its data is.
    std::thread::sleep(Duration::from_millis(700));
    let state = || trunkline_linux::TcpInfo::of(far.as_fd()).expect("a TCP socket").state();
    assert_eq!(state(), Some(4));
    scene.router.netlink(|handle| handle.delete_route(&hole)).expect("no route");
    let mut answer = String::new();
    near.read_to_string(&mut answer).expect("received");
    assert_eq!(answer, "answer");
    until("the FIN is acknowledged", || state() == Some(5));
    drop(near);
    scene.end(proxy);
}

/// Bytes that a socket has sent and the other end has not acknowledged.
fn in_flight(socket: &TcpStream) -> usize {
    let fd = socket.as_fd();
    let unsent = send_queue_unsent(fd).expect("unsent");
    send_queue(fd).expect("all").saturating_sub(unsent)
}

/// What a server has in flight to a client whose acknowledgements do not come, in both versions of IP.
fn in_flight_to_silence(scene: &Scene) -> Vec<usize> {
    let mut all = Vec::new();
    for version in 0..scene.versions {
        let (address, listener) = scene.listen(version);
        let (mut near, mut far) = connection(&scene.client, address, &listener);
        near.write_all(b"x").expect("sent");
        far.read_exact(&mut [0]).expect("received");
        let network = if version == 0 { "10.1.0.2/32" } else { "fd00:1::2/128" };
        let hole = Route { kind: RouteKind::Blackhole, ..Route::to(network.parse().expect("it")) };
        scene.router.netlink(|handle| handle.add_route(&hole, Existing::Keep)).expect("a route");
        let data = vec![7; 1_000_000];
        let mut other = far.try_clone().expect("a handle");
        let writer = std::thread::spawn(move || other.write_all(&data));
        until("something is in flight", || in_flight(&far) > 0);
        std::thread::sleep(Duration::from_millis(100));
        all.push(in_flight(&far));
        scene.router.netlink(|handle| handle.delete_route(&hole)).expect("no route");
        near.read_exact(&mut vec![0; 1_000_000]).expect("received");
        writer.join().expect("it ends").expect("sent");
    }
    all
}

#[test]
fn with_a_clamped_window_no_more_is_in_flight() {
    let Some(scene) = Scene::new("with_a_clamped_window_no_more_is_in_flight") else { return };
    for bytes in in_flight_to_silence(&scene) {
        assert!(bytes > 6000, "without a proxy it is an initial window: {bytes}");
    }
    let clamp = CELL.replace("\"split\"", "\"clamp-window\"\nwindow = \"6 kB\"");
    let proxy = scene.start(&clamp);
    for bytes in in_flight_to_silence(&scene) {
        assert!((1000..=6000).contains(&bytes), "{bytes}");
    }
    // From there nothing is bounded, and whoever opens, the host behind is the one that is clamped.
    let (address, listener) = listen(&scene.client, CLIENT[0]);
    let (near, far) = connection(&scene.server, address, &listener);
    transfer(near, far, 500_000);
    let (address, listener) = scene.listen(0);
    let (near, far) = connection(&scene.client, address, &listener);
    transfer(near, far, 500_000);
    let status = scene.end(proxy);
    assert!(status.totals.clamped > 0, "{status:?}");
    assert_eq!(status.totals.opened, 0, "nothing is ended here: {status:?}");
    assert_eq!(status.proxies[0].counts.opened, 2 + scene.versions as u64, "{status:?}");
    assert_eq!(scene.left(), (0, false));
}

#[test]
fn connections_that_are_open_before_a_clamp_go_on() {
    let Some(scene) = Scene::new("connections_that_are_open_before_a_clamp_go_on") else { return };
    let (address, listener) = scene.listen(0);
    let (near, far) = connection(&scene.client, address, &listener);
    let proxy = scene.start(&CELL.replace("\"split\"", "\"clamp-window\"\nwindow = \"6 kB\""));
    transfer(far, near, 500_000);
    let status = scene.end(proxy);
    assert_eq!(status.totals.clamped, 0, "{status:?}");
}

#[test]
fn cells_behind_two_interfaces_have_links_of_their_own() {
    let Some(scene) = Scene::new("cells_behind_two_interfaces_have_links_of_their_own") else { return };
    // Of the same prefix as the client, behind another interface.
    let other = Host::new("other").expect("a host");
    veth(&other, "up", &scene.router, "inside2").expect("a link");
    scene.router.sysctl("net.ipv4.conf.inside2.rp_filter", "1").expect("a filter");
    other.address("up", "10.1.7.2/24".parse().expect("it"), None).expect("set");
    scene.router.address("inside2", "10.1.7.1/24".parse().expect("it"), None).expect("set");
    other.route("0.0.0.0/0".parse().expect("it"), ip("10.1.7.1")).expect("a route");
    let cell = |name: &str, link: &str, rate: &str| {
        format!(
            "[[proxies]]\nname = \"{name}\"\nbehind = [\"10.1.0.0/16\"]\ninterface = \"{link}\"\nmode = \"path-tail\"\nrate = \"{rate}\"\nqueue = \"30 kB\"\n"
        )
    };
    let proxy = scene.start(&(cell("fast", "inside", "8 Mbit/s") + &cell("slow", "inside2", "2 Mbit/s")));
    let (address, listener) = scene.listen(0);
    let ends = [connection(&scene.client, address, &listener), connection(&other, address, &listener)];
    let transfers = ends.map(|(near, far)| std::thread::spawn(move || transfer(far, near, 500_000)));
    let [fast, slow] = transfers.map(|thread| thread.join().expect("it is moved"));
    println!("fast {fast:?}, slow {slow:?}");
    // 500 kB and headers: 0.5 s and 2 s.
    assert!(fast >= Duration::from_millis(440) && slow >= Duration::from_millis(1800), "{fast:?}, {slow:?}");
    let status = scene.end(proxy);
    for number in 0..2 {
        assert_eq!(status.proxies[number].counts.opened, 1, "{status:?}");
        assert!(status.proxies[number].counts.tail_held > 300, "{status:?}");
    }
}

#[test]
fn a_packet_that_is_too_long_for_the_next_link_is_reported_to_its_sender() {
    let test = "a_packet_that_is_too_long_for_the_next_link_is_reported_to_its_sender";
    let Some(scene) = Scene::new(test) else { return };
    // The way to the network takes shorter packets than the host behind sends. It is told, and sends shorter ones.
    let mtu = |mtu| {
        scene.router.netlink(|handle| {
            let device = handle.link_index("outside")?;
            handle.set_mtu(device, mtu)
        })
    };
    mtu(1400).expect("an MTU");
    for mode in ["\"clamp-window\"\nwindow = \"60 kB\"", "\"path-tail\"\nrate = \"50 Mbit/s\""] {
        let proxy = scene.start(&CELL.replace("\"split\"", mode));
        for version in 0..scene.versions {
            let (address, listener) = scene.listen(version);
            let (near, far) = connection(&scene.client, address, &listener);
            transfer(near, far, 300_000);
        }
        let status = scene.end(proxy);
        assert!(status.totals.too_long > 0, "{mode}: {status:?}");
    }
}

/// A host that sends to one behind the proxy for as long as the value lives.
struct Download {
    stop: TcpStream,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Download {
    fn start(scene: &Scene) -> Self {
        let (address, listener) = scene.listen(0);
        let (mut near, mut far) = connection(&scene.client, address, &listener);
        let stop = near.try_clone().expect("a handle");
        let data = vec![7; 65_536];
        let writer = std::thread::spawn(move || while far.write_all(&data).is_ok() {});
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while near.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
        });
        Download { stop, threads: vec![writer, reader] }
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let _ = self.stop.shutdown(std::net::Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_measured_rate_follows_the_link_behind_the_proxy() {
    let Some(scene) = Scene::new("a_measured_rate_follows_the_link_behind_the_proxy") else { return };
    let link = |mbit: u64| {
        let bucket = TokenBucket::with_latency(mbit * 1_000_000, 20_000, Duration::from_secs(1));
        scene
            .router
            .netlink(|handle| {
                let device = handle.link_index("inside")?;
                handle.qdisc_tbf(device, bucket)
            })
            .expect("a bottleneck");
    };
    link(8);
    let proxy =
        scene.start(&CELL.replace("\"split\"", "\"path-tail\"\nrate = \"measured\"\nqueue = \"64 kB\""));
    assert_eq!(scene.status().proxies[0].counts.rate, 0, "nothing has been measured");
    let download = Download::start(&scene);
    let rate = || scene.status().proxies[0].counts.rate as f64 / 1e6;
    // A host that others use may get less than the link has, and never more: the bounds below are its, and halves of them.
    let near = |mbit: f64| (0.5 * mbit..1.4 * mbit).contains(&rate());
    until("8 Mbit/s are measured", || near(8.0));
    let held = scene.status().proxies[0].counts.held;
    link(40);
    until("40 Mbit/s are measured", || near(40.0));
    link(8);
    until("8 Mbit/s are measured again", || near(8.0));
    println!("{held} bytes were held; {:?}", scene.status());
    drop(download);
    let status = scene.end(proxy);
    assert!(status.proxies[0].is_measured && status.totals.tail_released > 0, "{status:?}");
}
