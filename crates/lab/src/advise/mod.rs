//! Advice: which settings of a trunk a network is best served by, found by trying them.
//!
//! The network is run without a trunk, with the trunk as it is written, and with one setting after another varied from the best so
//! far. All variants of one try have the same seeds and so the same arrivals, and a variant is compared with another run by run: what
//! arrivals do to both cancels out (common random numbers; Law, Simulation Modeling and Analysis, §11.2). Where the 95 % interval of
//! the mean difference does not tell, more runs are made, up to a limit; what it does not tell then is said to be unclear, and not to
//! make no difference. The best of those that gain is taken only if it gains again by seeds that it was not found by: of twenty tries
//! one looks like a gain by chance. What is taken in the end is compared with the network without a trunk by seeds that nothing was
//! chosen by. Sources begin up to a second later than they are written, by seed.
//!
//! What is better is a sum over groups of traffic, in logarithms, so that it is shares that count and nobody is starved for
//! another's gain: see [`Aim`].

mod aim;
mod pace;
mod paste;
mod race;
mod variant;
mod words;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::document::{Document, Mistakes};
use crate::experiment::Experiment;
use crate::results::Estimate;
use race::{Contender, Race};
use trunkline_engine::{Engine, EngineError};
use trunkline_schema::Encryption;
use variant::{Stage, Variant};

pub use aim::Aim;

/// How advice is found.
#[derive(Debug, Clone)]
pub struct Options {
    /// What carries out the runs.
    pub engine: Engine,
    /// Runs of each variant to begin with; 2 at least. Up to [`MAX_TIMES`] as many where they do not tell.
    pub runs: u32,
    /// Runs at a time.
    pub jobs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { engine: Engine::Sim, runs: 5, jobs: 1 }
    }
}

/// How many times the runs that a comparison begins with it may take.
pub const MAX_TIMES: u32 = 4;

/// Why there is no advice.
#[derive(Debug, Error)]
pub enum AdviseError {
    /// There is nothing to vary.
    #[error("there is no trunk; allowed: at least one in [trunks], enabled or not")]
    NoTrunk,
    /// Nothing is sent.
    #[error(
        "there is no traffic that could fare better or worse; allowed: at least one source that is enabled"
    )]
    NoTraffic,
    /// The network makes no sense.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
    /// A run failed.
    #[error("{variant}: {error}")]
    Run {
        /// Of which variant.
        variant: String,
        /// Why.
        error: Box<EngineError>,
    },
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What is tried now.
    pub variant: String,
    /// Variants that are done.
    pub done: usize,
    /// All, so far as is known.
    pub total: usize,
    /// How long the rest will take, about; none before a trunk was tried.
    pub left: Option<Duration>,
}

/// What to choose, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The network's title.
    pub title: String,
    /// Axes of its sweep, which are left out: it is taken as it is written without.
    pub left_out: Vec<String>,
    /// The file has lanes in clear, which are not advised: they were tried encrypted.
    pub encrypted: bool,
    /// What each group was judged by.
    pub aims: Vec<GroupAim>,
    /// Whether a trunk serves this network better than none.
    pub trunk: bool,
    /// What is best of those tried against no trunk, by seeds that nothing was chosen by.
    pub gain: Trial,
    /// What was varied, in order, and what came of it.
    pub findings: Vec<Finding>,
    /// The metrics that count, without a trunk and with what is advised, by seeds that nothing was chosen by.
    pub evidence: Vec<Evidence>,
    /// `[trunks…]` of an experiment with what is advised; empty if that is no trunk.
    pub experiment_toml: String,
    /// What corresponds to it at the end of a gateway's file, in place of its classes; empty if that is no trunk.
    pub gateway_toml: String,
    /// Runs that were made.
    pub runs: usize,
}

/// A group and what it was judged by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupAim {
    /// The group.
    pub group: String,
    /// Its aim.
    pub aim: Aim,
}

/// A setting that was varied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What was varied: `the queue at the edge`.
    pub setting: String,
    /// What was best until then.
    pub before: String,
    /// What is advised of it: one of those tried, or what it was before.
    pub choice: String,
    /// Everything that was tried, against what was best until then.
    pub tried: Vec<Trial>,
}

/// A variant against what was best before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// What it is.
    pub name: String,
    /// What it gains, over groups: differences of logarithms, so that 0.1 is about 10 % for one group. Negative: it loses.
    pub gain: Estimate,
    /// What that says.
    pub outcome: TrialOutcome,
}

impl Trial {
    fn new(name: &str, gain: Estimate) -> Self {
        Trial { name: name.to_owned(), gain, outcome: TrialOutcome::of(&gain) }
    }
}

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialOutcome {
    /// It gains, beyond chance.
    Better,
    /// It loses, beyond chance.
    Worse,
    /// Whatever it gains or loses is little.
    Same,
    /// So many runs do not tell.
    Unclear,
}

impl TrialOutcome {
    fn of(gain: &Estimate) -> Self {
        // Runs that differ in nothing are certain.
        let half = gain.ci95.unwrap_or(0.0);
        if gain.mean.abs() + half <= LITTLE {
            TrialOutcome::Same
        } else if gain.mean > half {
            TrialOutcome::Better
        } else if -gain.mean > half {
            TrialOutcome::Worse
        } else {
            TrialOutcome::Unclear
        }
    }
}

