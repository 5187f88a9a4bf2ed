//! The experiments of a paper that were made with one set-up: whether one setting of what they share bears all of them out.
//!
//! Each experiment is judged at settings of its own. Two settings of two experiments can be of one set-up if the [shared
//! unknowns](crate::experiment::Unknown::shared) that both have are the same in both. What is unknown of one experiment alone may be
//! anything.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::answer::{Explanation, Sample};
use crate::experiment::ClaimKind;
use crate::results::Verdict;

/// How many set-ups are named.
const NAMED: usize = 3;

/// What the experiments of a paper say together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Joint {
    /// The paper.
    pub paper: String,
    /// The experiments, by id.
    pub experiments: Vec<String>,
    /// What they share.
    pub unknowns: Vec<String>,
    /// Published values of all of them.
    pub values: usize,
    /// The paper's claims of all of them.
    pub claims: usize,
    /// What some setting gives, each value and claim one of its own.
    pub apart: Given,
    /// Set-ups at which each experiment was run.
    pub run: usize,
    /// The most that one of them gives, each value and claim with some setting of what its experiment alone leaves open.
    pub most: Given,
    /// Those that give most at once, the best first.
    pub set_ups: Vec<JointSetUp>,
}

/// How much is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Given {
    /// Published values.
    pub values: usize,
    /// Claims of the paper.
    pub claims: usize,
}

/// A setting of what experiments share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JointSetUp {
    /// The value of each shared unknown, in the order of [`Joint::unknowns`].
    pub shared: Vec<String>,
    /// What it gives, each value and claim with some setting of what its experiment alone leaves open.
    pub given: Given,
    /// The same with one such setting for each experiment, the one that gives most.
    pub at_once: Given,
    /// Settings of the experiment that has fewest.
    pub settings: usize,
}

/// By name, the values of shared unknowns.
type Shared = BTreeMap<String, String>;

/// An experiment with what each of its settings has of the shared unknowns.
struct Part<'a> {
    answer: &'a Explanation,
    settings: Vec<(Shared, &'a Sample)>,
}

/// What the explanations of each paper say together, where several experiments of it have shared unknowns.
pub fn joint(answers: &[&Explanation]) -> Vec<Joint> {
    let papers: BTreeSet<&str> = answers.iter().filter_map(|answer| answer.paper.as_deref()).collect();
    let of = |paper: &str| {
        let own = answers.iter().filter(|answer| answer.paper.as_deref() == Some(paper));
        let mut parts: Vec<Part<'_>> = own.filter_map(|answer| Part::of(answer)).collect();
        parts.sort_by(|a, b| a.answer.experiment.cmp(&b.answer.experiment));
        (parts.len() > 1).then(|| of_paper(paper, &parts))
    };
    papers.into_iter().filter_map(of).collect()
}

