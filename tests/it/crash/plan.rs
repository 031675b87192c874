//! What one seed's servers are like: how they die, what their models say, what their tools do.

use serde_json::{Value, json};

use crate::harness::tools::tool;
use crate::sim::random::Random;

/// How servers end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Death {
    /// `kill -9`.
    Kill,
    /// SIGTERM, now and then with `kill -9` on its heels.
    Term,
    /// Either, of a server that is process 1 of a namespace.
    ProcessOne,
    /// `kill -9` when a thread of it makes one of the system calls that change a file or make it
    /// durable: between any two of them there is a moment that matters.
    Call,
}

/// See the module's documentation.
pub(super) struct Plan {
    pub(super) death: Death,
    pub(super) sessions: Vec<String>,
    /// What is laid over the configuration that every test's server has.
    pub(super) config: Value,
    pub(super) resume_on_start: bool,
    /// Events that are kept at least, where old ones are removed at all.
    pub(super) keep_events: Option<u64>,
}

/// Says that a call of it ran beside another one of its session: such a call is serial, so the other is
/// the orphan of a dead server.
const ALONE: &str = "cat >/dev/null; exec 9>>alone.$TERRET_SESSION_ID; \
                     flock -n 9 || echo $TERRET_SESSION_ID >>overlaps; sleep 0.02; echo done";

impl Plan {
    pub(super) fn new(death: Death, random: &mut Random) -> Self {
        let resume_on_start = random.chance(40);
        // More than happens between two connections of a client, who must see everything.
        let keep_events = random.chance(40).then_some(40);
        let sessions = if keep_events.is_some() { 2 } else { 2 + random.below(5) };
        let sessions = (0..sessions).map(|number| format!("s{number}")).collect();
        let config = json!({
            "workers": random.pick(&[2, 4]),
            "approvals": true,
            "policy": ["*"],
            "resume_on_start": resume_on_start,
            // What a model is told of is kept as well.
            "history_bytes": if keep_events.is_some() { 2000 } else { 1 << 20 },
            "stop_grace_s": random.pick(&[0, 0, 0, 1]),
            "log": {
                "keep_events": keep_events,
                "segment_bytes": if keep_events.is_some() {
                    4000
                } else {
                    random.pick(&[4000, 30_000, 4 << 20])
                },
                "sync": random.pick(&["always", "always", "os"]),
            },
            "roles": {"main": "script/m"},
            "providers": {"script": {
                "kind": "scripted", "repeat": true, "steps": steps(random),
            }},
            "tools": [
                tool("alone", ALONE, &json!({})),
                tool("quick", "cat", &json!({})),
                tool("left", "sleep 0.01; echo left", &json!({"concurrency": "parallel"})),
                tool("right", "echo right", &json!({"concurrency": "parallel"})),
                tool("asks", "cat", &json!({"approval": "always", "concurrency": "parallel"})),
                tool("fails", "exit 3", &json!({})),
            ],
        });
        Self { death, sessions, config, resume_on_start, keep_events }
    }
}

/// The model's answers: calls, and between them words, or no turn would ever end.
fn steps(random: &mut Random) -> Value {
    let calls: [&[&str]; 7] = [
        &["quick"],
        &["alone"],
        &["left", "right", "alone"],
        &["asks"],
        &["asks", "left", "asks"],
        &["fails", "missing", "quick"],
        &["alone", "asks", "alone"],
    ];
    let mut steps = Vec::new();
    for round in 0..12 {
        let names = random.pick(&calls);
        // A provider may call everything "0".
        let id = |place: usize| if random.chance(30) { "0".to_owned() } else { place.to_string() };
        let ids: Vec<String> = (0..names.len()).map(id).collect();
        let calls: Vec<Value> = names
            .iter()
            .zip(&ids)
            .map(|(name, id)| json!({"id": id, "name": name, "args": {"round": round}}))
            .collect();
        let spoken = if random.chance(50) { "Well. " } else { "" };
        steps.push(json!({"text": spoken, "tool_calls": calls, "delay_ms": random.below(4)}));
        let piece = "words ".repeat(random.pick(&[1, 5, 5, 2000]));
        let pieces = vec![piece; 1 + random.below(8)];
        steps.push(json!({"chunks": pieces, "chunk_delay_ms": random.below(3)}));
        if random.chance(10) {
            steps.push(json!({"error": {"status": 503, "message": "not now"}}));
        }
    }
    json!(steps)
}
