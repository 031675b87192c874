//! A JSON document: the strict check and the lazy reader, against serde_json.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::proto::json::fuzz::document(data));
