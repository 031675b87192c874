//! Puts the chunks of a chat-completions stream together: text as it comes, tool calls whole.
//!
//! Tolerant of everything in cases-providers.md, "tool calls in the stream": unknown members,
//! events and finish reasons never fail an answer, an error always does. Knows no bytes below JSON
//! and no time.
//!
//! Invariant: what is held is bounded by the tally, whatever the server sends.

use super::calls::{Calls, Settled};
use crate::model::tally::{Excess, Tally};
use crate::proto::json::{Kind, Value};
use crate::proto::payload::Usage;

/// An answer being put together.
#[derive(Debug)]
pub(super) struct Assembler {
    calls: Calls,
    usage: Option<Usage>,
    tally: Tally,
    /// A finish reason came.
    finished: bool,
    /// Something of the answer itself came: text, thought, or part of a call.
    begun: bool,
}

/// Why an answer cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server said so; the JSON text of what it said.
    Said(String),
    /// It is too large.
    Excess(Excess),
}

/// How the bytes of an answer came to their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// With `[DONE]`, or with the end of a document.
    Told,
    /// They stopped.
    Cut,
}

/// An answer, whole.
#[derive(Debug, PartialEq)]
pub(super) struct Whole {
    /// In the order they were begun.
    pub(super) calls: Vec<Settled>,
    /// The last the server sent.
    pub(super) usage: Option<Usage>,
}

/// Why what came is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lacking {
    /// It had neither text nor calls nor a finish reason.
    Everything,
    /// It broke off; nothing of it may be executed.
    Ending,
}

impl Assembler {
    /// `tools` are the names the model was told of; `seed` makes ids for calls that come without.
    pub(super) fn new(tools: Box<[String]>, seed: u64) -> Assembler {
        Assembler {
            calls: Calls::new(tools, seed),
            usage: None,
            tally: Tally::default(),
            finished: false,
            begun: false,
        }
    }

    /// Whether a finish reason came.
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether something of the answer itself came.
    pub(super) fn is_begun(&self) -> bool {
        self.begun
    }

    /// Takes the JSON of one event, or of a whole answer, and adds its text to `text`. Whether it was
    /// of a kind that answers are made of; anything else is passed over.
    pub(super) fn take(&mut self, event: Value<'_>, text: &mut String) -> Result<bool, Fault> {
        match event.kind() {
            Kind::Object => self.take_chunk(event, text),
            Kind::String => Err(Fault::Said(event.raw().to_owned())),
            Kind::Array => {
                let mut known = false;
                for element in event.elements().into_iter().flatten() {
                    known |= self.take(element, text)?;
                }
                Ok(known)
            }
            Kind::Null | Kind::Bool | Kind::Number => Ok(false),
        }
    }

    /// The answer, now that nothing more comes. Whatever the finish reason was: the assembled calls
    /// decide what it is.
    pub(super) fn end(self, ending: Ending) -> Result<Whole, Lacking> {
        if !self.begun && !self.finished {
            return Err(Lacking::Everything);
        }
        if !self.finished && (ending == Ending::Cut || !self.calls.are_whole()) {
            return Err(Lacking::Ending);
        }
        Ok(Whole { calls: self.calls.settle(), usage: self.usage })
    }

    fn take_chunk(&mut self, chunk: Value<'_>, text: &mut String) -> Result<bool, Fault> {
        let (mut choices, mut counted) = (None, None);
        // What is an error in any case, and what is one where no answer stands.
        let (mut is_error, mut is_no_answer) = (false, false);
        for (key, value) in chunk.members().into_iter().flatten() {
            match &*key.to_str() {
                "choices" => choices = value.elements(),
                "error" => is_error |= says_something(value),
                "errors" | "detail" => is_no_answer |= says_something(value),
                "object" => is_no_answer |= value.as_str().is_some_and(|kind| kind == "error"),
                "usage" => counted = usage(value).or(counted),
                // Groq.
                "x_groq" => counted = member(value, "usage").and_then(usage).or(counted),
                _ => {}
            }
        }
        if is_error || is_no_answer && choices.is_none() {
            return Err(Fault::Said(chunk.raw().to_owned()));
        }
        let known = choices.is_some() || counted.is_some();
        self.usage = counted.or(self.usage);
        for choice in choices.into_iter().flatten() {
            self.take_choice(choice, text)?;
        }
        Ok(known)
    }

