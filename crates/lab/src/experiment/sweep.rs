//! What varies.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One axis of a sweep: `path` with `values` or a `range`, several paths `zip`ped, or named `variants`.
///
/// A path is the keys down to a value of this file, with dots: `links.core.queue.max_p`. `*` is every key there is: `trunks.*.enabled`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What it is, for an axis of a plot: `TCP flows`; the axis' name.
    pub label: Option<String>,
    /// What is set, to the same value if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The values, with their units: `["5 ms", "50 ms"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub values: Vec<toml::Value>,
    /// Values at equal distances.
    pub range: Option<Range>,
    /// Lists of the same length: the first of each together, then the second of each. A point is named by the first list's value.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "IndexMap<String, Vec<serde_json::Value>>")]
    pub zip: IndexMap<String, Vec<toml::Value>>,
    /// By name, what each sets: `{ without = { "trunks.*.enabled" = false } }`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "IndexMap<String, IndexMap<String, serde_json::Value>>")]
    pub variants: IndexMap<String, IndexMap<String, toml::Value>>,
}

/// Values at equal distances, first and last included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// First.
    pub from: f64,
    /// Last.
    pub to: f64,
    /// How many; at least 2.
    pub count: u32,
    /// What they are in: `ms`, `Mbit/s`; none.
    pub unit: Option<String>,
    /// Differences or ratios that are equal.
    #[serde(default)]
    pub spacing: Spacing,
}

/// What is equal from each value of a range to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// The difference.
    #[default]
    Linear,
    /// The ratio.
    Log,
}

/// What is different in a quick run: fewer runs, and values that are set before the sweep is made, by path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// How often each point is run; 1.
    #[serde(default = "one")]
    pub runs: u32,
    /// What is set: `"duration" = "30 s"`, `"sweep.flows.values" = [1, 10]`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "IndexMap<String, serde_json::Value>")]
    pub set: IndexMap<String, toml::Value>,
    /// What is set beside it on the testbed, where time is real.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "IndexMap<String, serde_json::Value>")]
    pub testbed: IndexMap<String, toml::Value>,
    /// `true` in the file that is kept beside the results of a quick run. Reports then say so, and leave out the reasons that the file gives: those are of full runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
}

const fn one() -> u32 {
    1
}
