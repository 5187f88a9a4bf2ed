//! A daemon that is only its control socket.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use trunkline_status::{Answer, Class, Peer, Status};

/// Who answers on a control socket as a gateway does, a second older each time. It ends when it is dropped.
pub(crate) struct Daemon {
    pub(crate) socket: PathBuf,
    /// How often it was asked.
    pub(crate) asked: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Daemon {
    pub(crate) fn start(test: &str) -> Self {
        Self::answering(test, |age| Answer::Status(Box::new(status(age))))
    }

    pub(crate) fn answering(test: &str, answer: impl Fn(u64) -> Answer + Send + 'static) -> Self {
        Self::asked_for(&["flows"], test, answer)
    }

    /// One that may be asked these requests and no others.
    pub(crate) fn asked_for(
        requests: &'static [&'static str],
        test: &str,
        answer: impl Fn(u64) -> Answer + Send + 'static,
    ) -> Self {
        let socket = std::env::temp_dir().join(format!("trunkline-asked-{}-{test}.sock", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).expect("a socket");
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        let thread = thread::spawn(move || {
            for (age, stream) in (1_u64..).zip(listener.incoming()) {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                let mut stream = stream.expect("a caller");
                let mut request = String::new();
                BufReader::new(&stream).read_line(&mut request).expect("a request");
                let is_allowed = |word: &&str| request == format!("{{\"request\":\"{word}\"}}\n");
                assert!(requests.iter().any(is_allowed), "{request}");
                count.store(age, Ordering::SeqCst);
                let answer = serde_json::to_string(&answer(age)).expect("json");
                let _ = writeln!(stream, "{answer}");
            }
        });
        Daemon { socket, asked, ends, thread: Some(thread) }
    }

    pub(crate) fn stop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        let _ = std::os::unix::net::UnixStream::connect(&self.socket);
        let _ = std::fs::remove_file(&self.socket);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the daemon's thread");
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.stop();
        }
    }
}

pub(crate) fn status(age: u64) -> Status {
    let class = Class { name: "tcp".to_owned(), bytes_sent: age * 1_250_000, ..Class::default() };
    let peer = Peer { name: "b".to_owned(), classes: vec![class], ..Peer::default() };
    Status {
        name: "testsite".to_owned(),
        pid: 1,
        uptime_s: age as f64,
        peers: vec![peer],
        ..Status::default()
    }
}
