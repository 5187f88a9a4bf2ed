//! Fuzzes what a client may say on the control socket.
#![no_main]

#[path = "../bodies/control_requests.rs"]
mod control_requests;

libfuzzer_sys::fuzz_target!(|data: &[u8]| control_requests::run(data));
