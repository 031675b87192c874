//! The bodies of the fuzz targets for answers, with naive decoders as their oracles.

use super::{Progress, ResponseError, ResponseParser};
use crate::limits::{CHUNK_LINE_BYTES_MAX, RESPONSE_HEAD_BYTES_MAX};
use crate::proto::http::{write_chunk, write_last_chunk};

/// Arbitrary bytes give the same in two pieces and byte by byte as whole. The first byte decides
/// where the two pieces part.
pub fn response(bytes: &[u8]) {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let whole = in_pieces([bytes]);
    let cut = usize::from(cut).min(bytes.len());
    assert_eq!(in_pieces([&bytes[..cut], &bytes[cut..]]), whole);
    assert_eq!(in_pieces(bytes.chunks(1)), whole);
}

/// Arbitrary bytes behind the head of a chunked answer are decoded as the naive decoder does; and
/// they survive being a body themselves, however they are framed.
pub fn body(bytes: &[u8]) {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = in_pieces([&chunked[..], bytes]);
    match naive_chunks(bytes) {
        Some(decoded) => assert_eq!(answer, Ok((decoded, Progress::Complete, Ok(())))),
        None => assert!(!matches!(answer, Ok((_, Progress::Complete, _))), "{answer:?}"),
    }

    let mut framed = chunked.to_vec();
    // As many pieces as the bytes themselves say.
    let piece = bytes.first().map_or(1, |byte| usize::from(*byte) + 1);
    bytes.chunks(piece).for_each(|piece| write_chunk(&mut framed, piece));
    write_last_chunk(&mut framed);
    assert_eq!(in_pieces([&framed[..]]), Ok((bytes.to_vec(), Progress::Complete, Ok(()))));

    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
    let sized = in_pieces([head.as_bytes(), bytes, b"behind"]);
    assert_eq!(sized, Ok((bytes.to_vec(), Progress::Complete, Ok(()))));
    let to_close = in_pieces([b"HTTP/1.0 200 OK\r\n\r\n", bytes]);
    assert_eq!(to_close, Ok((bytes.to_vec(), Progress::Body, Ok(()))));
}

type Answer = (Vec<u8>, Progress, Result<(), ResponseError>);

fn in_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Answer, ResponseError> {
    let mut parser = ResponseParser::new();
    let mut body = Vec::new();
    for piece in pieces {
        parser.push(piece, &mut body)?;
    }
    Ok((body, parser.progress(), parser.eof()))
}

/// The body, if `bytes` begin with a complete chunked one.
fn naive_chunks(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = take_line(&mut bytes)?;
        if line.len() > CHUNK_LINE_BYTES_MAX {
            return None;
        }
        // As Latin-1, so that every byte is one character.
        let line = line.iter().map(|byte| char::from(*byte)).collect::<String>();
        let line = line.trim_end_matches('\n');
        let line = line.strip_suffix('\r').unwrap_or(line);
        let digits = line.split([' ', '\t', ';']).next()?;
        let hexadecimal = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
        // A CR inside of the line would have had to be its end.
        if !hexadecimal || line.contains('\r') {
            return None;
        }
        let size = u64::from_str_radix(digits, 16).ok()?;
        if size == 0 {
            let mut trailers = 0;
            loop {
                let line = take_line(&mut bytes)?;
                trailers += line.len();
                if trailers > RESPONSE_HEAD_BYTES_MAX {
                    return None;
                }
                if line.iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
                    return Some(body);
                }
            }
        }
        let (data, behind) = bytes.split_at_checked(usize::try_from(size).ok()?)?;
        body.extend_from_slice(data);
        bytes = behind.strip_prefix(b"\r\n").or_else(|| behind.strip_prefix(b"\n"))?;
    }
}

/// A line with its LF.
fn take_line<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, behind) = bytes.split_at(end + 1);
    *bytes = behind;
    Some(line)
}
