//! Which settings are run as often as the file says.

use super::judged::{Judged, Said, best};
use crate::experiment::Experiment;

/// Settings that bear out, by the runs there are, what none does that is confirmed. At first few settings for many answers, those that
/// bear out most; then for each answer the closest.
pub(super) fn for_answers(experiment: &Experiment, judged: &[Judged], at_first: bool) -> Vec<u32> {
    let Some(first) = judged.first() else { return Vec::new() };
    let full = experiment.runs;
    let values = (0..first.judgement.comparisons.len()).map(Said::Value);
    let claims = (0..first.judgement.claims.len()).map(Said::Claim);
    let is_open = |said: &Said| !judged.iter().any(|one| one.runs >= full && one.holds(*said));
    let mut open: Vec<Said> = values.chain(claims).filter(is_open).collect();
    let candidates: Vec<&Judged> = best(judged).into_iter().filter(|one| one.runs < full).collect();
    let mut wanted = Vec::new();
    if at_first {
        loop {
            let gain = |one: &Judged| open.iter().filter(|said| one.holds(**said)).count();
            // The first of those with the same gain.
            let most = candidates.iter().rev().max_by_key(|one| gain(one)).filter(|one| gain(one) > 0);
            let Some(most) = most else { break };
            wanted.push(most.number);
            open.retain(|said| !most.holds(*said));
        }
    } else {
        for said in open {
            let mut holding = candidates.iter().filter(|one| one.holds(said));
            let closest = match said {
                Said::Value(place) => holding.min_by(|a, b| a.distance(place).total_cmp(&b.distance(place))),
                Said::Claim(_) => holding.next(),
            };
            wanted.extend(closest.map(|one| one.number));
        }
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// The setting that has most values by the runs there are, unless it is confirmed.
pub(super) fn for_most_values(experiment: &Experiment, judged: &[Judged]) -> Vec<u32> {
    let best = best(judged);
    let first = best.first().filter(|one| !one.judgement.comparisons.is_empty());
    first.filter(|one| one.runs < experiment.runs).map(|one| one.number).into_iter().collect()
}
