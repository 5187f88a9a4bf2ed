//! Fuzzes a configuration file: it is resolved, or every mistake has a place.
#![no_main]

#[path = "../bodies/configuration.rs"]
mod configuration;

libfuzzer_sys::fuzz_target!(|data: &[u8]| configuration::run(data));
