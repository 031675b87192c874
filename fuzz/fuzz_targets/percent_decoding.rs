//! Percent-encoded text, and the session ids it may name.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::proto::ident::fuzz::percent_decoding(data));
