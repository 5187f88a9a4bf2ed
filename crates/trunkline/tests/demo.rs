//! The demo as a user runs it: its output, and that it leaves nothing behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Demos measure, and so run one at a time.
static MACHINE: Mutex<()> = Mutex::new(());
const LACKING: i32 = 4;
const INTERRUPTED: i32 = 130;
const KEYS: [&str; 7] = [
    "tcp_mbit",
    "udp_mbit",
    "transfers_completed",
    "request_p50_ms",
    "request_p99_ms",
    "core_drop_percent",
    "edge_drop_percent",
];

fn alone() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The working directory, which is also the directory for the demo's temporary files.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("demo-test-{}-{test}", std::process::id()));
        fs::create_dir(&path).expect("directory");
        Self(path)
    }

    fn demo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trunkline"));
        command.arg("demo").args(arguments).current_dir(&self.0).env("TMPDIR", &self.0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("read").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Processes of which `holds` is true of their `/proc/<pid>` directory.
fn processes(holds: impl Fn(&Path) -> bool) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("proc").flatten();
    let numbered = all.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    numbered.filter(|(_, path)| holds(path)).map(|(pid, _)| pid).collect()
}

/// Processes that were started with a file below `place`: the gateways.
fn gateways(place: &Place) -> Vec<u32> {
    let name = place.0.to_string_lossy().into_owned();
    processes(|path| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&name)
    })
}

/// The network namespaces that threads of these processes are in.
fn namespaces(pids: &[u32]) -> BTreeSet<PathBuf> {
    let tasks =
        pids.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok()).flatten().flatten();
    tasks.filter_map(|task| fs::read_link(task.path().join("ns/net")).ok()).collect()
}

