//! Time, rates, sequence numbers and seeded random streams: the words every other crate speaks in.
//!
//! Nothing here reads a clock or the operating system's randomness. An [`Instant`] is a number that the
//! caller obtained; a [`Rng`] is a function of the seed and the name it was made with. That is what lets the
//! same code run on a real machine and in virtual time.

mod bytes;
mod instant;
mod rate;
mod rng;
mod seq;

pub use bytes::{Bytes, ParseBytesError};
pub use instant::Instant;
pub use rate::{ParseRateError, Rate, meant_rate};
pub use rng::Rng;
pub use seq::Seq;
