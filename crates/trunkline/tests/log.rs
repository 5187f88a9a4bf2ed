//! If the log cannot be written, or has no reader, the gateway loses lines of the log and nothing else.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::site::{Directory, ask, status, until};
use trunkline_status::{Answer, Request};
use trunkline_testbed::namespace::{Host, Process};
use trunkline_testbed::privilege;

/// Peers of the site; each costs a line of the log whenever the file is read.
const PEERS: usize = 40;

/// A gateway that writes [`PEERS`] lines when it starts and at each reload; `None` if the machine lacks a requirement.
fn talkative(test: &str, stderr: Stdio) -> Option<(Directory, Host, Process)> {
    if !privilege::available(test) {
        return None;
    }
    let directory = Directory::new();
    directory.key("a");
    let mut text = "listen = [\"127.0.0.1:4600\"]\n[tun]\naddress = [\"198.19.1.1/32\"]\n".to_owned();
    for number in 0..PEERS {
        let key = directory.key("peer");
        let _ = write!(
            text,
            "[[peers]]\nname = \"p{number}\"\npublic_key = \"{key}\"\nencryption = \"none\"\nroutes = [\"198.19.2.{number}/32\"]\n"
        );
    }
    directory.file("a", &text);
    let host = Host::new("a").expect("a host");
    let process = directory.start(&host, "a", stderr);
    Some((directory, host, process))
}

fn reload(socket: &Path) {
    let answer = ask(socket, &Request::Reload).expect("it answers");
    assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
}

/// It answers requests, and ends on request.
fn works_and_ends(socket: &Path, mut process: Process) {
    assert_eq!(status(socket).name, "a");
    let answer = ask(socket, &Request::Down).expect("it answers");
    assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
    let ended = process.wait(Duration::from_secs(20)).expect("its end").expect("it ends");
    assert_eq!(ended.code(), Some(0), "{ended}");
    assert!(!socket.exists(), "its socket is gone");
}

#[test]
fn a_gateway_continues_after_the_reader_of_its_log_has_gone() {
    let test = "a_gateway_continues_after_the_reader_of_its_log_has_gone";
    let Some((directory, _host, mut process)) = talkative(test, Stdio::piped()) else { return };
    let socket = directory.socket("a");
    drop(process.stderr().expect("its log"));
    reload(&socket);
    until("lines are counted as lost", || status(&socket).log.lost_failed >= PEERS as u64);
    assert_eq!(status(&socket).log.lost_queue_full, 0);
    works_and_ends(&socket, process);
}

#[test]
fn a_gateway_continues_while_nobody_reads_its_log() {
    let test = "a_gateway_continues_while_nobody_reads_its_log";
    let Some((directory, _host, mut process)) = talkative(test, Stdio::piped()) else { return };
    let socket = directory.socket("a");
    let unread = process.stderr().expect("its log");
    // A pipe takes 64 KiB, the queue 1024 lines.
    for _ in 0..80 {
        reload(&socket);
    }
    assert!(status(&socket).log.lost_queue_full > 0, "{:?}", status(&socket).log);
    works_and_ends(&socket, process);
    drop(unread);
}

#[test]
fn a_gateway_continues_on_a_full_disk() {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let Some((directory, _host, process)) = talkative("a_gateway_continues_on_a_full_disk", full.into())
    else {
        return;
    };
    let socket = directory.socket("a");
    reload(&socket);
    until("lines are counted as lost", || status(&socket).log.lost_failed >= 2 * PEERS as u64);
    works_and_ends(&socket, process);
}
