//! One controller for each path: it keeps the queue of the whole trunk at the edge.
//!
//! A loss-based congestion control fills the buffer in front of the path's bottleneck. The queue then stands in the core, where no
//! discipline of the edge can manage it. A rate just under the capacity of the path keeps the queue at the edge. The capacity is unknown and
//! changes, so [`PathControl`] goes by what arrives at the far end: how fast, and how long it takes. docs/models/path-control.md
//! has the equations, their parameters and sources.

mod arrivals;
mod class_rates;
mod control;
mod departures;
mod division;
mod paths;
mod status;
mod windows;

pub use arrivals::{Arrival, Signal};
pub use class_rates::EdgeQueueDemand;
pub use control::{LaneDemand, PathControl, PathLane};
pub(crate) use departures::Departures;
pub use division::GroupShare;
pub use paths::{Paths, SharedPaths};
pub use status::{GroupStatus, PathChange, PathMode, PathStatus};
