//! What the settings of papers' unknowns say, in the index over all experiments.

use super::document::{Align, Document, plain, table};
use super::explanation::{drawn, set_up_counts, value_name};
use super::{Entry, QUICK, number};
use crate::experiment::{ClaimKind, Experiment};
use crate::explain::{Explanation, Joint, SetUp, joint};

/// An experiment and what came of its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// As it ran.
    pub experiment: Experiment,
    /// What came of it.
    pub answer: Explanation,
}

/// All that is explained.
pub(super) struct Open<'a>(pub(super) &'a [Answered]);

const MEANING: &str = "What a paper does not say, its experiment here has as an unknown, with what is plausible and why. `trunkline lab explain` runs settings of these. A value or a claim holds with our choice, *for some set-up* if another setting bears it out when it is run as often as the file says, and *for none* if no setting that was run does. The counts are of these experiments, by the runs of that command.";

impl Open<'_> {
    pub(super) fn of(&self, entry: &Entry) -> Option<&Answered> {
        self.0.iter().find(|answered| answered.answer.experiment == entry.id)
    }

    /// What it means, and a row for each paper.
    pub(super) fn introduce(&self, index: &mut Document, entries: &[Entry]) {
        let all: Vec<(&Entry, &Answered)> =
            entries.iter().filter_map(|entry| Some((entry, self.of(entry)?))).collect();
        if all.is_empty() {
            return;
        }
        let mut papers: Vec<&str> = all.iter().filter_map(|(entry, _)| entry.paper.as_deref()).collect();
        papers.dedup();
        let row = |name: &str, answered: &[&Answered]| {
            let mut sums = [[0; 4]; 2];
            for one in answered {
                for (sum, counts) in sums.iter_mut().zip(one.answer.counts()) {
                    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                }
            }
            let [values, claims] = sums.map(cell);
            vec![name.to_owned(), answered.len().to_string(), claims, values]
        };
        let of = |paper: &str| {
            let own = all.iter().filter(|(entry, _)| entry.paper.as_deref() == Some(paper));
            own.map(|(_, answered)| *answered).collect::<Vec<_>>()
        };
        let mut rows: Vec<Vec<String>> = papers.iter().map(|paper| row(paper, &of(paper))).collect();
        rows.push(row("**all**", &all.iter().map(|(_, answered)| *answered).collect::<Vec<_>>()));
        index.add(MEANING);
        if let Some(quick) = quick(&all) {
            index.add(&quick);
        }
        let heads = ["paper", "explained", "the paper’s claims, over all set-ups", "the paper’s values"];
        index.add(&table(&heads, &rows, &[Align::Left, Align::Right, Align::Left, Align::Left]));
        let answers: Vec<&Explanation> = all.iter().map(|(_, answered)| &answered.answer).collect();
        add_joint(index, &joint(&answers));
    }
}

const JOINT: &str = "Experiments of a paper that share unknowns were made with one set-up, as far as one can tell. How much is given, by the runs there are, single ones included: where each claim and value may have a setting of its own; the most where all have one set-up, and what an experiment alone leaves open may be something else for each of its claims and values; and with one set-up and one setting of each experiment, for the set-up that gives most so.";

/// What one set-up for all experiments of a paper gives.
fn add_joint(index: &mut Document, all: &[Joint]) {
    if all.is_empty() {
        return;
    }
    let row = |joint: &Joint| {
        let best = joint.set_ups.first();
        vec![
            joint.paper.clone(),
            joint.experiments.len().to_string(),
            joint.run.to_string(),
            joint.apart.of(joint),
            joint.most.of(joint),
            best.map_or_else(|| "–".to_owned(), |best| best.at_once.of(joint)),
            plain(&best.map(|best| joint.in_words(best)).unwrap_or_default()),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let heads = [
        "paper",
        "experiments",
        "set-ups run",
        "each its own setting",
        "one set-up",
        "one setting of each",
        "which",
    ];
    let mut aligns = [Align::Left; 7];
    (aligns[1], aligns[2]) = (Align::Right, Align::Right);
    index.add(JOINT);
    index.add(&table(&heads, &rows, &aligns));
}

/// What is said where some were explained by quick runs.
fn quick(all: &[(&Entry, &Answered)]) -> Option<String> {
    let quick: Vec<String> = all
        .iter()
        .filter(|(_, answered)| answered.experiment.is_quick())
        .map(|(entry, _)| format!("`{}`", entry.id))
        .collect();
    let (runs, them) = match quick.len() {
        0 => return None,
        1 => ("is of quick runs, shorter or at fewer points", "its file"),
        _ => ("are of quick runs, shorter or at fewer points", "their files"),
    };
    Some(format!("What is said of {} {runs} than {them} ask for.", quick.join(", ")))
}

fn cell(counts: [usize; 4]) -> String {
    if counts == [0; 4] { "–".to_owned() } else { set_up_counts(counts) }
}

/// What came of an experiment: what other set-ups bear out, what none does, and which comes closest.
pub(super) fn bullet(answered: &Answered) -> String {
    let Answered { experiment, answer } = answered;
    let [values, claims] = answer.counts();
    let mut counts = Vec::new();
    if claims != [0; 4] {
        counts.push(format!("claims: {}", set_up_counts(claims)));
    }
    if values != [0; 4] {
        counts.push(format!("values: {}", set_up_counts(values)));
    }
    let (settings, unknowns) =
        (number::count(answer.settings as usize, "setting"), number::count(answer.unknowns.len(), "unknown"));
    let quick = if experiment.is_quick() { format!(" ({QUICK})") } else { String::new() };
    let mut lines = vec![format!(
        "- `{}`{quick}, {settings} of {unknowns}. {}.",
        answer.experiment,
        upper(&counts.join("; "))
    )];
    let papers = || answer.claims.iter().filter(|claim| claim.kind == ClaimKind::Paper);
    for (set_up, head) in [(SetUp::Some, "For some set-up"), (SetUp::None, "For none")] {
        let claims = papers()
            .filter(|claim| claim.set_up == set_up)
            .map(|claim| format!("“{}” ({} of {})", claim.text, claim.share.holding, claim.share.of));
        let values = answer.values.iter().filter(|value| value.set_up == set_up).map(|value| {
            let name = value_name(experiment, value);
            let ratio = value.closest.map(|near| near.ours / value.paper).filter(|ratio| ratio.is_finite());
            match (set_up, ratio) {
                (SetUp::None, Some(ratio)) => format!("{name} (closest {})", number::ratio(ratio)),
                _ => format!("{name} ({} of {})", value.share.holding, value.share.of),
            }
        });
        let all: Vec<String> = claims.chain(values).map(|text| plain(&text)).collect();
        if !all.is_empty() {
            lines.push(format!("  {head}: {}.", all.join("; ")));
        }
    }
    if let Some(best) = answer.together.first() {
        let drawn = plain(&drawn(answer, best.setting));
        let all = answer.values.len();
        lines.push(format!("  Closest to all values: {drawn}; {} of {all}.", best.holding));
    }
    lines.join("\n")
}

fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
