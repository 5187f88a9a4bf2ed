//! The control socket: one request a connection, one line of JSON each way.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::status::Status;

/// What may be asked of a running daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Its state.
    Status,
    /// Its state with the busiest flows to each peer, which costs it a look at every flow.
    Flows,
    /// To read its file again.
    Reload,
    /// To end.
    Down,
}

/// What a daemon answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Status`] and [`Request::Flows`].
    Status(Box<Status>),
    /// It is done, or under way.
    Done {
        /// In words.
        message: String,
    },
    /// It was not done, and why.
    Refused {
        /// In words.
        message: String,
    },
}

/// Why a daemon could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens there.
    #[error("no daemon listens on {path}: {source}")]
    Connect {
        /// The socket.
        path: String,
        /// The system's answer.
        source: io::Error,
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

/// Asks the daemon that listens on `path`.
pub fn ask(path: &Path, request: Request) -> Result<Answer, ControlError> {
    let name = || path.display().to_string();
    let mut stream =
        UnixStream::connect(path).map_err(|source| ControlError::Connect { path: name(), source })?;
    let mut talk = || -> io::Result<Answer> {
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.set_write_timeout(Some(Duration::from_secs(10)))?;
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut answer = String::new();
        BufReader::new(&stream).read_line(&mut answer)?;
        if answer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&answer)?)
    };
    talk().map_err(|source| ControlError::Talk { path: name(), source })
}
