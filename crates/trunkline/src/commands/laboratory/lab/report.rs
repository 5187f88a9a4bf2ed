//! `lab report`: writes the reports of existing results.

use std::path::Path;

use trunkline_lab::report::{self as reports, EXPLANATION_PAGE, Entry, INDEX, PAGE};
use trunkline_lab::store::Directory;

use super::{failure, verdicts};
use crate::cli::laboratory::ReportArguments;
use crate::failure::Failure;
use crate::output::{print_line, remark};

pub(super) fn report(arguments: &ReportArguments) -> Result<(), Failure> {
    // A closed pipe must not keep the rest of the reports from being written.
    let mut printed = Ok(());
    let mut print = |line: String| {
        if printed.is_ok() {
            printed = print_line(&line);
        }
    };
    let mut beside = Vec::new();
    if let Some(path) = &arguments.beside {
        for directory in Directory::all_in(path)? {
            beside.push(reports::entry(&directory).map_err(failure)?);
        }
    }
    let mut explained = Vec::new();
    if let Some(path) = &arguments.explained {
        for directory in Directory::all_in(path)? {
            explained.extend(reports::answered(&directory).map_err(failure)?);
        }
    }
    for path in &arguments.directories {
        let directories = Directory::all_in(path)?;
        let mut entries = Vec::new();
        for directory in &directories {
            let entry = reports::write(directory).map_err(failure)?;
            let page = directory.path().join(PAGE);
            if reports::write_explanation(directory).map_err(failure)?.is_some() {
                print(format!("{}: its unknowns", directory.path().join(EXPLANATION_PAGE).display()));
            }
            print(format!("{}: {}", page.display(), verdicts::of_entry(&entry)));
            entries.push(entry);
        }
        if directories.iter().all(|directory| directory.path() != path) {
            reports::write_index(path, &entries, &beside, &explained).map_err(failure)?;
            print(format!("{}: all of them", path.join(INDEX).display()));
        }
    }
    printed
}

/// Writes the index of all results in a directory. The entries in `fresh` need not be read again.
pub(super) fn index(out: &Path, fresh: &[Entry]) -> Result<(), Failure> {
    let Ok(directories) = Directory::all_in(out) else { return Ok(()) };
    let mut entries: Vec<Entry> = Vec::new();
    for directory in &directories {
        let known = fresh.iter().find(|entry| *directory.path() == out.join(&entry.id)).cloned();
        match known.map_or_else(|| reports::entry(directory), Ok) {
            Ok(entry) => entries.push(entry),
            Err(error) => remark(&format_args!("trunkline: warning: not in the index: {error}")),
        }
    }
    reports::write_index(out, &entries, &[], &[]).map_err(failure)
}
