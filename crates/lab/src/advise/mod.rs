//! Advice: which settings of a trunk a network is best served by, found by trying them.
//!
//! The network is run without a trunk, with the trunk as it is written, and with one setting after another varied from the best so
//! far. All variants of one try have the same seeds and so the same arrivals, and a variant is compared with another run by run: what
//! arrivals do to both cancels out (common random numbers; Law, Simulation Modeling and Analysis, §11.2). One is taken only where the
//! mean difference is beyond its 95 % interval and worth a percent to somebody. Sources begin up to a second later than they are
//! written, by seed. What is taken in the end is compared with the network
//! without a trunk by seeds that nothing was chosen by.
//!
//! What is better is a sum over groups of traffic, in logarithms, so that it is shares that count and nobody is starved for
//! another's gain: see [`Aim`].

mod aim;
mod paste;
mod race;
mod variant;
mod words;

use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::document::{Document, Mistakes};
use crate::engine::{EngineError, EngineKind};
use crate::experiment::Experiment;
use crate::results::Estimate;
use race::{Race, Runs};
use variant::{Stage, Variant};

pub use aim::Aim;

/// How advice is found.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What carries out the runs.
    pub engine: EngineKind,
    /// Runs of each variant; 2 at least.
    pub runs: u32,
    /// Runs of the last comparison; 2 at least.
    pub confirmations: u32,
    /// Runs at a time.
    pub jobs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { engine: EngineKind::Sim, runs: 5, confirmations: 5, jobs: 1 }
    }
}

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
}

/// What to choose, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The network's title.
    pub title: String,
    /// What each group was judged by.
    pub aims: Vec<GroupAim>,
    /// Whether a trunk serves this network better than none.
    pub trunk: bool,
    /// What was varied, in order, and what came of it.
    pub findings: Vec<Finding>,
    /// The metrics that count, without a trunk and with what is advised, by seeds that nothing was chosen by.
    pub evidence: Vec<Evidence>,
    /// `[trunks…]` of an experiment with what is advised; empty if that is no trunk.
    pub experiment_toml: String,
    /// What corresponds to it in a gateway's configuration; empty if that is no trunk.
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
    /// The difference is beyond its interval.
    pub certain: bool,
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

/// What a group gains less than this is no gain, whatever its interval.
const WORTH: f64 = 0.01;

/// Whether a mean difference is beyond its interval and worth something.
fn is_gain(difference: &Estimate) -> bool {
    difference.ci95.is_some_and(|half| difference.mean - half > 0.0) && difference.mean > WORTH
}

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
    let aims = aim::aims(&race::scenario("network", &network)?);
    if aims.is_empty() {
        return Err(AdviseError::NoTraffic);
    }
    let mut race = Race::new(options, &aims, stop, progress);
    let without = Variant::without(&network);
    let first = network.seed;
    let base = race.run(&without, first, options.runs)?;
    let mut best = Variant::as_is(&network);
    let mut best_runs = race.run(&best, first, options.runs)?;
    let mut findings = vec![whether(&race, (&without, &base), (&best, &best_runs))];
    for stage in Stage::ALL {
        let trials = stage.variants(&best);
        if trials.is_empty() {
            continue;
        }
        race.expect(trials.len());
        let mut tried = Vec::new();
        let mut winner: Option<(Variant, Runs, f64)> = None;
        for variant in trials {
            let runs = race.run(&variant, first, options.runs)?;
            let gain = race.gain(&best_runs, &runs);
            let certain = is_gain(&gain);
            if certain && winner.as_ref().is_none_or(|(_, _, most)| gain.mean > *most) {
                winner = Some((variant.clone(), runs, gain.mean));
            }
            tried.push(Trial { name: variant.name.clone(), gain, certain });
        }
        let before = stage.now(&best);
        let choice = winner.as_ref().map_or_else(|| before.clone(), |(variant, ..)| variant.name.clone());
        findings.push(Finding { setting: stage.name().to_owned(), before, choice, tried });
        if let Some((variant, runs, _)) = winner {
            (best, best_runs) = (variant, runs);
        }
    }
    let fresh = first.wrapping_add(u64::from(options.runs));
    let plain = race.run(&without, fresh, options.confirmations)?;
    let chosen = race.run(&best, fresh, options.confirmations)?;
    let trunk = is_gain(&race.gain(&plain, &chosen));
    let evidence = race.evidence(&plain, &chosen);
    let made = race.made();
    let toml = |text: String| if trunk { text } else { String::new() };
    Ok(Advice {
        title: network.title.clone(),
        aims,
        trunk,
        findings,
        evidence,
        experiment_toml: toml(paste::experiment(&best.experiment)),
        gateway_toml: toml(paste::gateway(&best.experiment)),
        runs: made,
    })
}

/// The first question: the trunk as it is written, or none.
fn whether<F: FnMut(Progress)>(
    race: &Race<'_, F>,
    none: (&Variant, &Runs),
    own: (&Variant, &Runs),
) -> Finding {
    let gain = race.gain(none.1, own.1);
    let certain = is_gain(&gain);
    Finding {
        setting: "the trunk as it is written, against none".to_owned(),
        before: none.0.name.clone(),
        choice: if certain { own.0.name.clone() } else { none.0.name.clone() },
        tried: vec![Trial { name: own.0.name.clone(), gain, certain }],
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
