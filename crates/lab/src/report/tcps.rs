//! Which TCPs an experiment uses, with all of their settings.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use trunkline_engine::scenario::{Load, ProxyMode, Scenario};
use trunkline_tcp::Settings as TcpSettings;

use crate::plan::Planned;
use crate::results::Point;

/// A TCP that something uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpInUse {
    /// What uses it, and where in the sweep if not everywhere: `traffic bulk`, `trunk main (tcp: modern)`.
    pub users: Vec<String>,
    /// All of its settings, by name.
    pub settings: Vec<(String, String)>,
}

type Settings = Vec<(String, String)>;

impl TcpInUse {
    /// Each that is in use at a point.
    pub fn of(planned: &[Planned]) -> Vec<Self> {
        // For each TCP, for each of its users, where.
        let mut known: IndexMap<Settings, IndexMap<String, Vec<&Point>>> = IndexMap::new();
        for Planned { point, scenario } in planned {
            for (user, settings) in users(scenario) {
                known.entry(described(settings)).or_default().entry(user).or_default().push(point);
            }
        }
        let everywhere: Vec<&Point> = planned.iter().map(|planned| &planned.point).collect();
        let mut uses: IndexMap<&str, usize> = IndexMap::new();
        for user in known.values().flat_map(IndexMap::keys) {
            *uses.entry(user).or_default() += 1;
        }
        let named = |(user, points): (&String, &Vec<&Point>)| match uses.get(user.as_str()) {
            Some(1) | None => user.clone(),
            Some(_) => format!("{user} ({})", place(points, &everywhere)),
        };
        known
            .iter()
            .map(|(settings, users)| Self {
                users: users.iter().map(named).collect(),
                settings: settings.clone(),
            })
            .collect()
    }
}

fn described(settings: &TcpSettings) -> Settings {
    settings.describe().into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn users(scenario: &Scenario) -> Vec<(String, &TcpSettings)> {
    let mut users = Vec::new();
    for traffic in &scenario.traffic {
        if let Load::Tcp { tcp: [from, to], .. } = &traffic.load {
            users.extend(ends(format!("traffic {}", traffic.name), [("from", from), ("to", to)]));
        }
    }
    for node in &scenario.nodes {
        if let Some(ProxyMode::Split([network, hosts]) | ProxyMode::PathTail([network, hosts], _)) =
            node.proxy.as_ref().map(|proxy| &proxy.mode)
        {
            let sides = [("to the network", network), ("to its hosts", hosts)];
            users.extend(ends(format!("proxy {}", node.name), sides));
        }
    }
    for trunk in &scenario.trunks {
        users.push((format!("trunk {}", trunk.name), trunk.tcp.as_ref()));
    }
    users
}

/// Both ends of something: one user, if they are the same.
fn ends<'a>(user: String, ends: [(&str, &'a Arc<TcpSettings>); 2]) -> Vec<(String, &'a TcpSettings)> {
    let [(_, first), (_, second)] = ends;
    if first == second {
        return vec![(user, first.as_ref())];
    }
    ends.into_iter().map(|(end, tcp)| (format!("{user}, {end}"), tcp.as_ref())).collect()
}

/// Values of the axes that tell some points from all of them.
fn place(points: &[&Point], all: &[&Point]) -> String {
    let values = |points: &[&Point], axis: &String| -> IndexSet<String> {
        points.iter().filter_map(|point| point.get(axis).cloned()).collect()
    };
    let axes: IndexSet<&String> = all.iter().flat_map(|point| point.keys()).collect();
    let parts = axes.into_iter().filter_map(|axis| {
        let here = values(points, axis);
        let partly = here.len() < values(all, axis).len();
        partly.then(|| format!("{axis}: {}", here.into_iter().collect::<Vec<_>>().join(", ")))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "at some points".into() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    #[test]
    fn every_tcp_is_named_with_its_users_and_where_they_use_it() {
        let document = Document::parse(
            "test.toml",
            r#"
id = "test"
title = "Test"
duration = "1 s"
[nodes]
a = "host"
b = "host"
[links.core]
ends = ["a", "b"]
rate = "1 Mbit/s"
[tcp.mine]
preset = "linux-2.2"
[traffic.one]
kind = "bulk"
from = "a"
to = "b"
tcp = "mine"
[traffic.two]
kind = "bulk"
from = "a"
to = "b"
port = 81
[sweep.era]
variants = { old = {}, new = { "tcp.mine.preset" = "linux-6" } }
[sweep.flows]
paths = ["traffic.one.flows"]
values = [1, 2]
"#,
        )
        .unwrap();
        let tcps = TcpInUse::of(&document.plan().unwrap());
        let users: Vec<&[String]> = tcps.iter().map(|tcp| tcp.users.as_slice()).collect();
        assert_eq!(users, [vec!["traffic one (era: old)"], vec!["traffic two", "traffic one (era: new)"]]);
        for tcp in &tcps {
            assert!(tcp.settings.len() > 20, "{tcp:?}");
        }
    }
}
