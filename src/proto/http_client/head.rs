//! The head of an answer (RFC 9112, sections 4 and 5).

use std::ops::Range;

use super::response::ResponseError;
use crate::limits::RESPONSE_HEAD_BYTES_MAX;
use crate::proto::http::{Fields, Lines, TooLarge, split_field};

/// Reads the head of an answer from bytes that come in any pieces, passing over interim answers
/// (status 1xx but for 101, which is a last one) in front of it.
///
/// All of them together are at most [`RESPONSE_HEAD_BYTES_MAX`]; the work is linear in them.
#[derive(Debug)]
pub struct ResponseHeadParser {
    lines: Lines,
    start: Option<StatusLine>,
    places: Vec<(Range<usize>, Range<usize>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct StatusLine {
    status: u16,
    reason: Range<usize>,
}

impl Default for ResponseHeadParser {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseHeadParser {
    /// A parser that has seen nothing.
    pub fn new() -> Self {
        Self { lines: Lines::new(RESPONSE_HEAD_BYTES_MAX), start: None, places: Vec::new() }
    }

    /// Takes the next bytes. Nothing means that the head goes on; otherwise the number says how many
    /// of *these* bytes it took. What lies behind them is the caller's, and the parser begins anew.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<(ResponseHead, usize)>, ResponseError> {
        let mut input = bytes;
        loop {
            let line =
                self.lines.take(&mut input).map_err(|TooLarge| ResponseError::HeadTooLarge)?;
            let Some(line) = line else {
                // What is no HTTP at all, TLS for instance, need not ever end a line.
                let possible = self.start.is_some() || may_be_status_line(self.lines.partial());
                return if possible { Ok(None) } else { Err(ResponseError::NotHttp) };
            };
            let text = without_line_end(&self.lines.bytes()[line.clone()]);
            let text_end = line.start + text.len();
            match (&self.start, text) {
                (None, []) => {}
                (None, text) => self.start = Some(status_line(text, line.start)?),
                (Some(start), []) if is_interim(start.status) => {
                    self.start = None;
                    self.places.clear();
                }
                (Some(start), []) => {
                    let start = start.clone();
                    let parser = std::mem::take(self);
                    let fields = Fields { bytes: parser.lines.into_bytes(), places: parser.places };
                    let head = ResponseHead { start, fields };
                    return Ok(Some((head, bytes.len() - input.len())));
                }
                (Some(_), [b' ' | b'\t', ..]) => self.unfold(text_end)?,
                (Some(_), text) => {
                    let (name, value) = split_field(text).map_err(ResponseError::Malformed)?;
                    self.places.push((shift(name, line.start), shift(value, line.start)));
                }
            }
        }
    }

    /// Joins a folded line to the value above it: RFC 9112, section 5.2 has a client read the line
    /// end in between as spaces.
    fn unfold(&mut self, end: usize) -> Result<(), ResponseError> {
        let (_, value) = self
            .places
            .last_mut()
            .ok_or(ResponseError::Malformed("the first header line is folded"))?;
        let bytes = self.lines.bytes_mut();
        for byte in &mut bytes[value.end..end] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        let joined = &bytes[value.start..end];
        if joined.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err(ResponseError::Malformed("control character in a header value"));
        }
        value.start += joined.len() - joined.trim_ascii_start().len();
        value.end = value.start + joined.trim_ascii().len();
        Ok(())
    }

    /// Whether no byte of a head has come yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.lines.bytes().is_empty()
    }
}

/// The head of one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    start: StatusLine,
    fields: Fields,
}

impl ResponseHead {
    /// The status, from 101 to 999.
    pub fn status(&self) -> u16 {
        self.start.status
    }

    /// The words behind the status; often empty, U+FFFD if they are not UTF-8.
    pub fn reason(&self) -> &str {
        self.fields.text(&self.start.reason)
    }

    /// The first value of a header, without the space around it; the name's case does not matter. A
    /// value that is not UTF-8 reads as U+FFFD.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.fields.all(name).next()
    }

    /// The values of all headers of this name, in their order and as [`ResponseHead::header`] returns
    /// them.
    pub fn headers<'s>(&'s self, name: &str) -> impl Iterator<Item = &'s str> {
        self.fields.all(name)
    }
}

fn is_interim(status: u16) -> bool {
    matches!(status, 100 | 102..200)
}

/// Whether this can be the beginning of a status line, or of an empty line before one.
fn may_be_status_line(partial: &[u8]) -> bool {
    let common = partial.len().min(STATUS_LINE_START.len());
    partial[..common] == STATUS_LINE_START[..common] || partial == b"\r"
}

const STATUS_LINE_START: &[u8] = b"HTTP/1.";

