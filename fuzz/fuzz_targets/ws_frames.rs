//! Messages out of frames in arbitrary pieces, against an oracle.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::proto::ws::fuzz::frames(data));
