//! From judgements of settings to answers.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF as _};

use super::influence::{self, Influence};
use super::judged::{Judged, best};
use crate::document::Document;
use crate::experiment::{ClaimKind, Experiment};
use crate::plan::{Setting, Space};
use crate::results::{Point, UnknownAnswer, Verdict};
use crate::statistics::bounds;

/// How many of the settings with the most published values are named.
const CLOSEST: usize = 3;

/// What came of an experiment's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The experiment's id.
    pub experiment: String,
    /// Its title.
    pub title: String,
    /// The paper it is from.
    pub paper: Option<String>,
    /// The version that made the runs.
    pub version: String,
    /// The seed of the settings.
    pub seed: u64,
    /// Settings that were drawn and run.
    pub settings: u32,
    /// Runs of a setting at each point, at least.
    pub runs: u32,
    /// The same of the settings that an answer rests on.
    pub full_runs: u32,
    /// What the paper leaves open.
    pub unknowns: Vec<UnknownAnswer>,
    /// The paper's values.
    pub values: Vec<ValueAnswer>,
    /// The settings that have most of the values, the best first.
    pub together: Vec<Together>,
    /// What is said.
    pub claims: Vec<ClaimAnswer>,
    /// Every setting; 0 is the file's.
    pub samples: Vec<Sample>,
}

/// Whether a set-up bears something out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetUp {
    /// The file's does.
    Holds,
    /// Another plausible one does.
    Some,
    /// None of those that were run does.
    None,
    /// Nobody knows.
    Undecided,
}

/// So many of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// How many.
    pub holding: u32,
    /// Of how many that are decided.
    pub of: u32,
    /// Lower end of the 95 % interval of the part of all plausible settings (Clopper and Pearson).
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A value of ours at some setting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Near {
    /// The setting.
    pub setting: u32,
    /// Ours there, in the metric's own unit.
    pub ours: f64,
    /// How it came out.
    pub verdict: Verdict,
    /// Runs at each point.
    pub runs: u32,
}

/// A published value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValueAnswer {
    /// The metric.
    pub metric: String,
    /// Where in the sweep.
    pub point: Point,
    /// What it was published in, if that is not the metric's own unit.
    pub unit: Option<String>,
    /// The published value in the metric's own unit.
    pub paper: f64,
    /// Ours with the file's set-up.
    pub chosen: Option<f64>,
    /// How that came out.
    pub verdict: Verdict,
    /// Whether some set-up has it.
    pub set_up: SetUp,
    /// Settings that have it.
    pub share: Share,
    /// Ours over all settings: minimum and maximum.
    pub range: Option<(f64, f64)>,
    /// The closest.
    pub closest: Option<Near>,
    /// What it depends on.
    pub influences: Vec<Influence>,
}

/// A setting and the published values it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// The setting.
    pub setting: u32,
    /// How many values hold.
    pub holding: usize,
    /// Places of those that do not, in [`Explanation::values`], and ours over theirs.
    pub off: Vec<(usize, Option<f64>)>,
    /// Runs at each point.
    pub runs: u32,
}

/// For how many of the settings a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Robustness {
    /// For all.
    All,
    /// For more than half.
    Most,
    /// For half or fewer.
    Some,
    /// For none.
    None,
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimAnswer {
    /// What is said.
    pub text: String,
    /// By whom.
    pub kind: ClaimKind,
    /// How it came out with the file's set-up.
    pub verdict: Verdict,
    /// Whether some set-up bears it out.
    pub set_up: SetUp,
    /// Settings for which it holds.
    pub share: Share,
    /// Of the others, those for which its weaker form does.
    pub differing: u32,
    /// The same in a word; none if it is undecided everywhere.
    pub robustness: Option<Robustness>,
    /// A setting for which it holds, where the file's is none, and what is the case there.
    pub witness: Option<(u32, String)>,
    /// What it depends on.
    pub influences: Vec<Influence>,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Its number; 0 is the file's.
    pub setting: u32,
    /// The value of each unknown, in their order; none of the file's.
    pub drawn: Vec<String>,
    /// The same as numbers in base units, or places of choices.
    pub positions: Vec<f64>,
    /// Ours for each published value.
    pub ours: Vec<Option<f64>>,
    /// How each published value came out.
    pub values: Vec<Verdict>,
    /// How each claim came out.
    pub claims: Vec<Verdict>,
    /// Runs at each point.
    pub runs: u32,
}

