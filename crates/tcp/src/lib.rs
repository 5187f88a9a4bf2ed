//! A TCP endpoint: the reaction of a kernel's TCP to segments, acknowledgements and timers, and nothing else.
//!
//! The crate has no input, no output and no clock: `now` is an argument. Data has a length and no contents. An
//! owner that needs contents keeps them beside the stream, by their place in it.
//!
//! [`Settings`] describe a TCP completely. They combine a loss recovery ([`Recovery`]), a congestion control
//! algorithm ([`CongestionAlgorithm`]) and a slow start ([`SlowStart`]) with constants. A [`Preset`] names the
//! stack of an era and expands to all settings, so a result can print them. [`Endpoint`] is one end of a
//! connection.

mod ack_timing;
mod acknowledgement;
mod arming;
mod autotuning;
mod check;
mod coalescing;
mod delayed_ack;
mod delivery;
mod endpoint;
mod getters;
mod handshake;
mod incoming;
mod names;
mod outgoing;
mod path_error;
mod presets;
mod receiver;
mod recovery;
mod rtt;
mod scoreboard;
mod segment;
mod segmentation;
mod send_half;
mod sender;
mod settings;
mod state;
mod stats;
mod stream;
mod timers;
mod transmission;

pub use check::SettingsError;
pub use endpoint::Endpoint;
pub use path_error::PathError;
pub use presets::Preset;
pub use segment::{Options, SackBlocks, Segment, SegmentError};
pub use settings::{DelayedAck, Recovery, RtoRule, Settings, SpuriousDetection, Timers};
pub use state::{Event, ResetReason, State};
pub use stats::{AckGaps, RttStats, Stats};
pub use timers::Wakeup;
pub use trunkline_congestion::{
    Ack, BicVersion, CongestionAlgorithm, CongestionSignal, Counting, CustomAlgorithm, CustomCongestion,
    CustomWindow, SlowStart, UnknownName,
};
