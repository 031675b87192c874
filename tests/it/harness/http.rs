//! Plain HTTP requests, one a connection, read by a parser of its own.

use std::net::SocketAddr;

use serde_json::Value;

use super::wire::{End, Wire};

/// A whole answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// The value of the first header with this name, whatever its case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Sends `request` as it is and reads the answer to the end of the connection.
pub(crate) fn exchange(addr: SocketAddr, request: &[u8]) -> Answer {
    let mut wire = Wire::connect(addr);
    wire.send(request);
    answer(&mut wire)
}

/// A GET, with a bearer token where there is one.
pub(crate) fn get(addr: SocketAddr, path: &str, token: Option<&str>) -> Answer {
    let authorization =
        token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    let request = format!("GET {path} HTTP/1.1\r\nHost: terret.test\r\n{authorization}\r\n");
    exchange(addr, request.as_bytes())
}

/// Reads one answer that ends with its connection, as every answer but 101 does.
pub(crate) fn answer(wire: &mut Wire) -> Answer {
    let head = wire.head();
    let mut lines = head.lines();
    let status_line = lines.next().unwrap();
    let status = status_line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).unwrap();
    let headers: Vec<(String, String)> = lines
        .filter(|line| !line.is_empty())
        .map(|line| line.split_once(':').unwrap())
        .map(|(key, value)| (key.to_owned(), value.trim().to_owned()))
        .collect();
    let mut answer = Answer { status: status.parse().unwrap(), headers, body: String::new() };
    assert_eq!(answer.header("Connection"), Some("close"), "{answer:?}");
    let (body, end) = wire.rest();
    assert_eq!(end, End::Clean, "an answer must not be lost to a reset: {answer:?}");
    let body = if answer.header("Transfer-Encoding") == Some("chunked") {
        dechunk(&body)
    } else {
        let declared: Option<usize> = answer.header("Content-Length").map(|n| n.parse().unwrap());
        assert_eq!(declared, Some(body.len()), "{answer:?}");
        body
    };
    answer.body = String::from_utf8(body).unwrap();
    answer
}

/// A chunked body without extensions or trailers, which must be complete.
fn dechunk(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let at = body.windows(2).position(|window| window == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&body[..at]).unwrap(), 16).unwrap();
        let chunk = &body[at + 2..at + 2 + size];
        whole.extend_from_slice(chunk);
        body = body[at + 2 + size..].strip_prefix(b"\r\n").unwrap();
        if size == 0 {
            assert!(body.is_empty(), "bytes behind the last chunk");
            return whole;
        }
    }
}
