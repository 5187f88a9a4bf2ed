//! `lab scorecard`: evaluates congestion controls by nine guidelines.

use std::fmt::Write as _;

use trunkline_lab::document::{Document, Mistakes};
use trunkline_lab::report::Entry;

use super::run::run_all;
use super::{Errors, papers};
use crate::cli::laboratory::ScorecardArguments;
use crate::failure::Failure;
use crate::output::print;

/// The paper whose experiments are the guidelines.
const PAPER: &str = "rfc9743";
/// The name of the TCP under test in these experiments.
const CANDIDATE: &str = "candidate";

pub(super) fn scorecard(arguments: &ScorecardArguments) -> Result<(), Failure> {
    let mut errors = Errors::default();
    let guidelines: Vec<Document> = papers::all(&mut errors)
        .into_iter()
        .filter(|document| document.experiment().paper.as_deref() == Some(PAPER))
        .collect();
    let mut names: Vec<&str> = Vec::new();
    for name in &arguments.names {
        if !names.contains(&name.name()) {
            names.push(name.name());
        }
    }
    let mut documents = Vec::new();
    for name in &names {
        for guideline in &guidelines {
            let prepared = prepare(guideline.clone(), name);
            documents.extend(errors.check(
                prepared.and_then(|document| arguments.execution.apply(document, &arguments.on.engine())),
            ));
        }
    }
    let entries = run_all(&documents, errors, &arguments.execution, &arguments.on.engine())?;
    if arguments.execution.json { Ok(()) } else { print(&table(&guidelines, &names, &entries)) }
}

/// A guideline for one congestion control, with an id of its own.
fn prepare(mut guideline: Document, name: &str) -> Result<Document, Mistakes> {
    let id = format!("{}-{name}", guideline.experiment().id);
    let title = format!("{} ({name})", guideline.experiment().title);
    let candidate = guideline.experiment().tcp.get(CANDIDATE).and_then(|tcp| tcp.growth.clone());
    if candidate.as_deref() != Some(name) {
        // The reasons in the file are about the congestion control that the file names.
        let claims = guideline.experiment().claims.iter().enumerate();
        let reasons: Vec<usize> =
            claims.filter(|(_, claim)| claim.why.is_some()).map(|(number, _)| number).collect();
        for number in reasons {
            guideline.set(&format!("claims.{number}.why"), "\"\"")?;
        }
    }
    guideline.set(&format!("tcp.{CANDIDATE}.growth"), &quoted(name))?;
    guideline.set("id", &quoted(&id))?;
    guideline.set("title", &quoted(&title))?;
    Ok(guideline)
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// A line for each guideline, a column for each congestion control.
fn table(guidelines: &[Document], names: &[&str], entries: &[Entry]) -> String {
    let width =
        guidelines.iter().map(|document| document.experiment().title.chars().count()).max().unwrap_or(0);
    let mut text = format!("{:width$}", "");
    for name in names {
        let _ = write!(text, "  {name:>9}");
    }
    text.push('\n');
    for guideline in guidelines {
        let experiment = guideline.experiment();
        let _ = write!(text, "{:width$}", experiment.title);
        for name in names {
            let id = format!("{}-{name}", experiment.id);
            let word = entries.iter().find(|entry| entry.id == id).map_or("–", |entry| {
                let [.., ours] = entry.tallies;
                let [_, differs, fails, undecided] = ours.parts().map(|(_, count)| count);
                match (fails, undecided, differs) {
                    (0, 0, 0) => "holds",
                    (0, 0, _) => "in part",
                    (0, ..) => "undecided",
                    _ => "fails",
                }
            });
            let _ = write!(text, "  {word:>9}");
        }
        text.push('\n');
    }
    text + "\nholds: every condition; in part: the weaker ones; fails: at least one does; undecided: one that has no\nanswer in these runs. The reports say which, and by how much.\n"
}
