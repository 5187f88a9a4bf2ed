//! A description of traffic, and the decisions of what sends it: what users transfer and when, and when datagrams leave.
//!
//! Nothing here opens a connection or reads a clock. The simulator runs these decisions in virtual time, the testbed with real
//! sockets. With the same random stream both make the same draws in the same order, so the n-th transfer of a user has the
//! same size in both. The times follow from the network: most users wait for a transfer to be over before they begin the next. Only
//! the arrivals of [`Pattern::Arrivals`] do not.

mod arrivals;
mod datagrams;
mod delays;
mod distribution;
mod pattern;
mod schedule;
mod summary;
mod timing;
mod users;

pub use datagrams::{Arrival, Datagrams};
pub use delays::Delays;
pub use distribution::Distribution;
pub use pattern::{Assignment, Pattern};
pub use schedule::{Datagram, Schedule};
pub use summary::Summary;
pub use timing::Timing;
pub use users::{Beginning, TransferState, Users};

use std::time::Duration;

use trunkline_units::{Rng, SettingsError};

/// The random stream of an experiment's source, by the source's place among all sources.
pub fn stream(seed: u64, place: usize) -> Rng {
    Rng::new(seed, &format!("source {place}"))
}

/// A drawn number of seconds as a time, limited to 0 to 10⁹ s.
fn seconds(drawn: f64) -> Duration {
    Duration::from_secs_f64(drawn.clamp(0.0, 1e9))
}

/// Checks a distribution that is a part of a description.
fn check_part(place: &str, distribution: &Distribution) -> Result<(), SettingsError> {
    distribution.check().map_err(|error| error.within(place))
}
