//! Which names an experiment has, before it runs.

use std::collections::BTreeMap;
use std::fmt;

use indexmap::IndexMap;

use super::{DISTRIBUTIONS, Present, QUANTITIES, Quantity, SERIES, Subject};
use crate::engine::way;
use crate::scenario::{Load, NodeKind, Scenario};

/// A name, and when it is there.
type Names = IndexMap<String, Quantity>;

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
    /// What it may have been meant to be: the nearest first, up to three.
    pub near: Vec<String>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing here measures {:?}", self.name)?;
        if !self.near.is_empty() {
            write!(f, "; did you mean {}?", self.near.join(" or "))?;
        }
        Ok(())
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
        self.metrics.iter().map(|(name, quantity)| (&**name, quantity))
    }

    /// A metric, such as `tcp.goodput`.
    pub fn metric(&self, name: &str) -> Result<&Quantity, UnknownName> {
        find(&self.metrics, name)
    }

    /// Values for a histogram, such as `tcp.transfer.delay`.
    pub fn distribution(&self, name: &str) -> Result<&Quantity, UnknownName> {
        find(&self.distributions, name)
    }

    /// Something to be recorded over time, such as `core.queue.packets` or `tcp.0.cwnd`. Of the users of a source and the lanes of
    /// a trunk, those that there are.
    pub fn series(&self, name: &str) -> Result<&Quantity, UnknownName> {
        self.numbered(name).map_or_else(|| find(&self.series, name), Ok)
    }

    /// The series of a user or lane.
    fn numbered(&self, name: &str) -> Option<&'static Quantity> {
        let (subject, quantity) = name.rsplit_once('.')?;
        let of = |of: Subject| SERIES.iter().find(|known| known.of == of && known.name == quantity);
        let (owner, number) = subject.rsplit_once('.')?;
        if let Some(lane) = number.strip_prefix("lane") {
            let lane: usize = lane.parse().ok()?;
            return of(Subject::SeriesLane)
                .filter(|_| self.lanes.get(owner).is_some_and(|lanes| lane < *lanes));
        }
        let user: u32 = number.parse().ok()?;
        of(Subject::SeriesUser).filter(|quantity| {
            let some = self.users.get(owner).is_some_and(|users| user < *users);
            let datagrams = self.users.get(owner) == Some(&0) && user == 0 && quantity.name == "goodput";
            some || datagrams
        })
    }

    fn put(&mut self, subject: &str, of: Subject, keep: impl Fn(&Quantity) -> bool) {
        for quantity in QUANTITIES.iter().filter(|quantity| quantity.of == of && keep(quantity)) {
            put(&mut self.metrics, subject, quantity);
        }
    }

    fn put_series(&mut self, subject: &str, of: Subject) {
        for quantity in SERIES.iter().filter(|quantity| quantity.of == of) {
            put(&mut self.series, subject, quantity);
        }
    }

    fn add(&mut self, scenario: &Scenario) {
        self.add_groups(scenario);
        for link in &scenario.links {
            for (side, settings) in link.ways.iter().enumerate() {
                let name = way(&link.name, side);
                self.put(&name, Subject::Link, |_| true);
                self.add_queue(&name, &settings.queue);
                self.put_series(&name, Subject::Link);
            }
        }
        for trunk in &scenario.trunks {
            for side in 0..2 {
                let name = way(&trunk.name, side);
                for class in &trunk.plan.classes {
                    let name = format!("{name}.{}", class.name);
                    self.add_queue(&name, &class.queue);
                    self.put(&name, Subject::Class, |_| true);
                    self.put_series(&name, Subject::Class);
                }
                self.put(&name, Subject::Trunk, |_| true);
                let lanes = self.lanes.entry(name.clone()).or_default();
                *lanes = trunk.plan.lane_count().max(*lanes);
                // So that a name that is wrong finds them.
                self.put_series(&format!("{name}.lane0"), Subject::SeriesLane);
            }
        }
        for name in &scenario.disabled {
            for side in 0..2 {
                let zeros = ["drops", "filtered", "refused"];
                self.put(&way(name, side), Subject::Trunk, |quantity| zeros.contains(&quantity.name));
            }
        }
        for node in &scenario.nodes {
            if node.kind == NodeKind::Proxy {
                self.put(&node.name, Subject::Proxy, |_| true);
            }
            self.put(&node.name, Subject::Node, |_| true);
        }
        self.put("run", Subject::Run, |_| true);
    }

    fn add_queue(&mut self, name: &str, settings: &trunkline_queue::Settings) {
        let reasons = settings.description().reasons;
        self.put(name, Subject::Queue, |quantity| match quantity.name.strip_prefix("drops.") {
            Some(reason) if !["percent", "bytes"].contains(&reason) => {
                reasons.iter().any(|possible| possible.name() == reason)
            }
            _ => true,
        });
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
            let first = format!("{}.0", traffic.name);
            let series = SERIES.iter().filter(|quantity| quantity.of == Subject::SeriesUser);
            for quantity in series.filter(|quantity| tcp || quantity.name == "goodput") {
                put(&mut self.series, &first, quantity);
            }
        }
        for (group, (tcp, udp)) in groups {
            self.put(group, Subject::Group, |_| true);
            self.put_series(group, Subject::Group);
            if tcp {
                self.put(group, Subject::Tcp, |_| true);
                for quantity in DISTRIBUTIONS {
                    put(&mut self.distributions, group, quantity);
                }
            }
            if udp {
                self.put(group, Subject::Udp, |_| true);
            }
            if udp && !tcp {
                self.put(group, Subject::UdpAlone, |_| true);
            }
        }
        self.put("all", Subject::All, |_| true);
    }
}

/// What one scenario has always and another sometimes is there sometimes.
fn put(names: &mut Names, subject: &str, quantity: &Quantity) {
    let present = names.entry(format!("{subject}.{}", quantity.name)).or_insert(*quantity);
    if quantity.present == Present::Sometimes {
        present.present = Present::Sometimes;
    }
}

fn find<'a>(names: &'a Names, name: &str) -> Result<&'a Quantity, UnknownName> {
    names.get(name).ok_or_else(|| {
        let mut near: Vec<(usize, &String)> =
            names.keys().map(|known| (distance(known, name), known)).collect();
        near.sort_by_key(|(distance, _)| *distance);
        // Beyond a third of its letters it is another word.
        near.retain(|(distance, _)| *distance <= name.len() / 3 + 1);
        let near = near.into_iter().take(3).map(|(_, known)| known.clone()).collect();
        UnknownName { name: name.to_owned(), near }
    })
}

/// Letters to be put in, taken out or replaced to make one of the other (Levenshtein 1966).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_letters() {
        for (a, b, letters) in
            [("goodput", "godput", 1), ("drops", "drop", 1), ("abc", "", 3), ("kitten", "sitting", 3)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (letters, letters), "{a} {b}");
        }
    }
}
