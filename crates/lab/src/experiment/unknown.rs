//! What a paper leaves open.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Spacing;

/// Something that the paper does not say, and what it may plausibly have been: `paths` with `values` or a `range`, or named
/// `variants`. What the file sets stays what an ordinary run has; `lab explain` samples these.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unknown {
    /// What it is, for tables and plots: `rate of the flood`; the unknown's name.
    pub label: Option<String>,
    /// What is set, to the same value if there are several. Paths are those of a sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Values that are equally plausible: `["16 KiB", "64 KiB"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub values: Vec<toml::Value>,
    /// Any value between two ends.
    pub range: Option<Between>,
    /// By name, what each sets: `{ together = { "traffic.tcp.stagger" = { shape = "fixed", value = "0 ms" } } }`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "IndexMap<String, IndexMap<String, serde_json::Value>>")]
    pub variants: IndexMap<String, IndexMap<String, toml::Value>>,
    /// It was the same, as far as one can tell, in the paper's experiments that share an unknown of this name. It has `values` or
    /// `variants`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Why these are plausible: what the paper says, and what systems and books of its time had.
    pub why: String,
}

/// Values between two ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Between {
    /// Minimum.
    pub from: f64,
    /// Maximum.
    pub to: f64,
    /// What they are in: `ms`, `Mbit/s`; none.
    pub unit: Option<String>,
    /// Whether equal differences or equal ratios are equally plausible.
    #[serde(default)]
    pub scale: Spacing,
    /// Whole numbers only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
}

/// In the file that is kept beside the results of `lab explain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// The seed of the settings.
    pub seed: u64,
}
