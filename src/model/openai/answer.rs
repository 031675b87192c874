//! The body of a successful answer, from its bytes to its text and calls: a stream of events, or one
//! JSON document from a server that does not stream (cases-providers.md, 12 to 18 and 24 to 26).
//!
//! Which of the two it is shows in its first bytes; servers put anything into `Content-Type`.
//! Knows no HTTP and no time.
//!
//! Invariant: what comes out does not depend on how the bytes were cut.

use super::delta::{Assembler, Ending, Fault, Lacking, Whole};
use crate::limits::WHOLE_ANSWER_BYTES_MAX;
use crate::model::refusal;
use crate::model::retry::Trouble;
use crate::proto::json::{Document, What};
use crate::proto::sse::{self, Event};

/// A body being read.
#[derive(Debug)]
pub(super) struct Answer {
    form: Form,
    content: Content,
}

#[derive(Debug)]
enum Form {
    /// Its first bytes, as long as they tell nothing.
    Unknown(Vec<u8>),
    /// Server-sent events.
    Events(sse::Decoder),
    /// One document: a whole answer, or an error of any form.
    Document(Vec<u8>),
}

#[derive(Debug)]
struct Content {
    assembler: Assembler,
    /// `[DONE]` came; what follows means nothing.
    done: bool,
    /// The first thing that was neither JSON nor an error; quoted if the answer lacks something. At
    /// most a line of the stream.
    noise: Option<String>,
}

/// What some bytes brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// One text a delta, none of them empty.
    pub(super) texts: Vec<String>,
    /// There was an event of the answer: no comment, no ping, nothing unknown.
    pub(super) progress: bool,
    /// Something of the answer itself has come: text, thought, or part of a call.
    pub(super) begun: bool,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spoilt {
    /// `Empty`, `Lost` for an answer that broke off, `Final` for all else.
    pub(super) trouble: Trouble,
    /// In one line; may quote the server's errors at any length, but nothing of an answer.
    pub(super) reason: String,
    /// The server said that the history was too long for the model.
    pub(super) context_exceeded: bool,
}

impl Answer {
    pub(super) fn new(assembler: Assembler) -> Answer {
        let content = Content { assembler, done: false, noise: None };
        Answer { form: Form::Unknown(Vec::new()), content }
    }

    /// Whether `[DONE]` came.
    pub(super) fn is_done(&self) -> bool {
        self.content.done
    }

    /// Whether a finish reason came.
    pub(super) fn is_finished(&self) -> bool {
        self.content.assembler.is_finished()
    }

    /// Takes the next bytes. After an error nothing more may be given.
    pub(super) fn push(&mut self, bytes: &[u8], heard: &mut Heard) -> Result<(), Spoilt> {
        match &mut self.form {
            Form::Unknown(held) => {
                held.extend_from_slice(bytes);
                let Some(form) = form_of(held) else { return Ok(()) };
                let held = std::mem::take(held);
                self.form = form;
                self.push(&held, heard)
            }
            Form::Document(held) if held.len() + bytes.len() > WHOLE_ANSWER_BYTES_MAX => {
                let reason =
                    format!("the provider's answer is over {WHOLE_ANSWER_BYTES_MAX} bytes");
                Err(Spoilt::last(reason))
            }
            Form::Document(held) => {
                held.extend_from_slice(bytes);
                Ok(())
            }
            Form::Events(decoder) => {
                let content = &mut self.content;
                let mut result = Ok(());
                let cut = decoder.push(bytes, |event| {
                    if result.is_ok() {
                        result = content.take_event(event, heard);
                    }
                });
                result.and(content.unless_too_long(cut))
            }
        }
    }

    /// The answer, now that its bytes have ended, or stopped.
    pub(super) fn end(mut self, heard: &mut Heard) -> Result<Whole, Spoilt> {
        let ending = match self.form {
            Form::Events(mut decoder) => {
                let content = &mut self.content;
                let mut result = Ok(());
                let cut = decoder.finish(|event| {
                    if result.is_ok() {
                        result = content.take_last_event(event, heard);
                    }
                });
                result.and(content.unless_too_long(cut))?;
                if self.content.done { Ending::Told } else { Ending::Cut }
            }
            Form::Unknown(held) | Form::Document(held) => {
                self.content.take_document(held.trim_ascii(), heard)?
            }
        };
        self.content.end(ending)
    }
}

impl Content {
    fn take_event(&mut self, event: Event<'_>, heard: &mut Heard) -> Result<(), Spoilt> {
        match event {
            _ if self.done => Ok(()),
            Event::Comment | Event::Message { name: "ping", .. } => Ok(()),
            Event::Error(data) | Event::Message { name: "error", data } => {
                Err(Spoilt::said(data.as_bytes()))
            }
            Event::Message { data, .. } => self.take_data(data.trim(), heard),
            Event::Stray(line) => {
                self.noise.get_or_insert_with(|| line.to_owned());
                Ok(())
            }
        }
    }

    /// As [`Content::take_event`], for what nothing ended: JSON that breaks off there was cut.
    fn take_last_event(&mut self, event: Event<'_>, heard: &mut Heard) -> Result<(), Spoilt> {
        match event {
            Event::Message { data, .. } if !self.done && breaks_off(data.as_bytes()) => Ok(()),
            event => self.take_event(event, heard),
        }
    }

