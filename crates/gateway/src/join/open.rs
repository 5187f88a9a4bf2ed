//! The invitations of a running site: which are open, who has come with them, and what became of those that are not.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_units::Instant;

use crate::handshake::Join;
use crate::keys::PublicKey;

/// The maximum number of open invitations.
const MAX_OPEN: usize = 16;
/// The maximum number of ended ones that are remembered, to tell who comes with one why it is refused.
const MAX_ENDED: usize = 64;
/// How long the command that has opened an invitation may take to write the new peer into the site's file.
const DECISION_TIME: Duration = Duration::from_secs(15);

/// The state of an invitation.
#[derive(Debug)]
enum State {
    /// Nobody has come with it yet. `client`: the connection of the command that waits.
    Open { client: u64 },
    /// A site has come, on this connection, and the command writes it into the file.
    Asked { join: Join, connection: u64, until: Instant },
    /// This site has joined by it.
    Used { by: PublicKey },
    /// It has ended, and why.
    Ended(&'static str),
}

#[derive(Debug)]
struct Entry {
    expires: Instant,
    state: State,
}

/// What becomes of a site that has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The command behind this connection is asked, and the site waits.
    Ask { client: u64 },
    /// It waits already.
    Wait,
    /// It is a peer.
    Joined,
    /// It is refused; the words are for its command line.
    Refuse(String),
}

/// What happens when a time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// The command behind this connection has waited in vain.
    Expired { client: u64 },
    /// The site on this connection gets no answer from the command.
    Unanswered { connection: u64 },
}

/// All of them, by the public half of their key.
#[derive(Debug, Default)]
pub(crate) struct Invitations {
    entries: BTreeMap<PublicKey, Entry>,
}

impl Invitations {
    /// Their keys, which the site admits to its handshake: those that have ended too, so that who comes is told why.
    pub(crate) fn keys(&self) -> impl Iterator<Item = PublicKey> {
        self.entries.keys().copied()
    }

    /// Opens one for the command behind `client`.
    pub(crate) fn open(&mut self, key: PublicKey, client: u64, expires: Instant) -> Result<(), String> {
        let open = self.entries.values().filter(|entry| matches!(entry.state, State::Open { .. })).count();
        if open >= MAX_OPEN {
            return Err(format!("{MAX_OPEN} invitations are open; end one of the commands that wait"));
        }
        if self.entries.contains_key(&key) {
            return Err("there is an invitation with this key".to_owned());
        }
        let ended = self.entries.iter().filter(|(_, entry)| entry.is_over());
        let ended: Vec<(Instant, PublicKey)> = ended.map(|(key, entry)| (entry.expires, *key)).collect();
        if ended.len() >= MAX_ENDED
            && let Some((_, oldest)) = ended.into_iter().min()
        {
            self.entries.remove(&oldest);
        }
        self.entries.insert(key, Entry { expires, state: State::Open { client } });
        Ok(())
    }

    /// A site has come with the invitation of this key, on this connection. `is_peer` says whether a key is a peer's.
    pub(crate) fn handle_join(
        &mut self,
        now: Instant,
        key: &PublicKey,
        join: &Join,
        connection: u64,
        is_peer: impl Fn(&PublicKey) -> bool,
    ) -> Verdict {
        let refuse = |why: &str| Verdict::Refuse(why.to_owned());
        let Some(entry) = self.entries.get_mut(key) else {
            return refuse("this site does not know the invitation");
        };
        match &mut entry.state {
            State::Open { .. } if entry.expires <= now => refuse(EXPIRED),
            State::Open { client } => {
                let client = *client;
                let until = now + DECISION_TIME;
                entry.state = State::Asked { join: join.clone(), connection, until };
                Verdict::Ask { client }
            }
            // The site's command was run again before it was answered.
            State::Asked { join: first, connection: waiting, .. } if first.key == join.key => {
                *waiting = connection;
                Verdict::Wait
            }
            State::Asked { .. } => refuse("another site is joining with this invitation"),
            State::Used { by } if *by == join.key && is_peer(by) => Verdict::Joined,
            State::Used { by } => Verdict::Refuse(format!("it has been used, by the site with key {by}")),
            State::Ended(why) => refuse(why),
        }
    }

