//! Holds `trunkline-packet` to its no-panic contract.
#![no_main]

#[path = "../bodies/packet_views.rs"]
mod packet_views;

libfuzzer_sys::fuzz_target!(|data: &[u8]| packet_views::run(data));
