//! Proxies that split connections, on this machine's kernel.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::proxy::{CELL, CLIENT, SERVER, Scene, connect, connection, ip, listen, resident};
use crate::common::site::PROGRAM;
use crate::common::{Checker, send};
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::Signal;
use trunkline_testbed::machine;
use trunkline_testbed::namespace::{Host, Task, veth};

#[test]
fn both_ends_keep_the_addresses_and_ports_of_each_other_whoever_opens() {
    machine::share();
    let test = "both_ends_keep_the_addresses_and_ports_of_each_other_whoever_opens";
    let Some(scene) = Scene::new(test) else { return };
    let proxy = scene.start(CELL);
    for version in 0..scene.versions {
        for (from, to, address) in
            [(&scene.client, &scene.server, SERVER[version]), (&scene.server, &scene.client, CLIENT[version])]
        {
            let (address, listener) = listen(to, address);
            let (mut near, mut far) = connection(from, address, &listener);
            assert_eq!(far.peer_addr().expect("it"), near.local_addr().expect("it"));
            assert_eq!(near.peer_addr().expect("it"), far.local_addr().expect("it"));
            near.write_all(b"question").expect("sent");
            let mut seen = [0; 8];
            far.read_exact(&mut seen).expect("received");
            far.write_all(b"answer").expect("sent");
            drop(far);
            let mut answer = String::new();
            near.read_to_string(&mut answer).expect("received");
            assert_eq!((&seen, answer.as_str()), (b"question", "answer"));
        }
    }
    let status = scene.end(proxy);
    assert_eq!(status.totals.opened, 2 * scene.versions as u64, "{status:?}");
    assert_eq!(status.totals.bytes_from_clients, 16 * scene.versions as u64, "{status:?}");
    assert_eq!(scene.left(), (0, false));
}

#[test]
fn streams_arrive_intact_and_half_closes_are_kept() {
    machine::share();
    let Some(scene) = Scene::new("streams_arrive_intact_and_half_closes_are_kept") else { return };
    let proxy = scene.start(CELL);
    for server in &SERVER[..scene.versions] {
        // The server answers after the client has closed.
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let checker = Checker::start(&scene.server, ip(server));
                (send(&scene.client, checker.address, 5_000_000, None), checker)
            })
            .collect();
        for (sender, checker) in tasks {
            sender.join().expect("the stream is sent");
            assert_eq!(checker.finish(), 5_000_000);
        }
    }
    let status = scene.end(proxy);
    assert_eq!(status.totals.bytes_from_clients, 40_000_000 * scene.versions as u64, "{status:?}");
    assert_eq!(status.totals.reset, 0, "{status:?}");
}

#[test]
fn a_server_that_refuses_or_is_not_there_looks_so() {
    machine::share();
    let Some(scene) = Scene::new("a_server_that_refuses_or_is_not_there_looks_so") else { return };
    let fails =
        |to: &str| connect(&scene.client, SocketAddr::new(ip(to), 9)).expect_err("nobody listens").kind();
    let cases: Vec<(&str, ErrorKind)> = [
        ("10.2.0.2", ErrorKind::ConnectionRefused),
        ("203.0.113.1", ErrorKind::NetworkUnreachable),
        ("10.2.0.77", ErrorKind::HostUnreachable),
        ("fd00:2::2", ErrorKind::ConnectionRefused),
        ("2001:db8::1", ErrorKind::NetworkUnreachable),
        ("fd00:2::77", ErrorKind::HostUnreachable),
    ]
    .into_iter()
    .take(3 * scene.versions)
    .collect();
    let direct: Vec<ErrorKind> = cases.iter().map(|(to, _)| fails(to)).collect();
    let proxy = scene.start(CELL);
    let proxied: Vec<ErrorKind> = cases.iter().map(|(to, _)| fails(to)).collect();
    assert_eq!(proxied, direct);
    assert_eq!(proxied, cases.iter().map(|(_, kind)| *kind).collect::<Vec<_>>());
    let status = scene.end(proxy);
    assert_eq!(status.totals.refused, scene.versions as u64, "{status:?}");
    // A SYN that is retransmitted after the answer has left asks once more.
    assert!(status.totals.unreachable >= 2 * scene.versions as u64, "{status:?}");
    assert_eq!(status.totals.opened, 0, "{status:?}");
}

