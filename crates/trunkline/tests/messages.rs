//! What gateways say: whose name stands before a line, of peers that are taken away, of routes that are taken, and how much of a peer
//! whose lanes come and go.

use std::fs::{self, File};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::site::{Directory, PROGRAM, ask, status, until};
use trunkline_gateway::config::Encryption;
use trunkline_gateway::handshake::{Dialer, Hello, Identity, Progress, VERSION};
use trunkline_gateway::keys::{PublicKey, SecretKey};
use trunkline_status::{Answer, Request};
use trunkline_testbed::machine;
use trunkline_testbed::namespace::{Host, Process};
use trunkline_testbed::privilege;

const ADDRESS: &str = "127.0.0.1:4600";
const LIMIT: Duration = Duration::from_secs(20);

/// A site that listens, whose only peer is this test.
struct Site {
    directory: Directory,
    host: Host,
    process: Process,
    identity: Identity,
    public: PublicKey,
    instance: u64,
}

fn text(key: &str, routes: &str, more: &str) -> String {
    format!(
        "listen = [\"{ADDRESS}\"]\nclasses = \"single\"\n{more}\n[[peers]]\nname = \"b\"\npublic_key = \"{key}\"\n\
         routes = [\"{routes}\"]\n"
    )
}

impl Site {
    fn new(test: &str, routes: &str) -> Option<Self> {
        if !privilege::available(test) {
            return None;
        }
        let directory = Directory::new();
        let public = directory.key("a").parse().expect("a key");
        let key = directory.key("b");
        let identity =
            Identity::new(&SecretKey::load(&directory.0.join("b.key")).expect("a key")).expect("it");
        directory.file("a", &text(&key, routes, ""));
        let host = Host::new("a").expect("a host");
        let log = File::create(directory.0.join("a.log")).expect("a log");
        let process = directory.start(&host, "a", log);
        Some(Site { directory, host, process, identity, public, instance: 1 })
    }

    /// A new lane of the peer, up.
    fn lane(&mut self) -> TcpStream {
        self.instance += 1;
        let stream = self.host.run(|| TcpStream::connect(ADDRESS)).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a time-out");
        let status = status(&self.directory.socket("a"));
        let lane_group = status.peers[0].lanes[0].lane_group.clone();
        let (encryption, instance) = (Encryption::Tls, self.instance);
        let hello = Hello { version: VERSION, encryption, lane: 0, instance, lane_group };
        let dialer = Dialer::new(&self.identity, self.public).expect("a dialer");
        let mut handshake = dialer.dial(stream, hello).expect("a handshake");
        loop {
            match handshake.advance().expect("it is let in") {
                Progress::Done(lane) => return lane.stream,
                Progress::WantRead | Progress::WantWrite => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn established(&self) -> u64 {
        let status = status(&self.directory.socket("a"));
        status.peers[0].lanes[0].established
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.0.join("a.log")).unwrap_or_default()
    }

    fn end(mut self) -> String {
        self.process.terminate(LIMIT).expect("it ends");
        self.log()
    }
}

/// Asks for a reload. What is answered.
fn reload(directory: &Directory) -> String {
    match ask(&directory.socket("a"), &Request::Reload) {
        Ok(Answer::Done { message }) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn lanes_of_a_peer_that_come_and_go_have_a_bounded_log() {
    const TIMES: u64 = 100;
    machine::share();
    let test = "lanes_of_a_peer_that_come_and_go_have_a_bounded_log";
    let Some(mut site) = Site::new(test, "198.19.2.1/32") else { return };
    for time in 1..=TIMES {
        let lane = site.lane();
        until("the lane is up", || site.established() == time);
        drop(lane);
    }
    let log = site.end();
    let lines = log.lines().filter(|line| line.contains("lane ")).count();
    // Two lines for each would be 200.
    assert!((4..=60).contains(&lines), "{lines} lines:\n{log}");
}

#[test]
fn every_line_says_of_what_kind_the_name_before_its_colon_is() {
    machine::share();
    let test = "every_line_says_of_what_kind_the_name_before_its_colon_is";
    let Some(mut site) = Site::new(test, "198.19.2.1/32") else { return };
    let _lane = site.lane();
    until("the lane is up", || site.established() == 1);
    // The peer gets another key, and then goes.
    let other = site.directory.key("other");
    site.directory.file("a", &text(&other, "198.19.2.1/32", ""));
    let said = reload(&site.directory);
    assert_eq!(said, "site a: reloaded: 1 peer, 1 class; the key of peer b was changed");
    let removed = "listen = [\"127.0.0.1:4600\"]\nclasses = \"single\"\n";
    site.directory.file("a", removed);
    assert_eq!(reload(&site.directory), "site a: reloaded: 0 peers, 1 class");
    fs::write(site.directory.0.join("a.toml"), "mtu = 5\n").expect("a file");
    let answer = ask(&site.directory.socket("a"), &Request::Reload).expect("an answer");
    assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
    let log = site.end();
    assert!(log.contains(" to b: down: the key of peer b was changed"), "{log}");
    assert!(log.contains("site a: not reloaded: "), "{log}");
    for line in log.lines().filter_map(|line| line.split_once("INFO ").or_else(|| line.split_once("WARN "))) {
        let line = line.1;
        assert!(!line.contains(" to ?"), "{line}");
        let Some((before, _)) = line.split_once(": ") else { continue };
        // A name alone is one word. A sentence may have a colon, too.
        assert!(before.contains(' '), "{line}");
    }
}

#[test]
fn a_second_site_with_the_default_route_is_told_who_has_it_and_what_helps() {
    machine::share();
    let test = "a_second_site_with_the_default_route_is_told_who_has_it_and_what_helps";
    let Some(site) = Site::new(test, "0.0.0.0/0") else { return };
    let directory = &site.directory;
    directory.key("two");
    let key = directory.key("c");
    let file = |more: &str| {
        let text = text(&key, "0.0.0.0/0", &format!("[tun]\nname = \"trunk1\"\n{more}"));
        directory.file("two", &text.replace(&format!("\"{ADDRESS}\""), "\"127.0.0.1:4601\""))
    };
    let mut command = Command::new(PROGRAM);
    command.arg("up").arg(file("")).stdin(Stdio::null()).stderr(Stdio::piped());
    let refused = site.host.run(|| command.output()).expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    for words in ["another Trunkline site", "device trunk0, table 29804", "another tun.table"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("out of link") && !said.contains("auto"), "{said}");
    // What it says helps.
    file("table = 100\n[lanes]\nfwmark = 29804");
    let mut second = directory.start(&site.host, "two", Stdio::null());
    second.terminate(LIMIT).expect("it ends");
    site.end();
}
