//! The command line as a user runs it: its messages about files, and that no command panics because of its output.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use crate::common::site::{Directory, PROGRAM};
use serde_json::Value;
use trunkline_status::{Answer, Peer, Status};

/// Commands that are not tried against a full device. `up`, `proxy` and `hooks` write a log and no result, and `web` one line; `unblock`, `init`, `invite`, `join` and
/// `leave` change the machine; the others measure for seconds
/// in namespaces of their own, and print by the same function as all.
const NOT_TRIED: [&str; 12] =
    ["up", "proxy", "hooks", "web", "unblock", "init", "invite", "join", "leave", "demo", "bench", "help"];

const EXPERIMENT: &str = r#"
id = "sample"
title = "A file over a link"
duration = "1 s"
runs = 1

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
"#;

const NETWORK: &str = r#"
[sites.a.uplinks.dsl]
up = "10 Mbit/s"
down = "100 Mbit/s"

[sites.b.uplinks.fibre]
up = "100 Mbit/s"
down = "100 Mbit/s"

[trunks.a-b]
sites = ["a", "b"]
guarantee = "5 Mbit/s"
"#;

/// A directory that is removed at the end, with a site, its key and an experiment in it, and a daemon's socket.
struct Place(Directory);

impl Place {
    fn new() -> Self {
        let place = Place(Directory::new());
        let key = place.run(&["genkey"]);
        assert!(key.status.success());
        place.write("a.key", &String::from_utf8(key.stdout).expect("text"));
        fs::set_permissions(place.path().join("a.key"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("its mode");
        place.write("a.toml", "private_key_file = \"a.key\"\nclasses = \"single\"\n");
        place.write("sample.toml", EXPERIMENT);
        place.write("network.toml", NETWORK);
        let applied = place.run(&["controller", "apply", "network.toml", "--store", "n.db", "--from", "0"]);
        assert_eq!(applied.status.success(), cfg!(feature = "controller"));
        place
    }

    fn path(&self) -> &Path {
        &self.0.0
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).expect("a file");
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.current_dir(self.path()).args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    /// The public half of a new key.
    fn public_key(&self) -> String {
        let mut child = self
            .command(&["pubkey"])
            .stdin(File::open(self.path().join("a.key")).expect("the key"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut text = String::new();
        child.stdout.take().expect("its output").read_to_string(&mut text).expect("text");
        assert!(child.wait().expect("waited").success());
        text.trim().to_owned()
    }

    /// Answers on `a.sock` as a gateway does, `times` times.
    fn daemon(&self, times: usize) -> thread::JoinHandle<()> {
        let path = self.path().join("a.sock");
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        thread::spawn(move || {
            for age in 1..=times {
                let (mut stream, _) = listener.accept().expect("a caller");
                let mut request = String::new();
                BufReader::new(&stream).read_line(&mut request).expect("a request");
                let answer = if request.contains("status") || request.contains("flows") {
                    let peers = vec![Peer { name: "b".to_owned(), ..Peer::default() }];
                    let uptime_s = age as f64;
                    let status =
                        Status { name: "a".to_owned(), pid: 1, uptime_s, peers, ..Status::default() };
                    Answer::Status(Box::new(status))
                } else {
                    Answer::Done { message: "it is done".to_owned() }
                };
                // Who asked may have ended for the output alone.
                let _ = writeln!(stream, "{}", serde_json::to_string(&answer).expect("json"));
            }
        })
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A command line, and how often it asks the daemon.
const LINES: &[(&[&str], usize)] = &[
    (&["check", "a.toml"], 0),
    (&["check", "a.toml", "--json"], 0),
    (&["doctor"], 0),
    (&["doctor", "a.toml", "--json"], 0),
    (&["status", "a.sock", "--interval", "0.1"], 2),
    (&["status", "a.sock", "--json"], 1),
    (&["top", "a.sock", "--once", "--interval", "0.1"], 2),
    (&["reload", "a.sock"], 1),
    (&["down", "a.sock"], 1),
    (&["genkey"], 0),
    (&["pubkey"], 0),
    (&["schema"], 0),
    (&["controller", "plan", "network.toml"], 0),
    (&["controller", "plan", "network.toml", "--json"], 0),
    (&["controller", "export", "n.db"], 0),
    (&["controller", "log", "n.db"], 0),
    (&["controller", "schema"], 0),
    (&["controller", "openapi"], 0),
    (&["controller", "rollout", "n.db"], 0),
    (&["controller", "token", "n.db", "anna"], 0),
    (&["completions", "bash"], 0),
    (&["man"], 0),
    (&["lab", "check", "sample.toml"], 0),
    (&["lab", "schema"], 0),
    (&["lab", "run", "sample.toml", "--out", "out", "--force"], 0),
    (&["lab", "run", "sample.toml", "--out", "out", "--force", "--json"], 0),
    (&["lab", "report", "out"], 0),
    (&["lab", "papers", "--list"], 0),
    (&["--help"], 0),
    (&["status", "--help"], 0),
    (&["--version"], 0),
];

/// Whether this program has the command: `lab` is only in one with the laboratory, what keeps a network only in one with the controller.
fn has(arguments: &[&str]) -> bool {
    (cfg!(feature = "laboratory") || arguments[0] != "lab")
        && (cfg!(feature = "controller") || arguments[0] != "controller")
}

#[test]
fn a_full_device_is_a_reported_failure_and_no_panic() {
    let place = Place::new();
    for &(arguments, asks) in LINES.iter().filter(|(arguments, _)| has(arguments)) {
        let daemon = (asks > 0).then(|| place.daemon(asks));
        let full = File::options().write(true).open("/dev/full").expect("a full device");
        let mut command = place.command(arguments);
        if arguments == ["pubkey"] {
            command.stdin(File::open(place.path().join("a.key")).expect("the key"));
        }
        let output = command.stdout(full).stderr(Stdio::piped()).spawn().and_then(Child::wait_with_output);
        let output = output.expect("it runs");
        let error = said(&output);
        assert_eq!(output.status.code(), Some(6), "{arguments:?}: {error}");
        assert!(error.contains("trunkline: cannot write output: "), "{arguments:?}: {error}");
        assert!(!error.contains("panicked"), "{arguments:?}: {error}");
        if let Some(daemon) = daemon {
            daemon.join().expect("the daemon's thread");
        }
    }
    // Reports are written although standard output has no reader.
    assert_eq!(place.path().join("out/sample/report.html").is_file(), cfg!(feature = "laboratory"));
}

#[test]
fn every_command_is_tried_against_a_full_device() {
    let place = Place::new();
    let help = String::from_utf8(place.run(&["--help"]).stdout).expect("text");
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A command stands two columns in; what continues its line stands further.
    let names =
        commands.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 10, "{help}");
    for name in names {
        let tried = LINES.iter().any(|(arguments, _)| arguments[0] == name) || NOT_TRIED.contains(&name);
        assert!(tried, "{name} is not tried");
    }
}

#[test]
fn a_reader_that_has_gone_ends_a_command_quietly() {
    let place = Place::new();
    let lines = [&["check", "a.toml"][..], &["man"], &["lab", "papers", "--list"], &["--help"], &["genkey"]];
    for arguments in lines.into_iter().filter(|arguments| has(arguments)) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = place
            .command(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .and_then(Child::wait_with_output)
            .expect("it runs");
        assert_eq!((output.status.code(), said(&output)), (Some(141), String::new()), "{arguments:?}");
    }
}

#[test]
fn no_command_panics_if_it_cannot_write_remarks() {
    let place = Place::new();
    place.write("wrong.toml", "private_key_file = \"a.key\"\n[tun]\nmtu = 12\n");
    let lines = [
        (&["check", "wrong.toml"][..], 2),
        (&["up", "wrong.toml"], 2),
        (&["status", "/nonexistent/a.sock"], 3),
        (&["lab", "check", "wrong.toml"], 2),
        (&["lab", "check", "sample.toml"], 0),
    ];
    for (arguments, code) in lines.into_iter().filter(|(arguments, _)| has(arguments)) {
        let full = File::options().write(true).open("/dev/full").expect("a full device");
        let status = place.command(arguments).stdout(Stdio::null()).stderr(full).status().expect("it runs");
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

/// The results of `check` and `up` for a file. `up` only runs with files that both refuse, so that it changes nothing.
fn checked(place: &Place, text: &str) -> (Option<i32>, Value) {
    place.write("tried.toml", text);
    let output = place.run(&["check", "tried.toml", "--json"]);
    let words = place.run(&["check", "tried.toml"]);
    assert_eq!(output.status.code(), words.status.code(), "{}", said(&words));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    if report["result"] == "refused" {
        let up = place.run(&["up", "tried.toml"]);
        assert_eq!(up.status.code(), Some(2), "{}", said(&up));
        assert!(words.stdout.is_empty(), "{}", String::from_utf8_lossy(&words.stdout));
    }
    (output.status.code(), report)
}

#[test]
fn check_refuses_the_files_that_up_refuses_with_the_same_words() {
    let place = Place::new();
    place.write("empty.key", "");
    let secret = fs::read_to_string(place.path().join("a.key")).expect("the key");
    let peer = |key: &str| {
        format!(
            "private_key_file = \"a.key\"\nlisten = [\"127.0.0.1:4600\"]\n\
             [[peers]]\nname = \"b\"\npublic_key = \"{}\"\nroutes = [\"10.2.0.0/16\"]\n",
            key.trim()
        )
    };
    for (text, problem) in [
        ("private_key_file = \"none.key\"\n".to_owned(), "none.key"),
        ("private_key_file = \"empty.key\"\n".to_owned(), "empty.key"),
        (peer(&place.public_key()), "own public key"),
        (peer(&secret), "private key in place of a public key"),
        ("private_key_file = \"a.key\"\n[lanes]\ncongestion_control = \"nosuch\"\n".to_owned(), "\"nosuch\""),
        ("private_key_file = \"a.key\"\n[tun]\nmtu = 12\n".to_owned(), "is 12"),
    ] {
        let (code, report) = checked(&place, &text);
        assert_eq!((code, report["result"].as_str()), (Some(2), Some("refused")), "{text}: {report}");
        let problems = report["mistakes"].to_string();
        assert!(problems.contains(&problem.replace('"', "\\\"")), "{problem}: {problems}");
        assert!(!problems.contains(secret.trim()), "a secret: {problems}");
        let up = said(&place.run(&["up", "tried.toml"]));
        assert!(up.contains(problem), "{problem}: {up}");
    }
    let (_, report) = checked(&place, "private_key_file = \"a.key\"\n[tun]\nmtu = 12\n");
    assert_eq!(
        (&report["mistakes"][0]["line"], &report["mistakes"][0]["key"]),
        (&3.into(), &"tun.mtu".into())
    );
}

#[test]
fn a_file_that_cannot_be_read_is_told_why_and_where_it_was_looked_for() {
    let place = Place::new();
    let here = place.path().display().to_string();
    let utf16 = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let write = |name: &str, bytes: &[u8]| fs::write(place.path().join(name), bytes).expect("a file");
    write("utf16.toml", &utf16("\u{feff}name = \"a\"\n"));
    write("latin.toml", b"# one\n# caf\xe9\n");
    write("long.toml", "#".repeat(5 << 20).as_bytes());
    fs::create_dir(place.path().join("directory.toml")).expect("a directory");
    let cases = [
        ("none.toml", format!("there is no such file in {here}")),
        ("no/none.toml", format!("there is no directory {here}/no")),
        ("directory.toml", "is a directory, not a file".to_owned()),
        ("utf16.toml", "is in UTF-16; allowed: UTF-8".to_owned()),
        ("latin.toml", "is not in UTF-8 in line 2; allowed: UTF-8".to_owned()),
        ("long.toml", "is too long; allowed: up to 4 MiB".to_owned()),
    ];
    for (file, problem) in &cases {
        for line in [
            &["check", file][..],
            &["up", file],
            &["proxy", file, "--check"],
            &["status", file],
            &["unblock", file],
        ] {
            let output = place.run(line);
            let error = said(&output);
            assert_eq!(output.status.code(), Some(2), "{line:?}: {error}");
            assert!(error.contains(&format!("{file}: {problem}")), "{line:?}: {error}");
        }
    }
    // The same of the key, whose name is relative to the site's file.
    write("utf16.key", &utf16("key"));
    fs::create_dir(place.path().join("directory.key")).expect("a directory");
    for (key, problem) in [
        ("none.key", format!("none.key: there is no such file in {here}")),
        ("utf16.key", "utf16.key: is in UTF-16".to_owned()),
        ("directory.key", "directory.key: is a directory".to_owned()),
        ("/dev/zero", "/dev/zero: is too long; allowed: up to 4096 bytes".to_owned()),
    ] {
        place.write("tried.toml", &format!("private_key_file = \"{key}\"\n"));
        let error = said(&place.run(&["check", "tried.toml"]));
        assert!(error.contains(&problem), "{error}");
    }
}

#[test]
fn what_helpers_get_has_no_private_key() {
    let place = Place::new();
    let key = fs::read_to_string(place.path().join("a.key")).expect("the key").trim().to_owned();
    let listen = "listen = [\"127.0.0.1:0\"]";
    for (number, (file, code)) in [
        // Inline, in a file that is right; in one that is wrong; in one that is no TOML.
        (format!("private_key = \"{key}\"\n"), None),
        (format!("private_key = \"{key}\"\n{listen}\nnonsense = 1\n"), Some(2)),
        (format!("[[[\n  private_key=\"{key}\n"), Some(2)),
        ("private_key_file = \"a.key\"\n".to_owned(), None),
    ]
    .into_iter()
    .enumerate()
    {
        place.write("c.toml", &file);
        let report = format!("report-{number}.txt");
        let output = place.run(&["doctor", "c.toml", "--bundle", &report]);
        assert!(code.is_none() || output.status.code() == code, "{}", said(&output));
        let text = fs::read_to_string(place.path().join(&report)).expect("the report");
        assert!(!text.contains(&key) && !text.contains(&key[4..20]), "{text}");
        for part in [
            "==== program\ntrunkline ",
            "==== trunkline doctor\n",
            "osrelease = ",
            "==== c.toml\n",
            "private_key",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let again = place.run(&["doctor", "c.toml", "--bundle", &report]);
        assert!(
            said(&again).contains("cannot write"),
            "a file that is there is not overwritten: {}",
            said(&again)
        );
        assert_eq!(fs::read_to_string(place.path().join(&report)).expect("the report"), text);
    }
    let output = place.run(&["doctor", "a.toml", "--bundle", "/dev/full"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

#[test]
fn keys_are_read_with_the_marks_that_editors_leave() {
    let place = Place::new();
    let key = fs::read_to_string(place.path().join("a.key")).expect("the key");
    let public = place.public_key();
    let pubkey = |bytes: &[u8]| {
        fs::write(place.path().join("input"), bytes).expect("a file");
        let input = File::open(place.path().join("input")).expect("a file");
        let output = place.command(&["pubkey"]).stdin(input).output().expect("it runs");
        (String::from_utf8_lossy(&output.stdout).trim().to_owned(), said(&output))
    };
    let marked = format!("\u{feff}{}\r\n", key.trim());
    assert_eq!(pubkey(marked.as_bytes()), (public.clone(), String::new()), "a byte order mark and CRLF");
    let utf16: Vec<u8> = key.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(pubkey(&utf16).1.contains("standard input: is in UTF-16"), "{:?}", pubkey(&utf16));
    assert!(pubkey(&[b'x'; 5000]).1.contains("is too long; allowed: up to 4096 bytes"));
    // In a site's file, too.
    place.write("marked.key", &marked);
    fs::set_permissions(place.path().join("marked.key"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("its mode");
    place.write("marked.toml", "\u{feff}private_key_file = \"marked.key\"\r\nclasses = \"single\"\r\n");
    let output = place.run(&["check", "marked.toml"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains(&public), "{}", said(&output));
}

#[test]
fn check_says_what_lanes_ride_on_and_the_weight_of_every_class() {
    let place = Place::new();
    place.write(
        "a.toml",
        "private_key_file = \"a.key\"\n[[classes]]\nname = \"calls\"\ntransport = \"quic\"\nweight = 3\n\
         match = [{ protocol = \"udp\", port = 5060 }]\n[[classes]]\nname = \"rest\"\ntransport = \"auto\"\n",
    );
    let output = place.run(&["check", "a.toml"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = |kind: &str, name: &str| {
        let found = text.lines().find(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(kind) && words.next() == Some(name)
        });
        found.unwrap_or_else(|| panic!("{text}{}", said(&output))).to_owned()
    };
    assert!(
        row("lanes", "calls").contains("1 lane to each peer in each shard, over QUIC, delivery datagram, "),
        "{text}"
    );
    assert!(row("lanes", "rest").contains("over QUIC (delivery datagram) or TCP, "), "{text}");
    assert!(row("class", "calls").contains("1 rule, lanes calls alone, weight 3"), "{text}");
    assert!(row("class", "rest").contains("everything else, lanes rest alone, weight 1"), "{text}");
    assert!(!text.contains("(s)"), "{text}");
}

#[test]
fn warnings_have_a_word_and_an_exit_code_of_their_own() {
    let place = Place::new();
    let fine = "private_key_file = \"a.key\"\nclasses = \"single\"\n";
    let (code, report) = checked(&place, fine);
    assert_eq!(
        (code, &report["result"], &report["warnings"]),
        (Some(0), &"fine".into(), &Value::Array(vec![]))
    );
    assert_eq!(report["site"]["public_key"], place.public_key());
    let warned = "private_key_file = \"a.key\"\n[[classes]]\nname = \"all\"\nweight = 2\n";
    let (code, report) = checked(&place, warned);
    assert_eq!((code, report["result"].as_str()), (Some(5), Some("warnings")), "{report}");
    let output = place.run(&["check", "tried.toml"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("tried.toml: usable, with 1 warning\n"), "{text}");
    assert!(said(&output).starts_with("trunkline: warning: classes.all.weight: "), "{}", said(&output));
    place.write("tried.toml", fine);
    let output = place.run(&["check", "tried.toml"]);
    assert!(output.stdout.starts_with(b"tried.toml: fine\n") && output.stderr.is_empty());
}

#[test]
#[cfg_attr(not(feature = "laboratory"), ignore = "needs the laboratory")]
fn the_error_about_a_misspelt_rate_gives_the_right_spelling_everywhere() {
    let place = Place::new();
    let right = "\"10Mbps\" is no rate: write \"10 Mbit/s\"; allowed: ";
    let demo = place.run(&["demo", "--rate", "10Mbps"]);
    assert_eq!(demo.status.code(), Some(2), "{}", said(&demo));
    assert!(said(&demo).contains(right), "the command line: {}", said(&demo));
    place.write(
        "rates.toml",
        "private_key_file = \"a.key\"\n[[classes]]\nname = \"all\"\nceiling = \"10Mbps\"\n",
    );
    let site = place.run(&["check", "rates.toml"]);
    assert!(said(&site).contains(right), "a site's file: {}", said(&site));
    place.write("rates.toml", &EXPERIMENT.replace("1 Mbit/s", "10Mbps"));
    let lab = place.run(&["lab", "check", "rates.toml"]);
    assert!(said(&lab).contains(right), "an experiment: {}", said(&lab));
}

#[test]
#[cfg_attr(not(feature = "laboratory"), ignore = "needs the laboratory")]
fn a_former_scenario_of_bench_is_named_as_the_experiment_that_runs() {
    let place = Place::new();
    for (scenario, id) in [
        ("latency", "bench-latency"),
        ("proportions", "bench-proportions"),
        ("competing-flows", "bench-competing"),
        ("drops", "bench-drops"),
        ("meltdown", "bench-meltdown"),
    ] {
        let bench = place.run(&["bench", scenario]);
        assert_eq!(bench.status.code(), Some(2), "{}", said(&bench));
        assert!(
            said(&bench).contains(&format!("trunkline lab run {id} --engine testbed")),
            "{}",
            said(&bench)
        );
        let check = place.run(&["lab", "check", id]);
        assert!(check.status.success(), "{}", said(&check));
        let text = String::from_utf8_lossy(&check.stdout).into_owned();
        assert!(text.starts_with(&format!("{id}: fine\n")), "{text}");
    }
    place.write("bench-latency", EXPERIMENT);
    let text = place.run(&["lab", "check", "bench-latency"]).stdout;
    assert!(String::from_utf8_lossy(&text).contains("A file over a link"), "a file comes before an id");
    let none = place.run(&["lab", "run", "bench-nothing"]);
    assert_eq!(none.status.code(), Some(2), "{}", said(&none));
}

#[test]
fn the_log_is_json_on_request() {
    let place = Place::new();
    place.write("refused.toml", "private_key_file = \"none.key\"\n");
    let output = place.run(&["up", "refused.toml", "--log-format", "json"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let lines: Vec<Value> =
        said(&output).lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
    let last = lines.last().expect("a line");
    assert_eq!(last["level"], "ERROR");
    assert!(last["message"].as_str().is_some_and(|text| text.contains("none.key")), "{last}");
    assert!(last["timestamp"].is_string(), "{last}");
}

#[test]
fn man_pages_are_written_for_every_command_and_the_sites_file() {
    let place = Place::new();
    assert!(place.run(&["man", "--out", "pages"]).status.success());
    let pages = place.path().join("pages");
    assert_eq!(pages.join("trunkline-lab-run.1").is_file(), cfg!(feature = "laboratory"));
    for page in ["trunkline.1", "trunkline-up.1", "trunkline.toml.5"] {
        let text = fs::read_to_string(pages.join(page)).expect("a page");
        assert!(text.contains(".SH EXAMPLES"), "{page}");
    }
    let site = fs::read_to_string(place.path().join("pages/trunkline.toml.5")).expect("a page");
    assert!(site.contains(".SH FILES") && site.contains("\\fBedge_pacing\\fR"), "{site}");
}

#[test]
#[cfg_attr(feature = "laboratory", ignore = "this program has the laboratory")]
fn the_gateway_alone_says_in_one_line_what_it_is_without() {
    let place = Place::new();
    let lines = [
        &["lab", "run", "sample.toml"][..],
        &["demo"],
        &["bench", "--runs", "3"],
        &["help", "lab"],
        &["controller", "serve", "n.db"],
    ];
    for line in lines.into_iter().filter(|line| !has(line)) {
        let output = place.run(line);
        let error = said(&output);
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{line:?}: {error}");
        assert!(error.starts_with("trunkline: this program is the gateway alone"), "{line:?}: {error}");
    }
    // Where its package is installed, that one runs.
    let (bin, libexec) = (place.path().join("bin"), place.path().join("libexec/trunkline"));
    fs::create_dir_all(&bin).expect("a directory");
    fs::create_dir_all(&libexec).expect("a directory");
    fs::copy(PROGRAM, bin.join("trunkline")).expect("a copy of the program");
    fs::write(libexec.join("trunkline"), "#!/bin/sh\necho \"$0: $*\"\nexit 7\n").expect("a script");
    fs::set_permissions(libexec.join("trunkline"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("its mode");
    let output =
        Command::new(bin.join("trunkline")).args(["lab", "run", "x y.toml"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.ends_with("libexec/trunkline/trunkline: lab run x y.toml\n"), "{text}");
    assert_eq!(output.status.code(), Some(7));
    let other = said(&place.run(&["nosuch"]));
    assert!(other.starts_with("error: unrecognized subcommand 'nosuch'"), "{other}");
}
