//! Connections of clients: the command line on the control socket, and collectors of metrics.
//!
//! The daemon answers one request per connection and closes it. Reading and writing never block; the daemon drops a client
//! that exceeds its time limit.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use trunkline_units::Instant;

use crate::Response;
use crate::request::{self, MAX_REQUEST_BYTES, METHODS, Parsed, Protocol};

/// The connection of a client.
#[derive(Debug)]
pub enum Stream {
    /// To a Unix socket.
    Unix(UnixStream),
    /// To a TCP address.
    Tcp(TcpStream),
}

impl Stream {
    /// Makes reads and writes return at once.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => stream.set_nonblocking(true),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its connection.
    pub stream: Stream,
    /// What it speaks.
    pub protocol: Protocol,
    /// When it is closed, however far it is.
    pub deadline: Instant,
    input: Vec<u8>,
    /// It asked for the head of an answer alone.
    head_only: bool,
    output: Vec<u8>,
    sent: usize,
}

/// The next step for a client.
#[derive(Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Wait until it is readable: the request is incomplete.
    Read,
    /// Answer the complete request. For HTTP, it is the path.
    Answer(String),
    /// Wait until it is writable: the answer is not sent completely.
    Write,
    /// Close it: it is done, has gone, or has sent an invalid request.
    Close,
}

/// The maximum number of concurrent clients of each protocol, so that neither can block the other.
pub const MAX_CLIENTS: usize = 16;
/// The time limit of a client.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of bytes beyond a request that are read to no purpose.
const DISCARDED: usize = 64 << 10;

impl Client {
    /// One that has connected now. Its stream does not block.
    pub fn new(stream: Stream, protocol: Protocol, now: Instant) -> Self {
        let deadline = now + CLIENT_TIMEOUT;
        let (input, output) = (Vec::new(), Vec::new());
        Client { stream, protocol, deadline, input, head_only: false, output, sent: 0 }
    }

    /// Whether its request is incomplete.
    pub fn is_idle(&self) -> bool {
        self.output.is_empty()
    }

    /// Reads the data that has arrived.
    pub fn read(&mut self) -> NextStep {
        let mut chunk = [0; 1024];
        loop {
            let read = match &mut self.stream {
                Stream::Unix(stream) => stream.read(&mut chunk),
                Stream::Tcp(stream) => stream.read(&mut chunk),
            };
            match read {
                Ok(0) => return NextStep::Close,
                Ok(read) => self.input.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return NextStep::Read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return NextStep::Close,
            }
            match request::parse(self.protocol, &self.input) {
                Parsed::Incomplete => {}
                Parsed::Complete(request) => return NextStep::Answer(request),
                Parsed::Head(path) => {
                    self.head_only = true;
                    return NextStep::Answer(path);
                }
                Parsed::OtherMethod => {
                    return self.answer_http(405, "text/plain", &format!("allowed: {METHODS}\n"));
                }
                Parsed::Malformed if self.protocol == Protocol::Control => return NextStep::Close,
                Parsed::Malformed => {
                    let body =
                        format!("no HTTP request, or one whose head has {MAX_REQUEST_BYTES} bytes or more\n");
                    return self.answer_http(400, "text/plain", &body);
                }
            }
        }
    }

    /// Answers.
    pub fn respond(&mut self, response: Response) -> NextStep {
        match response {
            Response::Line(line) => self.answer(line + "\n"),
            Response::Page { code, kind, body } => self.answer_http(code, kind, &body),
        }
    }

    /// Answers in HTTP.
    pub fn answer_http(&mut self, code: u16, kind: &str, body: &str) -> NextStep {
        let (reason, more) = match code {
            200 => ("OK", String::new()),
            400 => ("Bad Request", String::new()),
            404 => ("Not Found", String::new()),
            _ => ("Method Not Allowed", format!("Allow: {METHODS}\r\n")),
        };
        let head = format!(
            "HTTP/1.1 {code} {reason}\r\n{more}Content-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        self.answer(if self.head_only { head } else { head + body })
    }

    /// Answers with these bytes.
    pub fn answer(&mut self, text: String) -> NextStep {
        self.output = text.into_bytes();
        self.write()
    }

    /// Writes as much of the answer as the socket takes.
    pub fn write(&mut self) -> NextStep {
        while self.sent < self.output.len() {
            let rest = &self.output[self.sent..];
            let written = match &mut self.stream {
                Stream::Unix(stream) => stream.write(rest),
                Stream::Tcp(stream) => stream.write(rest),
            };
            match written {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return NextStep::Write,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return NextStep::Close,
            }
        }
        if !self.output.is_empty() {
            self.discard_input();
        }
        NextStep::Close
    }

    /// Reads what was sent beyond the request, as the body of a POST: the kernel resets a connection that is closed with unread data, and
    /// the other end may lose the answer.
    fn discard_input(&mut self) {
        let mut chunk = [0; 4096];
        for _ in 0..DISCARDED / chunk.len() {
            let read = match &mut self.stream {
                Stream::Unix(stream) => stream.read(&mut chunk),
                Stream::Tcp(stream) => stream.read(&mut chunk),
            };
            if !matches!(read, Ok(1..)) {
                return;
            }
        }
    }
}

/// The client to close before a new one, if there are `limit` already: the oldest idle one, or the oldest if none is idle.
/// `clients` has each client's token and whether it is idle, the oldest first.
pub fn evict(clients: impl Iterator<Item = (u64, bool)>, limit: usize) -> Option<u64> {
    let (mut count, mut oldest, mut oldest_idle) = (0, None, None);
    for (token, idle) in clients {
        count += 1;
        oldest = oldest.or(Some(token));
        oldest_idle = oldest_idle.or(idle.then_some(token));
    }
    oldest_idle.or(oldest).filter(|_| count >= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_idle_client_is_evicted_and_none_below_the_limit() {
        assert_eq!(evict([(3, true), (5, true)].into_iter(), 3), None);
        assert_eq!(evict([(3, false), (5, true), (6, true)].into_iter(), 3), Some(5));
        assert_eq!(evict([(3, false), (5, false), (6, false)].into_iter(), 3), Some(3));
        assert_eq!(evict(std::iter::empty(), 3), None);
    }
}
