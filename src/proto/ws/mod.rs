//! RFC 6455 after the handshake: frames and messages, both ways, for servers and for clients.
//!
//! Nothing here knows a socket, a clock, the handshake (`upgrade`) or what a text means
//! (`command`, `event`). No extension is ever negotiated, so every reserved bit is a breach.
//!
//! # Reading
//!
//! An [`Assembler`] is fed whatever a read returned and yields one [`Item`] at a time. It moves the
//! slice it is given past what it has used, so the caller loops until there is no item; then
//! nothing of the slice is left, and what was incomplete is kept inside.
//!
//! ```
//! use terret_ws::proto::ws::{Assembler, Item, ProtocolError, Role, write_pong};
//!
//! fn on_read(
//!     assembler: &mut Assembler,
//!     mut input: &mut [u8], // the filled part of a shared read buffer
//!     out: &mut Vec<u8>,
//! ) -> Result<Vec<String>, ProtocolError> {
//!     let mut texts = Vec::new();
//!     while let Some(item) = assembler.push(&mut input)? {
//!         match item {
//!             Item::Text(text) => texts.push(text.into_owned()),
//!             Item::Ping(payload) => write_pong(out, &payload),
//!             Item::Binary(_) | Item::TooLarge => { /* refused, and the connection goes on */ }
//!             Item::Pong(_) => {}
//!             Item::Close(_) => { /* answer it; the assembler reads nothing after it */ }
//!         }
//!     }
//!     assert!(input.is_empty());
//!     Ok(texts)
//! }
//!
//! let mut assembler = Assembler::new(Role::Client, 1 << 20);
//! let mut out = Vec::new();
//! // A ping, a text, and the first byte of a frame whose rest has not arrived (RFC 6455, 5.7).
//! let mut read = *b"\x89\x05Hello\x81\x05Hello\x81";
//! assert_eq!(on_read(&mut assembler, &mut read, &mut out), Ok(vec!["Hello".to_owned()]));
//! assert_eq!(out, b"\x8a\x05Hello");
//! assert!(!assembler.is_idle());
//! ```
//!
//! An item borrows from the slice or owns what had to be collected; it never borrows from the
//! assembler. A text that arrived as one frame within one slice is unmasked in place and handed out
//! without a copy.
//!
//! # Writing
//!
//! [`write_text`], [`write_ping`], [`write_pong`] and [`write_close`] append one unmasked frame to a
//! `Vec`; where header and payload go into a ring of their own, [`text_header`] is the header
//! alone. Clients mask: [`write_masked`], [`write_masked_close`].

pub mod error;
pub mod frame;
pub mod mask;
pub mod utf8;
pub mod close;
pub mod message;
pub mod write;

#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod rfc;
#[cfg(test)]
mod testing;

pub use close::CloseCode;
pub use error::ProtocolError;
pub use message::{Assembler, Item, Role};
pub use write::{
    text_header, write_binary, write_close, write_empty_close, write_masked, write_masked_close,
    write_ping, write_pong, write_text,
};
