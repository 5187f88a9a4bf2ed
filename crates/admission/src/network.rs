//! Sites, nodes and links.

use std::fmt;
use std::ops::Index;
use std::time::Duration;

use trunkline_units::{Bytes, Rate};

/// The packets that a window must have for fast retransmit and recovery to work (kung1998 §6, C1 and C2).
const WINDOW_PACKETS: u64 = 5;
/// A packet, bytes.
const PACKET: u64 = 1500;

/// A direction along a link, or along a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the first end to the second.
    Forth,
    /// From the second end to the first.
    Back,
}

impl Direction {
    /// Both.
    pub const BOTH: [Direction; 2] = [Direction::Forth, Direction::Back];

    /// The other one.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Direction::Forth => Direction::Back,
            Direction::Back => Direction::Forth,
        }
    }

    /// The direction along a link of what goes in `other` along a way, where the way passes the link in this direction.
    #[must_use]
    pub const fn of(self, other: Direction) -> Self {
        match self {
            Direction::Forth => other,
            Direction::Back => other.reversed(),
        }
    }
}

/// A rate in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// From the first end to the second.
    pub forth: Rate,
    /// From the second end to the first.
    pub back: Rate,
}

impl Rates {
    /// The same in both directions.
    pub const fn both(rate: Rate) -> Self {
        Rates { forth: rate, back: rate }
    }
}

impl Index<Direction> for Rates {
    type Output = Rate;

    fn index(&self, direction: Direction) -> &Rate {
        match direction {
            Direction::Forth => &self.forth,
            Direction::Back => &self.back,
        }
    }
}

/// A link between two nodes: the up- and downlink of a site, or one between nodes of the core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The nodes at its ends, by their places.
    pub ends: [usize; 2],
    /// What guarantees may take.
    pub reservable: Rates,
    /// The rates from which on a lane over it has a window of five packets; zero where that is not known.
    pub least: Rates,
    /// What a way over it costs, 1 or more. Of ways that cost the same one with fewer links is taken.
    pub cost: u32,
}

/// Sites, nodes and links. Nodes and links go by their places.
#[derive(Debug, Clone)]
pub struct Network {
    passes: Vec<bool>,
    links: Vec<Link>,
    /// For each node its links, and the direction that leaves it.
    leaving: Vec<Vec<(usize, Direction)>>,
}

/// Why it is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkError {
    /// A link has an end that is no node.
    NoSuchNode {
        /// The link.
        link: usize,
    },
    /// A link leads from a node to itself.
    Loop {
        /// The link.
        link: usize,
    },
    /// A link costs nothing, so that ways would not end.
    NoCost {
        /// The link.
        link: usize,
    },
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkError::NoSuchNode { link } => write!(f, "link {link} has an end that is no node"),
            NetworkError::Loop { link } => write!(f, "link {link} leads from a node to itself"),
            NetworkError::NoCost { link } => write!(f, "link {link} costs nothing; allowed: 1 or more"),
        }
    }
}

impl std::error::Error for NetworkError {}

impl Network {
    /// Nodes, each with whether it passes on what is for others (a site does not), and links.
    pub fn new(passes: Vec<bool>, links: Vec<Link>) -> Result<Self, NetworkError> {
        let mut leaving = vec![Vec::new(); passes.len()];
        for (place, link) in links.iter().enumerate() {
            if link.ends[0] == link.ends[1] {
                return Err(NetworkError::Loop { link: place });
            }
            if link.cost == 0 {
                return Err(NetworkError::NoCost { link: place });
            }
            for (end, direction) in link.ends.into_iter().zip(Direction::BOTH) {
                let Some(there) = leaving.get_mut(end) else {
                    return Err(NetworkError::NoSuchNode { link: place });
                };
                there.push((place, direction));
            }
        }
        Ok(Network { passes, links, leaving })
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> usize {
        self.passes.len()
    }

    /// Its links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Whether a node passes on what is for others.
    pub fn passes(&self, node: usize) -> bool {
        self.passes[node]
    }

    /// The links of a node, each with the direction that leaves it.
    pub(crate) fn leaving(&self, node: usize) -> impl Iterator<Item = (usize, Direction)> + '_ {
        self.leaving[node].iter().copied()
    }

    /// Where a link leads in this direction.
    pub fn head(&self, link: usize, direction: Direction) -> usize {
        let [first, second] = self.links[link].ends;
        match direction {
            Direction::Forth => second,
            Direction::Back => first,
        }
    }
}

/// The rate at which the window of a lane grows to five packets of 1500 bytes before the queue of a link of this rate is full (kung1998
/// §6, C2): five packets in a round trip and the time in which the link empties its buffer.
pub fn least_rate(link: Rate, round_trip: Duration, buffer: Bytes) -> Rate {
    let emptied = buffer.0.saturating_mul(8) as f64 / link.bits_per_second().max(1) as f64;
    let bits = (WINDOW_PACKETS * PACKET * 8) as f64;
    Rate::from_bits_per_second((bits / (round_trip.as_secs_f64() + emptied)).ceil() as u64)
}
