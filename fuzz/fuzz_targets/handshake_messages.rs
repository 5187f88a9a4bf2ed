//! Fuzzes the data that an unauthenticated host sends to a listening gateway.
#![no_main]

#[path = "../bodies/handshake_messages.rs"]
mod handshake_messages;

libfuzzer_sys::fuzz_target!(|data: &[u8]| handshake_messages::run(data));
