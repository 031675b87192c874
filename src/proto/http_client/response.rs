//! A whole answer: its head, and a body that ends in one of the four ways of RFC 9112, section 6.3.

use std::fmt;

use super::chunks::{BadChunk, Chunks};
use super::head::{ResponseHead, ResponseHeadParser};
use crate::limits::RESPONSE_HEAD_BYTES_MAX;
use crate::proto::http::trim_ows;

/// Reads one answer from bytes that come in any pieces. It keeps the head and nothing of the body,
/// whose size is the caller's to bound. After an error it is of no more use.
#[derive(Debug)]
pub struct ResponseParser {
    state: State,
}

#[derive(Debug)]
enum State {
    Head(ResponseHeadParser),
    Body(ResponseHead, Body),
}

/// What is still to come of a body.
#[derive(Debug)]
enum Body {
    /// This many bytes; 0 means that it is complete.
    Length(u64),
    Chunked(Chunks),
    /// All that comes until the connection ends.
    ToClose,
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Its head is not complete.
    Head,
    /// Its head is known, its body goes on.
    Body,
    /// All of it has come. Only an answer that goes to the close never says so; see
    /// [`ResponseParser::eof`].
    Complete,
}

impl Default for ResponseParser {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseParser {
    /// A parser that has seen nothing.
    pub fn new() -> Self {
        Self { state: State::Head(ResponseHeadParser::new()) }
    }

    /// Takes all of `bytes` and appends to `body` what they hold of the body, decoded. What lies
    /// behind a complete answer is ignored: we ask for nothing more on the connection.
    pub fn push(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<Progress, ResponseError> {
        let mut bytes = bytes;
        if let State::Head(parser) = &mut self.state {
            let Some((head, consumed)) = parser.push(bytes)? else { return Ok(Progress::Head) };
            let framing = Body::of(&head)?;
            bytes = &bytes[consumed..];
            self.state = State::Body(head, framing);
        }
        if let State::Body(_, framing) = &mut self.state {
            framing.push(bytes, body)?;
        }
        Ok(self.progress())
    }

    /// The other side has ended the connection: an error if the answer was not whole.
    pub fn eof(&self) -> Result<(), ResponseError> {
        match &self.state {
            State::Head(parser) if parser.is_untouched() => Err(ResponseError::NoAnswer),
            State::Body(_, Body::Length(0) | Body::ToClose) => Ok(()),
            State::Body(_, Body::Chunked(chunks)) if chunks.is_whole() => Ok(()),
            State::Head(_) | State::Body(..) => Err(ResponseError::Truncated),
        }
    }

    /// How far the answer has come.
    pub fn progress(&self) -> Progress {
        match &self.state {
            State::Head(_) => Progress::Head,
            State::Body(_, Body::Length(0) | Body::Chunked(Chunks::Done)) => Progress::Complete,
            State::Body(..) => Progress::Body,
        }
    }

    /// The head, once it is known.
    pub fn head(&self) -> Option<&ResponseHead> {
        match &self.state {
            State::Head(_) => None,
            State::Body(head, _) => Some(head),
        }
    }

    /// The status, once it is known.
    pub fn status(&self) -> Option<u16> {
        self.head().map(ResponseHead::status)
    }

    /// The first value of a header, once the head is known.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head()?.header(name)
    }
}

impl Body {
    /// RFC 9112, section 6.3, for the answer to a request that is neither HEAD nor CONNECT.
    fn of(head: &ResponseHead) -> Result<Self, ResponseError> {
        match head.status() {
            101 => return Err(ResponseError::SwitchedProtocols),
            204 | 304 => return Ok(Self::Length(0)),
            _ => {}
        }
        // `identity` was a coding once and is still sent; it says nothing.
        let codings = |name| elements(head, name).filter(|coding| !is_identity(coding));
        if codings("content-encoding").next().is_some() {
            return Err(ResponseError::Encoded);
        }
        let mut transfer = codings("transfer-encoding");
        match (transfer.next(), transfer.next()) {
            (None, _) => {}
            // The length, if there is one too, is overridden.
            (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => {
                return Ok(Self::Chunked(Chunks::new()));
            }
            _ => return Err(ResponseError::Encoded),
        }
        let mut length = None;
        for element in elements(head, "content-length") {
            let digits = element.bytes().all(|byte| byte.is_ascii_digit());
            let this = element.parse().ok().filter(|_| digits);
            let this = this.ok_or(ResponseError::Malformed("invalid Content-Length"))?;
            // Repeated ones are valid if they agree.
            if length.is_some_and(|length| length != this) {
                return Err(ResponseError::Malformed("Content-Length headers disagree"));
            }
            length = Some(this);
        }
        Ok(length.map_or(Self::ToClose, Self::Length))
    }

    fn push(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<(), ResponseError> {
        match self {
            Self::Length(left) => {
                let len = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                body.extend_from_slice(&bytes[..len]);
                *left -= len as u64;
                Ok(())
            }
            Self::Chunked(chunks) => {
                chunks.push(bytes, body).map_err(|BadChunk(what)| ResponseError::Malformed(what))
            }
            Self::ToClose => {
                body.extend_from_slice(bytes);
                Ok(())
            }
        }
    }
}

/// The elements of a list header that are not empty, over all of its lines.
fn elements<'a>(head: &'a ResponseHead, name: &str) -> impl Iterator<Item = &'a str> {
    head.headers(name).flat_map(|value| value.split(',')).map(trim_ows).filter(|e| !e.is_empty())
}

fn is_identity(coding: &str) -> bool {
    coding.eq_ignore_ascii_case("identity")
}

/// Why an answer cannot be read; displayed, it can end the sentence "the provider's answer ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// It is not HTTP/1.x.
    NotHttp,
    /// Its head does not end within [`RESPONSE_HEAD_BYTES_MAX`].
    HeadTooLarge,
    /// It breaks RFC 9112, in this way.
    Malformed(&'static str),
    /// It has a coding that we did not ask for and cannot undo.
    Encoded,
    /// It switches to a protocol that we did not ask for.
    SwitchedProtocols,
    /// The connection ended before its first byte.
    NoAnswer,
    /// The connection ended before its end.
    Truncated,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHttp => f.write_str("is not HTTP/1.1"),
            Self::HeadTooLarge => {
                write!(f, "has a head larger than {RESPONSE_HEAD_BYTES_MAX} bytes")
            }
            Self::Malformed(what) => write!(f, "is malformed: {what}"),
            Self::Encoded => f.write_str("has a content or transfer coding that is not supported"),
            Self::SwitchedProtocols => f.write_str("switches protocols"),
            Self::NoAnswer => f.write_str("did not come: the connection was closed"),
            Self::Truncated => f.write_str("was cut off: the connection was closed"),
        }
    }
}

