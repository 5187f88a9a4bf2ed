//! All tests of this crate that use it from outside, in one program: each further program is one more to build and to link.

mod allocation;
mod bonding;
mod common;
mod datagrams;
mod edge_memory;
mod flow_hash;
mod forwarding;
mod fuzz_corpus;
mod lane_control;
mod lane_pump;
#[path = "common/lane_script.rs"]
mod lane_script;
mod path_control;
mod path_return;
mod paths;
#[path = "common/recorder.rs"]
mod recorder;
mod retransmissions;
mod transmitter;
