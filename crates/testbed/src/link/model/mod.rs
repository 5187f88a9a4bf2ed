//! One direction of a link as a state machine: no device, no clock, `now` as an argument.
//!
//! A packet passes a queue, a serialiser, impairments and a pipe, in this order, each a type of its own. The model
//! computes times and does not observe them: a packet that waited starts at the instant its predecessor ended,
//! however late the caller calls [`Path::advance`], so lateness of the caller never becomes an error of the rate.
//! Only packets in the queue count against its limits, not those in the serialiser or the pipe.

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
