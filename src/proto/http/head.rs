//! The head of a request, read as it arrives (RFC 9112, sections 2 to 5).

use std::ops::Range;

use super::fields::{Fields, Lines, TooLarge, is_token, split_field};
use super::response::Status;
use crate::limits::REQUEST_HEAD_BYTES_MAX;

/// Reads one head from bytes that come in any pieces.
///
/// Its memory is the head's bytes, at most [`REQUEST_HEAD_BYTES_MAX`]; its total work is linear in
/// them. A fault is reported at the end of the line that has it, and the parser is of no more use.
#[derive(Debug)]
pub struct HeadParser {
    lines: Lines,
    start: Option<StartLine>,
    places: Vec<(Range<usize>, Range<usize>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct StartLine {
    method: Range<usize>,
    target: Range<usize>,
    version: Version,
}

impl Default for HeadParser {
    fn default() -> Self {
        Self::new()
    }
}

impl HeadParser {
    /// A parser that has seen nothing.
    pub fn new() -> Self {
        Self { lines: Lines::new(REQUEST_HEAD_BYTES_MAX), start: None, places: Vec::new() }
    }

    /// Takes the next bytes. Nothing means that the head goes on; otherwise the number says how many
    /// of *these* bytes it took: what lies behind them is the caller's, for instance frames sent
    /// without waiting for the handshake's answer. The parser then begins anew.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<(Head, usize)>, HeadError> {
        let mut input = bytes;
        while let Some(line) =
            self.lines.take(&mut input).map_err(|TooLarge| HeadError::TooLarge)?
        {
            let text = self.lines.bytes()[line.clone()].strip_suffix(b"\r\n");
            // RFC 9112, section 2.2 lets a recipient take a bare LF for the end of a line. Those in
            // front of us may not have, so we do not either.
            let text = text.ok_or(HeadError::Malformed("line does not end with CRLF"))?;
            match (&self.start, text) {
                // Empty lines before the request are ignored, by the same section.
                (None, []) => {}
                (None, text) => self.start = Some(start_line(text, line.start)?),
                (Some(start), []) => {
                    let start = start.clone();
                    let consumed = bytes.len() - input.len();
                    return self.complete(start).map(|head| Some((head, consumed)));
                }
                (Some(_), [b' ' | b'\t', ..]) => {
                    return Err(HeadError::Malformed("header line is folded"));
                }
                (Some(_), text) => {
                    let (name, value) = split_field(text).map_err(HeadError::Malformed)?;
                    self.places.push((shift(name, line.start), shift(value, line.start)));
                }
            }
        }
        Ok(None)
    }

    fn complete(&mut self, start: StartLine) -> Result<Head, HeadError> {
        let parser = std::mem::take(self);
        let fields = Fields { bytes: parser.lines.into_bytes(), places: parser.places };
        let head = Head { start, fields };
        head.check_host()?;
        Ok(head)
    }
}

/// The head of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    start: StartLine,
    fields: Fields,
}

impl Head {
    /// The method, which is case-sensitive.
    pub fn method(&self) -> &str {
        self.fields.ascii(&self.start.method)
    }

    /// The target as it was sent, in visible ASCII.
    pub fn target(&self) -> &str {
        self.fields.ascii(&self.start.target)
    }

    /// The target's path, still percent-encoded and without the query. Of a target in absolute form
    /// (RFC 9112, section 3.2.2) scheme and authority are left out; `*` and a bare authority are
    /// returned as they are, and equal no path.
    pub fn path(&self) -> &str {
        self.path_and_query().0
    }

    /// What follows the first `?` of the target, still percent-encoded.
    pub fn query(&self) -> Option<&str> {
        self.path_and_query().1
    }

    /// The version of HTTP that the client speaks.
    pub fn version(&self) -> Version {
        self.start.version
    }

