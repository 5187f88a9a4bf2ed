//! What proxies say of themselves, proxies beside a gateway, and their bad days; on this machine's kernel.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::proxy::{CELL, SERVER, Scene, connect, connection, ip, resident, transfer};
use crate::common::site::{PROGRAM, ask, status, until};
use rustix::net::sockopt;
use trunkline_status::{Answer, ProxiesStatus, Request};
use trunkline_testbed::machine;
use trunkline_testbed::namespace::{Host, Task, veth};

/// What a command prints.
fn prints(scene: &Scene, arguments: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg(scene.file());
    let output = scene.router.run(|| command.output()).expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn status_metrics_and_down_are_those_of_a_gateway() {
    machine::share();
    let Some(scene) = Scene::new("status_metrics_and_down_are_those_of_a_gateway") else { return };
    let metrics = scene.directory.0.join("metrics.sock");
    let mut proxy = scene.start(&format!("[metrics]\nlisten = \"unix:{}\"\n{CELL}", metrics.display()));
    let (address, listener) = scene.listen(0);
    let (near, far) = connection(&scene.client, address, &listener);
    transfer(far, near, 400_000);
    let open = connection(&scene.client, address, &listener);
    until("both are counted", || scene.status().totals.opened == 2 && scene.status().totals.open == 1);
    let state = scene.status();
    assert_eq!(state.name, "proxy");
    let cell = &state.proxies[0];
    assert_eq!((cell.name.as_str(), cell.mode.as_str()), ("cell", "split"), "{state:?}");
    // The SYN and the FIN count as bytes that are acknowledged.
    let delivered = cell.counts.delivered;
    assert!((400_000..400_010).contains(&delivered), "{state:?}");
    assert_eq!(cell.counts.held, 0, "{state:?}");

    let json: ProxiesStatus = serde_json::from_str(&prints(&scene, &["status", "--json"])).expect("JSON");
    assert_eq!((json.totals.opened, json.proxies[0].counts.open), (2, 1), "{json:?}");
    let table = prints(&scene, &["status", "--interval", "0.1"]);
    assert!(table.contains("connections: 1 open, 0 being opened, 2 opened"), "{table}");

    let mut stream = UnixStream::connect(&metrics).expect("a connection");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("received");
    assert!(page.contains("\ntrunkline_proxy_open{proxy=\"cell\",mode=\"split\"} 1\n"), "{page}");

    drop(open);
    let answer = ask(&scene.socket(), &Request::Reload).expect("an answer");
    assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
    prints(&scene, &["down"]);
    assert!(proxy.wait(Duration::from_secs(10)).expect("its end").is_some_and(|status| status.success()));
    assert_eq!(scene.left(), (0, false));
    assert!(!scene.socket().exists() && !metrics.exists());
}

#[test]
fn a_site_runs_proxies_beside_its_trunks() {
    machine::share();
    let Some(scene) = Scene::new("a_site_runs_proxies_beside_its_trunks") else { return };
    scene.directory.key("a");
    let peer = scene.directory.key("b");
    let text = format!(
        "[[peers]]\nname = \"b\"\npublic_key = \"{peer}\"\nendpoint = \"10.2.0.77:4600\"\nroutes = [\"10.9.0.0/16\"]\n{CELL}"
    );
    let file = scene.directory.file("a", &text);
    let log = std::fs::File::create(scene.directory.0.join("log")).expect("a log");
    let mut gateway = scene.directory.start(&scene.router, "a", log);
    let (address, listener) = scene.listen(0);
    let (near, far) = connection(&scene.client, address, &listener);
    transfer(far, near, 400_000);
    let socket = scene.directory.socket("a");
    until("it is counted", || {
        status(&socket).proxies.is_some_and(|proxies| proxies.proxies[0].counts.opened == 1)
    });
    let mut command = Command::new(PROGRAM);
    command.args(["status", "--interval", "0.1"]).arg(&file);
    let output = scene.router.run(|| command.output()).expect("it runs");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("peer b") && table.contains("cell           split"), "{table}");
    // Another mode needs a restart, which the reload says.
    std::fs::write(&file, std::fs::read_to_string(&file).expect("it").replace("\"split\"", "\"none\""))
        .expect("it");
    match ask(&socket, &Request::Reload).expect("an answer") {
        Answer::Refused { message } => assert!(message.starts_with("proxies: needs a restart"), "{message}"),
        other => panic!("{other:?}"),
    }
    let ended = gateway.terminate(Duration::from_secs(10)).expect("its end");
    assert_eq!(ended.code(), Some(0), "{}", scene.log());
    assert_eq!(scene.left(), (0, false));
    drop(connection(&scene.client, address, &listener));
}

