//! Callers: who may begin a handshake, and when.
//!
//! A caller must prove its address by a Retry before anything is kept of it (RFC 9000 §8.1.2). Its next packet then waits for
//! its turn, by the rules of [`HalfOpen`]: addresses of peers have places and processor time of their own, and others take
//! turns by source. So a caller that sends many first packets, sound ones or garbage, uses up its own turns.
//!
//! A token of a Retry serves once (RFC 9000 §8.1.4): each handshake costs the caller a round trip of its own.
//!
//! A worker runs handshakes beside its packets. It begins one at a time between two rounds, so packets wait for one at most.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant as StdInstant};

use quinn_proto::{ConnectionId, Incoming};
use trunkline_congestion::CongestionAlgorithm;
use trunkline_units::Instant;

use super::control::Control;
use super::link::{FAILED, Link, Stage};
use super::settings::TOKEN_LIFETIME;
use super::signals::Signals;
use super::{Acceptor, Change, Event, Quic, words};
use crate::clock::{now, thread_time};
use crate::half_open::{Evicted, HalfOpen, Limits, TIMEOUT};
use crate::known::KnownAddresses;

/// The bounds of a worker on the callers of each kind.
pub(super) const LIMITS: Limits =
    Limits { waiting: 64, answered: 64, cpu_share: [0.2, 0.05], burst: Duration::from_millis(20) };
/// The maximum of tokens that it remembers: of more handshakes than it can begin, as a rule.
const MAX_TOKENS: usize = 1 << 14;

/// Names the token of a Retry: the address that it proves, and the connection ID that the caller chose first.
type RetryToken = (SocketAddr, ConnectionId);

/// Tokens that are in use, or were used so lately that they have not expired.
#[derive(Debug, Default)]
struct Tokens {
    taken: HashSet<RetryToken>,
    /// Those of handshakes that have begun, and when.
    used: VecDeque<(StdInstant, RetryToken)>,
}

impl Tokens {
    /// Takes a token. Whether nobody has taken it before.
    fn take(&mut self, token: RetryToken) -> bool {
        self.taken.insert(token)
    }

    /// Nothing came of a token: it may be taken again.
    fn give_back(&mut self, token: &RetryToken) {
        self.taken.remove(token);
    }

    /// A handshake begins with a token.
    fn handle_used(&mut self, at: StdInstant, token: RetryToken) {
        self.used.push_back((at, token));
        while let Some((used, token)) = self.used.front().copied()
            && (self.used.len() > MAX_TOKENS || at.saturating_duration_since(used) > TOKEN_LIFETIME)
        {
            self.used.pop_front();
            self.taken.remove(&token);
        }
    }
}

/// A first packet that waits for its turn.
struct Waiting {
    incoming: Incoming,
    token: RetryToken,
    /// The place of the socket that it came by.
    port: usize,
    since: StdInstant,
}

/// The callers of a worker that are no lanes yet, by numbers that count up.
pub(super) struct Callers {
    addresses: KnownAddresses,
    half_open: HalfOpen,
    waiting: BTreeMap<u64, Waiting>,
    /// The connections of those whose handshakes have begun.
    answered: BTreeMap<u64, u64>,
    last: u64,
    tokens: Tokens,
}

impl Callers {
    pub(super) fn new() -> Self {
        Callers {
            addresses: KnownAddresses::default(),
            half_open: HalfOpen::new(now(), LIMITS),
            waiting: BTreeMap::new(),
            answered: BTreeMap::new(),
            last: 0,
            tokens: Tokens::default(),
        }
    }

    /// The handshake of a connection is over: its place is free, if it has one.
    pub(super) fn release(&mut self, link: &mut Link) {
        if let Some(caller) = link.caller.take() {
            self.answered.remove(&caller);
            self.half_open.remove(caller);
        }
    }

    /// When the next handshake may begin.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.half_open.poll_timeout()
    }

    /// The processor time of a step of a caller's handshake.
    pub(super) fn charge(&mut self, caller: u64, time: Duration) {
        self.half_open.charge(caller, time);
    }

    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.half_open.len()
    }
}

impl Quic {
    /// Accepts callers with these settings from now on; those at known addresses have places of their own.
    pub(crate) fn set_acceptor(&mut self, acceptor: Acceptor, known: KnownAddresses) {
        self.endpoint.set_server_config(Some(acceptor.server()));
        self.acceptor = Some(acceptor);
        self.callers.addresses = known;
    }

    /// Takes the first packet of a caller.
    pub(super) fn handle_caller(
        &mut self,
        at: StdInstant,
        port: usize,
        incoming: Incoming,
        response: &mut Vec<u8>,
        changes: &mut Vec<Change>,
    ) {
        let remote = incoming.remote_address();
        if !incoming.remote_address_validated() {
            match self.endpoint.retry(incoming, response) {
                Ok(transmit) => self.respond(port, &transmit, response),
                Err(error) => self.endpoint.ignore(error.into_incoming()),
            }
            return;
        }
        let token = (remote, *incoming.orig_dst_cid());
        if !self.callers.tokens.take(token) {
            return self.endpoint.ignore(incoming);
        }
        let callers = &mut self.callers;
        callers.last += 1;
        let number = callers.last;
        callers.waiting.insert(number, Waiting { incoming, token, port, since: at });
        let caller = callers.addresses.caller(remote.ip());
        let evicted = callers.half_open.admit(number, remote.ip(), caller);
        callers.half_open.handle_ready(number);
        self.evict(at, evicted, changes);
    }

