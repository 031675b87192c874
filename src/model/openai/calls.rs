//! Tool calls put together from pieces that servers number, name and repeat as they please
//! (cases-providers.md, 1 to 8 and 10).
//!
//! Invariant: the work is linear in what comes, however it is cut.

use std::borrow::Cow;

use super::delta::member;
use crate::agent::RawCall;
use crate::model::args;
use crate::model::retry::mix;
use crate::model::tally::{Excess, Tally};
use crate::proto::json::{self, Kind, Value, What};

/// The calls of one answer.
#[derive(Debug)]
pub(super) struct Calls {
    /// In the order they were begun; their indices may have gaps and repeat.
    begun: Vec<Begun>,
    tools: Box<[String]>,
    seed: u64,
}

/// A call, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settled {
    /// The call.
    pub(super) call: RawCall,
    /// The members that are not ours to know, as JSON with commas between them; mostly empty.
    pub(super) members: String,
}

/// A call that has begun.
#[derive(Debug, Default)]
struct Begun {
    index: Option<u64>,
    /// Empty until the server sends one.
    id: String,
    name: String,
    /// All pieces of the name joined, while that may still become a tool's name.
    joined: Option<String>,
    args: String,
    depth: Depth,
    /// The arguments hold an escape that denotes no Unicode string.
    lone_surrogate: bool,
    /// Members we do not know, by key; the last of a key counts.
    members: Vec<(String, String)>,
}

/// One element of `tool_calls`, taken apart.
#[derive(Default)]
struct Piece<'a> {
    index: Option<u64>,
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    args: Option<Value<'a>>,
    members: Vec<(String, String)>,
}

impl Calls {
    /// `tools` are the names the model was told of; `seed` makes ids for calls that come without.
    pub(super) fn new(tools: Box<[String]>, seed: u64) -> Calls {
        Calls { begun: Vec::new(), tools, seed }
    }

    /// Takes one element of `tool_calls`; what is no object is passed over.
    pub(super) fn take(&mut self, element: Value<'_>, tally: &mut Tally) -> Result<(), Excess> {
        if element.kind() != Kind::Object {
            return Ok(());
        }
        let piece = Piece::of(element);
        let at = match self.place(&piece) {
            Some(at) => at,
            None => {
                tally.add_call()?;
                self.begun.push(Begun { index: piece.index, ..Begun::default() });
                self.begun.len() - 1
            }
        };
        let call = &mut self.begun[at];
        if call.id.is_empty() {
            tally.add_bytes(piece.id.len())?;
            call.id = piece.id.into_owned();
        }
        call.name(&piece.name, &self.tools, tally)?;
        for (key, raw) in piece.members {
            tally.add_bytes(key.len() + raw.len())?;
            call.members.retain(|(known, _)| *known != key);
            if call.members.len() < MEMBERS_MAX {
                call.members.push((key, raw));
            }
        }
        piece.args.map_or(Ok(()), |sent| call.args(sent, tally))
    }

    /// Whether the arguments of every call are whole: nothing, or one JSON document.
    pub(super) fn are_whole(&self) -> bool {
        let whole = |args: &str| args.is_empty() || json::check(once(args).as_bytes()).is_ok();
        self.begun.iter().all(|call| whole(&call.args))
    }

    /// The calls in the order they were begun, each with an id.
    pub(super) fn settle(self) -> Vec<Settled> {
        let seed = self.seed;
        self.begun.into_iter().enumerate().map(|(at, call)| call.settle(seed, at as u64)).collect()
    }

    /// Which call a piece continues; none when it begins one.
    fn place(&self, piece: &Piece<'_>) -> Option<usize> {
        // Without an index every call is a candidate.
        let numbered = |call: &Begun| piece.index.is_none() || call.index == piece.index;
        let newest = self.begun.iter().rposition(numbered)?;
        let at = if piece.id.is_empty() || self.begun[newest].id.is_empty() {
            newest
        } else {
            self.begun.iter().rposition(|call| numbered(call) && call.id == piece.id)?
        };
        (!self.is_over(&self.begun[at], piece)).then_some(at)
    }

