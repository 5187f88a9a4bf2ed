//! What attackers, other programs and shortages do to proxies, on this machine's kernel: connections of others are served, and with
//! `fail = "closed"` nothing passes.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::proxy::{
    CELL, CLIENT, SERVER, Scene, connect, connection, forge_syn, ip, raw_socket, transfer,
};
use crate::common::site::{PROGRAM, status, until};
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::Signal;
use trunkline_netlink::{Existing, Family, PacketFilter, Route, RouteKind};
use trunkline_proxy::{Ending, Plan, Proxy};
use trunkline_schema::{ProxyFile, Source};

const CLOSED: &str = "[proxy]\nfail = \"closed\"\n";
const TAIL: &str = "mode = \"path-tail\"\nrate = \"50 Mbit/s\"";

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip(address), port)
}

/// Has the server's host drop what comes for it from the hosts behind, or not.
fn silence(scene: &Scene, is_silent: bool) {
    let hole = Route { kind: RouteKind::Blackhole, ..Route::to("10.1.0.0/16".parse().expect("a prefix")) };
    let set = scene.server.netlink(|handle| {
        if is_silent { handle.add_route(&hole, Existing::Keep) } else { handle.delete_route(&hole) }
    });
    set.expect("a route");
}

/// A connection from a port of the client, which has so long to come to be.
fn connect_from(
    scene: &Scene,
    from: SocketAddr,
    to: SocketAddr,
    limit: Duration,
) -> std::io::Result<TcpStream> {
    scene.client.run(|| {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(limit))?;
        rustix::net::bind(&socket, &from)?;
        rustix::net::connect(&socket, &to)?;
        Ok(TcpStream::from(socket))
    })
}

#[test]
fn syns_to_servers_that_do_not_answer_take_no_place_from_other_clients() {
    let test = "syns_to_servers_that_do_not_answer_take_no_place_from_other_clients";
    let Some(scene) = Scene::new(test) else { return };
    // The server's host is no router: it drops what is for others.
    scene.router.route("198.51.100.0/24".parse().expect("it"), ip(SERVER[0])).expect("a route");
    scene.client.address("up", "10.1.0.3/24".parse().expect("it"), None).expect("an address");
    for fail in ["open", "closed"] {
        let proxy = scene.start(&format!("[proxy]\nfail = \"{fail}\"\nopening = 20\n{CELL}"));
        let (address, listener) = scene.listen(0);
        let raw = raw_socket(&scene.client);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in (0..20_000).take_while(|_| !stop.load(Ordering::Relaxed)) {
                    forge_syn(&raw, at(CLIENT[0], 1024 + number), at("198.51.100.9", 80), 7);
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            until("the table is full", || scene.status().totals.displaced >= 20);
            for _ in 0..10 {
                let near = connect_from(&scene, at("10.1.0.3", 0), address, Duration::from_secs(20));
                let near = near.expect("a connection");
                transfer(near, listener.accept().expect("a connection").0, 10_000);
            }
            stop.store(true, Ordering::Relaxed);
        });
        let log = scene.log();
        let status = scene.end(proxy);
        assert_eq!((status.totals.opened, status.totals.passed), (10, 0), "{fail}: {status:?}");
        let lines = log.lines().filter(|line| line.contains("gave way")).count();
        // One at once, and one for each minute.
        assert!((1..=3).contains(&lines), "{fail}: {log}");
    }
}