#[test]
fn a_client_that_opens_more_than_the_tables_hold_keeps_nobody_out() {
    const MANY: usize = 400;
    machine::share();
    let Some(scene) = Scene::new("a_client_that_opens_more_than_the_tables_hold_keeps_nobody_out") else {
        return;
    };
    let proxy = scene.start(&format!("[proxy]\nconnections = 100\nopening = 50\n{CELL}"));
    let (address, listener) = scene.listen(0);
    let far: Task<Vec<TcpStream>> = scene
        .server
        .spawn("acceptor", move || (0..MANY).map(|_| listener.accept().expect("a connection").0).collect());
    let near: Vec<TcpStream> =
        (0..MANY).map(|_| connect(&scene.client, address).expect("a connection")).collect();
    let far = far.join();
    let state = scene.status();
    assert!(state.totals.open + state.totals.opening <= 100, "{state:?}");
    assert!(state.totals.passed >= (MANY - 100) as u64 && state.totals.evicted == 0, "{state:?}");
    // Those with a proxy and those without carry data.
    for (stream, byte) in near.iter().zip(0_u8..=255).chain(near.iter().rev().zip(0..10)) {
        (&*stream).write_all(&[byte]).expect("sent");
    }
    let received = far.iter().map(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
        stream.read(&mut [0; 2]).expect("received")
    });
    assert!(received.take(256).all(|bytes| bytes > 0));
    drop((near, far));
    scene.end(proxy);
}

/// One client opens `many` connections through a proxy for `limit` of them, and closes none.
fn flood(test: &str, many: usize, limit: u64) {
    let Some(scene) = Scene::new(test) else { return };
    let settings = format!("[proxy]\nconnections = {limit}\nopening = 200\nevict_after = \"1 s\"\n{CELL}");
    let proxy = scene.start(&settings);
    // The server's kernel opens them, and its application takes the first alone.
    scene.server.sysctl("net.core.somaxconn", "65535").expect("a long queue");
    let (address, listener) = scene.listen(0);
    rustix::net::listen(&listener, 65_535).expect("a long queue");
    let (mut first, _far) = connection(&scene.client, address, &listener);
    let before = resident(proxy.pid());
    let mut open: Vec<TcpStream> = Vec::new();
    for number in 0..many {
        if number as u64 == limit / 2 {
            std::thread::sleep(Duration::from_millis(1100));
        }
        open.push(connect(&scene.client, address).expect("a connection, by the proxy or past it"));
        if number % 1000 == 999 {
            // What the proxy has closed needs no descriptor.
            open.retain(|stream| sockopt::socket_error(stream).is_ok_and(|error| error.is_ok()));
        }
    }
    let state = scene.status();
    println!("{} bytes in use before, {} after {many} connections: {state:?}", before, resident(proxy.pid()));
    assert!(state.totals.open + state.totals.opening <= limit, "{state:?}");
    assert!(state.totals.evicted > 0, "{state:?}");
    assert!(state.totals.evicted + state.totals.passed >= many as u64 + 1 - limit, "{state:?}");
    let grown = resident(proxy.pid()).saturating_sub(before);
    assert!(grown <= limit * 4096 + (4 << 20), "{grown} bytes for {limit} connections");
    let error = first.read(&mut [0]).expect_err("the one that was idle for longest");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    // Others are served, and by the proxy once one of them has been idle for long enough.
    std::thread::sleep(Duration::from_millis(1100));
    let opened = scene.status().totals.opened;
    let (other, others) = scene.listen(0);
    until("a connection is the proxy's", || {
        let (near, far) = connection(&scene.client, other, &others);
        transfer(near, far, 100_000);
        scene.status().totals.opened > opened
    });
    drop(open);
    scene.end(proxy);
}

#[test]
fn a_client_that_opens_2000_connections_costs_bounded_memory_and_the_oldest_idle_ones() {
    machine::share();
    flood("a_client_that_opens_2000_connections_costs_bounded_memory_and_the_oldest_idle_ones", 2000, 500);
}

#[test]
#[ignore = "takes ten seconds"]
fn a_client_that_opens_20000_connections_costs_bounded_memory_and_the_oldest_idle_ones() {
    machine::share();
    flood(
        "a_client_that_opens_20000_connections_costs_bounded_memory_and_the_oldest_idle_ones",
        20_000,
        4000,
    );
}

#[test]
fn peers_that_send_a_byte_now_and_then_are_served_at_once_and_hold_nothing() {
    machine::share();
    let test = "peers_that_send_a_byte_now_and_then_are_served_at_once_and_hold_nothing";
    let Some(scene) = Scene::new(test) else { return };
    // Four pipes in all.
    let proxy = scene.start(&format!("[proxy]\nmemory = \"1 MiB\"\nthreads = 1\n{CELL}"));
    let (address, listener) = scene.listen(0);
    let mut slow: Vec<(TcpStream, TcpStream)> =
        (0..20).map(|_| connection(&scene.client, address, &listener)).collect();
    for byte in 0..5 {
        for (near, far) in &mut slow {
            let mut received = [0xff];
            near.write_all(&[byte]).expect("sent");
            far.read_exact(&mut received).expect("received");
            assert_eq!(received, [byte]);
        }
        std::thread::sleep(Duration::from_millis(50));
        let (near, far) = connection(&scene.client, address, &listener);
        transfer(far, near, 200_000);
    }
    until("nothing is held", || scene.status().proxies[0].counts.held == 0);
    drop(slow);
    let status = scene.end(proxy);
    assert_eq!(status.totals.bytes_from_clients, 100, "{status:?}");
    assert_eq!(status.totals.without_means, 0, "{status:?}");
}

