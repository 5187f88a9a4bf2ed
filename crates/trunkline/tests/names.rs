//! Endpoints: names, while the files that resolve them are created and replaced; several addresses; several ports.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::site::{Directory, PROGRAM, ask, until};
use crate::common::{LANES, ip};
use trunkline_status::{Answer, Lane, LaneState, Request};
use trunkline_testbed::machine;
use trunkline_testbed::namespace::{Host, Process, veth};
use trunkline_testbed::privilege;

/// Whether a thread may read files as an ordinary user: not where the user namespace has a single one.
fn has_ordinary_users() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace()
        .nth(2)
        .and_then(|count| count.parse().ok())
        .is_some_and(|count: u64| count > 4_000_000_000)
}

/// A peer, and a site that dials it. A name is resolved by files of its own.
struct Named {
    directory: Directory,
    near: Host,
    far: Host,
}

impl Named {
    fn new(test: &str) -> Option<Self> {
        if !privilege::available(test) {
            return None;
        }
        if !has_ordinary_users() || Command::new("unshare").arg("--version").output().is_err() {
            eprintln!("{test}: skipped: it takes unshare, and a user namespace with ordinary users");
            return None;
        }
        Some(Self::with(&["198.18.1.2:4600"], "far.example:4600"))
    }

    /// The peer listens here, and the site dials it there.
    fn with(listen: &[&str], endpoint: &str) -> Self {
        let directory = Directory::new();
        let [near, far] = ["near", "far"].map(|name| Host::new(name).expect("a host"));
        veth(&near, "wan", &far, "wan").expect("a line");
        for (host, last) in [(&near, 1), (&far, 2)] {
            let address = format!("198.18.1.{last}/24").parse().expect("a prefix");
            host.address("wan", address, None).expect("an address");
        }
        let keys = ["a", "b"].map(|site| directory.key(site));
        let text = |own: &str, tun: u8, key: &str, other: u8, endpoint: &str| {
            format!(
                "{own}[tun]\naddress = [\"198.19.{tun}.1/32\"]\n[[peers]]\nname = \"peer\"\npublic_key = \"{key}\"\nroutes = [\"198.19.{other}.1/32\"]\n{endpoint}\n"
            )
        };
        directory.file("b", &text(&format!("listen = {listen:?}\n"), 2, &keys[0], 1, ""));
        directory.file("a", &text("", 1, &keys[1], 2, &format!("endpoint = \"{endpoint}\"")));
        Named { directory, near, far }
    }

    /// Starts the site that dials, after `script` has been run in an `/etc` of its own, in a mount namespace.
    fn dial(&self, script: &str, stderr: impl Into<Stdio>) -> Process {
        let script = format!(
            "mount -t tmpfs none /etc && echo 'hosts: files' > /etc/nsswitch.conf && {script} && exec {PROGRAM} up {}",
            self.directory.0.join("a.toml").display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]).stderr(stderr);
        self.near.command(command).expect("it starts")
    }

    /// The lanes of the site that dials; none before it answers.
    fn lanes(&self) -> Vec<Lane> {
        match ask(&self.directory.socket("a"), &Request::Status) {
            Ok(Answer::Status(mut status)) => status.peers.swap_remove(0).lanes,
            _ => Vec::new(),
        }
    }

    fn wait_for_all_lanes(&self) {
        until("all lanes are up", || {
            self.lanes().iter().filter(|lane| lane.state == LaneState::Up).count() == LANES
        });
    }
}

/// No dial waits for the dead address, which is the first: none fails.
#[test]
fn a_dead_address_of_two_keeps_no_lane_down() {
    machine::share();
    let Some(it) = Named::new("a_dead_address_of_two_keeps_no_lane_down") else { return };
    for (host, last) in [(&it.near, 1), (&it.far, 2)] {
        ip(host, &format!("address add fd00:5::{last}/64 dev wan nodad"));
    }
    for (host, route) in [(&it.near, "fd00:77::/64 via fd00:5::2"), (&it.far, "blackhole fd00:77::/64")] {
        ip(host, &format!("-6 route add {route}"));
    }
    let _b = it.directory.start(&it.far, "b", Stdio::null());
    // Of several lines with one name the resolver takes all only if it is told so (host.conf(5)).
    let hosts = "echo 'multi on' > /etc/host.conf && printf 'fd00:77::1 far.example\\n198.18.1.2 far.example\\n' > /etc/hosts";
    for start in 0..3 {
        let log = it.directory.0.join(format!("a{start}.log"));
        let mut gateway = it.dial(hosts, fs::File::create(&log).expect("a log"));
        it.wait_for_all_lanes();
        let lines = fs::read_to_string(&log).expect("the log");
        assert!(!lines.contains("dialling again"), "{lines}");
        gateway.terminate(Duration::from_secs(10)).expect("it ends");
    }
}

