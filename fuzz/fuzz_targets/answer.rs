//! A model provider's answer in pieces, from the connection to the calls.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::model::openai::fuzz::answer(data));
