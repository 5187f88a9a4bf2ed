//! Writing results while they come.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::columns::Table;
use super::{
    DOCUMENT, Directory, Format, MACHINE, METRICS_TABLE, RESULTS, RUNS, RUNS_TABLE, SERIES_TABLE, StoreError,
    TIMES, Time, columns, export, lines, remove, replace,
};
use crate::report::{EXPLANATION_JSON, EXPLANATION_MARKDOWN, EXPLANATION_PAGE, MARKDOWN, PAGE};
use crate::results::{Machine, PointResult, Run};

/// What is done with results that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Begin {
    /// They are in the way.
    #[default]
    Fresh,
    /// What is missing is added to them.
    Resume,
    /// They are removed.
    Force,
}

/// What must be the same for runs to belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The experiment as it runs, as TOML.
    pub document: &'a str,
    /// The engine's name.
    pub engine: &'a str,
    /// The version.
    pub version: &'a str,
}

/// A directory that nobody else writes to, as it was found.
#[derive(Debug)]
pub struct Hold {
    path: PathBuf,
    lock: File,
}

impl Hold {
    /// Takes a directory, and changes nothing of what is in it: who takes several knows that he has all before any is changed.
    pub fn take(path: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(|error| StoreError::io("make", path, error))?;
        Ok(Hold { path: path.to_owned(), lock: lock(path)? })
    }
}

/// Where runs are written as they finish.
#[derive(Debug)]
pub struct Journal {
    directory: Directory,
    pub(super) runs: File,
    /// Bytes of whole lines.
    len: u64,
    _lock: File,
}

impl Journal {
    /// Begins in a directory, and gives the runs that are there already.
    pub fn begin(hold: Hold, identity: &Identity<'_>, how: Begin) -> Result<(Self, Vec<Run>), StoreError> {
        let Hold { path, lock } = hold;
        let directory = Directory { path: path.clone() };
        let path = path.as_path();
        let runs = match how {
            Begin::Fresh if is_taken(path) => return Err(StoreError::Taken(path.to_owned())),
            Begin::Resume if is_taken(path) => resume(&directory, identity)?,
            Begin::Fresh | Begin::Resume | Begin::Force => {
                clear(path)?;
                replace(&path.join(DOCUMENT), identity.document.as_bytes())?;
                Vec::new()
            }
        };
        let file = path.join(RUNS);
        let open = || -> io::Result<(File, u64)> {
            let runs = OpenOptions::new().append(true).create(true).open(&file)?;
            let len = runs.metadata()?.len();
            Ok((runs, len))
        };
        let (file, len) = open().map_err(|error| StoreError::io("write", &file, error))?;
        Ok((Journal { directory, runs: file, len, _lock: lock }, runs))
    }

    /// Says on which machine the runs are made. The day of the first stays, when they are gone on with.
    pub fn machine(&self, machine: &Machine) -> Result<(), StoreError> {
        let first = self.directory.machine()?.map(|machine| machine.date);
        let date = first.unwrap_or_else(|| machine.date.clone());
        replace(&self.directory.path.join(MACHINE), &line(&Machine { date, ..machine.clone() }))
    }

    /// Adds a run. If it cannot be written, nothing of it stays.
    pub fn append(&mut self, run: &Run) -> Result<(), StoreError> {
        let line = line(run);
        if let Err(error) = self.runs.write_all(&line) {
            // Those that resume would cut it off, too.
            let _ = self.runs.set_len(self.len);
            return Err(StoreError::io("write", &self.directory.path.join(RUNS), error));
        }
        self.len += line.len() as u64;
        Ok(())
    }

    /// Says how long a run took. It stands beside the runs and not in them: they are the same on every machine.
    pub fn took(&mut self, run: &Run, took: Duration) -> Result<(), StoreError> {
        let path = self.directory.path.join(TIMES);
        let time = Time { point: run.point.clone(), seed: run.seed, seconds: took.as_secs_f64() };
        let write = || OpenOptions::new().append(true).create(true).open(&path)?.write_all(&line(&time));
        write().map_err(|error| StoreError::io("write", &path, error))
    }

    /// Takes over what is written of how long the runs of other results took.
    pub fn copy_times(&mut self, of: &Directory) -> Result<(), StoreError> {
        let path = self.directory.path.join(TIMES);
        let (times, _) = complete_lines(&of.path.join(TIMES))?;
        let write = || OpenOptions::new().append(true).create(true).open(&path)?.write_all(times.as_bytes());
        write().map_err(|error| StoreError::io("write", &path, error))
    }