/// A metric without a trunk and with what is advised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Without a trunk.
    pub without: Estimate,
    /// With what is advised.
    pub with: Estimate,
    /// The difference, run by run.
    pub difference: Estimate,
    /// It is beyond its interval.
    pub certain: bool,
    /// Whether what is advised is better by this metric, if it is certain.
    pub better: bool,
}

/// A gain or loss of less than this is no reason for anything: a fiftieth for one group.
const LITTLE: f64 = 0.02;

/// Tries settings of a network's trunks and says which to choose. A sweep is left out: the network is as it is written without.
///
/// # Errors
/// If there is nothing to advise on, the network makes no sense, or a run fails or is stopped.
pub fn advise(
    document: &Document,
    options: &Options,
    stop: &AtomicBool,
    progress: impl FnMut(Progress),
) -> Result<Advice, AdviseError> {
    let network = network(document.experiment())?;
    // Mistakes are told of the file as it is.
    document.plan()?;
    let aims = aim::aims(&race::scenario("network", &network)?);
    if aims.is_empty() {
        return Err(AdviseError::NoTraffic);
    }
    let mut race = Race::new(options, &aims, stop, progress, network.seed);
    let own = Variant::as_is(&network);
    // None and its own, those of each stage, and the two that are judged at the end.
    let of_stages = |stages: &[Stage], best: &Variant| -> usize {
        stages.iter().map(|stage| stage.variants(best).len()).sum()
    };
    race.expect(4 + of_stages(&Stage::ALL, &own));
    let mut none = Contender::new(Variant::without(&network));
    let mut contenders = vec![Contender::new(own)];
    let tried = race.find(&mut none, &mut contenders)?;
    let mut best = contenders.swap_remove(0);
    let mut findings = vec![whether(&none, &best, tried)];
    for (number, stage) in Stage::ALL.into_iter().enumerate() {
        race.expect(2 + of_stages(&Stage::ALL[number..], &best.variant));
        let mut contenders: Vec<Contender> =
            stage.variants(&best.variant).into_iter().map(Contender::new).collect();
        if contenders.is_empty() {
            continue;
        }
        let before = stage.now(&best.variant);
        let mut tried = race.find(&mut best, &mut contenders)?;
        let better = tried.iter().enumerate().filter(|(_, trial)| trial.outcome == TrialOutcome::Better);
        let most = better.max_by(|(_, a), (_, b)| a.gain.mean.total_cmp(&b.gain.mean));
        let mut choice = before.clone();
        if let Some((number, _)) = most {
            if race.confirms(&mut best, &mut contenders[number])? {
                best = contenders.swap_remove(number);
                choice.clone_from(&best.variant.name);
            } else {
                tried[number].outcome = TrialOutcome::Unclear;
            }
        }
        findings.push(Finding { setting: stage.name().to_owned(), before, choice, tried });
    }
    let (gain, evidence) = race.judge(&mut none, &mut best)?;
    let trunk = gain.outcome == TrialOutcome::Better;
    let toml = |text: String| if trunk { text } else { String::new() };
    Ok(Advice {
        title: network.title.clone(),
        left_out: document.experiment().sweep.keys().cloned().collect(),
        encrypted: network.trunks.values().any(|trunk| trunk.encryption == Some(Encryption::None)),
        trunk,
        gain,
        findings,
        evidence,
        experiment_toml: toml(paste::experiment(&best.variant.experiment)),
        gateway_toml: toml(paste::gateway(&best.variant.experiment)),
        runs: race.made(),
        aims,
    })
}

/// The first question: the trunk as it is written, or none. Whatever comes of it, it is what settings are varied from.
fn whether(none: &Contender, own: &Contender, tried: Vec<Trial>) -> Finding {
    let better = tried.iter().any(|trial| trial.outcome == TrialOutcome::Better);
    Finding {
        setting: "the trunk as it is written, against none".to_owned(),
        before: none.variant.name.clone(),
        choice: if better { own.variant.name.clone() } else { none.variant.name.clone() },
        tried,
    }
}

/// The network alone: what is asked of its results is of no use here.
fn network(experiment: &Experiment) -> Result<Experiment, AdviseError> {
    if experiment.trunks.is_empty() {
        return Err(AdviseError::NoTrunk);
    }
    let mut network = experiment.clone();
    network.sweep.clear();
    network.quick = None;
    network.series = None;
    network.published.clear();
    network.claims.clear();
    network.tables.clear();
    network.figures.clear();
    Ok(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_do_not_tell_is_not_called_no_difference() {
        let of = |mean, ci95| TrialOutcome::of(&Estimate { ci95, ..Estimate::alone(mean) });
        assert_eq!(of(0.45, Some(1.84)), TrialOutcome::Unclear);
        assert_eq!(of(0.001, Some(0.5)), TrialOutcome::Unclear);
        assert_eq!(of(0.001, Some(0.01)), TrialOutcome::Same);
        assert_eq!(of(0.019, Some(0.01)), TrialOutcome::Better);
        assert_eq!(of(0.5, Some(0.4)), TrialOutcome::Better);
        assert_eq!(of(-0.5, Some(0.4)), TrialOutcome::Worse);
        assert_eq!((of(0.0, None), of(1.0, None)), (TrialOutcome::Same, TrialOutcome::Better));
    }
}