/// `HTTP/1.x`, a space, three digits, and perhaps a space and a reason. `offset` is where it stands.
fn status_line(line: &[u8], offset: usize) -> Result<StatusLine, ResponseError> {
    let rest = line.strip_prefix(STATUS_LINE_START).ok_or(ResponseError::NotHttp)?;
    let malformed = ResponseError::Malformed("status line is not version, status, reason");
    let [b'0'..=b'9', b' ', digits @ ..] = rest else { return Err(malformed) };
    let (digits, reason) = digits.split_at(digits.len().min(3));
    let status = digits.iter().try_fold(0, |status, digit| {
        digit.is_ascii_digit().then(|| status * 10 + u16::from(digit - b'0'))
    });
    match (status, reason) {
        (Some(status @ 100..=999), [] | [b' ', ..]) => {
            let start = offset + line.len() - reason.trim_ascii_start().len();
            Ok(StatusLine { status, reason: start..offset + line.len() })
        }
        _ => Err(malformed),
    }
}

/// The line without its LF or CRLF.
fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn shift(range: Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Option<(ResponseHead, usize)>, ResponseError> {
        ResponseHeadParser::new().push(bytes)
    }

    fn head(text: &str) -> ResponseHead {
        let (head, len) = parse(text.as_bytes()).expect(text).expect("complete");
        assert_eq!(len, text.len());
        head
    }

    #[test]
    fn a_status_line_may_lack_its_reason() {
        for (line, status, reason) in [
            ("HTTP/1.1 200 OK", 200, "OK"),
            ("HTTP/1.0 529 Site is  overloaded ", 529, "Site is  overloaded "),
            ("HTTP/1.1 429 ", 429, ""),
            ("HTTP/1.1 503", 503, ""),
            ("HTTP/1.1 101 Switching Protocols", 101, "Switching Protocols"),
        ] {
            let head = head(&format!("{line}\r\n\r\n"));
            assert_eq!((head.status(), head.reason()), (status, reason), "{line}");
        }
    }

    #[test]
    fn what_servers_really_send_is_read() {
        let head = head(
            "\r\nHTTP/1.1 200 OK\nContent-Type:text/event-stream\nX: a\r\n  b\r\n\tc \r\nEmpty:\r\n \r\n\
             EMPTY: later\r\n\r\n",
        );
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        assert_eq!(head.header("x"), Some("a    b  \tc"));
        assert_eq!(head.headers("empty").collect::<Vec<_>>(), ["", "later"]);
    }

    #[test]
    fn interim_answers_are_passed_over() {
        let head = head(
            "HTTP/1.1 100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n\
             HTTP/1.1 201 Created\r\nY: 2\r\n\r\n",
        );
        assert_eq!((head.status(), head.header("x"), head.header("y")), (201, None, Some("2")));
        let endless = "HTTP/1.1 100 Continue\r\n\r\n".repeat(4000);
        assert_eq!(parse(endless.as_bytes()), Err(ResponseError::HeadTooLarge));
    }

    #[test]
    fn what_is_no_http_is_noticed_at_once() {
        for bytes in [
            &b"\x15\x03\x01\x00\x02\x02\x46"[..],
            b"SSH-2.0-OpenSSH_9.6",
            b"HTTP/2 200",
            b"http/1.1 200 OK",
            b"<html>\n",
            b"\rx",
        ] {
            assert_eq!(parse(bytes), Err(ResponseError::NotHttp), "{}", bytes.escape_ascii());
        }
        for bytes in [&b""[..], b"H", b"HTTP/1.", b"HTTP/1.1 2", b"\r", b"\r\n", b"\r\nHT"] {
            assert_eq!(parse(bytes), Ok(None), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_broken_head_is_refused_by_name() {
        let status = "status line is not version, status, reason";
        for (head, what) in [
            ("HTTP/1.1 20 OK\n", status),
            ("HTTP/1.1 2000 OK\n", status),
            ("HTTP/1.1 099 OK\n", status),
            ("HTTP/1.1  200 OK\n", status),
            ("HTTP/1.1\n", status),
            ("HTTP/1.x 200 OK\n", status),
            ("HTTP/1.1 200 OK\n X: a\n", "the first header line is folded"),
            ("HTTP/1.1 200 OK\nno colon\n", "header line without a colon"),
            ("HTTP/1.1 200 OK\nX: a\0\n", "control character in a header value"),
            ("HTTP/1.1 200 OK\nX: a\n \x1b[0m\n", "control character in a header value"),
        ] {
            assert_eq!(parse(head.as_bytes()), Err(ResponseError::Malformed(what)), "{head:?}");
        }
    }

    #[test]
    fn a_head_of_64_kib_is_accepted_and_one_byte_more_is_not() {
        let head = |len: usize| {
            let frame = "HTTP/1.1 200 OK\r\nX: \r\n\r\n".len();
            format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(len - frame))
        };
        assert!(matches!(parse(head(65_536).as_bytes()), Ok(Some((_, 65_536)))));
        assert_eq!(parse(head(65_537).as_bytes()), Err(ResponseError::HeadTooLarge));
    }
}
