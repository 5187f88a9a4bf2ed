//! The addresses of endpoints, and the policy of name look-ups, without threads, sockets or a clock.
//!
//! An address that the configuration has needs no look-up. A request for those of a name starts a look-up if it has none, or old
//! ones. A failure is retried [`RETRY_DELAY`] later while there are requests. Look-ups run in threads, which the resolver may block
//! for any time. So there are bounds: [`MAX_ACTIVE`] look-ups over all names. A look-up that takes longer than [`LOOK_UP_TIMEOUT`]
//! no longer counts as active, although its thread still runs; there are at most [`MAX_THREADS`] threads, and two for each name. So
//! a resolver that never answers for one name does not delay the others.
//!
//! A dial takes several addresses of a name, in the order in which it begins with them (RFC 8305 §4): the one that led to a
//! lane last, then the others in the resolver's order (RFC 6724), the families in turn; all of them at the first port of the
//! endpoint, then at the next.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use trunkline_units::Instant;

use crate::config::Endpoint;
use crate::life::PathKey;

/// The time after which a request starts another look-up: the known addresses did not lead to a connection.
const ADDRESS_LIFETIME: Duration = Duration::from_secs(30);
/// The delay from a failure to the next look-up.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(5);
/// The time after the last request for which failures are retried.
const RETRY_TIME: Duration = Duration::from_secs(60);
/// The maximum number of active look-ups.
const MAX_ACTIVE: usize = 8;
/// The time limit of a look-up.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of look-ups, those that have timed out included.
const MAX_THREADS: usize = 32;
/// The same for one name.
const MAX_THREADS_PER_NAME: usize = 2;
/// The maximum number of addresses of one dial; the next dial takes those that follow.
pub(super) const MAX_ADDRESSES: usize = 4;

/// A host, by its name or address, and its ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) ports: Vec<u16>,
}

/// A look-up to start. Report its result to [`Names::handle_answer`] with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LookUp {
    pub(super) number: u64,
    pub(super) target: Target,
}

/// The result of a look-up: addresses, possibly none, with any port, or the error.
pub(super) type Answer = Result<Vec<SocketAddr>, String>;

/// An event of a peer's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NameEvent {
    /// It has addresses.
    Resolved(PathKey),
    /// The look-up failed, for this reason.
    Failed(PathKey, String),
}

#[derive(Debug)]
struct Name {
    target: Target,
    /// In the order in which they are dialled.
    addresses: Vec<SocketAddr>,
    /// The index of the address that the next request gets first.
    next: usize,
    /// The address that led to a lane last.
    good: Option<SocketAddr>,
    asked_at: Instant,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its host is an address.
    Fixed,
    /// The next request after `not_before` starts a look-up.
    Idle { not_before: Option<Instant> },
    /// A look-up starts at `at`, or later when the bounds allow.
    Due { at: Instant },
    /// A look-up is in progress.
    UnderWay { number: u64 },
}

#[derive(Debug)]
struct UnderWay {
    peer: PathKey,
    target: Target,
    since: Instant,
    timed_out: bool,
}

/// The names at the ends of the paths to peers.
#[derive(Debug, Default)]
pub(super) struct Names {
    peers: BTreeMap<PathKey, Name>,
    due: BTreeSet<(Instant, PathKey)>,
    /// Look-ups by number, which is the order of their age.
    under_way: BTreeMap<u64, UnderWay>,
    last_number: u64,
}

impl Names {
    /// Replaces the names. A new or changed name has no addresses yet.
    pub(super) fn set_targets(&mut self, now: Instant, targets: BTreeMap<PathKey, Target>) {
        self.peers.retain(|peer, name| targets.get(peer) == Some(&name.target));
        for (peer, target) in targets {
            let new = || {
                let fixed = target.host.parse::<IpAddr>().ok();
                Name {
                    addresses: fixed.map_or_else(Vec::new, |address| {
                        Endpoint::at_ports(&[(address, 0).into()], &target.ports)
                    }),
                    state: fixed.map_or(State::Idle { not_before: None }, |_| State::Fixed),
                    target,
                    next: 0,
                    good: None,
                    asked_at: now,
                }
            };
            self.peers.entry(peer).or_insert_with(new);
        }
        let due = self.peers.iter().filter_map(|(peer, name)| match name.state {
            State::Due { at } => Some((at, *peer)),
            _ => None,
        });
        self.due = due.collect();
    }

