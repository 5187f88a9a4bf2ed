//! The experiments that are embedded in the program, and `lab papers`, which runs those of papers.

use std::thread::available_parallelism;

use trunkline_lab::document::Document;

use super::run::run_all;
use super::{Errors, verdicts};
use crate::cli::laboratory::PapersArguments;
use crate::failure::Failure;
use crate::output::print;

/// Every experiment under `experiments/`: its path and its text.
const EXPERIMENTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

pub(super) fn papers(arguments: &PapersArguments) -> Result<(), Failure> {
    let engine = &arguments.on.engine();
    let mut execution = arguments.execution.clone();
    // Most of these paths are slow.
    let cpus = available_parallelism().map_or(1, usize::from);
    execution.jobs.get_or_insert(u16::try_from(engine.many(cpus)).unwrap_or(u16::MAX));
    let execution = &execution;
    let mut errors = Errors::default();
    let all = all(&mut errors);
    let selected = select(all, &arguments.names)?;
    let documents: Vec<Document> =
        selected.into_iter().filter_map(|document| errors.check(execution.apply(document, engine))).collect();
    if arguments.list {
        errors.finish("the list would not be complete")?;
        return print(&list(&documents)?);
    }
    let entries = run_all(&documents, errors, execution, engine)?;
    if execution.json { Ok(()) } else { print(&verdicts::by_paper(&entries)) }
}

/// The embedded experiment with this id.
pub(crate) fn embedded(id: &str) -> Option<Document> {
    let mut all = EXPERIMENTS.iter().filter_map(|(path, text)| Document::parse(path, text).ok());
    all.find(|document| document.experiment().id == id)
}

/// The experiments that belong to a paper.
pub(super) fn all(errors: &mut Errors) -> Vec<Document> {
    EXPERIMENTS
        .iter()
        .filter_map(|(path, text)| errors.check(Document::parse(path, text)))
        .filter(|document| document.experiment().paper.is_some())
        .collect()
}

/// The experiments with one of `names`: an id, an alias, or a paper. All if there are no names.
fn select(all: Vec<Document>, names: &[String]) -> Result<Vec<Document>, Failure> {
    let matches = |document: &Document, name: &String| {
        let experiment = document.experiment();
        experiment.id == *name || experiment.aliases.contains(name) || experiment.paper.as_ref() == Some(name)
    };
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|document| matches(document, name))) {
        let mut papers: Vec<&str> =
            all.iter().filter_map(|document| document.experiment().paper.as_deref()).collect();
        papers.dedup();
        return Err(Failure::Input(format!(
            "there is no experiment or paper {unknown:?}; allowed: {}, and the ids that --list shows",
            papers.join(", ")
        )));
    }
    let selected = |document: &Document| names.is_empty() || names.iter().any(|name| matches(document, name));
    Ok(all.into_iter().filter(selected).collect())
}

fn list(documents: &[Document]) -> Result<String, Failure> {
    let mut lines = Vec::new();
    let width = documents.iter().map(|document| document.experiment().id.len()).max().unwrap_or(0);
    for document in documents {
        let experiment = document.experiment();
        let points = document.plan().map_err(|mistakes| Failure::Input(mistakes.to_string()))?.len();
        let cells: usize = experiment.published.iter().map(|published| published.values.len()).sum();
        let also = if experiment.aliases.is_empty() {
            String::new()
        } else {
            format!(" (also {})", experiment.aliases.join(", "))
        };
        lines.push(format!(
            "{:width$}  {:>3} points × {} runs, {:>2} claims, {:>2} values  {}{also}\n",
            experiment.id,
            points,
            experiment.runs,
            experiment.claims.len(),
            cells,
            experiment.title
        ));
    }
    Ok(lines.concat())
}