    fn take_data(&mut self, data: &str, heard: &mut Heard) -> Result<(), Spoilt> {
        match data {
            "" => return Ok(()),
            "[DONE]" => {
                self.done = true;
                return Ok(());
            }
            _ => {}
        }
        match Document::parse_lossy(data.as_bytes()) {
            Ok(document) => self.take_json(document, heard).map(drop),
            // Events without an empty line between them.
            Err(_) if data.contains('\n') => {
                data.lines().try_for_each(|line| self.take_data(line.trim(), heard))
            }
            Err(fault) if data.starts_with(['{', '[']) => {
                Err(Spoilt::last(format!("the provider sent an event that is not JSON: {fault}")))
            }
            Err(_) => {
                self.noise.get_or_insert_with(|| data.to_owned());
                Ok(())
            }
        }
    }

    /// Whether it was something of an answer.
    fn take_json(&mut self, document: Document<'_>, heard: &mut Heard) -> Result<bool, Spoilt> {
        let mut text = String::new();
        let taken = self.assembler.take(document.value(), &mut text);
        heard.begun |= self.assembler.is_begun();
        if !text.is_empty() {
            heard.texts.push(text);
        }
        let known = taken.map_err(|fault| match fault {
            Fault::Said(json) => Spoilt::said(json.as_bytes()),
            Fault::Excess(excess) => Spoilt::last(excess.to_string()),
        })?;
        heard.progress |= known;
        Ok(known)
    }

    fn take_document(&mut self, held: &[u8], heard: &mut Heard) -> Result<Ending, Spoilt> {
        if held.is_empty() {
            return Ok(Ending::Cut);
        }
        let text = String::from_utf8_lossy(held);
        match Document::parse_lossy(text.as_bytes()) {
            Ok(document) if self.take_json(document, heard)? => Ok(Ending::Told),
            // Nothing of it has been passed on.
            Err(_) if breaks_off(text.as_bytes()) => Err(Spoilt::lost("")),
            // Neither an answer nor its beginning: an error, in whatever words.
            _ => Err(Spoilt::said(held)),
        }
    }

    fn end(self, ending: Ending) -> Result<Whole, Spoilt> {
        let noise = self.noise.unwrap_or_default();
        self.assembler.end(ending).map_err(|lacking| match lacking {
            Lacking::Everything => {
                let reason = quoting("the provider's answer was empty", &noise);
                Spoilt { trouble: Trouble::Empty, ..Spoilt::last(reason) }
            }
            Lacking::Ending => Spoilt::lost(&noise),
        })
    }

    fn unless_too_long(&self, cut: Result<(), sse::LineTooLong>) -> Result<(), Spoilt> {
        match cut {
            Err(too_long) if !self.done => Err(Spoilt::last(too_long.to_string())),
            _ => Ok(()),
        }
    }
}

impl Spoilt {
    fn last(reason: String) -> Spoilt {
        Spoilt { trouble: Trouble::Final, reason, context_exceeded: false }
    }

    fn lost(noise: &str) -> Spoilt {
        let reason = quoting("the provider's answer broke off", noise);
        Spoilt { trouble: Trouble::Lost, ..Spoilt::last(reason) }
    }

    /// An error, whole as the server sent it.
    fn said(error: &[u8]) -> Spoilt {
        let context_exceeded = refusal::names_context(&String::from_utf8_lossy(error));
        let reason = match refusal::said(error) {
            said if said.is_empty() => quoting(
                "the provider sent an error without a word",
                &String::from_utf8_lossy(error),
            ),
            said => format!("the provider said: {said}"),
        };
        Spoilt { context_exceeded, ..Spoilt::last(reason) }
    }
}

fn quoting(what: &str, noise: &str) -> String {
    match refusal::one_line(noise) {
        line if line.is_empty() => what.to_owned(),
        line => format!("{what}: {line}"),
    }
}

/// What a body is by its first bytes, without the space and the byte order marks before them;
/// nothing as long as they may still be either. The first line of a stream is a field or a comment.
fn form_of(held: &mut Vec<u8>) -> Option<Form> {
    const BEGINNINGS: [&[u8]; 6] = [b":", b"data:", b"event:", b"id:", b"retry:", b"error:"];
    let mut begin = held.trim_ascii_start();
    while let Some(behind) = begin.strip_prefix(BYTE_ORDER_MARK) {
        begin = behind.trim_ascii_start();
    }
    let skipped = held.len() - begin.len();
    held.drain(..skipped);
    if BEGINNINGS.iter().any(|beginning| held.starts_with(beginning)) {
        return Some(Form::Events(sse::Decoder::new()));
    }
    let undecided = BYTE_ORDER_MARK.starts_with(held)
        || BEGINNINGS.iter().any(|beginning| beginning.starts_with(held));
    (!undecided).then(|| Form::Document(Vec::new()))
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Whether a text is the beginning of JSON and no more.
fn breaks_off(text: &[u8]) -> bool {
    let json = text.trim_ascii_start();
    (json.starts_with(b"{") || json.starts_with(b"["))
        && Document::parse_lossy(json).is_err_and(|fault| fault.what == What::End)
}
