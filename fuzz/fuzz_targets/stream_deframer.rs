//! Fuzzes the bytes that a peer sends in a stream: frames are the same however the stream is cut, and memory is bounded.
#![no_main]

#[path = "../bodies/stream_deframer.rs"]
mod stream_deframer;

libfuzzer_sys::fuzz_target!(|data: &[u8]| stream_deframer::run(data));
