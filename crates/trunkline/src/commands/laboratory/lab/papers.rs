//! `lab papers`: runs the experiments of papers that are embedded in the program.

use std::thread::available_parallelism;

use trunkline_lab::document::Document;
use trunkline_lab::embedded::{self, did_you_mean, names};

use super::run::run_all;
use super::{Errors, verdicts};
use crate::cli::laboratory::PapersArguments;
use crate::failure::Failure;
use crate::output::print;

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

/// The experiments that belong to a paper.
pub(super) fn all(errors: &mut Errors) -> Vec<Document> {
    embedded::all()
        .filter_map(|document| errors.check(document))
        .filter(|document| document.experiment().paper.is_some())
        .collect()
}

/// The experiments with one of these names: an id, an alias, or a paper. All if there are no names.
fn select(all: Vec<Document>, wanted: &[String]) -> Result<Vec<Document>, Failure> {
    let matches = |document: &Document, name: &String| {
        let experiment = document.experiment();
        names(document).any(|known| known == name) || experiment.paper.as_ref() == Some(name)
    };
    if let Some(unknown) = wanted.iter().find(|name| !all.iter().any(|document| matches(document, name))) {
        let mut papers: Vec<&str> =
            all.iter().filter_map(|document| document.experiment().paper.as_deref()).collect();
        papers.dedup();
        let near = trunkline_schema::near(unknown, all.iter().flat_map(names).chain(papers.iter().copied()));
        let meant = did_you_mean(&near);
        return Err(Failure::Input(format!(
            "there is no experiment or paper {unknown:?}{meant}; allowed: {}, and the ids that --list shows",
            papers.join(", ")
        )));
    }
    let selected =
        |document: &Document| wanted.is_empty() || wanted.iter().any(|name| matches(document, name));
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
