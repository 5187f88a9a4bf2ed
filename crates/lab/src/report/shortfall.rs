//! What does not hold, with its reason: what a reader of an index wants to see of an experiment.

use indexmap::{IndexMap, IndexSet};

use super::{counted, number, table};
use crate::experiment::{ClaimKind, Experiment};
use crate::results::Verdict;
use crate::statistics::bounds;
use crate::verdict::{Comparison, Judgement, Tally};

/// Whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// A claim of the paper.
    Paper,
    /// A claim of ours.
    Ours,
    /// Values that the paper has published, with one reason for all of them.
    Values,
}

impl Whose {
    fn of(kind: ClaimKind) -> Self {
        match kind {
            ClaimKind::Paper => Whose::Paper,
            ClaimKind::Ours => Whose::Ours,
        }
    }
}

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// Whose it is.
    pub whose: Whose,
    /// How it came out; of several values, the worst.
    pub verdict: Verdict,
    /// The claim; or which values, and how far ours are from them.
    pub what: String,
    /// Why; empty if nobody knows.
    pub why: String,
}

/// All of an experiment: its claims, then the paper's values by reason.
pub fn shortfalls(experiment: &Experiment, judgement: &Judgement) -> Vec<Shortfall> {
    let claims = experiment.claims.iter().zip(&judgement.claims);
    let mut all: Vec<Shortfall> = claims
        .filter(|(_, outcome)| outcome.verdict != Verdict::Holds)
        .map(|(claim, outcome)| Shortfall {
            whose: Whose::of(claim.kind),
            verdict: outcome.verdict,
            what: outcome.text.clone(),
            why: outcome.why.clone(),
        })
        .collect();
    let mut reasons: IndexMap<Option<&str>, Vec<&Comparison>> = IndexMap::new();
    for cell in judgement.comparisons.iter().filter(|cell| cell.verdict != Verdict::Holds) {
        reasons.entry(cell.why.as_deref()).or_default().push(cell);
    }
    all.extend(reasons.into_iter().map(|(why, cells)| of_values(experiment, why, &cells)));
    all
}

/// A line of the table of verdicts: a claim, or the values of one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Whose it is.
    pub whose: Whose,
    /// The claim, or the metric.
    pub what: String,
    /// How it came out, or each of the values.
    pub tally: Tally,
    /// Why not all of it holds, in a sentence; empty where all does.
    pub why: String,
}

/// All claims and values of an experiment, in its order.
pub(super) fn lines(experiment: &Experiment, judgement: &Judgement) -> Vec<Said> {
    let claims = experiment.claims.iter().zip(&judgement.claims).map(|(claim, outcome)| {
        let holds = outcome.verdict == Verdict::Holds;
        let believed = claim.why.as_deref().filter(|_| outcome.verdict != Verdict::Undecided);
        let why = believed.unwrap_or(&outcome.why);
        Said {
            whose: Whose::of(claim.kind),
            what: outcome.text.clone(),
            tally: Tally::of([outcome.verdict]),
            why: if holds || experiment.is_quick() { String::new() } else { first_sentence(why) },
        }
    });
    let mut metrics: IndexMap<&str, Vec<&Comparison>> = IndexMap::new();
    for cell in &judgement.comparisons {
        metrics.entry(&cell.metric).or_default().push(cell);
    }
    let values = metrics.into_iter().map(|(metric, cells)| Said {
        whose: Whose::Values,
        what: value_name(experiment, metric),
        tally: Tally::of(cells.iter().map(|cell| cell.verdict)),
        why: cells
            .iter()
            .filter(|cell| cell.verdict != Verdict::Holds)
            .find_map(|cell| cell.why.as_deref())
            .map(first_sentence)
            .unwrap_or_default(),
    });
    claims.chain(values).collect()
}

/// Up to the first full stop that a capital or nothing follows.
fn first_sentence(text: &str) -> String {
    let begins = |rest: &str| rest.chars().next().is_some_and(|next| next.is_uppercase() || next == '`');
    let end = text.match_indices(". ").map(|(at, stop)| (at + 1, at + stop.len()));
    let end = end.clone().find(|(_, next)| begins(&text[*next..])).map_or(text.len(), |(end, _)| end);
    text[..end].trim().to_owned()
}

/// What a published metric or ratio is called where no row is above it.
fn value_name(experiment: &Experiment, what: &str) -> String {
    table::published_name(experiment, what).trim_start_matches("… ").to_owned()
}

fn of_values(experiment: &Experiment, why: Option<&str>, cells: &[&Comparison]) -> Shortfall {
    let names: IndexSet<String> = cells.iter().map(|cell| value_name(experiment, &cell.metric)).collect();
    let names: Vec<String> = names.into_iter().collect();
    let ratios = cells.iter().filter_map(|cell| cell.ratio).filter(|ratio| ratio.is_finite());
    let ratio = match (bounds(ratios), cells) {
        (None, _) => String::new(),
        (Some((only, _)), [_]) => format!(", ours {} theirs", number::ratio(only)),
        (Some((min, max)), _) => format!(", ours {} to {} theirs", number::ratio(min), number::ratio(max)),
    };
    let tally = Tally::of(cells.iter().map(|cell| cell.verdict));
    Shortfall {
        whose: Whose::Values,
        verdict: [Verdict::Fails, Verdict::Differs]
            .into_iter()
            .find(|verdict| tally.count(*verdict) > 0)
            .unwrap_or(Verdict::Undecided),
        what: format!("{}: {}{ratio}", names.join("; "), counted(tally, &[])),
        why: why.unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_where_another_begins() {
        for (text, first) in [
            ("One. Two.", "One."),
            ("It is 1.5 s, e.g. for 3. Then 4.", "It is 1.5 s, e.g. for 3."),
            ("Nothing follows", "Nothing follows"),
            ("With `a`. `b` follows.", "With `a`."),
        ] {
            assert_eq!(first_sentence(text), first);
        }
    }
}