#[test]
fn a_server_that_never_answers_is_never_accepted() {
    machine::share();
    let Some(scene) = Scene::new("a_server_that_never_answers_is_never_accepted") else { return };
    let proxy = scene.start(CELL);
    // Its SYN arrives, and no answer comes back.
    let hole = trunkline_netlink::Route {
        kind: trunkline_netlink::RouteKind::Blackhole,
        ..trunkline_netlink::Route::to("10.1.0.0/16".parse().expect("a prefix"))
    };
    scene
        .server
        .netlink(|handle| handle.add_route(&hole, trunkline_netlink::Existing::Keep))
        .expect("a route");
    let (address, _listener) = scene.listen(0);
    let start = Instant::now();
    let outcome = scene.client.run(|| TcpStream::connect_timeout(&address, Duration::from_secs(3)));
    assert_eq!(outcome.expect_err("nobody answers").kind(), ErrorKind::TimedOut);
    assert!(start.elapsed() >= Duration::from_secs(3), "the client was told something");
    assert_eq!(scene.end(proxy).totals.opened, 0);
}

#[test]
fn a_reset_reaches_the_other_end() {
    machine::share();
    let Some(scene) = Scene::new("a_reset_reaches_the_other_end") else { return };
    let proxy = scene.start(CELL);
    let (address, listener) = scene.listen(0);
    for client_resets in [true, false] {
        let (near, far) = connection(&scene.client, address, &listener);
        let (resets, mut other) = if client_resets { (near, far) } else { (far, near) };
        // Not before both halves are there.
        (&resets).write_all(b"x").expect("sent");
        other.read_exact(&mut [0]).expect("received");
        sockopt::set_socket_linger(resets.as_fd(), Some(Duration::ZERO)).expect("a reset");
        drop(resets);
        let error = other.read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{client_resets}");
    }
    assert_eq!(scene.end(proxy).totals.reset, 2);
}

