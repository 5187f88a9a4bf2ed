//! `lab export`: tables of results for other programs.

use std::path::Path;

use serde::Serialize;
use trunkline_lab::store::{Directory, Format};

use crate::cli::laboratory::ExportArguments;
use crate::failure::Failure;
use crate::output::print_line;

/// A file that was written, for programs.
#[derive(Serialize)]
struct Written<'a> {
    results: &'a Path,
    file: &'a Path,
}

pub(super) fn export(arguments: &ExportArguments) -> Result<(), Failure> {
    let format: Format = arguments.format.parse().map_err(Failure::Input)?;
    // A closed pipe must not keep the rest of the tables from being written.
    let mut printed = Ok(());
    for path in &arguments.directories {
        for directory in Directory::all_in(path)? {
            let results = directory.path();
            let own = |out: &std::path::PathBuf| out.join(results.file_name().unwrap_or_default());
            let into = arguments.out.as_ref().map_or_else(|| results.to_owned(), own);
            for file in directory.export(format, &into)? {
                if printed.is_err() {
                    continue;
                }
                printed = if arguments.json {
                    let line = serde_json::to_string(&Written { results, file: &file });
                    print_line(&line.map_err(Failure::doing("cannot print"))?)
                } else {
                    print_line(&file.display().to_string())
                };
            }
        }
    }
    printed
}
