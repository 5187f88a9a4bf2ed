//! A gateway's control socket: one line of JSON each way. The gateway defines the protocol. The testbed returns the
//! reply unchanged, so it can also drive a gateway of another version.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// More than a machine needs that is crowded with runs.
const TIMEOUT: Duration = Duration::from_secs(20);
const ANSWER_LIMIT_BYTES: u64 = 16 << 20;

/// Sends one request and returns the answer, or what it was refused with as an error.
pub(super) fn ask(socket: &Path, request: &str) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    writeln!(stream, "{{\"request\":\"{request}\"}}")?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_LIMIT_BYTES)).read_line(&mut line)?;
    let answer: Value = serde_json::from_str(&line)?;
    if answer["answer"] == "refused" {
        return Err(io::Error::other(answer["message"].as_str().unwrap_or("refused").to_owned()));
    }
    Ok(answer)
}

/// The lanes of a status that are not up, in words; empty if all are.
pub(super) fn lanes_not_up(status: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut down = Vec::new();
    let peers = list(&status["peers"]);
    if peers.is_empty() {
        down.push("no peer".to_owned());
    }
    for peer in &peers {
        let lanes = list(&peer["lanes"]);
        if lanes.is_empty() {
            down.push("no lane".to_owned());
        }
        for lane in lanes.iter().filter(|lane| lane["state"] != "up") {
            let group = lane["lane_group"].as_str().unwrap_or("?");
            let state = lane["state"].as_str().unwrap_or("?");
            let why = lane["last_error"].as_str().map_or(String::new(), |error| format!(", {error}"));
            down.push(format!("{group}: {state}{why}"));
        }
    }
    down
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(lanes: &Value) -> Value {
        json!({ "peers": [{ "lanes": lanes }] })
    }

    #[test]
    fn a_lane_that_is_not_up_is_named_with_its_reason() {
        assert!(lanes_not_up(&with(&json!([{ "lane_group": "tcp", "state": "up" }]))).is_empty());
        let waiting = with(&json!([
            { "lane_group": "tcp", "state": "waiting", "last_error": "refused" },
            { "lane_group": "tcp", "state": "up" }
        ]));
        assert_eq!(lanes_not_up(&waiting), ["tcp: waiting, refused"]);
    }

    #[test]
    fn no_lane_at_all_is_not_up() {
        assert_eq!(lanes_not_up(&with(&json!([]))), ["no lane"]);
        assert_eq!(lanes_not_up(&json!({ "peers": [] })), ["no peer"]);
    }
}
