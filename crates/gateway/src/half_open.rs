//! Bounds on half-open connections: memory and processor time for the handshakes of unauthenticated callers.
//!
//! There are two kinds of callers, by address: *known* (a peer's endpoint, or an address from which a lane came before) and
//! *unknown*. Each kind has its own places and its own share of the processor time of the thread that runs handshakes: the
//! control thread those over TCP, a worker those over QUIC. So unknown addresses, however many, take nothing from known ones.
//!
//! A new connection *waits*. The site keeps it, and reads nothing from it. When its data arrives, it is *ready*; over QUIC its
//! first packet is its data. Ready connections are served round-robin over sources, and in order of arrival within a source. A
//! turn starts the handshake, and moves the connection to the places of those that are *answered*.
//!
//! If all places are taken, the source with the largest number of connections loses its oldest ([`Shares`]). So a flood from
//! one source evicts only its own connections, and idle connections cannot block a site.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use trunkline_units::{Instant, Shares, source};

use crate::known::Caller;

/// The time limit of a handshake.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The bounds on the connections of each kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The maximum number of waiting connections.
    pub(crate) waiting: usize,
    /// The maximum number of answered connections.
    pub(crate) answered: usize,
    /// The share of the thread's time for the handshakes of known and of unknown callers.
    pub(crate) cpu_share: [f64; 2],
    /// The maximum burst of processor time, after a time without handshakes.
    pub(crate) burst: Duration,
}

/// The stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No data has arrived yet.
    Silent,
    /// Data has arrived, and it waits for its turn.
    Ready,
    /// Its handshake is in progress.
    Answered,
}

/// Why a connection was evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Its source had more connections than any other.
    LargestSource,
    /// Each source had one, and it was the oldest.
    Oldest,
}

/// A connection to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub(crate) token: u64,
    pub(crate) reason: Reason,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    source: IpAddr,
    caller: Caller,
    stage: Stage,
}

impl Place {
    /// Connections of one kind and stage share their places.
    const fn kind(&self) -> usize {
        2 * self.caller as usize + matches!(self.stage, Stage::Answered) as usize
    }
}

/// A token bucket of processor time.
#[derive(Debug, Clone, Copy)]
struct Budget {
    share: f64,
    burst_s: f64,
    left_s: f64,
    at: Instant,
}

impl Budget {
    fn refill(&mut self, now: Instant) {
        let since = now.saturating_since(self.at).as_secs_f64();
        self.left_s = (self.left_s + since * self.share).min(self.burst_s);
        self.at = self.at.max(now);
    }

    /// The time at which the budget is positive.
    fn ready_at(&self) -> Instant {
        self.at + Duration::from_secs_f64((-self.left_s / self.share).max(0.0)) + Duration::from_micros(100)
    }
}

/// The half-open connections of callers, by a token that counts up.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    limits: Limits,
    places: BTreeMap<u64, Place>,
    /// By [`Place::kind`].
    shares: [Shares<IpAddr, u64>; 4],
    budgets: [Budget; 2],
    /// The number of the last turn of each source that has connections.
    turns: BTreeMap<IpAddr, u64>,
    turn: u64,
}

impl HalfOpen {
    pub(crate) fn new(now: Instant, limits: Limits) -> Self {
        let burst_s = limits.burst.as_secs_f64();
        let budgets = limits.cpu_share.map(|share| Budget { share, burst_s, left_s: burst_s, at: now });
        let shares = std::array::from_fn(|_| Shares::default());
        HalfOpen { limits, places: BTreeMap::new(), shares, budgets, turns: BTreeMap::new(), turn: 0 }
    }

    /// The number of half-open connections.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Adds a connection. Returns the connection that it evicts, if any.
    pub(crate) fn admit(&mut self, token: u64, address: IpAddr, caller: Caller) -> Option<Evicted> {
        self.places.insert(token, Place { source: source(address), caller, stage: Stage::Silent });
        self.take_place(token, self.limits.waiting)
    }