fn of_paper(paper: &str, parts: &[Part<'_>]) -> Joint {
    let mut unknowns: Vec<(&str, &str)> = Vec::new();
    for unknown in parts.iter().flat_map(|part| part.answer.unknowns.iter().filter(|one| one.shared)) {
        if !unknowns.iter().any(|(name, _)| *name == unknown.name) {
            unknowns.push((&unknown.name, &unknown.label));
        }
    }
    let set_up = |shared: &Shared| {
        let mut set_up = JointSetUp {
            shared: unknowns.iter().map(|(name, _)| shared.get(*name).cloned().unwrap_or_default()).collect(),
            given: Given::default(),
            at_once: Given::default(),
            settings: usize::MAX,
        };
        for part in parts {
            let samples: Vec<&Sample> = part.at(shared).collect();
            set_up.given += part.given_by_any(&samples);
            set_up.at_once += samples.iter().map(|sample| part.given(sample)).max().unwrap_or_default();
            set_up.settings = set_up.settings.min(samples.len());
        }
        set_up
    };
    let mut set_ups: Vec<JointSetUp> = combinations(parts).iter().map(set_up).collect();
    let worth = |set_up: &JointSetUp| (set_up.at_once.sum(), set_up.given.sum());
    set_ups.sort_by(|a, b| worth(b).cmp(&worth(a)).then_with(|| a.shared.cmp(&b.shared)));
    let run = set_ups.len();
    let most = set_ups.iter().map(|set_up| set_up.given).max_by_key(|given| given.sum()).unwrap_or_default();
    set_ups.truncate(NAMED);
    let mut apart = Given::default();
    for part in parts {
        apart += part.given_by_any(&part.answer.samples.iter().collect::<Vec<_>>());
    }
    Joint {
        paper: paper.to_owned(),
        experiments: parts.iter().map(|part| part.answer.experiment.clone()).collect(),
        unknowns: unknowns.iter().map(|(_, label)| (*label).to_owned()).collect(),
        values: parts.iter().map(|part| part.answer.values.len()).sum(),
        claims: parts.iter().map(|part| part.claims().count()).sum(),
        apart,
        run,
        most,
        set_ups,
    }
}

/// Each combination of shared values that all experiments have.
fn combinations(parts: &[Part<'_>]) -> BTreeSet<Shared> {
    let mut all = BTreeSet::from([Shared::new()]);
    for part in parts {
        let own: BTreeSet<&Shared> = part.settings.iter().map(|(shared, _)| shared).collect();
        let with = |so_far: &Shared| {
            let fitting = own.iter().filter(|own| agree(so_far, own));
            fitting.map(|own| so_far.clone().into_iter().chain((*own).clone()).collect()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// Whether they say the same of what both have.
fn agree(one: &Shared, other: &Shared) -> bool {
    other.iter().all(|(name, value)| one.get(name).is_none_or(|own| own == value))
}

impl<'a> Part<'a> {
    /// An experiment that shares something.
    fn of(answer: &'a Explanation) -> Option<Self> {
        let shared: Vec<usize> =
            (0..answer.unknowns.len()).filter(|place| answer.unknowns[*place].shared).collect();
        if shared.is_empty() {
            return None;
        }
        let values = |sample: &Sample| -> Option<Shared> {
            let value = |place: &usize| {
                let unknown = &answer.unknowns[*place];
                // Setting 0 is what the file has.
                let value =
                    if sample.setting == 0 { unknown.chosen.as_ref() } else { sample.drawn.get(*place) };
                Some((unknown.name.clone(), value?.clone()))
            };
            shared.iter().map(value).collect()
        };
        let settings = answer.samples.iter().filter_map(|sample| Some((values(sample)?, sample)));
        Some(Part { answer, settings: settings.collect() })
    }

    fn at(&self, shared: &Shared) -> impl Iterator<Item = &'a Sample> {
        self.settings.iter().filter(|(own, _)| agree(shared, own)).map(|(_, sample)| *sample)
    }

    /// The paper's claims, by place.
    fn claims(&self) -> impl Iterator<Item = usize> {
        let claims = self.answer.claims.iter().enumerate();
        claims.filter(|(_, claim)| claim.kind == ClaimKind::Paper).map(|(place, _)| place)
    }

    fn given(&self, sample: &Sample) -> Given {
        self.given_by_any(&[sample])
    }

    fn given_by_any(&self, samples: &[&Sample]) -> Given {
        let any = |verdict: &dyn Fn(&Sample) -> Option<Verdict>| {
            samples.iter().any(|sample| verdict(sample) == Some(Verdict::Holds))
        };
        let value = |place: &usize| any(&|sample| sample.values.get(*place).copied());
        let claim = |place: &usize| any(&|sample| sample.claims.get(*place).copied());
        Given {
            values: (0..self.answer.values.len()).filter(value).count(),
            claims: self.claims().filter(claim).count(),
        }
    }
}

impl Given {
    /// Of how much: `3 of 5 claims, 2 of 4 values`, without what there is none of.
    pub fn of(self, joint: &Joint) -> String {
        let part = |count: usize, of: usize, what: &str| (of > 0).then(|| format!("{count} of {of} {what}"));
        let parts = [part(self.claims, joint.claims, "claims"), part(self.values, joint.values, "values")];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    const fn sum(self) -> usize {
        self.values + self.claims
    }
}

impl Joint {
    /// A set-up in words: `windows of the hosts: 16 KiB; windows of the lanes: 64 KiB`.
    pub fn in_words(&self, set_up: &JointSetUp) -> String {
        let each = self.unknowns.iter().zip(&set_up.shared);
        each.map(|(unknown, value)| format!("{unknown}: {value}")).collect::<Vec<_>>().join("; ")
    }
}

impl std::ops::AddAssign for Given {
    fn add_assign(&mut self, other: Given) {
        self.values += other.values;
        self.claims += other.claims;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{ClaimAnswer, SetUp, Share, ValueAnswer};
    use crate::results::{Point, UnknownAnswer};

    const NOT_MANY: Share = Share { holding: 1, of: 2, low: 0.0, high: 1.0 };

    fn unknown(name: &str, chosen: &str, shared: bool) -> UnknownAnswer {
        UnknownAnswer {
            name: name.into(),
            label: format!("the {name}"),
            plausible: String::new(),
            choices: None,
            chosen: Some(chosen.into()),
            why: "x".into(),
            shared,
        }
    }

    /// With one published value and one claim of the paper; of each setting: what is drawn, and whether they hold.
    fn explanation(
        name: &str,
        unknowns: Vec<UnknownAnswer>,
        settings: &[(&[&str], [bool; 2])],
    ) -> Explanation {
        let verdict = |holds: bool| if holds { Verdict::Holds } else { Verdict::Fails };
        let set_up = |place: usize| {
            if settings[0].1[place] {
                SetUp::Holds
            } else if settings.iter().any(|(_, holds)| holds[place]) {
                SetUp::Some
            } else {
                SetUp::None
            }
        };
        let sample = |(number, (drawn, holds)): (usize, &(&[&str], [bool; 2]))| Sample {
            setting: number as u32,
            drawn: drawn.iter().map(|value| (*value).to_owned()).collect(),
            positions: Vec::new(),
            ours: vec![None],
            values: vec![verdict(holds[0])],
            claims: vec![verdict(holds[1])],
            runs: 1,
        };
        Explanation {
            experiment: name.into(),
            title: name.into(),
            paper: Some("paper".into()),
            version: String::new(),
            seed: 1,
            settings: settings.len() as u32 - 1,
            runs: 1,
            full_runs: 1,
            unknowns,
            values: vec![ValueAnswer {
                metric: "x".into(),
                point: Point::new(),
                unit: None,
                paper: 1.0,
                chosen: None,
                verdict: verdict(settings[0].1[0]),
                set_up: set_up(0),
                share: NOT_MANY,
                range: None,
                closest: None,
                influences: Vec::new(),
            }],
            together: Vec::new(),
            claims: vec![ClaimAnswer {
                text: "x".into(),
                kind: ClaimKind::Paper,
                verdict: verdict(settings[0].1[1]),
                set_up: set_up(1),
                share: NOT_MANY,
                differing: 0,
                robustness: None,
                witness: None,
                influences: Vec::new(),
            }],
            samples: settings.iter().enumerate().map(sample).collect(),
        }
    }

    const NOTHING: (&[&str], [bool; 2]) = (&[], [false, false]);

    #[test]
    fn each_of_two_tables_may_have_a_set_up_and_both_together_none() {
        let window = || vec![unknown("window", "16 KiB", true)];
        let one = explanation(
            "one",
            window(),
            &[NOTHING, (&["16 KiB"], [true, true]), (&["64 KiB"], [false, true])],
        );
        let other = explanation(
            "other",
            window(),
            &[NOTHING, (&["64 KiB"], [true, true]), (&["8 KiB"], [true, true])],
        );
        let [joint] = &joint(&[&one, &other])[..] else { panic!("one paper") };
        assert_eq!((joint.values, joint.claims, joint.apart), (2, 2, Given { values: 2, claims: 2 }));
        assert_eq!(joint.unknowns, ["the window"]);
        // 8 KiB was run in one of them alone; the files have 16 KiB.
        assert_eq!(joint.run, 2);
        assert_eq!(joint.most, Given { values: 1, claims: 2 });
        let best = &joint.set_ups[0];
        assert_eq!((best.shared.as_slice(), best.settings), (&["64 KiB".to_owned()][..], 1));
        assert_eq!(best.given, Given { values: 1, claims: 2 });
        assert_eq!(joint.set_ups[1].given, Given { values: 1, claims: 1 });
    }

    #[test]
    fn what_an_experiment_alone_leaves_open_may_differ_from_one_value_to_another_but_not_at_once() {
        let both = || vec![unknown("rate", "1", false), unknown("window", "16 KiB", true)];
        let (first, second): (&[&str], &[&str]) = (&["1", "16 KiB"], &["2", "16 KiB"]);
        let one = explanation("one", both(), &[NOTHING, (first, [true, false]), (second, [false, true])]);
        let other = explanation("other", both(), &[(&[], [true, true])]);
        let [joint] = &joint(&[&one, &other])[..] else { panic!("one paper") };
        let best = &joint.set_ups[0];
        assert_eq!(best.shared, ["16 KiB"]);
        assert_eq!(best.given, Given { values: 2, claims: 2 });
        assert_eq!(best.at_once.sum(), 3);
        assert_eq!(best.settings, 1, "of the other one only the file's");
    }

    #[test]
    fn an_unknown_that_an_experiment_does_not_have_binds_it_to_nothing() {
        let one = explanation(
            "one",
            vec![unknown("window", "16 KiB", true), unknown("timer", "1 s", true)],
            &[NOTHING, (&["16 KiB", "0.2 s"], [true, true])],
        );
        let other = explanation("other", vec![unknown("timer", "0.2 s", true)], &[(&[], [true, false])]);
        let alone = explanation("alone", vec![unknown("timer", "0.2 s", false)], &[(&[], [true, true])]);
        let [joint] = &joint(&[&one, &other, &alone])[..] else { panic!("one paper") };
        assert_eq!(joint.experiments, ["one", "other"]);
        assert_eq!(joint.run, 1);
        assert_eq!(joint.set_ups[0].shared, ["16 KiB", "0.2 s"]);
        assert_eq!(joint.set_ups[0].given, Given { values: 2, claims: 1 });
        assert_eq!(joint.set_ups[0].given.of(joint), "1 of 2 claims, 2 of 2 values");
        assert_eq!(joint.in_words(&joint.set_ups[0]), "the window: 16 KiB; the timer: 0.2 s");
        assert!(super::joint(&[&one, &alone]).is_empty(), "one experiment alone shares nothing");
    }
}
