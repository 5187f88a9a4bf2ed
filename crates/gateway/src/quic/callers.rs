//! Callers: who may begin a handshake.
//!
//! A caller must prove its address by a Retry before anything is kept of it (RFC 9000 §8.1.2). Then it needs a place: there
//! are some for the addresses of peers and some for all others, each with a rate at which it is taken. A caller without one
//! is not answered; it asks again. A worker runs handshakes beside its packets, so the rates bound what packets wait for them:
//! a handshake takes about a millisecond.

use std::net::IpAddr;
use std::time::{Duration, Instant as StdInstant};

use quinn_proto::Incoming;
use trunkline_congestion::CongestionAlgorithm;

use super::control::Control;
use super::link::{Link, Stage};
use super::signals::Signals;
use super::{Acceptor, Change, Event, Quic};
use crate::known::{Caller, KnownAddresses};

/// The time from a caller's first packet to the end of the greetings, as over TCP.
const CALLER_TIMEOUT: Duration = Duration::from_secs(5);

/// The bounds on the handshakes of one kind of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// At a time.
    pub(super) places: usize,
    /// Begun in a second, as a token bucket of one second.
    pub(super) per_second: u32,
}

pub(super) const KNOWN: Limits = Limits { places: 64, per_second: 100 };
pub(super) const UNKNOWN: Limits = Limits { places: 16, per_second: 10 };

#[derive(Debug)]
struct Places {
    limits: Limits,
    taken: usize,
    /// Handshakes that may begin, and since when it is so many.
    tokens: (u32, StdInstant),
}

impl Places {
    fn new(limits: Limits) -> Self {
        Places { limits, taken: 0, tokens: (limits.per_second, StdInstant::now()) }
    }

    /// Takes a place, if there is one.
    fn take(&mut self, at: StdInstant) -> bool {
        let (tokens, since) = &mut self.tokens;
        let interval = Duration::from_secs(1) / self.limits.per_second;
        let earned = at.saturating_duration_since(*since).as_nanos() / interval.as_nanos();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(u32::MAX);
            *tokens = self.limits.per_second.min(tokens.saturating_add(earned));
            *since = at;
        }
        let may = *tokens > 0 && self.taken < self.limits.places;
        *tokens -= u32::from(may);
        self.taken += usize::from(may);
        may
    }
}

/// The places of callers.
#[derive(Debug)]
pub(super) struct Callers {
    addresses: KnownAddresses,
    known: Places,
    unknown: Places,
}

impl Callers {
    pub(super) fn new() -> Self {
        Callers {
            addresses: KnownAddresses::default(),
            known: Places::new(KNOWN),
            unknown: Places::new(UNKNOWN),
        }
    }

    const fn places(&mut self, caller: Caller) -> &mut Places {
        match caller {
            Caller::Known => &mut self.known,
            Caller::Unknown => &mut self.unknown,
        }
    }

    /// Takes a place for a caller, if there is one.
    pub(super) fn take(&mut self, at: StdInstant, address: IpAddr) -> Option<Caller> {
        let caller = self.addresses.caller(address);
        self.places(caller).take(at).then_some(caller)
    }

    /// The handshake of a connection is over: its place is free, if it has one.
    pub(super) fn release(&mut self, link: &mut Link) {
        if let Some(caller) = link.caller.take() {
            let places = self.places(caller);
            places.taken = places.taken.saturating_sub(1);
        }
    }

    #[cfg(test)]
    pub(super) const fn taken(&self) -> usize {
        self.known.taken + self.unknown.taken
    }
}

impl Quic {
    /// Accepts callers with these settings from now on; those at known addresses have places of their own.
    pub(crate) fn set_acceptor(&mut self, acceptor: Acceptor, known: KnownAddresses) {
        self.endpoint.set_server_config(Some(acceptor.server()));
        self.acceptor = Some(acceptor);
        self.callers.addresses = known;
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
        let remote = incoming.remote_address();
        let Some(acceptor) = self.acceptor.clone() else { return self.endpoint.ignore(incoming) };
        let Some(caller) = self.callers.take(at, remote.ip()) else { return self.endpoint.ignore(incoming) };
        let signals = Signals::new(Control::Window(CongestionAlgorithm::Cubic));
        let config = acceptor.for_caller(self.longest_packet(place, remote), &signals);
        match self.endpoint.accept(incoming, at, response, Some(config)) {
            Ok(made) => {
                let link = self.insert(made, Stage::Accepting, place, signals);
                let mut link = link.borrow_mut();
                link.caller = Some(caller);
                link.deadline = Some(at + CALLER_TIMEOUT);
                link.touch(&self.shared);
            }
            Err(error) => {
                if let Some(transmit) = &error.response {
                    self.respond(place, transmit, response);
                }
                let places = self.callers.places(caller);
                places.taken = places.taken.saturating_sub(1);
                let (key, reason) = (acceptor.take_refused(), error.cause.to_string());
                events.push(Change::Event(Event::CallerFailed { remote, key, reason }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_bounded_in_number_and_rate() {
        let begun = |places: &mut Places, at| (0..1000).filter(|_| places.take(at)).count();
        let mut places = Places::new(Limits { places: 30, per_second: 10 });
        let start = places.tokens.1;
        assert_eq!(begun(&mut places, start), 10);
        assert_eq!(begun(&mut places, start + Duration::from_millis(350)), 3);
        assert_eq!(begun(&mut places, start + Duration::from_secs(100)), 10);
        assert_eq!(begun(&mut places, start + Duration::from_secs(200)), 7, "all places are taken then");
        places.taken = 0;
        assert_eq!(begun(&mut places, start + Duration::from_secs(200)), 3);
    }

    #[test]
    fn strangers_take_no_places_from_peers() {
        let mut callers = Callers::new();
        let peer: IpAddr = [192, 0, 2, 1].into();
        callers.addresses.set_endpoints([peer].into_iter());
        let at = StdInstant::now();
        let strangers = (0..1000).filter(|_| callers.take(at, [198, 51, 100, 1].into()).is_some()).count();
        assert_eq!(strangers, UNKNOWN.places.min(UNKNOWN.per_second as usize));
        assert_eq!(callers.take(at, peer), Some(Caller::Known));
        assert_eq!(callers.taken(), strangers + 1);
    }
}