#[test]
fn a_killed_proxy_resets_its_connections_and_lets_new_ones_pass() {
    machine::share();
    let Some(scene) = Scene::new("a_killed_proxy_resets_its_connections_and_lets_new_ones_pass") else {
        return;
    };
    let mut proxy = scene.start(CELL);
    let (address, listener) = scene.listen(0);
    let (mut near, mut far) = connection(&scene.client, address, &listener);
    near.write_all(b"x").expect("sent");
    far.read_exact(&mut [0]).expect("received");
    proxy.signal(Signal::KILL).expect("killed");
    assert!(proxy.wait(Duration::from_secs(10)).expect("its end").is_some());
    for end in [&mut near, &mut far] {
        let start = Instant::now();
        assert_eq!(end.read(&mut [0]).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
        assert!(start.elapsed() < Duration::from_secs(1), "not at once");
    }
    assert!(!scene.left().1, "the kernel has removed the table of the packet filter");
    drop(connection(&scene.client, address, &listener));

    // The next one removes what is left, and leaves nothing when it is told to end.
    let proxy = scene.start(CELL);
    drop(connection(&scene.client, address, &listener));
    assert_eq!(scene.end(proxy).totals.opened, 1);
    assert_eq!(scene.left(), (0, false));
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Closer {
    Client,
    Server,
}

/// Opens a connection from the client's port of this number, and closes it in both directions, one end first.
fn open_and_close(
    scene: &Scene,
    port: u16,
    server: (SocketAddr, &TcpListener),
    first: Closer,
) -> std::io::Result<()> {
    let near = scene.client.run(|| -> std::io::Result<TcpStream> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        // The client knows that it may.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(Duration::from_secs(5)))?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(20)))?;
        rustix::net::bind(&socket, &SocketAddr::new(ip(CLIENT[0]), port))?;
        rustix::net::connect(&socket, &server.0)?;
        Ok(TcpStream::from(socket))
    })?;
    let (far, _) = server.1.accept()?;
    far.set_read_timeout(Some(Duration::from_secs(20)))?;
    let (mut closes, mut follows) = if first == Closer::Client { (near, far) } else { (far, near) };
    closes.shutdown(Shutdown::Write)?;
    follows.read_to_end(&mut Vec::new())?;
    drop(follows);
    closes.read_to_end(&mut Vec::new())?;
    Ok(())
}

#[test]
fn what_was_closed_is_opened_again_between_the_same_ports_with_the_proxy_and_after_it() {
    machine::share();
    let test = "what_was_closed_is_opened_again_between_the_same_ports_with_the_proxy_and_after_it";
    let Some(scene) = Scene::new(test) else { return };
    let setting =
        || scene.router.run(|| fs::read_to_string("/proc/sys/net/ipv4/tcp_early_demux")).expect("it");
    let before = setting();
    // One of the two ends, and the proxy's socket towards the other, are in TIME-WAIT for a minute.
    let (address, listener) = scene.listen(0);
    let both = [(4001, Closer::Client), (4002, Closer::Server)];
    for (mode, ports) in [("\"split\"", 0), ("\"path-tail\"\nrate = \"50 Mbit/s\"", 10)] {
        let again = |when: &str| {
            for (port, first) in both {
                let opened = open_and_close(&scene, port + ports, (address, &listener), first);
                assert!(opened.is_ok(), "{when}, {mode}, {first:?} closes first: {opened:?}");
            }
        };
        again("before");
        let proxy = scene.start(&CELL.replace("\"split\"", mode));
        again("with a proxy");
        again("with a proxy, again");
        let status = scene.end(proxy);
        assert_eq!(status.totals.opened, 4, "{status:?}");
        again("after it");
    }
    assert_eq!(setting(), before);
}

#[test]
fn with_fail_closed_nothing_passes_a_killed_proxy() {
    machine::share();
    let Some(scene) = Scene::new("with_fail_closed_nothing_passes_a_killed_proxy") else { return };
    let settings = format!("[proxy]\nfail = \"closed\"\n{CELL}");
    let mut proxy = scene.start(&settings);
    let (address, listener) = scene.listen(0);
    drop(connection(&scene.client, address, &listener));
    proxy.signal(Signal::KILL).expect("killed");
    assert!(proxy.wait(Duration::from_secs(10)).expect("its end").is_some());
    let error = connect(&scene.client, address).expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
    let proxy = scene.start(&settings);
    drop(connection(&scene.client, address, &listener));
    assert_eq!(scene.end(proxy).totals.opened, 1);
    assert_eq!(scene.left(), (0, false));
    drop(connection(&scene.client, address, &listener));
}

#[test]
fn a_second_proxy_is_refused_and_disturbs_nothing() {
    machine::share();
    let Some(scene) = Scene::new("a_second_proxy_is_refused_and_disturbs_nothing") else { return };
    let proxy = scene.start(CELL);
    // One with the same control socket finds that out first.
    let mut second = Command::new(PROGRAM);
    let file = scene.directory.0.join("second.toml");
    let text = fs::read_to_string(scene.file()).expect("the file").replace("proxy.sock", "second.sock");
    fs::write(&file, text).expect("a file");
    second.arg("proxy").arg(&file);
    let output = scene.router.run(|| second.output()).expect("it runs");
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("another proxy runs in this network namespace"), "{said}");
    let (address, listener) = scene.listen(0);
    drop(connection(&scene.client, address, &listener));
    assert_eq!(scene.end(proxy).totals.opened, 1);
}

#[test]
fn exempt_traffic_and_connections_to_the_host_itself_pass() {
    machine::share();
    let Some(scene) = Scene::new("exempt_traffic_and_connections_to_the_host_itself_pass") else { return };
    let (address, listener) = scene.listen(0);
    let exempt = format!(
        "[[proxies]]\nname = \"exempt\"\nbehind = [\"10.1.0.0/16\"]\nports = {}\nmode = \"none\"\n{CELL}",
        address.port()
    );
    let proxy = scene.start(&exempt);
    drop(connection(&scene.client, address, &listener));
    let (own, listener) = listen(&scene.router, "10.1.0.1");
    drop(connection(&scene.client, own, &listener));
    let (other, listener) = scene.listen(0);
    drop(connection(&scene.client, other, &listener));
    assert_eq!(scene.end(proxy).totals.opened, 1, "only the last");
}

