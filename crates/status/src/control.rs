//! The control socket of a daemon: one request for each connection, one line of JSON in each direction.

use std::net::SocketAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{ProxiesStatus, Status};

/// A request to a running daemon. A process that runs proxies alone has no file that it could read again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Open an invitation. The answer is [`Answer::Joining`], when a site comes with it; the connection's end ends the invitation.
    Invite {
        /// The public half of the invitation's key, in its text form.
        key: String,
        /// For how long.
        seconds: u32,
    },
    /// Refuse the site that has come with an invitation.
    Decline {
        /// The public half of the invitation's key.
        key: String,
        /// Why, for that site's command line.
        reason: String,
    },
}

impl Request {
    /// The words of all of them, as a gateway answers.
    pub const WORDS: [&str; 6] = ["status", "flows", "reload", "down", "invite", "decline"];

    /// The request in a line of the control socket of a daemon that answers those in `allowed`.
    ///
    /// # Errors
    /// The mistake, and the allowed requests.
    pub fn parse(line: &str, allowed: &[&str]) -> Result<Self, String> {
        let mistake = match serde_json::from_str::<Self>(line) {
            Ok(request) if allowed.contains(&request.word()) => return Ok(request),
            Ok(other) => format!("\"{}\" is no request to this daemon", other.word()),
            Err(error) => error.to_string(),
        };
        let words: Vec<String> = allowed.iter().map(|word| format!("\"{word}\"")).collect();
        Err(format!("{mistake}; allowed: {{\"request\":{}}}", words.join("|")))
    }

    const fn word(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Flows => "flows",
            Self::Reload => "reload",
            Self::Down => "down",
            Self::Invite { .. } => "invite",
            Self::Decline { .. } => "decline",
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
    /// To [`Request::Invite`]: a site has come. It waits until its key is in the daemon's file, and that is read again.
    Joining(Joining),
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

/// A site that has come with an invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joining {
    /// Its name.
    pub name: String,
    /// Its public key.
    pub key: String,
    /// What lies behind it, its address in the tunnel first.
    pub prefixes: Vec<IpNet>,
    /// The address that it dialled from.
    pub from: SocketAddr,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_is_written() {
        let (key, reason) = ("k".to_owned(), "no".to_owned());
        let requests = [
            Request::Status,
            Request::Flows,
            Request::Reload,
            Request::Down,
            Request::Invite { key: key.clone(), seconds: 60 },
            Request::Decline { key, reason },
        ];
        assert_eq!(requests.each_ref().map(Request::word), Request::WORDS);
        for request in requests {
            let line = serde_json::to_string(&request).unwrap();
            assert!(line.starts_with(&format!("{{\"request\":\"{}\"", request.word())), "{line}");
            assert_eq!(Request::parse(&line, &Request::WORDS), Ok(request));
        }
    }

    #[test]
    fn an_error_lists_the_requests_that_the_daemon_answers() {
        let allowed = ["status", "down"];
        for (line, mistake) in [("stauts", "stauts"), ("reload", "\"reload\" is no request")] {
            let error = Request::parse(&format!("{{\"request\":\"{line}\"}}"), &allowed).unwrap_err();
            assert!(error.contains(mistake), "{error}");
            assert!(error.ends_with("; allowed: {\"request\":\"status\"|\"down\"}"), "{error}");
        }
    }
}
