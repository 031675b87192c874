//! A pattern and a name, against a matcher that tries everything.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    terret_ws::agent::fnmatch::fuzz::against_a_naive_matcher(data);
});
