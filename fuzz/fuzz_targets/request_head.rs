//! A request head in pieces, against a naive parser.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::proto::http::fuzz::request_head(data));
