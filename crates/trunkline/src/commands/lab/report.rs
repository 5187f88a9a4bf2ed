//! `lab report`: reports of results that are there.

use std::path::Path;

use trunkline_lab::report::{self as reports, Entry, INDEX, PAGE};
use trunkline_lab::store::Directory;

use super::{print, run, verdicts};
use crate::cli::ReportArguments;
use crate::failure::Failure;

pub(super) fn report(arguments: &ReportArguments) -> Result<(), Failure> {
    for path in &arguments.directories {
        let directories = Directory::all_in(path)?;
        let mut entries = Vec::new();
        for directory in &directories {
            let entry = reports::write(directory).map_err(run::failure)?;
            print(&format!("{}: {}\n", directory.path().join(PAGE).display(), verdicts::of_entry(&entry)))?;
            entries.push(entry);
        }
        if directories.iter().all(|directory| directory.path() != path) {
            reports::write_index(path, &entries).map_err(run::failure)?;
            print(&format!("{}: all of them\n", path.join(INDEX).display()))?;
        }
    }
    Ok(())
}

/// Makes the index over all that is in a directory, of which `fresh` is known.
pub(super) fn index(out: &Path, fresh: &[Entry]) -> Result<(), Failure> {
    let Ok(directories) = Directory::all_in(out) else { return Ok(()) };
    let mut entries: Vec<Entry> = Vec::new();
    for directory in &directories {
        let known = fresh.iter().find(|entry| *directory.path() == out.join(&entry.id)).cloned();
        match known.map_or_else(|| reports::entry(directory), Ok) {
            Ok(entry) => entries.push(entry),
            Err(error) => eprintln!("trunkline: warning: not in the index: {error}"),
        }
    }
    reports::write_index(out, &entries).map_err(run::failure)
}
