//! Bytes to values and back, as pure machines: nothing here knows a socket, a clock or a file.

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
mod swar;