    /// Data of the caller has arrived.
    pub(crate) fn handle_ready(&mut self, token: u64) {
        if let Some(place) = self.places.get_mut(&token).filter(|place| place.stage == Stage::Silent) {
            place.stage = Stage::Ready;
        }
    }

    /// Returns the connection whose handshake is to start, if the budget allows, and the connection that it evicts.
    pub(crate) fn poll_turn(&mut self, now: Instant) -> Option<(u64, Option<Evicted>)> {
        for caller in [Caller::Known, Caller::Unknown] {
            let budget = &mut self.budgets[caller as usize];
            budget.refill(now);
            if budget.left_s <= 0.0 {
                continue;
            }
            let ready =
                self.ready(caller).min_by_key(|(token, place)| (self.turns.get(&place.source), **token));
            let Some((token, source)) = ready.map(|(token, place)| (*token, place.source)) else { continue };
            self.turn += 1;
            self.turns.insert(source, self.turn);
            if let Some(place) = self.places.get_mut(&token) {
                self.shares[place.kind()].remove(token);
                place.stage = Stage::Answered;
            }
            return Some((token, self.take_place(token, self.limits.answered)));
        }
        None
    }

    /// Charges the processor time of a step of a handshake to the budget.
    pub(crate) fn charge(&mut self, token: u64, time: Duration) {
        if let Some(place) = self.places.get(&token) {
            self.budgets[place.caller as usize].left_s -= time.as_secs_f64();
        }
    }

    /// The connection has become a lane, or has ended.
    pub(crate) fn remove(&mut self, token: u64) {
        let Some(place) = self.places.remove(&token) else { return };
        self.shares[place.kind()].remove(token);
        if !self.places.values().any(|other| other.source == place.source) {
            self.turns.remove(&place.source);
        }
    }

    /// The time of the next poll, if a connection is ready.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let waits = |caller: &Caller| self.ready(*caller).next().is_some();
        let callers = [Caller::Known, Caller::Unknown].into_iter().filter(waits);
        callers.map(|caller| self.budgets[caller as usize].ready_at()).min()
    }

    fn ready(&self, caller: Caller) -> impl Iterator<Item = (&u64, &Place)> {
        self.places.iter().filter(move |(_, place)| place.caller == caller && place.stage == Stage::Ready)
    }

    /// Gives a connection a place of its kind and stage, of which there are `limit`.
    fn take_place(&mut self, token: u64, limit: usize) -> Option<Evicted> {
        let place = *self.places.get(&token)?;
        let shares = &mut self.shares[place.kind()];
        let victim = shares.victim(place.source).filter(|_| shares.len() >= limit);
        shares.insert(place.source, token);
        let victim = victim?;
        self.remove(victim.item);
        let reason = if victim.of > 1 { Reason::LargestSource } else { Reason::Oldest };
        Some(Evicted { token: victim.item, reason })
    }
}

#[cfg(test)]
mod tests {
    use trunkline_units::Rng;

    use super::*;

    const LIMITS: Limits =
        Limits { waiting: 128, answered: 256, cpu_share: [0.4, 0.1], burst: Duration::from_millis(50) };
    const MAX_WAITING: usize = LIMITS.waiting;
    const MAX_ANSWERED: usize = LIMITS.answered;
    /// The processor time of a handshake.
    const HANDSHAKE: Duration = Duration::from_micros(230);

    fn address(number: u32) -> IpAddr {
        IpAddr::V4((0xC612_0000 + number).into())
    }