    /// The connection of a command has ended. Whether an invitation was open for it, which has ended too.
    pub(crate) fn handle_client_gone(&mut self, client: u64) -> bool {
        let open = |entry: &&mut Entry| matches!(entry.state, State::Open { client: it } if it == client);
        let found = self.entries.values_mut().find(open);
        let is_open = found.is_some();
        if let Some(entry) = found {
            entry.state = State::Ended("the command that waited for it at the other site was ended");
        }
        is_open
    }

    /// The command has decided against the site that has come: the connection to tell.
    pub(crate) fn handle_declined(&mut self, key: &PublicKey) -> Option<u64> {
        let entry = self.entries.get_mut(key)?;
        let State::Asked { connection, .. } = entry.state else { return None };
        entry.state = State::Ended("the other site has declined it");
        Some(connection)
    }

    /// The site's file has been read again: the connections of the sites that are peers now.
    pub(crate) fn handle_reloaded(&mut self, is_peer: impl Fn(&PublicKey) -> bool) -> Vec<u64> {
        let mut joined = Vec::new();
        for entry in self.entries.values_mut() {
            if let State::Asked { join, connection, .. } = &entry.state
                && is_peer(&join.key)
            {
                joined.push(*connection);
                entry.state = State::Used { by: join.key };
            }
        }
        joined
    }

    /// What is due, one after the other.
    pub(crate) fn poll_due(&mut self, now: Instant) -> Option<Due> {
        let entry = self.entries.values_mut().find(|entry| entry.due().is_some_and(|at| at <= now))?;
        let (due, why) = match entry.state {
            State::Open { client } => (Due::Expired { client }, EXPIRED),
            State::Asked { connection, .. } => (Due::Unanswered { connection }, UNANSWERED),
            State::Used { .. } | State::Ended(_) => return None,
        };
        entry.state = State::Ended(why);
        Some(due)
    }

    /// The next time at which something is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.entries.values().filter_map(Entry::due).min()
    }
}

/// What a site is told whose invitation has expired.
const EXPIRED: &str = "it has expired";
/// What a site is told if the command at the other site does not decide.
pub(crate) const UNANSWERED: &str = "the command at the other site did not answer; see its terminal";

impl Entry {
    fn due(&self) -> Option<Instant> {
        match self.state {
            State::Open { .. } => Some(self.expires),
            State::Asked { until, .. } => Some(until),
            State::Used { .. } | State::Ended(_) => None,
        }
    }

