//! One direction of a link as a state machine: queue, serialiser, propagation, impairments, and changes at given times.
//!
//! A [`Link`] reads no clock and moves no bytes: `now` is an argument, and a packet is any [`Payload`]. Two owners run it. The
//! simulator puts the times that it sets into its agenda. The testbed's emulator runs a [`PolledLink`], which keeps these times
//! itself, on real packets. Same settings, same seed and same packets at the same times give the same fates and the same times
//! with both: docs/models/link.md describes the model.

pub mod check;
mod deliveries;
mod impairment;
mod link;
pub mod mobile;
mod pipe;
mod polled;
mod routes;
mod schedule;
mod serialiser;
mod settings;

pub use deliveries::{Brownian, Deliveries};
pub use impairment::{Impairments, Jitter, Loss};
pub use link::{Arrival, Link, LinkStats, Owner, Payload, Timer};
pub use polled::{Delivery, PolledLink};
pub use routes::{routes, routes_to};
pub use settings::{LinkChange, LinkSettings};
