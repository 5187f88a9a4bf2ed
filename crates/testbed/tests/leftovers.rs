//! Nothing is left behind: no namespace, thread, child or descriptor, however an experiment ends.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{any_port, pair};
use trunkline_link::LinkSettings;
use trunkline_testbed::link::DuplexSettings;
use trunkline_testbed::namespace::{Host, veth};
use trunkline_testbed::privilege;
use trunkline_testbed::traffic::{BulkSettings, Stop, TcpSink, bulk};
use trunkline_units::Rate;

/// Every network namespace that a thread of any process is in.
fn namespaces() -> BTreeSet<PathBuf> {
    let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    entries("/proc".into())
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .flat_map(|process| entries(process.path().join("task")))
        .filter_map(|thread| fs::read_link(thread.path().join("ns/net")).ok())
        .collect()
}

/// Threads that a testbed starts (the test harness has others), and open descriptors but those by which tests wait for each other.
fn ours() -> (usize, usize) {
    let started = |name: &str| ["host ", "link", "a ", "b "].iter().any(|prefix| name.starts_with(prefix));
    let threads = fs::read_dir("/proc/self/task").expect("read").flatten();
    let names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    let descriptors = fs::read_dir("/proc/self/fd").expect("read").flatten();
    let lock = |target: PathBuf| target.ends_with("net/tun");
    let others = descriptors.filter(|descriptor| !fs::read_link(descriptor.path()).is_ok_and(lock));
    (names.filter(|name| started(name)).count(), others.count())
}

fn alive(pid: u32) -> bool {
    // A zombie is dead; whoever adopted it will reap it.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn experiment() -> (BTreeSet<PathBuf>, u32) {
    let pair = pair(&DuplexSettings::symmetric(LinkSettings::new(Rate::MAX, Duration::ZERO)));
    let third = Host::new("c").expect("host");
    veth(&pair.a, "side", &third, "side").expect("veth");
    let mut command = Command::new("sleep");
    command.arg("60");
    let child = pair.b.command(command).expect("child");
    let pid = child.pid();
    let sink = TcpSink::start(&pair.b, any_port(common::B), Duration::from_millis(50)).expect("sink");
    let settings = BulkSettings::new(sink.address(), "cubic", 2, Duration::from_millis(200));
    assert_eq!(pair.a.run(|| bulk(&settings, &Stop::new())).failures().count(), 0);
    assert!(alive(pid));
    (namespaces(), pid)
}

#[test]
fn a_finished_experiment_leaves_nothing() {
    if !privilege::available("a_finished_experiment_leaves_nothing") {
        return;
    }
    let (before, ours_before) = (namespaces(), ours());
    let (during, pid) = experiment();
    assert!(during.difference(&before).count() >= 3, "three hosts were there");
    assert!(!alive(pid));
    let made: Vec<_> = during.difference(&before).cloned().collect();
    let left = namespaces();
    assert!(made.iter().all(|namespace| !left.contains(namespace)), "{made:?} of {left:?}");
    assert_eq!(ours(), ours_before, "threads and descriptors");
}

#[test]
fn dropping_the_host_before_the_child_kills_it() {
    if !privilege::available("dropping_the_host_before_the_child_kills_it") {
        return;
    }
    let host = Host::new("a").expect("host");
    let mut command = Command::new("sleep");
    command.arg("60");
    let mut child = host.command(command).expect("child");
    drop(host);
    assert!(child.wait(Duration::from_secs(2)).expect("wait").is_some());
}

/// Runs as the process that `a_killed_experiment_leaves_nothing` kills; on its own it does nothing.
#[test]
fn victim() {
    if std::env::var_os("TRUNKLINE_TESTBED_VICTIM").is_none() {
        return;
    }
    let host = Host::new("victim").expect("host");
    let mut command = Command::new("sleep");
    command.arg("60");
    let child = host.command(command).expect("child");
    println!("\nchild {}", child.pid());
    std::thread::sleep(Duration::from_secs(30));
}

#[test]
fn a_killed_experiment_leaves_nothing() {
    use std::io::{BufRead, BufReader};
    if !privilege::available("a_killed_experiment_leaves_nothing") {
        return;
    }
    let mut victim = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "victim", "--nocapture"])
        .env("TRUNKLINE_TESTBED_VICTIM", "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let lines = BufReader::new(victim.stdout.take().expect("piped")).lines();
    let grandchild = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("child ").and_then(|pid| pid.parse::<u32>().ok()))
        .expect("the victim says whom it started");
    let namespace = fs::read_link(format!("/proc/{grandchild}/ns/net")).expect("namespace");
    assert!(namespaces().contains(&namespace));
    victim.kill().expect("kill -9");
    victim.wait().expect("reap");
    let begin = Instant::now();
    while alive(grandchild) && begin.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!alive(grandchild), "the child outlived its parent");
    assert!(!namespaces().contains(&namespace));
}