/// Waits for `ready`, but not for ever.
fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !ready() {
        assert!(Instant::now() < end, "{what} within 30 s");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Says so, and is true, if the demo could not run here.
fn skipped(test: &str, output: &Output) -> bool {
    let lacking = output.status.code() == Some(LACKING);
    if lacking {
        println!("SKIPPED {test}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    lacking
}

fn check(report: &Value) -> Result<(), String> {
    let number = |phase: &str, key: &str| -> f64 {
        report[phase][key].as_f64().unwrap_or_else(|| panic!("{phase}.{key} is no number in {report}"))
    };
    for phase in ["before", "after"] {
        let keys: BTreeSet<&str> =
            report[phase].as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, BTreeSet::from(KEYS), "{phase}");
        for key in KEYS {
            assert!(number(phase, key) >= 0.0, "{phase}.{key}");
        }
        let sum = number(phase, "tcp_mbit") + number(phase, "udp_mbit");
        assert!(sum <= 10.0, "{phase}: {sum} Mbit/s have come over a WAN of 10");
        assert!(number(phase, "request_p50_ms") <= number(phase, "request_p99_ms"), "{phase}");
        assert!(number(phase, "core_drop_percent") <= 100.0 && number(phase, "edge_drop_percent") <= 100.0);
    }
    assert!(number("before", "edge_drop_percent").abs() < f64::EPSILON, "there was no edge queue");
    assert!(
        number("before", "request_p99_ms") <= 6000.0 + 500.0,
        "nothing can wait longer than the demo takes"
    );
    let (before, after) = (number("before", "tcp_mbit"), number("after", "tcp_mbit"));
    let expect = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what}: {report}")) };
    for phase in ["before", "after"] {
        let sum = number(phase, "tcp_mbit") + number(phase, "udp_mbit");
        expect(sum >= 8.0, "at least eight tenths of the WAN are used")?;
    }
    // What the flood has too much is dropped, wherever that is: half of it without trunks.
    expect(
        (40.0..=60.0).contains(&number("before", "core_drop_percent")),
        "the core drops half without trunks",
    )?;
    expect(after >= 3.0 * before, "TCP gets at least three times as much")?;
    // Two trunks of the kernel's own congestion control over one tail-drop queue: of half each, within seconds, they get
    // half as much again or half as little (3.1 to 5.9 Mbit/s in 50 runs of 6 and 14 s).
    expect((2.5..=7.5).contains(&after), "TCP gets 0.25 to 0.75 of the WAN")?;
    expect(
        number("after", "core_drop_percent") < number("before", "core_drop_percent") / 10.0,
        "the core drops less than a tenth of what it did",
    )?;
    expect(number("after", "transfers_completed") >= 3.0, "files arrive")?;
    expect(number("after", "request_p50_ms") < 1000.0, "requests are answered within a second")
}

#[test]
fn trunks_protect_tcp_and_nothing_is_left() {
    let _alone = alone();
    // The machine may be busy with other things.
    for attempt in 1..=3 {
        let place = Place::new(&format!("json-{attempt}"));
        let arguments = ["--json", "--seconds", "6", "--rate", "10mbit"];
        let output = place.demo(&arguments).output().expect("run");
        if skipped("trunks_protect_tcp_and_nothing_is_left", &output) {
            return;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", output.status);
        assert!(said.contains("with trunks:") && !said.contains('\x1b'), "progress in plain lines: {said}");
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(text.lines().count(), 1, "{text}");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(report["parameters"]["seconds"], 6);
        assert_eq!(place.files(), Vec::<String>::new());
        assert_eq!(gateways(&place), Vec::<u32>::new());
        match check(&report) {
            Ok(()) => return,
            Err(reason) if attempt == 3 => panic!("{reason}"),
            Err(reason) => println!("once more, since not: {reason}"),
        }
    }
}

#[test]
fn a_page_is_written_where_asked_and_a_table_printed() {
    let _alone = alone();
    let place = Place::new("page");
    let output = place.demo(&["--seconds", "3", "--html", "page.html"]).output().expect("run");
    if skipped("a_page_is_written_where_asked_and_a_table_printed", &output) {
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("TCP goodput") && text.contains("page.html") && !text.contains('\x1b'), "{text}");
    assert_eq!(place.files(), ["page.html"]);
    let page = fs::read_to_string(place.0.join("page.html")).expect("page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("default-src 'none'"), "the page may load something");
    let (text, _) = page.split_once("<script").expect("plots");
    assert!(!text.contains("http:") && !text.contains("https:"), "the page refers to something else");
}

/// A demo, and when to send it which signal.
struct Interruption {
    test: &'static str,
    signal: &'static str,
    /// Whether it is time.
    ready: fn(&Child, &Place) -> bool,
    /// After that.
    wait: Duration,
}

impl Interruption {
    /// Interrupts a demo, and checks that it leaves nothing behind; a killed one at least no process and no namespace.
    fn check(&self, expected: Option<i32>) {
        let _alone = alone();
        let place = Place::new(self.signal);
        let mut child = place.demo(&["--seconds", "5"]).spawn().expect("start");
        // Nobody reads what it prints meanwhile; a pipe holds it all.
        wait_until("the demo runs", || {
            (self.ready)(&child, &place) || child.try_wait().expect("wait").is_some()
        });
        thread::sleep(self.wait);
        if child.try_wait().expect("wait").is_some() {
            let output = child.wait_with_output().expect("output");
            assert!(
                skipped(self.test, &output),
                "it ended early: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            return;
        }
        let mut pids = gateways(&place);
        pids.push(child.id());
        let own = fs::read_link("/proc/self/ns/net").expect("namespace");
        let made: Vec<PathBuf> =
            namespaces(&pids).into_iter().filter(|namespace| *namespace != own).collect();
        assert!(!made.is_empty(), "it had namespaces");
        let kill = Command::new("kill").args(["-s", self.signal, &child.id().to_string()]).status();
        assert!(kill.expect("kill").success());
        wait_until("the demo ends", || child.try_wait().expect("wait").is_some());
        let output = child.wait_with_output().expect("output");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), expected, "{said}");
        if expected.is_some() {
            assert_eq!(gateways(&place), Vec::<u32>::new(), "gateways");
            assert_eq!(place.files(), Vec::<String>::new(), "files");
        }
        // The kernel takes down what a killed process had in its own time.
        wait_until("its processes and namespaces go", || {
            let there = namespaces(&processes(|_| true));
            gateways(&place).is_empty() && made.iter().all(|namespace| !there.contains(namespace))
        });
    }
}

#[test]
fn an_interrupt_under_the_flood_leaves_nothing() {
    Interruption {
        test: "an_interrupt_under_the_flood_leaves_nothing",
        signal: "INT",
        ready: |child, _| namespaces(&[child.id()]).len() >= 5,
        wait: Duration::from_secs(2),
    }
    .check(Some(INTERRUPTED));
}

#[test]
fn an_interrupt_while_gateways_start_leaves_nothing() {
    Interruption {
        test: "an_interrupt_while_gateways_start_leaves_nothing",
        signal: "HUP",
        ready: |_, place| !gateways(place).is_empty(),
        wait: Duration::ZERO,
    }
    .check(Some(INTERRUPTED));
}

#[test]
fn an_interrupt_with_gateways_at_work_leaves_nothing() {
    Interruption {
        test: "an_interrupt_with_gateways_at_work_leaves_nothing",
        signal: "TERM",
        ready: |_, place| gateways(place).len() >= 2,
        wait: Duration::from_secs(2),
    }
    .check(Some(INTERRUPTED));
}

#[test]
fn a_kill_leaves_no_process_and_no_namespace() {
    Interruption {
        test: "a_kill_leaves_no_process_and_no_namespace",
        signal: "KILL",
        ready: |_, place| gateways(place).len() >= 2,
        wait: Duration::from_secs(1),
    }
    .check(None);
}

#[test]
fn the_error_about_a_value_out_of_range_gives_the_allowed_range() {
    let place = Place::new("range");
    for (arguments, allowed) in [
        (["--seconds", "2"], "3 to 600"),
        (["--rate", "1gbit"], "2mbit to 100mbit"),
        (["--rate", "fast"], "such as \"10 Mbit/s\""),
    ] {
        let output = place.demo(&arguments).output().expect("run");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(allowed), "{said}");
    }
    assert_eq!(place.files(), Vec::<String>::new());
}
