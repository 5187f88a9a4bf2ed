//! What `lab survey` compares.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Share;

/// The axis of results along which samples lie.
pub const SAMPLE_AXIS: &str = "sample";

/// A comparison of variants over settings of the unknowns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SurveySpec {
    /// The axis of the sweep whose values are compared: the only one.
    pub axis: String,
    /// The value that the others are compared with.
    pub baseline: String,
    /// What is compared, by name: the ratio of a metric to the baseline's.
    pub measures: IndexMap<String, Measure>,
    /// What has to hold; where it does not, the exit code says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bound>,
}

/// A metric whose ratio to the baseline's counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The metric.
    pub metric: String,
    /// Which of it is better.
    pub better: Better,
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// More: goodput.
    More,
    /// Less: delay.
    Less,
}

/// At most a part of the samples has a ratio below or above a value: one of the two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// The measure.
    pub measure: String,
    /// Samples with a ratio below this count.
    pub below: Option<f64>,
    /// Samples with a ratio above this count.
    pub above: Option<f64>,
    /// The part of samples that may.
    pub at_most: Share,
}
