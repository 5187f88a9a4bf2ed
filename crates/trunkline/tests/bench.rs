//! `trunkline bench` as a user runs it: its output, and that it leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trunkline_testbed::machine;

/// The exit code of "this machine lacks something".
const LACKING: i32 = 4;
const INTERRUPTED: i32 = 130;

/// Each key with its allowed range: wide enough for a debug build on a busy machine, narrow enough to find a wrong unit or a
/// test that measured nothing.
const OF_A_CARRIER: [(&str, f64, f64); 10] = [
    ("tcp1_mbit", 50.0, 200_000.0),
    ("tcp10_mbit", 50.0, 400_000.0),
    ("idle_p50_us", 5.0, 50_000.0),
    ("idle_p99_us", 5.0, 500_000.0),
    ("load_p50_us", 5.0, 500_000.0),
    ("load_p99_us", 5.0, 2_000_000.0),
    ("pps64", 500.0, 20_000_000.0),
    ("udp1400_mbit", 5.0, 100_000.0),
    ("ratio_tcp1", 0.001, 2.0),
    ("ratio_tcp10", 0.001, 2.0),
];
const OF_A_TRUNK: [(&str, f64, f64); 5] = [
    ("ratio_pps64", 0.001, 10.0),
    ("ratio_udp1400", 0.001, 10.0),
    ("cpu_s_per_gb", 0.05, 100.0),
    ("rss_mb", 2.0, 1000.0),
    ("rss_idle_mb", 2.0, 1000.0),
];

/// Waits for its turn to measure. A machine without a TUN device runs the simulator, which needs no turn.
fn wait_for_the_machine() {
    machine::hold().ok();
}

/// A directory for the temporary files of one bench, which must be empty afterwards.
struct Temporary(PathBuf);

impl Temporary {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trunkline-bench-test-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("make a directory");
        Self(path)
    }

    fn entries(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).expect("read").map(|entry| entry.expect("entry").path()).collect()
    }

    fn bench(&self, arguments: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_trunkline"))
            .arg("bench")
            .args(arguments)
            .env("TMPDIR", &self.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Processes with a file below `directory` on their command line.
fn processes_of(directory: &Path) -> Vec<String> {
    let needle = directory.display().to_string();
    let processes = fs::read_dir("/proc").expect("proc").flatten();
    processes
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&needle))
        .collect()
}

fn interfaces() -> Vec<String> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn assert_nothing_is_left(temporary: &Temporary, interfaces_before: &[String]) {
    assert_eq!(temporary.entries(), Vec::<PathBuf>::new());
    assert_eq!(processes_of(&temporary.0), Vec::<String>::new());
    assert_eq!(interfaces(), interfaces_before);
}

fn assert_between(result: &Value, carrier: &str, limits: &[(&str, f64, f64)]) {
    for (key, low, high) in limits {
        let value = result[carrier][key].as_f64().unwrap_or_else(|| panic!("{carrier}: no {key}: {result}"));
        assert!((*low..=*high).contains(&value), "{carrier}: {key} is {value}, not {low} to {high}");
    }
}

#[test]
fn the_json_has_every_figure_of_every_carrier_and_nothing_is_left() {
    wait_for_the_machine();
    let (temporary, before) = (Temporary::new("json"), interfaces());
    let output = temporary.bench(&["--json", "--seconds", "1"]).wait_with_output().expect("wait");
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(LACKING) {
        println!("SKIPPED the_json_has_every_figure_of_every_carrier_and_nothing_is_left: {said}");
        return;
    }
    assert!(output.status.success(), "{}: {said}", output.status);
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for carrier in ["direct", "plain", "encrypted", "quic", "streams"] {
        assert_between(&result, carrier, &OF_A_CARRIER);
    }
    for carrier in ["plain", "encrypted", "quic", "streams"] {
        assert_between(&result, carrier, &OF_A_TRUNK);
    }
    for key in ["ratio_tcp1", "ratio_tcp10", "ratio_pps64", "ratio_udp1400"] {
        assert_eq!(result["direct"][key], 1.0);
    }
    for key in ["cpu_s_per_gb", "rss_mb"] {
        assert_eq!(result["direct"][key], 0.0);
    }
    let system = &result["system"];
    assert_eq!((&system["seconds"], &system["congestion_control"]), (&1.into(), &"cubic".into()));
    assert!(system["kernel"].is_string() && system["version"].is_string() && system["cpus"].is_u64());
    assert_nothing_is_left(&temporary, &before);
}

#[test]
fn an_interrupt_ends_it_in_order() {
    wait_for_the_machine();
    let (temporary, before) = (Temporary::new("interrupt"), interfaces());
    let mut child = temporary.bench(&["--seconds", "60"]);
    let begin = Instant::now();
    // Gateways have a directory each pair: with two, both trunks have been started.
    while temporary.entries().len() < 2 {
        if let Some(status) = child.try_wait().expect("wait") {
            assert_eq!(status.code(), Some(LACKING));
            println!("SKIPPED an_interrupt_ends_it_in_order: the means are missing");
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "no gateway was started");
        sleep(Duration::from_millis(20));
    }
    sleep(Duration::from_secs(1));
    assert!(!processes_of(&temporary.0).is_empty(), "gateways run");
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process id");
    let interrupted = Instant::now();
    kill_process(pid, Signal::INT).expect("interrupt");
    let status = child.wait().expect("wait");
    assert!(interrupted.elapsed() < Duration::from_secs(15), "took {:?}", interrupted.elapsed());
    assert_eq!(status.code(), Some(INTERRUPTED));
    assert_nothing_is_left(&temporary, &before);
}
