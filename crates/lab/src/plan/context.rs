//! What the parts of an experiment refer to by name: nodes, TCPs, the graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use trunkline_schema::At;
use trunkline_tcp::Settings;

use super::graph::Graph;
use super::{keys, tcp};
use crate::experiment::{Experiment, Family, NodeKind};

/// What parts of an experiment refer to.
pub(super) struct Context<'e> {
    pub(super) experiment: &'e Experiment,
    /// Settings by name; `None` of those with a mistake, which has been told.
    pub(super) tcps: BTreeMap<&'e str, Option<Arc<Settings>>>,
    pub(super) graph: Graph<'e>,
}

impl Context<'_> {
    /// The place of a node, or a mistake.
    pub(super) fn node(&self, at: &At<'_>, name: &str) -> Option<usize> {
        let place = self.experiment.nodes.get_index_of(name);
        if place.is_none() {
            let names = self.experiment.nodes.keys().map(String::as_str);
            at.report(format!("there is no node {name:?}"), keys::listed(names));
        }
        place
    }

    /// The place of a node of this kind, or a mistake.
    pub(super) fn node_of_kind(&self, at: &At<'_>, name: &str, kind: NodeKind) -> Option<usize> {
        let place = self.node(at, name)?;
        if self.experiment.nodes[place] == kind {
            return Some(place);
        }
        let is = |kind| match kind {
            NodeKind::Host => "host",
            NodeKind::Router => "router",
            NodeKind::Gateway => "gateway",
            NodeKind::Proxy => "proxy",
        };
        let fitting = self.experiment.nodes.iter().filter(|(_, of)| **of == kind);
        let problem = format!("{name} is no {}, but a {}", is(kind), is(self.experiment.nodes[place]));
        at.report(problem, keys::listed(fitting.map(|(name, _)| name.as_str())));
        None
    }

    /// The places of hosts.
    pub(super) fn hosts(&self, at: &At<'_>, names: &[String]) -> Vec<usize> {
        let mut places = Vec::with_capacity(names.len());
        for (number, name) in names.iter().enumerate() {
            let at = at.index(number);
            let Some(place) = self.node_of_kind(&at, name, NodeKind::Host) else { continue };
            if places.contains(&place) {
                at.report(format!("{name} is here twice"), "each host once");
            } else {
                places.push(place);
            }
        }
        places
    }

    /// A version of IP, which is the experiment's if nothing else is said.
    pub(super) fn family(&self, own: Option<Family>) -> Family {
        own.or(self.experiment.family).unwrap_or_default()
    }

    /// A TCP by its name, which is this file's or a preset's; `linux-6` without a name.
    pub(super) fn tcp(&self, at: &At<'_>, name: Option<&str>) -> Option<Arc<Settings>> {
        tcp::named(self.experiment, &self.tcps, at, name.unwrap_or("linux-6"))
    }
}