    fn at_micros(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    #[test]
    fn the_source_with_most_places_loses_its_oldest_and_nobody_is_refused() {
        let mut half_open = HalfOpen::new(at_micros(0), LIMITS);
        assert_eq!(half_open.admit(0, address(1), Caller::Unknown), None);
        for token in 1..MAX_WAITING as u64 {
            assert_eq!(half_open.admit(token, address(2), Caller::Unknown), None);
        }
        let evicted = half_open.admit(1_000, address(3), Caller::Unknown);
        assert_eq!(evicted, Some(Evicted { token: 1, reason: Reason::LargestSource }));
        // It evicts its own connections, and neither of the others.
        for token in 2_000..3_000 {
            let evicted = half_open.admit(token, address(2), Caller::Unknown).expect("it is full");
            assert!(evicted.token != 0 && evicted.token != 1_000, "{evicted:?}");
        }
    }

    #[test]
    fn with_one_connection_of_each_source_the_oldest_is_evicted() {
        let mut half_open = HalfOpen::new(at_micros(0), LIMITS);
        for token in 0..MAX_WAITING as u64 {
            half_open.admit(token, address(token as u32), Caller::Unknown);
        }
        let evicted = half_open.admit(1_000, address(1_000), Caller::Unknown);
        assert_eq!(evicted, Some(Evicted { token: 0, reason: Reason::Oldest }));
    }

    #[test]
    fn strangers_take_no_place_and_no_time_from_known_addresses() {
        let mut half_open = HalfOpen::new(at_micros(0), LIMITS);
        half_open.admit(0, address(0), Caller::Known);
        half_open.handle_ready(0);
        for token in 1..10_000 {
            if let Some(evicted) = half_open.admit(token, address(token as u32 % 500), Caller::Unknown) {
                assert_ne!(evicted.token, 0);
            }
            half_open.handle_ready(token);
        }
        assert_eq!(half_open.poll_turn(at_micros(0)), Some((0, None)), "known ones first");
        while let Some((token, _)) = half_open.poll_turn(at_micros(0)) {
            half_open.charge(token, HANDSHAKE);
        }
        half_open.admit(20_000, address(0), Caller::Known);
        half_open.handle_ready(20_000);
        assert_eq!(half_open.poll_turn(at_micros(0)), Some((20_000, None)));
    }

    #[test]
    fn sources_take_turns() {
        let mut half_open = HalfOpen::new(at_micros(0), LIMITS);
        for token in 0..100 {
            half_open.admit(token, address(1), Caller::Unknown);
            half_open.handle_ready(token);
        }
        for token in 100..102 {
            half_open.admit(token, address(2), Caller::Unknown);
            half_open.handle_ready(token);
        }
        let turns: Vec<u64> = std::iter::from_fn(|| half_open.poll_turn(at_micros(0)))
            .map(|(token, _)| token)
            .take(5)
            .collect();
        assert_eq!(turns, [0, 100, 1, 101, 2]);
    }

    /// A flood of callers, one in each step, and a peer that connects in the middle and answers after `rtt`. Returns whether
    /// the peer's handshake completes, and the share of time that the other handshakes took.
    struct Flood {
        per_second: u64,
        sources: u32,
        /// Whether the callers send data.
        talk: bool,
        peer: (IpAddr, Caller),
        rtt: Duration,
        seed: u64,
    }

    impl Flood {
        fn run(&self) -> (bool, f64) {
            let mut rng = Rng::new(self.seed, "flood");
            let mut half_open = HalfOpen::new(at_micros(0), LIMITS);
            let step = 1_000_000 / self.per_second;
            let (mut busy_s, mut peer_done, mut finish_at) = (0.0, false, None);
            let peer = 2 * self.per_second;
            for token in 0..4 * self.per_second {
                let now = at_micros(token * step);
                let mut gone = Vec::new();
                if token == peer {
                    gone.extend(half_open.admit(token, self.peer.0, self.peer.1));
                    half_open.handle_ready(token);
                } else {
                    let from = address((rng.uniform() * f64::from(self.sources)) as u32);
                    let caller = if from == self.peer.0 { self.peer.1 } else { Caller::Unknown };
                    gone.extend(half_open.admit(token, from, caller));
                    if self.talk {
                        half_open.handle_ready(token);
                    }
                }
                while let Some((turn, evicted)) = half_open.poll_turn(now) {
                    gone.extend(evicted);
                    half_open.charge(turn, HANDSHAKE);
                    if turn == peer {
                        finish_at = Some(now + self.rtt);
                    } else {
                        busy_s += HANDSHAKE.as_secs_f64();
                    }
                }
                if gone.iter().any(|evicted| evicted.token == peer) {
                    finish_at = None;
                }
                if finish_at.is_some_and(|at| at <= now) {
                    half_open.remove(peer);
                    (peer_done, finish_at) = (true, None);
                }
                assert!(half_open.len() <= 2 * (MAX_WAITING + MAX_ANSWERED), "seed {}", self.seed);
                assert!(half_open.turns.len() <= half_open.len() + 1, "seed {}", self.seed);
            }
            (peer_done, busy_s / 4.0)
        }
    }

    #[test]
    fn a_peer_gets_through_a_flood_from_many_addresses() {
        for seed in 0..5 {
            for talk in [false, true] {
                for caller in [Caller::Known, Caller::Unknown] {
                    let (peer, rtt) = ((address(9_999), caller), Duration::from_millis(100));
                    let flood = Flood { per_second: 1_500, sources: 64, talk, peer, rtt, seed };
                    let (done, share) = flood.run();
                    assert!(done, "{caller:?}, they talk: {talk}, seed {seed}");
                    assert!(share < 0.12, "unknown addresses take {share} of the control thread");
                }
            }
        }
    }

    #[test]
    fn a_known_peer_gets_through_a_flood_from_more_addresses_than_there_are_places() {
        for seed in 0..2 {
            let (peer, rtt) = ((address(9_999), Caller::Known), Duration::from_millis(300));
            let flood = Flood { per_second: 5_000, sources: 5_000, talk: true, peer, rtt, seed };
            assert!(flood.run().0, "seed {seed}");
        }
    }

    #[test]
    fn a_peer_gets_through_a_flood_from_behind_its_own_address() {
        for seed in 0..20 {
            let (peer, rtt) = ((address(0), Caller::Known), Duration::from_millis(100));
            let flood = Flood { per_second: 1_000, sources: 1, talk: true, peer, rtt, seed };
            assert!(flood.run().0, "seed {seed}");
        }
    }

    #[test]
    fn whoever_holds_places_without_using_them_loses_them_to_those_that_come() {
        let mut half_open = HalfOpen::new(at_micros(0), LIMITS);
        for token in 0..1_000 {
            half_open.admit(token, address(1), Caller::Known);
        }
        // The peer behind the same address.
        assert!(half_open.admit(1_000, address(1), Caller::Known).is_some());
        half_open.handle_ready(1_000);
        assert_eq!(half_open.poll_turn(at_micros(0)), Some((1_000, None)));
    }

    #[test]
    fn the_bounds_hold_and_there_is_a_wake_whatever_happens() {
        for seed in 0..30 {
            let mut rng = Rng::new(seed, "half open");
            let mut half_open = HalfOpen::new(at_micros(0), LIMITS);
            let mut now = at_micros(0);
            for token in 0..3_000_u64 {
                now += Duration::from_micros((rng.uniform() * 400.0) as u64);
                let caller = if rng.uniform() < 0.3 { Caller::Known } else { Caller::Unknown };
                let from = address((rng.uniform() * 300.0) as u32);
                half_open.admit(token, from, caller);
                let other = (rng.uniform() * token as f64) as u64;
                match (rng.uniform() * 3.0) as u32 {
                    0 => half_open.handle_ready(token),
                    1 => half_open.handle_ready(other),
                    _ => half_open.remove(other),
                }
                while let Some((turn, _)) = half_open.poll_turn(now) {
                    half_open.charge(turn, HANDSHAKE);
                }
                for caller in [Caller::Known, Caller::Unknown] {
                    let of = |answered: bool| {
                        let places = half_open.places.values().filter(|place| place.caller == caller);
                        places.filter(|place| (place.stage == Stage::Answered) == answered).count()
                    };
                    assert!(of(false) <= MAX_WAITING && of(true) <= MAX_ANSWERED, "seed {seed}");
                }
                match half_open.poll_timeout() {
                    Some(at) => assert!(at > now, "seed {seed}: it would spin"),
                    None => assert!(half_open.places.values().all(|place| place.stage != Stage::Ready)),
                }
            }
        }
    }
}