    fn take_choice(&mut self, choice: Value<'_>, text: &mut String) -> Result<(), Fault> {
        let mut delta = None;
        for (key, value) in choice.members().into_iter().flatten() {
            match &*key.to_str() {
                // We ask for one answer; further ones are somebody's `extra_body`.
                "index" if value.as_u64().is_some_and(|index| index > 0) => return Ok(()),
                "delta" | "message" if value.kind() == Kind::Object => delta = Some(value),
                "error" if says_something(value) => {
                    return Err(Fault::Said(value.raw().to_owned()));
                }
                "finish_reason" => match value.as_str().as_deref() {
                    Some("error") => return Err(Fault::Said(ENDED_IN_ERROR.to_owned())),
                    Some(reason) => self.finished |= !reason.is_empty(),
                    None => {}
                },
                // Moonshot.
                "usage" => self.usage = usage(value).or(self.usage),
                _ => {}
            }
        }
        delta.map_or(Ok(()), |delta| self.take_delta(delta, text))
    }

    fn take_delta(&mut self, delta: Value<'_>, text: &mut String) -> Result<(), Fault> {
        for (key, value) in delta.members().into_iter().flatten() {
            match &*key.to_str() {
                "content" | "refusal" => self.take_content(value, text)?,
                "reasoning" | "reasoning_content" => self.begun |= says_something(value),
                "tool_calls" => {
                    for call in value.elements().into_iter().flatten() {
                        self.begun = true;
                        self.calls.take(call, &mut self.tally).map_err(Fault::Excess)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Content is a string, or with some models an array of parts of which only those with a text
    /// are the answer; the others are thought.
    fn take_content(&mut self, content: Value<'_>, text: &mut String) -> Result<(), Fault> {
        if let Some(part) = content.as_str() {
            return self.add_text(&part, text);
        }
        for part in content.elements().into_iter().flatten() {
            match member(part, "text").and_then(Value::as_str) {
                Some(part) => self.add_text(&part, text)?,
                None => self.begun = true,
            }
        }
        Ok(())
    }

    fn add_text(&mut self, part: &str, text: &mut String) -> Result<(), Fault> {
        self.begun |= !part.is_empty();
        text.push_str(part);
        self.tally.add_bytes(part.len()).map_err(Fault::Excess)
    }
}

/// The first member of this name.
pub(super) fn member<'a>(object: Value<'a>, name: &str) -> Option<Value<'a>> {
    object.members()?.find(|(key, _)| key.is(name)).map(|(_, value)| value)
}

/// Said for a server that ends an answer in an error and says no more, as JSON.
const ENDED_IN_ERROR: &str = "\"the answer ended in an error\"";

/// Null, `""`, `false`, `{}` and `[]` are how servers say that there is nothing to say.
fn says_something(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::Null | Kind::Bool => value.as_bool() == Some(true),
        Kind::Number => true,
        Kind::String => value.raw() != "\"\"",
        Kind::Array => value.elements().is_some_and(|mut elements| elements.next().is_some()),
        Kind::Object => value.members().is_some_and(|mut members| members.next().is_some()),
    }
}

/// Counts may be spelled as floats; a member of another kind was not sent.
fn usage(value: Value<'_>) -> Option<Usage> {
    let number = |name: &str| {
        let raw = member(value, name)?.raw();
        raw.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
    };
    #[expect(clippy::cast_sign_loss, reason = "negative numbers were passed over")]
    let count = |name: &str| {
        member(value, name)?.as_u64().or_else(|| number(name).map(|number| number as u64))
    };
    let (prompt, completion) = (count("prompt_tokens"), count("completion_tokens"));
    (prompt.is_some() || completion.is_some()).then(|| Usage {
        prompt_tokens: prompt.unwrap_or(0),
        completion_tokens: completion.unwrap_or(0),
        cost: number("cost"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::STEP_BYTES_MAX;
    use crate::proto::json::Document;

    /// Everything the events bring, put together.
    fn assemble(events: &[&str], ending: Ending) -> (String, Result<Whole, Lacking>) {
        let mut assembler = Assembler::new(Box::default(), 0);
        let mut text = String::new();
        for event in events {
            let document = Document::parse_lossy(event.as_bytes()).unwrap();
            assembler.take(document.value(), &mut text).unwrap();
        }
        (text, assembler.end(ending))
    }

    fn usage_of(events: &[&str]) -> Option<Usage> {
        assemble(events, Ending::Told).1.unwrap().usage
    }

    const HI: &str = r#"{"choices":[{"delta":{"content":"hi"}}]}"#;
    const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;

    #[test]
    fn text_is_taken_from_wherever_it_stands() {
        for (event, text) in [
            (HI, "hi"),
            (r#"{"choices":[{"message":{"role":"assistant","content":"hi"}}]}"#, "hi"),
            (r#"{"choices":[{"delta":{"refusal":"no","content":null}}]}"#, "no"),
            (r#"{"choices":[{"delta":{"content":[{"type":"text","text":"hi"}]}}]}"#, "hi"),
            (r#"[{"choices":[{"delta":{"content":"hi"}}]}]"#, "hi"),
            (r#"{"choices":[{"delta":{"content":"\ud83d\ude00\ud800"}}]}"#, "😀\u{fffd}"),
            (r#"{"choices":[{"index":1,"delta":{"content":"other"}}]}"#, ""),
            (r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#, ""),
            (r#"{"choices":[{"delta":null}]}"#, ""),
            (r#"{"choices":[{}]}"#, ""),
            (r#"{"choices":[null,7]}"#, ""),
            (r#"{"choices":null}"#, ""),
            (r#"{"choices":[{"delta":{"content":7,"tool_calls":null}}]}"#, ""),
            (r#"{"type":"ping"}"#, ""),
            ("17", ""),
        ] {
            assert_eq!(assemble(&[event, STOP], Ending::Told).0, text, "{event}");
        }
    }

    #[test]
    fn an_error_is_one_wherever_it_stands() {
        for event in [
            r#"{"error":{"message":"boom"}}"#,
            r#"{"error":"boom","choices":[]}"#,
            r#"{"detail":[{"msg":"boom"}]}"#,
            r#"{"errors":["boom"]}"#,
            r#"{"object":"error","message":"boom"}"#,
            r#"{"choices":[{"error":{"message":"boom"},"delta":{"content":""}}]}"#,
            r#"{"choices":[{"error":"boom"}]}"#,
            r#"[{"error":{"message":"boom"}}]"#,
            r#""boom""#,
        ] {
            let mut assembler = Assembler::new(Box::default(), 0);
            let document = Document::parse_lossy(event.as_bytes()).unwrap();
            let fault = assembler.take(document.value(), &mut String::new()).unwrap_err();
            let Fault::Said(said) = fault else { panic!("{event}: {fault:?}") };
            assert!(said.contains("boom"), "{event}");
        }
        let mut assembler = Assembler::new(Box::default(), 0);
        let event = r#"{"choices":[{"delta":{"content":"hi"},"finish_reason":"error"}]}"#;
        let document = Document::parse(event.as_bytes()).unwrap();
        let fault = assembler.take(document.value(), &mut String::new());
        assert_eq!(fault, Err(Fault::Said(ENDED_IN_ERROR.into())));
    }

    #[test]
    fn an_error_that_says_nothing_is_none() {
        for event in [
            r#"{"error":null,"object":"x","choices":[]}"#,
            r#"{"error":{},"choices":[]}"#,
            r#"{"error":"","detail":"some detail of the answer","choices":[]}"#,
        ] {
            assert_eq!(assemble(&[event, HI], Ending::Told).0, "hi", "{event}");
        }
    }

    #[test]
    fn the_last_usage_counts_in_every_spelling() {
        let of = |prompt_tokens, completion_tokens, cost| {
            Some(Usage { prompt_tokens, completion_tokens, cost })
        };
        let first = r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
        for (event, expected) in [
            (r#"{"usage":null}"#, of(1, 1, None)),
            (r#"{"usage":{}}"#, of(1, 1, None)),
            (r#"{"usage":{"prompt_tokens":5}}"#, of(5, 0, None)),
            (
                r#"{"usage":{"prompt_tokens":5.0,"completion_tokens":2e1,"cost":0.25}}"#,
                of(5, 20, Some(0.25)),
            ),
            (r#"{"usage":{"prompt_tokens":5,"completion_tokens":-1,"cost":null}}"#, of(5, 0, None)),
            (r#"{"x_groq":{"usage":{"prompt_tokens":3,"completion_tokens":4}}}"#, of(3, 4, None)),
        ] {
            assert_eq!(usage_of(&[HI, first, event]), expected, "{event}");
        }
        assert_eq!(usage_of(&[HI]), None);
    }

    #[test]
    fn how_it_ended_decides_whether_it_is_an_answer() {
        const CALL: &str = r#"{"choices":[{"delta":{"tool_calls":[
            {"index":0,"id":"1","function":{"name":"f","arguments":"{"}}]}}]}"#;
        const REST: &str = r#"{"choices":[{"delta":{"tool_calls":[
            {"index":0,"function":{"arguments":"}"}}]}}]}"#;
        const THOUGHT: &str = r#"{"choices":[{"delta":{"reasoning":"hm"}}]}"#;
        const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":1}}"#;
        use Ending::{Cut, Told};
        for (events, ending, expected) in [
            (&[HI, STOP][..], Told, Ok(0)),
            (&[HI, STOP], Cut, Ok(0)),
            (&[HI], Told, Ok(0)),
            (&[HI], Cut, Err(Lacking::Ending)),
            (&[THOUGHT], Told, Ok(0)),
            (&[THOUGHT], Cut, Err(Lacking::Ending)),
            (&[STOP], Told, Ok(0)),
            (&[], Told, Err(Lacking::Everything)),
            (&[], Cut, Err(Lacking::Everything)),
            (&[USAGE], Told, Err(Lacking::Everything)),
            (&[CALL, REST, STOP], Told, Ok(1)),
            (&[CALL, REST], Told, Ok(1)),
            (&[CALL, REST], Cut, Err(Lacking::Ending)),
            (&[CALL], Told, Err(Lacking::Ending)),
            // The server says that it is done: the call is there, its arguments are not.
            (&[CALL, STOP], Told, Ok(1)),
        ] {
            let found = assemble(events, ending).1.map(|whole| whole.calls.len());
            assert_eq!(found, expected, "{events:?} {ending:?}");
        }
    }

    #[test]
    fn text_over_the_bound_is_an_error() {
        let mut assembler = Assembler::new(Box::default(), 0);
        let half = "x".repeat(STEP_BYTES_MAX / 2);
        let event = format!(r#"{{"choices":[{{"delta":{{"content":"{half}"}}}}]}}"#);
        let mut take = || {
            let document = Document::parse_lossy(event.as_bytes()).unwrap();
            assembler.take(document.value(), &mut String::new())
        };
        assert_eq!((take(), take()), (Ok(true), Ok(true)));
        assert_eq!(take(), Err(Fault::Excess(Excess::Bytes)));
    }
}