    /// Writes what all runs together give, `runs` in the sweep's order.
    pub fn finish(self, runs: &[Run], results: &[PointResult]) -> Result<Directory, StoreError> {
        let path = &self.directory.path;
        replace(&path.join(RUNS), &runs.iter().flat_map(line).collect::<Vec<_>>())?;
        let parquet = |table: &Table| Format::Parquet.encode(table);
        replace(&path.join(RUNS_TABLE), &parquet(&columns::runs(runs))?)?;
        replace(&path.join(METRICS_TABLE), &parquet(&columns::metrics(runs))?)?;
        if let Some(series) = columns::series(runs) {
            replace(&path.join(SERIES_TABLE), &parquet(&series)?)?;
        }
        // Last, because it says that all is there.
        replace(&path.join(RESULTS), &results.iter().flat_map(line).collect::<Vec<_>>())?;
        Ok(self.directory)
    }
}

/// Whether there are results in a directory, or once were to be.
pub fn is_taken(path: &Path) -> bool {
    path.join(DOCUMENT).exists() || path.join(RUNS).exists()
}

fn line<T: Serialize>(value: &T) -> Vec<u8> {
    // Plain data with keys that are texts: there is nothing in it that JSON does not know.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let file = File::open(path).map_err(|error| StoreError::io("read", path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Busy(path.to_owned())),
        // Not every file system has locks; then nobody is kept out.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
        Err(TryLockError::Error(error)) => Err(StoreError::io("lock", path, error)),
    }
}

/// Removes the results of another time; a report made of them, too.
fn clear(path: &Path) -> Result<(), StoreError> {
    for name in [
        RESULTS,
        RUNS,
        RUNS_TABLE,
        METRICS_TABLE,
        SERIES_TABLE,
        MACHINE,
        TIMES,
        DOCUMENT,
        PAGE,
        MARKDOWN,
        EXPLANATION_PAGE,
        EXPLANATION_MARKDOWN,
        EXPLANATION_JSON,
    ] {
        remove(&path.join(name))?;
    }
    export::clear(path)
}

/// A file up to the end of its last line, and how many bytes that is.
pub(super) fn complete_lines(path: &Path) -> Result<(String, u64), StoreError> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(StoreError::io("read", path, error)),
    };
    bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    let len = bytes.len() as u64;
    let text = String::from_utf8(bytes)
        .map_err(|error| StoreError::io("read", path, io::Error::new(io::ErrorKind::InvalidData, error)))?;
    Ok((text, len))
}

fn resume(directory: &Directory, identity: &Identity<'_>) -> Result<Vec<Run>, StoreError> {
    let other = |what| StoreError::Other { path: directory.path.clone(), what };
    let before = directory.text()?;
    if let Some(what) = difference(&before, identity.document) {
        return Err(other(what));
    }
    let file = directory.path.join(RUNS);
    let (text, len) = complete_lines(&file)?;
    let runs: Vec<Run> = lines(&file, &text)?;
    if let Some(run) = runs.iter().find(|run| run.engine != identity.engine) {
        return Err(other(format!("they are by the engine {}, not {}", run.engine, identity.engine)));
    }
    if let Some(run) = runs.iter().find(|run| run.version != identity.version) {
        return Err(other(format!("they are by version {}, and this is {}", run.version, identity.version)));
    }
    if file.exists() {
        let cut = || OpenOptions::new().write(true).open(&file)?.set_len(len);
        cut().map_err(|error| StoreError::io("write", &file, error))?;
    }
    Ok(runs)
}

/// The first line in which two documents differ.
fn difference(before: &str, now: &str) -> Option<String> {
    if before == now {
        return None;
    }
    let (mut old, mut new) = (before.lines(), now.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (old.next(), new.next()) {
            (Some(old), Some(new)) if old == new => {}
            (None, None) => return Some("the experiment's file ends otherwise".to_owned()),
            (old, new) => {
                let quoted =
                    |line: Option<&str>| line.map_or("nothing".to_owned(), |line| format!("{line:?}"));
                return Some(format!(
                    "the experiment was another ({DOCUMENT}:{number}: {}, now {})",
                    quoted(old),
                    quoted(new)
                ));
            }
        }
    }
}
