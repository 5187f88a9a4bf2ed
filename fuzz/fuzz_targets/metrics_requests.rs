//! Fuzzes what a client may say to the metrics listener.
#![no_main]

#[path = "../bodies/metrics_requests.rs"]
mod metrics_requests;

libfuzzer_sys::fuzz_target!(|data: &[u8]| metrics_requests::run(data));
