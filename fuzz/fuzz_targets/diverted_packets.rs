//! Holds the readers of `trunkline-proxy` to their no-panic contract.
#![no_main]

#[path = "../bodies/diverted_packets.rs"]
mod diverted_packets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| diverted_packets::run(data));
