//! How far a revision is rolled out: its sites get it in steps, or what was there before it returns.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Author;
use super::database::Database;
use super::members::record;
use super::value::DatabaseError;

/// How long a step may take, s.
const WAIT_S: u64 = 60;
const MAX_WAIT_S: u64 = 24 * 3600;

/// In which steps sites get a revision: which part of the trunks that change has changed after each, in percent. After the last all have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    percents: Vec<u8>,
    wait_s: u64,
}

impl Steps {
    /// With another time that a step may take.
    ///
    /// # Errors
    /// What is allowed.
    pub fn within(self, time: Duration) -> Result<Self, String> {
        match time.as_secs() {
            wait_s @ 1..=MAX_WAIT_S => Ok(Steps { wait_s, ..self }),
            _ => Err(format!("a step takes {time:?}; allowed: 1 s to 24 h")),
        }
    }

    /// How many there are, with the last.
    pub const fn count(&self) -> usize {
        self.percents.len() + 1
    }

    /// How many of so many trunks have changed after this step, of which the first is 1.
    pub fn changed(&self, step: usize, trunks: usize) -> usize {
        match step.checked_sub(1).and_then(|place| self.percents.get(place)) {
            Some(percent) => (trunks * usize::from(*percent)).div_ceil(100),
            None => trunks,
        }
    }

    /// How long a step may take.
    pub const fn wait(&self) -> Duration {
        Duration::from_secs(self.wait_s)
    }
}

impl FromStr for Steps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: percent of the trunks that change, each more than the one before, as 1,10,50";
        let percents: Result<Vec<u8>, _> = text.split(',').map(|part| part.trim().parse()).collect();
        let percents = percents.map_err(|_| format!("{text:?} are no steps; {allowed}"))?;
        let rise = percents.is_sorted_by(|a, b| a < b);
        if !rise || !percents.iter().all(|percent| (1..100).contains(percent)) {
            return Err(format!("{text:?} are no steps; {allowed}"));
        }
        Ok(Steps { percents, wait_s: WAIT_S })
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.percents.iter().map(u8::to_string).collect();
        f.write_str(&words.join(","))
    }
}

/// A revision that is rolled out in steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// Its number. What was there before it is the one before.
    pub revision: u64,
    /// In which steps.
    pub steps: Steps,
    /// The step that runs, of which the first is 1.
    pub step: usize,
}

pub(super) fn running(database: &mut Database) -> Result<Option<Rollout>, DatabaseError> {
    let query = "SELECT revision, steps, wait_s, step FROM rollouts WHERE state = 'running'";
    let Some(mut row) = database.query(query, &[])?.pop() else { return Ok(None) };
    let steps: Steps = row.text(1).parse().map_err(DatabaseError::Other)?;
    let steps = Steps { wait_s: row.number(2), ..steps };
    let step = usize::try_from(row.number(3)).unwrap_or(usize::MAX);
    Ok(Some(Rollout { revision: row.number(0), steps, step }))
}

pub(super) fn begin(database: &mut Database, revision: u64, steps: &Steps) -> Result<(), DatabaseError> {
    let begin =
        "INSERT INTO rollouts (revision, steps, wait_s, step, state) VALUES ($1, $2, $3, 1, 'running')";
    let text = steps.to_string();
    database.execute(begin, &[revision.into(), (&text).into(), steps.wait_s.into()]).map(drop)
}

pub(super) fn advance(
    database: &mut Database,
    author: Author<'_>,
    seen: &Rollout,
) -> Result<(), DatabaseError> {
    let Rollout { revision, steps, step } = seen;
    if *step >= steps.count() {
        return end(database, author, seen, "done", "rolled out to all");
    }
    let next = *step as u64 + 1;
    let set = "UPDATE rollouts SET step = $1 WHERE revision = $2";
    database.execute(set, &[next.into(), (*revision).into()])?;
    record(database, author, &format!("began step {next} of {} of revision {revision}", steps.count()))
}

pub(super) fn end(
    database: &mut Database,
    author: Author<'_>,
    running: &Rollout,
    state: &str,
    what: &str,
) -> Result<(), DatabaseError> {
    let set = "UPDATE rollouts SET state = $1 WHERE revision = $2";
    database.execute(set, &[state.into(), running.revision.into()])?;
    record(database, author, &format!("revision {}: {what}", running.revision))
}
