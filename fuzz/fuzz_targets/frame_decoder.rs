//! Fuzzes what a peer sends through a lane: nothing makes the receiving side panic or lose count.
#![no_main]

#[path = "../bodies/frame_decoder.rs"]
mod frame_decoder;

libfuzzer_sys::fuzz_target!(|data: &[u8]| frame_decoder::run(data));
