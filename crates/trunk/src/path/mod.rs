//! One controller for each path: it keeps the queue of the whole trunk at the edge.
//!
//! A loss-based congestion control fills the buffer in front of the path's bottleneck. The queue then stands in the core, where no
//! discipline of the edge can manage it. A rate just under the capacity of the path keeps the queue at the edge. The capacity is unknown and
//! changes, so [`PathControl`] goes by what arrives at the far end: how fast, and how long it takes. docs/models/path-control.md
//! has the equations, their parameters and sources.
//!
//! Where there are several paths to a peer, [`Placement`] decides which of them the flows of a class take, and [`Silence`] finds out
//! that nothing is heard on one any more. A class whose paths do not hold its guarantee is handed to another ([`Handover`]).

mod arrivals;
mod class_rates;
mod control;
mod departures;
mod division;
mod handover;
mod paths;
mod placement;
mod silence;
mod status;
mod watch;
mod windows;

pub use arrivals::{Arrival, Signal};
pub use class_rates::EdgeQueueDemand;
pub use control::{Grant, LaneDemand, PathControl, PathLane};
pub(crate) use departures::{Departure, Departures};
pub use division::GroupShare;
pub use handover::{ClassOnPaths, ClassPathStatus, Handover, Missed};
pub(crate) use paths::PathSummary;
pub use paths::{PathId, Paths, SharedPaths};
pub use placement::{PathChoice, PathHealth, PathPolicy, PathSet, PathSettings, PathView, Placement};
pub use silence::{Heard, LaneSign, Silence};
pub(crate) use status::PathEvidence;
pub use status::{GroupStatus, PathChange, PathMode, PathStatus};
pub use watch::{PathNews, PathWatch};
