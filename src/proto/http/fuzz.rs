//! The body of the fuzz target for request heads, with a naive parser as its oracle.

use super::{Head, HeadError, HeadParser, Version};
use crate::limits::REQUEST_HEAD_BYTES_MAX;

/// A head is read as the naive parser reads it, and the same in two pieces and byte by byte. The
/// first byte decides where the two pieces part.
pub fn request_head(bytes: &[u8]) {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let whole = HeadParser::new().push(bytes);
    match naive(bytes) {
        Some((fields, len)) => {
            let Ok(Some((head, consumed))) = &whole else { panic!("{whole:?}, not {fields:?}") };
            assert_eq!((described(head), *consumed), (fields, len));
        }
        None => assert!(!matches!(whole, Ok(Some(_))), "{whole:?}"),
    }
    let cut = usize::from(cut).min(bytes.len());
    assert_eq!(in_pieces([&bytes[..cut], &bytes[cut..]]), whole);
    assert_eq!(in_pieces(bytes.chunks(1)), whole);
}

/// What the pieces give, the count of consumed bytes counted from the first.
fn in_pieces<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Option<(Head, usize)>, HeadError> {
    let mut parser = HeadParser::new();
    let mut before = 0;
    for piece in pieces {
        if let Some((head, consumed)) = parser.push(piece)? {
            return Ok(Some((head, before + consumed)));
        }
        before += piece.len();
    }
    Ok(None)
}

type Described = (String, String, Version, Vec<(String, Vec<u8>)>);

fn described(head: &Head) -> Described {
    let fields = head.fields_for_fuzzing();
    (head.method().into(), head.target().into(), head.version(), fields)
}

/// Cuts at the first empty line behind the request line, then splits line by line and character by
/// character, with no state at all.
fn naive(bytes: &[u8]) -> Option<(Described, usize)> {
    let mut start = 0;
    while bytes[start..].starts_with(b"\r\n") {
        start += 2;
    }
    let end = start + bytes[start..].windows(4).position(|window| window == b"\r\n\r\n")?;
    if end + 4 > REQUEST_HEAD_BYTES_MAX {
        return None;
    }
    // As Latin-1, so that every byte is one character.
    let head: String = bytes[start..end].iter().map(|byte| char::from(*byte)).collect();
    let mut lines = head.split("\r\n");
    let request: Vec<_> = lines.next()?.split(' ').collect();
    let [method, target, version] = request[..] else { return None };
    let token = |text: &str| {
        let in_token = |c: char| c.is_ascii_graphic() && !"\"(),/:;<=>?@[\\]{}".contains(c);
        !text.is_empty() && text.chars().all(in_token)
    };
    if !token(method) || target.is_empty() || !target.chars().all(|c| c.is_ascii_graphic()) {
        return None;
    }
    let version = match version {
        "HTTP/1.1" => Version::Http11,
        "HTTP/1.0" => Version::Http10,
        _ => return None,
    };
    let mut fields = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        if !token(name) || value.chars().any(|c| c != '\t' && c.is_ascii_control()) {
            return None;
        }
        let value: Vec<u8> = value.trim_matches([' ', '\t']).chars().map(|c| c as u8).collect();
        fields.push((name.to_ascii_lowercase(), value));
    }
    let hosts: Vec<_> = fields.iter().filter(|(name, _)| name == "host").collect();
    let valid = match hosts[..] {
        [] => version == Version::Http10,
        [(_, host)] => {
            host.iter().all(|byte| byte.is_ascii_graphic() && !b"\"/<>?@\\^`{|}#".contains(byte))
        }
        _ => false,
    };
    valid.then(|| ((method.into(), target.into(), version, fields), end + 4))
}
