//! The projection of a log that its segment headers carry: what must be known of all the events
//! before a segment so that a cold open need not read them.
//!
//! It is kept by applying every event once, in order, whether it was just appended or just read, so
//! the live state and the recovered one cannot differ.

use crate::proto::payload::Body;
use serde::Deserialize;

/// What the events up to some seq add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The patterns of the last `policy/updated`, if there was one.
    pub policy: Option<Vec<String>>,
    /// How many `step/start` there were; the index of the next scripted step.
    pub steps: u64,
    /// The seq of the open turn's `turn/start`, if a turn is open.
    pub turn: Option<u64>,
    /// The seq of the last `session/compacted`.
    pub compacted: Option<u64>,
    /// The seq of the last `session/titled`.
    pub titled: Option<u64>,
}

impl State {
    /// Takes in the event that follows.
    ///
    /// A `policy/updated` whose payload has no list of patterns changes nothing: the server never
    /// writes one, and an allow list must not be guessed.
    pub fn apply(&mut self, seq: u64, kind: &str, payload: &[u8]) {
        match kind {
            "step/start" => self.steps += 1,
            "turn/start" => self.turn = Some(seq),
            "turn/end" => self.turn = None,
            "session/compacted" => self.compacted = Some(seq),
            "session/titled" => self.titled = Some(seq),
            "policy/updated" => {
                if let Ok(Policy { patterns }) = serde_json::from_slice(payload) {
                    self.policy = Some(patterns);
                }
            }
            _ => {}
        }
    }

    /// The same with the event itself at hand, whose payload need not be written to be read.
    pub fn apply_body(&mut self, seq: u64, body: &Body) {
        match body {
            Body::PolicyUpdated { patterns } => self.policy = Some(patterns.clone()),
            _ => self.apply(seq, body.kind(), b""),
        }
    }
}

/// The payload of `policy/updated`.
#[derive(Deserialize)]
struct Policy {
    patterns: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_add_up_to_the_state_they_name() {
        let mut state = State::default();
        let events: [(&str, &str, State); 11] = [
            ("session/created", r#"{"parent_id":null}"#, State::default()),
            ("turn/start", r#"{"agent":"agent-a"}"#, State { turn: Some(1), ..State::default() }),
            (
                "step/start",
                r#"{"n":1,"model":"a/b"}"#,
                State { turn: Some(1), steps: 1, ..State::default() },
            ),
            (
                "assistant/chunk",
                r#"{"text":"turn/end"}"#,
                State { turn: Some(1), steps: 1, ..State::default() },
            ),
            (
                "step/start",
                r#"{"n":2,"model":"a/b"}"#,
                State { turn: Some(1), steps: 2, ..State::default() },
            ),
            ("turn/end", r#"{"status":"completed"}"#, State { steps: 2, ..State::default() }),
            (
                "policy/updated",
                r#"{"patterns":["a*","\u00e4"]}"#,
                State {
                    steps: 2, policy: Some(vec!["a*".into(), "ä".into()]), ..State::default()
                },
            ),
            (
                "policy/updated",
                r#"{"patterns":[]}"#,
                State { steps: 2, policy: Some(Vec::new()), ..State::default() },
            ),
            (
                "policy/updated",
                r#"{"patterns":"*"}"#,
                State { steps: 2, policy: Some(Vec::new()), ..State::default() },
            ),
            (
                "session/titled",
                r#"{"title":"t"}"#,
                State { steps: 2, policy: Some(Vec::new()), titled: Some(9), ..State::default() },
            ),
            (
                "session/compacted",
                r#"{"upto_seq":4,"summary":"s"}"#,
                State {
                    steps: 2,
                    policy: Some(Vec::new()),
                    titled: Some(9),
                    compacted: Some(10),
                    ..State::default()
                },
            ),
        ];
        for (seq, (kind, payload, expected)) in (0..).zip(events) {
            let mut other = state.clone();
            state.apply(seq, kind, payload.as_bytes());
            assert_eq!(state, expected, "after {kind} {payload}");
            if let Ok(Some(body)) = Body::parse(kind, payload.as_bytes()) {
                other.apply_body(seq, &body);
                assert_eq!(other, expected, "after {kind} {payload} at hand");
            }
        }
    }
}
