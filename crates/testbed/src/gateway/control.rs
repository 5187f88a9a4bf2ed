//! A gateway's answers, as a testbed needs them.

use std::io;
use std::path::Path;
use std::time::Duration;

use trunkline_service::control::ask_within;
use trunkline_status::{Answer, LaneState, Request, Status};

/// More than a machine needs that is crowded with runs.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sends one request and returns the answer, or what it was refused with as an error.
pub(super) fn ask(socket: &Path, request: &Request) -> io::Result<Answer> {
    match ask_within(socket, request, TIMEOUT).map_err(io::Error::other)? {
        Answer::Refused { message } => Err(io::Error::other(message)),
        answer => Ok(answer),
    }
}

/// The lanes of a gateway that are not up, in words; empty if all are.
pub(super) fn lanes_not_up(status: &Status) -> Vec<String> {
    let mut down = Vec::new();
    if status.peers.is_empty() {
        down.push("no peer".to_owned());
    }
    for peer in &status.peers {
        if peer.lanes.is_empty() {
            down.push("no lane".to_owned());
        }
        for lane in peer.lanes.iter().filter(|lane| lane.state != LaneState::Up) {
            let why = lane.last_error.as_ref().map_or(String::new(), |error| format!(", {error}"));
            down.push(format!("{}: {}{why}", lane.lane_group, lane.state));
        }
    }
    down
}

#[cfg(test)]
mod tests {
    use trunkline_status::{Lane, Peer};

    use super::*;

    fn with(lanes: Vec<Lane>) -> Status {
        Status { peers: vec![Peer { lanes, ..Peer::default() }], ..Status::default() }
    }

    #[test]
    fn a_lane_that_is_not_up_is_named_with_its_reason() {
        let up = Lane { lane_group: "tcp".to_owned(), state: LaneState::Up, ..Lane::default() };
        assert!(lanes_not_up(&with(vec![up.clone()])).is_empty());
        let waiting =
            Lane { state: LaneState::Waiting, last_error: Some("refused".to_owned()), ..up.clone() };
        assert_eq!(lanes_not_up(&with(vec![waiting, up])), ["tcp: waiting, refused"]);
    }

    #[test]
    fn no_lane_at_all_is_not_up() {
        assert_eq!(lanes_not_up(&with(Vec::new())), ["no lane"]);
        assert_eq!(lanes_not_up(&Status::default()), ["no peer"]);
    }
}
