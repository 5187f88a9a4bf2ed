//! `trunkline lab` as a user runs it: from files to results, also after interrupts and failures.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const FILE: &str = r#"
id = "sample"
title = "A file over a link"
duration = "2 s"
runs = 4

[nodes]
a = "host"
b = "host"

[links.core]
ends = ["a", "b"]
rate = "1 Mbit/s"
delay = "5 ms"

[traffic.tcp]
kind = "bulk"
from = "a"
to = "b"
tcp = "linux-6"

[sweep.rate]
paths = ["links.core.rate"]
values = ["1 Mbit/s", "2 Mbit/s", "4 Mbit/s"]

[quick]
runs = 1

[[published]]
metric = "tcp.goodput"
unit = "Mbit/s"
values = [{ at = { rate = "2 Mbit/s" }, value = 1.9 }]

[[claims]]
text = "More rate is more goodput."
holds = "increasing(tcp.goodput)"
"#;

/// What stands behind how long a report's runs took.
const TOOK: &str = " of running.";
/// So long that it can be stopped in the middle.
const LONG: [&str; 4] = ["--set", "duration=120 s", "--runs", "12"];

/// A directory that is removed at the end, with the experiment in it.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("trunkline-lab-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        fs::write(path.join("sample.toml"), FILE).expect("a file");
        Temporary(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trunkline"));
        command.current_dir(&self.0).arg("lab").args(arguments);
        command
    }

    fn lab(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it starts")
    }

    /// Runs the experiment into `out`.
    fn run(&self, out: &str, more: &[&str]) -> Output {
        self.lab(&[&["run", "sample.toml", "--out", out], more].concat())
    }

    /// Starts it, and waits until `lines` runs are written.
    fn begin(&self, out: &str, more: &[&str], lines: usize) -> Child {
        let mut command = self.command(&[&["run", "sample.toml", "--out", out], more].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let begin = Instant::now();
        while self.lines(out) < lines {
            assert_eq!(child.try_wait().expect("wait"), None, "it ended too soon");
            assert!(begin.elapsed() < Duration::from_secs(60), "nothing was written");
            sleep(Duration::from_millis(2));
        }
        child
    }

    fn lines(&self, out: &str) -> usize {
        let text = fs::read_to_string(self.0.join(out).join("sample/runs.jsonl")).unwrap_or_default();
        text.lines().count()
    }

    /// All results, by file, but for how long they took.
    fn results(&self, out: &str) -> Vec<(String, Vec<u8>)> {
        let read = |name: &str| {
            let bytes = fs::read(self.0.join(out).join("sample").join(name));
            let mut bytes = bytes.unwrap_or_else(|error| panic!("{name}: {error}"));
            if name == "report.html" {
                let text = String::from_utf8(bytes).expect("text");
                let (before, after) = text.split_once(TOOK).expect("how long they took");
                let kept = before.rfind(", ").expect("a time");
                bytes = [&before[..kept], after].concat().into_bytes();
            }
            (name.to_owned(), bytes)
        };
        [
            "experiment.toml",
            "runs.jsonl",
            "results.jsonl",
            "runs.parquet",
            "metrics.parquet",
            "report.html",
            "report.md",
        ]
        .map(read)
        .into()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_ends_with(output: &Output, code: i32, message: &str) {
    assert_eq!(output.status.code(), Some(code), "{}", said(output));
    assert!(said(output).contains(message), "{}", said(output));
}

#[test]
fn a_run_gives_a_line_of_json_for_each_point_and_a_report() {
    let temporary = Temporary::new();
    let output = temporary.run("out", &["--json"]);
    assert_ends_with(&output, 0, "");
    let all = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3);
    let line = &lines[1];
    let keys: Vec<_> = line.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut sorted = vec!["experiment", "engine", "point", "runs", "metrics", "claims", "digest", "version"];
    sorted.sort_unstable();
    let mut found = keys.clone();
    found.sort_unstable();
    assert_eq!(found, sorted);
    assert_eq!((&line["experiment"], &line["engine"]), (&"sample".into(), &"sim".into()));
    assert_eq!((&line["point"]["rate"], &line["runs"]), (&"2 Mbit/s".into(), &4.into()));
    let goodput = &line["metrics"]["tcp.goodput"];
    for key in ["mean", "min", "max", "paper"] {
        assert!(goodput[key].is_f64(), "{key}: {goodput}");
    }
    assert!(goodput["ci95"].is_null(), "nothing in this network is random: {goodput}");
    let lossy = temporary.run("lossy", &["--json", "--set", "links.core.loss=0.03"]);
    let text = String::from_utf8(lossy.stdout).expect("text");
    let line: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    assert!(line["metrics"]["tcp.goodput"]["ci95"].as_f64().is_some_and(|half| half > 0.0), "{line}");
    let mean = goodput["mean"].as_f64().expect("a number");
    assert!((1.4e6..2e6).contains(&mean), "{mean}");
    assert_eq!(line["claims"][0]["verdict"], "holds");
    assert!(line["claims"][0]["why"].as_str().expect("a text").contains("Mbit/s"));
    assert_eq!(fs::read_to_string(temporary.0.join("out/sample/results.jsonl")).expect("results"), all);
    for name in ["out/sample/report.html", "out/sample/report.md", "out/index.html", "out/index.md"] {
        assert!(temporary.0.join(name).is_file(), "{name}");
    }
}

#[test]
fn the_output_has_verdicts_and_the_path_of_the_report() {
    let temporary = Temporary::new();
    let output = temporary.run("out", &["--quick"]);
    assert_ends_with(&output, 0, "");
    let text = String::from_utf8(output.stdout).expect("text");
    for part in ["✓ holds   More rate is more goodput.", "published values: ", "out/sample/report.html"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\x1b'), "no colours without a terminal");
    assert!(text.starts_with("sample  A file over a link (quick run)"), "{text}");
    for (name, part) in [("out/sample/report.md", "A quick run: "), ("out/index.md", "quick runs")] {
        let page = fs::read_to_string(temporary.0.join(name)).expect(name);
        assert!(page.contains(part), "{name}: {page}");
    }
    assert_eq!(temporary.lines("out"), 3);
}

#[test]
fn without_claims_the_output_has_the_results_of_the_traffic() {
    let temporary = Temporary::new();
    let (before, _) = FILE.split_once("[[published]]").expect("something is asked");
    fs::write(temporary.0.join("sample.toml"), before).expect("a file");
    let output = temporary.run("out", &["--quick"]);
    assert_ends_with(&output, 0, "");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["sample  A file over a link (quick run)", "  rate=1 Mbit/s"]);
    assert!(lines[2].starts_with("    tcp.goodput  ") && lines[2].ends_with("kbit/s"), "{text}");
    assert!(
        lines.contains(&"  rate=4 Mbit/s") && text.contains("  report: out/sample/report.html"),
        "{text}"
    );
    assert!(!text.contains("flow.goodput") && !text.contains("all.goodput"), "{text}");
}

#[test]
fn parts_of_a_run_together_are_the_whole_to_the_byte() {
    let temporary = Temporary::new();
    assert!(temporary.run("whole", &[]).status.success());
    for part in ["1", "2", "3"] {
        let output = temporary.run(&format!("parts/{part}"), &["--part", &format!("{part}/3")]);
        assert!(output.status.success(), "{}", said(&output));
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains(&format!("part {part}/3")) && printed.lines().count() == 1, "{printed}");
        assert!(temporary.lines(&format!("parts/{part}")) < temporary.lines("whole"));
    }
    // Two of the three are not all, and nothing says so by silence. What is missing is made.
    let output = temporary.lab(&["merge", "parts/1", "parts/3", "--out", "some"]);
    assert_ends_with(&output, 1, "missing");
    assert!(said(&output).contains("--resume --out some"), "{}", said(&output));
    let output = temporary.lab(&["run", "some/sample/experiment.toml", "--resume", "--out", "some"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(temporary.results("some"), temporary.results("whole"));
    // Parts may overlap, as when one was made twice.
    let all = ["merge", "parts/1", "parts/2", "parts/3", "parts/2", "some", "--out", "all"];
    let output = temporary.lab(&all);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(temporary.results("all"), temporary.results("whole"));
    assert_ends_with(&temporary.lab(&all), 2, "there are results here already");
    for wrong in ["4/3", "0/3", "3", "1/0"] {
        assert_ends_with(&temporary.run("wrong", &["--part", wrong]), 2, "N from 1 to M");
    }
}

#[test]
fn results_that_do_not_belong_together_are_not_put_together() {
    let temporary = Temporary::new();
    assert!(temporary.run("one", &["--part", "1/2"]).status.success());
    assert!(temporary.run("other", &["--part", "2/2", "--set", "duration=3 s"]).status.success());
    let output = temporary.lab(&["merge", "one", "other", "--out", "out"]);
    assert_ends_with(&output, 2, "are of another experiment: they cannot be put together with those of one");
    // A machine that counts otherwise than the others.
    assert!(temporary.run("two", &["--part", "1/2"]).status.success());
    let runs = temporary.0.join("two/sample/runs.jsonl");
    let text = fs::read_to_string(&runs).expect("runs");
    fs::write(&runs, text.replacen("\"digest\":\"", "\"digest\":\"f", 1)).expect("runs");
    let output = temporary.lab(&["merge", "one", "two", "--out", "out"]);
    assert_ends_with(&output, 2, "say something else of seed");
    fs::write(&runs, text.replace("\"version\":\"", "\"version\":\"9")).expect("runs");
    assert_ends_with(&temporary.lab(&["merge", "one", "two", "--out", "out"]), 2, "are by version 9");
    assert_ends_with(&temporary.lab(&["merge", "nothing", "--out", "out"]), 2, "there are no results here");
    assert!(!temporary.0.join("out").exists(), "nothing is written");
}

#[test]
fn the_number_of_jobs_changes_no_byte() {
    let temporary = Temporary::new();
    assert_ends_with(&temporary.run("one", &["--jobs", "1"]), 0, "");
    assert_ends_with(&temporary.run("two", &["--jobs", "2"]), 0, "");
    let [one, two] = ["one", "two"].map(|out| temporary.results(out));
    for (one, two) in one.iter().zip(&two) {
        assert!(one == two, "{}", one.0);
    }
}

#[test]
fn a_killed_run_resumes_to_the_same_results() {
    let temporary = Temporary::new();
    let mut child = temporary.begin("killed", &LONG, 3);
    child.kill().expect("kill");
    child.wait().expect("wait");
    let kept = temporary.lines("killed");
    assert!((3..36).contains(&kept), "{kept}");
    assert_ends_with(&temporary.run("killed", &LONG), 2, "--resume");
    let output = temporary.run("killed", &[&LONG[..], &["--resume"]].concat());
    assert_ends_with(&output, 0, "");
    assert_ends_with(&temporary.run("whole", &LONG), 0, "");
    let [killed, whole] = ["killed", "whole"].map(|out| temporary.results(out));
    for (killed, whole) in killed.iter().zip(&whole) {
        assert!(killed == whole, "{}", killed.0);
    }
}

#[test]
fn an_interrupt_keeps_finished_runs_and_says_how_to_resume() {
    let temporary = Temporary::new();
    let child = temporary.begin("out", &LONG, 2);
    let begin = Instant::now();
    kill_process(Pid::from_raw(child.id().cast_signed()).expect("a process id"), Signal::INT)
        .expect("interrupt");
    let output = child.wait_with_output().expect("wait");
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_ends_with(&output, 130, "--resume");
    let kept = temporary.lines("out");
    assert!((2..36).contains(&kept), "{kept}");
    let index = fs::read_to_string(temporary.0.join("out/index.md")).expect("an index");
    assert!(index.contains(&format!("({kept} of 36 runs)")), "{index}");
    assert_ends_with(&temporary.run("out", &[&LONG[..], &["--resume"]].concat()), 0, "");
    assert_eq!(temporary.lines("out"), 36);
}

#[test]
fn existing_results_are_kept_without_force() {
    let temporary = Temporary::new();
    assert_ends_with(&temporary.run("out", &["--quick"]), 0, "");
    assert_ends_with(&temporary.run("out", &["--quick"]), 2, "--resume to go on with them, --force");
    assert_ends_with(&temporary.run("out", &["--resume"]), 2, "experiment was another");
    assert_eq!(temporary.lines("out"), 3);
    assert_ends_with(&temporary.run("out", &["--force"]), 0, "");
    assert_eq!(temporary.lines("out"), 12);
    assert_ends_with(&temporary.run("out", &["--resume"]), 0, "");
}

#[test]
fn mistakes_are_reported_with_file_and_line_and_nothing_runs() {
    let temporary = Temporary::new();
    let bad =
        FILE.replace("rate = \"1 Mbit/s\"", "rate = \"1 Mbits\"").replace("from = \"a\"", "from = \"c\"");
    fs::write(temporary.0.join("bad.toml"), bad).expect("a file");
    for command in ["run", "check"] {
        let output = temporary.lab(&[command, "sample.toml", "bad.toml"]);
        assert_ends_with(&output, 2, "\"1 Mbits\"");
        let place = said(&output).lines().any(|line| line.starts_with("bad.toml:13:"));
        assert!(place, "{}", said(&output));
    }
    assert!(!temporary.0.join("results").exists(), "nothing was run");
    assert_ends_with(&temporary.run("out", &["--set", "links.cor.rate=1"]), 2, "cor");
    assert_ends_with(
        &temporary.run("out", &["--engine", "ns-3"]),
        2,
        "no engine is named \"ns-3\"; allowed: sim, testbed",
    );
    assert_ends_with(
        &temporary.lab(&["run", "sample.toml", "sample.toml"]),
        2,
        "two experiments have the id",
    );
    assert_ends_with(&temporary.lab(&["run", "none.toml"]), 2, "none.toml");
}

#[test]
fn a_name_that_nothing_has_comes_with_ids_that_are_near() {
    let temporary = Temporary::new();
    let near = "there is no such file, and no experiment has this id, did you mean bench-latency";
    for command in ["run", "check", "agree", "advise", "explain", "survey"] {
        let output = temporary.lab(&[command, "bench-latncy"]);
        assert_ends_with(&output, 2, "bench-latncy");
        assert!(said(&output).contains(near), "{command}: {}", said(&output));
    }
    assert_ends_with(
        &temporary.lab(&["papers", "lee2002-fgi8"]),
        2,
        "no experiment or paper \"lee2002-fgi8\", did you mean lee2002-fig8",
    );
}

/// A run of some minutes at the least, of which the engine sees little of its time.
const ENDLESS: [&str; 4] = ["--set", "duration=100000 s", "--set", "sweep.rate.values=[\"1 Gbit/s\"]"];

#[test]
fn the_first_signal_ends_every_command_in_the_middle_of_a_run() {
    let temporary = Temporary::new();
    fs::write(temporary.0.join("network.toml"), NETWORK.replace("4 Mbit/s", "80 Mbit/s")).expect("a file");
    let open = "[unknown.delay]\nlabel = \"delay\"\npaths = [\"links.core.delay\"]\nvalues = [\"1 ms\", \"9 ms\"]\nwhy = \"A test.\"\n";
    fs::write(temporary.0.join("unknown.toml"), format!("{FILE}\n{open}")).expect("a file");
    fs::write(temporary.0.join("survey.toml"), format!("{FILE}\n{open}\n{SURVEY}")).expect("a file");
    let endless = |command: &[&'static str]| [command, &ENDLESS[..]].concat();
    let long = ["--set", "duration=100000 s"];
    for (signal, arguments) in [
        (Signal::INT, endless(&["run", "sample.toml"])),
        (Signal::TERM, endless(&["run", "sample.toml", "--jobs", "1", "--force"])),
        (Signal::HUP, endless(&["capture", "sample.toml", "--out", "packets.pcapng"])),
        (Signal::TERM, endless(&["explain", "unknown.toml"])),
        (Signal::INT, [&["survey", "survey.toml"][..], &["--set", "duration=100000 s"]].concat()),
        (Signal::INT, [&["advise", "network.toml"][..], &long].concat()),
        (Signal::TERM, vec!["scorecard", "cubic"]),
        (Signal::INT, vec!["papers", "--out", "papers"]),
    ] {
        let mut command = temporary.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        // Long after it has begun to run, on a quiet machine and on a busy one.
        let caught = || signals_caught(child.id()) & (1 << (signal.as_raw() - 1)) != 0;
        let begin = Instant::now();
        while !caught() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{arguments:?} does not run");
            sleep(Duration::from_millis(10));
        }
        sleep(Duration::from_secs(1));
        assert_eq!(child.try_wait().expect("wait"), None, "{arguments:?} ended too soon");
        let begin = Instant::now();
        kill_process(Pid::from_raw(child.id().cast_signed()).expect("a process id"), signal).expect("kill");
        let output = child.wait_with_output().expect("wait");
        println!("{arguments:?}: {:?}", begin.elapsed());
        assert!(begin.elapsed() < Duration::from_secs(20), "{arguments:?}: {:?}", begin.elapsed());
        assert_ends_with(&output, 130, "");
        assert!(said(&output).contains("interrupted"), "{arguments:?}: {}", said(&output));
    }
    assert!(!temporary.0.join("packets.pcapng").exists(), "half a capture");
}

/// A network whose run did not end.
const OFFICE: &str = r#"
id = "office"
title = "A backup and calls over a line of other rates each way"
duration = "13 s"
warm_up = "10 s"
runs = 1

[nodes]
users = "host"
cams = "host"
nas = "host"
branch = "gateway"
hq = "gateway"
servers = "host"

[links.lan-users]
ends = ["users", "branch"]
rate = "1 Gbit/s"
jitter = { max = "0.1 ms" }
[links.lan-cams]
ends = ["cams", "branch"]
like = "lan-users"
[links.lan-nas]
ends = ["nas", "branch"]
like = "lan-users"
[links.lan-hq]
ends = ["hq", "servers"]
like = "lan-users"

[links.dsl]
ends = ["branch", "hq"]
rate = "40 Mbit/s"
delay = "12 ms"
queue = { discipline = "tail-drop", packets = 300 }
back = { rate = "100 Mbit/s" }

[traffic.web]
enabled = false
kind = "web"
from = "users"
to = "servers"
flows = 20
[traffic.calls]
kind = "udp"
from = "cams"
to = "servers"
rate = "9 Mbit/s"
port = 5004
dscp = 34
[traffic.backup]
kind = "bulk"
from = "nas"
to = "servers"
flows = 4
port = 873

[trunks.site]
gateways = ["branch", "hq"]
[[trunks.site.classes]]
name = "interactive"
match = [{ dscp = [34] }, { behaviour = "interactive" }]
transport = "quic"
[[trunks.site.classes]]
name = "tcp"
match = [{ protocol = "tcp" }]
transport = "quic"
[[trunks.site.classes]]
name = "other"
transport = "quic"
"#;

/// The rate that the path grants a lane falls below what the lane has taken, while packets wait for it.
#[test]
fn lanes_over_quic_beside_a_backup_do_not_run_for_ever() {
    let temporary = Temporary::new();
    fs::write(temporary.0.join("office.toml"), OFFICE).expect("a file");
    let mut command = temporary.command(&["run", "office.toml"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let begin = Instant::now();
    let ended = loop {
        match child.try_wait().expect("wait") {
            Some(status) => break Some(status),
            None if begin.elapsed() > Duration::from_secs(300) => break None,
            None => sleep(Duration::from_millis(50)),
        }
    };
    let _ = child.kill();
    assert_eq!(ended.and_then(|status| status.code()), Some(0), "after {:?}", begin.elapsed());
}

/// The signals that a process has a handler for, as bits.
fn signals_caught(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

#[test]
fn check_prints_what_would_run() {
    let temporary = Temporary::new();
    let output = temporary.lab(&["check", "sample.toml"]);
    assert_ends_with(&output, 0, "");
    let text = String::from_utf8(output.stdout).expect("text");
    for part in
        ["sample.toml: fine", "2 hosts, 1 links", "3 points × 4 = 12", "rate: 1 Mbit/s, 2 Mbit/s, 4 Mbit/s"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_report_is_written_again_from_results_alone() {
    let temporary = Temporary::new();
    assert_ends_with(&temporary.run("out", &["--quick"]), 0, "");
    let before = temporary.results("out");
    for name in ["report.html", "report.md"] {
        fs::remove_file(temporary.0.join("out/sample").join(name)).expect("it is there");
    }
    for directory in ["out", "out/sample"] {
        assert_ends_with(&temporary.lab(&["report", directory]), 0, "");
        assert!(temporary.results("out") == before);
    }
    assert_ends_with(&temporary.lab(&["report", "nowhere"]), 2, "nowhere: there are no results");
    fs::create_dir(temporary.0.join("empty")).expect("a directory");
    assert_ends_with(&temporary.lab(&["report", "empty"]), 2, "no results");
}

#[test]
fn the_error_says_where_nothing_can_be_written() {
    let temporary = Temporary::new();
    fs::write(temporary.0.join("file"), "").expect("a file");
    assert_ends_with(&temporary.run("file", &[]), 2, "cannot make file/sample: ");
}

#[test]
fn a_full_disk_keeps_finished_runs() {
    let temporary = Temporary::new();
    let script = format!(
        "mkdir out && mount -t tmpfs -o size=48k tmpfs out || exit 77; \
         {} lab run sample.toml --out out --runs 200; code=$?; cp out/sample/runs.jsonl kept; exit $code",
        env!("CARGO_BIN_EXE_trunkline")
    );
    let output =
        Command::new("unshare").args(["-Urm", "sh", "-c", &script]).current_dir(&temporary.0).output();
    let Some(output) = output.ok().filter(|output| output.status.code() != Some(77)) else {
        println!("SKIPPED a_full_disk_keeps_finished_runs: no mount namespace");
        return;
    };
    if said(&output).starts_with("unshare:") {
        println!("SKIPPED a_full_disk_keeps_finished_runs: {}", said(&output));
        return;
    }
    assert_ends_with(&output, 1, "No space left on device");
    let kept = fs::read_to_string(temporary.0.join("kept")).expect("what was kept");
    assert!(kept.ends_with('\n') && kept.lines().count() > 2);
    for line in kept.lines() {
        serde_json::from_str::<Value>(line).expect("whole lines");
    }
}

#[test]
fn the_experiments_of_the_papers_come_with_the_program() {
    let temporary = Temporary::new();
    let output = temporary.lab(&["papers", "--list"]);
    assert_ends_with(&output, 0, "");
    let text = String::from_utf8(output.stdout).expect("text");
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    for paper in ["lee2002", "kung1998", "honda2005", "damjanovic2007", "bosau2004", "bundler2021"] {
        let files = fs::read_dir(experiments.join(paper)).expect("the paper's").count();
        let listed = text.lines().filter(|line| line.starts_with(paper)).count();
        assert!(files > 0 && files == listed, "{paper}: {files} files, {listed} listed");
    }
    assert_ends_with(&temporary.lab(&["papers", "shannon1948"]), 2, "allowed: ");
    let one = temporary.lab(&["papers", "--list", "lee2002-fig8"]);
    assert_eq!(String::from_utf8_lossy(&one.stdout).lines().count(), 1, "another name of one");
}

/// What `lab advise` is for: a backup and a call that meet on a link that is too narrow.
const NETWORK: &str = r#"
id = "network"
title = "A backup and a call"
duration = "10 s"
warm_up = "2 s"

[nodes]
a = "host"
left = "gateway"
right = "gateway"
b = "host"

[links.near]
ends = ["a", "left"]
rate = "100 Mbit/s"
[links.core]
ends = ["left", "right"]
rate = "4 Mbit/s"
delay = "10 ms"
queue = { discipline = "tail-drop", packets = 200 }
[links.far]
ends = ["right", "b"]
like = "near"

[traffic.backup]
kind = "bulk"
from = "a"
to = "b"
flows = 2
[traffic.call]
kind = "udp"
from = "a"
to = "b"
rate = "100 kbit/s"
packet = "200 B"

[trunks.site]
gateways = ["left", "right"]
encryption = "none"
classes = "single"
"#;

#[test]
fn advice_has_the_settings_their_gain_and_their_cost() {
    let temporary = Temporary::new();
    fs::write(temporary.0.join("network.toml"), NETWORK).expect("a file");
    let output = temporary.lab(&["advise", "network.toml", "--runs", "3"]);
    assert_ends_with(&output, 0, "");
    // Without a terminal too.
    let lines: Vec<String> = said(&output).lines().map(str::to_owned).collect();
    assert!(
        lines[0].starts_with("trunkline: advise tries ") && lines[0].contains("3 runs of each"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("0 of ") && lines[1].contains(" tries: "), "{lines:?}");
    let estimates = lines.iter().filter(|line| line.starts_with("trunkline: advise takes about "));
    assert_eq!(estimates.count(), 1, "{lines:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    for part in [
        "A backup and a call\n\nWhat is advised against direct routing: ",
        "\n\nChoose: the trunk",
        "Better than without a trunk:\n\n",
        "call.delay.mean",
        "classes and their lanes",
        "how many lanes",
        "edge pacing",
        "[trunks.site]",
        "Lanes were tried encrypted, as a gateway ships them",
        PASTED,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let site = text.rsplit(PASTED).next().unwrap_or_default();
    temporary.check_pasted(site);
    let again = temporary.lab(&["advise", "network.toml", "--runs", "3", "--jobs", "1", "--json"]);
    assert_ends_with(&again, 0, "");
    let advice: Value = serde_json::from_slice(&again.stdout).expect("one JSON object");
    assert_eq!(advice["trunk"], true);
    let evidence = advice["evidence"].as_array().expect("a list");
    let delay = evidence.iter().find(|one| one["metric"] == "call.delay.mean").expect("the call's delay");
    let mean = |what: &str| delay[what]["mean"].as_f64().expect("a number");
    assert!(delay["better"] == true && mean("with") < 0.5 * mean("without"), "{delay}");
    // What the gateway is to be told is the same as what people read.
    assert!(text.ends_with(advice["gateway_toml"].as_str().expect("a text")), "{text}");
}

/// What stands before the lines for a gateway's file.
const PASTED: &str = "For the gateways, at the end of their files:\n\n";

impl Temporary {
    /// Pastes it at the end of an example, which is a site's file then, and not a weaker one.
    fn check_pasted(&self, pasted: &str) {
        let trunkline = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_trunkline"));
            command.current_dir(&self.0).args(arguments).output().expect("it starts")
        };
        fs::write(self.0.join("a.key"), trunkline(&["genkey"]).stdout).expect("a key");
        fs::set_permissions(self.0.join("a.key"), fs::Permissions::from_mode(0o600)).expect("a key");
        let example = include_str!("../../../examples/two-sites/a.toml");
        fs::write(self.0.join("a.toml"), format!("{example}\n{pasted}")).expect("a site");
        let checked = trunkline(&["check", "a.toml"]);
        assert_ends_with(&checked, 0, "");
        assert!(!pasted.contains("encryption") && pasted.contains("[[classes]]"), "{pasted}");
    }
}

#[test]
fn advice_on_a_network_without_trunks_is_an_error() {
    let temporary = Temporary::new();
    assert_ends_with(
        &temporary.lab(&["advise", "sample.toml"]),
        2,
        "sample.toml: there is no trunk; allowed: ",
    );
    assert_ends_with(&temporary.lab(&["advise", "none.toml"]), 2, "none.toml");
    assert_ends_with(&temporary.lab(&["advise", "sample.toml", "--runs", "1"]), 2, "--runs");
}

#[test]
fn a_scorecard_has_a_line_for_each_guideline_and_a_column_for_each_congestion_control() {
    let temporary = Temporary::new();
    let arguments = ["scorecard", "reno", "bbr", "reno", "--quick", "--runs", "1", "--out", "out"];
    let output = temporary.lab(&arguments);
    assert_ends_with(&output, 0, "");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> =
        text.lines().skip_while(|line| !line.starts_with("All reports: ")).skip(1).collect();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[0]), ["reno", "bbr"], "each once");
    for (number, line) in lines[1..10].iter().enumerate() {
        assert!(line.starts_with(&format!("Guideline {}: ", number + 1)), "{line}");
        let verdicts = ["holds", "part", "fails", "undecided"];
        let last = words(line);
        assert!(
            last[last.len() - 2..].iter().all(|word| verdicts.contains(&&**word) || word == "in"),
            "{line}"
        );
    }
    // BBR takes more than Reno leaves where packets are lost (Ware and others, IMC 2019); Reno is as fair to Reno as Reno is.
    let principles = words(lines[1]);
    assert_eq!(principles[principles.len() - 2..], ["holds", "fails"], "{text}");
    assert!(temporary.0.join("out/rfc9743-scorecard-1-principles-bbr/report.html").is_file());
    // What the files say of the one they have is not said of another.
    assert!(!text.contains("BIC"), "{text}");
    let unknown = temporary.lab(&["scorecard", "renno"]);
    assert_ends_with(
        &unknown,
        2,
        "[possible values: reno, bic, bic-1.0, bic-2.6.6, cubic, compound, vegas, bbr]",
    );
}

/// The sample with a rate that its paper does not give, and a value that only half of it could have.
fn with_unknown() -> String {
    let unknown = r#"
[unknown.buffers]
label = "windows"
paths = ["links.core.delay"]
range = { from = 1, to = 400, unit = "ms", scale = "log" }
why = "Not said."
[[claims]]
text = "Of 4 Mbit/s less than a half is used."
holds = "tcp.goodput[rate=\"4 Mbit/s\"] < 2 Mbit/s"
"#;
    fs::read_to_string(Temporary::new().0.join("sample.toml")).expect("the sample") + unknown
}

#[test]
fn an_explanation_says_which_set_ups_bear_a_claim_out() {
    let temporary = Temporary::new();
    fs::write(temporary.0.join("open.toml"), with_unknown()).expect("a file");
    let few = ["explain", "open.toml", "--settings", "8"];
    let output = temporary.lab(&few);
    assert_ends_with(&output, 0, "");
    let text = String::from_utf8(output.stdout).expect("text");
    for part in [
        "8 settings of 1 unknown, seed 1",
        "for some        Of 4 Mbit/s less than a half is used.: ",
        ", not with the file's",
        "page: explained/sample/explanation.html",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(temporary.0.join("explained/sample/explanation.html").is_file());
    assert_ends_with(&temporary.lab(&few), 2, "there are results here already");
    let again = temporary.lab(&[&few[..], &["--resume", "--json"]].concat());
    assert_ends_with(&again, 0, "");
    let answer: Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!((&answer["settings"], &answer["claims"][1]["set_up"]), (&8.into(), &"some".into()));
    assert_ends_with(&temporary.lab(&["report", "explained"]), 0, "");
    let index = temporary.lab(&["report", "explained", "--explained", "explained"]);
    assert_ends_with(&index, 0, "");
    assert_ends_with(&temporary.lab(&["explain", "sample.toml"]), 2, "has no [unknown]");
    assert_ends_with(&temporary.lab(&["explain", "open.toml", "--budget", "soon"]), 2, "such as 30 min");
    assert_ends_with(&temporary.lab(&["explain", "none.toml"]), 2, "none.toml");
}

/// What more rate gives, at a delay that nobody knows.
const SURVEY: &str = r#"
[survey]
axis = "rate"
baseline = "2 Mbit/s"
measures = { goodput = { metric = "tcp.goodput", better = "more" } }
bounds = [{ measure = "goodput", below = 0.1, at_most = 0 }, { measure = "goodput", below = 0.9, at_most = "10 %" }]
"#;

#[test]
fn a_survey_compares_variants_over_samples_and_writes_the_worst_as_files() {
    let temporary = Temporary::new();
    let open = "[unknown.delay]\npaths = [\"links.core.delay\"]\nrange = { from = 1, to = 9, unit = \"ms\" }\nwhy = \"A test.\"\n";
    fs::write(temporary.0.join("open.toml"), format!("{FILE}\n{open}\n{SURVEY}")).expect("a file");
    let few = ["survey", "open.toml", "--samples", "6", "--worst", "1"];
    let output = temporary.lab(&few);
    assert_ends_with(&output, 7, "1 of 4 bounds does not hold");
    let text = String::from_utf8(output.stdout).expect("text");
    for part in [
        "6 of 6 samples, seed 1, sim",
        "goodput of 4 Mbit/s to the baseline's (tcp.goodput), 6 samples",
        "below 0.9: 100.0 %   below 0.7: 100.0 %   above 1.1: 0.0 %",
        "✓ holds  goodput of 1 Mbit/s below 0.1 in at most 0.0 % of samples: 0.0 % (0)",
        "✗ fails  goodput of 1 Mbit/s below 0.9 in at most 10.0 % of samples: 100.0 % (6)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let again = temporary.lab(&[&few[..], &["--resume", "--json"]].concat());
    let lines = String::from_utf8(again.stdout).expect("text");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 7, "a line for each sample, and one for all");
    assert_eq!(lines[2]["sample"], 3);
    assert!(lines[2]["properties"]["delay"].as_str().expect("a delay").ends_with(" ms"));
    let worst = &lines[6]["comparisons"][0]["worst"][0];
    let file = format!("surveyed/sample/worst/sample-{worst}.toml");
    assert_ends_with(&temporary.lab(&["check", &file]), 0, "");
    let alone = temporary.lab(&["run", &file, "--json"]);
    let point: Value =
        serde_json::from_slice(alone.stdout.split(|byte| *byte == b'\n').next().expect("a line"))
            .expect("JSON");
    let place = worst.as_u64().expect("a number") as usize - 1;
    assert_eq!(point["metrics"]["tcp.goodput"]["mean"], lines[place]["values"]["goodput"]["1 Mbit/s"]);
    assert_ends_with(&temporary.lab(&["survey", "sample.toml"]), 2, "sample has no [survey]");
    assert_ends_with(&temporary.lab(&few), 2, "there are results here already");
}

#[test]
fn results_are_exported_beside_themselves_or_elsewhere() {
    let dir = Temporary::new();
    assert!(dir.run("out", &["--quick"]).status.success());
    let exported = dir.lab(&["export", "out"]);
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    let said = String::from_utf8_lossy(&exported.stdout).into_owned();
    assert_eq!(said, "out/sample/runs.csv\nout/sample/metrics.csv\nout/sample/columns.csv\n");
    let runs = fs::read_to_string(dir.0.join("out/sample/runs.csv")).expect("a table");
    assert_eq!(runs.lines().count(), 4, "names, and a run at each of three rates: {runs}");
    assert!(runs.starts_with("experiment,engine,point.rate,label.rate,seed,"), "{runs}");
    assert!(runs.contains("\nsample,sim,4000000,4 Mbit/s,"), "{runs}");

    let arrow = dir.lab(&["export", "out/sample", "--format", "arrow", "--out", "tables", "--json"]);
    let lines: Vec<Value> = String::from_utf8_lossy(&arrow.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let files: Vec<_> = lines.iter().map(|line| line["file"].as_str().expect("a path")).collect();
    assert_eq!(files, ["tables/sample/runs.arrow", "tables/sample/metrics.arrow"]);
    assert!(files.iter().all(|file| fs::read(dir.0.join(file)).expect("a file").starts_with(b"ARROW1")));

    let nothing = dir.lab(&["export", "nowhere"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("there are no results here"));
}

#[test]
fn a_capture_is_of_the_run_that_results_have() {
    let dir = Temporary::new();
    assert!(dir.run("out", &["--quick"]).status.success());
    let runs = fs::read_to_string(dir.0.join("out/sample/runs.jsonl")).expect("results");
    let runs: Vec<Value> = runs.lines().map(|line| serde_json::from_str(line).expect("a run")).collect();
    let run = runs.iter().find(|run| run["point"]["rate"] == "2 Mbit/s").expect("a point");

    let arguments = ["capture", "sample.toml", "--quick", "--at", "rate=2 Mbit/s", "--json"];
    let captured = dir.lab(&arguments);
    assert!(captured.status.success(), "{}", String::from_utf8_lossy(&captured.stderr));
    let report: Value = serde_json::from_slice(&captured.stdout).expect("JSON");
    assert_eq!((&report["digest"], &report["seed"]), (&run["digest"], &run["seed"]));
    let bytes = fs::read(dir.0.join("capture.pcapng")).expect("a capture");
    assert!(bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]), "a section header");
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    for text in
        ["sample at rate=2 Mbit/s, seed", "core.back lost", "a to b, 2 Mbit/s, 5ms, tail-drop of", "waited "]
    {
        assert!(has(text), "{text}");
    }
    // Half a file is never seen, and what is there is not replaced unasked.
    let left: Vec<_> =
        fs::read_dir(&dir.0).expect("a directory").map(|entry| entry.expect("a file").file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".capture")), "{left:?}");
    let again = dir.lab(&arguments);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("capture.pcapng exists; --force replaces it"));
    assert!(dir.lab(&[&arguments[..], &["--force"]].concat()).status.success());
}

#[test]
fn what_a_capture_cannot_be_of_is_named_with_what_can_be() {
    let dir = Temporary::new();
    for (more, said) in [
        (
            ["--at", "rate=3 Mbit/s"],
            "--at rate=3 Mbit/s: not in the sweep; allowed: 1 Mbit/s, 2 Mbit/s, 4 Mbit/s",
        ),
        (["--at", "delay=3 ms"], "--at delay=3 ms: not in the sweep; allowed: rate"),
        (["--link", "edge"], "\"edge\" is no link; allowed: core"),
        (["--out", "no/such/place.pcapng"], "cannot write no/such/place.pcapng"),
    ] {
        let refused = dir.lab(&[&["capture", "sample.toml"], &more[..]].concat());
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
        assert!(!dir.0.join("capture.pcapng").exists());
    }
}

/// What `lab import` says of a file with this content: on standard output and standard error, each without the other.
fn imported(content: &str, name: &str) -> Result<(String, String), String> {
    let place = Temporary::new();
    fs::write(place.0.join(name), content).expect("a file");
    let output = place.lab(&["import", name]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(said);
    }
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), said))
}

#[test]
fn recordings_that_people_publish_become_experiments_whatever_their_names() {
    for (name, content, notes) in [
        (
            "extra.csv",
            "time_s,rate_mbps,retrans\n0,16.5,0\n0.5,61.9,3\n1,20,0\n",
            "extra.csv: not read: retrans\n",
        ),
        ("iso.txt", "time;throughput_mbps\n2030-01-02T10:00:00.3;16,5\n2030-01-02T10:00:00.8;61,9\n", ""),
        ("two-columns", "0.0\t16.5\n0.5\t61.9\n", "no header: read as time in s and rate in Mbit/s\n"),
        (
            "log.csv",
            "[  5]   0.00-0.50   sec  1 MBytes  16.5 Mbits/sec\n[  5]   0.50-1.00   sec  1 MBytes  61.9 Mbits/sec\n",
            "",
        ),
    ] {
        let (experiment, said) = imported(content, name).unwrap_or_else(|said| panic!("{name}: {said}"));
        assert!(
            experiment.contains("rate = \"16500000 bit/s\"")
                && experiment.contains("at = \"0.5 s\", rate = \"61900000 bit/s\""),
            "{name}: {experiment}"
        );
        assert!(
            said.ends_with(notes) && said.lines().count() == usize::from(!notes.is_empty()),
            "{name}: {said}"
        );
    }
}

#[test]
fn a_mistake_in_a_recording_is_told_with_its_line_and_the_units_of_the_file() {
    for (content, told) in [
        ("time_s,speed\n0,1\n1,2\n", "a.csv: line 1: no column is a rate with its unit"),
        (
            "time_s,rate_mbps\n\n0,1\n1,2000000\n",
            "a.csv: line 4: rate_mbps is 2000000; allowed: 0 to 1000000",
        ),
        ("{\"end\": {}}\n", "a.csv: JSON without intervals; allowed: what iperf3 --json prints"),
    ] {
        let said = imported(content, "a.csv").expect_err("a mistake");
        assert!(said.contains(told), "{said}");
    }
}
