//! Fuzzes the compressed headers a peer sends through a lane: each gives a packet or a named error.
#![no_main]

#[path = "../bodies/header_decompressor.rs"]
mod header_decompressor;

libfuzzer_sys::fuzz_target!(|data: &[u8]| header_decompressor::run(data));
