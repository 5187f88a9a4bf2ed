//! Who reaches whom, and over how many links.

use std::collections::VecDeque;

use crate::experiment::{Experiment, NodeKind};

/// Nodes and the links between them.
pub(super) struct Graph<'e> {
    kinds: Vec<NodeKind>,
    names: Vec<&'e str>,
    neighbours: Vec<Vec<usize>>,
    is_whole: bool,
}

impl<'e> Graph<'e> {
    pub(super) fn new(experiment: &'e Experiment) -> Self {
        let mut neighbours = vec![Vec::new(); experiment.nodes.len()];
        let mut is_whole = true;
        for link in experiment.links.values() {
            let place = |end: usize| experiment.nodes.get_index_of(link.ends.as_ref()?[end].as_str());
            match (place(0), place(1)) {
                (Some(a), Some(b)) if a != b => {
                    neighbours[a].push(b);
                    neighbours[b].push(a);
                }
                _ => is_whole = false,
            }
        }
        let names = experiment.nodes.keys().map(String::as_str).collect();
        Graph { kinds: experiment.nodes.values().copied().collect(), names, neighbours, is_whole }
    }

    /// Whether every link joins two nodes. If not, who reaches whom says nothing.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
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
