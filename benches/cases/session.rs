//! One session as its log has it: the lines that the cases about the log and about connections are
//! made of.

use terret_ws::log::{SUFFIX_LEN, line};
use terret_ws::proto::event::{NewEvent, write_envelope};
use terret_ws::proto::ident::{EventId, SessionId};
use terret_ws::proto::payload::{Body, Part, TurnStatus};
use terret_ws::proto::time::Wall;

pub(crate) const AT: Wall = Wall(1_787_026_211_123_456);

/// What a provider streams at a time.
pub(crate) const DELTA: &str = " the weather in Par";

pub(crate) fn id() -> SessionId {
    SessionId::parse("session-0123456789").expect("a valid id")
}

pub(crate) fn chunk(text: &str) -> Body {
    Body::AssistantChunk { text: text.to_owned() }
}

/// Deltas that are to be appended.
pub(crate) fn deltas(count: u64) -> Vec<NewEvent> {
    (0..count).map(|id| NewEvent { id: EventId(id), body: chunk(DELTA) }).collect()
}

/// A turn of one step whose answer came in `count` deltas.
pub(crate) fn turn(count: usize) -> Vec<Body> {
    let mut turn = vec![
        Body::TurnStart { agent: format!("agent-{}", id()) },
        Body::UserMessage { text: "How is the weather in Paris?".to_owned() },
        Body::StepStart { n: 1, model: "some/model".to_owned() },
    ];
    turn.extend((0..count).map(|_| chunk(DELTA)));
    turn.extend([
        Body::AssistantMessage { parts: vec![Part::Text(DELTA.repeat(count))] },
        Body::StepEnd { n: 1, usage: None },
        Body::TurnEnd { status: TurnStatus::Completed, reason: None },
    ]);
    turn
}

/// The sealed lines of these events, from seq 0 on.
pub(crate) fn lines(bodies: &[Body]) -> Vec<u8> {
    let (id, mut lines) = (id(), Vec::new());
    for (seq, body) in (0..).zip(bodies) {
        let start = lines.len();
        write_envelope(&mut lines, EventId(seq), &id, seq, AT, body);
        line::seal(&mut lines, start, 0);
    }
    lines
}

/// What clients get of whole lines: each without its seal, in a frame of its own (RFC 6455, 5.2),
/// put together without any of the code that is measured.
pub(crate) fn frames(lines: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let envelope = &line[..line.len() - 1 - SUFFIX_LEN];
        let len = u16::try_from(envelope.len() + 1).expect("the text of a turn is short");
        assert!(len > 125, "its length takes two bytes");
        frames.extend_from_slice(&[0x81, 126]);
        frames.extend_from_slice(&len.to_be_bytes());
        frames.extend_from_slice(envelope);
        frames.push(b'}');
    }
    frames
}
