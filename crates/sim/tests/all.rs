//! All tests of this crate that use it from outside, in one program: each further program is one more to build and to link.

mod capture;
mod determinism;
mod emulator;
mod hard;
mod icmp;
mod ipv6;
mod kernel;
mod lane_control;
mod memory;
mod mobile;
mod paths;
mod pcapng;
mod probe;
mod proxy;
mod queueing;
mod reserved;
mod settings;
#[path = "common/shared.rs"]
mod shared;
mod sites;
mod streams;
mod theory;
mod traffic;
mod trunk;
