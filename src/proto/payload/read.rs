//! Payloads read back from a log.
//!
//! Unknown keys are passed over, unknown types are no error: additive changes of the protocol do
//! not make a log unreadable. Numbers inside arguments and contents are never evaluated.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    APPROVAL_REQUESTED, APPROVAL_RESOLVED, ASSISTANT_CHUNK, ASSISTANT_MESSAGE, Body,
    CONTEXT_INJECTED, Call, Content, POLICY_UPDATED, Part, PayloadError, SESSION_COMPACTED,
    SESSION_CREATED, SESSION_FORKED, SESSION_TITLED, STEP_END, STEP_START, TOOL_CALL, TOOL_RESULT,
    TURN_END, TURN_START, TurnStatus, USER_MESSAGE, Usage, Verdict, single_line,
};

impl Body {
    /// Reads the payload of an event of type `kind`. None for a type this version does not know:
    /// such an event is passed on and means nothing to a turn.
    pub fn parse(kind: &str, payload: &[u8]) -> Result<Option<Body>, PayloadError> {
        Ok(Some(match kind {
            SESSION_CREATED => Body::SessionCreated,
            TURN_START => {
                let wire: AgentWire = read(TURN_START, payload)?;
                Body::TurnStart { agent: wire.agent }
            }
            STEP_START => {
                let wire: StepStartWire = read(STEP_START, payload)?;
                Body::StepStart { n: wire.n, model: wire.model }
            }
            USER_MESSAGE => Body::UserMessage { text: text(USER_MESSAGE, payload)? },
            CONTEXT_INJECTED => Body::ContextInjected { text: text(CONTEXT_INJECTED, payload)? },
            ASSISTANT_CHUNK => Body::AssistantChunk { text: text(ASSISTANT_CHUNK, payload)? },
            ASSISTANT_MESSAGE => Body::AssistantMessage { parts: parts(payload)? },
            TOOL_CALL => Body::ToolCall(read::<CallWire>(TOOL_CALL, payload)?.into_call()),
            TOOL_RESULT => {
                let wire: ResultWire = read(TOOL_RESULT, payload)?;
                let outcome = match wire.error {
                    Some(error) => Err(error),
                    None => Ok(Content(single_line(wire.content.get()).into())),
                };
                Body::ToolResult { id: wire.id, outcome }
            }
            STEP_END => {
                let wire: StepEndWire = read(STEP_END, payload)?;
                Body::StepEnd { n: wire.n, usage: wire.usage }
            }
            TURN_END => {
                let wire: TurnEndWire = read(TURN_END, payload)?;
                let status = TurnStatus::parse(&wire.status)
                    .ok_or_else(|| unknown(TURN_END, "status", &wire.status))?;
                Body::TurnEnd { status, reason: wire.reason }
            }
            APPROVAL_REQUESTED => {
                let wire: RequestedWire = read(APPROVAL_REQUESTED, payload)?;
                let call = CallWire { id: wire.call_id, name: wire.name, args: wire.args };
                Body::ApprovalRequested(call.into_call())
            }
            APPROVAL_RESOLVED => {
                let wire: ResolvedWire = read(APPROVAL_RESOLVED, payload)?;
                let verdict = Verdict::parse(&wire.verdict)
                    .ok_or_else(|| unknown(APPROVAL_RESOLVED, "verdict", &wire.verdict))?;
                Body::ApprovalResolved { call_id: wire.call_id, verdict, reason: wire.reason }
            }
            POLICY_UPDATED => {
                let wire: PolicyWire = read(POLICY_UPDATED, payload)?;
                Body::PolicyUpdated { patterns: wire.patterns }
            }
            SESSION_TITLED => {
                let wire: TitledWire = read(SESSION_TITLED, payload)?;
                Body::SessionTitled { title: wire.title }
            }
            SESSION_COMPACTED => {
                let wire: CompactedWire = read(SESSION_COMPACTED, payload)?;
                Body::SessionCompacted { upto_seq: wire.upto_seq, summary: wire.summary }
            }
            SESSION_FORKED => {
                let wire: ForkedWire = read(SESSION_FORKED, payload)?;
                Body::SessionForked { from: wire.from, boundary: wire.boundary }
            }
            _ => return Ok(None),
        }))
    }
}

// What serde reads. `RawValue` keeps arguments and contents as they stand; parts are one struct
// with optional keys, because serde's tagged enums would parse and rebuild every value.

#[derive(Deserialize)]
struct AgentWire {
    agent: String,
}

#[derive(Deserialize)]
struct StepStartWire {
    n: u32,
    model: String,
}

#[derive(Deserialize)]
struct TextWire {
    text: String,
}

#[derive(Deserialize)]
struct PartsWire<'a> {
    #[serde(borrow)]
    parts: Vec<PartWire<'a>>,
}

#[derive(Deserialize)]
struct PartWire<'a> {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallWire<'a> {
    id: String,
    name: String,
    #[serde(borrow)]
    args: &'a RawValue,
}

