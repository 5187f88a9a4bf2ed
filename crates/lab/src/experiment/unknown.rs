//! What a paper leaves open.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LossSpec, Spacing};
use crate::quantity::{Share, Time};

/// Something that is not known, such as what a paper does not say, and what it may plausibly be: `paths` with `values` or a `range`,
/// named `variants`, or `changes` of a link. What the file sets stays what an ordinary run has; `lab explain` and `lab survey` sample
/// these.
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
    /// A link's values that change at random times.
    pub changes: Option<RandomChanges>,
    /// The part of settings that have it. The others have what the file says. 1.
    pub share: Option<Share>,
    /// Of `values` or a `range`: an unknown above this one, whose value is multiplied by this one's before it is set. A rate times a
    /// time is a size.
    pub times: Option<String>,
    /// The least product with `times`: `"4500 B"`.
    pub at_least: Option<String>,
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

/// A link's values that change at random times. Each change is of one of `rate`, `delay` and `loss`, of those that are given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomChanges {
    /// The link. Its two ways change together, each from its own rate and delay.
    pub link: String,
    /// The least and the largest number of changes.
    pub count: [u32; 2],
    /// The earliest and the latest time of a change.
    pub at: [Time; 2],
    /// The shortest and the longest time that a change lasts, equal ratios equally often; without it, until the next one of its kind.
    pub lasting: Option<[Time; 2]>,
    /// The least and the largest factor on the link's rate, equal ratios equally often; `[0, 0]` is an outage.
    pub rate: Option<[f64; 2]>,
    /// The same on its delay.
    pub delay: Option<[f64; 2]>,
    /// Losses, each equally often.
    pub loss: Option<Vec<LossSpec>>,
}

/// In the file that is kept beside the results of `lab explain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// The seed of the settings.
    pub seed: u64,
}
