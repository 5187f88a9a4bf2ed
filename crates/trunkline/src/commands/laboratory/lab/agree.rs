//! `lab agree`: the same experiments by both engines.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use trunkline_engine::Engine;
use trunkline_lab::agree::{self, Agreement};
use trunkline_lab::document::Document;

use super::run::{campaign, print_failures, studies};
use super::{Errors, ready};
use crate::cli::laboratory::AgreeArguments;
use crate::commands::laboratory::interrupt;
use crate::failure::Failure;
use crate::output::print;
use trunkline_lab::embedded::open;

/// The page of the comparison, and the same as Markdown and as JSON.
const FILES: [&str; 3] = ["agree.html", "agree.md", "agree.json"];

pub(super) fn agree(arguments: &AgreeArguments) -> Result<(), Failure> {
    let execution = &arguments.execution;
    let mut errors = Errors::default();
    // Both engines make what the slower can make quickly.
    let testbed = arguments.attempts.of(&Engine::TESTBED);
    let read = |file: &PathBuf| open(file).and_then(|document| execution.apply(document, &testbed));
    let documents: Vec<Document> =
        arguments.files.iter().filter_map(|file| errors.check(read(file))).collect();
    let studies = studies(&documents, errors)?;
    let testbed = ready(&testbed)?;
    let stop = interrupt::watch(&testbed)?;
    let mut campaigns = Vec::new();
    for engine in [Engine::Sim, testbed] {
        let out = execution.out.join(engine.name());
        let (campaign, _) = campaign(&studies, execution, engine, &out, &stop)?;
        print_failures(&campaign, execution)?;
        campaigns.push(campaign);
    }
    let complete = campaigns[0].complete.iter().zip(&campaigns[1].complete);
    let agreements: Vec<Agreement> = complete.map(|(one, other)| agree::agreement(one, other)).collect();
    let document = agree::document(&agreements);
    let json = serde_json::to_string_pretty(&agreements).map_err(Failure::doing("cannot print"))?;
    for (file, text) in FILES.iter().zip([document.page_html(), document.markdown(), json.clone() + "\n"]) {
        fs::write(execution.out.join(file), text).map_err(Failure::doing("cannot write the comparison"))?;
    }
    if execution.json {
        return print(&(json + "\n"));
    }
    print(&table(&agreements))?;
    print(&format!("The page: {}\n", execution.out.join(FILES[0]).display()))
}

/// A line for each quantity, and the claims that come out differently.
fn table(agreements: &[Agreement]) -> String {
    let mut text = String::new();
    let deviations = agree::deviations(agreements);
    let width = deviations.iter().map(|deviation| deviation.quantity.len()).max().unwrap_or(8).max(8);
    let _ = writeln!(text, "{:width$}  compared  median factor  worst factor", "quantity");
    for deviation in &deviations {
        let agree::Deviation { quantity, compared, median, worst, worst_at } = deviation;
        let _ = writeln!(text, "{quantity:width$}  {compared:>8}  {median:>13.3}  {worst:>12.2}  {worst_at}");
    }
    if let Some(sentence) = agree::claims_agree(agreements) {
        let _ = writeln!(text, "\n{sentence}");
    }
    text
}
