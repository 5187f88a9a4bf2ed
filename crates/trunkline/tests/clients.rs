//! Clients of the control socket and the metrics, and the sockets of a gateway that has ended.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::site::{Directory, PROGRAM, ask, status, until};
use trunkline_status::{Answer, Request};
use trunkline_testbed::namespace::Host;
use trunkline_testbed::privilege;

const METRICS: &str = "127.0.0.1:9100";

/// A site's file: it listens, has an address on its device, and one peer, which never comes.
fn text(directory: &Directory, more: &str) -> String {
    let key = directory.key("peer");
    format!(
        "listen = [\"127.0.0.1:4600\"]\n[tun]\naddress = [\"198.19.1.1/32\"]\n{more}\n[[peers]]\nname = \"b\"\npublic_key = \"{key}\"\nroutes = [\"198.19.2.1/32\"]\n"
    )
}

#[test]
fn idle_metrics_clients_block_neither_control_nor_metrics() {
    if !privilege::available("idle_metrics_clients_block_neither_control_nor_metrics") {
        return;
    }
    let directory = Directory::new();
    directory.key("a");
    directory.file("a", &text(&directory, &format!("[metrics]\nlisten = \"{METRICS}\"")));
    let host = Host::new("a").expect("a host");
    let mut process = directory.start(&host, "a", Stdio::null());
    let socket = directory.socket("a");
    // Several rounds, since idle clients are closed after some seconds.
    for _ in 0..3 {
        let idle: Vec<TcpStream> =
            host.run(|| (0..100).map(|_| TcpStream::connect(METRICS).expect("a connection")).collect());
        for request in [&Request::Status, &Request::Flows, &Request::Reload] {
            let answer = ask(&socket, request).expect("it is answered");
            assert!(!matches!(answer, Answer::Refused { .. }), "{request:?}: {answer:?}");
        }
        let page = host.run(|| {
            let mut stream = TcpStream::connect(METRICS).expect("a connection");
            stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is asked");
            let mut page = String::new();
            stream.read_to_string(&mut page).expect("it answers");
            page
        });
        assert!(page.contains("trunkline_info{"), "{page}");
        drop(idle);
    }
    let answer = ask(&socket, &Request::Down).expect("it is answered");
    assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
    assert!(process.wait(Duration::from_secs(20)).expect("its end").expect("it ends").success());
}

#[test]
fn a_gateway_that_cannot_start_leaves_no_socket_and_one_that_was_killed_is_replaced() {
    if !privilege::available(
        "a_gateway_that_cannot_start_leaves_no_socket_and_one_that_was_killed_is_replaced",
    ) {
        return;
    }
    let directory = Directory::new();
    let host = Host::new("a").expect("a host");
    for site in ["a", "b", "c"] {
        directory.key(site);
    }
    directory.file("a", &text(&directory, ""));
    let mut first = directory.start(&host, "a", Stdio::null());
    // The port is taken; then it is not, but the device is.
    directory.file("b", &text(&directory, ""));
    directory.file("c", &text(&directory, "").replace("4600", "4601"));
    for (site, says) in [("b", "4600"), ("c", "trunk0")] {
        let mut command = Command::new(PROGRAM);
        command.arg("up").arg(directory.0.join(format!("{site}.toml"))).stderr(Stdio::piped());
        let mut process = host.command(command).expect("it starts");
        let ended = process.wait(Duration::from_secs(20)).expect("its end").expect("it ends");
        let mut error = String::new();
        process.stderr().expect("its log").read_to_string(&mut error).expect("its log");
        assert!(!ended.success() && error.contains(says), "{error}");
        let left: Vec<_> = fs::read_dir(&directory.0)
            .expect("its files")
            .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
            .filter(|name| name.contains(".sock") && !name.starts_with('a'))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
    first.signal(rustix::process::Signal::KILL).expect("it is killed");
    first.wait(Duration::from_secs(20)).expect("its end").expect("it ends");
    assert!(directory.socket("a").exists(), "nobody removed it");
    let output = Command::new(PROGRAM).arg("status").arg(directory.socket("a")).output().expect("it runs");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let mut again = directory.start(&host, "a", Stdio::null());
    until("it is another one", || status(&directory.socket("a")).pid == again.pid());
    again.terminate(Duration::from_secs(20)).expect("it ends");
    assert!(!directory.socket("a").exists());
}
