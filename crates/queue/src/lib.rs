//! Queue disciplines: what to keep, what to drop or mark, and in which order to send.
//!
//! A [`Queue`] is one of a closed set of disciplines behind a wrapper that does all the accounting. It works on
//! any [`Item`], takes `now` as an argument and reports each drop with its reason and the item itself. It reads
//! no clock, so the same code runs at a gateway's edge, in an emulated link and on a simulated router. Its chance
//! comes from a seed: same seed and same calls, same drops.
//!
//! Conservation holds at all times and is asserted after every operation in debug builds:
//! segments in = segments out + dropped + queued, and the same for bytes.

mod average;
#[cfg(test)]
mod closed_loop;
mod codel;
mod control;
mod custom;
mod discipline;
mod fair_tail_drop;
mod fifo;
mod flow_map;
mod fq_codel;
mod fred;
mod histogram;
mod item;
mod ledger;
mod limits;
mod parameter;
mod pie;
mod queue;
mod random;
mod red;
mod scheduler;
mod stats;
mod tail_drop;
#[cfg(test)]
mod testing;
mod trunk;

pub use codel::CoDelSettings;
pub use control::{Conditions, Control};
pub use custom::{CustomDiscipline, Verdicts, Waiting};
pub use discipline::Settings;
pub use flow_map::{FlowIndex, FlowMap, Touched};
pub use fq_codel::FqCoDelSettings;
pub use fred::FredSettings;
pub use histogram::Histogram;
pub use item::{Dequeued, Item};
pub use ledger::Discard;
pub use limits::Limits;
pub use parameter::{Conflict, Description, Parameter, Range, Value};
pub use pie::PieSettings;
pub use queue::Queue;
pub use red::{RedSettings, Unit};
pub use scheduler::{Scheduler, Selection, Share};
pub use stats::{DropReason, Occupancy, Stats};
pub use trunk::TrunkSettings;
