//! Results on disk: a directory for each experiment, which a report can be made of at any time.
//!
//! | file | what |
//! | --- | --- |
//! | `experiment.toml` | the experiment as it ran, with all that was set |
//! | `runs.jsonl` | a [`Run`] a line, appended as each finishes; in the sweep's order once all have |
//! | `results.jsonl` | a [`PointResult`](crate::results::PointResult) a line |
//! | `runs.parquet` | a row a run: parameters as `point.<axis>`, seed, version, digest, metrics |
//! | `metrics.parquet` | the same in long form, a row for each metric of a run |
//! | `series.parquet` | what was recorded over time, a row a value, if there is any |
//! | `machine.json` | of an engine in real time: the machine, the day, and the points that the engine cannot be |
//! | `times.jsonl` | how long each run took on this machine, a line a run: of no result a part |
//!
//! Whatever happens, what has finished is kept: a run is one write at the end of its file, and of a line that has no end the next
//! one to resume knows that it is half written. All other files are written beside their place and then put there. Whoever
//! writes holds a lock on the directory.

#[cfg(feature = "tables")]
mod arrow;
mod columns;
mod error;
mod export;
mod format;
mod journal;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[cfg(feature = "tables")]
pub use arrow::{Batches, Tables};
pub use error::StoreError;
pub use format::Format;
pub use journal::{Begin, Hold, Identity, Journal, is_taken};

use crate::results::{Machine, Point, Run};

const DOCUMENT: &str = "experiment.toml";
const RUNS: &str = "runs.jsonl";
const RESULTS: &str = "results.jsonl";
const RUNS_TABLE: &str = "runs.parquet";
const METRICS_TABLE: &str = "metrics.parquet";
const SERIES_TABLE: &str = "series.parquet";
const TIMES: &str = "times.jsonl";
const MACHINE: &str = "machine.json";

/// How long a run took: a line of `times.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
struct Time {
    point: Point,
    seed: u64,
    seconds: f64,
}

/// The results of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The results that are there.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if path.join(DOCUMENT).is_file() {
            Ok(Directory { path: path.to_owned() })
        } else {
            Err(StoreError::NoResults(path.to_owned()))
        }
    }

    /// Every directory with results in `out`, by name; `out` itself, if it is one.
    pub fn all_in(out: &Path) -> Result<Vec<Self>, StoreError> {
        if let Ok(one) = Self::open(out) {
            return Ok(vec![one]);
        }
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NoResults(out.to_owned()),
            _ => StoreError::io("read", out, error),
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(out).map_err(failed)? {
            found.extend(Self::open(&entry.map_err(failed)?.path()).ok());
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        if found.is_empty() { Err(StoreError::NoResults(out.to_owned())) } else { Ok(found) }
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The experiment as it ran, as TOML.
    pub fn text(&self) -> Result<String, StoreError> {
        let path = self.path.join(DOCUMENT);
        fs::read_to_string(&path).map_err(|error| StoreError::io("read", &path, error))
    }

    /// All runs that have finished.
    pub fn runs(&self) -> Result<Vec<Run>, StoreError> {
        let path = self.path.join(RUNS);
        journal::complete_lines(&path).and_then(|(text, _)| lines(&path, &text))
    }

    /// The machine, of an engine whose results are not the same on every machine.
    pub fn machine(&self) -> Result<Option<Machine>, StoreError> {
        let path = self.path.join(MACHINE);
        match fs::read_to_string(&path) {
            Ok(text) => lines(&path, &text).map(|machines| machines.into_iter().next()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &path, error)),
        }
    }

    /// How long all runs took, one after another; none if nobody wrote it down.
    pub fn took(&self) -> Result<Option<Duration>, StoreError> {
        let times = self.times()?;
        let seconds: f64 = times.iter().map(|time| time.seconds).sum();
        Ok((!times.is_empty()).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten())
    }

    /// How long a run took on average; none if nobody wrote it down.
    pub(crate) fn pace(&self) -> Result<Option<Duration>, StoreError> {
        let runs = u32::try_from(self.times()?.len()).unwrap_or(u32::MAX);
        Ok(self.took()?.and_then(|took| took.checked_div(runs)))
    }

    fn times(&self) -> Result<Vec<Time>, StoreError> {
        let (text, _) = journal::complete_lines(&self.path.join(TIMES))?;
        // A time that cannot be read is no reason to have no report.
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Puts a file among them, such as a report.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<(), StoreError> {
        replace(&self.path.join(name), contents)
    }
}

/// What stands in the lines of a file.
fn lines<T: DeserializeOwned>(path: &Path, text: &str) -> Result<Vec<T>, StoreError> {
    let read = |(number, line)| {
        serde_json::from_str(line).map_err(|error: serde_json::Error| StoreError::Line {
            path: path.to_owned(),
            line: number + 1,
            why: error.to_string(),
        })
    };
    text.lines().enumerate().map(read).collect()
}

/// Removes a file, if there is one.
fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", path, error)),
        _ => Ok(()),
    }
}

/// Writes a file beside its place and puts it there, so that at any time there is a whole one or none.
pub fn replace(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
    let beside = path.with_file_name(format!(
        ".{}.{}",
        path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default(),
        std::process::id()
    ));
    let write = || -> io::Result<()> {
        let mut file = fs::File::create(&beside)?;
        file.write_all(contents)?;
        file.sync_data()?;
        fs::rename(&beside, path)
    };
    write().map_err(|error| {
        // What is half written is in nobody's way, but of no use.
        let _ = fs::remove_file(&beside);
        StoreError::io("write", path, error)
    })
}
