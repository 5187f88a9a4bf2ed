//! An experiment as its file says it: topology, traffic, trunks and proxies, what is swept, what is asked, what a paper says.
//!
//! These types are the format: reading is strict, and the JSON Schema for editors is made from them. What they cannot say (that a
//! node exists, that a queue has a parameter) is checked when a [scenario](trunkline_engine::scenario) is made of them.

mod ask;
mod link;
mod paths;
mod proxy;
mod survey;
mod sweep;
mod tcp;
mod traffic;
mod trunk;
mod unknown;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use trunkline_schema::Format;

use crate::quantity::Time;

pub use ask::{Average, Cell, Claim, ClaimKind, Figure, FigureKind, Published, Row, Scale, Series, Table};
pub use link::{Bursts, Change, DeliveriesOf, DeliveriesSpec, Jitter, LinkSpec, LossSpec, Mobile, Moments};
pub(crate) use paths::expand;
pub use proxy::{CellSpec, ProxyModeName, ProxySpec};
pub use survey::{Better, Bound, Measure, SAMPLE_AXIS, SurveySpec};
pub use sweep::{Axis, Quick, Range, Spacing};
pub use tcp::{DelayedAckSpec, TcpSpec};
pub use traffic::{
    AssignmentName, DistributionSpec, LoadOf, LoadSpec, Shape, TimingName, TrafficKind, TrafficSpec,
};
pub use trunk::{PathSpec, TrunkSpec};
pub use trunkline_engine::scenario::{End, Family, NodeKind};
pub use unknown::{Between, Explained, RandomChanges, Unknown};

/// An experiment, or a user's network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The name of its results: `[a-z0-9-]{1,64}`.
    pub id: String,
    /// Other names that it goes by: figures and tables that the same runs give.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// One line.
    pub title: String,
    /// The paper it is from: `lee2002` and the like.
    pub paper: Option<String>,
    /// Where in the paper: `§2.1, table 1`.
    pub source: Option<String>,
    /// What is asked, and how it is set up. Markdown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What the paper left open, what was chosen and how much it matters, why ours differs. Markdown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,

    /// How long it runs at the most.
    pub duration: Time,
    /// What ends it.
    #[serde(default)]
    pub end: End,
    /// What happens before this is not counted in rates, shares, queues, drops. Transfers are counted from their start, whenever that was.
    #[serde(default)]
    pub warm_up: Time,
    /// How often each point is run, each time with another seed.
    #[serde(default = "five")]
    pub runs: u32,
    /// The first seed; run n has this plus n.
    #[serde(default = "one")]
    pub seed: u64,

    /// Version of IP of all traffic and lanes that say no other; "ipv4". Every node has an address of both.
    pub family: Option<Family>,
    /// Hosts, routers, gateways and proxies, by name.
    pub nodes: IndexMap<String, NodeKind>,
    /// Links, by name; each is two ways.
    pub links: IndexMap<String, LinkSpec>,
    /// TCPs that traffic, trunks and proxies name. The presets are there by their own names.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub tcp: IndexMap<String, TcpSpec>,
    /// What hosts send.
    pub traffic: IndexMap<String, TrafficSpec>,
    /// Trunks between gateways.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub trunks: IndexMap<String, TrunkSpec>,
    /// What the nodes that are proxies do, by node.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub proxies: IndexMap<String, ProxySpec>,

    /// What varies. Each axis has some values; there is a point for each combination.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub sweep: IndexMap<String, Axis>,
    /// What is different in a quick run.
    pub quick: Option<Quick>,
    /// What is not known, such as what the paper leaves open, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub unknown: IndexMap<String, Unknown>,
    /// In the file that is kept beside the results of `lab explain`: how its settings were drawn.
    pub explained: Option<Explained>,
    /// What `lab survey` compares over settings of the unknowns.
    pub survey: Option<SurveySpec>,

    /// What is recorded over time.
    pub series: Option<Series>,
    /// What the paper measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// What the paper, or we, say of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// Tables of the report. None: one of all metrics that traffic has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// Plots of the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
}

impl Format for Experiment {}

impl Experiment {
    /// Whether it is what its `[quick]` made of it.
    pub fn is_quick(&self) -> bool {
        self.quick.as_ref().is_some_and(|quick| quick.applied)
    }
}

const fn five() -> u32 {
    5
}

const fn one() -> u64 {
    1
}