    /// The addresses of the peer to dial, the first to begin with; none if none is known yet. Starts a look-up if they are old.
    pub(super) fn addresses(&mut self, now: Instant, peer: PathKey) -> Vec<SocketAddr> {
        let Some(name) = self.peers.get_mut(&peer) else { return Vec::new() };
        name.asked_at = now;
        if let State::Idle { not_before } = name.state {
            let at = not_before.map_or(now, |at| at.max(now));
            if at <= now {
                name.state = State::Due { at };
                self.due.insert((at, peer));
            }
        }
        let (known, good) = (&name.addresses, name.good);
        let good = good.filter(|good| known.contains(good));
        let others = known.iter().cycle().skip(name.next).take(known.len()).copied();
        let others = others.filter(|address| Some(*address) != good);
        let dialled: Vec<SocketAddr> = good.into_iter().chain(others).take(MAX_ADDRESSES).collect();
        if dialled.len() < known.len() {
            name.next = (name.next + dialled.len() - usize::from(good.is_some())) % known.len();
        }
        dialled
    }

    /// A dial to this address has led to a lane.
    pub(super) fn handle_good(&mut self, peer: PathKey, address: SocketAddr) {
        if let Some(name) = self.peers.get_mut(&peer).filter(|name| name.addresses.contains(&address)) {
            name.good = Some(address);
        }
    }

    /// The known addresses of all peers.
    pub(super) fn all_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.peers.values().flat_map(|name| name.addresses.iter().copied())
    }

    /// Returns a look-up to start now, if one is due and the bounds allow.
    pub(super) fn poll_look_up(&mut self, now: Instant) -> Option<LookUp> {
        if !self.has_room() {
            return None;
        }
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        let (at, peer) = *due.into_iter().find(|(_, peer)| self.threads_of(peer) < MAX_THREADS_PER_NAME)?;
        self.due.remove(&(at, peer));
        let name = self.peers.get_mut(&peer)?;
        self.last_number += 1;
        let number = self.last_number;
        name.state = State::UnderWay { number };
        let target = name.target.clone();
        self.under_way
            .insert(number, UnderWay { peer, target: target.clone(), since: now, timed_out: false });
        Some(LookUp { number, target })
    }

    /// Handles the result of a look-up. `None` if it no longer matters.
    pub(super) fn handle_answer(&mut self, now: Instant, number: u64, answer: Answer) -> Option<NameEvent> {
        let UnderWay { peer, target, .. } = self.under_way.remove(&number)?;
        let name = self.peers.get_mut(&peer).filter(|name| name.target == target)?;
        let current = name.state == State::UnderWay { number };
        match answer {
            Ok(addresses) if !addresses.is_empty() => {
                // A late result, after the timeout, is as good as any.
                if let State::Due { at } = name.state {
                    self.due.remove(&(at, peer));
                }
                let addresses = Endpoint::at_ports(&interleave(addresses), &name.target.ports);
                (name.addresses, name.next) = (addresses, 0);
                name.state = State::Idle { not_before: Some(now + ADDRESS_LIFETIME) };
                Some(NameEvent::Resolved(peer))
            }
            _ if !current => None,
            Ok(_) => Some(self.failed(now, peer, "it has no addresses")),
            Err(reason) => Some(self.failed(now, peer, &reason)),
        }
    }

    /// Ends a look-up that exceeds its time limit, if there is one.
    pub(super) fn poll_timed_out(&mut self, now: Instant) -> Option<NameEvent> {
        let late = |under_way: &&mut UnderWay| {
            !under_way.timed_out && now.saturating_since(under_way.since) >= LOOK_UP_TIMEOUT
        };
        while let Some(under_way) = self.under_way.values_mut().find(late) {
            under_way.timed_out = true;
            let (peer, target) = (under_way.peer, under_way.target.clone());
            if self.peers.get(&peer).is_some_and(|name| name.target == target) {
                let reason = format!("no answer from the resolver in {} s", LOOK_UP_TIMEOUT.as_secs());
                return Some(self.failed(now, peer, &reason));
            }
        }
        None
    }

    /// The time of the next poll.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let timeout = self.under_way.values().find(|under_way| !under_way.timed_out);
        let timeout = timeout.map(|under_way| under_way.since + LOOK_UP_TIMEOUT);
        // At the bounds, only an answer or a timeout allows another look-up.
        let due = self.due.iter().find(|(_, peer)| self.threads_of(peer) < MAX_THREADS_PER_NAME);
        let due = due.filter(|_| self.has_room()).map(|(at, _)| *at);
        due.into_iter().chain(timeout).min()
    }

    fn has_room(&self) -> bool {
        let active = self.under_way.values().filter(|under_way| !under_way.timed_out).count();
        active < MAX_ACTIVE && self.under_way.len() < MAX_THREADS
    }

    fn threads_of(&self, peer: &PathKey) -> usize {
        self.under_way.values().filter(|under_way| under_way.peer == *peer).count()
    }

    fn failed(&mut self, now: Instant, peer: PathKey, reason: &str) -> NameEvent {
        let mut host = String::new();
        if let Some(name) = self.peers.get_mut(&peer) {
            host.clone_from(&name.target.host);
            let at = now + RETRY_DELAY;
            if now.saturating_since(name.asked_at) < RETRY_TIME {
                name.state = State::Due { at };
                self.due.insert((at, peer));
            } else {
                name.state = State::Idle { not_before: Some(at) };
            }
        }
        NameEvent::Failed(peer, format!("cannot resolve {host}: {reason}"))
    }
}

