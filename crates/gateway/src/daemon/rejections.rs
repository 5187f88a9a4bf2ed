//! Rejected callers: a list for `status`, and lines of the log at a limited rate.
//!
//! Any host can cause rejections, so memory and log are bounded. The list has [`MAX_ENTRIES`] entries; if it is full, the
//! address with the largest number of entries loses its oldest. The log has the first rejection after a quiet time at once,
//! and one line for all further rejections in each [`INTERVAL`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use trunkline_status::Rejected;
use trunkline_units::{Instant, source};

use crate::keys::PublicKey;

/// The maximum number of callers in the list.
const MAX_ENTRIES: usize = 32;
/// The maximum number of addresses that a line of the log counts.
const MAX_ADDRESSES: usize = 1000;
/// The interval of lines in the log.
const INTERVAL: Duration = Duration::from_secs(60);

/// Why a caller did not become a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// Its key belongs to no peer.
    UnknownKey,
    /// The handshake failed for another reason.
    Failed,
    /// It exceeded the time limit.
    TimedOut,
    /// It was closed to make room for another caller.
    Displaced,
}

impl Outcome {
    fn text(self) -> &'static str {
        match self {
            Outcome::UnknownKey => "with an unknown key",
            Outcome::Failed => "failed the handshake",
            Outcome::TimedOut => "took too long",
            Outcome::Displaced => "gave way to others",
        }
    }
}

#[derive(Debug)]
struct Entry {
    reason: String,
    count: u64,
    last: Instant,
}

/// The counts for the line of the log at the end of the interval.
#[derive(Debug, Default)]
struct Tally {
    outcomes: BTreeMap<Outcome, u64>,
    addresses: BTreeSet<IpAddr>,
    last: Option<(SocketAddr, String)>,
}

#[derive(Debug, Default)]
pub(super) struct Rejections {
    entries: BTreeMap<(IpAddr, Option<PublicKey>), Entry>,
    /// The counts since the last line of the log; `None` after an interval without rejections.
    tally: Option<(Instant, Tally)>,
}

impl Rejections {
    /// A handshake failed; `key` is the key that the caller claimed. Returns a line for the log, if one is due.
    pub(super) fn handle_failed(
        &mut self,
        now: Instant,
        caller: SocketAddr,
        key: Option<PublicKey>,
        reason: &str,
    ) -> Option<String> {
        let id = (caller.ip().to_canonical(), key);
        if !self.entries.contains_key(&id) {
            self.make_room();
        }
        let new = || Entry { reason: String::new(), count: 0, last: now };
        let entry = self.entries.entry(id).or_insert_with(new);
        (entry.count, entry.last) = (entry.count + 1, now);
        reason.clone_into(&mut entry.reason);
        let outcome = if key.is_some() { Outcome::UnknownKey } else { Outcome::Failed };
        self.count(now, caller, outcome, reason)
    }

    /// A caller was closed before it sent a key. Returns a line for the log, if one is due.
    pub(super) fn handle_closed(
        &mut self,
        now: Instant,
        caller: SocketAddr,
        outcome: Outcome,
    ) -> Option<String> {
        self.count(now, caller, outcome, outcome.text())
    }

    /// Returns a line for the log, if an interval with rejections has ended.
    pub(super) fn poll_line(&mut self, now: Instant) -> Option<String> {
        let (since, tally) = self.tally.take_if(|(since, _)| now.saturating_since(*since) >= INTERVAL)?;
        let (caller, reason) = tally.last?;
        self.tally = Some((now, Tally::default()));
        let total: u64 = tally.outcomes.values().sum();
        let more = if tally.addresses.len() >= MAX_ADDRESSES { " or more" } else { "" };
        let mut line = format!(
            "in {:.0} s {total} more callers from {}{more} addresses did not become lanes: ",
            now.saturating_since(since).as_secs_f64(),
            tally.addresses.len()
        );
        for (index, (outcome, count)) in tally.outcomes.iter().enumerate() {
            let _ = write!(line, "{}{count} {}", if index > 0 { ", " } else { "" }, outcome.text());
        }
        let _ = write!(line, "; the last, {caller}: {reason}");
        Some(line)
    }