    const fn is_over(&self) -> bool {
        matches!(self.state, State::Used { .. } | State::Ended(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH: PublicKey = PublicKey::from_bytes([1; 32]);
    const CLIENT: u64 = 7;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn site(byte: u8) -> Join {
        let prefixes = vec!["10.2.0.0/16".parse().unwrap()];
        Join { key: PublicKey::from_bytes([byte; 32]), name: format!("site-{byte}"), prefixes }
    }

    fn open() -> Invitations {
        let mut invitations = Invitations::default();
        invitations.open(WITH, CLIENT, at(100)).unwrap();
        invitations
    }

    fn nobody(_: &PublicKey) -> bool {
        false
    }

    fn refusal(verdict: Verdict) -> String {
        match verdict {
            Verdict::Refuse(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_site_joins_once_the_file_has_it() {
        let mut invitations = open();
        assert_eq!(invitations.keys().collect::<Vec<_>>(), [WITH]);
        assert_eq!(
            invitations.handle_join(at(1), &WITH, &site(2), 30, nobody),
            Verdict::Ask { client: CLIENT }
        );
        assert!(invitations.handle_reloaded(nobody).is_empty(), "another reload");
        assert_eq!(invitations.handle_reloaded(|key| *key == site(2).key), [30]);
        assert!(invitations.handle_reloaded(|_| true).is_empty(), "once");
        let again = invitations.handle_join(at(2), &WITH, &site(2), 31, |_| true);
        assert_eq!(again, Verdict::Joined, "the answer was lost, and the command is run again");
        let other = refusal(invitations.handle_join(at(2), &WITH, &site(3), 32, |_| true));
        assert!(other.contains("has been used") && other.contains(&site(2).key.to_string()), "{other}");
    }

    #[test]
    fn of_two_sites_at_once_the_first_joins() {
        let mut invitations = open();
        assert_eq!(
            invitations.handle_join(at(1), &WITH, &site(2), 30, nobody),
            Verdict::Ask { client: CLIENT }
        );
        assert!(
            refusal(invitations.handle_join(at(1), &WITH, &site(3), 31, nobody)).contains("another site")
        );
        assert_eq!(invitations.handle_join(at(1), &WITH, &site(2), 32, nobody), Verdict::Wait);
        assert_eq!(invitations.handle_reloaded(|_| true), [32], "the later connection of the same site");
    }

    #[test]
    fn it_ends_with_the_command_by_time_and_by_a_decision() {
        let mut invitations = open();
        assert!(!invitations.handle_client_gone(CLIENT + 1) && invitations.handle_client_gone(CLIENT));
        assert!(refusal(invitations.handle_join(at(1), &WITH, &site(2), 1, nobody)).contains("was ended"));

        let mut invitations = open();
        assert_eq!((invitations.poll_timeout(), invitations.poll_due(at(99))), (Some(at(100)), None));
        assert!(refusal(invitations.handle_join(at(100), &WITH, &site(2), 1, nobody)).contains("expired"));
        assert_eq!(invitations.poll_due(at(100)), Some(Due::Expired { client: CLIENT }));
        assert_eq!((invitations.poll_timeout(), invitations.poll_due(at(101))), (None, None));
        assert!(refusal(invitations.handle_join(at(101), &WITH, &site(2), 1, nobody)).contains("expired"));

        let mut invitations = open();
        assert_eq!(invitations.handle_declined(&WITH), None, "nobody has come");
        invitations.handle_join(at(1), &WITH, &site(2), 30, nobody);
        assert_eq!(invitations.handle_declined(&WITH), Some(30));
        assert!(refusal(invitations.handle_join(at(2), &WITH, &site(2), 1, nobody)).contains("declined"));
    }

    #[test]
    fn a_command_that_does_not_decide_keeps_nobody_waiting() {
        let mut invitations = open();
        invitations.handle_join(at(1), &WITH, &site(2), 30, nobody);
        assert!(!invitations.handle_client_gone(CLIENT), "it has its answer, and its connection ends");
        let due = at(1) + DECISION_TIME;
        assert_eq!(invitations.poll_timeout(), Some(due));
        assert_eq!(invitations.poll_due(due), Some(Due::Unanswered { connection: 30 }));
        assert!(invitations.handle_reloaded(|_| true).is_empty(), "too late");
    }

    #[test]
    fn there_are_not_many_of_them() {
        let key = |number: u64| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            PublicKey::from_bytes(bytes)
        };
        let mut invitations = Invitations::default();
        for number in 0..MAX_OPEN as u64 {
            invitations.open(key(number), number, at(1000)).unwrap();
        }
        assert!(invitations.open(key(99), 99, at(1000)).unwrap_err().contains("are open"));
        for number in 0..1000 {
            invitations.handle_client_gone(number);
            invitations.open(key(number + 100), number + 1, at(1000 + number)).unwrap();
        }
        assert!(invitations.keys().count() <= MAX_OPEN + MAX_ENDED + 1);
        assert!(invitations.open(key(1099), 5000, at(5000)).is_err(), "a key is used once");
    }
}
