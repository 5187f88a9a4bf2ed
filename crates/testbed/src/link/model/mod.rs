//! One direction of a link as a state machine: no device, no clock, `now` as an argument.
//!
//! A packet passes a queue, a serialiser, impairments and a pipe, in this order, each a type of its own. Times are
//! computed, not observed: a packet that waited starts at the instant its predecessor ended, however late
//! [`Path::advance`] is called, so lateness of the caller never becomes an error of the rate. Only what is in the
//! queue counts against its limits; what is being sent or on its way does not.

mod impairments;
mod packet;
mod path;
mod pipe;
mod serialiser;

pub use impairments::{Fate, Impairments};
pub use packet::Packet;
pub use path::{Counters, DirectionSettings, Drops, Path};
pub use pipe::Pipe;
pub use serialiser::Serialiser;
