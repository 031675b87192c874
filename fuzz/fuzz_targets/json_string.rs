//! Arbitrary text as a JSON string and back.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::proto::json::fuzz::string(data));