/// The families in turn, the one of the first address first; the order within each stays (RFC 8305 §4).
fn interleave(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_ipv4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv4() == first_is_ipv4);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let turns = std::iter::from_fn(|| {
        let turn: Vec<_> = first.next().into_iter().chain(second.next()).collect();
        (!turn.is_empty()).then_some(turn)
    });
    turns.flatten().collect()
}

#[cfg(test)]
mod tests {
    use trunkline_units::Rng;

    use super::*;
    use crate::keys::PublicKey;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn peer(number: u16) -> PathKey {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        PublicKey::from_bytes(bytes).into()
    }

    fn names(count: u16) -> Names {
        let mut names = Names::default();
        let target = |number| Target { host: format!("site{number}.example"), ports: vec![4600] };
        names.set_targets(at(0), (0..count).map(|number| (peer(number), target(number))).collect());
        names
    }

    fn addresses(last: u8) -> Vec<SocketAddr> {
        vec![SocketAddr::from(([192, 0, 2, last], 4600)), SocketAddr::from(([192, 0, 2, last + 1], 4600))]
    }

    #[test]
    fn a_failure_is_retried_after_five_seconds_without_another_request() {
        let mut names = names(1);
        assert_eq!(names.addresses(at(0), peer(0)), []);
        let first = names.poll_look_up(at(0)).expect("it is looked up");
        let news = names.handle_answer(at(1), first.number, Err("no such host".to_owned()));
        let reason = "cannot resolve site0.example: no such host".to_owned();
        assert_eq!(news, Some(NameEvent::Failed(peer(0), reason)));
        assert_eq!(names.poll_timeout(), Some(at(6)), "the loop wakes for it");
        assert_eq!(names.poll_look_up(at(5)), None);
        let second = names.poll_look_up(at(6)).expect("it is looked up again");
        names.handle_answer(at(6), second.number, Ok(addresses(1)));
        assert_eq!(names.addresses(at(6), peer(0)), addresses(1));
        assert_eq!(names.poll_timeout(), None);
    }

    #[test]
    fn a_name_without_addresses_is_a_failure() {
        let mut names = names(1);
        names.addresses(at(0), peer(0));
        let look_up = names.poll_look_up(at(0)).expect("it is looked up");
        let news = names.handle_answer(at(0), look_up.number, Ok(Vec::new()));
        assert!(matches!(news, Some(NameEvent::Failed(..))), "{news:?}");
        assert_eq!(names.poll_timeout(), Some(at(5)));
    }

    #[test]
    fn addresses_are_looked_up_anew_when_they_do_not_help() {
        let mut names = names(1);
        names.addresses(at(0), peer(0));
        let look_up = names.poll_look_up(at(0)).expect("it is looked up");
        names.handle_answer(at(0), look_up.number, Ok(addresses(1)));
        assert_eq!(names.addresses(at(1), peer(0)), addresses(1));
        assert_eq!(names.poll_look_up(at(29)), None, "they are fresh");
        assert_eq!(names.addresses(at(30), peer(0)), addresses(1), "the old ones do meanwhile");
        assert!(names.poll_look_up(at(30)).is_some());
        names.addresses(at(31), peer(0));
        assert_eq!(names.poll_look_up(at(31)), None, "one look-up at a time");
    }

