//! The fuzz body, replayed by `cargo test` on inputs that a small generator draws from a seed.

use super::super::fuzz;

/// Bytes that look random and are the same on every machine (xorshift64*).
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    };
    (0..len).map(|_| byte()).collect()
}

#[test]
fn no_sequence_of_inputs_breaks_an_invariant() {
    for seed in 0..200 {
        fuzz::machine(&bytes(seed, 150));
    }
    for seed in 200..203 {
        fuzz::machine(&bytes(seed, 1000));
    }
}

#[test]
fn nor_does_the_same_thing_over_and_over() {
    for byte in 0..=255 {
        fuzz::machine(&[0, byte].repeat(15));
        fuzz::machine(&[0, 9, 3, byte, 3, byte, byte].repeat(8));
    }
}

#[test]
fn any_log_makes_a_history_that_a_strict_provider_takes() {
    for seed in 0..2000 {
        fuzz::history(&bytes(seed, 120));
    }
}
