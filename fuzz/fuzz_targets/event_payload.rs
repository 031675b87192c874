//! A payload read, written and read back.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::proto::payload::fuzz::payload(data));
