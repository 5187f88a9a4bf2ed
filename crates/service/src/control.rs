//! The control socket, from the side of those who ask: one request for each connection, one line of JSON in each direction.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No daemon listens there.
    #[error("no daemon listens on {path}: {}", why(path, source))]
    Connect {
        /// The socket.
        path: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Only the user of the daemon and root may ask it.
    #[error("this user may not ask the daemon on {path}: run as root")]
    Denied {
        /// The socket.
        path: String,
    },
    /// A daemon listens and does not answer.
    #[error("the daemon on {path} gave no answer in {seconds} s: it hangs, or is overloaded")]
    Silent {
        /// The socket.
        path: String,
        /// The time limit.
        seconds: u64,
    },
    /// The conversation failed.
    #[error("the daemon on {path} did not answer: {source}")]
    Talk {
        /// The socket.
        path: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// The time limit for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a request to the daemon that listens on `path`.
///
/// # Errors
/// [`ControlError`], within 10 s.
pub fn ask<A: DeserializeOwned>(path: &Path, request: &impl Serialize) -> Result<A, ControlError> {
    ask_within(path, request, ANSWER_TIMEOUT)
}

/// As [`ask`], with another time limit.
///
/// # Errors
/// [`ControlError`], within `limit`.
pub fn ask_within<A: DeserializeOwned>(
    path: &Path,
    request: &impl Serialize,
    limit: Duration,
) -> Result<A, ControlError> {
    send(path, request, limit)?.answer()
}

/// A request that was sent.
#[derive(Debug)]
pub struct Sent {
    stream: UnixStream,
    path: String,
    limit: Duration,
}

/// Sends a request to the daemon that listens on `path`, of which the answer may take until `limit`.
///
/// # Errors
/// [`ControlError`], within `limit`.
pub fn send(path: &Path, request: &impl Serialize, limit: Duration) -> Result<Sent, ControlError> {
    let name = path.display().to_string();
    let stream = connect(path, limit).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => ControlError::Silent { path: name.clone(), seconds: limit.as_secs() },
        io::ErrorKind::PermissionDenied => ControlError::Denied { path: name.clone() },
        _ => ControlError::Connect { path: name.clone(), source },
    })?;
    let mut sent = Sent { stream, path: name, limit };
    sent.write(request).map_err(|source| sent.failure(source))?;
    Ok(sent)
}

impl Sent {
    fn write(&mut self, request: &impl Serialize) -> io::Result<()> {
        self.stream.set_read_timeout(Some(self.limit))?;
        self.stream.set_write_timeout(Some(self.limit))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.write_all(&line)
    }

    fn read<A: DeserializeOwned>(&self) -> io::Result<A> {
        let mut answer = String::new();
        BufReader::new(&self.stream).read_line(&mut answer)?;
        if answer.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
        }
        Ok(serde_json::from_str(&answer)?)
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// [`ControlError`], within the limit.
    pub fn answer<A: DeserializeOwned>(self) -> Result<A, ControlError> {
        self.read().map_err(|source| self.failure(source))
    }

    fn failure(&self, source: io::Error) -> ControlError {
        let path = self.path.clone();
        match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                ControlError::Silent { path, seconds: self.limit.as_secs() }
            }
            _ => ControlError::Talk { path, source },
        }
    }
}

/// Why nobody listens.
fn why(path: &str, error: &io::Error) -> String {
    let is_socket = |file: fs::Metadata| file.file_type().is_socket();
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such socket".to_owned(),
        io::ErrorKind::ConnectionRefused if !fs::metadata(path).is_ok_and(is_socket) => {
            "it is no socket".to_owned()
        }
        io::ErrorKind::ConnectionRefused => "the daemon that made the socket has ended".to_owned(),
        _ => error.to_string(),
    }
}

/// Connects within `limit`: a daemon that hangs accepts no connection, and connect(2) waits when the backlog is full.
fn connect(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// The state of a control socket's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// A daemon listens, as far as a connection can tell.
    Listens,
    /// The file of a daemon that has ended.
    Stale,
    /// No file.
    Absent,
}

/// Tests whether a daemon listens on `path`, within a second.
pub fn probe(path: &Path) -> Probe {
    match connect(path, Duration::from_secs(1)) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Probe::Stale,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Probe::Absent,
        _ => Probe::Listens,
    }
}

/// Removes the file of a daemon that has ended, if this process may. Whether no daemon listens there.
pub fn remove_stale(path: &Path) -> bool {
    let identity = || fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let before = identity();
    match probe(path) {
        Probe::Listens => false,
        Probe::Absent => true,
        Probe::Stale => {
            // A daemon that has started meanwhile has replaced the file.
            if before.is_some() && identity() == before {
                let _ = fs::remove_file(path);
            }
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use serde_json::Value;

    use super::*;

    fn socket(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("trunkline-control-{name}-{}.sock", std::process::id()))
    }

    #[test]
    fn a_daemon_that_hangs_is_reported_within_the_limit() {
        let path = socket("hangs");
        let listener = UnixListener::bind(&path).expect("a socket");
        let limit = Duration::from_secs(1);
        // The first requests wait for an answer; once the backlog is full, further ones wait for a place in it.
        for _ in 0..2 {
            let error = ask_within::<Value>(&path, &"status", limit).expect_err("nobody answers");
            assert!(error.to_string().contains("no answer in 1 s"), "{error}");
        }
        let mut waiting = Vec::new();
        while let Ok(stream) = connect(&path, Duration::from_millis(50)) {
            waiting.push(stream);
            assert!(waiting.len() < 10_000, "the backlog has a bound");
        }
        let error = ask_within::<Value>(&path, &"status", limit).expect_err("nobody answers");
        assert!(matches!(error, ControlError::Silent { seconds: 1, .. }), "{error}");
        assert_eq!(probe(&path), Probe::Listens);
        assert!(!remove_stale(&path) && path.exists());
        drop(listener);
        assert!(remove_stale(&path) && !path.exists());
        assert_eq!(probe(&path), Probe::Absent);
    }

    #[test]
    fn where_nobody_listens_the_error_says_why() {
        let path = socket("nobody");
        let error = || ask::<Value>(&path, &"status").expect_err("nobody listens").to_string();
        let told = |why: &str| assert_eq!(error(), format!("no daemon listens on {}: {why}", path.display()));
        told("there is no such socket");
        drop(UnixListener::bind(&path).expect("a socket"));
        told("the daemon that made the socket has ended");
        fs::remove_file(&path).expect("it goes");
        fs::write(&path, "text").expect("a file");
        told("it is no socket");
        fs::remove_file(&path).expect("it goes");
    }
}