#[test]
fn a_hosts_file_that_is_created_or_replaced_after_the_start_has_effect() {
    machine::share();
    for at_start in ["true", "echo 127.0.0.1 localhost > /etc/hosts"] {
        let Some(it) = Named::new("a_hosts_file_that_is_created_or_replaced_after_the_start_has_effect")
        else {
            return;
        };
        let _b = it.directory.start(&it.far, "b", Stdio::null());
        let gateway = it.dial(at_start, Stdio::null());
        until("the look-up of the name failed", || {
            let failed =
                |lane: &Lane| lane.last_error.as_ref().is_some_and(|error| error.contains("far.example"));
            it.lanes().iter().any(failed)
        });
        let etc = PathBuf::from(format!("/proc/{}/root/etc", gateway.pid()));
        fs::write(etc.join("hosts.new"), "198.18.1.2 far.example\n").expect("a new file");
        fs::rename(etc.join("hosts.new"), etc.join("hosts")).expect("it is put in its place");
        it.wait_for_all_lanes();
    }
}

/// The lanes of each start are at the port that the network carries, and none has failed before.
#[test]
fn a_network_that_carries_one_port_of_two_keeps_no_lane_down() {
    machine::share();
    if !privilege::available("a_network_that_carries_one_port_of_two_keeps_no_lane_down") {
        return;
    }
    let it = Named::with(&["198.18.1.2:4600", "198.18.1.2:443"], "198.18.1.2:4600,443");
    for rule in [
        "add pref 100 lookup local",
        "del pref 0",
        "add pref 50 iif wan ipproto tcp dport 4600 blackhole",
        "add pref 51 iif wan ipproto udp dport 4600 blackhole",
    ] {
        ip(&it.far, &format!("rule {rule}"));
    }
    let _b = it.directory.start(&it.far, "b", Stdio::null());
    let log = it.directory.0.join("a.log");
    let start = Instant::now();
    let _a = it.directory.start(&it.near, "a", fs::File::create(&log).expect("a log"));
    it.wait_for_all_lanes();
    println!("all lanes after {:.1?}", start.elapsed());
    let remotes: Vec<_> = it.lanes().into_iter().filter_map(|lane| lane.remote).collect();
    assert!(remotes.iter().all(|remote| remote == "198.18.1.2:443"), "{remotes:?}");
    let lines = fs::read_to_string(&log).expect("the log");
    assert!(!lines.contains("dialling again"), "{lines}");
}

/// Takes connections, as a captive portal does to any port. It answers as a web server does, or never.
fn portal(host: &Host, answers: bool) {
    let portal = host.run(|| TcpListener::bind("198.18.1.2:80")).expect("a listener");
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in portal.incoming().take(200).flatten() {
            if answers {
                // What is unread when it ends would become a reset.
                let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
                while stream.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {}
                let _ = stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: http://login.example/\r\n\r\n");
            } else {
                kept.push(stream);
            }
        }
    });
}

#[test]
fn another_service_at_the_endpoint_is_named() {
    machine::share();
    if !privilege::available("another_service_at_the_endpoint_is_named") {
        return;
    }
    let it = Named::with(&["198.18.1.2:443"], "198.18.1.2:80");
    portal(&it.far, true);
    let _b = it.directory.start(&it.far, "b", Stdio::null());
    let log = it.directory.0.join("a.log");
    let _a = it.directory.start(&it.near, "a", fs::File::create(&log).expect("a log"));
    let told = || fs::read_to_string(&log).expect("the log");
    until("the log names it", || told().contains("198.18.1.2:80: ") && told().contains("captive portal"));
}

#[test]
fn another_service_at_the_first_port_keeps_no_lane_from_the_second() {
    machine::share();
    if !privilege::available("another_service_at_the_first_port_keeps_no_lane_from_the_second") {
        return;
    }
    for answers in [true, false] {
        let it = Named::with(&["198.18.1.2:443"], "198.18.1.2:80,443");
        portal(&it.far, answers);
        let _b = it.directory.start(&it.far, "b", Stdio::null());
        let start = Instant::now();
        let _a = it.directory.start(&it.near, "a", Stdio::null());
        it.wait_for_all_lanes();
        println!("answers {answers}: all lanes after {:.1?}", start.elapsed());
    }
}
