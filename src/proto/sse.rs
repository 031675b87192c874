//! Server-sent events (WHATWG HTML, section 9.2), as providers stream their answers in.
//!
//! Lines are cut as bytes and decoded whole, so that a character cut between two reads is no fault
//! (cases-providers.md, 25). What an event means, and whether a stream was cut off, is not known here.
//! On top of the standard, what providers send in its place is told apart: a field named `error`,
//! comments inside of data, and lines that are no field at all, such as a JSON body where a stream was
//! asked for (cases-providers.md, 15, 16, 18, 24).
//!
//! Invariant: what is kept of an unfinished line and of an unfinished event is bounded, each by
//! [`SSE_LINE_BYTES_MAX`].

use std::fmt;

use super::swar::line_len;
use crate::limits::SSE_LINE_BYTES_MAX;

/// What a stream holds. Bytes that are not UTF-8 read as U+FFFD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// One event, at the empty line that ends it.
    Message {
        /// Its `event` field, `message` unless it says otherwise.
        name: &'a str,
        /// Its `data` fields, joined by LF. Empty only if such a field was there and empty, or if the
        /// event is named `error`, which means something without data too.
        data: &'a str,
    },
    /// A comment line: the server lives, and nothing more (cases-providers.md, 20).
    Comment,
    /// A field named `error`, at once.
    Error(&'a str),
    /// A line that is no field of an event stream, at once and whole.
    Stray(&'a str),
}

/// Cuts a stream into events, from bytes that come in any pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The line that is not complete yet, without its end.
    line: Vec<u8>,
    /// The last byte was a CR, which an LF may complete.
    after_cr: bool,
    /// A line was complete, so that no byte order mark can come any more.
    begun: bool,
    name: String,
    /// Nothing before the event's first `data` field.
    data: Option<String>,
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and emits what they complete.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        mut emit: impl FnMut(Event<'_>),
    ) -> Result<(), LineTooLong> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        loop {
            let (part, end) = bytes.split_at(line_len(bytes));
            if self.line.len() + part.len() > SSE_LINE_BYTES_MAX {
                return Err(LineTooLong);
            }
            bytes = match end {
                [] => {
                    self.line.extend_from_slice(part);
                    return Ok(());
                }
                [b'\r', b'\n', behind @ ..] | [_, behind @ ..] => behind,
            };
            self.after_cr = end == b"\r";
            // Most lines come whole and are read where they are.
            if self.line.is_empty() {
                self.end_line(part, &mut emit)?;
            } else {
                self.line.extend_from_slice(part);
                let line = std::mem::take(&mut self.line);
                self.end_line(&line, &mut emit)?;
            }
        }
    }

    /// The stream has ended: emits what its last line and event hold, though nothing ended them. The
    /// standard would drop them; a provider that omits the last line end has still said something.
    pub fn finish(&mut self, mut emit: impl FnMut(Event<'_>)) -> Result<(), LineTooLong> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.end_line(&line, &mut emit)?;
        }
        self.dispatch(&mut emit);
        *self = Self::default();
        Ok(())
    }

    fn end_line(
        &mut self,
        line: &[u8],
        emit: &mut impl FnMut(Event<'_>),
    ) -> Result<(), LineTooLong> {
        let line =
            if self.begun { line } else { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) };
        self.begun = true;
        if line.is_empty() {
            self.dispatch(emit);
            return Ok(());
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => emit(Event::Comment),
            // A proxy has wrapped a comment. No JSON begins with a colon.
            "data" if self.data.is_none() && value.starts_with(':') => emit(Event::Comment),
            "data" => self.add_data(value)?,
            "event" => value.clone_into(&mut self.name),
            // What they are for, reconnecting, is not for answers.
            "id" | "retry" => {}
            "error" => emit(Event::Error(value)),
            _ => emit(Event::Stray(&line)),
        }
        Ok(())
    }

    fn add_data(&mut self, value: &str) -> Result<(), LineTooLong> {
        let len = self.data.as_ref().map_or(0, |data| data.len() + 1);
        if len + value.len() > SSE_LINE_BYTES_MAX {
            return Err(LineTooLong);
        }
        match &mut self.data {
            None => self.data = Some(value.to_owned()),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
        }
        Ok(())
    }

    fn dispatch(&mut self, emit: &mut impl FnMut(Event<'_>)) {
        let name = std::mem::take(&mut self.name);
        let data = self.data.take();
        if data.is_some() || name == "error" {
            let name = if name.is_empty() { "message" } else { &name };
            emit(Event::Message { name, data: data.as_deref().unwrap_or("") });
        }
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line, or the data of one event, is longer than [`SSE_LINE_BYTES_MAX`]. The decoder is of no more
/// use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong;

impl fmt::Display for LineTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a line or event of the stream is longer than {SSE_LINE_BYTES_MAX} bytes")
    }
}

