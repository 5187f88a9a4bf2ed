//! Fuzzes the records of a lane, as a network and as a peer may spoil them.
#![no_main]

#[path = "../bodies/records.rs"]
mod records;

libfuzzer_sys::fuzz_target!(|data: &[u8]| records::run(data));
