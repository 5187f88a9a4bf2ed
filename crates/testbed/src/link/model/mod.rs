//! One direction of an emulated link, without devices and clock: `now` is an argument.
//!
//! The state machine is that of crate `link`, which the simulator runs, too. A [`Wire`] adds what a link of real packets has
//! beside it: it can be cut and restored, has a bound on memory, and counts how late its owner was.

mod packet;
mod reading;
mod wire;

pub use packet::Packet;
pub use reading::{Counters, Drops, Reading};
pub use wire::Wire;
