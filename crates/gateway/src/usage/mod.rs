//! How many bytes the paths with a quota have carried in their present period, over restarts.
//!
//! Lanes come and go. Of each the total since it began is given again and again, and the difference counts. What is counted is written
//! as JSON and read at the next start.

mod period;

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use trunkline_units::Instant;

use crate::keys::PublicKey;
use crate::life::Serial;
pub use period::{Each, Period};

/// A clock that is behind the period that was counted last is taken for wrong for so long: a machine without a battery begins with any
/// time, and learns the right one from the network.
const CLOCK_PATIENCE: Duration = Duration::from_secs(3_600);

/// A path to a peer, by its name: numbers change with the configuration.
pub(crate) type UsedPath = (PublicKey, String);

/// What paths have carried.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    paths: BTreeMap<UsedPath, Used>,
    /// The total of each lane when it was looked at last.
    lanes: BTreeMap<Serial, u64>,
    is_changed: bool,
}

#[derive(Debug)]
struct Used {
    /// The first day of the period.
    since: NaiveDate,
    bytes: u64,
    /// What of it was given to be written.
    written: u64,
    /// Since when the clock has been before the period.
    behind_since: Option<Instant>,
}

/// The file, and one of its paths.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    paths: Vec<WrittenPath>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPath {
    peer: String,
    path: String,
    since: NaiveText,
    bytes: u64,
}

/// A date as text, `2026-11-30`.
#[derive(Clone, Copy)]
struct NaiveText(NaiveDate);

impl Serialize for NaiveText {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for NaiveText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(NaiveText).map_err(|_| serde::de::Error::custom(format!("{text:?} is no date")))
    }
}

