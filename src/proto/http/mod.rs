//! HTTP/1.1 as a server speaks it (RFC 9110, RFC 9112): heads of requests to us, our answers.
//!
//! One connection carries one request: every answer ends it (`Connection: close`), and so does every
//! fault, so nothing is ever read as a second request and nothing can be smuggled behind a first. Of
//! two readings of a head that RFC 9112 allows, the strict one is taken, for the same reason.
//!
//! Paths and what they mean are `upgrade`'s business; sockets and deadlines are nobody's here.

mod fields;
mod head;
mod response;

pub(super) use fields::{Fields, Lines, TooLarge, is_token, list_has, split_field, trim_ows};
pub use head::{Head, HeadError, HeadParser, Version};
pub use response::{
    Status, write_answer, write_chunk, write_chunked_head, write_last_chunk, write_response,
    write_response_to_head, write_to_close_head,
};

#[cfg(any(test, fuzzing))]
pub mod fuzz;
