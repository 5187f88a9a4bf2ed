//! Which names an experiment has, before it runs.

use std::collections::BTreeMap;
use std::fmt;

use indexmap::IndexMap;
use trunkline_queue::DropReason;

use super::{
    ALL, CLASS, CLASS_SERIES, DISABLED, DISTRIBUTIONS, GROUP, GROUP_SERIES, LANE_SERIES, LINK, LINK_SERIES,
    NODE, PROXY, Present, QUEUE, Quantity, RUN, TCP, TRUNK, UDP, UDP_ALONE, USER_SERIES, renamed, way,
};
use crate::scenario::{Load, NodeKind, Scenario};

/// A name, and when it is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Names(IndexMap<String, Quantity>);

/// What some scenarios measure together, and what can be recorded of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    metrics: Names,
    distributions: Names,
    series: Names,
    /// Users of each source, whose series are not listed one by one.
    users: BTreeMap<String, u32>,
    /// Lanes of each way of a trunk; the same.
    lanes: BTreeMap<String, usize>,
}

/// A name that nothing has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// It.
    pub name: String,
    /// The name that it has now, if it had this one once.
    pub now: Option<String>,
    /// What it may have been meant to be: the nearest first, up to three.
    pub near: Vec<String>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing here measures {:?}", self.name)?;
        match (&self.now, self.near.as_slice()) {
            (Some(now), _) => write!(f, "; it is called {now} now"),
            (None, []) => Ok(()),
            (None, near) => write!(f, ", did you mean {}?", near.join(" or ")),
        }
    }
}

impl std::error::Error for UnknownName {}

/// What these scenarios measure: the points of a sweep, which may differ in what they have.
pub fn known<'a>(scenarios: impl IntoIterator<Item = &'a Scenario>) -> Known {
    let mut known = Known::default();
    scenarios.into_iter().for_each(|scenario| known.add(scenario));
    known
}

impl Known {
    /// Every metric, in the order of a run's.
    pub fn metrics(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.metrics.0.iter().map(|(name, quantity)| (&**name, quantity))
    }

    /// A metric, such as `tcp.goodput`.
    pub fn metric(&self, name: &str) -> Result<&Quantity, UnknownName> {
        self.metrics.find(name)
    }

    /// Values for a histogram, such as `tcp.transfer.delay`.
    pub fn distribution(&self, name: &str) -> Result<&Quantity, UnknownName> {
        self.distributions.find(name)
    }

    /// Something to be recorded over time, such as `core.queue.packets` or `tcp.0.cwnd`. Of the users of a source and the lanes of
    /// a trunk, those that there are.
    pub fn series(&self, name: &str) -> Result<&Quantity, UnknownName> {
        self.numbered(name).map_or_else(|| self.series.find(name), Ok)
    }

