//! How long queues were at equally spaced instants.

use std::time::Duration;

use trunkline_sim::Network;
use trunkline_trunk::ClassId;
use trunkline_units::Instant;

use super::build::Built;

/// Samples of every link's queue, both ways, and of every class' at both sides of its trunk.
///
/// Where nobody knows when the run ends, they are dense at first; when there are many, every second one is forgotten and the
/// distance doubles.
#[derive(Debug)]
pub(super) struct Samples {
    every: Duration,
    next: Instant,
    taken: usize,
    links: Vec<[Vec<u32>; 2]>,
    /// By trunk and side.
    classes: Vec<[Vec<Vec<u32>>; 2]>,
}

impl Samples {
    /// Samples of a run that is counted for `time`.
    pub(super) const COUNT: u32 = 1000;
    /// By how much denser they are at first if the run may end before its time.
    const DENSER: u32 = 64;

    /// From `start` on, for `time` or less.
    pub(super) fn new(
        built: &Built,
        classes: &[usize],
        (start, time): (Instant, Duration),
        fixed: bool,
    ) -> Self {
        let count = if fixed { Self::COUNT } else { Self::COUNT * Self::DENSER };
        let every = (time / count).max(Duration::from_nanos(1));
        Samples {
            every,
            next: start + every,
            taken: 0,
            links: vec![[Vec::new(), Vec::new()]; built.links.len()],
            classes: classes
                .iter()
                .map(|count| [vec![Vec::new(); *count], vec![Vec::new(); *count]])
                .collect(),
        }
    }

    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Looks at all queues.
    pub(super) fn take(&mut self, built: &Built) {
        let Built { network, links, trunks, .. } = built;
        for (ids, samples) in links.iter().zip(&mut self.links) {
            for (id, samples) in ids.iter().zip(samples) {
                samples.push(network.link_state(*id).queue().backlog_segments as u32);
            }
        }
        for (trunk, sides) in trunks.iter().zip(&mut self.classes) {
            for (side, classes) in sides.iter_mut().enumerate() {
                for (class, samples) in classes.iter_mut().enumerate() {
                    samples.push(backlog(network, *trunk, side, class));
                }
            }
        }
        self.taken += 1;
        self.next += self.every;
        if self.taken >= 2 * Self::COUNT as usize {
            self.thin();
        }
    }

    /// Forgets the first, the third, and so on: those that are left are `every` apart from the start.
    fn thin(&mut self) {
        let links = self.links.iter_mut().flatten();
        let classes = self.classes.iter_mut().flatten().flatten();
        for samples in links.chain(classes) {
            let mut odd = false;
            samples.retain(|_| {
                odd = !odd;
                !odd
            });
        }
        self.taken /= 2;
        self.next += self.every;
        self.every *= 2;
    }

    pub(super) fn link(&self, number: usize, side: usize) -> Vec<f64> {
        self.links[number][side].iter().copied().map(f64::from).collect()
    }

    pub(super) fn class(&self, trunk: usize, side: usize, class: usize) -> Vec<f64> {
        self.classes[trunk][side][class].iter().copied().map(f64::from).collect()
    }
}

fn backlog(network: &Network, trunk: trunkline_sim::TrunkId, side: usize, class: usize) -> u32 {
    network.class_backlog(trunk, side, ClassId(class as u8)).0 as u32
}
