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
