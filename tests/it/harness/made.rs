//! Sessions that were made without a server, by the crate's own writer: what would take a server and its
//! clients hours.

use std::env;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use terret_ws::disk::real::RealDisk;
use terret_ws::disk::{LogOptions, SessionLog, Store, SyncMode};
use terret_ws::proto::event::NewEvent;
use terret_ws::proto::ident::{EventId, SessionId};
use terret_ws::proto::payload::{Body, Part, TurnStatus};
use terret_ws::proto::time::Wall;

const AT: Wall = Wall(1_787_026_211_123_456);

/// The events of a turn of [`Maker::turn`] with so many chunks, beside these.
pub(crate) const TURN_BESIDE_CHUNKS: usize = 6;

/// A folder for a server with much in it: in memory, where there is such a place, since what is
/// counted here is work, not how fast a disk is.
pub(crate) fn roomy_folder() -> Arc<TempDir> {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    Arc::new(made.unwrap())
}

/// How many of something: what the variable says, or `few`.
pub(crate) fn how_many(variable: &str, few: usize) -> usize {
    env::var(variable).map_or(few, |number| number.parse().unwrap())
}

/// Writes sessions into a server's data directory.
pub(crate) struct Maker {
    store: Store,
    next_id: u64,
}

impl Maker {
    pub(crate) fn new(folder: &Path, segment_bytes: u64) -> Self {
        let options = LogOptions { sync: SyncMode::Os, segment_bytes };
        let store = Store::open(Arc::new(RealDisk), folder.join("terret-data"), options).unwrap();
        Self { store, next_id: 1 }
    }

    /// A session with nothing in it yet.
    pub(crate) fn session(&mut self, id: &str) -> SessionLog {
        let created = (self.id(), AT);
        self.store.open_session(&SessionId::parse(id).unwrap(), Some(created)).unwrap().log
    }

    /// Appends a turn whose answer has so many chunks. An open one ends after them.
    pub(crate) fn turn(&mut self, log: &mut SessionLog, session: &str, chunks: usize, open: bool) {
        const PIECE: &str = "some words ";
        let agent = format!("agent-{session}");
        let start = [
            Body::TurnStart { agent },
            Body::StepStart { n: 1, model: "echo/echo".to_owned() },
            Body::UserMessage { text: "Say something.".to_owned() },
        ];
        let text = PIECE.repeat(chunks.min(20));
        let end = [
            Body::AssistantMessage { parts: vec![Part::Text(text)] },
            Body::StepEnd { n: 1, usage: None },
            Body::TurnEnd { status: TurnStatus::Completed, reason: None },
        ];
        let chunk = || Body::AssistantChunk { text: PIECE.to_owned() };
        let bodies = start.into_iter().chain((0..chunks).map(|_| chunk()));
        let bodies = bodies.chain(end.into_iter().filter(|_| !open));
        let events: Vec<NewEvent> = bodies.map(|body| NewEvent { id: self.id(), body }).collect();
        for batch in events.chunks(256) {
            log.append(&self.store, batch, AT).unwrap();
        }
    }

    fn id(&mut self) -> EventId {
        self.next_id += 1;
        EventId(self.next_id)
    }
}
