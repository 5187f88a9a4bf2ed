//! What an experiment says of its runs.

use std::time::Duration;

use crate::experiment::Experiment;
use trunkline_schema::At;

/// The most runs of a point.
const MAX_RUNS: u32 = 10_000;
/// The longest run.
const LONGEST: Duration = Duration::from_secs(10_000_000);

pub(super) fn check(experiment: &Experiment, root: &At<'_>) {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let id = |at: &At<'_>, id: &str| {
        if id.is_empty() || id.len() > 64 || !id.chars().all(plain) {
            at.refuse("1 to 64 of a-z 0-9 -");
        }
    };
    id(&root.key("id"), &experiment.id);
    for (number, alias) in experiment.aliases.iter().enumerate() {
        id(&root.key("aliases").index(number), alias);
    }
    if experiment.title.trim().is_empty() || experiment.title.contains('\n') {
        root.key("title").refuse("one line");
    }
    let runs = |at: &At<'_>, runs: u32| {
        if !(1..=MAX_RUNS).contains(&runs) {
            at.key("runs").refuse(format!("1 to {MAX_RUNS}"));
        }
    };
    runs(root, experiment.runs);
    if let Some(quick) = &experiment.quick {
        runs(&root.key("quick"), quick.runs);
    }
    if experiment.seed > u64::from(u32::MAX) {
        root.key("seed").refuse("0 to 4294967295");
    }
}

/// What may differ from point to point.
pub(super) fn check_point(experiment: &Experiment, root: &At<'_>) {
    let duration = experiment.duration.0;
    if duration.is_zero() || duration > LONGEST {
        root.key("duration").refuse("more than no time, up to 10000000 s");
    } else if experiment.warm_up.0 >= duration {
        root.key("warm_up").refuse("less than duration");
    }
    if let Some(series) = &experiment.series {
        let every = series.every.0;
        let most = 100_000;
        if every.is_zero() || duration.as_nanos() / every.as_nanos().max(1) > most {
            let allowed = format!("more than no time, and up to {most} samples in the duration");
            root.key("series").key("every").refuse(allowed);
        }
        if series.of.is_empty() {
            root.key("series").key("of").report("is empty", "names of series, such as core.queue.packets");
        }
    }
}