    /// Begins the handshake that is next in turn, if one is due.
    pub(super) fn begin_handshake(&mut self, at: StdInstant, changes: &mut Vec<Change>) {
        let now = self.shared.to_units(at);
        while let Some((number, evicted)) = self.callers.half_open.poll_turn(now) {
            self.evict(at, evicted, changes);
            let Some(waiting) = self.callers.waiting.remove(&number) else {
                self.callers.half_open.remove(number);
                continue;
            };
            if at.saturating_duration_since(waiting.since) > TIMEOUT {
                self.callers.half_open.remove(number);
                self.forget(waiting);
                continue;
            }
            let start = thread_time();
            let begun = self.answer_caller(at, number, waiting, changes);
            self.callers.charge(number, thread_time().saturating_sub(start));
            if !begun {
                self.callers.half_open.remove(number);
            }
            return;
        }
    }

    /// Whether there is a connection now.
    fn answer_caller(
        &mut self,
        at: StdInstant,
        number: u64,
        waiting: Waiting,
        changes: &mut Vec<Change>,
    ) -> bool {
        let Some(acceptor) = self.acceptor.clone() else {
            self.forget(waiting);
            return false;
        };
        let Waiting { incoming, token, port, .. } = waiting;
        self.callers.tokens.handle_used(at, token);
        let remote = incoming.remote_address();
        let signals = Signals::new(Control::Window(CongestionAlgorithm::Cubic));
        let config = acceptor.for_caller(self.longest_packet(port, remote), &signals);
        let mut response = Vec::new();
        match self.endpoint.accept(incoming, at, &mut response, Some(config)) {
            Ok(made) => {
                let link = self.insert(made, Stage::Accepting, port, signals);
                let mut link = link.borrow_mut();
                link.caller = Some(number);
                link.deadline = Some(at + TIMEOUT);
                link.touch(&self.shared);
                self.callers.answered.insert(number, link.number);
                true
            }
            Err(error) => {
                if let Some(transmit) = &error.response {
                    self.respond(port, transmit, &response);
                }
                let (key, reason) = (None, words::lost(&error.cause));
                changes.push(Change::Event(Event::CallerFailed { remote, key, reason }));
                false
            }
        }
    }

    /// Nothing comes of a first packet: its caller may send it again.
    fn forget(&mut self, Waiting { incoming, token, .. }: Waiting) {
        self.callers.tokens.give_back(&token);
        self.endpoint.ignore(incoming);
    }

    /// A caller gives way to another. One whose first packet waited asks again and hears nothing.
    fn evict(&mut self, at: StdInstant, evicted: Option<Evicted>, changes: &mut Vec<Change>) {
        let Some(Evicted { token: number, reason }) = evicted else { return };
        if let Some(waiting) = self.callers.waiting.remove(&number) {
            return self.forget(waiting);
        }
        let link = self.callers.answered.remove(&number).and_then(|link| self.links.get(&link));
        if let Some(link) = link {
            let mut link = link.borrow_mut();
            link.caller = None;
            link.close(at, FAILED, "");
            link.touch(&self.shared);
            let remote = link.inner.remote_address();
            changes.push(Change::Event(Event::CallerEvicted { remote, reason }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_serves_once_until_it_has_expired_unless_nothing_came_of_it() {
        let (mut tokens, start) = (Tokens::default(), StdInstant::now());
        let token = |port: u16| {
            let address = SocketAddr::from(([192, 0, 2, 1], port));
            (address, ConnectionId::new(&[7; 16]))
        };
        assert!(tokens.take(token(1)) && !tokens.take(token(1)) && tokens.take(token(2)));
        tokens.give_back(&token(1));
        assert!(tokens.take(token(1)));
        tokens.handle_used(start, token(1));
        tokens.handle_used(start + TOKEN_LIFETIME, token(2));
        assert!(!tokens.take(token(1)), "the library takes it still");
        tokens.handle_used(start + TOKEN_LIFETIME * 2, token(3));
        assert!(tokens.take(token(1)) && !tokens.take(token(2)));
    }

    #[test]
    fn the_tokens_that_are_remembered_are_bounded() {
        let (mut tokens, at) = (Tokens::default(), StdInstant::now());
        for number in 0..3 * MAX_TOKENS as u64 {
            let token = (SocketAddr::from(([192, 0, 2, 1], 1)), ConnectionId::new(&number.to_be_bytes()));
            assert!(tokens.take(token));
            tokens.handle_used(at, token);
        }
        assert_eq!((tokens.taken.len(), tokens.used.len()), (MAX_TOKENS, MAX_TOKENS));
    }
}
