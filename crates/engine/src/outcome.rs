//! What comes out of a run: numbers with names.
//!
//! Metrics are flat: a subject and a quantity, with dots, as docs/metrics.md lists them (`tcp.goodput`, `core.drops.ratio`), in the
//! base units s, B, bit/s, or 1.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// What one run gave.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Metrics by name. One that has no value (a mean of nothing) is not there.
    pub metrics: IndexMap<String, f64>,
    /// Values of each transfer or sample, for histograms: `tcp.transfer.throughput`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub distributions: IndexMap<String, Vec<f64>>,
    /// What was recorded over time, if the experiment asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<SeriesOutcome>,
    /// What the engine did otherwise than the experiment says, a sentence each: what a kernel has in place of a TCP of the past.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub substitutions: Vec<String>,
    /// A fingerprint of all that happened; empty from an engine that has none.
    pub digest: String,
}

/// What was recorded over time. A value that is not there is NaN, and null in JSON.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SeriesOutcome {
    /// Seconds from the start.
    pub times: Vec<f64>,
    /// By name, a value for each time.
    pub columns: IndexMap<String, Vec<Option<f64>>>,
}
