//! `trunkline top` in a terminal: it restores the terminal, however it ends.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use trunkline_status::{Answer, ProxyCounts, ProxyStatus};

use crate::common::daemon::Daemon;

const PROGRAM: &str = env!("CARGO_BIN_EXE_trunkline");
const PATIENCE: Duration = Duration::from_secs(20);
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// The program in a terminal of its own.
struct Terminal {
    /// Shared with the thread that reads the output, which drops it on request.
    master: Arc<OwnedFd>,
    closing: Arc<AtomicBool>,
    reader: Option<thread::JoinHandle<()>>,
    /// Kept open, so that its state can be read when the program has ended.
    slave: File,
    child: Child,
    output: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(daemon: &Daemon, arguments: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pty");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("a path");
        let slave = File::options().read(true).write(true).open(name).expect("its other side");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("its size");
        let side = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let child = Command::new(PROGRAM)
            .args(["top", "--interval", "0.1"])
            .arg(&daemon.socket)
            .args(arguments)
            .env("TERM", "xterm")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .expect("it starts");
        let output = Arc::new(Mutex::new(String::new()));
        let master = Arc::new(master);
        let closing = Arc::new(AtomicBool::new(false));
        let (heard, side, closed) = (Arc::clone(&output), Arc::clone(&master), Arc::clone(&closing));
        let reader = thread::spawn(move || {
            let mut chunk = [0; 4096];
            let soon = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            while !closed.load(Ordering::SeqCst) {
                if poll(&mut [PollFd::new(&*side, PollFlags::IN)], Some(&soon)).expect("polled") == 0 {
                    continue;
                }
                let Ok(read @ 1..) = rustix::io::read(&*side, &mut chunk) else { break };
                heard.lock().expect("the output").push_str(&String::from_utf8_lossy(&chunk[..read]));
            }
        });
        Terminal { master, closing, reader: Some(reader), slave, child, output }
    }

    /// Closes the terminal, as a window that is closed does. Gives the program that was in it.
    fn close(mut self) -> Child {
        self.closing.store(true, Ordering::SeqCst);
        self.reader.take().expect("a reader").join().expect("it has let go");
        self.child
    }

    fn output(&self) -> String {
        self.output.lock().expect("the output").clone()
    }

    #[track_caller]
    fn wait_for(&self, what: &str) {
        let since = Instant::now();
        while !self.output().contains(what) {
            assert!(since.elapsed() < PATIENCE, "no {what:?} in {:?}", self.output());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(self.slave.as_fd()).expect("its modes").local_modes.contains(LocalModes::ICANON)
    }

    fn press(&self, keys: &str) {
        rustix::io::write(&*self.master, keys.as_bytes()).expect("pressed");
    }

    /// Waits for the end, and compares the terminal's settings with those before. Returns the exit code.
    #[track_caller]
    fn ended(mut self) -> Option<i32> {
        let since = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait().expect("waited") {
                break status.code();
            }
            if since.elapsed() > PATIENCE {
                let _ = self.child.kill();
                panic!("it does not end: {:?}", self.output());
            }
            thread::sleep(Duration::from_millis(10));
        };
        self.wait_for(LEAVE);
        assert!(!self.is_raw(), "the terminal is still raw");
        code
    }
}

#[test]
fn q_ends_it_and_the_terminal_is_as_it_was() {
    let daemon = Daemon::start("q");
    let terminal = Terminal::start(&daemon, &[]);
    terminal.wait_for(ENTER);
    terminal.wait_for("testsite");
    // 1 250 000 bytes in each second of the daemon's.
    terminal.wait_for("10.0");
    assert!(terminal.is_raw());
    terminal.press("?");
    terminal.wait_for("and columns");
    terminal.press("q");
    assert_eq!(terminal.ended(), Some(0));
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_as_it_was() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let daemon = Daemon::start("signal");
        let terminal = Terminal::start(&daemon, &[]);
        terminal.wait_for("testsite");
        let pid = Pid::from_child(&terminal.child);
        kill_process(pid, signal).expect("signalled");
        assert_eq!(terminal.ended(), Some(0), "{signal:?}");
    }
}

