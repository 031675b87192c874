//! One line of the log: sealed, and read by position, against a JSON parser.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::log::fuzz::event_line(data));
