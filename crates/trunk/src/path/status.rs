//! What a path is taken for.

use std::fmt;
use std::time::Duration;

use trunkline_units::Rate;

use super::Signal;

/// The bound on what a trunk sends over a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathMode {
    /// None: the core has had no queue so far.
    #[default]
    Free,
    /// A rate near the capacity, at which the queue in the core is a few milliseconds.
    Held,
    /// The rate of the path varies: what is in flight is bounded.
    Varying,
    /// None: others keep a queue in the core, and the lanes compete with them by their own congestion control.
    Competing,
}

/// A change of what the controller takes the path for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PathChange {
    /// The core has got a queue: the trunk is held from now on.
    Queue {
        /// Its delay.
        queue: Duration,
        /// The estimated capacity.
        capacity: Rate,
    },
    /// More is lost than usual: the trunk is held from now on.
    Losses {
        /// The estimated capacity.
        capacity: Rate,
    },
    /// The queue does not drain though the rate was lowered: the lanes compete from now on.
    Rivals {
        /// Its delay.
        queue: Duration,
        /// When the next probe comes, at the latest.
        probe_after: Duration,
    },
    /// A probe found no rivals: the trunk is held again.
    Alone {
        /// The estimated capacity.
        capacity: Rate,
    },
    /// The delay has risen by so much, and it is no queue.
    Longer {
        /// By how much.
        delay: Duration,
    },
    /// Its rate varies so much from one moment to the next that what is in flight is bounded from now on.
    Varies {
        /// What it carries at present.
        capacity: Rate,
    },
    /// The path carries so much more than when it was last full that nothing is known of it: no bound until it has a queue again.
    Wider {
        /// What it carries at least.
        capacity: Rate,
    },
}

impl fmt::Display for PathChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: &Duration| time.as_secs_f64() * 1e3;
        match self {
            Self::Queue { queue, capacity } => {
                let (queue, capacity) = (ms(queue), capacity.as_mbit());
                write!(f, "a queue of {queue:.1} ms stands in the core: held near {capacity:.2} Mbit/s")
            }
            Self::Losses { capacity } => {
                write!(f, "loses more than usual: held near {:.2} Mbit/s", capacity.as_mbit())
            }
            Self::Rivals { queue, probe_after } => write!(
                f,
                "the queue of {:.1} ms does not drain at a lower rate: others fill it, and the lanes compete with them; next \
                 probe within {} s",
                ms(queue),
                probe_after.as_secs()
            ),
            Self::Alone { capacity } => {
                write!(f, "nobody else keeps a queue any more: held near {:.2} Mbit/s", capacity.as_mbit())
            }
            Self::Longer { delay } => {
                write!(f, "longer by {:.1} ms: its delay does not change with the rate", ms(delay))
            }
            Self::Varies { capacity } => write!(
                f,
                "its rate varies from moment to moment, now about {:.2} Mbit/s: what is in flight is held to what has just arrived",
                capacity.as_mbit()
            ),
            Self::Wider { capacity } => write!(
                f,
                "{:.2} Mbit/s arrive without a queue, far more than before: not held until there is one",
                capacity.as_mbit()
            ),
        }
    }
}

/// The state of a path.
#[derive(Debug, Clone, PartialEq)]
pub struct PathStatus {
    /// The bound in force.
    pub mode: PathMode,
    /// What the trunk may send, while it is held.
    pub rate: Option<Rate>,
    /// The estimated capacity for the trunk, once the core has had a queue.
    pub capacity: Option<Rate>,
    /// The standing queue in the core, once its delay has been measured.
    pub queue: Option<Duration>,
    /// The queue that the controller lets stand.
    pub target: Duration,
    /// What the queue is measured by.
    pub signal: Signal,
    /// The part of the packets that is lost while the core has no queue, once enough were sent to know.
    pub loss: Option<f64>,
    /// What was found out last.
    pub change: Option<PathChange>,
    /// How long measurements were left out in all, since nothing arrived for a while though the lanes were busy: a machine or the network
    /// stood still.
    pub left_out: Duration,
    /// The groups that have lanes on it.
    pub groups: Vec<GroupStatus>,
}

/// What a group of lanes has of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupStatus {
    /// The group.
    pub group: u32,
    /// What its lanes may send together, while the path is held and packets wait for them.
    pub granted: Option<Rate>,
    /// What arrives of them.
    pub delivered: Rate,
}

/// What a lane needs to know of its path to tell noise from congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathEvidence {
    /// Whether a loss is one of congestion: it has had a queue of late, or the trunk has what is reserved for it.
    pub(crate) congested: bool,
    /// Whether a lane on it has found of late that it loses packets without being full.
    pub(crate) lossy: bool,
    /// Whether nothing but the lanes' own congestion controls bounds what they send, and no rivals are known.
    pub(crate) free: bool,
}
