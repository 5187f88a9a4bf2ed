//! The clients of a daemon that has no loop of its own for them.
//!
//! A server has an epoll descriptor of its own, which is readable when there is something to do, so that the owner needs to watch one
//! descriptor and one time.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use serde::Serialize;
use trunkline_units::Instant;

use crate::client::{Client, MAX_CLIENTS, NextStep, Stream, evict};
use crate::listen::{self, ListenError, SocketFile};
use crate::request::Protocol;

const CONTROL: u64 = 0;
const METRICS: u64 = 1;
/// The first client's.
const FIRST: u64 = 2;

/// What a daemon answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// On the control socket: a line, without its end.
    Line(String),
    /// Over HTTP.
    Page {
        /// The status code.
        code: u16,
        /// The type of the body.
        kind: &'static str,
        /// The body.
        body: String,
    },
}

impl Response {
    /// The answer to a collector of metrics that asks for `path`: the state as a page for Prometheus, or as JSON.
    pub fn metrics<S: Serialize>(
        path: &str,
        status: impl FnOnce() -> S,
        prometheus: impl FnOnce(&S) -> String,
    ) -> Self {
        let (code, kind, body) = match path {
            "/metrics" | "/" => (200, "text/plain; version=0.0.4", prometheus(&status())),
            "/status" | "/metrics.json" => {
                (200, "application/json", serde_json::to_string(&status()).unwrap_or_default())
            }
            _ => (404, "text/plain", "available: /metrics and /metrics.json\n".to_owned()),
        };
        Response::Page { code, kind, body }
    }
}

#[derive(Debug)]
enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// A control socket, and metrics where they are wanted.
#[derive(Debug)]
pub struct Server {
    epoll: OwnedFd,
    listeners: Vec<(u64, Protocol, Listener)>,
    clients: BTreeMap<u64, Client>,
    next_token: u64,
    _files: Vec<SocketFile>,
}

/// Where metrics are served.
#[derive(Debug, Clone, Copy)]
pub enum MetricsAt<'a> {
    /// On a TCP address.
    Tcp(std::net::SocketAddr),
    /// On a Unix socket.
    Unix(&'a Path),
}

impl Server {
    /// Listens on a control socket, and for collectors of metrics.
    ///
    /// # Errors
    /// [`ListenError`]; another process that answers on the control socket is one.
    pub fn new(control: &Path, metrics: Option<MetricsAt<'_>>) -> Result<Self, ListenError> {
        let (listener, file) = listen::unix(control)?;
        let mut files = vec![file];
        let mut listeners = vec![(CONTROL, Protocol::Control, Listener::Unix(listener))];
        match metrics {
            Some(MetricsAt::Tcp(address)) => {
                listeners.push((METRICS, Protocol::Http, Listener::Tcp(listen::tcp(address, None)?)));
            }
            Some(MetricsAt::Unix(path)) => {
                let (listener, file) = listen::unix(path)?;
                files.push(file);
                listeners.push((METRICS, Protocol::Http, Listener::Unix(listener)));
            }
            None => {}
        }
        let watch = || -> io::Result<OwnedFd> {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            for (token, _, listener) in &listeners {
                epoll::add(&epoll, listener, epoll::EventData::new_u64(*token), epoll::EventFlags::IN)?;
            }
            Ok(epoll)
        };
        let epoll = watch()
            .map_err(|source| ListenError::Listen { address: control.display().to_string(), source })?;
        Ok(Server { epoll, listeners, clients: BTreeMap::new(), next_token: FIRST, _files: files })
    }

    /// When a client has taken too long.
    pub fn next_timeout(&self) -> Option<Instant> {
        // Tokens grow, and so do deadlines.
        self.clients.values().next().map(|client| client.deadline)
    }

