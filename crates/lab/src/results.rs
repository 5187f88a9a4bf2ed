//! What comes out of an experiment: numbers with names.
//!
//! A *run* is one point of a sweep with one seed. Its metrics are flat: a subject and a quantity, with dots, as docs/metrics.md
//! lists them (`tcp.goodput`, `core.drops.ratio`), in the base units s, B, bit/s, or 1.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub use trunkline_engine::outcome::{Outcome, SeriesOutcome};

/// The point of a sweep: for each axis, the name of its value there.
pub type Point = IndexMap<String, String>;

/// The name of a point: `flows=10, trunk=with`.
pub fn named(point: &Point) -> String {
    let values: Vec<_> = point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    values.join(", ")
}

/// ` at flows=10, trunk=with`; nothing of an experiment without a sweep.
pub fn at(point: &Point) -> String {
    if point.is_empty() { String::new() } else { format!(" at {}", named(point)) }
}

/// The axis of results along which settings of unknowns lie.
pub const SETTING_AXIS: &str = "setting";

/// An unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnknownAnswer {
    /// Its name.
    pub name: String,
    /// What it is.
    pub label: String,
    /// What is plausible: `1 to 10 Mbit/s, by ratio`.
    pub plausible: String,
    /// Choices that have no order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// What the file has.
    pub chosen: Option<String>,
    /// Why that is plausible.
    pub why: String,
    /// The paper's other experiments that have it had the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// A point that an engine cannot carry out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Where in the sweep.
    pub point: Point,
    /// The part that the engine cannot be, and what is allowed.
    pub why: String,
}

/// The machine of results that are not the same on every machine, and what it cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The engine.
    pub engine: String,
    /// The kernel's release.
    pub kernel: String,
    /// CPUs.
    pub cpus: usize,
    /// The day of the first run, as `2026-11-23`, UTC.
    pub date: String,
    /// Points that are not on this engine, in the sweep's order.
    pub refused: Vec<Refusal>,
}

/// One run, as a line of `runs.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The experiment's id.
    pub experiment: String,
    /// The engine's name.
    pub engine: String,
    /// Where in the sweep.
    pub point: Point,
    /// The seed.
    pub seed: u64,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The version that made it.
    pub version: String,
}

/// A metric over the runs of a point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// Half of the width of the mean's 95 % interval (Student's t); none of a single run, nor of runs that are all the same.
    pub ci95: Option<f64>,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Of how many runs, where not all of the point's have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// What the paper has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
}

impl Estimate {
    /// Of a single value.
    pub const fn alone(value: f64) -> Self {
        Estimate { mean: value, median: value, ci95: None, min: value, max: value, runs: None, paper: None }
    }
}

/// How a claim or a published value came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is borne out.
    Holds,
    /// It is borne out in direction or in part.
    Differs,
    /// It is not.
    Fails,
    /// There is no saying: something it is about has no value, or was not run.
    Undecided,
}

/// A claim and how it came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimOutcome {
    /// What is said.
    pub text: String,
    /// How it came out.
    pub verdict: Verdict,
    /// The condition with its numbers, and what we believe is the reason if it does not hold.
    pub why: String,
}

/// A point over all of its runs, as a line of `results.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// The experiment's id.
    pub experiment: String,
    /// The engine's name.
    pub engine: String,
    /// Where in the sweep.
    pub point: Point,
    /// How many runs.
    pub runs: u32,
    /// By name.
    pub metrics: IndexMap<String, Estimate>,
    /// Claims of the experiment: the same in each of its lines.
    pub claims: Vec<ClaimOutcome>,
    /// A fingerprint of the runs' digests.
    pub digest: String,
    /// The version that made them.
    pub version: String,
}
