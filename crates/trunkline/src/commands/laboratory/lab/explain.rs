//! `lab explain`: whether a paper's values and claims follow from any plausible set-up.

use std::path::{Path, PathBuf};

use trunkline_engine::Engine;
use trunkline_lab::document::Document;
use trunkline_lab::explain::{self, ExplainError, Explained, Explanation, Joint, Options, SetUp};
use trunkline_lab::number::count;
use trunkline_lab::report::{
    self as reports, EXPLANATION_PAGE, ReportError, robustness_word, set_up_counts, set_up_word, share,
};
use trunkline_lab::results;
use trunkline_lab::store::Begin;

use super::failure;
use super::progress::Bar;
use super::run::report_failures;
use super::{Errors, jobs, papers};
use crate::cli::laboratory::ExplainArguments;
use crate::commands::laboratory::interrupt;
use crate::failure::Failure;
use crate::output::{print, print_line, remark};

pub(super) fn explain(arguments: &ExplainArguments) -> Result<(), Failure> {
    let mut errors = Errors::default();
    let documents = documents(arguments, &mut errors);
    errors.finish("nothing was run")?;
    let options = Options {
        settings: arguments.settings,
        least: arguments.at_least,
        runs: arguments.runs,
        seed: arguments.seed.into(),
        budget: arguments.budget,
        jobs: jobs(arguments.jobs, &Engine::Sim),
        out: arguments.out.clone(),
        begin: match (arguments.resume, arguments.force) {
            (true, _) => Begin::Resume,
            (_, true) => Begin::Force,
            _ => Begin::Fresh,
        },
    };
    let stop = interrupt::watch(&Engine::Sim)?;
    let mut all: Vec<(Result<Option<Explanation>, ReportError>, Explained)> = Vec::new();
    let mut bar = Bar::new();
    let ran = explain::run(
        &documents,
        &options,
        stop.flag(),
        |progress| bar.show(&progress),
        // Its page is there as soon as it is done.
        |explained| all.push((reports::write_explanation(&explained.directory), explained)),
    );
    drop(bar);
    let mut printed = Ok(());
    let (mut interrupted, mut failures, mut answers) = (false, Vec::new(), Vec::new());
    for (answer, explained) in all {
        interrupted |= explained.interrupted;
        failures.extend(explained.failures);
        let Some(answer) = answer.map_err(failure)? else { continue };
        if printed.is_err() {
            continue;
        }
        printed = if arguments.json {
            let line = serde_json::to_string(&answer).map_err(Failure::doing("cannot print"))?;
            print_line(&line)
        } else {
            print(&text(&answer, &explained.directory.path().join(EXPLANATION_PAGE)))
        };
        answers.push(answer);
    }
    for joint in explain::joint(&answers.iter().collect::<Vec<_>>()) {
        if printed.is_ok() {
            printed = print_joint(&joint, arguments.json);
        }
    }
    // What was done before is told first.
    ran.map_err(|error| match error {
        ExplainError::Store(error) => error.into(),
        other => Failure::Input(other.to_string()),
    })?;
    if interrupted {
        remark(&format_args!(
            "trunkline: finished runs are kept in {}; the same command with --resume continues",
            arguments.out.display()
        ));
    }
    report_failures(&failures);
    match failures.len() {
        _ if interrupted => Err(Failure::Interrupted),
        0 => printed,
        some => Err(Failure::Other(format!("{} failed; --resume tries again", count(some, "run")))),
    }
}

/// Those that are asked for: a file, an experiment of the program by its id, or all of a paper that have unknowns.
fn documents(arguments: &ExplainArguments, errors: &mut Errors) -> Vec<Document> {
    let (changes, engine) = (&arguments.changes, &Engine::Sim);
    let mut documents = Vec::new();
    for file in &arguments.files {
        let of_paper = papers_experiments(file, errors);
        if of_paper.is_empty() {
            documents.extend(errors.check(changes.read(file, engine)));
        }
        for document in of_paper {
            documents.extend(errors.check(changes.apply(document, engine)));
        }
    }
    let mut ids: Vec<&str> = documents.iter().map(|document| document.experiment().id.as_str()).collect();
    ids.sort_unstable();
    if let Some((id, _)) = ids.iter().zip(ids.iter().skip(1)).find(|(one, next)| one == next) {
        errors.add(format!("two experiments have the id {id:?}: their results would be in one place"));
    }
    documents
}

fn papers_experiments(name: &Path, errors: &mut Errors) -> Vec<Document> {
    if name.exists() {
        return Vec::new();
    }
    let of = |document: &Document| {
        let experiment = document.experiment();
        experiment.paper.as_deref().map(PathBuf::from).as_deref() == Some(name)
            && !experiment.unknown.is_empty()
    };
    papers::all(errors).into_iter().filter(of).collect()
}

/// What came of an experiment: what does not hold with the file's set-up, and all claims.
fn text(answer: &Explanation, page: &Path) -> String {
    let [values, claims] = answer.counts();
    let settings = count(answer.settings as usize, "setting");
    let unknowns = count(answer.unknowns.len(), "unknown");
    let mut lines = vec![
        format!("{}  {}", answer.experiment, answer.title),
        format!("  {settings} of {unknowns}, seed {}", answer.seed),
    ];
    if !answer.values.is_empty() {
        lines.push(format!("  published values: {}", set_up_counts(values)));
    }
    for value in answer.values.iter().filter(|value| value.set_up != SetUp::Holds) {
        let at = results::at(&value.point);
        let (word, share) = (set_up_word(value.set_up), share(&value.share));
        lines.push(format!("    {word:<15} {}{at}: {share} of the settings", value.metric));
    }
    if claims.iter().sum::<usize>() > 0 {
        lines.push(format!("  claims of the paper: {}", set_up_counts(claims)));
    }
    for claim in &answer.claims {
        let holds = claim.robustness.map_or("undecided", robustness_word);
        let with = if claim.set_up == SetUp::Holds { "" } else { ", not with the file's" };
        lines.push(format!("    {holds:<15} {}: {}{with}", claim.text, share(&claim.share)));
    }
    if let Some(best) = answer.together.first() {
        let all = answer.values.len();
        lines.push(format!("  together: setting {} has {} of {all} values", best.setting, best.holding));
    }
    lines.push(format!("  page: {}\n\n", page.display()));
    lines.join("\n")
}

fn print_joint(joint: &Joint, json: bool) -> Result<(), Failure> {
    if json {
        let line = serde_json::to_string(joint).map_err(Failure::doing("cannot print"))?;
        return print_line(&line);
    }
    print(&joint_text(joint))
}

/// What the experiments of a paper say together.
fn joint_text(joint: &Joint) -> String {
    let mut lines = vec![
        format!("{}  one set-up for {}", joint.paper, joint.experiments.join(", ")),
        format!("  {} were run in all of them", count(joint.run, "set-up")),
        format!("  each claim and value with a setting of its own: {}", joint.apart.of(joint)),
        format!("  with one set-up: {}", joint.most.of(joint)),
        "  with one set-up and one setting of each experiment:".to_owned(),
    ];
    for set_up in &joint.set_ups {
        let settings = count(set_up.settings, "setting");
        lines.push(format!("    {}: {}", joint.in_words(set_up), set_up.at_once.of(joint)));
        lines.push(format!(
            "      with another setting for each: {}; {settings} or more",
            set_up.given.of(joint)
        ));
    }
    lines.push("\n".to_owned());
    lines.join("\n")
}
