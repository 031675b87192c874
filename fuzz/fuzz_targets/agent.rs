//! One agent through inputs, crashes and evictions, against the invariants of its log.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::agent::fuzz::machine(data));
