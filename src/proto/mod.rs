//! Bytes to values and back, as pure machines: nothing here knows a socket, a clock or a file.

// What arrives here comes from anybody: a place that cannot fail says why it cannot.
#![cfg_attr(not(any(test, fuzzing)), deny(clippy::expect_used, clippy::unwrap_used, clippy::panic))]

pub mod time;
pub mod ident;
pub mod http;
pub mod http_client;
pub mod upgrade;
pub mod ws;
pub mod sse;
pub mod json;
pub mod command;
pub mod payload;
pub mod event;
pub(crate) mod swar;

use std::fmt;
use std::io::Write as _;

/// Appends formatted text.
#[expect(clippy::expect_used, reason = "memory is all that can run out")]
fn append(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes every byte");
}

/// Appends a number in decimal. Formatting one costs as much as the rest of a short envelope.
fn append_number(out: &mut Vec<u8>, number: u64) {
    let (mut digits, mut begin, mut rest) = ([0; 20], 20, number);
    loop {
        begin -= 1;
        digits[begin] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return out.extend_from_slice(&digits[begin..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::append_number;

    #[test]
    fn a_number_is_appended_as_it_is_displayed() {
        let tens = (0..20).map(|exponent| 10_u64.pow(exponent));
        for number in tens.flat_map(|ten| [ten - 1, ten, ten + 1]).chain([u64::MAX]) {
            let mut out = b"x".to_vec();
            append_number(&mut out, number);
            assert_eq!(out, format!("x{number}").into_bytes());
        }
    }
}
