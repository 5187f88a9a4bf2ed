//! When which name is looked up: the policy, without threads, sockets or a clock.
//!
//! A name is looked up when somebody asks for its addresses and there are none, or they are old. A failure is tried
//! again [`RETRY_DELAY`] later for as long as somebody asks. Look-ups take place in threads that block, for as long as a resolver
//! likes, so there are bounds: [`MAX_ACTIVE`] over all names; one that takes longer than [`LOOK_UP_TIMEOUT`] is given up and makes
//! room for others, though its thread is still there, up to [`MAX_THREADS`] threads in all and two for each name. So a resolver
//! that never answers for one name leaves the others theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use trunkline_units::Instant;

use crate::keys::PublicKey;

/// How long addresses stay good while somebody asks for more: they did not help.
const ADDRESS_LIFETIME: Duration = Duration::from_secs(30);
/// How long after a failure a name is looked up again.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(5);
/// How long a name is looked up again after failures without anybody asking for it.
const RETRY_TIME: Duration = Duration::from_secs(60);
/// Look-ups at one time.
const MAX_ACTIVE: usize = 8;
/// A look-up that takes longer is given up.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(30);
/// Look-ups with those that were given up.
const MAX_THREADS: usize = 32;
/// Look-ups of one name with those that were given up.
const MAX_THREADS_PER_NAME: usize = 2;

/// A host and port to look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
}

/// A look-up to begin. Its outcome goes to [`Names::handle_answer`] with its number, whenever it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LookUp {
    pub(super) number: u64,
    pub(super) target: Target,
}

/// What came of a look-up: addresses, of which there may be none, or the reason.
pub(super) type Answer = Result<Vec<SocketAddr>, String>;

/// NameEvent of a peer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NameEvent {
    /// It has addresses.
    Resolved(PublicKey),
    /// It has no new ones, for this reason.
    Failed(PublicKey, String),
}

#[derive(Debug)]
struct Name {
    target: Target,
    addresses: Vec<SocketAddr>,
    /// Which address is tried next.
    next: usize,
    asked_at: Instant,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Looked up the next time somebody asks, but not before.
    Idle { not_before: Option<Instant> },
    /// To be looked up as soon as there is room, from then on.
    Due { at: Instant },
    /// Being looked up.
    UnderWay { number: u64 },
}

#[derive(Debug)]
struct UnderWay {
    peer: PublicKey,
    target: Target,
    since: Instant,
    timed_out: bool,
}

/// The names of peers.
#[derive(Debug, Default)]
pub(super) struct Names {
    peers: BTreeMap<PublicKey, Name>,
    due: BTreeSet<(Instant, PublicKey)>,
    /// By number, which is by age.
    under_way: BTreeMap<u64, UnderWay>,
    last_number: u64,
}

impl Names {
    /// Has these names from now on. One that is new or another than before is unknown.
    pub(super) fn set_targets(&mut self, now: Instant, targets: BTreeMap<PublicKey, Target>) {
        self.peers.retain(|peer, name| targets.get(peer) == Some(&name.target));
        for (peer, target) in targets {
            let new = || Name {
                target,
                addresses: Vec::new(),
                next: 0,
                asked_at: now,
                state: State::Idle { not_before: None },
            };
            self.peers.entry(peer).or_insert_with(new);
        }
        let due = self.peers.iter().filter_map(|(peer, name)| match name.state {
            State::Due { at } => Some((at, *peer)),
            _ => None,
        });
        self.due = due.collect();
    }

    /// An address of the peer, another one each time, and more are looked up if these are old. `None` if there is none yet.
    pub(super) fn address(&mut self, now: Instant, peer: PublicKey) -> Option<SocketAddr> {
        let name = self.peers.get_mut(&peer)?;
        name.asked_at = now;
        if let State::Idle { not_before } = name.state {
            let at = not_before.map_or(now, |at| at.max(now));
            if at <= now {
                name.state = State::Due { at };
                self.due.insert((at, peer));
            }
        }
        let count = name.addresses.len();
        (count > 0).then(|| {
            let address = name.addresses[name.next % count];
            name.next = (name.next + 1) % count;
            address
        })
    }