    /// The time of the next poll.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.tally.as_ref().map(|(since, _)| *since + INTERVAL)
    }

    /// The list of rejected callers, the latest first.
    pub(super) fn list(&self, now: Instant) -> Vec<Rejected> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.last));
        let rejected = |((address, key), entry): (&(IpAddr, Option<PublicKey>), &Entry)| Rejected {
            address: address.to_string(),
            public_key: key.map(|key| key.to_string()),
            reason: entry.reason.clone(),
            count: entry.count,
            last_s: now.saturating_since(entry.last).as_secs_f64(),
        };
        entries.into_iter().map(rejected).collect()
    }

    fn count(&mut self, now: Instant, caller: SocketAddr, outcome: Outcome, reason: &str) -> Option<String> {
        let Some((_, tally)) = &mut self.tally else {
            self.tally = Some((now, Tally::default()));
            return Some(format!("{caller} did not become a lane: {reason}"));
        };
        *tally.outcomes.entry(outcome).or_default() += 1;
        if tally.addresses.len() < MAX_ADDRESSES {
            tally.addresses.insert(source(caller.ip()));
        }
        tally.last = Some((caller, reason.to_owned()));
        None
    }

    fn make_room(&mut self) {
        if self.entries.len() < MAX_ENTRIES {
            return;
        }
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (address, _) in self.entries.keys() {
            *counts.entry(source(*address)).or_default() += 1;
        }
        let max = counts.values().max();
        let of_largest = self.entries.iter().filter(|((address, _), _)| counts.get(&source(*address)) == max);
        let oldest = of_largest.min_by_key(|(_, entry)| entry.last).map(|(id, _)| *id);
        oldest.map(|id| self.entries.remove(&id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn caller(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().expect("an address"), 5000)
    }

    fn key(number: u8) -> PublicKey {
        PublicKey::from_bytes([number; 32])
    }

    #[test]
    fn the_first_is_logged_at_once_and_the_others_together() {
        let mut rejections = Rejections::default();
        let line = rejections.handle_failed(at(0), caller("192.0.2.1"), None, "TLS: nonsense");
        assert_eq!(line.as_deref(), Some("192.0.2.1:5000 did not become a lane: TLS: nonsense"));
        for second in 1..60 {
            let from = caller(&format!("192.0.2.{}", second % 3));
            assert_eq!(
                rejections.handle_failed(at(second), from, Some(key(1)), "no peer has the key x"),
                None
            );
            assert_eq!(rejections.handle_closed(at(second), from, Outcome::Displaced), None);
            assert_eq!(rejections.poll_line(at(second)), None);
        }
        assert_eq!(rejections.poll_timeout(), Some(at(60)));
        assert_eq!(
            rejections.poll_line(at(60)).as_deref(),
            Some(
                "in 60 s 118 more callers from 3 addresses did not become lanes: 59 with an unknown key, \
                 59 gave way to others; the last, 192.0.2.2:5000: gave way to others"
            )
        );
        // After an interval without rejections the next one is logged at once.
        assert_eq!(rejections.poll_line(at(120)), None);
        assert_eq!(rejections.poll_timeout(), None);
        assert!(rejections.handle_closed(at(121), caller("192.0.2.1"), Outcome::TimedOut).is_some());
    }

    #[test]
    fn a_flood_of_keys_from_one_address_leaves_the_others_listed() {
        let mut rejections = Rejections::default();
        rejections.handle_failed(at(0), caller("192.0.2.1"), Some(key(200)), "no peer has the key");
        rejections.handle_failed(at(0), caller("192.0.2.2"), None, "TLS: nonsense");
        for number in 0..150 {
            rejections.handle_failed(at(1), caller("203.0.113.9"), Some(key(number)), "no peer has the key");
        }
        rejections.handle_failed(at(2), caller("192.0.2.1"), Some(key(200)), "no peer has the key");
        let list = rejections.list(at(5));
        assert_eq!(list.len(), MAX_ENTRIES);
        assert_eq!((list[0].address.as_str(), list[0].count, list[0].last_s), ("192.0.2.1", 2, 3.0));
        assert_eq!(list[0].public_key, Some(key(200).to_string()));
        assert!(list.iter().any(|entry| entry.address == "192.0.2.2" && entry.public_key.is_none()));
    }
}
