//! Our answers: a status, a few headers, a line of text or a body of unknown length.

/// The statuses we answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 200
    Ok,
    /// 400
    BadRequest,
    /// 401
    Unauthorized,
    /// 403
    Forbidden,
    /// 404
    NotFound,
    /// 405
    MethodNotAllowed,
    /// 426
    UpgradeRequired,
    /// 431
    HeaderFieldsTooLarge,
    /// 500
    InternalServerError,
    /// 503
    ServiceUnavailable,
}

impl Status {
    /// The number.
    pub fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::UpgradeRequired => 426,
            Self::HeaderFieldsTooLarge => 431,
            Self::InternalServerError => 500,
            Self::ServiceUnavailable => 503,
        }
    }

    /// The words that go with it (RFC 9110, section 15; RFC 6585).
    pub fn reason(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::BadRequest => "Bad Request",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::UpgradeRequired => "Upgrade Required",
            Self::HeaderFieldsTooLarge => "Request Header Fields Too Large",
            Self::InternalServerError => "Internal Server Error",
            Self::ServiceUnavailable => "Service Unavailable",
        }
    }
}

/// Appends an answer whose body is one line of text; its line end is added here.
pub fn write_response(out: &mut Vec<u8>, status: Status, extra: &[(&str, &str)], body: &str) {
    debug_assert!(!body.contains('\n'), "one line: {body:?}");
    write_sized_head(out, status, extra, "text/plain; charset=utf-8", body.len() + 1);
    out.extend_from_slice(body.as_bytes());
    out.push(b'\n');
}

/// Appends an answer to HEAD: as [`write_response`], without the body (RFC 9110, section 9.3.2).
pub fn write_response_to_head(
    out: &mut Vec<u8>,
    status: Status,
    extra: &[(&str, &str)],
    body: &str,
) {
    write_sized_head(out, status, extra, "text/plain; charset=utf-8", body.len() + 1);
}

/// Appends an answer with a body of its own type.
pub fn write_answer(out: &mut Vec<u8>, status: Status, content_type: &str, body: &[u8]) {
    write_sized_head(out, status, &[], content_type, body.len());
    out.extend_from_slice(body);
}

/// Appends the head of an answer whose length is not known yet, to a client of HTTP/1.1; the body is
/// written with [`write_chunk`] and [`write_last_chunk`].
pub fn write_chunked_head(out: &mut Vec<u8>, status: Status, content_type: &str) {
    write_head(out, status, &[("Content-Type", content_type), ("Transfer-Encoding", "chunked")]);
    out.extend_from_slice(b"\r\n");
}

/// Appends the head of an answer that the end of the connection ends, for a client of HTTP/1.0, which
/// does not know chunks; the body follows as it is.
pub fn write_to_close_head(out: &mut Vec<u8>, status: Status, content_type: &str) {
    write_head(out, status, &[("Content-Type", content_type)]);
    out.extend_from_slice(b"\r\n");
}

/// Appends one piece of a chunked body (RFC 9112, section 7.1). An empty piece is left out, since an
/// empty chunk would end the body.
pub fn write_chunk(out: &mut Vec<u8>, piece: &[u8]) {
    if !piece.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the end of a chunked body.
pub fn write_last_chunk(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n\r\n");
}

fn write_sized_head(
    out: &mut Vec<u8>,
    status: Status,
    extra: &[(&str, &str)],
    content_type: &str,
    len: usize,
) {
    write_head(out, status, extra);
    let rest = format!("Content-Type: {content_type}\r\nContent-Length: {len}\r\n\r\n");
    out.extend_from_slice(rest.as_bytes());
}

/// A status line and headers, open for more of them.
fn write_head(out: &mut Vec<u8>, status: Status, headers: &[(&str, &str)]) {
    let start = format!("HTTP/1.1 {} {}\r\nConnection: close\r\n", status.code(), status.reason());
    out.extend_from_slice(start.as_bytes());
    for (name, value) in headers {
        debug_assert!(!value.contains(['\r', '\n']), "{name} would end the line");
        for part in [*name, ": ", *value, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn an_answer_is_one_line_of_text_and_ends_the_connection() {
        assert_eq!(
            text(|out| write_response(out, Status::NotFound, &[("X", "y")], "no such page")),
            "HTTP/1.1 404 Not Found\r\nConnection: close\r\nX: y\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Length: 13\r\n\r\nno such page\n"
        );
        assert_eq!(
            text(|out| write_response_to_head(out, Status::Ok, &[], "ok")),
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n\r\n"
        );
        assert_eq!(
            text(|out| write_answer(out, Status::Ok, "application/json", b"{}")),
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        );
    }

    #[test]
    fn a_body_of_unknown_length_is_chunked_or_goes_to_the_close() {
        let chunked = text(|out| {
            write_chunked_head(out, Status::Ok, "application/jsonl");
            write_chunk(out, &[b'x'; 26]);
            write_chunk(out, b"");
            write_chunk(out, b"y");
            write_last_chunk(out);
        });
        assert_eq!(
            chunked,
            format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/jsonl\r\n\
                 Transfer-Encoding: chunked\r\n\r\n1a\r\n{}\r\n1\r\ny\r\n0\r\n\r\n",
                "x".repeat(26)
            )
        );
        assert_eq!(
            text(|out| write_to_close_head(out, Status::Ok, "application/jsonl")),
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/jsonl\r\n\r\n"
        );
    }
}