    /// The addresses that are known of all peers.
    pub(super) fn all_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.peers.values().flat_map(|name| name.addresses.iter().copied())
    }

    /// A look-up to begin now, if one is due and there is room.
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

    /// What came of a look-up. `None` if nobody wants to know any more.
    pub(super) fn handle_answer(&mut self, now: Instant, number: u64, answer: Answer) -> Option<NameEvent> {
        let UnderWay { peer, target, .. } = self.under_way.remove(&number)?;
        let name = self.peers.get_mut(&peer).filter(|name| name.target == target)?;
        let current = name.state == State::UnderWay { number };
        match answer {
            Ok(addresses) if !addresses.is_empty() => {
                // Also from one that was given up: late is better than never.
                if let State::Due { at } = name.state {
                    self.due.remove(&(at, peer));
                }
                (name.addresses, name.next) = (addresses, 0);
                name.state = State::Idle { not_before: Some(now + ADDRESS_LIFETIME) };
                Some(NameEvent::Resolved(peer))
            }
            _ if !current => None,
            Ok(_) => Some(self.failed(now, peer, "it has no addresses")),
            Err(reason) => Some(self.failed(now, peer, &reason)),
        }
    }

    /// Gives up a look-up that takes too long, if there is one.
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

    /// When to poll again.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let patience = self.under_way.values().find(|under_way| !under_way.timed_out);
        let patience = patience.map(|under_way| under_way.since + LOOK_UP_TIMEOUT);
        // Without room an answer or the end of patience is what to wait for.
        let due = self.due.iter().find(|(_, peer)| self.threads_of(peer) < MAX_THREADS_PER_NAME);
        let due = due.filter(|_| self.has_room()).map(|(at, _)| *at);
        due.into_iter().chain(patience).min()
    }

    fn has_room(&self) -> bool {
        let active = self.under_way.values().filter(|under_way| !under_way.timed_out).count();
        active < MAX_ACTIVE && self.under_way.len() < MAX_THREADS
    }

    fn threads_of(&self, peer: &PublicKey) -> usize {
        self.under_way.values().filter(|under_way| under_way.peer == *peer).count()
    }

    fn failed(&mut self, now: Instant, peer: PublicKey, reason: &str) -> NameEvent {
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

#[cfg(test)]
mod tests {
    use trunkline_units::Rng;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn peer(number: u16) -> PublicKey {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        PublicKey::from_bytes(bytes)
    }

    fn names(count: u16) -> Names {
        let mut names = Names::default();
        let target = |number| Target { host: format!("site{number}.example"), port: 4600 };
        names.set_targets(at(0), (0..count).map(|number| (peer(number), target(number))).collect());
        names
    }

    fn addresses(last: u8) -> Vec<SocketAddr> {
        vec![SocketAddr::from(([192, 0, 2, last], 4600)), SocketAddr::from(([192, 0, 2, last + 1], 4600))]
    }

    #[test]
    fn a_failure_is_tried_again_after_five_seconds_without_anybody_asking() {
        let mut names = names(1);
        assert_eq!(names.address(at(0), peer(0)), None);
        let first = names.poll_look_up(at(0)).expect("it is looked up");
        let news = names.handle_answer(at(1), first.number, Err("no such host".to_owned()));
        let reason = "cannot resolve site0.example: no such host".to_owned();
        assert_eq!(news, Some(NameEvent::Failed(peer(0), reason)));
        assert_eq!(names.poll_timeout(), Some(at(6)), "the loop wakes for it");
        assert_eq!(names.poll_look_up(at(5)), None);
        let second = names.poll_look_up(at(6)).expect("it is looked up again");
        names.handle_answer(at(6), second.number, Ok(addresses(1)));
        assert_eq!(names.address(at(6), peer(0)), Some(addresses(1)[0]));
        assert_eq!(names.poll_timeout(), None);
    }

    #[test]
    fn a_name_without_addresses_is_a_failure() {
        let mut names = names(1);
        names.address(at(0), peer(0));
        let look_up = names.poll_look_up(at(0)).expect("it is looked up");
        let news = names.handle_answer(at(0), look_up.number, Ok(Vec::new()));
        assert!(matches!(news, Some(NameEvent::Failed(..))), "{news:?}");
        assert_eq!(names.poll_timeout(), Some(at(5)));
    }

    #[test]
    fn addresses_are_tried_in_turn_and_looked_up_anew_when_they_do_not_help() {
        let mut names = names(1);
        names.address(at(0), peer(0));
        let look_up = names.poll_look_up(at(0)).expect("it is looked up");
        names.handle_answer(at(0), look_up.number, Ok(addresses(1)));
        let tried: Vec<_> = (0..4).filter_map(|_| names.address(at(1), peer(0))).collect();
        assert_eq!(tried, [addresses(1), addresses(1)].concat());
        assert_eq!(names.poll_look_up(at(29)), None, "they are fresh");
        assert!(names.address(at(30), peer(0)).is_some(), "the old ones do meanwhile");
        assert!(names.poll_look_up(at(30)).is_some());
        names.address(at(31), peer(0));
        assert_eq!(names.poll_look_up(at(31)), None, "one look-up at a time");
    }

    #[test]
    fn nobody_asks_and_nothing_is_looked_up() {
        let mut names = names(3);
        assert_eq!((names.poll_look_up(at(0)), names.poll_timeout()), (None, None));
        names.address(at(0), peer(1));
        let mut last = 0;
        for second in 0..600 {
            while let Some(look_up) = names.poll_look_up(at(second)) {
                names.handle_answer(at(second), look_up.number, Err("no".to_owned()));
                last = second;
            }
        }
        assert!((40..=80).contains(&last), "it goes on until {last}");
    }

    #[test]
    fn a_resolver_that_hangs_for_some_names_does_not_stop_others() {
        let mut names = names(300);
        let hangs = |host: &str| ["site1.example", "site150.example", "site299.example"].contains(&host);
        let (mut resolved, mut most) = (BTreeSet::new(), 0);
        for second in 0..2_000 {
            for number in 0..300 {
                names.address(at(second), peer(number));
            }
            while names.poll_timed_out(at(second)).is_some() {}
            while let Some(look_up) = names.poll_look_up(at(second)) {
                if !hangs(&look_up.target.host) {
                    names.handle_answer(at(second), look_up.number, Ok(addresses(1)));
                    resolved.insert(look_up.target.host);
                }
            }
            most = most.max(names.under_way.len());
        }
        assert_eq!(resolved.len(), 297);
        assert_eq!(most, 3 * MAX_THREADS_PER_NAME, "threads that hang");
    }

    #[test]
    fn a_thousand_names_are_all_looked_up_a_few_at_a_time() {
        let mut names = names(1_000);
        for number in 0..1_000 {
            names.address(at(0), peer(number));
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
        names.address(at(0), peer(0));
        let old = names.poll_look_up(at(0)).expect("it is looked up");
        let other = Target { host: "other.example".to_owned(), port: 1 };
        names.set_targets(at(0), [(peer(0), other.clone())].into());
        assert_eq!(names.handle_answer(at(1), old.number, Ok(addresses(1))), None);
        assert_eq!(names.address(at(1), peer(0)), None);
        assert_eq!(names.poll_look_up(at(1)).expect("it is looked up").target, other);
        names.set_targets(at(2), BTreeMap::new());
        assert_eq!((names.address(at(2), peer(0)), names.poll_look_up(at(2))), (None, None));
    }

    #[test]
    fn whatever_happens_there_is_a_wake_for_what_is_due_and_the_bounds_hold() {
        for seed in 0..40 {
            let mut rng = Rng::new(seed, "names");
            let mut names = names(20);
            let mut out: Vec<u64> = Vec::new();
            for second in 0..400 {
                let now = at(second);
                names.address(now, peer((rng.uniform() * 20.0) as u16));
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
