//! Why a demand is refused: which links lack what, and what would fit.

use std::cmp::Ordering;

use trunkline_units::Rate;

use crate::demand::Demand;
use crate::network::{Direction, Network, Rates};
use crate::room::Room;
use crate::search::{Search, Way};

/// What a link lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacking {
    /// A rate in this direction along the link.
    Rate {
        /// The direction.
        direction: Direction,
        /// What is left of it.
        left: Rate,
        /// What is missing.
        missing: Rate,
    },
    /// Windows of five packets for the demand's lanes, in this direction along the link.
    Window {
        /// The direction.
        direction: Direction,
        /// The rate that is asked.
        asked: Rate,
        /// How much more they need.
        missing: Rate,
    },
}

/// A link that lacks something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// The link.
    pub link: usize,
    /// What it lacks.
    pub lacking: Lacking,
}

/// Why a demand is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is missing on the way, or the pair of ways, that takes the largest part of what is asked; nothing where no way joins the sites
    /// at all, or no two that share no link.
    pub shortages: Vec<Shortage>,
    /// The largest rates in the proportion that is asked that would be admitted; none if no rate would.
    pub fits: Option<Rates>,
    /// The demand that took its room.
    pub gave_way_to: Option<usize>,
}

/// The parts below the largest one without windows of which one with windows is looked for.
const MAX_TRIED: usize = 64;

/// A part of what is asked, at most all: `left` of `needed`.
#[derive(Debug, Clone, Copy)]
struct Part {
    left: u64,
    needed: u64,
}

impl Ord for Part {
    fn cmp(&self, other: &Self) -> Ordering {
        let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
        product(self.left, other.needed).cmp(&product(other.left, self.needed))
    }
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Part {}

impl Part {
    const ALL: Part = Part { left: 1, needed: 1 };

    fn new(left: Rate, needed: Rate) -> Self {
        let (left, needed) = (left.bits_per_second(), needed.bits_per_second());
        if left < needed { Part { left, needed } } else { Part::ALL }
    }

    const fn of(self, rate: Rate) -> Rate {
        let part = rate.bits_per_second() as u128 * self.left as u128 / self.needed as u128;
        Rate::from_bits_per_second(part as u64)
    }
}

/// What a demand is asked of, and what is there.
struct Question<'q, 'n> {
    demand: &'q Demand,
    network: &'n Network,
    room: &'q Room<'n>,
}

/// Why a demand has no place in what is reserved.
pub(crate) fn explain<'n>(
    demand: &Demand,
    network: &'n Network,
    room: &Room<'n>,
    search: &mut Search<'n>,
) -> Refusal {
    let question = Question { demand, network, room };
    let most = question.most(search).filter(|part| part.left > 0);
    let ways = match most {
        Some(part) => question.ways(search, part, true),
        None => ways(demand, search, &|link, passed| question.part(link, passed).is_some())
            .or_else(|| ways(demand, search, &|link, _| demand.may_pass(link))),
    };
    let fits = most.map(|part| question.rates(part));
    let links = ways.iter().flatten().flat_map(|way| way.links.iter().copied());
    let shortages = links.flat_map(|(link, passed)| question.shortages(link, passed)).collect();
    Refusal { shortages, fits, gave_way_to: None }
}

impl Question<'_, '_> {
    /// The part that a link carries; none if the demand may not take it, or its lanes have no windows there.
    fn part(&self, link: usize, passed: Direction) -> Option<Part> {
        let setup = self.demand.priority.setup;
        let there = &self.network.links()[link];
        if !self.demand.may_pass(link) || !self.demand.has_windows(self.demand.rates, there, passed) {
            return None;
        }
        let [one, other] = self.room.sides(self.demand, link, passed, setup);
        Some(Part::new(one.left, one.needed).min(Part::new(other.left, other.needed)))
    }

    fn rates(&self, part: Part) -> Rates {
        Rates { forth: part.of(self.demand.rates.forth), back: part.of(self.demand.rates.back) }
    }

    /// The ways that carry a part, with windows at its rates or, unless `windows`, at those that are asked.
    fn ways(&self, search: &mut Search<'_>, part: Part, windows: bool) -> Option<Vec<Way>> {
        let rates = self.rates(part);
        ways(self.demand, search, &|link, passed| {
            self.part(link, passed) >= Some(part)
                && (!windows || self.demand.has_windows(rates, &self.network.links()[link], passed))
        })
    }

    /// The largest part that ways carry; nothing where there are none, or where it is too small for windows.
    fn most(&self, search: &mut Search<'_>) -> Option<Part> {
        // Mostly it is what the sites' own links carry.
        let bound = self.bound()?;
        if self.ways(search, bound, true).is_some() {
            return Some(bound);
        }
        let mut parts: Vec<Part> = (0..self.network.links().len())
            .flat_map(|link| Direction::BOTH.map(|passed| self.part(link, passed)))
            .flatten()
            .filter(|part| *part < bound)
            .collect();
        parts.sort();
        parts.dedup();
        // What carries a part carries a smaller one, but for windows, which may need more than is left.
        let carried = parts.partition_point(|part| self.ways(search, *part, false).is_some());
        let windows = |part: &&Part| part.left > 0 && self.ways(search, **part, true).is_some();
        parts[..carried].iter().rev().take(MAX_TRIED).find(windows).copied()
    }

    /// The part that the sites' own links carry, whatever is between them; none if they are too few.
    fn bound(&self) -> Option<Part> {
        let site = |site: usize| {
            let links = self.network.leaving(site);
            // The demand leaves the first site and reaches the second.
            let passed = |direction: Direction| {
                if site == self.demand.ends[0] { direction } else { direction.reversed() }
            };
            let mut parts: Vec<Part> =
                links.filter_map(|(link, direction)| self.part(link, passed(direction))).collect();
            parts.sort_by(|one, other| other.cmp(one));
            parts.get(usize::from(self.demand.backup)).copied()
        };
        let [one, other] = self.demand.ends.map(site);
        one.min(other)
    }

    fn shortages(&self, link: usize, passed: Direction) -> Vec<Shortage> {
        let setup = self.demand.priority.setup;
        let there = &self.network.links()[link];
        let sides = self.room.sides(self.demand, link, passed, setup);
        let rates = sides.into_iter().filter(|side| side.needed > side.left).map(|side| {
            let missing = side.needed.bits_per_second() - side.left.bits_per_second();
            let missing = Rate::from_bits_per_second(missing);
            Lacking::Rate { direction: side.direction, left: side.left, missing }
        });
        let windows = sides.into_iter().filter_map(|side| {
            let least = self.demand.least(there, side.direction);
            let missing = least.bits_per_second().saturating_sub(side.needed.bits_per_second());
            let (asked, missing) = (side.needed, Rate::from_bits_per_second(missing));
            let lacks = asked > Rate::ZERO && missing > Rate::ZERO;
            lacks.then_some(Lacking::Window { direction: side.direction, asked, missing })
        });
        rates.chain(windows).map(|lacking| Shortage { link, lacking }).collect()
    }
}

/// As many ways as a demand asks for.
fn ways(
    demand: &Demand,
    search: &mut Search<'_>,
    fits: &impl Fn(usize, Direction) -> bool,
) -> Option<Vec<Way>> {
    if demand.backup {
        search.two(demand.ends, fits).map(Vec::from)
    } else {
        search.one(demand.ends, fits).map(|way| vec![way])
    }
}
