//! Fuzzes the datagrams that a peer sends in a lane: frames are made of their bytes only, and what waits is bounded.
#![no_main]

#[path = "../bodies/datagram_reassembler.rs"]
mod datagram_reassembler;

libfuzzer_sys::fuzz_target!(|data: &[u8]| datagram_reassembler::run(data));
