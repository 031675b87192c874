//! What a client of one session knows: every event it was ever sent, and every text it sent.
//!
//! Invariant: an event that stands here never changes, and no server, whatever became of the one
//! before, shows another one in its place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use terret_ws::proto::payload::{Body, TurnStatus};

use crate::harness::files;
use crate::sim::ledger::Ledger;

/// See the module's documentation.
pub(super) struct Book {
    pub(super) session: String,
    /// The frames, by seq.
    events: Vec<String>,
    texts: Vec<Sent>,
    /// How often each text stands in the log.
    logged: BTreeMap<String, usize>,
    /// The order of events so far.
    ledger: Ledger,
}

struct Sent {
    text: String,
    wake: bool,
    /// Something that was sent behind it on the same connection stands in the log, so it is stored.
    accepted: bool,
}

/// An event as it stands in a frame.
#[derive(Deserialize)]
struct Envelope<'a> {
    session_id: &'a str,
    seq: u64,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// A pattern for a `set_policy` that is sent behind texts with these numbers: nothing else that a
/// client may say is acknowledged by an event of its own, and so tells that what came before is stored.
pub(super) fn stored(numbers: Range<usize>) -> String {
    format!("stored {} {}", numbers.start, numbers.end)
}

fn stored_by(pattern: &str) -> Option<Range<usize>> {
    let (start, end) = pattern.strip_prefix("stored ")?.split_once(' ')?;
    Some(start.parse().unwrap()..end.parse().unwrap())
}

/// The events of files that begin with event `first`, by seq.
fn found_from(found: &[String], first: usize) -> impl Iterator<Item = Option<&String>> {
    std::iter::repeat_n(None, first).chain(found.iter().map(Some))
}

impl Book {
    pub(super) fn new(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            events: Vec::new(),
            texts: Vec::new(),
            logged: BTreeMap::new(),
            ledger: Ledger::default(),
        }
    }

    /// The seq of the first event that no client has seen.
    pub(super) fn next(&self) -> u64 {
        self.events.len() as u64
    }

    /// How many texts were sent.
    pub(super) fn texts(&self) -> usize {
        self.texts.len()
    }

    /// Writes down a text before it is sent.
    pub(super) fn send(&mut self, text: &str, wake: bool) {
        self.texts.push(Sent { text: text.to_owned(), wake, accepted: false });
    }

    /// Writes down that the server has to have stored a text, or it would not do what it does.
    pub(super) fn accepted(&mut self, numbers: Range<usize>) {
        self.texts[numbers].iter_mut().for_each(|sent| sent.accepted = true);
    }

    /// How the last turn ended.
    pub(super) fn last_end(&self) -> Option<TurnStatus> {
        self.ledger.last_end
    }

    pub(super) fn turns(&self) -> u64 {
        self.ledger.turns
    }

    /// Takes a frame with an event, which must be event `seq`. Says what it is, if nobody had seen it.
    pub(super) fn receive(&mut self, raw: &str, seq: u64) -> Option<Body> {
        let envelope: Envelope = serde_json::from_str(raw).unwrap();
        assert_eq!((envelope.session_id, envelope.seq), (&*self.session, seq), "{raw}");
        if let Some(seen) = self.events.get(seq as usize) {
            assert_eq!(seen, raw, "{}: event {seq} changed", self.session);
            return None;
        }
        assert_eq!(seq, self.next(), "{}: a gap", self.session);
        let payload = envelope.payload.get().as_bytes();
        let body = Body::parse(envelope.kind, payload).unwrap().expect("a known type");
        self.ledger.apply(&self.session, seq, &body);
        self.events.push(raw.to_owned());
        match &body {
            Body::UserMessage { text } | Body::ContextInjected { text } => {
                *self.logged.entry(text.clone()).or_default() += 1;
            }
            Body::PolicyUpdated { patterns } => {
                patterns.iter().filter_map(|pattern| stored_by(pattern)).for_each(|numbers| {
                    self.accepted(numbers);
                });
            }
            _ => {}
        }
        Some(body)
    }

    /// After a death: every event that a client has seen is in the files, but for old ones where so many
    /// are kept at least.
    pub(super) fn check_survivors(&self, data_dir: &Path, keep: Option<u64>) {
        self.compare(&files::survivors(data_dir, &self.session), keep);
    }

    /// Says how many old events are not there any more.
    fn compare(&self, found: &[String], keep: Option<u64>) -> usize {
        let session = &self.session;
        let first = found
            .first()
            .map_or(0, |raw| serde_json::from_str::<Envelope>(raw).expect("an event").seq as usize);
        assert!(first == 0 || found.len() as u64 >= keep.unwrap_or(u64::MAX), "{session}: removed");
        let end = first + found.len();
        assert!(end >= self.events.len(), "{session}: {} became {end}", self.events.len());
        for (seq, (seen, found)) in self.events.iter().zip(found_from(found, first)).enumerate() {
            assert!(found.is_none_or(|found| found == seen), "{session}: event {seq} changed");
        }
        first
    }

    /// The accepted texts that are not in the log; only the waking ones if `wake` is set.
    pub(super) fn missing(&self, wake: bool) -> Vec<&str> {
        let missing = |sent: &&Sent| {
            sent.accepted && (sent.wake || !wake) && !self.logged.contains_key(&sent.text)
        };
        self.texts.iter().filter(missing).map(|sent| &*sent.text).collect()
    }

    /// At the very end: the files hold what was seen and nothing else, each accepted text once, and
    /// none twice or that nobody sent. Says how many old events were removed.
    pub(super) fn check_whole(&self, data_dir: &Path, keep: Option<u64>) -> usize {
        let found = files::envelopes(data_dir, &self.session);
        let removed = self.compare(&found, keep);
        assert_eq!(found.last(), self.events.last(), "{}: nobody has seen it", self.session);
        for (text, times) in &self.logged {
            let name = &text[..text.len().min(40)];
            assert_eq!(*times, 1, "{}: {name:?} so often", self.session);
            let sent = self.texts.iter().any(|sent| sent.text == *text);
            assert!(sent, "{}: nobody sent {name:?}", self.session);
        }
        assert_eq!(self.missing(false), [""; 0], "{}: accepted and lost", self.session);
        removed
    }
}
