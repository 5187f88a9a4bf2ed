//! `trunkline web`: what a viewer gets, what viewers cost the daemon, and who is refused.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trunkline_status::{Answer, ProxiesStatus, ProxyCounts, ProxyStatus};

use crate::common::daemon::{Daemon, status};

const PROGRAM: &str = env!("CARGO_BIN_EXE_trunkline");
const PATIENCE: Duration = Duration::from_secs(60);

/// It asks for flows while somebody looks.
const ASKED: [&str; 2] = ["flows", "status"];

fn gateway(test: &str) -> Daemon {
    Daemon::asked_for(&ASKED, test, |age| Answer::Status(Box::new(status(age))))
}

/// The program that serves.
struct Web {
    child: Child,
    address: String,
}

impl Web {
    fn start(daemon: &Daemon) -> Self {
        let mut command = Command::new(PROGRAM);
        command.arg("web").arg(&daemon.socket).args(["--listen", "127.0.0.1:0"]);
        Web::serving(command)
    }

    fn serving(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut url).expect("a line");
        let address = url.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        Web { child, address }
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a bound");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it is sent");
        stream
    }

    fn get(&self, path: &str) -> String {
        let mut text = String::new();
        self.ask(path).read_to_string(&mut text).expect("an answer");
        text
    }

    fn look_on(&self) -> Viewer {
        Viewer(BufReader::new(self.ask("/live")))
    }

    /// Ends it by a signal: its exit code.
    fn end(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).expect("signalled");
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("waited") {
                return status.code();
            }
            assert!(since.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Viewer(BufReader<TcpStream>);

impl Viewer {
    /// The next frame.
    fn frame(&mut self) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).expect("a line"), 0, "it ended");
            // Chunks have their lengths on lines of their own.
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).expect("JSON");
            }
        }
    }

    /// The next frame of which this holds.
    fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let frame = self.frame();
            if wanted(&frame) {
                return frame;
            }
            assert!(since.elapsed() < PATIENCE, "{frame}");
        }
    }
}

/// The texts of a row of a table, its name first.
fn row(frame: &Value, table: &str, name: &str) -> Option<Vec<String>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let table = list(&frame["tables"]).into_iter().find(|it| it["title"] == table)?;
    let row = list(&table["rows"]).into_iter().find(|row| row["values"]["name"] == name)?;
    let cells =
        list(&row["values"]["cells"]).into_iter().map(|cell| cell["text"].as_str().unwrap_or("?").to_owned());
    Some([name.to_owned()].into_iter().chain(cells).collect())
}

#[test]
fn a_viewer_sees_what_top_shows() {
    let daemon = gateway("web-shows");
    let web = Web::start(&daemon);
    let mut viewer = web.look_on();
    // 1 250 000 bytes in each second of the daemon's.
    let has_rates = |frame: &Value| row(frame, "classes", "tcp").is_some_and(|cells| cells[3] == "10.0");
    let frame = viewer.until(has_rates);
    let summary = frame["summary"].as_str().expect("a text");
    assert!(
        summary.starts_with("testsite   up ") && summary.contains("1 peer   0 of 0 lanes up"),
        "{summary}"
    );
    let sent = |reading: &&Value| reading["chart"] == "sent" && reading["name"] == "tcp";
    let readings = frame["readings"].as_array().expect("a list");
    assert_eq!(readings.iter().find(sent).expect("what tcp sends")["value"], 10.0);
    assert_eq!(frame["notice"], Value::Null);
    let page = web.get("/");
    for part in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "page.js",
        "hold/s: drops P3 held off",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(web.get("/page.js").contains("EventSource"));
    let history = web.get("/history.json");
    assert!(history.contains("{\"every_s\":10.0,\"curves\":["), "{history}");
    drop(viewer);
    assert_eq!(web.end(Signal::TERM), Some(0));
}