impl Explanation {
    /// How many values, and how many claims of the paper, came out in each way.
    pub fn counts(&self) -> [[usize; 4]; 2] {
        let count = |set_ups: &mut dyn Iterator<Item = SetUp>| {
            let mut counts = [0; 4];
            set_ups.for_each(|set_up| counts[set_up as usize] += 1);
            counts
        };
        let papers = self.claims.iter().filter(|claim| claim.kind == ClaimKind::Paper);
        [
            count(&mut self.values.iter().map(|value| value.set_up)),
            count(&mut papers.map(|claim| claim.set_up)),
        ]
    }
}

impl Share {
    fn of(verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        let (mut holding, mut of) = (0, 0);
        for verdict in verdicts.into_iter().filter(|verdict| *verdict != Verdict::Undecided) {
            of += 1;
            holding += u32::from(verdict == Verdict::Holds);
        }
        let (low, high) = interval(holding, of);
        Share { holding, of, low, high }
    }
}

/// The 95 % interval of a part of which so many of so many were found (Clopper and Pearson 1934): settings that fill the space evenly
/// say more than such that are drawn at random, so it is no narrower than it should be.
fn interval(found: u32, of: u32) -> (f64, f64) {
    let (found, of) = (f64::from(found), f64::from(of));
    let end = |a: f64, b: f64, part: f64, otherwise: f64| {
        Beta::new(a, b).map_or(otherwise, |beta| beta.inverse_cdf(part))
    };
    (end(found, of - found + 1.0, 0.025, 0.0), end(found + 1.0, of - found, 0.975, 1.0))
}

pub(super) fn answer(
    document: &Document,
    space: &Space,
    seed: u64,
    judged: &[Judged],
    version: String,
) -> Explanation {
    let experiment = document.experiment();
    let unknowns = document.about(space);
    let settings: Vec<Setting> = judged.iter().map(|one| space.setting(one.number, seed)).collect();
    let all = Answers { experiment, judged, settings: &settings, unknowns: &unknowns };
    let drawn = || judged.iter().filter(|one| one.number > 0);
    let sample = |(one, setting): (&Judged, &Setting)| Sample {
        setting: one.number,
        drawn: setting.drawn.iter().map(|drawn| drawn.value.clone()).collect(),
        positions: setting.drawn.iter().map(|drawn| drawn.position).collect(),
        ours: one.judgement.comparisons.iter().map(|cell| cell.ours.map(|ours| ours.mean)).collect(),
        values: one.judgement.comparisons.iter().map(|cell| cell.verdict).collect(),
        claims: one.judgement.claims.iter().map(|claim| claim.verdict).collect(),
        runs: one.runs,
    };
    Explanation {
        experiment: experiment.id.clone(),
        title: experiment.title.clone(),
        paper: experiment.paper.clone(),
        version,
        seed,
        settings: drawn().count() as u32,
        runs: drawn().map(|one| one.runs).min().unwrap_or(0),
        full_runs: experiment.runs,
        values: all.values(),
        together: all.together(),
        claims: all.claims(),
        samples: judged.iter().zip(&settings).map(sample).collect(),
        unknowns,
    }
}

struct Answers<'a> {
    experiment: &'a Experiment,
    judged: &'a [Judged],
    /// Of each that is judged.
    settings: &'a [Setting],
    unknowns: &'a [UnknownAnswer],
}

