//! A line taken apart and put together again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::proto::event::fuzz::envelope(data));