    /// The first value of a header, without the space around it; the name's case does not matter. A
    /// value that is not UTF-8 reads as U+FFFD.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.fields.all(name).next()
    }

    /// The values of all headers of this name, in their order and as [`Head::header`] returns them.
    pub fn headers<'s>(&'s self, name: &str) -> impl Iterator<Item = &'s str> {
        self.fields.all(name)
    }

    /// All headers, names in lower case.
    #[cfg(any(test, fuzzing))]
    pub(super) fn fields_for_fuzzing(&self) -> Vec<(String, Vec<u8>)> {
        let bytes = |place: &Range<usize>| self.fields.bytes[place.clone()].to_vec();
        let name = |place| self.fields.ascii(place).to_ascii_lowercase();
        self.fields.places.iter().map(|(place, value)| (name(place), bytes(value))).collect()
    }

    fn path_and_query(&self) -> (&str, Option<&str>) {
        let target = self.target();
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let path = match path.split_once("://") {
            Some((scheme, behind)) if !scheme.contains('/') => {
                behind.find('/').map_or("/", |slash| &behind[slash..])
            }
            _ => path,
        };
        (path, query)
    }

    /// RFC 9112, section 3.2: exactly one `Host`, which only HTTP/1.0 may leave out.
    fn check_host(&self) -> Result<(), HeadError> {
        let mut hosts = self.headers("host");
        match (hosts.next(), hosts.next()) {
            (None, _) if self.version() == Version::Http11 => {
                Err(HeadError::Malformed("Host header is missing"))
            }
            (Some(_), Some(_)) => Err(HeadError::Malformed("more than one Host header")),
            (Some(host), None) if !host.bytes().all(in_authority) => {
                Err(HeadError::Malformed("invalid Host header"))
            }
            _ => Ok(()),
        }
    }
}

/// The versions we speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0, which knows neither chunked bodies nor upgrades.
    Http10,
    /// HTTP/1.1
    Http11,
}

/// Why a head is refused; the connection ends with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// It does not end within [`REQUEST_HEAD_BYTES_MAX`].
    TooLarge,
    /// It breaks RFC 9112, in this way.
    Malformed(&'static str),
}

impl HeadError {
    /// The status to answer with.
    pub fn status(&self) -> Status {
        match self {
            Self::TooLarge => Status::HeaderFieldsTooLarge,
            Self::Malformed(_) => Status::BadRequest,
        }
    }
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge => write!(f, "head larger than {REQUEST_HEAD_BYTES_MAX} bytes"),
            Self::Malformed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for HeadError {}

/// Splits a request line at its two spaces (RFC 9112, section 3). `offset` is where it stands.
fn start_line(line: &[u8], offset: usize) -> Result<StartLine, HeadError> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(HeadError::Malformed("request line is not method, target, version"));
    };
    if !is_token(method) {
        return Err(HeadError::Malformed("invalid method"));
    }
    if target.is_empty() || !target.iter().all(u8::is_ascii_graphic) {
        return Err(HeadError::Malformed("invalid request target"));
    }
    let version = match version {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        _ => return Err(HeadError::Malformed("version is neither HTTP/1.1 nor HTTP/1.0")),
    };
    let target_start = method.len() + 1;
    Ok(StartLine {
        method: shift(0..method.len(), offset),
        target: shift(target_start..target_start + target.len(), offset),
        version,
    })
}

/// What may stand in a host with its port (RFC 3986, section 3.2), user information left out.
fn in_authority(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte)
}

