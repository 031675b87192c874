//! HTTP/1.1 as a client of model providers speaks it (RFC 9110, RFC 9112): one request a connection,
//! one answer, read as it arrives.
//!
//! It is as tolerant as RFC 9112 lets a client be, since what stands at the other end is not ours: a
//! line may end with LF alone, a header may be folded, an answer without a length goes to the close.
//! What decides where the body ends is strict all the same. Whether an answer is a good one, and
//! whether to ask again, is not known here; neither is what an answer means.

mod chunks;
mod head;
mod request;
mod response;
mod url;

pub use head::{ResponseHead, ResponseHeadParser};
pub use request::{InvalidHeader, check_header, write_request};
pub use response::{Progress, ResponseError, ResponseParser};
pub use url::{BaseUrl, UrlError};

#[cfg(any(test, fuzzing))]
pub mod fuzz;