impl std::error::Error for ResponseError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body, how far it came, and what the end of the connection then means; the same whole, in
    /// any two pieces and byte by byte.
    fn read(bytes: &[u8]) -> Result<(String, Progress, Result<(), ResponseError>), ResponseError> {
        let in_pieces = |pieces: &[&[u8]]| {
            let mut parser = ResponseParser::new();
            let mut body = Vec::new();
            let mut progress = parser.progress();
            for piece in pieces {
                progress = parser.push(piece, &mut body)?;
            }
            assert_eq!(progress, parser.progress());
            Ok((String::from_utf8(body).expect("text"), progress, parser.eof()))
        };
        let whole = in_pieces(&[bytes]);
        for cut in 0..bytes.len() {
            let (before, behind) = bytes.split_at(cut);
            assert_eq!(in_pieces(&[before, behind]), whole, "cut at {cut}");
        }
        assert_eq!(in_pieces(&bytes.chunks(1).collect::<Vec<_>>()), whole);
        whole
    }

    fn answer(headers: &str, body: &str) -> Vec<u8> {
        format!("HTTP/1.1 200 OK\r\n{headers}\r\n{body}").into_bytes()
    }

    #[test]
    fn a_body_ends_as_its_head_says() {
        let complete = |body: &str| Ok((body.to_owned(), Progress::Complete, Ok(())));
        let going_on = |body: &str, eof| Ok((body.to_owned(), Progress::Body, eof));
        let cut = Err(ResponseError::Truncated);
        for (headers, bytes, expected) in [
            ("Content-Length: 5\r\n", "hello", complete("hello")),
            ("Content-Length: 5\r\n", "hello and more", complete("hello")),
            ("Content-Length: 0\r\n", "", complete("")),
            ("Content-Length: 5, 5\r\ncontent-length: 5\r\n", "hello", complete("hello")),
            ("Content-Length: 5\r\n", "hell", going_on("hell", cut)),
            ("Content-Length: 18446744073709551615\r\n", "x", going_on("x", cut)),
            (
                "Transfer-Encoding: chunked\r\n",
                "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
                complete("hello"),
            ),
            (
                "Transfer-Encoding: Chunked\r\nContent-Length: 1\r\n",
                "2\r\nhe\r\n0\r\n\r\n",
                complete("he"),
            ),
            ("Transfer-Encoding: identity, chunked\r\n", "0\r\n\r\n", complete("")),
            ("Transfer-Encoding: chunked\r\n", "2\r\nhe\r\n0\r\n", going_on("he", Ok(()))),
            ("Transfer-Encoding: chunked\r\n", "2\r\nhe\r\n", going_on("he", cut)),
            ("", "hello", going_on("hello", Ok(()))),
            ("Connection: close\r\nTransfer-Encoding: identity\r\n", "", going_on("", Ok(()))),
            ("Content-Encoding: identity\r\n", "x", going_on("x", Ok(()))),
            ("Content-Encoding:\r\n", "x", going_on("x", Ok(()))),
        ] {
            assert_eq!(read(&answer(headers, bytes)), expected, "{headers}{bytes}");
        }
    }

    #[test]
    fn a_status_that_has_no_body_has_none() {
        for status in ["204 No Content", "304 Not Modified"] {
            let bytes = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n");
            assert_eq!(read(bytes.as_bytes()), Ok((String::new(), Progress::Complete, Ok(()))));
        }
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 Oops\r\nContent-Length: 1\r\n\r\nx";
        assert_eq!(read(bytes), Ok(("x".to_owned(), Progress::Complete, Ok(()))));
    }

    #[test]
    fn a_framing_that_cannot_be_trusted_is_refused() {
        for (headers, error) in [
            ("Content-Length: five\r\n", ResponseError::Malformed("invalid Content-Length")),
            ("Content-Length: +5\r\n", ResponseError::Malformed("invalid Content-Length")),
            ("Content-Length: -5\r\n", ResponseError::Malformed("invalid Content-Length")),
            (
                "Content-Length: 18446744073709551616\r\n",
                ResponseError::Malformed("invalid Content-Length"),
            ),
            (
                "Content-Length: 5\r\nContent-Length: 6\r\n",
                ResponseError::Malformed("Content-Length headers disagree"),
            ),
            (
                "Content-Length: 5, 6\r\n",
                ResponseError::Malformed("Content-Length headers disagree"),
            ),
            ("Transfer-Encoding: gzip, chunked\r\n", ResponseError::Encoded),
            ("Transfer-Encoding: chunked, chunked\r\n", ResponseError::Encoded),
            ("Transfer-Encoding: gzip\r\n", ResponseError::Encoded),
            ("Content-Encoding: gzip\r\n", ResponseError::Encoded),
        ] {
            assert_eq!(read(&answer(headers, "")), Err(error), "{headers}");
        }
        let switched = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";
        assert_eq!(read(switched), Err(ResponseError::SwitchedProtocols));
        let broken = answer("Transfer-Encoding: chunked\r\n", "x");
        let what = "a chunk begins without its size";
        assert_eq!(read(&broken), Err(ResponseError::Malformed(what)));
    }

    #[test]
    fn a_connection_that_ends_too_early_says_when() {
        let head = |eof| Ok((String::new(), Progress::Head, Err(eof)));
        assert_eq!(read(b""), head(ResponseError::NoAnswer));
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Le"), head(ResponseError::Truncated));
        assert_eq!(read(b"HTTP/1.1 100 Continue\r\n\r\n"), head(ResponseError::Truncated));
    }

    #[test]
    fn the_head_is_known_as_soon_as_it_is_complete() {
        let mut parser = ResponseParser::new();
        let mut body = Vec::new();
        assert_eq!(parser.push(b"HTTP/1.1 429 Slow down\r\n", &mut body), Ok(Progress::Head));
        assert_eq!((parser.status(), parser.header("retry-after")), (None, None));
        assert_eq!(parser.push(b"Retry-After: 3\r\n\r\n", &mut body), Ok(Progress::Body));
        assert_eq!((parser.status(), parser.header("retry-after")), (Some(429), Some("3")));
        assert_eq!(parser.head().map(ResponseHead::reason), Some("Slow down"));
    }
}
