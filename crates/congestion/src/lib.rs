//! Congestion control: the window of a sender, whatever its protocol.
//!
//! [`Congestion`] is the window of a sender that detects and repairs losses itself, as TCP does: it owns cwnd and
//! ssthresh, in bytes. A [`CongestionAlgorithm`] says how much an acknowledgement adds and how much a loss leaves; a
//! [`SlowStart`] says how the window grows until the first loss. [`DatagramControl`] adds the bookkeeping of a sender
//! that repairs nothing.
//!
//! The crate has no input, no output and no clock: `now` is an argument.

mod algorithm;
mod bbr;
mod bic;
mod compound;
mod controller;
mod cubic;
mod custom;
mod datagram;
mod names;
mod reno;
mod settings;
mod slow_start;
mod vegas;
mod window;

pub use controller::{Ack, Congestion, CongestionSignal};
pub use custom::{CustomAlgorithm, CustomCongestion, CustomWindow};
pub use datagram::{DatagramControl, Departure, Feedback, PACKET_THRESHOLD, TIME_THRESHOLD};
pub use names::UnknownName;
pub use settings::{BicVersion, CongestionAlgorithm, Counting, Settings, SlowStart};