#[test]
fn a_peer_that_reads_a_byte_at_a_time_costs_others_nothing_and_memory_is_bounded() {
    machine::share();
    let test = "a_peer_that_reads_a_byte_at_a_time_costs_others_nothing_and_memory_is_bounded";
    let Some(scene) = Scene::new(test) else { return };
    // Four pipes in all.
    let proxy =
        scene.start(&format!("[proxy]\nbuffer = \"64 KiB\"\nmemory = \"1 MiB\"\nthreads = 1\n{CELL}"));
    let (address, listener) = scene.listen(0);
    let mut slow: Vec<(TcpStream, TcpStream)> =
        (0..12).map(|_| connection(&scene.client, address, &listener)).collect();
    for (near, far) in &mut slow {
        let data = vec![7; 65_536];
        far.set_nonblocking(true).expect("set");
        sockopt::set_socket_recv_buffer_size(&*near, 4096).expect("a small buffer");
        let start = Instant::now();
        // Until the proxy takes no more.
        let mut written = 0;
        while start.elapsed() < Duration::from_millis(300) {
            match far.write(&data) {
                Ok(bytes) => written += bytes,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        assert!(written < 16 << 20, "{written} bytes found room: bounded by buffers alone");
        near.read_exact(&mut [0]).expect("a byte");
    }
    let (near, far) = connection(&scene.client, address, &listener);
    let took = transfer(far, near, 2_000_000);
    assert!(took < Duration::from_secs(5), "{took:?}");
    let held = scene.status().proxies[0].counts.held;
    // Two sockets of 64 KiB, which the kernel doubles, and a pipe, for each of twelve.
    assert!(held > 0 && held < 12 * (4 * (64 << 10) + (256 << 10)), "{held}");
    drop(slow);
    scene.end(proxy);
}

#[test]
fn an_interface_that_vanishes_ends_its_connections_alone() {
    machine::share();
    let Some(scene) = Scene::new("an_interface_that_vanishes_ends_its_connections_alone") else { return };
    let other = Host::new("other").expect("a host");
    veth(&other, "up", &scene.router, "outside2").expect("a link");
    other.address("up", "10.3.0.2/24".parse().expect("it"), None).expect("set");
    scene.router.address("outside2", "10.3.0.1/24".parse().expect("it"), None).expect("set");
    other.route("0.0.0.0/0".parse().expect("it"), ip("10.3.0.1")).expect("a route");
    let proxy = scene.start(&format!("[proxy]\nkeepalive = \"1 s\"\n{CELL}"));
    let (address, listener) = scene.listen(0);
    let (stays_near, stays_far) = connection(&scene.client, address, &listener);
    let listener = other.run(|| std::net::TcpListener::bind("10.3.0.2:0")).expect("a listener");
    let (mut near, _far) = connection(&scene.client, listener.local_addr().expect("it"), &listener);
    scene
        .router
        .netlink(|handle| {
            let device = handle.link_index("outside2")?;
            handle.delete_link(device)
        })
        .expect("it vanishes");
    // The keep-alive finds nobody, which the client is told.
    let error = near.read(&mut [0]).expect_err("it ends");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    let nowhere: SocketAddr = "10.3.0.2:9".parse().expect("it");
    let error = connect(&scene.client, nowhere).expect_err("there is no way");
    assert_eq!(error.kind(), ErrorKind::NetworkUnreachable, "{error}");
    transfer(stays_near, stays_far, 100_000);
    let status = scene.end(proxy);
    assert_eq!(status.totals.reset, 1, "{status:?}");
}

#[test]
fn a_proxy_without_ipv6_serves_ipv4() {
    machine::share();
    let Some(scene) = Scene::new("a_proxy_without_ipv6_serves_ipv4") else { return };
    if scene.versions < 2 {
        return;
    }
    scene.router.sysctl("net.ipv6.conf.all.disable_ipv6", "1").expect("no IPv6");
    let proxy = scene.start(CELL);
    let address = SocketAddr::new(ip(SERVER[0]), 0);
    let listener = scene.server.run(|| std::net::TcpListener::bind(address)).expect("a listener");
    let (near, far) = connection(&scene.client, listener.local_addr().expect("it"), &listener);
    transfer(near, far, 100_000);
    assert_eq!(scene.end(proxy).totals.opened, 1);
}