#[test]
fn forged_syns_leave_connections_at_a_server_for_a_short_time_alone() {
    const FORGED: u16 = 800;
    let Some(scene) = Scene::new("forged_syns_leave_connections_at_a_server_for_a_short_time_alone") else {
        return;
    };
    let proxy = scene.start(CELL);
    let (address, listener) = scene.listen(0);
    scene.server.sysctl("net.core.somaxconn", "65535").expect("a long queue");
    rustix::net::listen(&listener, 65_535).expect("a long queue");
    // All of them are behind the client's host, where nobody answers.
    scene.router.route("10.1.64.0/18".parse().expect("it"), ip(CLIENT[0])).expect("a route");
    let raw = raw_socket(&scene.client);
    for host in 0..FORGED {
        let [high, low] = host.to_be_bytes();
        forge_syn(&raw, at(&format!("10.1.{}.{low}", 64 + high), 4000), address, 7);
        if host % 50 == 49 {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let established = || {
        let table = scene.server.run(|| fs::read_to_string("/proc/thread-self/net/tcp")).expect("the table");
        table.lines().filter(|line| line.split_whitespace().nth(3) == Some("01")).count()
    };
    until("the server has accepted some", || established() > 0);
    let start = Instant::now();
    // A client that confirms is served meanwhile.
    drop(connect(&scene.client, address).expect("a connection"));
    until("the server has none of them", || established() == 0);
    // It was 64 s.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let status = scene.end(proxy);
    assert!(status.totals.unconfirmed >= u64::from(FORGED) / 2, "{status:?}");
    assert_eq!(status.totals.opened, 1, "{status:?}");
}

#[test]
fn a_forged_syn_with_another_number_neither_ends_an_opening_nor_fills_the_log() {
    let test = "a_forged_syn_with_another_number_neither_ends_an_opening_nor_fills_the_log";
    let Some(scene) = Scene::new(test) else { return };
    for (port, mode) in [(4001, "mode = \"split\""), (4002, TAIL)] {
        let proxy = scene.start(&CELL.replace("mode = \"split\"", mode));
        silence(&scene, true);
        let (address, listener) = scene.listen(0);
        let client = at(CLIENT[0], port);
        let raw = raw_socket(&scene.client);
        let (near, far) = std::thread::scope(|scope| {
            let near = scope.spawn(|| connect_from(&scene, client, address, Duration::from_secs(40)));
            until("it is being opened", || scene.status().totals.opening == 1);
            for isn in 0..2000 {
                forge_syn(&raw, client, address, isn);
            }
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(scene.status().totals.opening, 1, "{mode}");
            silence(&scene, false);
            let near = near.join().expect("a thread").expect("a connection");
            (near, listener.accept().expect("a connection").0)
        });
        transfer(near, far, 100_000);
        let log = scene.log();
        assert!(log.lines().count() < 12, "{mode}: {log}");
        let status = scene.end(proxy);
        assert_eq!((status.totals.loops, status.totals.opened), (0, 1), "{mode}: {status:?}");
    }
}

#[test]
fn beyond_the_limit_of_descriptors_connections_pass_or_are_refused_as_configured() {
    const MANY: usize = 60;
    let test = "beyond_the_limit_of_descriptors_connections_pass_or_are_refused_as_configured";
    let Some(scene) = Scene::new(test) else { return };
    for fail in ["open", "closed"] {
        let proxy = scene.start_with_descriptors(
            100,
            &format!("[proxy]\nfail = \"{fail}\"\nevict_after = \"1 h\"\n{CELL}"),
        );
        let (address, listener) = scene.listen(0);
        let opened: Vec<_> = (0..MANY).map(|_| connect(&scene.client, address)).collect();
        until("all are open", || scene.status().totals.opening == 0);
        let status = scene.status();
        let (served, passed) = (status.totals.opened, status.totals.passed);
        assert!((10..MANY as u64).contains(&served), "{fail}: {status:?}");
        // Each carries data, with a proxy or without.
        let mut count = 0;
        for result in &opened {
            match result {
                Ok(near) => {
                    let (mut far, _) = listener.accept().expect("a connection");
                    far.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
                    (&*near).write_all(b"x").expect("sent");
                    far.read_exact(&mut [0]).expect("received");
                    count += 1;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{fail}: {error}"),
            }
        }
        if fail == "open" {
            assert_eq!((count, served + passed), (MANY, MANY as u64), "{status:?}");
        } else {
            assert_eq!((count as u64, passed), (served, 0), "{status:?}");
        }
        let log = scene.log();
        let about = |text: &str| log.lines().filter(|line| line.contains(text)).count();
        assert_eq!(
            (about("limit of open files"), about("all places for connections are taken")),
            (1, 1),
            "{log}"
        );
        scene.end(proxy);
    }
}

/// Waits until a connection is the proxy's again. Whether any passed it before.
fn until_served(
    scene: &Scene,
    address: SocketAddr,
    listener: &TcpListener,
    opened: impl Fn() -> u64,
) -> bool {
    let mut passed = false;
    until("a connection is the proxy's", || {
        let before = opened();
        let Ok(near) = scene.client.run(|| TcpStream::connect_timeout(&address, Duration::from_secs(2)))
        else {
            return false;
        };
        let (far, _) = listener.accept().expect("a connection");
        transfer(near, far, 1000);
        let is_served = opened() > before;
        passed |= !is_served;
        is_served
    });
    passed
}

fn remove_device(scene: &Scene) {
    let removed = scene.router.netlink(|handle| {
        let device = handle.link_index("tl-proxy")?;
        handle.delete_link(device)
    });
    removed.expect("it is removed");
}

#[test]
fn what_leads_to_a_proxy_is_restored_and_open_connections_go_on() {
    let Some(scene) = Scene::new("what_leads_to_a_proxy_is_restored_and_open_connections_go_on") else {
        return;
    };
    for fail in ["open", "closed"] {
        let proxy = scene.start(&format!("[proxy]\nfail = \"{fail}\"\n{CELL}"));
        let (address, listener) = scene.listen(0);
        let (mut near, mut far) = connection(&scene.client, address, &listener);
        let complete = scene.left();
        let opened = || scene.status().totals.opened;
        let mut still_open = |what: &str| {
            near.write_all(b"x").expect("sent");
            far.read_exact(&mut [0]).unwrap_or_else(|error| panic!("{fail}: after {what}: {error}"));
        };
        remove_device(&scene);
        let passed = until_served(&scene, address, &listener, opened);
        assert!(fail == "open" || !passed, "connections passed without the device");
        still_open("the device");
        scene
            .router
            .netlink(|handle| {
                for family in Family::BOTH {
                    for rule in handle.rules(family)?.into_iter().filter(|rule| rule.protocol == 112) {
                        handle.delete_rule(&rule)?;
                    }
                }
                Ok(())
            })
            .expect("no rules");
        until("the rules are there again", || scene.left() == complete);
        still_open("the rules");
        if fail == "closed" {
            // As `nft flush ruleset` does; the table of an open proxy is its socket's own.
            let deleted = scene.router.run(|| PacketFilter::open()?.delete("trunkline-proxy"));
            assert!(deleted.expect("an answer"));
            until("the table is there again", || scene.left() == complete);
            still_open("the table");
        }
        scene
            .router
            .netlink(|handle| {
                let device = handle.link_index("tl-proxy")?;
                handle.set_down(device)?;
                handle.set_up(device)
            })
            .expect("down and up");
        until_served(&scene, address, &listener, opened);
        still_open("the routes");
        assert!(scene.log().contains("restored what another program removed"), "{}", scene.log());
        scene.end(proxy);
        assert_eq!(scene.left(), (0, false));
    }
}

#[test]
fn with_fail_closed_an_end_by_an_error_refuses_until_unblock() {
    let Some(scene) = Scene::new("with_fail_closed_an_end_by_an_error_refuses_until_unblock") else { return };
    let (address, listener) = scene.listen(0);
    let text = format!("{CLOSED}{CELL}");
    // In this process, as in a gateway that fails.
    let source = Source::parse("proxy.toml", &text).expect("TOML");
    let file = ProxyFile::of(&source).expect("a file");
    let plan = Plan::new(&file.proxy, &file.proxies);
    for (ending, refuses) in [(Ending::InOrder, false), (Ending::Failed, true)] {
        let proxy =
            scene.router.run(|| Proxy::start("proxy", &plan, None).and_then(Proxy::spawn)).expect("it");
        drop(connection(&scene.client, address, &listener));
        scene.router.run(|| proxy.end(ending)).expect("its end");
        let after = connect(&scene.client, address);
        assert_eq!(after.is_err(), refuses, "{ending:?}: {after:?}");
        drop(after.map(|_| listener.accept()));
    }
    // So does the end of the process by a signal that it cannot handle.
    let unblock = || {
        let mut command = Command::new(PROGRAM);
        command.arg("unblock").arg(scene.file());
        scene.router.run(|| command.output()).expect("it runs")
    };
    let mut proxy = scene.start(&text);
    drop(connection(&scene.client, address, &listener));
    assert_eq!(unblock().status.code(), Some(2), "it runs");
    proxy.signal(Signal::KILL).expect("killed");
    assert!(proxy.wait(Duration::from_secs(10)).expect("its end").is_some());
    let error = connect(&scene.client, address).expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
    let output = unblock();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("connections of proxies were blocked"), "{output:?}");
    drop(connection(&scene.client, address, &listener));
    assert_eq!(scene.left(), (0, false));
}

#[test]
fn proxies_of_a_gateway_without_their_device_end_nothing_and_come_back_with_it() {
    let test = "proxies_of_a_gateway_without_their_device_end_nothing_and_come_back_with_it";
    let Some(scene) = Scene::new(test) else { return };
    scene.directory.key("a");
    let peer = scene.directory.key("b");
    let text = format!(
        "[[peers]]\nname = \"b\"\npublic_key = \"{peer}\"\nendpoint = \"10.2.0.77:4600\"\nroutes = [\"10.9.0.0/16\"]\n{CLOSED}{CELL}"
    );
    scene.directory.file("a", &text);
    let log = fs::File::create(scene.directory.0.join("log")).expect("a log");
    let mut gateway = scene.directory.start(&scene.router, "a", log);
    let socket = scene.directory.socket("a");
    let proxies = || status(&socket).proxies.expect("it has proxies");
    let (address, listener) = scene.listen(0);
    drop(connection(&scene.client, address, &listener));
    // Nobody can make a device where there is another link of its name. It may have come first, which the gateway removes then.
    scene.router.netlink(|handle| handle.create_bridge("other")).expect("a link");
    until("the device is taken", || {
        scene
            .router
            .netlink(|handle| {
                if let Ok(device) = handle.link_index("tl-proxy") {
                    handle.delete_link(device)?;
                }
                let other = handle.link_index("other")?;
                Ok(handle.rename(other, "tl-proxy").is_ok())
            })
            .expect("links")
    });
    until("the status says so", || proxies().problem.is_some());
    let error = connect(&scene.client, address).expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
    assert_eq!(gateway.try_wait().expect("its state"), None, "the gateway goes on");
    let log = fs::read_to_string(scene.directory.0.join("log")).expect("a log");
    assert!(log.contains("new connections may not come to the proxy, and are refused"), "{log}");
    remove_device(&scene);
    until_served(&scene, address, &listener, || proxies().totals.opened);
    until("the status says so", || proxies().problem.is_none());
    let ended = gateway.terminate(Duration::from_secs(10)).expect("its end");
    assert_eq!(ended.code(), Some(0), "{}", scene.log());
    assert_eq!(scene.left(), (0, false));
}
