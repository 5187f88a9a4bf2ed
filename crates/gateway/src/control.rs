//! The control socket: one request per connection, one line of JSON in each direction.

use std::path::Path;

use serde::{Deserialize, Serialize};
pub use trunkline_service::control::{ControlError, remove_stale};

use crate::status::Status;

/// A request to a running daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Report its state.
    Status,
    /// Report its state with the busiest flows to each peer, for which it reads the state of each flow.
    Flows,
    /// Read its file again.
    Reload,
    /// End.
    Down,
}

/// The answer of a daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Status`] and [`Request::Flows`].
    Status(Box<Status>),
    /// To the same, from a process that runs proxies alone.
    Proxies(Box<trunkline_proxy::Status>),
    /// The request is done, or in progress.
    Done {
        /// In words.
        message: String,
    },
    /// The request was refused.
    Refused {
        /// In words.
        message: String,
    },
}

/// Sends a request to the daemon that listens on `path`.
///
/// # Errors
/// [`ControlError`], within 10 s.
pub fn ask(path: &Path, request: Request) -> Result<Answer, ControlError> {
    trunkline_service::control::ask(path, &request)
}