#[test]
fn a_route_back_into_the_proxy_is_found_and_refused() {
    machine::share();
    let Some(scene) = Scene::new("a_route_back_into_the_proxy_is_found_and_refused") else { return };
    // Behind the client there is another host; the router believes that the server's network is there as well.
    let far = Host::new("far").expect("a host");
    veth(&far, "up", &scene.client, "down").expect("a link");
    scene.client.forwarding().expect("forwarding");
    far.address("up", "10.1.9.2/24".parse().expect("it"), None).expect("set");
    scene.client.address("down", "10.1.9.1/24".parse().expect("it"), None).expect("set");
    far.route("0.0.0.0/0".parse().expect("it"), ip("10.1.9.1")).expect("a route");
    scene.router.route("10.1.9.0/24".parse().expect("it"), ip("10.1.0.2")).expect("a route");
    scene.router.route("198.51.100.0/24".parse().expect("it"), ip("10.1.0.2")).expect("a route");
    let proxy = scene.start(CELL);
    let error = connect(&far, "198.51.100.1:80".parse().expect("it")).expect_err("it leads nowhere");
    assert_eq!(error.kind(), ErrorKind::NetworkUnreachable, "{error}");
    let status = scene.end(proxy);
    assert_eq!((status.totals.loops, status.totals.opened), (1, 0), "{status:?}");
}

#[test]
fn urgent_data_stays_urgent() {
    machine::share();
    let Some(scene) = Scene::new("urgent_data_stays_urgent") else { return };
    let proxy = scene.start(CELL);
    let (address, listener) = scene.listen(0);
    let (mut near, mut far) = connection(&scene.client, address, &listener);
    near.write_all(b"before").expect("sent");
    rustix::net::send(near.as_fd(), b"!", rustix::net::SendFlags::OOB).expect("sent");
    near.write_all(b"after").expect("sent");
    drop(near);
    // Without SO_OOBINLINE the urgent byte is not in the stream.
    let mut text = String::new();
    std::thread::sleep(Duration::from_millis(500));
    let mut urgent = [0; 1];
    rustix::net::recv(far.as_fd(), &mut urgent, rustix::net::RecvFlags::OOB).expect("an urgent byte");
    far.read_to_string(&mut text).expect("received");
    assert_eq!((&urgent, text.as_str()), (b"!", "beforeafter"));
    scene.end(proxy);
}

#[test]
fn beyond_the_limit_the_longest_idle_is_closed_and_without_one_connections_pass() {
    machine::share();
    let test = "beyond_the_limit_the_longest_idle_is_closed_and_without_one_connections_pass";
    let Some(scene) = Scene::new(test) else { return };
    let proxy = scene.start(&format!("[proxy]\nconnections = 4\nevict_after = \"3 s\"\n{CELL}"));
    let (address, listener) = scene.listen(0);
    let mut open: Vec<_> = (0..4).map(|_| connection(&scene.client, address, &listener)).collect();
    // None has been idle for long: the fifth passes.
    let mut fifth = connection(&scene.client, address, &listener);
    fifth.0.write_all(b"x").expect("sent");
    fifth.1.read_exact(&mut [0]).expect("received");
    std::thread::sleep(Duration::from_millis(3100));
    // All but the first are in use.
    for (near, far) in &mut open[1..] {
        near.write_all(b"x").expect("sent");
        far.read_exact(&mut [0]).expect("received");
    }
    let sixth = connection(&scene.client, address, &listener);
    let (near, far) = &mut open[0];
    for end in [near, far] {
        assert_eq!(end.read(&mut [0]).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    }
    drop(sixth);
    let status = scene.end(proxy);
    assert_eq!(status.totals.evicted, 1, "{status:?}");
    assert!(status.totals.passed >= 1, "{status:?}");
}

#[test]
fn an_idle_connection_costs_little_memory() {
    const CONNECTIONS: u64 = 400;
    machine::share();
    let Some(scene) = Scene::new("an_idle_connection_costs_little_memory") else { return };
    let proxy = scene.start(CELL);
    let (address, listener) = scene.listen(0);
    let far: Task<Vec<TcpStream>> = scene.server.spawn("acceptor", move || {
        (0..=CONNECTIONS).map(|_| listener.accept().expect("a connection").0).collect()
    });
    let mut near = vec![connect(&scene.client, address).expect("a connection")];
    let before = resident(proxy.pid());
    near.extend((0..CONNECTIONS).map(|_| connect(&scene.client, address).expect("a connection")));
    let far = far.join();
    let each = resident(proxy.pid()).saturating_sub(before) / CONNECTIONS;
    assert!(each <= 4096, "{each} bytes for each of {CONNECTIONS} idle connections");
    drop((near, far));
    let status = scene.end(proxy);
    assert_eq!(status.totals.opened, CONNECTIONS + 1, "{status:?}");
}
