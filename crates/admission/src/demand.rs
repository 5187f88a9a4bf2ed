//! What is asked of a network, and where it is carried.

use std::collections::BTreeSet;

use trunkline_units::Rate;

use crate::network::{Direction, Link, Rates};
use crate::search::Way;

/// Priorities of a demand (RFC 3209 §4.7.3), each 0 (first) to 7 (last).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// Whose room it may take: that of demands with a hold priority after this one.
    pub setup: u8,
    /// Who may take its room: demands with a setup priority before this one. Not after `setup`, so that two cannot take each other's.
    pub hold: u8,
}

impl Default for Priority {
    fn default() -> Self {
        Priority { setup: 4, hold: 4 }
    }
}

/// A trunk that asks for a guaranteed rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// The sites that it joins, by their places among the nodes.
    pub ends: [usize; 2],
    /// The rate from the first to the second, and back.
    pub rates: Rates,
    /// Its lanes: the connections that share its rate.
    pub lanes: u32,
    /// Who gives way to it, and to whom it gives way.
    pub priority: Priority,
    /// Whether it asks for a second way that shares no link with the first, with the same room.
    pub backup: bool,
    /// Links that it may not take.
    pub avoided: BTreeSet<usize>,
}

impl Demand {
    pub(crate) fn may_pass(&self, link: usize) -> bool {
        !self.avoided.contains(&link)
    }

    /// The rate from which on its lanes have their windows on a link, in a direction along it.
    pub(crate) fn least(&self, link: &Link, direction: Direction) -> Rate {
        Rate::from_bits_per_second(link.least[direction].bits_per_second().saturating_mul(self.lanes.into()))
    }

    /// Whether its lanes have their windows on a link that it passes in this direction, at these rates. What asks for nothing needs none.
    pub(crate) fn has_windows(&self, rates: Rates, link: &Link, passed: Direction) -> bool {
        Direction::BOTH.iter().all(|direction| {
            let rate = rates[passed.of(*direction)];
            rate == Rate::ZERO || rate >= self.least(link, *direction)
        })
    }
}

/// Where a demand is carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The way that it takes.
    pub way: Way,
    /// The way that is kept free for it.
    pub backup: Option<Way>,
}

impl Placement {
    /// Its way, and its backup.
    pub fn ways(&self) -> impl Iterator<Item = &Way> {
        std::iter::once(&self.way).chain(&self.backup)
    }

    /// The links of both, each with the direction in which it is passed.
    pub fn links(&self) -> impl Iterator<Item = (usize, Direction)> {
        self.ways().flat_map(|way| way.links.iter().copied())
    }
}

/// What a demand had before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Where it was carried.
    pub placement: Placement,
    /// The rates that it had.
    pub rates: Rates,
}
