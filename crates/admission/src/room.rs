//! What is reserved on links, by hold priority.

use trunkline_units::Rate;

use crate::demand::{Demand, Placement};
use crate::network::{Direction, Network};

/// Priorities: 0 to 7.
const PRIORITIES: usize = 8;
/// What has room at this priority needs nobody's place.
pub(crate) const LAST: u8 = PRIORITIES as u8 - 1;

/// What is reserved on a link.
#[derive(Debug, Clone, Copy, Default)]
struct Reserved {
    /// In each direction along the link, bit/s, by hold priority.
    bits: [[u64; PRIORITIES]; 2],
}

/// What is reserved on all links.
#[derive(Debug)]
pub(crate) struct Room<'n> {
    network: &'n Network,
    reserved: Vec<Reserved>,
}

/// What a demand needs of a link in one direction along it, and what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Side {
    pub(crate) direction: Direction,
    pub(crate) needed: Rate,
    pub(crate) left: Rate,
}

impl<'n> Room<'n> {
    pub(crate) fn new(network: &'n Network) -> Self {
        Room { network, reserved: vec![Reserved::default(); network.links().len()] }
    }

    /// What is left in a direction along a link for what is set up at this priority.
    pub(crate) fn left(&self, link: usize, direction: Direction, priority: u8) -> Rate {
        let there = self.network.links()[link].reservable[direction].bits_per_second();
        let taken = self.reserved[link].bits[direction as usize][..=usize::from(priority)].iter().sum();
        Rate::from_bits_per_second(there.saturating_sub(taken))
    }

    /// Both directions along a link for a demand that passes it in this one.
    pub(crate) fn sides(&self, demand: &Demand, link: usize, passed: Direction, priority: u8) -> [Side; 2] {
        Direction::BOTH.map(|direction| Side {
            direction,
            needed: demand.rates[passed.of(direction)],
            left: self.left(link, direction, priority),
        })
    }

    /// Whether a link has room for a demand that passes it in this direction.
    pub(crate) fn fits(&self, demand: &Demand, link: usize, passed: Direction, priority: u8) -> bool {
        demand.may_pass(link)
            && demand.has_windows(demand.rates, &self.network.links()[link], passed)
            && self.sides(demand, link, passed, priority).iter().all(|side| side.needed <= side.left)
    }

    pub(crate) fn take(&mut self, demand: &Demand, placement: &Placement) {
        self.change(demand, placement, |reserved, amount| *reserved += amount);
    }

    pub(crate) fn give_back(&mut self, demand: &Demand, placement: &Placement) {
        self.change(demand, placement, |reserved, amount| *reserved -= amount);
    }

    fn change(&mut self, demand: &Demand, placement: &Placement, change: impl Fn(&mut u64, u64)) {
        let hold = usize::from(demand.priority.hold);
        for (link, passed) in placement.links() {
            let reserved = &mut self.reserved[link];
            for direction in Direction::BOTH {
                let rate = demand.rates[passed.of(direction)];
                change(&mut reserved.bits[direction as usize][hold], rate.bits_per_second());
            }
        }
    }
}
