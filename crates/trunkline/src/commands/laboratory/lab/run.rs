//! `lab run`: from files to results and reports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use trunkline_engine::Engine;
use trunkline_lab::campaign::{self, Campaign, Event, Options, Study};
use trunkline_lab::document::{Document, Mistakes};
use trunkline_lab::embedded::open;
use trunkline_lab::number;
use trunkline_lab::report::{self as reports, Entry, INDEX, PAGE};
use trunkline_lab::store::Begin;
use trunkline_testbed::traffic::Stop;

use super::progress::Bar;
use super::{Errors, failure, jobs, ready, report, verdicts};
use crate::cli::laboratory::{Execution, RunArguments};
use crate::commands::laboratory::interrupt;
use crate::failure::Failure;
use crate::output::{print, remark};

pub(super) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let execution = &arguments.execution;
    let mut errors = Errors::default();
    let engine = &arguments.on.engine();
    let read = |file: &PathBuf| open(file).and_then(|document| execution.apply(document, engine));
    let documents: Vec<Document> =
        arguments.files.iter().filter_map(|file| errors.check(read(file))).collect();
    run_all(&documents, errors, execution, engine).map(|_| ())
}

impl Execution {
    /// An experiment with these options.
    pub(super) fn apply(&self, document: Document, engine: &Engine) -> Result<Document, Mistakes> {
        let mut document = self.changes.apply(document, engine)?;
        let runs = self.runs.map(|runs| ("runs", runs.to_string()));
        let seed = self.seed.map(|seed| ("seed", seed.to_string()));
        for (path, value) in runs.into_iter().chain(seed) {
            document.set(path, &value)?;
        }
        Ok(document)
    }
}

/// Runs experiments, writes their reports and prints their verdicts.
pub(super) fn run_all(
    documents: &[Document],
    errors: Errors,
    execution: &Execution,
    engine: &Engine,
) -> Result<Vec<Entry>, Failure> {
    let mut studies = studies(documents, errors)?;
    for study in &mut studies {
        study.part = execution.part;
    }
    let engine = ready(engine)?;
    let stop = interrupt::watch(&engine)?;
    let (campaign, entries) = campaign(&studies, execution, engine, &execution.out, &stop)?;
    print_campaign(&campaign, execution)?;
    Ok(entries)
}

/// Plans experiments whose results do not meet in one place.
pub(super) fn studies(documents: &[Document], mut errors: Errors) -> Result<Vec<Study>, Failure> {
    for note in documents.iter().filter_map(Document::left_out) {
        remark(&note);
    }
    let studies: Vec<Study> =
        documents.iter().filter_map(|document| errors.check(Study::new(document))).collect();
    let mut ids = BTreeSet::new();
    for id in studies.iter().map(|study| &study.experiment.id) {
        if !ids.insert(id) {
            errors.add(format!("two experiments have the id {id:?}: their results would be in one place"));
        }
    }
    errors.finish("nothing was run")?;
    Ok(studies)
}

/// Runs experiments and writes their reports.
pub(super) fn campaign(
    studies: &[Study],
    execution: &Execution,
    engine: Engine,
    out: &Path,
    stop: &Stop,
) -> Result<(Campaign, Vec<Entry>), Failure> {
    let options = Options {
        jobs: jobs(execution.jobs, &engine),
        engine,
        out: out.to_owned(),
        begin: match (execution.resume, execution.force) {
            (true, _) => Begin::Resume,
            (_, true) => Begin::Force,
            _ => Begin::Fresh,
        },
    };
    let mut bar = Bar::new();
    let mut entries: Vec<Entry> = Vec::new();
    let mut report_error = None;
    let campaign = campaign::run(studies, &options, stop.flag(), |progress| {
        bar.show(&progress);
        if let Event::Complete(complete) = progress.event {
            match reports::write(&complete.directory) {
                Ok(entry) => entries.push(entry),
                Err(error) => report_error = Some(error),
            }
        }
    });
    drop(bar);
    let campaign = campaign?;
    entries.sort_by_key(|entry| studies.iter().position(|study| study.experiment.id == entry.id));
    report::index(out, &entries)?;
    report_error.map_or(Ok((campaign, entries)), |error| Err(failure(error)))
}

/// Prints results and failures. An error if a run failed, or if a result cannot be printed.
fn print_campaign(campaign: &Campaign, execution: &Execution) -> Result<(), Failure> {
    let printed = print_results(campaign, execution);
    // Failures go to standard error, which may have a reader though standard output has none.
    print_failures(campaign, execution)?;
    printed
}

fn print_results(campaign: &Campaign, execution: &Execution) -> Result<(), Failure> {
    if let Some(part) = execution.part {
        for complete in &campaign.complete {
            let runs: u32 = complete.results.iter().map(|result| result.runs).sum();
            let (id, runs) = (&complete.experiment.id, number::count(runs as usize, "run"));
            let place = complete.directory.path().display();
            print(&format!("{id}: part {part}, {runs} in {place}; `lab merge` puts parts together\n"))?;
        }
    } else if execution.json {
        print(&json(campaign)?)?;
    } else {
        for complete in &campaign.complete {
            print(&verdicts::of_experiment(complete, &complete.directory.path().join(PAGE)))?;
        }
        if campaign.complete.len() > 1 {
            print(&format!("All reports: {}\n", execution.out.join(INDEX).display()))?;
        }
    }
    Ok(())
}

/// A line of JSON for each point.
pub(super) fn json(campaign: &Campaign) -> Result<String, Failure> {
    let results = campaign.complete.iter().flat_map(|complete| &complete.results);
    let lines: Result<String, _> =
        results.map(|result| serde_json::to_string(result).map(|line| line + "\n")).collect();
    lines.map_err(Failure::doing("cannot print"))
}

pub(super) fn print_failures(campaign: &Campaign, execution: &Execution) -> Result<(), Failure> {
    // A part decides little.
    let whole = campaign.complete.iter().filter(|_| execution.part.is_none());
    for undecided in whole.flat_map(|complete| {
        complete.judgement.undecided.iter().map(|text| format!("{}: {text}", complete.experiment.id))
    }) {
        remark(&format_args!("trunkline: warning: {undecided}"));
    }
    let mut is_all = !campaign.complete.is_empty();
    for complete in &campaign.complete {
        is_all &= complete.results.is_empty() && !complete.refused.is_empty();
        let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
        for refusal in &complete.refused {
            *refused.entry(&refusal.why).or_default() += 1;
        }
        for (why, count) in refused {
            let (points, id) = (number::count(count, "point"), &complete.experiment.id);
            remark(&format_args!("trunkline: {id}: not on this engine, {points}: {why}"));
        }
    }
    report_failures(&campaign.failures);
    if campaign.interrupted {
        remark(&format_args!(
            "trunkline: finished runs are kept in {}; the same command with --resume continues",
            execution.out.display()
        ));
        return Err(Failure::Interrupted);
    }
    match campaign.failures.len() {
        0 if is_all => Err(Failure::Lacking(
            "nothing was run: none of it is on this engine; --engine sim has all".to_owned(),
        )),
        0 => Ok(()),
        1 => Err(Failure::Other("1 run failed; --resume tries it again".to_owned())),
        count => Err(Failure::Other(format!("{count} runs failed; --resume tries them again"))),
    }
}

/// Says which runs failed, and why.
pub(super) fn report_failures(failures: &[trunkline_lab::campaign::Failure]) {
    for failure in failures {
        remark(&format_args!("trunkline: {failure}"));
    }
}