impl Answers<'_> {
    fn chosen(&self) -> Option<&Judged> {
        self.judged.iter().find(|one| one.number == 0)
    }

    fn drawn(&self) -> impl Iterator<Item = (&Judged, &Setting)> + Clone {
        self.judged.iter().zip(self.settings).filter(|(one, _)| one.number > 0)
    }

    /// Of a verdict that each setting has.
    fn set_up(&self, verdict: impl Fn(&Judged) -> Verdict) -> SetUp {
        let mut drawn = self.drawn().map(|(one, _)| one);
        if self.chosen().is_some_and(|one| verdict(one) == Verdict::Holds) {
            SetUp::Holds
        } else if drawn.clone().all(|one| verdict(one) == Verdict::Undecided) {
            SetUp::Undecided
        } else if drawn.any(|one| verdict(one) == Verdict::Holds && one.runs >= self.experiment.runs) {
            SetUp::Some
        } else {
            SetUp::None
        }
    }

    fn influences(&self, outcome: impl Fn(&Judged) -> Option<f64>) -> Vec<Influence> {
        let known = self.drawn().filter_map(|(one, setting)| Some((setting, outcome(one)?)));
        influence::of(self.unknowns, &known.collect::<Vec<_>>())
    }

    fn values(&self) -> Vec<ValueAnswer> {
        let Some(first) = self.chosen().or(self.judged.first()) else { return Vec::new() };
        let value = |(place, cell): (usize, &crate::verdict::Comparison)| {
            let own = self.chosen().map(|one| &one.judgement.comparisons[place]);
            let ours = |one: &Judged| one.judgement.comparisons[place].ours.map(|ours| ours.mean);
            let verdict = |one: &Judged| one.judgement.comparisons[place].verdict;
            let near = self
                .judged
                .iter()
                .filter(|one| ours(one).is_some())
                .min_by(|a, b| {
                    // One that bears it out with all runs, before one that is closer by a single run.
                    let sure =
                        |one: &Judged| verdict(one) == Verdict::Holds && one.runs >= self.experiment.runs;
                    sure(b).cmp(&sure(a)).then_with(|| a.distance(place).total_cmp(&b.distance(place)))
                })
                .and_then(|one| {
                    Some(Near {
                        setting: one.number,
                        ours: ours(one)?,
                        verdict: verdict(one),
                        runs: one.runs,
                    })
                });
            ValueAnswer {
                metric: cell.metric.clone(),
                point: cell.point.clone(),
                unit: cell.unit.clone(),
                paper: cell.paper,
                chosen: own.and_then(|own| own.ours).map(|ours| ours.mean),
                verdict: own.map_or(Verdict::Undecided, |own| own.verdict),
                set_up: self.set_up(verdict),
                share: Share::of(self.drawn().map(|(one, _)| verdict(one))),
                range: bounds(self.drawn().filter_map(|(one, _)| ours(one))),
                closest: near,
                influences: self.influences(ours),
            }
        };
        first.judgement.comparisons.iter().enumerate().map(value).collect()
    }

    fn together(&self) -> Vec<Together> {
        let together = |one: &&Judged| Together {
            setting: one.number,
            holding: one.values_holding(),
            off: one
                .judgement
                .comparisons
                .iter()
                .enumerate()
                .filter(|(_, cell)| cell.verdict != Verdict::Holds)
                .map(|(place, cell)| (place, cell.ratio))
                .collect(),
            runs: one.runs,
        };
        let best = best(self.judged);
        let has_values = best.first().is_some_and(|one| !one.judgement.comparisons.is_empty());
        // Only those that were run as often as the file says, where there are such.
        let full: Vec<&Judged> =
            best.iter().copied().filter(|one| one.runs >= self.experiment.runs).collect();
        let best = if full.is_empty() { best } else { full };
        best.iter().take(CLOSEST).filter(|_| has_values).map(together).collect()
    }

    fn claims(&self) -> Vec<ClaimAnswer> {
        let claim = |(place, claim): (usize, &crate::experiment::Claim)| {
            let verdict = |one: &Judged| one.judgement.claims[place].verdict;
            let share = Share::of(self.drawn().map(|(one, _)| verdict(one)));
            let set_up = self.set_up(verdict);
            let robustness = (share.of > 0).then(|| match share.holding {
                0 => Robustness::None,
                all if all == share.of => Robustness::All,
                most if 2 * most > share.of => Robustness::Most,
                _ => Robustness::Some,
            });
            let witness = best(self.judged)
                .into_iter()
                .find(|one| verdict(one) == Verdict::Holds && one.runs >= self.experiment.runs)
                .filter(|_| set_up == SetUp::Some)
                .map(|one| (one.number, one.judgement.claims[place].why.clone()));
            ClaimAnswer {
                text: claim.text.clone(),
                kind: claim.kind,
                verdict: self.chosen().map_or(Verdict::Undecided, verdict),
                set_up,
                share,
                differing: self.drawn().filter(|(one, _)| verdict(one) == Verdict::Differs).count() as u32,
                robustness,
                witness,
                influences: self.influences(|one| match verdict(one) {
                    Verdict::Undecided => None,
                    verdict => Some(f64::from(u8::from(verdict == Verdict::Holds))),
                }),
            }
        };
        self.experiment.claims.iter().enumerate().map(claim).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_share_is_clopper_and_pearsons() {
        let near = |a: f64, b: f64| (a - b).abs() < 5e-4;
        for ((found, of), (low, high)) in [
            ((0, 64), (0.0, 0.056)),
            ((64, 64), (0.944, 1.0)),
            ((5, 10), (0.1871, 0.8129)),
            ((1, 20), (0.0013, 0.2487)),
        ] {
            let ours = interval(found, of);
            assert!(near(ours.0, low) && near(ours.1, high), "{found} of {of}: {ours:?}");
        }
    }
}
