//! A segment that the input describes and damages, scanned in pieces and searched, against a naive
//! reading.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::log::fuzz::segment(data));