    /// Whether a call that a piece's index or id points at is over, so that the piece is of another
    /// one: its name is another, or nothing but the order tells two calls apart.
    fn is_over(&self, call: &Begun, piece: &Piece<'_>) -> bool {
        let whole = call.depth.closed;
        if !piece.name.is_empty() && piece.name != call.name {
            return match piece.index {
                // With an index the name may be split or repaired; another tool's name after
                // whole arguments is neither.
                Some(_) => whole && self.tools.contains(&piece.name.as_ref().to_owned()),
                None => !call.name.is_empty() && !self.may_join(call, &piece.name),
            };
        }
        let announced = !piece.name.is_empty() || !piece.id.is_empty();
        let told_apart = piece.index.is_some() || !piece.id.is_empty() && call.id == piece.id;
        whole && announced && !told_apart
    }

    /// Whether a further piece of a name may still lead to a tool's.
    fn may_join(&self, call: &Begun, more: &str) -> bool {
        let Some(joined) = &call.joined else { return false };
        let joined = format!("{joined}{more}");
        call.args.is_empty() && self.tools.iter().any(|tool| tool.starts_with(&joined))
    }
}

impl<'a> Piece<'a> {
    fn of(element: Value<'a>) -> Piece<'a> {
        let mut piece = Piece::default();
        for (key, value) in element.members().into_iter().flatten() {
            match &*key.to_str() {
                "index" => piece.index = index(value),
                "id" => piece.id = value.as_str().unwrap_or_default(),
                "type" => {}
                "function" => {
                    piece.name = member(value, "name").and_then(Value::as_str).unwrap_or_default();
                    piece.args = member(value, "arguments").filter(|value| !value.is_null());
                }
                key if piece.members.len() < MEMBERS_MAX => {
                    piece.members.push((key.to_owned(), value.raw().to_owned()));
                }
                _ => {}
            }
        }
        piece
    }
}

impl Begun {
    /// A name is set once. Repeated it changes nothing; split over pieces it is their join, if that
    /// is a tool's name.
    fn name(&mut self, piece: &str, tools: &[String], tally: &mut Tally) -> Result<(), Excess> {
        if piece.is_empty() {
            return Ok(());
        }
        if self.name.is_empty() {
            tally.add_bytes(piece.len())?;
            piece.clone_into(&mut self.name);
            self.joined = Some(piece.to_owned());
            return Ok(());
        }
        let joined = self.joined.take().map(|joined| joined + piece);
        self.joined = joined.filter(|joined| tools.iter().any(|tool| tool.starts_with(joined)));
        if let Some(joined) = self.joined.as_ref().filter(|joined| tools.contains(joined)) {
            joined.clone_into(&mut self.name);
        }
        Ok(())
    }

    /// A string is a piece of the arguments, any other value is all of them.
    fn args(&mut self, sent: Value<'_>, tally: &mut Tally) -> Result<(), Excess> {
        let piece = match sent.as_str() {
            Some(piece) => {
                self.lone_surrogate |= json::check(sent.raw().as_bytes()).is_err();
                piece
            }
            None => {
                self.args.clear();
                self.depth = Depth::default();
                Cow::Borrowed(sent.raw())
            }
        };
        tally.add_bytes(piece.len())?;
        self.depth.push(&piece);
        self.args.push_str(&piece);
        Ok(())
    }

    fn settle(self, seed: u64, at: u64) -> Settled {
        let id = if self.id.is_empty() { format!("call_{:016x}", mix(seed, at)) } else { self.id };
        let args = if self.lone_surrogate {
            Err(args::beginning(&self.args))
        } else {
            args::settle(once(&self.args))
        };
        let members: Vec<String> =
            self.members.iter().map(|(key, raw)| format!("{}:{raw}", quoted(key))).collect();
        Settled { call: RawCall { id, name: self.name, args }, members: members.join(",") }
    }
}

/// How deep the end of some JSON lies, found as it comes. Trusts nothing: it only tells whether the
/// brackets were closed, never whether the text is JSON.
#[derive(Debug, Default)]
struct Depth {
    open: usize,
    in_string: bool,
    escaped: bool,
    /// A bracket closed the outermost level.
    closed: bool,
}

impl Depth {
    fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.open += 1,
                b'}' | b']' => {
                    self.open = self.open.saturating_sub(1);
                    self.closed |= self.open == 0;
                }
                _ => {}
            }
        }
    }
}

/// Members of one call that are kept; servers send one or two.
const MEMBERS_MAX: usize = 16;

/// Some servers send the index as a string.
fn index(value: Value<'_>) -> Option<u64> {
    match value.kind() {
        Kind::String => value.as_str()?.parse().ok(),
        _ => value.as_u64(),
    }
}

