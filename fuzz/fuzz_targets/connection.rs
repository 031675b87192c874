//! A connection fed arbitrary bytes and told arbitrary readiness.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::conn::fuzz::connection(data));
