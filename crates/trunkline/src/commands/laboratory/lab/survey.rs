//! `lab survey`: variants of an experiment over random samples of its unknowns.

use std::fmt::Write as _;

use trunkline_lab::experiment::Bound;
use trunkline_lab::number::count;
use trunkline_lab::store::Begin;
use trunkline_lab::survey::{
    self as surveys, BoundOutcome, Comparison, Options, Survey, SurveyError, Thresholds, WORST,
};

use super::progress::Bar;
use super::run::report_failures;
use super::{Errors, jobs, ready};
use crate::cli::laboratory::SurveyArguments;
use crate::commands::laboratory::interrupt;
use crate::failure::Failure;
use crate::output::{print, remark};

/// Properties that are shown with their groups.
const MAX_INFLUENCES: usize = 4;

pub(super) fn survey(arguments: &SurveyArguments) -> Result<(), Failure> {
    let mut errors = Errors::default();
    let engine = arguments.on.engine();
    let document = errors.check(arguments.changes.read(&arguments.file, &engine));
    let document = document.filter(|document| errors.check(document.plan()).is_some());
    errors.finish("nothing was run")?;
    let Some(document) = document else { return Ok(()) };
    let engine = ready(&engine)?;
    let options = Options {
        samples: arguments.samples,
        seed: arguments.seed,
        worst: arguments.worst.into(),
        jobs: jobs(arguments.jobs, &engine),
        engine,
        out: arguments.out.clone(),
        begin: match (arguments.resume, arguments.force) {
            (true, _) => Begin::Resume,
            (_, true) => Begin::Force,
            _ => Begin::Fresh,
        },
    };
    let stop = interrupt::watch(&options.engine)?;
    let mut bar = Bar::new();
    let surveyed = surveys::run(&document, &options, stop.flag(), |progress| bar.show(&progress));
    drop(bar);
    let surveyed = surveyed.map_err(|error| match error {
        SurveyError::Store(error) => error.into(),
        other => Failure::Input(other.to_string()),
    })?;
    let survey = &surveyed.survey;
    let files = surveyed.directory.path().join(WORST);
    let text = if arguments.json { json(survey)? } else { text(survey, &files.display().to_string()) };
    let printed = print(&text);
    for (why, points) in &surveyed.refused {
        let points = count(*points, "point");
        remark(&format_args!("trunkline: {}: not on this engine, {points}: {why}", survey.experiment));
    }
    report_failures(&surveyed.failures);
    if surveyed.interrupted {
        let out = arguments.out.display();
        remark(&format_args!(
            "trunkline: finished runs are kept in {out}; the same command with --resume continues"
        ));
        return Err(Failure::Interrupted);
    }
    printed?;
    let missed = survey.bounds.iter().filter(|bound| !bound.holds).count();
    match (surveyed.failures.len(), missed) {
        (0, 0) if survey.complete == 0 => Err(Failure::Lacking("nothing was run on this engine".to_owned())),
        (0, 0) => Ok(()),
        (0, missed) => Err(Failure::Bound(format!(
            "{missed} of {} not hold",
            count(survey.bounds.len(), "bound") + if missed == 1 { " does" } else { " do" }
        ))),
        (failed, _) => Err(Failure::Other(format!("{} failed; --resume tries again", count(failed, "run")))),
    }
}

/// A line for each sample, and one for all.
fn json(survey: &Survey) -> Result<String, Failure> {
    let samples = survey.samples.iter().map(serde_json::to_string);
    let lines = samples.chain([serde_json::to_string(survey)]);
    lines
        .map(|line| line.map(|line| line + "\n"))
        .collect::<Result<_, _>>()
        .map_err(Failure::doing("cannot print"))
}

fn text(survey: &Survey, files: &str) -> String {
    let mut text = format!(
        "{}  {}\n  {} of {}, seed {}, {}\n",
        survey.experiment,
        survey.title,
        survey.complete,
        count(survey.asked as usize, "sample"),
        survey.seed,
        survey.engine
    );
    for comparison in &survey.comparisons {
        text += &of_comparison(comparison);
    }
    if !survey.worst().is_empty() {
        let _ = writeln!(text, "  the worst samples, as files in {files}:");
    }
    for number in survey.worst() {
        let about = survey.about(number);
        let _ = writeln!(text, "    {}: {}", survey.file(number), about.join("; "));
    }
    for bound in &survey.bounds {
        text += &of_bound(bound);
    }
    text
}

fn of_comparison(comparison: &Comparison) -> String {
    let Comparison { measure, metric, variant, samples, quantiles, .. } = comparison;
    let samples = count(*samples, "sample");
    let mut text = format!("  {measure} of {variant} to the baseline's ({metric}), {samples}\n");
    let names = ["min", "5 %", "25 %", "median", "75 %", "95 %", "max"];
    let shown = names.iter().zip(quantiles).map(|(name, value)| format!("{name} {value:.2}"));
    let _ = writeln!(text, "    {}", shown.collect::<Vec<_>>().join("   "));
    let parts = comparison.parts.iter().map(of_part);
    let _ = writeln!(text, "    {}", parts.collect::<Vec<_>>().join("   "));
    for influence in comparison.influences.iter().filter(|one| one.is_clear()).take(MAX_INFLUENCES) {
        let choice = influence.choice.as_ref().map(|choice| format!(" = {choice}")).unwrap_or_default();
        let (name, rho) = (&influence.unknown, influence.rho);
        let _ = writeln!(text, "    depends on {name}{choice}: rank correlation {rho:.2}");
        for group in comparison.groups.get(name).into_iter().flatten() {
            let [first, second, ..] = group.parts[..] else { continue };
            let of = group.samples;
            let worst = group.worst;
            let [one, other] = [&comparison.parts[0], &comparison.parts[1]].map(limit);
            let _ = writeln!(
                text,
                "      {:<26} {first:>3} of {of:>3} {one}, {second:>3} {other}, worst {worst:.2}",
                group.values
            );
        }
    }
    text
}

/// `below 0.9`.
fn limit(part: &Thresholds) -> String {
    let side = |side: &str, value: Option<f64>| value.map(|value| format!("{side} {value}"));
    side("below", part.below).or_else(|| side("above", part.above)).unwrap_or_default()
}

fn of_part(part: &Thresholds) -> String {
    format!("{}: {:.1} %", limit(part), 100.0 * part.part)
}

fn of_bound(outcome: &BoundOutcome) -> String {
    let BoundOutcome { bound: Bound { measure, below, above, at_most }, variant, part, samples, holds } =
        outcome;
    let mark = if *holds { "✓ holds" } else { "✗ fails" };
    let limit = limit(&Thresholds { below: *below, above: *above, samples: *samples, part: *part });
    let [at_most, part] = [at_most.0, *part].map(|part| 100.0 * part);
    format!(
        "  {mark}  {measure} of {variant} {limit} in at most {at_most:.1} % of samples: {part:.1} % ({samples})\n"
    )
}