#[test]
fn viewers_cost_the_daemon_an_answer_a_second_however_many_they_are() {
    let daemon = gateway("web-costs");
    let web = Web::start(&daemon);
    let asked = |since: (Instant, u64)| (since.0.elapsed(), daemon.asked.load(Ordering::SeqCst) - since.1);
    let now = || (Instant::now(), daemon.asked.load(Ordering::SeqCst));
    let alone = now();
    thread::sleep(Duration::from_secs(3));
    let (time, count) = asked(alone);
    assert!(count as f64 <= time.as_secs_f64() / 10.0 + 2.0, "without viewers {count} in {time:?}");
    let viewers: Vec<Viewer> = (0..200).map(|_| web.look_on()).collect();
    // Each that comes first may be given what is new.
    let mut last = web.look_on();
    last.frame();
    let watched = now();
    // Who comes and goes all the time changes nothing.
    for _ in 0..50 {
        drop(web.look_on());
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_secs(4));
    let (time, count) = asked(watched);
    assert!(count as f64 <= time.as_secs_f64() + 2.0, "with 200 viewers {count} in {time:?}");
    // None of them has read, and who reads is not kept waiting.
    last.until(|frame| frame["summary"].as_str().is_some_and(|text| text.starts_with("testsite")));
    drop(viewers);
    assert_eq!(web.end(Signal::INT), Some(0));
}

#[test]
fn a_daemon_that_ends_is_said_and_one_that_comes_back_is_shown() {
    let mut daemon = gateway("web-gone");
    let web = Web::start(&daemon);
    let mut viewer = web.look_on();
    viewer.until(|frame| frame["notice"].is_null());
    daemon.stop();
    let notice = viewer.until(|frame| !frame["notice"].is_null());
    assert!(notice["notice"].as_str().is_some_and(|text| text.contains("no daemon listens on")), "{notice}");
    let _again = gateway("web-gone");
    viewer.until(|frame| frame["notice"].is_null() && row(frame, "classes", "tcp").is_some());
}

#[test]
fn proxies_are_shown_and_what_a_daemon_cannot_mean_is_not() {
    let daemon = Daemon::asked_for(&ASKED, "web-proxies", |age| {
        let counts = ProxyCounts { open: 3, delivered: age * 1_250_000, ..ProxyCounts::default() };
        // A name that a page must not take for its own text.
        let name = "<img src=x onerror=alert(1)>".to_owned();
        let cell = ProxyStatus { name, mode: "split".to_owned(), counts, ..ProxyStatus::default() };
        // Time that goes back gives no rate.
        let uptime_s = if age % 5 == 4 { f64::MAX } else { age as f64 };
        let proxies = vec![cell];
        Answer::Proxies(Box::new(ProxiesStatus {
            name: "lte".to_owned(),
            uptime_s,
            proxies,
            ..ProxiesStatus::default()
        }))
    });
    let web = Web::start(&daemon);
    let mut viewer = web.look_on();
    let is_shown = |frame: &Value| {
        row(frame, "proxies", "<img src=x onerror=alert(1)>").is_some_and(|cells| cells[4] == "10.0")
    };
    viewer.until(is_shown);
    for _ in 0..5 {
        let frame = viewer.frame();
        let readings = frame["readings"].as_array().expect("a list");
        assert!(
            readings.iter().all(|reading| reading["value"].as_f64().is_some_and(|value| value >= 0.0)),
            "{frame}"
        );
    }
}

