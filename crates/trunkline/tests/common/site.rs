//! One gateway without a peer, with a file that the test writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use trunkline_service::control::{ControlError, ask_within};
use trunkline_status::{Answer, ProxiesStatus, Request, Status};
use trunkline_testbed::namespace::{Host, Process};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_trunkline");

/// A directory that goes with the test.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("trunkline-site-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }

    /// Makes the key of a site; its public half.
    pub(crate) fn key(&self, site: &str) -> String {
        let run = |verb: &str, input: Stdio| {
            let output = Command::new(PROGRAM).arg(verb).stdin(input).output().expect("it runs");
            String::from_utf8(output.stdout).expect("text").trim().to_owned()
        };
        let file = self.0.join(format!("{site}.key"));
        fs::write(&file, run("genkey", Stdio::null())).expect("a key");
        run("pubkey", fs::File::open(&file).expect("the key").into())
    }

    pub(crate) fn socket(&self, site: &str) -> PathBuf {
        self.0.join(format!("{site}.sock"))
    }

    /// Writes the file of a site whose key was made; `text` is all but its name, key and control socket.
    pub(crate) fn file(&self, site: &str, text: &str) -> PathBuf {
        let file = self.0.join(format!("{site}.toml"));
        let head = format!("name = \"{site}\"\nprivate_key_file = \"{site}.key\"\n");
        let control = format!("\n[control]\nsocket = \"{}\"\n", self.socket(site).display());
        fs::write(&file, head + text + &control).expect("a file");
        file
    }

    /// Starts a site of which [`Self::file`] has been written, and waits until it answers.
    pub(crate) fn start(&self, host: &Host, site: &str, stderr: impl Into<Stdio>) -> Process {
        let mut command = Command::new(PROGRAM);
        command.arg("up").arg(self.0.join(format!("{site}.toml"))).stderr(stderr);
        let mut process = host.command(command).expect("it starts");
        until("the gateway answers", || {
            assert_eq!(process.try_wait().expect("its state"), None, "it ended");
            ask(&self.socket(site), &Request::Status).is_ok()
        });
        process
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Asks a gateway, which has 15 s to answer.
pub(crate) fn ask(socket: &Path, request: &Request) -> Result<Answer, ControlError> {
    ask_within(socket, request, Duration::from_secs(15))
}

/// What a gateway says of itself.
pub(crate) fn status(socket: &Path) -> Status {
    match ask(socket, &Request::Status) {
        Ok(Answer::Status(status)) => *status,
        other => panic!("no status of a gateway: {other:?}"),
    }
}

/// What a process of proxies alone says of itself.
pub(crate) fn proxies_status(socket: &Path) -> ProxiesStatus {
    match ask(socket, &Request::Status) {
        Ok(Answer::Proxies(status)) => *status,
        other => panic!("no status of proxies: {other:?}"),
    }
}

/// Waits until `done`, for at most 30 s.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