fn shift(range: Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "Host: h\r\n";

    fn parse(head: &[u8]) -> Result<Option<(Head, usize)>, HeadError> {
        HeadParser::new().push(head)
    }

    fn fault(head: &str) -> &'static str {
        match parse(head.as_bytes()) {
            Err(HeadError::Malformed(what)) => what,
            other => panic!("{head:?} gave {other:?}"),
        }
    }

    #[test]
    fn a_head_is_the_same_whole_and_in_any_two_pieces_and_byte_by_byte() {
        let head = "\r\nGET /agents/a/ws?x=1 HTTP/1.1\r\nHost: h:80\r\nX: \t a  b \r\nx:\r\n\r\n";
        let bytes = [head.as_bytes(), b"frames"].concat();
        let (whole, consumed) = parse(&bytes).expect("valid").expect("complete");
        assert_eq!(consumed, head.len());
        assert_eq!((whole.method(), whole.target()), ("GET", "/agents/a/ws?x=1"));
        assert_eq!((whole.path(), whole.query()), ("/agents/a/ws", Some("x=1")));
        assert_eq!(whole.version(), Version::Http11);
        assert_eq!(whole.header("HOST"), Some("h:80"));
        assert_eq!(whole.headers("x").collect::<Vec<_>>(), ["a  b", ""]);
        assert_eq!(whole.header("absent"), None);
        for cut in 0..head.len() {
            let mut parser = HeadParser::new();
            assert_eq!(parser.push(&bytes[..cut]), Ok(None));
            assert_eq!(parser.push(&bytes[cut..]), Ok(Some((whole.clone(), consumed - cut))));
        }
        let mut parser = HeadParser::new();
        for byte in &bytes[..consumed - 1] {
            assert_eq!(parser.push(&[*byte]), Ok(None));
        }
        assert_eq!(parser.push(b"\n"), Ok(Some((whole, 1))));
    }

    #[test]
    fn each_byte_is_examined_once_however_the_head_is_cut() {
        let head = format!("GET / HTTP/1.1\r\n{HOST}X: {}\r\n", "y".repeat(8000));
        for piece in [1, 2, 7, 1000, head.len()] {
            let mut parser = HeadParser::new();
            for bytes in head.as_bytes().chunks(piece) {
                assert_eq!(parser.push(bytes), Ok(None));
            }
            assert_eq!(parser.lines.examined, head.len(), "in pieces of {piece}");
        }
    }

    #[test]
    fn a_head_of_exactly_8_kib_is_accepted_and_one_byte_more_is_not() {
        let head = |len: usize| {
            let frame = format!("GET / HTTP/1.1\r\n{HOST}X: \r\n\r\n").len();
            format!("GET / HTTP/1.1\r\n{HOST}X: {}\r\n\r\n", "y".repeat(len - frame))
        };
        let fits = head(8192);
        assert_eq!(fits.len(), 8192);
        assert!(matches!(parse(fits.as_bytes()), Ok(Some((_, 8192)))));
        let behind = [fits.as_bytes(), &[0; 9000]].concat();
        assert!(matches!(parse(&behind), Ok(Some((_, 8192)))));
        assert_eq!(parse(head(8193).as_bytes()), Err(HeadError::TooLarge));
        let mut parser = HeadParser::new();
        let (most, last) = behind[..8192].split_at(8191);
        assert_eq!(parser.push(most), Ok(None));
        assert!(matches!(parser.push(last), Ok(Some((_, 1)))));
        // As soon as it cannot end in time, not later.
        assert_eq!(parse(&[b'a'; 8191]), Ok(None));
        assert_eq!(parse(&[b'a'; 8192]), Err(HeadError::TooLarge));
        assert_eq!(parse("\r\n".repeat(4096).as_bytes()), Err(HeadError::TooLarge));
        assert_eq!(HeadError::TooLarge.status().code(), 431);
    }

    #[test]
    fn what_rfc_9112_forbids_is_refused_by_name() {
        for (head, what) in [
            ("GET / HTTP/1.1\nHost: h\n\n", "line does not end with CRLF"),
            ("GET / HTTP/1.1\r\nHost: h\n", "line does not end with CRLF"),
            ("GET / HTTP/1.1\r\nHost: a\rb\r\n", "control character in a header value"),
            ("GET / HTTP/1.1\r\nHost: h\r\r\n", "control character in a header value"),
            ("GET / HTTP/1.1\r\nX: a\0b\r\n", "control character in a header value"),
            ("GET / HTTP/1.1\r\nX: a\x7fb\r\n", "control character in a header value"),
            ("GET / HTTP/1.1\r\nX: a\r\n b\r\n", "header line is folded"),
            ("GET / HTTP/1.1\r\n\tX: a\r\n", "header line is folded"),
            ("GET / HTTP/1.1\r\nX : a\r\n", "invalid header name"),
            ("GET / HTTP/1.1\r\n: a\r\n", "invalid header name"),
            ("GET / HTTP/1.1\r\nX(: a\r\n", "invalid header name"),
            ("GET / HTTP/1.1\r\nX\u{e4}: a\r\n", "invalid header name"),
            ("GET / HTTP/1.1\r\nno colon\r\n", "header line without a colon"),
            ("GET / HTTP/1.1\r\n\r\n", "Host header is missing"),
            ("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", "more than one Host header"),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "invalid Host header"),
            ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "invalid Host header"),
            ("GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", "invalid Host header"),
            ("GET /\r\n", "request line is not method, target, version"),
            ("GET  / HTTP/1.1\r\n", "request line is not method, target, version"),
            ("GET / HTTP/1.1 \r\n", "request line is not method, target, version"),
            ("GET\t/\tHTTP/1.1\r\n", "request line is not method, target, version"),
            (" GET / HTTP/1.1\r\n", "request line is not method, target, version"),
            ("G@T / HTTP/1.1\r\n", "invalid method"),
            ("GET /\u{e4} HTTP/1.1\r\n", "invalid request target"),
            ("GET /\0 HTTP/1.1\r\n", "invalid request target"),
            ("GET / HTTP/2.0\r\n", "version is neither HTTP/1.1 nor HTTP/1.0"),
            ("GET / http/1.1\r\n", "version is neither HTTP/1.1 nor HTTP/1.0"),
            ("GET / HTTP/1.10\r\n", "version is neither HTTP/1.1 nor HTTP/1.0"),
        ] {
            assert_eq!(fault(head), what, "{head:?}");
        }
        assert_eq!(HeadError::Malformed("").status().code(), 400);
    }

    #[test]
    fn http_1_0_may_leave_out_the_host() {
        let (head, _) = parse(b"GET / HTTP/1.0\r\n\r\n").expect("valid").expect("complete");
        assert_eq!(head.version(), Version::Http10);
        assert!(parse(b"GET / HTTP/1.1\r\nHost:\r\n\r\n").is_ok(), "an empty Host is one");
        assert!(parse(b"GET / HTTP/1.1\r\nHost: [::1]:7700\r\n\r\n").is_ok());
    }

    #[test]
    fn the_path_is_found_in_every_form_of_target() {
        for (target, path, query) in [
            ("/", "/", None),
            ("/a%2Fb/c", "/a%2Fb/c", None),
            ("/a?", "/a", Some("")),
            ("/a?b?c", "/a", Some("b?c")),
            ("/a?u=http://x/", "/a", Some("u=http://x/")),
            ("/a://b", "/a://b", None),
            ("http://h:80/a/b?c", "/a/b", Some("c")),
            ("HTTPS://h", "/", None),
            ("http://h?c", "/", Some("c")),
            ("*", "*", None),
            ("h:80", "h:80", None),
        ] {
            let head = format!("GET {target} HTTP/1.1\r\n{HOST}\r\n");
            let (head, _) = parse(head.as_bytes()).expect(target).expect("complete");
            assert_eq!((head.path(), head.query()), (path, query));
            assert_eq!(head.target(), target);
        }
    }

    #[test]
    fn a_value_that_is_not_utf_8_is_opaque() {
        let (head, _) =
            parse(b"GET / HTTP/1.1\r\nHost: h\r\nX: M\xfcller\r\nY: M\xc3\xbcller\r\n\r\n")
                .expect("valid")
                .expect("complete");
        assert_eq!(head.header("x"), Some("\u{fffd}"));
        assert_eq!(head.header("y"), Some("Müller"));
    }
}