    /// The addresses of a name that has these.
    fn resolved(texts: &[&str]) -> Names {
        let mut names = names(1);
        names.addresses(at(0), peer(0));
        let look_up = names.poll_look_up(at(0)).expect("it is looked up");
        names.handle_answer(at(0), look_up.number, Ok(texts.iter().map(|text| address(text)).collect()));
        names
    }

    fn address(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().expect("an address"), 4600)
    }

    fn dialled(names: &mut Names) -> Vec<String> {
        names.addresses(at(1), peer(0)).iter().map(|address| address.ip().to_string()).collect()
    }

    #[test]
    fn families_take_turns_and_what_led_to_a_lane_is_first() {
        let mut names = resolved(&["2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2"]);
        assert_eq!(dialled(&mut names), ["2001:db8::1", "192.0.2.1", "2001:db8::2", "192.0.2.2"]);
        names.handle_good(peer(0), address("192.0.2.2"));
        let good_first = ["192.0.2.2", "2001:db8::1", "192.0.2.1", "2001:db8::2"];
        assert_eq!(dialled(&mut names), good_first);
        assert_eq!(dialled(&mut names), good_first, "all are dialled each time");
        names.handle_good(peer(0), address("192.0.2.9"));
        assert_eq!(dialled(&mut names), good_first, "one of another name");
        // A later answer without it.
        names.addresses(at(40), peer(0));
        let look_up = names.poll_look_up(at(40)).expect("it is looked up");
        names.handle_answer(at(40), look_up.number, Ok(vec![address("192.0.2.1"), address("2001:db8::1")]));
        assert_eq!(dialled(&mut names), ["192.0.2.1", "2001:db8::1"]);
    }

    #[test]
    fn all_addresses_are_dialled_at_the_first_port_before_any_at_the_next() {
        let mut names = Names::default();
        let target = |host: &str| Target { host: host.to_owned(), ports: vec![4600, 443] };
        names.set_targets(
            at(0),
            [
                (peer(0), target("192.0.2.1")),
                (peer(1), target("a.example")),
                (peer(2), target("2001:db8::1")),
            ]
            .into(),
        );
        let text = |names: &mut Names, number| {
            let addresses = names.addresses(at(1), peer(number));
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text(&mut names, 0), "192.0.2.1:4600 192.0.2.1:443", "without a look-up");
        assert_eq!(text(&mut names, 2), "[2001:db8::1]:4600 [2001:db8::1]:443");
        assert_eq!(text(&mut names, 1), "");
        let look_up = names.poll_look_up(at(1)).expect("of the name alone");
        assert_eq!(names.poll_look_up(at(1)), None);
        names.handle_answer(at(1), look_up.number, Ok(addresses(1)));
        assert_eq!(text(&mut names, 1), "192.0.2.1:4600 192.0.2.2:4600 192.0.2.1:443 192.0.2.2:443");
        names.handle_good(peer(0), SocketAddr::from(([192, 0, 2, 1], 443)));
        assert_eq!(text(&mut names, 0), "192.0.2.1:443 192.0.2.1:4600", "what led to a lane");
        assert_eq!((names.poll_look_up(at(99)), names.all_addresses().count()), (None, 8));
    }

    #[test]
    fn of_many_addresses_each_dial_takes_those_that_follow() {
        let texts: Vec<String> = (1..=6).map(|last| format!("192.0.2.{last}")).collect();
        let mut names = resolved(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let last = |names: &mut Names| -> Vec<u8> {
            dialled(names).iter().filter_map(|text| text.rsplit('.').next()?.parse().ok()).collect()
        };
        assert_eq!([last(&mut names), last(&mut names)], [[1, 2, 3, 4], [5, 6, 1, 2]]);
        names.handle_good(peer(0), address("192.0.2.2"));
        let tried: BTreeSet<u8> = (0..3).flat_map(|_| last(&mut names)).collect();
        assert_eq!((last(&mut names)[0], tried.len()), (2, 6));
    }

    #[test]
    fn without_requests_nothing_is_looked_up() {
        let mut names = names(3);
        assert_eq!((names.poll_look_up(at(0)), names.poll_timeout()), (None, None));
        names.addresses(at(0), peer(1));
        let mut last = 0;
        for second in 0..600 {
            while let Some(look_up) = names.poll_look_up(at(second)) {
                names.handle_answer(at(second), look_up.number, Err("no".to_owned()));
                last = second;
            }
        }
        assert!((40..=80).contains(&last), "it continues until {last}");
    }

    #[test]
    fn a_resolver_that_hangs_for_some_names_does_not_stop_others() {
        let mut names = names(300);
        let hangs = |host: &str| ["site1.example", "site150.example", "site299.example"].contains(&host);
        let (mut resolved, mut max) = (BTreeSet::new(), 0);
        for second in 0..2_000 {
            for number in 0..300 {
                names.addresses(at(second), peer(number));
            }
            while names.poll_timed_out(at(second)).is_some() {}
            while let Some(look_up) = names.poll_look_up(at(second)) {
                if !hangs(&look_up.target.host) {
                    names.handle_answer(at(second), look_up.number, Ok(addresses(1)));
                    resolved.insert(look_up.target.host);
                }
            }
            max = max.max(names.under_way.len());
        }
        assert_eq!(resolved.len(), 297);
        assert_eq!(max, 3 * MAX_THREADS_PER_NAME, "threads that hang");
    }

    #[test]
    fn a_thousand_names_are_all_looked_up_a_few_at_a_time() {
        let mut names = names(1_000);
        for number in 0..1_000 {
            names.addresses(at(0), peer(number));
        }
        let (mut done, mut now) = (0, 0);
        while done < 1_000 {
            let batch: Vec<LookUp> = std::iter::from_fn(|| names.poll_look_up(at(now))).collect();
            assert!(!batch.is_empty() && batch.len() <= MAX_ACTIVE, "{}", batch.len());
            done += batch.len();
            now += 1;
            for look_up in batch {
                names.handle_answer(at(now), look_up.number, Ok(addresses(1)));
            }
        }
        assert_eq!(names.all_addresses().count(), 2_000);
    }

    #[test]
    fn a_reload_forgets_answers_to_what_is_no_longer_asked() {
        let mut names = names(1);
        names.addresses(at(0), peer(0));
        let old = names.poll_look_up(at(0)).expect("it is looked up");
        let other = Target { host: "other.example".to_owned(), ports: vec![1] };
        names.set_targets(at(0), [(peer(0), other.clone())].into());
        assert_eq!(names.handle_answer(at(1), old.number, Ok(addresses(1))), None);
        assert_eq!(names.addresses(at(1), peer(0)), []);
        assert_eq!(names.poll_look_up(at(1)).expect("it is looked up").target, other);
        names.set_targets(at(2), BTreeMap::new());
        assert_eq!((names.addresses(at(2), peer(0)), names.poll_look_up(at(2))), (Vec::new(), None));
    }

    #[test]
    fn whatever_happens_there_is_a_wake_for_what_is_due_and_the_bounds_hold() {
        for seed in 0..40 {
            let mut rng = Rng::new(seed, "names");
            let mut names = names(20);
            let mut out: Vec<u64> = Vec::new();
            for second in 0..400 {
                let now = at(second);
                names.addresses(now, peer((rng.uniform() * 20.0) as u16));
                while names.poll_timed_out(now).is_some() {}
                out.extend(std::iter::from_fn(|| names.poll_look_up(now)).map(|look_up| look_up.number));
                let active = names.under_way.values().filter(|one| !one.timed_out).count();
                assert!(active <= MAX_ACTIVE && names.under_way.len() <= MAX_THREADS, "seed {seed}");
                if let Some(wake) = names.poll_timeout() {
                    assert!(wake > now, "seed {seed}: it would spin");
                } else {
                    assert!(
                        names.due.is_empty() || names.under_way.len() == MAX_THREADS || active == 0,
                        "seed {seed}"
                    );
                }
                for (key, name) in &names.peers {
                    assert_eq!(
                        matches!(name.state, State::Due { at } if names.due.contains(&(at, *key))),
                        matches!(name.state, State::Due { .. }),
                        "seed {seed}"
                    );
                }
                if rng.uniform() < 0.3 && !out.is_empty() {
                    let number = out.swap_remove((rng.uniform() * out.len() as f64) as usize);
                    let answer = if rng.uniform() < 0.5 { Ok(addresses(1)) } else { Err("no".to_owned()) };
                    names.handle_answer(now, number, answer);
                }
            }
        }
    }
}
