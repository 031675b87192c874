//! One client frame, against a reading through serde_json.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::proto::command::fuzz::frame(data));
