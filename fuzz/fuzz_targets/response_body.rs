//! A body in each framing, the chunked one against a naive decoder.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::proto::http_client::fuzz::body(data));
