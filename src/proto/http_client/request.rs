//! What we send: one POST, with a body that is all there.

use std::fmt;

use crate::proto::http::is_token;

/// Appends a POST that asks for `path` at `host` and for the connection's end behind the answer.
///
/// `host` is a `Host` header's value, as [`super::BaseUrl::authority`] gives it, and `path` a
/// request target, as [`super::BaseUrl::target`] does. `headers` come on top of the ones that frame
/// the message and may not be among them; one that is refused leaves `out` as it was. No content
/// coding is asked for, since none can be undone.
pub fn write_request(
    out: &mut Vec<u8>,
    host: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<(), InvalidHeader> {
    for (name, value) in headers {
        check_header(name, value)?;
    }
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         Accept-Encoding: identity\r\nContent-Length: {}\r\n",
        body.len()
    );
    out.extend_from_slice(head.as_bytes());
    for (name, value) in headers {
        for part in [*name, ": ", *value, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    Ok(())
}

/// Checks that a header can be sent on top of our own. A key read from a file with its line end, for
/// one, cannot.
pub fn check_header(name: &str, value: &str) -> Result<(), InvalidHeader> {
    let what = if !is_token(name.as_bytes()) {
        What::Name
    } else if OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name)) {
        What::Ours
    } else if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        What::Value
    } else {
        return Ok(());
    };
    Err(InvalidHeader { name: name.to_owned(), what })
}

/// The headers that frame a message, or that we could not honour the answer to.
const OURS: [&str; 7] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "accept-encoding",
    "upgrade",
    "expect",
];

/// A header that cannot be sent. Its value, which may be a key, is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidHeader {
    name: String,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Name,
    Ours,
    Value,
}

impl fmt::Display for InvalidHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, what } = self;
        match what {
            What::Name => write!(f, "header name {name:?} is not one"),
            What::Ours => write!(f, "header {name} is set by the server itself"),
            What::Value => write!(f, "header {name} has a line end or control character in it"),
        }
    }
}

impl std::error::Error for InvalidHeader {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_framed_and_ends_its_connection() {
        let mut out = Vec::new();
        let headers = [("Authorization", "Bearer k"), ("X-Title", "ü")];
        write_request(&mut out, "[::1]:8080", "/v1/chat", &headers, b"{}\n").expect("valid");
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "POST /v1/chat HTTP/1.1\r\nHost: [::1]:8080\r\nConnection: close\r\n\
             Accept-Encoding: identity\r\nContent-Length: 3\r\nAuthorization: Bearer k\r\n\
             X-Title: ü\r\n\r\n{}\n"
        );
    }

    #[test]
    fn a_header_that_would_break_the_message_is_refused_without_its_value() {
        for (name, value, message) in [
            ("X", "CANARY\n", "header X has a line end or control character in it"),
            ("X", "a\r\nCANARY: b", "header X has a line end or control character in it"),
            ("X", "CANARY\0", "header X has a line end or control character in it"),
            ("", "CANARY", "header name \"\" is not one"),
            ("X Y", "CANARY", "header name \"X Y\" is not one"),
            ("X:", "CANARY", "header name \"X:\" is not one"),
            ("HOST", "CANARY", "header HOST is set by the server itself"),
            ("content-length", "5", "header content-length is set by the server itself"),
            (
                "Transfer-Encoding",
                "chunked",
                "header Transfer-Encoding is set by the server itself",
            ),
            ("Accept-Encoding", "gzip", "header Accept-Encoding is set by the server itself"),
        ] {
            let mut out = b"before".to_vec();
            let error = write_request(&mut out, "h", "/", &[("Y", "fine"), (name, value)], b"")
                .expect_err(message);
            assert_eq!(error.to_string(), message);
            assert_eq!(out, b"before");
        }
    }
}
