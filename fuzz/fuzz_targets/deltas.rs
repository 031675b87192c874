//! Text and arguments cut into deltas, and back.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::model::openai::fuzz::deltas(data));