#[test]
fn who_would_show_it_to_others_without_a_token_is_refused() {
    let daemon = gateway("web-refused");
    let said = |arguments: &[&str]| {
        let output =
            Command::new(PROGRAM).arg("web").arg(&daemon.socket).args(arguments).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = said(&["--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("0.0.0.0:0 can be reached from other machines: that needs TLS and a token"),
        "{text}"
    );
    let (code, text) = said(&["--listen", "localhost"]);
    assert_eq!(code, Some(2), "{text}");
    let (code, text) = said(&["--certificate", "chain.pem"]);
    assert!(code == Some(2) && text.contains("--key"), "{text}");
    let (code, text) = said(&["--token-file", "/nonexistent"]);
    assert!(code == Some(2) && text.contains("/nonexistent: No such file"), "{text}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let (code, text) = said(&["--listen", &taken.local_addr().expect("its address").to_string()]);
    assert!(code == Some(1) && text.contains("cannot listen at 127.0.0.1:"), "{text}");
    let output = Command::new(PROGRAM).args(["web", "nobody-has-this-name"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(3));
}

#[cfg(feature = "laboratory")]
mod laboratory {
    use std::fs;

    use super::*;
    use crate::common::site::Directory;
    use trunkline_testbed::privilege;

    const EXPERIMENT: &str = r#"
        id = "sample"
        title = "A file over a link"
        duration = "3 s"
        [nodes]
        a = "host"
        b = "host"
        [links.core]
        ends = ["a", "b"]
        rate = "5 Mbit/s"
        delay = "5 ms"
        [traffic.tcp]
        kind = "bulk"
        from = "a"
        to = "b"
        [sweep.rate]
        paths = ["links.core.rate"]
        values = ["5 Mbit/s", "8 Mbit/s"]
    "#;

    /// A directory with an experiment, and what stands for the page.
    fn place() -> Directory {
        let directory = Directory::new();
        fs::write(directory.0.join("sample.toml"), EXPERIMENT).expect("written");
        fs::write(directory.0.join("page.html"), "<html><head></head><script id=\"module\"></script></html>")
            .expect("written");
        directory
    }

    fn command(place: &Directory, more: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(["lab", "watch", "sample.toml", "--listen", "127.0.0.1:0"])
            .args(more)
            .current_dir(&place.0);
        command
    }

    #[test]
    fn the_page_is_told_which_point_of_which_experiment_it_shows() {
        let place = place();
        let set = ["--page", "page.html", "--at", "rate=8 Mbit/s", "--set", "links.core.delay=\"20 ms\""];
        let web = Web::serving(command(&place, &set));
        let page = web.get("/");
        assert!(page.contains("<head><meta name=\"watch\" content=\"watch.json\"></head>"), "{page}");
        assert!(page.contains("'wasm-unsafe-eval'; style-src"), "{page}");
        let text = web.get("/watch.json");
        let shown: Value =
            serde_json::from_str(text.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
        assert_eq!(
            (&shown["name"], &shown["point"], &shown["frames"]),
            (&"sample".into(), &1.into(), &Value::Null)
        );
        assert!(shown["text"].as_str().is_some_and(|text| text.contains("delay = \"20 ms\"")), "{shown}");
        assert!(web.get("/frames").starts_with("HTTP/1.1 404 "));
        assert_eq!(web.end(Signal::HUP), Some(0));
    }

    #[test]
    fn a_run_on_the_kernel_is_measured_when_somebody_comes() {
        if !privilege::available("a_run_on_the_kernel_is_measured_when_somebody_comes") {
            return;
        }
        let place = place();
        let web = Web::serving(command(&place, &["--page", "page.html", "--engine", "testbed"]));
        for _ in 0..2 {
            let mut viewer = Viewer(BufReader::new(web.ask("/frames")));
            let waits = |frame: &Value| frame["values"]["core.queue.packets"].as_f64().is_some();
            viewer.until(|frame| {
                waits(frame) && frame["values"]["tcp.goodput"].as_f64().is_some_and(|rate| rate > 1e6)
            });
            let over = viewer.until(|frame| frame["notice"].is_string());
            assert_eq!(over["notice"], "the run is over; load the page again for another one");
        }
        // In the middle of a run.
        let mut viewer = Viewer(BufReader::new(web.ask("/frames")));
        viewer.until(|frame| frame["values"].is_object());
        assert_eq!(web.end(Signal::INT), Some(0));
    }

    #[test]
    fn what_cannot_be_shown_is_said() {
        let place = place();
        fs::write(place.0.join("other.html"), "<html><head></head></html>").expect("written");
        for (more, code, said) in [
            (&["--page", "none.html"][..], 2, "none.html: No such file"),
            (&["--page", "other.html"], 2, "other.html: not the page that `web/make` makes"),
            (
                &["--page", "page.html", "--at", "rate=9"],
                2,
                "--at rate=9: not in the sweep; allowed: 5 Mbit/s, 8 Mbit/s",
            ),
            (&["--page", "page.html", "--listen", "0.0.0.0:0"], 2, "that needs TLS and a token"),
        ] {
            let more: Vec<&str> = more.to_vec();
            let mut command = Command::new(PROGRAM);
            let output = command
                .args(["lab", "watch", "sample.toml"])
                .args(more)
                .current_dir(&place.0)
                .output()
                .expect("it runs");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(code), "{text}");
            assert!(text.contains(said), "{text}");
        }
    }
}
