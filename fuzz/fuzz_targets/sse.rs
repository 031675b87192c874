//! A stream of server-sent events in pieces, against a naive decoder.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::proto::sse::fuzz::stream(data));