impl std::error::Error for LineTooLong {}

/// The body of the fuzz target for event streams.
#[cfg(any(test, fuzzing))]
pub mod fuzz {
    use super::{Decoder, Event};

    /// Agrees with the naive decoder, and is the same in two pieces and byte by byte. The first byte
    /// decides where the two pieces part. Inputs are shorter than the bounds.
    pub fn stream(bytes: &[u8]) {
        let Some((&cut, bytes)) = bytes.split_first() else { return };
        let whole = in_pieces([bytes]);
        assert_eq!(whole, naive(bytes));
        let cut = usize::from(cut).min(bytes.len());
        assert_eq!(in_pieces([&bytes[..cut], &bytes[cut..]]), whole);
        assert_eq!(in_pieces(bytes.chunks(1)), whole);
    }

    /// Events as text, one string each.
    pub(super) fn in_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut events = Vec::new();
        let mut emit = |event: Event<'_>| {
            events.push(match event {
                Event::Message { name, data } => format!("{name}={data}"),
                Event::Comment => ":".to_owned(),
                Event::Error(text) => format!("error:{text}"),
                Event::Stray(line) => format!("?{line}"),
            });
        };
        let mut decoder = Decoder::new();
        for piece in pieces {
            decoder.push(piece, &mut emit).expect("shorter than the bounds");
        }
        decoder.finish(&mut emit).expect("shorter than the bounds");
        events
    }

    /// Makes every line end an LF first, then decodes all of the text and looks at each line once.
    fn naive(bytes: &[u8]) -> Vec<String> {
        // Latin-1 keeps every byte one character, so that text replacement is byte replacement.
        let latin: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        let latin = latin.replace("\r\n", "\n").replace('\r', "\n");
        let bytes: Vec<u8> = latin.chars().map(|c| c as u8).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut events = Vec::new();
        let (mut name, mut data) = ("", Vec::new());
        // The last empty line is the one that `finish` supplies.
        for line in text.lines().chain([""]) {
            let value = |prefix: &str| {
                let value = line.strip_prefix(prefix)?;
                value
                    .strip_prefix(": ")
                    .or_else(|| value.strip_prefix(':'))
                    .or((value.is_empty()).then_some(""))
            };
            if line.is_empty() {
                if !data.is_empty() || name == "error" {
                    let name = if name.is_empty() { "message" } else { name };
                    events.push(format!("{name}={}", data.join("\n")));
                }
                (name, data) = ("", Vec::new());
            } else if line.starts_with(':') {
                events.push(":".to_owned());
            } else if let Some(value) = value("data") {
                if data.is_empty() && value.starts_with(':') {
                    events.push(":".to_owned());
                } else {
                    data.push(value);
                }
            } else if let Some(value) = value("event") {
                name = value;
            } else if let Some(value) = value("error") {
                events.push(format!("error:{value}"));
            } else if value("id").is_none() && value("retry").is_none() {
                events.push(format!("?{line}"));
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::fuzz::in_pieces;
    use super::*;

    #[test]
    fn what_providers_send_is_read_whole_cut_anywhere_and_byte_by_byte() {
        for (stream, events) in [
            ("", &[][..]),
            ("data: {\"a\":1}\n\ndata: [DONE]\n\n", &["message={\"a\":1}", "message=[DONE]"]),
            ("data:{}\r\n\r\n", &["message={}"]),
            ("data:  two spaces \n\n", &["message= two spaces "]),
            ("data: a\rdata: b\r\rdata: c\n\r\n", &["message=a\nb", "message=c"]),
            ("data\n\n", &["message="]),
            ("data\ndata:\ndata: x\n\n", &["message=\n\nx"]),
            (": ping\n\n:\n\n", &[":", ":"]),
            ("data: : OPENROUTER PROCESSING\n\ndata: x\n\n", &[":", "message=x"]),
            ("data: {\ndata: : 1}\n\n", &["message={\n: 1}"]),
            ("event: error\ndata: {\"message\":\"no\"}\n\n", &["error={\"message\":\"no\"}"]),
            ("event: error\n\n", &["error="]),
            ("event: ping\n\ndata: x\n\n", &["message=x"]),
            ("event: a\nevent: b\ndata: x\n\n", &["b=x"]),
            ("error: {\"code\":500}\n\n", &["error:{\"code\":500}"]),
            ("id: 7\nretry: 10\ndata: x\n\n", &["message=x"]),
            ("{\"error\":\"no\"}", &["?{\"error\":\"no\"}"]),
            ("<html>\n<body>\n", &["?<html>", "?<body>"]),
            ("Data: x\n data: y\n\n", &["?Data: x", "? data: y"]),
            ("\u{feff}data: x\n\n\u{feff}data: y\n\n", &["message=x", "?\u{feff}data: y"]),
            ("data: ä😀\n\n", &["message=ä😀"]),
            ("data: a\0b\u{2028}c\n\n", &["message=a\0b\u{2028}c"]),
            // Nothing ends the last event, or not even the last line.
            ("data: x\n\ndata: y\n", &["message=x", "message=y"]),
            ("data: x\n\ndata: y", &["message=x", "message=y"]),
            ("data: x\r\n\r", &["message=x"]),
        ] {
            let bytes = stream.as_bytes();
            assert_eq!(in_pieces([bytes]), events, "{stream:?}");
            for cut in 0..=bytes.len() {
                let (before, behind) = bytes.split_at(cut);
                assert_eq!(in_pieces([before, behind]), events, "{stream:?} cut at {cut}");
                assert_eq!(in_pieces([before, b"", behind]), events);
            }
            assert_eq!(in_pieces(bytes.chunks(1)), events);
        }
    }

    #[test]
    fn an_event_is_emitted_as_soon_as_its_empty_line_has_come() {
        let mut decoder = Decoder::new();
        let mut emitted = 0;
        for (bytes, expected) in
            [(&b"data: x\r\n"[..], 0), (b"\r", 1), (b"\ndata: y\r\r", 2), (b"data: z\n\n", 3)]
        {
            decoder.push(bytes, |_| emitted += 1).expect("short");
            assert_eq!(emitted, expected);
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_replaced() {
        assert_eq!(in_pieces([&b"data: a\xffb\xe4\n\n"[..]]), ["message=a\u{fffd}b\u{fffd}"]);
    }

    #[test]
    fn a_line_of_1_mib_is_accepted_and_one_byte_more_is_not() {
        let line = |len: usize| format!("data: {}", "x".repeat(len - "data: ".len()));
        for pieces in [1, 1000] {
            let mut decoder = Decoder::new();
            let mut longest = 0;
            let fits = line(1 << 20) + "\n\n" + &line(1 << 20) + "\n\n";
            for piece in fits.as_bytes().chunks(fits.len() / pieces) {
                let emit = |event: Event<'_>| {
                    let Event::Message { data, .. } = event else { panic!("{event:?}") };
                    longest = longest.max(data.len());
                };
                decoder.push(piece, emit).expect("1 MiB");
            }
            assert_eq!(longest, (1 << 20) - 6);
        }
        assert_eq!(Decoder::new().push(line((1 << 20) + 1).as_bytes(), |_| ()), Err(LineTooLong));
        let ended = line((1 << 20) + 1) + "\n";
        assert_eq!(Decoder::new().push(ended.as_bytes(), |_| ()), Err(LineTooLong));
    }

    #[test]
    fn an_event_of_many_lines_is_bounded_too() {
        let mut decoder = Decoder::new();
        let line = format!("data: {}\n", "x".repeat(1023));
        for _ in 0..1024 {
            decoder.push(line.as_bytes(), |_| ()).expect("1024 lines with an LF between them");
        }
        assert_eq!(decoder.push(b"data\n", |_| ()), Ok(()), "an LF more is 1 MiB");
        assert_eq!(decoder.push(b"data\n", |_| ()), Err(LineTooLong));
    }
}
