//! Who reaches whom, and over how many links.

use std::collections::VecDeque;

use crate::experiment::{Experiment, NodeKind};

/// Nodes and the links between them.
pub(super) struct Graph<'e> {
    kinds: Vec<NodeKind>,
    names: Vec<&'e str>,
    neighbours: Vec<Vec<usize>>,
}

impl<'e> Graph<'e> {
    pub(super) fn new(experiment: &'e Experiment) -> Self {
        let mut neighbours = vec![Vec::new(); experiment.nodes.len()];
        let ends = experiment.links.values().filter_map(|link| link.ends.as_ref());
        for ends in ends {
            if let [Some(a), Some(b)] = ends.each_ref().map(|end| experiment.nodes.get_index_of(end.as_str()))
            {
                neighbours[a].push(b);
                neighbours[b].push(a);
            }
        }
        let names = experiment.nodes.keys().map(String::as_str).collect();
        Graph { kinds: experiment.nodes.values().copied().collect(), names, neighbours }
    }

    pub(super) fn name(&self, node: usize) -> &'e str {
        self.names[node]
    }

    pub(super) fn hosts(&self) -> impl Iterator<Item = usize> {
        (0..self.kinds.len()).filter(|node| self.kinds[*node] == NodeKind::Host)
    }

    /// Links from a node to each other, where there is a way. A host passes nothing on.
    pub(super) fn distances(&self, from: usize) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.kinds.len()];
        distances[from] = Some(0);
        let mut reached = VecDeque::from([(from, 0)]);
        while let Some((at, distance)) = reached.pop_front() {
            if at != from && self.kinds[at] == NodeKind::Host {
                continue;
            }
            for &next in &self.neighbours[at] {
                if distances[next].is_none() {
                    distances[next] = Some(distance + 1);
                    reached.push_back((next, distance + 1));
                }
            }
        }
        distances
    }

    pub(super) fn reaches(&self, from: usize, to: usize) -> bool {
        self.distances(from)[to].is_some()
    }
}
