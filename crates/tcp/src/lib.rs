//! A TCP endpoint: what a kernel's TCP does with segments, acknowledgements and timers, and nothing else.
//!
//! No input, no output, no clock: `now` is an argument. Data has a length and no contents: who needs contents keeps
//! them beside the stream, by their place in it.
//!
//! What a TCP does is a triple and its constants: [`Recovery`] × [`CongestionAlgorithm`] × [`SlowStart`], all in [`Settings`]. A
//! [`Preset`] names what a stack of an era did and expands to all of them, so that a result can print what made it.
//! [`Endpoint`] is one end of a connection.

mod acknowledgement;
mod arming;
mod check;
mod congestion;
mod delivery;
mod endpoint;
mod handshake;
mod incoming;
mod names;
mod outgoing;
mod presets;
mod receiver;
mod recovery;
mod rtt;
mod scoreboard;
mod segment;
mod send_half;
mod sender;
mod settings;
mod state;
mod stats;
mod stream;
mod timers;
mod transmission;

pub use check::SettingsError;
pub use congestion::{Ack, Congestion, CongestionSignal};
pub use endpoint::Endpoint;
pub use names::UnknownName;
pub use presets::Preset;
pub use segment::{Options, SackBlocks, Segment, SegmentError};
pub use settings::{
    CongestionAlgorithm, Counting, DelayedAck, Recovery, RtoRule, Settings, SlowStart, SpuriousDetection,
    Timers,
};
pub use state::{Event, ResetReason, State};
pub use stats::{RttStats, Stats};
pub use timers::Wakeup;
