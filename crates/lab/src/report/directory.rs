//! Reports of directories of results: files in, files out, at any time after the runs.

use std::path::Path;

use thiserror::Error;

use super::{
    Answered, EXPLANATION_JSON, EXPLANATION_MARKDOWN, EXPLANATION_PAGE, Entry, INDEX, INDEX_MARKDOWN,
    MARKDOWN, Material, PAGE, TcpInUse, explanation, index, report,
};
use crate::VERSION;
use crate::campaign::settle;
use crate::document::{Document, Mistakes};
use crate::experiment::Experiment;
use crate::explain::{self, Explanation};
use crate::results::{PointResult, Run, SETTING_AXIS};
use crate::store::{Directory, StoreError, replace};
use crate::verdict::Judgement;

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

/// What an experiment was and what came of it.
#[derive(Debug)]
pub struct Answers {
    /// The experiment as it ran.
    pub experiment: Experiment,
    /// A result for each point that has a run.
    pub results: Vec<PointResult>,
    /// The runs that they are of, in the sweep's order.
    pub runs: Vec<Run>,
    /// How what is said of them came out.
    pub judgement: Judgement,
    /// Its page.
    pub page: String,
}

/// Reads the results of an experiment, all of them or those that are there.
///
/// # Errors
/// They cannot be read.
pub fn read(directory: &Directory) -> Result<Answers, ReportError> {
    let make = |material: &Material<'_>| {
        let (experiment, judgement) = (material.experiment.clone(), material.judgement.clone());
        Ok((experiment, judgement, report(material).page_html()))
    };
    let ((experiment, judgement, page), results, runs) = with(directory, make)?;
    Ok(Answers { experiment, results, runs, judgement, page })
}

/// Writes an experiment's page and its Markdown beside its results, and gives its line of the index.
pub fn write(directory: &Directory) -> Result<Entry, ReportError> {
    let make = |material: &Material<'_>| {
        let report = report(material);
        directory.write(PAGE, report.page_html().as_bytes())?;
        directory.write(MARKDOWN, report.markdown().as_bytes())?;
        Ok(Entry::of(material))
    };
    with(directory, make).map(|(entry, ..)| entry)
}

/// An experiment's line of the index.
pub fn entry(directory: &Directory) -> Result<Entry, ReportError> {
    with(directory, |material| Ok(Entry::of(material))).map(|(entry, ..)| entry)
}

/// Makes something of the results of an experiment, and gives them with it.
fn with<T>(
    directory: &Directory,
    make: impl FnOnce(&Material<'_>) -> Result<T, StoreError>,
) -> Result<(T, Vec<PointResult>, Vec<Run>), ReportError> {
    let text = directory.text()?;
    let name = directory.path().join(FILES[0]).display().to_string();
    let document = Document::parse(&name, &text).map_err(ReportError::Document)?;
    let planned = document.points().map_err(ReportError::Document)?;
    let mut runs = directory.runs()?;
    // Of settings of unknowns, those that the file chooses are what it says itself.
    if document.experiment().explained.is_some() {
        runs = runs.into_iter().filter_map(chosen).collect();
    }
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
    let made = make(&material)?;
    Ok((made, results, runs))
}

/// A run of what the file chooses, as an ordinary one; none of another setting.
fn chosen(mut run: Run) -> Option<Run> {
    let setting = run.point.shift_remove(SETTING_AXIS);
    setting.is_none_or(|setting| setting == "0").then_some(run)
}

/// What came of an experiment's settings; none if there are none.
pub fn answered(directory: &Directory) -> Result<Option<Answered>, ReportError> {
    let found = explain::explanation(directory)?;
    Ok(found.map(|(document, answer)| Answered { experiment: document.experiment().clone(), answer }))
}

/// Writes what came of an experiment's settings beside its results: as a page, as Markdown, as JSON. None if there are no settings.
pub fn write_explanation(directory: &Directory) -> Result<Option<Explanation>, ReportError> {
    let Some(Answered { experiment, answer }) = answered(directory)? else { return Ok(None) };
    let page = explanation(&experiment, &answer);
    directory.write(EXPLANATION_PAGE, page.page_html().as_bytes())?;
    directory.write(EXPLANATION_MARKDOWN, page.markdown().as_bytes())?;
    // Plain data with keys that are texts: there is nothing in it that JSON does not know.
    let json = serde_json::to_string(&answer).unwrap_or_default() + "\n";
    directory.write(EXPLANATION_JSON, json.as_bytes())?;
    Ok(Some(answer))
}

/// Writes the index over experiments whose directories are in `out`, with the verdicts of another engine beside theirs, and what settings
/// of their unknowns say.
pub fn write_index(
    out: &Path,
    entries: &[Entry],
    beside: &[Entry],
    explained: &[Answered],
) -> Result<(), ReportError> {
    let index = index(entries, beside, explained, VERSION);
    replace(&out.join(INDEX), index.page_html().as_bytes())?;
    replace(&out.join(INDEX_MARKDOWN), index.markdown().as_bytes())?;
    Ok(())
}
