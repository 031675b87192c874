//! A provider's answer in pieces.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::proto::http_client::fuzz::response(data));
