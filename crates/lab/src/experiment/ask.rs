//! What is asked of the results: published figures, claims, tables, plots.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Time;

/// What is recorded over time, for plots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// From one sample to the next.
    pub every: Time,
    /// Names as docs/metrics.md lists them: `core.queue.packets`, `bulk.goodput`, `bulk.0.cwnd`.
    pub of: Vec<String>,
}

/// A metric that was published, or a ratio of some. Compared side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The metric.
    pub metric: Option<String>,
    /// In place of a metric, a ratio of several points: `mean(tcp.goodput[tunnel=with]) / mean(tcp.goodput[tunnel=without])`, in the
    /// language of conditions.
    pub ratio: Option<String>,
    /// What a ratio is called.
    pub label: Option<String>,
    /// Its value at points, in the metric's unit unless `unit` says another. A ratio has one value, and no point.
    pub values: Vec<Cell>,
    /// The unit of `values`: `ms` for a metric in s.
    pub unit: Option<String>,
    /// Where ours may lie for the value to be confirmed, as a factor either way; 1.25. Within its square it differs, beyond that it fails.
    pub within: Option<f64>,
    /// Why ours differs, where it does.
    pub why: Option<String>,
}

/// A published value at a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Values of axes that say which point it is.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "IndexMap<String, serde_json::Value>")]
    pub at: IndexMap<String, toml::Value>,
    /// The value.
    pub value: f64,
    /// Whether something that the paper leaves open was chosen by this value. It is shown and not counted; no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub calibrated: bool,
}

/// Something said of the results that they bear out or do not. The conditions are fixed before anything is run.
///
/// A condition compares metrics: `all(web.delay.mean[trunks=with] < 0.8 * web.delay.mean[trunks=without])`; docs/experiments.md has
/// the language. A claim `holds` if `holds` is true, `differs` if `differs` is, and else `fails`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is said.
    pub text: String,
    /// The paper's or ours.
    #[serde(default)]
    pub kind: ClaimKind,
    /// What of the runs of a point its conditions compare; their mean.
    #[serde(default, skip_serializing_if = "Average::is_mean")]
    pub over_runs: Average,
    /// The least round trips that a run must have at each point that the claim is about, or it is undecided; none.
    pub round_trips: Option<u32>,
    /// It is borne out.
    pub holds: String,
    /// It is borne out in direction, or in part.
    pub differs: Option<String>,
    /// What we believe is the reason, where it does not hold.
    pub why: Option<String>,
}

/// What stands for the values of a metric in the runs of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Average {
    /// Their mean.
    #[default]
    Mean,
    /// Their median: one run of heavy-tailed values decides nothing.
    Median,
}

impl Average {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_mean(&self) -> bool {
        *self == Average::Mean
    }
}

impl Published {
    /// The metric, or the ratio.
    pub fn what(&self) -> &str {
        self.metric.as_deref().or(self.ratio.as_deref()).unwrap_or_default()
    }
}

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimKind {
    /// The paper.
    #[default]
    Paper,
    /// We, of what the paper left open. Not counted among the paper's.
    Ours,
}

/// A table of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Above it.
    pub title: String,
    /// What its rows are: metrics, or with one metric the values of the axis `by`.
    pub metrics: Vec<Row>,
    /// The axis whose values are the columns; none: one column.
    pub columns: Option<String>,
    /// The axes whose values are rows (each with all metrics); all other axes.
    pub by: Option<Vec<String>>,
    /// Only points with these values.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "IndexMap<String, serde_json::Value>")]
    pub at: IndexMap<String, toml::Value>,
}

/// A metric of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The metric.
    pub metric: String,
    /// What it is called; the metric's name.
    pub label: Option<String>,
    /// What it is shown in: `ms`, `kbit/s`, `%`; the metric's own.
    pub unit: Option<String>,
}

/// A plot of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Above it.
    pub title: String,
    /// What it is like.
    pub kind: FigureKind,
    /// What is drawn: metrics, or series over time, or for a histogram the values of one.
    pub metrics: Vec<Row>,
    /// `line`, `bar`: the axis of the sweep along x.
    pub x: Option<String>,
    /// Axes whose values have a line each; all other axes.
    pub by: Option<Vec<String>>,
    /// Only points with these values.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "IndexMap<String, serde_json::Value>")]
    pub at: IndexMap<String, toml::Value>,
    /// Along x.
    #[serde(default)]
    pub x_scale: Scale,
    /// Along y.
    #[serde(default)]
    pub y_scale: Scale,
    /// What is along y, unit and all; the metrics' name and unit.
    pub y_label: Option<String>,
    /// What the paper says of it.
    pub caption: Option<String>,
}

/// What a plot is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// Metrics along an axis of the sweep, with their intervals.
    Line,
    /// The same as bars.
    Bar,
    /// How many of a run's values lie where: `tcp.transfer.throughput`.
    Histogram,
    /// Series over time, of the first run.
    Series,
    /// The second of two metrics over the first, a dot for each point.
    Points,
}

/// How values lie along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// By difference.
    #[default]
    Linear,
    /// By ratio.
    Log,
}