    /// Does what there is to do, without waiting. `answer` gets each request: a line, or a path.
    pub fn handle(&mut self, now: Instant, mut answer: impl FnMut(Protocol, &str) -> Response) {
        self.clients.retain(|_, client| client.deadline > now);
        let mut events: Vec<epoll::Event> = Vec::with_capacity(2 * MAX_CLIENTS + 2);
        let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
        if epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&nothing)).is_err() {
            return;
        }
        for event in events {
            match event.data.u64() {
                token @ (CONTROL | METRICS) => self.accept(now, token),
                token => self.handle_client(token, &mut answer),
            }
        }
    }

    fn accept(&mut self, now: Instant, token: u64) {
        let Some((_, protocol, listener)) = self.listeners.iter().find(|one| one.0 == token) else { return };
        // Bounded, so that a flood of connections leaves time for other work.
        for _ in 0..MAX_CLIENTS {
            let Ok(stream) = listener.accept() else { return };
            if stream.set_nonblocking().is_err() {
                continue;
            }
            let same = self.clients.iter().filter(|(_, client)| client.protocol == *protocol);
            if let Some(token) = evict(same.map(|(token, client)| (*token, client.is_idle())), MAX_CLIENTS) {
                self.clients.remove(&token);
            }
            let token = self.next_token;
            self.next_token += 1;
            let data = epoll::EventData::new_u64(token);
            // An error drops the client, which closes its connection.
            if epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN).is_ok() {
                self.clients.insert(token, Client::new(stream, *protocol, now));
            }
        }
    }

    fn handle_client(&mut self, token: u64, answer: &mut impl FnMut(Protocol, &str) -> Response) {
        let Some(client) = self.clients.get_mut(&token) else { return };
        let mut next = if client.is_idle() { client.read() } else { client.write() };
        if let NextStep::Answer(request) = next {
            next = client.respond(answer(client.protocol, &request));
        }
        let flags = match next {
            NextStep::Read => epoll::EventFlags::IN,
            NextStep::Write => epoll::EventFlags::OUT,
            NextStep::Answer(_) | NextStep::Close => {
                self.clients.remove(&token);
                return;
            }
        };
        let _ = epoll::modify(&self.epoll, &client.stream, epoll::EventData::new_u64(token), flags);
    }
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::control;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("trunkline-server-{name}-{}.sock", std::process::id()))
    }

    /// A server that answers with what it was asked, in a thread of its own until the value goes.
    struct Echo {
        stop: Arc<AtomicBool>,
        thread: Option<thread::JoinHandle<()>>,
    }

    impl Echo {
        fn start(mut server: Server) -> Self {
            let stop = Arc::new(AtomicBool::new(false));
            let stopped = Arc::clone(&stop);
            let thread = thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    server.handle(trunkline_linux::clock::now(), |protocol, request| match protocol {
                        Protocol::Control => Response::Line(format!("{{\"asked\":{request}}}")),
                        Protocol::Http => {
                            Response::Page { code: 200, kind: "text/plain", body: request.to_owned() }
                        }
                    });
                    thread::sleep(Duration::from_millis(1));
                }
            });
            Echo { stop, thread: Some(thread) }
        }
    }

    impl Drop for Echo {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
            if let Some(thread) = self.thread.take() {
                let _ = thread.join();
            }
        }
    }

    #[test]
    fn both_protocols_are_answered_beside_clients_that_say_nothing() {
        let (control, metrics) = (path("control"), path("metrics"));
        let server = Server::new(&control, Some(MetricsAt::Unix(&metrics))).expect("a server");
        assert!(matches!(Server::new(&control, None), Err(ListenError::Running(_))));
        let echo = Echo::start(server);
        let silent: Vec<UnixStream> =
            (0..3 * MAX_CLIENTS).map(|_| UnixStream::connect(&control).expect("a connection")).collect();
        let answer: serde_json::Value = control::ask(&control, &"status").expect("an answer");
        assert_eq!(answer["asked"], "status");
        let mut stream = UnixStream::connect(&metrics).expect("a connection");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("received");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\n/metrics"), "{page}");
        drop((silent, echo));
        assert!(!control.exists() && !metrics.exists(), "the sockets go with the server");
    }

    #[test]
    fn http_clients_get_an_answer_to_whatever_they_ask() {
        let (control, metrics) = (path("methods-control"), path("methods"));
        let _echo = Echo::start(Server::new(&control, Some(MetricsAt::Unix(&metrics))).expect("a server"));
        let ask = |request: &str| {
            let mut stream = UnixStream::connect(&metrics).expect("a connection");
            stream.write_all(request.as_bytes()).expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("the whole answer, and no reset");
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            (head.to_owned(), body.to_owned())
        };
        let (head, body) = ask("GET /metrics?collect=all HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body == "/metrics", "{head}");
        assert_eq!(ask("HEAD /metrics HTTP/1.1\r\n\r\n"), (head, String::new()), "the same head");
        let (head, _) = ask(&format!("POST /metrics HTTP/1.1\r\n\r\n{}", "x".repeat(20_000)));
        assert!(head.starts_with("HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\n"), "{head}");
        let long = format!("GET / HTTP/1.1\r\nCookie: {}\r\n\r\n", "x".repeat(20_000));
        for request in ["\u{1}\r\n\r\n", &long] {
            let (head, body) = ask(request);
            assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n") && body.contains("4096"), "{head}");
        }
    }
}
