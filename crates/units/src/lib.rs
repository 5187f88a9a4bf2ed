//! Time, rates, sequence numbers and seeded random streams: the words every other crate speaks in.
//!
//! Nothing here reads a clock or the operating system's randomness. An [`Instant`] is a number that the
//! caller obtained; a [`Rng`] is a function of the seed and the name it was made with. That is what lets the
//! same code run on a real machine and in virtual time.

mod bytes;
pub mod check;
mod instant;
mod paced;
mod quantity;
pub mod random;
mod rate;
mod region;
mod rng;
mod seq;
mod shares;

pub use bytes::Bytes;
pub use check::SettingsError;
pub use instant::Instant;
pub use paced::Paced;
pub use quantity::{QuantityError, Time, unit_bytes};
pub use rate::Rate;
pub use region::Region;
pub use rng::Rng;
pub use seq::Seq;
pub use shares::{Shares, Victim, source};
