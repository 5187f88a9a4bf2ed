//! Callers: who may begin a handshake.
//!
//! A caller must prove its address by a Retry before anything is kept of it (RFC 9000 §8.1.2). Then a worker begins at most
//! [`HANDSHAKES_PER_SECOND`] handshakes a second, and has at most [`MAX_HALF_OPEN`] at a time. Further callers are not
//! answered; they ask again.

use std::time::{Duration, Instant as StdInstant};

use quinn_proto::Incoming;
use trunkline_congestion::CongestionAlgorithm;

use super::control::Signals;
use super::link::Stage;
use super::{Acceptor, Change, Event, Quic};

/// The maximum of handshakes with callers that a worker has at a time.
pub(super) const MAX_HALF_OPEN: usize = 16;
/// And that it begins in a second, as a token bucket of one second.
pub(super) const HANDSHAKES_PER_SECOND: u32 = 10;
/// The time from a caller's first packet to the end of the greetings, as over TCP.
const CALLER_TIMEOUT: Duration = Duration::from_secs(5);

impl Quic {
    /// Accepts callers with these settings from now on.
    pub(crate) fn set_acceptor(&mut self, acceptor: Acceptor) {
        self.endpoint.set_server_config(Some(acceptor.server()));
        self.acceptor = Some(acceptor);
    }

    /// Decides about the first packet of a caller.
    pub(super) fn handle_caller(
        &mut self,
        at: StdInstant,
        place: usize,
        incoming: Incoming,
        response: &mut Vec<u8>,
        events: &mut Vec<Change>,
    ) {
        if !incoming.remote_address_validated() {
            match self.endpoint.retry(incoming, response) {
                Ok(transmit) => self.respond(place, &transmit, response),
                Err(error) => self.endpoint.ignore(error.into_incoming()),
            }
            return;
        }
        let Some(acceptor) = self.acceptor.clone().filter(|_| self.may_begin(at)) else {
            return self.endpoint.ignore(incoming);
        };
        let remote = incoming.remote_address();
        let signals = Signals::new(CongestionAlgorithm::Cubic);
        match self.endpoint.accept(incoming, at, response, Some(acceptor.for_caller(&signals))) {
            Ok(made) => {
                self.half_open += 1;
                let link = self.insert(made, Stage::Accepting, place, signals);
                let mut link = link.borrow_mut();
                link.deadline = Some(at + CALLER_TIMEOUT);
                link.touch(&self.shared);
            }
            Err(error) => {
                if let Some(transmit) = &error.response {
                    self.respond(place, transmit, response);
                }
                let (key, reason) = (acceptor.take_refused(), error.cause.to_string());
                events.push(Change::Event(Event::CallerFailed { remote, key, reason }));
            }
        }
    }

    /// Whether a handshake with a caller may begin.
    pub(super) fn may_begin(&mut self, at: StdInstant) -> bool {
        let (tokens, since) = &mut self.tokens;
        let interval = Duration::from_secs(1) / HANDSHAKES_PER_SECOND;
        let earned = at.saturating_duration_since(*since).as_nanos() / interval.as_nanos();
        if earned > 0 {
            *tokens =
                HANDSHAKES_PER_SECOND.min(tokens.saturating_add(u32::try_from(earned).unwrap_or(u32::MAX)));
            *since = at;
        }
        let may = *tokens > 0 && self.half_open < MAX_HALF_OPEN;
        *tokens -= u32::from(may);
        may
    }
}