/// An object sent several times in full is the first of them, if all are equal but for the white
/// space between tokens; anything else is left as it is, and no JSON object.
fn once(sent: &str) -> &str {
    let first = match json::check(sent.as_bytes()) {
        Err(fault) if fault.what == What::Trailing => &sent[..fault.at],
        _ => return sent,
    };
    let (wanted, all) = (compact(first), compact(sent));
    let repeats = wanted.starts_with('{')
        && all.len().is_multiple_of(wanted.len())
        && all.as_bytes().chunks(wanted.len()).all(|part| part == wanted.as_bytes());
    if repeats { first } else { sent }
}

/// JSON without the white space between its tokens.
fn compact(document: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let keep = |&c: &char| {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            return true;
        }
        in_string = c == '"';
        !c.is_ascii_whitespace()
    };
    document.chars().filter(keep).collect()
}

fn quoted(key: &str) -> String {
    let mut out = Vec::new();
    json::write_string(&mut out, key);
    String::from_utf8(out).expect("an escaped str is UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{STEP_BYTES_MAX, STEP_CALLS_MAX};
    use crate::proto::json::Document;

    const TOOLS: [&str; 3] = ["get", "get_weather", "f"];

    fn assemble(elements: &[&str]) -> Vec<Settled> {
        let mut calls = Calls::new(TOOLS.map(str::to_owned).into(), 7);
        let mut tally = Tally::default();
        for element in elements {
            let document = Document::parse_lossy(element.as_bytes()).unwrap();
            calls.take(document.value(), &mut tally).unwrap();
        }
        calls.settle()
    }

    /// Id, name and arguments of each call; arguments that are none with a `!` before them, an id that
    /// was made as `made` and the place of its call.
    fn shown(elements: &[&str]) -> Vec<String> {
        let made = |id: &str| (0..9).find(|&at| id == format!("call_{:016x}", mix(7, at)));
        let show = |Settled { call: RawCall { id, name, args }, .. }: Settled| {
            let id = made(&id).map_or(id, |at| format!("made{at}"));
            match args {
                Ok(args) => format!("{id} {name} {args}"),
                Err(sent) => format!("{id} {name} !{sent}"),
            }
        };
        assemble(elements).into_iter().map(show).collect()
    }

    // What cases-providers.md names is in `tests`; here are the corners between its lines.

    #[test]
    fn pieces_without_an_index_continue_the_newest_call_or_begin_one() {
        for (elements, expected) in [
            // Two calls of one tool, told apart by nothing but whole arguments.
            (
                &[
                    r#"{"function":{"name":"f","arguments":"{\"x\":1}"}}"#,
                    r#"{"function":{"name":"f","arguments":"{\"x\":2}"}}"#,
                    r#"{"function":{"name":"get","arguments":"{}"}}"#,
                ][..],
                &[r#"made0 f {"x":1}"#, r#"made1 f {"x":2}"#, "made2 get {}"][..],
            ),
            // The name in each piece.
            (
                &[
                    r#"{"function":{"name":"f","arguments":"{"}}"#,
                    r#"{"function":{"name":"f","arguments":"}"}}"#,
                ],
                &["made0 f {}"],
            ),
            // A split name.
            (
                &[
                    r#"{"id":"a","function":{"name":"get"}}"#,
                    r#"{"function":{"name":"_weather","arguments":"{}"}}"#,
                ],
                &["a get_weather {}"],
            ),
            // One id for everything, but another tool.
            (
                &[
                    r#"{"id":"0","function":{"name":"f","arguments":"{}"}}"#,
                    r#"{"id":"0","function":{"name":"get","arguments":"{}"}}"#,
                ],
                &["0 f {}", "0 get {}"],
            ),
            // An id after whole arguments is the next call's.
            (
                &[
                    r#"{"function":{"name":"f","arguments":"{}"}}"#,
                    r#"{"id":"b","function":{"name":"f","arguments":"{}"}}"#,
                ],
                &["made0 f {}", "b f {}"],
            ),
            (&["7", "null", "[]"], &[]),
        ] {
            assert_eq!(shown(elements), expected, "{elements:?}");
        }
    }

    #[test]
    fn pieces_with_an_index_find_their_call_among_those_that_claim_it() {
        for (elements, expected) in [
            // Pieces mixed.
            (
                &[
                    r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}"#,
                    r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}"#,
                    r#"{"index":0,"id":"a","function":{"arguments":"}"}}"#,
                ][..],
                &["a f {}", "b f {}"][..],
            ),
            // An id that comes late, an index in words.
            (
                &[
                    r#"{"index":0,"function":{"name":"f","arguments":"{}"}}"#,
                    r#"{"index":"0","id":"a"}"#,
                ],
                &["a f {}"],
            ),
            // A name in three pieces, one that begins another, one of an unknown tool, and one
            // whose pieces join to no tool's.
            (
                &[
                    r#"{"index":0,"id":"a","function":{"name":"get_"}}"#,
                    r#"{"index":0,"function":{"name":"wea"}}"#,
                    r#"{"index":0,"function":{"name":"ther","arguments":"{}"}}"#,
                    r#"{"index":1,"id":"b","function":{"name":"get"}}"#,
                    r#"{"index":1,"function":{"name":"get","arguments":"{}"}}"#,
                    r#"{"index":2,"id":"c","function":{"name":"look"}}"#,
                    r#"{"index":2,"function":{"name":"_up","arguments":"{}"}}"#,
                    r#"{"index":3,"id":"d","function":{"name":"get"}}"#,
                    r#"{"index":3,"function":{"name":"_wea","arguments":"{}"}}"#,
                ],
                &["a get_weather {}", "b get {}", "c look {}", "d get {}"],
            ),
            // Another tool, whole, at an index that is taken.
            (
                &[
                    r#"{"index":0,"function":{"name":"f","arguments":"{}"}}"#,
                    r#"{"index":0,"function":{"name":"get","arguments":"{}"}}"#,
                ],
                &["made0 f {}", "made1 get {}"],
            ),
            // Arguments sent twice that look like several.
            (
                &[
                    r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"} {\"}"}}"#,
                    r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"} {\"}"}}"#,
                ],
                &[r#"a f {"x":"} {"}"#],
            ),
        ] {
            assert_eq!(shown(elements), expected, "{elements:?}");
        }
    }

    #[test]
    fn unknown_members_are_kept_raw_and_the_last_of_a_key_counts() {
        let calls = assemble(&[
            r#"{"index":0,"id":"a","type":"function","function":{"name":"f"},"sig":"1"}"#,
            r#"{"index":0,"extra_content":{"google":{"thought_signature": "x\n"}},"sig":null}"#,
        ]);
        let expected = r#""extra_content":{"google":{"thought_signature": "x\n"}},"sig":null"#;
        assert_eq!(calls[0].members, expected);
    }

    #[test]
    fn an_escape_that_denotes_no_string_is_an_error_the_model_gets_to_read() {
        for arguments in [r#""{\"x\":\"\ud800\"}""#, r#""{\"x\":\"\\ud800\"}""#] {
            let element = format!(
                r#"{{"index":0,"id":"a","function":{{"name":"f","arguments":{arguments}}}}}"#
            );
            let calls = assemble(&[&element]);
            assert!(calls[0].call.args.is_err(), "{arguments}");
        }
    }

    #[test]
    fn what_is_no_object_is_quoted_as_it_was_sent_also_when_it_repeats() {
        for arguments in ["6\r6", "null null", "[1][1]", "{\"x\":1}{\"x\":2}"] {
            let mut sent = Vec::new();
            json::write_string(&mut sent, arguments);
            let sent = String::from_utf8(sent).unwrap();
            let call = format!(r#"{{"index":0,"function":{{"name":"f","arguments":{sent}}}}}"#);
            assert_eq!(assemble(&[&call])[0].call.args, Err(arguments.to_owned()));
        }
    }

    #[test]
    fn calls_are_bounded_in_number_and_size() {
        let mut calls = Calls::new(Box::default(), 0);
        let mut tally = Tally::default();
        let mut take = |element: &str| {
            calls.take(Document::parse(element.as_bytes()).unwrap().value(), &mut tally)
        };
        for index in 0..STEP_CALLS_MAX {
            assert_eq!(take(&format!(r#"{{"index":{index}}}"#)), Ok(()));
        }
        assert_eq!(take(r#"{"index":999}"#), Err(Excess::Calls));
        let large = "x".repeat(STEP_BYTES_MAX + 1);
        let element = format!(r#"{{"index":0,"function":{{"arguments":"{large}"}}}}"#);
        assert_eq!(take(&element), Err(Excess::Bytes));
    }
}