#[derive(Deserialize)]
struct ResultWire<'a> {
    id: String,
    #[serde(borrow)]
    content: &'a RawValue,
    error: Option<String>,
}

#[derive(Deserialize)]
struct StepEndWire {
    n: u32,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct TurnEndWire {
    status: String,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct RequestedWire<'a> {
    call_id: String,
    name: String,
    #[serde(borrow)]
    args: &'a RawValue,
}

#[derive(Deserialize)]
struct ResolvedWire {
    call_id: String,
    verdict: String,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct PolicyWire {
    patterns: Vec<String>,
}

#[derive(Deserialize)]
struct TitledWire {
    title: String,
}

#[derive(Deserialize)]
struct CompactedWire {
    upto_seq: u64,
    summary: String,
}

#[derive(Deserialize)]
struct ForkedWire {
    from: String,
    boundary: u64,
}

impl CallWire<'_> {
    fn into_call(self) -> Call {
        Call { id: self.id, name: self.name, args: single_line(self.args.get()).into() }
    }
}

fn read<'a, T: Deserialize<'a>>(kind: &'static str, payload: &'a [u8]) -> Result<T, PayloadError> {
    serde_json::from_slice(payload).map_err(|error| PayloadError { kind, what: error.to_string() })
}

fn text(kind: &'static str, payload: &[u8]) -> Result<String, PayloadError> {
    Ok(read::<TextWire>(kind, payload)?.text)
}

fn parts(payload: &[u8]) -> Result<Vec<Part>, PayloadError> {
    let wire: PartsWire = read(ASSISTANT_MESSAGE, payload)?;
    let mut parts = Vec::with_capacity(wire.parts.len());
    for part in wire.parts {
        match (part.kind.as_str(), part.text, part.id, part.name, part.args) {
            ("text", Some(text), ..) => parts.push(Part::Text(text)),
            ("tool_call", _, Some(id), Some(name), Some(args)) => {
                parts.push(Part::ToolCall(CallWire { id, name, args }.into_call()));
            }
            (kind @ ("text" | "tool_call"), ..) => {
                let what = format!("a part of type {kind} lacks a key");
                return Err(PayloadError { kind: ASSISTANT_MESSAGE, what });
            }
            // An additive kind of part means nothing to this version.
            _ => {}
        }
    }
    Ok(parts)
}

fn unknown(kind: &'static str, key: &str, value: &str) -> PayloadError {
    PayloadError { kind, what: format!("{key} is {value:?}, which is none of its values") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, name: &str, args: &str) -> Call {
        Call { id: id.into(), name: name.into(), args: args.into() }
    }

    /// One row a type: the value, and the payload text that the clarifications give it.
    fn table() -> Vec<(Body, &'static str)> {
        let usage = |cost| Some(Usage { prompt_tokens: 12, completion_tokens: 0, cost });
        vec![
            (Body::SessionCreated, r#"{"parent_id":null}"#),
            (Body::TurnStart { agent: "agent-s1".into() }, r#"{"agent":"agent-s1"}"#),
            (Body::StepStart { n: 1, model: "p/m/x".into() }, r#"{"n":1,"model":"p/m/x"}"#),
            (Body::UserMessage { text: "a\"b\nc".into() }, r#"{"text":"a\"b\nc"}"#),
            (Body::ContextInjected { text: String::new() }, r#"{"text":""}"#),
            (Body::AssistantChunk { text: "22\u{b0}C".into() }, "{\"text\":\"22\u{b0}C\"}"),
            (
                Body::AssistantMessage {
                    parts: vec![
                        Part::Text("hi".into()),
                        Part::ToolCall(call("0", "t", r#"{"b": 1e400,"a":12345678901234567890}"#)),
                    ],
                },
                r#"{"parts":[{"type":"text","text":"hi"},{"type":"tool_call","id":"0","name":"t","args":{"b": 1e400,"a":12345678901234567890}}]}"#,
            ),
            (Body::AssistantMessage { parts: vec![] }, r#"{"parts":[]}"#),
            (
                Body::ToolCall(call("c", "t", "{ \"k\" :-0.0 }")),
                r#"{"id":"c","name":"t","args":{ "k" :-0.0 }}"#,
            ),
            (
                Body::ToolResult { id: "c".into(), outcome: Ok(Content::text("\t\u{1}")) },
                r#"{"id":"c","content":"\t\u0001","error":null}"#,
            ),
            (
                Body::ToolResult {
                    id: "c".into(),
                    outcome: Ok(Content::json("[1e400, null]").unwrap()),
                },
                r#"{"id":"c","content":[1e400, null],"error":null}"#,
            ),
            (
                Body::ToolResult { id: "c".into(), outcome: Err("no".into()) },
                r#"{"id":"c","content":null,"error":"no"}"#,
            ),
            (
                Body::StepEnd { n: 2, usage: usage(Some(0.0)) },
                r#"{"n":2,"usage":{"prompt_tokens":12,"completion_tokens":0,"cost":0.0}}"#,
            ),
            (
                Body::StepEnd { n: 2, usage: usage(None) },
                r#"{"n":2,"usage":{"prompt_tokens":12,"completion_tokens":0,"cost":null}}"#,
            ),
            (Body::StepEnd { n: 3, usage: None }, r#"{"n":3}"#),
            (
                Body::TurnEnd { status: TurnStatus::Completed, reason: None },
                r#"{"status":"completed"}"#,
            ),
            (
                Body::TurnEnd { status: TurnStatus::Failed, reason: Some("x".into()) },
                r#"{"status":"failed","reason":"x"}"#,
            ),
            (
                Body::ApprovalRequested(call("0", "rm", r#"{"p":"/"}"#)),
                r#"{"call_id":"0","name":"rm","args":{"p":"/"}}"#,
            ),
            (
                Body::ApprovalResolved {
                    call_id: "0".into(),
                    verdict: Verdict::Approved,
                    reason: None,
                },
                r#"{"call_id":"0","verdict":"approved"}"#,
            ),
            (
                Body::ApprovalResolved {
                    call_id: "0".into(),
                    verdict: Verdict::Denied,
                    reason: Some("no".into()),
                },
                r#"{"call_id":"0","verdict":"denied","reason":"no"}"#,
            ),
            (Body::PolicyUpdated { patterns: vec![] }, r#"{"patterns":[]}"#),
            (
                Body::PolicyUpdated { patterns: vec!["a*".into(), "\\*".into()] },
                r#"{"patterns":["a*","\\*"]}"#,
            ),
            (Body::SessionTitled { title: "t".into() }, r#"{"title":"t"}"#),
            (
                Body::SessionCompacted { upto_seq: 41, summary: "s".into() },
                r#"{"upto_seq":41,"summary":"s"}"#,
            ),
            (
                Body::SessionForked { from: "s0".into(), boundary: 41 },
                r#"{"from":"s0","boundary":41}"#,
            ),
        ]
    }

    #[test]
    fn every_payload_is_written_in_its_key_order_and_read_back() {
        for (body, wire) in table() {
            let mut out = Vec::new();
            body.write_payload(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wire);
            assert_eq!(Body::parse(body.kind(), wire.as_bytes()), Ok(Some(body)), "{wire}");
        }
    }

    #[test]
    fn every_status_is_read_back() {
        for status in ["completed", "cancelled", "rejected", "empty", "failed"] {
            let wire = format!(r#"{{"status":"{status}"}}"#);
            match Body::parse(TURN_END, wire.as_bytes()) {
                Ok(Some(Body::TurnEnd { status: read, reason: None })) => {
                    assert_eq!(read.as_str(), status);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn unknown_types_and_keys_are_no_error() {
        assert_eq!(Body::parse("session/starred", b"{}"), Ok(None));
        assert_eq!(
            Body::parse(USER_MESSAGE, br#"{"later":[1e999],"text":"x"}"#),
            Ok(Some(Body::UserMessage { text: "x".into() }))
        );
        assert_eq!(
            Body::parse(ASSISTANT_MESSAGE, br#"{"parts":[{"type":"audio","ref":1}]}"#),
            Ok(Some(Body::AssistantMessage { parts: vec![] }))
        );
    }

    #[test]
    fn a_bad_payload_names_its_type_and_what_is_wrong() {
        for (kind, payload, expected) in [
            (STEP_START, r#"{"n":-1,"model":"p/m"}"#, "payload of step/start: invalid value"),
            (TURN_END, r#"{"status":"odd"}"#, "payload of turn/end: status is \"odd\""),
            (APPROVAL_RESOLVED, r#"{"call_id":"0","verdict":""}"#, "verdict is \"\""),
            (USER_MESSAGE, "[]", "payload of user/message"),
            (TOOL_RESULT, r#"{"id":"0"}"#, "missing field `content`"),
            (ASSISTANT_MESSAGE, r#"{"parts":[{"type":"text"}]}"#, "type text lacks a key"),
        ] {
            let error = Body::parse(kind, payload.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn arguments_keep_their_bytes_but_for_breaks_between_tokens() {
        let wire = b"{\"id\":\"0\",\"name\":\"t\",\"args\":{\n\t\"a\":\r1e400 }}";
        match Body::parse(TOOL_CALL, wire) {
            Ok(Some(Body::ToolCall(call))) => assert_eq!(&*call.args, "{  \"a\": 1e400 }"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_result_reads_as_its_string_or_as_its_json() {
        for (content, expected) in [
            (Content::text("line\n\"two\""), "line\n\"two\""),
            (Content::text(""), ""),
            (Content::json(" {\"a\":\n1} ").unwrap(), "{\"a\": 1}"),
            (Content::json("null").unwrap(), "null"),
            (Content::json(r#""\ud800""#).unwrap(), r#""\ud800""#),
        ] {
            assert_eq!(content.to_text(), expected);
        }
        for bad in ["", "{", "1 2", "\"\n\"", "nul"] {
            assert_eq!(Content::json(bad), None, "{bad:?}");
        }
    }
}