/// Waits for the end of a program whose terminal is closed.
#[track_caller]
fn end_of(program: &mut Child) -> ExitStatus {
    let since = Instant::now();
    loop {
        if let Some(status) = program.try_wait().expect("waited") {
            break status;
        }
        if since.elapsed() > PATIENCE {
            let _ = program.kill();
            let _ = program.wait();
            panic!("it outlives its terminal");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_terminal_that_is_closed_ends_it() {
    let daemon = Daemon::start("closed");
    let terminal = Terminal::start(&daemon, &[]);
    terminal.wait_for("testsite");
    let mut program = terminal.close();
    let status = end_of(&mut program);
    assert_eq!(status.code(), Some(0), "{status}");
}

#[test]
fn a_terminal_that_is_closed_within_a_key_sequence_ends_it() {
    let daemon = Daemon::start("within");
    let terminal = Terminal::start(&daemon, &[]);
    terminal.wait_for("testsite");
    // The beginning of a key's sequence: the program waits in a read for its rest.
    terminal.press("\u{1b}[");
    thread::sleep(Duration::from_millis(300));
    let mut program = terminal.close();
    end_of(&mut program);
}

#[test]
fn a_gateway_that_ends_is_reported_and_one_that_comes_back_is_shown() {
    let mut daemon = Daemon::start("gone");
    let terminal = Terminal::start(&daemon, &[]);
    terminal.wait_for("testsite");
    daemon.stop();
    terminal.wait_for("daemon gone, retrying");
    terminal.output.lock().expect("the output").clear();
    let _again = Daemon::start("gone");
    terminal.wait_for("device");
    terminal.press("q");
    assert_eq!(terminal.ended(), Some(0));
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let daemon = Daemon::start("no-terminal");
    let output =
        Command::new(PROGRAM).arg("top").arg(&daemon.socket).stdin(Stdio::null()).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("trunkline status --json") && error.contains("--once"), "{error}");
}

#[test]
fn once_prints_one_frame_without_any_control_sequence() {
    let daemon = Daemon::start("once");
    let output = Command::new(PROGRAM)
        .args(["top", "--once", "--interval", "0.1"])
        .arg(&daemon.socket)
        .env_remove("COLUMNS")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("trunkline testsite   up 2 s   1 peer"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("tcp") && line.contains(" 10.0 ")), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn proxies_without_a_trunk_are_shown() {
    let daemon = Daemon::answering("proxies", |age| {
        let counts = ProxyCounts { open: 3, delivered: age * 1_250_000, ..ProxyCounts::default() };
        let cell = ProxyStatus {
            name: "cell".to_owned(),
            mode: "split".to_owned(),
            counts,
            ..ProxyStatus::default()
        };
        Answer::Proxies(Box::new(trunkline_status::ProxiesStatus {
            name: "lte".to_owned(),
            uptime_s: age as f64,
            proxies: vec![cell],
            ..trunkline_status::ProxiesStatus::default()
        }))
    });
    let output = Command::new(PROGRAM)
        .args(["top", "--once", "--interval", "0.1"])
        .arg(&daemon.socket)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("trunkline lte   up 2 s   1 proxy"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("cell") && line.contains(" 10.0 ")), "{text}");
    let terminal = Terminal::start(&daemon, &[]);
    terminal.wait_for("proxies");
    terminal.press("q");
    assert_eq!(terminal.ended(), Some(0));
}

#[test]
fn without_a_gateway_the_exit_code_is_3_and_for_a_wrong_interval_2() {
    let code =
        |arguments: &[&str]| Command::new(PROGRAM).args(arguments).output().expect("it runs").status.code();
    assert_eq!(code(&["top", "--once", "/nonexistent/a.sock"]), Some(3));
    assert_eq!(code(&["top", "--interval", "0.01"]), Some(2));
    assert_eq!(code(&["top", "--interval", "soon"]), Some(2));
}
