//! The control socket of a daemon: one request for each connection, one line of JSON in each direction.

use serde::{Deserialize, Serialize};

use crate::{ProxiesStatus, Status};

/// A request to a running daemon. A process that runs proxies alone has no file that it could read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Report its state.
    Status,
    /// Report its state with the busiest flows to each peer, for which a gateway reads the state of each flow.
    Flows,
    /// Read its file again.
    Reload,
    /// End.
    Down,
}

impl Request {
    /// All of them, as a gateway answers.
    pub const ALL: [Request; 4] = [Request::Status, Request::Flows, Request::Reload, Request::Down];

    /// The request in a line of the control socket of a daemon that answers those in `allowed`.
    ///
    /// # Errors
    /// The mistake, and the allowed requests.
    pub fn parse(line: &str, allowed: &[Request]) -> Result<Self, String> {
        let mistake = match serde_json::from_str(line) {
            Ok(request) if allowed.contains(&request) => return Ok(request),
            Ok(other) => format!("\"{}\" is no request to this daemon", other.word()),
            Err(error) => error.to_string(),
        };
        let words: Vec<String> = allowed.iter().map(|request| format!("\"{}\"", request.word())).collect();
        Err(format!("{mistake}; allowed: {{\"request\":{}}}", words.join("|")))
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Flows => "flows",
            Self::Reload => "reload",
            Self::Down => "down",
        }
    }
}

/// The answer of a daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Status`] and [`Request::Flows`].
    Status(Box<Status>),
    /// To the same, from a process that runs proxies alone.
    Proxies(Box<ProxiesStatus>),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_is_written() {
        for request in Request::ALL {
            let line = serde_json::to_string(&request).unwrap();
            assert_eq!(line, format!("{{\"request\":\"{}\"}}", request.word()));
            assert_eq!(Request::parse(&line, &Request::ALL), Ok(request));
        }
    }

    #[test]
    fn an_error_lists_the_requests_that_the_daemon_answers() {
        let allowed = [Request::Status, Request::Down];
        for (line, mistake) in [("stauts", "stauts"), ("reload", "\"reload\" is no request")] {
            let error = Request::parse(&format!("{{\"request\":\"{line}\"}}"), &allowed).unwrap_err();
            assert!(error.contains(mistake), "{error}");
            assert!(error.ends_with("; allowed: {\"request\":\"status\"|\"down\"}"), "{error}");
        }
    }
}
