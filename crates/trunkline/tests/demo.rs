//! The demo as a user runs it: its output, and that it leaves nothing behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use trunkline_testbed::machine;

const LACKING: i32 = 4;
const INTERRUPTED: i32 = 130;
/// The results of a demo, below its directory.
const RESULTS: &str = "trunkline-demo/bench-demo";

/// Waits for its turn to measure. A machine without a TUN device runs the simulator, which needs no turn.
fn wait_for_the_machine() {
    machine::hold().ok();
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

/// A line of JSON for each of the three runs.
struct Lines(Vec<Value>);

impl Lines {
    fn of(output: &Output) -> Self {
        let text = String::from_utf8_lossy(&output.stdout);
        Lines(text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
    }

    fn metric(&self, trunk: &str, name: &str) -> f64 {
        let line = self.0.iter().find(|line| line["point"]["trunk"] == trunk);
        let metrics = &line.unwrap_or_else(|| panic!("no {trunk:?}"))["metrics"];
        metrics[name]["mean"].as_f64().unwrap_or_else(|| panic!("{trunk}: no {name}: {metrics}"))
    }

    /// What is wrong, if anything is. A trunk with edge pacing used 63 to 89 % of the WAN in six runs of the demo, so its floor is
    /// lower.
    fn breach(&self) -> Option<String> {
        let mbit = |trunk: &str, group: &str| self.metric(trunk, &format!("{group}.goodput")) / 1e6;
        let dropped = |trunk: &str| self.metric(trunk, "wan.drops.ratio");
        let completed =
            |trunk: &str, group: &str| self.metric(trunk, &format!("{group}.transfers.completed"));
        let before = mbit(NONE, "transfers");
        let mut bounds = vec![
            ("without a trunk: goodput", mbit(NONE, "all"), 8.0, 10.0),
            // What the flood has too much is dropped, wherever that is: half of it without a trunk.
            ("without a trunk: drops of the WAN", dropped(NONE), 0.4, 0.6),
            ("as in the papers: goodput", mbit(PAPERS, "all"), 8.0, 10.0),
            // Two trunks of the kernel's own congestion control over one tail-drop queue: of half each, within seconds, they get
            // half as much again or half as little (3.1 to 5.9 Mbit/s in 50 runs of 6 and 14 s).
            ("as in the papers: goodput of the files", mbit(PAPERS, "transfers"), 2.5, 7.5),
            ("as shipped: goodput", mbit(SHIPPED, "all"), 4.0, 10.0),
            ("as shipped: goodput of the files", mbit(SHIPPED, "transfers"), 2.0, 9.0),
        ];
        for trunk in [PAPERS, SHIPPED] {
            bounds.push(("the files' goodput, to that without", mbit(trunk, "transfers") / before, 3.0, 1e9));
            bounds.push(("drops of the WAN, to those without", dropped(trunk) / dropped(NONE), 0.0, 0.1));
            bounds.push(("files", completed(trunk, "transfers"), 3.0, 30.0));
            // 5 connections in 6 s, each with a request in 520 ms and longer.
            bounds.push(("requests", completed(trunk, "requests"), 10.0, 65.0));
            bounds.push(("a request in s", self.metric(trunk, "requests.delay.p50"), 0.0, 1.0));
        }
        let broken = |(what, value, low, high): &(&str, f64, f64, f64)| {
            (!(low..=high).contains(&value)).then(|| format!("{what}: {value}, not {low} to {high}"))
        };
        bounds.iter().find_map(broken)
    }
}

const NONE: &str = "no trunk";
const PAPERS: &str = "as in the papers";
const SHIPPED: &str = "as shipped";

#[test]
fn trunks_protect_tcp_and_only_results_are_left() {
    wait_for_the_machine();
    // The machine may be busy with other things.
    for attempt in 1..=3 {
        let place = Place::new(&format!("json-{attempt}"));
        let arguments = ["--json", "--seconds", "6", "--rate", "10mbit", "--engine", "testbed"];
        let output = place.demo(&arguments).output().expect("run");
        if skipped("trunks_protect_tcp_and_only_results_are_left", &output) {
            return;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", output.status);
        assert!(!said.contains('\x1b'), "progress in plain lines: {said}");
        let at = |what: &str| said.find(what).unwrap_or_else(|| panic!("no {what:?}: {said}"));
        let ends = [NONE, PAPERS, SHIPPED].map(|trunk| at(&format!("\n{trunk} ")));
        assert!(at("1/3 no trunk") < ends[0] && ends.is_sorted(), "in the order of the table: {said}");
        let lines = Lines::of(&output);
        assert_eq!(lines.0.iter().filter(|line| line["engine"] == "testbed").count(), 3);
        assert_eq!(place.files(), ["trunkline-demo"]);
        assert_eq!(gateways(&place), Vec::<u32>::new());
        match lines.breach() {
            None => return,
            Some(reason) if attempt == 3 => panic!("{reason}"),
            Some(reason) => println!("once more, since {reason}"),
        }
    }
}

#[test]
fn a_report_is_written_and_a_table_printed_and_the_next_demo_replaces_them() {
    wait_for_the_machine();
    let place = Place::new("report");
    for rate in ["5mbit", "10mbit"] {
        let output =
            place.demo(&["--seconds", "3", "--rate", rate, "--engine", "sim"]).output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let ends: Vec<&str> = said.lines().filter(|line| line.contains("a request: ")).collect();
        assert_eq!(ends.len(), 3, "{said}");
        for ((end, trunk), number) in ends.iter().zip([NONE, PAPERS, SHIPPED]).zip(1..) {
            assert!(end.starts_with(trunk) && end.contains(" completed), files "), "{said}");
            let (before, after) = said.split_once(end).expect("the line");
            assert!(
                !before.contains(&format!("{}/3", number + 1)) && !after.contains(&format!("{number}/3")),
                "{said}"
            );
        }
        let text = String::from_utf8(output.stdout).expect("text");
        let head = text.lines().next().expect("a table");
        assert!([NONE, PAPERS, SHIPPED].iter().all(|trunk| head.contains(trunk)), "{text}");
        assert!(
            text.contains("† Of completed transfers alone: ")
                && text.contains(" of requests (trunk: no trunk)"),
            "{text}"
        );
        let heading = text.lines().nth(1).expect("a row");
        assert!(heading.starts_with("a request, median") && heading.contains('†'), "{text}");
        assert!(text.contains("files completed") && text.contains("With the trunk as shipped"), "{text}");
        assert!(text.contains(&format!("{RESULTS}/report.html")) && !text.contains('\x1b'), "{text}");
    }
    assert_eq!(place.files(), ["trunkline-demo"]);
    let page = fs::read_to_string(place.0.join(RESULTS).join("report.html")).expect("page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("default-src 'none'"), "the page may load something");
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("no {what:?} in the page"));
    assert!(at("<h3>How long requests take</h3>") < at("<h3>The flood begins at 3 s, trunk: no trunk</h3>"));
    assert!(at("<h2>Figures</h2>") < at("<h2>Tables</h2>") && at("<h2>Tables</h2>") < at("<h2>Claims</h2>"));
    let experiment = fs::read_to_string(place.0.join(RESULTS).join("experiment.toml")).expect("as it ran");
    assert!(experiment.contains("20000000 bit/s") && !experiment.contains("\"5000000 bit/s"), "the second's");
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
        wait_for_the_machine();
        let place = Place::new(self.signal);
        let mut child = place.demo(&["--seconds", "5", "--engine", "testbed"]).spawn().expect("start");
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
        ready: |child, _| namespaces(&[child.id()]).len() >= 2,
        wait: Duration::from_secs(5),
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
        (["--seconds", "2"], "3..=600"),
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
