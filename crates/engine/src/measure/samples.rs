//! How long queues were at equally spaced instants.

use std::time::Duration;

use trunkline_units::Instant;

use super::Network;
use crate::scenario::Scenario;

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
    /// By trunk, side and class.
    classes: Vec<[Vec<Vec<u32>>; 2]>,
}

impl Samples {
    /// Samples of a run that is counted for its whole time.
    const COUNT: u32 = 1000;
    /// By how much denser they are at first if the run may end before its time.
    const DENSER: u32 = 64;

    /// From `start` on, for `time`, or less unless it is `fixed`.
    pub(super) fn new(scenario: &Scenario, start: Instant, time: Duration, fixed: bool) -> Self {
        let count = if fixed { Self::COUNT } else { Self::COUNT * Self::DENSER };
        let every = (time / count).max(Duration::from_nanos(1));
        let classes = scenario.trunks.iter().map(|trunk| vec![Vec::new(); trunk.plan.classes.len()]);
        Samples {
            every,
            next: start + every,
            taken: 0,
            links: vec![[Vec::new(), Vec::new()]; scenario.links.len()],
            classes: classes.map(|classes| [classes.clone(), classes]).collect(),
        }
    }

    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Takes a sample of all queues. The next is at the next multiple of the distance.
    pub(super) fn take(&mut self, network: &mut impl Network) {
        for (link, sides) in self.links.iter_mut().enumerate() {
            for (side, samples) in sides.iter_mut().enumerate() {
                samples.push(network.link_backlog(link, side));
            }
        }
        for (trunk, sides) in self.classes.iter_mut().enumerate() {
            for (side, classes) in sides.iter_mut().enumerate() {
                for (class, samples) in classes.iter_mut().enumerate() {
                    samples.push(network.class_backlog(trunk, side, class));
                }
            }
        }
        self.taken += 1;
        while self.next <= network.now() {
            self.next += self.every;
        }
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
