//! What settings that were run say, by their numbers alone and not by the order in which they were run.
//!
//! Most settings have few runs. Those that an answer rests on are confirmed: run as often as the file says. Which they are depends on
//! what single runs gave, and so on how many settings there were when somebody looked. Here one looks at [`stops`] that are the same for
//! everybody: so the same runs give the same answer, whether they were made at once, in steps or within a budget. A setting that was
//! confirmed for a stop that is none any more counts with its first runs, like the others.

use std::collections::{BTreeMap, BTreeSet};

use super::confirm;
use super::judged::Judged;
use crate::campaign::settle;
use crate::experiment::Experiment;
use crate::plan::Planned;
use crate::results::{Point, Run, SETTING_AXIS};

/// The first stop.
pub(super) const FIRST_STOP: u32 = 32;
/// Settings from one stop to the next.
pub(super) const STEP: u32 = 16;
/// How often settings are confirmed at a stop, in search of one that bears an answer out.
const ROUNDS: usize = 4;

/// The numbers of settings after which answers are confirmed: 32, 48, 64 and so on below the last setting, and that.
pub(super) fn stops(last: u32) -> impl Iterator<Item = u32> {
    let steps = (FIRST_STOP..last).step_by(STEP as usize);
    steps.chain((last > 0).then_some(last))
}

/// The stop that comes next.
pub(super) fn next_stop(settings: u32) -> u32 {
    if settings < FIRST_STOP { FIRST_STOP } else { settings - (settings - FIRST_STOP) % STEP + STEP }
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Replay {
    /// Each setting that has a run at each point that is read, in their order.
    pub(super) judged: Vec<Judged>,
    /// Settings that are to be confirmed, and are not.
    pub(super) missing: Vec<u32>,
}

/// How far a replay goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// To where each value and claim has a setting that bears it out, if there is one.
    Answers,
    /// Further, to the settings that have most values together.
    All,
}

/// The runs of an experiment's settings.
pub(super) struct Settings<'a> {
    experiment: &'a Experiment,
    planned: &'a [Planned],
    /// By setting: its runs, without the axis of settings.
    runs: BTreeMap<u32, Vec<Run>>,
    /// By setting: the runs at each point that is read, where there are fewest.
    made: BTreeMap<u32, u32>,
}

impl<'a> Settings<'a> {
    /// Of these runs; `read` are the points that values and claims are about.
    pub(super) fn of(
        experiment: &'a Experiment,
        planned: &'a [Planned],
        read: &[&Point],
        all: Vec<Run>,
    ) -> Self {
        let mut runs: BTreeMap<u32, Vec<Run>> = BTreeMap::new();
        for mut run in all {
            let number = run.point.shift_remove(SETTING_AXIS).and_then(|number| number.parse().ok());
            if let Some(number) = number {
                runs.entry(number).or_default().push(run);
            }
        }
        let fewest = |runs: &Vec<Run>| {
            let at = |point: &&Point| runs.iter().filter(|run| run.point == **point).count();
            read.iter().map(at).min().unwrap_or(0) as u32
        };
        let made: BTreeMap<u32, u32> = runs.iter().map(|(number, runs)| (*number, fewest(runs))).collect();
        runs.retain(|number, _| made.get(number).is_some_and(|made| *made > 0));
        Settings { experiment, planned, runs, made }
    }

    fn made(&self, number: u32) -> u32 {
        self.made.get(&number).copied().unwrap_or(0)
    }

    fn drawn(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.runs.keys().copied().filter(|number| *number > 0)
    }

    /// Goes through the stops.
    pub(super) fn replay(&self, extent: Extent) -> Replay {
        let full = self.experiment.runs;
        let few = self.drawn().map(|number| self.made(number)).min().unwrap_or(1).min(full);
        let mut known: BTreeMap<(u32, u32), Judged> = BTreeMap::new();
        let mut confirmed = BTreeSet::from([0]);
        let mut judge = |stop: u32, confirmed: &BTreeSet<u32>| -> Vec<Judged> {
            let numbers = self.runs.keys().copied().filter(|number| *number <= stop);
            let one = |number: u32| {
                let limit = if confirmed.contains(&number) { full } else { few };
                let judged = known.entry((number, limit)).or_insert_with(|| self.judge(number, limit));
                judged.clone()
            };
            numbers.map(one).collect()
        };
        for stop in stops(self.drawn().next_back().unwrap_or(0)) {
            for round in 0..ROUNDS {
                let judged = judge(stop, &confirmed);
                let wanted = confirm::for_answers(self.experiment, &judged, round == 0);
                if let Some(missing) = self.missing(&wanted) {
                    return Replay { judged, missing };
                }
                if wanted.is_empty() {
                    break;
                }
                confirmed.extend(wanted);
            }
        }
        let mut judged = judge(u32::MAX, &confirmed);
        for _ in 0..ROUNDS {
            let wanted = match extent {
                Extent::Answers => Vec::new(),
                Extent::All => confirm::for_most_values(self.experiment, &judged),
            };
            if let Some(missing) = self.missing(&wanted) {
                return Replay { judged, missing };
            }
            if wanted.is_empty() {
                break;
            }
            confirmed.extend(wanted);
            judged = judge(u32::MAX, &confirmed);
        }
        Replay { judged, missing: self.missing(&[0]).unwrap_or_default() }
    }

    fn missing(&self, wanted: &[u32]) -> Option<Vec<u32>> {
        let lacks = |number: &u32| self.made(*number) < self.experiment.runs;
        let missing: Vec<u32> = wanted.iter().copied().filter(lacks).collect();
        (!missing.is_empty()).then_some(missing)
    }

    fn judge(&self, number: u32, limit: u32) -> Judged {
        let runs = self.runs.get(&number).map(Vec::as_slice).unwrap_or_default();
        let first = self.experiment.seed;
        let within = |run: &&Run| run.seed.wrapping_sub(first) < u64::from(limit);
        let mut runs: Vec<Run> = runs.iter().filter(within).cloned().collect();
        let (_, judgement) = settle(self.experiment, self.planned, &mut runs, &[]);
        Judged { number, runs: self.made(number).min(limit), judgement }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_the_same_for_every_number_of_settings() {
        let all = |last| stops(last).collect::<Vec<_>>();
        assert_eq!(all(0), Vec::<u32>::new());
        assert_eq!(all(20), [20]);
        assert_eq!(all(32), [32]);
        assert_eq!(all(50), [32, 48, 50]);
        assert_eq!(all(64), [32, 48, 64]);
        assert_eq!([0, 20, 32, 40, 48].map(next_stop), [32, 32, 48, 48, 64]);
    }
}
