//! Any text as a frame of the server, and what the server writes read back.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terret_ws::client::fuzz::server_frame(data));