    /// The series of a user or lane.
    fn numbered(&self, name: &str) -> Option<&'static Quantity> {
        let (subject, quantity) = name.rsplit_once('.')?;
        let of = |all: &'static [Quantity]| all.iter().find(|known| known.name == quantity);
        let (owner, number) = subject.rsplit_once('.')?;
        if let Some(lane) = number.strip_prefix("lane") {
            let lane: usize = lane.parse().ok()?;
            return of(LANE_SERIES.quantities)
                .filter(|_| self.lanes.get(owner).is_some_and(|lanes| lane < *lanes));
        }
        let user: u32 = number.parse().ok()?;
        of(USER_SERIES.quantities).filter(|quantity| {
            let some = self.users.get(owner).is_some_and(|users| user < *users);
            let datagrams = self.users.get(owner) == Some(&0) && user == 0 && quantity.name == "goodput";
            some || datagrams
        })
    }

    fn add(&mut self, scenario: &Scenario) {
        self.add_groups(scenario);
        for link in &scenario.links {
            for (side, settings) in link.ways.iter().enumerate() {
                let name = way(&link.name, side);
                self.metrics.put(&name, LINK.quantities);
                self.add_queue(&name, &settings.queue);
                self.series.put(&name, LINK_SERIES.quantities);
            }
        }
        for trunk in &scenario.trunks {
            for side in 0..2 {
                let name = way(&trunk.name, side);
                for class in &trunk.plan.classes {
                    let name = format!("{name}.{}", class.name);
                    self.add_queue(&name, &class.queue);
                    self.metrics.put(&name, CLASS.quantities);
                    self.series.put(&name, CLASS_SERIES.quantities);
                }
                self.metrics.put(&name, TRUNK.quantities);
                let lanes = self.lanes.entry(name.clone()).or_default();
                *lanes = trunk.plan.lane_count().max(*lanes);
                // So that a name that is wrong finds them.
                self.series.put(&format!("{name}.lane0"), LANE_SERIES.quantities);
            }
        }
        for name in &scenario.disabled {
            for side in 0..2 {
                let zeros = TRUNK.quantities.iter().filter(|quantity| DISABLED.contains(&quantity.name));
                self.metrics.put(&way(name, side), zeros);
            }
        }
        for node in &scenario.nodes {
            if node.kind == NodeKind::Proxy {
                self.metrics.put(&node.name, PROXY.quantities);
            }
            self.metrics.put(&node.name, NODE.quantities);
        }
        self.metrics.put("run", RUN.quantities);
    }

    fn add_queue(&mut self, name: &str, settings: &trunkline_queue::Settings) {
        let impossible = |quantity: &&Quantity| {
            let reason = quantity.name.strip_prefix("drops.");
            let reason = DropReason::ALL.into_iter().find(|known| Some(known.name()) == reason);
            reason.is_some_and(|reason| !settings.description().reasons.contains(&reason))
        };
        self.metrics.put(name, QUEUE.quantities.iter().filter(|quantity| !impossible(quantity)));
    }

    fn add_groups(&mut self, scenario: &Scenario) {
        let mut groups: IndexMap<&str, (bool, bool)> = IndexMap::new();
        for traffic in &scenario.traffic {
            let tcp = matches!(traffic.load, Load::Tcp { .. });
            for group in [&*traffic.group, "all"] {
                let (has_tcp, has_udp) = groups.entry(group).or_default();
                *has_tcp |= tcp;
                *has_udp |= !tcp;
            }
            let users = match &traffic.load {
                Load::Tcp { pattern, .. } => pattern.users(),
                Load::Udp { .. } => 0,
            };
            let known = self.users.entry(traffic.name.clone()).or_default();
            *known = users.max(*known);
            let series = USER_SERIES.quantities.iter().filter(|quantity| tcp || quantity.name == "goodput");
            self.series.put(&format!("{}.0", traffic.name), series);
        }
        for (group, (tcp, udp)) in groups {
            self.metrics.put(group, GROUP.quantities);
            self.series.put(group, GROUP_SERIES.quantities);
            if tcp {
                self.metrics.put(group, TCP.quantities);
                self.distributions.put(group, DISTRIBUTIONS.into_iter().flatten());
            }
            if udp {
                self.metrics.put(group, UDP.quantities);
            }
            if udp && !tcp {
                self.metrics.put(group, UDP_ALONE.quantities);
            }
        }
        self.metrics.put("all", ALL.quantities);
    }
}

impl Names {
    /// What one scenario has always and another sometimes is there sometimes.
    fn put<'a>(&mut self, subject: &str, quantities: impl IntoIterator<Item = &'a Quantity>) {
        for quantity in quantities {
            let present = self.0.entry(format!("{subject}.{}", quantity.name)).or_insert(*quantity);
            if quantity.present == Present::Sometimes {
                present.present = Present::Sometimes;
            }
        }
    }

    fn find(&self, name: &str) -> Result<&Quantity, UnknownName> {
        self.0.get(name).ok_or_else(|| {
            let meant = in_our_words(name);
            let mut near = trunkline_schema::near(&meant, self.0.keys().map(String::as_str));
            // What it is in our words is not one of several that look like it.
            if near.first() == Some(&meant) {
                near.truncate(1);
            }
            UnknownName { name: name.to_owned(), now: renamed(name), near }
        })
    }
}

/// Words that others have for parts of names, and ours.
const WORDS: [(&str, &str); 12] = [
    ("median", "p50"),
    ("average", "mean"),
    ("avg", "mean"),
    ("minimum", "min"),
    ("maximum", "max"),
    ("stddev", "std"),
    ("stdev", "std"),
    ("sd", "std"),
    ("latency", "delay"),
    ("loss", "lost"),
    ("utilization", "utilisation"),
    ("retransmits", "retransmissions"),
];

fn in_our_words(name: &str) -> String {
    let ours = |part| WORDS.iter().find(|(word, _)| *word == part).map_or(part, |(_, ours)| *ours);
    name.split('.').map(ours).collect::<Vec<_>>().join(".")
}
