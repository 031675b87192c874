//! The store, tested on files of the machine and on the simulated disk.

mod store;

use std::sync::Arc;

use super::*;
use crate::proto::event::NewEvent;
use crate::proto::ident::{EventId, SessionId};
use crate::proto::payload::Body;
use crate::proto::time::Wall;

pub(super) fn session() -> SessionId {
    SessionId::parse("s1").unwrap()
}

pub(super) const AT: Wall = Wall(1_787_026_211_123_456);

/// Where `session/created` comes from.
pub(super) const CREATE: Option<(EventId, Wall)> = Some((EventId(0xc0), AT));

pub(super) fn options(sync: SyncMode, segment_bytes: u64) -> LogOptions {
    LogOptions { sync, segment_bytes }
}

/// An event that carries this text.
pub(super) fn chunk(id: u64, text: &str) -> NewEvent {
    NewEvent { id: EventId(id), body: Body::AssistantChunk { text: text.to_owned() } }
}

/// Everything from `from` to the tip.
pub(super) fn read_all(store: &Store, from: u64, tip: Tip) -> Result<Vec<u8>, ReadError> {
    let mut lines = Vec::new();
    let session = session();
    let mut events = store.events_from(&session, from, tip);
    while let Some(piece) = events.next_piece()? {
        lines.extend_from_slice(&piece.lines);
    }
    Ok(lines)
}
