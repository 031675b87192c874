//! What heads of requests and of answers have in common: lines, and fields in them.

use std::ops::Range;

use crate::proto::swar::line_len;

/// The bytes of a head as they arrive, cut into lines. Each byte is looked at once, however the head
/// is cut into pieces (cases.md, 31).
#[derive(Debug)]
pub(in crate::proto) struct Lines {
    bytes: Vec<u8>,
    /// Where the line begins that is not complete yet; never beyond the end of `bytes`.
    line: usize,
    bytes_max: usize,
    #[cfg(test)]
    pub(super) examined: usize,
}

impl Lines {
    pub(in crate::proto) fn new(bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            line: 0,
            bytes_max,
            #[cfg(test)]
            examined: 0,
        }
    }

    /// Moves bytes of `input` here up to the end of a line. The line's range includes its LF; nothing
    /// means that all of `input` was taken and the line goes on.
    pub(in crate::proto) fn take(
        &mut self,
        input: &mut &[u8],
    ) -> Result<Option<Range<usize>>, TooLarge> {
        let room = &input[..input.len().min(self.bytes_max - self.bytes.len())];
        let (taken, ended) = line_with_lf(room);
        #[cfg(test)]
        {
            self.examined += taken;
        }
        self.bytes.extend_from_slice(&input[..taken]);
        *input = &input[taken..];
        if ended {
            let line = self.line..self.bytes.len();
            self.line = line.end;
            return Ok(Some(line));
        }
        if self.bytes.len() == self.bytes_max { Err(TooLarge) } else { Ok(None) }
    }

    /// The line that is not complete yet.
    pub(in crate::proto) fn partial(&self) -> &[u8] {
        &self.bytes[self.line..]
    }

    pub(in crate::proto) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(in crate::proto) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    pub(in crate::proto) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// How far the first line of `bytes` goes, and whether its LF is there.
fn line_with_lf(bytes: &[u8]) -> (usize, bool) {
    let mut len = 0;
    loop {
        len += line_len(&bytes[len..]);
        match bytes.get(len) {
            None => return (len, false),
            Some(b'\n') => return (len + 1, true),
            Some(_) => len += 1,
        }
    }
}

/// The head is not complete within its bound.
#[derive(Debug)]
pub(in crate::proto) struct TooLarge;

/// The fields of a complete head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::proto) struct Fields {
    /// The whole head.
    pub(in crate::proto) bytes: Vec<u8>,
    /// Where in it each field's name and value stand.
    pub(in crate::proto) places: Vec<(Range<usize>, Range<usize>)>,
}

impl Fields {
    /// The values of all fields of this name, whatever its case, in their order.
    pub(in crate::proto) fn all<'s>(&'s self, name: &str) -> impl Iterator<Item = &'s str> {
        self.places
            .iter()
            .filter(|(place, _)| self.bytes[place.clone()].eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, place)| self.text(place))
    }

    /// What stands at a place. What is not UTF-8 reads as U+FFFD: it is opaque to us and equal to
    /// nothing we look for.
    pub(in crate::proto) fn text(&self, place: &Range<usize>) -> &str {
        std::str::from_utf8(&self.bytes[place.clone()]).unwrap_or("\u{fffd}")
    }

    /// What stands at a place that has been checked to be ASCII.
    #[expect(clippy::expect_used, reason = "the parser has looked at each of its bytes")]
    pub(in crate::proto) fn ascii(&self, place: &Range<usize>) -> &str {
        std::str::from_utf8(&self.bytes[place.clone()]).expect("the parser has checked this place")
    }
}

/// Splits a field line without its line end at the colon (RFC 9112, section 5), the value without the
/// space around it.
pub(in crate::proto) fn split_field(
    line: &[u8],
) -> Result<(Range<usize>, Range<usize>), &'static str> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or("header line without a colon")?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if !is_token(name) {
        return Err("invalid header name");
    }
    // RFC 9110, section 5.5: of the control characters only the tab may stand in a value.
    if value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return Err("control character in a header value");
    }
    // Of white space only spaces and tabs are left.
    let before = value.len() - value.trim_ascii_start().len();
    let start = colon + 1 + before;
    Ok((0..colon, start..start + value.trim_ascii().len()))
}

/// Removes the optional white space around a value: spaces and tabs (RFC 9110, section 5.6.3).
pub(in crate::proto) fn trim_ows(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// Whether these bytes are a token (RFC 9110, section 5.6.2).
pub(in crate::proto) fn is_token(bytes: &[u8]) -> bool {
    let in_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(in_token)
}

/// Whether one of these values, each a list, has this element, whatever its case.
pub(in crate::proto) fn list_has<'a>(values: impl Iterator<Item = &'a str>, element: &str) -> bool {
    values
        .flat_map(|value| value.split(','))
        .any(|listed| trim_ows(listed).eq_ignore_ascii_case(element))
}
