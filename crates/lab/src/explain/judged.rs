//! Each setting as an experiment of its own.

use crate::experiment::{ClaimKind, Experiment};
use crate::results::Verdict;
use crate::verdict::Judgement;

/// A setting with all of its points.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    pub(super) number: u32,
    /// Runs at each point, where there are fewest.
    pub(super) runs: u32,
    pub(super) judgement: Judgement,
}

/// Something that a setting may bear out, by its place among the experiment's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Value(usize),
    Claim(usize),
}

impl Judged {
    /// How many published values hold.
    pub(super) fn values_holding(&self) -> usize {
        self.judgement.cells().count(Verdict::Holds)
    }

    pub(super) fn verdict(&self, said: Said) -> Verdict {
        match said {
            Said::Value(place) => self.judgement.comparisons[place].verdict,
            Said::Claim(place) => self.judgement.claims[place].verdict,
        }
    }

    pub(super) fn holds(&self, said: Said) -> bool {
        self.verdict(said) == Verdict::Holds
    }

    /// How far ours is from a published value, by ratio: 0 if they are the same.
    pub(super) fn distance(&self, value: usize) -> f64 {
        let ratio = self.judgement.comparisons[value].ratio.filter(|ratio| *ratio > 0.0);
        ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs())
    }

    /// The same of all values: that of one that is not there or has another sign is as much as that of a factor of 100.
    pub(super) fn distance_of_all(&self) -> f64 {
        (0..self.judgement.comparisons.len()).map(|value| self.distance(value).min(100_f64.ln())).sum()
    }
}

/// Settings that were drawn, those with most values first.
pub(super) fn best(judged: &[Judged]) -> Vec<&Judged> {
    let mut best: Vec<&Judged> = judged.iter().filter(|one| one.number > 0).collect();
    best.sort_by(|a, b| {
        b.values_holding()
            .cmp(&a.values_holding())
            .then_with(|| a.distance_of_all().total_cmp(&b.distance_of_all()))
    });
    best
}

/// Whether each value and each claim of the paper has a setting that bears it out with all runs: more settings only sharpen shares then.
pub(super) fn is_decided(experiment: &Experiment, judged: &[Judged]) -> bool {
    let Some(first) = judged.first() else { return false };
    let values = (0..first.judgement.comparisons.len()).map(Said::Value);
    let claims = experiment.claims.iter().enumerate();
    let claims =
        claims.filter(|(_, claim)| claim.kind == ClaimKind::Paper).map(|(place, _)| Said::Claim(place));
    values.chain(claims).all(|said| judged.iter().any(|one| one.runs >= experiment.runs && one.holds(said)))
}
