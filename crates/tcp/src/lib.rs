//! A TCP endpoint: what a kernel's TCP does with segments, acknowledgements and timers, and nothing else.
//!
//! No input, no output, no clock: `now` is an argument. Data has a length and no contents: who needs contents keeps
//! them beside the stream, by their place in it.
//!
//! What a TCP does is a triple and its constants: [`Recovery`] × [`GrowthKind`] × [`SlowStart`], all in [`Settings`]. A
//! [`Preset`] names what a stack of an era did and expands to all of them, so that a result can print what made it.

mod congestion;
mod names;
mod presets;
mod segment;
mod settings;

pub use congestion::{Ack, Cause, Congestion};
pub use names::UnknownName;
pub use presets::Preset;
pub use segment::{Options, SackBlocks, Segment, SegmentError};
pub use settings::{
    Counting, DelayedAck, GrowthKind, Recovery, Settings, SlowStart, SpuriousDetection, Timers,
};