impl Usage {
    /// What a file says.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let written: Written = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut usage = Usage::default();
        for WrittenPath { peer, path, since, bytes } in written.paths {
            let peer = peer.parse().map_err(|error| format!("peer {peer:?}: {error}"))?;
            usage
                .paths
                .insert((peer, path), Used { since: since.0, bytes, written: bytes, behind_since: None });
        }
        Ok(usage)
    }

    /// The file, if anything has changed since it was given last.
    pub(crate) fn take_text(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        for used in self.paths.values_mut() {
            used.written = used.bytes;
        }
        let path = |((peer, path), used): (&UsedPath, &Used)| WrittenPath {
            peer: peer.to_string(),
            path: path.clone(),
            since: NaiveText(used.since),
            bytes: used.bytes,
        };
        let written = Written { paths: self.paths.iter().map(path).collect() };
        serde_json::to_string_pretty(&written).ok().map(|text| text + "\n")
    }

    /// The file could not be written: it is to be given again.
    pub(crate) const fn handle_unwritten(&mut self) {
        self.is_changed = true;
    }

    /// A path is in the period that began on this day.
    pub(crate) fn handle_period(&mut self, now: Instant, path: &UsedPath, first_day: NaiveDate) {
        let Some(used) = self.paths.get_mut(path) else {
            self.paths
                .insert(path.clone(), Used { since: first_day, bytes: 0, written: 0, behind_since: None });
            self.is_changed = true;
            return;
        };
        if first_day >= used.since {
            used.behind_since = None;
        }
        if first_day > used.since {
            (used.since, used.bytes, used.written) = (first_day, 0, 0);
            self.is_changed = true;
        } else if first_day < used.since {
            let behind_since = *used.behind_since.get_or_insert(now);
            if now.saturating_since(behind_since) >= CLOCK_PATIENCE {
                // The clock was ahead when the period began, or its rule has changed. What was carried was carried.
                (used.since, used.behind_since) = (first_day, None);
                self.is_changed = true;
            }
        }
    }

    /// A lane on this path has carried so many bytes since it began.
    pub(crate) fn handle_total(&mut self, path: &UsedPath, lane: Serial, total: u64) {
        let before = self.lanes.insert(lane, total).unwrap_or_default();
        let more = total.saturating_sub(before);
        if let Some(used) = self.paths.get_mut(path).filter(|_| more > 0) {
            used.bytes = used.bytes.saturating_add(more);
            self.is_changed = true;
        }
    }

    /// These lanes are on paths that are counted, and no other is. What one had carried that was not before does not count.
    pub(crate) fn handle_lanes(&mut self, totals: impl Iterator<Item = (Serial, u64)>) {
        let before = std::mem::take(&mut self.lanes);
        self.lanes = totals.map(|(lane, total)| (lane, *before.get(&lane).unwrap_or(&total))).collect();
    }

    /// A lane has ended.
    pub(crate) fn handle_end(&mut self, lane: Serial) {
        self.lanes.remove(&lane);
    }

    /// What of it a process that is killed now would forget.
    pub(crate) fn unwritten(&self, path: &UsedPath) -> u64 {
        self.paths.get(path).map_or(0, |used| used.bytes.saturating_sub(used.written))
    }

    /// What a path has carried in its period.
    pub(crate) fn bytes(&self, path: &UsedPath) -> u64 {
        self.paths.get(path).map_or(0, |used| used.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SecretKey;

    fn date(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn lte() -> UsedPath {
        (SecretKey::generate().unwrap().public(), "lte".to_owned())
    }

    const START: Instant = Instant::from_millis(0);

    #[test]
    fn what_each_lane_carries_counts_once_and_survives_a_restart() {
        let (path, mut usage) = (lte(), Usage::default());
        usage.handle_period(START, &path, date("2026-11-05"));
        for (lane, total) in [(1, 100), (1, 150), (2, 10), (1, 150), (2, 30)] {
            usage.handle_total(&path, lane, total);
        }
        assert_eq!((usage.bytes(&path), usage.unwritten(&path)), (180, 180));
        usage.handle_end(1);
        // What was carried while a path was not counted is left out.
        usage.handle_lanes([(2, 1_000), (3, 1_000)].into_iter());
        usage.handle_total(&path, 3, 1_000);
        // A total that is smaller than before counts nothing.
        usage.handle_total(&path, 2, 20);
        assert_eq!(usage.bytes(&path), 180);
        let text = usage.take_text().expect("it has changed");
        assert!(usage.take_text().is_none() && usage.unwritten(&path) == 0, "nothing since");
        usage.handle_unwritten();
        assert_eq!(usage.take_text().as_deref(), Some(&*text));
        let mut again = Usage::read(&text).unwrap();
        again.handle_period(START, &path, date("2026-11-05"));
        again.handle_total(&path, 1, 7);
        assert_eq!(again.bytes(&path), 187, "a lane's first total is its own");
        again.handle_period(START, &path, date("2026-12-05"));
        assert_eq!(again.bytes(&path), 0, "the next period");
        again.handle_total(&path, 1, 9);
        assert_eq!(again.bytes(&path), 2);
    }

    #[test]
    fn a_clock_that_begins_in_the_past_loses_no_count() {
        let (path, mut usage) = (lte(), Usage::default());
        usage.handle_period(START, &path, date("2026-11-01"));
        usage.handle_total(&path, 1, 500);
        usage.handle_period(START, &path, date("1970-01-01"));
        usage.handle_total(&path, 1, 600);
        usage.handle_period(Instant::from_millis(50_000), &path, date("2026-11-01"));
        assert_eq!(usage.bytes(&path), 600, "the clock is right again");
        // A clock that was ahead: after an hour the period is the one that the clock says now.
        usage.handle_period(START, &path, date("2036-02-01"));
        assert_eq!(usage.bytes(&path), 0);
        usage.handle_total(&path, 1, 700);
        let hour = Instant::from_millis(3_600_000);
        usage.handle_period(START, &path, date("2026-11-01"));
        usage.handle_period(hour, &path, date("2026-11-01"));
        assert_eq!(usage.bytes(&path), 100);
        usage.handle_period(hour, &path, date("2026-12-01"));
        assert_eq!(usage.bytes(&path), 0);
    }

    #[test]
    fn files_that_are_not_ours_are_refused() {
        for text in [
            "",
            "[]",
            "{}",
            "{\"paths\": 1}",
            "{\"paths\": [{\"peer\": \"x\", \"path\": \"a\", \"since\": \"2026-11-05\", \"bytes\": 1}]}",
            "{\"paths\": [], \"more\": 1}",
        ] {
            assert!(Usage::read(text).is_err(), "{text}");
        }
        let (peer, _) = lte();
        let with = |since: &str| {
            format!(
                "{{\"paths\": [{{\"peer\": \"{peer}\", \"path\": \"a\", \"since\": \"{since}\", \"bytes\": 1}}]}}"
            )
        };
        assert!(Usage::read(&with("2026-11-05")).is_ok());
        assert!(Usage::read(&with("5 November")).is_err_and(|error| error.contains("no date")));
    }
}
