//! Arbitrary events as a history, against a strict checker.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::agent::fuzz::history(data));
