//! Any text as a configuration, against serde_json.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::config::fuzz::document(data));
