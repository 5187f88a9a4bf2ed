//! Reports of directories of results: files in, files out, at any time after the runs.

use std::path::Path;

use thiserror::Error;

use super::{Entry, INDEX, INDEX_MARKDOWN, MARKDOWN, Material, PAGE, TcpInUse, index, report};
use crate::VERSION;
use crate::campaign::settle;
use crate::document::{Document, Mistakes};
use crate::store::{Directory, StoreError, replace};

/// Why there is no report.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The results cannot be read, or the report cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The experiment beside the results is none.
    #[error("{0}")]
    Document(Mistakes),
}

/// Files that may lie beside a report, in the order in which it shows them.
const FILES: [&str; 7] = [
    "experiment.toml",
    "results.jsonl",
    "runs.jsonl",
    "runs.parquet",
    "metrics.parquet",
    "series.parquet",
    MARKDOWN,
];

/// Writes an experiment's page and its Markdown beside its results, and gives its line of the index.
pub fn write(directory: &Directory) -> Result<Entry, ReportError> {
    with(directory, |material| {
        let report = report(material);
        directory.write(PAGE, report.page_html().as_bytes())?;
        directory.write(MARKDOWN, report.markdown().as_bytes())
    })
}

/// An experiment's line of the index.
pub fn entry(directory: &Directory) -> Result<Entry, ReportError> {
    with(directory, |_| Ok(()))
}

fn with(
    directory: &Directory,
    write: impl FnOnce(&Material) -> Result<(), StoreError>,
) -> Result<Entry, ReportError> {
    let text = directory.text()?;
    let name = directory.path().join(FILES[0]).display().to_string();
    let document = Document::parse(&name, &text).map_err(ReportError::Document)?;
    let planned = document.points().map_err(ReportError::Document)?;
    let mut runs = directory.runs()?;
    let machine = directory.machine()?;
    let refused = machine.as_ref().map_or(&[][..], |machine| &machine.refused);
    let (results, judgement) = settle(document.experiment(), &planned, &mut runs, refused);
    let there = |file: &&str| *file == MARKDOWN || directory.path().join(file).is_file();
    let files: Vec<String> = FILES.iter().filter(|file| there(file)).map(|&file| file.to_owned()).collect();
    let material = Material {
        experiment: document.experiment(),
        document: &text,
        results: &results,
        runs: &runs,
        planned: planned.len().saturating_sub(refused.len()) * document.experiment().runs as usize,
        judgement: &judgement,
        tcps: &TcpInUse::of(&planned),
        files: &files,
        machine: machine.as_ref(),
        took: directory.took()?,
    };
    write(&material)?;
    Ok(Entry::of(&material))
}

/// Writes the index over experiments whose directories are in `out`, with the verdicts of another engine beside theirs.
pub fn write_index(out: &Path, entries: &[Entry], beside: &[Entry]) -> Result<(), ReportError> {
    let index = index(entries, beside, VERSION);
    replace(&out.join(INDEX), index.page_html().as_bytes())?;
    replace(&out.join(INDEX_MARKDOWN), index.markdown().as_bytes())?;
    Ok(())
}
